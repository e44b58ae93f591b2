/* train/logged.h — values that a job logs by names of its own: train.log, expressions of what a
 * step or an evaluation has.
 *
 * Of a step    its number, epoch, samples, learning rate, the norm of its gradient before clipping,
 *              and the batch's loss, metrics and watched observables.
 * Of an        step and epoch after which it is, its samples, the last step's learning rate; the
 * evaluation   epoch's means over training, and the evaluation's with val_ in front.
 * Where        behind the metrics in a line of the log (struct qr_step_values), so they change
 *           hands
 *              with it, and whoever reports it reports the same bits.
 * Threads      pure. Cost: nothing for a job that logs nothing.
 */
#ifndef QR_TRAIN_LOGGED_H
#define QR_TRAIN_LOGGED_H

#include "job/job.h"
#include "record/result.h"
#include "train/state.h"
#include "train/state_transfer.h"

_Static_assert((int)QR_LINE_VALUES >= 1 + (int)QR_MAX_METRICS + (int)QR_MAX_LOGGED,
               "a line has room for all");

/* Puts those of this line behind its n model's values. s: the state after it; gradient: of a
 * step. */
void qr_logged_add(const struct qr_job *job, const struct qr_model *m, const struct qr_state *s,
                   const double *gradient, struct qr_step_values *line);
/* Those of a line; names are the job's. *ret has room for QR_MAX_LOGGED. */
size_t qr_logged_of(const struct qr_job *job, const struct qr_model *m,
                    const struct qr_step_values *line, struct qr_named_value *ret);
/* The line as it is written; its values stand in ret_metrics (QR_LINE_VALUES) and ret_logged
 * (QR_MAX_LOGGED), which *ret borrows. */
void qr_logged_line(const struct qr_job *job, const struct qr_model *m,
                    const struct qr_step_values *line, struct qr_named_value *ret_metrics,
                    struct qr_named_value *ret_logged, struct qr_step_line *ret);
/* What an epoch ended with, from the state after it alone: what early stopping goes by. An
 * expression of a step is taken of the epoch's means, and of all its samples. */
double qr_logged_epoch(const struct qr_job *job, const struct qr_model *m, const struct qr_state *s,
                       const struct qr_epoch_value *v, uint64_t n_validation);
/* Those of the last epoch when the run ends in state s. One that names gradient_norm is the last
 * step's, and stands in the last lines unless this process began from that very state. */
size_t qr_logged_last(const struct qr_job *job, const struct qr_model *m, const struct qr_state *s,
                      const struct qr_lines *lines, uint64_t n_validation,
                      struct qr_named_value *ret);
/* For /metrics: the names of all values but the losses, and those of a line. */
void qr_logged_register(const struct qr_job *job, const struct qr_model *m);
void qr_logged_publish(const struct qr_job *job, const struct qr_model *m,
                       const struct qr_step_values *line);

#endif
