/* model/loss.h — losses of one sample and the labels that they take: one row each, from which kinds
 * and names follow.
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
 *                   Labels are probabilities: one-hot, or soft, whose class is the largest.
 * label_smoothing s makes y (1 - s) + s / 2 of a binary label and y (1 - s) + s / k of a one-hot
 * one. from_logits takes the outputs for z, whatever activation made them.
 * Keras takes the logits because its losses trace a graph and look through the activation's op; a
 * model that ends in sigmoid or softmax is therefore never clipped.
 */
#ifndef QR_MODEL_LOSS_H
#define QR_MODEL_LOSS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rows.h"
#include "model/layers/activation.h"

/* Kind, name in job files, fields of struct qr_loss_info (loss.c has the functions). */
#define QR_LOSS_ROWS(ROW)                                                                          \
    ROW(QR_MSE, "mse", .value = squared, .accuracy = QR_BY_SIGN, .labels = sign_labels)            \
    ROW(QR_MAE, "mae", .value = absolute, .accuracy = QR_BY_SIGN, .labels = sign_labels)           \
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

/* What counts as right: p >= 0 is +1; p > 0.5 is 1; the largest output is the class. */
enum qr_class_rule { QR_BY_SIGN, QR_BY_HALF, QR_BY_LARGEST };

/* Labels of n_samples rows of k, which begin stride values apart. */
struct qr_labels {
    const double *y;
    size_t n_samples, k, stride;
    const uint32_t *row; /* sample → the row that people know it by; NULL: the same number */
    bool with_accuracy;  /* a metric that goes by classes is asked for */
    bool with_bits;      /* a metric that takes 0 and 1 alone */
};

struct qr_loss_options {
    double delta;           /* above 0; of a loss that has it */
    double label_smoothing; /* 0 to 1; of a loss that takes logits */
    bool from_logits;       /* the outputs are values before an activation; of the same */
    const double *weights;  /* of each output; of expectation; NULL: 1; borrowed */
};

struct qr_loss_info {
    /* Loss of one sample with k outputs p and labels y. ret_d[k], unless NULL, is dL/dp. */
    double (*value)(const struct qr_loss_options *o, size_t k, const double *p, const double *y,
                    double *ret_d);
    /* Behind this activation it is taken from the values z before it, and ret_d is dL/dz; NULL: it
     * never is. */
    enum qr_activation logits_of;
    double (*of_logits)(const struct qr_loss_options *o, size_t k, const double *z, const double *y,
                        double *ret_d);
    bool has_delta;
    enum qr_class_rule accuracy;
    bool zero_is_minus; /* label 0 stands for -1 */
    bool no_labels;     /* y is not looked at, and a sample has none */
    /* DATA_LOSS naming the sample whose label it cannot take; NULL where there are none. */
    enum qr_code (*labels)(const char *name, const struct qr_labels *l, struct qr_err *err);
};
const struct qr_loss_info *qr_loss_info(enum qr_loss loss);

/* True when the loss is taken from the last layer's values before its activation. */
bool qr_loss_from_logits(enum qr_loss loss, enum qr_activation last);
/* Labels are classes: two by the sign or the bit of one output, or one an output. */
bool qr_loss_has_classes(enum qr_loss loss);
/* The class of a label of k values, from 0. */
size_t qr_loss_class(enum qr_loss loss, size_t k, const double *y);
/* Any loss wants labels below 2^40, and then what its row says. */
QR_MUST_CHECK enum qr_code qr_loss_check_labels(enum qr_loss loss, const struct qr_labels *l,
                                                struct qr_err *err);

#endif
