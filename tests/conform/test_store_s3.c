/* S3 against tests/fake/s3.py: the suite of every store, the faults of Cloud Storage's test bench,
 * outages, refusals, credentials. S3_SERVER=http://host:port, with
 * S3_BUCKET and keys in the environment: the suite against a real server. */
#include "tests/conform/checkpoint_suite.h"
#include "tests/conform/store_suite.h"

#include <unistd.h>

#include "base/file.h"
#include "format/json.h"
#include "store/s3_impl.h"
#include "tests/fake/fake.h"

static int64_t virtual_ns, longest_ns, sleeps;
static bool stopping;
static int64_t now(void *ctx) { return (void)ctx, virtual_ns; }
static void pass(int64_t ns) {
    virtual_ns += ns, sleeps++;
    if (ns > longest_ns) longest_ns = ns;
}
static bool is_stopping(void) { return stopping; }
static const struct qr_clock virtual_clock = {now, NULL};
static int64_t later_ns; /* the wall is so much ahead */
static int64_t wall(void *ctx) { return (void)ctx, qr_now_ns(&qr_clock_wall) + later_ns; }
static const struct qr_clock wall_clock = {wall, NULL};
static char endpoint[128], host[64], header[160], dir[] = "/tmp/qring-s3-XXXXXX";
static uint8_t *pattern;
enum { LARGE = (9 << 20) + 777, KIB = 1024 };

static struct qr_s3_options options(void) {
    return (struct qr_s3_options){
        .endpoint = endpoint,
        .sts_endpoint = endpoint,
        .metadata = endpoint,
        .key_id = "AKIDFAKE",
        .secret = "fake/secret+key",
        .waits = {
            .clock = &virtual_clock, .wall = &wall_clock, .sleep = pass, .stopping = is_stopping}};
}
static struct qr_store *open_with(const char *bucket, const struct qr_s3_options *o,
                                  struct qr_web *web) {
    struct qr_store *s = NULL;
    struct qr_err err = {0};
    CHECK(qr_store_s3_new(bucket, o, web, &s, &err) == QR_OK, "%s", err.msg);
    return s;
}

/* ---- the fake ---- */

static struct qr_json *ask(const char *method, const char *path, const char *body) {
    struct qr_web *h = qr_web_curl();
    qr_auto(qr_free_p) char *url = qr_xasprintf("%s%s", endpoint, path);
    struct qr_web_request req = {.method = method,
                                 .url = url,
                                 .has_body = body != NULL,
                                 .max_reply_bytes = 1 << 20,
                                 .direct = true};
    if (body) req.body = qr_bytes_of_string(body);
    struct qr_web_reply reply;
    struct qr_err err = {0};
    struct qr_json *root = NULL;
    CHECK(h->send(h, &req, &reply, &err) == QR_OK && reply.status == 200, "%s %s: %d %s", method,
          path, reply.status, err.msg);
    if (reply.status == 200)
        CHECK(qr_json_parse(qr_buf_view(&reply.body), path, &root, &err) == QR_OK, "%s", err.msg);
    qr_web_reply_fini(&reply);
    h->close(h);
    return root;
}
static int logged(const char *begin) {
    struct qr_json *root = ask("GET", "/control/log", NULL);
    const char *line;
    int n = 0;
    for (const struct qr_json *l = qr_json_first(qr_json_get(root, "log")); l; l = qr_json_next(l))
        n +=
            qr_json_string(l, "", &line, NULL) == QR_OK && strncmp(line, begin, strlen(begin)) == 0;
    qr_json_free(root);
    return n;
}

/* ---- one operation that meets faults ---- */

enum op { GET, LIST, PUT, CREATE, REMOVE, CHECK_WRITE, SWAP };
struct row {
    const char *method, *faults; /* as tests/fake/gcs.py's, with blanks between */
    enum op op;
    size_t bytes;
    enum qr_code want;
    const char *words;
    bool used;
};

static enum qr_code act(struct qr_store *s, const struct row *r, struct qr_err *err) {
    struct qr_buf b = {0};
    struct qr_store_version v;
    enum qr_code code = QR_OK;
    switch (r->op) {
    case GET: code = s->ops->get(s, "there", LARGE, &b, err); break;
    case LIST: code = s->ops->list(s, "the", &b, err); break;
    case PUT: code = s->ops->put(s, "there", qr_bytes_of(pattern, r->bytes), false, err); break;
    case CREATE: code = s->ops->put(s, "new", qr_bytes_of(pattern, r->bytes), true, err); break;
    case REMOVE: code = s->ops->remove(s, "there", err); break;
    case CHECK_WRITE: code = s->ops->check_writable(s, "there", err); break;
    case SWAP:
        code = s->ops->get_version(s, "there", LARGE, &b, &v, err);
        if (code == QR_OK) code = s->ops->swap(s, "there", qr_bytes_of(pattern, r->bytes), &v, err);
        break;
    }
    if (r->op == GET && code == QR_OK)
        CHECK(b.n == r->bytes && memcmp(b.p, pattern, b.n) == 0, "%s: %zu bytes", r->faults, b.n);
    if (r->op == LIST && code == QR_OK)
        CHECK(strcmp(qr_buf_string(&b), "there") == 0, "%s", qr_buf_string(&b));
    qr_buf_free(&b);
    return code;
}
static void holds_bytes(struct qr_store *s, const char *name, size_t n, const char *faults) {
    struct qr_buf b = {0};
    struct qr_err err = {0};
    CHECK(s->ops->get(s, name, LARGE, &b, &err) == QR_OK && b.n == n &&
              (!n || memcmp(b.p, pattern, n) == 0),
          "%s: %s", faults, err.msg);
    qr_buf_free(&b);
}

static void conform(const struct row *r) {
    struct qr_s3_options o = options();
    struct qr_store *plain = open_with("conform", &o, NULL);
    struct qr_err err = {0};
    struct qr_buf body = {0};
    const char *id = "";
    bool completed = false;
    if (plain->ops->remove(plain, "new", &err) != QR_OK)
        CHECK(err.code == QR_NOT_FOUND, "%s", err.msg);
    CHECK(plain->ops->put(plain, "there", qr_bytes_of(pattern, r->op == GET ? r->bytes : 3), false,
                          &err) == QR_OK,
          "%s", err.msg);
    qr_buf_printf(&body, "{\"instructions\":{\"%s\":[", r->method);
    for (const char *f = r->faults; *f; f += strcspn(f, " ") + (f[strcspn(f, " ")] == ' '))
        qr_buf_printf(&body, "%s\"%.*s\"", f > r->faults ? "," : "", (int)strcspn(f, " "), f);
    qr_buf_puts(&body, "]}}");
    struct qr_json *test = ask("POST", "/retry_test", qr_buf_string(&body));
    CHECK(qr_json_string(qr_json_get(test, "id"), "id", &id, &err) == QR_OK);
    snprintf(header, sizeof header, "x-retry-test-id: %s", id);
    qr_auto(qr_free_p) char *path = qr_xasprintf("/retry_test/%s", id);
    qr_json_free(test);
    o.extra_header = header;
    struct qr_store *s = open_with("conform", &o, NULL);
    enum qr_code code = act(s, r, &err);
    CHECK(code == r->want && (code == QR_OK || strstr(err.msg, r->words)), "%s %s (%d): %s %s",
          r->method, r->faults, r->op, qr_code_name(code), code == QR_OK ? "" : err.msg);
    test = ask("GET", path, NULL);
    CHECK(qr_json_bool(qr_json_get(test, "completed"), "completed", &completed, &err) == QR_OK &&
              completed == r->used,
          "%s %s (%d): completed is %d", r->method, r->faults, r->op, completed);
    qr_json_free(test);
    if (code == QR_OK && (r->op == PUT || r->op == SWAP))
        holds_bytes(plain, "there", r->bytes, r->faults);
    if (code == QR_OK && r->op == CREATE) holds_bytes(plain, "new", r->bytes, r->faults);
    s->ops->close(s);
    plain->ops->close(plain);
    qr_buf_free(&body);
}

#define TO "storage.objects.insert"
#define FROM "storage.objects.get"
#define LISTS "storage.objects.list"
#define GONE "storage.objects.delete"
static const struct row faults[] = {
    {TO, "return-503 return-reset-connection return-429 return-500", CREATE, 100, QR_OK, "", true},
    {TO, "return-503 return-reset-connection return-408", PUT, 100, QR_OK, "", true},
    {TO, "return-503 return-reset-connection", SWAP, 100, QR_OK, "", true},
    {TO, "return-503 return-502 return-504", PUT, LARGE, QR_OK, "", true},
    {TO, "return-503 return-500 return-503", CHECK_WRITE, 0, QR_OK, "", true},
    {TO, "return-412 return-503", CREATE, 100, QR_FAILED_PRECONDITION,
     "s3://conform/new is there already", false},
    {TO, "return-412", SWAP, 100, QR_FAILED_PRECONDITION, "has been changed meanwhile", true},
    {TO, "return-403 return-503", CREATE, 100, QR_PERMISSION_DENIED, "s3:PutObject", false},
    {TO, "return-400 return-503", CREATE, 100, QR_INVALID_ARGUMENT, "s3://conform/new", false},
    {TO, "return-503 return-401", CREATE, 100, QR_UNAUTHENTICATED, "keys are not accepted", true},
    {TO, "return-501 return-503", CREATE, 100, QR_UNIMPLEMENTED, "conditional writes", false},
    {TO, "return-503-after-256K return-broken-stream-after-8192K", CREATE, LARGE, QR_OK, "", true},
    {TO, "lost-acknowledgement", CREATE, 100, QR_OK, "", true},
    {TO, "lost-acknowledgement return-503", CREATE, 0, QR_OK, "", true},
    {TO, "lost-acknowledgement", PUT, 100, QR_OK, "", true},
    {TO, "lost-acknowledgement return-503", SWAP, 100, QR_OK, "", true},
    {TO, "lost-acknowledgement", CHECK_WRITE, 0, QR_OK, "", true},
    {TO, "wrong-crc32c", CREATE, 100, QR_OK, "", true},
    {TO, "wrong-crc32c", SWAP, 100, QR_OK, "", true},
    {TO, "wrong-crc32c wrong-crc32c wrong-crc32c wrong-crc32c", PUT, 100, QR_DATA_LOSS,
     "s3://conform/there", true},
    {TO, "html-reply", CREATE, 100, QR_OK, "", true},
    {TO, "html-reply short-reply", PUT, 100, QR_OK, "", true},
    {TO, "chunked-reply", SWAP, 100, QR_OK, "", true},
    {FROM, "return-503 return-reset-connection return-429", GET, 10, QR_OK, "", true},
    {FROM, "return-400 return-400 return-503", GET, 10, QR_INVALID_ARGUMENT, "s3://conform/there",
     false},
    {FROM, "return-403 return-403 return-503", GET, 10, QR_PERMISSION_DENIED, "s3:GetObject",
     false},
    {FROM, "return-broken-stream return-broken-stream", GET, 600 * KIB, QR_OK, "", true},
    {FROM,
     "return-broken-stream-after-256K return-broken-stream-after-256K return-503 "
     "return-broken-stream-after-256K ignore-range",
     GET, LARGE, QR_OK, "", true},
    {FROM, "return-broken-stream-after-256K short-reply html-reply other-range", GET, LARGE, QR_OK,
     "", true},
    {FROM, "return-broken-stream-after-256K replaced", GET, LARGE, QR_OK, "", true},
    {FROM, "return-broken-stream-after-256K return-416", GET, 600 * KIB, QR_OK, "", true},
    {FROM, "cut-reply-after-100B chunked-reply html-reply", GET, 600 * KIB, QR_OK, "", true},
    {FROM, "wrong-crc32c", GET, 10, QR_OK, "", true},
    {FROM, "wrong-crc32c wrong-crc32c wrong-crc32c wrong-crc32c", GET, 10, QR_DATA_LOSS, "crc32c",
     true},
    {LISTS, "return-503 return-reset-connection", LIST, 0, QR_OK, "", true},
    {LISTS, "cut-reply-after-0B cut-reply-after-20B short-reply chunked-reply html-reply", LIST, 0,
     QR_OK, "", true},
    {LISTS, "return-403 return-503", LIST, 0, QR_PERMISSION_DENIED, "s3:ListBucket", false},
    {GONE, "return-503 return-reset-connection lost-acknowledgement", REMOVE, 0, QR_OK, "", true},
    {GONE, "return-403 return-503", REMOVE, 0, QR_PERMISSION_DENIED, "s3:DeleteObject", false},
};

/* ---- outages ---- */

struct broken {
    struct qr_web web;
    struct qr_web *under;
    int64_t back_at_ns;
    long attempts;
    bool always_503;
};
static enum qr_code send_broken(struct qr_web *h, const struct qr_web_request *req,
                                struct qr_web_reply *ret, struct qr_err *err) {
    struct broken *b = (struct broken *)h;
    b->attempts++;
    if (virtual_ns >= b->back_at_ns) return b->under->send(b->under, req, ret, err);
    *ret = (struct qr_web_reply){0};
    virtual_ns += 10 * QR_MS;
    if (!b->always_503)
        return qr_fail(err, QR_UNAVAILABLE, "s3.amazonaws.com: Couldn't connect to server");
    ret->status = 503;
    return QR_OK;
}
static void close_broken(struct qr_web *h) {
    struct broken *b = (struct broken *)h;
    b->under->close(b->under);
    free(b);
}
static struct broken *break_network(int64_t for_ns) {
    struct broken *b = qr_xcalloc(1, sizeof *b);
    *b = (struct broken){{send_broken, close_broken}, qr_web_curl(), virtual_ns + for_ns, 0, false};
    return b;
}
static int notices;
static void count_notice(void *ctx, const char *sentence) {
    notices += ctx == &notices && strstr(sentence, "s3://outage/w: upload: no success for") &&
               strstr(sentence, "connect to server");
}
static void outages(void) {
    struct qr_s3_options o = options();
    o.waits.notice = count_notice, o.waits.notice_ctx = &notices;
    struct qr_err err = {0};
    struct broken *b = break_network(599 * QR_SECOND);
    longest_ns = 0;
    struct qr_store *s = open_with("outage", &o, &b->web);
    CHECK(put(s, "w", "weights", false, &err) == QR_OK && holds(s, "w", "weights"),
          "what ends before ten minutes is outlasted: %s", err.msg);
    CHECK(longest_ns <= 32 * QR_SECOND && b->attempts > 15 && b->attempts < 200,
          "%ld attempts, longest wait %lld s", b->attempts, (long long)(longest_ns / QR_SECOND));
    CHECK(notices >= 5 && notices <= 11, "%d: about one a minute", notices);
    s->ops->close(s);
    for (int i = 0; i < 2; i++) {
        b = break_network(INT64_C(1) << 60);
        b->always_503 = i == 1;
        stopping = i == 1;
        int64_t began = virtual_ns, bound = (stopping ? 120 : 600) * QR_SECOND;
        s = open_with("outage", &o, &b->web);
        CHECK(put(s, "w", "again", false, &err) == QR_UNAVAILABLE &&
                  strstr(err.msg, "s3://outage/w") && strstr(err.msg, "please retry") &&
                  strstr(err.msg, i ? "503" : "connect") && qr_exit_code(err.code) == 138,
              "%s", err.msg);
        int64_t took = virtual_ns - began;
        CHECK(took >= bound && took < bound + 2 * QR_SECOND, "%lld s",
              (long long)(took / QR_SECOND));
        s->ops->close(s);
    }
    stopping = false;
}

/* ---- somebody else between our look and our write ---- */

struct meddler {
    struct qr_web web;
    struct qr_web *under;
    struct qr_store *other;
};
static enum qr_code send_meddled(struct qr_web *h, const struct qr_web_request *req,
                                 struct qr_web_reply *ret, struct qr_err *err) {
    struct meddler *m = (struct meddler *)h;
    struct qr_err ignored;
    if (strcmp(req->method, "PUT") == 0 && m->other)
        CHECK(put(m->other, "w", "theirs", false, &ignored) == QR_OK, "%s", ignored.msg);
    return m->under->send(m->under, req, ret, err);
}
static void close_meddled(struct qr_web *h) {
    struct meddler *m = (struct meddler *)h;
    m->under->close(m->under);
    free(m);
}
static void between(void) {
    struct qr_s3_options o = options();
    struct qr_err err = {0};
    struct qr_buf b = {0};
    struct qr_store_version v;
    struct meddler *m = qr_xcalloc(1, sizeof *m);
    *m = (struct meddler){{send_meddled, close_meddled}, qr_web_curl(), NULL};
    struct qr_store *s = open_with("between", &o, &m->web), *other = open_with("between", &o, NULL);
    CHECK(put(s, "w", "ours", true, &err) == QR_OK, "%s", err.msg);
    CHECK(s->ops->get_version(s, "w", 100, &b, &v, &err) == QR_OK, "%s", err.msg);
    m->other = other;
    CHECK(s->ops->swap(s, "w", qr_bytes_of_string("again"), &v, &err) == QR_FAILED_PRECONDITION &&
              holds(other, "w", "theirs"),
          "a swap is lost to who was between: %s", err.msg);
    CHECK(other->ops->remove(other, "w", &err) == QR_OK, "%s", err.msg);
    CHECK(put(s, "w", "new", true, &err) == QR_FAILED_PRECONDITION && holds(other, "w", "theirs"),
          "and so is a creation: %s", err.msg);
    s->ops->close(s);
    other->ops->close(other);
    qr_buf_free(&b);
}

/* ---- refusals ---- */

static void refusals(void) {
    struct qr_s3_options o = options();
    static const struct {
        const char *bucket;
        enum qr_code check, write, read;
        const char *words;
    } rows[] = {
        {"forbidden-b", QR_PERMISSION_DENIED, QR_PERMISSION_DENIED, QR_PERMISSION_DENIED,
         "on bucket forbidden-b"},
        {"readonly-b", QR_PERMISSION_DENIED, QR_PERMISSION_DENIED, QR_NOT_FOUND, "s3:PutObject"},
        {"missing-b", QR_NOT_FOUND, QR_NOT_FOUND, QR_NOT_FOUND, "bucket does not exist"},
        {"elsewhere-b", QR_INVALID_ARGUMENT, QR_INVALID_ARGUMENT, QR_INVALID_ARGUMENT,
         "set AWS_REGION=eu-west-7"},
        {"careless-b", QR_UNIMPLEMENTED, QR_OK, QR_OK, "passes over If-None-Match"},
        {"unable-b", QR_UNIMPLEMENTED, QR_OK, QR_OK, "conditional writes"},
        {"unsummed-b", QR_OK, QR_OK, QR_OK, ""},
        {"slow-b", QR_OK, QR_OK, QR_OK, ""},
    };
    struct qr_err err = {0};
    struct qr_buf b = {0};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_store *s = open_with(rows[i].bucket, &o, NULL);
        int64_t before = sleeps;
        enum qr_code code = s->ops->check_writable(s, "run/w.h5", &err);
        CHECK(code == rows[i].check && (code == QR_OK || (strstr(err.msg, rows[i].words) &&
                                                          strstr(err.msg, rows[i].bucket))),
              "%s: %s %s", rows[i].bucket, qr_code_name(code), err.msg);
        CHECK(put(s, "run/w.h5", "x", false, &err) == rows[i].write, "%s: %s", rows[i].bucket,
              err.msg);
        CHECK(s->ops->get(s, "run/w.h5", 9, &b, &err) == rows[i].read, "%s: %s", rows[i].bucket,
              err.msg);
        CHECK(sleeps == before || i == COUNT(rows) - 1, "final errors are not waited for");
        if (rows[i].check == QR_OK && rows[i].write == QR_OK)
            CHECK(s->ops->list(s, "", &b, &err) == QR_OK &&
                      strcmp(qr_buf_string(&b), "run/w.h5") == 0,
                  "the check leaves nothing: %s", qr_buf_string(&b));
        s->ops->close(s);
    }
    o.secret = "another";
    struct qr_store *s = open_with("keys-b", &o, NULL);
    CHECK(put(s, "w", "x", false, &err) == QR_UNAUTHENTICATED &&
              strstr(err.msg, "SignatureDoesNotMatch") && !strstr(err.msg, "another"),
          "%s", err.msg);
    s->ops->close(s);
    o = options();
    later_ns = 3600 * QR_SECOND;
    s = open_with("keys-b", &o, NULL);
    CHECK(put(s, "w", "x", false, &err) == QR_INVALID_ARGUMENT && strstr(err.msg, "clock"), "%s",
          err.msg);
    later_ns = 0;
    s->ops->close(s);
    qr_buf_free(&b);
}

static void names(struct qr_store *s) {
    struct qr_err err = {0};
    struct qr_buf b = {0};
    static char far[1200];
    memset(far, 'a', sizeof far - 1);
    const char *const bad[] = {far,      "a\nb.h5", "a\xff.h5", "dir/", "..",
                               "a/../b", "./a",     "",         "a/."};
    for (size_t i = 0; i < COUNT(bad); i++)
        CHECK(put(s, bad[i], "x", false, &err) == QR_INVALID_ARGUMENT && strstr(err.msg, "s3://"),
              "%zu: %s", i, err.msg);
    CHECK(s->ops->check_writable(s, far, &err) == QR_INVALID_ARGUMENT &&
              s->ops->check_writable(s, "run/train/", &err) == QR_OK,
          "a folder: %s", err.msg);
    static const char odd[] = "dir/\xc3\xbc %2F+?#&'<\"=~..x";
    CHECK(put(s, odd, "odd", false, &err) == QR_OK && holds(s, odd, "odd"), "%s", err.msg);
    CHECK(s->ops->list(s, "dir/\xc3\xbc %", &b, &err) == QR_OK &&
              strcmp(qr_buf_string(&b), odd) == 0,
          "%s %s", qr_buf_string(&b), err.msg);
    CHECK(s->ops->remove(s, odd, &err) == QR_OK, "%s", err.msg);
    qr_buf_free(&b);
}

/* Where a bucket is asked for. */
static void addresses(void) {
    static const struct {
        const char *bucket, *endpoint, *region, *profile, *base, *host;
    } rows[] = {
        {"b-1", NULL, NULL, "", "https://b-1.s3.us-east-1.amazonaws.com",
         "b-1.s3.us-east-1.amazonaws.com"},
        {"b.1", NULL, "eu-west-1", "", "https://s3.eu-west-1.amazonaws.com/b.1",
         "s3.eu-west-1.amazonaws.com"},
        {"b-1", NULL, "cn-north-1", "", "https://b-1.s3.cn-north-1.amazonaws.com.cn",
         "b-1.s3.cn-north-1.amazonaws.com.cn"},
        {"b-1", NULL, "eu-west-1", "s3 =\n  addressing_style = path\n",
         "https://s3.eu-west-1.amazonaws.com/b-1", "s3.eu-west-1.amazonaws.com"},
        {"b-1", "http://minio:9000/", NULL, "region = x-1\n", "http://minio:9000/b-1",
         "minio:9000"},
        {"b-1", "ceph.example:443", NULL, "", "https://ceph.example/b-1", "ceph.example"},
        {"b-1", "https://h/gate", NULL, "addressing_style=virtual\n", "https://b-1.h/gate",
         "b-1.h"},
        {"b-1", NULL, NULL, "endpoint_url = https://r2.example\n", "https://r2.example/b-1",
         "r2.example"},
    };
    struct qr_err err = {0};
    qr_auto(qr_free_p) char *path = qr_path_join(dir, "config");
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_s3_options o = options();
        qr_auto(qr_free_p) char *text =
            qr_xasprintf("[profile other]\nregion=no\n[ default ]\n%s", rows[i].profile);
        CHECK(qr_file_replace(path, qr_bytes_of_string(text), &err) == QR_OK, "%s", err.msg);
        o.endpoint = rows[i].endpoint, o.region = rows[i].region, o.config_file = path;
        struct qr_store *s = open_with(rows[i].bucket, &o, NULL);
        const struct qr_s3 *at = (const struct qr_s3 *)s;
        CHECK(strcmp(at->base, rows[i].base) == 0 && strcmp(at->host, rows[i].host) == 0,
              "%zu: %s %s", i, at->base, at->host);
        s->ops->close(s);
    }
    struct qr_s3_options o = options();
    struct qr_store *s = NULL;
    static const char *const no[] = {"b", "no bucket", ".hidden", "a/b"};
    for (size_t i = 0; i < COUNT(no); i++)
        CHECK(qr_store_s3_new(no[i], &o, NULL, &s, &err) == QR_INVALID_ARGUMENT && !s &&
                  strstr(err.msg, no[i]),
              "%s", err.msg);
    o.profile = "absent";
    CHECK(qr_store_s3_new("bucket", &o, NULL, &s, &err) == QR_INVALID_ARGUMENT && !s &&
              strstr(err.msg, "AWS_PROFILE=absent"),
          "%s", err.msg);
    unlink(path);
}

/* ---- credentials ---- */

static char *write_file(const char *name, const char *text) {
    char *path = qr_path_join(dir, name);
    struct qr_err err;
    CHECK(qr_file_replace(path, qr_bytes_of_string(text), &err) == QR_OK, "%s", err.msg);
    return path;
}
static void one(const struct qr_s3_options *o, const char *what, enum qr_code want,
                const char *words) {
    struct qr_store *s = open_with("keys-b", o, NULL);
    struct qr_err err = {0};
    enum qr_code code = put(s, "w", "x", false, &err);
    CHECK(code == want && (code == QR_OK || strstr(err.msg, words)), "%s: %s", what,
          code == QR_OK ? "accepted" : err.msg);
    CHECK(code == QR_OK || (!strstr(err.msg, "/secret") && !strstr(err.msg, "session-of")),
          "a secret in: %s", err.msg);
    s->ops->close(s);
}

/* Each source of keys that end: used again, renewed before they end and when they are refused. */
static void renewed(const struct qr_s3_options *o, const char *what, const char *path) {
    struct qr_err err = {0};
    struct qr_store *s = open_with("keys-b", o, NULL);
    logged("");
    CHECK(put(s, "a", "1", false, &err) == QR_OK && put(s, "a", "2", false, &err) == QR_OK &&
              logged(path) == 1,
          "%s: keys serve many requests: %s", what, err.msg);
    later_ns = 590 * QR_SECOND;
    CHECK(put(s, "a", "3", false, &err) == QR_OK && logged(path) == 0, "%s: still good: %s", what,
          err.msg);
    later_ns = 610 * QR_SECOND;
    CHECK(put(s, "a", "4", false, &err) == QR_OK && logged(path) == 1,
          "%s: renewed five minutes before they end: %s", what, err.msg);
    later_ns = 0;
    qr_json_free(ask("POST", "/control/expire", "{}"));
    logged("");
    CHECK(put(s, "a", "5", false, &err) == QR_OK && holds(s, "a", "5") && logged(path) == 1,
          "%s: once more when they are refused: %s", what, err.msg);
    s->ops->close(s);
    static const char *const odd[] = {
        "return-503",  "return-reset-connection", "cut-reply-after-0B", "cut-reply-after-20B",
        "short-reply", "chunked-reply",           "html-reply"};
    for (size_t i = 0; i < COUNT(odd); i++) {
        qr_auto(qr_free_p) char *body =
            qr_xasprintf("{\"instructions\":{\"token\":[\"%s\",\"%s\"]}}", odd[i], odd[i]);
        qr_json_free(ask("POST", "/control/faults", body));
        one(o, odd[i], QR_OK, "");
        qr_json_free(ask("POST", "/control/faults", "{\"instructions\":{}}"));
    }
}

static void credentials(void) {
    struct qr_s3_options o = options();
    o.key_id = o.secret = NULL;
    renewed(&o, "instance metadata", "PUT /latest/api/token");
    o.metadata = "http://127.0.0.1:1";
    int64_t before = virtual_ns;
    one(&o, "nothing at all", QR_UNAUTHENTICATED, "no credentials for S3");
    CHECK(virtual_ns - before > 10 * QR_SECOND && virtual_ns - before < 60 * QR_SECOND, "%lld s",
          (long long)((virtual_ns - before) / QR_SECOND));
    o.no_metadata = true;
    one(&o, "metadata forbidden", QR_UNAUTHENTICATED, "AWS_EC2_METADATA_DISABLED");

    qr_auto(qr_free_p) char *url = qr_xasprintf("%s/v2/credentials", endpoint);
    qr_auto(qr_free_p) char *token = write_file("token", "container-token\n");
    o.container_url = url, o.container_token_file = token;
    renewed(&o, "container", "GET /v2/credentials");
    o.container_token_file = NULL, o.container_token = "other-secret";
    one(&o, "container, another token", QR_UNAUTHENTICATED, "container's endpoint gives no keys");
    static const char *const thieves[] = {"http://evil.example/c", "http://127.0.0.1@evil.example/",
                                          "http://127.0.0.1.evil.example/"};
    for (size_t i = 0; i < COUNT(thieves); i++) {
        o.container_url = thieves[i];
        one(&o, thieves[i], QR_INVALID_ARGUMENT, "asked for nowhere else");
    }

    qr_auto(qr_free_p) char *subject = write_file("subject", "subject-of-a-pod\n");
    o.role = "arn:aws:iam::1:role/qring", o.token_file = subject;
    renewed(&o, "web identity", "POST /");
    o.role = "arn:aws:iam::1:role/other";
    one(&o, "another role", QR_UNAUTHENTICATED, "InvalidIdentityToken");
    o.role = NULL;
    one(&o, "no role", QR_INVALID_ARGUMENT, "AWS_ROLE_ARN");
    o.token_file = NULL;

    static const struct {
        const char *profile, *credentials, *config;
        enum qr_code want;
        const char *words;
    } rows[] = {
        {NULL, "[default]\naws_access_key_id=AKIDFAKE\naws_secret_access_key = fake/secret+key\n",
         "", QR_OK, ""},
        {"two", "[default]\naws_access_key_id=no\naws_secret_access_key=no\n",
         "# words\n[profile two]\r\naws_access_key_id = AKIDFAKE\r\naws_secret_access_key = "
         "fake/secret+key\r\n",
         QR_OK, ""},
        {"two", "[two]\naws_access_key_id=AKIDFAKE\n", "", QR_UNAUTHENTICATED,
         "gives no access key and secret key"},
        {"two", "", "[profile two]\nsso_session = x\n", QR_UNAUTHENTICATED, "sso_session"},
        {"two", "",
         "[profile two]\nrole_arn=arn:aws:iam::1:role/qring\nweb_identity_token_file=$\n", QR_OK,
         ""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_buf b = {0};
        for (const char *c = rows[i].config; *c; c++)
            *c == '$' ? qr_buf_puts(&b, subject) : qr_buf_put(&b, c, 1);
        qr_auto(qr_free_p) char *keys = write_file("keys", rows[i].credentials),
                                *config = write_file("config", qr_buf_string(&b));
        struct qr_s3_options p = options();
        p.key_id = p.secret = NULL, p.profile = rows[i].profile;
        p.credentials_file = keys, p.config_file = config, p.no_metadata = true;
        one(&p, rows[i].config, rows[i].want, rows[i].words);
        unlink(keys), unlink(config);
        qr_buf_free(&b);
    }
    o = options();
    o.secret = NULL;
    one(&o, "half of a pair", QR_UNAUTHENTICATED, "AWS_SECRET_ACCESS_KEY");
    unlink(token), unlink(subject);
}

/* ---- a real server ---- */

static struct qr_store *open_shared(void) {
    const struct qr_s3_options o = options();
    return open_with("suite", &o, NULL);
}

static void real_server(const char *bucket) {
    struct qr_s3_options o = options();
    o.key_id = getenv("AWS_ACCESS_KEY_ID"), o.secret = getenv("AWS_SECRET_ACCESS_KEY");
    o.region = getenv("AWS_REGION");
    struct qr_store *s = open_with(bucket, &o, NULL);
    struct qr_err err = {0};
    suite(s);
    names(s);
    checkpoint_suite(s);
    CHECK(s->ops->put(s, "large", qr_bytes_of(pattern, LARGE), true, &err) == QR_OK, "%s", err.msg);
    holds_bytes(s, "large", LARGE, "large");
    CHECK(s->ops->remove(s, "large", &err) == QR_OK, "%s", err.msg);
    s->ops->close(s);
    s = open_with("no-such-bucket-here", &o, NULL);
    CHECK(put(s, "w", "x", false, &err) == QR_NOT_FOUND && strstr(err.msg, "NoSuchBucket"), "%s",
          err.msg);
    s->ops->close(s);
    o.secret = "another";
    s = open_with(bucket, &o, NULL);
    CHECK(put(s, "w", "x", false, &err) == QR_UNAUTHENTICATED &&
              strstr(err.msg, "SignatureDoesNotMatch"),
          "%s", err.msg);
    s->ops->close(s);
}

int main(void) {
    const char *at = getenv("S3_SERVER"), *bucket = getenv("S3_BUCKET");
    virtual_ns = 1000 * QR_SECOND;
    pid_t pid = at ? 0 : start_fake_of("tests/fake/s3.py", host, sizeof host);
    if (pid < 0) {
        SKIP("there is no /usr/bin/python3 for the fake of S3");
        return t_end();
    }
    snprintf(endpoint, sizeof endpoint, "%s%s", at ? "" : "http://", at ? at : host);
    pattern = qr_xmalloc(LARGE);
    for (size_t i = 0; i < LARGE; i++) pattern[i] = (uint8_t)(i * 2654435761U >> 13);
    if (at) {
        real_server(bucket ? bucket : "qring");
    } else {
        CHECK(mkdtemp(dir) != NULL);
        struct qr_s3_options o = options();
        struct qr_store *s = open_with("suite", &o, NULL);
        suite(s);
        names(s);
        checkpoint_suite(s);
        checkpoint_race(s, open_shared, "a bucket", 30);
        s->ops->close(s);
        for (size_t i = 0; i < COUNT(faults); i++) conform(&faults[i]);
        outages();
        between();
        refusals();
        addresses();
        credentials();
        CHECK(rmdir(dir) == 0, "%s is not empty", dir);
        kill(pid, SIGTERM);
        waitpid(pid, NULL, 0);
    }
    free(pattern);
    return t_end();
}
