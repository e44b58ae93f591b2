#include "model/loss.h"

#include <math.h>

#include "exact/functions.h"

static const double epsilon = 1e-7;

static double squared(size_t k, const double *p, const double *y, double *ret_d) {
    double sum = 0;
    for (size_t j = 0; j < k; j++) {
        double e = p[j] - y[j];
        sum += e * e;
        if (ret_d) ret_d[j] = 2.0 * e / (double)k;
    }
    return sum / (double)k;
}

static double absolute(size_t k, const double *p, const double *y, double *ret_d) {
    double sum = 0;
    for (size_t j = 0; j < k; j++) {
        double e = p[j] - y[j];
        sum += fabs(e);
        /* e: 0, or NaN that must show */
        if (ret_d) ret_d[j] = (e > 0 ? 1.0 : e < 0 ? -1.0 : e) / (double)k;
    }
    return sum / (double)k;
}

static double hinge(size_t k, const double *p, const double *y, double *ret_d) {
    double sum = 0;
    for (size_t j = 0; j < k; j++) {
        double label = y[j] == 0 ? -1.0 : y[j], margin = 1.0 - label * p[j];
        sum += margin < 0 ? 0.0 : margin;
        if (ret_d) ret_d[j] = margin < 0 ? 0.0 : -label / (double)k;
    }
    return sum / (double)k;
}

static double clipped(double p) {
    return p < epsilon ? epsilon : p > 1.0 - epsilon ? 1.0 - epsilon : p;
}

static double binary(size_t k, const double *p, const double *y, double *ret_d) {
    double sum = 0;
    for (size_t j = 0; j < k; j++) {
        double q = clipped(p[j]), one = q + epsilon, zero = 1.0 - q + epsilon;
        sum += -(y[j] * qr_log(one) + (1.0 - y[j]) * qr_log(zero));
        if (ret_d) ret_d[j] = q == p[j] ? -(y[j] / one - (1.0 - y[j]) / zero) / (double)k : 0.0;
    }
    return sum / (double)k;
}

static double binary_logits(size_t k, const double *z, const double *p, const double *y,
                            double *ret_d) {
    (void)p;
    double sum = 0;
    for (size_t j = 0; j < k; j++) {
        double positive = z[j] < 0 ? 0.0 : z[j];
        sum += positive - z[j] * y[j] + qr_log1p(qr_exp(-fabs(z[j])));
        if (ret_d) ret_d[j] = (qr_sigmoid(z[j]) - y[j]) / (double)k;
    }
    return sum / (double)k;
}

/* q_j = p_j / t with t = sum p; d/dp_i = (g_i - sum_j g_j q_j) / t with g_j = -y_j / q_j where
 * not clipped. */
static double categorical(size_t k, const double *p, const double *y, double *ret_d) {
    double t = 0, loss = 0, dot = 0;
    for (size_t j = 0; j < k; j++) t += p[j];
    for (size_t j = 0; j < k; j++) {
        double share = p[j] / t, q = clipped(share);
        loss += y[j] * qr_log(q);
        if (!ret_d) continue;
        ret_d[j] = q == share ? -y[j] / q : 0.0;
        dot += ret_d[j] * share;
    }
    if (ret_d)
        for (size_t j = 0; j < k; j++) ret_d[j] = (ret_d[j] - dot) / t;
    return -loss;
}

/* p is the softmax of z already. */
static double categorical_logits(size_t k, const double *z, const double *p, const double *y,
                                 double *ret_d) {
    double most = z[0], sum = 0, loss = 0;
    for (size_t j = 1; j < k; j++) most = z[j] > most ? z[j] : most;
    for (size_t j = 0; j < k; j++) sum += qr_exp(z[j] - most);
    double log_sum = qr_log(sum);
    for (size_t j = 0; j < k; j++) {
        loss += y[j] * (log_sum - (z[j] - most));
        if (ret_d) ret_d[j] = p[j] - y[j];
    }
    return loss;
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

static size_t row_of(const struct qr_labels *l, size_t sample) {
    return l->row ? l->row[sample] : sample;
}

static enum qr_code one_hot_labels(const char *name, const struct qr_labels *l,
                                   struct qr_err *err) {
    for (size_t i = 0; i < l->n_samples; i++)
        if (!is_one_hot(l->y + i * l->k, l->k))
            return qr_fail(err, QR_DATA_LOSS,
                           "sample %zu: %s wants a one-hot label of %zu columns (one 1, else 0)",
                           row_of(l, i), name, l->k);
    return QR_OK;
}

static enum qr_code binary_labels(const char *name, const struct qr_labels *l, struct qr_err *err) {
    size_t at;
    if (is_either(l->y, l->n_samples * l->k, 0, 1, &at)) return QR_OK;
    return qr_fail(err, QR_DATA_LOSS, "sample %zu: label %g, but %s wants 0 or 1; convert -1 to 0",
                   row_of(l, at / l->k), l->y[at], name);
}

static enum qr_code hinge_labels(const char *name, const struct qr_labels *l, struct qr_err *err) {
    size_t at, other, n = l->n_samples * l->k;
    if (is_either(l->y, n, -1, 1, &at) || is_either(l->y, n, 0, 1, &other)) return QR_OK;
    at = at > other ? at : other;
    return qr_fail(err, QR_DATA_LOSS,
                   "sample %zu: label %g, but %s wants all labels -1 or 1 (or all 0 or 1)",
                   row_of(l, at / l->k), l->y[at], name);
}

static enum qr_code sign_labels(const char *name, const struct qr_labels *l, struct qr_err *err) {
    size_t at;
    if (!l->with_accuracy || is_either(l->y, l->n_samples * l->k, -1, 1, &at)) return QR_OK;
    return qr_fail(err, QR_DATA_LOSS,
                   "sample %zu: label %g, but accuracy goes by sign with %s and wants -1 or 1; use "
                   "binary_accuracy for 0 or 1",
                   row_of(l, at / l->k), l->y[at], name);
}

/* ---- the table ---- */

#define NAME(kind, name, ...) [kind] = name,
const char *const qr_loss_names[QR_LOSSES] = {QR_LOSS_ROWS(NAME)};

static const struct qr_loss_info infos[QR_LOSSES] = {
#define INFO(kind, name, ...) [kind] = {__VA_ARGS__},
    QR_LOSS_ROWS(INFO)};

const struct qr_loss_info *qr_loss_info(enum qr_loss loss) { return &infos[loss]; }

bool qr_loss_from_logits(enum qr_loss loss, enum qr_activation last) {
    return infos[loss].of_logits && infos[loss].logits_of == last;
}

double qr_loss_of(enum qr_loss loss, bool from_logits, size_t k, const double *z, const double *p,
                  const double *y, double *ret_d) {
    return from_logits ? infos[loss].of_logits(k, z, p, y, ret_d)
                       : infos[loss].value(k, p, y, ret_d);
}

enum qr_code qr_loss_check_labels(enum qr_loss loss, const struct qr_labels *l,
                                  struct qr_err *err) {
    for (size_t i = 0; i < l->n_samples * l->k; i++) {
        if (!(fabs(l->y[i]) < 0x1p40))
            return qr_fail(err, QR_DATA_LOSS,
                           "sample %zu: label %g is not a number below 2^40; correct the data",
                           row_of(l, i / l->k), l->y[i]);
    }
    return infos[loss].labels(qr_loss_names[loss], l, err);
}
