/* circuit/composite_gates.h — common gates that are sequences of native gates (gate_rows.h).
 *
 * One table has for each gate its names, number of qubits, arguments and native gates. The readers
 * of circuits expand them, so a circuit contains native gates only and engines know no others.
 * Phases   A sequence equals the gate including its phase, so it is correct with controls. A global
 *          phase is dropped only where there are no controls (qr_gate_list_add_phase).
 * Controls apply to each native gate except those that only change the basis for the others and are
 *          undone afterwards.
 */
#ifndef QR_CIRCUIT_COMPOSITE_GATES_H
#define QR_CIRCUIT_COMPOSITE_GATES_H

#include "circuit/circuit.h"

enum {
    QR_COMPOSITE_NAMES = 4,
    QR_COMPOSITE_ARGS = 4,
    QR_COMPOSITE_PARTS = 6,
    QR_UNITARY_QUBITS = 6
};

/* Input of a gate besides angles. */
enum qr_composite_takes {
    QR_COMPOSITE_ANGLES,
    QR_COMPOSITE_PAULIS,
    QR_COMPOSITE_MATRIX,
    QR_COMPOSITE_STATE
};

/* A composite gate as it appears in a circuit. */
struct qr_gate_use {
    const struct qr_composite_gate *gate;
    const uint16_t *qubits;
    unsigned n_qubits;
    struct qr_gate_arg args[QR_COMPOSITE_ARGS]; /* in radians */
    const char *paulis;                         /* I, X, Y, Z of each qubit; not all are I */
    /* 0 or 1 of each qubit; NULL: data from this column on */
    const char *state;
    uint32_t column;
    const double complex *matrix; /* unitary, row-major, 2^n_qubits rows */
    struct qr_qubits controls, control_values;
};

struct qr_gate_list {
    struct qr_gate *gates; /* owned */
    size_t n, cap;
};

/* A native gate of a sequence. Qubits are positions in the composite gate's list. */
struct qr_gate_part {
    enum qr_gate_kind kind;
    uint8_t at[2];
    uint8_t controls, off; /* bit masks of positions; off: the controls that must be 0 */
    /* The exponent is factor * argument / pi with argument number arg from 1; arg 0: the exponent
     * is factor. A part with factor 0 ends the sequence. */
    uint8_t arg;
    double factor;
    double global_shift, phase_exponent;
};

struct qr_composite_gate {
    const char *names[QR_COMPOSITE_NAMES]; /* the first is used in messages */
    uint8_t least, most; /* number of qubits; most 0: any number from `least` on */
    const char *args[QR_COMPOSITE_ARGS];
    enum qr_composite_takes takes;
    /* Number of first parts that change the basis and are undone after the others */
    uint8_t n_frame;
    struct qr_gate_part parts[QR_COMPOSITE_PARTS];
    /* NULL: expand the parts */
    void (*expand)(const struct qr_gate_use *use, struct qr_gate_list *to);
};

/* Finds a gate by any of its names, case ignored; NULL: unknown. */
const struct qr_composite_gate *qr_composite_gate_of(const char *name);
/* Row i of the table; NULL after the last. */
const struct qr_composite_gate *qr_composite_gate_at(size_t i);
/* Appends the native gates of a use, at least one. */
void qr_gate_expand(const struct qr_gate_use *use, struct qr_gate_list *to);

/* Appends a gate, which the caller sets. Valid until the next one is appended. */
struct qr_gate *qr_gate_list_new(struct qr_gate_list *to);
void qr_gate_list_add(struct qr_gate_list *to, const struct qr_gate *g);
void qr_gate_list_fini(struct qr_gate_list *l);
/* Appends a global phase under these controls, as a power of Z of one of them; without controls
 * nothing. */
void qr_gate_list_add_phase(struct qr_gate_list *to, const struct qr_qubits *controls,
                            const struct qr_qubits *values, struct qr_gate_arg half_turns);
/* Replaces the gates from number `from` on by their inverse: backwards, each inverted. */
void qr_gate_list_invert(struct qr_gate_list *l, size_t from);
/* Replaces them by a power. An integer repeats them (negative: their inverse); a fraction is taken
 * of one gate: the principal power of a constant one (negative: the inverse of that power), that of
 * the arguments of another.
 *
 * Args:     most  number of gates that the power may have
 * Errors:   UNIMPLEMENTED: the fraction is not known; INVALID_ARGUMENT: too many gates. The message
 *           has no path
 */
QR_MUST_CHECK enum qr_code qr_gate_list_power(struct qr_gate_list *l, size_t from, double power,
                                              size_t most, struct qr_err *err);

/* Returns a power of a one-qubit gate with the controls of the use, to be changed further and
 * appended.
 *
 * Args:     at        position of the qubit in the use
 *           exponent  in half-turns
 */
struct qr_gate qr_gate_on(const struct qr_gate_use *use, enum qr_gate_kind kind, unsigned at,
                          double exponent);
/* Adds a control on `value`. */
void qr_gate_control(struct qr_gate *g, unsigned qubit, bool value);

/* Appends the use's matrix as controlled rotations and phases (gate_unitary.c). */
void qr_gate_expand_unitary(const struct qr_gate_use *use, struct qr_gate_list *to);
/* Returns the largest |entry| of U U^dagger - I, and its position.
 *
 * Args:     u  row-major dim x dim
 */
double qr_unitarity_error(const double complex *u, unsigned dim, unsigned *ret_row,
                          unsigned *ret_column);

/* Returns a suggestion for an unknown gate name, to follow "unknown gate 'name'" (gate_hints.c).
 *
 * Returns:  heap string that begins with ';'
 */
char *qr_gate_hint(const char *name);
/* What to write instead of an operation that is neither a gate nor an ansatz here; static; NULL:
 * not known. */
const char *qr_gate_alternative(const char *name);

#endif
