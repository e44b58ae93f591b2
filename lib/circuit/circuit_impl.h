/* circuit/circuit_impl.h — what the files of this room share. */
#ifndef QR_CIRCUIT_CIRCUIT_IMPL_H
#define QR_CIRCUIT_CIRCUIT_IMPL_H

#include "circuit/circuit.h"

/* Appends a parameter that the caller knows to be new (no look-up, so that long lists cost
 * linear time). */
uint32_t qr_circuit_append_param(struct qr_circuit *c, const char *name);

#endif
