/* Cloud Storage, tests/fake/gcs.py, with each allocation failing in turn, qring's and libcurl's,
 * once or from then on. Afterwards the bucket has the whole old or new object, and what was read is
 * right. */
#include "tests/torture.h"

#include "tests/fake/client.h"
#include "tests/fake/guard.h"

static enum qr_code close_store(struct qr_store *s, enum qr_code code) {
    s->ops->close(s);
    return code;
}
static enum qr_code fail_wrong(struct qr_err *err, const char *what) {
    return qr_fail(err, QR_INTERNAL, "wrong: %s", what);
}

static void old_object(void) { put_text("w", "the old text"); }
static void no_object(void) { remove_text("new"); }
static bool replaced(bool done) {
    return is(text_of("w"), "the new text", done ? "the new text" : "the old text");
}
static bool created(bool done) {
    return is(text_of("new"), "the new text", done ? "the new text" : "");
}
static bool removed(bool done) { return is(text_of("w"), "", done ? "" : "the old text"); }

static enum qr_code run_put(struct qr_err *err) {
    struct qr_store *s = opened(fake_host);
    return close_store(s, s->ops->put(s, "w", qr_bytes_of_string("the new text"), false, err));
}
static enum qr_code run_create(struct qr_err *err) {
    struct qr_store *s = opened(fake_host);
    return close_store(s, s->ops->put(s, "new", qr_bytes_of_string("the new text"), true, err));
}
static enum qr_code run_remove(struct qr_err *err) {
    struct qr_store *s = opened(fake_host);
    return close_store(s, s->ops->remove(s, "w", err));
}
static enum qr_code run_get(struct qr_err *err) {
    struct qr_store *s = opened(fake_host);
    struct qr_buf b = {0};
    enum qr_code code = s->ops->get(s, "w", 100, &b, err);
    if (code == QR_OK && strcmp(qr_buf_string(&b), "the old text") != 0)
        code = fail_wrong(err, qr_buf_string(&b));
    qr_buf_free(&b);
    return close_store(s, code);
}
static enum qr_code run_list(struct qr_err *err) {
    struct qr_store *s = opened(fake_host);
    struct qr_buf b = {0};
    enum qr_code code = s->ops->list(s, "w", &b, err);
    if (code == QR_OK && strcmp(qr_buf_string(&b), "w") != 0)
        code = fail_wrong(err, qr_buf_string(&b));
    qr_buf_free(&b);
    return close_store(s, code);
}
static enum qr_code run_check(struct qr_err *err) {
    struct qr_store *s = opened(fake_host);
    return close_store(s, s->ops->check_writable(s, "w", err));
}

/* libcurl 7.88 leaks memory when its own allocations fail: only qring's are counted. An operation
 * makes about 250 allocations, most of them in libcurl: sanitizer builds try every 7th, the release
 * build all. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_UNDEFINED__
enum { STRIDE = 7, COLD_STRIDE = 997 };
#else
enum { STRIDE = 1, COLD_STRIDE = 199 };
#endif
static const struct operation operations[] = {
    {.name = "first use of libcurl",
     .run = run_check,
     .caches = true,
     .cold = true,
     .stride = COLD_STRIDE},
    {.name = "put",
     .before = old_object,
     .run = run_put,
     .whole = replaced,
     .caches = true,
     .stride = STRIDE},
    {.name = "create",
     .before = no_object,
     .run = run_create,
     .whole = created,
     .caches = true,
     .stride = STRIDE},
    {.name = "get", .before = old_object, .run = run_get, .caches = true, .stride = STRIDE},
    {.name = "list", .before = old_object, .run = run_list, .caches = true, .stride = STRIDE},
    {.name = "check", .before = old_object, .run = run_check, .caches = true, .stride = STRIDE},
    {.name = "delete",
     .before = old_object,
     .run = run_remove,
     .whole = removed,
     .caches = true,
     .stride = STRIDE},
};

int main(void) {
    pid_t pid = start_fake(fake_host, sizeof fake_host);
    if (pid < 0) {
        SKIP("there is no /usr/bin/python3 for the fake of Cloud Storage");
        return t_end();
    }
    tortured(operations, COUNT(operations));
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    return t_end();
}
