/* local/run_certificates.h — certificates for one run on this machine, so that its workers talk as
 * pods do.
 *
 * A CA, used once and forgotten, and one certificate for all workers; in files that are nowhere but
 * in memory (memfd), which the workers inherit and find as /proc/self/fd/N: nothing is left behind,
 * however the run ends. Valid from an hour ago, for a year.
 */
#ifndef QR_LOCAL_RUN_CERTIFICATES_H
#define QR_LOCAL_RUN_CERTIFICATES_H

#include "base/err.h"

enum { QR_RUN_CERTIFICATE_FILES = 3 };
/* All zero: none. */
struct qr_run_certificates {
    /* close-on-exec, and of numbers that no child of ours gives to something else */
    int fd[QR_RUN_CERTIFICATE_FILES];
    char *argument[QR_RUN_CERTIFICATE_FILES]; /* "--tls-cert=/proc/self/fd/100" ...; NULL: none */
};
QR_MUST_CHECK enum qr_code qr_run_certificates_make(struct qr_run_certificates *ret,
                                                    struct qr_err *err);
/* In a child that is to exec: it keeps the files. Only system calls. */
void qr_run_certificates_inherit(const struct qr_run_certificates *t);
void qr_run_certificates_fini(struct qr_run_certificates *t);

#endif
