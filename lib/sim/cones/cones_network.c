/* sim/cones/cones_network.c — a cone as a network of tensors on Pauli digits, reduced to the digits
 * that can occur and matter. Start reading at cone_network_make(). */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "circuit/channel.h"
#include "sim/cones/cones_impl.h"

/* Numbers below this bound for both probes are structural zeros: rounding leaves 1e-15 in a fused
 * gate of a hundred gates. */
#define STRUCTURAL_ZERO 1e-13
static bool is_structural_zero(double x) { return fabs(x) < STRUCTURAL_ZERO; } /* NaN: no */

/* ---- shapes ---- */

static double fraction(double x) { return x - floor(x); }

static struct qr_m4 shape_matrix(const struct qr_sim_plan *p, const struct qr_plan_shape *s,
                                 const double *theta) {
    struct qr_m4 m = qr_m4_identity();
    for (uint32_t i = s->n_ops; i-- > 0;) {
        const struct qr_plan_op *op = &p->ops[s->first_op + i];
        double complex u[16];
        double a[2] = {0, 0};
        for (unsigned k = 0; k < op->gate.n_args; k++)
            a[k] = qr_gate_arg_value(&op->gate.args[k], theta, NULL);
        qr_gate_matrix(&op->gate, a, u, NULL);
        m = qr_m4_mul_gate(&m, op, u, false);
    }
    return m;
}

static bool shape_is_fixed(const struct qr_sim_plan *p, const struct qr_plan_shape *s) {
    bool fixed = true;
    for (uint32_t i = 0; i < s->n_ops; i++)
        for (unsigned k = 0; k < p->ops[s->first_op + i].gate.n_args; k++)
            fixed &= p->ops[s->first_op + i].gate.args[k].kind == QR_ARG_CONSTANT;
    return fixed;
}

/* Any arguments in their range have the structure of the matrix. */
static void probe_channel(struct cone_shapes *s, size_t channel) {
    static const double probes[2][QR_CHANNEL_ARGS] = {{0.05, 0.04, 0.03, 0.02},
                                                      {0.02, 0.03, 0.05, 0.04}};
    const struct qr_channel *c = &s->p->channels[channel];
    size_t at = s->p->n_shapes + channel;
    double a[QR_CHANNEL_ARGS];
    s->fixed[at] = qr_channel_is_constant(c);
    for (int probe = 0; probe < 2; probe++) {
        for (unsigned k = 0; k < QR_CHANNEL_ARGS; k++)
            a[k] = k < 4 ? probes[probe][k] : 0.01 + 0.001 * k;
        if (s->fixed[at]) qr_channel_values(c, NULL, a);
        qr_channel_transfer(c, a, s->number[at][probe], NULL);
    }
}

/* Parameters with arguments from 0.1 on, whatever their factors: a product of several sines of
 * small arguments would be taken for a structural zero. */
static void set_probe(const struct qr_sim_plan *p, int probe, double *ret_theta) {
    static const double golden = 0.6180339887498949, root = 0.4142135623730951;
    double *least = qr_xcalloc(p->n_params + 1, sizeof *least); /* of a parameter's factors */
    for (size_t i = 0; i < p->n_ops; i++)
        for (unsigned k = 0; k < p->ops[i].gate.n_args; k++) {
            const struct qr_gate_arg *a = &p->ops[i].gate.args[k];
            double factor = fabs(a->scale);
            if (a->kind == QR_ARG_PARAMETER && factor > 0 &&
                (least[a->index] == 0 || factor < least[a->index]))
                least[a->index] = factor;
        }
    for (unsigned i = 0; i < p->n_params; i++) {
        double t =
            probe ? 0.15 + 0.7 * fraction(root * (i + 1)) : 0.1 + 0.8 * fraction(golden * (i + 1));
        ret_theta[i] = least[i] > 0 ? t / least[i] : t;
    }
    free(least);
}

void cone_shapes_make(struct cone_shapes *s, const struct qr_sim_plan *p) {
    double *theta = qr_xcalloc(p->n_params + 1, sizeof *theta);
    *s = (struct cone_shapes){.p = p,
                              .number = qr_xcalloc(cone_n_transfers(p) + 1, sizeof *s->number),
                              .fixed = qr_xcalloc(cone_n_transfers(p) + 1, sizeof *s->fixed)};
    for (int probe = 0; probe < 2; probe++) {
        set_probe(p, probe, theta);
        for (size_t i = 0; i < p->n_shapes; i++) {
            struct qr_m4 m = shape_matrix(p, &p->shapes[i], theta);
            qr_transfer(&m, QR_ALL_DIGITS, s->number[i][probe]);
            s->fixed[i] = shape_is_fixed(p, &p->shapes[i]);
        }
    }
    free(theta);
    for (size_t i = 0; i < p->n_channels; i++) probe_channel(s, i);
}

void cone_shapes_fini(struct cone_shapes *s) {
    free(s->number);
    free(s->fixed);
}

/* ---- leaves, all digits ---- */

/* A leaf during the reduction: the indices, over all digits, of its nonzero numbers. */
struct leaf_draft {
    struct cone_leaf leaf;
    uint32_t *nonzero;
    size_t n_nonzero;
};

struct network_builder {
    const struct cone *cone;
    const struct cone_shapes *shapes;
    struct leaf_draft *drafts;
    size_t n, cap;
    uint8_t *full, *alive; /* per leg: number of digits; mask of the remaining digits */
    size_t n_legs, cap_legs;
};

static uint16_t network_new_leg(struct network_builder *b, unsigned digits) {
    if (b->n_legs == b->cap_legs) {
        b->cap_legs = b->cap_legs ? 2 * b->cap_legs : 64;
        b->full = qr_xreallocarray(b->full, b->cap_legs, 1);
        b->alive = qr_xreallocarray(b->alive, b->cap_legs, 1);
    }
    b->full[b->n_legs] = (uint8_t)digits;
    b->alive[b->n_legs] = (uint8_t)((1u << digits) - 1);
    return (uint16_t)b->n_legs++;
}

static struct leaf_draft *network_new_leaf(struct network_builder *b, enum cone_source from,
                                           enum cone_when when, unsigned n_legs,
                                           const uint16_t *legs) {
    if (b->n == b->cap) {
        b->cap = b->cap ? 2 * b->cap : 32;
        b->drafts = qr_xreallocarray(b->drafts, b->cap, sizeof *b->drafts);
    }
    struct leaf_draft *d = &b->drafts[b->n++];
    *d = (struct leaf_draft){.leaf = {.from = from, .when = when, .n_legs = n_legs, .size = 1}};
    for (unsigned i = 0; i < n_legs; i++) {
        d->leaf.leg[i] = legs[i];
        d->leaf.size *= b->full[legs[i]];
    }
    d->nonzero = qr_xcalloc(d->leaf.size, sizeof *d->nonzero);
    return d;
}

static void network_add_numbers(struct network_builder *b, unsigned n_legs, const uint16_t *legs,
                                const double *numbers) {
    struct leaf_draft *d = network_new_leaf(b, CONE_NUMBERS, CONE_FIXED, n_legs, legs);
    d->leaf.numbers = qr_xcalloc(d->leaf.size, sizeof *numbers);
    memcpy(d->leaf.numbers, numbers, d->leaf.size * sizeof *numbers);
    for (uint32_t i = 0; i < d->leaf.size; i++)
        if (!is_structural_zero(numbers[i])) d->nonzero[d->n_nonzero++] = i;
}

/* The frame qubits that a fused gate acts on separately, as a mask; 0: on both together. */
static unsigned shape_sides(const struct qr_sim_plan *p, const struct qr_plan_shape *s) {
    unsigned sides = 0;
    for (uint32_t i = 0; i < s->n_ops; i++) {
        const struct qr_plan_op *op = &p->ops[s->first_op + i];
        if (op->gate.n_targets == 2 || op->has_control) return 0;
        sides |= 1u << op->t[0];
    }
    return sides;
}

/* Index of entry i of one side's [out][in] in the transfer matrix of both qubits. */
static uint16_t side_entry(unsigned side, unsigned i) {
    unsigned out = i / QR_PAULIS, in = i % QR_PAULIS;
    return (uint16_t)(side ? out * 16 + in : out * QR_PAULIS * 16 + in * QR_PAULIS);
}

static void network_add_shape(struct network_builder *b, uint32_t shape, int side, unsigned n_legs,
                              const uint16_t *legs) {
    bool fixed = b->shapes->fixed[shape];
    struct leaf_draft *d = network_new_leaf(b, fixed ? CONE_NUMBERS : CONE_GATE,
                                            fixed ? CONE_FIXED : CONE_STEP, n_legs, legs);
    const double *number = b->shapes->number[shape][0], *other = b->shapes->number[shape][1];
    d->leaf.shape = shape;
    if (fixed) d->leaf.numbers = qr_xcalloc(d->leaf.size, sizeof *number);
    else d->leaf.entries = qr_xcalloc(d->leaf.size, sizeof *d->leaf.entries);
    for (uint32_t i = 0; i < d->leaf.size; i++) {
        uint16_t at = side < 0 ? (uint16_t)i : side_entry((unsigned)side, i);
        if (!is_structural_zero(number[at]) || !is_structural_zero(other[at]))
            d->nonzero[d->n_nonzero++] = i;
        if (fixed) d->leaf.numbers[i] = number[at];
        else d->leaf.entries[i] = at;
    }
}

static void network_add_fused(struct network_builder *b, uint32_t fused, uint16_t *wire) {
    const struct qr_sim_plan *p = b->shapes->p;
    const struct qr_fused_gate *f = &p->fused[fused];
    unsigned sides = shape_sides(p, &p->shapes[f->shape]);
    if (!sides) {
        uint16_t a = wire[f->q[0]], c = wire[f->q[1]];
        uint16_t legs[4] = {network_new_leg(b, QR_PAULIS), network_new_leg(b, QR_PAULIS), a, c};
        wire[f->q[0]] = legs[0];
        wire[f->q[1]] = legs[1];
        network_add_shape(b, f->shape, -1, 4, legs);
    }
    for (int side = 0; side < 2; side++) {
        if (!(sides >> side & 1)) continue;
        uint16_t legs[2] = {network_new_leg(b, QR_PAULIS), wire[f->q[side]]};
        wire[f->q[side]] = legs[0];
        network_add_shape(b, f->shape, side, 2, legs);
    }
}

static void network_add_channel(struct network_builder *b, const struct qr_gate *g,
                                uint16_t *wire) {
    uint16_t legs[4];
    unsigned k = g->n_targets;
    for (unsigned i = 0; i < k; i++) {
        legs[k + i] = wire[g->targets[i]];
        legs[i] = wire[g->targets[i]] = network_new_leg(b, QR_PAULIS);
    }
    network_add_shape(b, (uint32_t)b->shapes->p->n_shapes + g->channel, -1, 2 * k, legs);
}

static void network_add_data_gate(struct network_builder *b, const struct qr_gate *g,
                                  uint16_t *wire) {
    double numbers[QR_SIGNAL_NUMBERS];
    QR_ASSERT(qr_transfer_of_power(g, numbers)); /* Other gates with data were rejected before. */
    uint16_t legs[5];
    unsigned k = g->n_targets;
    for (unsigned i = 0; i < k; i++) {
        legs[k + i] = wire[g->targets[i]];
        legs[i] = wire[g->targets[i]] = network_new_leg(b, QR_PAULIS);
    }
    legs[2 * k] = network_new_leg(b, QR_SIGNALS);
    network_add_numbers(b, 2 * k + 1, legs, numbers);
    struct leaf_draft *d = network_new_leaf(b, CONE_INPUT, CONE_LANES, 1, &legs[2 * k]);
    d->leaf.scale = g->args[0].scale;
    d->leaf.column = g->args[0].index;
    d->leaf.wanted = b->cone->wanted[d->leaf.column];
    d->leaf.entries = qr_xcalloc(QR_SIGNALS, sizeof *d->leaf.entries);
    for (uint16_t i = 0; i < QR_SIGNALS; i++) d->leaf.entries[i] = i;
    for (d->n_nonzero = 0; d->n_nonzero < QR_SIGNALS; d->n_nonzero++)
        d->nonzero[d->n_nonzero] = (uint32_t)d->n_nonzero;
}

/* Row index: helper s, control c. Maps |s c> to |s and (c = value), c>. */
static void network_add_and(struct network_builder *b, const struct qr_gate *g, uint16_t *wire) {
    struct qr_m4 m = {0};
    double numbers[QR_TRANSFER];
    unsigned value = g->args[0].scale != 0;
    for (unsigned s = 0; s < 2; s++)
        for (unsigned c = 0; c < 2; c++) m.e[((s & (c == value)) * 2 + c) * 4 + s * 2 + c].re = 1;
    qr_transfer(&m, QR_ALL_DIGITS, numbers);
    uint16_t legs[4];
    for (unsigned k = 0; k < 2; k++) {
        legs[2 + k] = wire[g->targets[k]];
        legs[k] = wire[g->targets[k]] = network_new_leg(b, QR_PAULIS);
    }
    network_add_numbers(b, 4, legs, numbers);
}

/* A helper starts as |1> and ends as the sum over s, s' of |s><s'|. */
static void network_add_all(struct network_builder *b) {
    static const double zero[QR_PAULIS] = {1, 0, 0, 1}, one[QR_PAULIS] = {1, 0, 0, -1};
    const struct cone *c = b->cone;
    uint16_t wire[CONE_MAX_QUBITS];
    for (unsigned q = 0; q < c->n_qubits; q++) {
        wire[q] = network_new_leg(b, QR_PAULIS);
        network_add_numbers(b, 1, &wire[q], c->paulis[q] == CONE_HELPER ? one : zero);
    }
    for (size_t l = 0; l < c->n_levels; l++) {
        for (uint32_t f = c->first_fused[l]; f < c->first_fused[l + 1]; f++)
            network_add_fused(b, f, wire);
        for (size_t i = 0; i < c->n_gates; i++) {
            if (c->level[i] != l || !cone_gate_is_unfused(&c->gates[i])) continue;
            if (c->gates[i].kind == QR_SIMPLE_AND) network_add_and(b, &c->gates[i], wire);
            else if (c->gates[i].kind == QR_GATE_CHANNEL)
                network_add_channel(b, &c->gates[i], wire);
            else network_add_data_gate(b, &c->gates[i], wire);
        }
    }
    for (unsigned q = 0; q < c->n_qubits; q++) {
        double end[QR_PAULIS] = {0};
        if (c->paulis[q] == CONE_HELPER) end[0] = end[1] = 1;
        else end[c->paulis[q]] = 1;
        network_add_numbers(b, 1, &wire[q], end);
    }
}

/* ---- reduction to the digits that can occur and matter ---- */

static void network_digits(const struct network_builder *b, const struct cone_leaf *l,
                           uint32_t index, uint8_t *ret) {
    for (unsigned i = l->n_legs; i-- > 0;) {
        ret[i] = (uint8_t)(index % b->full[l->leg[i]]);
        index /= b->full[l->leg[i]];
    }
}

static bool network_is_alive(const struct network_builder *b, const struct cone_leaf *l,
                             const uint8_t *digits) {
    bool alive = true;
    for (unsigned k = 0; k < l->n_legs; k++) alive &= b->alive[l->leg[k]] >> digits[k] & 1;
    return alive;
}

/* Keeps a digit if some nonzero number of the leaf has it together with remaining digits on the
 * other legs. Returns true if digits were removed. */
static bool network_prune_leaf(struct network_builder *b, struct leaf_draft *d) {
    const struct cone_leaf *l = &d->leaf;
    uint8_t seen[CONE_MAX_LEGS] = {0}, digits[CONE_MAX_LEGS];
    size_t n = 0;
    bool changed = false;
    for (size_t i = 0; i < d->n_nonzero; i++) {
        network_digits(b, l, d->nonzero[i], digits);
        if (!network_is_alive(b, l, digits)) continue;
        d->nonzero[n++] = d->nonzero[i];
        for (unsigned k = 0; k < l->n_legs; k++) seen[k] |= (uint8_t)(1u << digits[k]);
    }
    d->n_nonzero = n;
    for (unsigned k = 0; k < l->n_legs; k++) {
        uint8_t left = b->alive[l->leg[k]] & seen[k];
        changed |= left != b->alive[l->leg[k]];
        b->alive[l->leg[k]] = left;
    }
    return changed;
}

static void network_prune(struct network_builder *b) {
    bool changed = true;
    while (changed) {
        changed = false;
        for (size_t i = 0; i < b->n; i++) changed |= network_prune_leaf(b, &b->drafts[i]);
        for (size_t i = b->n; i-- > 0;) changed |= network_prune_leaf(b, &b->drafts[i]);
    }
}

/* ---- what remains ---- */

static unsigned network_count_alive(const struct network_builder *b, uint16_t leg) {
    return (unsigned)__builtin_popcount(b->alive[leg]);
}

/* Index over all digits of index x over the remaining ones. */
static uint32_t network_full_index(const struct network_builder *b, const struct cone_leaf *l,
                                   uint32_t x) {
    uint32_t index = 0, stride = 1;
    for (unsigned k = l->n_legs; k-- > 0;) {
        unsigned n = network_count_alive(b, l->leg[k]), nth = x % n, digit = 0;
        x /= n;
        for (unsigned bits = b->alive[l->leg[k]];; bits &= bits - 1) {
            digit = (unsigned)__builtin_ctz(bits);
            if (!nth--) break;
        }
        index += digit * stride;
        stride *= b->full[l->leg[k]];
    }
    return index;
}

static void network_narrow(const struct network_builder *b, struct cone_leaf *l) {
    struct cone_leaf all = *l;
    l->size = 1;
    l->n_legs = 0;
    for (unsigned k = 0; k < all.n_legs; k++) {
        l->size *= network_count_alive(b, all.leg[k]);
        if (network_count_alive(b, all.leg[k]) > 1) l->leg[l->n_legs++] = all.leg[k];
    }
    for (uint32_t i = 0; i < l->size; i++) { /* In place: from is never less than i. */
        uint32_t from = network_full_index(b, &all, i);
        if (l->from == CONE_NUMBERS) l->numbers[i] = l->numbers[from];
        else l->entries[i] = l->entries[from];
    }
    /* The first of the three signals is the constant 1. */
    if (l->from == CONE_INPUT && l->size == 1 && l->entries[0] == 0) {
        l->from = CONE_NUMBERS;
        l->when = CONE_FIXED;
        l->numbers = qr_xcalloc(1, sizeof *l->numbers);
        l->numbers[0] = 1;
    }
}

void cone_network_make(const struct cone *c, const struct cone_shapes *s,
                       struct cone_network *ret) {
    struct network_builder b = {.cone = c, .shapes = s};
    network_add_all(&b);
    network_prune(&b);
    bool nothing = false; /* The expectation value is 0 for all numbers. */
    for (size_t i = 0; i < b.n_legs; i++) nothing |= b.alive[i] == 0;
    *ret = (struct cone_network){.n_leaves = nothing ? 1 : b.n,
                                 .leaves = qr_xcalloc(b.n, sizeof *ret->leaves),
                                 .n_legs = b.n_legs,
                                 .dim = qr_xcalloc(b.n_legs + 1, 1)};
    for (size_t i = 0; i < b.n_legs; i++)
        ret->dim[i] = (uint8_t)network_count_alive(&b, (uint16_t)i);
    if (nothing)
        ret->leaves[0] = (struct cone_leaf){.from = CONE_NUMBERS,
                                            .when = CONE_FIXED,
                                            .size = 1,
                                            .numbers = qr_xcalloc(1, sizeof(double))};
    for (size_t i = 0; i < b.n; i++) {
        if (nothing) {
            free(b.drafts[i].leaf.numbers);
            free(b.drafts[i].leaf.entries);
        } else {
            network_narrow(&b, &b.drafts[i].leaf);
            ret->leaves[i] = b.drafts[i].leaf;
        }
        free(b.drafts[i].nonzero);
    }
    free(b.drafts);
    free(b.full);
    free(b.alive);
}

void cone_network_fini(struct cone_network *n) {
    for (size_t i = 0; i < n->n_leaves; i++) {
        free(n->leaves[i].numbers);
        free(n->leaves[i].entries);
    }
    free(n->leaves);
    free(n->dim);
}
