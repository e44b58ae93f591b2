/* preflight/estimate.h — estimates the duration of a job, and recommends a number of workers.
 *
 * Model     A step of n workers takes  own + waves * wave + reduce:
 *             waves   micro-batches are assigned round-robin, so the busiest worker has ceil(their
 *                     number / n); `lanes` of them run in parallel; a short one counts as a full
 *                     one;
 *             reduce  the rounds of the schedule (collective/allreduce_schedule.h), each one
 *                     message and its bytes: doubling log2 n rounds of the whole vector, and 2 more
 *                     when n is not a power of two; star 2 rounds, with n-1 vectors through worker
 *                     0 each way; ring 2(n-1) rounds of an n-th; halving as many bytes as ring in
 *                     2 log2 n rounds. With one worker 0 s.
 *           An epoch is its steps and one pass over the validation samples, whose sum has no
 *           gradients. Start, end and data loading are not included.
 * Advice    The recommended number of workers is the fastest among those with a speed-up of at
 *           least half their number; of equals the smallest. So a recommended run never costs more
 *           than twice the pod-hours of a single worker.
 * Pure      Functions of their arguments. The caller measures or assumes all times.
 * Threads   any.
 */
#ifndef QR_PREFLIGHT_ESTIMATE_H
#define QR_PREFLIGHT_ESTIMATE_H

#include <stdbool.h>

#include "collective/contribution.h"

struct qr_estimate_facts {
    uint64_t n_train, n_validate, batch_size, micro_batch_size, epochs, n_derivatives, n_sums;
    /* micro-batches that run in parallel on one worker: its threads, or 1 when all threads share a
     * micro-batch */
    unsigned lanes;
    /* time of `lanes` micro-batches, with and without the gradient */
    double train_wave_s, validate_wave_s;
    /* time of a step on each worker that does not depend on n: state preparation, update */
    double own_s;
    double message_s;   /* from the send on one pod to the receipt on another */
    double bytes_per_s; /* between two pods */
    enum qr_allreduce allreduce;
};

struct qr_estimate_row {
    unsigned n_workers;
    double step_s;    /* of a full batch */
    double total_s;   /* of all epochs */
    double speedup;   /* total of one worker / total_s */
    double pod_hours; /* n_workers * total_s / 3600 */
};
/* Requires n_workers, micro_batch_size, batch_size and lanes >= 1. */
struct qr_estimate_row qr_estimate_row(const struct qr_estimate_facts *f, unsigned n_workers);
/* The recommended number of workers in 1 ... max_workers. */
unsigned qr_estimate_best(const struct qr_estimate_facts *f, unsigned max_workers);
/* Seconds to sum n_integers over n_workers. */
double qr_estimate_reduce_s(const struct qr_estimate_facts *f, unsigned n_workers,
                            uint64_t n_integers);

#endif
