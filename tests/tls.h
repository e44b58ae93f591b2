/* tests/tls.h — certificates for tests, in folders below /tmp. */
#ifndef TESTS_TLS_H
#define TESTS_TLS_H

#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "link/link_grpc_tls.h"
#include "tests/t.h"

struct tls_dir {
    char path[96], certificate[128], key[128], ca[128];
};

static inline int64_t tls_now_s(void) { return qr_now_ns(&qr_clock_wall) / QR_SECOND; }
static inline struct qr_certificate_request tls_order(const char *job) {
    return (struct qr_certificate_request){.name_space = "tests",
                                           .job = job,
                                           .service = job,
                                           .not_before_s = tls_now_s() - 3600,
                                           .not_after_s = tls_now_s() + 3600};
}
static inline void tls_put(const char *path, const char *text) {
    struct qr_err err = {0};
    CHECK(qr_file_replace(path, qr_bytes_of_string(text), &err) == QR_OK, "%s", err.msg);
}
/* Makes a folder. */
static inline struct tls_dir tls_dir_new(void) {
    struct tls_dir d = {.path = "/tmp/qring-tls-XXXXXX"};
    CHECK(mkdtemp(d.path) != NULL);
    snprintf(d.certificate, sizeof d.certificate, "%s/tls.crt", d.path);
    snprintf(d.key, sizeof d.key, "%s/tls.key", d.path);
    snprintf(d.ca, sizeof d.ca, "%s/ca.crt", d.path);
    return d;
}
static inline void tls_dir_put(const struct tls_dir *d, const struct qr_certificate_set *s) {
    tls_put(d->certificate, qr_buf_string(&s->certificate));
    tls_put(d->key, qr_buf_string(&s->key));
    tls_put(d->ca, qr_buf_string(&s->ca));
}
static inline void tls_dir_free(const struct tls_dir *d) {
    unlink(d->certificate);
    unlink(d->key);
    unlink(d->ca);
    rmdir(d->path);
}
static inline struct qr_certificate_set tls_make(const struct qr_certificate_request *o) {
    struct qr_certificate_set s = {0};
    struct qr_err err = {0};
    CHECK(qr_certificate_make(o, &s, &err) == QR_OK, "%s", err.msg);
    return s;
}
static inline struct qr_link_tls *tls_open_at(const struct tls_dir *d, const struct qr_clock *wall,
                                              const struct qr_log *log) {
    const struct qr_link_tls_options o = {.files = {d->certificate, d->key, d->ca},
                                          .clock = &qr_clock_monotonic,
                                          .wall = wall,
                                          .log = log};
    struct qr_link_tls *tls = NULL;
    struct qr_err err = {0};
    CHECK(qr_link_tls_new(&o, &tls, &err) == QR_OK, "%s", err.msg);
    return tls;
}
static inline struct qr_link_tls *tls_open(const struct tls_dir *d) {
    return tls_open_at(d, &qr_clock_wall, NULL);
}

#endif
