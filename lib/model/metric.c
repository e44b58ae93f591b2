/* model/metric.c — metrics. Start reading at qr_metric_add() and the table above it. */
#include "model/metric.h"

#include <string.h>

#include "exact/functions.h"
#include "model/metric_impl.h"

static double fraction_correct(size_t k, const double *p, const double *y, bool by_sign,
                               double above, bool zero_is_minus) {
    size_t right = 0;
    for (size_t j = 0; j < k; j++) {
        double label = zero_is_minus && y[j] == 0 ? -1.0 : y[j];
        double guess = by_sign ? (p[j] >= 0 ? 1.0 : -1.0) : (p[j] > above ? 1.0 : 0.0);
        right += guess == label;
    }
    return (double)right / (double)k;
}

static double accuracy(const struct qr_metric_options *o, size_t k, const double *p,
                       const double *y) {
    const struct qr_loss_info *info = qr_loss_info(o->loss);
    if (info->accuracy == QR_BY_LARGEST) return qr_argmax(k, p) == qr_argmax(k, y);
    return fraction_correct(k, p, y, info->accuracy == QR_BY_SIGN, o->from_logits ? 0.0 : 0.5,
                            info->zero_is_minus);
}

static double binary_accuracy(const struct qr_metric_options *o, size_t k, const double *p,
                              const double *y) {
    (void)o;
    return fraction_correct(k, p, y, false, 0.5, false);
}

static double squared_error(const struct qr_metric_options *o, size_t k, const double *p,
                            const double *y) {
    (void)o;
    return qr_loss_info(QR_MSE)->value(NULL, k, p, y, NULL);
}

static double absolute_error(const struct qr_metric_options *o, size_t k, const double *p,
                             const double *y) {
    (void)o;
    return qr_loss_info(QR_MAE)->value(NULL, k, p, y, NULL);
}

static double in_top_k(const struct qr_metric_options *o, size_t k, const double *p,
                       const double *y) {
    size_t right = qr_argmax(k, y), above = 0;
    for (size_t j = 0; j < k; j++) above += p[j] > p[right];
    return above < o->top_k;
}

/* ---- counts of positives ---- */

/* Outputs above this value are positives. */
static double threshold(const struct qr_metric_options *o, size_t k, const double *p) {
    if (!o->from_logits) return 0.5;
    if (qr_loss_info(o->loss)->accuracy != QR_BY_LARGEST) return 0;
    /* softmax_j > 1/2: z_j is above the logarithm of half the sum */
    double most = p[qr_argmax(k, p)], sum = 0;
    for (size_t j = 0; j < k; j++) sum += qr_exp(p[j] - most);
    return most + qr_log(0.5 * sum);
}

static double true_positives(const struct qr_metric_options *o, size_t k, const double *p,
                             const double *y) {
    size_t n = 0;
    double above = threshold(o, k, p);
    for (size_t j = 0; j < k; j++) n += p[j] > above && y[j] == 1;
    return (double)n;
}

static double predicted_positives(const struct qr_metric_options *o, size_t k, const double *p,
                                  const double *y) {
    size_t n = 0;
    double above = threshold(o, k, p);
    (void)y;
    for (size_t j = 0; j < k; j++) n += p[j] > above;
    return (double)n;
}

static double actual_positives(const struct qr_metric_options *o, size_t k, const double *p,
                               const double *y) {
    size_t n = 0;
    (void)o, (void)p;
    for (size_t j = 0; j < k; j++) n += y[j] == 1;
    return (double)n;
}

/* ---- the table ---- */

const char *const qr_metric_names[QR_METRICS] = {QR_METRIC_ROWS(QR_ROW_NAME)};

bool qr_metric_is_number(const char *name) {
    return strcmp(strncmp(name, "val_", 4) == 0 ? name + 4 : name,
                  qr_metric_names[QR_CONFUSION_MATRIX]) != 0;
}

typedef double term_fn(const struct qr_metric_options *o, size_t k, const double *p,
                       const double *y);
static const struct qr_metric_info {
    bool maximized, binary_labels;
    /* value: a sample's term (the share of correct outputs, the mean error, a count); among: its
     * denominator, NULL: 1 per sample */
    term_fn *value, *among;
    const struct qr_metric_counts *counts; /* instead of terms */
} table[QR_METRICS] = {
#define INFO(kind, name, ...) [kind] = {__VA_ARGS__},
    QR_METRIC_ROWS(INFO)};

bool qr_metric_maximized(enum qr_metric metric) { return table[metric].maximized; }
bool qr_metric_binary_labels(enum qr_metric metric) { return table[metric].binary_labels; }

size_t qr_metric_n_sums(enum qr_metric metric, const struct qr_metric_options *o, size_t k) {
    const struct qr_metric_info *m = &table[metric];
    return m->counts ? m->counts->n(o, k) : 1 + (m->among != NULL);
}

bool qr_metric_add(enum qr_metric metric, const struct qr_metric_options *o, size_t k,
                   const double *p, const double *y, qr_fixed *sums) {
    const struct qr_metric_info *m = &table[metric];
    qr_fixed term;
    if (m->counts) {
        m->counts->add(o, k, p, y, sums);
        return true;
    }
    if (!qr_fixed_from_double(m->value(o, k, p, y), &term)) return false;
    sums[0] += term;
    if (!m->among) return true;
    if (!qr_fixed_from_double(m->among(o, k, p, y), &term)) return false;
    sums[1] += term;
    return true;
}

double qr_metric_value(enum qr_metric metric, const struct qr_metric_options *o, size_t k,
                       struct qr_metric_sums sums, double n) {
    const struct qr_metric_info *m = &table[metric];
    if (m->counts) return m->counts->value(o, k, sums);
    double among = m->among ? qr_metric_sum(sums, 1) : n;
    return among > 0 ? qr_metric_sum(sums, 0) / among : 0;
}
