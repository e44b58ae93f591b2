/* preflight/estimate.h — how long a job will take, and the number of workers that pays off.
 *
 * Model     A step of n workers takes  own + waves * wave + reduce:
 *             waves   micro-batches go round-robin, so the busiest worker has ceil(their number /
 *                     n); `lanes` of them run side by side, a short one counted as a whole one;
 *             reduce  the schedule's rounds, each one message and its bytes: doubling log2 n of the
 *                     whole vector, and 2 more where n is no power of two; star 2, and n-1 vectors
 *                     through worker 0 each way; ring 2(n-1) of an n-th, halving as many bytes in
 *                     2 log2 n. With one worker nothing.
 *           An epoch is its steps and one pass over the validation samples, whose sum has no
 *           gradients. Start, end and data loading are left out.
 * Pays off  the number of workers that ends soonest, among those with a speed-up of at least half
 *           their number; the fewest of equals. So a recommended run never costs more than twice
 *           the pod-hours of a single worker.
 * Pure      a function of its arguments. Seconds are as measured or assumed by the caller.
 * Source    the schedules are collective/allreduce_schedule.h's.
 */
#ifndef QR_PREFLIGHT_ESTIMATE_H
#define QR_PREFLIGHT_ESTIMATE_H

#include <stdbool.h>

#include "collective/contribution.h"

struct qr_estimate_facts {
    uint64_t n_train, n_validate, batch_size, micro_batch_size, epochs, n_derivatives, n_sums;
    /* micro-batches that run side by side on one worker: its threads, or 1 where all threads
     * share one */
    unsigned lanes;
    double train_wave_s, validate_wave_s; /* so many micro-batches, with and without the gradient */
    /* of a step on each worker whatever n is: numbers for the state, the update */
    double own_s;
    double message_s;   /* from the send on one pod to the receipt on another */
    double bytes_per_s; /* between two pods */
    enum qr_allreduce allreduce;
};

struct qr_estimate_row {
    unsigned n_workers;
    double step_s;    /* of a whole batch */
    double total_s;   /* of all epochs */
    double speedup;   /* of the total against one worker's */
    double pod_hours; /* n_workers * total_s / 3600 */
};
/* n_workers >= 1, micro_batch_size, batch_size, lanes >= 1. */
struct qr_estimate_row qr_estimate_row(const struct qr_estimate_facts *f, unsigned n_workers);
/* The number of workers in 1 ... max_workers that pays off. */
unsigned qr_estimate_best(const struct qr_estimate_facts *f, unsigned max_workers);
/* Seconds to sum n_integers over so many workers. */
double qr_estimate_reduce_s(const struct qr_estimate_facts *f, unsigned n_workers,
                            uint64_t n_integers);

#endif
