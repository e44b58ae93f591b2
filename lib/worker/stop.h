/* worker/stop.h — SIGTERM and SIGINT: one stop request for the whole process, and time limits for
 * its end.
 *
 * What      The signals are blocked in every thread; one thread waits for them. At the first signal
 *           it sets the request flag and interrupts the group, if any, so every wait returns
 *           CANCELLED. The process then has QR_STOP_BOUND_NS, or QR_STOP_SHORT_NS while only a
 *           computation would be lost. After that the last checkpoint has QR_STOP_PUBLISH_NS more;
 *           then, or at a second signal, the process exits with the drain's exit code and a
 *           termination message. deploy/README.md lists the resulting times for each activity of a
 *           worker.
 * The end   Once the exit code is decided, each part of the end has a time limit of its own (struct
 *           qr_stop_part), and a shorter one after a stop request, also while it is running. A part
 *           that takes longer is abandoned and the process exits with that code
 *           (worker/watchdog.h): the process ends within the sum of the parts, whatever a library
 *           does. A second signal meanwhile ends it at once.
 * Order     qr_watchdog_install, qr_stop_start; qr_stop_set_group and qr_stop_set_publisher when
 *           these exist, NULL before they are freed; qr_stop_begin_part for each part of the end.
 * Clock     The thread updates qr_clock_awake.
 * Threads   any. One per process.
 */
#ifndef QR_WORKER_STOP_H
#define QR_WORKER_STOP_H

#include <stdbool.h>

#include "group/group.h"
#include "output/publisher.h"

#define QR_STOP_BOUND_NS INT64_C(10000000000)
#define QR_STOP_SHORT_NS INT64_C(700000000)
#define QR_STOP_PUBLISH_NS INT64_C(5000000000) /* for the last checkpoint */
/* Limit for informing all peers; some microseconds, unless a lock hangs. */
#define QR_STOP_ASK_NS INT64_C(2000000000)

/* Starts the signal thread, before any other thread, after qr_watchdog_install.
 *
 * Errors:   UNAVAILABLE: no thread; signals keep their default effect
 */
QR_MUST_CHECK enum qr_code qr_stop_start(struct qr_err *err);
void qr_stop_exit_code(int code); /* exit code after a stop request [143] */
/* Returns whether a stop was requested. */
bool qr_stop_requested(void);
/* Sets a function that the signal thread calls twice a second until a stop is requested; NULL
 * before ctx is freed. It must not block. True: what a stop request does with the group and the
 * publisher, without the time limits of one. */
void qr_stop_set_look(bool (*look)(void *ctx), void *ctx);
/* Sets the short limit (QR_STOP_SHORT_NS), until there are weights to write. Before training a
 * store may hang; while steps are computed a micro-batch may take minutes, and the goodbye is sent
 * already. */
void qr_stop_set_short(bool on);
/* Sets a watchdog for a call in which a library may hang, before an exit code is decided: like
 * qr_watchdog_arm, but without effect once a stop was requested. */
void qr_stop_bound(int64_t bound_ns, int code, const char *what);
/* Time limits of a part of the end, normally and after a stop request; what: as in
 * qr_watchdog_arm. */
struct qr_stop_part {
    int64_t normal_ns, asked_ns;
    const char *what;
};
/* Begins a part of the end; the exit code is decided. */
void qr_stop_begin_part(int code, const struct qr_stop_part *part);
/* Sets the group to interrupt, at once if a stop was requested already; NULL before it is
 * closed. */
void qr_stop_set_group(struct qr_group *group);
/* Sets the publisher that publishes a newer committed state at a stop request, also while a
 * micro-batch is computed; NULL before it is freed. */
void qr_stop_set_publisher(struct qr_publisher *publisher);

#endif
