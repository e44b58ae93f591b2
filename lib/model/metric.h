/* model/metric.h — metrics of one sample: one row each, from which kinds and names follow.
 * tf-keras 2.18's. */
#ifndef QR_MODEL_METRIC_H
#define QR_MODEL_METRIC_H

#include "model/loss.h"

/* Kind, name in job files, whether more of it is better, its function in metric.c. */
#define QR_METRIC_ROWS(ROW)                                                                        \
    /* right as the loss's row says */                                                             \
    ROW(QR_ACCURACY, "accuracy", true, accuracy)                                                   \
    /* Keras': (p > 0.5) == y, also on ±1 labels */                                               \
    ROW(QR_BINARY_ACCURACY, "binary_accuracy", true, binary_accuracy)                              \
    ROW(QR_METRIC_MSE, "mse", false, squared_error)                                                \
    ROW(QR_METRIC_MAE, "mae", false, absolute_error)

enum qr_metric {
#define QR_METRIC_KIND(kind, name, grows, function) kind,
    QR_METRIC_ROWS(QR_METRIC_KIND)
#undef QR_METRIC_KIND
        QR_METRICS
};
extern const char *const qr_metric_names[QR_METRICS];
/* "val_accuracy" ...: of the validation samples */
extern const char *const qr_val_metric_names[QR_METRICS];
/* Keras' mode "auto" keeps it at its maximum. */
bool qr_metric_grows(enum qr_metric metric);

/* A sample's term in the metric's sum: the share of right outputs, or the error's mean. */
double qr_metric_of(enum qr_metric metric, enum qr_loss loss, size_t k, const double *p,
                    const double *y);

#endif
