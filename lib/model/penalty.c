/* model/penalty.c — kernel regularizers as in Keras, computed once per step from the weights alone.
 * Start reading at qr_model_penalty(). */
#include <math.h>

#include "model/model_impl.h"

/* The kernel of a layer with l1 or l2; NULL for others. */
static const double *penalized_kernel(const struct qr_layer *l, const double *params,
                                      size_t *ret_n) {
    if (l->kind != QR_LAYER_DENSE || !(l->l1 > 0 || l->l2 > 0)) return NULL;
    *ret_n = l->dense.n_in * l->dense.units;
    return params + l->dense.kernel;
}

double qr_model_penalty(const struct qr_model *m, const double *params) {
    double all = 0;
    for (size_t i = 0; m->penalized && i < m->n_layers; i++) {
        size_t n = 0;
        const double *w = penalized_kernel(&m->layers[i], params, &n);
        double sizes = 0, squares = 0;
        for (size_t k = 0; k < n; k++) {
            sizes += fabs(w[k]);
            squares += w[k] * w[k];
        }
        if (w) all += m->layers[i].l1 * sizes + m->layers[i].l2 * squares;
    }
    return all;
}

void qr_model_add_penalty_gradient(const struct qr_model *m, const double *params, size_t from,
                                   size_t end, double *grad) {
    for (size_t i = 0; m->penalized && i < m->n_layers; i++) {
        const struct qr_layer *l = &m->layers[i];
        size_t n = 0;
        if (!l->learns || !penalized_kernel(l, params, &n)) continue;
        size_t kernel = l->dense.kernel;
        for (size_t k = kernel > from ? kernel : from; k < kernel + n && k < end; k++) {
            double w = params[k], sign = w > 0 ? 1.0 : w < 0 ? -1.0 : 0.0; /* 0 at 0, as tf.abs */
            grad[k] += l->l1 * sign + 2.0 * l->l2 * w;
        }
    }
}
