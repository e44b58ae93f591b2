/* train/validation.h — evaluates a committed state in one process outside the ring, with the same
 * sums as the step loop's evaluation of that state.
 *
 * Numbers   those of an EVAL reduction of the same state to the last bit: loss with penalties,
 *           metrics, watched values, logged values of an evaluation, the read-outs' histogram.
 *           A state need not end an epoch; the line's epoch is that of its last step.
 * Memory    all allocated by qr_validation_pass_new.
 * Threads   one, and the pool's.
 */
#ifndef QR_TRAIN_VALIDATION_H
#define QR_TRAIN_VALIDATION_H

#include "train/step.h"
#include "train/state_transfer.h"

struct qr_validation_pass_options { /* all borrowed */
    const struct qr_job *job;
    const struct qr_model *model;
    const struct qr_dataset *data; /* with validation samples */
    struct qr_pool *pool;
    const struct qr_clock *clock;
    bool (*stopping)(void *ctx); /* true: begin no further micro-batch; any thread; NULL: never */
    void *stopping_ctx;
};
struct qr_validation_pass;
QR_MUST_CHECK enum qr_code qr_validation_pass_new(const struct qr_validation_pass_options *opt,
                                                  struct qr_validation_pass **ret,
                                                  struct qr_err *err);
void qr_validation_pass_free(struct qr_validation_pass *h);
/* Evaluates a state.
 *
 * Args:     s    of this job, after at least one step
 * Errors:   OUT_OF_RANGE: names the sample with bad numbers, as training does; CANCELLED: stopped
 *           by opt->stopping
 */
QR_MUST_CHECK enum qr_code qr_validation_pass_evaluate(struct qr_validation_pass *h,
                                                       const struct qr_state *s,
                                                       struct qr_step_values *ret,
                                                       struct qr_err *err);

#endif
