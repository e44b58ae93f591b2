#include "model/loss_impl.h"

#include <math.h>

#include "exact/functions.h"

static const double epsilon = 1e-7;

bool qr_loss_from_logits(enum qr_loss loss, enum qr_activation last) {
    return (loss == QR_BINARY_CROSSENTROPY && last == QR_SIGMOID) || (loss == QR_CATEGORICAL_CROSSENTROPY && last == QR_SOFTMAX);
}

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
        if (ret_d) ret_d[j] = (e > 0 ? 1.0 : e < 0 ? -1.0 : e) / (double)k; /* e: 0, or NaN that must show */
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

static double binary_logits(size_t k, const double *z, const double *y, double *ret_d) {
    double sum = 0;
    for (size_t j = 0; j < k; j++) {
        double positive = z[j] < 0 ? 0.0 : z[j];
        sum += positive - z[j] * y[j] + qr_log1p(qr_exp(-fabs(z[j])));
        if (ret_d) ret_d[j] = (qr_sigmoid(z[j]) - y[j]) / (double)k;
    }
    return sum / (double)k;
}

/* q_j = p_j / t with t = sum p; d/dp_i = (g_i - sum_j g_j q_j) / t with g_j = -y_j / q_j where not clipped. */
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
    if (ret_d) for (size_t j = 0; j < k; j++) ret_d[j] = (ret_d[j] - dot) / t;
    return -loss;
}

/* p is the softmax of z already. */
static double categorical_logits(size_t k, const double *z, const double *p, const double *y, double *ret_d) {
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

double qr_loss_of(enum qr_loss loss, bool from_logits, size_t k, const double *z, const double *p, const double *y, double *ret_d) {
    switch (loss) {
    case QR_MSE: return squared(k, p, y, ret_d);
    case QR_MAE: return absolute(k, p, y, ret_d);
    case QR_HINGE: return hinge(k, p, y, ret_d);
    case QR_BINARY_CROSSENTROPY: return from_logits ? binary_logits(k, z, y, ret_d) : binary(k, p, y, ret_d);
    case QR_CATEGORICAL_CROSSENTROPY: return from_logits ? categorical_logits(k, z, p, y, ret_d) : categorical(k, p, y, ret_d);
    }
    return 0;
}
