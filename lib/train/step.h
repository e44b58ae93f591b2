/* train/step.h — one reduction's worth of work: the micro-batches of a batch that are ours → one
 * integer vector.
 *
 * Vector    [bad micro-batches, sum of ids of bad micro-batches, samples, read-outs by value, loss,
 *           metric sums in job order, gradients in model order, nanoseconds per rank, with what it
 *           knows of the run's pod-time in the fraction (pod_time.h)]; an EVAL
 *           reduction has no gradients. Read-outs: 15 integers with the counts of two buckets each
 *           (for TensorBoard; 240 bytes, so the histogram is that of all samples, exact, and the
 *           same for any number of workers).
 * Two points       where the optimizer wants the loss alone, at two (qr_optimizer_points): a TRAIN
 *           reduction evaluates each sample at both, sums are of both, and instead of gradients
 *           there is one integer, the first point's loss less the second's. Read-outs are the
 *           second's.
 * Micro-batches    are added one by one, by as many threads as the pool has, until `take` has no
 *           more: a contribution may be begun, interrupted and gone on with, in another generation
 *           too (group/elastic.md).
 * Memory    everything is made by qr_stepper_new; a step allocates nothing.
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
    uint64_t seed;   /* of what is drawn in training */
    size_t n_points; /* 1 or 2 */
    bool idle; /* it computes no micro-batches: no workspace until a bad sample is looked for */
    uint32_t rank, n_members;
    struct qr_pool *pool;
    const struct qr_clock *clock;
};
QR_MUST_CHECK enum qr_code qr_stepper_new(const struct qr_stepper_options *opt,
                                          struct qr_stepper **ret, struct qr_err *err);
void qr_stepper_free(struct qr_stepper *s);

/* The samples of a step: positions begin..end-1 of sample[] (NULL: the positions themselves). */
struct qr_step_work {
    enum qr_reduction_kind kind;
    struct qr_range range;
    const uint32_t *sample;
    uint64_t step; /* updates before it */
    struct qr_coverage_key key;
};
size_t qr_stepper_micro_batches(const struct qr_stepper *s, const struct qr_step_work *w);
size_t qr_stepper_vector_length(const struct qr_stepper *s, enum qr_reduction_kind kind);
/* Numbers for this state's weights, which stay as they are until the next ones. */
void qr_stepper_prepare(struct qr_stepper *s, const double *weights);
/* Or, before a TRAIN reduction of two points, for both. */
void qr_stepper_prepare_points(struct qr_stepper *s, const double *plus, const double *minus);
/* This member's place from now on: where its nanoseconds go, and how long the vector is. */
void qr_stepper_set_rank(struct qr_stepper *s, uint32_t rank, uint32_t n_members);
/* What this member says of pod-time with its next sums (pod_time.h). */
void qr_stepper_set_pod_time(struct qr_stepper *s, uint64_t pod_ms, bool bound);
/* Forgets what was added. */
void qr_stepper_clear(struct qr_stepper *s);
/* Adds micro-batches, at most n_left of them, until take says that there is no more. Any of the
 * pool's threads calls it. */
typedef bool qr_stepper_next_fn(void *ctx, uint64_t *ret_micro_batch);
void qr_stepper_work(struct qr_stepper *s, const struct qr_step_work *w, size_t n_left,
                     qr_stepper_next_fn *take, void *ctx);
/* Adds what another worker computed: n integers, a lane's layout without nanoseconds, and
 * their coverage. */
void qr_stepper_add(struct qr_stepper *s, const qr_fixed *vector, size_t n,
                    struct qr_coverage coverage);
/* From another thread, while micro-batches are computed: what was added of those that are
 * finished, without nanoseconds, and those in flight (at most QR_STEPPER_IN_FLIGHT; false when
 * there are more). Only where a micro-batch takes long, and sums are no longer than what is handed
 * over; else false. */
enum { QR_STEPPER_IN_FLIGHT = 256 };
bool qr_stepper_finished(struct qr_stepper *s, const qr_fixed **ret_vector, size_t *ret_n,
                         struct qr_coverage *ret_coverage,
                         uint64_t ret_in_flight[QR_STEPPER_IN_FLIGHT], size_t *ret_n_in_flight);
/* What was added: *ret_vector stays the stepper's until the next sum. */
void qr_stepper_sum(struct qr_stepper *s, enum qr_reduction_kind kind, const qr_fixed **ret_vector,
                    struct qr_coverage *ret_coverage);
/* so many micro-batches are computed at the same time */
unsigned qr_stepper_concurrency(const struct qr_stepper *s);
/* the longest that a micro-batch took; 0: none yet */
int64_t qr_stepper_micro_batch_ns(const struct qr_stepper *s);
/* All at once, without a group: the micro-batches b with b mod n_members = rank. */
void qr_stepper_compute(struct qr_stepper *s, const struct qr_step_work *w,
                        const qr_fixed **ret_vector, struct qr_coverage *ret_coverage);
/* The read-outs of a summed vector. */
void qr_stepper_readouts(const qr_fixed *vector, uint64_t ret[QR_READOUT_BUCKETS]);
/* After a sum with bad micro-batches: finds the first sample of the first bad micro-batch by
 * running samples one by one, and says the sentence that every member says. OUT_OF_RANGE. */
enum qr_code qr_stepper_find_bad_sample(struct qr_stepper *s, const struct qr_step_work *w,
                                        uint64_t step, uint64_t bad, uint64_t bad_ids,
                                        struct qr_err *err);

#endif
