/* observable/hamiltonian_impl.h — shared by the text reader and the JSON reader of Hamiltonians. */
#ifndef QR_OBSERVABLE_HAMILTONIAN_IMPL_H
#define QR_OBSERVABLE_HAMILTONIAN_IMPL_H

#include "observable/hamiltonian.h"
#include "observable/observable_impl.h"

enum { QR_MAX_HAMILTONIAN_TERMS = 1 << 16 };

/* Adds a Pauli (I, X, Y, Z) on a qubit to a term. Returns NULL, or why, which holds the error. */
const char *qr_term_add_pauli(struct qr_pauli_term *term, char pauli, uint64_t qubit,
                              unsigned n_qubits, char why[96]);
/* As qr_hamiltonian_read, for the text format. */
QR_MUST_CHECK enum qr_code qr_hamiltonian_read_text(struct qr_bytes text, const char *what,
                                                    unsigned n_qubits, struct qr_observable *ret,
                                                    struct qr_err *err);
/* Reads the Paulis of a term without a coefficient. where: path of the text in messages. */
QR_MUST_CHECK enum qr_code qr_hamiltonian_parse_paulis(const char *words, const char *where,
                                                       unsigned n_qubits, struct qr_pauli_term *ret,
                                                       struct qr_err *err);
/* Builds the observable of the terms and takes ownership of them, on failure too. */
QR_MUST_CHECK enum qr_code qr_hamiltonian_of(struct qr_term_list *l, const char *what,
                                             struct qr_observable *ret, struct qr_err *err);

#endif
