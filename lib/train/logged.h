/* train/logged.h — values that a job logs under its own names: train.log, expressions of the values
 * of a step or an evaluation.
 *
 * Step         step number, epoch, samples, learning rate, the norm of the gradient before
 *              clipping, and the batch's loss, metrics and watched observables.
 * Evaluation   the step and epoch it follows, its samples, the last step's learning rate; the
 *              epoch's means over training, and the evaluation's values with the prefix val_.
 * Location     after the metrics in a line of the log (struct qr_step_values), so they are
 *              transferred with the line, and every member reports the same bits.
 * Threads      any (pure functions).
 * Cost         nothing for a job that logs nothing.
 */
#ifndef QR_TRAIN_LOGGED_H
#define QR_TRAIN_LOGGED_H

#include "job/job.h"
#include "record/result.h"
#include "train/state.h"
#include "train/state_transfer.h"

_Static_assert((int)QR_LINE_VALUES >= 1 + (int)QR_MAX_METRICS + (int)QR_MAX_LOGGED,
               "a line holds all values");

/* Computes the logged values of a line and appends them to its model values.
 *
 * Args:     s         the state after the line
 *           gradient  of a step, n_params; NULL for an evaluation
 */
void qr_logged_add(const struct qr_job *job, const struct qr_model *m, const struct qr_state *s,
                   const double *gradient, struct qr_step_values *line);
/* Converts a line to the form that recorders write.
 *
 * Args:     ret_metrics  QR_LINE_VALUES entries, ret_logged QR_MAX_LOGGED entries; *ret borrows
 *           both
 */
void qr_logged_line(const struct qr_job *job, const struct qr_model *m,
                    const struct qr_step_values *line, struct qr_named_value *ret_metrics,
                    struct qr_named_value *ret_logged, struct qr_step_line *ret);
/* Returns the value at the end of an epoch that early stopping monitors, from the state after the
 * epoch only. Step expressions use the epoch's means and all its samples.
 *
 * Args:     n_validation  number of validation samples
 */
double qr_logged_epoch(const struct qr_job *job, const struct qr_model *m, const struct qr_state *s,
                       const struct qr_epoch_value *v, uint64_t n_validation);
/* Returns the logged values of the last epoch, for the result of a run that ends in state s. Values
 * with gradient_norm are left out: a state does not keep the gradient, and a result does not depend
 * on the process that writes it.
 *
 * Returns:  number of values in ret
 */
size_t qr_logged_last(const struct qr_job *job, const struct qr_model *m, const struct qr_state *s,
                      uint64_t n_validation, struct qr_named_value *ret);
/* Registers the names of all values except the losses for /metrics, and publishes those of a
 * line. */
void qr_logged_register(const struct qr_job *job, const struct qr_model *m);
void qr_logged_publish(const struct qr_job *job, const struct qr_model *m,
                       const struct qr_step_values *line);

#endif
