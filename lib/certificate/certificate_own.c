/* certificate/certificate_own.c — this worker's own certificate: checks of its files, and the copy
 * that is replaced when the files change. Start reading at qr_certificate_reload_poll(). */
#include <openssl/err.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/mem.h"
#include "certificate/certificate_impl.h"

/* ---- checks ---- */

struct own_files {
    struct qr_buf certificate, key, ca;
};

static void own_wipe(struct own_files *own) {
    certificate_wipe_text(&own->certificate);
    certificate_wipe_text(&own->key);
    certificate_wipe_text(&own->ca);
}

void qr_certificate_date(int64_t unix_s, char ret[QR_CERTIFICATE_DATE]) {
    struct tm tm;
    time_t t = (time_t)unix_s;
    if (!gmtime_r(&t, &tm) || !strftime(ret, QR_CERTIFICATE_DATE, "%Y-%m-%d %H:%M UTC", &tm))
        snprintf(ret, QR_CERTIFICATE_DATE, "?");
}

enum qr_code certificate_check_pair(const struct qr_certificate_files *f, const char *pem,
                                    const char *key_pem, struct qr_err *err) {
    qr_auto(certificate_free_p) X509 *x = certificate_first(pem);
    qr_auto(certificate_key_free_p) EVP_PKEY *key = x ? certificate_key(key_pem) : NULL;
    bool same = key && X509_check_private_key(x, key) == 1;
    ERR_clear_error();
    if (same) return QR_OK;
    if (!x)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: no PEM certificate in it", f->certificate);
    if (key)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s is not the key of the certificate in %s; both must be made together",
                       f->key, f->certificate);
    if (!strstr(key_pem, "ENCRYPTED"))
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: no PEM private key in it", f->key);
    return qr_fail(
        err, QR_INVALID_ARGUMENT,
        "%s is encrypted; store the key without a password (openssl pkey -in OLD -out NEW)",
        f->key);
}

bool certificate_put_pair(const char *pem, const char *key_pem, struct qr_buf *ret) {
    qr_auto(certificate_key_free_p) EVP_PKEY *key = certificate_key(key_pem);
    STACK_OF(X509) *chain = sk_X509_new_null();
    bool good = key && certificate_read_all(pem, chain, NULL) > 0 && certificate_put_key(key, ret);
    for (int i = 0; good && i < sk_X509_num(chain); i++)
        good = certificate_put(sk_X509_value(chain, i), ret);
    sk_X509_pop_free(chain, X509_free);
    ERR_clear_error();
    return good;
}

static enum qr_code check_ca(const struct qr_certificate_files *f, const struct qr_buf *ca,
                             struct qr_err *err) {
    if (certificate_read_all(qr_buf_string(ca), NULL, NULL) > 0) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "%s: no PEM certificates of a CA in it, or a damaged one", f->ca);
}

static enum qr_code check_trust(const struct qr_certificate_files *f, const struct own_files *own,
                                X509 *x, bool server, int64_t unix_s, struct qr_err *err) {
    const char *ca = qr_buf_string(&own->ca), *chain = qr_buf_string(&own->certificate), *why = "";
    int64_t until_s;
    char begins[QR_CERTIFICATE_DATE], ends[QR_CERTIFICATE_DATE];
    bool soon;
    qr_certificate_date(certificate_seconds(X509_get0_notBefore(x)), begins);
    qr_certificate_date(certificate_seconds(X509_get0_notAfter(x)), ends);
    switch (certificate_verify(ca, x, chain, server, unix_s, &why, &until_s)) {
    case QR_PEER_FINE: return QR_OK;
    case QR_PEER_EXPIRED:
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s: the certificate or its CA has expired (the certificate ends %s); make "
                       "new ones: qring certs",
                       f->certificate, ends);
    case QR_PEER_NOT_YET_VALID:
        soon = certificate_verify(ca, x, chain, server, unix_s + QR_CERTIFICATE_SOON_S, &why,
                                  &until_s) == QR_PEER_FINE;
        return qr_fail(err, soon ? QR_UNAVAILABLE : QR_INVALID_ARGUMENT,
                       "%s: the certificate or its CA is not valid yet (the certificate begins "
                       "%s); check this machine's clock",
                       f->certificate, begins);
    case QR_PEER_WRONG_CA:
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s was not issued by a CA in %s (%s); the three files belong together",
                       f->certificate, f->ca, why);
    default:
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s cannot serve as a %s's certificate: %s; it needs the usages serverAuth "
                       "and clientAuth",
                       f->certificate, server ? "server" : "client", why);
    }
}

/* Handshakes need a signature algorithm of TLS 1.3 (RFC 8446, 4.2.3), which few curves have. */
static enum qr_code check_curve(const struct qr_certificate_files *f, X509 *x, struct qr_err *err) {
    static const char *const curves[] = {"prime256v1", "secp384r1", "secp521r1"};
    EVP_PKEY *key = X509_get0_pubkey(x);
    char name[64];
    if (!key || !EVP_PKEY_is_a(key, "EC")) return QR_OK;
    if (EVP_PKEY_get_group_name(key, name, sizeof name, NULL) != 1) {
        ERR_clear_error();
        return QR_OK;
    }
    for (size_t i = 0; i < sizeof curves / sizeof *curves; i++)
        if (strcmp(name, curves[i]) == 0) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "%s: the certificate's key is on the curve %s, which TLS 1.3 does not use; make "
                   "one on P-256, P-384 or P-521, or an RSA key",
                   f->certificate, name);
}

/* Checks the certificate and key against each other and the CA in `own`. */
static enum qr_code check_own(const struct qr_certificate_files *f, const struct own_files *own,
                              int64_t unix_s, struct qr_certificate_own *ret, struct qr_err *err) {
    const char *pem = qr_buf_string(&own->certificate);
    struct qr_certificate_own now;
    QR_TRY(certificate_check_pair(f, pem, qr_buf_string(&own->key), err));
    QR_TRY(check_ca(f, &own->ca, err));
    qr_auto(certificate_free_p) X509 *x = certificate_first(pem);
    QR_TRY(check_curve(f, x, err));
    QR_TRY(check_trust(f, own, x, false, unix_s, err));
    QR_TRY(check_trust(f, own, x, true, unix_s, err));
    const char *wrong = certificate_identity(x, &now.identity);
    if (wrong)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: the certificate cannot serve: %s",
                       f->certificate, wrong);
    if (!now.identity.kind)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s: the certificate has no identity; give it a URI name " CERTIFICATE_SCHEME
                       "NAMESPACE/JOB, as qring certs does",
                       f->certificate);
    now.not_after_s = certificate_seconds(X509_get0_notAfter(x));
    *ret = now;
    return QR_OK;
}

static enum qr_code read_pair(const struct qr_certificate_files *f, struct own_files *ret,
                              struct qr_err *err) {
    QR_TRY(qr_file_read(f->certificate, QR_CERTIFICATE_FILE_MAX, &ret->certificate, err));
    return qr_file_read(f->key, QR_CERTIFICATE_FILE_MAX, &ret->key, err);
}

/* On error the caller wipes what was read. */
static enum qr_code read_and_check(const struct qr_certificate_files *f, int64_t unix_s,
                                   struct own_files *ret, struct qr_certificate_own *ret_own,
                                   struct qr_err *err) {
    QR_TRY(read_pair(f, ret, err));
    QR_TRY(qr_file_read(f->ca, QR_CERTIFICATE_FILE_MAX, &ret->ca, err));
    return check_own(f, ret, unix_s, ret_own, err);
}

enum qr_code qr_certificate_check(const struct qr_certificate_files *f, int64_t unix_s,
                                  struct qr_certificate_own *ret, struct qr_err *err) {
    qr_auto(own_wipe) struct own_files own = {0};
    return read_and_check(f, unix_s, &own, ret, err);
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

static enum qr_code encode_pair(const struct qr_certificate_files *f, const struct own_files *own,
                                struct qr_buf *ret, struct qr_err *err) {
    if (certificate_put_pair(qr_buf_string(&own->certificate), qr_buf_string(&own->key), ret))
        return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "cannot encode the certificate in %s and its key in %s again; use a key of a "
                   "common kind (ECDSA, RSA)",
                   f->certificate, f->key);
}

enum qr_code qr_certificate_reload_new(const struct qr_certificate_files *f, int64_t unix_s,
                                       struct qr_certificate_reload **ret, struct qr_err *err) {
    struct qr_certificate_reload *r = qr_xcalloc(1, sizeof *r);
    r->certificate = qr_xstrdup(f->certificate);
    r->key = qr_xstrdup(f->key);
    r->ca = qr_xstrdup(f->ca);
    enum qr_code code = read_and_check(f, unix_s, &r->used, &r->own, err);
    if (code == QR_OK) code = encode_pair(f, &r->used, &r->pair, err);
    if (code == QR_OK) *ret = r;
    else qr_certificate_reload_free(r);
    return code;
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

static enum qr_code reload_ca(struct qr_certificate_reload *r, const struct qr_certificate_files *f,
                              unsigned *ret_what, struct qr_err *err) {
    qr_auto(certificate_wipe_text) struct qr_buf now = {0};
    QR_TRY(qr_file_read(f->ca, QR_CERTIFICATE_FILE_MAX, &now, err));
    if (bufs_equal(&now, &r->used.ca)) return QR_OK;
    QR_TRY(check_ca(f, &now, err));
    swap_bufs(&now, &r->used.ca);
    *ret_what |= QR_CERTIFICATE_NEW_CA;
    return QR_OK;
}

/* now: empty, for the caller to wipe. */
static enum qr_code reload_pair(struct qr_certificate_reload *r,
                                const struct qr_certificate_files *f, int64_t unix_s,
                                struct own_files *now, unsigned *ret_what, struct qr_err *err) {
    qr_auto(certificate_wipe_text) struct qr_buf text = {0};
    struct qr_certificate_own own;
    QR_TRY(read_pair(f, now, err));
    if (bufs_equal(&now->certificate, &r->used.certificate) && bufs_equal(&now->key, &r->used.key))
        return QR_OK;
    qr_buf_put(&now->ca, r->used.ca.p, r->used.ca.n);
    QR_TRY(check_own(f, now, unix_s, &own, err));
    if (!certificate_same(&own.identity, &r->own.identity))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s: the certificate is of %.200s, and this worker runs as %.200s; restart "
                       "the workers to change that",
                       f->certificate, own.identity.text, r->own.identity.text);
    QR_TRY(encode_pair(f, now, &text, err));
    swap_bufs(&now->certificate, &r->used.certificate);
    swap_bufs(&now->key, &r->used.key);
    swap_bufs(&text, &r->pair);
    r->own = own;
    *ret_what |= QR_CERTIFICATE_NEW_PAIR;
    return QR_OK;
}

unsigned qr_certificate_reload_poll(struct qr_certificate_reload *r, int64_t unix_s,
                                    struct qr_err *err) {
    const struct qr_certificate_files f = {r->certificate, r->key, r->ca};
    qr_auto(own_wipe) struct own_files now = {0};
    struct qr_err of_pair = {0};
    unsigned what = 0;
    /* The CA first: a renewed certificate may be issued by the new CA. */
    enum qr_code code = reload_ca(r, &f, &what, err);
    if (reload_pair(r, &f, unix_s, &now, &what, &of_pair) != QR_OK) {
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
