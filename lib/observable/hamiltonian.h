/* observable/hamiltonian.h — Hamiltonians: observables of many terms, as other programs write them.
 *
 * Text      one term per line, or terms joined by + and -; # starts a comment. A term is a
 *           coefficient and Paulis with their qubits, either of which may be absent: "0.5 Z0 Z1"
 *           (plain), "(0.5+0j) [X0 Y1] +" (str of OpenFermion's QubitOperator, and what
 *           save_operator writes as plain text), "0.5 * (X(0) @ Y(1)) + -0.25 * I()" (str of
 *           PennyLane's Hamiltonian or Pauli sentence).
 * JSON      a list of [words, coefficient] pairs; {words: coefficient, ..}; {"coeffs": [..], "ops":
 *           [words, ..]} (the result of PennyLane's terms(), ops as str). Words are those of a text
 *           term ("Z0 Z1", "X(0) @ Y(1)", "" or "I": the identity), or, in pairs, OpenFermion's
 *           [[0, "X"], [1, "Y"]].
 * Meaning   the sum of all terms; like terms are added. A coefficient with an imaginary part of
 *           more than 1e-10 is rejected: the operator is not Hermitian.
 * Order     as read, except that each term follows the first term that flips the same qubits (has X
 *           or Y on them).
 * Bounds    65536 terms. Reading costs O(n log n).
 * Threads   pure functions.
 */
#ifndef QR_OBSERVABLE_HAMILTONIAN_H
#define QR_OBSERVABLE_HAMILTONIAN_H

#include "base/bytes.h"
#include "format/json.h"
#include "observable/observable.h"

/* Reads a file's text: JSON if it starts with [ or {, else the text format.
 *
 * Args:     text      contents of the file, borrowed
 *           what      name of the file in messages
 *           n_qubits  of the circuit
 *           ret       set on success; freed with qr_observable_fini. Its text is that of an
 *                     observable or, for a long one, "a Hamiltonian of N terms, sha256 .."
 * Errors:   INVALID_ARGUMENT (malformed text with line and column, malformed JSON value, qubit out
 *           of range, imaginary coefficient, zero sum)
 */
QR_MUST_CHECK enum qr_code qr_hamiltonian_read(struct qr_bytes text, const char *what,
                                               unsigned n_qubits, struct qr_observable *ret,
                                               struct qr_err *err);
/* As qr_hamiltonian_read, from a JSON value; where: its path in messages. */
QR_MUST_CHECK enum qr_code qr_hamiltonian_from_json(const struct qr_json *v, const char *where,
                                                    unsigned n_qubits, struct qr_observable *ret,
                                                    struct qr_err *err);

#endif
