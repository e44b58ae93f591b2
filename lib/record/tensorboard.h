/* record/tensorboard.h — writes a run's TensorBoard event files: in LOGDIR, LOGDIR/train and
 * LOGDIR/validation; an evaluator's in LOGDIR/evaluator.
 *
 * Use       qr_tensorboard_new; qr_tensorboard_step for each committed step, on the leader;
 *           qr_tensorboard_success at the end; qr_tensorboard_close.
 * train/    Per epoch (x axis: the epoch from 0, as in Keras): epoch_loss, epoch_<metric>,
 *           epoch_learning_rate, <weight>/histogram; cost and cost_pod_hours so far, if a price is
 *           set. Per step: batch_loss, batch_<metric>, batch_gradient_norm (of all gradients),
 *           batch_gradient_norm/<weight> and batch_gradient_variance/<weight> (over the parameters
 *           of one quantum layer: falls towards 0 on a barren plateau). Weights are named as in
 *           Keras (parameters_0, dense/kernel_0); further filters, which Keras merges into one
 *           weight, are pqc_1/parameters_0. Begins with the model's graph, once for each process:
 *           readers show the last graph of a run.
 * validation/  epoch_loss, epoch_<metric>, evaluation_<loss, metric>_vs_iterations.
 * evaluator/   no session; the tags of validation/ at the steps of the evaluated states, and those
 *           of an epoch at its end.
 * Both      Values that the job logs have a metric's tags, of steps or of evaluations. Readouts is
 *           the histogram of the quantum layer's values for all samples of the batch (from all
 *           workers) at the weights before the step, as the tutorial's ReadoutHistogramLayer wrote,
 *           but at true steps: 30 buckets over the whole range of a read-out (-1 ... 1 for Z), so
 *           that steps are comparable. Every step up to 128, then 64 for each doubling; every
 *           validation.
 * LOGDIR    The HParams plugin's experiment, session start and end, and its metrics each epoch:
 *           loss, <metric>, val_loss, val_<metric>. The plugin shows the last values; if the
 *           written weights are not the last epoch's, their values follow one step after it. (With
 *           LOGDIR itself as TensorBoard's --logdir the plugin finds no metrics in train/ and
 *           validation/, since it looks for "./train".)
 * Files     Created by the first record, new ones for each process, so each has one writer.
 *           Append-only, in whole records: at most one second's records are buffered, none at the
 *           end of an epoch. The files of a killed process are readable. With max_file_bytes, a
 *           file that has reached that size is followed by a new one, whose name sorts after it.
 * Resume    A fresh run (step 1) tells readers to discard the events of an earlier run under the
 *           same names; one that resumes at step s, the events from step s on.
 * Cost      a few microseconds per step; no allocation once the buffers have grown. Nothing is
 *           synced to disk.
 * Threads   one. Clocks are passed in: monotonic for the buffering, wall for the events' times.
 */
#ifndef QR_RECORD_TENSORBOARD_H
#define QR_RECORD_TENSORBOARD_H

#include "base/clock.h"
#include "format/event.h"
#include "record/result.h"
#include "record/weights.h"

struct qr_tensorboard;
struct qr_tensorboard_options {
    const char *logdir; /* a local directory; created by the first record */
    const char *host;
    long pid; /* host and pid are part of the file names */
    /* The model's weights; read by qr_tensorboard_new only */
    const struct qr_weights_layout *layout;
    /* Copied, their texts borrowed; at most QR_HPARAMS_MAX */
    const struct qr_hparam *hparams;
    size_t n_hparams;
    struct qr_bytes graph; /* a GraphDef; copied; empty: none */
    /* Borrowed; the job hash. HParams shows runs of one group as repetitions of one trial */
    const char *group;
    bool has_validation;
    bool evaluator;        /* only evaluations, in LOGDIR/evaluator */
    size_t max_file_bytes; /* 0: one file for each directory */
    /* Called after a file has grown to `bytes`. name: below logdir, "train/events...", borrowed for
     * the call. Caller's thread; may be NULL. */
    void (*wrote)(void *ctx, const char *name, size_t bytes);
    void *wrote_ctx;
    const struct qr_clock *monotonic, *wall;
};
struct qr_tensorboard *qr_tensorboard_new(const struct qr_tensorboard_options *opt);
/* Changes the value of a numeric hyperparameter. Call before the first step. */
void qr_tensorboard_set_number(struct qr_tensorboard *t, const char *name, double value);

/* For an evaluator, before its first line: readers discard all its earlier events, instead of those
 * from that step on. */
void qr_tensorboard_restart(struct qr_tensorboard *t);

/* Writes a committed step. After an error (the file's) call only qr_tensorboard_close. */
QR_MUST_CHECK enum qr_code qr_tensorboard_step(struct qr_tensorboard *t,
                                               const struct qr_step_line *line,
                                               const struct qr_step_detail *detail,
                                               struct qr_err *err);
/* Ends the session successfully. Without this call the session stays open: the run was killed, or
 * will resume.
 *
 * Args:     epochs      number of epochs trained
 *           values, n   metrics of the written weights, by their tags, if they are not the last
 *                       epoch's; else n is 0
 */
QR_MUST_CHECK enum qr_code qr_tensorboard_success(struct qr_tensorboard *t, uint64_t epochs,
                                                  const struct qr_named_value *values, size_t n,
                                                  struct qr_err *err);
/* Writes buffered records, unless a call has failed, and frees t. NULL is allowed. */
void qr_tensorboard_close(struct qr_tensorboard *t);

/* Computes a TensorBoard histogram of v[n]: rows (left, right, count); the last row includes its
 * right edge. Equal values: all edges equal, all counts in the last row. No values: zeros. False,
 * with ret unchanged, when a value is not finite. */
enum { QR_HISTOGRAM_BUCKETS = 30 };
QR_MUST_CHECK bool qr_histogram(const double *v, size_t n, double ret[QR_HISTOGRAM_BUCKETS][3]);
/* Euclidean norm of a gradient, as in batch_gradient_norm. */
double qr_gradient_norm(const double *g, size_t n);
/* True when the read-outs of this training step are written. */
bool qr_tensorboard_shows_readouts(uint64_t step);

#endif
