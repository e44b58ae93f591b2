#include <string.h>

#include "model/model_impl.h"

static struct qr_sim_workspace *sim_of(const struct qr_model_workspace *w, size_t filter) {
    return w->sim[w->m->n_sims == 1 ? 0 : filter];
}

static void forward_filter(const struct qr_model_state *s, struct qr_model_workspace *w,
                           struct qr_pool *pool, size_t n, size_t filter, bool gradient) {
    const struct qr_model *m = s->m;
    const double *known = m->affine ? s->row + filter * m->n_readouts_each : NULL;
    if (gradient)
        qr_sim_forward_for_gradient(s->bound[filter], sim_of(w, filter), pool, w->x, m->n_inputs, n,
                                    known, w->filter_z);
    else
        qr_sim_forward(s->bound[filter], sim_of(w, filter), pool, w->x, m->n_inputs, n,
                       w->filter_z);
}

/* Read-outs of all filters, filter-major within a sample. */
static void forward_quantum(const struct qr_model_state *s, struct qr_model_workspace *w,
                            struct qr_pool *pool, size_t n, bool gradient) {
    const struct qr_model *m = s->m;
    for (size_t f = 0; f < m->n_filters; f++) {
        /* in a shared workspace only the last one's derivatives would last */
        forward_filter(s, w, pool, n, f, gradient && (m->n_sims > 1 || f + 1 == m->n_filters));
        for (size_t i = 0; i < n; i++)
            memcpy(w->readouts + i * m->n_readouts + f * m->n_readouts_each,
                   w->filter_z + i * m->n_readouts_each, m->n_readouts_each * sizeof(double));
    }
}

/* The model's outputs: n rows of n_outputs. */
static const double *outputs_of(const struct qr_model_workspace *w) {
    return w->m->n_dense ? w->p[w->m->n_dense - 1] : w->readouts;
}

/* n rows of what dense layer l takes. */
static const double *input_of(const struct qr_model_workspace *w, size_t l) {
    return l ? w->p[l - 1] : w->m->circuit ? w->readouts : w->x;
}

static bool forward(const struct qr_model_state *s, struct qr_model_workspace *w,
                    struct qr_pool *pool, const double *const *x, size_t n, bool gradient) {
    const struct qr_model *m = s->m;
    QR_ASSERT(n <= m->micro_batch_size && s->params && w->m == m);
    double magnitude = 0;
    for (size_t i = 0; i < n && m->n_inputs; i++) {
        double *row = w->x + i * m->n_inputs;
        memcpy(row, x[i], m->n_inputs * sizeof *row);
        magnitude += qr_dense_magnitude(row, m->n_inputs);
    }
    if (!qr_dense_fits(w->x, n * m->n_inputs, magnitude)) return false;
    if (m->circuit) {
        forward_quantum(s, w, pool, n, gradient);
        magnitude = qr_dense_magnitude(w->readouts, n * m->n_readouts);
        if (!qr_dense_fits(w->readouts, n * m->n_readouts, magnitude)) return false;
    }
    for (size_t l = 0; l < m->n_dense; l++) {
        const struct qr_dense *d = &m->dense[l];
        w->magnitude[l] = l ? qr_dense_magnitude(w->p[l - 1], n * d->n_in) : magnitude;
        if (!qr_dense_forward(d, pool, s->params, input_of(w, l), n, w->z[l])) return false;
        for (size_t i = 0; i < n; i++)
            qr_activation_apply(d->activation, d->units, w->z[l] + i * d->units,
                                w->p[l] + i * d->units);
    }
    return true;
}

/* Gradients of the quantum parameters: d holds dL/dz of every read-out, or, behind an affine head,
 * nothing: scale has dL/dp. */
static bool backward_quantum(const struct qr_model_state *s, struct qr_model_workspace *w,
                             struct qr_pool *pool, size_t n, const double *d) {
    const struct qr_model *m = s->m;
    size_t each = m->n_readouts_each;
    for (size_t i = 0; i < n && !m->affine; i++) w->scale[i] = 1.0;
    for (size_t f = m->n_filters; f-- > 0;) {
        /* A shared workspace still holds the last filter; the others go forward again. */
        if (m->n_sims == 1 && f + 1 < m->n_filters) forward_filter(s, w, pool, n, f, true);
        for (size_t i = 0; i < n; i++) {
            const double *row = m->affine ? s->row : d + i * m->n_readouts;
            memcpy(w->direction + i * each, row + f * each, each * sizeof(double));
        }
        qr_fixed *grad = w->grad + f * m->n_theta;
        if (!qr_sim_backward(s->bound[f], sim_of(w, f), pool, w->direction, w->scale, grad, NULL))
            return false;
        for (size_t k = 0; k < m->n_theta; k++)
            if (m->zero_gradient[k]) grad[k] = 0;
    }
    return true;
}

/* What add_dense needs, from the last dz = dL/dp (or dL/dz where logits), n rows of n_outputs:
 * each layer's dz, and the quantum parameters' w->grad. False when a derivative does not fit. */
static bool backward(const struct qr_model_state *s, struct qr_model_workspace *w,
                     struct qr_pool *pool, size_t n, bool logits) {
    const struct qr_model *m = s->m;
    if (m->affine) memcpy(w->scale, w->dz[m->n_dense], n * sizeof *w->scale);
    for (size_t l = m->n_dense; l-- > 0;) {
        const struct qr_dense *layer = &m->dense[l];
        size_t units = layer->units;
        double *dz = w->dz[l + 1];
        bool before = logits && l + 1 == m->n_dense;
        for (size_t i = 0; i < n && !before; i++)
            qr_activation_backward(layer->activation, units, w->z[l] + i * units,
                                   w->p[l] + i * units, dz + i * units);
        if (!qr_dense_gradient_fits(layer, pool, input_of(w, l), w->magnitude[l], dz, n))
            return false;
        if (s->transposed[l]) /* not the first layer that learns, nor an affine head */
            qr_dense_backward(layer, pool, s->transposed[l], dz, n, w->dz[l]);
    }
    if (!m->circuit) return true;
    memset(w->grad, 0, m->n_filters * m->n_theta * sizeof *w->grad);
    return backward_quantum(s, w, pool, n, w->dz[0]);
}

/* grad += the dense layers' gradients */
static void add_dense(const struct qr_model_workspace *w, struct qr_pool *pool, size_t n,
                      qr_fixed *grad) {
    for (size_t l = 0; l < w->m->n_dense; l++)
        qr_dense_gradient(&w->m->dense[l], pool, input_of(w, l), w->dz[l + 1], n, grad);
}

/* A micro-batch's sum obeys the bound of a single term, so that 2^22 of them cannot overflow. */
static bool sums_fit(const qr_fixed *v, size_t n) {
    const qr_fixed limit = (qr_fixed)1 << (40 + 64);
    for (size_t i = 0; i < n; i++)
        if (v[i] >= limit || v[i] <= -limit) return false;
    return true;
}

/* The loss of a sample, and dL/dp (or dL/dz where it is taken before the activation) in d unless
 * that is NULL. */
static double loss_of(const struct qr_model *m, const double *z, const double *p, const double *y,
                      double *d) {
    const struct qr_loss_info *info = qr_loss_info(m->loss);
    const struct qr_loss_options *o = &m->loss_options;
    size_t k = m->n_outputs;
    double loss = m->before_activation ? info->of_logits(o, k, z, y, d)
                  : o->from_logits     ? info->of_logits(o, k, p, y, d)
                                       : info->value(o, k, p, y, d);
    if (!m->weighted && !m->class_weight) return loss;
    double weight = m->weighted ? y[m->n_labels] : 1.0;
    if (m->class_weight && d) weight *= m->class_weight[qr_loss_class(m->loss, k, y)];
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

bool qr_model_micro_batch(const struct qr_model_state *s, struct qr_model_workspace *w,
                          struct qr_pool *pool, const double *const *x, const double *const *y,
                          size_t n, qr_fixed *ret_sums, qr_fixed *ret_grad) {
    const struct qr_model *m = s->m;
    size_t k = m->n_outputs;
    if (!forward(s, w, pool, x, n, ret_grad != NULL)) return false;
    const double *p = outputs_of(w), *z = m->n_dense ? w->z[m->n_dense - 1] : p;
    memset(w->sums, 0, qr_model_n_sums(m) * sizeof *w->sums);
    for (size_t i = 0; i < n; i++) {
        double *d = ret_grad ? w->dz[m->n_dense] + i * k : NULL;
        qr_fixed term;
        if (!qr_fixed_from_double(loss_of(m, z + i * k, p + i * k, y[i], d), &term)) return false;
        w->sums[0] += term;
        if (!add_metrics(m, p + i * k, y[i], w->sums)) return false;
    }
    if (!sums_fit(w->sums, qr_model_n_sums(m))) return false;
    if (ret_grad) {
        if (!backward(s, w, pool, n, m->before_activation)) return false;
        qr_fixed_add(ret_grad, w->grad, m->n_filters * m->n_theta);
        add_dense(w, pool, n, ret_grad);
    }
    qr_fixed_add(ret_sums, w->sums, qr_model_n_sums(m));
    return true;
}

const double *qr_model_readouts(const struct qr_model_workspace *w) { return w->readouts; }

bool qr_model_predict(const struct qr_model_state *s, struct qr_model_workspace *w,
                      struct qr_pool *pool, const double *const *x, size_t n, double *ret_p,
                      double *ret_z) {
    if (!forward(s, w, pool, x, n, false)) return false;
    memcpy(ret_p, outputs_of(w), n * s->m->n_outputs * sizeof *ret_p);
    if (ret_z && s->m->n_readouts) memcpy(ret_z, w->readouts, n * s->m->n_readouts * sizeof *ret_z);
    return true;
}

bool qr_model_prediction_gradient(const struct qr_model_state *s, struct qr_model_workspace *w,
                                  struct qr_pool *pool, const double *x, size_t component,
                                  double *ret_grad) {
    const struct qr_model *m = s->m;
    QR_ASSERT(component < m->n_outputs);
    if (!forward(s, w, pool, &x, 1, true)) return false;
    for (size_t j = 0; j < m->n_outputs; j++) w->dz[m->n_dense][j] = j == component;
    if (!backward(s, w, pool, 1, false)) return false;
    size_t quantum = m->n_filters * m->n_theta;
    memset(w->grad + quantum, 0, (m->n_params - quantum) * sizeof *w->grad);
    add_dense(w, pool, 1, w->grad);
    for (size_t i = 0; i < m->n_params; i++) ret_grad[i] = qr_fixed_to_double(w->grad[i]);
    return true;
}
