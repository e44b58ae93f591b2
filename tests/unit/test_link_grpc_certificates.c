/* The memory file between the certificate files and gRPC: each of its system calls fails, at the
 * start and at a renewal. */
#undef _FORTIFY_SOURCE /* Its inline functions would bypass the replacements below. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "link/link_grpc.h"
#include "tests/real.h"
#include "tests/tls.h"

static _Atomic(const char *) failing; /* the call that fails; NULL: none */
static atomic_int failures_left;      /* how many of its next calls fail */
static bool fails(const char *call) {
    const char *now = failing;
    if (!now || strcmp(now, call) != 0 || failures_left <= 0) return false;
    failures_left--;
    errno = EMFILE;
    return true;
}
int memfd_create(const char *name, unsigned flags) {
    REAL(memfd_create);
    return fails("memfd_create") ? -1 : real(name, flags);
}
int futimens(int fd, const struct timespec t[2]) {
    REAL(futimens);
    return fails("futimens") ? -1 : real(fd, t);
}
int dup3(int from, int to, int flags) {
    REAL(dup3);
    return fails("dup3") ? -1 : real(from, to, flags);
}
int access(const char *path, int mode) {
    REAL(access);
    return strncmp(path, "/proc/", 6) == 0 && fails("access") ? -1 : real(path, mode);
}
ssize_t write(int fd, const void *p, size_t n) {
    REAL(write);
    char path[64], name[64] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    bool is_ours = readlink(path, name, sizeof name - 1) > 0 && strstr(name, "qring-certificate");
    return is_ours && fails("write") ? -1 : real(fd, p, n);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char lines[4096];
static void keep_line(void *ctx, enum qr_log_level level, const char *module, const char *message) {
    (void)ctx;
    (void)level;
    (void)module;
    pthread_mutex_lock(&lock);
    size_t n = strlen(lines);
    snprintf(lines + n, sizeof lines - n, "%s\n", message);
    pthread_mutex_unlock(&lock);
}
static const struct qr_log a_log = {.level = QR_LOG_DEBUG, .write = keep_line};
static unsigned count(const char *words) {
    unsigned n = 0;
    pthread_mutex_lock(&lock);
    for (const char *at = lines; (at = strstr(at, words)); at++) n++;
    pthread_mutex_unlock(&lock);
    return n;
}
static bool until_logged(const char *words) {
    for (int i = 0; i < 600 && !count(words); i++) qr_sleep_ns(50 * QR_MS);
    return count(words) > 0;
}

static void test_start(const struct tls_dir *d) {
    static const char *const calls[] = {"memfd_create", "write", "futimens", "access"};
    const struct qr_link_tls_options o = {.files = {d->certificate, d->key, d->ca},
                                          .clock = &qr_clock_monotonic,
                                          .wall = &qr_clock_wall};
    for (size_t i = 0; i < COUNT(calls); i++) {
        struct qr_link_tls *tls = NULL;
        struct qr_err err = {0};
        failures_left = 1;
        failing = calls[i];
        enum qr_code code = qr_link_tls_new(&o, &tls, &err);
        failing = NULL;
        CHECK(code != QR_OK && !tls && failures_left == 0, "%s", calls[i]);
        CHECK(strstr(err.msg, "Too many open files") &&
                  strstr(err.msg, strcmp(calls[i], "access") == 0 ? "needs /proc" : "memory file"),
              "%s: %s", calls[i], err.msg);
        printf("%s: %s\n", calls[i], err.msg);
    }
}

/* A failure is logged once and retried until the pair is used. */
static void test_renewal(const struct tls_dir *d, const struct qr_certificate_set *sets[2]) {
    static const char *const calls[] = {"memfd_create", "write", "futimens", "dup3"};
    struct qr_link_tls *tls = tls_open_at(d, &qr_clock_wall, &a_log);
    for (size_t i = 0; i < COUNT(calls); i++) {
        lines[0] = 0;
        failures_left = 2;
        failing = calls[i];
        tls_dir_put(d, sets[i % 2]);
        CHECK(until_logged("using the renewed certificate"), "%s: %s", calls[i], lines);
        failing = NULL;
        CHECK(failures_left == 0 && count("cannot use the renewed certificate yet") == 1, "%s: %s",
              calls[i], lines);
    }
    qr_link_tls_free(tls);
}

int main(void) {
    struct qr_certificate_request o = tls_order("files");
    struct qr_certificate_set first = tls_make(&o);
    o.ca = qr_buf_string(&first.ca);
    o.ca_key = qr_buf_string(&first.ca_key);
    struct qr_certificate_set next = tls_make(&o);
    struct tls_dir d = tls_dir_new();
    tls_dir_put(&d, &first);
    test_start(&d);
    test_renewal(&d, (const struct qr_certificate_set *[]){&next, &first});
    tls_dir_free(&d);
    qr_certificate_wipe(&first);
    qr_certificate_wipe(&next);
    return t_end();
}
