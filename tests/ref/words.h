/* tests/ref/words.h — random circuits as in job files: every gate of both tables
 * (circuit/gate_rows.h, gate_words.h), angles as expressions, inputs that are encoded again in each
 * round of a repeat, amplitude embedding. */
#ifndef TESTS_REF_WORDS_H
#define TESTS_REF_WORDS_H

#include "circuit/circuit.h"

enum { REF_GATES = 128, REF_WORDS_QUBITS = 4 };

/* How often each was drawn; gates by index in the first table, then in the second. */
struct ref_drawn {
    unsigned gates[REF_GATES], expressions, rounds, amplitudes;
};
unsigned ref_n_gates(void);
const char *ref_gate_name(unsigned i);

/* A circuit of up to REF_WORDS_QUBITS qubits and n_columns >= 1 inputs, not all of them used; about
 * n_gates gates beside the encoders, some of them twice. Adds to drawn. */
struct qr_circuit *ref_random_words(uint64_t seed, unsigned n_qubits, unsigned n_columns,
                                    unsigned n_gates, struct ref_drawn *drawn);

#endif
