/* circuit/gate_json.h — one gate of a job file, read into native gates. */
#ifndef QR_CIRCUIT_GATE_JSON_H
#define QR_CIRCUIT_GATE_JSON_H

#include "circuit/composite_gates.h"
#include "circuit/ansatz/index.h"
#include "format/json.h"

enum { QR_MAX_COLUMNS = 1 << 20, QR_NAME_BYTES = 64 };

/* A parameter, where it was named. */
struct qr_parameter_ref {
    const char *name; /* the tree's, or one of the reader's names */
    uint32_t number;  /* in order of mention */
};

enum { QR_MAX_NAMED_COLUMNS = 4096 };

struct qr_gate_reader {
    unsigned n_qubits;
    unsigned n_columns; /* given, or 1 + the highest seen */
    bool columns_given;
    /* The index of a parameter is its mention's number; that of a column with a name
     * QR_MAX_COLUMNS + its place in column_names; that of an expression its place below. */
    struct qr_gate_list list;
    size_t n_expressions, cap_expressions, n_combined;
    struct qr_expression *expressions; /* owned, each as it was written; shared ones come first */
    size_t n_names, cap_names;
    char **names; /* owned: parameters' names and texts that stand nowhere in the tree */
    unsigned n_named;
    char **column_names; /* owned, unique, in order of first mention */
    size_t n_mentions, cap_mentions;
    struct qr_parameter_ref *mentions; /* owned, as the list */
    struct qr_index_scope scope;       /* of the repeats around */
    const uint16_t *map; /* of a block's qubits to the circuit's; NULL: they are those */
    unsigned n_map;
    const char *prefix; /* of parameters' names, or NULL */
    unsigned n_repeats; /* around this gate */
    uint64_t n_read;    /* numbers and names in repeats, each time */
    struct qr_err *err;
};
/* Frees what it owns. */
void qr_gate_reader_fini(struct qr_gate_reader *r);
/* Qubits that a gate here may name. */
static inline unsigned qr_gate_qubits(const struct qr_gate_reader *r) {
    return r->map ? r->n_map : r->n_qubits;
}

/* where: its path in messages. */
QR_MUST_CHECK enum qr_code qr_gate_read(struct qr_gate_reader *r, const struct qr_json *gate,
                                        const char *where);

/* n more numbers or names have been read: bounds the time that repeats may take. */
QR_MUST_CHECK enum qr_code qr_gate_add_reads(struct qr_gate_reader *r, const char *path, size_t n);
/* An integer, in a repeat also a text that counts (index.h). */
QR_MUST_CHECK enum qr_code qr_gate_integer(struct qr_gate_reader *r, const struct qr_json *v,
                                           const char *path, int64_t low, int64_t high,
                                           int64_t *ret);
/* Different qubits, at most QR_MAX_QUBITS of them: the circuit's numbers. */
QR_MUST_CHECK enum qr_code qr_gate_read_qubits(struct qr_gate_reader *r, const struct qr_json *v,
                                               const char *where, const char *key, uint16_t *ret,
                                               unsigned *ret_n);
/* The first of n columns; optional: 0 where v is NULL. */
QR_MUST_CHECK enum qr_code qr_gate_read_columns(struct qr_gate_reader *r, const struct qr_json *v,
                                                bool optional, const char *path, unsigned n,
                                                uint32_t *ret);
/* A parameter of this name, behind the prefix: the index of a gate's argument. kept: the name lives
 * as long as the reader. */
QR_MUST_CHECK enum qr_code qr_gate_parameter_ref(struct qr_gate_reader *r, const char *name,
                                                 bool kept, const char *path, uint32_t *ret);
/* A text of the tree; in a repeat with its braces filled in, at most this many bytes of the
 * reader's names. */
QR_MUST_CHECK enum qr_code qr_gate_fill(struct qr_gate_reader *r, const char *text,
                                        const char *path, size_t most, const char **ret);
/* An operation on two nodes, NUMBER, INPUT or SHARED; the last by the number that this gave. */
QR_MUST_CHECK enum qr_code qr_gate_combine(struct qr_gate_reader *r, enum qr_expression_op op,
                                           struct qr_expression_node a, struct qr_expression_node b,
                                           const char *path, uint32_t *ret);
/* An expression (expression/expression.h); one that is a number times a parameter or an input alone
 * is that. */
QR_MUST_CHECK enum qr_code qr_gate_expression(struct qr_gate_reader *r, const char *text,
                                              const char *path, struct qr_gate_arg *ret);

#endif
