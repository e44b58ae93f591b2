/* circuit/circuit_program.c — frees what a reader of circuits returned. */
#include "circuit/circuit_program.h"

#include <stdlib.h>

void qr_program_fini(struct qr_program *p) {
    qr_circuit_free(p->circuit);
    for (size_t i = 0; i < p->n_readouts; i++) free(p->readouts[i]);
    free(p->readouts);
    *p = (struct qr_program){0};
}
