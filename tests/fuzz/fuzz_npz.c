/* npz: any bytes give tensors or an error, within the bound; tensors that were read are written and
 * read back to the same bytes. */
#include "base/mem.h"
#include "format/npz.h"

enum { MAX_BYTES = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct qr_tensors t = {0}, back = {0};
    struct qr_npz_texts texts = {0};
    struct qr_err err;
    if (qr_npz_read_texts(qr_bytes_of(data, n), "file", "x", MAX_BYTES, &texts, &err) == QR_OK)
        qr_npz_texts_fini(&texts);
    if (qr_npz_read(qr_bytes_of(data, n), "file", NULL, MAX_BYTES, &t, &err) != QR_OK) return 0;
    struct qr_buf once = {0}, twice = {0};
    qr_npz_write(&t, &once);
    QR_ASSERT(qr_npz_read(qr_buf_view(&once), "written", NULL, 64 * MAX_BYTES, &back, &err) ==
              QR_OK);
    qr_npz_write(&back, &twice);
    QR_ASSERT(once.n == twice.n && __builtin_memcmp(once.p, twice.p, once.n) == 0);
    qr_tensors_free(&t);
    qr_tensors_free(&back);
    qr_buf_free(&once);
    qr_buf_free(&twice);
    return 0;
}
