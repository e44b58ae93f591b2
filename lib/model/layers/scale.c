/* model/layers/scale.c — the scale layer, in * factor + offset. Start reading at
 * scale_forward(). */
#include <math.h>

#include "model/layers/layer.h"

static enum qr_code scale_make(struct qr_layer *l, const struct qr_layer_options *o,
                               const struct qr_layer_context *place, struct qr_err *err) {
    (void)place;
    if (!isfinite(o->scale.factor) || !isfinite(o->scale.offset))
        return qr_fail(err, QR_INVALID_ARGUMENT, "factor and offset must be finite");
    l->n_out = l->n_in;
    l->scale = o->scale;
    return QR_OK;
}

static bool scale_forward(const struct qr_layer_state *s, struct qr_layer_work *w,
                          struct qr_pool *pool, size_t n, const struct qr_draw *draw,
                          bool gradient) {
    const struct qr_layer *l = s->layer;
    size_t all = n * l->n_out;
    (void)pool, (void)draw, (void)gradient;
    for (size_t i = 0; i < all; i++) w->out[i] = w->in[i] * l->scale.factor + l->scale.offset;
    return qr_dense_fits(w->out, all, qr_dense_magnitude(w->out, all));
}

static bool scale_backward(const struct qr_layer_state *s, struct qr_layer_work *w,
                           struct qr_pool *pool, size_t n, bool logits, double *ret_d) {
    (void)pool, (void)logits;
    for (size_t i = 0; ret_d && i < n * s->layer->n_out; i++)
        ret_d[i] = w->d[i] * s->layer->scale.factor;
    return true;
}

const struct qr_layer_table qr_layer_scale = {
    .name = "scale",
    .make = scale_make,
    .forward = scale_forward,
    .backward = scale_backward,
};
