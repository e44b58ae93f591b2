/* cirq/cirq_impl.h — the state of reading circuits, shared by the files of this component. */
#ifndef QR_CIRQ_CIRQ_IMPL_H
#define QR_CIRQ_CIRQ_IMPL_H

#include "circuit/gate_items.h"
#include "cirq/cirq.h"
#include "format/json.h"

/* Different texts, numbered in order of first use. */
struct cirq_names {
    char **text; /* owned */
    uint32_t n, cap, *slots;
};

/* In Cirq's order. */
enum cirq_qubit_kind { CIRQ_GRID, CIRQ_LINE, CIRQ_NAMED };
struct cirq_qubit {
    enum cirq_qubit_kind kind;
    int64_t row, column; /* column: also of a line */
    const char *name;    /* borrowed during the call */
};

struct cirq_readout {
    size_t n, cap;
    struct qr_pauli_term *terms; /* owned */
};

/* What a CircuitOperation changes in its circuit. */
struct cirq_scope {
    const struct cirq_scope *outer;
    const struct qr_json *parameters; /* param_dict, or NULL */
    uint32_t n_mapped;
    uint16_t map[QR_MAX_QUBITS]; /* of the first n_mapped qubits; the others stay */
};

struct cirq_reader {
    uint64_t steps;
    uint32_t max_steps, max_gates;
    unsigned depth;
    struct cirq_names qubit_names, symbols, symbol_texts, circuit_keys;
    struct cirq_qubit qubits[QR_MAX_QUBITS];
    char **texts;                    /* of the symbols, in expressions, or NULL; owned */
    const struct qr_json **circuits; /* of the keys */
    const char *const *inputs;
    size_t n_inputs;
    bool *is_used;                             /* the inputs that are symbols of the circuit */
    struct qr_qubits controls, control_values; /* of the enclosing operations */
    struct qr_qubits used, touched, measured;
    size_t n_readouts, cap_readouts;
    struct cirq_readout *readouts; /* of the measurements and of observables */
    struct qr_gate_reader gates;
    struct qr_err *err;
};

/* ---- names.c ---- */

uint32_t cirq_name_number(struct cirq_names *names, const char *text);
/* The number of a qubit, in order of first use. */
QR_MUST_CHECK enum qr_code cirq_qubit_number(struct cirq_reader *r, const char *path,
                                             const struct cirq_qubit *qubit, uint16_t *ret);
/* Sorts the used qubits: *ret_number of them, ret[number] is the place of each. */
void cirq_qubits_sort(const struct cirq_reader *r, uint16_t ret[QR_MAX_QUBITS], unsigned *ret_n);
/* The text of a symbol in expressions: a name that they can have. Borrowed from the reader. */
QR_MUST_CHECK enum qr_code cirq_symbol_text(struct cirq_reader *r, const char *path,
                                            const char *name, const char **ret);
/* A symbol as an argument; the parameter has its name as it is. */
QR_MUST_CHECK enum qr_code cirq_symbol_arg(struct cirq_reader *r, const char *path,
                                           const char *name, struct qr_gate_arg *ret);
/* Adds the inputs as the first symbols. */
QR_MUST_CHECK enum qr_code cirq_inputs_add(struct cirq_reader *r);
void cirq_names_fini(struct cirq_names *names);

/* ---- cirq_reader.c ---- */

/* Counts n more objects. */
QR_MUST_CHECK enum qr_code cirq_count(struct cirq_reader *r, const char *path, size_t n);
/* Appends a gate with the controls of the enclosing operations besides its own. */
QR_MUST_CHECK enum qr_code cirq_gate_add(struct cirq_reader *r, const char *path,
                                         struct qr_gate *g);
/* Appends a noise channel, which the enclosing operations must not control; its operators are
 * freed, also after an error. */
QR_MUST_CHECK enum qr_code cirq_channel_add(struct cirq_reader *r, const char *path,
                                            struct qr_channel *channel, const uint16_t *qubits);
/* Marks the qubits of an operation as used, and fails if one was measured. */
QR_MUST_CHECK enum qr_code cirq_touch(struct cirq_reader *r, const char *path,
                                      const uint16_t *qubits, unsigned n);
struct cirq_readout *cirq_readout_new(struct cirq_reader *r);
/* Adds a term; pauli: X, Y or Z for each qubit. */
QR_MUST_CHECK enum qr_code cirq_term_add(struct cirq_reader *r, const char *path, double re,
                                         double im, const uint16_t *qubits, const char *paulis,
                                         size_t n);
/* Builds the circuit and its read-outs. */
QR_MUST_CHECK enum qr_code cirq_build(struct cirq_reader *r, unsigned n_columns,
                                      struct qr_program *ret);
/* The reader is freed also after an error. */
QR_MUST_CHECK enum qr_code cirq_reader_new(const struct qr_program_options *options,
                                           struct cirq_reader **ret, struct qr_err *err);
void cirq_reader_free(struct cirq_reader *r);

/* ---- tfq_gates.c ---- */

/* Appends the gates of a program. */
QR_MUST_CHECK enum qr_code cirq_tfq_program(struct cirq_reader *r, struct qr_bytes bytes);
/* Appends a Pauli sum as a read-out. */
QR_MUST_CHECK enum qr_code cirq_tfq_sum(struct cirq_reader *r, struct qr_bytes bytes);

/* ---- json_operations.c ---- */

QR_MUST_CHECK enum qr_code cirq_json(struct cirq_reader *r, struct qr_bytes bytes);
/* Reads a ControlledGate on these qubits, its controls first. */
QR_MUST_CHECK enum qr_code cirq_json_controlled(struct cirq_reader *r,
                                                const struct cirq_scope *scope,
                                                const struct qr_json *gate, const char *path,
                                                const uint16_t *qubits, unsigned n);
/* ---- json_gates.c ---- */

/* Appends a gate of Cirq's JSON on these qubits. */
QR_MUST_CHECK enum qr_code cirq_json_gate(struct cirq_reader *r, const struct cirq_scope *scope,
                                          const struct qr_json *gate, const char *path,
                                          const uint16_t *qubits, unsigned n);

/* Appends a product of Paulis (I, X, Y, Z of each qubit) with a coefficient of modulus 1. */
QR_MUST_CHECK enum qr_code cirq_paulis_apply(struct cirq_reader *r, const char *path,
                                             const uint16_t *qubits, const char *paulis, unsigned n,
                                             double complex coefficient);
/* Appends phases of the eigenspaces of such a product: "exponent_neg" and "exponent_pos" of v. */
QR_MUST_CHECK enum qr_code cirq_phasor_apply(struct cirq_reader *r, const struct cirq_scope *scope,
                                             const struct qr_json *v, const char *path,
                                             const uint16_t *qubits, const char *paulis, unsigned n,
                                             double complex coefficient);

/* ---- values.c ---- */

/* Reads a number or an expression of sympy. */
QR_MUST_CHECK enum qr_code cirq_json_arg(struct cirq_reader *r, const struct cirq_scope *scope,
                                         const struct qr_json *v, const char *path,
                                         struct qr_gate_arg *ret);
/* Reads a number, or {"cirq_type": "complex"}. */
QR_MUST_CHECK enum qr_code cirq_json_complex(struct cirq_reader *r, const struct qr_json *v,
                                             const char *path, double complex *ret);
/* "sympy.Symbol"; "" when v is not an object of Cirq. */
const char *cirq_json_type(const struct qr_json *v);

#endif
