#include "preflight/stopwatch.h"

#include <time.h>

#include "base/clock.h"
#include "base/pool.h"

static int64_t used_ns(clockid_t whose) {
    struct timespec t = {0};
    clock_gettime(whose, &t);
    return (int64_t)t.tv_sec * QR_SECOND + t.tv_nsec;
}

struct qr_stopwatch qr_stopwatch_begin(void) {
    return (struct qr_stopwatch){used_ns(CLOCK_THREAD_CPUTIME_ID),
                                 used_ns(CLOCK_PROCESS_CPUTIME_ID)};
}

int64_t qr_stopwatch_ns(const struct qr_stopwatch *began, unsigned n_threads) {
    unsigned n_cpus = qr_cpu_limit(), at_once = n_threads < n_cpus ? n_threads : n_cpus;
    int64_t own = used_ns(CLOCK_THREAD_CPUTIME_ID) - began->thread_ns;
    int64_t share = (used_ns(CLOCK_PROCESS_CPUTIME_ID) - began->process_ns) / (int64_t)at_once;
    return own > share ? own : share;
}
