/* Kernel regularizers, Keras': once a step, from the weights alone. */
#include <math.h>

#include "model/model_impl.h"

static size_t kernel_size(const struct qr_dense *d) { return d->n_in * d->units; }

double qr_model_penalty(const struct qr_model *m, const double *params) {
    double all = 0;
    for (size_t l = 0; m->penalties && l < m->n_dense; l++) {
        const struct qr_dense *d = &m->dense[l];
        const struct qr_dense_penalty r = m->penalties[l];
        const double *w = params + d->kernel;
        double sizes = 0, squares = 0;
        for (size_t i = 0; i < kernel_size(d); i++) {
            sizes += fabs(w[i]);
            squares += w[i] * w[i];
        }
        all += r.l1 * sizes + r.l2 * squares;
    }
    return all;
}

void qr_model_add_penalty_gradient(const struct qr_model *m, const double *params, double *grad) {
    for (size_t l = 0; m->penalties && l < m->n_dense; l++) {
        const struct qr_dense *d = &m->dense[l];
        const struct qr_dense_penalty r = m->penalties[l];
        const double *w = params + d->kernel;
        for (size_t i = 0; i < kernel_size(d); i++) {
            double sign = w[i] > 0 ? 1.0 : w[i] < 0 ? -1.0 : 0.0; /* 0 at 0, as tf.abs */
            grad[d->kernel + i] += r.l1 * sign + 2.0 * r.l2 * w[i];
        }
    }
}
