/* sim/statevector/statevector.c — entry points of the statevector engine: workspaces, read-outs and
 * gradients of a micro-batch. Start reading at statevector_forward() and statevector_backward(). */
#include "sim/statevector/statevector.h"

#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "sim/statevector/statevector_impl.h"

static void statevector_slot_buffers(struct qr_buffers *r, const struct qr_sim_plan *p,
                                     struct qr_sweep_slot *s) {
    const struct qr_statevector *v = p->statevector;
    if (v->tile_bits < p->cell_bits) {
        qr_buffers_take(r, "tiles", p->cell_bytes << v->tile_bits, &s->phi);
        qr_buffers_take(r, "tiles", p->cell_bytes << v->tile_bits, &s->lambda);
    }
    qr_structure_slot_buffers(r, p, s);
    qr_buffers_take(r, "sums", p->n_sites * QR_CROSS * sizeof *s->sites, &s->sites);
    qr_buffers_take(r, "sums", (size_t)p->n_readouts * QR_LANES * sizeof *s->z, &s->z);
    qr_buffers_take(r, "sums", (size_t)p->n_readouts * QR_LANES * sizeof *s->bad_z, &s->bad_z);
}

/* Threads that a workspace has buffers for, less than three tiles each: those of this machine, two
 * at least, and up to four, which a larger pod may have, if that is 5 % of the two state vectors at
 * most. */
static unsigned statevector_slot_count(const struct qr_sim_plan *p) {
    size_t n_tiles = (size_t)1 << (p->cell_bits - p->statevector->tile_bits);
    if (n_tiles == 1) return 1;
    unsigned n = qr_cpu_limit();
    while (n < 2 || (n < 4 && 3 * (n + 1) <= n_tiles / 10)) n++;
    return n;
}

/* All but samples and rows. */
static void statevector_own_buffers(struct qr_buffers *r, struct qr_statevector_workspace *ws) {
    const struct qr_sim_plan *p = ws->head.plan;
    const struct qr_statevector *v = p->statevector;
    size_t max_samples = ws->head.max_samples;
    qr_buffers_take(r, "phi", p->cell_bytes << p->cell_bits, &ws->phi);
    qr_buffers_take(r, "lambda", p->cell_bytes << p->cell_bits, &ws->lambda);
    if (v->first_pass) qr_buffers_take(r, "fixed start", p->cell_bytes << p->cell_bits, &ws->start);
    qr_buffers_take(r, "numbers", v->n_wide * QR_WIDE * sizeof *ws->wide, &ws->wide);
    qr_buffers_take(r, "numbers", p->n_data * QR_NARROW * sizeof *ws->narrow, &ws->narrow);
    ws->n_slots = statevector_slot_count(p);
    qr_buffers_take(r, "sums", ws->n_slots * sizeof *ws->slots, &ws->slots);
    for (unsigned i = 0; i < ws->n_slots && r->code == QR_OK; i++) {
        struct qr_sweep_slot unused;
        statevector_slot_buffers(r, p, ws->slots ? &ws->slots[i] : &unused);
    }
    qr_buffers_take(r, "sums", p->n_shapes * QR_CROSS * sizeof *ws->cross, &ws->cross);
    qr_buffers_take(r, "samples", p->n_mixed * max_samples * QR_CROSS * sizeof *ws->mixed,
                    &ws->mixed);
    qr_buffers_take(r, "samples", p->n_mixed * QR_CROSS * sizeof *ws->collected, &ws->collected);
    qr_buffers_take(r, "sums", p->n_params * sizeof *ws->scratch, &ws->scratch);
    qr_structure_buffers(r, ws);
    if (p->n_channels) qr_trajectories_buffers(r, ws);
    if (p->shots) qr_shots_buffers(r, ws);
}

/* Workspaces for the other threads that groups of rows may keep busy. */
static unsigned statevector_others_count(const struct qr_sim_plan *p, size_t max_samples,
                                         size_t bytes) {
    size_t per = qr_statevector_group(p), n_rows = max_samples * p->n_trajectories,
           n_groups = (n_rows + per - 1) / per, n = 1;
    if (!p->n_channels || p->statevector->tile_bits < p->cell_bits) return 0;
    unsigned cpus = qr_cpu_limit(), limit = cpus > 2 ? cpus : 2;
    while (n < limit && n < n_groups && n * bytes <= QR_KEPT_BYTES) n++;
    return (unsigned)(n - 1);
}

static void statevector_buffers(struct qr_buffers *r, struct qr_sim_workspace *workspace) {
    struct qr_statevector_workspace *ws = (struct qr_statevector_workspace *)workspace;
    const struct qr_sim_plan *p = workspace->plan;
    size_t max_samples = workspace->max_samples, before = r->bytes;
    statevector_own_buffers(r, ws);
    ws->n_others = statevector_others_count(p, max_samples, r->bytes - before);
    qr_buffers_take(r, "samples", max_samples * p->n_columns * sizeof *ws->x, &ws->x);
    if (p->n_channels) qr_trajectories_rows_buffers(r, ws);
    qr_buffers_take(r, "trajectories", ws->n_others * sizeof *ws->others, &ws->others);
    for (unsigned i = 0; i < ws->n_others && r->code == QR_OK; i++) {
        struct qr_statevector_workspace unused = {0},
                                        *other = ws->others ? ws->others + i : &unused;
        other->head = (struct qr_sim_workspace){.plan = p, .max_samples = max_samples};
        statevector_own_buffers(r, other);
    }
}

static void statevector_begin(struct qr_sim_workspace *workspace) {
    struct qr_statevector_workspace *ws = (struct qr_statevector_workspace *)workspace;
    ws->phi_group = QR_NO_GROUP;
    pthread_mutex_init(&ws->lock, NULL);
    for (unsigned i = 0; i < ws->n_others; i++) {
        pthread_mutex_init(&ws->others[i].lock, NULL);
        ws->others[i].phi_group = QR_NO_GROUP;
        ws->others[i].noise->rows = ws->noise->rows;
    }
}

static void statevector_end(struct qr_sim_workspace *workspace) {
    struct qr_statevector_workspace *ws = (struct qr_statevector_workspace *)workspace;
    pthread_mutex_destroy(&ws->lock);
    for (unsigned i = 0; i < ws->n_others; i++) pthread_mutex_destroy(&ws->others[i].lock);
}

static struct qr_sweep statevector_sweep_of(const struct qr_sim_bound *b,
                                            struct qr_statevector_workspace *ws,
                                            struct qr_pool *pool, size_t group) {
    size_t per = qr_statevector_group(b->plan), left = ws->n_samples - group * per;
    struct qr_sweep r = qr_statevector_sweep(b, ws, pool, group * per, left < per ? left : per);
    r.x = ws->x + r.first * b->plan->n_columns;
    for (size_t l = 0; l < QR_LANES; l++) r.sample[l] = (uint32_t)(r.first + l);
    return r;
}

static void statevector_set_samples(struct qr_statevector_workspace *ws, const double *x,
                                    size_t x_stride, size_t n_samples) {
    size_t n = ws->head.plan->n_columns;
    QR_ASSERT(n_samples <= ws->head.max_samples);
    ws->n_samples = n_samples;
    for (size_t s = 0; s < n_samples && n; s++)
        memcpy(ws->x + s * n, x + s * x_stride, n * sizeof *x);
}

static struct qr_shot_source shots_of_sample(const struct qr_sweep *r, size_t lane) {
    return (struct qr_shot_source){
        .lane = lane, .sample = (uint32_t)(r->first + lane), .n = r->p->shots};
}

/* Read-outs as means over shots. */
static void measure_group(const struct qr_sweep *r, double *ret_z) {
    const struct qr_sim_plan *p = r->p;
    for (size_t l = 0; l < r->n; l++) {
        const struct qr_shot_source from = shots_of_sample(r, l);
        double *z = ret_z + (r->first + l) * p->n_readouts;
        memcpy(z, r->v->shots->constants, p->n_readouts * sizeof *z);
        bool fine = qr_shots_measure(r->ws, &from, z);
        for (size_t k = 0; k < p->n_readouts && !fine; k++) z[k] = __builtin_nan("");
    }
}

static bool statevector_sample(const struct qr_sim_bound *b, struct qr_sim_workspace *workspace,
                               struct qr_pool *pool, const double *x, size_t x_stride,
                               size_t n_samples, uint64_t *ret, uint64_t *ret_bits) {
    struct qr_statevector_workspace *ws = (struct qr_statevector_workspace *)workspace;
    const struct qr_sim_plan *p = b->plan;
    size_t per = qr_statevector_group(p);
    bool fine = true;
    statevector_set_samples(ws, x, x_stride, n_samples);
    if (ws->noise) return qr_trajectories_sample(b, ws, pool, n_samples, ret, ret_bits);
    ws->phi_group = QR_NO_GROUP;
    for (size_t g = 0; g * per < n_samples; g++) {
        struct qr_sweep r = statevector_sweep_of(b, ws, pool, g);
        qr_sweep_forward(&r);
        for (size_t l = 0; l < r.n; l++) {
            const struct qr_shot_source from = shots_of_sample(&r, l);
            fine &= qr_shots_draw(ws, &from, ret + (r.first + l) * p->shots);
        }
    }
    return fine;
}

static void statevector_forward(const struct qr_sim_bound *b, struct qr_sim_workspace *workspace,
                                struct qr_pool *pool, const double *x, size_t x_stride,
                                size_t n_samples, bool gradient, const double *direction,
                                double *ret_z) {
    (void)direction; /* The backward sweep runs separately. */
    struct qr_statevector_workspace *ws = (struct qr_statevector_workspace *)workspace;
    const struct qr_sim_plan *p = b->plan;
    statevector_set_samples(ws, x, x_stride, n_samples);
    if (ws->noise) {
        qr_trajectories_forward(b, ws, pool, n_samples, gradient, ret_z);
        return;
    }
    size_t per = qr_statevector_group(p);
    for (size_t g = 0; g * per < n_samples; g++) {
        struct qr_sweep r = statevector_sweep_of(b, ws, pool, g);
        qr_sweep_forward(&r);
        ws->phi_group = (int64_t)g;
        if (p->shots) {
            measure_group(&r, ret_z);
            continue;
        }
        qr_sweep_expect(&r);
        double norm = ws->factor.re * ws->factor.re + ws->factor.im * ws->factor.im;
        for (size_t s = 0; s < r.n; s++)
            for (size_t k = 0; k < p->n_readouts; k++)
                ret_z[(r.first + s) * p->n_readouts + k] =
                    qr_statevector_readout(ws, k * QR_LANES + s) * norm;
    }
}

static void statevector_states(const struct qr_sim_bound *b, struct qr_sim_workspace *workspace,
                               struct qr_pool *pool, const double *x, size_t x_stride,
                               size_t n_samples, double *ret) {
    struct qr_statevector_workspace *ws = (struct qr_statevector_workspace *)workspace;
    size_t per = qr_statevector_group(b->plan);
    statevector_set_samples(ws, x, x_stride, n_samples);
    ws->phi_group = QR_NO_GROUP;
    for (size_t g = 0; g * per < n_samples; g++) {
        struct qr_sweep r = statevector_sweep_of(b, ws, pool, g);
        qr_sweep_forward(&r);
        for (size_t s = 0; s < r.n; s++)
            qr_statevector_copy_state(ws, s, ret + ((r.first + s) << (b->plan->n_qubits + 1)));
    }
}

static bool statevector_backward(const struct qr_sim_bound *b, struct qr_sim_workspace *workspace,
                                 struct qr_pool *pool, const double *direction, const double *scale,
                                 qr_fixed *ret_grad, double *ret_dx) {
    struct qr_statevector_workspace *ws = (struct qr_statevector_workspace *)workspace;
    const struct qr_sim_plan *p = b->plan;
    const struct qr_statevector *v = p->statevector;
    if (ws->noise) return qr_trajectories_backward(b, ws, pool, direction, scale, ret_grad, ret_dx);
    size_t per = qr_statevector_group(p);
    qr_statevector_clear_sums(ws);
    /* The state of the last group is still in phi, so start with that group. */
    for (size_t g = (ws->n_samples + per - 1) / per; g-- > 0;) {
        struct qr_sweep r = statevector_sweep_of(b, ws, pool, g);
        if (v->first_cross == v->n_steps) break;
        if (ws->phi_group != (int64_t)g) qr_sweep_forward(&r);
        ws->phi_group = QR_NO_GROUP;
        r.direction = direction + r.first * p->n_readouts;
        for (size_t l = 0; l < QR_LANES; l++)
            r.scale[l] = !p->lanes_are_samples ? scale[r.first] : l < r.n ? scale[r.first + l] : 0;
        qr_sweep_observe(&r);
        qr_sweep_backward(&r);
        qr_statevector_collect_mixed(&r);
    }
    if (!qr_statevector_sums_are_good(ws)) return false;
    qr_statevector_sum_mixed(ws);
    if (p->wanted) memset(ret_dx, 0, ws->n_samples * p->n_columns * sizeof *ret_dx);
    const struct qr_bound_sums sums = {.cross = ws->cross,
                                       .mixed = ws->mixed,
                                       .mixed_stride = ws->head.max_samples,
                                       .x = ws->x,
                                       .n_samples = ws->n_samples};
    return qr_bound_gradient(b, &sums, ws->scratch, ret_grad, ret_dx);
}

/* ---- the engine ---- */

static void statevector_bind(struct qr_sim_bound *b, struct qr_pool *pool) {
    (void)pool;
    if (b->plan->n_channels) qr_trajectories_bind(b);
}

/* Whether a channel is not a list of Pauli errors. */
static bool branches_in(const struct qr_sim_plan *p, const struct qr_circuit *c) {
    for (size_t i = 0; i < c->n_gates && p->n_channels; i++) {
        const struct qr_gate *g = &c->gates[i];
        if (g->kind == QR_GATE_CHANNEL &&
            (p->channels[g->channel].info->damping || p->channels[g->channel].info->kraus))
            return true;
    }
    return false;
}

/* Without data all samples have one value, which lanes of samples would compute 16 times. */
static bool lanes_are_qubits(const struct qr_sim_plan *p) {
    return !p->lanes_are_samples ||
           (!p->n_columns && !p->n_channels && p->n >= QR_QUBIT_LANES_MIN_QUBITS);
}

/* Multiply-adds in float64 per amplitude and gradient, of a fused gate of each kind; of a batch of
 * diagonal gates, once. */
static const double cost_of[QR_FUSED_KINDS] = {[QR_FUSED_MATRIX] = 62,
                                               [QR_FUSED_ROTATION] = 15,
                                               [QR_FUSED_PHASE] = 40,
                                               [QR_FUSED_PERMUTATION] = 4};

static bool is_structured(const struct qr_sim_plan *p) {
    return lanes_are_qubits(p) && !p->n_channels;
}

double qr_statevector_cost(struct qr_sim_plan *p, const struct qr_circuit *c) {
    double sum = 0;
    p->structured = is_structured(p);
    qr_plan_fuse(p, c, 1, NULL);
    for (size_t i = 0; i < p->n_fused; i++)
        if (!i || p->fused[i].kind != QR_FUSED_PHASE || p->fused[i - 1].kind != QR_FUSED_PHASE ||
            p->fused[i].batch != p->fused[i - 1].batch)
            sum += cost_of[p->fused[i].kind];
    qr_plan_unfuse(p);
    p->structured = false;
    return sum;
}

static bool statevector_plan(struct qr_sim_plan *p, const struct qr_circuit *c,
                             const struct qr_observable *obs, size_t n_obs) {
    if (p->n_channels && !qr_trajectories_are_allowed(p)) return false;
    struct qr_statevector *v = qr_xcalloc(1, sizeof *v);
    p->statevector = v;
    if (lanes_are_qubits(p)) {
        p->lanes_are_samples = false;
        p->cell_bits = p->n - QR_LANE_BITS;
    }
    p->structured = is_structured(p);
    v->tile_bits =
        p->lanes_are_samples || p->cell_bits < QR_TILE_BITS ? p->cell_bits : QR_TILE_BITS;
    if (branches_in(p, c)) v->tile_bits = p->cell_bits; /* Their probabilities are of all cells. */
    qr_plan_fuse(p, c, 1, NULL);
    qr_plan_passes(p, obs, n_obs);
    qr_trajectories_plan(p);
    if (p->shots) qr_shots_plan(p, p->measured, n_obs);
    return true;
}

static void statevector_plan_free(struct qr_sim_plan *p) {
    struct qr_statevector *v = p->statevector;
    free(v->steps);
    free(v->passes);
    free(v->gates);
    free(v->orders);
    free(v->cycles);
    free(v->groups);
    free(v->offsets);
    free(v->terms);
    free(v->runs);
    free(v->site_channels);
    free(v->site_stops);
    free(v->stops);
    qr_shots_plan_free(v->shots);
    free(v);
    p->statevector = NULL;
}

static unsigned __int128 statevector_least_bytes(const struct qr_sim_plan *p) {
    const struct qr_statevector *v = p->statevector;
    unsigned __int128 state = ((unsigned __int128)1 << p->cell_bits) * p->cell_bytes;
    return state * 2 + statevector_slot_count(p) * (p->cell_bytes * 2 << v->tile_bits);
}

static size_t statevector_micro_batch_size(const struct qr_sim_plan *p, size_t batch_size) {
    (void)batch_size;
    return p->lanes_are_samples && !p->n_channels ? QR_LANES : 1;
}

/* Threads can share a state of several tiles only. */
static bool statevector_in_parallel(const struct qr_sim_plan *p) {
    return p->lanes_are_samples || p->cell_bits <= QR_TILE_BITS;
}

static bool statevector_threads_share(const struct qr_sim_plan *p) { return p->n_channels > 0; }

const struct qr_sim_engine qr_statevector_engine = {
    .name = "statevector",
    .memory = "two state vectors",
    .max_qubits = QR_FUSED_QUBITS,
    .plan = statevector_plan,
    .plan_free = statevector_plan_free,
    .least_bytes = statevector_least_bytes,
    .micro_batches_in_parallel = statevector_in_parallel,
    .threads_share = statevector_threads_share,
    .micro_batch_size = statevector_micro_batch_size,
    .bound_buffers = qr_trajectories_bound_buffers,
    .bind = statevector_bind,
    .workspace_size = sizeof(struct qr_statevector_workspace),
    .workspace_buffers = statevector_buffers,
    .workspace_begin = statevector_begin,
    .workspace_end = statevector_end,
    .forward = statevector_forward,
    .backward = statevector_backward,
    .sample = statevector_sample,
    .states = statevector_states,
    .report = qr_statevector_report,
};
