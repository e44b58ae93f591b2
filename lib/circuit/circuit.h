/* circuit/circuit.h — circuits as data: gates, parameters, data columns, expressions.
 *
 * Conventions (Cirq's and TFQ's): qubit 0 is the most significant bit of an amplitude's index. X^t
 * has exponent t in half-turns and matrix e^{i pi g t} [ (I+P)/2 + e^{i pi t} (I-P)/2 ] with global
 * shift g (RX(angle) is X^(angle/pi) with g = -1/2). Phases matter as soon as a gate is controlled.
 * Gates: TFQ's set, a row each in gate_rows.h; any of them with controls on 0 or 1. Others are
 * made of these (gate_words.h).
 * Ownership a circuit owns its gates and names. Built once, then const; any thread may read it.
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
#include "circuit/gate_rows.h"

/* QR_GATE_I, QR_GATE_X ...: gate_rows.h has them all. */
enum qr_gate_kind {
#define QR_GATE_KIND(kind, ...) QR_GATE_##kind,
    QR_GATE_ROWS(QR_GATE_KIND)
#undef QR_GATE_KIND
        QR_GATE_KINDS
};

/* value = scale * (1, the parameter, the sample's data column, or the expression). */
enum qr_arg_kind { QR_ARG_CONSTANT, QR_ARG_PARAMETER, QR_ARG_DATA, QR_ARG_EXPRESSION };
struct qr_gate_arg {
    enum qr_arg_kind kind;
    double scale; /* CONSTANT: the value itself */
    /* PARAMETER: 0..n_params-1; DATA: column 0..n_columns-1; EXPRESSION: 0..n_expressions-1 */
    uint32_t index;
};

struct qr_gate {
    enum qr_gate_kind kind;
    uint8_t n_targets; /* 1 or 2 */
    uint8_t n_args;
    uint16_t targets[2];
    struct qr_gate_arg args[2];
    double global_shift; /* g */
    struct qr_qubits controls;
    struct qr_qubits control_values; /* of the controls those that must be 1; the others, 0 */
};

struct qr_circuit {
    unsigned n_qubits;
    unsigned n_params;  /* parameters in natural order; every one is used by some gate */
    unsigned n_columns; /* data columns; x of a sample has this many values */
    size_t n_gates, cap_gates;
    struct qr_gate *gates; /* in program order */
    char **param_names;    /* n_params, unique */
    size_t n_expressions, cap_expressions;
    struct qr_expression *expressions; /* no two are equal */
    uint32_t *expression_slots;        /* where each is, by hash; 2 * cap_expressions */
    /* Names of the last n_named columns; NULL: there are none. Those before have no names. Their
     * order is that of first mention until qr_circuit_resolve_columns gives them places. */
    char **column_names;
    unsigned n_named;
};

struct qr_circuit *qr_circuit_new(unsigned n_qubits, unsigned n_columns);
struct qr_circuit *qr_circuit_copy(const struct qr_circuit *c);
void qr_circuit_free(struct qr_circuit *c);
/* Index of the parameter of this name, adding it when new. Costs a look at every name there is. */
uint32_t qr_circuit_param(struct qr_circuit *c, const char *name);
/* Index of the expression, a copy of which is added when new; its parameters, its columns and what
 * it shares are in range. */
uint32_t qr_circuit_expression(struct qr_circuit *c, const struct qr_expression *e);
/* The columns are names[n] from now on: those that go by a number keep it, those with a name get
 * its place; a NULL is a column without a name. INVALID_ARGUMENT, c as it was: a name is not among
 * them, or a number is too large. */
QR_MUST_CHECK enum qr_code qr_circuit_resolve_columns(struct qr_circuit *c,
                                                      const char *const *names, unsigned n,
                                                      struct qr_err *err);
/* Sets is[column] to 1 for each of the n_columns that a gate reads. */
void qr_circuit_used_columns(const struct qr_circuit *c, uint8_t *is);
/* Natural order of names: runs of digits compare as numbers (qconv2 < qconv10), all else by bytes;
 * -1, 0, 1. 0 only for equal names. */
int qr_natural_compare(const char *a, const char *b);
/* Appends a copy. INVALID_ARGUMENT: qubits out of range or repeated, controls that are targets,
 * wrong number of targets or arguments, non-finite scale, a global shift on FSIM or I; the message
 * names the gate by its position. */
QR_MUST_CHECK enum qr_code qr_circuit_add(struct qr_circuit *c, const struct qr_gate *g,
                                          struct qr_err *err);

/* Sets of Paulis that commute with something. */
enum { QR_PAULI_X = 1, QR_PAULI_Y = 2, QR_PAULI_Z = 4 };

/* Numbers of the power of an involution P: it is plus (I + P) / 2 + minus (I - P) / 2, with
 * plus = e^{i pi g t} and minus = e^{i pi (g + 1) t}; its derivative has the same form with
 * other numbers. */
struct qr_power {
    double complex plus, minus;
};

/* What there is to know about a kind. */
struct qr_gate_info {
    const char *name; /* in job files: "X", "XX", "PhasedX" */
    /* other names that are understood, or NULL: of job files too; of TFQ's serializer; of
     * Cirq's class */
    const char *also, *tfq, *cirq;
    uint8_t n_targets, n_args;
    const char *arg_names[2]; /* "exponent"; "phase_exponent", "exponent"; "theta", "phi" */
    bool has_exponent;        /* its last argument is one, so it may have a global shift */
    bool identity;            /* nothing happens */
    /* what it is called with global shift -1/2 and an angle in radians, where it is a rotation:
     * "RX", or NULL */
    const char *rotation;
    /* its first target is a control of this gate on the second; NULL: it is not */
    const char *controlled;
    const char *symbol; /* how it is drawn where not by its name, or NULL */
    /* The gate is a product of exponentials of products with this Pauli on its first and second
     * target; 0: of something wider. */
    uint8_t factor[2];
    /* One of the two: the power of an involution, by its numbers; or the matrix and its derivatives
     * by values of arguments. u and da are zeroed. */
    void (*power)(struct qr_power n, double complex *u);
    void (*matrix)(const struct qr_gate *g, const double a[2], double complex *u,
                   double complex *da);
};
const struct qr_gate_info *qr_gate_info(enum qr_gate_kind kind);
/* By any of its names; case is ignored. RX, RY and RZ are X, Y and Z by angle
 * alone (circuit_json.h). */
int qr_gate_kind_of(const char *name); /* -1 when unknown */

/* The gate's matrix on its targets (controls left out), row-major dim x dim with dim = 2^n_targets,
 * first target most significant, for argument values a[n_args]; and, where ret_da is not NULL, its
 * derivative with respect to each argument: ret_da[k * dim * dim ...]. float64, exact/functions, so
 * the same bits everywhere. */
void qr_gate_matrix(const struct qr_gate *g, const double a[2], double complex *ret_u,
                    double complex *ret_da);
/* The value of an argument that is no expression, for parameters theta and data row x (either may
 * be NULL when not referred to). */
double qr_gate_arg_value(const struct qr_gate_arg *arg, const double *theta, const double *x);

/* ---- what observables see of it ---- */

/* Parameters with an exactly zero gradient for these observables: outside the light cone, or
 * diagonal and meeting only diagonal gates and controls until their qubit is traced out
 * (train/step.md §8). ret[n_params] true = no observable can see it: it is in no term's cone
 * (circuit/cone.h). */
void qr_circuit_zero_gradient(const struct qr_circuit *c, const struct qr_observable *obs,
                              size_t n_obs, uint8_t *ret);

/* Draws the circuit as text, at most `columns` wide (continued below), heap string. After 4096
 * lines no continuation begins: it says how many gates are left. */
char *qr_circuit_draw(const struct qr_circuit *c, const struct qr_observable *obs, size_t n_obs,
                      unsigned columns);

#endif
