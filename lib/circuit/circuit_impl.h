/* circuit/circuit_impl.h — functions shared by the files of this component. */
#ifndef QR_CIRCUIT_CIRCUIT_IMPL_H
#define QR_CIRCUIT_CIRCUIT_IMPL_H

#include "circuit/circuit.h"

/* Appends a parameter with a name that is known to be new; without a look-up, so that long lists
 * take linear time. */
uint32_t qr_circuit_append_param(struct qr_circuit *c, const char *name);

#endif
