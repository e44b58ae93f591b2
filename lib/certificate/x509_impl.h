/* certificate/x509_impl.h — what the two files about certificates share: PEM in, OpenSSL's reasons out. */
#ifndef QR_CERTIFICATE_X509_IMPL_H
#define QR_CERTIFICATE_X509_IMPL_H

#include <openssl/x509.h>
#include <stdbool.h>

/* The first certificate of a PEM text; NULL when there is none. The caller's. */
X509 *certificate_first(const char *pem);
/* A key that is not encrypted; NULL when there is none. The caller's. */
EVP_PKEY *certificate_key(const char *pem);
/* What may stand among a certificate's DNS names: x509.h says. */
bool certificate_is_dns_name(const char *text);
/* OpenSSL's last reason as text, and an empty queue. Static or of this thread. */
const char *certificate_reason(void);

#endif
