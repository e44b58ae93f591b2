/* circuit/gate_json.h — reads one gate of a job file into native gates. */
#ifndef QR_CIRCUIT_GATE_JSON_H
#define QR_CIRCUIT_GATE_JSON_H

#include "circuit/composite_gates.h"
#include "circuit/ansatz/index.h"
#include "format/json.h"

enum { QR_MAX_COLUMNS = 1 << 20, QR_NAME_BYTES = 64 };

/* A reference to a parameter. */
struct qr_parameter_ref {
    const char *name; /* borrowed from the JSON tree or from the reader's names */
    uint32_t number;  /* in order of reference */
};

enum { QR_MAX_NAMED_COLUMNS = 4096 };

struct qr_gate_reader {
    unsigned n_qubits;
    unsigned n_columns; /* given, or 1 + the highest seen */
    bool columns_given;
    /* A parameter's index is the number of its reference; that of a named column is QR_MAX_COLUMNS
     * + its index in column_names; that of an expression its index in expressions. */
    struct qr_gate_list list;
    /* Gates of kind CHANNEL refer to these, owned. */
    size_t n_channels, cap_channels;
    struct qr_channel *channels;
    struct qr_condition condition;   /* of the enclosing items */
    struct qr_conditions conditions; /* of the gates so far; owned */
    size_t n_expressions, cap_expressions, n_combined;
    struct qr_expression *expressions; /* owned, in order of reading; shared ones come first */
    size_t n_names, cap_names;
    char **names; /* owned: parameter names and texts that are not in the JSON tree */
    unsigned n_named;
    char **column_names; /* owned, unique, in order of first use */
    size_t n_mentions, cap_mentions;
    struct qr_parameter_ref *mentions; /* owned, one per reference */
    struct qr_index_scope scope;       /* of the enclosing repeats */
    const uint16_t *map;               /* maps a block's qubits to the circuit's; NULL: identity */
    unsigned n_map;
    const char *prefix;                        /* of parameter names, or NULL */
    struct qr_qubits controls, control_values; /* that all gates get besides their own */
    unsigned n_repeats, n_enclosing;           /* repeats, and all items, that enclose this gate */
    uint64_t n_read; /* numbers and names read inside repeats, counted each time */
    struct qr_err *err;
};
/* Frees the reader's contents. */
void qr_gate_reader_fini(struct qr_gate_reader *r);
/* Number of qubits that a gate may refer to here. */
static inline unsigned qr_gate_qubits(const struct qr_gate_reader *r) {
    return r->map ? r->n_map : r->n_qubits;
}

/* Adds a control on `value` of all gates from here on. */
static inline void qr_gate_reader_control(struct qr_gate_reader *r, unsigned qubit, bool value) {
    qr_qubits_add(&r->controls, qubit);
    if (value) qr_qubits_add(&r->control_values, qubit);
}

/* where: path of the gate in messages. */
QR_MUST_CHECK enum qr_code qr_gate_read(struct qr_gate_reader *r, const struct qr_json *gate,
                                        const char *where);

/* Makes the circuit of all gates that were read; the reader can then only be freed. */
QR_MUST_CHECK enum qr_code qr_circuit_build(struct qr_gate_reader *r, const char *where,
                                            struct qr_circuit **ret);

/* Reads an argument.
 *
 * Args:     v  a number, an expression or {"parameter" | "data", "scale"?}; NULL: missing
 */
QR_MUST_CHECK enum qr_code qr_gate_read_arg(struct qr_gate_reader *r, const struct qr_json *v,
                                            const char *where, const char *key,
                                            struct qr_gate_arg *ret);
/* Reads a matrix of 2^n_qubits rows: numbers or [re, im]. */
QR_MUST_CHECK enum qr_code qr_gate_read_matrix(struct qr_gate_reader *r, const struct qr_json *m,
                                               const char *path, unsigned n_qubits,
                                               double complex *ret);

/* channel_json.c: reads a noise channel of a gate list, {"channel", "qubits", ARGUMENTS}; a channel
 * on one qubit acts on each. */
QR_MUST_CHECK enum qr_code qr_channel_read(struct qr_gate_reader *r, const struct qr_json *item,
                                           const char *where);
/* Reads a channel without its qubits; "qubits" may be their number. ret is freed also on failure.
 * */
QR_MUST_CHECK enum qr_code qr_channel_read_alone(struct qr_gate_reader *r,
                                                 const struct qr_json *item, const char *where,
                                                 struct qr_channel *ret);
/* Appends a measurement that sets the bit; QR_MAX_QUBITS: none. errors: p_01, p_10, or NULL. */
QR_MUST_CHECK enum qr_code qr_measurement_append(struct qr_gate_reader *r,
                                                 const struct qr_channel *errors, uint16_t qubit,
                                                 unsigned bit, const char *where);
/* {"measure", "bits", "p_01", "p_10"} */
QR_MUST_CHECK enum qr_code qr_measurement_read(struct qr_gate_reader *r, const struct qr_json *item,
                                               const char *where);
/* Gives the reader's condition to the gates from number `from` on that have none. */
QR_MUST_CHECK enum qr_code qr_gate_reader_depend(struct qr_gate_reader *r, size_t from,
                                                 const char *where);
/* Adds a channel to the reader's, without a gate; its operators are taken over. */
void qr_channel_keep(struct qr_gate_reader *r, struct qr_channel *channel);
/* Appends a channel on these qubits; its operators are taken over. */
QR_MUST_CHECK enum qr_code qr_channel_append(struct qr_gate_reader *r, struct qr_channel *channel,
                                             const uint16_t *qubits, const char *where);
/* True if an argument depends on inputs, which a channel's must not. */
bool qr_channel_reads_inputs(const struct qr_gate_reader *r, const struct qr_gate_arg *a);
/* Fails if the list has a channel from gate `from` on: what cannot be done to it. */
QR_MUST_CHECK enum qr_code qr_channel_reject(const struct qr_gate_reader *r, size_t from,
                                             const char *where, const char *what);

/* Counts n more numbers or names; fails when repeats read too many (bounds their time). */
QR_MUST_CHECK enum qr_code qr_gate_add_reads(struct qr_gate_reader *r, const char *path, size_t n);
/* An integer; inside a repeat also an index expression (ansatz/index.h). */
QR_MUST_CHECK enum qr_code qr_gate_integer(struct qr_gate_reader *r, const struct qr_json *v,
                                           const char *path, int64_t low, int64_t high,
                                           int64_t *ret);
/* Reads different qubits, at most QR_MAX_QUBITS; returns the circuit's numbers. */
QR_MUST_CHECK enum qr_code qr_gate_read_qubits(struct qr_gate_reader *r, const struct qr_json *v,
                                               const char *where, const char *key, uint16_t *ret,
                                               unsigned *ret_n);
/* Reads different bits. */
QR_MUST_CHECK enum qr_code qr_gate_read_bits(struct qr_gate_reader *r, const struct qr_json *v,
                                             const char *where, const char *key, uint16_t *ret,
                                             unsigned *ret_n);
/* Reads the controls in `key` and their "control_values", if any; adds them to sets that have none
 * of them yet. */
QR_MUST_CHECK enum qr_code qr_gate_read_controls(struct qr_gate_reader *r,
                                                 const struct qr_json *item, const char *where,
                                                 const char *key, struct qr_qubits *controls,
                                                 struct qr_qubits *ret_values);
/* The same of the bits in "if" and their "if_values". */
QR_MUST_CHECK enum qr_code qr_gate_read_condition(struct qr_gate_reader *r,
                                                  const struct qr_json *item, const char *where,
                                                  struct qr_condition *ret);
/* The first of n columns; optional: 0 where v is NULL. */
QR_MUST_CHECK enum qr_code qr_gate_read_columns(struct qr_gate_reader *r, const struct qr_json *v,
                                                bool optional, const char *path, unsigned n,
                                                uint32_t *ret);
/* Adds a reference to the parameter `name`, after the prefix; *ret is the index of a gate's
 * argument. kept: the name lives as long as the reader. */
QR_MUST_CHECK enum qr_code qr_gate_parameter_ref(struct qr_gate_reader *r, const char *name,
                                                 bool kept, const char *path, uint32_t *ret);
/* Returns a text of the tree; inside a repeat with its braces filled in, at most `most` bytes. */
QR_MUST_CHECK enum qr_code qr_gate_fill(struct qr_gate_reader *r, const char *text,
                                        const char *path, size_t most, const char **ret);
/* An operation on two nodes, each NUMBER, INPUT or SHARED with an index that this function
 * returned. */
QR_MUST_CHECK enum qr_code qr_gate_combine(struct qr_gate_reader *r, enum qr_expression_op op,
                                           struct qr_expression_node a, struct qr_expression_node b,
                                           const char *path, uint32_t *ret);
/* Reads an expression (expression/expression.h); a number times one parameter or input is
 * simplified to that argument. */
QR_MUST_CHECK enum qr_code qr_gate_expression(struct qr_gate_reader *r, const char *text,
                                              const char *path, struct qr_gate_arg *ret);

#endif
