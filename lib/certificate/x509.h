/* certificate/x509.h — X.509 by OpenSSL (RFC 5280): reads certificates, verifies them against a CA,
 * matches keys, and makes new certificates. The identity that a certificate stands for is defined
 * in cluster/certificate.h.
 *
 * PEM       Certificates and keys are PEM texts. Of several certificates in one text the first is
 *           used, unless the function takes a chain.
 * Names     A URI has a scheme and printable characters without blanks. A DNS name has labels of
 *           letters, digits, '-' and '_'; the first label may be '*'. Other kinds are ignored.
 * Time      Seconds since 1970, given by the caller.
 * Secrets   Keys are never part of an error; the caller wipes buffers that held one.
 * Threads   any.
 */
#ifndef QR_CERTIFICATE_X509_H
#define QR_CERTIFICATE_X509_H

#include <stdbool.h>

#include "base/bytes.h"

enum { QR_X509_TEXT = 1024, QR_X509_DATE = 64 };

/* True when the text holds at least one certificate and no malformed one. */
bool qr_x509_readable(const char *pem);
/* True for a valid DNS name of a certificate. */
bool qr_x509_is_dns_name(const char *text);

/* Receives the URIs and DNS names of a certificate, in order: borrowed, shorter than QR_X509_TEXT.
 * Returns NULL, or the reason to reject a name (static), which ends the visit. */
struct qr_x509_name_visitor {
    const char *(*take)(void *ctx, bool uri, const char *text);
    void *ctx;
};
/* Passes each URI and DNS name of a certificate to the visitor.
 *
 * Args:     ret_wrong   first reason to reject a name, the visitor's or that it is malformed
 *                       (static); NULL: none
 * Returns:  false when pem is not a certificate
 */
bool qr_x509_names(const char *pem, const struct qr_x509_name_visitor *visitor,
                   const char **ret_wrong);
/* Copies the common name of the subject, printable; "" when there is none. */
void qr_x509_common_name(const char *pem, char ret[QR_X509_TEXT]);

/* Validity; begins and ends are for messages: "Nov 22 21:00:00 2026 GMT". */
struct qr_x509_dates {
    int64_t ends_s;
    char begins[QR_X509_DATE], ends[QR_X509_DATE];
};
/* pem must be a certificate. */
void qr_x509_dates(const char *pem, struct qr_x509_dates *ret);

enum qr_x509_pair {
    QR_X509_PAIR,
    QR_X509_NO_CERTIFICATE,
    QR_X509_NO_KEY,
    QR_X509_KEY_ENCRYPTED,
    QR_X509_OTHER_KEY
};
/* Checks whether the key belongs to the certificate. */
enum qr_x509_pair qr_x509_pair(const char *pem, const char *key);
/* Appends the key, then all certificates of pem, re-encoded as PEM without comments and other
 * objects. False: malformed input, or an OpenSSL failure; bytes already appended stay. */
bool qr_x509_pair_text(const char *pem, const char *key, struct qr_buf *ret);

enum qr_x509_trust {
    QR_X509_GOOD,
    QR_X509_WRONG_CA,
    QR_X509_EXPIRED,
    QR_X509_NOT_YET_VALID,
    QR_X509_UNFIT
};
/* Verifies a certificate against CAs.
 *
 * Args:     ca        PEM of CAs, each of which is trusted by itself
 *           chain     intermediate certificates; may be NULL
 *           server    the certificate is for a server, else for a client
 *           unix_s    time of the check
 *           ret_why   OpenSSL's reason, or "" (static)
 */
enum qr_x509_trust qr_x509_verify(const char *ca, const char *pem, const char *chain, bool server,
                                  int64_t unix_s, const char **ret_why);

struct qr_x509_order {
    const char *common_name, *ca_common_name;
    const char *names; /* in OpenSSL's form: "URI:...,DNS:...,IP:..." */
    int64_t not_before_s, not_after_s;
    int64_t ca_not_after_s;  /* of a new CA; 0: not_after_s */
    const char *ca, *ca_key; /* PEM of an existing CA; both NULL: make a new one */
};
/* Makes a certificate, and a CA unless the order has one; ECDSA P-256, each with its own key.
 *
 * Args:     ret_...   receive PEM texts; after an error they may hold a part, for the caller to
 *           wipe
 * Errors:   INVALID_ARGUMENT (the CA cannot be read, does not match its key, or ends earlier),
 *           INTERNAL (OpenSSL)
 */
QR_MUST_CHECK enum qr_code qr_x509_make(const struct qr_x509_order *order,
                                        struct qr_buf *ret_certificate, struct qr_buf *ret_key,
                                        struct qr_buf *ret_ca, struct qr_buf *ret_ca_key,
                                        struct qr_err *err);

#endif
