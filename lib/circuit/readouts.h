/* circuit/readouts.h — what read-outs can tell: where their values lie, whether anything moves
 * them.
 *
 * Cost      bounds: a small multiple of the observable's terms. Unmoved: of each observable the
 *           cones of its terms (circuit/cone.h), up to the first with a gate that moves it; after
 *           2^18 gates it gives up.
 * Threads   nothing is shared.
 */
#ifndef QR_CIRCUIT_READOUTS_H
#define QR_CIRCUIT_READOUTS_H

#include "circuit/circuit.h"

/* Where the expectation values of an observable lie, whatever the state. The ends are met, but for
 * rounding, where it is about up to 16 qubits, each with one Pauli wherever it stands (and terms
 * are not fewer than 2^qubits / 64), or about up to 4 of any kind; elsewhere values may stay
 * inside. */
void qr_readout_bounds(const struct qr_observable *o, double *ret_low, double *ret_high);

/* ret[n_obs] 1: no parameter (inputs_too: and no input) is in the cone of this observable, so that
 * its value is the same whatever they are. 0: one may move it, or it was not found out. */
void qr_readouts_constant(const struct qr_circuit *c, const struct qr_observable *obs, size_t n_obs,
                          bool inputs_too, uint8_t *ret);

#endif
