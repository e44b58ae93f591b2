/* output/run_lock.h — one run in a folder at a time.
 *
 * What      A lock on FOLDER/.qring.lock. Workers of one ring share it: those that have the same
 *           job's name and know a peer's address in common, whoever lives and leads, and however
 *           many they are by now. Everybody else has it alone: a single worker, and `qring run`,
 *           whose workers inherit it. The file says who began, for who is refused.
 * Lifetime  the kernel gives it back when the last process that has it ends, however it ends.
 *           Whoever is the last takes the file away; after a kill it stays, and means nothing.
 * Leftovers Temporary files of a run that was killed are removed when no other run is there and
 *           they are older than a minute (leftovers.h); without locks they stay.
 * Locks     are of open files (F_OFD_SETLK), on two bytes: the first is held while the file is read
 *           or written, the second while the run lasts. They hold between machines where the file
 *           system's do (NFS). Without any: said once, and the run goes on.
 * Threads   one.
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
    const char *dir;          /* is there, and can be written */
    const char *job;          /* its name */
    const char *const *peers; /* all workers' addresses that are known */
    size_t n_peers;           /* 0: for this process alone, and whoever inherits the descriptor */
    /* how long a lock that is held is waited for: its holder may be just ending */
    int64_t patience_ns;
    const struct qr_log *log;
};
/* Another run is there: INVALID_ARGUMENT, or UNAVAILABLE where it began on another host (that may
 * be gone, and its file server not know yet), naming folder, job, process and host. */
QR_MUST_CHECK enum qr_code qr_run_lock_take(const struct qr_run_lock_options *opt,
                                            struct qr_run_lock *ret, struct qr_err *err);
void qr_run_lock_release(struct qr_run_lock *l);

#endif
