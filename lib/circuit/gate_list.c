/* circuit/gate_list.c — lists of gates: the gates that composite gates consist of; the inverse and
 * the powers of a list. Start reading at qr_gate_on() and qr_gate_list_invert(). */
#include <math.h>

#include "base/mem.h"
#include "circuit/composite_gates.h"

struct qr_gate *qr_gate_list_new(struct qr_gate_list *to) {
    if (to->n == to->cap) {
        to->cap = to->cap ? 2 * to->cap : 64;
        to->gates = qr_xreallocarray(to->gates, to->cap, sizeof *to->gates);
    }
    return &to->gates[to->n++];
}

void qr_gate_list_add(struct qr_gate_list *to, const struct qr_gate *g) {
    *qr_gate_list_new(to) = *g;
}

void qr_gate_list_fini(struct qr_gate_list *l) {
    free(l->gates);
    *l = (struct qr_gate_list){0};
}

struct qr_gate qr_gate_on(const struct qr_gate_use *use, enum qr_gate_kind kind, unsigned at,
                          double exponent) {
    return (struct qr_gate){.kind = kind,
                            .n_targets = 1,
                            .n_args = qr_gate_info(kind)->n_args,
                            .targets = {use->qubits[at]},
                            .args = {{QR_ARG_CONSTANT, exponent, 0}},
                            .controls = use->controls,
                            .control_values = use->control_values};
}

void qr_gate_control(struct qr_gate *g, unsigned qubit, bool value) {
    qr_qubits_add(&g->controls, qubit);
    if (value) qr_qubits_add(&g->control_values, qubit);
}

void qr_gate_list_add_phase(struct qr_gate_list *to, const struct qr_qubits *controls,
                            const struct qr_qubits *values, struct qr_gate_arg half_turns) {
    if (qr_qubits_is_empty(controls)) return;
    bool on = !qr_qubits_is_empty(values);
    struct qr_gate g = {.kind = QR_GATE_Z,
                        .n_targets = 1,
                        .n_args = 1,
                        .targets = {(uint16_t)qr_qubits_first(on ? values : controls)},
                        .args = {half_turns},
                        .controls = *controls,
                        .control_values = *values};
    /* Z^t is a phase on 1; with global shift -1, Z^-t is the same phase on 0. */
    if (!on) g.args[0].scale *= -1, g.global_shift = -1;
    qr_qubits_remove(&g.controls, g.targets[0]);
    qr_qubits_remove(&g.control_values, g.targets[0]);
    qr_gate_list_add(to, &g);
}

/* ---- inverse and powers ---- */

static void scale_gate(struct qr_gate *g, double by) {
    if (!g->n_args) return;
    g->args[g->n_args - 1].scale *= by;
    if (g->kind == QR_GATE_FSIM) g->args[0].scale *= by;
}

/* X, H, CNOT and others are their own inverses. */
static bool is_involution(const struct qr_gate *g) {
    return qr_gate_info(g->kind)->power && g->args[0].kind == QR_ARG_CONSTANT &&
           g->args[0].scale == 1 && g->global_shift == 0;
}

void qr_gate_list_invert(struct qr_gate_list *l, size_t from) {
    for (size_t a = from, b = l->n; a + 1 < b; a++, b--) {
        struct qr_gate first = l->gates[a];
        l->gates[a] = l->gates[b - 1];
        l->gates[b - 1] = first;
    }
    for (size_t i = from; i < l->n; i++)
        if (!is_involution(&l->gates[i])) scale_gate(&l->gates[i], -1);
}

/* (-1, 1] */
static double wrapped_half_turns(double t) { return t - 2 * ceil((t - 1) / 2); }

/* The principal power, from the phases -pi < a <= pi of the eigenvalues of a constant gate; with
 * power < 0 the inverse of that of -power. */
static enum qr_code power_of_constant(struct qr_gate *g, double power, struct qr_err *err) {
    const struct qr_gate_info *info = qr_gate_info(g->kind);
    if (!info->power)
        return qr_fail(err, QR_UNIMPLEMENTED,
                       "a fractional power of %s is not known; write the gates of the power",
                       info->name);
    double t = g->args[0].scale, even = wrapped_half_turns(g->global_shift * t),
           turn = wrapped_half_turns((g->global_shift + 1) * t) - even;
    /* With equal phases the gate is a global phase: the limit of a small exponent. */
    if (turn == 0 && even != 0)
        return qr_fail(err, QR_UNIMPLEMENTED,
                       "a fractional power of a global phase is not known; write its gates");
    g->args[0].scale = turn * power;
    if (turn != 0) g->global_shift = even != 0 ? even / turn : 0; /* not -0 */
    return QR_OK;
}

enum qr_code qr_gate_list_power(struct qr_gate_list *l, size_t from, double power, size_t most,
                                struct qr_err *err) {
    size_t n = l->n - from;
    bool whole = power == floor(power);
    if (whole && power < 0) {
        qr_gate_list_invert(l, from);
        power = -power;
    }
    if (!n || power == 1) return QR_OK;
    struct qr_gate *g = &l->gates[from];
    if (n == 1 && !whole && g->n_args && g->args[g->n_args - 1].kind == QR_ARG_CONSTANT)
        return power_of_constant(g, power, err);
    if (n == 1 && g->kind != QR_GATE_CHANNEL) {
        scale_gate(g, power);
        return QR_OK;
    }
    if (!whole)
        return qr_fail(err, QR_UNIMPLEMENTED,
                       "a fractional power of %zu gates is not known; write the gates of the power",
                       n);
    if (power * (double)n > (double)most)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "here the circuit exceeds %zu gates; use a smaller power", most);
    if (power == 0) l->n = from;
    for (size_t i = n; i < n * (size_t)power; i++) {
        struct qr_gate copy = l->gates[from + i - n];
        qr_gate_list_add(l, &copy);
    }
    return QR_OK;
}
