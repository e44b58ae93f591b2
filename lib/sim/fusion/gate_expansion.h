/* sim/fusion/gate_expansion.h — gates as simple gates, for engines with Pauli transfer matrices.
 *
 * Several controls are replaced by a helper: an extra qubit that starts as 1, becomes itself AND
 * each control in turn, controls the gate, and ends as the sum over its two values. That is not a
 * circuit (AND is not unitary, and the sum is not a state), but a valid network: U on the target
 * where all controls hold, the identity elsewhere (sim/cones/cones.md).
 */
#ifndef QR_SIM_FUSION_GATE_EXPANSION_H
#define QR_SIM_FUSION_GATE_EXPANSION_H

#include "circuit/circuit.h"

struct qr_simple_gates {
    struct qr_gate *gates; /* owned */
    size_t n, cap;
    uint16_t next_helper; /* number of the next helper qubit */
};
/* AND: sets the first target, a helper, to itself AND (second target == argument); argument 0 or 1,
 * no controls. Not unitary. */
#define QR_SIMPLE_AND QR_GATE_KINDS

/* True if the gate's angle depends on the sample. */
bool qr_gate_has_data(const struct qr_gate *g);
/* True for a noise channel, and for a gate on one or two qubits that, if it has data, is a power of
 * an involution without controls. */
bool qr_gate_is_simple(const struct qr_gate *g);
void qr_simple_gates_append(struct qr_simple_gates *to, const struct qr_gate *g);
/* Appends g as simple gates and ANDs with new helpers. */
void qr_simple_gates_expand(struct qr_simple_gates *to, const struct qr_gate *g);

/* Appends a gate without controls as powers of involutions. */
void qr_powers_expand(struct qr_simple_gates *to, const struct qr_gate *g);

#endif
