/* circuit/gate_items.h — the items of a gate list: gates, ansätze, repeats, blocks. */
#ifndef QR_CIRCUIT_GATE_ITEMS_H
#define QR_CIRCUIT_GATE_ITEMS_H

#include "circuit/ansatz/ansatz.h"
#include "circuit/gate_json.h"

enum { QR_MAX_GATES = 1 << 20 };

/* Appends all gates of the list. INVALID_ARGUMENT: see circuit_json.h. */
QR_MUST_CHECK enum qr_code qr_items_read(struct qr_gate_reader *r, const struct qr_json *list,
                                         const char *path);
/* Finds an ansatz by its name and checks its keys; *ret NULL: "qcnn", which is a whole circuit. */
QR_MUST_CHECK enum qr_code qr_ansatz_named(const struct qr_json *ansatz, const char *where,
                                           const struct qr_ansatz **ret, struct qr_err *err);
/* Appends the gates of an ansatz on these qubits. */
QR_MUST_CHECK enum qr_code qr_ansatz_read(struct qr_gate_reader *r, const struct qr_json *ansatz,
                                          const char *where, const struct qr_ansatz *row,
                                          const uint16_t *qubits, unsigned n_qubits);
/* Fails when the circuit has more than QR_MAX_GATES gates. */
QR_MUST_CHECK enum qr_code qr_items_bounded(const struct qr_gate_reader *r, const char *where);

#endif
