/* model/micro_batch.c — forward and backward pass of a micro-batch. Start reading at
 * qr_model_put_micro_batch(). */
#include <string.h>

#include "base/mem.h"
#include "base/span.h"
#include "model/model_impl.h"

/* The model's outputs: n rows of n_outputs. */
static const double *outputs_of(const struct qr_model_workspace *w) {
    return w->layers[w->m->n_layers - 1].out;
}

/* The values that the loss takes: those before the activation, where it uses logits. */
static const double *logits_of(const struct qr_model_workspace *w) {
    const struct qr_layer_work *last = &w->layers[w->m->n_layers - 1];
    return w->m->before_activation ? last->layer->table->before_activation(last) : last->out;
}

static bool model_forward(const struct qr_model_state *s, struct qr_model_workspace *w,
                          struct qr_pool *pool, const double *const *x, size_t n,
                          const struct qr_draw *draw, bool gradient) {
    const struct qr_model *m = s->m;
    QR_ASSERT(n <= m->micro_batch_size && s->params && w->m == m);
    double magnitude = 0;
    for (size_t i = 0; i < n && m->n_inputs; i++) {
        double *row = w->x + i * m->n_inputs;
        memcpy(row, x[i], m->n_inputs * sizeof *row);
        magnitude += qr_dense_magnitude(row, m->n_inputs);
    }
    if (!qr_dense_fits(w->x, n * m->n_inputs, magnitude)) return false;
    for (size_t i = 0; i < m->n_layers; i++) {
        struct qr_layer_work *l = &w->layers[i];
        l->magnitude = magnitude;
        int64_t began_ns = qr_span_begin();
        if (!l->layer->table->forward(&s->layers[i], l, pool, n, draw, gradient)) return false;
        qr_span_end(began_ns, QR_SPAN_FORWARD, l->layer->span, n);
        magnitude = -1;
        if (l->layer->kind != QR_LAYER_QUANTUM) continue;
        magnitude = qr_dense_magnitude(l->out, n * l->layer->n_out);
        if (!qr_dense_fits(l->out, n * l->layer->n_out, magnitude)) return false;
    }
    return true;
}

/* Computes what add_gradients needs, from the last layer's d = dL/dp (or dL/dz where logits), n
 * rows of n_outputs. False when a derivative does not fit. */
static bool model_backward(const struct qr_model_state *s, struct qr_model_workspace *w,
                           struct qr_pool *pool, size_t n, bool logits) {
    const struct qr_model *m = s->m;
    if (m->known < m->n_layers)
        memcpy(w->layers[m->known].scale, w->layers[m->n_layers - 1].d, n * sizeof(double));
    for (size_t i = m->n_layers; i-- > 0;) {
        const struct qr_layer *l = &m->layers[i];
        double *ret_d = l->flows ? w->layers[i - 1].d : NULL;
        int64_t began_ns = qr_span_begin();
        if (!l->table->backward(&s->layers[i], &w->layers[i], pool, n,
                                logits && i + 1 == m->n_layers, ret_d))
            return false;
        qr_span_end(began_ns, QR_SPAN_BACKWARD, l->span, n);
        if (!l->flows && i != m->known + 1) break; /* no layer before this one learns */
    }
    return true;
}

/* grad += the gradients of the layers that learn, or, where it `sets`, grad = these. */
static void add_gradients(const struct qr_model_workspace *w, struct qr_pool *pool, size_t n,
                          bool sets, qr_fixed *grad) {
    for (size_t i = 0; i < w->m->n_layers; i++) {
        const struct qr_layer *l = &w->m->layers[i];
        int64_t began_ns = qr_span_begin();
        if (l->learns) l->table->add(&w->layers[i], pool, n, sets, grad);
        if (l->learns) qr_span_end(began_ns, QR_SPAN_GRADIENT, l->span, n);
        else if (sets) memset(grad + l->first_param, 0, l->n_params * sizeof *grad);
    }
}

/* A micro-batch's sum obeys the bound of a single term, so that 2^22 of them cannot overflow. */
static bool sums_fit(const qr_fixed *v, size_t n) {
    const qr_fixed limit = (qr_fixed)1 << (40 + 64);
    for (size_t i = 0; i < n; i++)
        if (v[i] >= limit || v[i] <= -limit) return false;
    return true;
}

/* The loss of a sample, and dL/dp (or dL/dz where the loss takes logits) in d unless d is NULL.
 * Class weights apply only while training. */
static double loss_of(const struct qr_model *m, bool trains, const double *z, const double *p,
                      const double *y, double *d) {
    const struct qr_loss_info *info = qr_loss_info(m->loss);
    const struct qr_loss_options *o = &m->loss_options;
    size_t k = m->n_outputs;
    double loss = m->before_activation ? info->of_logits(o, k, z, y, d)
                  : o->from_logits     ? info->of_logits(o, k, p, y, d)
                                       : info->value(o, k, p, y, d);
    if (!m->weighted && !m->class_weight) return loss;
    double weight = m->weighted ? y[m->n_labels] : 1.0;
    if (m->class_weight && trains) weight *= m->class_weight[qr_loss_class(m->loss, k, y)];
    for (size_t j = 0; d && j < k; j++) d[j] *= weight;
    return weight * loss;
}

static bool add_metrics(const struct qr_model *m, const double *p, const double *y,
                        qr_fixed *sums) {
    for (size_t j = 0; j < m->n_metrics; j++)
        if (!qr_metric_add(m->metrics[j], &m->metric_options, m->n_outputs, p, y,
                           sums + m->sum_at[1 + j]))
            return false;
    return true;
}

static bool add_watched(const struct qr_model_state *s, struct qr_model_workspace *w,
                        struct qr_pool *pool, size_t n) {
    const struct qr_model *m = s->m;
    size_t at = 1 + m->n_metrics;
    for (size_t i = 0; m->n_watched && i < m->n_layers; i++) {
        const struct qr_layer *l = &m->layers[i];
        if (l->kind != QR_LAYER_QUANTUM || !l->quantum.n_watched) continue;
        if (!l->table->watch(&s->layers[i], &w->layers[i], pool, n, w->sums + m->sum_at[at]))
            return false;
        at += l->quantum.n_watched;
    }
    return true;
}

bool qr_model_put_micro_batch(const struct qr_model_state *s, struct qr_model_workspace *w,
                              struct qr_pool *pool, const double *const *x, const double *const *y,
                              size_t n, const struct qr_draw *draw, bool sets, qr_fixed *ret_sums,
                              qr_fixed *ret_grad) {
    const struct qr_model *m = s->m;
    size_t k = m->n_outputs;
    bool trains = draw && draw->trains;
    if (!model_forward(s, w, pool, x, n, draw, ret_grad != NULL)) return false;
    const double *p = outputs_of(w), *z = logits_of(w);
    double *dp = w->layers[m->n_layers - 1].d;
    memset(w->sums, 0, qr_model_n_sums(m) * sizeof *w->sums);
    int64_t began_ns = qr_span_begin();
    for (size_t i = 0; i < n; i++) {
        double *d = ret_grad ? dp + i * k : NULL;
        qr_fixed term;
        if (!qr_fixed_from_double(loss_of(m, trains || ret_grad, z + i * k, p + i * k, y[i], d),
                                  &term))
            return false;
        w->sums[0] += term;
        if (!add_metrics(m, p + i * k, y[i], w->sums)) return false;
    }
    qr_span_end(began_ns, QR_SPAN_LOSS, NULL, n);
    if (!add_watched(s, w, pool, n) || !sums_fit(w->sums, qr_model_n_sums(m))) return false;
    if (ret_grad) {
        if (!model_backward(s, w, pool, n, m->before_activation)) return false;
        add_gradients(w, pool, n, sets, ret_grad);
    }
    qr_fixed_add(ret_sums, w->sums, qr_model_n_sums(m));
    return true;
}

bool qr_model_micro_batch(const struct qr_model_state *s, struct qr_model_workspace *w,
                          struct qr_pool *pool, const double *const *x, const double *const *y,
                          size_t n, const struct qr_draw *draw, qr_fixed *ret_sums,
                          qr_fixed *ret_grad) {
    return qr_model_put_micro_batch(s, w, pool, x, y, n, draw, false, ret_sums, ret_grad);
}

const double *qr_model_readouts(const struct qr_model_workspace *w) {
    return w->m->quantum < w->m->n_layers ? w->layers[w->m->quantum].out : NULL;
}

bool qr_model_predict(const struct qr_model_state *s, struct qr_model_workspace *w,
                      struct qr_pool *pool, const double *const *x, size_t n,
                      const struct qr_draw *draw, double *ret_p, double *ret_z) {
    if (!model_forward(s, w, pool, x, n, draw, false)) return false;
    const double *z = qr_model_readouts(w);
    memcpy(ret_p, outputs_of(w), n * s->m->n_outputs * sizeof *ret_p);
    if (ret_z && z) memcpy(ret_z, z, n * qr_model_n_readouts(s->m) * sizeof *ret_z);
    return true;
}

bool qr_model_prediction_gradient(const struct qr_model_state *s, struct qr_model_workspace *w,
                                  struct qr_pool *pool, const double *x, const struct qr_draw *draw,
                                  size_t component, double *ret_grad) {
    const struct qr_model *m = s->m;
    double *dp = w->layers[m->n_layers - 1].d;
    QR_ASSERT(component < m->n_outputs);
    if (!model_forward(s, w, pool, &x, 1, draw, true)) return false;
    for (size_t j = 0; j < m->n_outputs; j++) dp[j] = j == component;
    if (!model_backward(s, w, pool, 1, false)) return false;
    qr_auto(qr_free_p) qr_fixed *grad = qr_xcalloc(m->n_params + 1, sizeof *grad);
    add_gradients(w, pool, 1, true, grad);
    for (size_t i = 0; i < m->n_params; i++) ret_grad[i] = qr_fixed_to_double(grad[i]);
    return true;
}
