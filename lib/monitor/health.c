/* monitor/health.c — measures the pauses of a watched thread. Start reading at
 * qr_watch_sample(). */
#include "monitor/health.h"

#include <stdio.h>

void qr_watch_on(struct qr_watch *w, bool on) {
    atomic_store_explicit(&w->on, on, memory_order_relaxed);
}

void qr_watch_sample(struct qr_watch *w, int64_t now_ns) {
    int64_t turns = qr_counter_value(w->turns), elapsed_ns = now_ns - w->looked_ns;
    bool on = atomic_load_explicit(&w->on, memory_order_relaxed);
    if (!on || !w->was_on) {
        w->was_on = on;
        w->moved = false;
        w->pause_ns = w->longest_ns = 0;
    } else if (turns != w->seen) {
        if (w->moved && w->pause_ns > w->longest_ns) w->longest_ns = w->pause_ns;
        w->moved = true;
        w->pause_ns = 0;
    } else {
        w->pause_ns += elapsed_ns < QR_HEALTH_STRIDE_NS ? elapsed_ns : QR_HEALTH_STRIDE_NS;
    }
    w->seen = turns;
    w->looked_ns = now_ns;
}

bool qr_watch_check(const struct qr_watch *w, char *ret, size_t bytes) {
    int64_t bound_ns = !w->moved                         ? w->first_ns
                       : 5 * w->longest_ns > w->floor_ns ? 5 * w->longest_ns
                                                         : w->floor_ns;
    if (!w->was_on || w->pause_ns <= bound_ns) return true;
    snprintf(ret, bytes, "%s has been stuck for %.1f s (limit: %.1f s)", w->thread,
             (double)w->pause_ns / 1e9, (double)bound_ns / 1e9);
    return false;
}
