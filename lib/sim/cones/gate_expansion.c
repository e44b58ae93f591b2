/* sim/cones/gate_expansion.c — gates that the engine has no tensor for, as some that it has.
 *
 * What several controls do goes by a helper: a qubit more that begins as 1, becomes itself AND each
 * control in turn, controls the gate, and ends as the sum over its two values. That is no circuit
 * (AND is not unitary, and a sum is no state), but a network as good as any: U on the target where
 * all controls hold, 1 elsewhere. Data are in powers of involutions of the target and of the
 * helper. Exponents are multiples of the gate's own, so its derivatives are those of its parts. */
#include <math.h>

#include "base/mem.h"
#include "observable/qubits.h"
#include "sim/cones/cones_impl.h"

bool cone_gate_is_simple(const struct qr_gate *g) {
    unsigned n_controls = qr_qubits_count(&g->controls);
    if (cone_gate_has_data(g)) return !n_controls && qr_gate_info(g->kind)->power;
    return g->n_targets + n_controls <= 2;
}

static void append(struct cone_gates *to, const struct qr_gate *g) {
    if (to->n == to->cap) {
        to->cap = to->cap ? 2 * to->cap : 64;
        to->gates = qr_xreallocarray(to->gates, to->cap, sizeof *to->gates);
    }
    to->gates[to->n++] = *g;
}

static struct qr_gate_arg constant(double x) { return (struct qr_gate_arg){QR_ARG_CONSTANT, x, 0}; }
static struct qr_gate_arg times(struct qr_gate_arg arg, double factor) {
    arg.scale *= factor;
    return arg;
}

/* Powers without controls and shift. */
static void put_one(struct cone_gates *to, enum qr_gate_kind kind, uint16_t q,
                    struct qr_gate_arg exponent) {
    append(to, &(struct qr_gate){
                   .kind = kind, .n_targets = 1, .n_args = 1, .targets = {q}, .args = {exponent}});
}
static void put_two(struct cone_gates *to, enum qr_gate_kind kind, uint16_t a, uint16_t b,
                    struct qr_gate_arg exponent) {
    append(to,
           &(struct qr_gate){
               .kind = kind, .n_targets = 2, .n_args = 1, .targets = {a, b}, .args = {exponent}});
}

/* The gate's power of another kind on some of its targets, with its controls. */
static struct qr_gate power_of(const struct qr_gate *g, enum qr_gate_kind kind, uint16_t a,
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
static void put_shift(struct cone_gates *to, const struct qr_gate *g, struct qr_gate_arg t,
                      double shift) {
    if (qr_qubits_is_empty(&g->controls) || shift == 0) return;
    struct qr_gate z = *g;
    uint16_t q = (uint16_t)qr_qubits_first(&g->controls);
    bool value = qr_qubits_has(&g->control_values, q);
    remove_control(&z, q);
    z = power_of(&z, QR_GATE_Z, q, 0, times(t, shift), 0);
    if (!value) put_one(to, QR_GATE_X, q, constant(1));
    cone_gate_expand(to, &z);
    if (!value) put_one(to, QR_GATE_X, q, constant(1));
}

/* A power of X or Z with at least one control: with one alone by itself, with several by a helper
 * that stands for them. */
static void put_controlled(struct cone_gates *to, const struct qr_gate *g) {
    enum qr_gate_kind kind = g->kind == QR_GATE_X ? QR_GATE_CNOT : QR_GATE_CZ;
    uint16_t control = (uint16_t)qr_qubits_first(&g->controls), on = control;
    bool several = qr_qubits_count(&g->controls) > 1,
         turned = !several && !qr_qubits_has(&g->control_values, control);
    if (several) {
        const struct qr_qubits *all = &g->controls;
        on = to->next_helper++;
        for (unsigned q = control; q < QR_MAX_QUBITS; q = qr_qubits_next(all, q))
            put_two(to, CONE_GATE_AND, on, (uint16_t)q,
                    constant(qr_qubits_has(&g->control_values, q)));
    }
    if (turned) put_one(to, QR_GATE_X, on, constant(1));
    put_two(to, kind, on, g->targets[0], g->args[0]);
    if (g->global_shift != 0) put_one(to, QR_GATE_Z, on, times(g->args[0], g->global_shift));
    if (turned) put_one(to, QR_GATE_X, on, constant(1));
}

/* A power of P as one of Q = R^-1 P R, R being the power of a one-qubit gate on these qubits. */
static void put_turned(struct cone_gates *to, const struct qr_gate *g, enum qr_gate_kind kind,
                       enum qr_gate_kind frame, double by) {
    for (unsigned k = 0; k < g->n_targets; k++) put_one(to, frame, g->targets[k], constant(-by));
    struct qr_gate turned = *g;
    turned.kind = kind;
    cone_gate_expand(to, &turned);
    for (unsigned k = 0; k < g->n_targets; k++) put_one(to, frame, g->targets[k], constant(by));
}

/* A power on two qubits between two CNOTs: inside it is a power on one, where the first CNOT has
 * taken what the other knows; or, of SWAP, that of a CNOT. */
static void put_by_cnots(struct cone_gates *to, const struct qr_gate *g) {
    uint16_t a = g->targets[0], b = g->targets[1];
    struct qr_gate inside =
        g->kind == QR_GATE_XX   ? power_of(g, QR_GATE_X, a, 0, g->args[0], g->global_shift)
        : g->kind == QR_GATE_ZZ ? power_of(g, QR_GATE_Z, b, 0, g->args[0], g->global_shift)
                                : power_of(g, QR_GATE_CNOT, a, b, g->args[0], g->global_shift);
    if (g->kind == QR_GATE_SWAP) a = g->targets[1], b = g->targets[0];
    put_two(to, QR_GATE_CNOT, a, b, constant(1));
    cone_gate_expand(to, &inside);
    put_two(to, QR_GATE_CNOT, a, b, constant(1));
}

/* CNOT's and CZ's first target as a control: the shift is of the other controls alone. */
static void put_as_control(struct cone_gates *to, const struct qr_gate *g) {
    struct qr_gate one = power_of(g, g->kind == QR_GATE_CNOT ? QR_GATE_X : QR_GATE_Z, g->targets[1],
                                  0, g->args[0], 0);
    qr_qubits_add(&one.controls, g->targets[0]);
    qr_qubits_add(&one.control_values, g->targets[0]);
    cone_gate_expand(to, &one);
    put_shift(to, g, g->args[0], g->global_shift);
}

/* e^{i pi/4 t (XX + YY)}, shifted: ISWAP^t, and FSIM's first half. */
static void put_exchange(struct cone_gates *to, const struct qr_gate *g, struct qr_gate_arg t) {
    uint16_t a = g->targets[0], b = g->targets[1];
    struct qr_gate_arg back = times(t, -0.5);
    struct qr_gate xx = power_of(g, QR_GATE_XX, a, b, back, -0.5 - 2 * g->global_shift),
                   yy = power_of(g, QR_GATE_YY, a, b, back, -0.5);
    cone_gate_expand(to, &xx);
    cone_gate_expand(to, &yy);
}

static void put_phased(struct cone_gates *to, const struct qr_gate *g) {
    uint16_t a = g->targets[0], b = g->targets[1];
    struct qr_gate_arg p = g->args[0];
    bool two = g->n_targets == 2;
    put_one(to, QR_GATE_Z, a, times(p, two ? 1 : -1));
    if (two) put_one(to, QR_GATE_Z, b, times(p, -1));
    if (two) {
        put_exchange(to, g, g->args[1]);
    } else {
        struct qr_gate x = power_of(g, QR_GATE_X, a, 0, g->args[1], g->global_shift);
        cone_gate_expand(to, &x);
    }
    put_one(to, QR_GATE_Z, a, times(p, two ? -1 : 1));
    if (two) put_one(to, QR_GATE_Z, b, p);
}

static void put_fsim(struct cone_gates *to, const struct qr_gate *g) {
    put_exchange(to, g, times(g->args[0], -2 / M_PI));
    struct qr_gate phase =
        power_of(g, QR_GATE_CZ, g->targets[0], g->targets[1], times(g->args[1], -1 / M_PI), 0);
    cone_gate_expand(to, &phase);
}

void cone_gate_expand(struct cone_gates *to, const struct qr_gate *g) {
    if (cone_gate_is_simple(g)) {
        append(to, g);
        return;
    }
    switch (g->kind) {
    case QR_GATE_X:
    case QR_GATE_Z: put_controlled(to, g); return;
    case QR_GATE_Y: put_turned(to, g, QR_GATE_X, QR_GATE_Z, 0.5); return;
    case QR_GATE_H: put_turned(to, g, QR_GATE_Z, QR_GATE_Y, 0.25); return;
    case QR_GATE_YY: put_turned(to, g, QR_GATE_XX, QR_GATE_Z, 0.5); return;
    case QR_GATE_XX:
    case QR_GATE_ZZ:
    case QR_GATE_SWAP: put_by_cnots(to, g); return;
    case QR_GATE_CZ:
    case QR_GATE_CNOT: put_as_control(to, g); return;
    case QR_GATE_ISWAP: put_exchange(to, g, g->args[0]); return;
    case QR_GATE_PHASED_X:
    case QR_GATE_PHASED_ISWAP: put_phased(to, g); return;
    case QR_GATE_FSIM: put_fsim(to, g); return;
    case QR_GATE_I:
    case QR_GATE_KINDS: break;
    }
    QR_ASSERT(false); /* identities are in no cone */
}
