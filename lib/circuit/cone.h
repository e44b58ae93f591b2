/* circuit/cone.h — the light cone of a Pauli term: which gates can change its expectation value.
 *
 * Method    commutation, walking back from the term (cone.c has the rules). Only sufficient
 *           conditions are used: a gate outside the cone changes no expectation value of the term,
 *           whatever the gates' arguments and the initial state; a gate inside may change none
 *           either.
 * Use       one finder per circuit, then qr_cone_find for each term.
 * Cost      a finder walks the circuit once. A cone costs its gates and those that act on qubits
 *           that the walk has reached, times the logarithm of the number of these qubits; the rest
 *           of the circuit is not visited.
 * Ownership the circuit is borrowed and must not change while the finder exists.
 * Threads   a finder belongs to one thread at a time.
 */
#ifndef QR_CIRCUIT_CONE_H
#define QR_CIRCUIT_CONE_H

#include "circuit/circuit.h"

struct qr_cone_finder *qr_cone_finder_new(const struct qr_circuit *c);
void qr_cone_finder_free(struct qr_cone_finder *f);

/* Finds the cone of a term. Does not allocate.
 *
 * Args:     ret_gates  positions of the cone's gates in the circuit, ascending; n_gates entries
 * Returns:  number of gates
 */
size_t qr_cone_find(struct qr_cone_finder *f, const struct qr_pauli_term *term,
                    uint32_t *ret_gates);

#endif
