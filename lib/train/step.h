/* train/step.h — a member's part of one reduction: its micro-batches of a batch, summed to one
 * integer vector.
 *
 * Vector    [bad micro-batches, sum of ids of bad micro-batches, samples, read-outs by value, loss,
 *           metric sums in job order, gradients in model order, nanoseconds per rank, with the
 *           rank's pod-time in the fraction (pod_time.h)]; an EVAL reduction has no gradients.
 *           Read-outs: 15 integers with the counts of two buckets each (for TensorBoard; 240 bytes,
 *           so the histogram covers all samples, is exact, and does not depend on the number of
 *           workers).
 * Points    An optimizer may need only the loss, at two points (qr_optimizer_points). A TRAIN
 *           reduction then evaluates each sample at both and sums both; instead of gradients there
 *           is one integer, the first point's loss minus the second's. Read-outs are the second's.
 * Use       qr_stepper_new; per state qr_stepper_prepare; per reduction qr_stepper_work one or more
 *           times, then qr_stepper_sum; qr_stepper_clear before the next. Micro-batches are added
 *           one by one, by all threads of the pool, until `next` returns none, so a contribution
 *           can be interrupted and continued, also in another generation (group/elastic.md).
 * Memory    all allocated by qr_stepper_new; a step allocates nothing, unless another number of
 *           threads was requested.
 * Resizing  qr_stepper_work follows a request to the pool (qr_pool_request) before its first
 *           micro-batch and between any two: threads, and lanes with their workspaces, are added or
 *           removed, and the integers of a removed lane go to another.
 * Threads   one at a time, the pool's owner.
 */
#ifndef QR_TRAIN_STEP_H
#define QR_TRAIN_STEP_H

#include "base/clock.h"
#include "base/pool.h"
#include "data/batch.h"
#include "data/dataset.h"
#include "exact/coverage.h"
#include "model/model.h"
#include "record/result.h"

enum {
    QR_VECTOR_BAD,
    QR_VECTOR_BAD_IDS,
    QR_VECTOR_SAMPLES,
    QR_VECTOR_READOUTS,
    QR_VECTOR_SUMS = QR_VECTOR_READOUTS + QR_READOUT_BUCKETS / 2
};

struct qr_stepper;
struct qr_stepper_options {
    const struct qr_model *model;
    const struct qr_dataset *data;
    size_t micro_batch_size;
    uint64_t seed;   /* of random numbers drawn in training */
    size_t n_points; /* 1 or 2 */
    bool idle; /* computes no micro-batches: allocates a workspace only to find a bad sample */
    uint32_t rank, n_members;
    struct qr_pool *pool;
    const struct qr_clock *clock;
};
QR_MUST_CHECK enum qr_code qr_stepper_new(const struct qr_stepper_options *opt,
                                          struct qr_stepper **ret, struct qr_err *err);
void qr_stepper_free(struct qr_stepper *s);

/* A reduction's samples: positions begin..end-1 of sample[] (NULL: the positions themselves). */
struct qr_step_work {
    enum qr_reduction_kind kind;
    struct qr_range range;
    const uint32_t *sample;
    uint64_t step; /* number of updates before it */
    struct qr_coverage_key key;
};
/* Number of micro-batches of a reduction. */
size_t qr_stepper_micro_batches(const struct qr_stepper *s, const struct qr_step_work *w);
/* Number of integers of a vector, with a slot for each rank. */
size_t qr_stepper_vector_length(const struct qr_stepper *s, enum qr_reduction_kind kind);
/* Prepares for these weights, which must stay unchanged until the next call. */
void qr_stepper_prepare(struct qr_stepper *s, const double *weights);
/* Prepares for both points, before a TRAIN reduction with two points. */
void qr_stepper_prepare_points(struct qr_stepper *s, const double *plus, const double *minus);
/* Sets this member's rank (its slot for nanoseconds) and the number of members (length of the
 * vector). */
void qr_stepper_set_rank(struct qr_stepper *s, uint32_t rank, uint32_t n_members);
/* Sets the pod-time and limit bit that the next sums contain (pod_time.h). */
void qr_stepper_set_pod_time(struct qr_stepper *s, uint64_t pod_ms, bool bound);
/* Discards what was added. */
void qr_stepper_clear(struct qr_stepper *s);
/* Adds micro-batches until next returns false.
 *
 * Args:     n_left  at most this many
 *           next    returns the next micro-batch; called on any of the pool's threads
 * Errors:   RESOURCE_EXHAUSTED: no memory for a workspace of another number of threads
 */
typedef bool qr_stepper_next_fn(void *ctx, uint64_t *ret_micro_batch);
QR_MUST_CHECK enum qr_code qr_stepper_work(struct qr_stepper *s, const struct qr_step_work *w,
                                           size_t n_left, qr_stepper_next_fn *next, void *ctx,
                                           struct qr_err *err);
/* Sums the lanes.
 *
 * Args:     ret_vector  the stepper's, valid until the next sum
 */
void qr_stepper_sum(struct qr_stepper *s, enum qr_reduction_kind kind, const qr_fixed **ret_vector,
                    struct qr_coverage *ret_coverage);
/* Longest time of a micro-batch so far; 0: none yet. */
int64_t qr_stepper_micro_batch_ns(const struct qr_stepper *s);
/* Computes without a group: the micro-batches b with b mod n_members = rank. For a pool that gets
 * no requests. */
void qr_stepper_compute(struct qr_stepper *s, const struct qr_step_work *w,
                        const qr_fixed **ret_vector, struct qr_coverage *ret_coverage);
/* Unpacks the read-out counts of a summed vector. */
void qr_stepper_readouts(const qr_fixed *vector, uint64_t ret[QR_READOUT_BUCKETS]);
/* Finds the first bad sample after a sum with bad micro-batches, by computing the samples of the
 * first bad micro-batch one by one. The message is the same on every member.
 *
 * Args:     step          number of the step in the message
 *           bad, bad_ids  number of bad micro-batches, and the sum of their ids
 * Errors:   OUT_OF_RANGE always
 */
enum qr_code qr_stepper_find_bad_sample(struct qr_stepper *s, const struct qr_step_work *w,
                                        uint64_t step, uint64_t bad, uint64_t bad_ids,
                                        struct qr_err *err);

#endif
