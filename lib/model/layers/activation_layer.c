/* model/layers/activation_layer.c — an activation as a layer of its own. Start reading at
 * activation_forward(). */
#include <string.h>

#include "model/layers/layer.h"

static enum qr_code activation_make(struct qr_layer *l, const struct qr_layer_options *o,
                                    const struct qr_layer_context *place, struct qr_err *err) {
    (void)place, (void)err;
    l->n_out = l->n_in;
    l->activation = o->activation;
    return QR_OK;
}

static bool activation_forward(const struct qr_layer_state *s, struct qr_layer_work *w,
                               struct qr_pool *pool, size_t n, const struct qr_draw *draw,
                               bool gradient) {
    size_t k = s->layer->n_out;
    (void)pool, (void)draw, (void)gradient;
    for (size_t i = 0; i < n; i++)
        qr_activation_apply(s->layer->activation, k, w->in + i * k, w->out + i * k);
    return qr_dense_fits(w->out, n * k, qr_dense_magnitude(w->out, n * k));
}

static bool activation_backward(const struct qr_layer_state *s, struct qr_layer_work *w,
                                struct qr_pool *pool, size_t n, bool logits, double *ret_d) {
    size_t k = s->layer->n_out;
    (void)pool;
    if (!ret_d) return true;
    for (size_t i = 0; i < n && !logits; i++)
        qr_activation_backward(s->layer->activation, k, w->in + i * k, w->out + i * k,
                               w->d + i * k);
    memcpy(ret_d, w->d, n * k * sizeof *ret_d);
    return true;
}

static const double *activation_input(const struct qr_layer_work *w) { return w->in; }

const struct qr_layer_table qr_layer_activation = {
    .name = "activation",
    .make = activation_make,
    .forward = activation_forward,
    .backward = activation_backward,
    .before_activation = activation_input,
};
