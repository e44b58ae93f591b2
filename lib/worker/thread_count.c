/* worker/thread_count.c — the number of threads, decided from readings of the pod's limits. Start
 * reading at qr_thread_count_look(). */
#include "worker/thread_count.h"

#include <limits.h>
#include <math.h>

#include "base/clock.h"

/* Looks come twice a second. */
static const int64_t settle_ns = 400 * QR_MS, window_ns = 900 * QR_MS, hold_ns = 10 * QR_SECOND,
                     hold_most_ns = 320 * QR_SECOND;
/* A share this much above a whole number does not deserve one more thread. */
static const double whole_share = 0.1;
/* A share is throttled if its threads were stopped for this part of the time. */
static const double least_withheld = 0.2;

static unsigned lesser(unsigned a, unsigned b) { return a < b ? a : b; }

/* Rule 1. */
static void count_limit(struct qr_thread_count *t, const struct qr_pod_reading *r, int64_t now_ns) {
    if (r->cpus != t->seen) t->seen_ns = now_ns;
    t->seen = r->cpus;
    if (t->limit == t->seen || (t->limit && now_ns - t->seen_ns < settle_ns)) return;
    t->limit = t->seen;
    t->cap = 0;
    t->hold_ns = hold_ns;
}

/* Rule 2: threads that the share of this process deserves; 0: the share was not throttled. */
static unsigned count_share(const struct qr_thread_count *t, const struct qr_pod_reading *r,
                            double ns, double *ret_share) {
    const struct qr_throttling *from = &t->window.throttling, *to = &r->throttling;
    /* Another parent group may have been read, which counts differently. */
    if (to->periods <= from->periods || to->throttled_periods < from->throttled_periods ||
        to->throttled_ns < from->throttled_ns)
        return 0;
    double used = (double)(r->cpu_ns - t->window.cpu_ns) / ns,
           withheld = (double)(to->throttled_ns - from->throttled_ns) / ns;
    uint64_t periods = to->periods - from->periods,
             throttled = to->throttled_periods - from->throttled_periods;
    /* Otherwise the threads were idle for other reasons, such as waiting for peers. Kernels differ
     * in whether the time counts once or for each CPU. */
    if (2 * throttled < periods || withheld < least_withheld) return 0;
    *ret_share = used;
    return used > 1 ? (unsigned)ceil(used - whole_share) : 1;
}

static void count_throttled(struct qr_thread_count *t, const struct qr_pod_reading *r,
                            int64_t now_ns) {
    if (now_ns - t->window_ns < window_ns) return;
    double share = 0;
    unsigned n = count_share(t, r, (double)(now_ns - t->window_ns), &share);
    t->window = *r;
    t->window_ns = now_ns;
    if (n && n < t->n) {
        bool again = t->released_ns && now_ns - t->released_ns < t->hold_ns;
        if (!t->cap) t->hold_ns = again ? 2 * t->hold_ns : hold_ns;
        if (t->hold_ns > hold_most_ns) t->hold_ns = hold_most_ns;
        t->cap = n;
        t->share = share;
        t->capped_ns = now_ns;
    } else if (t->cap && now_ns - t->capped_ns >= t->hold_ns) {
        t->cap = 0;
        t->released_ns = now_ns;
    }
}

uint64_t qr_thread_count_bytes(const struct qr_thread_count *t, unsigned n) {
    uint64_t all;
    if (__builtin_mul_overflow(t->bytes_per_thread, n, &all) ||
        __builtin_add_overflow(all, t->bytes, &all))
        return UINT64_MAX;
    return all;
}

/* Rule 3. */
static void count_memory(struct qr_thread_count *t, uint64_t limit) {
    uint64_t left = limit > t->bytes ? limit - t->bytes : 0,
             n = t->bytes_per_thread ? left / t->bytes_per_thread : UINT_MAX;
    t->n_memory = n < UINT_MAX ? (unsigned)n : UINT_MAX;
    t->memory_is_short = limit < qr_thread_count_bytes(t, t->fixed ? t->fixed : 1);
}

void qr_thread_count_look(struct qr_thread_count *t, const struct qr_pod_reading *reading,
                          int64_t now_ns) {
    unsigned before = t->n;
    count_limit(t, reading, now_ns);
    count_throttled(t, reading, now_ns);
    count_memory(t, reading->memory_limit);
    t->last = *reading;
    t->n = lesser(t->limit, t->n_memory);
    if (t->cap) t->n = lesser(t->n, t->cap);
    if (t->n < 1) t->n = 1;
    if (t->fixed) t->n = t->fixed;
    if (t->n == before) return;
    t->window = *reading;
    t->window_ns = now_ns;
}

void qr_thread_count_reason(const struct qr_thread_count *t, struct qr_buf *ret) {
    if (t->cap && t->n == t->cap && t->cap < t->limit)
        qr_buf_printf(ret, "CPU share is %.2g of a limit of %.3g", t->share, t->last.cpu_limit);
    else if (t->n < t->limit)
        qr_buf_printf(ret, "memory limit is %llu bytes", (unsigned long long)t->last.memory_limit);
    else qr_buf_printf(ret, "CPU limit is %.3g", t->last.cpu_limit);
}
