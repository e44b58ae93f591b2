/* circuit/circuit.h — circuits as data: gates, parameters, data columns, expressions.
 *
 * Use       qr_circuit_new, qr_circuit_param and qr_circuit_expression for what the gates refer to,
 *           qr_circuit_add for each gate, then read only; qr_circuit_free. Job files:
 *           circuit_json.h.
 * Convention Cirq's and TFQ's: qubit 0 is the most significant bit of an amplitude's index. X^t has
 *           exponent t in half-turns and matrix e^{i pi g t} [ (I+P)/2 + e^{i pi t} (I-P)/2 ] with
 *           global shift g (RX(angle) is X^(angle/pi) with g = -1/2). The global phase matters as
 *           soon as a gate is controlled.
 * Gates     TFQ's set, one row each in gate_rows.h; any gate may have controls on 0 or 1. Other
 *           gates are composed of these (composite_gates.h).
 * Ownership a circuit owns its gates and names.
 * Threads   one thread builds a circuit; afterwards the circuit is const and any thread may read
 *           it.
 */
#ifndef QR_CIRCUIT_CIRCUIT_H
#define QR_CIRCUIT_CIRCUIT_H

#include <complex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "expression/expression.h"
#include "observable/observable.h"
#include "circuit/argument.h"
#include "circuit/channel.h"
#include "circuit/gate_rows.h"

/* QR_GATE_I, QR_GATE_X ...: one for each row of gate_rows.h. */
enum qr_gate_kind {
#define QR_GATE_KIND(kind, ...) QR_GATE_##kind,
    QR_GATE_ROWS(QR_GATE_KIND)
#undef QR_GATE_KIND
        QR_GATE_KINDS,
    QR_GATE_CHANNEL /* noise, which has no row: an entry of the circuit's channels */
};

struct qr_gate {
    enum qr_gate_kind kind;
    uint8_t n_targets; /* 1 or 2 */
    uint8_t n_args;
    uint16_t targets[2];
    uint16_t bit;       /* of a measurement: 1 + the bit that it sets; 0: none */
    uint32_t condition; /* 1 + index of the circuit's conditions; 0: the gate always acts */
    struct qr_gate_arg args[2];
    double global_shift; /* g */
    struct qr_qubits controls;
    /* Subset of controls: those that must be 1; the others must be 0 */
    struct qr_qubits control_values;
    uint32_t channel; /* of a CHANNEL, which has no arguments of its own: 0..n_channels-1 */
};

/* Measured bits, and the values at which a gate acts. */
struct qr_condition {
    struct qr_qubits bits, values; /* values: subset of bits that must be 1; the others 0 */
};
struct qr_conditions {
    size_t n, cap;
    struct qr_condition *list; /* owned */
};
/* Adds a condition unless the last one is equal; returns what a gate's `condition` must be. */
uint32_t qr_conditions_add(struct qr_conditions *to, const struct qr_condition *condition);

struct qr_circuit {
    unsigned n_qubits;
    unsigned n_bits;           /* 1 + the highest bit that a measurement sets */
    struct qr_qubits measured; /* bits that a gate up to here has set */
    unsigned n_params;         /* parameters in natural order; each is used by at least one gate */
    unsigned n_columns;        /* number of values of a sample's x */
    size_t n_gates, cap_gates;
    struct qr_gate *gates; /* in program order */
    char **param_names;    /* n_params, unique */
    size_t n_channels, cap_channels;
    struct qr_channel *channels; /* pairwise different */
    uint32_t *channel_slots;     /* hash table of the channels; 2 * cap_channels slots */
    struct qr_conditions conditions;
    /* n_qubits probabilities of reading 1 for 0, and 0 for 1; NULL: none */
    double (*readout_errors)[2];
    size_t n_expressions, cap_expressions;
    struct qr_expression *expressions; /* pairwise different */
    /* Hash table of the expressions; 2 * cap_expressions slots */
    uint32_t *expression_slots;
    /* Names of the last n_named columns; NULL: no names. The columns before them have none. In
     * order of first use until qr_circuit_resolve_columns assigns their indices. */
    char **column_names;
    unsigned n_named;
};

/* Returns a circuit without gates, on 1 to QR_MAX_QUBITS qubits. */
struct qr_circuit *qr_circuit_new(unsigned n_qubits, unsigned n_columns);
struct qr_circuit *qr_circuit_copy(const struct qr_circuit *c);
void qr_circuit_free(struct qr_circuit *c);
/* Returns the index of the parameter with this name; adds the parameter when it is new.
 *
 * Cost:     compares all names
 */
uint32_t qr_circuit_param(struct qr_circuit *c, const char *name);
/* Returns the index of the expression; adds a copy when it is new.
 *
 * Args:     e      its parameters, columns and shared expressions must be in range
 */
uint32_t qr_circuit_expression(struct qr_circuit *c, const struct qr_expression *e);
/* Returns the index of the channel; adds a copy when no equal one is there. */
uint32_t qr_circuit_channel(struct qr_circuit *c, const struct qr_channel *channel);
/* Copies read-out errors and conditions to a circuit of as many qubits that has none. */
void qr_circuit_copy_classical(struct qr_circuit *to, const struct qr_circuit *from);
/* Assigns indices to the columns that gates refer to by name.
 *
 * Args:     names  n names of the data's columns, borrowed; NULL: a column without a name. Columns
 *                  that are referred to by number keep it.
 * Errors:   INVALID_ARGUMENT, c unchanged: a name is not among them, or a number is too large
 */
QR_MUST_CHECK enum qr_code qr_circuit_resolve_columns(struct qr_circuit *c,
                                                      const char *const *names, unsigned n,
                                                      struct qr_err *err);
/* Sets is[column] to 1 for each of the n_columns that a gate reads; other entries stay as they
 * are. */
void qr_circuit_used_columns(const struct qr_circuit *c, uint8_t *is);
/* Compares names in natural order: runs of digits as numbers (qconv2 < qconv10), other bytes as
 * bytes.
 *
 * Returns:  -1, 0 or 1; 0 only for equal names
 */
int qr_natural_compare(const char *a, const char *b);
/* Appends a copy of the gate.
 *
 * Errors:   INVALID_ARGUMENT (the message has the gate's position): qubits out of range or
 *           repeated, a control that is a target, wrong number of targets or arguments, non-finite
 *           scale, a global shift on FSIM or I, a condition on a bit that was not measured before,
 *           or of a measurement
 */
QR_MUST_CHECK enum qr_code qr_circuit_add(struct qr_circuit *c, const struct qr_gate *g,
                                          struct qr_err *err);

/* Appends the channel of this index on its qubits. Errors: as qr_circuit_add. */
QR_MUST_CHECK enum qr_code qr_circuit_add_channel(struct qr_circuit *c, uint32_t channel,
                                                  const uint16_t *qubits, struct qr_err *err);

/* Sets of Paulis. */
enum { QR_PAULI_X = 1, QR_PAULI_Y = 2, QR_PAULI_Z = 4 };

/* Factors of a power of an involution P: the power is plus (I + P) / 2 + minus (I - P) / 2, with
 * plus = e^{i pi g t} and minus = e^{i pi (g + 1) t}; the derivative has the same form with other
 * factors. */
struct qr_power {
    double complex plus, minus;
};

/* Properties of a kind of gate. */
struct qr_gate_info {
    const char *name; /* in job files: "X", "XX", "PhasedX" */
    /* Other accepted names, or NULL: in job files; of TFQ's serializer; of Cirq's class */
    const char *also, *tfq, *cirq;
    uint8_t n_targets, n_args;
    const char *arg_names[2]; /* "exponent"; "phase_exponent", "exponent"; "theta", "phi" */
    bool has_exponent;        /* the last argument is an exponent, so a global shift is allowed */
    bool identity;            /* the gate does nothing */
    /* Name with global shift -1/2 and an angle in radians ("RX"); NULL: not a rotation */
    const char *rotation;
    /* Name of the gate on the second target that the first target controls; NULL: none */
    const char *controlled;
    const char *symbol; /* symbol in drawings; NULL: the name */
    /* The gate is a product of exponentials of products with this Pauli on its first and second
     * target; 0: of a wider operator. */
    uint8_t factor[2];
    /* Exactly one of the two is set. power: the power of an involution, from its factors; matrix:
     * the matrix and its derivatives, from the values of the arguments. u and da are zeroed before
     * the call. */
    void (*power)(struct qr_power n, double complex *u);
    void (*matrix)(const struct qr_gate *g, const double a[2], double complex *u,
                   double complex *da);
};
/* The row of a kind, which must not be CHANNEL; static. */
const struct qr_gate_info *qr_gate_info(enum qr_gate_kind kind);
/* Finds a gate by any of its names; case is ignored. RX, RY and RZ give X, Y and Z, which then take
 * an angle (circuit_json.h).
 *
 * Returns:  enum qr_gate_kind, or -1 when the name is unknown
 */
int qr_gate_kind_of(const char *name);

/* Computes a gate's matrix on its targets, without controls.
 *
 * Args:     a       values of the arguments, n_args
 *           ret_u   row-major dim x dim with dim = 2^n_targets, first target most significant
 *           ret_da  derivative by each argument, n_args x dim x dim; NULL: not wanted
 * Numbers:  float64 with exact/functions: the same bits on every machine
 */
void qr_gate_matrix(const struct qr_gate *g, const double a[2], double complex *ret_u,
                    double complex *ret_da);
/* Finds the angle whose exponent, angle / pi, has these bits: the shortest of the numbers near
 * exponent * pi. False: there is none. */
bool qr_gate_angle_of(double exponent, double *ret);

/* ---- analysis and drawing ---- */

/* Finds the parameters with an exactly zero gradient for these observables: outside the light cone
 * (cone.h), or diagonal and meeting only diagonal gates and controls until their qubit is traced
 * out (train/step.md §8).
 *
 * Args:     ret    n_params; 1: no observable depends on the parameter, 0: one may
 */
void qr_circuit_zero_gradient(const struct qr_circuit *c, const struct qr_observable *obs,
                              size_t n_obs, uint8_t *ret);

/* The arguments of a gate, or of its channel. */
const struct qr_gate_arg *qr_circuit_gate_args(const struct qr_circuit *c, const struct qr_gate *g,
                                               unsigned *ret_n);
/* True if the circuit has a gate of kind CHANNEL; read-out errors do not count. */
bool qr_circuit_is_noisy(const struct qr_circuit *c);
/* True if it has a measurement. */
bool qr_circuit_measures(const struct qr_circuit *c);
/* Targets and controls. */
struct qr_qubits qr_gate_all_qubits(const struct qr_gate *g);
/* Puts each gate into the first moment that is free on its qubits.
 *
 * Args:     between    a gate also occupies the qubits between its outermost ones (drawings)
 *           ret_first  number of gates before each moment, and of all gates; caller frees
 *           ret_order  gates of each moment in program order; caller frees
 * Returns:  number of moments
 */
size_t qr_circuit_moments(const struct qr_circuit *c, bool between, size_t **ret_first,
                          size_t **ret_order);
/* SVG stands alone, without scripts; LaTeX is a whole document with quantikz. */
enum qr_drawing { QR_DRAWING_TEXT, QR_DRAWING_SVG, QR_DRAWING_LATEX };
/* Finds a form by its name: text, svg, latex. INVALID_ARGUMENT. */
QR_MUST_CHECK enum qr_code qr_drawing_of(const char *name, enum qr_drawing *ret,
                                         struct qr_err *err);
/* Draws the circuit.
 *
 * Args:     columns  maximum width in characters (SVG: of 8 pixels); wider circuits continue below
 * Returns:  heap string; after 4096 lines drawing stops and a last line has the number of gates
 *           left
 */
char *qr_circuit_draw(const struct qr_circuit *c, const struct qr_observable *obs, size_t n_obs,
                      enum qr_drawing form, unsigned columns);

#endif
