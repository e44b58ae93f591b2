/* worker/stop.h — SIGTERM and SIGINT: one request to stop, heard everywhere.
 *
 * What      The signals are blocked in every thread and taken by one thread that waits for them.
 *           The first one asks: the flag is set and the group, if there is one, is interrupted, so
 *           that every wait returns CANCELLED. The process then has QR_STOP_BOUND_NS, or
 *           QR_STOP_SHORT_NS while nothing but a computation would be lost. At the end of that time
 *           the last checkpoint has QR_STOP_PUBLISH_NS more; then, or at a second signal, it ends
 *           with the drain's exit code and its last words. deploy/README.md says what that makes
 *           for each thing that a worker does.
 * The end   Once the code is decided, each part of the end has a time of its own (struct
 *           qr_stop_part), and a shorter one when asked to stop, also while it is under way. A part
 *           that takes longer is left as it is, and the process ends with that code
 *           (worker/watchdog.h): whatever a library does, it has ended when the sum of the parts
 *           has
 *           passed. A second signal meanwhile ends it at once.
 * Pulse     The thread keeps qr_clock_awake going.
 * Threads   any. There is one per process.
 */
#ifndef QR_WORKER_STOP_H
#define QR_WORKER_STOP_H

#include <stdbool.h>

#include "group/group.h"
#include "output/publisher.h"

#define QR_STOP_BOUND_NS INT64_C(10000000000)
#define QR_STOP_SHORT_NS INT64_C(700000000)
#define QR_STOP_PUBLISH_NS INT64_C(5000000000) /* for the last checkpoint */
/* until everybody has been told; some microseconds, but for a lock that hangs */
#define QR_STOP_ASK_NS INT64_C(2000000000)

/* Before any other thread, after qr_watchdog_install. UNAVAILABLE: there is no thread for it, and
 * signals do what they do by default. */
QR_MUST_CHECK enum qr_code qr_stop_start(struct qr_err *err);
void qr_stop_exit_code(int code); /* 143 until told otherwise */
bool qr_stop_requested(void);
/* Until there are weights to write. Before training a bucket may hang; while steps are computed a
 * micro-batch may take minutes, and the others have heard our goodbye already. */
void qr_stop_set_short(bool on);
/* For what a library may hang in before anything is decided: as qr_watchdog_arm, while nobody asks
 * to stop. */
void qr_stop_bound(int64_t bound_ns, int code, const char *what);
/* what: as in qr_watchdog_arm */
struct qr_stop_part {
    int64_t calm_ns, asked_ns;
    const char *what;
};
/* The exit code is decided, and this part of the end begins. */
void qr_stop_begin_part(int code, const struct qr_stop_part *part);
/* The group to interrupt, at once when the request has been made already; NULL before it
 * is closed. */
void qr_stop_set_group(struct qr_group *group);
/* Who publishes a newer committed state when the request comes, also while a micro-batch is
 * computed; NULL before it is freed. */
void qr_stop_set_publisher(struct qr_publisher *publisher);

#endif
