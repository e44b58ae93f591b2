/* cluster/certificate_own.c — this worker's own certificate: checks of its files, and the copy that
 * is replaced when the files change. Start reading at qr_certificate_reload_poll().
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/mem.h"
#include "certificate/x509.h"
#include "cluster/certificate_impl.h"

/* ---- checks ---- */

struct own_files {
    struct qr_buf certificate, key, ca;
};

static void own_wipe(struct own_files *own) {
    certificate_wipe_text(&own->certificate);
    certificate_wipe_text(&own->key);
    certificate_wipe_text(&own->ca);
}

static enum qr_code check_pair(const struct qr_certificate_files *f, const struct own_files *own,
                               struct qr_err *err) {
    switch (qr_x509_pair(qr_buf_string(&own->certificate), qr_buf_string(&own->key))) {
    case QR_X509_PAIR: return QR_OK;
    case QR_X509_NO_CERTIFICATE:
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: no PEM certificate in it", f->certificate);
    case QR_X509_OTHER_KEY:
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s is not the key of the certificate in %s; both must be made together",
                       f->key, f->certificate);
    case QR_X509_KEY_ENCRYPTED:
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "%s is encrypted; store the key without a password (openssl pkey -in OLD -out NEW)",
            f->key);
    default: return qr_fail(err, QR_INVALID_ARGUMENT, "%s: no PEM private key in it", f->key);
    }
}

static enum qr_code check_ca(const struct qr_certificate_files *f, const struct qr_buf *ca,
                             struct qr_err *err) {
    if (qr_x509_readable(qr_buf_string(ca))) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "%s: no PEM certificates of a CA in it, or a damaged one", f->ca);
}

static enum qr_code check_trust(const struct qr_certificate_files *f, const struct own_files *own,
                                const struct qr_x509_dates *dates, int64_t unix_s,
                                struct qr_err *err) {
    const char *ca = qr_buf_string(&own->ca), *pem = qr_buf_string(&own->certificate), *why = "";
    bool soon;
    for (int server = 0; server < 2; server++) {
        switch (qr_x509_verify(ca, pem, pem, server, unix_s, &why)) {
        case QR_X509_GOOD: break;
        case QR_X509_EXPIRED:
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "%s: the certificate or its CA has expired (the certificate ends %s); "
                           "make new ones: "
                           "qring certs",
                           f->certificate, dates->ends);
        case QR_X509_NOT_YET_VALID:
            soon = qr_x509_verify(ca, pem, pem, server, unix_s + QR_CERTIFICATE_SOON_S, &why) ==
                   QR_X509_GOOD;
            return qr_fail(err, soon ? QR_UNAVAILABLE : QR_INVALID_ARGUMENT,
                           "%s: the certificate or its CA is not valid yet (the certificate begins "
                           "%s); check this machine's clock",
                           f->certificate, dates->begins);
        case QR_X509_WRONG_CA:
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "%s was not issued by a CA in %s (%s); the three files belong together",
                           f->certificate, f->ca, why);
        default:
            return qr_fail(
                err, QR_INVALID_ARGUMENT,
                "%s cannot serve as a %s's certificate: %s; it needs the usages serverAuth and "
                "clientAuth",
                f->certificate, server ? "server" : "client", why);
        }
    }
    return QR_OK;
}

static enum qr_code check_identity(const struct qr_certificate_files *f,
                                   const struct own_files *own, struct qr_certificate_identity *ret,
                                   struct qr_err *err) {
    const char *wrong = NULL;
    certificate_identity(qr_buf_string(&own->certificate), ret, &wrong);
    if (wrong)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: the certificate cannot serve: %s",
                       f->certificate, wrong);
    if (ret->kind) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "%s: the certificate has no identity; give it a URI name " CERTIFICATE_SCHEME
                   "NAMESPACE/JOB, as qring certs does",
                   f->certificate);
}

/* Checks the certificate and key against each other and the CA in `own`. */
static enum qr_code check_own(const struct qr_certificate_files *f, const struct own_files *own,
                              int64_t unix_s, struct qr_certificate_own *ret, struct qr_err *err) {
    struct qr_x509_dates dates = {0};
    struct qr_certificate_identity identity = {0};
    enum qr_code code = check_pair(f, own, err);
    if (code == QR_OK) qr_x509_dates(qr_buf_string(&own->certificate), &dates);
    if (code == QR_OK) code = check_ca(f, &own->ca, err);
    if (code == QR_OK) code = check_trust(f, own, &dates, unix_s, err);
    if (code == QR_OK) code = check_identity(f, own, &identity, err);
    if (code == QR_OK)
        *ret = (struct qr_certificate_own){.identity = identity, .not_after_s = dates.ends_s};
    return code;
}

static enum qr_code read_pair(const struct qr_certificate_files *f, struct own_files *ret,
                              struct qr_err *err) {
    enum qr_code code =
        qr_file_read(f->certificate, QR_CERTIFICATE_FILE_MAX, &ret->certificate, err);
    if (code == QR_OK) code = qr_file_read(f->key, QR_CERTIFICATE_FILE_MAX, &ret->key, err);
    return code;
}

/* On error the caller wipes what was read. */
static enum qr_code read_and_check(const struct qr_certificate_files *f, int64_t unix_s,
                                   struct own_files *ret, struct qr_certificate_own *ret_own,
                                   struct qr_err *err) {
    enum qr_code code = read_pair(f, ret, err);
    if (code == QR_OK) code = qr_file_read(f->ca, QR_CERTIFICATE_FILE_MAX, &ret->ca, err);
    return code == QR_OK ? check_own(f, ret, unix_s, ret_own, err) : code;
}

enum qr_code qr_certificate_check(const struct qr_certificate_files *f, int64_t unix_s,
                                  struct qr_certificate_own *ret, struct qr_err *err) {
    struct own_files own = {0};
    enum qr_code code = read_and_check(f, unix_s, &own, ret, err);
    own_wipe(&own);
    return code;
}

void qr_certificate_date(int64_t unix_s, char ret[QR_CERTIFICATE_DATE]) {
    struct tm tm;
    time_t t = (time_t)unix_s;
    if (!gmtime_r(&t, &tm) || !strftime(ret, QR_CERTIFICATE_DATE, "%Y-%m-%d %H:%M UTC", &tm))
        snprintf(ret, QR_CERTIFICATE_DATE, "?");
}

/* ---- reload ---- */

struct qr_certificate_reload {
    char *certificate, *key, *ca; /* paths */
    struct own_files used;
    struct qr_certificate_own own;
    struct qr_buf pair;
    /* Of the last poll; last reported. */
    char problem[QR_ERR_MSG_BYTES], reported[QR_ERR_MSG_BYTES];
};

static struct qr_certificate_files reload_files(const struct qr_certificate_reload *r) {
    return (struct qr_certificate_files){r->certificate, r->key, r->ca};
}

static enum qr_code encode_pair(const struct qr_certificate_files *f, const struct own_files *own,
                                struct qr_buf *ret, struct qr_err *err) {
    if (qr_x509_pair_text(qr_buf_string(&own->certificate), qr_buf_string(&own->key), ret))
        return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "cannot encode the certificate in %s and its key in %s again; use a key of a "
                   "common kind (ECDSA, RSA)",
                   f->certificate, f->key);
}

enum qr_code qr_certificate_reload_new(const struct qr_certificate_files *f, int64_t unix_s,
                                       struct qr_certificate_reload **ret, struct qr_err *err) {
    struct qr_certificate_reload *r = qr_xcalloc(1, sizeof *r);
    enum qr_code code = read_and_check(f, unix_s, &r->used, &r->own, err);
    if (code == QR_OK) code = encode_pair(f, &r->used, &r->pair, err);
    if (code != QR_OK) {
        qr_certificate_reload_free(r);
        return code;
    }
    r->certificate = qr_xstrdup(f->certificate);
    r->key = qr_xstrdup(f->key);
    r->ca = qr_xstrdup(f->ca);
    *ret = r;
    return QR_OK;
}

void qr_certificate_reload_free(struct qr_certificate_reload *r) {
    if (!r) return;
    own_wipe(&r->used);
    certificate_wipe_text(&r->pair);
    free(r->certificate);
    free(r->key);
    free(r->ca);
    free(r);
}

static bool bufs_equal(const struct qr_buf *a, const struct qr_buf *b) {
    return a->n == b->n && (!a->n || memcmp(a->p, b->p, a->n) == 0);
}

static void swap_bufs(struct qr_buf *a, struct qr_buf *b) {
    struct qr_buf t = *a;
    *a = *b;
    *b = t;
}

static enum qr_code reload_ca(struct qr_certificate_reload *r, unsigned *ret_what,
                              struct qr_err *err) {
    const struct qr_certificate_files f = reload_files(r);
    struct qr_buf now = {0};
    enum qr_code code = qr_file_read(f.ca, QR_CERTIFICATE_FILE_MAX, &now, err);
    if (code == QR_OK && !bufs_equal(&now, &r->used.ca)) {
        code = check_ca(&f, &now, err);
        if (code == QR_OK) {
            swap_bufs(&now, &r->used.ca);
            *ret_what |= QR_CERTIFICATE_NEW_CA;
        }
    }
    qr_buf_free(&now);
    return code;
}

static enum qr_code check_renewed(const struct qr_certificate_reload *r,
                                  const struct qr_certificate_files *f, const struct own_files *now,
                                  int64_t unix_s, struct qr_certificate_own *ret,
                                  struct qr_err *err) {
    enum qr_code code = check_own(f, now, unix_s, ret, err);
    if (code != QR_OK) return code;
    if (ret->identity.kind == r->own.identity.kind &&
        strcmp(ret->identity.text, r->own.identity.text) == 0)
        return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "%s: the certificate is of %.200s, and this worker runs as %.200s; restart the "
                   "workers to change that",
                   f->certificate, ret->identity.text, r->own.identity.text);
}

static enum qr_code reload_pair(struct qr_certificate_reload *r, int64_t unix_s, unsigned *ret_what,
                                struct qr_err *err) {
    const struct qr_certificate_files f = reload_files(r);
    struct own_files now = {.ca = r->used.ca}; /* borrowed */
    struct qr_certificate_own own;
    struct qr_buf text = {0};
    enum qr_code code = read_pair(&f, &now, err);
    if (code == QR_OK && !(bufs_equal(&now.certificate, &r->used.certificate) &&
                           bufs_equal(&now.key, &r->used.key))) {
        code = check_renewed(r, &f, &now, unix_s, &own, err);
        if (code == QR_OK) code = encode_pair(&f, &now, &text, err);
        if (code == QR_OK) {
            swap_bufs(&now.certificate, &r->used.certificate);
            swap_bufs(&now.key, &r->used.key);
            swap_bufs(&text, &r->pair);
            r->own = own;
            *ret_what |= QR_CERTIFICATE_NEW_PAIR;
        }
    }
    certificate_wipe_text(&now.certificate);
    certificate_wipe_text(&now.key);
    certificate_wipe_text(&text);
    return code;
}

unsigned qr_certificate_reload_poll(struct qr_certificate_reload *r, int64_t unix_s,
                                    struct qr_err *err) {
    unsigned what = 0;
    struct qr_err of_pair = {0};
    /* The CA first: a renewed certificate may be issued by the new CA. */
    enum qr_code code = reload_ca(r, &what, err);
    if (reload_pair(r, unix_s, &what, &of_pair) != QR_OK) {
        code = of_pair.code;
        *err = of_pair;
    }
    const char *problem = code == QR_OK ? "" : err->msg;
    /* A file that is being written differs at the next poll: report only lasting problems. */
    if (*problem && strcmp(problem, r->problem) == 0 && strcmp(problem, r->reported) != 0) {
        what |= QR_CERTIFICATE_PROBLEM;
        snprintf(r->reported, sizeof r->reported, "%s", problem);
    } else if (!*problem && *r->reported) {
        what |= QR_CERTIFICATE_RECOVERED;
        r->reported[0] = 0;
    }
    snprintf(r->problem, sizeof r->problem, "%s", problem);
    return what;
}

const struct qr_certificate_own *qr_certificate_reload_own(const struct qr_certificate_reload *r) {
    return &r->own;
}
const char *qr_certificate_reload_ca(const struct qr_certificate_reload *r) {
    return qr_buf_string(&r->used.ca);
}
struct qr_bytes qr_certificate_reload_pair(const struct qr_certificate_reload *r) {
    return qr_buf_view(&r->pair);
}
