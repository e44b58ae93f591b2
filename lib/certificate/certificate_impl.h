/* certificate/certificate_impl.h — shared by certificate.c, certificate_own.c and
 * certificate_make.c. Of several certificates in a PEM text the first is used, unless a function
 * takes a chain. */
#ifndef QR_CERTIFICATE_CERTIFICATE_IMPL_H
#define QR_CERTIFICATE_CERTIFICATE_IMPL_H

#include <openssl/x509.h>

#include "certificate/certificate.h"

#define CERTIFICATE_SCHEME "qring://"

void certificate_free_p(X509 **x); /* for qr_auto, as the next */
void certificate_key_free_p(EVP_PKEY **key);
/* The first certificate of a PEM text, or NULL; the caller frees it. */
X509 *certificate_first(const char *pem);
/* An unencrypted key, or NULL; the caller frees it. */
EVP_PKEY *certificate_key(const char *pem);
/* Adds all certificates of a text to a stack or a store (NULL: neither). Returns their number, or
 * -1 when one is malformed. */
int certificate_read_all(const char *pem, STACK_OF(X509) * stack, X509_STORE *store);
/* Append PEM; false on an OpenSSL failure. */
bool certificate_put(X509 *x, struct qr_buf *ret);
bool certificate_put_key(EVP_PKEY *key, struct qr_buf *ret);
/* Appends the key, then all certificates of pem, re-encoded as PEM without comments and other
 * objects. False: malformed input, or an OpenSSL failure; bytes already appended stay. */
bool certificate_put_pair(const char *pem, const char *key_pem, struct qr_buf *ret);
/* Checks that the key belongs to the certificate. The message names the files. */
enum qr_code certificate_check_pair(const struct qr_certificate_files *files, const char *pem,
                                    const char *key_pem, struct qr_err *err);

/* Reads the identity; no kind: the certificate has no names, or one is wrong. Returns what is wrong
 * with its names (static), or NULL. */
const char *certificate_identity(X509 *x, struct qr_certificate_identity *ret);
/* True when both have names, and equal ones. */
bool certificate_same(const struct qr_certificate_identity *a,
                      const struct qr_certificate_identity *b);
/* True for a valid DNS name of a certificate: labels of letters, digits, '-' and '_'; the first may
 * be '*'. */
bool certificate_is_dns_name(const char *text);
/* Verifies a certificate against the CAs in a PEM text, all but its identity. Args as
 * qr_certificate_peer; *ret_why: OpenSSL's reason, or "". *ret_until_s: when the first certificate
 * of its chain expires; with a fault unix_s. */
enum qr_peer_fault certificate_verify(const char *ca, X509 *leaf, const char *chain, bool server,
                                      int64_t unix_s, const char **ret_why, int64_t *ret_until_s);
/* Seconds since 1970; 0 for a time that cannot be read. */
int64_t certificate_seconds(const ASN1_TIME *t);
/* Overwrites and frees the text. */
void certificate_wipe_text(struct qr_buf *text);

#endif
