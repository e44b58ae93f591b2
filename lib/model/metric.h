/* model/metric.h — metrics of one sample: one row each, from which kinds and names follow.
 * tf-keras 2.18's. A metric is the mean of its terms over samples; one with a second function is
 * the sum of its terms over the sum of those: exact counts, whoever counted them. */
#ifndef QR_MODEL_METRIC_H
#define QR_MODEL_METRIC_H

#include "model/loss.h"

/* Kind, name in job files, whether more of it is better, its function in metric.c, and that of what
 * it is a share of (NULL: of the samples). */
#define QR_METRIC_ROWS(ROW)                                                                        \
    /* right as the loss's row says */                                                             \
    ROW(QR_ACCURACY, "accuracy", true, accuracy, NULL)                                             \
    /* Keras': (p > 0.5) == y, also on labels -1 and 1 */                                          \
    ROW(QR_BINARY_ACCURACY, "binary_accuracy", true, binary_accuracy, NULL)                        \
    ROW(QR_METRIC_MSE, "mse", false, squared_error, NULL)                                          \
    ROW(QR_METRIC_MAE, "mae", false, absolute_error, NULL)                                         \
    /* fewer than k outputs are above that of the right class, as tf.math.in_top_k */              \
    ROW(QR_TOP_K_ACCURACY, "top_k_accuracy", true, in_top_k, NULL)                                 \
    /* of outputs above 0.5 those that are 1; of labels that are 1 those with such an output; */   \
    /* where outputs are logits, their probabilities above 0.5 */                                  \
    ROW(QR_PRECISION, "precision", true, true_positives, predicted_positives)                      \
    ROW(QR_RECALL, "recall", true, true_positives, actual_positives)

enum qr_metric {
#define QR_METRIC_KIND(kind, ...) kind,
    QR_METRIC_ROWS(QR_METRIC_KIND)
#undef QR_METRIC_KIND
        QR_METRICS
};
extern const char *const qr_metric_names[QR_METRICS];
/* "val_accuracy" ...: of the validation samples */
extern const char *const qr_val_metric_names[QR_METRICS];
/* Keras' mode "auto" keeps it at its maximum. */
bool qr_metric_grows(enum qr_metric metric);

struct qr_metric_options {
    enum qr_loss loss;
    bool from_logits; /* the outputs are values before an activation */
    unsigned top_k;   /* of top_k_accuracy; 1 or more */
};
/* A sample's term in the metric's sum: the share of right outputs, the error's mean, a count. */
double qr_metric_of(enum qr_metric metric, const struct qr_metric_options *o, size_t k,
                    const double *p, const double *y);
/* A share of what is counted too, and that count in this sample. */
bool qr_metric_is_ratio(enum qr_metric metric);
double qr_metric_among(enum qr_metric metric, const struct qr_metric_options *o, size_t k,
                       const double *p, const double *y);
/* It takes labels of 0 and 1 alone. */
bool qr_metric_wants_bits(enum qr_metric metric);

#endif
