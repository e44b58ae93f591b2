/* output/leftovers.h — removes temporary files of interrupted writes, from OUT and OUT/checkpoints.
 *
 * Files     Regular files with names that qring gives to temporary files (base/file.h): the name of
 *           a file of a run with ".tmp-<pid>-<hex>" appended, and probes. Other files are kept, and
 *           links are not followed. A file that cannot be removed is retried at the next start.
 * Age       Only files written before a time that the caller gives, by the clock of the file
 *           system: a worker of the same ring may be probing the folder, and may be writing where
 *           locks do not hold between machines.
 * Threads   Any; the caller ensures that no run writes there (run_lock.h).
 */
#ifndef QR_OUTPUT_LEFTOVERS_H
#define QR_OUTPUT_LEFTOVERS_H

#include <stdbool.h>
#include <time.h>

#include "base/log.h"

/* Removes the files last modified before before_s (seconds since 1970). Logs how many. */
void qr_leftovers_remove(const char *dir, time_t before_s, const struct qr_log *log);
/* True for a name of such a file. */
bool qr_leftovers_has_name(const char *name);

#endif
