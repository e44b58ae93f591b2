/* model/layers/activation_layer.c — an activation that is a layer of its own. */
#include <string.h>

#include "model/layers/layer.h"

static enum qr_code make(struct qr_layer *l, const struct qr_layer_options *o,
                         const struct qr_layer_context *place, struct qr_err *err) {
    (void)place, (void)err;
    l->n_out = l->n_in;
    l->activation = o->activation;
    return QR_OK;
}

static bool forward(const struct qr_layer_state *s, struct qr_layer_work *w, struct qr_pool *pool,
                    size_t n, const struct qr_draw *draw, bool gradient) {
    size_t k = s->layer->n_out;
    (void)pool, (void)draw, (void)gradient;
    for (size_t i = 0; i < n; i++)
        qr_activation_apply(s->layer->activation, k, w->in + i * k, w->out + i * k);
    return qr_dense_fits(w->out, n * k, qr_dense_magnitude(w->out, n * k));
}

static bool backward(const struct qr_layer_state *s, struct qr_layer_work *w, struct qr_pool *pool,
                     size_t n, bool logits, double *ret_d) {
    size_t k = s->layer->n_out;
    (void)pool;
    if (!ret_d) return true;
    for (size_t i = 0; i < n && !logits; i++)
        qr_activation_backward(s->layer->activation, k, w->in + i * k, w->out + i * k,
                               w->d + i * k);
    memcpy(ret_d, w->d, n * k * sizeof *ret_d);
    return true;
}

static const double *before_activation(const struct qr_layer_work *w) { return w->in; }

const struct qr_layer_table qr_layer_activation = {
    .name = "activation",
    .make = make,
    .forward = forward,
    .backward = backward,
    .before_activation = before_activation,
};
