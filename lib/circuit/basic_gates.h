/* circuit/basic_gates.h — native gates as sequences of gates that other languages have too.
 *
 * Phases   The sequence equals the gate up to a global phase; with controls the phase is exact.
 * Controls apply to each basic gate except those that only change the basis for the others and are
 *          undone afterwards.
 * Threads  any.
 */
#ifndef QR_CIRCUIT_BASIC_GATES_H
#define QR_CIRCUIT_BASIC_GATES_H

#include "circuit/circuit.h"

/* P is diag(1, e^{i angle}), RX is e^{-i angle X / 2}, RXX e^{-i angle XX / 2}, and so on. */
#define QR_BASIC_ROWS(ROW)                                                                         \
    ROW(I, 1, 0)                                                                                   \
    ROW(X, 1, 0)                                                                                   \
    ROW(Y, 1, 0)                                                                                   \
    ROW(H, 1, 0)                                                                                   \
    ROW(SWAP, 2, 0)                                                                                \
    ROW(P, 1, 1)                                                                                   \
    ROW(RX, 1, 1)                                                                                  \
    ROW(RY, 1, 1)                                                                                  \
    ROW(RZ, 1, 1)                                                                                  \
    ROW(RXX, 2, 1)                                                                                 \
    ROW(RYY, 2, 1)                                                                                 \
    ROW(RZZ, 2, 1)
enum qr_basic_kind {
#define QR_BASIC_KIND(kind, ...) QR_BASIC_##kind,
    QR_BASIC_ROWS(QR_BASIC_KIND)
#undef QR_BASIC_KIND
        QR_BASIC_KINDS
};
struct qr_basic_gate {
    enum qr_basic_kind kind;
    uint8_t n_targets, n_angles;
    uint16_t targets[2];
    struct qr_gate_arg angle; /* in half-turns */
    struct qr_qubits controls, control_values;
};
typedef void qr_basic_emit(void *context, const struct qr_basic_gate *b);
/* Calls emit for each basic gate of a native gate, in order of time; at least once. */
void qr_gate_lower(const struct qr_gate *g, qr_basic_emit *emit, void *context);

#endif
