/* model/layers/quantum.c — the quantum layer: expectation values of a circuit, once for each
 * filter. Start reading at quantum_forward(). */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "exact/random.h"
#include "model/layers/layer.h"

/* Each Pauli string lies in [-1, 1]. */
static double largest_readout(const struct qr_observable *o, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t t = 0; t < o[i].n_terms; t++) sum += fabs(o[i].terms[t].coefficient);
        if (sum > most) most = sum;
    }
    return most;
}

static struct qr_sim_options quantum_sim(const struct qr_quantum_options *o,
                                         const struct qr_layer_context *place) {
    struct qr_sim_options sim = place->sim;
    sim.method = o->method;
    sim.n_trajectories = o->n_trajectories;
    sim.shots = o->shots;
    sim.parameter_shift = o->gradient == QR_GRADIENT_SHIFT;
    return sim;
}

static enum qr_code quantum_compile(struct qr_layer *l, const struct qr_quantum_options *o,
                                    const struct qr_layer_context *place, struct qr_err *err) {
    struct qr_layer_quantum *q = &l->quantum;
    struct qr_sim_options sim = quantum_sim(o, place);
    uint8_t *wanted = NULL;
    if (l->flows) {
        wanted = qr_xcalloc(l->n_in + 1, 1);
        memset(wanted, 1, l->n_in);
        sim.wanted = wanted;
    }
    enum qr_code code = qr_sim_compile(q->circuit, o->readouts, o->n_readouts, &sim, &q->plan, err);
    free(wanted);
    return code;
}

static enum qr_code quantum_compile_watched(struct qr_layer_quantum *q,
                                            const struct qr_quantum_options *o,
                                            const struct qr_layer_context *place,
                                            struct qr_err *err) {
    struct qr_sim_options sim = quantum_sim(o, place);
    sim.parameter_shift = false;
    q->n_watched = o->n_watched;
    if (!q->n_watched) return QR_OK;
    enum qr_code code =
        qr_sim_compile(q->circuit, o->watched, o->n_watched, &sim, &q->watch_plan, err);
    return code == QR_OK ? code : qr_wrap(err, "observables of its metrics");
}

/* Shots of a circuit with noise are drawn from trajectories. */
static enum qr_code check_method(const struct qr_quantum_options *o, struct qr_err *err) {
    bool noisy = false;
    for (size_t i = 0; i < o->circuit->n_channels; i++)
        noisy |= !o->circuit->channels[i].info->measures;
    if (!noisy || !o->shots || (o->method != QR_METHOD_EXACT && o->method != QR_METHOD_DENSITY))
        return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "\"method\": \"%s\" cannot be combined with \"shots\": shots of a circuit with "
                   "noise are drawn from trajectories; use method auto, or no shots",
                   qr_method_names[o->method]);
}

static enum qr_code quantum_make(struct qr_layer *l, const struct qr_layer_options *opt,
                                 const struct qr_layer_context *place, struct qr_err *err) {
    enum { MAX_FILTERS = 1000 };
    const struct qr_quantum_options *o = &opt->quantum;
    struct qr_layer_quantum *q = &l->quantum;
    if (!o->n_readouts || !o->n_filters)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "a quantum layer needs at least one read-out and one filter");
    if (o->n_filters > MAX_FILTERS)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%u filters: at most %d", o->n_filters,
                       MAX_FILTERS);
    QR_TRY(check_method(o, err));
    q->circuit = qr_circuit_copy(o->circuit);
    QR_TRY(quantum_compile(l, o, place, err));
    QR_TRY(quantum_compile_watched(q, o, place, err));
    q->n_filters = o->n_filters;
    q->n_theta = q->circuit->n_params;
    q->n_readouts_each = o->n_readouts;
    q->readout_bound = largest_readout(o->readouts, o->n_readouts);
    q->n_sims = qr_sim_micro_batches_in_parallel(q->plan) ? q->n_filters : 1;
    q->zero_gradient = qr_xcalloc(q->n_theta + 1, 1);
    qr_circuit_zero_gradient(q->circuit, o->readouts, o->n_readouts, q->zero_gradient);
    l->n_out = q->n_filters * q->n_readouts_each;
    l->n_params = q->n_filters * q->n_theta;
    return QR_OK;
}

static void quantum_free(struct qr_layer *l) {
    qr_sim_plan_free(l->quantum.plan);
    qr_sim_plan_free(l->quantum.watch_plan);
    qr_circuit_free(l->quantum.circuit);
    free(l->quantum.zero_gradient);
}

static size_t quantum_n_tensors(const struct qr_layer *l) { return l->quantum.n_filters; }

static struct qr_layer_tensor quantum_tensor(const struct qr_layer *l, size_t i) {
    (void)i;
    return (struct qr_layer_tensor){"pqc", "parameters", true, 1, {l->quantum.n_theta, 0}};
}

/* ---- numbers of one state ---- */

static void quantum_state_new(struct qr_layer_state *s) {
    const struct qr_layer_quantum *q = &s->layer->quantum;
    s->bound = qr_xcalloc(q->n_filters, sizeof(struct qr_sim_bound *));
    for (size_t f = 0; f < q->n_filters; f++) s->bound[f] = qr_sim_bound_new(q->plan);
    if (!q->watch_plan) return;
    s->watch_bound = qr_xcalloc(q->n_filters, sizeof(struct qr_sim_bound *));
    for (size_t f = 0; f < q->n_filters; f++) s->watch_bound[f] = qr_sim_bound_new(q->watch_plan);
}

static void quantum_state_free(struct qr_layer_state *s) {
    for (size_t f = 0; f < s->layer->quantum.n_filters; f++) {
        qr_sim_bound_free(s->bound[f]);
        if (s->watch_bound) qr_sim_bound_free(s->watch_bound[f]);
    }
    free(s->bound);
    free(s->watch_bound);
}

static size_t quantum_state_bytes(const struct qr_layer *l) {
    const struct qr_layer_quantum *q = &l->quantum;
    size_t watch = q->watch_plan ? qr_sim_bound_bytes(q->watch_plan) : 0;
    return q->n_filters * (qr_sim_bound_bytes(q->plan) + watch);
}

static void quantum_prepare(struct qr_layer_state *s, struct qr_pool *pool) {
    const struct qr_layer_quantum *q = &s->layer->quantum;
    for (size_t f = 0; f < q->n_filters; f++) {
        const double *theta = s->params + s->layer->first_param + f * q->n_theta;
        qr_sim_bind(s->bound[f], theta, pool);
        if (q->watch_plan) qr_sim_bind(s->watch_bound[f], theta, pool);
    }
}

/* ---- a micro-batch's workspace ---- */

static size_t quantum_doubles(const struct qr_layer *l, size_t n, struct qr_layer_work *w,
                              double *base) {
    size_t at = 0, each = l->quantum.n_readouts_each;
    qr_layer_part(base, &at, n * each, w ? &w->filter_z : NULL);
    qr_layer_part(base, &at, n * each, w ? &w->direction : NULL);
    qr_layer_part(base, &at, n, w ? &w->scale : NULL);
    if (l->flows) qr_layer_part(base, &at, n * l->n_in, w ? &w->filter_dx : NULL);
    if (!l->quantum.n_watched) return at;
    qr_layer_part(base, &at, n * l->quantum.n_watched, w ? &w->watched : NULL);
    qr_layer_part(base, &at, n * l->quantum.n_watched, w ? &w->watch_z : NULL);
    return at;
}

static enum qr_code quantum_work_new(struct qr_layer_work *w, size_t n, struct qr_err *err) {
    const struct qr_layer_quantum *q = &w->layer->quantum;
    enum qr_code code = QR_OK;
    w->grad = qr_xcalloc(w->layer->n_params + 1, sizeof *w->grad);
    w->sim = qr_xcalloc(q->n_sims, sizeof(struct qr_sim_workspace *));
    for (size_t f = 0; f < q->n_sims && code == QR_OK; f++)
        code = qr_sim_workspace_new(q->plan, n, &w->sim[f], err);
    if (code == QR_OK && q->watch_plan)
        code = qr_sim_workspace_new(q->watch_plan, n, &w->watch, err);
    return code;
}

static void quantum_work_free(struct qr_layer_work *w) {
    for (size_t f = 0; w->sim && f < w->layer->quantum.n_sims; f++)
        qr_sim_workspace_free(w->sim[f]);
    qr_sim_workspace_free(w->watch);
    free(w->sim);
    free(w->grad);
}

static size_t quantum_work_bytes(const struct qr_layer *l, size_t n) {
    const struct qr_layer_quantum *q = &l->quantum;
    size_t watch = q->watch_plan ? qr_sim_bytes_per_thread(q->watch_plan, n) : 0;
    return q->n_sims * qr_sim_bytes_per_thread(q->plan, n) + watch + l->n_params * sizeof(qr_fixed);
}

/* ---- a micro-batch ---- */

static struct qr_sim_workspace *filter_workspace(const struct qr_layer_work *w, size_t filter) {
    return w->sim[w->layer->quantum.n_sims == 1 ? 0 : filter];
}

/* A key for each filter and step, and one for all evaluations. */
static void set_filter_draw(const struct qr_layer *l, const struct qr_draw *draw, size_t filter,
                            struct qr_sim_workspace *ws) {
    uint64_t step = draw->trains ? draw->step : UINT64_MAX;
    uint32_t circuit = l->number << 10 | (uint32_t)filter; /* at most 1000 filters */
    qr_sim_set_draw(ws, &(struct qr_sim_draw){
                            .key = qr_random_u64(draw->seed, QR_RANDOM_TRAJECTORY, circuit, step),
                            .sample = draw->sample});
}

static void forward_filter(const struct qr_layer_state *s, struct qr_layer_work *w,
                           struct qr_pool *pool, size_t n, size_t filter, bool gradient) {
    const struct qr_layer_quantum *q = &s->layer->quantum;
    const double *known = q->known ? s->row + filter * q->n_readouts_each : NULL;
    set_filter_draw(s->layer, &w->draw, filter, filter_workspace(w, filter));
    if (gradient)
        qr_sim_forward_for_gradient(s->bound[filter], filter_workspace(w, filter), pool, w->in,
                                    s->layer->n_in, n, known, w->filter_z);
    else
        qr_sim_forward(s->bound[filter], filter_workspace(w, filter), pool, w->in, s->layer->n_in,
                       n, w->filter_z);
}

/* Read-outs of all filters, filter-major within a sample. */
static bool quantum_forward(const struct qr_layer_state *s, struct qr_layer_work *w,
                            struct qr_pool *pool, size_t n, const struct qr_draw *draw,
                            bool gradient) {
    const struct qr_layer *l = s->layer;
    const struct qr_layer_quantum *q = &l->quantum;
    size_t each = q->n_readouts_each;
    w->draw = draw ? *draw : (struct qr_draw){.seed = 0};
    gradient &= l->learns || l->flows;
    for (size_t f = 0; f < q->n_filters; f++) {
        /* A shared workspace keeps only the last filter's derivatives */
        forward_filter(s, w, pool, n, f, gradient && (q->n_sims > 1 || f + 1 == q->n_filters));
        for (size_t i = 0; i < n; i++)
            memcpy(w->out + i * l->n_out + f * each, w->filter_z + i * each, each * sizeof(double));
    }
    return true;
}

/* w->d holds dL/d of every read-out, or, where the row is known, nothing: w->scale then has dL/d of
 * the model's output. */
static bool quantum_backward(const struct qr_layer_state *s, struct qr_layer_work *w,
                             struct qr_pool *pool, size_t n, bool logits, double *ret_d) {
    const struct qr_layer *l = s->layer;
    const struct qr_layer_quantum *q = &l->quantum;
    size_t each = q->n_readouts_each;
    (void)logits;
    if (!l->learns && !ret_d) return true;
    memset(w->grad, 0, l->n_params * sizeof *w->grad);
    for (size_t i = 0; i < n && !q->known; i++) w->scale[i] = 1.0;
    for (size_t f = q->n_filters; f-- > 0;) {
        /* A shared workspace still holds the last filter; the others repeat the forward pass. */
        if (q->n_sims == 1 && f + 1 < q->n_filters) forward_filter(s, w, pool, n, f, true);
        for (size_t i = 0; i < n; i++) {
            const double *row = q->known ? s->row : w->d + i * l->n_out;
            memcpy(w->direction + i * each, row + f * each, each * sizeof(double));
        }
        qr_fixed *grad = w->grad + f * q->n_theta;
        double *dx = ret_d && f + 1 < q->n_filters ? w->filter_dx : ret_d;
        if (!qr_sim_backward(s->bound[f], filter_workspace(w, f), pool, w->direction, w->scale,
                             grad, dx))
            return false;
        for (size_t i = 0; dx != ret_d && i < n * l->n_in; i++) ret_d[i] += dx[i];
        for (size_t k = 0; k < q->n_theta; k++)
            if (q->zero_gradient[k]) grad[k] = 0;
    }
    return !ret_d || qr_dense_fits(ret_d, n * l->n_in, qr_dense_magnitude(ret_d, n * l->n_in));
}

static void quantum_add(const struct qr_layer_work *w, struct qr_pool *pool, size_t n, bool sets,
                        qr_fixed *grad) {
    size_t n_params = w->layer->n_params;
    (void)pool, (void)n;
    grad += w->layer->first_param;
    if (sets) memcpy(grad, w->grad, n_params * sizeof *grad);
    else qr_fixed_add(grad, w->grad, n_params);
}

/* A sample's term is the mean over filters. */
static bool quantum_watch(const struct qr_layer_state *s, struct qr_layer_work *w,
                          struct qr_pool *pool, size_t n, qr_fixed *sums) {
    const struct qr_layer_quantum *q = &s->layer->quantum;
    memset(w->watched, 0, n * q->n_watched * sizeof *w->watched);
    for (size_t f = 0; f < q->n_filters; f++) {
        set_filter_draw(s->layer, &w->draw, f, w->watch);
        qr_sim_forward(s->watch_bound[f], w->watch, pool, w->in, s->layer->n_in, n, w->watch_z);
        for (size_t i = 0; i < n * q->n_watched; i++) w->watched[i] += w->watch_z[i];
    }
    for (size_t i = 0; i < n * q->n_watched; i++) {
        qr_fixed term;
        if (!qr_fixed_from_double(w->watched[i] / (double)q->n_filters, &term)) return false;
        sums[i % q->n_watched] += term;
    }
    return true;
}

const struct qr_layer_table qr_layer_quantum = {
    .name = "quantum",
    .make = quantum_make,
    .free = quantum_free,
    .n_tensors = quantum_n_tensors,
    .tensor = quantum_tensor,
    .state_new = quantum_state_new,
    .state_free = quantum_state_free,
    .state_bytes = quantum_state_bytes,
    .prepare = quantum_prepare,
    .doubles = quantum_doubles,
    .work_new = quantum_work_new,
    .work_free = quantum_work_free,
    .work_bytes = quantum_work_bytes,
    .forward = quantum_forward,
    .backward = quantum_backward,
    .add = quantum_add,
    .watch = quantum_watch,
};
