/* tests/ref/field.h — composite gates as their papers define them: whole matrices, no sequences.
 *
 * Shares nothing with lib/circuit/composite_gates.c: blocks written down entry by entry, and
 * exponentials cos I - i sin P of products of Paulis. The first qubit is the most significant.
 */
#ifndef TESTS_REF_FIELD_H
#define TESTS_REF_FIELD_H

#include <complex.h>
#include <stdbool.h>

enum { REF_FIELD_QUBITS = 4, REF_FIELD_ARGS = 4 };

struct ref_field_gate {
    const char *name;
    unsigned n_qubits;
    const char *args[REF_FIELD_ARGS]; /* keys, in the order of a[] */
    const char *word;                 /* of PauliRot */
    void (*matrix)(const struct ref_field_gate *g, const double *a, double complex *ret);
};
/* Gate i of those with angles; NULL after the last. */
const struct ref_field_gate *ref_field_gate_at(unsigned i);

#endif
