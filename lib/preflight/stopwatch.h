/* preflight/stopwatch.h — measures how long work takes on an otherwise idle machine: by the
 * processor time of this process, which does not advance while other processes run.
 *
 * Usage     qr_stopwatch_begin, the work, qr_stopwatch_ns.
 * Model     Work shared by n threads takes as long as the calling thread computed, and at least
 *           1/n of the processor time of all threads; n is at most the number of processors.
 *           Waiting, and time without a processor, do not count.
 * Requires  that the process does no other work meanwhile.
 * Threads   both calls in the thread that starts the work. Cost: 1 us.
 * Source    clock_gettime(2): CLOCK_THREAD_CPUTIME_ID, CLOCK_PROCESS_CPUTIME_ID.
 */
#ifndef QR_PREFLIGHT_STOPWATCH_H
#define QR_PREFLIGHT_STOPWATCH_H

#include <stdint.h>

struct qr_stopwatch {
    int64_t thread_ns, process_ns;
};
struct qr_stopwatch qr_stopwatch_begin(void); /* reads the processor time so far */
/* Duration since `began`; n_threads (>= 1) share the work. */
int64_t qr_stopwatch_ns(const struct qr_stopwatch *began, unsigned n_threads);

#endif
