/* cirq/tfq_gates.c — the operations of TensorFlow Quantum's programs, and its Pauli sums. Start
 * reading at cirq_tfq_program(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "cirq/cirq_impl.h"
#include "format/tfq_program.h"

/* A text in messages and for functions that take strings. */
struct short_text {
    char s[QR_NAME_BYTES + 2];
};
static struct short_text text_of(struct qr_bytes b) {
    struct short_text ret;
    snprintf(ret.s, sizeof ret.s, "%.*s", b.n < sizeof ret.s ? (int)b.n : (int)sizeof ret.s,
             b.n ? (const char *)b.p : "");
    return ret;
}

/* ---- qubits ---- */

/* "row_column" or "x", after a q that early versions wrote. */
static enum qr_code read_qubit(struct cirq_reader *r, const char *path, struct qr_bytes id,
                               uint16_t *ret) {
    struct short_text text = text_of(id);
    char *from = text.s + (*text.s == 'q'), *bar = strchr(from, '_');
    struct cirq_qubit q = {.kind = bar ? CIRQ_GRID : CIRQ_LINE};
    if (bar) *bar = 0;
    if ((bar && !qr_parse_i64(from, &q.row)) || !qr_parse_i64(bar ? bar + 1 : from, &q.column))
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: the qubit '%s' is neither 'row_column' nor a number", path,
                       text_of(id).s);
    return cirq_qubit_number(r, path, &q, ret);
}

/* ---- gates ---- */

static const struct qr_tfq_arg *find_arg(const struct qr_tfq_operation *op, const char *name) {
    const struct qr_tfq_arg *ret = NULL;
    for (unsigned i = 0; i < op->n_args; i++)
        if (qr_tfq_is(op->args[i].name, name)) ret = &op->args[i];
    return ret;
}

static enum qr_code read_number(struct cirq_reader *r, const struct qr_tfq_operation *op,
                                const char *path, const char *name, double otherwise, double *ret) {
    const struct qr_tfq_arg *arg = find_arg(op, name);
    *ret = arg ? arg->number : otherwise;
    return !arg || arg->kind == QR_TFQ_NUMBER
               ? QR_OK
               : qr_fail(r->err, QR_INVALID_ARGUMENT, "%s.args['%s'] must be a number", path, name);
}

/* A number or a symbol, times a number. */
static enum qr_code read_arg(struct cirq_reader *r, const struct qr_tfq_operation *op,
                             const char *path, const char *name, struct qr_gate_arg *ret) {
    char scalar[32];
    const struct qr_tfq_arg *arg = find_arg(op, name);
    struct qr_path at = qr_path_of("%s.args['%s']", path, name);
    double scale;
    snprintf(scalar, sizeof scalar, "%s_scalar", name);
    if (!arg || arg->kind == QR_TFQ_STRING)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s %s", at.s,
                       arg ? "must be a number or a symbol" : "is missing");
    QR_TRY(read_number(r, op, path, scalar, 1, &scale));
    *ret = (struct qr_gate_arg){QR_ARG_CONSTANT, arg->number, 0};
    if (arg->kind == QR_TFQ_SYMBOL) QR_TRY(cirq_symbol_arg(r, at.s, text_of(arg->text).s, ret));
    ret->scale *= scale;
    return QR_OK;
}

/* Takes the text up to the next comma; false: there is none left. */
static bool next_item(struct qr_bytes *list, struct qr_bytes *ret) {
    const uint8_t *comma = list->n ? memchr(list->p, ',', list->n) : NULL;
    size_t n = comma ? (size_t)(comma - list->p) : list->n;
    if (!list->n) return false;
    *ret = qr_bytes_of(list->p, n);
    *list = qr_bytes_of(list->p + n + (comma != NULL), list->n - n - (comma != NULL));
    return true;
}

static enum qr_code read_controls(struct cirq_reader *r, const struct qr_tfq_operation *op,
                                  const char *path, struct qr_gate *g) {
    const struct qr_tfq_arg *qubits = find_arg(op, "control_qubits"),
                            *values = find_arg(op, "control_values");
    struct qr_bytes ids = qubits ? qubits->text : (struct qr_bytes){0},
                    bits = values ? values->text : (struct qr_bytes){0}, id, bit;
    uint16_t q;
    while (next_item(&ids, &id)) {
        if (!next_item(&bits, &bit) || (!qr_tfq_is(bit, "0") && !qr_tfq_is(bit, "1")))
            return qr_fail(r->err, QR_INVALID_ARGUMENT,
                           "%s.args['control_values'] must have a 0 or 1 for each control", path);
        QR_TRY(read_qubit(r, path, id, &q));
        QR_TRY(cirq_touch(r, path, &q, 1));
        if (qr_qubits_has(&g->controls, q))
            return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: the control '%s' is given twice", path,
                           text_of(id).s);
        qr_gate_control(g, q, qr_tfq_is(bit, "1"));
    }
    return QR_OK;
}

static const struct qr_gate_info *find_gate(struct qr_bytes name, enum qr_gate_kind *ret) {
    for (int kind = 0; kind < QR_GATE_KINDS; kind++) {
        const struct qr_gate_info *info = qr_gate_info((enum qr_gate_kind)kind);
        *ret = (enum qr_gate_kind)kind;
        if (qr_tfq_is(name, info->tfq ? info->tfq : info->name)) return info;
    }
    return NULL;
}

static const struct qr_channel_info *find_channel(struct qr_bytes name) {
    const struct qr_channel_info *info = NULL;
    for (size_t i = 0;
         (info = qr_channel_info_at(i)) && !(info->tfq && qr_tfq_is(name, info->tfq));)
        i++;
    return info;
}

static enum qr_code read_qubits(struct cirq_reader *r, const struct qr_tfq_operation *op,
                                const char *path, const char *name, unsigned n, uint16_t *ret) {
    if (op->n_qubits != n)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: %s acts on %u qubit%s, not %u", path, name,
                       n, n == 1 ? "" : "s", op->n_qubits);
    for (unsigned k = 0; k < n; k++) QR_TRY(read_qubit(r, path, op->qubits[k], &ret[k]));
    return cirq_touch(r, path, ret, n);
}

/* Six decimals may let the sum of probabilities exceed 1. */
static void limit_sum(struct qr_channel *c) {
    double sum = 0;
    for (unsigned k = 0; k < c->info->n_args; k++) sum += c->args[k].scale;
    for (unsigned k = 0; k < c->info->n_args && sum > 1 && sum < 1 + 2e-6; k++)
        c->args[k].scale /= sum;
}

static enum qr_code read_channel(struct cirq_reader *r, const struct qr_tfq_operation *op,
                                 const char *path, const struct qr_channel_info *info) {
    struct qr_channel c = {.info = info};
    struct qr_gate g = {0};
    uint16_t qubits[2];
    QR_TRY(read_qubits(r, op, path, info->names[0], info->n_targets, qubits));
    for (unsigned k = 0; k < info->n_args; k++) {
        QR_TRY(read_arg(r, op, path, info->arg_names[k], &c.args[k]));
        if (c.args[k].kind != QR_ARG_CONSTANT)
            return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s.args['%s'] must be a number", path,
                           info->arg_names[k]);
    }
    if (!info->damping) limit_sum(&c);
    QR_TRY(read_controls(r, op, path, &g));
    r->controls = g.controls;
    return cirq_channel_add(r, path, &c, qubits);
}

static enum qr_code read_operation(void *context, const struct qr_tfq_operation *op) {
    struct cirq_reader *r = context;
    struct qr_path path = qr_path_of("moments[%zu].operations[%zu]", op->moment, op->place);
    struct qr_gate g = {0};
    const struct qr_gate_info *info = find_gate(op->gate, &g.kind);
    const struct qr_channel_info *channel = info ? NULL : find_channel(op->gate);
    if (channel) return read_channel(r, op, path.s, channel);
    if (!info)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: the gate '%s' is unknown; TensorFlow Quantum's gate set has none of "
                       "this name",
                       path.s, text_of(op->gate).s);
    g.n_targets = info->n_targets;
    g.n_args = info->n_args;
    QR_TRY(read_qubits(r, op, path.s, info->name, g.n_targets, g.targets));
    for (unsigned k = 0; k < g.n_args; k++)
        QR_TRY(read_arg(r, op, path.s, info->arg_names[k], &g.args[k]));
    if (info->has_exponent) QR_TRY(read_number(r, op, path.s, "global_shift", 0, &g.global_shift));
    QR_TRY(read_controls(r, op, path.s, &g));
    return cirq_gate_add(r, path.s, &g);
}

enum qr_code cirq_tfq_program(struct cirq_reader *r, struct qr_bytes bytes) {
    return qr_tfq_program_decode(bytes, read_operation, r, r->err);
}

/* ---- Pauli sums ---- */

static enum qr_code read_term(void *context, const struct qr_tfq_term *term) {
    struct cirq_reader *r = context;
    struct qr_path path = qr_path_of("terms[%zu]", term->number);
    uint16_t qubits[QR_TFQ_PAULIS];
    char paulis[QR_TFQ_PAULIS];
    for (unsigned i = 0; i < term->n; i++) {
        QR_TRY(read_qubit(r, path.s, term->paulis[i].qubit, &qubits[i]));
        paulis[i] = term->paulis[i].pauli;
    }
    return cirq_term_add(r, path.s, term->re, term->im, qubits, paulis, term->n);
}

enum qr_code cirq_tfq_sum(struct cirq_reader *r, struct qr_bytes bytes) {
    cirq_readout_new(r);
    return qr_tfq_sum_decode(bytes, read_term, r, r->err);
}
