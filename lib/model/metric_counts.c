/* model/metric_counts.c — metrics of counts: the area under the ROC curve, and the confusion
 * matrix. Start reading at roc_value() and confusion_add(). */
#include <math.h>

#include "exact/functions.h"
#include "model/metric_impl.h"

size_t qr_metric_predicted_class(const struct qr_metric_options *o, size_t k, const double *p,
                                 size_t j) {
    enum qr_class_rule by = qr_loss_info(o->loss)->accuracy;
    if (by == QR_BY_LARGEST) return qr_argmax(k, p);
    return by == QR_BY_SIGN ? p[j] >= 0 : p[j] > (o->from_logits ? 0 : 0.5);
}

static void increment_count(qr_fixed *at) { *at += qr_fixed_from_count(1); }

/* ---- the area under the ROC curve ---- */

/* Keras' thresholds are i / 199, and one on either side: an output exceeds all thresholds up to its
 * bucket's, so that one count per bucket suffices. */
enum { BUCKETS = 199 };

static size_t bucket_of(double p) {
    double at = ceil(p * BUCKETS) - 1;
    return at > 0 ? at < BUCKETS ? (size_t)at : BUCKETS - 1 : 0;
}

static size_t roc_n(const struct qr_metric_options *o, size_t k) {
    (void)o, (void)k;
    return 2 * BUCKETS;
}

/* How a sample's outputs become probabilities. */
struct scale {
    bool softmax, sigmoid;
    double most, sum;
};

static struct scale scale_of(const struct qr_metric_options *o, size_t k, const double *p) {
    bool softmax = o->from_logits && qr_loss_info(o->loss)->accuracy == QR_BY_LARGEST;
    struct scale s = {.softmax = softmax, .sigmoid = o->from_logits && !softmax, .most = p[0]};
    for (size_t j = 0; softmax && j < k; j++) s.most = p[j] > s.most ? p[j] : s.most;
    for (size_t j = 0; softmax && j < k; j++) s.sum += qr_exp(p[j] - s.most);
    return s;
}

static double probability(const struct scale *s, double p) {
    return s->softmax ? qr_exp(p - s->most) / s->sum : s->sigmoid ? qr_sigmoid(p) : p;
}

void qr_metric_probabilities(const struct qr_metric_options *o, size_t k, const double *p,
                             double *ret) {
    const struct scale s = scale_of(o, k, p);
    for (size_t j = 0; j < k; j++) ret[j] = probability(&s, p[j]);
}

static void roc_add(const struct qr_metric_options *o, size_t k, const double *p, const double *y,
                    qr_fixed *counts) {
    const struct scale s = scale_of(o, k, p);
    for (size_t j = 0; j < k; j++)
        increment_count(&counts[(y[j] == 1 ? 0 : BUCKETS) + bucket_of(probability(&s, p[j]))]);
}

/* From the highest threshold down: trapezoids with the negatives as width and the positives so far
 * as height. All numbers are integers below 2^53 unless there are more than 10^7 samples. */
static double roc_value(const struct qr_metric_options *o, size_t k, struct qr_metric_sums s) {
    double above = 0, below = 0, twice = 0;
    (void)o, (void)k;
    for (size_t i = BUCKETS; i-- > 0;) {
        double positives = qr_metric_sum(s, i), negatives = qr_metric_sum(s, BUCKETS + i);
        twice += negatives * (2 * above + positives);
        above += positives;
        below += negatives;
    }
    return above > 0 && below > 0 ? twice / (2 * above * below) : 0;
}

const struct qr_metric_counts qr_counts_of_auc = {roc_n, roc_add, roc_value};

/* ---- the confusion matrix ---- */

static bool uses_largest_output(const struct qr_metric_options *o) {
    return qr_loss_info(o->loss)->accuracy == QR_BY_LARGEST;
}

size_t qr_metric_classes(const struct qr_metric_options *o, size_t k) {
    return uses_largest_output(o) ? k : 2;
}

static size_t confusion_n(const struct qr_metric_options *o, size_t k) {
    size_t n = qr_metric_classes(o, k);
    return 1 + n * n;
}

static void confusion_add(const struct qr_metric_options *o, size_t k, const double *p,
                          const double *y, qr_fixed *counts) {
    size_t n = qr_metric_classes(o, k);
    for (size_t j = 0; j < (uses_largest_output(o) ? 1 : k); j++) {
        size_t answer = qr_metric_predicted_class(o, k, p, j);
        size_t label = uses_largest_output(o) ? qr_metric_predicted_class(o, k, y, j) : y[j] == 1;
        if (answer == label) increment_count(&counts[0]);
        increment_count(&counts[1 + label * n + answer]);
    }
}

static double confusion_value(const struct qr_metric_options *o, size_t k,
                              struct qr_metric_sums s) {
    size_t n = qr_metric_classes(o, k);
    double all = 0;
    for (size_t i = 0; i < n * n; i++) all += qr_metric_sum(s, 1 + i);
    return all > 0 ? qr_metric_sum(s, 0) / all : 0;
}

const struct qr_metric_counts qr_counts_of_confusion = {confusion_n, confusion_add,
                                                        confusion_value};
