/* model/layers/dense.c — the dense layer, activation(in kernel + bias). Start reading at
 * dense_forward(). */
#include "base/mem.h"
#include "model/layers/layer.h"

static enum qr_code dense_make(struct qr_layer *l, const struct qr_layer_options *o,
                               const struct qr_layer_context *place, struct qr_err *err) {
    const size_t most = (size_t)1 << 36;
    size_t units = o->dense.units;
    if (units < 1)
        return qr_fail(err, QR_INVALID_ARGUMENT, "a dense layer of 0 units: give it at least 1");
    if (l->n_in > most / units)
        return qr_fail(err, QR_RESOURCE_EXHAUSTED,
                       "%zu x %zu weights are more than %zu; make the layer smaller", l->n_in,
                       units, most);
    l->n_out = units;
    l->n_params = (l->n_in + 1) * units;
    l->l1 = o->dense.l1;
    l->l2 = o->dense.l2;
    l->dense = (struct qr_dense){.n_in = l->n_in,
                                 .units = units,
                                 .activation = o->dense.activation,
                                 .kernel = l->first_param,
                                 .bias = l->first_param + l->n_in * units,
                                 .by = qr_dense_kernels_of(place->sim.isa)};
    return QR_OK;
}

static size_t dense_n_tensors(const struct qr_layer *l) {
    (void)l;
    return 2;
}

static struct qr_layer_tensor dense_tensor(const struct qr_layer *l, size_t i) {
    if (i == 0) return (struct qr_layer_tensor){"dense", "kernel", false, 2, {l->n_in, l->n_out}};
    return (struct qr_layer_tensor){"dense", "bias", false, 1, {l->n_out, 0}};
}

/* ---- numbers of one state ---- */

static void dense_state_new(struct qr_layer_state *s) {
    const struct qr_layer *l = s->layer;
    if (l->flows) s->transposed = qr_xaligned(l->n_in * l->n_out * sizeof(double));
}

static void dense_state_free(struct qr_layer_state *s) { free(s->transposed); }

static size_t dense_state_bytes(const struct qr_layer *l) {
    return l->flows ? l->n_in * l->n_out * sizeof(double) : 0;
}

static void dense_prepare(struct qr_layer_state *s, struct qr_pool *pool) {
    const struct qr_dense *d = &s->layer->dense;
    (void)pool;
    if (!s->transposed) return;
    for (size_t i = 0; i < d->n_in; i++)
        for (size_t j = 0; j < d->units; j++)
            s->transposed[j * d->n_in + i] = s->params[d->kernel + i * d->units + j];
}

/* ---- a micro-batch ---- */

static size_t dense_doubles(const struct qr_layer *l, size_t n, struct qr_layer_work *w,
                            double *base) {
    size_t at = 0;
    qr_layer_part(base, &at, n * l->n_out, w ? &w->z : NULL);
    return at;
}

static bool dense_forward(const struct qr_layer_state *s, struct qr_layer_work *w,
                          struct qr_pool *pool, size_t n, const struct qr_draw *draw,
                          bool gradient) {
    const struct qr_dense *d = &s->layer->dense;
    (void)draw, (void)gradient;
    if (w->magnitude < 0) w->magnitude = qr_dense_magnitude(w->in, n * d->n_in);
    if (!qr_dense_forward(d, pool, s->params, w->in, n, w->z)) return false;
    for (size_t i = 0; i < n; i++)
        qr_activation_apply(d->activation, d->units, w->z + i * d->units, w->out + i * d->units);
    return true;
}

static bool dense_backward(const struct qr_layer_state *s, struct qr_layer_work *w,
                           struct qr_pool *pool, size_t n, bool logits, double *ret_d) {
    const struct qr_layer *l = s->layer;
    const struct qr_dense *d = &l->dense;
    for (size_t i = 0; i < n && !logits; i++)
        qr_activation_backward(d->activation, d->units, w->z + i * d->units, w->out + i * d->units,
                               w->d + i * d->units);
    if (l->learns && !qr_dense_gradient_fits(d, pool, w->in, w->magnitude, w->d, n)) return false;
    if (ret_d) qr_dense_backward(d, pool, s->transposed, w->d, n, ret_d);
    return true;
}

static void dense_add(const struct qr_layer_work *w, struct qr_pool *pool, size_t n, bool sets,
                      qr_fixed *grad) {
    qr_dense_gradient(&w->layer->dense, pool, w->in, w->d, n, sets, grad);
}

static const double *dense_pre_activation(const struct qr_layer_work *w) { return w->z; }

const struct qr_layer_table qr_layer_dense = {
    .name = "dense",
    .make = dense_make,
    .n_tensors = dense_n_tensors,
    .tensor = dense_tensor,
    .state_new = dense_state_new,
    .state_free = dense_state_free,
    .state_bytes = dense_state_bytes,
    .prepare = dense_prepare,
    .doubles = dense_doubles,
    .forward = dense_forward,
    .backward = dense_backward,
    .add = dense_add,
    .before_activation = dense_pre_activation,
};
