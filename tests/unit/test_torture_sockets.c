/* Each network call of libcurl (socket, connect, send, recv, poll, getaddrinfo) fails in turn, once
 * or from then on. One failure is retried; a permanent one may end in an error. The bucket has the
 * old or the new object, and no descriptor leaks. */
#include <dirent.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "tests/fake/client.h"
#include "tests/fake/guard.h"
#include "tests/real.h"

/* ---- interposed calls, also for shared objects; libcurl resolves names on its own thread ---- */

static atomic_long n_calls, fail_from; /* fail_from 0: nothing fails */
static bool fail_for_good;
static atomic_int fail_as;

static bool fails(int sys) {
    long from = fail_from;
    if (from == 0) return false;
    long n = ++n_calls;
    if (n != from && !(fail_for_good && n > from)) return false;
    errno = fail_as = sys;
    return true;
}
#define SEEN __attribute__((visibility("default")))

SEEN int socket(int domain, int type, int protocol) {
    REAL(socket);
    return fails(EMFILE) ? -1 : real(domain, type, protocol);
}
SEEN int connect(int fd, const struct sockaddr *to, socklen_t n) {
    REAL(connect);
    return fails(ENETUNREACH) ? -1 : real(fd, to, n);
}
SEEN ssize_t send(int fd, const void *p, size_t n, int flags) {
    REAL(send);
    return fails(EPIPE) ? -1 : real(fd, p, n, flags);
}
SEEN ssize_t recv(int fd, void *p, size_t n, int flags) {
    REAL(recv);
    return fails(ECONNRESET) ? -1 : real(fd, p, n, flags);
}
SEEN int poll(struct pollfd *p, nfds_t n, int ms) {
    REAL(poll);
    return fails(EINVAL) ? -1 : real(p, n, ms);
}
SEEN int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
                     struct addrinfo **ret) {
    REAL(getaddrinfo);
    return fails(EAGAIN) ? EAI_AGAIN : real(name, service, hints, ret);
}

/* ---- trials ---- */

static void nothing(void) {}
static void old_object(void) { put_text("w", "the old text"); }
static bool replaced(bool done) {
    return is(text_of("w"), "the new text", done ? "the new text" : "the old text");
}
static bool removed(bool done) { return is(text_of("w"), "", done ? "" : "the old text"); }

static enum qr_code put_new(struct qr_store *s, struct qr_err *err) {
    return s->ops->put(s, "w", qr_bytes_of_string("the new text"), false, err);
}
static enum qr_code remove_object(struct qr_store *s, struct qr_err *err) {
    return s->ops->remove(s, "w", err);
}
static enum qr_code check_store(struct qr_store *s, struct qr_err *err) {
    return s->ops->check_writable(s, "w", err);
}
static enum qr_code get_old(struct qr_store *s, struct qr_err *err) {
    struct qr_buf b = {0};
    enum qr_code code = s->ops->get(s, "w", 100, &b, err);
    if (code == QR_OK && strcmp(qr_buf_string(&b), "the old text") != 0)
        code = qr_fail(err, QR_INTERNAL, "wrong: %s", qr_buf_string(&b));
    qr_buf_free(&b);
    return code;
}
static enum qr_code list_objects(struct qr_store *s, struct qr_err *err) {
    struct qr_buf b = {0};
    enum qr_code code = s->ops->list(s, "w", &b, err);
    if (code == QR_OK && strcmp(qr_buf_string(&b), "w") != 0)
        code = qr_fail(err, QR_INTERNAL, "wrong: %s", qr_buf_string(&b));
    qr_buf_free(&b);
    return code;
}
static const struct {
    const char *name;
    void (*before)(void);
    enum qr_code (*run)(struct qr_store *s, struct qr_err *err);
    bool (*whole)(bool done);
} operations[] = {
    {"put", old_object, put_new, replaced},         {"get", old_object, get_old, NULL},
    {"list", old_object, list_objects, NULL},       {"check", nothing, check_store, NULL},
    {"delete", old_object, remove_object, removed},
};

static int descriptors(void) {
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n;
}

/* Returns false if k is beyond the last call. */
static bool one_try(size_t i, long k, bool for_good, const char *at, long *n_errors) {
    struct qr_err err = {0};
    operations[i].before();
    int before = descriptors();
    n_calls = 0;
    fail_as = 0;
    fail_for_good = for_good;
    fail_from = k;
    struct qr_store *s = opened(at);
    enum qr_code code = operations[i].run(s, &err);
    s->ops->close(s);
    fail_from = 0;
    const char *name = operations[i].name;
    CHECK(descriptors() == before, "%s, call %ld (errno %d): descriptors", name, k, fail_as);
    if (!for_good || !fail_as)
        CHECK(code == QR_OK, "%s, call %ld (errno %d) once: %s", name, k, fail_as, err.msg);
    else if (code != QR_OK)
        CHECK(code == QR_UNAVAILABLE && strstr(err.msg, "gs://auth-torture"),
              "%s, call %ld and all after: %s", name, k, err.msg);
    if (operations[i].whole)
        CHECK(operations[i].whole(code == QR_OK),
              "%s, call %ld (errno %d): a partial object is in the bucket", name, k, fail_as);
    *n_errors += code != QR_OK;
    return fail_as != 0;
}

int main(void) {
    char by_name[80];
    pid_t pid = start_fake(fake_host, sizeof fake_host);
    if (pid < 0) {
        SKIP("there is no /usr/bin/python3 for the fake of Cloud Storage");
        return t_end();
    }
    snprintf(by_name, sizeof by_name, "localhost%s", strchr(fake_host, ':'));
    for (size_t i = 0; i < COUNT(operations); i++)
        for (int mode = 0; mode < 4; mode++) {
            long k = 1, n_errors = 0;
            while (k < 400 && one_try(i, k, mode & 1, mode & 2 ? by_name : fake_host, &n_errors))
                k++;
            printf("%-8s %s, %s: %ld calls, %ld errors\n", operations[i].name,
                   mode & 2 ? "by name" : "by address", mode & 1 ? "for good" : "once", k - 1,
                   n_errors);
            CHECK(k > 8 && k < 400, "%s: %ld calls only", operations[i].name, k);
        }
    plain()->ops->close(plain());
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    return t_end();
}
