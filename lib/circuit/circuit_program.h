/* circuit/circuit_program.h — what a reader of circuits from elsewhere returns: a circuit and its
 * read-outs. */
#ifndef QR_CIRCUIT_CIRCUIT_PROGRAM_H
#define QR_CIRCUIT_CIRCUIT_PROGRAM_H

#include "circuit/circuit.h"

struct qr_program {
    struct qr_circuit *circuit;
    size_t n_readouts;
    char **readouts; /* owned, in the syntax of observable/observable.h */
};
void qr_program_fini(struct qr_program *p);

#endif
