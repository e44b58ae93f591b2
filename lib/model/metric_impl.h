/* model/metric_impl.h — what metric.c and metric_counts.c share. */
#ifndef QR_MODEL_METRIC_IMPL_H
#define QR_MODEL_METRIC_IMPL_H

#include "model/metric.h"

/* The first of the largest, as tf.argmax. */
static inline size_t qr_argmax(size_t k, const double *v) {
    size_t at = 0;
    for (size_t j = 1; j < k; j++)
        if (v[j] > v[at]) at = j;
    return at;
}

/* A metric that is a function of counts. */
struct qr_metric_counts {
    size_t (*n)(const struct qr_metric_options *o, size_t k);
    void (*add)(const struct qr_metric_options *o, size_t k, const double *p, const double *y,
                qr_fixed *counts);
    double (*value)(const struct qr_metric_options *o, size_t k, struct qr_metric_sums counts);
};
extern const struct qr_metric_counts qr_counts_of_auc, qr_counts_of_confusion;

#endif
