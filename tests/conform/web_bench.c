/* tests/conform/web_bench.c — operations of a store in a bucket under faults. Start reading at
 * conform. */
#include "tests/conform/web_bench.h"

int64_t virtual_ns, sleeps;
static int64_t longest_ns; /* sleep */
static bool stopping;
static int64_t now(void *ctx) { return (void)ctx, virtual_ns; }
const struct qr_clock virtual_clock = {now, NULL};

void web_bench_sleep(int64_t ns) {
    virtual_ns += ns, sleeps++;
    if (ns > longest_ns) longest_ns = ns;
}

bool is_stopping(void) { return stopping; }

int notices;
char endpoint[128], host[64], bench_dir[] = "/tmp/qring-web-XXXXXX";
static char header[160];
static const struct bucket_kind *kind;
uint8_t *pattern;

char *write_file(const char *name, const char *text) {
    char *path = qr_path_join(bench_dir, name);
    struct qr_err err;
    CHECK(qr_file_replace(path, qr_bytes_of_string(text), &err) == QR_OK, "%s", err.msg);
    return path;
}

void web_bench_init(const struct bucket_kind *k) {
    kind = k;
    pattern = qr_xmalloc(k->large);
    for (size_t i = 0; i < k->large; i++) pattern[i] = (uint8_t)(i * 2654435761U >> 13);
}

/* ---- the server ---- */

struct qr_json *ask(const char *method, const char *path, const char *body) {
    struct qr_web *h = qr_web_curl();
    qr_auto(qr_free_p) char *url = qr_xasprintf("%s%s", endpoint, path);
    struct qr_web_request req = {.method = method,
                                 .url = url,
                                 .headers = {"Content-Type: application/json"},
                                 .n_headers = 1,
                                 .has_body = body != NULL,
                                 .max_reply_bytes = 1 << 20};
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

void tell(const char *path, const char *body) { qr_json_free(ask("POST", path, body)); }

int logged(const char *begin) {
    struct qr_json *root = ask("GET", "/control/log", NULL);
    const char *line;
    int n = 0;
    for (const struct qr_json *l = qr_json_first(qr_json_get(root, "log")); l; l = qr_json_next(l))
        n += qr_json_string(l, "", &line, QR_IGNORED) == QR_OK &&
             strncmp(line, begin, strlen(begin)) == 0;
    qr_json_free(root);
    return n;
}

/* ---- one operation that meets faults ---- */

static enum qr_code act(struct qr_store *s, const struct row *r, struct qr_err *err) {
    struct qr_buf b = {0};
    enum qr_code code = QR_OK;
    switch (r->op) {
    case GET: code = s->ops->get(s, "there", kind->large, &b, err); break;
    case LIST: code = s->ops->list(s, "the", &b, err); break;
    case PUT: code = s->ops->put(s, "there", qr_bytes_of(pattern, r->bytes), false, err); break;
    case CREATE: code = s->ops->put(s, "new", qr_bytes_of(pattern, r->bytes), true, err); break;
    case REMOVE: code = s->ops->remove(s, "there", err); break;
    case CHECK_WRITE: code = s->ops->check_writable(s, "there", err); break;
    case SWAP: {
        struct qr_store_version v;
        code = s->ops->get_version(s, "there", kind->large, &b, &v, err);
        if (code == QR_OK) code = s->ops->swap(s, "there", qr_bytes_of(pattern, r->bytes), &v, err);
        break;
    }
    }
    if (r->op == GET && code == QR_OK)
        CHECK(b.n == r->bytes && memcmp(b.p, pattern, b.n) == 0, "%s: %zu bytes", r->faults, b.n);
    if (r->op == LIST && code == QR_OK)
        CHECK(strcmp(qr_buf_string(&b), "there") == 0, "%s", qr_buf_string(&b));
    qr_buf_free(&b);
    return code;
}

void holds_bytes(struct qr_store *s, const char *name, size_t n, const char *faults) {
    struct qr_buf b = {0};
    struct qr_err err = {0};
    CHECK(s->ops->get(s, name, kind->large, &b, &err) == QR_OK && b.n == n &&
              (!n || memcmp(b.p, pattern, n) == 0),
          "%s: %s", faults, err.msg);
    qr_buf_free(&b);
}

/* Creates a retry test on the server, sets `header` to its id, and returns its path. */
static char *new_test(const char *faults) {
    struct qr_buf body = {0};
    struct qr_err err = {0};
    const char *id = "";
    qr_buf_puts(&body, "{\"instructions\":{");
    if (*faults == '"') {
        qr_buf_puts(&body, faults);
    } else {
        size_t n = strcspn(faults, " ");
        qr_buf_printf(&body, "\"%.*s\":[", (int)n, faults);
        for (const char *f = faults + n; *f; f += n) {
            const char *between = f > faults + strcspn(faults, " ") ? "," : "";
            n = strcspn(++f, " ");
            qr_buf_printf(&body, "%s\"%.*s\"", between, (int)n, f);
        }
        qr_buf_puts(&body, "]");
    }
    qr_buf_puts(&body, "},\"transport\":\"HTTP\"}");
    struct qr_json *test = ask("POST", "/retry_test", qr_buf_string(&body));
    CHECK(qr_json_string(qr_json_get(test, "id"), "id", &id, &err) == QR_OK, "%s", faults);
    snprintf(header, sizeof header, "x-retry-test-id: %s", id);
    char *path = qr_xasprintf("/retry_test/%s", id);
    qr_json_free(test);
    qr_buf_free(&body);
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

void conform(const struct row *r) {
    struct qr_store *plain = kind->open("conform", NULL, NULL, NULL);
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
    struct qr_store *s = kind->open("conform", header, NULL, NULL);
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

/* ---- a network that is down ---- */

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
        return qr_fail(err, QR_UNAVAILABLE, "bucket.example: Couldn't connect to server");
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

static bool is_of(const char *sentence, const char *at) {
    qr_auto(qr_free_p) char *begin = qr_xasprintf("%s://%s", kind->scheme, at);
    return strstr(sentence, begin) != NULL;
}

static void count_notice(void *ctx, const char *sentence) {
    notices += ctx == &notices && is_of(sentence, "outage/w: upload: no success for") &&
               strstr(sentence, "connect to server");
}

void outages(void) {
    struct qr_err err = {0};
    struct broken *b = break_network(599 * QR_SECOND);
    longest_ns = 0;
    struct qr_store *s = kind->open("outage", NULL, count_notice, &b->web);
    CHECK(put(s, "w", "weights", false, &err) == QR_OK && holds(s, "w", "weights"),
          "an outage of less than ten minutes: %s", err.msg);
    CHECK(longest_ns <= 32 * QR_SECOND && b->attempts > 15 && b->attempts < 200,
          "%ld attempts, longest wait %lld s", b->attempts, (long long)(longest_ns / QR_SECOND));
    CHECK(notices >= 5 && notices <= 11, "%d notices, expected about one a minute", notices);
    s->ops->close(s);
    for (int i = 0; i < 2; i++) {
        b = break_network(INT64_C(1) << 60);
        b->always_503 = i == 1;
        stopping = i == 1;
        int64_t began = virtual_ns, bound = (stopping ? 120 : 600) * QR_SECOND;
        s = kind->open("outage", NULL, count_notice, &b->web);
        CHECK(put(s, "w", "again", false, &err) == QR_UNAVAILABLE && is_of(err.msg, "outage/w") &&
                  strstr(err.msg, "please retry") && strstr(err.msg, i ? "503" : "connect") &&
                  qr_exit_code(err.code) == 138,
              "%s", err.msg);
        int64_t took = virtual_ns - began;
        CHECK(took >= bound && took < bound + 2 * QR_SECOND, "%lld s",
              (long long)(took / QR_SECOND));
        s->ops->close(s);
    }
    stopping = false;
}

/* ---- bytes damaged on the way ---- */

/* Changes a byte of the first uploads of "weights"; creates the object through `other`, if set,
 * before the second upload. */
struct damager {
    struct qr_web web;
    struct qr_web *under;
    struct qr_store *other;
    int damages, uploads;
};

static enum qr_code send_damaged(struct qr_web *h, const struct qr_web_request *req,
                                 struct qr_web_reply *ret, struct qr_err *err) {
    struct damager *d = (struct damager *)h;
    struct qr_web_request r = *req;
    qr_auto(qr_buf_free) struct qr_buf body = {0};
    struct qr_err ignored;
    qr_buf_put(&body, req->body.p, req->has_body ? req->body.n : 0);
    char *content = body.n ? memmem(body.p, body.n, "weights", strlen("weights")) : NULL;
    d->uploads += content != NULL;
    if (content && d->other && d->uploads == 2)
        CHECK(put(d->other, "w", "theirs", false, &ignored) == QR_OK, "%s", ignored.msg);
    if (content && d->uploads <= d->damages) *content ^= 1;
    if (content) r.body = qr_buf_view(&body);
    return d->under->send(d->under, &r, ret, err);
}
static void close_damaged(struct qr_web *h) {
    struct damager *d = (struct damager *)h;
    d->under->close(d->under);
    free(d);
}

/* The server rejects damaged bytes; the client sends them again under the same condition. */
void damaged_uploads(void) {
    static const struct {
        int damages, uploads;
        bool other;
        enum qr_code want;
        const char *words, *holds;
    } rows[] = {
        {1, 2, false, QR_OK, "", "weights"},
        {1, 2, true, QR_FAILED_PRECONDITION, "already exists", "theirs"},
        {9, 4, false, QR_DATA_LOSS, "differs from what was sent", NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_err err = {0};
        struct qr_store *plain = kind->open("damaged", NULL, NULL, NULL);
        struct damager *d = qr_xcalloc(1, sizeof *d);
        *d = (struct damager){{send_damaged, close_damaged},
                              qr_web_curl(),
                              rows[i].other ? plain : NULL,
                              rows[i].damages,
                              0};
        struct qr_store *s = kind->open("damaged", NULL, NULL, &d->web);
        enum qr_code code = put(s, "w", "weights", true, &err);
        CHECK(code == rows[i].want && d->uploads == rows[i].uploads &&
                  (code == QR_OK || strstr(err.msg, rows[i].words)),
              "%zu: %d uploads, %s %s", i, d->uploads, qr_code_name(code), err.msg);
        if (rows[i].holds) {
            CHECK(holds(plain, "w", rows[i].holds), "%zu", i);
            CHECK(plain->ops->remove(plain, "w", &err) == QR_OK, "%s", err.msg);
        }
        s->ops->close(s);
        plain->ops->close(plain);
    }
}
