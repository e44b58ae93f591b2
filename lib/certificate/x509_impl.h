/* certificate/x509_impl.h — helpers shared by x509.c and x509_make.c: PEM and OpenSSL's errors. */
#ifndef QR_CERTIFICATE_X509_IMPL_H
#define QR_CERTIFICATE_X509_IMPL_H

#include <openssl/x509.h>
#include <stdbool.h>

#include "base/bytes.h"

/* The first certificate of a PEM text, or NULL; the caller frees it. */
X509 *x509_first(const char *pem);
/* An unencrypted key, or NULL; the caller frees it. */
EVP_PKEY *x509_key(const char *pem);
/* Append PEM; false on an OpenSSL failure. */
bool x509_put_certificate(X509 *x, struct qr_buf *ret);
bool x509_put_key(EVP_PKEY *key, struct qr_buf *ret);
/* Returns OpenSSL's last error as text (static or of this thread) and clears its queue. */
const char *x509_reason(void);

#endif
