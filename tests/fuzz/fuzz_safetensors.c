/* safetensors: any bytes give tensors or an error; tensors that were read are written and read back
 * to the same bytes. */
#include "base/mem.h"
#include "format/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct qr_tensors t = {0}, back = {0};
    struct qr_err err;
    if (qr_safetensors_read(qr_bytes_of(data, n), "file", &t, &err) != QR_OK) return 0;
    struct qr_buf once = {0}, twice = {0};
    qr_safetensors_write(&t, NULL, 0, &once);
    QR_ASSERT(qr_safetensors_read(qr_buf_view(&once), "written", &back, &err) == QR_OK);
    qr_safetensors_write(&back, NULL, 0, &twice);
    QR_ASSERT(once.n == twice.n && __builtin_memcmp(once.p, twice.p, once.n) == 0);
    qr_tensors_free(&t);
    qr_tensors_free(&back);
    qr_buf_free(&once);
    qr_buf_free(&twice);
    return 0;
}
