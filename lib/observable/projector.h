/* observable/projector.h — projectors onto basis states, whose expectation values are probabilities
 * of bit strings.
 *
 * |b><b| on k qubits is the product of (1 +- Z) / 2, minus for 1: 2^k terms of Z.
 */
#ifndef QR_OBSERVABLE_PROJECTOR_H
#define QR_OBSERVABLE_PROJECTOR_H

#include "format/json.h"
#include "observable/observable.h"

enum { QR_PROJECTOR_QUBITS = 12 };

/* Makes the projector onto a basis state.
 *
 * Args:     qubits  n different ones, 1 to QR_PROJECTOR_QUBITS
 *           bits    bit n - 1 - i is that of qubits[i]
 * Returns:  caller frees with qr_observable_fini; its text is "projector 01 on 4 5"
 */
struct qr_observable qr_projector(const uint16_t *qubits, unsigned n, uint64_t bits);
/* Reads different qubits.
 *
 * Args:     v    list of 1 to QR_PROJECTOR_QUBITS integers; NULL: all n_qubits
 * Errors:   INVALID_ARGUMENT with the path
 */
QR_MUST_CHECK enum qr_code qr_projector_qubits(const struct qr_json *v, const char *where,
                                               unsigned n_qubits, uint16_t ret[QR_PROJECTOR_QUBITS],
                                               unsigned *ret_n, struct qr_err *err);
/* Reads {"projector": "01", "qubits"?: [4, 5]}. */
QR_MUST_CHECK enum qr_code qr_projector_from_json(const struct qr_json *v, const char *where,
                                                  unsigned n_qubits, struct qr_observable *ret,
                                                  struct qr_err *err);

#endif
