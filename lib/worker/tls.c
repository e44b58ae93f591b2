/* worker/tls.c — the certificates named by the settings: checks, waiting, loading. Start reading at
 * qr_tls_open(). */
#include "worker/tls.h"

#include <stdio.h>

#include "base/file.h"
#include "base/mem.h"

struct paths {
    char *certificate, *key, *ca;
};

static void paths_fini(struct paths *p) {
    free(p->certificate);
    free(p->key);
    free(p->ca);
}

static char *tls_path(const char *given, const char *dir, const char *name) {
    return given ? qr_xstrdup(given) : dir ? qr_path_join(dir, name) : NULL;
}

bool qr_tls_given(const struct qr_settings *s) {
    return s->tls_dir || s->tls_cert || s->tls_key || s->tls_ca;
}

static enum qr_code tls_find_paths(const struct qr_settings *s, struct paths *ret,
                                   struct qr_err *err) {
    ret->certificate = tls_path(s->tls_cert, s->tls_dir, "tls.crt");
    ret->key = tls_path(s->tls_key, s->tls_dir, "tls.key");
    ret->ca = tls_path(s->tls_ca, s->tls_dir, "ca.crt");
    const char *missing = !ret->certificate ? "cert" : !ret->key ? "key" : !ret->ca ? "ca" : NULL;
    if (!missing) return QR_OK;
    return qr_fail(
        err, QR_INVALID_ARGUMENT,
        "--tls-%s is missing: give --tls-dir, or all of --tls-cert, --tls-key and --tls-ca",
        missing);
}

static enum qr_code tls_check_at(const struct qr_settings *s, const struct qr_clock *wall,
                                 struct qr_certificate_own *ret, struct qr_err *err) {
    qr_auto(paths_fini) struct paths p = {0};
    QR_TRY(tls_find_paths(s, &p, err));
    const struct qr_certificate_files files = {p.certificate, p.key, p.ca};
    return qr_certificate_check(&files, qr_now_ns(wall) / QR_SECOND, ret, err);
}

enum qr_code qr_tls_check(const struct qr_settings *s, struct qr_certificate_own *ret,
                          struct qr_err *err) {
    return tls_check_at(s, &qr_clock_wall, ret, err);
}

enum qr_code qr_tls_await(const struct qr_settings *s, const struct qr_clock *wall,
                          void (*sleep_ns)(int64_t ns), const struct qr_log *log,
                          struct qr_certificate_own *ret, struct qr_err *err) {
    enum qr_code code = tls_check_at(s, wall, ret, err);
    if (code == QR_UNAVAILABLE)
        qr_warn(log, "worker", "%s; waiting up to a minute for it to begin", err->msg);
    for (int64_t waited_ns = 0; code == QR_UNAVAILABLE && waited_ns < QR_TLS_BEGIN_NS;
         waited_ns += QR_SECOND) {
        sleep_ns(QR_SECOND);
        code = tls_check_at(s, wall, ret, err);
    }
    return code;
}

static void tls_log(const struct qr_certificate_own *own, const struct qr_log *log) {
    char date[QR_CERTIFICATE_DATE];
    int64_t left_s = own->not_after_s - qr_now_ns(&qr_clock_wall) / QR_SECOND;
    qr_certificate_date(own->not_after_s, date);
    qr_info(log, "worker", "TLS between workers: as %s, until %s", own->identity.text, date);
    if (left_s < 86400)
        qr_warn(log, "worker",
                "the certificate ends in %.1f hours: open connections stay, new ones fail from "
                "then on; replaced files are loaded when they change",
                (double)left_s / 3600);
}

enum qr_code qr_tls_open(const struct qr_settings *s, const struct qr_log *log,
                         struct qr_link_tls **ret, struct qr_err *err) {
    struct qr_certificate_own own;
    qr_auto(paths_fini) struct paths p = {0};
    *ret = NULL;
    if (!qr_tls_given(s)) return QR_OK;
    QR_TRY(qr_tls_await(s, &qr_clock_wall, qr_sleep_ns, log, &own, err));
    QR_TRY(tls_find_paths(s, &p, err));
    const struct qr_link_tls_options opt = {
        .files = {p.certificate, p.key, p.ca},
        .clock = &qr_clock_monotonic,
        .wall = &qr_clock_wall,
        .log = log,
    };
    QR_TRY(qr_link_tls_new(&opt, ret, err));
    tls_log(qr_link_tls_own(*ret), log);
    return QR_OK;
}
