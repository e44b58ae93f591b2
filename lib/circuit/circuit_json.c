/* circuit/circuit_json.c — circuits of job files. Start reading at qr_circuit_from_json(). */
#include "circuit/circuit_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "circuit/circuit_impl.h"
#include "circuit/gate_items.h"
#include "circuit/qcnn.h"

/* ---- the circuit ---- */

static int compare_parameter_refs(const void *a, const void *b) {
    const struct qr_parameter_ref *x = a, *y = b;
    int order = qr_natural_compare(x->name, y->name);
    return order ? order : x->number < y->number ? -1 : 1;
}

/* Named columns follow the numbered ones. */
static uint32_t column_index(const struct qr_gate_reader *r, uint32_t index) {
    return index < QR_MAX_COLUMNS ? index : r->n_columns + (index - QR_MAX_COLUMNS);
}

/* Adds expression i after those that it shares; returns its index in the circuit. added: 1 + the
 * index of each expression that was added, or 0. */
static uint32_t add_expression(struct qr_gate_reader *r, struct qr_circuit *c, uint32_t i,
                               uint32_t *added) {
    struct qr_expression *e = &r->expressions[i];
    if (added[i]) return added[i] - 1;
    for (unsigned k = 0; k < e->n; k++)
        if (e->node[k].op == QR_EXPRESSION_SHARED)
            e->node[k].index = add_expression(r, c, e->node[k].index, added);
    added[i] = qr_circuit_expression(c, e) + 1;
    return added[i] - 1;
}

/* Whether a gate has each reference; gates of a power 0, for example, were dropped. */
static void mark_mentions(const struct qr_gate_reader *r, const struct qr_gate_arg *args,
                          unsigned n_args, uint8_t *used) {
    for (const struct qr_gate_arg *a = args; a < args + n_args; a++) {
        if (a->kind == QR_ARG_PARAMETER) used[a->index] = 1;
        if (a->kind != QR_ARG_EXPRESSION) continue;
        const struct qr_expression *e = &r->expressions[a->index];
        for (unsigned n = 0; n < e->n; n++)
            if (e->node[n].op == QR_EXPRESSION_PARAMETER) used[e->node[n].index] = 1;
    }
}

static uint8_t *find_used_mentions(const struct qr_gate_reader *r) {
    uint8_t *used = qr_xcalloc(r->n_mentions + 1, 1);
    for (size_t i = 0; i < r->list.n; i++) {
        const struct qr_gate *g = &r->list.gates[i];
        const struct qr_channel *c = g->kind == QR_GATE_CHANNEL ? &r->channels[g->channel] : NULL;
        if (c) mark_mentions(r, c->args, c->info->n_args, used);
        else mark_mentions(r, g->args, g->n_args, used);
    }
    return used;
}

/* Replaces references with indices, those of parameters by `index`. */
static void number_arguments(struct qr_gate_reader *r, struct qr_circuit *c, const uint32_t *index,
                             uint32_t *added, struct qr_gate_arg *args, unsigned n_args) {
    for (struct qr_gate_arg *a = args; a < args + n_args; a++) {
        if (a->kind == QR_ARG_PARAMETER) a->index = index[a->index];
        if (a->kind == QR_ARG_DATA) a->index = column_index(r, a->index);
        if (a->kind == QR_ARG_EXPRESSION) a->index = add_expression(r, c, a->index, added);
    }
}

/* Replaces references with indices: parameters in natural order. Moves the channels in use. */
static void number_names(struct qr_gate_reader *r, struct qr_circuit *c) {
    uint32_t *index = qr_xcalloc(r->n_mentions + 1, sizeof *index),
             *added = qr_xcalloc(r->n_expressions + 1, sizeof *added);
    qr_auto(qr_free_p) uint8_t *used = find_used_mentions(r);
    if (r->n_mentions)
        qsort(r->mentions, r->n_mentions, sizeof *r->mentions, compare_parameter_refs);
    for (size_t i = 0; i < r->n_mentions; i++) {
        const struct qr_parameter_ref *m = &r->mentions[i];
        if (!used[m->number]) continue;
        if (!c->n_params || strcmp(m->name, c->param_names[c->n_params - 1]) != 0)
            qr_circuit_append_param(c, m->name);
        index[m->number] = c->n_params - 1;
    }
    for (size_t i = 0; i < r->n_expressions; i++)
        for (unsigned k = 0; k < r->expressions[i].n; k++) {
            struct qr_expression_node *n = &r->expressions[i].node[k];
            if (n->op == QR_EXPRESSION_PARAMETER) n->index = index[n->index];
            if (n->op == QR_EXPRESSION_INPUT) n->index = column_index(r, n->index);
        }
    for (size_t i = 0; i < r->list.n; i++) {
        struct qr_gate *g = &r->list.gates[i];
        number_arguments(r, c, index, added, g->args, g->n_args);
        if (g->condition)
            g->condition = qr_conditions_add(&c->conditions, &r->conditions.list[g->condition - 1]);
        if (g->kind != QR_GATE_CHANNEL) continue;
        struct qr_channel channel = r->channels[g->channel]; /* its operators are borrowed */
        number_arguments(r, c, index, added, channel.args, channel.info->n_args);
        g->channel = qr_circuit_channel(c, &channel);
    }
    free(index);
    free(added);
}

enum qr_code qr_circuit_build(struct qr_gate_reader *r, const char *where,
                              struct qr_circuit **ret) {
    struct qr_circuit *c = qr_circuit_new(r->n_qubits, r->n_columns + r->n_named);
    number_names(r, c);
    c->n_named = r->n_named;
    c->column_names = QR_MOVE(r->column_names);
    r->n_named = 0;
    if (qr_circuit_take(c, &r->list.gates, r->list.n, r->err) != QR_OK) {
        qr_circuit_free(c);
        return qr_wrap(r->err, "%s.gates", where);
    }
    *ret = c;
    return QR_OK;
}

static enum qr_code read_gate_list(struct qr_gate_reader *r, const struct qr_json *circuit,
                                   const char *where, struct qr_circuit **ret) {
    struct qr_path path = qr_path_of("%s.columns", where);
    const struct qr_json *columns = qr_json_get(circuit, "columns"),
                         *gates = qr_json_get(circuit, "gates");
    enum qr_code code;
    int64_t n;
    if (columns) {
        if ((code = qr_json_i64(columns, path.s, 0, QR_MAX_COLUMNS, &n, r->err))) return code;
        r->n_columns = (unsigned)n;
        r->columns_given = true;
    }
    path = qr_path_of("%s.gates", where);
    if ((code = qr_json_want(gates, path.s, QR_JSON_ARRAY, r->err))) return code;
    size_t n_gates = qr_json_size(gates);
    if (n_gates < 1 || n_gates > QR_MAX_GATES)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s has %zu gates; it must have 1 to %d",
                       path.s, n_gates, QR_MAX_GATES);
    if ((code = qr_items_read(r, gates, path.s))) return code;
    if (!r->list.n)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s has no gates: all its repeats have 0 repetitions, or powers 0", path.s);
    return qr_circuit_build(r, where, ret);
}

static enum qr_code read_qcnn(struct qr_gate_reader *r, const struct qr_json *circuit,
                              const char *where, struct qr_circuit **ret,
                              struct qr_qubits *ret_readouts) {
    static const char *const variants[] = {
        [QR_QCNN_NOTEBOOK] = "notebook", [QR_QCNN_RESEARCH] = "research"};
    const struct qr_json *stages = qr_json_get(circuit, "stages"),
                         *variant = qr_json_get(circuit, "variant");
    struct qr_qcnn_options opt = {.n_qubits = r->n_qubits};
    enum qr_code code;
    if (stages) {
        int64_t n;
        struct qr_path path = qr_path_of("%s.stages", where);
        if ((code = qr_json_i64(stages, path.s, 1, QR_MAX_QUBITS, &n, r->err))) return code;
        opt.n_stages = (unsigned)n;
    }
    if (variant) {
        size_t which;
        struct qr_path path = qr_path_of("%s.variant", where);
        if ((code = qr_json_choice(variant, path.s, variants, 2, &which, r->err))) return code;
        opt.variant = (enum qr_qcnn_variant)which;
    }
    code = qr_qcnn_new(&opt, ret, ret_readouts, r->err);
    return code && r->err ? qr_wrap(r->err, "%s", where) : code;
}

/* A circuit from an ansatz; *ret_readouts are the qubits that it leaves. */
static enum qr_code read_ansatz_circuit(struct qr_gate_reader *r, const struct qr_json *circuit,
                                        const char *where, const struct qr_ansatz *row,
                                        struct qr_circuit **ret, struct qr_qubits *ret_readouts) {
    uint16_t qubits[QR_MAX_QUBITS];
    if (!row) return read_qcnn(r, circuit, where, ret, ret_readouts);
    for (unsigned q = 0; q < r->n_qubits; q++) {
        qubits[q] = (uint16_t)q;
        qr_qubits_add(ret_readouts, q);
    }
    QR_TRY(qr_ansatz_read(r, circuit, where, row, qubits, r->n_qubits));
    return qr_circuit_build(r, where, ret);
}

/* Fails on a circuit with neither "ansatz" nor "gates"; suggests a key. */
static enum qr_code reject_circuit(const struct qr_json *circuit, const char *where,
                                   struct qr_err *err) {
    static const char *const known[] = {"ansatz",  "qubits",  "stages", "variant",
                                        "filters", "columns", "gates",  "noise"};
    QR_TRY(qr_json_known(circuit, where, known, 8, err));
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "%s must have \"ansatz\": \"qcnn\", or \"gates\": [...]", where);
}

enum qr_code qr_circuit_from_json(const struct qr_json *circuit, const char *where,
                                  struct qr_circuit **ret, struct qr_qubits *ret_default_readouts,
                                  struct qr_err *err) {
    static const char *const of_gates[] = {"qubits", "columns", "gates", "noise"};
    QR_TRY(qr_json_want(circuit, where, QR_JSON_OBJECT, err));
    const struct qr_json *ansatz = qr_json_get(circuit, "ansatz"),
                         *gates = qr_json_get(circuit, "gates");
    const struct qr_ansatz *row = NULL;
    struct qr_path path = qr_path_of("%s.qubits", where);
    enum qr_code code = ansatz && gates
                            ? qr_fail(err, QR_INVALID_ARGUMENT,
                                      "%s has both \"ansatz\" and \"gates\"; give one", where)
                        : ansatz ? qr_ansatz_named(circuit, where, &row, err)
                        : gates  ? qr_json_known(circuit, where, of_gates, 4, err)
                                 : reject_circuit(circuit, where, err);
    int64_t n_qubits;
    if (!code)
        code =
            qr_json_i64(qr_json_get(circuit, "qubits"), path.s, 1, QR_MAX_QUBITS, &n_qubits, err);
    if (code) return code;
    struct qr_gate_reader r = {.n_qubits = (unsigned)n_qubits, .err = err};
    struct qr_circuit *built = NULL;
    struct qr_qubits readouts = {0};
    code = ansatz ? read_ansatz_circuit(&r, circuit, where, row, &built, &readouts)
                  : read_gate_list(&r, circuit, where, &built);
    for (unsigned q = 0; !ansatz && q < r.n_qubits; q++) qr_qubits_add(&readouts, q);
    qr_gate_reader_fini(&r);
    if (code) return code;
    code =
        qr_noise_read(qr_json_get(circuit, "noise"), qr_path_of("%s.noise", where).s, &built, err);
    if (code) {
        qr_circuit_free(built);
        return code;
    }
    *ret = built;
    *ret_default_readouts = readouts;
    return QR_OK;
}
