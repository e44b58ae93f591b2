/* certificate/x509.h — X.509 by OpenSSL: what a certificate says, whether a CA issued it, whether a
 * key is its own, and new ones. Whose a certificate is, is cluster/certificate.h's to say.
 *
 * PEM       texts; of several certificates in one the first is meant, unless a chain is.
 * Names     a URI has a scheme and printable characters without blanks. A DNS name has labels of
 *           letters, digits, '-' and '_', the first may be '*'. Names of other kinds say nothing.
 * Time      seconds since 1970, given by the caller.
 * Secrets   keys are never part of an error; buffers that held one are the caller's to wipe.
 * Threads   any.
 */
#ifndef QR_CERTIFICATE_X509_H
#define QR_CERTIFICATE_X509_H

#include <stdbool.h>

#include "base/bytes.h"

enum { QR_X509_TEXT = 1024, QR_X509_DATE = 64 };

/* True when the text holds at least one certificate and nothing that cannot be read as one. */
bool qr_x509_readable(const char *pem);
/* What may stand among a certificate's DNS names. */
bool qr_x509_is_dns_name(const char *text);

/* Who takes a certificate's URIs and DNS names, in its order: borrowed, shorter than QR_X509_TEXT.
 * Returns what is wrong with it, static, or NULL. */
struct qr_x509_name_visitor {
    const char *(*take)(void *ctx, bool uri, const char *text);
    void *ctx;
};
/* False: it is no certificate. *ret_wrong: the first thing that is wrong with a name, which ends
 * it; NULL: nothing. Static. */
bool qr_x509_names(const char *pem, const struct qr_x509_name_visitor *taker,
                   const char **ret_wrong);
/* Printable; "" when there is none. */
void qr_x509_common_name(const char *pem, char ret[QR_X509_TEXT]);

/* for people: "Nov 22 21:00:00 2026 GMT" */
struct qr_x509_dates {
    int64_t ends_s;
    char begins[QR_X509_DATE], ends[QR_X509_DATE];
};
/* Only of a certificate. */
void qr_x509_dates(const char *pem, struct qr_x509_dates *ret);

enum qr_x509_pair {
    QR_X509_PAIR,
    QR_X509_NO_CERTIFICATE,
    QR_X509_NO_KEY,
    QR_X509_KEY_ENCRYPTED,
    QR_X509_OTHER_KEY
};
enum qr_x509_pair qr_x509_pair(const char *pem, const char *key);
/* Appends key, then all certificates of pem, written anew as PEM: no comment and no other object
 * of the two texts. False: one of them cannot be read or written; what was appended stays. */
bool qr_x509_pair_text(const char *pem, const char *key, struct qr_buf *ret);

enum qr_x509_trust {
    QR_X509_GOOD,
    QR_X509_WRONG_CA,
    QR_X509_EXPIRED,
    QR_X509_NOT_YET_VALID,
    QR_X509_UNFIT
};
/* Did one of these CAs issue this certificate, for a server (else for a client), and is it valid
 * then? ca: each trusted for itself. chain (may be NULL): certificates between the two. *ret_why:
 * what is wrong with it in OpenSSL's words, or ""; static. */
enum qr_x509_trust qr_x509_verify(const char *ca, const char *pem, const char *chain, bool server,
                                  int64_t unix_s, const char **ret_why);

struct qr_x509_order {
    const char *common_name, *ca_common_name;
    const char *names; /* as OpenSSL writes them: "URI:...,DNS:...,IP:..." */
    int64_t not_before_s, not_after_s;
    int64_t ca_not_after_s;  /* of a new CA; 0: as its certificate */
    const char *ca, *ca_key; /* PEM of a CA to go on with; both NULL: a new one */
};
/* ECDSA P-256, a key of its own for each. What was appended to ret_ when it fails is the
 * caller's too. */
QR_MUST_CHECK enum qr_code qr_x509_make(const struct qr_x509_order *order,
                                        struct qr_buf *ret_certificate, struct qr_buf *ret_key,
                                        struct qr_buf *ret_ca, struct qr_buf *ret_ca_key,
                                        struct qr_err *err);

#endif
