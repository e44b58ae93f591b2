/* circuit/defer.h — a circuit whose gates depend on measured bits, as one without measurements.
 *
 * Method    deferred measurement: a measured bit is a qubit, and a gate that depends on it is
 *           controlled by that qubit. The measured qubit itself serves if it is only a control
 *           afterwards; else a qubit of its own, at the end, gets a CNOT from it. All expectation
 *           values and frequencies are those of the circuit with measurements.
 * Cost      linear in the gates. A simulation costs twice as much for each further qubit.
 */
#ifndef QR_CIRCUIT_DEFER_H
#define QR_CIRCUIT_DEFER_H

#include "circuit/circuit.h"

enum { QR_NO_PLACE = UINT16_MAX };

struct qr_deferred {
    struct qr_circuit
        *circuit;    /* parameters, columns, expressions and channels keep their numbers */
    unsigned n_more; /* qubits after those of the original circuit */
    unsigned n_bits; /* of the original circuit */
    uint16_t *place; /* n_bits: the qubit that has each bit at the end, or QR_NO_PLACE */
};

/* Defers all measurements.
 *
 * Args:     obs    what is read afterwards, n_obs
 *           bits   all bits are read afterwards, too
 *           ret    freed with qr_deferred_free
 * Errors:   UNIMPLEMENTED: too many qubits, or a channel on two qubits, with two bits or with
 *           weights as strengths depends on bits
 */
QR_MUST_CHECK enum qr_code qr_circuit_defer(const struct qr_circuit *c,
                                            const struct qr_observable *obs, size_t n_obs,
                                            bool bits, struct qr_deferred **ret,
                                            struct qr_err *err);
void qr_deferred_free(struct qr_deferred *d);
/* A circuit whose gates depend on no bits: c, or *ret's (to be freed; NULL: none). Returns NULL if
 * measurements cannot be deferred. */
const struct qr_circuit *qr_circuit_unconditional(const struct qr_circuit *c,
                                                  const struct qr_observable *obs, size_t n_obs,
                                                  struct qr_deferred **ret);

#endif
