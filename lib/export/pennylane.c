/* export/pennylane.c — a Python file with a QNode of PennyLane: weights by name, inputs as the last
 * axis of x. Start reading at export_python(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "circuit/basic_gates.h"
#include "export/export_impl.h"
#include "format/json.h"

static const char *const gates[QR_BASIC_KINDS] = {
    [QR_BASIC_I] = "Identity",  [QR_BASIC_X] = "PauliX",    [QR_BASIC_Y] = "PauliY",
    [QR_BASIC_H] = "Hadamard",  [QR_BASIC_SWAP] = "SWAP",   [QR_BASIC_P] = "PhaseShift",
    [QR_BASIC_RX] = "RX",       [QR_BASIC_RY] = "RY",       [QR_BASIC_RZ] = "RZ",
    [QR_BASIC_RXX] = "IsingXX", [QR_BASIC_RYY] = "IsingYY", [QR_BASIC_RZZ] = "IsingZZ"};

#define MATH(name) "qml.math." name
static const char *const functions[QR_EXPRESSION_OPS] = {[QR_EXPRESSION_POW] = "**",
                                                         [QR_EXPRESSION_ATAN2] = MATH("arctan2"),
                                                         [QR_EXPRESSION_HYPOT] = MATH("hypot"),
                                                         [QR_EXPRESSION_SIN] = MATH("sin"),
                                                         [QR_EXPRESSION_COS] = MATH("cos"),
                                                         [QR_EXPRESSION_TAN] = MATH("tan"),
                                                         [QR_EXPRESSION_ASIN] = MATH("arcsin"),
                                                         [QR_EXPRESSION_ACOS] = MATH("arccos"),
                                                         [QR_EXPRESSION_ATAN] = MATH("arctan"),
                                                         [QR_EXPRESSION_SQRT] = MATH("sqrt"),
                                                         [QR_EXPRESSION_EXP] = MATH("exp"),
                                                         [QR_EXPRESSION_LOG] = MATH("log"),
                                                         [QR_EXPRESSION_ABS] = MATH("abs")};

struct python_writer {
    const struct qr_circuit *circuit;
    struct qr_expression_style style;
    struct qr_buf *to;
};

static void put_string(struct qr_buf *to, const char *s) {
    struct qr_json_writer w = qr_json_writer(to, 0);
    qr_json_put_string(&w, s);
}

static void put_qubits(struct qr_buf *to, const struct qr_qubits *list,
                       const struct qr_qubits *values) {
    const char *comma = "";
    qr_buf_puts(to, "[");
    for (unsigned q = qr_qubits_first(list); q < QR_MAX_QUBITS; q = qr_qubits_next(list, q)) {
        qr_buf_printf(to, "%s%u", comma, values ? qr_qubits_has(values, q) : q);
        comma = ", ";
    }
    qr_buf_puts(to, "]");
}

static void put_basic(void *context, const struct qr_basic_gate *b) {
    struct python_writer *w = context;
    bool controls = !qr_qubits_is_empty(&b->controls),
         z = b->kind == QR_BASIC_P && b->angle.kind == QR_ARG_CONSTANT && b->angle.scale == 1;
    qr_buf_printf(w->to, "    %sqml.%s(", controls ? "qml.ctrl(" : "",
                  z ? "PauliZ" : gates[b->kind]);
    if (b->n_angles && !z) {
        export_angle(w->circuit, &w->style, &b->angle, w->to);
        qr_buf_puts(w->to, ", ");
    }
    if (b->n_targets == 2) qr_buf_printf(w->to, "[%u, %u])", b->targets[0], b->targets[1]);
    else qr_buf_printf(w->to, "%u)", b->targets[0]);
    if (controls) {
        qr_buf_puts(w->to, ", ");
        put_qubits(w->to, &b->controls, NULL);
        qr_buf_puts(w->to, ", ");
        put_qubits(w->to, &b->controls, &b->control_values);
        qr_buf_puts(w->to, ")");
    }
    qr_buf_puts(w->to, "\n");
}

/* rest: the probability of the other outcome. */
static void put_strength(const struct python_writer *w, const struct qr_gate_arg *a, bool rest) {
    const struct qr_gate_arg other = {.scale = 1 - a->scale};
    bool number = a->kind == QR_ARG_CONSTANT;
    if (rest && !number) qr_buf_puts(w->to, "1 - (");
    export_strength(w->circuit, &w->style, rest && number ? &other : a, w->to);
    if (rest && !number) qr_buf_puts(w->to, ")");
}

/* PennyLane's p of GeneralizedAmplitudeDamping is the probability of |1>, ours that of |0>.
 * Operators for channels that PennyLane has no name for. */
static enum qr_code put_noise_operation(struct python_writer *w, const struct qr_gate *g,
                                        struct qr_err *err) {
    const struct qr_channel *c = &w->circuit->channels[g->channel];
    const struct qr_channel_info *info = c->info;
    double complex kraus[QR_CHANNEL_KRAUS * 16];
    bool named = info->pennylane && !info->kraus,
         generalized = strcmp(info->names[0], "GeneralizedAmplitudeDamping") == 0;
    unsigned n_kraus = 0;
    if (!named) QR_TRY(export_channel_operators(c, "PennyLane", kraus, &n_kraus, err));
    qr_buf_printf(w->to, "    qml.%s(%s", named ? info->pennylane : "QubitChannel",
                  named ? "" : "[");
    for (unsigned i = 0; i < info->n_args && named; i++) {
        unsigned k = qr_channel_arg_at(info, i);
        put_strength(w, &c->args[k], generalized && k == 0);
        qr_buf_puts(w->to, ", ");
    }
    for (unsigned k = 0; k < n_kraus; k++) {
        qr_buf_puts(w->to, k ? ", qml.numpy.array(" : "qml.numpy.array(");
        export_matrix(kraus + (size_t)k * 16, 1u << info->n_targets, "j", w->to);
        qr_buf_puts(w->to, ")");
    }
    if (!named) qr_buf_puts(w->to, "], ");
    if (g->n_targets == 2) qr_buf_printf(w->to, "[%u, %u])\n", g->targets[0], g->targets[1]);
    else qr_buf_printf(w->to, "%u)\n", g->targets[0]);
    return QR_OK;
}

/* qml.PauliX(0) @ qml.PauliZ(1) */
static void put_term(struct qr_buf *to, const struct qr_pauli_term *t) {
    const struct qr_qubits all = qr_pauli_qubits(t);
    const char *at = "";
    if (qr_qubits_is_empty(&all)) qr_buf_puts(to, "qml.Identity(0)");
    for (unsigned q = qr_qubits_first(&all); q < QR_MAX_QUBITS; q = qr_qubits_next(&all, q)) {
        qr_buf_printf(to, "%sqml.Pauli%c(%u)", at, qr_pauli_letter(t, q), q);
        at = " @ ";
    }
}

static void put_observable(struct qr_buf *to, const struct qr_observable *o) {
    if (o->n_terms == 1 && o->terms[0].coefficient == 1) {
        put_term(to, &o->terms[0]);
        return;
    }
    qr_buf_puts(to, "qml.Hamiltonian([");
    for (size_t i = 0; i < o->n_terms; i++) {
        char number[32];
        qr_number_text(o->terms[i].coefficient, number);
        qr_buf_printf(to, "%s%s", i ? ", " : "", number);
    }
    qr_buf_puts(to, "], [");
    for (size_t i = 0; i < o->n_terms; i++) {
        if (i) qr_buf_puts(to, ", ");
        put_term(to, &o->terms[i]);
    }
    qr_buf_puts(to, "])");
}

static void put_head(const struct qr_export *what, struct qr_buf *to) {
    const struct qr_circuit *c = what->circuit;
    if (what->title) {
        qr_buf_puts(to, "# ");
        qr_buf_put_printable(to, what->title);
        qr_buf_puts(to, "\n");
    }
    qr_buf_puts(to, "from math import pi\n\nimport pennylane as qml\n\n");
    if (c->n_params && what->theta) qr_buf_puts(to, "weights = {\n");
    for (unsigned i = 0; i < c->n_params && what->theta; i++) {
        char number[32];
        qr_number_text(what->theta[i], number);
        qr_buf_puts(to, "    ");
        put_string(to, c->param_names[i]);
        qr_buf_printf(to, ": %s,\n", number);
    }
    if (c->n_params && what->theta) qr_buf_puts(to, "}\n");
    qr_buf_printf(to,
                  "\n\n@qml.qnode(qml.device(\"default.%s\", wires=%u))\ndef circuit(%s%s%s):\n",
                  qr_circuit_is_noisy(c) ? "mixed" : "qubit", c->n_qubits, c->n_columns ? "x" : "",
                  c->n_columns && c->n_params ? ", " : "",
                  !c->n_params  ? ""
                  : what->theta ? "w=weights"
                                : "w");
}

enum qr_code export_python(const struct qr_export *what, struct qr_buf *to, struct qr_err *err) {
    const struct qr_circuit *c = what->circuit;
    char **params = qr_xcalloc(c->n_params + 1, sizeof *params),
         **columns = qr_xcalloc(c->n_columns + 1, sizeof *columns);
    struct python_writer w = {
        .circuit = c,
        .style = {.parameters = params, .columns = columns, .functions = functions, .shared = "s"},
        .to = to};
    enum qr_code code = QR_OK;
    for (unsigned i = 0; i < c->n_params; i++) {
        struct qr_buf name = {0};
        put_string(&name, c->param_names[i]);
        params[i] = qr_xasprintf("w[%s]", qr_buf_string(&name));
        qr_buf_free(&name);
    }
    for (unsigned i = 0; i < c->n_columns; i++) columns[i] = qr_xasprintf("x[..., %u]", i);
    put_head(what, to);
    export_shared(c, &w.style, "    ", "\n", to);
    for (size_t i = 0; i < c->n_gates && code == QR_OK; i++)
        if (c->gates[i].kind == QR_GATE_CHANNEL) code = put_noise_operation(&w, &c->gates[i], err);
        else qr_gate_lower(&c->gates[i], put_basic, &w);
    qr_buf_puts(to, what->n_readouts ? "    return [\n" : "    return qml.state()\n");
    for (size_t i = 0; i < what->n_readouts; i++) {
        qr_buf_puts(to, "        qml.expval(");
        put_observable(to, &what->readouts[i]);
        qr_buf_puts(to, "),\n");
    }
    if (what->n_readouts) qr_buf_puts(to, "    ]\n");
    for (unsigned i = 0; i < c->n_params; i++) free(params[i]);
    for (unsigned i = 0; i < c->n_columns; i++) free(columns[i]);
    free(params);
    free(columns);
    return code;
}
