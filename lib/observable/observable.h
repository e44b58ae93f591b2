/* observable/observable.h — observables as data: sums of products of Paulis on a circuit's qubits.
 *
 * Ownership an observable owns its terms and its text. Built once, then const; any thread may read
 *           it.
 */
#ifndef QR_OBSERVABLE_OBSERVABLE_H
#define QR_OBSERVABLE_OBSERVABLE_H

#include <stddef.h>

#include "base/err.h"
#include "observable/qubits.h"

/* coefficient * product of Paulis: a qubit has X if it is in x alone, Z if in z alone, Y if in
 * both. */
struct qr_pauli_term {
    double coefficient;
    struct qr_qubits x, z;
};
struct qr_observable {
    size_t n_terms;
    struct qr_pauli_term *terms; /* owned; like terms merged, order of first appearance */
    char *text;                  /* owned; canonical form: "Z4", "0.5*X0 Z1 - Y2" */
};
/* Reads "Z4" or "0.5*X0 Z1 - Y2" or "1.5 + -1*Z0". INVALID_ARGUMENT with the column where it stops
 * making sense, a qubit >= n_qubits, or a qubit twice in a term. */
QR_MUST_CHECK enum qr_code qr_observable_parse(const char *text, unsigned n_qubits,
                                               struct qr_observable *ret, struct qr_err *err);
void qr_observable_fini(struct qr_observable *o);

#endif
