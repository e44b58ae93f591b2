/* model/loss.h — losses of one sample and the labels that they take: one row each, from which kinds
 * and names follow.
 *
 * tf-keras 2.18's formulas in float64 (epsilon 1e-7), k outputs:
 *   mse, mae        mean over outputs of (p - y)^2, |p - y| (derivative 0 at 0, as tf.abs).
 *   hinge           mean of max(1 - y p, 0), derivative -y where 1 - y p >= 0 (tf.maximum at a
 *                   tie); label 0 stands for -1.
 *   binary_ce       mean of -(y log(q + eps) + (1 - y) log(1 - q + eps)), q = p clipped to
 *                   [eps, 1 - eps]; derivative 0 where clipped. After a sigmoid Keras takes the
 *                   logits: max(z, 0) - z y + log1p(exp(-|z|)), derivative sigmoid(z) - y.
 *   categorical_ce  -sum y log q, q = p / sum p clipped; after a softmax, from its logits:
 *                   log sum exp(z - max) - sum y (z - max), derivative softmax(z) - y.
 * Keras takes the logits because its losses trace a graph and look through the activation's op; a
 * model that ends in sigmoid or softmax is therefore never clipped.
 */
#ifndef QR_MODEL_LOSS_H
#define QR_MODEL_LOSS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/activation.h"

/* Kind, name in job files, fields of struct qr_loss_info (loss.c has the functions). */
#define QR_LOSS_ROWS(ROW)                                                                          \
    ROW(QR_MSE, "mse", .value = squared, .accuracy = QR_BY_SIGN, .labels = sign_labels)            \
    ROW(QR_MAE, "mae", .value = absolute, .accuracy = QR_BY_SIGN, .labels = sign_labels)           \
    ROW(QR_HINGE, "hinge", .value = hinge, .accuracy = QR_BY_SIGN, .zero_is_minus = true,          \
        .labels = hinge_labels)                                                                    \
    ROW(QR_BINARY_CROSSENTROPY, "binary_crossentropy", .value = binary, .logits_of = QR_SIGMOID,   \
        .of_logits = binary_logits, .accuracy = QR_BY_HALF, .labels = binary_labels)               \
    ROW(QR_CATEGORICAL_CROSSENTROPY, "categorical_crossentropy", .value = categorical,             \
        .logits_of = QR_SOFTMAX, .of_logits = categorical_logits, .accuracy = QR_BY_LARGEST,       \
        .labels = one_hot_labels)

enum qr_loss {
#define QR_LOSS_KIND(kind, name, ...) kind,
    QR_LOSS_ROWS(QR_LOSS_KIND)
#undef QR_LOSS_KIND
        QR_LOSSES
};
extern const char *const qr_loss_names[QR_LOSSES];

/* What counts as right: p >= 0 is +1; p > 0.5 is 1; the largest output is the class. */
enum qr_rightness { QR_BY_SIGN, QR_BY_HALF, QR_BY_LARGEST };

/* Labels of n_samples rows of k. */
struct qr_labels {
    const double *y;
    size_t n_samples, k;
    const uint32_t *row; /* sample → the row that people know it by; NULL: the same number */
    bool with_accuracy;  /* the metric accuracy is asked for */
};

struct qr_loss_info {
    /* Loss of one sample with k outputs p and labels y. ret_d[k], unless NULL, is dL/dp. */
    double (*value)(size_t k, const double *p, const double *y, double *ret_d);
    /* Behind this activation it is taken from the values z before it, and ret_d is dL/dz; NULL: it
     * never is. */
    enum qr_activation logits_of;
    double (*of_logits)(size_t k, const double *z, const double *p, const double *y, double *ret_d);
    enum qr_rightness accuracy;
    bool zero_is_minus; /* label 0 stands for -1 */
    /* DATA_LOSS naming the sample whose label it cannot take. */
    enum qr_code (*labels)(const char *name, const struct qr_labels *l, struct qr_err *err);
};
const struct qr_loss_info *qr_loss_info(enum qr_loss loss);

/* True when the loss is taken from the last layer's values before its activation. */
bool qr_loss_from_logits(enum qr_loss loss, enum qr_activation last);
/* z: read only for logits. */
double qr_loss_of(enum qr_loss loss, bool from_logits, size_t k, const double *z, const double *p,
                  const double *y, double *ret_d);
/* Any loss wants labels below 2^40, and then what its row says. */
QR_MUST_CHECK enum qr_code qr_loss_check_labels(enum qr_loss loss, const struct qr_labels *l,
                                                struct qr_err *err);

#endif
