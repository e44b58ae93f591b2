/* circuit/circuit_impl.h — functions shared by the files of this component. */
#ifndef QR_CIRCUIT_CIRCUIT_IMPL_H
#define QR_CIRCUIT_CIRCUIT_IMPL_H

#include "circuit/circuit.h"

/* Appends a parameter with a name that is known to be new; without a look-up, so that long lists
 * take linear time. */
uint32_t qr_circuit_append_param(struct qr_circuit *c, const char *name);
/* Makes n gates those of a circuit that has none, after the checks of qr_circuit_add; takes their
 * memory over. */
QR_MUST_CHECK enum qr_code qr_circuit_take(struct qr_circuit *c, struct qr_gate **gates, size_t n,
                                           struct qr_err *err);

#endif
