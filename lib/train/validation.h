/* train/validation.h — the evaluation of a committed state by one process outside of the ring: what
 * the step loop's own evaluation of that state sums, and the line that it reports.
 *
 * Numbers   those of an EVAL reduction of the same state to the last bit: loss with penalties,
 *           metrics, watched values, what the job logs of an evaluation, the read-outs' histogram.
 *           A state need not end an epoch; the line's epoch is the one that its last step was in.
 * Memory    everything is made by qr_validation_pass_new.
 * Threads   one, and the pool's.
 */
#ifndef QR_TRAIN_VALIDATION_H
#define QR_TRAIN_VALIDATION_H

#include "train/step.h"
#include "train/state_transfer.h"

struct qr_validation_pass_options { /* all borrowed */
    const struct qr_job *job;
    const struct qr_model *model;
    const struct qr_dataset *data; /* with samples that do not train */
    struct qr_pool *pool;
    const struct qr_clock *clock;
    bool (*stopping)(void *ctx); /* no further micro-batch is begun; any thread; NULL: never */
    void *stopping_ctx;
};
struct qr_validation_pass;
QR_MUST_CHECK enum qr_code qr_validation_pass_new(const struct qr_validation_pass_options *opt,
                                                  struct qr_validation_pass **ret,
                                                  struct qr_err *err);
void qr_validation_pass_free(struct qr_validation_pass *h); /* NULL is fine */
/* s: of this job, after one step at least. OUT_OF_RANGE names the sample whose numbers are bad, as
 * training does; CANCELLED: it was to stop. */
QR_MUST_CHECK enum qr_code qr_validation_pass_evaluate(struct qr_validation_pass *h,
                                                       const struct qr_state *s,
                                                       struct qr_step_values *ret,
                                                       struct qr_err *err);

#endif
