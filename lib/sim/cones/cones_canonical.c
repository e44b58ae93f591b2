/* sim/cones/cones_canonical.c — the light cone of a term in its own numbering. Qubits, data columns
 * and gates are numbered in the order in which a walk back from the observable reaches them. The
 * order does not depend on the order of gates that commute, so cones that differ only in their
 * position in the circuit become equal. Start reading at cone_of_term(). */
#include <string.h>

#include "base/mem.h"
#include "circuit/cone.h"
#include "observable/qubits.h"
#include "sim/cones/cones_impl.h"

struct cone_finder {
    const struct qr_circuit *c;
    const uint8_t *wanted;
    struct qr_cone_finder *f;
    uint32_t *gates;                 /* gates of the cone, ascending */
    struct qr_simple_gates expanded; /* replaces gates if one of them is not simple; else empty */
    size_t n_gates;
    /* per qubit: its latest gate that the walk has not reached, as an index of gates; per gate and
     * qubit of it: the gate before it there */
    uint32_t *top, (*below)[2];
    uint32_t *count; /* per qubit: number of its gates that the walk has not reached */
    uint8_t *local;  /* per qubit of the circuit: its number in the cone; LOCAL_NONE: not reached */
    uint32_t *column;
    uint16_t qubit[CONE_MAX_QUBITS]; /* per qubit of the cone: its number in the circuit */
    unsigned n_qubits, n_columns;
    uint32_t *columns;
    bool stacked; /* top, below and count are set */
};

/* RUN: number of commuting gates on a qubit that are examined for the next one. ANDs commute on
 * their helper. */
enum { LOCAL_NONE = 255, RUN = 64, FACTOR_AND = 8 };

struct cone_finder *cone_finder_new(const struct qr_circuit *c, const uint8_t *wanted) {
    struct cone_finder *f = qr_xcalloc(1, sizeof *f);
    size_t n_qubits = c->n_qubits + CONE_MAX_QUBITS; /* Including helpers */
    f->c = c;
    f->wanted = wanted;
    f->f = qr_cone_finder_new(c);
    f->gates = qr_xcalloc(c->n_gates + 1, sizeof *f->gates);
    f->below = qr_xcalloc(CONE_MAX_GATES, sizeof *f->below);
    f->top = qr_xcalloc(n_qubits, sizeof *f->top);
    f->count = qr_xcalloc(n_qubits, sizeof *f->count);
    f->local = qr_xcalloc(n_qubits, sizeof *f->local);
    f->column = qr_xcalloc(c->n_columns + 1, sizeof *f->column);
    memset(f->top, 0xff, n_qubits * sizeof *f->top);
    memset(f->local, LOCAL_NONE, n_qubits);
    memset(f->column, 0xff, c->n_columns * sizeof *f->column);
    return f;
}

void cone_finder_free(struct cone_finder *f) {
    qr_cone_finder_free(f->f);
    free(f->gates);
    free(f->expanded.gates);
    free(f->below);
    free(f->top);
    free(f->count);
    free(f->local);
    free(f->column);
    free(f);
}

static const struct qr_gate *finder_gate(const struct cone_finder *f, uint32_t index) {
    return f->expanded.n ? &f->expanded.gates[index] : &f->c->gates[f->gates[index]];
}

/* Finds the gates of the term's cone. Returns false if there are too many, or they need too many
 * helpers. */
static bool finder_find_gates(struct cone_finder *f, const struct qr_pauli_term *term) {
    struct qr_simple_gates *all = &f->expanded;
    bool simple = true;
    f->n_gates = qr_cone_find(f->f, term, f->gates);
    all->n = 0;
    if (f->n_gates > CONE_MAX_GATES) return false;
    for (size_t i = 0; i < f->n_gates; i++)
        simple = simple && qr_gate_is_simple(&f->c->gates[f->gates[i]]);
    if (simple) return true;
    all->next_helper = (uint16_t)f->c->n_qubits;
    for (size_t i = 0; i < f->n_gates && all->n <= CONE_MAX_GATES; i++)
        qr_simple_gates_expand(all, &f->c->gates[f->gates[i]]);
    f->n_gates = all->n;
    return all->n <= CONE_MAX_GATES && all->next_helper <= f->c->n_qubits + CONE_MAX_QUBITS;
}

/* Returns the qubits of a gate, targets first. */
static unsigned gate_qubits(const struct qr_gate *g, uint16_t ret[2]) {
    unsigned n = g->n_targets;
    memcpy(ret, g->targets, n * sizeof *ret);
    if (!qr_qubits_is_empty(&g->controls)) ret[n++] = (uint16_t)qr_qubits_first(&g->controls);
    return n;
}

static bool finder_number_qubit(struct cone_finder *f, unsigned q) {
    if (f->local[q] != LOCAL_NONE) return true;
    if (f->n_qubits == CONE_MAX_QUBITS) return false;
    f->local[q] = (uint8_t)f->n_qubits;
    f->qubit[f->n_qubits++] = (uint16_t)q;
    return true;
}

/* Stacks the gates on each qubit, the latest on top. */
static void finder_stack_gates(struct cone_finder *f) {
    f->stacked = true;
    for (uint32_t i = 0; i < f->n_gates; i++) {
        uint16_t q[2];
        unsigned n = gate_qubits(finder_gate(f, i), q);
        for (unsigned k = 0; k < n; k++) {
            f->below[i][k] = f->top[q[k]];
            f->top[q[k]] = i;
            f->count[q[k]]++;
        }
    }
}

/* The index of the gate below this one on qubit q. */
static uint32_t *finder_below(struct cone_finder *f, uint32_t index, unsigned q) {
    return &f->below[index][finder_gate(f, index)->targets[0] != q];
}

/* The Pauli that the gate's factor on this qubit consists of; 0: several. */
static uint8_t finder_factor(const struct cone_finder *f, uint32_t index, unsigned q) {
    const struct qr_gate *g = finder_gate(f, index);
    if (g->kind == QR_SIMPLE_AND) return g->targets[0] == q ? FACTOR_AND : QR_PAULI_Z;
    if (g->kind == QR_GATE_CHANNEL) return 0;
    for (unsigned k = 0; k < g->n_targets; k++)
        if (g->targets[k] == q) return qr_gate_info(g->kind)->factor[k];
    return QR_PAULI_Z;
}

/* The next gate on the qubit that commutes there with all gates above it, or CONE_NONE. */
static uint32_t finder_next_exposed(struct cone_finder *f, uint32_t index, unsigned q) {
    uint8_t factor = finder_factor(f, index, q);
    uint32_t next = *finder_below(f, index, q);
    return factor && next != CONE_NONE && finder_factor(f, next, q) == factor ? next : CONE_NONE;
}

static bool finder_is_exposed(struct cone_finder *f, uint32_t index, unsigned q) {
    uint32_t at = f->top[q];
    for (unsigned i = 1; i < RUN && at != CONE_NONE && at != index; i++)
        at = finder_next_exposed(f, at, q);
    return at == index;
}

static bool finder_is_ready(struct cone_finder *f, uint32_t index) {
    uint16_t q[2];
    unsigned n = gate_qubits(finder_gate(f, index), q);
    bool ready = true;
    for (unsigned k = 0; k < n; k++) ready = ready && finder_is_exposed(f, index, q[k]);
    return ready;
}

/* A sort key of the gate as seen from qubit q, independent of the order of commuting gates: first
 * gates between qubits that were reached, then gates with more gates on their other qubit. */
static uint64_t finder_sort_key(struct cone_finder *f, uint32_t index, unsigned q) {
    const struct qr_gate *g = finder_gate(f, index);
    uint16_t on[2];
    unsigned n = gate_qubits(g, on);
    if (n == 1) return 0;
    unsigned other = on[0] == q ? on[1] : on[0];
    if (f->local[other] != LOCAL_NONE) return 1u + f->local[other];
    uint64_t parameter =
        g->n_args && g->args[0].kind == QR_ARG_PARAMETER ? 1u + g->args[0].index : 0;
    return UINT64_C(1) << 62 | (uint64_t)g->kind << 48 | parameter << 24 |
           (UINT64_C(0xffffff) - (f->count[other] & 0xffffff));
}

/* Returns the gate that the walk reaches next: on the first qubit with a gate that commutes with
 * all later ones, the gate with the least key. */
static uint32_t finder_next_gate(struct cone_finder *f) {
    uint32_t best = CONE_NONE;
    for (unsigned i = 0; i < f->n_qubits && best == CONE_NONE; i++) {
        unsigned q = f->qubit[i], n = 0;
        uint64_t least = UINT64_MAX; /* 0 is the least key. */
        for (uint32_t at = f->top[q]; n < RUN && least && at != CONE_NONE; n++) {
            uint64_t look = finder_is_ready(f, at) ? finder_sort_key(f, at, q) : UINT64_MAX;
            if (look < least) {
                least = look;
                best = at;
            }
            at = finder_next_exposed(f, at, q);
        }
    }
    return best;
}

/* If finder_next_gate finds none: the gates that replace a gate may end on a qubit that was not
 * reached, above the rest. Returns the topmost gate above the first gate of the qubits that were
 * reached. */
static uint32_t finder_gate_above(struct cone_finder *f) {
    uint32_t index = CONE_NONE, above = CONE_NONE;
    for (unsigned i = 0; i < f->n_qubits && above == CONE_NONE; i++) above = f->top[f->qubit[i]];
    while (above != CONE_NONE) {
        uint16_t q[2];
        unsigned n = gate_qubits(finder_gate(f, index = above), q);
        above = CONE_NONE;
        for (unsigned k = 0; k < n && above == CONE_NONE; k++)
            if (!finder_is_exposed(f, index, q[k])) above = f->top[q[k]];
    }
    return index;
}

static void finder_remove_gate(struct cone_finder *f, uint32_t index, unsigned q) {
    uint32_t *at = &f->top[q];
    while (*at != index) at = finder_below(f, *at, q);
    *at = *finder_below(f, index, q);
    f->count[q]--;
}

/* A power of CZ, or of the same Pauli on both qubits: their order does not matter. */
static bool gate_is_symmetric(const struct qr_gate *g) {
    if (g->kind == QR_SIMPLE_AND || g->kind == QR_GATE_CHANNEL) return false;
    const uint8_t *factor = qr_gate_info(g->kind)->factor;
    return g->n_targets == 2 && factor[0] && factor[0] == factor[1];
}

static void finder_localise(struct cone_finder *f, struct qr_gate *g) {
    struct qr_qubits controls = {{0}}, values = {{0}};
    for (unsigned k = 0; k < g->n_targets; k++) g->targets[k] = f->local[g->targets[k]];
    if (gate_is_symmetric(g) && g->targets[0] > g->targets[1]) {
        uint16_t t = g->targets[0];
        g->targets[0] = g->targets[1];
        g->targets[1] = t;
    }
    if (!qr_qubits_is_empty(&g->controls)) {
        unsigned q = qr_qubits_first(&g->controls);
        qr_qubits_add(&controls, f->local[q]);
        if (qr_qubits_has(&g->control_values, q)) qr_qubits_add(&values, f->local[q]);
    }
    g->controls = controls;
    g->control_values = values;
    for (unsigned k = 0; k < g->n_args; k++) {
        struct qr_gate_arg *a = &g->args[k];
        if (a->kind != QR_ARG_DATA) continue;
        if (f->column[a->index] == CONE_NONE) {
            f->column[a->index] = f->n_columns;
            f->columns = qr_xreallocarray(f->columns, f->n_columns + 1, sizeof *f->columns);
            f->columns[f->n_columns++] = a->index;
        }
        a->index = f->column[a->index];
    }
}

static void key_append_gate(struct qr_buf *key, const struct qr_gate *g) {
    uint32_t word[6] = {g->kind,
                        g->n_targets,
                        g->targets[0],
                        g->n_targets > 1 ? g->targets[1] : 0,
                        0,
                        g->kind == QR_GATE_CHANNEL ? g->channel : g->n_args};
    if (!qr_qubits_is_empty(&g->controls)) {
        unsigned q = qr_qubits_first(&g->controls);
        word[4] = 2 * q + 1 + (qr_qubits_has(&g->control_values, q) ? 0 : 2 * CONE_MAX_QUBITS);
    }
    qr_buf_put(key, word, sizeof word);
    qr_buf_put(key, &g->global_shift, sizeof g->global_shift);
    for (unsigned k = 0; k < g->n_args; k++) {
        uint32_t arg[2] = {g->args[k].kind,
                           g->args[k].kind == QR_ARG_CONSTANT ? 0 : g->args[k].index};
        qr_buf_put(key, arg, sizeof arg);
        qr_buf_put(key, &g->args[k].scale, sizeof g->args[k].scale);
    }
}

/* Visits all gates of the cone, the last one first. */
static bool finder_walk(struct cone_finder *f, struct cone *ret) {
    ret->gates = qr_xcalloc(f->n_gates + 1, sizeof *ret->gates);
    for (size_t left = f->n_gates; left-- > 0;) {
        uint32_t index = finder_next_gate(f);
        if (index == CONE_NONE) index = finder_gate_above(f);
        QR_ASSERT(index != CONE_NONE); /* Every gate of the cone is reached from the observable. */
        struct qr_gate *g = &ret->gates[left];
        *g = *finder_gate(f, index);
        uint16_t q[2];
        unsigned n = gate_qubits(g, q);
        for (unsigned k = 0; k < n; k++) {
            if (!finder_number_qubit(f, q[k])) return false;
            finder_remove_gate(f, index, q[k]);
        }
        finder_localise(f, g);
        key_append_gate(&ret->key, g);
    }
    ret->n_gates = f->n_gates;
    return true;
}

bool cone_gate_is_unfused(const struct qr_gate *g) {
    return qr_gate_has_data(g) || g->kind == QR_SIMPLE_AND || g->kind == QR_GATE_CHANNEL;
}

/* Unfused gates divide the others into levels. */
static void cone_set_levels(struct cone *c) {
    uint16_t at[CONE_MAX_QUBITS] = {0};
    c->level = qr_xcalloc(c->n_gates + 1, sizeof *c->level);
    c->n_levels = 1;
    for (size_t i = 0; i < c->n_gates; i++) {
        uint16_t q[2];
        unsigned n = gate_qubits(&c->gates[i], q);
        uint16_t level = at[q[0]];
        if (n > 1 && at[q[1]] > level) level = at[q[1]];
        c->level[i] = level;
        c->data |= qr_gate_has_data(&c->gates[i]);
        for (unsigned k = 0; k < n; k++)
            at[q[k]] = (uint16_t)(level + cone_gate_is_unfused(&c->gates[i]));
        if (at[q[0]] >= c->n_levels) c->n_levels = at[q[0]] + 1u;
    }
}

static void finder_reset(struct cone_finder *f) {
    for (uint32_t i = 0; i < f->n_gates && f->stacked; i++) {
        uint16_t q[2];
        unsigned n = gate_qubits(finder_gate(f, i), q);
        for (unsigned k = 0; k < n; k++) {
            f->top[q[k]] = CONE_NONE;
            f->count[q[k]] = 0;
        }
    }
    for (unsigned i = 0; i < f->n_qubits; i++) f->local[f->qubit[i]] = LOCAL_NONE;
    for (unsigned i = 0; i < f->n_columns; i++) f->column[f->columns[i]] = CONE_NONE;
    f->stacked = false;
    f->n_qubits = f->n_columns = 0;
    free(f->columns);
    f->columns = NULL;
}

static void finder_set_wanted(const struct cone_finder *f, struct cone *c) {
    c->n_columns = f->n_columns;
    c->wanted = qr_xcalloc(f->n_columns + 1, 1);
    for (unsigned i = 0; i < f->n_columns && f->wanted; i++)
        c->wanted[i] = f->wanted[f->columns[i]];
    qr_buf_put(&c->key, c->wanted, f->n_columns);
}

static uint8_t pauli_digit(const struct qr_pauli_term *t, unsigned q) {
    bool x = qr_qubits_has(&t->x, q), z = qr_qubits_has(&t->z, q);
    return x && z ? 2 : x ? 1 : z ? 3 : 0;
}

bool cone_of_term(struct cone_finder *f, const struct qr_pauli_term *term, struct cone *ret,
                  uint32_t **ret_columns) {
    *ret = (struct cone){0};
    bool ok = finder_find_gates(f, term);
    for (unsigned q = 0; q < f->c->n_qubits && ok; q++) {
        uint8_t pauli = pauli_digit(term, q);
        if (!pauli) continue;
        qr_buf_put(&ret->key, &pauli, 1);
        ok = finder_number_qubit(f, q);
    }
    uint8_t paulis[CONE_MAX_QUBITS] = {0};
    for (unsigned i = 0; i < f->n_qubits; i++) paulis[i] = pauli_digit(term, f->qubit[i]);
    if (ok) finder_stack_gates(f);
    ok = ok && finder_walk(f, ret);
    if (ok) {
        ret->n_qubits = f->n_qubits;
        ret->expanded = f->expanded.n > 0;
        for (unsigned i = 0; i < f->n_qubits; i++) {
            if (f->qubit[i] < f->c->n_qubits) continue;
            paulis[i] = CONE_HELPER;
            ret->n_helpers++;
        }
        finder_set_wanted(f, ret);
        ret->paulis = qr_xcalloc(f->n_qubits + 1, 1);
        memcpy(ret->paulis, paulis, f->n_qubits);
        cone_set_levels(ret);
        *ret_columns = QR_MOVE(f->columns);
        for (unsigned i = 0; i < f->n_columns; i++) f->column[(*ret_columns)[i]] = CONE_NONE;
        f->n_columns = 0;
    } else {
        cone_fini(ret);
    }
    finder_reset(f);
    return ok;
}

void cone_fini(struct cone *c) {
    free(c->gates);
    free(c->paulis);
    free(c->wanted);
    free(c->level);
    free(c->first_fused);
    qr_buf_free(&c->key);
    *c = (struct cone){0};
}
