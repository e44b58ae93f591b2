/* sim/fusion/gate_expansion.c — replaces gates that have no tensor by gates that have one. Start
 * reading at qr_simple_gates_expand().
 *
 * Data appear in powers of involutions of the target and the helper. Exponents are multiples of the
 * gate's own, so its derivatives are those of its parts. */
#include <math.h>

#include "base/mem.h"
#include "observable/qubits.h"
#include "sim/fusion/gate_expansion.h"

bool qr_gate_has_data(const struct qr_gate *g) {
    bool data = false;
    for (unsigned k = 0; k < g->n_args; k++) data |= g->args[k].kind == QR_ARG_DATA;
    return data;
}

bool qr_gate_is_simple(const struct qr_gate *g) {
    unsigned n_controls = qr_qubits_count(&g->controls);
    if (g->kind == QR_GATE_CHANNEL) return true;
    if (qr_gate_has_data(g)) return !n_controls && qr_gate_info(g->kind)->power;
    return g->n_targets + n_controls <= 2;
}

void qr_simple_gates_append(struct qr_simple_gates *to, const struct qr_gate *g) {
    if (to->n == to->cap) {
        to->cap = to->cap ? 2 * to->cap : 64;
        to->gates = qr_xreallocarray(to->gates, to->cap, sizeof *to->gates);
    }
    to->gates[to->n++] = *g;
}

static struct qr_gate_arg constant_argument(double x) {
    return (struct qr_gate_arg){QR_ARG_CONSTANT, x, 0};
}
static struct qr_gate_arg scale_argument(struct qr_gate_arg arg, double factor) {
    arg.scale *= factor;
    return arg;
}

/* Appends powers without controls and shift. */
static void append_power(struct qr_simple_gates *to, enum qr_gate_kind kind, uint16_t q,
                         struct qr_gate_arg exponent) {
    qr_simple_gates_append(
        to, &(struct qr_gate){
                .kind = kind, .n_targets = 1, .n_args = 1, .targets = {q}, .args = {exponent}});
}
static void append_power_two(struct qr_simple_gates *to, enum qr_gate_kind kind, uint16_t a,
                             uint16_t b, struct qr_gate_arg exponent) {
    qr_simple_gates_append(
        to, &(struct qr_gate){
                .kind = kind, .n_targets = 2, .n_args = 1, .targets = {a, b}, .args = {exponent}});
}

/* The same gate as a power of another kind on some of its targets, with its controls. */
static struct qr_gate gate_power(const struct qr_gate *g, enum qr_gate_kind kind, uint16_t a,
                                 uint16_t b, struct qr_gate_arg exponent, double shift) {
    struct qr_gate ret = *g;
    ret.kind = kind;
    ret.n_targets = qr_gate_info(kind)->n_targets;
    ret.n_args = 1;
    ret.targets[0] = a;
    ret.targets[1] = b;
    ret.args[0] = exponent;
    ret.global_shift = shift;
    return ret;
}

static void remove_control(struct qr_gate *g, unsigned q) {
    uint64_t others = ~(UINT64_C(1) << q % 64);
    g->controls.word[q / 64] &= others;
    g->control_values.word[q / 64] &= others;
}

/* e^{i pi g t} where the controls hold: a power of Z on one of them, or of I - Z. */
static void append_shift(struct qr_simple_gates *to, const struct qr_gate *g, struct qr_gate_arg t,
                         double shift) {
    if (qr_qubits_is_empty(&g->controls) || shift == 0) return;
    struct qr_gate z = *g;
    uint16_t q = (uint16_t)qr_qubits_first(&g->controls);
    bool value = qr_qubits_has(&g->control_values, q);
    remove_control(&z, q);
    z = gate_power(&z, QR_GATE_Z, q, 0, scale_argument(t, shift), 0);
    if (!value) append_power(to, QR_GATE_X, q, constant_argument(1));
    qr_simple_gates_expand(to, &z);
    if (!value) append_power(to, QR_GATE_X, q, constant_argument(1));
}

/* A power of X or Z with at least one control: a single control directly, several by a helper. */
static void append_controlled(struct qr_simple_gates *to, const struct qr_gate *g) {
    enum qr_gate_kind kind = g->kind == QR_GATE_X ? QR_GATE_CNOT : QR_GATE_CZ;
    uint16_t control = (uint16_t)qr_qubits_first(&g->controls), on = control;
    bool several = qr_qubits_count(&g->controls) > 1,
         turned = !several && !qr_qubits_has(&g->control_values, control);
    if (several) {
        const struct qr_qubits *all = &g->controls;
        on = to->next_helper++;
        for (unsigned q = control; q < QR_MAX_QUBITS; q = qr_qubits_next(all, q))
            append_power_two(to, QR_SIMPLE_AND, on, (uint16_t)q,
                             constant_argument(qr_qubits_has(&g->control_values, q)));
    }
    if (turned) append_power(to, QR_GATE_X, on, constant_argument(1));
    append_power_two(to, kind, on, g->targets[0], g->args[0]);
    if (g->global_shift != 0)
        append_power(to, QR_GATE_Z, on, scale_argument(g->args[0], g->global_shift));
    if (turned) append_power(to, QR_GATE_X, on, constant_argument(1));
}

/* A power of P as one of Q = R^-1 P R, where R is a power of a one-qubit gate on these qubits. */
static void append_conjugated(struct qr_simple_gates *to, const struct qr_gate *g,
                              enum qr_gate_kind kind, enum qr_gate_kind frame, double by) {
    for (unsigned k = 0; k < g->n_targets; k++)
        append_power(to, frame, g->targets[k], constant_argument(-by));
    struct qr_gate turned = *g;
    turned.kind = kind;
    qr_simple_gates_expand(to, &turned);
    for (unsigned k = 0; k < g->n_targets; k++)
        append_power(to, frame, g->targets[k], constant_argument(by));
}

/* A power on two qubits as a power on one between two CNOTs, the first of which combines both
 * qubits; SWAP as a power of a CNOT between two CNOTs. */
static void append_between_cnots(struct qr_simple_gates *to, const struct qr_gate *g) {
    uint16_t a = g->targets[0], b = g->targets[1];
    struct qr_gate inside =
        g->kind == QR_GATE_XX   ? gate_power(g, QR_GATE_X, a, 0, g->args[0], g->global_shift)
        : g->kind == QR_GATE_ZZ ? gate_power(g, QR_GATE_Z, b, 0, g->args[0], g->global_shift)
                                : gate_power(g, QR_GATE_CNOT, a, b, g->args[0], g->global_shift);
    if (g->kind == QR_GATE_SWAP) a = g->targets[1], b = g->targets[0];
    append_power_two(to, QR_GATE_CNOT, a, b, constant_argument(1));
    qr_simple_gates_expand(to, &inside);
    append_power_two(to, QR_GATE_CNOT, a, b, constant_argument(1));
}

/* The first target of CNOT and CZ as a control; the shift depends on the other controls only. */
static void append_as_control(struct qr_simple_gates *to, const struct qr_gate *g) {
    struct qr_gate one = gate_power(g, g->kind == QR_GATE_CNOT ? QR_GATE_X : QR_GATE_Z,
                                    g->targets[1], 0, g->args[0], 0);
    qr_qubits_add(&one.controls, g->targets[0]);
    qr_qubits_add(&one.control_values, g->targets[0]);
    qr_simple_gates_expand(to, &one);
    append_shift(to, g, g->args[0], g->global_shift);
}

/* e^{i pi/4 t (XX + YY)}, shifted: ISWAP^t, and FSIM's first half. */
static void append_exchange(struct qr_simple_gates *to, const struct qr_gate *g,
                            struct qr_gate_arg t) {
    uint16_t a = g->targets[0], b = g->targets[1];
    struct qr_gate_arg back = scale_argument(t, -0.5);
    struct qr_gate xx = gate_power(g, QR_GATE_XX, a, b, back, -0.5 - 2 * g->global_shift),
                   yy = gate_power(g, QR_GATE_YY, a, b, back, -0.5);
    qr_simple_gates_expand(to, &xx);
    qr_simple_gates_expand(to, &yy);
}

static void append_phased(struct qr_simple_gates *to, const struct qr_gate *g) {
    uint16_t a = g->targets[0], b = g->targets[1];
    struct qr_gate_arg p = g->args[0];
    bool two = g->n_targets == 2;
    append_power(to, QR_GATE_Z, a, scale_argument(p, two ? 1 : -1));
    if (two) append_power(to, QR_GATE_Z, b, scale_argument(p, -1));
    if (two) {
        append_exchange(to, g, g->args[1]);
    } else {
        struct qr_gate x = gate_power(g, QR_GATE_X, a, 0, g->args[1], g->global_shift);
        qr_simple_gates_expand(to, &x);
    }
    append_power(to, QR_GATE_Z, a, scale_argument(p, two ? -1 : 1));
    if (two) append_power(to, QR_GATE_Z, b, p);
}

static void append_fsim(struct qr_simple_gates *to, const struct qr_gate *g) {
    append_exchange(to, g, scale_argument(g->args[0], -2 / M_PI));
    struct qr_gate phase = gate_power(g, QR_GATE_CZ, g->targets[0], g->targets[1],
                                      scale_argument(g->args[1], -1 / M_PI), 0);
    qr_simple_gates_expand(to, &phase);
}

void qr_simple_gates_expand(struct qr_simple_gates *to, const struct qr_gate *g) {
    if (qr_gate_is_simple(g)) {
        qr_simple_gates_append(to, g);
        return;
    }
    switch (g->kind) {
    case QR_GATE_X:
    case QR_GATE_Z: append_controlled(to, g); return;
    case QR_GATE_Y: append_conjugated(to, g, QR_GATE_X, QR_GATE_Z, 0.5); return;
    case QR_GATE_H: append_conjugated(to, g, QR_GATE_Z, QR_GATE_Y, 0.25); return;
    case QR_GATE_YY: append_conjugated(to, g, QR_GATE_XX, QR_GATE_Z, 0.5); return;
    case QR_GATE_XX:
    case QR_GATE_ZZ:
    case QR_GATE_SWAP: append_between_cnots(to, g); return;
    case QR_GATE_CZ:
    case QR_GATE_CNOT: append_as_control(to, g); return;
    case QR_GATE_ISWAP: append_exchange(to, g, g->args[0]); return;
    case QR_GATE_PHASED_X:
    case QR_GATE_PHASED_ISWAP: append_phased(to, g); return;
    case QR_GATE_FSIM: append_fsim(to, g); return;
    case QR_GATE_I:
    case QR_GATE_KINDS:
    case QR_GATE_CHANNEL: break;
    }
    QR_ASSERT(false); /* Identities are in no cone. */
}

void qr_powers_expand(struct qr_simple_gates *to, const struct qr_gate *g) {
    switch (g->kind) {
    case QR_GATE_ISWAP: append_exchange(to, g, g->args[0]); return;
    case QR_GATE_PHASED_X:
    case QR_GATE_PHASED_ISWAP: append_phased(to, g); return;
    case QR_GATE_FSIM: append_fsim(to, g); return;
    default: qr_simple_gates_append(to, g);
    }
}
