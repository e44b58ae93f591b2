/* output/leftovers.h — temporary files of writes that were interrupted, in OUT and OUT/checkpoints.
 *
 * What      Ordinary files whose names qring gives to temporary ones (base/file.h): that of a file
 *           of a run with ".tmp-<pid>-<hex>" behind it, and probes. Everything else stays, and
 *           links are not followed. What cannot be removed stays until the next time.
 * Age       Only what was written before a time that the caller gives, by the file system's clock:
 *           a worker of the same ring may be probing the folder, and on file systems whose locks do
 *           not hold between machines it may be writing.
 * Threads   any; the caller knows that no run writes there (run_lock.h).
 */
#ifndef QR_OUTPUT_LEFTOVERS_H
#define QR_OUTPUT_LEFTOVERS_H

#include <stdbool.h>
#include <time.h>

#include "base/log.h"

void qr_leftovers_remove(const char *dir, time_t before_s, const struct qr_log *log);
/* A name of such a file. */
bool qr_leftovers_has_name(const char *name);

#endif
