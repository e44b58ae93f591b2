/* sim/density/density_plan.c — gates and channels in groups on two qubits. Start reading at
 * density_plan(). */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "circuit/channel.h"
#include "sim/density/density.h"
#include "sim/density/density_impl.h"
#include "sim/fusion/gate_expansion.h"

/* Multiply-adds per number and gradient for a group: forward three times, lambda, derivatives. */
#define OF_GROUP (16.0 * 5)
/* Multiply-adds of the statevector engine per amplitude and gradient, and their time relative to
 * one of this engine. */
#define OF_FUSED_GATE 62.0
#define FASTER 5.0
/* An exact result is worth this factor in time. */
#define EXACT_WORTH 4.0

struct density_builder {
    struct qr_sim_plan *p;
    struct qr_density *d;
    struct qr_simple_gates
        gates;       /* simple gates, channels, ANDs; RESTART: kind DENSITY_HELPER_RESTART */
    uint32_t *group; /* per item: its group */
    uint32_t last[DENSITY_MAX_QUBITS];
    /* per qubit: items on it alone that no group has yet, as a list by `next` */
    uint32_t first[DENSITY_MAX_QUBITS], end[DENSITY_MAX_QUBITS], *next;
};

#define HELPER_RESTART (QR_GATE_KINDS + 2)

static bool density_reject(struct qr_sim_plan *p, const char *format, ...) QR_PRINTF(2, 3);
static bool density_reject(struct qr_sim_plan *p, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    vsnprintf(p->why, sizeof p->why, format, ap);
    va_end(ap);
    return false;
}

/* ---- simple gates ---- */

/* Expands the gates; returns the number of qubits with helpers. */
static unsigned builder_expand(struct density_builder *b, const struct qr_circuit *c) {
    unsigned most = c->n_qubits;
    for (size_t i = 0; i < c->n_gates; i++) {
        const struct qr_gate *g = &c->gates[i];
        if (g->kind != QR_GATE_CHANNEL && qr_gate_info(g->kind)->identity) continue;
        b->gates.next_helper = (uint16_t)c->n_qubits;
        qr_simple_gates_expand(&b->gates, g);
        for (uint16_t q = (uint16_t)c->n_qubits; q < b->gates.next_helper; q++) {
            struct qr_gate restart = {
                .kind = (enum qr_gate_kind)HELPER_RESTART, .n_targets = 1, .targets = {q}};
            qr_simple_gates_append(&b->gates, &restart);
        }
        if (b->gates.next_helper > most) most = b->gates.next_helper;
    }
    return most;
}

/* ---- items ---- */

static bool argument_needs(const struct qr_sim_plan *p, const struct qr_gate_arg *a) {
    if (a->kind == QR_ARG_DATA) return p->wanted && p->wanted[a->index];
    return a->kind == QR_ARG_PARAMETER && !p->zero_gradient[a->index];
}

static void set_item(const struct qr_sim_plan *p, const struct qr_gate *g,
                     struct density_item *to) {
    *to = (struct density_item){.op = {.gate = *g, .number = QR_NO_SLOT}, .channel = g->channel};
    if (g->kind == QR_GATE_CHANNEL) {
        to->what = DENSITY_CHANNEL;
        to->needs = p->channel_needs[g->channel];
        return;
    }
    if (g->kind == QR_SIMPLE_AND || g->kind == (enum qr_gate_kind)HELPER_RESTART) {
        to->what = g->kind == QR_SIMPLE_AND ? DENSITY_AND : DENSITY_RESTART;
        return;
    }
    to->data = qr_gate_has_data(g);
    for (unsigned k = 0; k < g->n_args; k++) to->needs |= argument_needs(p, &g->args[k]);
}

static void item_set_frame(struct density_item *item, const uint8_t q[2]) {
    struct qr_plan_op *op = &item->op;
    const struct qr_gate *g = &op->gate;
    for (unsigned k = 0; k < g->n_targets; k++) op->t[k] = g->targets[k] == q[1];
    if (g->n_targets == 2 || qr_qubits_is_empty(&g->controls)) return;
    op->has_control = 1;
    op->control_value = qr_qubits_has(&g->control_values, q[1 - op->t[0]]);
}

/* ---- groups ---- */

static uint32_t builder_new_group(struct density_builder *b, unsigned q0, unsigned q1) {
    struct qr_density *d = b->d;
    d->groups = qr_xreallocarray(d->groups, d->n_groups + 1, sizeof *d->groups);
    d->groups[d->n_groups] = (struct density_group){.q = {(uint8_t)q0, (uint8_t)q1}};
    b->last[q0] = b->last[q1] = (uint32_t)d->n_groups;
    return (uint32_t)d->n_groups++;
}

/* Gives the waiting items of a qubit to a group. */
static void builder_take_waiting(struct density_builder *b, unsigned q, uint32_t group) {
    for (uint32_t i = b->first[q]; i != QR_NO_SLOT; i = b->next[i]) b->group[i] = group;
    b->first[q] = QR_NO_SLOT;
}

/* Items on one qubit join the last group on it; before the first group, they wait. */
static void builder_add(struct density_builder *b, uint32_t item) {
    const struct qr_gate *g = &b->gates.gates[item];
    struct qr_qubits all = g->kind < QR_GATE_KINDS ? g->controls : (struct qr_qubits){{0}};
    for (unsigned k = 0; k < g->n_targets; k++) qr_qubits_add(&all, g->targets[k]);
    unsigned q0 = qr_qubits_first(&all), q1 = qr_qubits_last(&all);
    if (q0 == q1 && b->last[q0] != QR_NO_SLOT) {
        b->group[item] = b->last[q0];
        return;
    }
    if (q0 == q1) {
        if (b->first[q0] == QR_NO_SLOT) b->first[q0] = item;
        else b->next[b->end[q0]] = item;
        b->end[q0] = item;
        return;
    }
    uint32_t group = b->last[q0];
    if (group == QR_NO_SLOT || b->last[q1] != group) {
        group = builder_new_group(b, q0, q1);
        builder_take_waiting(b, q0, group);
        builder_take_waiting(b, q1, group);
    }
    b->group[item] = group;
}

static void builder_group(struct density_builder *b) {
    size_t n = b->gates.n;
    unsigned n_qubits = b->d->n;
    b->group = qr_xcalloc(n + 1, sizeof *b->group);
    b->next = qr_xcalloc(n + 1, sizeof *b->next);
    memset(b->next, 0xff, n * sizeof *b->next);
    memset(b->last, 0xff, sizeof b->last);
    memset(b->first, 0xff, sizeof b->first);
    for (uint32_t i = 0; i < n; i++) builder_add(b, i);
    for (unsigned q = 0; q < n_qubits; q++) {
        if (b->first[q] == QR_NO_SLOT) continue;
        unsigned partner = (q ^ 1u) < n_qubits ? q ^ 1u : q - 1;
        uint32_t group = builder_new_group(b, q < partner ? q : partner, q < partner ? partner : q);
        builder_take_waiting(b, q, group);
        builder_take_waiting(b, partner, group);
    }
    free(b->next);
}

/* Stores the items by group, each in order of time. */
static void builder_place_items(struct density_builder *b) {
    struct qr_density *d = b->d;
    d->n_items = b->gates.n;
    d->items = qr_xcalloc(d->n_items + 1, sizeof *d->items);
    for (size_t i = 0; i < d->n_items; i++) d->groups[b->group[i]].n_items++;
    uint32_t at = 0;
    for (size_t g = 0; g < d->n_groups; g++) {
        d->groups[g].first_item = at;
        at += d->groups[g].n_items;
        if (d->groups[g].n_items > d->most_items) d->most_items = d->groups[g].n_items;
        d->groups[g].n_items = 0;
    }
    for (size_t i = 0; i < d->n_items; i++) {
        struct density_group *g = &d->groups[b->group[i]];
        struct density_item *item = &d->items[g->first_item + g->n_items++];
        set_item(b->p, &b->gates.gates[i], item);
        item_set_frame(item, g->q);
        g->data |= item->data;
        g->needs |= item->needs;
    }
    for (d->first_needed = 0; d->first_needed < d->n_groups; d->first_needed++)
        if (d->groups[d->first_needed].needs) break;
    for (d->span = 1; d->span * d->span < d->n_groups;) d->span++;
}

/* ---- read-outs ---- */

static void place_terms(struct qr_density *d, const struct qr_observable *obs, size_t n_obs,
                        unsigned n_qubits) {
    size_t n = 0;
    for (size_t r = 0; r < n_obs; r++) n += obs[r].n_terms;
    d->terms = qr_xcalloc(n + 1, sizeof *d->terms);
    for (size_t r = 0; r < n_obs; r++)
        for (size_t t = 0; t < obs[r].n_terms; t++) {
            const struct qr_pauli_term *from = &obs[r].terms[t];
            struct density_term *to = &d->terms[d->n_terms++];
            *to = (struct density_term){.readout = (uint32_t)r, .coefficient = from->coefficient};
            for (unsigned q = 0; q < n_qubits; q++) {
                bool x = qr_qubits_has(&from->x, q), z = qr_qubits_has(&from->z, q);
                uint64_t digit = x && z ? 2 : x ? 1 : z ? 3 : 0;
                to->at |= digit << 2 * (d->n - 1 - q);
            }
        }
}

/* ---- the plan ---- */

static struct qr_density *builder_build(struct qr_sim_plan *p, const struct qr_circuit *c,
                                        unsigned *ret_qubits) {
    struct density_builder b = {.p = p, .d = qr_xcalloc(1, sizeof *b.d)};
    b.d->n = builder_expand(&b, c);
    if (b.d->n < 2) b.d->n = 2;
    *ret_qubits = b.d->n;
    if (b.d->n <= DENSITY_MAX_QUBITS) {
        builder_group(&b);
        builder_place_items(&b);
    }
    free(b.group);
    free(b.gates.gates);
    return b.d;
}

static void density_free(struct qr_density *d) {
    free(d->items);
    free(d->groups);
    free(d->terms);
    free(d->start);
    free(d);
}

static double density_cost(const struct qr_density *d) {
    return ldexp(OF_GROUP * (double)(d->n_groups + 1), 2 * (int)d->n);
}

static double trajectories_cost(struct qr_sim_plan *p, const struct qr_circuit *c) {
    if (c->n_qubits > QR_FUSED_QUBITS) return INFINITY;
    qr_plan_fuse(p, c, 1, NULL);
    double cost = ldexp(OF_FUSED_GATE / FASTER * (double)(p->n_fused + 1), (int)c->n_qubits);
    qr_plan_unfuse(p);
    return cost * p->n_trajectories;
}

double qr_noisy_cost(struct qr_sim_plan *p, const struct qr_circuit *c) {
    double cost = INFINITY;
    unsigned n;
    if (c->n_qubits <= DENSITY_MAX_QUBITS) {
        struct qr_density *d = builder_build(p, c, &n);
        if (n <= DENSITY_MAX_QUBITS) cost = density_cost(d);
        density_free(d);
    }
    if (p->method != QR_METHOD_AUTO) return cost;
    double other = EXACT_WORTH * trajectories_cost(p, c);
    return other < cost ? other : cost;
}

bool density_plan(struct qr_sim_plan *p, const struct qr_circuit *c,
                  const struct qr_observable *obs, size_t n_obs) {
    unsigned n;
    if (p->method == QR_METHOD_TRAJECTORIES)
        return density_reject(p, "the method for noise is trajectories");
    double other = p->method == QR_METHOD_AUTO && !p->engine_requested
                       ? EXACT_WORTH * trajectories_cost(p, c)
                       : (double)INFINITY;
    struct qr_density *d = builder_build(p, c, &n);
    bool good = n <= DENSITY_MAX_QUBITS && density_cost(d) <= other;
    if (n > DENSITY_MAX_QUBITS)
        density_reject(p, "%u qubits with helpers of controlled gates, at most %d", n,
                       (int)DENSITY_MAX_QUBITS);
    else if (!good)
        density_reject(p,
                       "density matrices need %.3g multiply-adds per sample, %u trajectories %.3g",
                       density_cost(d), p->n_trajectories, other / EXACT_WORTH);
    if (!good) {
        density_free(d);
        return false;
    }
    snprintf(p->why, sizeof p->why, "a density matrix of %u qubits: %.3g multiply-adds per sample",
             d->n, density_cost(d));
    d->start = qr_xcalloc(4 * d->n, sizeof *d->start);
    for (unsigned q = 0; q < d->n; q++) {
        d->start[4 * q] = 1;
        d->start[4 * q + 3] = q < c->n_qubits ? 1 : -1;
    }
    d->shared = d->n >= DENSITY_SHARED_QUBITS;
    place_terms(d, obs, n_obs, c->n_qubits);
    p->density = d;
    return true;
}

void density_plan_free(struct qr_sim_plan *p) {
    density_free(p->density);
    p->density = NULL;
}
