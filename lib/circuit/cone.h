/* circuit/cone.h — the light cone of a Pauli term: which gates can change its expectation value.
 *
 * Found by commutation, walking back from the term (cone.c has the rules). Only sufficient
 * conditions are used: a gate left out changes no expectation value of the term, whatever the
 * gates' arguments and the initial state; one that is named may turn out to change none.
 *
 * Cost      a finder walks the circuit once. A cone costs its gates and those that act on qubits
 *           which the walk has reached, times the logarithm of how many such qubits there are: not
 *           the circuit.
 * Ownership the circuit is borrowed and may not change while the finder is there.
 * Threads   a finder belongs to one thread at a time.
 */
#ifndef QR_CIRCUIT_CONE_H
#define QR_CIRCUIT_CONE_H

#include "circuit/circuit.h"

struct qr_cone_finder *qr_cone_finder_new(const struct qr_circuit *c);
void qr_cone_finder_free(struct qr_cone_finder *f);

/* ret_gates (room for the circuit's n_gates): the cone's gates by their place in the circuit,
 * ascending. Returns how many. Does not allocate. */
size_t qr_cone_find(struct qr_cone_finder *f, const struct qr_pauli_term *term,
                    uint32_t *ret_gates);

#endif
