/* local/run_certificates.h — temporary certificates for one run on this machine, so that its
 * workers use TLS like pods.
 *
 * A CA, used once and discarded, and one certificate for all workers, in memory files (memfd) that
 * the workers inherit as /proc/self/fd/N: nothing is left behind, however the run ends. Valid from
 * an hour ago, for a year.
 */
#ifndef QR_LOCAL_RUN_CERTIFICATES_H
#define QR_LOCAL_RUN_CERTIFICATES_H

#include "base/err.h"

enum { QR_RUN_CERTIFICATE_FILES = 3 };
/* All zero: none. */
struct qr_run_certificates {
    /* Close-on-exec; the numbers are not reused in children. */
    int fd[QR_RUN_CERTIFICATE_FILES];
    char *argument[QR_RUN_CERTIFICATE_FILES]; /* "--tls-cert=/proc/self/fd/100" ...; NULL: none */
};
/* Makes the certificates; free with qr_run_certificates_fini. */
QR_MUST_CHECK enum qr_code qr_run_certificates_make(struct qr_run_certificates *ret,
                                                    struct qr_err *err);
/* In a child before exec: keeps the files open. Only system calls. */
void qr_run_certificates_inherit(const struct qr_run_certificates *t);
void qr_run_certificates_fini(struct qr_run_certificates *t);

#endif
