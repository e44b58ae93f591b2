/* output/run_lock.h — one run at a time in a folder.
 *
 * Lock      On FOLDER/.qring.lock. Workers of one ring share it: same job name and at least one
 *           peer address in common, whichever worker leads and however many there are. Other
 *           processes hold it exclusively: a single worker, and `qring run` with its workers, which
 *           inherit it. The file names the holder, for the error message of a rejected process.
 * Lifetime  The kernel releases it when the last process that holds it exits. The last holder
 *           removes the file; after a kill the file remains without effect.
 * Leftovers Temporary files of a killed run are removed if no other run is active and they are
 * older than a minute (leftovers.h); without locks they are kept.
 * Kernel    Open file description locks (F_OFD_SETLK) on two bytes: the first is held while the
 *           file is read or written, the second while the run lasts. They hold between machines if
 *           those of the file system do (NFS). Without locks a warning is logged and the run
 *           continues.
 * Threads   One.
 */
#ifndef QR_OUTPUT_RUN_LOCK_H
#define QR_OUTPUT_RUN_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

struct qr_run_lock {
    bool held;
    int fd;     /* while held */
    char *path; /* heap */
};
struct qr_run_lock_options {
    const char *dir;          /* must exist and be writable */
    const char *job;          /* its name */
    const char *const *peers; /* known addresses of all workers */
    /* 0: exclusive, for this process and those that inherit the descriptor */
    size_t n_peers;
    /* How long to wait for a lock that is held: its holder may be exiting. */
    int64_t patience_ns;
    const struct qr_log *log;
};
/* Takes the lock. INVALID_ARGUMENT: another run holds it; UNAVAILABLE if that run is on another
 * host (which may be gone without the file server knowing). The message has folder, job, process
 * and host. */
QR_MUST_CHECK enum qr_code qr_run_lock_take(const struct qr_run_lock_options *opt,
                                            struct qr_run_lock *ret, struct qr_err *err);
/* Releases the lock. */
void qr_run_lock_release(struct qr_run_lock *l);

#endif
