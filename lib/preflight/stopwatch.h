/* preflight/stopwatch.h — how long work takes on this machine when nobody else wants it: by the
 * time that processors gave to this process, not by a clock that runs on while others have them.
 *
 * Model     Work that n threads share takes as long as the thread computed that asked for it, and
 *           at least the n-th part of what all threads computed; n is not more than the processors
 *           there are. What a thread waits for, or is kept from a processor, does not count.
 * Wants     that the process does nothing else meanwhile.
 * Threads   begin and end in the thread that asks for the work. Cost: a microsecond.
 * Source    clock_gettime(2): CLOCK_THREAD_CPUTIME_ID, CLOCK_PROCESS_CPUTIME_ID.
 */
#ifndef QR_PREFLIGHT_STOPWATCH_H
#define QR_PREFLIGHT_STOPWATCH_H

#include <stdint.h>

struct qr_stopwatch {
    int64_t thread_ns, process_ns;
};
struct qr_stopwatch qr_stopwatch_begin(void);
/* Since then; n_threads >= 1: that share the work. */
int64_t qr_stopwatch_ns(const struct qr_stopwatch *began, unsigned n_threads);

#endif
