/* model/loss.c — losses, their derivatives and checks of labels. Start reading at the table at the
 * end. */
#include "model/loss.h"

#include <math.h>
#include <stdio.h>

#include "exact/functions.h"

static const double epsilon = 1e-7;

static double squared_loss(const struct qr_loss_options *o, size_t k, const double *p,
                           const double *y, double *ret_d) {
    (void)o;
    double sum = 0;
    for (size_t j = 0; j < k; j++) {
        double e = p[j] - y[j];
        sum += e * e;
        if (ret_d) ret_d[j] = 2.0 * e / (double)k;
    }
    return sum / (double)k;
}

static double absolute_loss(const struct qr_loss_options *o, size_t k, const double *p,
                            const double *y, double *ret_d) {
    (void)o;
    double sum = 0;
    for (size_t j = 0; j < k; j++) {
        double e = p[j] - y[j];
        sum += fabs(e);
        /* e: 0, or a NaN that must propagate */
        if (ret_d) ret_d[j] = (e > 0 ? 1.0 : e < 0 ? -1.0 : e) / (double)k;
    }
    return sum / (double)k;
}

static double hinge(const struct qr_loss_options *o, size_t k, const double *p, const double *y,
                    double *ret_d) {
    (void)o;
    double sum = 0;
    for (size_t j = 0; j < k; j++) {
        double label = y[j] == 0 ? -1.0 : y[j], margin = 1.0 - label * p[j];
        sum += margin < 0 ? 0.0 : margin;
        if (ret_d) ret_d[j] = margin < 0 ? 0.0 : -label / (double)k;
    }
    return sum / (double)k;
}

static double huber(const struct qr_loss_options *o, size_t k, const double *p, const double *y,
                    double *ret_d) {
    double sum = 0, delta = o->delta;
    for (size_t j = 0; j < k; j++) {
        double e = p[j] - y[j], size = fabs(e);
        bool near = size <= delta;
        sum += near ? 0.5 * (e * e) : delta * size - 0.5 * (delta * delta);
        if (ret_d) ret_d[j] = (near ? e : e > 0 ? delta : e < 0 ? -delta : e) / (double)k;
    }
    return sum / (double)k;
}

static double log_cosh(const struct qr_loss_options *o, size_t k, const double *p, const double *y,
                       double *ret_d) {
    static const double log_2 = 0x1.62e42fefa39efp-1;
    double sum = 0;
    (void)o;
    for (size_t j = 0; j < k; j++) {
        double e = p[j] - y[j], size = fabs(e);
        sum += size + (qr_log1p(qr_exp(-2.0 * size)) - log_2);
        if (ret_d) ret_d[j] = qr_tanh(e) / (double)k;
    }
    return sum / (double)k;
}

static double weighted_sum(const struct qr_loss_options *o, size_t k, const double *p,
                           const double *y, double *ret_d) {
    (void)y;
    double sum = 0;
    for (size_t j = 0; j < k; j++) {
        double weight = o->weights ? o->weights[j] : 1.0;
        sum += weight * p[j];
        if (ret_d) ret_d[j] = weight;
    }
    return sum;
}

/* Applies label_smoothing; without it the label is unchanged to the bit. rest: added to each
 * label. */
static double smoothed(const struct qr_loss_options *o, double y, double rest) {
    return y * (1.0 - o->label_smoothing) + rest;
}
static double binary_rest(const struct qr_loss_options *o) { return 0.5 * o->label_smoothing; }
static double class_rest(const struct qr_loss_options *o, size_t k) {
    return o->label_smoothing / (double)k;
}

static double clipped(double p) {
    return p < epsilon ? epsilon : p > 1.0 - epsilon ? 1.0 - epsilon : p;
}

static double binary(const struct qr_loss_options *o, size_t k, const double *p, const double *y,
                     double *ret_d) {
    double sum = 0, rest = binary_rest(o);
    for (size_t j = 0; j < k; j++) {
        double t = smoothed(o, y[j], rest);
        double q = clipped(p[j]), one = q + epsilon, zero = 1.0 - q + epsilon;
        sum += -(t * qr_log(one) + (1.0 - t) * qr_log(zero));
        if (ret_d) ret_d[j] = q == p[j] ? -(t / one - (1.0 - t) / zero) / (double)k : 0.0;
    }
    return sum / (double)k;
}

static double binary_logits(const struct qr_loss_options *o, size_t k, const double *z,
                            const double *y, double *ret_d) {
    double sum = 0, rest = binary_rest(o);
    for (size_t j = 0; j < k; j++) {
        double t = smoothed(o, y[j], rest), positive = z[j] < 0 ? 0.0 : z[j];
        sum += positive - z[j] * t + qr_log1p(qr_exp(-fabs(z[j])));
        if (ret_d) ret_d[j] = (qr_sigmoid(z[j]) - t) / (double)k;
    }
    return sum / (double)k;
}

/* q_j = p_j / t with t = sum p; d/dp_i = (g_i - sum_j g_j q_j) / t with g_j = -y_j / q_j where not
 * clipped. */
static double categorical(const struct qr_loss_options *o, size_t k, const double *p,
                          const double *y, double *ret_d) {
    double t = 0, loss = 0, dot = 0, rest = class_rest(o, k);
    for (size_t j = 0; j < k; j++) t += p[j];
    for (size_t j = 0; j < k; j++) {
        double label = smoothed(o, y[j], rest), share = p[j] / t, q = clipped(share);
        loss += label * qr_log(q);
        if (!ret_d) continue;
        ret_d[j] = q == share ? -label / q : 0.0;
        dot += ret_d[j] * share;
    }
    if (ret_d)
        for (size_t j = 0; j < k; j++) ret_d[j] = (ret_d[j] - dot) / t;
    return -loss;
}

static double categorical_logits(const struct qr_loss_options *o, size_t k, const double *z,
                                 const double *y, double *ret_d) {
    double most = z[0], sum = 0, loss = 0, rest = class_rest(o, k);
    for (size_t j = 1; j < k; j++) most = z[j] > most ? z[j] : most;
    for (size_t j = 0; j < k; j++) {
        double e = qr_exp(z[j] - most);
        if (ret_d) ret_d[j] = e;
        sum += e;
    }
    double log_sum = qr_log(sum);
    for (size_t j = 0; j < k; j++) {
        double label = smoothed(o, y[j], rest);
        loss += label * (log_sum - (z[j] - most));
        if (ret_d) ret_d[j] = ret_d[j] / sum - label; /* the softmax minus the label */
    }
    return loss;
}

/* ---- labels ---- */

/* Tolerance for probabilities that were float32. */
static const double sum_slack = 1e-5;

/* NaN: one of them is negative. */
static double sum_of_probabilities(const double *y, size_t k) {
    double sum = 0;
    for (size_t j = 0; j < k; j++) {
        if (y[j] < 0) return (double)NAN;
        sum += y[j];
    }
    return sum;
}

/* The i-th of all label values. */
static double label_value(const struct qr_labels *l, size_t i) {
    return l->y[i / l->k * l->stride + i % l->k];
}

/* Whether every value is a or b; else *ret_at is the first other one. */
static bool is_either(const struct qr_labels *l, double a, double b, size_t *ret_at) {
    for (size_t i = 0; i < l->n_samples * l->k; i++) {
        if (label_value(l, i) == a || label_value(l, i) == b) continue;
        *ret_at = i;
        return false;
    }
    return true;
}

static size_t label_row(const struct qr_labels *l, size_t sample) {
    return l->row ? l->row[sample] : sample;
}

static enum qr_code class_labels(const char *name, const struct qr_labels *l, struct qr_err *err) {
    for (size_t i = 0; i < l->n_samples; i++) {
        double sum = sum_of_probabilities(l->y + i * l->stride, l->k);
        if (fabs(sum - 1) <= sum_slack) continue;
        char is[40] = "one is negative";
        if (!isnan(sum)) snprintf(is, sizeof is, "they add up to %g", sum);
        return qr_fail(err, QR_DATA_LOSS,
                       "sample %zu: %s needs labels of %zu columns that are probabilities with sum "
                       "1 (one-hot: one 1, else 0), but %s",
                       label_row(l, i), name, l->k, is);
    }
    return QR_OK;
}

static enum qr_code binary_labels(const char *name, const struct qr_labels *l, struct qr_err *err) {
    size_t at;
    if (is_either(l, 0, 1, &at)) return QR_OK;
    return qr_fail(err, QR_DATA_LOSS, "sample %zu: label %g, but %s needs 0 or 1; convert -1 to 0",
                   label_row(l, at / l->k), label_value(l, at), name);
}

static enum qr_code hinge_labels(const char *name, const struct qr_labels *l, struct qr_err *err) {
    size_t at, other;
    if (is_either(l, -1, 1, &at) || is_either(l, 0, 1, &other)) return QR_OK;
    at = at > other ? at : other;
    return qr_fail(err, QR_DATA_LOSS,
                   "sample %zu: label %g, but %s needs all labels -1 or 1 (or all 0 or 1)",
                   label_row(l, at / l->k), label_value(l, at), name);
}

static enum qr_code sign_labels(const char *name, const struct qr_labels *l, struct qr_err *err) {
    size_t at;
    if (!l->with_accuracy || is_either(l, -1, 1, &at)) return QR_OK;
    return qr_fail(
        err, QR_DATA_LOSS,
        "sample %zu: label %g, but accuracy and confusion_matrix go by the sign with %s and "
        "need -1 or 1; binary_accuracy is for 0 or 1%s",
        label_row(l, at / l->k), label_value(l, at), name,
        l->k > 1 ? "; for classes use categorical_crossentropy, or one-hot labels with "
                   "{\"name\": \"top_k_accuracy\", \"k\": 1}"
                 : "");
}

/* ---- the table ---- */

const char *const qr_loss_names[QR_LOSSES] = {QR_LOSS_ROWS(QR_ROW_NAME)};

static const struct qr_loss_info infos[QR_LOSSES] = {
#define INFO(kind, name, ...) [kind] = {__VA_ARGS__},
    QR_LOSS_ROWS(INFO)};

const struct qr_loss_info *qr_loss_info(enum qr_loss loss) { return &infos[loss]; }

bool qr_loss_from_logits(enum qr_loss loss, enum qr_activation last) {
    return infos[loss].of_logits && infos[loss].logits_of == last;
}

bool qr_loss_has_classes(enum qr_loss loss) {
    return infos[loss].of_logits || infos[loss].zero_is_minus;
}

size_t qr_loss_class(enum qr_loss loss, size_t k, const double *y) {
    size_t at = 0;
    if (infos[loss].accuracy != QR_BY_LARGEST) return y[0] == 1;
    for (size_t j = 1; j < k; j++)
        if (y[j] > y[at]) at = j;
    return at;
}

enum qr_code qr_loss_check_labels(enum qr_loss loss, const struct qr_labels *l,
                                  struct qr_err *err) {
    if (infos[loss].no_labels) return QR_OK;
    for (size_t i = 0; i < l->n_samples * l->k; i++) {
        if (!(fabs(label_value(l, i)) < 0x1p40))
            return qr_fail(err, QR_DATA_LOSS,
                           "sample %zu: label %g is not a number below 2^40; correct the data",
                           label_row(l, i / l->k), label_value(l, i));
    }
    size_t at;
    if (l->with_bits && !is_either(l, 0, 1, &at))
        return qr_fail(err, QR_DATA_LOSS,
                       "sample %zu: label %g, but precision, recall and auc need 0 or 1",
                       label_row(l, at / l->k), label_value(l, at));
    return infos[loss].labels(qr_loss_names[loss], l, err);
}
