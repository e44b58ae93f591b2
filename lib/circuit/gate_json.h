/* circuit/gate_json.h — one gate of a job file, read into native gates. */
#ifndef QR_CIRCUIT_GATE_JSON_H
#define QR_CIRCUIT_GATE_JSON_H

#include "circuit/gate_words.h"
#include "format/json.h"

enum { QR_MAX_COLUMNS = 1 << 20, QR_PATH_BYTES = 256 };

/* The path of a value, for messages; a very long one is cut. */
struct qr_path {
    char s[QR_PATH_BYTES];
};
struct qr_path qr_path_of(const char *fmt, ...) QR_PRINTF(1, 2);

/* A parameter, where it was named. */
struct qr_mention {
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
    size_t n_expressions, cap_expressions;
    struct qr_expression *expressions; /* owned, each as it was written */
    size_t n_names, cap_names;
    char **names; /* owned: parameters' names in expressions */
    unsigned n_named;
    char **column_names; /* owned, unique, in order of first mention */
    size_t n_mentions, cap_mentions;
    struct qr_mention *mentions; /* owned, as the list */
    struct qr_err *err;
};
/* Frees what it owns. */
void qr_gate_reader_fini(struct qr_gate_reader *r);

/* where: its path in messages. */
QR_MUST_CHECK enum qr_code qr_gate_read(struct qr_gate_reader *r, const struct qr_json *gate,
                                        const char *where);

#endif
