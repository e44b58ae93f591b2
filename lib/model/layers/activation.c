/* model/layers/activation.c — activations and their derivatives. Start reading at
 * qr_activation_apply(). */
#include "model/layers/activation.h"

#include <stdint.h>

#include "exact/functions.h"

static void apply_linear(size_t k, const double *z, double *ret_p) {
    for (size_t j = 0; j < k; j++) ret_p[j] = z[j];
}
static void back_linear(size_t k, const double *z, const double *p, double *d) {
    (void)k, (void)z, (void)p, (void)d;
}

/* Two at a time, without a branch that would be mispredicted. */
typedef double two __attribute__((vector_size(16), aligned(8), may_alias));
typedef int64_t two_words __attribute__((vector_size(16)));

static void apply_relu(size_t k, const double *z, double *ret_p) {
    size_t j = 0;
    for (; j + 2 <= k; j += 2) {
        two x = *(const two *)(z + j);
        *(two *)(ret_p + j) = (two)((two_words)x & ~(x < 0));
    }
    if (j < k) ret_p[j] = z[j] < 0 ? 0.0 : z[j];
}
static void back_relu(size_t k, const double *z, const double *p, double *d) {
    (void)p;
    size_t j = 0;
    for (; j + 2 <= k; j += 2)
        *(two *)(d + j) = (two)((two_words)(*(two *)(d + j)) & (*(const two *)(z + j) > 0));
    if (j < k) d[j] = z[j] > 0 ? d[j] : 0.0;
}

static void apply_tanh(size_t k, const double *z, double *ret_p) {
    for (size_t j = 0; j < k; j++) ret_p[j] = qr_tanh(z[j]);
}
static void back_tanh(size_t k, const double *z, const double *p, double *d) {
    (void)z;
    for (size_t j = 0; j < k; j++) d[j] *= 1.0 - p[j] * p[j];
}

static void apply_sigmoid(size_t k, const double *z, double *ret_p) {
    for (size_t j = 0; j < k; j++) ret_p[j] = qr_sigmoid(z[j]);
}
static void back_sigmoid(size_t k, const double *z, const double *p, double *d) {
    (void)z;
    for (size_t j = 0; j < k; j++) d[j] *= p[j] * (1.0 - p[j]);
}

static void apply_softmax(size_t k, const double *z, double *ret_p) {
    double most = z[0], sum = 0;
    for (size_t j = 1; j < k; j++) most = z[j] > most ? z[j] : most;
    for (size_t j = 0; j < k; j++) {
        ret_p[j] = qr_exp(z[j] - most);
        sum += ret_p[j];
    }
    for (size_t j = 0; j < k; j++) ret_p[j] /= sum;
}
static void back_softmax(size_t k, const double *z, const double *p, double *d) {
    (void)z;
    double dot = 0;
    for (size_t j = 0; j < k; j++) dot += d[j] * p[j];
    for (size_t j = 0; j < k; j++) d[j] = p[j] * (d[j] - dot);
}

/* ---- the table ---- */

const char *const qr_activation_names[QR_ACTIVATIONS] = {QR_ACTIVATION_ROWS(QR_ROW_NAME)};

static const struct {
    void (*apply)(size_t k, const double *z, double *ret_p);
    void (*back)(size_t k, const double *z, const double *p, double *d);
} table[QR_ACTIVATIONS] = {
#define FUNCTIONS(kind, name, functions) [kind] = {apply_##functions, back_##functions},
    QR_ACTIVATION_ROWS(FUNCTIONS)};

void qr_activation_apply(enum qr_activation f, size_t k, const double *z, double *ret_p) {
    table[f].apply(k, z, ret_p);
}
void qr_activation_backward(enum qr_activation f, size_t k, const double *z, const double *p,
                            double *d) {
    table[f].back(k, z, p, d);
}
