/* circuit/composite_gates.h — gates of the field that are sequences of native gates (gate_rows.h).
 *
 * One table says for each of them its names, how many qubits it acts on, its arguments, and its
 * native gates. Whoever reads a circuit expands them, so a circuit has native gates alone, and
 * no engine knows of any other.
 * Phases   A sequence is the gate with its phase, so it stays right with controls. A global phase
 *          is left out only where no control stands before it (Unitary).
 * Controls stand before each native gate, but those that only change the basis for the others
 *          and are undone behind them.
 */
#ifndef QR_CIRCUIT_COMPOSITE_GATES_H
#define QR_CIRCUIT_COMPOSITE_GATES_H

#include "circuit/circuit.h"

enum { QR_COMPOSITE_NAMES = 4, QR_COMPOSITE_ARGS = 4, QR_COMPOSITE_PARTS = 6 };

/* What a gate takes beside angles. */
enum qr_composite_takes { QR_COMPOSITE_ANGLES, QR_COMPOSITE_PAULIS, QR_COMPOSITE_MATRIX, QR_COMPOSITE_STATE };

/* A gate as somebody wrote it. */
struct qr_gate_use {
    const struct qr_composite_gate *word;
    const uint16_t *qubits;
    unsigned n_qubits;
    struct qr_gate_arg args[QR_COMPOSITE_ARGS]; /* in radians */
    const char *paulis;                    /* I, X, Y, Z of each qubit; not all are I */
    const char *state;                     /* 0 or 1 of each qubit; NULL: data from this column */
    uint32_t column;
    double complex matrix[16]; /* unitary, row-major, of 2^n_qubits rows */
    struct qr_qubits controls, control_values;
};

struct qr_gate_list {
    struct qr_gate *gates; /* owned */
    size_t n, cap;
};

/* A native gate of a sequence. Qubits are places in the gate's list. */
struct qr_gate_part {
    enum qr_gate_kind kind;
    uint8_t at[2];
    uint8_t controls, off; /* bits of places; those of them that must be 0 */
    /* The exponent is factor * argument / pi, of the argument of this number from 1; 0: it is
     * factor itself. A part without factor ends the sequence. */
    uint8_t arg;
    double factor;
    double global_shift, phase_exponent;
};

struct qr_composite_gate {
    const char *names[QR_COMPOSITE_NAMES]; /* the first in messages */
    uint8_t least, most;              /* qubits; most 0: any number from `least` on */
    const char *args[QR_COMPOSITE_ARGS];
    enum qr_composite_takes takes;
    uint8_t n_frame; /* the first parts, which are undone behind the others */
    struct qr_gate_part parts[QR_COMPOSITE_PARTS];
    void (*expand)(const struct qr_gate_use *use, struct qr_gate_list *to); /* NULL: by parts */
};

/* By any of its names, case ignored; NULL: unknown. */
const struct qr_composite_gate *qr_composite_gate_of(const char *name);
/* The table's rows; NULL behind the last. */
const struct qr_composite_gate *qr_composite_gate_at(size_t i);
/* Appends its native gates, at least one. */
void qr_gate_expand(const struct qr_gate_use *use, struct qr_gate_list *to);

void qr_gate_list_add(struct qr_gate_list *to, const struct qr_gate *g);
void qr_gate_list_fini(struct qr_gate_list *l);

/* A power of a one-qubit gate (angle: a rotation) on use's qubit at place `at`, controlled by what
 * controls the use; to be changed further and added. */
struct qr_gate qr_gate_on(const struct qr_gate_use *use, enum qr_gate_kind kind, unsigned at,
                          double exponent);
void qr_gate_control(struct qr_gate *g, unsigned qubit, bool value);

/* Appends use's matrix as controlled turns and phases (gate_unitary.c). */
void qr_gate_expand_unitary(const struct qr_gate_use *use, struct qr_gate_list *to);
/* The largest entry of U U^dagger - I, and its place. */
double qr_unitarity_error(const double complex *u, unsigned dim, unsigned *ret_row,
                          unsigned *ret_column);

/* What is meant by a name that no gate has: behind "unknown gate 'name'", a heap string that
 * begins with ';' (gate_hints.c). */
char *qr_gate_hint(const char *name);
/* What takes the place of an operation that is neither gate nor ansatz here; NULL: not known. */
const char *qr_gate_alternative(const char *name);

#endif
