/* circuit/circuit_program.h — what a reader of circuits of other programs takes and returns:
 * options; a circuit and its read-outs. */
#ifndef QR_CIRCUIT_CIRCUIT_PROGRAM_H
#define QR_CIRCUIT_CIRCUIT_PROGRAM_H

#include "circuit/circuit.h"

enum { QR_PROGRAM_BYTES = 64 << 20, QR_PROGRAM_GATES = 1 << 20 };

struct qr_program_options {
    /* Names of free symbols that are data: the columns 0, 1 ... in this order; an array takes one
     * column for each element. */
    const char *const *inputs;
    size_t n_inputs;
    uint32_t max_steps, max_gates; /* 0: the reader's bound; QR_PROGRAM_GATES */
};

struct qr_program {
    struct qr_circuit *circuit;
    size_t n_readouts;
    char **readouts; /* owned, in the syntax of observable/observable.h */
};
void qr_program_fini(struct qr_program *p);

#endif
