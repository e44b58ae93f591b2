/* sim/fusion/gate_fusion.c — fuses gates, and gives equal fused gates one shape. sim/planner.md has
 * the rules. Start reading at qr_plan_fuse() and fuse_gate(). */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "sim/fusion/plan.h"

struct gates {
    uint32_t *gates;
    size_t n, cap;
    bool param, differentiated, varies; /* of any gate; see struct fuser */
    bool data, site;                    /* any gate has data, is a channel */
};

struct draft {
    uint8_t q[2];
    enum qr_fused_kind kind;
    bool single;    /* acts on q[0] only */
    size_t number;  /* in order of the circuit */
    uint32_t batch; /* see fuser_set_batches() */
    bool plain;     /* no outer controls, condition or branch, so gates may be added */
    bool branch;    /* a channel that is not a list of Pauli errors */
    uint32_t condition;
    uint64_t controls, control_values;
    struct gates ops;
};

/* Where a gate goes, as trials have shown. */
enum gate_place {
    FREE, /* a diagonal gate to a batch, a one-qubit gate to a ROTATION, others alone */
    IN_ROTATION,
    IN_MATRIX,
};

struct fuser {
    const struct qr_circuit *c;
    unsigned n;
    bool in_pairs; /* pending gates of two neighbours at the end share one fused gate */
    /* per gate: it has a data argument; it has a parameter that some observable depends on */
    bool *data, *param;
    /* per gate: it has such a parameter, or a column with requested derivatives */
    bool *differentiated;
    bool *fixed;       /* per gate: it has constants only */
    uint32_t *ordinal; /* per gate: number of channels before it */
    struct draft *drafts;
    size_t n_drafts, cap_drafts;
    enum gate_place *place; /* per gate; NULL: no structure */
    /* one-qubit gates after the last fused gate on the qubit */
    struct gates pending[QR_FUSED_QUBITS];
    int64_t last[QR_FUSED_QUBITS]; /* last fused gate on the qubit, -1: none */
};

static void gates_push(const struct fuser *f, struct gates *l, uint32_t gate) {
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 8;
        l->gates = qr_xreallocarray(l->gates, l->cap, sizeof *l->gates);
    }
    l->gates[l->n++] = gate;
    l->param |= f->param[gate];
    l->differentiated |= f->differentiated[gate];
    l->varies |= !f->fixed[gate];
    l->data |= f->data[gate];
    l->site |= f->c->gates[gate].kind == QR_GATE_CHANNEL;
}
static void gates_push_all(const struct fuser *f, struct gates *l, const struct gates *more) {
    for (size_t i = 0; i < more->n; i++) gates_push(f, l, more->gates[i]);
}
static void gates_clear(struct gates *l) {
    l->n = 0;
    l->param = l->differentiated = l->varies = l->data = l->site = false;
}

/* A generator must not depend on the sample: inside a fused gate no data may follow a parameter. A
 * fused gate has data, or sites of channels, or neither. */
static bool gates_may_follow(const struct fuser *f, const struct gates *have,
                             const struct gates *more) {
    bool seen = have->param, data = have->data, site = have->site;
    for (size_t i = 0; i < more->n; i++) {
        uint32_t gate = more->gates[i];
        if (f->data[gate] && seen) return false;
        seen |= f->param[gate];
        data |= f->data[gate];
        site |= f->c->gates[gate].kind == QR_GATE_CHANNEL;
    }
    return !(data && site);
}
static bool column_is_wanted(const struct qr_sim_plan *p, uint32_t column) {
    return p->wanted && p->wanted[column];
}

static struct draft *fuser_new_draft(struct fuser *f, unsigned a, unsigned b) {
    if (f->n_drafts == f->cap_drafts) {
        f->cap_drafts = f->cap_drafts ? 2 * f->cap_drafts : 64;
        f->drafts = qr_xreallocarray(f->drafts, f->cap_drafts, sizeof *f->drafts);
    }
    struct draft *d = &f->drafts[f->n_drafts++];
    *d = (struct draft){.q = {(uint8_t)a, (uint8_t)b}, .plain = true};
    return d;
}

/* Adds the pending gates of q to the last fused gate on q, or else to a new one. */
static void fuser_flush(struct fuser *f, unsigned q) {
    struct gates *p = &f->pending[q];
    if (!p->n) return;
    struct draft *d = f->last[q] >= 0 ? &f->drafts[f->last[q]] : NULL;
    if (!d || !d->plain || !gates_may_follow(f, &d->ops, p)) {
        unsigned partner = (q ^ 1) < f->n ? q ^ 1 : q - 1; /* an idle neighbour */
        bool both = f->in_pairs && f->last[partner] < 0 && f->pending[partner].n &&
                    gates_may_follow(f, p, &f->pending[partner]);
        d = both && partner < q ? fuser_new_draft(f, partner, q) : fuser_new_draft(f, q, partner);
        f->last[q] = (int64_t)f->n_drafts - 1;
        if (both) {
            f->last[partner] = f->last[q];
            gates_push_all(f, &d->ops, &f->pending[partner]);
            gates_clear(&f->pending[partner]);
        }
    }
    gates_push_all(f, &d->ops, p);
    gates_clear(p);
}

static void fuse_one(struct fuser *f, uint32_t gate, unsigned q) {
    struct gates one = {.gates = &gate, .n = 1};
    struct draft *d = f->last[q] >= 0 ? &f->drafts[f->last[q]] : NULL;
    /* Leave a fused gate without derivatives as it is while a later one can take this gate: fused
     * gates before the first one with derivatives cost nothing in the backward sweep. Add no data
     * to a fixed fused gate: fixed gates are simulated once for all samples. */
    if (!f->pending[q].n && d && d->plain && gates_may_follow(f, &d->ops, &one) &&
        !(f->differentiated[gate] && !d->ops.differentiated) &&
        !(f->data[gate] && !d->ops.varies)) {
        gates_push(f, &d->ops, gate);
        return;
    }
    if (!gates_may_follow(f, &f->pending[q], &one)) fuser_flush(f, q);
    gates_push(f, &f->pending[q], gate);
}

/* Merges the pending gates of a and b: those up to the last data first. */
static void gates_merge(const struct fuser *f, const struct gates *a, const struct gates *b,
                        struct gates *ret) {
    size_t n[2] = {0, 0};
    const struct gates *l[2] = {a, b};
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < l[k]->n; i++)
            if (f->data[l[k]->gates[i]]) n[k] = i + 1;
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < n[k]; i++) gates_push(f, ret, l[k]->gates[i]);
    for (int k = 0; k < 2; k++)
        for (size_t i = n[k]; i < l[k]->n; i++) gates_push(f, ret, l[k]->gates[i]);
}

static bool draft_has_frame(const struct draft *d, unsigned a, unsigned b) {
    return d->plain && ((d->q[0] == a && d->q[1] == b) || (d->q[0] == b && d->q[1] == a));
}

static void fuse_two(struct fuser *f, uint32_t gate, unsigned a, unsigned b) {
    struct gates none = {0}, ops = {0};
    gates_merge(f, &f->pending[a], &f->pending[b], &ops);
    gates_push(f, &ops, gate);
    for (int attempt = 0;; attempt++) {
        struct draft *d =
            f->last[a] >= 0 && f->last[a] == f->last[b] ? &f->drafts[f->last[a]] : NULL;
        if (d && (!draft_has_frame(d, a, b) || !gates_may_follow(f, &d->ops, &ops))) d = NULL;
        if (!d && gates_may_follow(f, &none, &ops)) {
            d = fuser_new_draft(f, a, b);
            f->last[a] = f->last[b] = (int64_t)f->n_drafts - 1;
        }
        if (d) {
            gates_push_all(f, &d->ops, &ops);
            if (!attempt) gates_clear(&f->pending[a]), gates_clear(&f->pending[b]);
            break;
        }
        /* Pending data of one qubit would follow a parameter of the other. */
        fuser_flush(f, a);
        fuser_flush(f, b);
        gates_clear(&ops);
        gates_push(f, &ops, gate);
    }
    free(ops.gates);
}

/* A gate with controls outside the frame, a gate or channel with a condition, and a channel that is
 * no list of Pauli errors (a branch) are alone in their fused gates. */
static void fuse_alone(struct fuser *f, uint32_t gate, bool branch) {
    const struct qr_gate *g = &f->c->gates[gate];
    uint64_t qubits = qr_gate_mask(g), outer = qr_qubits_mask(&g->controls);
    unsigned a = g->targets[0], b = g->n_targets == 2 ? g->targets[1]
                                    : outer           ? (unsigned)__builtin_ctzll(outer)
                                    : (a ^ 1) < f->n  ? a ^ 1
                                                      : a - 1;
    if (g->n_targets == 1) outer &= outer - 1;
    for (unsigned q = 0; q < f->n; q++)
        if (qubits >> q & 1) fuser_flush(f, q);
    struct draft *d = fuser_new_draft(f, a, b);
    d->plain = false;
    d->branch = branch;
    d->condition = g->condition;
    d->controls = outer;
    d->control_values = qr_qubits_mask(&g->control_values) & outer;
    gates_push(f, &d->ops, gate);
    for (unsigned q = 0; q < f->n; q++)
        if (qubits >> q & 1) f->last[q] = (int64_t)f->n_drafts - 1;
}

/* ---- by structure ---- */

static bool gate_is_diagonal(const struct qr_gate *g) {
    const struct qr_gate_info *info = qr_gate_info(g->kind);
    for (unsigned t = 0; t < g->n_targets; t++)
        if (info->factor[t] != QR_PAULI_Z) return false;
    return true;
}

/* CNOT, also where its control is 0, and SWAP: amplitudes change places, and no number changes. */
static bool gate_is_permutation(const struct fuser *f, uint32_t gate) {
    const struct qr_gate *g = &f->c->gates[gate];
    double a[2] = {0, 0};
    double complex u[16];
    if (!f->fixed[gate]) return false;
    for (unsigned k = 0; k < g->n_args; k++) a[k] = qr_gate_arg_value(&g->args[k], NULL, NULL);
    qr_gate_matrix(g, a, u, NULL);
    for (int i = 0; i < (g->n_targets == 2 ? 16 : 4); i++)
        if (u[i] != 0 && u[i] != 1) return false;
    return true;
}

/* Operations per amplitude, forward and backward; of a rotation, between 14 and 30. */
enum {
    MATRIX_OPS = 62,
    ROTATION_OPS = 20,
    PHASE_OPS = 8,        /* as one of many gates of a batch */
    PERMUTATION_OPS = 12, /* for its reads and writes */
};
enum { BATCH_LEAST = 4 }; /* gates on one qubit each, for a batch without others */

/* Whether a fused gate costs less as one-qubit gates, diagonal gates and permutations. */
static bool draft_splits(const struct fuser *f, const struct draft *d) {
    unsigned ops = 0;
    bool open[2] = {false, false}; /* a one-qubit gate on this position was counted */
    if (!d->plain) return false;
    for (size_t i = 0; i < d->ops.n; i++) {
        uint32_t gate = d->ops.gates[i];
        const struct qr_gate *g = &f->c->gates[gate];
        uint64_t qubits = qr_gate_mask(g);
        if (__builtin_popcountll(qubits) == 1) {
            unsigned k = g->targets[0] == d->q[1];
            if (!open[k]) ops += ROTATION_OPS;
            open[k] = true;
            continue;
        }
        if (gate_is_diagonal(g)) ops += PHASE_OPS;
        else if (gate_is_permutation(f, gate)) ops += PERMUTATION_OPS;
        else return false;
        open[0] = open[1] = false;
    }
    return ops < MATRIX_OPS;
}

/* Adds a gate to the last fused gate on its qubit if that has one-qubit gates only, else to a new
 * one. A fixed gate is no reason to differentiate, and data none to repeat, what is before. */
static void fuse_rotation(struct fuser *f, uint32_t gate, unsigned q) {
    struct gates one = {.gates = &gate, .n = 1};
    struct draft *d = f->last[q] >= 0 ? &f->drafts[f->last[q]] : NULL;
    if (!d || d->kind != QR_FUSED_ROTATION || !gates_may_follow(f, &d->ops, &one) ||
        (f->differentiated[gate] && !d->ops.differentiated) || (f->data[gate] && !d->ops.varies)) {
        d = fuser_new_draft(f, q, (q ^ 1) < f->n ? q ^ 1 : q - 1);
        d->kind = QR_FUSED_ROTATION;
        d->plain = false;
        d->single = true;
        f->last[q] = (int64_t)f->n_drafts - 1;
    }
    gates_push(f, &d->ops, gate);
}

/* Adds a diagonal gate on a and b, or, if b is only a partner, on a alone. */
static void fuse_phase(struct fuser *f, uint32_t gate, unsigned a, unsigned b, bool alone) {
    struct gates one = {.gates = &gate, .n = 1};
    struct draft *d = f->last[a] >= 0 ? &f->drafts[f->last[a]] : NULL;
    if (!d || d->kind != QR_FUSED_PHASE || !gates_may_follow(f, &d->ops, &one) ||
        (!alone && (d->single || f->last[a] != f->last[b]))) {
        d = fuser_new_draft(f, a, b);
        d->kind = QR_FUSED_PHASE;
        d->plain = false;
        d->single = alone;
        f->last[a] = (int64_t)f->n_drafts - 1;
        if (!alone) f->last[b] = f->last[a];
    }
    gates_push(f, &d->ops, gate);
}

static void fuse_structured(struct fuser *f, uint32_t gate, uint64_t qubits) {
    const struct qr_gate *g = &f->c->gates[gate];
    unsigned a = (unsigned)__builtin_ctzll(qubits), b = 63 - (unsigned)__builtin_clzll(qubits);
    fuser_flush(f, a);
    fuser_flush(f, b);
    if (a == b) {
        if (f->place[gate] == IN_ROTATION || !gate_is_diagonal(g)) fuse_rotation(f, gate, a);
        else fuse_phase(f, gate, a, (a ^ 1) < f->n ? a ^ 1 : a - 1, true);
    } else if (gate_is_diagonal(g)) {
        fuse_phase(f, gate, a, b, false);
    } else {
        struct draft *d = fuser_new_draft(f, a, b);
        d->kind = QR_FUSED_PERMUTATION;
        d->plain = false;
        f->last[a] = f->last[b] = (int64_t)f->n_drafts - 1;
        gates_push(f, &d->ops, gate);
    }
}

static void fuse_gate(struct fuser *f, uint32_t gate) {
    const struct qr_gate *g = &f->c->gates[gate];
    if (g->kind == QR_GATE_CHANNEL) {
        const struct qr_channel_info *info = f->c->channels[g->channel].info;
        bool branch = info->damping || info->kraus;
        if (branch || g->condition) fuse_alone(f, gate, branch);
        else if (g->n_targets == 1) fuse_one(f, gate, g->targets[0]);
        else fuse_two(f, gate, g->targets[0], g->targets[1]);
        return;
    }
    if (qr_gate_info(g->kind)->identity) return;
    uint64_t qubits = qr_gate_mask(g);
    unsigned n = (unsigned)__builtin_popcountll(qubits);
    if (g->condition || n > 2) fuse_alone(f, gate, false);
    else if (f->place && f->place[gate] != IN_MATRIX) fuse_structured(f, gate, qubits);
    else if (n == 1) fuse_one(f, gate, g->targets[0]);
    else
        fuse_two(f, gate, (unsigned)__builtin_ctzll(qubits),
                 63 - (unsigned)__builtin_clzll(qubits));
}

/* ---- drafts to plan ---- */

static bool same_numbers(const struct qr_gate *a, const struct qr_gate *b) {
    if (a->kind != b->kind || a->n_args != b->n_args || a->n_targets != b->n_targets ||
        memcmp(&a->global_shift, &b->global_shift, sizeof a->global_shift) != 0)
        return false;
    for (unsigned k = 0; k < a->n_args; k++) {
        const struct qr_gate_arg *x = &a->args[k], *y = &b->args[k];
        if (x->kind != y->kind || memcmp(&x->scale, &y->scale, sizeof x->scale) != 0 ||
            (x->kind != QR_ARG_CONSTANT && x->index != y->index))
            return false;
    }
    return true;
}

static bool same_op(const struct qr_plan_op *a, const struct qr_plan_op *b) {
    return same_numbers(&a->gate, &b->gate) && a->t[0] == b->t[0] &&
           (a->gate.n_targets == 1 || a->t[1] == b->t[1]) && a->has_control == b->has_control &&
           a->control_value == b->control_value;
}

static struct qr_plan_op make_op(const struct qr_gate *g, const struct draft *d) {
    struct qr_plan_op op = {.gate = *g, .number = QR_NO_SLOT};
    for (unsigned t = 0; t < g->n_targets; t++) op.t[t] = g->targets[t] == d->q[1];
    if (g->n_targets == 1) {
        unsigned other = d->q[1 - op.t[0]];
        op.has_control = qr_qubits_has(&g->controls, other);
        op.control_value = op.has_control && qr_qubits_has(&g->control_values, other);
    }
    return op;
}

/* A hash table of indices + 1 into an array of the plan, at most half full. */
struct table {
    uint32_t *slots;
    size_t mask;
};

static struct table table_new(size_t n_places) {
    size_t n = 16;
    while (n < 2 * n_places) n *= 2;
    return (struct table){qr_xcalloc(n, sizeof(uint32_t)), n - 1};
}

static uint64_t hash_mix(uint64_t hash, uint64_t v) {
    hash = (hash ^ v) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

/* Hashes what same_numbers compares. */
static uint64_t hash_numbers(const struct qr_gate *g) {
    uint64_t hash = hash_mix(hash_mix((uint64_t)g->kind, g->n_args), g->n_targets);
    hash = hash_mix(hash, qr_bits_of_double(g->global_shift));
    for (unsigned k = 0; k < g->n_args; k++) {
        const struct qr_gate_arg *a = &g->args[k];
        hash = hash_mix(hash_mix(hash, (uint64_t)a->kind), qr_bits_of_double(a->scale));
        if (a->kind != QR_ARG_CONSTANT) hash = hash_mix(hash, a->index);
    }
    return hash;
}

/* Hashes what same_op compares, for n ops. */
static uint64_t hash_ops(const struct qr_plan_op *ops, uint32_t n) {
    uint64_t hash = n;
    for (uint32_t i = 0; i < n; i++) {
        hash = hash_mix(hash, hash_numbers(&ops[i].gate));
        hash = hash_mix(hash, ops[i].t[0] + 2 * (uint64_t)ops[i].has_control);
    }
    return hash;
}

static bool same_ops(const struct qr_plan_op *a, const struct qr_plan_op *b, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (!same_op(&a[i], &b[i])) return false;
    return true;
}

static bool same_sites(const struct qr_plan_site *a, const struct qr_plan_site *b, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (a[i].op != b[i].op || a[i].n_targets != b[i].n_targets || a[i].t[0] != b[i].t[0] ||
            a[i].t[1] != b[i].t[1])
            return false;
    return true;
}

/* Returns the slot of the op's number, or the empty slot for it. */
static uint32_t *number_slot(const struct qr_sim_plan *p, const struct table *numbers,
                             uint32_t op) {
    const struct qr_gate *g = &p->ops[op].gate;
    size_t i = hash_numbers(g) & numbers->mask;
    for (uint32_t at; (at = numbers->slots[i]) != 0; i = (i + 1) & numbers->mask)
        if (same_numbers(&p->ops[p->numbers[at - 1]].gate, g)) break;
    return &numbers->slots[i];
}

static uint32_t op_number(struct qr_sim_plan *p, const struct table *numbers, uint32_t op) {
    uint32_t *slot = number_slot(p, numbers, op);
    if (!*slot) {
        p->numbers[p->n_numbers] = op;
        *slot = (uint32_t)++p->n_numbers;
    }
    return *slot - 1;
}

/* Returns the slot of the shape of n ops and n_sites sites, the last ones of the plan, or the empty
 * slot for it. */
static uint32_t *shape_slot(const struct qr_sim_plan *p, const struct table *shapes, uint32_t first,
                            uint32_t n, uint32_t n_sites) {
    const struct qr_plan_op *ops = &p->ops[first];
    size_t i = (hash_ops(ops, n) + n_sites) & shapes->mask;
    for (uint32_t at; (at = shapes->slots[i]) != 0; i = (i + 1) & shapes->mask) {
        const struct qr_plan_shape *s = &p->shapes[at - 1];
        if (s->n_ops == n && s->n_sites == n_sites && same_ops(&p->ops[s->first_op], ops, n) &&
            same_sites(&p->sites[s->first_site], &p->sites[p->n_sites], n_sites))
            break;
    }
    return &shapes->slots[i];
}

static void finish_shape(struct qr_sim_plan *p, const struct table *numbers, uint32_t first,
                         uint32_t n, uint32_t n_sites) {
    struct qr_plan_shape s = {.first_op = first,
                              .n_ops = n,
                              .first_site = (uint32_t)p->n_sites,
                              .n_sites = n_sites,
                              .first_derivative = (uint32_t)p->n_derivatives,
                              .data_slot = QR_NO_SLOT,
                              .mixed_slot = QR_NO_SLOT};
    for (uint32_t i = 0; i < n; i++) {
        struct qr_plan_op *op = &p->ops[first + i];
        bool data = false;
        for (unsigned k = 0; k < op->gate.n_args; k++) data |= op->gate.args[k].kind == QR_ARG_DATA;
        if (data) s.n_prefix = i + 1;
        else op->number = op_number(p, numbers, first + i);
        for (unsigned k = 0; k < op->gate.n_args; k++) {
            const struct qr_gate_arg *a = &op->gate.args[k];
            bool input = a->kind == QR_ARG_DATA && column_is_wanted(p, a->index);
            if (!input && (a->kind != QR_ARG_PARAMETER || p->zero_gradient[a->index])) continue;
            p->derivatives[p->n_derivatives++] = (struct qr_plan_derivative){.op = first + i,
                                                                             .of = a->index,
                                                                             .arg = k,
                                                                             .scale = a->scale,
                                                                             .mixed = data,
                                                                             .input = input};
            if (data) s.mixed_slot = (uint32_t)p->n_mixed;
        }
    }
    s.n_derivatives = (uint32_t)p->n_derivatives - s.first_derivative;
    if (s.n_prefix) s.data_slot = (uint32_t)p->n_data++;
    if (s.mixed_slot != QR_NO_SLOT) p->n_mixed++;
    p->shapes[p->n_shapes++] = s;
}

/* Adds a channel of the draft; a site follows the plan's last one and n_sites more. */
static void emit_channel(struct qr_sim_plan *p, const struct fuser *f, const struct draft *d,
                         uint32_t gate, uint32_t op, uint32_t n_sites) {
    const struct qr_gate *g = &f->c->gates[gate];
    struct qr_plan_noise *noise = &p->noise[p->n_noise++];
    *noise = (struct qr_plan_noise){.channel = g->channel,
                                    .number = f->ordinal[gate],
                                    .n_targets = g->n_targets,
                                    .bit = g->bit};
    for (unsigned k = 0; k < g->n_targets; k++) noise->t[k] = g->targets[k] == d->q[1];
    if (d->branch) return;
    p->sites[p->n_sites + n_sites] =
        (struct qr_plan_site){.op = op, .n_targets = g->n_targets, .t = {noise->t[0], noise->t[1]}};
}

static void fuser_emit_draft(struct qr_sim_plan *p, const struct fuser *f, const struct draft *d,
                             const struct table *numbers, const struct table *shapes) {
    uint32_t first = (uint32_t)p->n_ops, n = 0, n_sites = 0, noise = (uint32_t)p->n_noise;
    bool sets_bit = d->branch && f->c->gates[d->ops.gates[0]].bit;
    for (size_t k = 0; k < d->ops.n; k++) {
        uint32_t gate = d->ops.gates[k];
        if (f->c->gates[gate].kind != QR_GATE_CHANNEL)
            p->ops[first + n++] = make_op(&f->c->gates[gate], d);
        else emit_channel(p, f, d, gate, n, d->branch ? 0 : n_sites++);
    }
    uint32_t *shape = shape_slot(p, shapes, first, n, n_sites);
    if (!*shape) {
        p->n_ops += n;
        finish_shape(p, numbers, first, n, n_sites);
        p->n_sites += n_sites;
        *shape = (uint32_t)p->n_shapes;
    }
    p->fused[p->n_fused++] = (struct qr_fused_gate){.shape = *shape - 1,
                                                    .q = {d->q[0], d->q[1]},
                                                    .first_noise = noise,
                                                    .kind = d->kind,
                                                    .batch = d->batch,
                                                    .single = d->single,
                                                    .branch = d->branch,
                                                    .condition = d->condition,
                                                    .classical = d->condition || sets_bit,
                                                    .controls = d->controls,
                                                    .control_values = d->control_values};
}

static void fuser_emit_segment(struct qr_sim_plan *p, const struct fuser *f,
                               const struct table *numbers, const struct table *shapes) {
    for (size_t i = 0; i < f->n_drafts; i++) fuser_emit_draft(p, f, &f->drafts[i], numbers, shapes);
}

static void fuser_emit(struct qr_sim_plan *p, const struct fuser *f, size_t n_segments,
                       uint32_t *ret_first) {
    size_t n_ops = 0, n_drafts = 0;
    for (size_t s = 0; s < n_segments; s++) {
        n_drafts += f[s].n_drafts;
        for (size_t i = 0; i < f[s].n_drafts; i++) n_ops += f[s].drafts[i].ops.n;
    }
    p->ops = qr_xcalloc(n_ops + 1, sizeof *p->ops);
    p->numbers = qr_xcalloc(n_ops + 1, sizeof *p->numbers);
    p->derivatives = qr_xcalloc(2 * n_ops + 1, sizeof *p->derivatives);
    p->shapes = qr_xcalloc(n_drafts + 1, sizeof *p->shapes);
    p->fused = qr_xcalloc(n_drafts + 1, sizeof *p->fused);
    p->sites = p->n_channels ? qr_xcalloc(n_ops + 1, sizeof *p->sites) : NULL;
    p->noise = p->n_channels ? qr_xcalloc(n_ops + 1, sizeof *p->noise) : NULL;
    struct table numbers = table_new(n_ops), shapes = table_new(n_drafts);
    for (size_t s = 0; s < n_segments; s++) {
        if (ret_first) ret_first[s] = (uint32_t)p->n_fused;
        fuser_emit_segment(p, &f[s], &numbers, &shapes);
    }
    free(numbers.slots);
    free(shapes.slots);
    if (ret_first) ret_first[n_segments] = (uint32_t)p->n_fused;
}

static void fuse_all(struct fuser *f) {
    for (unsigned q = 0; q < QR_FUSED_QUBITS; q++) f->last[q] = -1;
    for (size_t i = 0; i < f->c->n_gates; i++) fuse_gate(f, (uint32_t)i);
    for (unsigned q = 0; q < f->n; q++) fuser_flush(f, q);
}

static void fuser_drop_drafts(struct fuser *f) {
    for (size_t i = 0; i < f->n_drafts; i++) free(f->drafts[i].ops.gates);
    f->n_drafts = 0;
}

/* Numbers the batches of diagonal gates: one has all that can run at the same time, after other
 * gates. Sets each draft's batch: of another gate, the one that it runs before. */
static void fuser_set_batches(struct fuser *f) {
    uint32_t next[QR_FUSED_QUBITS] = {0}; /* batch that the qubit's next diagonal gate may join */
    bool in[QR_FUSED_QUBITS] = {false};   /* it has one in that batch */
    for (size_t i = 0; i < f->n_drafts; i++) {
        struct draft *d = &f->drafts[i];
        bool phase = d->kind == QR_FUSED_PHASE;
        uint64_t qubits = d->controls | UINT64_C(1) << d->q[0];
        if (!d->single) qubits |= UINT64_C(1) << d->q[1];
        d->batch = 0;
        for (uint64_t m = qubits; m; m &= m - 1) {
            unsigned q = (unsigned)__builtin_ctzll(m);
            uint32_t own = next[q] + (in[q] && !phase);
            if (own > d->batch) d->batch = own;
        }
        for (uint64_t m = qubits; m; m &= m - 1) {
            unsigned q = (unsigned)__builtin_ctzll(m);
            next[q] = d->batch;
            in[q] = phase;
        }
    }
}

/* A batch of few gates costs more than to multiply them into one-qubit gates. */
static void fuser_place_few(const struct fuser *f, enum gate_place *place) {
    uint32_t *n_in = qr_xcalloc(f->n_drafts + 1, sizeof *n_in);
    for (size_t i = 0; i < f->n_drafts; i++)
        if (f->drafts[i].kind == QR_FUSED_PHASE)
            n_in[f->drafts[i].batch] += f->drafts[i].single ? 1 : BATCH_LEAST;
    for (size_t i = 0; i < f->n_drafts; i++)
        for (size_t k = 0; k < f->drafts[i].ops.n; k++)
            if (f->drafts[i].kind == QR_FUSED_PHASE && n_in[f->drafts[i].batch] < BATCH_LEAST)
                place[f->drafts[i].ops.gates[k]] = IN_ROTATION;
    free(n_in);
}

/* Finds each gate's place: fuses all gates into matrices, then by structure those of matrices that
 * split, and looks at the batches of diagonal gates. */
static void fuser_find_places(struct fuser *f) {
    enum gate_place *place = qr_xcalloc(f->c->n_gates + 1, sizeof *place);
    fuse_all(f);
    for (size_t i = 0; i < f->n_drafts; i++) {
        const struct draft *d = &f->drafts[i];
        enum gate_place where = draft_splits(f, d) ? FREE : IN_MATRIX;
        for (size_t k = 0; k < d->ops.n; k++) place[d->ops.gates[k]] = where;
    }
    fuser_drop_drafts(f);
    f->place = place;
    fuse_all(f);
    fuser_set_batches(f);
    fuser_place_few(f, place);
    fuser_drop_drafts(f);
}

static int compare_drafts(const void *x, const void *y) {
    const struct draft *a = x, *b = y;
    if (a->batch != b->batch) return a->batch < b->batch ? -1 : 1;
    if (a->kind != b->kind && (a->kind == QR_FUSED_PHASE || b->kind == QR_FUSED_PHASE))
        return a->kind == QR_FUSED_PHASE ? 1 : -1;
    return a->number < b->number ? -1 : 1;
}

/* Puts each batch after all gates before it. */
static void fuser_sort(struct fuser *f) {
    for (size_t i = 0; i < f->n_drafts; i++) f->drafts[i].number = i;
    if (f->n_drafts) qsort(f->drafts, f->n_drafts, sizeof *f->drafts, compare_drafts);
}

static void fuse_segment(struct fuser *f, const struct qr_sim_plan *p, const struct qr_circuit *c) {
    f->c = c;
    f->n = c->n_qubits < 2 ? 2 : c->n_qubits;
    f->data = qr_xcalloc(c->n_gates + 1, sizeof *f->data);
    f->param = qr_xcalloc(c->n_gates + 1, sizeof *f->param);
    f->differentiated = qr_xcalloc(c->n_gates + 1, sizeof *f->differentiated);
    f->fixed = qr_xcalloc(c->n_gates + 1, sizeof *f->fixed);
    f->ordinal = qr_xcalloc(c->n_gates + 1, sizeof *f->ordinal);
    for (size_t i = 0; i < c->n_gates; i++) {
        f->fixed[i] = c->gates[i].kind != QR_GATE_CHANNEL;
        f->ordinal[i + 1] = f->ordinal[i] + !f->fixed[i];
        for (unsigned k = 0; k < c->gates[i].n_args; k++) {
            const struct qr_gate_arg *a = &c->gates[i].args[k];
            f->data[i] |= a->kind == QR_ARG_DATA;
            f->param[i] |= a->kind == QR_ARG_PARAMETER && !p->zero_gradient[a->index];
            f->differentiated[i] |=
                f->param[i] || (a->kind == QR_ARG_DATA && column_is_wanted(p, a->index));
            f->fixed[i] &= a->kind == QR_ARG_CONSTANT;
        }
    }
    if (p->structured) fuser_find_places(f);
    fuse_all(f);
    if (!p->structured) return;
    fuser_set_batches(f);
    fuser_sort(f);
}

void qr_plan_fuse(struct qr_sim_plan *p, const struct qr_circuit *segments, size_t n_segments,
                  uint32_t *ret_first) {
    struct fuser *f = qr_xcalloc(n_segments, sizeof *f);
    for (size_t s = 0; s < n_segments; s++) {
        f[s].in_pairs = n_segments > 1;
        fuse_segment(&f[s], p, &segments[s]);
    }
    fuser_emit(p, f, n_segments, ret_first);
    for (size_t s = 0; s < n_segments; s++) {
        fuser_drop_drafts(&f[s]);
        for (unsigned q = 0; q < QR_FUSED_QUBITS; q++) free(f[s].pending[q].gates);
        free(f[s].drafts);
        free(f[s].data);
        free(f[s].param);
        free(f[s].differentiated);
        free(f[s].fixed);
        free(f[s].ordinal);
        free(f[s].place);
    }
    free(f);
}

void qr_plan_unfuse(struct qr_sim_plan *p) {
    free(p->ops);
    free(p->numbers);
    free(p->derivatives);
    free(p->shapes);
    free(p->fused);
    free(p->sites);
    free(p->noise);
    p->sites = NULL;
    p->noise = NULL;
    p->ops = NULL;
    p->numbers = NULL;
    p->derivatives = NULL;
    p->shapes = NULL;
    p->fused = NULL;
    p->n_ops = p->n_numbers = p->n_derivatives = p->n_shapes = p->n_fused = p->n_data = p->n_mixed =
        p->n_sites = p->n_noise = 0;
}
