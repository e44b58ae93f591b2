/* A server with arbitrary replies: the first byte selects an operation, and parts that end with a
 * NUL are its replies in turn (three digits of the status, then the body). Every operation ends
 * with success or an error; returned bytes have the announced crc32c. */
#include "base/checksum.h"
#include "tests/fuzz/gcs_replies.h"

static bool announces(char *text, struct qr_web_object *ret) {
    const struct qr_web_reply reply = {.status = 200,
                                       .body = {.p = (uint8_t *)text, .n = strlen(text)}};
    struct qr_err err;
    return qr_gcs_read_object(ret, &reply, &err) == QR_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct qr_gcs_options opt = {.emulator_host = "127.0.0.1:1", .waits = virtual_waits};
    char *part[MAX_PARTS];
    struct answers a = {.web = {gcs_reply, close_nothing}, .part = part};
    struct qr_store *s = NULL;
    struct qr_err err = {0};
    struct qr_buf b = {0};
    struct qr_web_object o;
    if (size == 0) return 0;
    parts_of(data + 1, size - 1, 0, part, MAX_PARTS, &a.n);
    virtual_ns = QR_SECOND;
    QR_ASSERT(qr_store_gcs_new("bucket", &opt, &a.web, &s, &err) == QR_OK);
    static const enum op ops[] = {GET, LIST, PUT, CREATE, REMOVE, CHECK_WRITE};
    enum op op = ops[data[0] % 6];
    enum qr_code code = run_operation(s, op, &b, &err);
    if (code == QR_OK && op == GET) { /* one of the replies announced just these bytes */
        bool announced = false;
        for (size_t i = 0; i < a.n; i++)
            announced |= strlen(part[i]) > 3 && announces(part[i] + 3, &o) && o.size == b.n &&
                         o.crc32c == qr_crc32c(0, b.p, b.n);
        QR_ASSERT(announced);
    }
    s->ops->close(s);
    qr_buf_free(&b);
    parts_free(part, a.n);
    return 0;
}
