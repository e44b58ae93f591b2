#include "model/metric.h"

/* The first of the largest, as tf.argmax. */
static size_t argmax(size_t k, const double *v) {
    size_t at = 0;
    for (size_t j = 1; j < k; j++)
        if (v[j] > v[at]) at = j;
    return at;
}

static double share_right(size_t k, const double *p, const double *y, bool by_sign,
                          bool zero_is_minus) {
    size_t right = 0;
    for (size_t j = 0; j < k; j++) {
        double label = zero_is_minus && y[j] == 0 ? -1.0 : y[j];
        double guess = by_sign ? (p[j] >= 0 ? 1.0 : -1.0) : (p[j] > 0.5 ? 1.0 : 0.0);
        right += guess == label;
    }
    return (double)right / (double)k;
}

static double accuracy(enum qr_loss loss, size_t k, const double *p, const double *y) {
    const struct qr_loss_info *info = qr_loss_info(loss);
    if (info->accuracy == QR_BY_LARGEST) return argmax(k, p) == argmax(k, y);
    return share_right(k, p, y, info->accuracy == QR_BY_SIGN, info->zero_is_minus);
}

static double binary_accuracy(enum qr_loss loss, size_t k, const double *p, const double *y) {
    (void)loss;
    return share_right(k, p, y, false, false);
}

static double squared_error(enum qr_loss loss, size_t k, const double *p, const double *y) {
    (void)loss;
    return qr_loss_info(QR_MSE)->value(NULL, k, p, y, NULL);
}

static double absolute_error(enum qr_loss loss, size_t k, const double *p, const double *y) {
    (void)loss;
    return qr_loss_info(QR_MAE)->value(NULL, k, p, y, NULL);
}

/* ---- the table ---- */

#define NAME(kind, name, grows, function) [kind] = name,
#define VAL_NAME(kind, name, grows, function) [kind] = "val_" name,
const char *const qr_metric_names[QR_METRICS] = {QR_METRIC_ROWS(NAME)};
const char *const qr_val_metric_names[QR_METRICS] = {QR_METRIC_ROWS(VAL_NAME)};

static const struct {
    bool grows;
    double (*value)(enum qr_loss loss, size_t k, const double *p, const double *y);
} table[QR_METRICS] = {
#define INFO(kind, name, grows, function) [kind] = {grows, function},
    QR_METRIC_ROWS(INFO)};

bool qr_metric_grows(enum qr_metric metric) { return table[metric].grows; }

double qr_metric_of(enum qr_metric metric, enum qr_loss loss, size_t k, const double *p,
                    const double *y) {
    return table[metric].value(loss, k, p, y);
}
