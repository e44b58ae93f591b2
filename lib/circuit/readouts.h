/* circuit/readouts.h — static analysis of read-outs: the range of their values, and which are
 * constant.
 *
 * Cost      bounds: a small multiple of the observable's terms. Constant: for each observable the
 *           cones of its terms (circuit/cone.h) up to the first gate that varies; stops after 2^18
 *           gates.
 * Threads   any.
 */
#ifndef QR_CIRCUIT_READOUTS_H
#define QR_CIRCUIT_READOUTS_H

#include "circuit/circuit.h"

/* Bounds the expectation values of an observable over all states.
 *
 * The bounds are attained, up to rounding, for observables on up to 16 qubits with one Pauli per
 * qubit (and at least 2^qubits / 64 terms), or on up to 4 qubits of any form; for others they may
 * be wider.
 */
void qr_readout_bounds(const struct qr_observable *o, double *ret_low, double *ret_high);

/* Finds observables that no parameter can change.
 *
 * Args:     inputs_too  also require that no input can change them
 *           ret         n_obs; 1: constant, since no parameter (input) is in its cone; 0: may vary,
 *                       or not determined
 */
void qr_readouts_constant(const struct qr_circuit *c, const struct qr_observable *obs, size_t n_obs,
                          bool inputs_too, uint8_t *ret);

#endif
