/* monitor/health.h — do the threads that must turn still turn? Pure: counts and elapsed time in, a
 * sentence out.
 *
 * What      A watch compares a thread's count of turns (base/counter.h) with the one it saw last.
 *           Life, not progress: a worker that waits for its peers turns, and is well.
 * Bounds    A thread is stuck after `floor_ns` without a turn, or five times the longest pause that
 *           it made before, whichever is longer (a large micro-batch takes what it takes); before
 *           its first turn after `first_ns`.
 * Fairness  a process that was stopped, or got no processor, is not to blame: more than
 *           QR_HEALTH_STRIDE_NS between two looks count as that much.
 * Threads   sample and check: one. qr_watch_on: any.
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
    const char *thread; /* "the control thread" */
    enum qr_counter turns;
    int64_t floor_ns, first_ns;
    atomic_bool on;
    /* the sampler's */
    bool was_on, moved;
    int64_t seen, looked_ns, pause_ns, longest_ns;
};
/* From now on, or no more. Each time it goes on it begins afresh. */
void qr_watch_on(struct qr_watch *w, bool on);
void qr_watch_sample(struct qr_watch *w, int64_t now_ns);
/* True when all is well, or nothing is watched; else a sentence. */
bool qr_watch_check(const struct qr_watch *w, char *ret, size_t bytes);

#endif
