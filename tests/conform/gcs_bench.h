/* tests/conform/gcs_bench.h — operations of a store that meet the faults of tests/fake/gcs.py, or
 * of Google's storage test bench, which takes the same instructions. Time is virtual: a sleep moves
 * the clock. */
#ifndef GCS_BENCH_H
#define GCS_BENCH_H

#include "base/mem.h"
#include "format/json.h"
#include "store/gcs_impl.h"
#include "tests/fake/fake.h"

static int64_t virtual_ns, slept_ns, longest_ns, sleeps;
static bool stopping;
static int64_t now(void *ctx) { return (void)ctx, virtual_ns; }
static void pass(int64_t ns) {
    virtual_ns += ns, slept_ns += ns, sleeps++;
    if (ns > longest_ns) longest_ns = ns;
}
static bool is_stopping(void) { return stopping; }
static const struct qr_clock virtual_clock = {now, NULL};

static char endpoint[128], host[64], header[160];

static struct qr_gcs_options options(void) {
    return (struct qr_gcs_options){.emulator_host = endpoint,
                                   .waits.clock = &virtual_clock,
                                   .waits.wall = &qr_clock_wall,
                                   .waits.sleep = pass,
                                   .waits.stopping = is_stopping};
}
static struct qr_store *open_with(const char *bucket, const struct qr_gcs_options *o,
                                  struct qr_web *http) {
    struct qr_store *s = NULL;
    struct qr_err err = {0};
    CHECK(qr_store_gcs_new(bucket, o, http, &s, &err) == QR_OK, "%s", err.msg);
    return s;
}

/* ---- the fake ---- */

static struct qr_json *ask(const char *method, const char *path, const char *body) {
    struct qr_web *h = qr_web_curl();
    qr_auto(qr_free_p) char *url = qr_xasprintf("%s%s", endpoint, path);
    struct qr_web_request req = {.method = method,
                                 .url = url,
                                 .headers = {"Content-Type: application/json"},
                                 .n_headers = 1,
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
static void tell(const char *path, const char *body) { qr_json_free(ask("POST", path, body)); }

/* Lines of the fake's log since the last call that begin so. */
static inline int logged(const char *begin) {
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

enum op { GET, STAT_FREE_LIST, PUT, CREATE, REMOVE, CHECK_WRITE, SWAP };
/* faults: instructions of a retry test. used: all of them were met. emulator: an instruction of the
 * test bench's other kind instead, in a header. */
struct row {
    int group;
    const char *faults;
    enum op op;
    size_t bytes;
    enum qr_code want;
    const char *words;
    bool used;
    const char *emulator;
};

static uint8_t *pattern;
enum { LARGE = (17 << 20) + 12345, KIB = 1024 };

static inline void make_pattern(void) {
    pattern = qr_xmalloc(LARGE);
    for (size_t i = 0; i < LARGE; i++) pattern[i] = (uint8_t)(i * 2654435761U >> 13);
}

static enum qr_code act(struct qr_store *s, const struct row *r, struct qr_err *err) {
    struct qr_buf b = {0};
    enum qr_code code = QR_OK;
    switch (r->op) {
    case GET: code = s->ops->get(s, "there", LARGE, &b, err); break;
    case STAT_FREE_LIST: code = s->ops->list(s, "the", &b, err); break;
    case PUT: code = s->ops->put(s, "there", qr_bytes_of(pattern, r->bytes), false, err); break;
    case CREATE: code = s->ops->put(s, "new", qr_bytes_of(pattern, r->bytes), true, err); break;
    case REMOVE: code = s->ops->remove(s, "there", err); break;
    case CHECK_WRITE: code = s->ops->check_writable(s, "there", err); break;
    case SWAP: {
        struct qr_store_version v;
        code = s->ops->get_version(s, "there", LARGE, &b, &v, err);
        if (code == QR_OK) code = s->ops->swap(s, "there", qr_bytes_of(pattern, r->bytes), &v, err);
        break;
    }
    }
    if (r->op == GET && code == QR_OK)
        CHECK(b.n == r->bytes && memcmp(b.p, pattern, b.n) == 0, "%s: %zu bytes", r->faults, b.n);
    if (r->op == STAT_FREE_LIST && code == QR_OK)
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

/* "x-retry-test-id: …" of a new test into `header`; its path. */
static char *new_test(const char *faults) {
    qr_auto(qr_free_p) char *body =
        qr_xasprintf("{\"instructions\":{%s},\"transport\":\"HTTP\"}", faults);
    struct qr_err err = {0};
    const char *id = "";
    struct qr_json *test = ask("POST", "/retry_test", body);
    CHECK(qr_json_string(qr_json_get(test, "id"), "id", &id, &err) == QR_OK, "%s", faults);
    snprintf(header, sizeof header, "x-retry-test-id: %s", id);
    char *path = qr_xasprintf("/retry_test/%s", id);
    qr_json_free(test);
    return path;
}

static void was_met(const struct row *r, const char *path) {
    struct qr_err err = {0};
    bool completed = false;
    struct qr_json *test = ask("GET", path, NULL);
    CHECK(qr_json_bool(qr_json_get(test, "completed"), "completed", &completed, &err) == QR_OK &&
              completed == r->used,
          "group %d, %s (%d): completed is %d", r->group, r->faults, r->op, completed);
    qr_json_free(test);
}

static void conform(const struct row *r) {
    struct qr_gcs_options o = options();
    struct qr_store *plain = open_with("conform", &o, NULL);
    struct qr_err err = {0};
    const char *what = r->emulator ? r->emulator : r->faults;
    if (plain->ops->remove(plain, "new", &err) != QR_OK)
        CHECK(err.code == QR_NOT_FOUND, "%s", err.msg);
    CHECK(plain->ops->put(plain, "there", qr_bytes_of(pattern, r->op == GET ? r->bytes : 3), false,
                          &err) == QR_OK,
          "%s", err.msg);
    qr_auto(qr_free_p) char *path = r->emulator ? NULL : new_test(r->faults);
    if (r->emulator)
        snprintf(header, sizeof header, "x-goog-emulator-instructions: %s", r->emulator);
    o.extra_header = header;
    struct qr_store *s = open_with("conform", &o, NULL);
    enum qr_code code = act(s, r, &err);
    CHECK(code == r->want && (code == QR_OK || strstr(err.msg, r->words)),
          "group %d, %s (%d): %s %s", r->group, what, r->op, qr_code_name(code),
          code == QR_OK ? "" : err.msg);
    if (path) was_met(r, path);
    bool replaces = r->op == PUT || r->op == SWAP;
    if (replaces && r->emulator && code != QR_OK) holds_bytes(plain, "there", 3, what);
    if (code == QR_OK && replaces) holds_bytes(plain, "there", r->bytes, what);
    if (code == QR_OK && r->op == CREATE) holds_bytes(plain, "new", r->bytes, what);
    s->ops->close(s);
    plain->ops->close(plain);
}

#define INSERT(...) "\"storage.objects.insert\":[" __VA_ARGS__ "]"
#define GETS(...) "\"storage.objects.get\":[" __VA_ARGS__ "]"

#endif
