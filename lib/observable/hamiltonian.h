/* observable/hamiltonian.h — Hamiltonians: observables of many terms, as other programs write them.
 *
 * Text      a term a line, or terms joined by + and -; # begins a comment. A term is a coefficient
 *           and Paulis with their qubits, either of which may be absent: "0.5 Z0 Z1" (plain),
 *           "(0.5+0j) [X0 Y1] +" (str of OpenFermion's QubitOperator, and what save_operator writes
 *           as plain text), "0.5 * (X(0) @ Y(1)) + -0.25 * I()" (str of PennyLane's Hamiltonian or
 *           Pauli sentence).
 * JSON      a list of [words, coefficient] pairs; {words: coefficient, ..}; {"coeffs": [..], "ops":
 *           [words, ..]} (what PennyLane's terms() gives, ops as str). Words are those of a text's
 *           term ("Z0 Z1", "X(0) @ Y(1)", "" or "I": the identity), or, in pairs, OpenFermion's
 *           [[0, "X"], [1, "Y"]].
 * Meaning   the sum of all; like terms are added. An imaginary part of more than 1e-10 is refused:
 *           the operator is not Hermitian.
 * Order     as they are read, but that each term stands behind the first that turns the same qubits
 *           (has X or Y on them).
 * Bounds    65536 terms. Reading costs n log n.
 */
#ifndef QR_OBSERVABLE_HAMILTONIAN_H
#define QR_OBSERVABLE_HAMILTONIAN_H

#include "base/bytes.h"
#include "format/json.h"
#include "observable/observable.h"

/* A file's text, either of the two: JSON begins with [ or {. what: its name in messages.
 * INVALID_ARGUMENT with the line and column, or the JSON value, that makes no sense, or for a qubit
 * that the circuit has not. The result's text is that of an observable, or for a
 * long one "a Hamiltonian of N terms, sha256 .." of that text. */
QR_MUST_CHECK enum qr_code qr_hamiltonian_read(struct qr_bytes text, const char *what,
                                               unsigned n_qubits, struct qr_observable *ret,
                                               struct qr_err *err);
/* The same from a JSON value. where: its path in messages. */
QR_MUST_CHECK enum qr_code qr_hamiltonian_from_json(const struct qr_json *v, const char *where,
                                                    unsigned n_qubits, struct qr_observable *ret,
                                                    struct qr_err *err);

#endif
