/* Cloud Storage with every allocation made to fail, ours and libcurl's, in turn, once or from there on, against tests/fake/gcs.py. What is in the
 * bucket afterwards is the old object or the new one, whole; what was read is right. */
#include "tests/torture.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <stdarg.h>

#include "base/clock.h"
#include "store/gcs.h"
#include "tests/fake/fake.h"

/* Where libcurl has no memory to note that it waits for a socket, it waits until our guard against stalls: a second here, half a minute elsewhere. */
#undef curl_easy_setopt
CURLcode curl_easy_setopt(CURL *c, CURLoption option, ...) {
    static CURLcode (*real)(CURL *c, CURLoption option, ...);
    if (!real) real = (CURLcode(*)(CURL *, CURLoption, ...))(uintptr_t)dlsym(RTLD_NEXT, "curl_easy_setopt");
    va_list ap;
    va_start(ap, option);
    CURLcode rc;
    if (option == CURLOPT_LOW_SPEED_TIME) rc = real(c, option, 1L);
    else if (option == CURLOPT_TIMEOUT_MS) rc = real(c, option, va_arg(ap, long) ? 1000L : 0L);
    else if (option / 10000 * 10000 == CURLOPTTYPE_OFF_T) rc = real(c, option, va_arg(ap, curl_off_t));
    else if (option / 10000 * 10000 == CURLOPTTYPE_LONG) rc = real(c, option, va_arg(ap, long));
    else rc = real(c, option, va_arg(ap, void *));
    va_end(ap);
    return rc;
}

static int64_t virtual_ns = 1000 * QR_SECOND;
static int64_t now(void *ctx) { return (void)ctx, virtual_ns; }
static void pass(int64_t ns) { virtual_ns += ns; }
static const struct qr_clock virtual_clock = {now, NULL};
static char host[64];

/* Without end: a failure that stays must end in a sentence soon, on virtual time. */
static struct qr_gcs_options options(void) {
    return (struct qr_gcs_options){.emulator_host = host, .metadata_host = host, .clock = &virtual_clock, .wall = &qr_clock_wall, .sleep = pass, .deadline_ns = 20 * QR_SECOND};
}
static struct qr_store *opened(void) {
    const struct qr_gcs_options o = options();
    struct qr_store *s = NULL;
    struct qr_err err = {0};
    return qr_store_gcs_new("auth-torture", &o, NULL, &s, &err) == QR_OK ? s : NULL;
}
static enum qr_code closing(struct qr_store *s, enum qr_code code) {
    s->ops->close(s);
    return code;
}
static enum qr_code wrong(struct qr_err *err, const char *what) { return qr_fail(err, QR_INTERNAL, "wrong: %s", what); }

/* The text of an object, without faults; "" where there is none. One store for all these, so that they are quick. */
static struct qr_store *plain;
static const char *text_of(const char *name) {
    static struct qr_buf b;
    static struct qr_err err;
    qr_buf_clear(&b);
    if (plain->ops->get(plain, name, 100, &b, &err) == QR_OK) return qr_buf_string(&b);
    return err.code == QR_NOT_FOUND ? "" : err.msg;
}
static void put_text(const char *name, const char *text) {
    struct qr_err err = {0};
    if (plain->ops->put(plain, name, qr_bytes_of_string(text), false, &err) != QR_OK) fprintf(stderr, "%s\n", err.msg);
}
static void begin(void) { /* in each process once: a connection is not shared between processes */
    static pid_t mine;
    if (mine == getpid()) return;
    mine = getpid();
    plain = opened();
}
static void old_object(void) {
    begin();
    put_text("w", "the old text");
}
static void no_object(void) {
    struct qr_err err = {0};
    begin();
    if (plain->ops->remove(plain, "new", &err) != QR_OK && err.code != QR_NOT_FOUND) fprintf(stderr, "%s\n", err.msg);
}
static bool is(const char *text, const char *one, const char *other) { return strcmp(text, one) == 0 || strcmp(text, other) == 0; }
static bool replaced(bool done) { return begin(), is(text_of("w"), "the new text", done ? "the new text" : "the old text"); }
static bool created(bool done) { return begin(), is(text_of("new"), "the new text", done ? "the new text" : ""); }
static bool removed(bool done) { return begin(), is(text_of("w"), "", done ? "" : "the old text"); }

static enum qr_code run_put(struct qr_err *err) {
    struct qr_store *s = opened();
    return closing(s, s->ops->put(s, "w", qr_bytes_of_string("the new text"), false, err));
}
static enum qr_code run_create(struct qr_err *err) {
    struct qr_store *s = opened();
    return closing(s, s->ops->put(s, "new", qr_bytes_of_string("the new text"), true, err));
}
static enum qr_code run_remove(struct qr_err *err) {
    struct qr_store *s = opened();
    return closing(s, s->ops->remove(s, "w", err));
}
static enum qr_code run_get(struct qr_err *err) {
    struct qr_store *s = opened();
    struct qr_buf b = {0};
    enum qr_code code = s->ops->get(s, "w", 100, &b, err);
    if (code == QR_OK && strcmp(qr_buf_string(&b), "the old text") != 0) code = wrong(err, qr_buf_string(&b));
    qr_buf_free(&b);
    return closing(s, code);
}
static enum qr_code run_list(struct qr_err *err) {
    struct qr_store *s = opened();
    struct qr_buf b = {0};
    enum qr_code code = s->ops->list(s, "w", &b, err);
    if (code == QR_OK && strcmp(qr_buf_string(&b), "w") != 0) code = wrong(err, qr_buf_string(&b));
    qr_buf_free(&b);
    return closing(s, code);
}
static enum qr_code run_check(struct qr_err *err) {
    struct qr_store *s = opened();
    return closing(s, s->ops->check_writable(s, "w", err));
}

/* libcurl 7.88 loses some of its own memory where its own allocations fail: what is counted is ours.
 * An operation makes some 250 allocations, most of them libcurl's: under a sanitizer every 7th is enough, the release build has all. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_UNDEFINED__
enum { STRIDE = 7, COLD_STRIDE = 997 };
#else
enum { STRIDE = 1, COLD_STRIDE = 199 };
#endif
static const struct operation operations[] = {
    {.name = "first use of libcurl", .run = run_check, .caches = true, .cold = true, .stride = COLD_STRIDE},
    {.name = "put", .before = old_object, .run = run_put, .whole = replaced, .caches = true, .stride = STRIDE},
    {.name = "create", .before = no_object, .run = run_create, .whole = created, .caches = true, .stride = STRIDE},
    {.name = "get", .before = old_object, .run = run_get, .caches = true, .stride = STRIDE},
    {.name = "list", .before = old_object, .run = run_list, .caches = true, .stride = STRIDE},
    {.name = "check", .before = old_object, .run = run_check, .caches = true, .stride = STRIDE},
    {.name = "delete", .before = old_object, .run = run_remove, .whole = removed, .caches = true, .stride = STRIDE},
};

int main(void) {
    pid_t pid = start_fake(host, sizeof host);
    if (pid < 0) {
        SKIP("there is no /usr/bin/python3 for the fake of Cloud Storage");
        return t_end();
    }
    tortured(operations, COUNT(operations));
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    return t_end();
}
