/* export/cirq_json.c — Cirq's JSON (cirq.read_json): native gates are Cirq's, symbols sympy's; with
 * read-outs a list of the circuit and a PauliSum for each. Start reading at export_cirq(). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "export/export_impl.h"
#include "export/qasm_names.h"
#include "format/json.h"

static const char *const classes[QR_GATE_KINDS] = {[QR_GATE_I] = "IdentityGate",
                                                   [QR_GATE_X] = "XPowGate",
                                                   [QR_GATE_Y] = "YPowGate",
                                                   [QR_GATE_Z] = "ZPowGate",
                                                   [QR_GATE_H] = "HPowGate",
                                                   [QR_GATE_XX] = "XXPowGate",
                                                   [QR_GATE_YY] = "YYPowGate",
                                                   [QR_GATE_ZZ] = "ZZPowGate",
                                                   [QR_GATE_CZ] = "CZPowGate",
                                                   [QR_GATE_CNOT] = "CXPowGate",
                                                   [QR_GATE_SWAP] = "SwapPowGate",
                                                   [QR_GATE_ISWAP] = "ISwapPowGate",
                                                   [QR_GATE_PHASED_X] = "PhasedXPowGate",
                                                   [QR_GATE_PHASED_ISWAP] = "PhasedISwapPowGate",
                                                   [QR_GATE_FSIM] = "FSimGate"};

struct cirq_writer {
    const struct qr_circuit *circuit;
    char **columns; /* names */
    struct qr_json_writer json;
    struct qr_err *err;
};

/* ---- sympy ---- */

static void open_type(struct cirq_writer *w, const char *type) {
    qr_json_open(&w->json, '{');
    qr_json_key_string(&w->json, "cirq_type", type);
}

static void open_operation(struct cirq_writer *w, const char *type) {
    open_type(w, type);
    qr_json_key_open(&w->json, "args", '[');
}
static void close_operation(struct cirq_writer *w) {
    qr_json_close(&w->json, ']');
    qr_json_close(&w->json, '}');
}

static void put_symbol(struct cirq_writer *w, const char *name) {
    open_type(w, "sympy.Symbol");
    qr_json_key_string(&w->json, "name", name);
    qr_json_close(&w->json, '}');
}

static void put_sympy_number(struct cirq_writer *w, double v) {
    bool integer = v == rint(v) && fabs(v) < 0x1p53;
    open_type(w, integer ? "sympy.Integer" : "sympy.Float");
    if (integer) qr_json_key_i64(&w->json, "i", (int64_t)v);
    else qr_json_key_number(&w->json, "approx", v);
    qr_json_close(&w->json, '}');
}

static void put_complex(struct cirq_writer *w, double re, double im) {
    open_type(w, "complex");
    qr_json_key_number(&w->json, "real", re);
    qr_json_key_number(&w->json, "imag", im);
    qr_json_close(&w->json, '}');
}

static enum qr_code put_node(struct cirq_writer *w, const struct qr_expression *e, unsigned i);

/* type(a, b'), where b' is b, -1 * b (sign -1), or b to a power. */
static enum qr_code put_two(struct cirq_writer *w, const struct qr_expression *e, unsigned i,
                            const char *type, double factor, double power) {
    open_operation(w, type);
    QR_TRY(put_node(w, e, e->node[i].index));
    if (factor != 1) {
        open_operation(w, "sympy.Mul");
        put_sympy_number(w, factor);
    }
    if (power != 1) open_operation(w, "sympy.Pow");
    QR_TRY(put_node(w, e, i - 1));
    if (power != 1) {
        put_sympy_number(w, power);
        close_operation(w);
    }
    if (factor != 1) close_operation(w);
    close_operation(w);
    return QR_OK;
}

static enum qr_code put_node(struct cirq_writer *w, const struct qr_expression *e, unsigned i) {
    const struct qr_expression_node *n = &e->node[i];
    const struct qr_expression *shared;
    switch (n->op) {
    case QR_EXPRESSION_NUMBER: put_sympy_number(w, n->number); return QR_OK;
    case QR_EXPRESSION_PARAMETER: put_symbol(w, w->circuit->param_names[n->index]); return QR_OK;
    case QR_EXPRESSION_INPUT: put_symbol(w, w->columns[n->index]); return QR_OK;
    case QR_EXPRESSION_SHARED:
        shared = &w->circuit->expressions[n->index];
        return put_node(w, shared, shared->n - 1);
    case QR_EXPRESSION_ADD: return put_two(w, e, i, "sympy.Add", 1, 1);
    case QR_EXPRESSION_SUBTRACT: return put_two(w, e, i, "sympy.Add", -1, 1);
    case QR_EXPRESSION_MULTIPLY: return put_two(w, e, i, "sympy.Mul", 1, 1);
    case QR_EXPRESSION_DIVIDE: return put_two(w, e, i, "sympy.Mul", 1, -1);
    case QR_EXPRESSION_POW: return put_two(w, e, i, "sympy.Pow", 1, 1);
    case QR_EXPRESSION_NEGATE:
    case QR_EXPRESSION_SQRT:
        open_operation(w, n->op == QR_EXPRESSION_SQRT ? "sympy.Pow" : "sympy.Mul");
        QR_TRY(put_node(w, e, i - 1));
        put_sympy_number(w, n->op == QR_EXPRESSION_SQRT ? 0.5 : -1);
        close_operation(w);
        return QR_OK;
    default:
        return qr_fail(w->err, QR_UNIMPLEMENTED,
                       "Cirq's JSON has no %s; give numbers (weights, inputs), or choose qasm3 or "
                       "python",
                       qr_expression_function(n->op));
    }
}

static enum qr_code put_argument(struct cirq_writer *w, const struct qr_gate_arg *a) {
    if (a->kind == QR_ARG_CONSTANT) {
        qr_json_put_number(&w->json, a->scale);
        return QR_OK;
    }
    if (a->scale != 1) {
        open_operation(w, "sympy.Mul");
        put_sympy_number(w, a->scale);
    }
    if (a->kind == QR_ARG_PARAMETER) put_symbol(w, w->circuit->param_names[a->index]);
    else if (a->kind == QR_ARG_DATA) put_symbol(w, w->columns[a->index]);
    else {
        const struct qr_expression *e = &w->circuit->expressions[a->index];
        QR_TRY(put_node(w, e, e->n - 1));
    }
    if (a->scale != 1) close_operation(w);
    return QR_OK;
}

/* ---- noise ---- */

/* Probabilities of all Pauli errors, as {"II": 0.9, "XZ": 0.1}. */
static void put_errors(struct cirq_writer *w, const struct qr_channel *c, const double *a) {
    double p[16];
    if (!qr_channel_errors(c, a, p, NULL)) return;
    qr_json_key_open(&w->json, "error_probabilities", '{');
    for (unsigned i = 0; i < 1u << 2 * c->info->n_targets; i++) {
        const char name[3] = {"IXYZ"[i >> 2], "IXYZ"[i & 3], 0};
        if (p[i] != 0 || !i) qr_json_key_number(&w->json, name + 2 - c->info->n_targets, p[i]);
    }
    qr_json_close(&w->json, '}');
}

static enum qr_code put_operators(struct cirq_writer *w, const struct qr_channel *c) {
    double complex kraus[QR_CHANNEL_KRAUS * 16];
    unsigned n, dim = 1u << c->info->n_targets;
    QR_TRY(export_channel_operators(c, "Cirq", kraus, &n, w->err));
    qr_json_key_open(&w->json, "_kraus_ops", '[');
    for (unsigned k = 0; k < n; k++) {
        qr_json_open(&w->json, '[');
        for (unsigned i = 0; i < dim * dim; i++) {
            const double complex v = kraus[k * 16 + i];
            if (i % dim == 0) qr_json_open(&w->json, '[');
            if (cimag(v) == 0) qr_json_put_number(&w->json, creal(v));
            else put_complex(w, creal(v), cimag(v));
            if (i % dim == dim - 1) qr_json_close(&w->json, ']');
        }
        qr_json_close(&w->json, ']');
    }
    qr_json_close(&w->json, ']');
    qr_json_put_key(&w->json, "_key");
    qr_json_put_null(&w->json);
    return QR_OK;
}

/* Appends the channel's class: of its own, of Pauli errors, or of operators. */
static enum qr_code put_noise_class(struct cirq_writer *w, const struct qr_channel *c) {
    static const char asymmetric[] = "AsymmetricDepolarizingChannel";
    const struct qr_channel_info *info = c->info;
    bool operators = info->kraus || (info->damping && !info->cirq);
    const char *type = operators ? "KrausChannel" : info->cirq ? info->cirq : asymmetric;
    double a[QR_CHANNEL_ARGS];
    QR_TRY(export_channel_values(c, "Cirq", a, w->err));
    open_type(w, type);
    if (operators) QR_TRY(put_operators(w, c));
    else if (strcmp(type, asymmetric) == 0) put_errors(w, c, a);
    else if (!info->n_args) qr_json_key_i64(&w->json, "dimension", 2);
    else if (info->n_targets == 2) qr_json_key_i64(&w->json, "n_qubits", 2);
    for (unsigned k = 0; k < info->n_args && !operators && strcmp(type, asymmetric) != 0; k++)
        qr_json_key_number(&w->json, info->arg_names[k], a[k]);
    qr_json_close(&w->json, '}');
    return QR_OK;
}

/* ---- operations ---- */

static void put_qubit(struct cirq_writer *w, unsigned q) {
    open_type(w, "LineQubit");
    qr_json_key_i64(&w->json, "x", q);
    qr_json_close(&w->json, '}');
}

/* Opens the operation whose sub_operation follows. */
static void open_controlled(struct cirq_writer *w, const struct qr_gate *g) {
    open_type(w, "ControlledOperation");
    qr_json_key_open(&w->json, "controls", '[');
    for (unsigned q = qr_qubits_first(&g->controls); q < QR_MAX_QUBITS;
         q = qr_qubits_next(&g->controls, q))
        put_qubit(w, q);
    qr_json_close(&w->json, ']');
    qr_json_put_key(&w->json, "control_values");
    open_type(w, "ProductOfSums");
    qr_json_key_open(&w->json, "data", '[');
    for (unsigned q = qr_qubits_first(&g->controls); q < QR_MAX_QUBITS;
         q = qr_qubits_next(&g->controls, q)) {
        qr_json_open(&w->json, '[');
        qr_json_put_i64(&w->json, qr_qubits_has(&g->control_values, q));
        qr_json_close(&w->json, ']');
    }
    qr_json_close(&w->json, ']');
    qr_json_close(&w->json, '}');
    qr_json_put_key(&w->json, "sub_operation");
}

static enum qr_code put_class(struct cirq_writer *w, const struct qr_gate *g) {
    const struct qr_gate_info *info = qr_gate_info(g->kind);
    open_type(w, classes[g->kind]);
    if (info->identity) qr_json_key_i64(&w->json, "num_qubits", 1);
    for (unsigned k = 0; k < g->n_args; k++) {
        qr_json_put_key(&w->json, info->arg_names[k]);
        QR_TRY(put_argument(w, &g->args[k]));
    }
    if (info->has_exponent) qr_json_key_number(&w->json, "global_shift", g->global_shift);
    qr_json_close(&w->json, '}');
    return QR_OK;
}

static enum qr_code put_operation(struct cirq_writer *w, const struct qr_gate *g) {
    bool controlled = !qr_qubits_is_empty(&g->controls);
    if (controlled) open_controlled(w, g);
    open_type(w, "GateOperation");
    qr_json_put_key(&w->json, "gate");
    QR_TRY(g->kind == QR_GATE_CHANNEL ? put_noise_class(w, &w->circuit->channels[g->channel])
                                      : put_class(w, g));
    qr_json_key_open(&w->json, "qubits", '[');
    for (unsigned k = 0; k < g->n_targets; k++) put_qubit(w, g->targets[k]);
    qr_json_close(&w->json, ']');
    qr_json_close(&w->json, '}');
    if (controlled) qr_json_close(&w->json, '}');
    return QR_OK;
}

static enum qr_code put_moments(struct cirq_writer *w) {
    const struct qr_circuit *c = w->circuit;
    qr_auto(qr_free_p) size_t *first = NULL;
    qr_auto(qr_free_p) size_t *order = NULL;
    size_t n = qr_circuit_moments(c, false, &first, &order);
    for (size_t m = 0; m < n; m++) {
        open_type(w, "Moment");
        qr_json_key_open(&w->json, "operations", '[');
        for (size_t i = first[m]; i < first[m + 1]; i++)
            QR_TRY(put_operation(w, &c->gates[order[i]]));
        close_operation(w);
    }
    return QR_OK;
}

/* ---- read-outs ---- */

static void put_term(struct cirq_writer *w, const struct qr_pauli_term *t) {
    const struct qr_qubits all = qr_pauli_qubits(t);
    qr_json_open(&w->json, '[');
    qr_json_open(&w->json, '[');
    for (unsigned q = qr_qubits_first(&all); q < QR_MAX_QUBITS; q = qr_qubits_next(&all, q)) {
        qr_json_open(&w->json, '[');
        put_qubit(w, q);
        open_type(w, (char[]){'_', 'P', 'a', 'u', 'l', 'i', qr_pauli_letter(t, q), 0});
        qr_json_key_number(&w->json, "exponent", 1);
        qr_json_key_number(&w->json, "global_shift", 0);
        qr_json_close(&w->json, '}');
        qr_json_close(&w->json, ']');
    }
    qr_json_close(&w->json, ']');
    put_complex(w, t->coefficient, 0);
    qr_json_close(&w->json, ']');
}

static void put_sum(struct cirq_writer *w, const struct qr_observable *o) {
    open_type(w, "PauliSum");
    qr_json_key_open(&w->json, "items", '[');
    for (size_t i = 0; i < o->n_terms; i++) put_term(w, &o->terms[i]);
    qr_json_close(&w->json, ']');
    qr_json_close(&w->json, '}');
}

enum qr_code export_cirq(const struct qr_export *what, struct qr_buf *to, struct qr_err *err) {
    /* Parameters keep any name, and columns have those of OpenQASM. */
    struct export_qasm_names names = export_qasm_names(what->circuit);
    struct cirq_writer w = {.circuit = what->circuit,
                            .columns = names.columns,
                            .json = qr_json_writer(to, 0),
                            .err = err};
    if (what->n_readouts) qr_json_open(&w.json, '[');
    open_type(&w, "Circuit");
    qr_json_key_open(&w.json, "moments", '[');
    enum qr_code code = put_moments(&w);
    close_operation(&w);
    for (size_t i = 0; i < what->n_readouts; i++) put_sum(&w, &what->readouts[i]);
    if (what->n_readouts) qr_json_close(&w.json, ']');
    qr_buf_puts(to, "\n");
    export_qasm_names_fini(&names);
    return code;
}
