/* circuit/basic_gates.c — native gates as sequences of gates that every language has. Gates that
 * only change the basis for others have no controls. Start reading at qr_gate_lower(). */
#include <math.h>

#include "circuit/basic_gates.h"

static const struct {
    uint8_t n_targets, n_angles;
} basics[QR_BASIC_KINDS] = {
#define INFO(kind, ...) [QR_BASIC_##kind] = {__VA_ARGS__},
    QR_BASIC_ROWS(INFO)};

struct basic_emitter {
    qr_basic_emit *emit;
    void *context;
    struct qr_qubits controls, control_values; /* of the gates that follow */
};

static struct qr_gate_arg scaled(struct qr_gate_arg a, double by) {
    a.scale *= by;
    return a;
}
static bool is_number(const struct qr_gate_arg *a, double v) {
    return a->kind == QR_ARG_CONSTANT && a->scale == v;
}

static void emit_gate(const struct basic_emitter *e, enum qr_basic_kind kind, const uint16_t *at,
                      struct qr_gate_arg angle) {
    struct qr_basic_gate b = {.kind = kind,
                              .n_targets = basics[kind].n_targets,
                              .n_angles = basics[kind].n_angles,
                              .targets = {at[0]},
                              .angle = angle,
                              .controls = e->controls,
                              .control_values = e->control_values};
    if (b.n_targets == 2) b.targets[1] = at[1];
    e->emit(e->context, &b);
}

/* Without the controls. */
static void emit_frame(const struct basic_emitter *e, enum qr_basic_kind kind, const uint16_t *at,
                       struct qr_gate_arg angle) {
    const struct basic_emitter free_of = {.emit = e->emit, .context = e->context};
    emit_gate(&free_of, kind, at, angle);
}

static struct basic_emitter controlled(const struct basic_emitter *e, unsigned qubit) {
    struct basic_emitter more = *e;
    qr_qubits_add(&more.controls, qubit);
    qr_qubits_add(&more.control_values, qubit);
    return more;
}

/* e^{i pi half} where the controls have their values: a P on one of them. Without controls it is
 * the phase of the whole. */
static void emit_phase(const struct basic_emitter *e, struct qr_gate_arg half) {
    struct basic_emitter rest = *e;
    if (qr_qubits_is_empty(&e->controls) || half.scale == 0) return;
    bool one = !qr_qubits_is_empty(&e->control_values);
    uint16_t q = (uint16_t)qr_qubits_first(one ? &e->control_values : &e->controls);
    qr_qubits_remove(&rest.controls, q);
    qr_qubits_remove(&rest.control_values, q);
    const struct qr_gate_arg none = {.scale = 0};
    if (!one) emit_frame(e, QR_BASIC_X, &q, none);
    emit_gate(&rest, QR_BASIC_P, &q, half);
    if (!one) emit_frame(e, QR_BASIC_X, &q, none);
}

/* The power t of X, Y or Z with a global shift. */
static void emit_power(const struct basic_emitter *e, enum qr_gate_kind kind, uint16_t at,
                       struct qr_gate_arg t, double shift) {
    enum qr_basic_kind turn = kind == QR_GATE_X   ? QR_BASIC_RX
                              : kind == QR_GATE_Y ? QR_BASIC_RY
                                                  : QR_BASIC_RZ;
    if (shift == 0 && kind != QR_GATE_Z && is_number(&t, 1)) {
        emit_gate(e, kind == QR_GATE_X ? QR_BASIC_X : QR_BASIC_Y, &at, t);
    } else if (kind == QR_GATE_Z && shift != -0.5) {
        emit_gate(e, QR_BASIC_P, &at, t);
        emit_phase(e, scaled(t, shift));
    } else {
        emit_gate(e, turn, &at, t);
        emit_phase(e, scaled(t, shift + 0.5));
    }
}

/* H is Z turned about Y. */
static void emit_hadamard(const struct basic_emitter *e, const struct qr_gate *g) {
    const struct qr_gate_arg turn = {.kind = QR_ARG_CONSTANT, .scale = 0.25};
    if (g->global_shift == 0 && is_number(&g->args[0], 1)) {
        emit_gate(e, QR_BASIC_H, g->targets, turn);
        return;
    }
    emit_frame(e, QR_BASIC_RY, g->targets, scaled(turn, -1));
    emit_power(e, QR_GATE_Z, g->targets[0], g->args[0], g->global_shift);
    emit_frame(e, QR_BASIC_RY, g->targets, turn);
}

/* SWAP is a CNOT between two others. */
static void emit_swap(const struct basic_emitter *e, const struct qr_gate *g) {
    const struct qr_gate_arg one = {.kind = QR_ARG_CONSTANT, .scale = 1};
    const struct basic_emitter none = {.emit = e->emit, .context = e->context},
                               frame = controlled(&none, g->targets[0]),
                               middle = controlled(e, g->targets[1]);
    if (g->global_shift == 0 && is_number(&g->args[0], 1)) {
        emit_gate(e, QR_BASIC_SWAP, g->targets, one);
        return;
    }
    emit_gate(&frame, QR_BASIC_X, &g->targets[1], one);
    emit_power(&middle, QR_GATE_X, g->targets[0], g->args[0], 0);
    emit_gate(&frame, QR_BASIC_X, &g->targets[1], one);
    emit_phase(e, scaled(g->args[0], g->global_shift));
}

/* ISWAP^t is e^{i pi t (XX + YY) / 4}; a phase exponent p turns the qubits in opposite directions
 * before and after. */
static void emit_exchange(const struct basic_emitter *e, const struct qr_gate *g,
                          const struct qr_gate_arg *p, struct qr_gate_arg t) {
    if (p) {
        emit_frame(e, QR_BASIC_RZ, &g->targets[0], *p);
        emit_frame(e, QR_BASIC_RZ, &g->targets[1], scaled(*p, -1));
    }
    emit_gate(e, QR_BASIC_RXX, g->targets, scaled(t, -0.5));
    emit_gate(e, QR_BASIC_RYY, g->targets, scaled(t, -0.5));
    if (p) {
        emit_frame(e, QR_BASIC_RZ, &g->targets[0], scaled(*p, -1));
        emit_frame(e, QR_BASIC_RZ, &g->targets[1], *p);
    }
    emit_phase(e, scaled(t, g->global_shift));
}

void qr_gate_lower(const struct qr_gate *g, qr_basic_emit *emit, void *context) {
    const struct basic_emitter e = {emit, context, g->controls, g->control_values},
                               second = controlled(&e, g->targets[0]);
    const struct qr_gate_arg a = g->args[0], b = g->args[1];
    double shift = g->global_shift;
    switch (g->kind) {
    case QR_GATE_I: emit_frame(&e, QR_BASIC_I, g->targets, a); break;
    case QR_GATE_X:
    case QR_GATE_Y:
    case QR_GATE_Z: emit_power(&e, g->kind, g->targets[0], a, shift); break;
    case QR_GATE_H: emit_hadamard(&e, g); break;
    case QR_GATE_XX:
    case QR_GATE_YY:
    case QR_GATE_ZZ:
        emit_gate(&e,
                  g->kind == QR_GATE_XX   ? QR_BASIC_RXX
                  : g->kind == QR_GATE_YY ? QR_BASIC_RYY
                                          : QR_BASIC_RZZ,
                  g->targets, a);
        emit_phase(&e, scaled(a, shift + 0.5));
        break;
    case QR_GATE_CZ:
    case QR_GATE_CNOT:
        emit_power(&second, g->kind == QR_GATE_CZ ? QR_GATE_Z : QR_GATE_X, g->targets[1], a, 0);
        emit_phase(&e, scaled(a, shift));
        break;
    case QR_GATE_SWAP: emit_swap(&e, g); break;
    case QR_GATE_ISWAP: emit_exchange(&e, g, NULL, a); break;
    case QR_GATE_PHASED_X:
        emit_frame(&e, QR_BASIC_RZ, g->targets, scaled(a, -1));
        emit_power(&e, QR_GATE_X, g->targets[0], b, shift);
        emit_frame(&e, QR_BASIC_RZ, g->targets, a);
        break;
    case QR_GATE_PHASED_ISWAP: emit_exchange(&e, g, &a, b); break;
    case QR_GATE_FSIM: /* radians */
        emit_gate(&e, QR_BASIC_RXX, g->targets, scaled(a, 1 / M_PI));
        emit_gate(&e, QR_BASIC_RYY, g->targets, scaled(a, 1 / M_PI));
        emit_power(&second, QR_GATE_Z, g->targets[1], scaled(b, -1 / M_PI), 0);
        break;
    case QR_GATE_KINDS:
    case QR_GATE_CHANNEL: QR_ASSERT(false);
    }
}
