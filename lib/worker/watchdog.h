/* worker/watchdog.h — that a process ends, in time and with a sentence, whatever its libraries do.
 *
 * What      gRPC waits for ever for a thread that it never got, a C++ library throws std::bad_alloc
 *           through C, another writes to what malloc refused. So there is a watchdog that needs no
 *           thread and no lock when it is needed: a timer whose signal ends the process. And
 *           SIGABRT, SIGSEGV and a failed operator new say a line on stderr before they end it:
 *           "qring: out of memory (...)" and exit code 134 where memory is short. Under a watchdog
 *           they end it with the watchdog's code: what was decided stays decided.
 * Time      counted in ticks: that in which this process was stopped does not count.
 * Threads   any, but the beginnings: the first thing in main.
 */
#ifndef QR_WORKER_WATCHDOG_H
#define QR_WORKER_WATCHDOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* The least stack of a thread of ours or of a library. */
#define QR_WATCHDOG_STACK_BYTES (INT64_C(1) << 20)

/* Signals, and stacks that are large enough: a soft limit (ulimit -s) below that is raised.
 * UNAVAILABLE with both numbers when the hard one is. */
QR_MUST_CHECK enum qr_code qr_watchdog_install(struct qr_err *err);
/* The watchdog's signal. Blocked in every thread but one that is always there, or in none. */
int qr_watchdog_signal(void);

/* From now on this process ends by itself within bound_ns, with this exit code. Anew at each call:
 * the last one counts. what: what is being done, a literal, for the line that says so ("while the
 * group was closed"). 0 ns: not any more. */
void qr_watchdog_arm(int64_t bound_ns, int exit_code, const char *what);
/* That time is this at most now. Nothing where no watchdog is set. */
void qr_watchdog_shorten(int64_t bound_ns);

#endif
