/* export/tfq_serialized.c — the bytes of a program.proto of TensorFlow Quantum (tfq.from_tensor):
 * native gates are its own. Start reading at export_tfq(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/protobuf.h"
#include "export/export_impl.h"
#include "export/qasm_names.h"

/* Appends a message, which is freed. */
static void put_message(struct qr_buf *to, unsigned field, struct qr_buf *message) {
    to->overflow |= message->overflow;
    qr_protobuf_part(to, field, message);
    qr_buf_free(message);
}

/* ---- arguments ---- */

/* An entry of Operation.args, whose value is Arg.arg_value or Arg.symbol. */
static void put_entry(struct qr_buf *operation, const char *key, unsigned field,
                      struct qr_buf *value) {
    struct qr_buf entry = {0}, arg = {0};
    qr_protobuf_text(&entry, 1, key);
    put_message(&arg, field, value);
    put_message(&entry, 2, &arg);
    put_message(operation, 2, &entry);
}

static void put_float(struct qr_buf *operation, const char *key, double v) {
    struct qr_buf value = {0};
    qr_protobuf_float(&value, 1, (float)v); /* ArgValue.float_value */
    put_entry(operation, key, 1, &value);
}

static void put_text(struct qr_buf *operation, const char *key, const char *text) {
    struct qr_buf value = {0};
    qr_protobuf_text(&value, 3, text); /* ArgValue.string_value */
    put_entry(operation, key, 1, &value);
}

static enum qr_code put_argument(struct qr_buf *operation, const char *key,
                                 const struct qr_gate_arg *a, const struct qr_circuit *c,
                                 char *const *columns, struct qr_err *err) {
    char scalar[40];
    const char *name = a->kind == QR_ARG_PARAMETER ? c->param_names[a->index]
                       : a->kind == QR_ARG_DATA    ? columns[a->index]
                                                   : NULL;
    snprintf(scalar, sizeof scalar, "%s_scalar", key);
    if (a->kind == QR_ARG_EXPRESSION)
        return qr_fail(
            err, QR_UNIMPLEMENTED,
            "TensorFlow Quantum has numbers times one symbol, no other expressions; give "
            "numbers (weights, inputs), or choose another format");
    if (name) {
        struct qr_buf symbol = {0};
        qr_buf_puts(&symbol, name);
        put_entry(operation, key, 2, &symbol);
    } else {
        put_float(operation, key, a->scale);
    }
    put_float(operation, scalar, name ? a->scale : 1);
    return QR_OK;
}

static void put_controls(struct qr_buf *operation, const struct qr_gate *g) {
    struct qr_buf qubits = {0}, values = {0};
    for (unsigned q = qr_qubits_first(&g->controls); q < QR_MAX_QUBITS;
         q = qr_qubits_next(&g->controls, q)) {
        qr_buf_printf(&qubits, "%s0_%u", qubits.n ? "," : "", q);
        qr_buf_printf(&values, "%s%d", values.n ? "," : "", qr_qubits_has(&g->control_values, q));
    }
    put_text(operation, "control_qubits", qr_buf_string(&qubits));
    put_text(operation, "control_values", qr_buf_string(&values));
    qr_buf_free(&qubits);
    qr_buf_free(&values);
}

/* ---- operations ---- */

static enum qr_code put_channel_id(struct qr_buf *operation, const struct qr_channel *c,
                                   struct qr_err *err) {
    double a[QR_CHANNEL_ARGS];
    struct qr_buf id = {0};
    if (!c->info->tfq)
        return qr_fail(err, QR_UNIMPLEMENTED,
                       "TensorFlow Quantum has no channel %s on %u qubit%s; choose cirq, qasm3 or "
                       "python",
                       c->info->names[0], c->info->n_targets, c->info->n_targets == 1 ? "" : "s");
    QR_TRY(export_channel_values(c, "TensorFlow Quantum", a, err));
    qr_protobuf_text(&id, 1, c->info->tfq);
    put_message(operation, 1, &id);
    for (unsigned k = 0; k < c->info->n_args; k++)
        put_float(operation, c->info->arg_names[k], a[k]);
    return QR_OK;
}

static enum qr_code put_gate(struct qr_buf *operation, const struct qr_gate *g,
                             const struct qr_circuit *c, char *const *columns, struct qr_err *err) {
    const struct qr_gate_info *info = qr_gate_info(g->kind);
    struct qr_buf id = {0};
    if (info->tfq && strcmp(info->tfq, "PISP") == 0 && g->global_shift != 0 &&
        !qr_qubits_is_empty(&g->controls))
        return qr_fail(err, QR_UNIMPLEMENTED,
                       "TensorFlow Quantum ignores the global shift of %s, which matters with "
                       "controls; write it without",
                       info->name);
    qr_protobuf_text(&id, 1, info->tfq ? info->tfq : info->name);
    put_message(operation, 1, &id);
    for (unsigned k = 0; k < g->n_args; k++)
        QR_TRY(put_argument(operation, info->arg_names[k], &g->args[k], c, columns, err));
    if (info->has_exponent) put_float(operation, "global_shift", g->global_shift);
    if (info->identity) put_float(operation, "unused", 1);
    return QR_OK;
}

static enum qr_code put_operation(struct qr_buf *moment, const struct qr_gate *g,
                                  const struct qr_circuit *c, char *const *columns,
                                  struct qr_err *err) {
    struct qr_buf operation = {0}, id = {0};
    enum qr_code code = g->kind == QR_GATE_CHANNEL
                            ? put_channel_id(&operation, &c->channels[g->channel], err)
                            : put_gate(&operation, g, c, columns, err);
    put_controls(&operation, g);
    for (unsigned k = 0; k < g->n_targets; k++) {
        char name[16];
        snprintf(name, sizeof name, "0_%u", g->targets[k]);
        qr_protobuf_text(&id, 2, name);
        put_message(&operation, 3, &id);
    }
    put_message(moment, 1, &operation);
    return code;
}

static enum qr_code put_moments(struct qr_buf *circuit, const struct qr_circuit *c,
                                char *const *columns, struct qr_err *err) {
    qr_auto(qr_free_p) size_t *first = NULL;
    qr_auto(qr_free_p) size_t *order = NULL;
    size_t n = qr_circuit_moments(c, false, &first, &order);
    enum qr_code code = QR_OK;
    for (size_t m = 0; m < n && code == QR_OK; m++) {
        struct qr_buf moment = {0};
        for (size_t i = first[m]; i < first[m + 1] && code == QR_OK; i++)
            code = put_operation(&moment, &c->gates[order[i]], c, columns, err);
        put_message(circuit, 2, &moment);
    }
    return code;
}

enum qr_code export_tfq(const struct qr_export *what, struct qr_buf *to, struct qr_err *err) {
    const struct qr_circuit *c = what->circuit;
    if (what->n_readouts)
        return qr_fail(
            err, QR_UNIMPLEMENTED,
            "a program of TensorFlow Quantum has no read-outs; export the circuit alone");
    /* Parameters keep any name, and columns have those of OpenQASM. */
    struct export_qasm_names names = export_qasm_names(c);
    struct qr_buf language = {0}, circuit = {0};
    qr_protobuf_text(&language, 1, "tfq_gate_set");
    put_message(to, 1, &language);
    qr_protobuf_uint(&circuit, 1, 1); /* moment by moment */
    enum qr_code code = put_moments(&circuit, c, names.columns, err);
    put_message(to, 2, &circuit);
    export_qasm_names_fini(&names);
    return code;
}
