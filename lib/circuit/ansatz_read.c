/* circuit/ansatz_read.c — ansätze of job files: their keys, and their gates read as items of a
 * list. Start reading at qr_ansatz_read(). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "circuit/composite_gates.h"
#include "circuit/gate_items.h"

struct ansatz_reader {
    struct qr_gate_reader *r;
    const char *where;
    const uint16_t *qubits; /* by position */
    unsigned n;
};

/* ---- gates ---- */

static enum qr_code read_angle(struct ansatz_reader *at, const struct qr_ansatz_angle *a,
                               struct qr_gate_arg *ret) {
    *ret = (struct qr_gate_arg){QR_ARG_CONSTANT, a->factor, 0};
    if (a->kind == QR_ANSATZ_NUMBER) return QR_OK;
    if (a->kind == QR_ANSATZ_TEXT) {
        enum qr_code code = qr_gate_expression(at->r, a->name, at->where, ret);
        ret->scale *= a->factor;
        return code;
    }
    if (a->kind == QR_ANSATZ_INPUT) {
        ret->kind = QR_ARG_DATA;
        ret->index = a->column;
        return QR_OK;
    }
    if (a->kind == QR_ANSATZ_SHARED) {
        ret->kind = QR_ARG_EXPRESSION;
        ret->index = a->column;
        return QR_OK;
    }
    ret->kind = QR_ARG_PARAMETER;
    return qr_gate_parameter_ref(at->r, a->name, false, at->where, &ret->index);
}

static void add_native_gate(struct ansatz_reader *at, const struct qr_ansatz_gate *g,
                            enum qr_gate_kind kind, const uint16_t *qubits,
                            struct qr_gate_arg arg) {
    struct qr_gate gate = {.kind = kind,
                           .n_targets = (uint8_t)g->n_positions,
                           .n_args = qr_gate_info(kind)->n_args,
                           .targets = {qubits[0], g->n_positions > 1 ? qubits[1] : 0},
                           .args = {arg},
                           .controls = at->r->controls,
                           .control_values = at->r->control_values};
    if (g->n_angles) {
        gate.args[0].scale /= M_PI;
        gate.global_shift = -0.5;
    }
    qr_gate_list_add(&at->r->list, &gate);
}

static enum qr_code ansatz_host_add(void *host, const struct qr_ansatz_gate *g) {
    struct ansatz_reader *at = host;
    uint16_t qubits[QR_MAX_QUBITS];
    struct qr_gate_use use = {.qubits = qubits,
                              .n_qubits = g->n_positions,
                              .paulis = g->paulis,
                              .controls = at->r->controls,
                              .control_values = at->r->control_values};
    use.args[0] = (struct qr_gate_arg){QR_ARG_CONSTANT, 1, 0};
    for (unsigned i = 0; i < g->n_positions; i++) qubits[i] = at->qubits[g->positions[i]];
    for (unsigned k = 0; k < g->n_angles; k++) {
        QR_TRY(read_angle(at, &g->angles[k], &use.args[k]));
    }
    int kind = qr_gate_kind_of(g->name);
    if (kind >= 0) {
        add_native_gate(at, g, (enum qr_gate_kind)kind, qubits, use.args[0]);
    } else {
        use.gate = qr_composite_gate_of(g->name);
        QR_ASSERT(use.gate);
        qr_gate_expand(&use, &at->r->list);
    }
    return qr_items_bounded(at->r, at->where);
}

static enum qr_code ansatz_host_add_phase(void *host, const struct qr_ansatz_angle *angle) {
    struct ansatz_reader *at = host;
    struct qr_gate_arg arg;
    if (qr_qubits_is_empty(&at->r->controls)) return QR_OK;
    QR_TRY(read_angle(at, angle, &arg));
    arg.scale /= M_PI;
    qr_gate_list_add_phase(&at->r->list, &at->r->controls, &at->r->control_values, arg);
    return qr_items_bounded(at->r, at->where);
}

static enum qr_code ansatz_host_combine(void *host, enum qr_expression_op op,
                                        struct qr_expression_node a, struct qr_expression_node b,
                                        struct qr_expression_node *ret) {
    struct ansatz_reader *at = host;
    *ret = (struct qr_expression_node){.op = QR_EXPRESSION_SHARED};
    return qr_gate_combine(at->r, op, a, b, at->where, &ret->index);
}

static enum qr_code ansatz_host_count(void *host, const char *path, size_t n) {
    return qr_gate_add_reads(((struct ansatz_reader *)host)->r, path, n);
}

static enum qr_code ansatz_host_add_list(void *host, const struct qr_json *gates, const char *path,
                                         const uint16_t *positions, unsigned n,
                                         const char *prefix) {
    struct ansatz_reader *at = host;
    struct qr_gate_reader *r = at->r;
    const uint16_t *map = r->map;
    unsigned n_map = r->n_map;
    const char *around = r->prefix;
    struct qr_index_scope scope = r->scope;
    char whole[QR_PATH_BYTES];
    uint16_t *qubits = qr_xcalloc(n, sizeof *qubits);
    for (unsigned i = 0; i < n; i++) qubits[i] = at->qubits[positions[i]];
    snprintf(whole, sizeof whole, "%s%s", around ? around : "", prefix);
    r->map = qubits, r->n_map = n, r->prefix = whole;
    if (r->scope.n) r->scope.known[0].value = n; /* its name is "n" */
    enum qr_code code = qr_items_read(r, gates, path);
    r->map = map, r->n_map = n_map, r->prefix = around, r->scope = scope;
    free(qubits);
    return code;
}

/* ---- keys ---- */

static enum qr_code ansatz_host_read_columns(void *host, const struct qr_json *v, const char *path,
                                             unsigned n, uint32_t *ret) {
    struct ansatz_reader *at = host;
    enum qr_code code = QR_OK;
    bool list = v && qr_json_type(v) == QR_JSON_ARRAY;
    if (list && qr_json_size(v) != n)
        return qr_fail(at->r->err, QR_INVALID_ARGUMENT, "%s has %zu columns for %u qubit%s", path,
                       qr_json_size(v), n, n == 1 ? "" : "s");
    const struct qr_json *item = list ? qr_json_first(v) : NULL;
    for (unsigned i = 0; list && i < n && !code; i++, item = qr_json_next(item)) {
        struct qr_path inner = qr_path_of("%s[%u]", path, i);
        code = qr_gate_read_columns(at->r, item, false, inner.s, 1, &ret[i]);
    }
    if (list) return code;
    code = qr_gate_read_columns(at->r, v, true, path, n, ret);
    for (unsigned i = 1; i < n; i++) ret[i] = ret[0] + i;
    return code;
}

static unsigned ansatz_qubit_position(const struct ansatz_reader *at, unsigned qubit) {
    unsigned i = 0;
    while (i < at->n && at->qubits[i] != qubit) i++;
    return i;
}

/* Appends the terms of one observable. */
static enum qr_code append_cost_terms(struct ansatz_reader *at, const struct qr_observable *o,
                                      const char *path, struct qr_ansatz_terms *to) {
    size_t n_positions = to->n ? to->terms[to->n].first : 0;
    to->terms = qr_xreallocarray(to->terms, to->n + o->n_terms + 1, sizeof *to->terms);
    for (size_t t = 0; t < o->n_terms; t++) {
        const struct qr_pauli_term *term = &o->terms[t];
        if (!qr_qubits_is_empty(&term->x))
            return qr_fail(at->r->err, QR_INVALID_ARGUMENT,
                           "%s: a cost has only Z, but \"%.80s\" has X or Y on qubit %u", path,
                           o->text, qr_qubits_first(&term->x));
        unsigned n = qr_qubits_count(&term->z);
        to->positions = qr_xreallocarray(to->positions, n_positions + n + 1, sizeof *to->positions);
        to->terms[to->n].coefficient = term->coefficient;
        to->terms[to->n++].first = n_positions;
        for (unsigned q = qr_qubits_first(&term->z); q < QR_MAX_QUBITS;
             q = qr_qubits_next(&term->z, q)) {
            unsigned place = ansatz_qubit_position(at, q);
            if (place == at->n)
                return qr_fail(at->r->err, QR_INVALID_ARGUMENT,
                               "%s: \"%.80s\" has qubit %u, which is not a qubit of the ansatz",
                               path, o->text, q);
            to->positions[n_positions++] = (uint16_t)place;
        }
    }
    to->terms[to->n].first = n_positions;
    return QR_OK;
}

static enum qr_code read_cost_observable(struct ansatz_reader *at, const struct qr_json *v,
                                         const char *path, struct qr_ansatz_terms *to) {
    const char *text;
    struct qr_observable o = {0};
    enum qr_code code = qr_json_string(v, path, &text, at->r->err);
    if (code) return code;
    size_t n = strlen(text); /* parsing compares all terms */
    if ((code = qr_gate_add_reads(at->r, path, n + n * n / 1024))) return code;
    if ((code = qr_observable_parse(text, at->r->n_qubits, &o, at->r->err)))
        return at->r->err ? qr_wrap(at->r->err, "%s", path) : code;
    code = append_cost_terms(at, &o, path, to);
    qr_observable_fini(&o);
    return code;
}

static enum qr_code ansatz_host_read_terms(void *host, const struct qr_json *v, const char *path,
                                           struct qr_ansatz_terms *ret) {
    struct ansatz_reader *at = host;
    enum qr_code code = QR_OK;
    size_t i = 0;
    if (!v)
        return qr_fail(at->r->err, QR_INVALID_ARGUMENT,
                       "%s is missing: give an observable such as \"Z0 Z1 + 0.5*Z2\"", path);
    if (qr_json_type(v) != QR_JSON_ARRAY) code = read_cost_observable(at, v, path, ret);
    else
        for (const struct qr_json *s = qr_json_first(v); s && !code; s = qr_json_next(s), i++) {
            struct qr_path item = qr_path_of("%s[%zu]", path, i);
            code = read_cost_observable(at, s, item.s, ret);
        }
    if (!code && !(ret->n && ret->terms[ret->n].first))
        code = qr_fail(at->r->err, QR_INVALID_ARGUMENT,
                       "%s has no Z; give at least one term with Z", path);
    return code;
}

/* ---- an ansatz ---- */

static enum qr_code read_ansatz_prefix(struct qr_gate_reader *r, const struct qr_json *ansatz,
                                       const char *where, char ret[QR_PATH_BYTES]) {
    const struct qr_json *v = qr_json_get(ansatz, "prefix");
    struct qr_path path = qr_path_of("%s.prefix", where);
    const char *prefix = "";
    QR_TRY(v ? qr_json_string(v, path.s, &prefix, r->err) : QR_OK);
    QR_TRY(qr_gate_fill(r, prefix, path.s, QR_PATH_BYTES / 4, &prefix));
    snprintf(ret, QR_PATH_BYTES, "%s%s", r->prefix ? r->prefix : "", prefix);
    return QR_OK;
}

enum qr_code qr_ansatz_read(struct qr_gate_reader *r, const struct qr_json *ansatz,
                            const char *where, const struct qr_ansatz *row, const uint16_t *qubits,
                            unsigned n_qubits) {
    static const struct qr_ansatz_host host = {
        ansatz_host_add,      ansatz_host_add_phase,  ansatz_host_combine,     ansatz_host_count,
        ansatz_host_add_list, ansatz_host_read_terms, ansatz_host_read_columns};
    struct ansatz_reader at = {r, where, qubits, n_qubits};
    struct qr_ansatz_use use = {ansatz, where, qubits, n_qubits, &host, &at, r->err};
    const char *around = r->prefix;
    char prefix[QR_PATH_BYTES];
    enum qr_code code = read_ansatz_prefix(r, ansatz, where, prefix);
    for (unsigned i = 0; i < n_qubits && !code; i++)
        if (qr_qubits_has(&r->controls, qubits[i]))
            code = qr_fail(r->err, QR_INVALID_ARGUMENT,
                           "%s: qubit %u of the ansatz is a control of an enclosing item; give "
                           "other \"qubits\"",
                           where, qubits[i]);
    if (code) return code;
    r->prefix = prefix;
    code = row->build(&use);
    r->prefix = around;
    return code;
}

static enum qr_code read_ansatz_name(const struct qr_json *v, const char *path,
                                     const struct qr_ansatz **ret, struct qr_err *err) {
    enum { MAX_NAMES = 32 };
    const char *names[MAX_NAMES] = {"qcnn"}, *name;
    const struct qr_ansatz *row;
    size_t n = 1, which;
    for (size_t i = 0; (row = qr_ansatz_at(i)); i++) {
        QR_ASSERT(n < MAX_NAMES);
        names[n++] = row->name;
    }
    if ((name = qr_json_text(v, NULL)) && !qr_ansatz_of(name)) {
        const char *suggestion = qr_ansatz_alias(name);
        if (!suggestion) suggestion = qr_gate_alternative(name);
        if (suggestion)
            return qr_fail(err, QR_INVALID_ARGUMENT, "%s: unknown ansatz '%.40s'; %s", path, name,
                           suggestion);
    }
    QR_TRY(qr_json_choice(v, path, names, n, &which, err));
    *ret = qr_ansatz_of(names[which]);
    return QR_OK;
}

enum qr_code qr_ansatz_named(const struct qr_json *ansatz, const char *where,
                             const struct qr_ansatz **ret, struct qr_err *err) {
    static const char *const of_qcnn[] = {"ansatz",  "qubits",  "stages",
                                          "variant", "filters", "noise"};
    const char *known[QR_ANSATZ_KEYS + 4] = {"ansatz", "qubits", "prefix", "noise"};
    struct qr_path path = qr_path_of("%s.ansatz", where);
    size_t n = 4;
    QR_TRY(read_ansatz_name(qr_json_get(ansatz, "ansatz"), path.s, ret, err));
    if (!*ret) return qr_json_known(ansatz, where, of_qcnn, 6, err);
    for (unsigned k = 0; k < QR_ANSATZ_KEYS && (*ret)->keys[k]; k++) known[n++] = (*ret)->keys[k];
    return qr_json_known(ansatz, where, known, n, err);
}
