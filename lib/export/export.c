/* export/export.c — the formats, and circuits with numbers for symbols. Start reading at
 * qr_export(). */
#include "export/export.h"

#include <string.h>

#include "base/mem.h"
#include "export/export_impl.h"

struct qr_export_format {
    const char *name;
    export_write *write;
    bool keeps_parameters; /* takes theta beside the symbols, instead of numbers in their place */
    bool numbers_only;
    bool needs_every_qubit; /* the qubits of a text are those of its gates */
    bool circuit_alone;     /* expected by its readers; read-outs change the form */
    bool without_noise;
    bool measures; /* in the middle, and has conditions */
};
static const struct qr_export_format formats[] = {
    {.name = "qasm3", .write = export_qasm3, .measures = true},
    {.name = "qasm2", .write = export_qasm2, .numbers_only = true, .without_noise = true},
    {.name = "cirq", .write = export_cirq, .needs_every_qubit = true, .circuit_alone = true},
    {.name = "tfq", .write = export_tfq, .needs_every_qubit = true, .circuit_alone = true},
    {.name = "python", .write = export_python, .keeps_parameters = true}};
static const char format_names[] = "qasm3, qasm2, cirq, tfq, python";
enum { N_FORMATS = sizeof formats / sizeof *formats };

const char *qr_export_formats(void) { return format_names; }

bool qr_export_circuit_alone(const struct qr_export_format *format) {
    return format->circuit_alone;
}

enum qr_code qr_export_format(const char *name, const struct qr_export_format **ret,
                              struct qr_err *err) {
    for (size_t i = 0; i < N_FORMATS; i++)
        if (strcmp(formats[i].name, name) == 0) {
            *ret = &formats[i];
            return QR_OK;
        }
    return qr_fail(err, QR_INVALID_ARGUMENT, "unknown format '%.40s'; choose one of %s", name,
                   format_names);
}

/* ---- numbers for symbols ---- */

/* Makes a node a number, if its value is known. */
static void bind_node(struct qr_expression_node *n, const double *theta, const double *x,
                      const struct qr_expression *bound) {
    const struct qr_expression *shared = n->op == QR_EXPRESSION_SHARED ? &bound[n->index] : NULL;
    double value = 0;
    if (n->op == QR_EXPRESSION_PARAMETER && theta) value = theta[n->index];
    else if (n->op == QR_EXPRESSION_INPUT && x) value = x[n->index];
    else if (shared && shared->n == 1 && shared->node[0].op == QR_EXPRESSION_NUMBER)
        value = shared->node[0].number;
    else return;
    *n = (struct qr_expression_node){.op = QR_EXPRESSION_NUMBER, .number = value};
}

/* A copy with numbers; of one NUMBER when no symbol remains. */
static struct qr_expression bind_expression(const struct qr_expression *e, const double *theta,
                                            const double *x, const struct qr_expression *bound) {
    struct qr_expression copy = qr_expression_copy(e);
    bool symbols = false;
    for (unsigned k = 0; k < copy.n; k++) {
        bind_node(&copy.node[k], theta, x, bound);
        symbols |=
            copy.node[k].op >= QR_EXPRESSION_PARAMETER && copy.node[k].op <= QR_EXPRESSION_SHARED;
    }
    if (symbols) return copy;
    const struct qr_expression_node value = {.op = QR_EXPRESSION_NUMBER,
                                             .number = qr_expression_value(&copy, NULL, NULL)};
    copy.n = 1;
    copy.node[0] = value;
    return copy;
}

static struct qr_gate_arg bind_argument(const struct qr_gate_arg *a, const double *theta,
                                        const double *x, const struct qr_expression *bound) {
    const struct qr_expression *e = a->kind == QR_ARG_EXPRESSION ? &bound[a->index] : NULL;
    bool known = (a->kind == QR_ARG_PARAMETER && theta) || (a->kind == QR_ARG_DATA && x);
    if (known || (e && e->n == 1 && e->node[0].op == QR_EXPRESSION_NUMBER))
        return (struct qr_gate_arg){.scale = e ? a->scale * e->node[0].number
                                               : qr_gate_arg_value(a, theta, x)};
    return *a;
}

/* Adds a channel with numbers; the index of it. */
static enum qr_code bind_channel(struct qr_circuit *to, const struct qr_channel *c,
                                 const double *theta, const struct qr_expression *bound,
                                 uint32_t *ret, struct qr_err *err) {
    struct qr_channel copy = *c; /* its operators are borrowed */
    for (unsigned k = 0; k < c->info->n_args; k++)
        copy.args[k] = bind_argument(&c->args[k], theta, NULL, bound);
    QR_TRY(qr_channel_check(&copy, err));
    *ret = qr_circuit_channel(to, &copy);
    return QR_OK;
}

static enum qr_code bind_circuit(const struct qr_circuit *c, const double *theta, const double *x,
                                 struct qr_circuit **ret, struct qr_err *err) {
    struct qr_circuit *to = qr_circuit_new(c->n_qubits, x ? 0 : c->n_columns);
    struct qr_expression *bound = qr_xcalloc(c->n_expressions + 1, sizeof *bound);
    enum qr_code code = QR_OK;
    for (unsigned i = 0; i < c->n_params && !theta; i++) qr_circuit_param(to, c->param_names[i]);
    /* All, so that they keep their numbers: they are pairwise different as long as they have
     * symbols. */
    for (size_t i = 0; i < c->n_expressions; i++)
        bound[i] = bind_expression(&c->expressions[i], theta, x, bound);
    to->expressions = bound;
    to->n_expressions = to->cap_expressions = c->n_expressions;
    qr_circuit_copy_classical(to, c);
    for (size_t i = 0; i < c->n_gates && code == QR_OK; i++) {
        struct qr_gate g = c->gates[i];
        for (unsigned k = 0; k < g.n_args; k++)
            g.args[k] = bind_argument(&g.args[k], theta, x, bound);
        if (g.kind == QR_GATE_CHANNEL)
            code = bind_channel(to, &c->channels[g.channel], theta, bound, &g.channel, err);
        if (code == QR_OK) code = qr_circuit_add(to, &g, err);
    }
    if (code == QR_OK) *ret = to;
    else qr_circuit_free(to);
    return code;
}

/* A copy with identities on the qubits that have no gate. */
static struct qr_circuit *touch_all(const struct qr_circuit *c) {
    struct qr_circuit *copy = qr_circuit_copy(c);
    struct qr_qubits used = {{0}};
    struct qr_gate g = {.kind = QR_GATE_I, .n_targets = 1};
    for (size_t i = 0; i < c->n_gates; i++) {
        const struct qr_qubits qubits = qr_gate_all_qubits(&c->gates[i]);
        qr_qubits_add_all(&used, &qubits);
    }
    for (g.targets[0] = 0; g.targets[0] < c->n_qubits; g.targets[0]++)
        if (!qr_qubits_has(&used, g.targets[0]) && qr_circuit_add(copy, &g, QR_IGNORED) != QR_OK)
            QR_ASSERT(false);
    return copy;
}

/* ---- the export ---- */

static enum qr_code check_numbers(const struct qr_export_format *f, const struct qr_export *what,
                                  struct qr_err *err) {
    const struct qr_circuit *c = what->circuit;
    if (c->readout_errors)
        return qr_fail(err, QR_UNIMPLEMENTED,
                       "no format has read-out errors; remove readout from the circuit's noise");
    if (!f->measures && qr_circuit_measures(c))
        return qr_fail(err, QR_UNIMPLEMENTED,
                       "only qasm3 has measurements before the end; choose that format");
    if (f->without_noise && qr_circuit_is_noisy(c))
        return qr_fail(err, QR_UNIMPLEMENTED, "%s has no noise channels; choose qasm3", f->name);
    if (!f->numbers_only) return QR_OK;
    if (c->n_params && !what->theta)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s has no symbols, and the circuit has parameters (%.64s); give weights",
                       f->name, c->param_names[0]);
    if (c->n_columns && !what->x)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s has no symbols, and the circuit has inputs; give %u numbers for them",
                       f->name, c->n_columns);
    return QR_OK;
}

enum qr_code qr_export(const struct qr_export_format *format, const struct qr_export *what,
                       struct qr_buf *ret, struct qr_err *err) {
    struct qr_export numbers = *what;
    struct qr_circuit *bound = NULL, *whole = NULL;
    const double *theta = format->keeps_parameters ? NULL : what->theta;
    enum qr_code code = check_numbers(format, what, err);
    if (code == QR_OK && (theta || what->x))
        code = bind_circuit(what->circuit, theta, what->x, &bound, err);
    if (bound) numbers.circuit = bound;
    if (code == QR_OK && format->needs_every_qubit)
        numbers.circuit = whole = touch_all(numbers.circuit);
    if (code == QR_OK) code = format->write(&numbers, ret, err);
    qr_circuit_free(bound);
    qr_circuit_free(whole);
    if (code == QR_OK && !qr_buf_ok(ret))
        code = qr_fail(err, QR_RESOURCE_EXHAUSTED, "the text exceeds 1 GiB");
    return code == QR_OK ? code : qr_wrap(err, "cannot export to %s", format->name);
}
