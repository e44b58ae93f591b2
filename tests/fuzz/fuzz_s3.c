/* A server of S3, of STS, of a container or an instance that answers anything: the first byte
 * chooses an operation and where keys come from, parts that end with a NUL are its replies in turn
 * (three digits of the status, header lines up to an empty one, the body). Every operation ends,
 * well or with a sentence; bytes that it gives out have the size and crc32c that were announced.
 * The parts are XML, errors, times and profiles too. */
#include "base/checksum.h"
#include "store/s3_impl.h"
#include "tests/fuzz/parts.h"

enum { MAX_PARTS = 12 };
struct answers {
    struct qr_web web;
    char **part;
    size_t n, next;
    bool announced; /* what the last object's description says */
    struct qr_s3_object object;
};

static enum qr_code answer(struct qr_web *h, const struct qr_web_request *req,
                           struct qr_web_reply *ret, struct qr_err *err) {
    struct answers *a = (struct answers *)(void *)h;
    *ret = (struct qr_web_reply){.status = 0};
    for (size_t i = 0; i < req->n_headers; i++) QR_ASSERT(!strpbrk(req->headers[i], "\r\n"));
    if (a->next >= a->n || strlen(a->part[a->next]) < 3)
        return qr_fail(err, QR_UNAVAILABLE, "no answer");
    const char *text = a->part[a->next++];
    ret->status = text[0] % 16 % 10 * 100 + text[1] % 16 % 10 * 10 + text[2] % 16 % 10;
    text += 3;
    while (*text && *text != '\n') {
        size_t n = strcspn(text, "\n");
        qr_web_reply_header(ret, text, n);
        text += n + (text[n] == '\n');
    }
    ret->body.max = req->max_reply_bytes + 1;
    if (*text) qr_buf_puts(&ret->body, text + 1);
    struct qr_err ignored;
    if (strcmp(req->method, "HEAD") == 0 && qr_web_success(ret->status))
        a->announced |= qr_s3_read_object(&a->object, ret, &ignored) == QR_OK;
    return QR_OK;
}
static void stay(struct qr_web *h) { (void)h; }
static int64_t virtual_ns;
static int64_t now(void *ctx) { return (void)ctx, virtual_ns; }
static void pass(int64_t ns) { virtual_ns += ns; }

static enum qr_code act(struct qr_store *s, unsigned which, const char *name, struct qr_buf *b,
                        struct qr_err *err) {
    struct qr_store_version v = {.there = true};
    switch (which % 7) {
    case 0: return s->ops->get(s, name, 1 << 16, b, err);
    case 1: return s->ops->list(s, name, b, err);
    case 2: return s->ops->put(s, name, qr_bytes_of_string("weights"), false, err);
    case 3: return s->ops->put(s, name, qr_bytes_of_string("weights"), true, err);
    case 4: return s->ops->remove(s, name, err);
    case 5: return s->ops->swap(s, name, qr_bytes_of_string("weights"), &v, err);
    default: return s->ops->check_writable(s, name, err);
    }
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
    static const struct qr_clock clock = {now, NULL};
    struct qr_s3_options opt = {
        .endpoint = "http://127.0.0.1:1",
        .sts_endpoint = "http://127.0.0.1:1",
        .waits = {.clock = &clock, .wall = &clock, .sleep = pass, .deadline_ns = 60 * QR_SECOND}};
    char *part[MAX_PARTS];
    struct answers a = {.web = {answer, stay}, .part = part};
    struct qr_store *s = NULL;
    struct qr_err err = {0};
    struct qr_buf b = {0};
    if (size == 0) return 0;
    unsigned source = data[0] / 7 % 4;
    if (source == 0) opt.key_id = "id", opt.secret = "secret";
    if (source == 1) opt.role = "role", opt.token_file = "/dev/null";
    if (source == 2) opt.container_url = "http://127.0.0.1:1/c", opt.container_token = "t";
    parts_of(data + 1, size - 1, 0, part, MAX_PARTS, &a.n);
    for (size_t i = 0; i < a.n; i++) parsers(part[i]);
    virtual_ns = 1700000000 * QR_SECOND;
    QR_ASSERT(qr_store_s3_new("bucket", &opt, &a.web, &s, &err) == QR_OK);
    enum qr_code code = act(s, data[0], "dir/w", &b, &err);
    QR_ASSERT(code == QR_OK || (err.code == code && err.msg[0]));
    if (code == QR_OK && data[0] % 7 == 0)
        QR_ASSERT(a.announced && a.object.size == b.n &&
                  (!a.object.has_crc32c || a.object.crc32c == qr_crc32c(0, b.p, b.n)));
    s->ops->close(s);
    qr_buf_free(&b);
    parts_free(part, a.n);
    return 0;
}
