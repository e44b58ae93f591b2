/* model/metric.h — metrics of one sample: one row each, from which kinds and names follow.
 * tf-keras 2.18's. A metric is the mean of its terms over samples; one with a second function is
 * the sum of its terms over the sum of those; one with counts is a function of them: exact numbers,
 * whoever counted.
 */
#ifndef QR_MODEL_METRIC_H
#define QR_MODEL_METRIC_H

#include "base/rows.h"
#include "exact/integer.h"
#include "model/loss.h"

/* Kind, name in job files, fields of struct qr_metric_info (metric.c, metric_counts.c have the
 * functions). */
#define QR_METRIC_ROWS(ROW)                                                                        \
    /* right as the loss's row says */                                                             \
    ROW(QR_ACCURACY, "accuracy", .grows = true, .value = accuracy)                                 \
    /* Keras': (p > 0.5) == y, also on labels -1 and 1 */                                          \
    ROW(QR_BINARY_ACCURACY, "binary_accuracy", .grows = true, .value = binary_accuracy)            \
    ROW(QR_METRIC_MSE, "mse", .value = squared_error)                                              \
    ROW(QR_METRIC_MAE, "mae", .value = absolute_error)                                             \
    /* fewer than k outputs are above that of the right class, as tf.math.in_top_k */              \
    ROW(QR_TOP_K_ACCURACY, "top_k_accuracy", .grows = true, .value = in_top_k)                     \
    /* of outputs above 0.5 those that are 1; of labels that are 1 those with such an output; */   \
    /* where outputs are logits, their probabilities above 0.5 */                                  \
    ROW(QR_PRECISION, "precision", .grows = true, .value = true_positives,                         \
        .among = predicted_positives, .bits = true)                                                \
    ROW(QR_RECALL, "recall", .grows = true, .value = true_positives, .among = actual_positives,    \
        .bits = true)                                                                              \
    /* under the ROC curve of Keras' 200 thresholds, by trapezoids, over all outputs */            \
    ROW(QR_AUC, "auc", .grows = true, .counts = &qr_counts_of_auc, .bits = true)                   \
    /* its value is the share on the diagonal; labels are rows, answers columns */                 \
    ROW(QR_CONFUSION_MATRIX, "confusion_matrix", .grows = true, .counts = &qr_counts_of_confusion)

enum qr_metric { QR_METRIC_ROWS(QR_ROW_KIND) QR_METRICS };
extern const char *const qr_metric_names[QR_METRICS];
/* "val_accuracy" ...: of the validation samples */
extern const char *const qr_val_metric_names[QR_METRICS];
/* Of one of these names: it is one number, which lines of progress have. The confusion matrix is
 * printed as a matrix instead. */
bool qr_metric_is_number(const char *name);
/* Keras' mode "auto" keeps it at its maximum. */
bool qr_metric_maximized(enum qr_metric metric);

struct qr_metric_options {
    enum qr_loss loss;
    bool from_logits; /* the outputs are values before an activation */
    unsigned top_k;   /* of top_k_accuracy; 1 or more */
};
/* Integers that it adds up over samples: its terms, what they are a share of, or its counts; the
 * last two are exact. k: outputs. */
size_t qr_metric_n_sums(enum qr_metric metric, const struct qr_metric_options *o, size_t k);
/* Adds a sample's; false where a number does not fit. */
QR_MUST_CHECK bool qr_metric_add(enum qr_metric metric, const struct qr_metric_options *o, size_t k,
                                 const double *p, const double *y, qr_fixed *sums);
/* Its value from those of n samples, integers or float64: one division at the end; 0 where it is a
 * share of nothing. */
struct qr_metric_sums {
    const qr_fixed *fixed; /* NULL: real has them */
    const double *real;
};
static inline double qr_metric_sum(struct qr_metric_sums s, size_t i) {
    return s.fixed ? qr_fixed_to_double(s.fixed[i]) : s.real[i];
}
double qr_metric_value(enum qr_metric metric, const struct qr_metric_options *o, size_t k,
                       struct qr_metric_sums sums, double n);
/* Rows of the confusion matrix: outputs, or 2 where each output is one of two classes. Its counts
 * stand behind its first sum, row by row. */
size_t qr_metric_classes(const struct qr_metric_options *o, size_t k);
enum { QR_MAX_CONFUSION_CLASSES = 100 };
/* It takes labels of 0 and 1 alone. */
bool qr_metric_binary_labels(enum qr_metric metric);

/* What accuracy compares with a label: the number of the largest output where the loss goes by that
 * (j is not looked at), else of output j whether it is 1; 0 is -1 where the loss goes by the
 * sign. */
size_t qr_metric_predicted_class(const struct qr_metric_options *o, size_t k, const double *p,
                                 size_t j);
/* The probabilities that a cross-entropy's outputs stand for, ret[k]: the outputs themselves, or,
 * of logits, their softmax or sigmoids. */
void qr_metric_probabilities(const struct qr_metric_options *o, size_t k, const double *p,
                             double *ret);

#endif
