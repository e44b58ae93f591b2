/* qasm/gate_modifiers.c — inv, ctrl, negctrl and pow on a list of native gates. A global phase is a
 * gate I without a target until it gets a control. */
#include <math.h>

#include "qasm/qasm_impl.h"

static bool is_phase(const struct qr_gate *g) { return g->n_targets == 0; }

static void scale_gate(struct qr_gate *g, double by) {
    if (!g->n_args) return;
    g->args[g->n_args - 1].scale *= by;
    if (g->kind == QR_GATE_FSIM) g->args[0].scale *= by;
}

/* X, H, CNOT and others are their own inverses. */
static bool is_involution(const struct qr_gate *g) {
    return !is_phase(g) && qr_gate_info(g->kind)->power && g->args[0].kind == QR_ARG_CONSTANT &&
           g->args[0].scale == 1 && g->global_shift == 0;
}

void qasm_gates_invert(struct qasm_reader *r, size_t from) {
    struct qr_gate *gates = r->gates.list.gates;
    for (size_t a = from, b = r->gates.list.n; a + 1 < b; a++, b--) {
        struct qr_gate first = gates[a];
        gates[a] = gates[b - 1];
        gates[b - 1] = first;
    }
    for (size_t i = from; i < r->gates.list.n; i++)
        if (!is_involution(&gates[i])) scale_gate(&gates[i], -1);
    r->steps += r->gates.list.n - from;
}

void qasm_gates_control(struct qasm_reader *r, size_t from, unsigned qubit, bool value) {
    for (size_t i = from; i < r->gates.list.n; i++) {
        struct qr_gate *g = &r->gates.list.gates[i];
        if (!is_phase(g)) {
            qr_gate_control(g, qubit, value);
            continue;
        }
        /* Z^t is a phase on 1; with global shift -1, Z^-t is the same phase on 0. */
        g->kind = QR_GATE_Z;
        g->n_targets = 1;
        g->targets[0] = (uint16_t)qubit;
        if (!value) g->args[0].scale *= -1, g->global_shift = -1;
    }
    r->steps += r->gates.list.n - from;
}

/* (-1, 1] */
static double wrapped_half_turns(double t) { return t - 2 * ceil((t - 1) / 2); }

/* The principal power, from the phases -pi < a <= pi of the eigenvalues of a constant gate. */
static enum qr_code power_of_constant(struct qasm_reader *r, uint32_t token, struct qr_gate *g,
                                      double power) {
    const struct qr_gate_info *info = qr_gate_info(g->kind);
    double t = g->args[0].scale, even = is_phase(g) ? t : g->global_shift * t;
    if (!is_phase(g) && !info->power)
        return qasm_refuse(r, token,
                           "a fractional power of %s is not known; write the gates of the power",
                           info->name);
    even = wrapped_half_turns(even);
    if (is_phase(g)) {
        g->args[0].scale = even * power;
        return QR_OK;
    }
    double odd = wrapped_half_turns((g->global_shift + 1) * t), turn = odd - even;
    /* With equal phases the gate is a global phase: the limit of a small exponent. */
    if (turn == 0) {
        if (even == 0) g->args[0].scale = 0;
        else
            return qasm_refuse(
                r, token, "a fractional power of a global phase is not known; write its gates");
        return QR_OK;
    }
    g->args[0].scale = turn * power;
    g->global_shift = even / turn;
    return QR_OK;
}

enum qr_code qasm_gates_power(struct qasm_reader *r, uint32_t token, size_t from, double power) {
    struct qr_gate_list *list = &r->gates.list;
    size_t n = list->n - from;
    if (power < 0) {
        qasm_gates_invert(r, from);
        power = -power;
    }
    bool whole = power == floor(power);
    if (!n || power == 1) return QR_OK;
    struct qr_gate *g = &list->gates[from];
    if (n == 1 && !whole && g->n_args && g->args[g->n_args - 1].kind == QR_ARG_CONSTANT)
        return power_of_constant(r, token, g, power);
    if (n == 1) {
        scale_gate(g, power);
        return QR_OK;
    }
    if (!whole)
        return qasm_refuse(r, token,
                           "a fractional power of a gate that consists of %zu gates is not known; "
                           "write the gates of the power",
                           n);
    if (power * (double)n > r->max_gates)
        return qasm_fail(r, token, "here the circuit exceeds %u gates; use a smaller power",
                         r->max_gates);
    if (power == 0) list->n = from;
    for (size_t i = n; i < n * (size_t)power; i++) {
        struct qr_gate copy = list->gates[from + i - n];
        qr_gate_list_add(list, &copy);
    }
    r->steps += n * (size_t)power;
    return qasm_bounded(r, token);
}
