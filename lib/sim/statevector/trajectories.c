/* sim/statevector/trajectories.c — circuits with noise channels as averages over trajectories.
 * sim/statevector/trajectories.md has the derivation. Start reading at qr_trajectories_forward().
 *
 * Rows     a row is a trajectory of a sample: what a sample is without noise. Trajectories of a
 *          sample without any error are one row with their number as weight, and the others may
 *          continue it (noise_prefix.c). Pauli errors are in noise_sites.c, other channels in
 *          noise_branches.c. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "sim/statevector/statevector_impl.h"

enum { PAULIS = QR_NOISE_PAULIS, OPERATOR = QR_NOISE_OPERATOR };

/* ---- the plan ---- */

bool qr_trajectories_are_allowed(struct qr_sim_plan *p) {
    if (p->method == QR_METHOD_AUTO || p->method == QR_METHOD_TRAJECTORIES) return true;
    snprintf(p->why, sizeof p->why, "trajectories are not exact, which the method for noise is");
    return false;
}

void qr_trajectories_plan(struct qr_sim_plan *p) {
    struct qr_statevector *v = p->statevector;
    if (!p->n_channels) return;
    v->site_channels = qr_xcalloc(p->n_noise + 1, sizeof *v->site_channels);
    memset(v->site_channels, 0xff, p->n_noise * sizeof *v->site_channels);
    v->site_stops = qr_xcalloc(p->n_noise + 1, sizeof *v->site_stops);
    for (size_t i = 0; i < v->n_steps; i++) {
        if (v->steps[i].noise_slot == QR_NO_SLOT) continue;
        const struct qr_fused_gate *f = qr_step_gate(p, &v->steps[i], 0);
        for (uint32_t k = 0; k < p->shapes[f->shape].n_sites; k++) {
            const struct qr_plan_noise *noise = &p->noise[f->first_noise + k];
            v->site_channels[noise->number] = noise->channel;
            v->site_stops[noise->number] = qr_prefix_stop_of(v, i);
        }
    }
    snprintf(p->why, sizeof p->why, "an average of %u trajectories", p->n_trajectories);
}

/* ---- numbers of a step ---- */

void qr_trajectories_bound_buffers(struct qr_buffers *r, struct qr_sim_bound *b) {
    const struct qr_sim_plan *p = b->plan;
    struct qr_statevector_bound unused, *own;
    if (!p->n_channels) return;
    qr_buffers_take(r, "channels", sizeof *own, &b->statevector);
    own = b->statevector ? b->statevector : &unused;
    qr_buffers_take(r, "sites", p->n_sites * sizeof *own->before, &own->before);
    qr_buffers_take(r, "sites", p->n_sites * sizeof *own->after, &own->after);
    qr_buffers_take(r, "channels", p->n_channels * PAULIS * sizeof *own->thresholds,
                    &own->thresholds);
    qr_buffers_take(r, "channels", p->n_channels * QR_CHANNEL_KRAUS * OPERATOR * sizeof *own->kraus,
                    &own->kraus);
    qr_buffers_take(r, "channels", p->n_channels * sizeof *own->n_kraus, &own->n_kraus);
}

static void bind_sites(struct qr_sim_bound *b, const struct qr_plan_shape *s) {
    const struct qr_sim_plan *p = b->plan;
    struct qr_m4 after = qr_m4_identity(), whole = b->suffix[s - p->shapes];
    uint32_t site = s->n_sites;
    for (uint32_t i = s->n_ops + 1; i-- > 0;) {
        for (; site > 0 && p->sites[s->first_site + site - 1].op == i; site--) {
            struct qr_m4 back = qr_m4_adjoint(&after);
            b->statevector->after[s->first_site + site - 1] = after;
            b->statevector->before[s->first_site + site - 1] = qr_m4_mul(&back, &whole);
        }
        if (!i) break;
        const struct qr_plan_op *op = &p->ops[s->first_op + i - 1];
        after = qr_m4_mul_gate(&after, op, b->matrices + (size_t)op->number * 16, false);
    }
}

/* thresholds[p]: the random numbers below it have an error with a Pauli up to p; [0]: those with
 * any. */
static bool bind_thresholds(const double *probability, unsigned n, uint64_t *ret) {
    double sum = 0;
    bool valid = probability[0] >= 0;
    for (unsigned p = 1; p < n; p++) {
        sum += probability[p];
        valid = valid && probability[p] >= 0;
        ret[p] = sum >= 1 ? UINT64_MAX : (uint64_t)ldexp(valid ? sum : 0, 64);
    }
    ret[0] = ret[n - 1];
    return valid;
}

void qr_trajectories_bind(struct qr_sim_bound *b) {
    const struct qr_sim_plan *p = b->plan;
    struct qr_statevector_bound *own = b->statevector;
    for (size_t i = 0; i < p->n_shapes; i++)
        if (p->shapes[i].n_sites) bind_sites(b, &p->shapes[i]);
    own->invalid = false;
    for (size_t i = 0; i < p->n_channels; i++) {
        const struct qr_channel *c = &p->channels[i];
        double a[QR_CHANNEL_ARGS], probability[PAULIS];
        qr_channel_values(c, b->theta, a);
        if (qr_channel_errors(c, a, probability, NULL))
            own->invalid |= !bind_thresholds(probability, c->info->n_targets == 1 ? 4 : 16,
                                             own->thresholds + i * PAULIS);
        else
            own->n_kraus[i] =
                qr_channel_kraus(c, a, own->kraus + i * QR_CHANNEL_KRAUS * OPERATOR, NULL);
    }
}

/* ---- the workspace ---- */

/* Whether a strength of Pauli errors has a derivative. */
static bool errors_need(const struct qr_sim_plan *p) {
    bool any = false;
    for (size_t i = 0; i < p->n_channels; i++)
        any |= p->channel_needs[i] && !p->channels[i].info->damping;
    return any;
}

void qr_trajectories_rows_buffers(struct qr_buffers *r, struct qr_statevector_workspace *ws) {
    const struct qr_sim_plan *p = ws->head.plan;
    size_t n_rows = ws->head.max_samples * (p->n_trajectories + 1);
    struct qr_trajectory_rows unused, *rows = NULL;
    qr_buffers_take(r, "trajectories", sizeof *rows, &rows);
    if (rows) ws->noise->rows = rows;
    else rows = &unused;
    qr_buffers_take(r, "trajectories", n_rows * sizeof *rows->list, &rows->list);
    qr_buffers_take(r, "trajectories", n_rows * p->n_readouts * sizeof *rows->z, &rows->z);
    if (n_rows * p->n_noise <= QR_KEPT_BYTES)
        qr_buffers_take(r, "trajectories", n_rows * p->n_noise + 1, &rows->outcomes);
    size_t n_groups = n_rows / qr_statevector_group(p) + 1, state = p->cell_bytes << p->cell_bits;
    if (!p->statevector->n_branches && p->cell_bits < 24 && n_groups <= QR_KEPT_BYTES / state)
        qr_buffers_take(r, "kept", n_groups * state, &rows->finals);
    qr_prefix_buffers(r, p, n_rows, rows);
    if (errors_need(p) || p->statevector->n_branches)
        qr_buffers_take(r, "trajectories", n_rows * sizeof *rows->values, &rows->values);
}

void qr_trajectories_buffers(struct qr_buffers *r, struct qr_statevector_workspace *ws) {
    const struct qr_sim_plan *p = ws->head.plan;
    const struct qr_statevector *v = p->statevector;
    size_t numbers = qr_noise_numbers_size(p);
    struct qr_trajectories unused, *t;
    qr_buffers_take(r, "trajectories", sizeof *ws->noise, &ws->noise);
    t = ws->noise ? ws->noise : &unused;
    qr_buffers_take(r, "trajectories", QR_LANES * (p->n_noise + 1), &t->outcomes);
    qr_buffers_take(r, "trajectories", QR_LANES * p->n_noise * sizeof *t->events, &t->events);
    qr_buffers_take(r, "trajectories", (v->n_noisy + 1) * sizeof *t->first_event, &t->first_event);
    qr_buffers_take(r, "numbers", v->n_noisy * numbers * sizeof *t->numbers, &t->numbers);
    qr_buffers_take(r, "samples", QR_LANES * p->n_columns * sizeof *t->x, &t->x);
    qr_buffers_take(r, "samples", QR_LANES * p->n_readouts * sizeof *t->direction, &t->direction);
    qr_buffers_take(r, "kept", v->n_branches * (p->cell_bytes << p->cell_bits), &t->kept);
    qr_buffers_take(r, "numbers", v->n_branches * numbers * sizeof *t->branch_numbers,
                    &t->branch_numbers);
    qr_buffers_take(r, "branches", v->n_branches * QR_LANES, &t->branch_outcomes);
    qr_buffers_take(r, "branches", v->n_branches * QR_LANES * sizeof *t->branch_roots,
                    &t->branch_roots);
    qr_buffers_take(r, "branches", p->n_bits * QR_LANES, &t->bits);
    qr_buffers_take(r, "branches", v->n_noisy * sizeof *t->holds, &t->holds);
    qr_buffers_take(r, "sums", p->n_sites * QR_CROSS * sizeof *t->sites, &t->sites);
    qr_buffers_take(r, "sums", p->n_params * sizeof *t->params, &t->params);
    qr_buffers_take(r, "sums", p->n_params * sizeof *t->by_params, &t->by_params);
}

/* ---- the rows ---- */

enum { DRAWN = 16 }; /* trajectories per task */
struct row_draws {
    const struct qr_sim_bound *b;
    struct qr_statevector_workspace *ws;
    size_t n, first; /* trajectories, and row of the first */
};

/* The stop at which a trajectory with these errors begins. */
static uint32_t first_stop(const struct qr_sim_plan *p, const uint8_t *outcomes) {
    const struct qr_statevector *v = p->statevector;
    uint32_t start = (uint32_t)v->n_stops;
    for (size_t i = 0; i < p->n_noise && start; i++)
        if (outcomes[i] && v->site_stops[i] < start) start = v->site_stops[i];
    return start;
}

/* Draws the errors of trajectories; those without any get weight 0. */
static void draw_task(void *ctx, size_t task, unsigned worker) {
    const struct row_draws *d = ctx;
    const struct qr_sim_plan *p = d->b->plan;
    const struct qr_trajectory_rows *rows = d->ws->noise->rows;
    bool always = p->statevector->n_branches || p->shots;
    (void)worker;
    for (size_t i = task * DRAWN; i < (task + 1) * DRAWN && i < d->n; i++) {
        struct qr_trajectory *row = &rows->list[d->first + i];
        *row = (struct qr_trajectory){.sample = (uint32_t)(i / p->n_trajectories),
                                      .number = (uint32_t)(i % p->n_trajectories)};
        uint8_t *to = rows->outcomes ? rows->outcomes + i * p->n_noise : d->ws->noise->outcomes;
        bool errors = qr_noise_draw_row(d->b, d->ws, row->sample, row->number, to);
        row->weight = errors || always ? 1.0 / p->n_trajectories : 0;
        row->start = first_stop(p, to);
    }
}

/* Adds a trajectory to the sweep without errors of its sample, which the sample's first one makes.
 * Returns whether it is a row of its own. */
static bool join_shared(const struct qr_sim_plan *p, struct qr_trajectory_rows *rows,
                        struct qr_trajectory **shared, const struct qr_trajectory *row) {
    if (!row->number) {
        *shared = &rows->list[rows->n++];
        **shared = (struct qr_trajectory){
            .sample = row->sample, .start = (uint32_t)p->statevector->n_stops, .shared = true};
    }
    if (row->start < p->statevector->n_stops) return true;
    if (!(*shared)->n_clean++) (*shared)->number = row->number;
    if (p->shots) return true;
    (*shared)->weight += 1.0 / p->n_trajectories;
    return false;
}

/* Lists the trajectories of all samples; those of a sample without errors are one row. */
static void list_rows(const struct qr_sim_bound *b, struct qr_statevector_workspace *ws,
                      struct qr_pool *pool, size_t n_samples) {
    const struct qr_sim_plan *p = b->plan;
    struct qr_trajectory_rows *rows = ws->noise->rows;
    struct row_draws draws = {b, ws, n_samples * p->n_trajectories, n_samples};
    struct qr_trajectory *clean = NULL;
    qr_pool_for(rows->outcomes ? pool : NULL, (draws.n + DRAWN - 1) / DRAWN, draw_task, &draws);
    rows->n = 0;
    for (size_t i = 0; i < draws.n; i++) {
        struct qr_trajectory row = rows->list[draws.first + i];
        bool errors = row.weight > 0;
        if (p->statevector->n_stops) {
            if (join_shared(p, rows, &clean, &row)) rows->list[rows->n++] = row;
            continue;
        }
        if (!errors && clean && clean->sample == row.sample) {
            clean->weight += 1.0 / p->n_trajectories;
            continue;
        }
        if (!errors) {
            clean = &rows->list[rows->n];
            row.weight = 1.0 / p->n_trajectories;
        }
        rows->list[rows->n++] = row;
    }
}

/* Adds the derivatives by strengths of Pauli errors: the row's value times the derivative of the
 * logarithm of its probability. The value is taken relative to the mean of the sample's other
 * trajectories, which changes no expectation. */
static void add_strength_gradient(const struct qr_sim_bound *b, struct qr_trajectories *t,
                                  const uint8_t *outcomes, double value) {
    const struct qr_sim_plan *p = b->plan;
    for (size_t i = 0; i < p->n_noise; i++) {
        uint32_t channel = p->statevector->site_channels[i];
        if (channel == QR_NO_SLOT || !p->channel_needs[channel]) continue;
        const struct qr_channel *c = &p->channels[channel];
        double a[QR_CHANNEL_ARGS], probability[PAULIS], da[QR_CHANNEL_ARGS * PAULIS];
        size_t n = c->info->n_targets == 1 ? 4 : 16;
        qr_channel_values(c, b->theta, a);
        qr_channel_errors(c, a, probability, da);
        for (unsigned k = 0; k < c->info->n_args; k++) {
            const struct qr_gate_arg *arg = &c->args[k];
            qr_fixed f;
            if (arg->kind != QR_ARG_PARAMETER || p->zero_gradient[arg->index]) continue;
            double d = arg->scale * da[k * n + outcomes[i]] / probability[outcomes[i]];
            if (qr_fixed_from_double(value * d, &f)) t->params[arg->index] += f;
            else t->bad = true;
        }
    }
}

/* ---- groups of rows ---- */

/* A loop over the groups: each thread takes the next group, in a workspace of its own. */
struct rows_loop {
    const struct qr_sim_bound *b;
    struct qr_statevector_workspace *ws;
    struct qr_pool *pool; /* of the sweeps; NULL where threads run groups */
    /* last: the workspace gets no other group */
    void (*run)(struct rows_loop *loop, struct qr_sweep *r, size_t group, bool last);
    /* the rows of a sample that share their prefix */
    void (*sample)(struct rows_loop *loop, struct qr_pool *pool, size_t first, size_t end);
    size_t end; /* of the groups */
    atomic_size_t next;
    atomic_bool bad;
    bool backward; /* each workspace begins with the group that it holds */
    bool gradient;
    const double *direction, *scale;
    uint64_t *strings, *bits;
};

static struct qr_statevector_workspace *workspace_at(struct qr_statevector_workspace *ws,
                                                     size_t i) {
    return i ? &ws->others[i - 1] : ws;
}

static struct qr_sweep rows_sweep(const struct rows_loop *loop, struct qr_statevector_workspace *ws,
                                  size_t group) {
    const struct qr_sim_plan *p = loop->b->plan;
    struct qr_trajectories *t = ws->noise;
    size_t per = qr_statevector_group(p), left = t->rows->n - group * per;
    struct qr_sweep r =
        qr_statevector_sweep(loop->b, ws, loop->pool, group * per, left < per ? left : per);
    for (size_t l = 0; l < r.n; l++) {
        r.sample[l] = t->rows->list[r.first + l].sample;
        if (p->n_columns)
            memcpy(t->x + l * p->n_columns, loop->ws->x + (size_t)r.sample[l] * p->n_columns,
                   p->n_columns * sizeof *t->x);
    }
    r.x = t->x;
    if (p->statevector->n_stops) {
        r.shared = t->rows->list[group].shared;
        if (!r.shared) r.start = t->rows->list[group].start;
    }
    return r;
}

static bool is_held(const struct rows_loop *loop, size_t group) {
    for (size_t i = 0; i <= loop->ws->n_others; i++)
        if (workspace_at(loop->ws, i)->noise->held == (int64_t)group) return true;
    return false;
}

static size_t take_group(struct rows_loop *loop) {
    size_t g;
    do g = atomic_fetch_add_explicit(&loop->next, 1, memory_order_relaxed);
    while (loop->backward && g < loop->end && is_held(loop, g));
    return g < loop->end ? g : loop->end;
}

static void rows_task(void *ctx, size_t i, unsigned worker) {
    struct rows_loop *loop = ctx;
    struct qr_statevector_workspace *ws = workspace_at(loop->ws, i);
    bool holds = loop->backward && ws->noise->held != QR_NO_GROUP;
    (void)worker;
    for (size_t next, g = holds ? (size_t)ws->noise->held : take_group(loop); g < loop->end;
         g = next) {
        struct qr_sweep r = rows_sweep(loop, ws, g);
        next = take_group(loop);
        loop->run(loop, &r, g, next == loop->end);
    }
}

/* Groups first .. end - 1. */
static void run_groups(struct rows_loop *loop, struct qr_pool *pool, size_t first, size_t end) {
    struct qr_statevector_workspace *ws = loop->ws;
    loop->end = end;
    atomic_store(&loop->next, first);
    for (unsigned i = 0; i <= ws->n_others; i++) {
        struct qr_statevector_workspace *at = workspace_at(ws, i);
        bool holds = at->phi_group >= (int64_t)first && at->phi_group < (int64_t)end;
        at->head.draw = ws->head.draw;
        at->noise->held = holds ? at->phi_group : QR_NO_GROUP;
    }
    qr_pool_for(pool, ws->n_others + 1, rows_task, loop);
}

/* The end of the rows of a sample that begin with its sweep without errors. */
static size_t sample_end(const struct qr_trajectory_rows *rows, size_t first) {
    size_t end = first + 1;
    while (end < rows->n && !rows->list[end].shared) end++;
    return end;
}

static void run_rows(struct rows_loop *loop, struct qr_pool *pool) {
    const struct qr_sim_plan *p = loop->b->plan;
    struct qr_statevector_workspace *ws = loop->ws;
    struct qr_trajectory_rows *rows = ws->noise->rows;
    size_t per = qr_statevector_group(p);
    if (!ws->n_others) loop->pool = pool;
    if (!p->statevector->n_stops) run_groups(loop, pool, 0, (rows->n + per - 1) / per);
    else
        for (size_t first = 0, end; first < rows->n; first = end) {
            end = sample_end(rows, first);
            loop->sample(loop, pool, first, end);
        }
}

static void forget_groups(struct qr_statevector_workspace *ws) {
    ws->noise->rows->kept_sample = QR_NO_GROUP;
    for (unsigned i = 0; i <= ws->n_others; i++) workspace_at(ws, i)->phi_group = QR_NO_GROUP;
}

/* ---- forward ---- */

/* The sweep without errors, then the rows that continue it. */
static void sample_forward(struct rows_loop *loop, struct qr_pool *pool, size_t first, size_t end) {
    struct qr_trajectory_rows *rows = loop->ws->noise->rows;
    struct qr_sweep r = rows_sweep(loop, loop->ws, first);
    loop->run(loop, &r, first, false);
    rows->kept_sample = rows->list[first].sample;
    run_groups(loop, pool, first + 1, end);
}

/* Sums over the shots of each row, whose trajectories are not merged. */
static void measure_rows(const struct qr_sweep *r) {
    const struct qr_sim_plan *p = r->p;
    const struct qr_trajectory_rows *rows = r->ws->noise->rows;
    for (size_t l = 0; l < r->n; l++) {
        const struct qr_trajectory *row = &rows->list[r->first + l];
        struct qr_shot_source from = {.lane = l, .sample = row->sample, .trajectory = row->number};
        double *z = rows->z + (r->first + l) * p->n_readouts;
        qr_shots_of(p, row->number, &from.first, &from.n);
        memset(z, 0, p->n_readouts * sizeof *z);
        if (row->shared) continue;
        bool fine = qr_shots_measure(r->ws, &from, z);
        for (size_t k = 0; k < p->n_readouts && !fine; k++) z[k] = __builtin_nan("");
    }
}

static void forward_group(struct rows_loop *loop, struct qr_sweep *r, size_t group, bool last) {
    const struct qr_sim_plan *p = r->p;
    struct qr_statevector_workspace *ws = r->ws;
    const struct qr_trajectory_rows *rows = ws->noise->rows;
    size_t state = p->cell_bytes << p->cell_bits;
    r->gradient = loop->gradient && last; /* the others are repeated */
    qr_sweep_forward(r);
    ws->phi_group = (int64_t)group;
    if (loop->gradient && rows->finals) memcpy(rows->finals + group * state, ws->phi, state);
    if (p->shots) {
        measure_rows(r);
        return;
    }
    qr_sweep_expect(r);
    for (size_t l = 0; l < r->n; l++)
        for (size_t k = 0; k < p->n_readouts; k++)
            rows->z[(r->first + l) * p->n_readouts + k] =
                qr_statevector_readout(ws, k * QR_LANES + l);
}

/* The samples' read-outs: sums over their rows, in order. */
static void sum_rows(const struct qr_sim_plan *p, const struct qr_trajectory_rows *rows,
                     size_t n_samples, double *ret_z) {
    for (size_t s = 0; s < n_samples; s++)
        for (size_t k = 0; k < p->n_readouts; k++)
            ret_z[s * p->n_readouts + k] = p->shots ? p->statevector->shots->constants[k] : 0;
    for (size_t i = 0; i < rows->n; i++)
        for (size_t k = 0; k < p->n_readouts; k++) {
            double z = rows->z[i * p->n_readouts + k];
            ret_z[rows->list[i].sample * p->n_readouts + k] +=
                p->shots ? z : rows->list[i].weight * z;
        }
}

void qr_trajectories_forward(const struct qr_sim_bound *b, struct qr_statevector_workspace *ws,
                             struct qr_pool *pool, size_t n_samples, bool gradient, double *ret_z) {
    const struct qr_sim_plan *p = b->plan;
    forget_groups(ws);
    list_rows(b, ws, pool, n_samples);
    run_rows(
        &(struct rows_loop){
            .b = b, .ws = ws, .run = forward_group, .sample = sample_forward, .gradient = gradient},
        pool);
    sum_rows(p, ws->noise->rows, n_samples, ret_z);
    for (size_t i = 0; b->statevector->invalid && i < n_samples * p->n_readouts; i++)
        ret_z[i] = __builtin_nan("");
    if (!gradient) forget_groups(ws);
}

/* Bit 0 is the most significant of n_bits. */
static uint64_t bits_of_lane(const struct qr_sim_plan *p, const struct qr_trajectories *t,
                             size_t lane) {
    uint64_t bits = 0;
    for (unsigned i = 0; i < p->n_bits; i++) bits = bits << 1 | t->bits[i * QR_LANES + lane];
    return bits;
}

static void sample_group(struct rows_loop *loop, struct qr_sweep *r, size_t group, bool last) {
    const struct qr_sim_plan *p = r->p;
    const struct qr_trajectories *t = r->ws->noise;
    (void)group, (void)last;
    qr_sweep_forward(r);
    for (size_t l = 0; l < r->n && !r->shared; l++) {
        const struct qr_trajectory *row = &t->rows->list[r->first + l];
        struct qr_shot_source from = {.lane = l, .sample = row->sample, .trajectory = row->number};
        qr_shots_of(p, row->number, &from.first, &from.n);
        size_t first = (size_t)row->sample * p->shots + from.first;
        if (!qr_shots_draw(r->ws, &from, loop->strings + first)) atomic_store(&loop->bad, true);
        for (unsigned i = 0; loop->bits && i < from.n; i++)
            loop->bits[first + i] = bits_of_lane(p, t, l);
    }
}

bool qr_trajectories_sample(const struct qr_sim_bound *b, struct qr_statevector_workspace *ws,
                            struct qr_pool *pool, size_t n_samples, uint64_t *ret,
                            uint64_t *ret_bits) {
    struct rows_loop loop = {.b = b,
                             .ws = ws,
                             .run = sample_group,
                             .sample = sample_forward,
                             .strings = ret,
                             .bits = ret_bits};
    list_rows(b, ws, pool, n_samples);
    forget_groups(ws);
    run_rows(&loop, pool);
    return !b->statevector->invalid && !atomic_load(&loop.bad);
}

/* ---- backward ---- */

/* Direction * the row's read-outs, which with shots are means over the row's own. */
static double row_value(const struct qr_sim_plan *p, const struct qr_trajectory_rows *rows,
                        size_t row, const double *direction) {
    unsigned first, n = 0;
    double value = 0;
    if (p->shots) qr_shots_of(p, rows->list[row].number, &first, &n);
    for (size_t k = 0; k < p->n_readouts; k++) {
        double z = rows->z[row * p->n_readouts + k];
        value += direction[k] * (p->shots ? z * p->shots / (n ? n : 1) : z);
    }
    return value;
}

/* Sets each row's value, and the mean over the sample's other trajectories. */
static void set_values(const struct qr_sim_plan *p, struct qr_trajectory_rows *rows,
                       const double *direction) {
    double n = p->n_trajectories;
    for (size_t first = 0, end; first < rows->n; first = end) {
        uint32_t sample = rows->list[first].sample;
        double sum = 0;
        for (end = first; end < rows->n && rows->list[end].sample == sample; end++) {
            double value = row_value(p, rows, end, direction + (size_t)sample * p->n_readouts);
            rows->values[end][0] = value;
            sum += rows->list[end].weight * n * value;
        }
        for (size_t i = first; i < end; i++)
            rows->values[i][1] = n > 1 ? (sum - rows->values[i][0]) / (n - 1) : 0;
    }
}

/* Derivatives by the strengths of Pauli errors of all rows. */
static void strengths_backward(const struct qr_sim_bound *b, struct qr_statevector_workspace *ws,
                               const double *scale) {
    struct qr_trajectories *t = ws->noise;
    for (size_t i = 0; i < t->rows->n; i++) {
        const struct qr_trajectory *row = &t->rows->list[i];
        const double *of = t->rows->values[i];
        (void)qr_noise_draw_row(b, ws, row->sample, row->number, t->outcomes);
        add_strength_gradient(b, t, t->outcomes,
                              scale[row->sample] * row->weight * (of[0] - of[1]));
    }
}

/* lambda -= mean of the other trajectories * phi: the probabilities of a row's branches depend on
 * the parameters too, and their derivatives are multiplied by the value relative to that mean. */
static void subtract_mean(const struct qr_sweep *r) {
    const struct qr_sim_plan *p = r->p;
    double mean[QR_LANES] = {0};
    for (size_t l = 0; l < r->n; l++) mean[l] = r->ws->noise->rows->values[r->first + l][1];
    for (size_t l = 1; l < QR_LANES && !p->lanes_are_samples; l++) mean[l] = mean[0];
    for (size_t i = 0; i < (size_t)2 << p->cell_bits; i++)
        for (size_t l = 0; l < QR_LANES; l++)
            qr_element_set(p, r->ws->lambda, i * QR_LANES + l,
                           qr_element(p, r->ws->lambda, i * QR_LANES + l) -
                               mean[l] * qr_element(p, r->ws->phi, i * QR_LANES + l));
}

/* Sets phi to the group's final state. */
static void restore_final(struct qr_sweep *r, size_t group) {
    struct qr_statevector_workspace *ws = r->ws;
    const struct qr_trajectory_rows *rows = ws->noise->rows;
    size_t state = r->p->cell_bytes << r->p->cell_bits;
    if (!r->shared && ws->phi_group == (int64_t)group) return;
    if (r->shared || rows->finals) {
        qr_sweep_prepare(r);
        memcpy(ws->phi, r->shared ? qr_prefix_state(r, 0) : rows->finals + group * state, state);
    } else {
        qr_sweep_forward(r);
    }
}

/* Directions and scales of the lanes; a sweep without errors stands for n_clean trajectories. */
static void set_directions(const struct rows_loop *loop, struct qr_sweep *r) {
    const struct qr_sim_plan *p = r->p;
    struct qr_trajectories *t = r->ws->noise;
    for (size_t l = 0; l < QR_LANES; l++) {
        const struct qr_trajectory *row = l < r->n ? &t->rows->list[r->first + l] : NULL;
        r->scale[l] = row ? loop->scale[row->sample] * row->weight : 0;
        if (!row) continue;
        double *to = t->direction + l * p->n_readouts;
        memcpy(to, loop->direction + (size_t)row->sample * p->n_readouts,
               p->n_readouts * sizeof *to);
        if (!row->shared) continue;
        for (size_t k = 0; k < p->n_readouts; k++) to[k] *= row->n_clean;
        r->scale[l] = loop->scale[row->sample] / p->n_trajectories;
    }
    if (!p->lanes_are_samples)
        for (size_t l = 1; l < QR_LANES; l++) r->scale[l] = r->scale[0];
    r->direction = t->direction;
}

static void backward_group(struct rows_loop *loop, struct qr_sweep *r, size_t group, bool last) {
    const struct qr_sim_plan *p = r->p;
    struct qr_statevector_workspace *ws = r->ws;
    size_t n_stops = r->v->n_stops;
    (void)last;
    if (n_stops && r->start == n_stops) return; /* in the sweep without errors */
    r->gradient = true;
    restore_final(r, group);
    ws->phi_group = QR_NO_GROUP;
    set_directions(loop, r);
    qr_sweep_observe(r);
    if (p->statevector->n_branches) subtract_mean(r);
    qr_sweep_backward(r);
    qr_statevector_collect_mixed(r);
    if (n_stops) qr_prefix_keep(r, group);
}

/* The rows, in parts with a lambda for each, then the sweep without errors. */
static void sample_backward(struct rows_loop *loop, struct qr_pool *pool, size_t first,
                            size_t end) {
    struct qr_statevector_workspace *ws = loop->ws;
    struct qr_trajectory_rows *rows = ws->noise->rows;
    const struct qr_sim_plan *p = loop->b->plan;
    struct qr_sweep r = rows_sweep(loop, ws, first);
    if (rows->kept_sample != rows->list[first].sample) {
        qr_sweep_forward(&r);
        ws->phi_group = QR_NO_GROUP;
        rows->kept_sample = rows->list[first].sample;
    }
    memset(rows->has_lambda, 0, p->statevector->n_stops * sizeof *rows->has_lambda);
    for (size_t at = first + 1, next; at < end; at = next) {
        next = end - at < rows->n_ends ? end : at + rows->n_ends;
        rows->first_end = at;
        run_groups(loop, pool, at, next);
        qr_prefix_sum(p, rows, next, pool);
    }
    backward_group(loop, &r, first, true);
}

static void clear_sums(struct qr_statevector_workspace *ws) {
    const struct qr_sim_plan *p = ws->head.plan;
    struct qr_trajectories *t = ws->noise;
    qr_statevector_clear_sums(ws);
    if (p->n_sites) memset(t->sites, 0, p->n_sites * QR_CROSS * sizeof *t->sites);
    if (p->n_params) memset(t->params, 0, p->n_params * sizeof *t->params);
    t->bad = false;
}

/* Adds the sums of a workspace to those of ws, which may be the same one. */
static bool add_sums(struct qr_statevector_workspace *ws, struct qr_statevector_workspace *of) {
    const struct qr_sim_plan *p = ws->head.plan;
    struct qr_trajectories *t = ws->noise;
    bool good = qr_statevector_sums_are_good(of) && !of->noise->bad;
    for (unsigned i = 0; i < of->n_slots; i++)
        qr_fixed_add(t->sites, of->slots[i].sites, p->n_sites * QR_CROSS);
    if (of == ws) return good;
    qr_fixed_add(ws->cross, of->cross, p->n_shapes * QR_CROSS);
    qr_fixed_add(ws->mixed, of->mixed, p->n_mixed * ws->head.max_samples * QR_CROSS);
    qr_fixed_add(t->params, of->noise->params, p->n_params);
    return good;
}

bool qr_trajectories_backward(const struct qr_sim_bound *b, struct qr_statevector_workspace *ws,
                              struct qr_pool *pool, const double *direction, const double *scale,
                              qr_fixed *ret_grad, double *ret_dx) {
    const struct qr_sim_plan *p = b->plan;
    struct qr_trajectories *t = ws->noise;
    bool good = true;
    for (unsigned i = 0; i <= ws->n_others; i++) clear_sums(workspace_at(ws, i));
    if (t->rows->values) set_values(p, t->rows, direction);
    if (p->statevector->first_cross < p->statevector->n_steps)
        run_rows(&(struct rows_loop){.b = b,
                                     .ws = ws,
                                     .run = backward_group,
                                     .sample = sample_backward,
                                     .backward = true,
                                     .direction = direction,
                                     .scale = scale},
                 pool);
    if (errors_need(p)) strengths_backward(b, ws, scale);
    for (unsigned i = 0; i <= ws->n_others; i++) good &= add_sums(ws, workspace_at(ws, i));
    if (!good) return false;
    for (unsigned k = 0; k < p->n_params; k++) t->by_params[k] = qr_fixed_to_double(t->params[k]);
    qr_statevector_sum_mixed(ws);
    if (p->wanted) memset(ret_dx, 0, ws->n_samples * p->n_columns * sizeof *ret_dx);
    const struct qr_bound_sums sums = {.cross = ws->cross,
                                       .mixed = ws->mixed,
                                       .mixed_stride = ws->head.max_samples,
                                       .sites = t->sites,
                                       .params = t->by_params,
                                       .x = ws->x,
                                       .n_samples = ws->n_samples};
    return qr_bound_gradient(b, &sums, ws->scratch, ret_grad, ret_dx);
}
