/* local/throwaway.h — certificates for one run on this machine, so that its workers talk as
 * pods do.
 *
 * A CA, used once and forgotten, and one certificate for all workers; in files that are nowhere but
 * in memory (memfd), which the workers inherit and find as /proc/self/fd/N: nothing is left behind,
 * however the run ends. Valid from an hour ago, for a year.
 */
#ifndef QR_LOCAL_THROWAWAY_H
#define QR_LOCAL_THROWAWAY_H

#include "base/err.h"

enum { QR_THROWAWAY_FILES = 3 };
/* All zero: none. */
struct qr_throwaway {
    /* close-on-exec, and of numbers that no child of ours gives to something else */
    int fd[QR_THROWAWAY_FILES];
    char *argument[QR_THROWAWAY_FILES]; /* "--tls-cert=/proc/self/fd/100" ...; NULL: none */
};
QR_MUST_CHECK enum qr_code qr_throwaway_make(struct qr_throwaway *ret, struct qr_err *err);
/* In a child that is to exec: it keeps the files. Only system calls. */
void qr_throwaway_inherit(const struct qr_throwaway *t);
void qr_throwaway_fini(struct qr_throwaway *t);

#endif
