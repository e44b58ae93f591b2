/* circuit/rotations.h — how far inputs and constants rotate a circuit's gates, in full turns: 2 pi
 * radians, an exponent of 2. For warnings about the scale of data. Inputs inside expressions are
 * ignored.
 *
 * Threads   any.
 */
#ifndef QR_CIRCUIT_ROTATIONS_H
#define QR_CIRCUIT_ROTATIONS_H

#include "circuit/circuit.h"

/* ret[n_columns]: the most turns of any gate per unit of a column. */
void qr_circuit_turns_per_unit(const struct qr_circuit *c, double *ret);
/* Returns the first gate that a constant rotates by more than `most` turns, and *ret_turns; NULL:
 * there is none. */
const struct qr_gate *qr_circuit_large_constant(const struct qr_circuit *c, double most,
                                                double *ret_turns);

#endif
