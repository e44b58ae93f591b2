/* export/qasm2.c — OpenQASM 2 with the gates of the first qelib1.inc, which every reader has: no
 * modifiers, so controlled gates become phases of qubits' parities. Start reading at
 * export_qasm2(). */
#include <math.h>
#include <stdio.h>

#include "circuit/basic_gates.h"
#include "export/export_impl.h"
#include "export/qasm_names.h"

enum { MAX_PHASE_QUBITS = 12 }; /* a phase of n qubits takes 2^n gates of each kind */

struct qasm2_writer {
    const struct qr_circuit *circuit;
    struct qr_buf *to;
    struct qr_err *err;
    enum qr_code code;
};

static void put_angle(const struct qasm2_writer *w, double half_turns) {
    const struct qr_gate_arg a = {.kind = QR_ARG_CONSTANT, .scale = half_turns};
    const struct qr_expression_style style = {.round = false};
    qr_buf_puts(w->to, "(");
    export_angle(w->circuit, &style, &a, w->to);
    qr_buf_puts(w->to, ")");
}

static void put_plain(const struct qasm2_writer *w, const char *name, unsigned qubit) {
    qr_buf_printf(w->to, "%s q[%u];\n", name, qubit);
}
static void put_turn(const struct qasm2_writer *w, const char *name, double half_turns,
                     unsigned qubit) {
    qr_buf_puts(w->to, name);
    put_angle(w, half_turns);
    qr_buf_printf(w->to, " q[%u];\n", qubit);
}
static void put_cx(const struct qasm2_writer *w, unsigned a, unsigned b) {
    qr_buf_printf(w->to, "cx q[%u], q[%u];\n", a, b);
}

/* ---- phases ---- */

static unsigned list_qubits(const struct qr_qubits *s, uint16_t ret[MAX_PHASE_QUBITS]) {
    unsigned n = 0;
    for (unsigned q = qr_qubits_first(s); q < QR_MAX_QUBITS && n < MAX_PHASE_QUBITS;
         q = qr_qubits_next(s, q))
        ret[n++] = (uint16_t)q;
    return n;
}

/* e^{i pi half} where all qubits are 1. The product of n bits is a sum over the parities of their
 * subsets, each times +-2^(1-n); the parities of the subsets with qubit k as their last are visited
 * in Gray order, in qubit k. */
static void put_phase(struct qasm2_writer *w, const struct qr_qubits *qubits, double half) {
    uint16_t q[MAX_PHASE_QUBITS];
    unsigned n = list_qubits(qubits, q);
    double part = ldexp(half, 1 - (int)n);
    if (n < qr_qubits_count(qubits)) {
        w->code = qr_fail(w->err, QR_UNIMPLEMENTED,
                          "a gate has more than %d qubits with its controls; choose qasm3",
                          MAX_PHASE_QUBITS);
        return;
    }
    if (n == 2 && half == 1) { /* no cu1: Cirq 1.6 reads it as crz */
        qr_buf_printf(w->to, "cz q[%u], q[%u];\n", q[0], q[1]);
        return;
    }
    for (unsigned k = 0; k < n; k++) {
        put_turn(w, "u1", part, q[k]);
        for (unsigned i = 1, sets = 1u << k; k && i <= sets; i++) {
            unsigned bit = i < sets ? (unsigned)__builtin_ctz(i) : k - 1, gray = i ^ i >> 1;
            put_cx(w, q[bit], q[k]);
            if (i < sets) put_turn(w, "u1", __builtin_popcount(gray) & 1 ? -part : part, q[k]);
        }
    }
}

/* ---- gates ---- */

/* Turns an axis to Z, or back. */
static void put_frame(const struct qasm2_writer *w, enum qr_basic_kind kind, unsigned q,
                      bool back) {
    bool y = kind == QR_BASIC_Y || kind == QR_BASIC_RY;
    if (kind == QR_BASIC_H) put_turn(w, "ry", back ? 0.25 : -0.25, q);
    if (y && !back) put_plain(w, "sdg", q);
    if (y || kind == QR_BASIC_X || kind == QR_BASIC_RX) put_plain(w, "h", q);
    if (y && back) put_plain(w, "s", q);
}

/* A phase, or a rotation about Z, of a qubit and the controls, which must be 1. */
static void put_controlled(struct qasm2_writer *w, const struct qr_basic_gate *b, unsigned q) {
    struct qr_qubits all = b->controls;
    qr_qubits_add(&all, q);
    put_phase(w, &all, b->n_angles ? b->angle.scale : 1);
    if (b->n_angles && b->kind != QR_BASIC_P) put_phase(w, &b->controls, -b->angle.scale / 2);
}

static void put_one(struct qasm2_writer *w, const struct qr_basic_gate *b) {
    static const char *const plain[QR_BASIC_KINDS] = {
        [QR_BASIC_I] = "id", [QR_BASIC_X] = "x",   [QR_BASIC_Y] = "y",   [QR_BASIC_H] = "h",
        [QR_BASIC_P] = "u1", [QR_BASIC_RX] = "rx", [QR_BASIC_RY] = "ry", [QR_BASIC_RZ] = "rz"};
    unsigned q = b->targets[0], n = qr_qubits_count(&b->controls),
             first = n ? qr_qubits_first(&b->controls) : 0;
    if (!n && b->n_angles) {
        put_turn(w, plain[b->kind], b->angle.scale, q);
    } else if (!n) {
        put_plain(w, plain[b->kind], q);
    } else if (b->kind == QR_BASIC_X && n == 1) {
        put_cx(w, first, q);
    } else if (b->kind == QR_BASIC_X && n == 2) {
        qr_buf_printf(w->to, "ccx q[%u], q[%u], q[%u];\n", first, qr_qubits_last(&b->controls), q);
    } else {
        put_frame(w, b->kind, q, false);
        put_controlled(w, b, q);
        put_frame(w, b->kind, q, true);
    }
}

/* A gate on two qubits as one on the second, between CNOTs. */
static void put_pair(struct qasm2_writer *w, const struct qr_basic_gate *b) {
    struct qr_basic_gate one = *b;
    unsigned from = b->kind == QR_BASIC_SWAP ? b->targets[1] : b->targets[0],
             to = b->kind == QR_BASIC_SWAP ? b->targets[0] : b->targets[1];
    enum qr_basic_kind axis = b->kind == QR_BASIC_RXX   ? QR_BASIC_RX
                              : b->kind == QR_BASIC_RYY ? QR_BASIC_RY
                                                        : QR_BASIC_RZ;
    one.n_targets = 1;
    one.targets[0] = b->targets[1];
    one.kind = QR_BASIC_RZ;
    if (b->kind == QR_BASIC_SWAP) {
        one.kind = QR_BASIC_X;
        qr_qubits_add(&one.controls, b->targets[0]);
        axis = QR_BASIC_RZ;
    }
    for (unsigned k = 0; k < 2; k++) put_frame(w, axis, b->targets[k], false);
    put_cx(w, from, to);
    put_one(w, &one);
    put_cx(w, from, to);
    for (unsigned k = 0; k < 2; k++) put_frame(w, axis, b->targets[k], true);
}

static void put_basic(void *context, const struct qr_basic_gate *b) {
    struct qasm2_writer *w = context;
    for (int back = 0; back < 2; back++) {
        for (unsigned q = qr_qubits_first(&b->controls); q < QR_MAX_QUBITS;
             q = qr_qubits_next(&b->controls, q))
            if (!qr_qubits_has(&b->control_values, q)) put_plain(w, "x", q);
        if (!back && b->n_targets == 2) put_pair(w, b);
        else if (!back) put_one(w, b);
    }
}

enum qr_code export_qasm2(const struct qr_export *what, struct qr_buf *to, struct qr_err *err) {
    const struct qr_circuit *c = what->circuit;
    struct qasm2_writer w = {.circuit = c, .to = to, .err = err};
    size_t n_bits = export_qasm_bits(what);
    qr_buf_puts(to, "OPENQASM 2.0;\ninclude \"qelib1.inc\";\n");
    export_qasm_comment(what, to);
    qr_buf_printf(to, "qreg q[%u];\n", c->n_qubits);
    if (n_bits) qr_buf_printf(to, "creg c[%zu];\n", n_bits);
    for (size_t i = 0; i < c->n_gates && w.code == QR_OK; i++)
        qr_gate_lower(&c->gates[i], put_basic, &w);
    for (size_t i = 0; i < n_bits; i++)
        qr_buf_printf(to, "measure q[%u] -> c[%zu];\n",
                      qr_qubits_first(&what->readouts[i].terms[0].z), i);
    return w.code;
}
