/* circuit/rotations.h — how far inputs and constants turn a circuit's gates, in full turns: 2 pi
 * radians, an exponent of 2. Inputs inside expressions are not looked at.
 */
#ifndef QR_CIRCUIT_ROTATIONS_H
#define QR_CIRCUIT_ROTATIONS_H

#include "circuit/circuit.h"

/* ret[n_columns]: the most that a gate turns for each unit of a column. */
void qr_circuit_turns_per_unit(const struct qr_circuit *c, double *ret);
/* The first gate that a constant turns by more than so many, by *ret_turns; NULL: there is none. */
const struct qr_gate *qr_circuit_large_constant(const struct qr_circuit *c, double most,
                                                double *ret_turns);

#endif
