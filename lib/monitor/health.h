/* monitor/health.h — detects a stuck thread by its count of loop iterations. Pure: counts and
 * elapsed time in, a sentence out.
 *
 * What      A watch compares a thread's counter of loop iterations ("turns", base/counter.h) with
 *           the value it saw last. It checks for life, not for progress: a worker that waits for
 *           its peers keeps iterating and is healthy.
 * Use       qr_watch_on when the thread starts; qr_watch_sample at least every second;
 *           qr_watch_check for each probe.
 * Bounds    A thread is stuck after `floor_ns` without an iteration, or after five times the
 *           longest pause so far, whichever is longer (a large micro-batch takes long); before its
 *           first iteration, after `first_ns`.
 * Fairness  The process may be stopped or starved of CPU: more than QR_HEALTH_STRIDE_NS between two
 *           samples count as QR_HEALTH_STRIDE_NS.
 * Threads   sample and check: one thread. qr_watch_on: any.
 */
#ifndef QR_MONITOR_HEALTH_H
#define QR_MONITOR_HEALTH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/counter.h"

#define QR_HEALTH_STRIDE_NS (2 * QR_SECOND)

struct qr_watch {
    const char *thread;         /* its name for messages: "the control thread" */
    enum qr_counter turns;      /* its counter of iterations */
    int64_t floor_ns, first_ns; /* bounds, see above */
    atomic_bool on;
    /* State of qr_watch_sample */
    bool was_on, moved;
    int64_t seen, looked_ns, pause_ns, longest_ns;
};
/* Starts or stops the watch. Each start resets its state. */
void qr_watch_on(struct qr_watch *w, bool on);
void qr_watch_sample(struct qr_watch *w, int64_t now_ns);
/* True when the thread is healthy or not watched; else writes a sentence into ret[bytes]. */
bool qr_watch_check(const struct qr_watch *w, char *ret, size_t bytes);

#endif
