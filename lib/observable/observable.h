/* observable/observable.h — observables as data: sums of products of Paulis on a circuit's qubits.
 *
 * Use       qr_observable_parse, then qr_observable_fini.
 * Ownership an observable owns its terms and its text.
 * Threads   any thread may read an observable once it is built.
 */
#ifndef QR_OBSERVABLE_OBSERVABLE_H
#define QR_OBSERVABLE_OBSERVABLE_H

#include <stddef.h>

#include "base/err.h"
#include "observable/qubits.h"

/* coefficient * product of Paulis: X on the qubits in x only, Z on those in z only, Y on those in
 * both. */
struct qr_pauli_term {
    double coefficient;
    struct qr_qubits x, z;
};
static inline struct qr_qubits qr_pauli_qubits(const struct qr_pauli_term *t) {
    struct qr_qubits all = t->x;
    qr_qubits_add_all(&all, &t->z);
    return all;
}
/* The Pauli on one of these qubits. */
static inline char qr_pauli_letter(const struct qr_pauli_term *t, unsigned qubit) {
    return (char)(!qr_qubits_has(&t->x, qubit) ? 'Z' : qr_qubits_has(&t->z, qubit) ? 'Y' : 'X');
}
struct qr_observable {
    size_t n_terms;
    struct qr_pauli_term *terms; /* owned; like terms merged, in order of first appearance */
    char *text;                  /* owned; canonical form: "Z4", "0.5*X0 Z1 - Y2" */
};
/* Parses an observable.
 *
 * Args:     text      "Z4", "0.5*X0 Z1 - Y2" or "1.5 + -1*Z0"; at most 4096 terms
 *           n_qubits  of the circuit
 *           ret       set on success; freed with qr_observable_fini
 * Errors:   INVALID_ARGUMENT (malformed text, qubit >= n_qubits, a qubit twice in a term, zero or
 *           infinite sum; the message has the column)
 */
QR_MUST_CHECK enum qr_code qr_observable_parse(const char *text, unsigned n_qubits,
                                               struct qr_observable *ret, struct qr_err *err);
void qr_observable_fini(struct qr_observable *o);

#endif
