/* model/metric.h — metrics of one sample, those of tf-keras 2.18: one row each, from which kinds
 * and names follow.
 *
 * A metric is the mean of its terms over samples; one with a second function is the sum of its
 * terms over the sum of that function's; one with counts is a function of the counts. Counts are
 * exact, so they do not depend on which workers counted.
 * Use       add each sample with qr_metric_add, then one division with qr_metric_value.
 * Threads   any (pure functions).
 */
#ifndef QR_MODEL_METRIC_H
#define QR_MODEL_METRIC_H

#include "base/rows.h"
#include "exact/integer.h"
#include "model/loss.h"

/* Kind, name in job files, fields of struct qr_metric_info; the functions are in metric.c and
 * metric_counts.c. */
#define QR_METRIC_ROWS(ROW)                                                                        \
    /* Correct by the rule of the loss */                                                          \
    ROW(QR_ACCURACY, "accuracy", .maximized = true, .value = accuracy)                             \
    /* Keras': (p > 0.5) == y, also for labels -1 and 1 */                                         \
    ROW(QR_BINARY_ACCURACY, "binary_accuracy", .maximized = true, .value = binary_accuracy)        \
    ROW(QR_METRIC_MSE, "mse", .value = squared_error)                                              \
    ROW(QR_METRIC_MAE, "mae", .value = absolute_error)                                             \
    /* Fewer than k outputs are above that of the correct class, as tf.math.in_top_k */            \
    ROW(QR_TOP_K_ACCURACY, "top_k_accuracy", .maximized = true, .value = in_top_k)                 \
    /* precision: of outputs above 0.5, the share with label 1; recall: of labels 1, the share */  \
    /* With an output above 0.5; where outputs are logits, of their probabilities */               \
    ROW(QR_PRECISION, "precision", .maximized = true, .value = true_positives,                     \
        .among = predicted_positives, .binary_labels = true)                                       \
    ROW(QR_RECALL, "recall", .maximized = true, .value = true_positives,                           \
        .among = actual_positives, .binary_labels = true)                                          \
    /* Under the ROC curve of Keras' 200 thresholds, by trapezoids, over all outputs */            \
    ROW(QR_AUC, "auc", .maximized = true, .counts = &qr_counts_of_auc, .binary_labels = true)      \
    /* The value is the share on the diagonal; labels are rows, predictions columns */             \
    ROW(QR_CONFUSION_MATRIX, "confusion_matrix", .maximized = true,                                \
        .counts = &qr_counts_of_confusion)

enum qr_metric { QR_METRIC_ROWS(QR_ROW_KIND) QR_METRICS };
extern const char *const qr_metric_names[QR_METRICS];
/* Whether the metric of this name is one number, shown in progress lines. The confusion matrix is
 * printed as a matrix instead. */
bool qr_metric_is_number(const char *name);
/* Whether Keras' mode "auto" maximizes the metric. */
bool qr_metric_maximized(enum qr_metric metric);

struct qr_metric_options {
    enum qr_loss loss;
    bool from_logits; /* the outputs are values before an activation */
    unsigned top_k;   /* for top_k_accuracy; 1 or more */
};
/* Number of integers that the metric sums over samples: its terms, their denominators, or its
 * counts; the last two are exact. k: number of outputs. */
size_t qr_metric_n_sums(enum qr_metric metric, const struct qr_metric_options *o, size_t k);
/* Adds a sample to the sums.
 *
 * Args:     p, y  k outputs and labels
 * Returns:  false when a number does not fit
 */
QR_MUST_CHECK bool qr_metric_add(enum qr_metric metric, const struct qr_metric_options *o, size_t k,
                                 const double *p, const double *y, qr_fixed *sums);
/* Returns the value from the sums of n samples, integers or float64, with one division at the end;
 * 0 when the denominator is 0.
 */
struct qr_metric_sums {
    const qr_fixed *fixed; /* NULL: use real */
    const double *real;
};
static inline double qr_metric_sum(struct qr_metric_sums s, size_t i) {
    return s.fixed ? qr_fixed_to_double(s.fixed[i]) : s.real[i];
}
double qr_metric_value(enum qr_metric metric, const struct qr_metric_options *o, size_t k,
                       struct qr_metric_sums sums, double n);
/* Number of rows of the confusion matrix: outputs, or 2 where each output is one of two classes.
 * The counts follow the metric's first sum, row by row. */
size_t qr_metric_classes(const struct qr_metric_options *o, size_t k);
enum { QR_MAX_CONFUSION_CLASSES = 100 };
/* Whether the metric accepts only labels 0 and 1. */
bool qr_metric_binary_labels(enum qr_metric metric);

/* Returns the predicted class that accuracy compares with a label.
 *
 * Args:     j  output; ignored where the loss goes by the largest output
 * Returns:  the index of the largest output, or 1 or 0 for output j (0 stands for -1 where the loss
 *           goes by the sign)
 */
size_t qr_metric_predicted_class(const struct qr_metric_options *o, size_t k, const double *p,
                                 size_t j);
/* Converts a cross-entropy's outputs to probabilities ret[k]: unchanged, or, for logits, their
 * softmax or sigmoids. */
void qr_metric_probabilities(const struct qr_metric_options *o, size_t k, const double *p,
                             double *ret);

#endif
