/* cluster/certificate_impl.h — shared by certificate.c and certificate_own.c. */
#ifndef QR_CLUSTER_CERTIFICATE_IMPL_H
#define QR_CLUSTER_CERTIFICATE_IMPL_H

#include "cluster/certificate.h"

#define CERTIFICATE_SCHEME "qring://"

/* Reads the identity of a PEM certificate. False: not a certificate. *ret_wrong: what is wrong with
 * its names, static, or NULL. *ret has no kind when there are no names, or one is wrong. */
bool certificate_identity(const char *pem, struct qr_certificate_identity *ret,
                          const char **ret_wrong);
/* Overwrites and frees the text. */
void certificate_wipe_text(struct qr_buf *text);

#endif
