/* A server that answers anything: the first byte chooses an operation, parts that end with a NUL
 * are its replies in turn (three digits of the status, then the body). Every operation ends, well
 * or with a sentence; bytes that it gives out have the crc32c that was announced. */
#include "base/checksum.h"
#include "tests/fuzz/gcs_replies.h"

enum { MAX_PARTS = 12 };
static void stay(struct qr_web *h) { (void)h; }
static int64_t virtual_ns;
static int64_t now(void *ctx) { return (void)ctx, virtual_ns; }
static void pass(int64_t ns) { virtual_ns += ns; }

static enum qr_code act(struct qr_store *s, unsigned which, const char *name, struct qr_buf *b,
                        struct qr_err *err) {
    switch (which % 6) {
    case 0: return s->ops->get(s, name, 1 << 16, b, err);
    case 1: return s->ops->list(s, name, b, err);
    case 2: return s->ops->put(s, name, qr_bytes_of_string("weights"), false, err);
    case 3: return s->ops->put(s, name, qr_bytes_of_string("weights"), true, err);
    case 4: return s->ops->remove(s, name, err);
    default: return s->ops->check_writable(s, name, err);
    }
}

static bool announces(char *text, struct qr_gcs_object *ret) {
    const struct qr_web_reply reply = {.status = 200,
                                       .body = {.p = (uint8_t *)text, .n = strlen(text)}};
    struct qr_err err;
    return qr_gcs_read_object(ret, &reply, &err) == QR_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct qr_clock clock = {now, NULL};
    const struct qr_gcs_options opt = {.emulator_host = "127.0.0.1:1",
                                       .waits.clock = &clock,
                                       .waits.wall = &clock,
                                       .waits.sleep = pass,
                                       .waits.deadline_ns = 60 * QR_SECOND};
    char *part[MAX_PARTS];
    struct answers a = {.http = {gcs_reply, stay}, .part = part};
    struct qr_store *s = NULL;
    struct qr_err err = {0};
    struct qr_buf b = {0};
    struct qr_gcs_object o;
    if (size == 0) return 0;
    parts_of(data + 1, size - 1, 0, part, MAX_PARTS, &a.n);
    virtual_ns = QR_SECOND;
    QR_ASSERT(qr_store_gcs_new("bucket", &opt, &a.http, &s, &err) == QR_OK);
    enum qr_code code = act(s, data[0], "dir/w", &b, &err);
    QR_ASSERT(code == QR_OK || (err.code == code && err.msg[0]));
    if (code == QR_OK && data[0] % 6 == 0) { /* one of the replies announced just these bytes */
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
