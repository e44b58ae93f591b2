/* preflight/stopwatch.c — a stopwatch of processor time. */
#include "preflight/stopwatch.h"

#include <time.h>

#include "base/clock.h"
#include "base/pool.h"

static int64_t cpu_time_ns(clockid_t clock_id) {
    struct timespec t = {0};
    clock_gettime(clock_id, &t);
    return (int64_t)t.tv_sec * QR_SECOND + t.tv_nsec;
}

struct qr_stopwatch qr_stopwatch_begin(void) {
    return (struct qr_stopwatch){cpu_time_ns(CLOCK_THREAD_CPUTIME_ID),
                                 cpu_time_ns(CLOCK_PROCESS_CPUTIME_ID)};
}

int64_t qr_stopwatch_ns(const struct qr_stopwatch *began, unsigned n_threads) {
    unsigned n_cpus = qr_cpu_limit(), at_once = n_threads < n_cpus ? n_threads : n_cpus;
    int64_t own = cpu_time_ns(CLOCK_THREAD_CPUTIME_ID) - began->thread_ns;
    int64_t share = (cpu_time_ns(CLOCK_PROCESS_CPUTIME_ID) - began->process_ns) / (int64_t)at_once;
    return own > share ? own : share;
}
