/* JSON: any bytes give a tree or an error; a tree that was written reads back as the same. */
#include "base/mem.h"
#include "format/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct qr_json *a = NULL, *b = NULL;
    struct qr_err err;
    if (qr_json_parse(qr_bytes_of(data, n), "text", &a, &err) != QR_OK) return 0;
    struct qr_buf once = {0}, twice = {0};
    struct qr_json_writer w = qr_json_writer(&once, n % 2 ? 0 : 2);
    qr_json_put_value(&w, a, true);
    QR_ASSERT(qr_json_parse(qr_buf_view(&once), "written", &b, &err) == QR_OK);
    w = qr_json_writer(&twice, n % 2 ? 0 : 2);
    qr_json_put_value(&w, b, true);
    QR_ASSERT(once.n == twice.n && __builtin_memcmp(once.p, twice.p, once.n) == 0);
    qr_json_free(a);
    qr_json_free(b);
    qr_buf_free(&once);
    qr_buf_free(&twice);
    return 0;
}
