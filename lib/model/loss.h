/* model/loss.h — losses of one sample, and the labels that they accept: one row each, from which
 * kinds and names follow.
 *
 * tf-keras 2.18's formulas in float64 (epsilon 1e-7), k outputs:
 *   mse, mae        mean over outputs of (p - y)^2, |p - y| (derivative 0 at 0, as tf.abs).
 *   huber           mean of e^2 / 2 where |e| <= delta, else delta |e| - delta^2 / 2, e = p - y.
 *   log_cosh        mean of log cosh e = |e| + log1p(exp(-2 |e|)) - log 2; derivative tanh e.
 *                   (Keras' log 2 is a float32: its values are 2e-9 less.)
 *   hinge           mean of max(1 - y p, 0), derivative -y where 1 - y p >= 0 (tf.maximum at a
 *                   tie); label 0 stands for -1.
 *   expectation     sum of w_j p_j: no mean, and no labels; not one of Keras'.
 *   binary_ce       mean of -(y log(q + eps) + (1 - y) log(1 - q + eps)), q = p clipped to
 *                   [eps, 1 - eps]; derivative 0 where clipped. After a sigmoid Keras takes the
 *                   logits: max(z, 0) - z y + log1p(exp(-|z|)), derivative sigmoid(z) - y.
 *   categorical_ce  -sum y log q, q = p / sum p clipped; after a softmax, from its logits:
 *                   log sum exp(z - max) - sum y (z - max), derivative softmax(z) - y.
 *                   Labels are probabilities: one-hot, or soft, with the largest as the class.
 * label_smoothing s makes y (1 - s) + s / 2 of a binary label and y (1 - s) + s / k of a one-hot
 * one. from_logits takes the outputs for z, whatever their activation.
 * Keras takes the logits because its losses trace a graph and look through the activation's op; a
 * model that ends in sigmoid or softmax is therefore never clipped.
 * Threads   any (pure functions).
 */
#ifndef QR_MODEL_LOSS_H
#define QR_MODEL_LOSS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rows.h"
#include "model/layers/activation.h"

/* Kind, name in job files, fields of struct qr_loss_info; the functions are in loss.c. */
#define QR_LOSS_ROWS(ROW)                                                                          \
    ROW(QR_MSE, "mse", .value = squared_loss, .accuracy = QR_BY_SIGN, .labels = sign_labels)       \
    ROW(QR_MAE, "mae", .value = absolute_loss, .accuracy = QR_BY_SIGN, .labels = sign_labels)      \
    ROW(QR_HUBER, "huber", .value = huber, .has_delta = true, .accuracy = QR_BY_SIGN,              \
        .labels = sign_labels)                                                                     \
    ROW(QR_LOG_COSH, "log_cosh", .value = log_cosh, .accuracy = QR_BY_SIGN, .labels = sign_labels) \
    ROW(QR_HINGE, "hinge", .value = hinge, .accuracy = QR_BY_SIGN, .zero_is_minus = true,          \
        .labels = hinge_labels)                                                                    \
    ROW(QR_BINARY_CROSSENTROPY, "binary_crossentropy", .value = binary, .logits_of = QR_SIGMOID,   \
        .of_logits = binary_logits, .accuracy = QR_BY_HALF, .labels = binary_labels)               \
    ROW(QR_CATEGORICAL_CROSSENTROPY, "categorical_crossentropy", .value = categorical,             \
        .logits_of = QR_SOFTMAX, .of_logits = categorical_logits, .accuracy = QR_BY_LARGEST,       \
        .labels = class_labels)                                                                    \
    ROW(QR_EXPECTATION, "expectation", .value = weighted_sum, .no_labels = true)

enum qr_loss { QR_LOSS_ROWS(QR_ROW_KIND) QR_LOSSES };
extern const char *const qr_loss_names[QR_LOSSES];

/* Rule for a correct output: p >= 0 is +1; p > 0.5 is 1; the largest output is the class. */
enum qr_class_rule { QR_BY_SIGN, QR_BY_HALF, QR_BY_LARGEST };

/* Labels of n_samples rows of k values; rows begin stride values apart. */
struct qr_labels {
    const double *y;
    size_t n_samples, k, stride;
    const uint32_t *row; /* sample → its row number in messages; NULL: the sample's number */
    bool with_accuracy;  /* the job has a metric that compares classes */
    bool with_bits;      /* the job has a metric that accepts only 0 and 1 */
};

struct qr_loss_options {
    double delta;           /* above 0; for losses with delta */
    double label_smoothing; /* 0 to 1; for losses that take logits */
    /* The outputs are values before an activation; for losses that take logits */
    bool from_logits;
    const double *weights; /* weight of each output, for expectation; NULL: 1; borrowed */
};

struct qr_loss_info {
    /* Returns the loss of one sample with k outputs p and labels y. ret_d[k], unless NULL, is
     * dL/dp. */
    double (*value)(const struct qr_loss_options *o, size_t k, const double *p, const double *y,
                    double *ret_d);
    /* After this activation the loss is computed from the values z before the activation with
     * of_logits, and ret_d is dL/dz; of_logits NULL: never. */
    enum qr_activation logits_of;
    double (*of_logits)(const struct qr_loss_options *o, size_t k, const double *z, const double *y,
                        double *ret_d);
    bool has_delta;
    enum qr_class_rule accuracy;
    bool zero_is_minus; /* label 0 stands for -1 */
    bool no_labels;     /* y is not read; a sample has no labels */
    /* Checks labels; DATA_LOSS names the sample with an invalid label. NULL where there are no
     * labels. */
    enum qr_code (*labels)(const char *name, const struct qr_labels *l, struct qr_err *err);
};
/* The row of a loss; static. */
const struct qr_loss_info *qr_loss_info(enum qr_loss loss);

/* Whether the loss is computed from the last layer's values before its activation. */
bool qr_loss_from_logits(enum qr_loss loss, enum qr_activation last);
/* Whether labels are classes: two by the sign or the bit of one output, or one per output. */
bool qr_loss_has_classes(enum qr_loss loss);
/* The class of a label of k values, from 0. */
size_t qr_loss_class(enum qr_loss loss, size_t k, const double *y);
/* Checks that labels are below 2^40 and valid for the loss.
 *
 * Errors:   DATA_LOSS: names the sample and the label
 */
QR_MUST_CHECK enum qr_code qr_loss_check_labels(enum qr_loss loss, const struct qr_labels *l,
                                                struct qr_err *err);

#endif
