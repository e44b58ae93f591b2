/* record/tensorboard.h — what TensorBoard shows of a run: event files in LOGDIR, LOGDIR/train
 * and LOGDIR/validation; of an evaluator those in LOGDIR/evaluator.
 *
 * Tags      train/: epoch_loss, epoch_<metric>, epoch_learning_rate (step: the epoch, from 0, as in
 *           Keras), <weight>/histogram each epoch (parameters_0, dense/kernel_0 ... as Keras names
 *           them; pqc_1/parameters_0 for further filters, which Keras puts into one), batch_loss,
 *           batch_<metric>, batch_gradient_norm (of all gradients), batch_gradient_norm/<weight>
 *           and batch_gradient_variance/<weight> (over the parameters of one quantum layer: it
 *           falls towards 0 on a barren plateau) at true steps. validation/: epoch_loss,
 *           epoch_<metric>, evaluation_<loss, metric>_vs_iterations. What the user logs has a
 *           metric's tags, of steps or of evaluations. Where a price is set, train/ has cost and
 *           cost_pod_hours, so far, each epoch.
 *           Both: Readouts, the values that the quantum layer gave for all samples of the batch
 *           (whoever computed them), at the weights before the step: what the tutorial's
 *           ReadoutHistogramLayer wrote, but at true steps. 30 buckets over all that a read-out can
 *           be (-1 ... 1 for Z), so that steps compare. Every step up to 128, then 64 for each
 *           doubling; every validation. The folder itself: the HParams plugin's experiment, session
 *           start and end, and its metrics each epoch: loss, <metric>, val_loss, val_<metric>. The
 *           plugin shows the last ones; where the weights that are written are not the last
 *           epoch's, their values follow at the end, a step behind that epoch. (It finds none in
 *           train/ and validation/ when the folder itself is TensorBoard's --logdir: it looks for
 *           "./train".)
 *           train/ begins with the model's graph, once for each process: readers draw the last one
 *           of a run.
 *           evaluator/, which has no session: validation/'s tags at the steps whose states were
 *           evaluated; those of an epoch where one ends.
 * Files     made by the first record, new ones for each process (so one writer each), only ever
 *           extended, and by whole records: at most a second's worth is held back, nothing at the
 *           end of an epoch. What a killed process leaves is readable. Where max_file_bytes is
 *           given, a file that has reached it is left for a new one, whose name sorts behind.
 * Steps     a fresh run (step 1) tells readers to forget what an earlier one left under the same
 *           names; one that continues at step s, what is from step s on.
 * Cost      a few microseconds a step; no allocation once the buffers have grown. Nothing is synced
 *           to disk.
 * Threads   one. Clocks are passed in: monotonic for the second, wall for the events' times.
 */
#ifndef QR_RECORD_TENSORBOARD_H
#define QR_RECORD_TENSORBOARD_H

#include "base/clock.h"
#include "format/event.h"
#include "record/result.h"
#include "record/weights.h"

struct qr_tensorboard;
struct qr_tensorboard_options {
    const char *logdir; /* a local folder; made when the first record is */
    const char *host;
    long pid; /* in the files' names */
    /* the model's weights; read by qr_tensorboard_new alone */
    const struct qr_weights_layout *layout;
    /* copied, their texts borrowed; at most QR_HPARAMS_MAX */
    const struct qr_hparam *hparams;
    size_t n_hparams;
    struct qr_bytes graph; /* a GraphDef; copied; empty: none */
    /* borrowed. Trials of one group are repetitions: the job hash */
    const char *group;
    bool has_validation;
    bool evaluator;        /* its lines are evaluations alone, in a folder of their own */
    size_t max_file_bytes; /* 0: one file for each folder */
    /* A file has grown to so many bytes. name: below logdir, "train/events...", borrowed for the
     * call. Caller's thread; may be NULL. */
    void (*wrote)(void *ctx, const char *name, size_t bytes);
    void *wrote_ctx;
    const struct qr_clock *monotonic, *wall;
};
struct qr_tensorboard *qr_tensorboard_new(const struct qr_tensorboard_options *opt);
/* Another value of a hyperparameter that is a number, before the first step. */
void qr_tensorboard_set_number(struct qr_tensorboard *t, const char *name, double value);

/* Before the first line of an evaluator: readers are to forget all that they have of it, not what
 * they have from that step on. */
void qr_tensorboard_restart(struct qr_tensorboard *t);

/* A committed step, on the leader only. Fails as files fail; call nothing but close then. */
QR_MUST_CHECK enum qr_code qr_tensorboard_step(struct qr_tensorboard *t,
                                               const struct qr_step_line *line,
                                               const struct qr_step_detail *detail,
                                               struct qr_err *err);
/* The session ended well, after so many epochs. Without it the session stays open: a run that was
 * killed, or will go on. values: the metrics of the weights that are written, by their tags, where
 * those are not the last epoch's; else n is 0. */
QR_MUST_CHECK enum qr_code qr_tensorboard_success(struct qr_tensorboard *t, uint64_t epochs,
                                                  const struct qr_named_value *values, size_t n,
                                                  struct qr_err *err);
/* Writes what is held back, if nothing has failed. NULL is fine. */
void qr_tensorboard_close(struct qr_tensorboard *t);

/* Buckets of TensorBoard's histograms: rows (left, right, count); the last one holds its right
 * edge. Equal values: all edges equal, every count in the last row. No values: zeros. False, and
 * nothing written, when a value is not finite. */
enum { QR_HISTOGRAM_BUCKETS = 30 };
QR_MUST_CHECK bool qr_histogram(const double *v, size_t n, double ret[QR_HISTOGRAM_BUCKETS][3]);
/* The norm of a gradient, as batch_gradient_norm has it. */
double qr_gradient_norm(const double *g, size_t n);
/* Whether the read-outs of this training step are shown. */
bool qr_tensorboard_shows_readouts(uint64_t step);

#endif
