/* A server of S3, STS, a container or an instance with arbitrary replies: the first byte selects an
 * operation and the source of keys, and parts that end with a NUL are replies in turn (three digits
 * of the status, header lines up to an empty one, the body). Every operation ends with success or
 * an error; returned bytes have the announced size and crc32c. The parts are also read as XML,
 * errors, times and profiles. */
#include "base/checksum.h"
#include "store/s3_impl.h"
#include "tests/fuzz/store_replies.h"

struct s3_answers {
    struct answers a;
    bool announced; /* as in the last object's description */
    struct qr_web_object object;
};

static enum qr_code answer(struct qr_web *h, const struct qr_web_request *req,
                           struct qr_web_reply *ret, struct qr_err *err) {
    struct s3_answers *a = (struct s3_answers *)(void *)h;
    for (size_t i = 0; i < req->n_headers; i++) QR_ASSERT(!strpbrk(req->headers[i], "\r\n"));
    const char *text = next_answer(&a->a, req, ret);
    if (!text) return qr_fail(err, QR_UNAVAILABLE, "no answer");
    while (*text && *text != '\n') {
        size_t n = strcspn(text, "\n");
        qr_web_reply_header(ret, text, n);
        text += n + (text[n] == '\n');
    }
    if (*text) qr_buf_puts(&ret->body, text + 1);
    struct qr_err ignored;
    if (strcmp(req->method, "HEAD") == 0 && qr_web_success(ret->status))
        a->announced |= qr_s3_read_object(&a->object, ret, &ignored) == QR_OK;
    return QR_OK;
}

static void leaf(void *ctx, const char *parent, const char *name, const char *text) {
    size_t *n = ctx;
    QR_ASSERT(strlen(parent) < 64 && strlen(name) < 64);
    *n += strlen(text);
}

static void parsers(const char *text) {
    struct qr_s3_error e;
    struct qr_s3_profile p = {0};
    struct qr_err err;
    struct qr_bytes body = qr_bytes_of_string(text);
    size_t n = 0;
    int64_t ns;
    char back[QR_S3_TIME_BYTES];
    if (qr_s3_xml(body, "Error", leaf, &n, &err) == QR_OK) QR_ASSERT(n <= body.n);
    qr_s3_error_read(body, &e);
    QR_ASSERT(!strpbrk(e.code, "\r\n\t") && !strpbrk(e.message, "\r\n\t"));
    if (qr_s3_time_parse(text, &ns)) {
        qr_s3_time(ns, back);
        QR_ASSERT(strncmp(back, text, 4) == 0 || strncmp(text + 5, "12-31", 5) == 0 ||
                  strlen(back) == 16);
    }
    qr_s3_profile_parse(body, "default", false, &p);
    qr_s3_profile_parse(body, "default", true, &p);
    qr_s3_profile_fini(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct qr_s3_options opt = {.endpoint = "http://127.0.0.1:1",
                                .sts_endpoint = "http://127.0.0.1:1",
                                .waits = virtual_waits};
    char *part[MAX_PARTS];
    struct s3_answers a = {.a = {.web = {answer, close_nothing}, .part = part}};
    struct qr_store *s = NULL;
    struct qr_err err = {0};
    struct qr_buf b = {0};
    if (size == 0) return 0;
    unsigned source = data[0] / 7 % 4;
    if (source == 0) opt.key_id = "id", opt.secret = "secret";
    if (source == 1) opt.role = "role", opt.token_file = "/dev/null";
    if (source == 2) opt.container_url = "http://127.0.0.1:1/c", opt.container_token = "t";
    parts_of(data + 1, size - 1, 0, part, MAX_PARTS, &a.a.n);
    for (size_t i = 0; i < a.a.n; i++) parsers(part[i]);
    virtual_ns = 1700000000 * QR_SECOND;
    QR_ASSERT(qr_store_s3_new("bucket", &opt, &a.a.web, &s, &err) == QR_OK);
    enum op op = (enum op)(data[0] % 7);
    enum qr_code code = run_operation(s, op, &b, &err);
    if (code == QR_OK && op == GET)
        QR_ASSERT(a.announced && a.object.size == b.n &&
                  (!a.object.has_crc32c || a.object.crc32c == qr_crc32c(0, b.p, b.n)));
    s->ops->close(s);
    qr_buf_free(&b);
    parts_free(part, a.a.n);
    return 0;
}
