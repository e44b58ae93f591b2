/* model/natural/generator.h — what moves a state as an argument of a gate changes, as a sum of
 * Paulis: d psi / d argument = -i K psi behind the gate. */
#ifndef QR_MODEL_NATURAL_GENERATOR_H
#define QR_MODEL_NATURAL_GENERATOR_H

#include "circuit/circuit.h"

/* constant + terms; no term is the identity, no two are alike. */
struct qr_pauli_sum {
    double constant;
    size_t n;
    struct qr_pauli_term *terms; /* owned */
};
void qr_pauli_sum_fini(struct qr_pauli_sum *s);
/* a b, of sums that share no qubit. */
struct qr_pauli_sum qr_pauli_sum_product(const struct qr_pauli_sum *a,
                                         const struct qr_pauli_sum *b);

/* It varies with what the circuit learns. */
bool qr_generator_needed(const struct qr_gate_arg *arg);
/* False: the generator is another one for other arguments, and nothing is returned. */
QR_MUST_CHECK bool qr_generator_of(const struct qr_gate *g, unsigned arg, struct qr_pauli_sum *ret);
/* (K_a K_b + K_b K_a) / 2, of two arguments of one gate. */
struct qr_pauli_sum qr_generator_product(const struct qr_gate *g, unsigned a, unsigned b);

#endif
