/* model/natural/natural_gradient.c — the block-diagonal natural gradient. Start reading at
 * qr_natural_gradient_new() and qr_natural_gradient_apply(). */
#include "model/natural/natural_gradient.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "model/natural/generator.h"
#include "model/natural/pseudo_inverse.h"

enum { ARGUMENTS = 512 }; /* maximum of a block */
static const size_t no_readout = SIZE_MAX;
static const double cutoff = 1e-12; /* of eigenvalues */

/* An expectation value: constant, plus a read-out of the block's plan. */
struct natural_value {
    double constant;
    size_t readout;
};
/* One argument with parameters. */
struct argument {
    size_t gate;
    unsigned which;
};
struct natural_block {
    size_t n, cap;
    struct argument *argument;
    struct natural_value *value; /* n of the generators, then of the products a <= b */
    struct qr_sim_plan *plan;    /* of the circuit before the block; NULL: nothing to simulate */
    struct qr_sim_bound *bound;
    struct qr_sim_workspace *workspace;
    size_t n_readouts;
    double *z, *metric; /* n_readouts, n x n */
};
/* Parameters that some block couples. */
struct coupled {
    size_t n, at; /* at: start of their numbers in `order`; square: their metric */
    double *square;
};
struct qr_natural_gradient {
    struct qr_circuit *circuit;
    size_t n_blocks, cap;
    struct natural_block *blocks;
    size_t n_coupled, widest;
    struct coupled *coupled;
    /* Parameters by set; for each parameter its position in the set, and its set */
    uint32_t *order, *where, *of;
    /* derivative: of an argument by the parameters of its block's set */
    double *scratch, *part, *derivative;
    double *by_node;
};

static const struct qr_gate *argument_gate(const struct qr_natural_gradient *n,
                                           const struct argument *a) {
    return &n->circuit->gates[a->gate];
}
static size_t pair_at(const struct natural_block *b, size_t i, size_t j) {
    return b->n + j * (j + 1) / 2 + i; /* i <= j */
}

/* ---- blocks ---- */

static struct natural_block *new_block(struct qr_natural_gradient *n) {
    if (n->n_blocks == n->cap) {
        n->cap = 2 * n->cap + 4;
        n->blocks = qr_xreallocarray(n->blocks, n->cap, sizeof *n->blocks);
    }
    struct natural_block *b = &n->blocks[n->n_blocks++];
    *b = (struct natural_block){0};
    return b;
}

static void add_argument(struct natural_block *b, size_t gate, unsigned which) {
    if (b->n == b->cap) {
        b->cap = 2 * b->cap + 4;
        b->argument = qr_xreallocarray(b->argument, b->cap, sizeof *b->argument);
    }
    b->argument[b->n++] = (struct argument){gate, which};
}

static struct qr_qubits qubits_touched(const struct qr_gate *g) {
    struct qr_qubits on = g->controls;
    for (unsigned t = 0; t < g->n_targets; t++) qr_qubits_add(&on, g->targets[t]);
    return on;
}
static bool qubits_intersect(const struct qr_qubits *a, const struct qr_qubits *b) {
    for (unsigned w = 0; w < QR_QUBITS_WORDS; w++)
        if (a->word[w] & b->word[w]) return true;
    return false;
}

/* The circuit before a block: all gates up to the block's last that follow none of its gates. */
static struct qr_circuit *circuit_before_block(const struct qr_natural_gradient *n,
                                               const struct natural_block *b) {
    struct qr_circuit *c = qr_circuit_copy(n->circuit);
    struct qr_qubits after = {0};
    size_t kept = 0, next = 0;
    for (size_t i = 0; i <= b->argument[b->n - 1].gate; i++) {
        struct qr_qubits on = qubits_touched(&c->gates[i]);
        while (next < b->n && b->argument[next].gate < i) next++;
        if ((next < b->n && b->argument[next].gate == i) || qubits_intersect(&on, &after))
            qr_qubits_add_all(&after, &on);
        else c->gates[kept++] = c->gates[i];
    }
    c->n_gates = kept;
    return c;
}

/* A block ends where a gate with parameters follows one of the block's. */
static enum qr_code find_blocks(struct qr_natural_gradient *n, struct qr_err *err) {
    const struct qr_circuit *c = n->circuit;
    struct qr_qubits after = {0};
    struct natural_block *b = NULL;
    for (size_t i = 0; i < c->n_gates; i++) {
        const struct qr_gate *g = &c->gates[i];
        struct qr_qubits on = qubits_touched(g);
        bool follows = qubits_intersect(&on, &after), learns = false;
        for (unsigned k = 0; k < g->n_args; k++) {
            if (!qr_generator_needed(&g->args[k])) continue;
            if (!learns && (!b || follows)) {
                b = new_block(n);
                after = (struct qr_qubits){0};
            }
            learns = true;
            add_argument(b, i, k);
            if (b->n > ARGUMENTS)
                return qr_fail(
                    err, QR_INVALID_ARGUMENT,
                    "quantum-natural-gradient: gate %zu is the last of more than %d trainable "
                    "ones in a block; choose another optimizer",
                    i, ARGUMENTS);
        }
        if (learns || follows) qr_qubits_add_all(&after, &on);
    }
    return QR_OK;
}

/* The read-outs that a block needs. */
struct block_readouts {
    size_t n;
    struct qr_observable *o;
};

/* In the state |0…0> a value is known without simulation. */
static struct natural_value request_value(struct block_readouts *w, bool simulated,
                                          struct qr_pauli_sum *s) {
    struct natural_value v = {s->constant, no_readout};
    if (simulated && s->n) {
        v.readout = w->n;
        w->o[v.readout] =
            (struct qr_observable){.n_terms = s->n,
                                   .terms = s->terms,
                                   .text = qr_xasprintf("entry %zu of a metric", v.readout)};
        w->n++;
        *s = (struct qr_pauli_sum){0};
    }
    for (size_t t = 0; t < s->n; t++)
        if (qr_qubits_is_empty(&s->terms[t].x)) v.constant += s->terms[t].coefficient;
    qr_pauli_sum_fini(s);
    return v;
}

static enum qr_code request_block_values(const struct qr_natural_gradient *n,
                                         struct natural_block *b, bool simulated,
                                         struct block_readouts *w, struct qr_err *err) {
    qr_auto(qr_free_p) struct qr_pauli_sum *k = qr_xcalloc(b->n, sizeof *k);
    enum qr_code code = QR_OK;
    for (size_t i = 0; i < b->n && code == QR_OK; i++) {
        const struct argument *a = &b->argument[i];
        if (!qr_generator_of(argument_gate(n, a), a->which, &k[i]))
            code = qr_fail(err, QR_INVALID_ARGUMENT,
                           "quantum-natural-gradient: gate %zu (%s) changes its rotation axis with "
                           "argument %u, or has too many controls; write it as rotations, "
                           "or choose another optimizer",
                           a->gate, qr_gate_info(argument_gate(n, a)->kind)->name, a->which);
    }
    for (size_t j = 0; j < b->n && code == QR_OK; j++)
        for (size_t i = 0; i <= j; i++) {
            const struct argument *p = &b->argument[i], *q = &b->argument[j];
            struct qr_pauli_sum s =
                p->gate == q->gate ? qr_generator_product(argument_gate(n, p), p->which, q->which)
                                   : qr_pauli_sum_product(&k[i], &k[j]);
            b->value[pair_at(b, i, j)] = request_value(w, simulated, &s);
        }
    for (size_t i = 0; i < b->n && code == QR_OK; i++)
        b->value[i] = request_value(w, simulated, &k[i]);
    for (size_t i = 0; i < b->n; i++) qr_pauli_sum_fini(&k[i]);
    return code;
}

static enum qr_code make_block(const struct qr_natural_gradient *n, struct natural_block *b,
                               enum qr_isa isa, struct qr_err *err) {
    const struct qr_sim_options sim = {.precision = QR_DOUBLE, .isa = isa};
    size_t n_values = b->n + b->n * (b->n + 1) / 2;
    struct qr_circuit *c = circuit_before_block(n, b);
    struct block_readouts w = {.o = qr_xcalloc(n_values, sizeof *w.o)};
    b->value = qr_xcalloc(n_values, sizeof *b->value);
    b->metric = qr_xcalloc(b->n * b->n, sizeof *b->metric);
    enum qr_code code = request_block_values(n, b, c->n_gates > 0, &w, err);
    if (code == QR_OK && w.n) {
        b->n_readouts = w.n;
        b->z = qr_xcalloc(w.n, sizeof *b->z);
        code = qr_sim_compile(c, w.o, w.n, &sim, &b->plan, err);
    }
    if (code == QR_OK && b->plan) code = qr_sim_workspace_new(b->plan, 1, &b->workspace, err);
    if (code == QR_OK && b->plan) b->bound = qr_sim_bound_new(b->plan);
    for (size_t i = 0; i < w.n; i++) qr_observable_fini(&w.o[i]);
    free(w.o);
    qr_circuit_free(c);
    return code;
}

/* ---- sets of parameters ---- */

/* Iterates over an argument's parameters, in order of occurrence: returns the next i, or 0 at the
 * end. */
static size_t next_parameter(const struct qr_natural_gradient *n, const struct argument *a,
                             size_t i, uint32_t *ret) {
    const struct qr_gate_arg *arg = &argument_gate(n, a)->args[a->which];
    if (arg->kind == QR_ARG_PARAMETER) {
        *ret = arg->index;
        return i == 0;
    }
    const struct qr_expression *e = &n->circuit->expressions[arg->index];
    for (; i < e->n; i++)
        if (e->node[i].op == QR_EXPRESSION_PARAMETER) {
            *ret = e->node[i].index;
            return i + 1;
        }
    return 0;
}

static uint32_t set_root(uint32_t *parent, uint32_t p) {
    while (parent[p] != p) p = parent[p] = parent[parent[p]];
    return p;
}

/* Merges the parameters of each block (union-find); sets are in the order of their first
 * parameter. */
static void find_parameter_sets(struct qr_natural_gradient *n) {
    uint32_t n_params = n->circuit->n_params, *parent = qr_xcalloc(n_params + 1, sizeof *parent);
    for (uint32_t p = 0; p < n_params; p++) parent[p] = p;
    for (size_t k = 0; k < n->n_blocks; k++) {
        const struct natural_block *b = &n->blocks[k];
        uint32_t first = UINT32_MAX, p;
        for (size_t a = 0; a < b->n; a++)
            for (size_t i = 0; (i = next_parameter(n, &b->argument[a], i, &p)) > 0;) {
                if (first == UINT32_MAX) first = p;
                uint32_t to = set_root(parent, first), from = set_root(parent, p);
                /* The lowest becomes the root */
                parent[to > from ? to : from] = to > from ? from : to;
            }
    }
    n->order = qr_xcalloc(n_params + 1, sizeof *n->order);
    n->where = qr_xcalloc(n_params + 1, sizeof *n->where);
    n->of = qr_xcalloc(n_params + 1, sizeof *n->of);
    n->coupled = qr_xcalloc(n_params + 1, sizeof *n->coupled);
    size_t at = 0;
    for (uint32_t p = 0; p < n_params; p++) {
        if (set_root(parent, p) != p) continue;
        struct coupled *c = &n->coupled[n->n_coupled];
        c->at = at;
        for (uint32_t q = p; q < n_params; q++)
            if (set_root(parent, q) == p) {
                n->order[at++] = q;
                n->of[q] = (uint32_t)n->n_coupled;
                n->where[q] = (uint32_t)c->n++;
            }
        if (c->n > n->widest) n->widest = c->n;
        n->n_coupled++;
    }
    free(parent);
    for (size_t k = 0; k < n->n_coupled; k++)
        n->coupled[k].square =
            qr_xcalloc(n->coupled[k].n * n->coupled[k].n, sizeof *n->coupled[k].square);
    n->scratch = qr_xcalloc(n->widest * n->widest + n->widest + 1, sizeof *n->scratch);
    n->part = qr_xcalloc(n->widest + 1, sizeof *n->part);
    n->derivative = qr_xcalloc(ARGUMENTS * (n->widest + 1), sizeof *n->derivative);
    n->by_node = qr_xcalloc(QR_EXPRESSION_NODES, sizeof *n->by_node);
}

enum qr_code qr_natural_gradient_new(const struct qr_circuit *circuit, enum qr_isa isa,
                                     struct qr_natural_gradient **ret, struct qr_err *err) {
    QR_ASSERT(circuit->n_columns == 0);
    if (qr_circuit_is_noisy(circuit))
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "quantum-natural-gradient: the circuit has noise channels, and its metric is "
            "that of pure states; choose another optimizer");
    struct qr_natural_gradient *n = qr_xcalloc(1, sizeof *n);
    n->circuit = qr_circuit_copy(circuit);
    enum qr_code code = find_blocks(n, err);
    for (size_t i = 0; i < n->n_blocks && code == QR_OK; i++)
        code = make_block(n, &n->blocks[i], isa, err);
    if (code != QR_OK) {
        qr_natural_gradient_free(n);
        return code;
    }
    find_parameter_sets(n);
    *ret = n;
    return QR_OK;
}

void qr_natural_gradient_free(struct qr_natural_gradient *n) {
    if (!n) return;
    for (size_t i = 0; i < n->n_blocks; i++) {
        struct natural_block *b = &n->blocks[i];
        qr_sim_workspace_free(b->workspace);
        qr_sim_bound_free(b->bound);
        qr_sim_plan_free(b->plan);
        free(b->argument), free(b->value), free(b->z), free(b->metric);
    }
    for (size_t i = 0; i < n->n_coupled; i++) free(n->coupled[i].square);
    free(n->blocks), free(n->coupled), free(n->order), free(n->where), free(n->of);
    free(n->scratch), free(n->part), free(n->derivative), free(n->by_node);
    qr_circuit_free(n->circuit);
    free(n);
}

size_t qr_natural_gradient_bytes(const struct qr_natural_gradient *n) {
    size_t bytes = ((ARGUMENTS + n->widest) * (n->widest + 1)) * sizeof(double);
    for (size_t i = 0; i < n->n_coupled; i++)
        bytes += n->coupled[i].n * n->coupled[i].n * sizeof(double);
    for (size_t i = 0; i < n->n_blocks; i++) {
        const struct natural_block *b = &n->blocks[i];
        bytes += (b->n * b->n + b->n_readouts) * sizeof(double) +
                 (b->n * (b->n + 3) / 2) * sizeof *b->value;
        if (b->plan) bytes += qr_sim_bytes_per_thread(b->plan, 1) + qr_sim_bound_bytes(b->plan);
    }
    return bytes;
}

/* ---- at a state ---- */

static double block_value(const struct natural_block *b, size_t i) {
    const struct natural_value *v = &b->value[i];
    return v->constant + (v->readout == no_readout ? 0 : b->z[v->readout]);
}

static void measure_block(struct natural_block *b, const double *theta, struct qr_pool *pool) {
    static const double none[1];
    if (b->plan) {
        qr_sim_bind(b->bound, theta, pool);
        qr_sim_forward(b->bound, b->workspace, pool, none, 0, 1, b->z);
    }
    for (size_t j = 0; j < b->n; j++)
        for (size_t i = 0; i <= j; i++)
            b->metric[i * b->n + j] = b->metric[j * b->n + i] =
                block_value(b, pair_at(b, i, j)) - block_value(b, i) * block_value(b, j);
}

/* ret[position in the set]: d argument / d parameter. */
static void derive_argument(struct qr_natural_gradient *n, const struct argument *a,
                            const double *theta, size_t width, double *ret) {
    const struct qr_gate_arg *arg = &argument_gate(n, a)->args[a->which];
    memset(ret, 0, width * sizeof *ret);
    if (arg->kind == QR_ARG_PARAMETER) {
        ret[n->where[arg->index]] = arg->scale;
        return;
    }
    const struct qr_expression *e = &n->circuit->expressions[arg->index];
    (void)qr_expression_derivatives(e, theta, NULL, n->by_node);
    for (unsigned i = 0; i < e->n; i++)
        if (e->node[i].op == QR_EXPRESSION_PARAMETER)
            ret[n->where[e->node[i].index]] += arg->scale * n->by_node[i];
}

/* The set of a block's parameters (all are in one); n_coupled: the block has none. */
static size_t block_set(const struct qr_natural_gradient *n, const struct natural_block *b) {
    uint32_t p;
    for (size_t a = 0; a < b->n; a++)
        if (next_parameter(n, &b->argument[a], 0, &p)) return n->of[p];
    return n->n_coupled;
}

/* square += J^T metric J */
static void add_block_metric(struct qr_natural_gradient *n, struct natural_block *b,
                             const double *theta) {
    size_t set = block_set(n, b);
    if (set == n->n_coupled) return;
    size_t w = n->coupled[set].n;
    double *square = n->coupled[set].square;
    for (size_t a = 0; a < b->n; a++)
        derive_argument(n, &b->argument[a], theta, w, n->derivative + a * w);
    for (size_t a = 0; a < b->n; a++) {
        memset(n->part, 0, w * sizeof *n->part); /* row a of metric J */
        for (size_t c = 0; c < b->n; c++)
            for (size_t q = 0; q < w; q++)
                n->part[q] += b->metric[a * b->n + c] * n->derivative[c * w + q];
        for (size_t p = 0; p < w; p++) {
            double by = n->derivative[a * w + p];
            if (by == 0) continue;
            for (size_t q = 0; q < w; q++) square[p * w + q] += by * n->part[q];
        }
    }
}

static void compute_metric(struct qr_natural_gradient *n, const double *theta,
                           struct qr_pool *pool) {
    for (size_t i = 0; i < n->n_coupled; i++)
        memset(n->coupled[i].square, 0,
               n->coupled[i].n * n->coupled[i].n * sizeof *n->coupled[i].square);
    for (size_t i = 0; i < n->n_blocks; i++) {
        measure_block(&n->blocks[i], theta, pool);
        add_block_metric(n, &n->blocks[i], theta);
    }
}

void qr_natural_gradient_apply(struct qr_natural_gradient *n, const double *theta,
                               double regularization, struct qr_pool *pool, double *gradient) {
    compute_metric(n, theta, pool);
    for (size_t k = 0; k < n->n_coupled; k++) {
        const struct coupled *c = &n->coupled[k];
        for (size_t i = 0; i < c->n; i++) {
            c->square[i * c->n + i] += regularization;
            n->part[i] = gradient[n->order[c->at + i]];
        }
        qr_pseudo_inverse_apply(c->n, c->square, cutoff, n->scratch, n->part);
        for (size_t i = 0; i < c->n; i++) gradient[n->order[c->at + i]] = n->part[i];
    }
}

void qr_natural_gradient_metric(struct qr_natural_gradient *n, const double *theta,
                                struct qr_pool *pool, double *ret) {
    size_t n_params = n->circuit->n_params;
    compute_metric(n, theta, pool);
    memset(ret, 0, n_params * n_params * sizeof *ret);
    for (size_t k = 0; k < n->n_coupled; k++) {
        const struct coupled *c = &n->coupled[k];
        for (size_t i = 0; i < c->n; i++)
            for (size_t j = 0; j < c->n; j++)
                ret[n->order[c->at + i] * n_params + n->order[c->at + j]] = c->square[i * c->n + j];
    }
}
