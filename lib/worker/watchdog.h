/* worker/watchdog.h — ends the process in time and with a message, whatever its libraries do.
 *
 * What      gRPC may wait without end for a thread that it never got, a C++ library may throw
 *           std::bad_alloc through C, another may write to memory that malloc refused. The watchdog
 *           needs no thread and no lock when it fires: a timer signal ends the process. SIGABRT,
 *           SIGSEGV and a failed operator new write a line on stderr first: "qring: out of memory
 *           (...)" with exit code 134 when memory is short. While a watchdog is armed they end the
 *           process with its exit code, so a decided code stays.
 * Time      counted in ticks: time in which this process is stopped does not count.
 * Order     qr_watchdog_install as the first call in main; then qr_watchdog_arm and
 *           qr_watchdog_shorten.
 * Threads   any; qr_watchdog_install the main thread.
 */
#ifndef QR_WORKER_WATCHDOG_H
#define QR_WORKER_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* Minimum stack of a thread of this program or of a library. */
#define QR_WATCHDOG_STACK_BYTES (INT64_C(1) << 20)

/* Installs the signal handlers, ignores SIGXFSZ, so that exceeding a limit on file sizes is a write
 * error like a full disk, and raises a soft stack limit (ulimit -s) that is too small.
 *
 * Errors:   UNAVAILABLE: the hard limit is too small (the message has both numbers)
 */
QR_MUST_CHECK enum qr_code qr_watchdog_install(struct qr_err *err);
/* Returns the watchdog's signal. Block it in all threads except one that always exists, or in
 * none. */
int qr_watchdog_signal(void);

/* Arms the watchdog; each call replaces the last.
 *
 * Args:     bound_ns   time limit; 0: disarm
 *           exit_code  of the process when the limit passes
 *           what       present activity for the message ("while closing the connections"), a
 *                      literal
 */
void qr_watchdog_arm(int64_t bound_ns, int exit_code, const char *what);
/* Reduces the remaining time to at most bound_ns. No effect when not armed. */
void qr_watchdog_shorten(int64_t bound_ns);

#endif
