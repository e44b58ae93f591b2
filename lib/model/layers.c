#include "model/layers_impl.h"

#include <math.h>
#include <string.h>

#include "exact/functions.h"

bool qr_dense_forward(const struct qr_dense *d, const double *params, const double *const *in, size_t n, double *ret_z) {
    const double *kernel = params + d->kernel, *bias = params + d->bias;
    size_t units = d->units;
    memset(ret_z, 0, n * units * sizeof *ret_z);
    for (size_t i = 0; i < d->n_in; i++) {
        const double *row = kernel + i * units;
        for (size_t s = 0; s < n; s++) {
            double a = in[s][i], *z = ret_z + s * units;
            for (size_t j = 0; j < units; j++) z[j] += a * row[j];
        }
    }
    bool fits = true;
    for (size_t s = 0; s < n; s++) {
        for (size_t j = 0; j < units; j++) {
            ret_z[s * units + j] += bias[j];
            fits &= fabs(ret_z[s * units + j]) < 0x1p40; /* false for NaN; a tanh would hide an infinity */
        }
    }
    return fits;
}

static void softmax(size_t k, const double *z, double *ret_p) {
    double most = z[0], sum = 0;
    for (size_t j = 1; j < k; j++) most = z[j] > most ? z[j] : most;
    for (size_t j = 0; j < k; j++) {
        ret_p[j] = qr_exp(z[j] - most);
        sum += ret_p[j];
    }
    for (size_t j = 0; j < k; j++) ret_p[j] /= sum;
}

void qr_activation_apply(enum qr_activation f, size_t k, const double *z, double *ret_p) {
    switch (f) {
    case QR_LINEAR:
        for (size_t j = 0; j < k; j++) ret_p[j] = z[j];
        break;
    case QR_RELU:
        for (size_t j = 0; j < k; j++) ret_p[j] = z[j] < 0 ? 0.0 : z[j];
        break;
    case QR_TANH:
        for (size_t j = 0; j < k; j++) ret_p[j] = qr_tanh(z[j]);
        break;
    case QR_SIGMOID:
        for (size_t j = 0; j < k; j++) ret_p[j] = qr_sigmoid(z[j]);
        break;
    case QR_SOFTMAX: softmax(k, z, ret_p); break;
    }
}

void qr_activation_backward(enum qr_activation f, size_t k, const double *z, const double *p, double *d) {
    double dot = 0;
    switch (f) {
    case QR_LINEAR: break;
    case QR_RELU:
        for (size_t j = 0; j < k; j++) d[j] = z[j] > 0 ? d[j] : 0.0;
        break;
    case QR_TANH:
        for (size_t j = 0; j < k; j++) d[j] *= 1.0 - p[j] * p[j];
        break;
    case QR_SIGMOID:
        for (size_t j = 0; j < k; j++) d[j] *= p[j] * (1.0 - p[j]);
        break;
    case QR_SOFTMAX:
        for (size_t j = 0; j < k; j++) dot += d[j] * p[j];
        for (size_t j = 0; j < k; j++) d[j] = p[j] * (d[j] - dot);
        break;
    }
}

static bool to_fixed(const double *v, size_t n, qr_fixed *ret) {
    bool fits = true;
    for (size_t j = 0; j < n; j++) fits &= qr_fixed_from_double(v[j], &ret[j]);
    return fits;
}

bool qr_dense_gradient(const struct qr_dense *d, const double *const *in, const double *dz, size_t n, double *acc, qr_fixed *ret_grad) {
    size_t units = d->units;
    bool fits = true;
    for (size_t i = 0; i < d->n_in; i++) {
        memset(acc, 0, units * sizeof *acc);
        for (size_t s = 0; s < n; s++) {
            double a = in[s][i];
            const double *row = dz + s * units;
            for (size_t j = 0; j < units; j++) acc[j] += a * row[j];
        }
        fits &= to_fixed(acc, units, ret_grad + d->kernel + i * units);
    }
    memset(acc, 0, units * sizeof *acc);
    for (size_t s = 0; s < n; s++)
        for (size_t j = 0; j < units; j++) acc[j] += dz[s * units + j];
    return fits & to_fixed(acc, units, ret_grad + d->bias);
}

void qr_dense_backward(const struct qr_dense *d, const double *transposed, const double *dz, size_t n, double *ret_d) {
    memset(ret_d, 0, n * d->n_in * sizeof *ret_d);
    for (size_t j = 0; j < d->units; j++) {
        const double *row = transposed + j * d->n_in;
        for (size_t s = 0; s < n; s++) {
            double g = dz[s * d->units + j], *out = ret_d + s * d->n_in;
            for (size_t i = 0; i < d->n_in; i++) out[i] += g * row[i];
        }
    }
}
