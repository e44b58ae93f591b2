/* model/layers/dropout.c — inverted dropout as in Keras, with random numbers from seed, step,
 * layer, sample and unit only, so that every worker drops the same. Start reading at
 * dropout_forward(). */
#include <string.h>

#include "exact/random.h"
#include "model/layers/layer.h"

static enum qr_code dropout_make(struct qr_layer *l, const struct qr_layer_options *o,
                                 const struct qr_layer_context *place, struct qr_err *err) {
    (void)place;
    if (!(o->dropout.rate >= 0 && o->dropout.rate < 1))
        return qr_fail(err, QR_INVALID_ARGUMENT, "a dropout rate of %g: it must be in [0, 1)",
                       o->dropout.rate);
    l->n_out = l->n_in;
    l->rate = o->dropout.rate;
    return QR_OK;
}

static size_t dropout_doubles(const struct qr_layer *l, size_t n, struct qr_layer_work *w,
                              double *base) {
    size_t at = 0;
    qr_layer_part(base, &at, n * l->n_out, w ? &w->z : NULL);
    return at;
}

/* A counter has 96 bits besides its purpose: step and layer are hashed to a key. */
static void draw_factors(const struct qr_layer *l, size_t n, const struct qr_draw *draw,
                         double *ret) {
    uint64_t key = qr_random_u64(draw->seed, QR_RANDOM_DROPOUT, l->number, draw->step);
    double kept = 1.0 / (1.0 - l->rate);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < l->n_out; j++) {
            double u = qr_random_uniform(key, QR_RANDOM_DROPOUT, (uint32_t)j, draw->sample[i]);
            ret[i * l->n_out + j] = u < l->rate ? 0.0 : kept;
        }
}

static bool dropout_forward(const struct qr_layer_state *s, struct qr_layer_work *w,
                            struct qr_pool *pool, size_t n, const struct qr_draw *draw,
                            bool gradient) {
    const struct qr_layer *l = s->layer;
    size_t all = n * l->n_out;
    (void)pool, (void)gradient;
    if (draw && draw->trains) draw_factors(l, n, draw, w->z);
    else
        for (size_t i = 0; i < all; i++) w->z[i] = 1.0;
    for (size_t i = 0; i < all; i++) w->out[i] = w->in[i] * w->z[i];
    return qr_dense_fits(w->out, all, qr_dense_magnitude(w->out, all));
}

static bool dropout_backward(const struct qr_layer_state *s, struct qr_layer_work *w,
                             struct qr_pool *pool, size_t n, bool logits, double *ret_d) {
    (void)pool, (void)logits;
    for (size_t i = 0; ret_d && i < n * s->layer->n_out; i++) ret_d[i] = w->d[i] * w->z[i];
    return true;
}

const struct qr_layer_table qr_layer_dropout = {
    .name = "dropout",
    .make = dropout_make,
    .doubles = dropout_doubles,
    .forward = dropout_forward,
    .backward = dropout_backward,
};
