/* model/metric_impl.h — metrics that are functions of counts. */
#ifndef QR_MODEL_METRIC_IMPL_H
#define QR_MODEL_METRIC_IMPL_H

#include "model/metric.h"

struct qr_metric_counts {
    size_t (*n)(const struct qr_metric_options *o, size_t k);
    void (*add)(const struct qr_metric_options *o, size_t k, const double *p, const double *y,
                qr_fixed *counts);
    double (*value)(const struct qr_metric_options *o, size_t k, struct qr_metric_sums counts);
};
extern const struct qr_metric_counts qr_counts_of_auc, qr_counts_of_confusion;

#endif
