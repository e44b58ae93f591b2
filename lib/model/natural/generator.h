/* model/natural/generator.h — the generator K of a gate's argument as a sum of Paulis: d psi / d
 * argument = -i K psi after the gate. */
#ifndef QR_MODEL_NATURAL_GENERATOR_H
#define QR_MODEL_NATURAL_GENERATOR_H

#include "circuit/circuit.h"

/* constant + terms; no term is the identity, no two are equal. */
struct qr_pauli_sum {
    double constant;
    size_t n;
    struct qr_pauli_term *terms; /* owned */
};
void qr_pauli_sum_fini(struct qr_pauli_sum *s);
/* a b, for sums that share no qubit. */
struct qr_pauli_sum qr_pauli_sum_product(const struct qr_pauli_sum *a,
                                         const struct qr_pauli_sum *b);

/* Whether the argument depends on parameters. */
bool qr_generator_needed(const struct qr_gate_arg *arg);
/* Computes the generator of an argument.
 *
 * Returns:  false, ret unset: the generator depends on the arguments, or there are too many
 *           controls
 */
QR_MUST_CHECK bool qr_generator_of(const struct qr_gate *g, unsigned arg, struct qr_pauli_sum *ret);
/* (K_a K_b + K_b K_a) / 2, of two arguments of one gate. */
struct qr_pauli_sum qr_generator_product(const struct qr_gate *g, unsigned a, unsigned b);

#endif
