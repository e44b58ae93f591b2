/* certificate/x509_impl.h — what the two files about certificates share: PEM in, OpenSSL's
 * reasons out. */
#ifndef QR_CERTIFICATE_X509_IMPL_H
#define QR_CERTIFICATE_X509_IMPL_H

#include <openssl/x509.h>
#include <stdbool.h>

#include "base/bytes.h"

/* The first certificate of a PEM text; NULL when there is none. The caller's. */
X509 *x509_first(const char *pem);
/* A key that is not encrypted; NULL when there is none. The caller's. */
EVP_PKEY *x509_key(const char *pem);
/* Append PEM; false when OpenSSL cannot. */
bool x509_put_certificate(X509 *x, struct qr_buf *ret);
bool x509_put_key(EVP_PKEY *key, struct qr_buf *ret);
/* OpenSSL's last reason as text, and an empty queue. Static or of this thread. */
const char *x509_reason(void);

#endif
