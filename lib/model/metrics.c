#include <math.h>

#include "model/loss_impl.h"
#include "model/model_impl.h"

const char *const qr_activation_names[5] = {"linear", "relu", "tanh", "sigmoid", "softmax"};
const char *const qr_loss_names[5] = {"mse", "mae", "hinge", "binary_crossentropy", "categorical_crossentropy"};
const char *const qr_metric_names[4] = {"accuracy", "binary_accuracy", "mse", "mae"};

/* The first of the largest, as tf.argmax. */
static size_t argmax(size_t k, const double *v) {
    size_t at = 0;
    for (size_t j = 1; j < k; j++) if (v[j] > v[at]) at = j;
    return at;
}

static double share_right(size_t k, const double *p, const double *y, bool by_sign, bool zero_is_minus) {
    size_t right = 0;
    for (size_t j = 0; j < k; j++) {
        double label = zero_is_minus && y[j] == 0 ? -1.0 : y[j];
        double guess = by_sign ? (p[j] >= 0 ? 1.0 : -1.0) : (p[j] > 0.5 ? 1.0 : 0.0);
        right += guess == label;
    }
    return (double)right / (double)k;
}

double qr_metric_of(enum qr_metric metric, enum qr_loss loss, size_t k, const double *p, const double *y) {
    switch (metric) {
    case QR_ACCURACY:
        if (loss == QR_CATEGORICAL_CROSSENTROPY) return argmax(k, p) == argmax(k, y);
        return share_right(k, p, y, loss != QR_BINARY_CROSSENTROPY, loss == QR_HINGE);
    case QR_BINARY_ACCURACY: return share_right(k, p, y, false, false);
    case QR_METRIC_MSE: return qr_loss_of(QR_MSE, false, k, NULL, p, y, NULL);
    case QR_METRIC_MAE: return qr_loss_of(QR_MAE, false, k, NULL, p, y, NULL);
    }
    return 0;
}

double qr_model_mean(const struct qr_model *m, size_t i, const qr_fixed *sums, uint64_t n) {
    QR_ASSERT(i < qr_model_n_sums(m) && n > 0);
    return qr_fixed_to_double(sums[i]) / (double)n;
}

/* ---- labels ---- */

static bool is_one_hot(const double *y, size_t k) {
    size_t ones = 0;
    for (size_t j = 0; j < k; j++) {
        if (y[j] != 0 && y[j] != 1) return false;
        ones += y[j] == 1;
    }
    return ones == 1;
}

/* Every value is one of two. */
static bool is_either(const double *y, size_t n, double a, double b, size_t *ret_at) {
    for (size_t i = 0; i < n; i++) {
        if (y[i] == a || y[i] == b) continue;
        *ret_at = i;
        return false;
    }
    return true;
}

enum qr_code qr_model_check_labels(const struct qr_model *m, const double *y, size_t n_samples, struct qr_err *err) {
    size_t k = m->n_outputs, n = n_samples * k, at = 0, other = 0;
    bool by_sign = false;
    for (size_t i = 0; i < m->n_metrics; i++) by_sign |= m->metrics[i] == QR_ACCURACY && (m->loss == QR_MSE || m->loss == QR_MAE);
    for (size_t i = 0; i < n; i++) {
        if (!(fabs(y[i]) < 0x1p40))
            return qr_fail(err, QR_DATA_LOSS, "sample %zu: label %g is not a number below 2^40; correct the data", i / k, y[i]);
    }
    if (m->loss == QR_CATEGORICAL_CROSSENTROPY) {
        for (size_t i = 0; i < n_samples; i++)
            if (!is_one_hot(y + i * k, k))
                return qr_fail(err, QR_DATA_LOSS, "sample %zu: categorical_crossentropy wants a one-hot label of %zu columns (one 1, else 0)", i, k);
    } else if (m->loss == QR_BINARY_CROSSENTROPY) {
        if (!is_either(y, n, 0, 1, &at))
            return qr_fail(err, QR_DATA_LOSS, "sample %zu: label %g, but binary_crossentropy wants 0 or 1; convert -1 to 0", at / k, y[at]);
    } else if (m->loss == QR_HINGE) {
        if (!is_either(y, n, -1, 1, &at) && !is_either(y, n, 0, 1, &other)) {
            at = at > other ? at : other;
            return qr_fail(err, QR_DATA_LOSS, "sample %zu: label %g, but hinge wants all labels -1 or 1 (or all 0 or 1)", at / k, y[at]);
        }
    } else if (by_sign && !is_either(y, n, -1, 1, &at)) {
        return qr_fail(err, QR_DATA_LOSS, "sample %zu: label %g, but accuracy goes by sign with %s and wants -1 or 1; use binary_accuracy for 0 or 1",
                       at / k, y[at], qr_loss_names[m->loss]);
    }
    return QR_OK;
}
