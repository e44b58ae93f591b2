/* tests/ref/words.h — random circuits as a job may have them: every gate of both tables
 * (circuit/gate_rows.h, gate_words.h), angles as expressions, inputs that are uploaded again in
 * each round of a repeat, amplitude embedding. */
#ifndef TESTS_REF_WORDS_H
#define TESTS_REF_WORDS_H

#include "circuit/circuit.h"

enum { REF_GATES = 128, REF_WORDS_QUBITS = 4 };

/* How often each was drawn: gates by their place in the first table, then in the second. */
struct ref_drawn {
    unsigned gates[REF_GATES], expressions, rounds, amplitudes;
};
/* Gates of both tables, and the name of each. */
unsigned ref_n_gates(void);
const char *ref_gate_name(unsigned i);

/* Of up to REF_WORDS_QUBITS qubits and n_columns >= 1 inputs, not all of which it has to read;
 * about n_gates gates beside the encoders, some of them twice. Adds to drawn. */
struct qr_circuit *ref_random_words(uint64_t seed, unsigned n_qubits, unsigned n_columns,
                                    unsigned n_gates, struct ref_drawn *drawn);

#endif
