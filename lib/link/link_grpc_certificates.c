/* link/link_grpc_certificates.c — watches the certificate files, and provides the one file that
 * gRPC reads. Start reading at reload_certificates().
 *
 * gRPC 1.51 reloads certificates from paths only, passes the bytes to TLS unchecked, and asserts
 * that they are not empty. So gRPC does not get the user's paths: it reads a memory file of this
 * process by /proc/self/fd, which holds the last valid pair, key and certificates in one text. A
 * renewed pair is a new memory file under the same descriptor number, so that gRPC opens either the
 * old or the new one. gRPC reads the text twice, as key and as certificates, and starts again when
 * the modification time has changed in between: so each version has another modification time.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "link/link_grpc_parts_impl.h"
#include "link/link_grpc_tls.h"

#define RELOAD_NS (QR_SECOND / 2)

struct link_grpc_certificates {
    /* used by the thread alone, once it runs */
    struct qr_certificate_reload *reload;
    const struct qr_clock *wall;
    const struct qr_log *log;
    time_t version;
    bool unpublished, publish_failed;
    /* constant while the thread runs */
    int fd;
    char path[32];
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t stopping;
    bool stopped;
    char *ca;
};

/* Creates a memory file with the pair at c->fd. Returns 0 or errno; after an error the old file
 * stays. */
static int publish_pair(struct link_grpc_certificates *c) {
    const struct timespec times[2] = {{.tv_sec = c->version + 1}, {.tv_sec = c->version + 1}};
    qr_auto(qr_close_p) int fd = memfd_create("qring-certificate", MFD_CLOEXEC);
    if (fd < 0) return errno;
    int sys = qr_fd_write(fd, qr_certificate_reload_pair(c->reload));
    if (!sys && futimens(fd, times) != 0) sys = errno;
    if (!sys && c->fd >= 0 && dup3(fd, c->fd, O_CLOEXEC) < 0) sys = errno;
    if (sys) return sys;
    if (c->fd < 0) {
        c->fd = fd;
        fd = -1;
    }
    c->version++;
    return 0;
}

static void set_ca(struct link_grpc_certificates *c) {
    char *ca = qr_xstrdup(qr_certificate_reload_ca(c->reload));
    pthread_mutex_lock(&c->lock);
    free(c->ca);
    c->ca = ca;
    pthread_mutex_unlock(&c->lock);
}

static void publish_renewed(struct link_grpc_certificates *c, const char *until) {
    int sys = publish_pair(c);
    if (sys && !c->publish_failed)
        qr_warn(c->log, "group",
                "cannot use the renewed certificate yet: memory file: %s; retrying", strerror(sys));
    if (!sys) qr_info(c->log, "group", "using the renewed certificate, valid until %s", until);
    c->unpublished = c->publish_failed = sys != 0;
}

static void reload_certificates(struct link_grpc_certificates *c) {
    char until[QR_CERTIFICATE_DATE];
    struct qr_err err = {0};
    unsigned what = qr_certificate_reload_poll(c->reload, qr_now_ns(c->wall) / QR_SECOND, &err);
    qr_certificate_date(qr_certificate_reload_own(c->reload)->not_after_s, until);
    if (what & QR_CERTIFICATE_NEW_CA) set_ca(c);
    if (what & QR_CERTIFICATE_NEW_PAIR) c->unpublished = true;
    if (c->unpublished) publish_renewed(c, until);
    if (what & QR_CERTIFICATE_PROBLEM)
        qr_warn(c->log, "group",
                "cannot use the changed certificates: %s; still using the last valid ones, until "
                "%s",
                err.msg, until);
    if (what & QR_CERTIFICATE_RECOVERED)
        qr_info(c->log, "group", "the certificate files can be used again");
}

static void *watch_certificates(void *ctx) {
    struct link_grpc_certificates *c = ctx;
    pthread_setname_np(pthread_self(), "qring-certs");
    pthread_mutex_lock(&c->lock);
    while (!c->stopped) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += RELOAD_NS;
        until.tv_sec += until.tv_nsec / QR_SECOND;
        until.tv_nsec %= QR_SECOND;
        if (pthread_cond_timedwait(&c->stopping, &c->lock, &until) != ETIMEDOUT) continue;
        pthread_mutex_unlock(&c->lock);
        reload_certificates(c);
        pthread_mutex_lock(&c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static enum qr_code start_watching(struct link_grpc_certificates *c, struct qr_err *err) {
    int sys = publish_pair(c);
    if (sys) return qr_fail_errno(err, sys, "cannot hold the certificate in a memory file");
    snprintf(c->path, sizeof c->path, "/proc/self/fd/%d", c->fd);
    if (access(c->path, R_OK) != 0)
        return qr_fail_errno(err, errno, "TLS needs /proc to be mounted: cannot read %s", c->path);
    set_ca(c);
    sys = pthread_create(&c->thread, NULL, watch_certificates, c);
    if (sys) return qr_fail_errno(err, sys, "cannot start the thread that watches certificates");
    c->started = true;
    return QR_OK;
}

enum qr_code link_grpc_certificates_new(const struct qr_link_tls_options *opt,
                                        struct qr_certificate_own *ret_own,
                                        struct link_grpc_certificates **ret, struct qr_err *err) {
    struct link_grpc_certificates *c = qr_xcalloc(1, sizeof *c);
    pthread_condattr_t monotonic;
    c->wall = opt->wall;
    c->log = opt->log;
    c->fd = -1;
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&c->stopping, &monotonic);
    pthread_condattr_destroy(&monotonic);
    enum qr_code code =
        qr_certificate_reload_new(&opt->files, qr_now_ns(opt->wall) / QR_SECOND, &c->reload, err);
    if (code == QR_OK) {
        *ret_own = *qr_certificate_reload_own(c->reload);
        code = start_watching(c, err);
    }
    if (code == QR_OK) *ret = c;
    else link_grpc_certificates_free(c);
    return code;
}

const char *link_grpc_certificates_path(const struct link_grpc_certificates *c) { return c->path; }

char *link_grpc_certificates_ca(struct link_grpc_certificates *c) {
    pthread_mutex_lock(&c->lock);
    char *ca = qr_xstrdup(c->ca);
    pthread_mutex_unlock(&c->lock);
    return ca;
}

void link_grpc_certificates_stop(struct link_grpc_certificates *c) {
    if (!c->started) return;
    pthread_mutex_lock(&c->lock);
    c->stopped = true;
    pthread_cond_signal(&c->stopping);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    c->started = false;
}

void link_grpc_certificates_free(struct link_grpc_certificates *c) {
    link_grpc_certificates_stop(c);
    qr_close_p(&c->fd);
    qr_certificate_reload_free(c->reload);
    pthread_cond_destroy(&c->stopping);
    pthread_mutex_destroy(&c->lock);
    free(c->ca);
    free(c);
}
