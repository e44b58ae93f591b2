/* observable/hamiltonian_impl.h — what the readers of Hamiltonians share. */
#ifndef QR_OBSERVABLE_HAMILTONIAN_IMPL_H
#define QR_OBSERVABLE_HAMILTONIAN_IMPL_H

#include "observable/hamiltonian.h"
#include "observable/observable_impl.h"

enum { QR_MAX_HAMILTONIAN_TERMS = 1 << 16 };

/* Adds Pauli (I, X, Y, Z) on a qubit to a term; NULL, or what is wrong, in why. */
const char *qr_term_add_pauli(struct qr_pauli_term *term, char pauli, uint64_t qubit, unsigned n_qubits,
                        char why[96]);
/* The Paulis of a term alone, without a coefficient. where: the path of the text. */
QR_MUST_CHECK enum qr_code qr_hamiltonian_parse_paulis(const char *words, const char *where,
                                                unsigned n_qubits, struct qr_pauli_term *ret,
                                                struct qr_err *err);
/* The observable of the terms, which are taken in any case. */
QR_MUST_CHECK enum qr_code qr_hamiltonian_of(struct qr_term_list *l, const char *what,
                                             struct qr_observable *ret, struct qr_err *err);

#endif
