/* circuit/circuit.c — circuits: building, expressions, columns by name, natural order of names.
 * Start reading at qr_circuit_add(). */
#include "circuit/circuit.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "circuit/circuit_impl.h"

enum { FIRST_CAP = 64 };

struct qr_circuit *qr_circuit_new(unsigned n_qubits, unsigned n_columns) {
    QR_ASSERT(n_qubits >= 1 && n_qubits <= QR_MAX_QUBITS);
    struct qr_circuit *c = qr_xcalloc(1, sizeof *c);
    c->n_qubits = n_qubits;
    c->n_columns = n_columns;
    return c;
}

struct qr_circuit *qr_circuit_copy(const struct qr_circuit *c) {
    struct qr_circuit *copy = qr_circuit_new(c->n_qubits, c->n_columns);
    for (unsigned i = 0; i < c->n_params; i++) qr_circuit_append_param(copy, c->param_names[i]);
    copy->n_gates = copy->cap_gates = c->n_gates;
    copy->gates = qr_xreallocarray(NULL, c->n_gates + 1, sizeof *copy->gates);
    if (c->n_gates) memcpy(copy->gates, c->gates, c->n_gates * sizeof *copy->gates);
    for (size_t i = 0; i < c->n_expressions; i++) qr_circuit_expression(copy, &c->expressions[i]);
    for (size_t i = 0; i < c->n_channels; i++) qr_circuit_channel(copy, &c->channels[i]);
    qr_circuit_copy_classical(copy, c);
    copy->n_bits = c->n_bits;
    copy->measured = c->measured;
    if (c->n_named) copy->column_names = qr_xcalloc(c->n_named, sizeof *copy->column_names);
    for (unsigned i = 0; i < c->n_named; i++) /* NULL: a column without a name */
        if (c->column_names[i]) copy->column_names[i] = qr_xstrdup(c->column_names[i]);
    copy->n_named = c->n_named;
    return copy;
}

static void free_column_names(struct qr_circuit *c) {
    for (unsigned i = 0; i < c->n_named; i++) free(c->column_names[i]);
    free(c->column_names);
}

void qr_circuit_free(struct qr_circuit *c) {
    if (!c) return;
    for (unsigned i = 0; i < c->n_params; i++) free(c->param_names[i]);
    free(c->param_names);
    for (size_t i = 0; i < c->n_expressions; i++) qr_expression_fini(&c->expressions[i]);
    free(c->expressions);
    free(c->expression_slots);
    for (size_t i = 0; i < c->n_channels; i++) qr_channel_fini(&c->channels[i]);
    free(c->channels);
    free(c->channel_slots);
    free(c->conditions.list);
    free(c->readout_errors);
    free_column_names(c);
    free(c->gates);
    free(c);
}

uint32_t qr_circuit_append_param(struct qr_circuit *c, const char *name) {
    unsigned n = c->n_params;
    if ((n & (n - 1)) == 0) /* grow to the next power of two */
        c->param_names =
            qr_xreallocarray(c->param_names, n ? 2 * (size_t)n : 1, sizeof *c->param_names);
    c->param_names[n] = qr_xstrdup(name);
    return c->n_params++;
}

uint32_t qr_circuit_param(struct qr_circuit *c, const char *name) {
    for (unsigned i = 0; i < c->n_params; i++)
        if (strcmp(c->param_names[i], name) == 0) return i;
    return qr_circuit_append_param(c, name);
}

/* ---- expressions ---- */

static uint64_t add_to_hash(uint64_t h, double number, unsigned kind, uint32_t index) {
    h = (h ^ qr_bits_of_double(number)) * UINT64_C(0x9e3779b97f4a7c15);
    return (h ^ h >> 29 ^ ((uint64_t)kind << 32 | index)) * UINT64_C(0xbf58476d1ce4e5b9);
}

static uint64_t expression_hash(const struct qr_expression *e) {
    uint64_t h = e->n;
    for (unsigned i = 0; i < e->n; i++)
        h = add_to_hash(h, e->node[i].number, e->node[i].op, e->node[i].index);
    return h ^ h >> 32;
}

/* The slot that holds the expression, or a free one; a slot holds 1 + the expression's index. */
static size_t expression_slot(const struct qr_circuit *c, const struct qr_expression *e) {
    size_t last = 2 * c->cap_expressions - 1, at = expression_hash(e) & last;
    while (c->expression_slots[at] &&
           !qr_expression_equal(&c->expressions[c->expression_slots[at] - 1], e))
        at = (at + 1) & last;
    return at;
}

static void grow_expressions(struct qr_circuit *c) {
    c->cap_expressions = c->cap_expressions ? 2 * c->cap_expressions : FIRST_CAP;
    c->expressions = qr_xreallocarray(c->expressions, c->cap_expressions, sizeof *c->expressions);
    free(c->expression_slots);
    c->expression_slots = qr_xcalloc(2 * c->cap_expressions, sizeof *c->expression_slots);
    for (size_t i = 0; i < c->n_expressions; i++)
        c->expression_slots[expression_slot(c, &c->expressions[i])] = (uint32_t)i + 1;
}

uint32_t qr_circuit_expression(struct qr_circuit *c, const struct qr_expression *e) {
    if (c->n_expressions == c->cap_expressions) grow_expressions(c);
    size_t at = expression_slot(c, e);
    if (!c->expression_slots[at]) {
        c->expressions[c->n_expressions++] = qr_expression_copy(e);
        c->expression_slots[at] = (uint32_t)c->n_expressions;
    }
    return c->expression_slots[at] - 1;
}

/* ---- conditions, read-out errors ---- */

uint32_t qr_conditions_add(struct qr_conditions *to, const struct qr_condition *condition) {
    const struct qr_condition *last = to->n ? &to->list[to->n - 1] : NULL;
    if (last && qr_qubits_equal(&last->bits, &condition->bits) &&
        qr_qubits_equal(&last->values, &condition->values))
        return (uint32_t)to->n;
    if (to->n == to->cap) {
        to->cap = to->cap ? 2 * to->cap : 4;
        to->list = qr_xreallocarray(to->list, to->cap, sizeof *to->list);
    }
    to->list[to->n++] = *condition;
    return (uint32_t)to->n;
}

void qr_circuit_copy_classical(struct qr_circuit *to, const struct qr_circuit *from) {
    size_t bytes = from->n_qubits * sizeof *from->readout_errors;
    for (size_t i = 0; i < from->conditions.n; i++)
        (void)qr_conditions_add(&to->conditions, &from->conditions.list[i]);
    if (!from->readout_errors) return;
    to->readout_errors = qr_xcalloc(1, bytes);
    memcpy(to->readout_errors, from->readout_errors, bytes);
}

/* ---- channels ---- */

static uint64_t channel_hash(const struct qr_channel *c) {
    uint64_t h = c->n_kraus;
    size_t n = (size_t)c->n_kraus << 2 * c->info->n_targets;
    for (unsigned k = 0; k < c->info->n_args; k++)
        h = add_to_hash(h, c->args[k].scale, c->args[k].kind, c->args[k].index);
    for (size_t i = 0; i < n; i++)
        h = add_to_hash(add_to_hash(h, creal(c->kraus[i]), 0, 0), cimag(c->kraus[i]), 0, 0);
    return h ^ h >> 32;
}

/* As expression_slot. */
static size_t channel_slot(const struct qr_circuit *c, const struct qr_channel *channel) {
    size_t last = 2 * c->cap_channels - 1, at = channel_hash(channel) & last;
    while (c->channel_slots[at] &&
           !qr_channel_equal(&c->channels[c->channel_slots[at] - 1], channel))
        at = (at + 1) & last;
    return at;
}

static void fill_channel_slots(struct qr_circuit *c) {
    free(c->channel_slots);
    c->channel_slots = qr_xcalloc(2 * c->cap_channels, sizeof *c->channel_slots);
    for (size_t i = 0; i < c->n_channels; i++)
        c->channel_slots[channel_slot(c, &c->channels[i])] = (uint32_t)i + 1;
}

static void grow_channels(struct qr_circuit *c) {
    c->cap_channels = c->cap_channels ? 2 * c->cap_channels : FIRST_CAP;
    c->channels = qr_xreallocarray(c->channels, c->cap_channels, sizeof *c->channels);
    fill_channel_slots(c);
}

uint32_t qr_circuit_channel(struct qr_circuit *c, const struct qr_channel *channel) {
    if (c->n_channels == c->cap_channels) grow_channels(c);
    size_t at = channel_slot(c, channel);
    if (!c->channel_slots[at]) {
        c->channels[c->n_channels++] = qr_channel_copy(channel);
        c->channel_slots[at] = (uint32_t)c->n_channels;
    }
    return c->channel_slots[at] - 1;
}

enum qr_code qr_circuit_add_channel(struct qr_circuit *c, uint32_t channel, const uint16_t *qubits,
                                    struct qr_err *err) {
    struct qr_gate g = {.kind = QR_GATE_CHANNEL,
                        .n_targets = c->channels[channel].info->n_targets,
                        .channel = channel};
    memcpy(g.targets, qubits, g.n_targets * sizeof *qubits);
    return qr_circuit_add(c, &g, err);
}

const struct qr_gate_arg *qr_circuit_gate_args(const struct qr_circuit *c, const struct qr_gate *g,
                                               unsigned *ret_n) {
    if (g->kind != QR_GATE_CHANNEL) {
        *ret_n = g->n_args;
        return g->args;
    }
    *ret_n = c->channels[g->channel].info->n_args;
    return c->channels[g->channel].args;
}

bool qr_circuit_is_noisy(const struct qr_circuit *c) {
    for (size_t i = 0; i < c->n_gates; i++)
        if (c->gates[i].kind == QR_GATE_CHANNEL) return true;
    return false;
}

bool qr_circuit_measures(const struct qr_circuit *c) {
    for (size_t i = 0; i < c->n_channels; i++)
        if (c->channels[i].info->measures) return true;
    return false;
}

/* ---- columns ---- */

static void resolve_column(const struct qr_circuit *c, const uint32_t *place, uint32_t *column) {
    unsigned n_numbered = c->n_columns - c->n_named;
    if (*column >= n_numbered) *column = place[*column - n_numbered];
}

static enum qr_code find_column_indices(const struct qr_circuit *c, const char *const *names,
                                        unsigned n, uint32_t *ret, struct qr_err *err) {
    if (c->n_columns - c->n_named > n) {
        qr_auto(qr_free_p) char *last = n > 1 ? qr_xasprintf(" to x[%u]", n - 1) : NULL;
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "the circuit uses input x[%u], but there %s %u input%s%s%s; correct the "
                       "expression, the qubits or data.columns",
                       c->n_columns - c->n_named - 1, n == 1 ? "is" : "are", n, n == 1 ? "" : "s",
                       n ? ", x[0]" : "", last ? last : "");
    }
    for (unsigned i = 0; i < c->n_named; i++) {
        unsigned k = 0;
        const char *name = c->column_names[i];
        while (k < n && !(names[k] && strcmp(names[k], name) == 0)) k++;
        if (k == n)
            return qr_fail(
                err, QR_INVALID_ARGUMENT,
                "the circuit refers to x.%.64s, but no column has this name; correct the "
                "name",
                name);
        ret[i] = k;
    }
    return QR_OK;
}

/* Expressions that differed may become equal. */
static void resolve_expressions(struct qr_circuit *c, const uint32_t *place, uint32_t *moved) {
    struct qr_expression *old = c->expressions;
    size_t n = c->n_expressions;
    free(c->expression_slots);
    c->expressions = NULL;
    c->expression_slots = NULL;
    c->n_expressions = c->cap_expressions = 0;
    for (size_t i = 0; i < n; i++) {
        for (unsigned k = 0; k < old[i].n; k++) {
            struct qr_expression_node *node = &old[i].node[k];
            if (node->op == QR_EXPRESSION_INPUT) resolve_column(c, place, &node->index);
            if (node->op == QR_EXPRESSION_SHARED) node->index = moved[node->index];
        }
        moved[i] = qr_circuit_expression(c, &old[i]);
        qr_expression_fini(&old[i]);
    }
    free(old);
}

static void resolve_gates(struct qr_circuit *c, const uint32_t *place, const uint32_t *moved) {
    for (size_t i = 0; i < c->n_gates; i++)
        for (unsigned k = 0; k < c->gates[i].n_args; k++) {
            struct qr_gate_arg *a = &c->gates[i].args[k];
            if (a->kind == QR_ARG_DATA) resolve_column(c, place, &a->index);
            if (a->kind == QR_ARG_EXPRESSION) a->index = moved[a->index];
        }
    for (size_t i = 0; i < c->n_channels; i++)
        for (unsigned k = 0; k < c->channels[i].info->n_args; k++) {
            struct qr_gate_arg *a = &c->channels[i].args[k];
            if (a->kind == QR_ARG_EXPRESSION) a->index = moved[a->index];
        }
    if (c->n_channels) fill_channel_slots(c);
}

enum qr_code qr_circuit_resolve_columns(struct qr_circuit *c, const char *const *names, unsigned n,
                                        struct qr_err *err) {
    uint32_t *place = qr_xcalloc(c->n_named + 1, sizeof *place),
             *moved = qr_xcalloc(c->n_expressions + 1, sizeof *moved);
    enum qr_code code = find_column_indices(c, names, n, place, err);
    if (!code) {
        char **own = qr_xcalloc(n + 1, sizeof *own);
        for (unsigned i = 0; i < n; i++)
            if (names[i]) own[i] = qr_xstrdup(names[i]);
        resolve_expressions(c, place, moved);
        resolve_gates(c, place, moved);
        free_column_names(c);
        c->column_names = own;
        c->n_columns = c->n_named = n;
    }
    free(place);
    free(moved);
    return code;
}

void qr_circuit_used_columns(const struct qr_circuit *c, uint8_t *is) {
    for (size_t i = 0; i < c->n_gates; i++)
        for (unsigned k = 0; k < c->gates[i].n_args; k++) {
            const struct qr_gate_arg *a = &c->gates[i].args[k];
            if (a->kind == QR_ARG_DATA) is[a->index] = 1;
        }
    for (size_t i = 0; i < c->n_expressions; i++)
        for (unsigned k = 0; k < c->expressions[i].n; k++)
            if (c->expressions[i].node[k].op == QR_EXPRESSION_INPUT)
                is[c->expressions[i].node[k].index] = 1;
}

/* ---- gates ---- */

static enum qr_code check_arg(const struct qr_circuit *c, const struct qr_gate_arg *a,
                              const char *arg, struct qr_err *err) {
    if (!isfinite(a->scale))
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s is not a finite number", arg);
    switch (a->kind) {
    case QR_ARG_CONSTANT: return QR_OK;
    case QR_ARG_PARAMETER:
        if (a->index < c->n_params) return QR_OK;
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s refers to parameter %u of %u", arg, a->index,
                       c->n_params);
    case QR_ARG_DATA:
        if (a->index < c->n_columns) return QR_OK;
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s refers to data column %u, but the circuit has %u (counted from 0)", arg,
                       a->index, c->n_columns);
    case QR_ARG_EXPRESSION:
        if (a->index < c->n_expressions) return QR_OK;
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s refers to expression %u of %zu", arg, a->index,
                       c->n_expressions);
    }
    return qr_fail(err, QR_INVALID_ARGUMENT, "%s is of unknown kind %d", arg, (int)a->kind);
}

static enum qr_code check_qubits(const struct qr_circuit *c, const struct qr_gate *g,
                                 struct qr_err *err) {
    for (unsigned i = 0; i < g->n_targets; i++)
        if (g->targets[i] >= c->n_qubits)
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "qubit %u is out of range, the circuit has qubits 0 to %u",
                           g->targets[i], c->n_qubits - 1);
    if (g->n_targets == 2 && g->targets[0] == g->targets[1])
        return qr_fail(err, QR_INVALID_ARGUMENT, "qubit %u is given twice", g->targets[0]);
    unsigned outside = qr_qubits_next(&g->controls, c->n_qubits - 1);
    if (outside < QR_MAX_QUBITS)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "control %u is out of range, the circuit has qubits 0 to %u", outside,
                       c->n_qubits - 1);
    for (unsigned i = 0; i < g->n_targets; i++)
        if (qr_qubits_has(&g->controls, g->targets[i]))
            return qr_fail(err, QR_INVALID_ARGUMENT, "qubit %u is a target and a control",
                           g->targets[i]);
    const struct qr_qubits *values = &g->control_values;
    for (unsigned q = qr_qubits_first(values); q < QR_MAX_QUBITS; q = qr_qubits_next(values, q))
        if (!qr_qubits_has(&g->controls, q))
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "a control value is given for qubit %u, which is not a control", q);
    return QR_OK;
}

static enum qr_code check_known_gate(const struct qr_circuit *c, const struct qr_gate *g,
                                     const struct qr_gate_info *info, struct qr_err *err) {
    if (g->n_targets != info->n_targets)
        return qr_fail(err, QR_INVALID_ARGUMENT, "acts on %u qubit%s, but %u were given",
                       info->n_targets, info->n_targets == 1 ? "" : "s", g->n_targets);
    if (g->n_args != info->n_args)
        return qr_fail(err, QR_INVALID_ARGUMENT, "takes %u argument%s, but %u were given",
                       info->n_args, info->n_args == 1 ? "" : "s", g->n_args);
    QR_TRY(check_qubits(c, g, err));
    for (unsigned k = 0; k < g->n_args; k++)
        QR_TRY(check_arg(c, &g->args[k], info->arg_names[k], err));
    if (!isfinite(g->global_shift))
        return qr_fail(err, QR_INVALID_ARGUMENT, "global_shift is not a finite number");
    if (g->global_shift != 0 && !info->has_exponent)
        return qr_fail(err, QR_INVALID_ARGUMENT, "has no exponent, so it can have no global_shift");
    return QR_OK;
}

static enum qr_code check_channel(const struct qr_circuit *c, const struct qr_gate *g,
                                  struct qr_err *err) {
    if (g->channel >= c->n_channels)
        return qr_fail(err, QR_INVALID_ARGUMENT, "refers to channel %u of %zu", g->channel,
                       c->n_channels);
    const struct qr_channel *n = &c->channels[g->channel];
    if (g->bit && (!n->info->measures || g->bit > QR_MAX_QUBITS))
        return qr_fail(err, QR_INVALID_ARGUMENT, "cannot set bit %u", g->bit - 1u);
    if (g->condition && n->info->measures)
        return qr_fail(err, QR_INVALID_ARGUMENT, "a measurement has a condition");
    if (g->n_targets != n->info->n_targets || g->n_args)
        return qr_fail(err, QR_INVALID_ARGUMENT, "acts on %u qubits without arguments",
                       n->info->n_targets);
    QR_TRY(check_qubits(c, g, err));
    if (!qr_qubits_is_empty(&g->controls))
        return qr_fail(err, QR_INVALID_ARGUMENT, "cannot be controlled");
    for (unsigned k = 0; k < n->info->n_args; k++) {
        QR_TRY(check_arg(c, &n->args[k], n->info->arg_names[k], err));
        if (n->args[k].kind == QR_ARG_DATA)
            return qr_fail(err, QR_INVALID_ARGUMENT, "%s cannot depend on inputs",
                           n->info->arg_names[k]);
    }
    return QR_OK;
}

static enum qr_code check_condition(const struct qr_circuit *c, const struct qr_gate *g,
                                    struct qr_err *err) {
    if (!g->condition) return QR_OK;
    if (g->condition > c->conditions.n)
        return qr_fail(err, QR_INVALID_ARGUMENT, "refers to condition %u of %zu", g->condition,
                       c->conditions.n);
    const struct qr_qubits *bits = &c->conditions.list[g->condition - 1].bits;
    for (unsigned b = qr_qubits_first(bits); b < QR_MAX_QUBITS; b = qr_qubits_next(bits, b))
        if (!qr_qubits_has(&c->measured, b))
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "depends on bit %u, which was not measured before; measure it", b);
    return QR_OK;
}

static enum qr_code check_gate(const struct qr_circuit *c, size_t i, const struct qr_gate *g,
                               struct qr_err *err) {
    if (g->kind == QR_GATE_CHANNEL) {
        enum qr_code code = check_channel(c, g, err);
        if (!code) code = check_condition(c, g, err);
        return code ? qr_wrap(err, "gate %zu (channel)", i) : QR_OK;
    }
    if ((unsigned)g->kind >= QR_GATE_KINDS)
        return qr_fail(err, QR_INVALID_ARGUMENT, "gate %zu: unknown kind %d", i, (int)g->kind);
    const struct qr_gate_info *info = qr_gate_info(g->kind);
    enum qr_code code = check_known_gate(c, g, info, err);
    if (!code) code = check_condition(c, g, err);
    return code ? qr_wrap(err, "gate %zu (%s)", i, info->name) : QR_OK;
}

static void note_bit(struct qr_circuit *c, const struct qr_gate *g) {
    if (g->kind != QR_GATE_CHANNEL || !g->bit) return;
    qr_qubits_add(&c->measured, g->bit - 1u);
    if (g->bit > c->n_bits) c->n_bits = g->bit;
}

enum qr_code qr_circuit_add(struct qr_circuit *c, const struct qr_gate *g, struct qr_err *err) {
    QR_TRY(check_gate(c, c->n_gates, g, err));
    note_bit(c, g);
    if (c->n_gates == c->cap_gates) {
        c->cap_gates = c->cap_gates ? 2 * c->cap_gates : FIRST_CAP;
        c->gates = qr_xreallocarray(c->gates, c->cap_gates, sizeof *c->gates);
    }
    c->gates[c->n_gates++] = *g;
    return QR_OK;
}

enum qr_code qr_circuit_take(struct qr_circuit *c, struct qr_gate **gates, size_t n,
                             struct qr_err *err) {
    for (size_t i = 0; i < n; i++) {
        QR_TRY(check_gate(c, i, &(*gates)[i], err));
        note_bit(c, &(*gates)[i]);
    }
    c->gates = QR_MOVE(*gates);
    c->n_gates = c->cap_gates = n;
    return QR_OK;
}

/* ---- names in natural order ---- */

static bool circuit_is_digit(char ch) { return ch >= '0' && ch <= '9'; }

int qr_natural_compare(const char *a, const char *b) {
    const char *p = a, *q = b;
    while (*p && *q) {
        if (!circuit_is_digit(*p) || !circuit_is_digit(*q)) {
            if (*p != *q) return (unsigned char)*p < (unsigned char)*q ? -1 : 1;
            p++, q++;
            continue;
        }
        while (*p == '0') p++;
        while (*q == '0') q++;
        size_t np = 0, nq = 0;
        while (circuit_is_digit(p[np])) np++;
        while (circuit_is_digit(q[nq])) nq++;
        if (np != nq) return np < nq ? -1 : 1;
        int order = memcmp(p, q, np);
        if (order) return order < 0 ? -1 : 1;
        p += np, q += nq;
    }
    if (*p || *q) return *p ? 1 : -1;
    int order = strcmp(a, b); /* "p01" and "p1" are different names */
    return (order > 0) - (order < 0);
}
