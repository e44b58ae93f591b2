/* sim/statevector/trajectories.c — circuits with noise channels as averages over trajectories.
 * sim/statevector/trajectories.md has the derivation. Start reading at qr_trajectories_forward().
 *
 * Rows     a row is a trajectory of a sample: what a sample is without noise. Trajectories of a
 *          sample without any error are one row with their number as weight. Pauli errors are in
 *          noise_sites.c, other channels in noise_branches.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "sim/statevector/statevector_impl.h"

enum { PAULIS = QR_NOISE_PAULIS, OPERATOR = QR_NOISE_OPERATOR, KEPT_BYTES = 16 << 20 };

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
    for (size_t i = 0; i < p->n_fused; i++) {
        const struct qr_fused_gate *f = &p->fused[i];
        for (uint32_t k = 0; k < p->shapes[f->shape].n_sites; k++)
            v->site_channels[p->noise[f->first_noise + k].number] =
                p->noise[f->first_noise + k].channel;
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

static size_t values_stride(const struct qr_sim_plan *p) {
    return p->n_readouts > 2 ? p->n_readouts : 2;
}

/* Whether a strength of Pauli errors has a derivative. */
static bool errors_need(const struct qr_sim_plan *p) {
    bool any = false;
    for (size_t i = 0; i < p->n_channels; i++)
        any |= p->channel_needs[i] && !p->channels[i].info->damping;
    return any;
}

void qr_trajectories_buffers(struct qr_buffers *r, struct qr_statevector_workspace *ws) {
    const struct qr_sim_plan *p = ws->head.plan;
    const struct qr_statevector *v = p->statevector;
    size_t n_rows = ws->head.max_samples * p->n_trajectories, numbers = qr_noise_numbers_size(p);
    struct qr_trajectories unused, *t;
    qr_buffers_take(r, "trajectories", sizeof *ws->noise, &ws->noise);
    t = ws->noise ? ws->noise : &unused;
    qr_buffers_take(r, "trajectories", n_rows * sizeof *t->rows, &t->rows);
    qr_buffers_take(r, "trajectories", QR_LANES * (p->n_noise + 1), &t->outcomes);
    t->all_outcomes = NULL;
    t->finals = NULL;
    if (n_rows * p->n_noise <= KEPT_BYTES)
        qr_buffers_take(r, "trajectories", n_rows * p->n_noise + 1, &t->all_outcomes);
    size_t n_groups = n_rows / qr_statevector_group(p) + 1, state = p->cell_bytes << p->cell_bits;
    if (!v->n_branches && p->cell_bits < 24 && n_groups <= KEPT_BYTES / state)
        qr_buffers_take(r, "kept", n_groups * state, &t->finals);
    qr_buffers_take(r, "trajectories", QR_LANES * p->n_noise * sizeof *t->events, &t->events);
    qr_buffers_take(r, "trajectories", (v->n_noisy + 1) * sizeof *t->first_event, &t->first_event);
    qr_buffers_take(r, "numbers", v->n_noisy * numbers * sizeof *t->numbers, &t->numbers);
    qr_buffers_take(r, "samples", QR_LANES * p->n_columns * sizeof *t->x, &t->x);
    qr_buffers_take(r, "samples", QR_LANES * p->n_readouts * sizeof *t->direction, &t->direction);
    if (errors_need(p) || v->n_branches)
        qr_buffers_take(r, "trajectories", n_rows * values_stride(p) * sizeof *t->values,
                        &t->values);
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

/* Lists the trajectories of all samples; those of a sample without errors are one row. */
static void list_rows(const struct qr_sim_bound *b, struct qr_statevector_workspace *ws,
                      size_t n_samples) {
    const struct qr_sim_plan *p = b->plan;
    struct qr_trajectories *t = ws->noise;
    double one = 1.0 / p->n_trajectories;
    t->n_rows = 0;
    for (uint32_t s = 0; s < n_samples; s++) {
        struct qr_trajectory *clean = NULL;
        for (uint32_t i = 0; i < p->n_trajectories; i++) {
            size_t at = ((size_t)s * p->n_trajectories + i) * p->n_noise;
            bool errors = qr_noise_draw_row(b, ws, s, i,
                                            t->all_outcomes ? t->all_outcomes + at : t->outcomes) ||
                          p->statevector->n_branches || p->shots;
            if (!errors && clean) {
                clean->weight += one;
                continue;
            }
            struct qr_trajectory *row = &t->rows[t->n_rows++];
            *row = (struct qr_trajectory){.sample = s, .number = i, .weight = one};
            if (!errors) clean = row;
        }
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

/* ---- a micro-batch ---- */

static struct qr_sweep rows_sweep(const struct qr_sim_bound *b, struct qr_statevector_workspace *ws,
                                  struct qr_pool *pool, size_t group) {
    const struct qr_sim_plan *p = b->plan;
    struct qr_trajectories *t = ws->noise;
    size_t per = qr_statevector_group(p), left = t->n_rows - group * per;
    struct qr_sweep r = qr_statevector_sweep(b, ws, pool, group * per, left < per ? left : per);
    for (size_t l = 0; l < r.n; l++) {
        r.sample[l] = t->rows[r.first + l].sample;
        if (p->n_columns)
            memcpy(t->x + l * p->n_columns, ws->x + (size_t)r.sample[l] * p->n_columns,
                   p->n_columns * sizeof *t->x);
    }
    r.x = t->x;
    return r;
}

/* Read-outs as means over the shots of each row, whose trajectories are not merged. */
static void measure_rows(const struct qr_sweep *r, double *ret_z) {
    const struct qr_sim_plan *p = r->p;
    struct qr_trajectories *t = r->ws->noise;
    double *own = r->ws->shots->z;
    for (size_t l = 0; l < r->n; l++) {
        const struct qr_trajectory *row = &t->rows[r->first + l];
        struct qr_shot_source from = {.lane = l, .sample = row->sample, .trajectory = row->number};
        qr_shots_of(p, row->number, &from.first, &from.n);
        memset(own, 0, p->n_readouts * sizeof *own);
        bool fine = qr_shots_measure(r->ws, &from, own);
        for (size_t k = 0; k < p->n_readouts; k++) {
            ret_z[row->sample * p->n_readouts + k] += fine ? own[k] : (double)__builtin_nanf("");
            if (t->values)
                t->values[(r->first + l) * values_stride(p) + k] =
                    own[k] * p->shots / (from.n ? from.n : 1);
        }
    }
}

/* Bit 0 is the most significant of n_bits. */
static uint64_t bits_of_lane(const struct qr_sim_plan *p, const struct qr_trajectories *t,
                             size_t lane) {
    uint64_t bits = 0;
    for (unsigned i = 0; i < p->n_bits; i++) bits = bits << 1 | t->bits[i * QR_LANES + lane];
    return bits;
}

bool qr_trajectories_sample(const struct qr_sim_bound *b, struct qr_statevector_workspace *ws,
                            struct qr_pool *pool, size_t n_samples, uint64_t *ret,
                            uint64_t *ret_bits) {
    const struct qr_sim_plan *p = b->plan;
    struct qr_trajectories *t = ws->noise;
    size_t per = qr_statevector_group(p);
    bool fine = !b->statevector->invalid;
    list_rows(b, ws, n_samples);
    ws->phi_group = QR_NO_GROUP;
    for (size_t g = 0; g * per < t->n_rows; g++) {
        struct qr_sweep r = rows_sweep(b, ws, pool, g);
        qr_sweep_forward(&r);
        for (size_t l = 0; l < r.n; l++) {
            const struct qr_trajectory *row = &t->rows[r.first + l];
            struct qr_shot_source from = {
                .lane = l, .sample = row->sample, .trajectory = row->number};
            qr_shots_of(p, row->number, &from.first, &from.n);
            size_t first = (size_t)row->sample * p->shots + from.first;
            fine &= qr_shots_draw(ws, &from, ret + first);
            for (unsigned i = 0; ret_bits && i < from.n; i++)
                ret_bits[first + i] = bits_of_lane(p, t, l);
        }
    }
    return fine;
}

void qr_trajectories_forward(const struct qr_sim_bound *b, struct qr_statevector_workspace *ws,
                             struct qr_pool *pool, size_t n_samples, bool gradient, double *ret_z) {
    const struct qr_sim_plan *p = b->plan;
    struct qr_trajectories *t = ws->noise;
    size_t per = qr_statevector_group(p);
    size_t state = p->cell_bytes << p->cell_bits;
    list_rows(b, ws, n_samples);
    memset(ret_z, 0, n_samples * p->n_readouts * sizeof *ret_z);
    for (size_t s = 0; p->shots && s < n_samples; s++)
        memcpy(ret_z + s * p->n_readouts, p->statevector->shots->constants,
               p->n_readouts * sizeof *ret_z);
    for (size_t g = 0; g * per < t->n_rows; g++) {
        struct qr_sweep r = rows_sweep(b, ws, pool, g);
        r.gradient = gradient && (g + 1) * per >= t->n_rows; /* the others are repeated */
        qr_sweep_forward(&r);
        ws->phi_group = (int64_t)g;
        if (gradient && t->finals) memcpy(t->finals + g * state, ws->phi, state);
        if (p->shots) {
            measure_rows(&r, ret_z);
            continue;
        }
        qr_sweep_expect(&r);
        for (size_t l = 0; l < r.n; l++)
            for (size_t k = 0; k < p->n_readouts; k++) {
                double z = qr_statevector_readout(ws, k * QR_LANES + l);
                ret_z[r.sample[l] * p->n_readouts + k] += t->rows[r.first + l].weight * z;
                if (t->values) t->values[(r.first + l) * values_stride(p) + k] = z;
            }
    }
    for (size_t i = 0; b->statevector->invalid && i < n_samples * p->n_readouts; i++)
        ret_z[i] = __builtin_nan("");
    if (!gradient) ws->phi_group = QR_NO_GROUP;
}

/* Sets each row's value, and the mean over the sample's other trajectories. */
static void set_values(const struct qr_sim_plan *p, struct qr_trajectories *t,
                       const double *direction) {
    double n = p->n_trajectories;
    for (size_t first = 0, end; first < t->n_rows; first = end) {
        uint32_t sample = t->rows[first].sample;
        const double *d = direction + (size_t)sample * p->n_readouts;
        double sum = 0;
        for (end = first; end < t->n_rows && t->rows[end].sample == sample; end++) {
            double value = 0, *of = t->values + end * values_stride(p);
            for (size_t k = 0; k < p->n_readouts; k++) value += d[k] * of[k];
            of[0] = value;
            sum += t->rows[end].weight * n * value;
        }
        for (size_t i = first; i < end; i++) {
            double *of = t->values + i * values_stride(p);
            of[1] = n > 1 ? (sum - of[0]) / (n - 1) : 0;
        }
    }
}

/* Derivatives by the strengths of Pauli errors of all rows. */
static void strengths_backward(const struct qr_sim_bound *b, struct qr_statevector_workspace *ws,
                               const double *scale) {
    struct qr_trajectories *t = ws->noise;
    for (size_t i = 0; i < t->n_rows; i++) {
        const double *of = t->values + i * values_stride(b->plan);
        (void)qr_noise_draw_row(b, ws, t->rows[i].sample, t->rows[i].number, t->outcomes);
        add_strength_gradient(b, t, t->outcomes,
                              scale[t->rows[i].sample] * t->rows[i].weight * (of[0] - of[1]));
    }
}

/* lambda -= mean of the other trajectories * phi: the probabilities of a row's branches depend on
 * the parameters too, and their derivatives are multiplied by the value relative to that mean. */
static void subtract_mean(const struct qr_sweep *r) {
    const struct qr_sim_plan *p = r->p;
    const struct qr_trajectories *t = r->ws->noise;
    double mean[QR_LANES] = {0};
    for (size_t l = 0; l < r->n; l++) mean[l] = t->values[(r->first + l) * values_stride(p) + 1];
    for (size_t l = 1; l < QR_LANES && !p->lanes_are_samples; l++) mean[l] = mean[0];
    for (size_t i = 0; i < (size_t)2 << p->cell_bits; i++)
        for (size_t l = 0; l < QR_LANES; l++)
            qr_element_set(p, r->ws->lambda, i * QR_LANES + l,
                           qr_element(p, r->ws->lambda, i * QR_LANES + l) -
                               mean[l] * qr_element(p, r->ws->phi, i * QR_LANES + l));
}

static void rows_backward(const struct qr_sim_bound *b, struct qr_statevector_workspace *ws,
                          struct qr_pool *pool, const double *direction, const double *scale) {
    const struct qr_sim_plan *p = b->plan;
    struct qr_trajectories *t = ws->noise;
    size_t per = qr_statevector_group(p);
    for (size_t g = (t->n_rows + per - 1) / per; g-- > 0;) {
        struct qr_sweep r = rows_sweep(b, ws, pool, g);
        r.gradient = true;
        if (ws->phi_group != (int64_t)g && t->finals) {
            size_t state = p->cell_bytes << p->cell_bits;
            qr_sweep_prepare(&r);
            memcpy(ws->phi, t->finals + g * state, state);
        } else if (ws->phi_group != (int64_t)g) {
            qr_sweep_forward(&r);
        }
        ws->phi_group = QR_NO_GROUP;
        for (size_t l = 0; l < QR_LANES; l++) {
            const struct qr_trajectory *row = l < r.n ? &t->rows[r.first + l] : NULL;
            if (row)
                memcpy(t->direction + l * p->n_readouts,
                       direction + (size_t)row->sample * p->n_readouts,
                       p->n_readouts * sizeof *direction);
            r.scale[l] = row ? scale[row->sample] * row->weight : 0;
        }
        if (!p->lanes_are_samples)
            for (size_t l = 1; l < QR_LANES; l++) r.scale[l] = r.scale[0];
        r.direction = t->direction;
        qr_sweep_observe(&r);
        if (p->statevector->n_branches) subtract_mean(&r);
        qr_sweep_backward(&r);
        qr_statevector_collect_mixed(&r);
    }
}

bool qr_trajectories_backward(const struct qr_sim_bound *b, struct qr_statevector_workspace *ws,
                              struct qr_pool *pool, const double *direction, const double *scale,
                              qr_fixed *ret_grad, double *ret_dx) {
    const struct qr_sim_plan *p = b->plan;
    struct qr_trajectories *t = ws->noise;
    qr_statevector_clear_sums(ws);
    if (p->n_sites) memset(t->sites, 0, p->n_sites * QR_CROSS * sizeof *t->sites);
    if (p->n_params) memset(t->params, 0, p->n_params * sizeof *t->params);
    t->bad = false;
    if (t->values) set_values(p, t, direction);
    if (p->statevector->first_cross < p->statevector->n_steps)
        rows_backward(b, ws, pool, direction, scale);
    if (errors_need(p)) strengths_backward(b, ws, scale);
    if (!qr_statevector_add_slots(ws) || t->bad) return false;
    for (unsigned i = 0; i < ws->n_slots; i++)
        qr_fixed_add(t->sites, ws->slots[i].sites, p->n_sites * QR_CROSS);
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
