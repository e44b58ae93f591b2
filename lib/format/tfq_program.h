/* format/tfq_program.h — circuits and Pauli sums as TensorFlow Quantum serializes them: its
 * program.proto and pauli_sum.proto in binary, as tfq.convert_to_tensor writes them.
 *
 *     Program {1 Language {1 gate_set}; 2 Circuit {2 Moment {1 Operation ..} ..}}
 *     Operation {1 Gate {1 id}; 2 map from name to Arg ..; 3 Qubit {2 id} ..}
 *     Arg {1 ArgValue {1 float; 3 string; 4 double}; 2 symbol}
 *     PauliSum {1 PauliTerm {1 float re; 2 float im; 3 PauliQubitPair {1 qubit; 2 Pauli} ..} ..}
 *
 * Bytes     NULs that an array of fixed width appends are ignored. The text format of protobuf is
 *           not read.
 * Numbers   floats are rounded to six decimals, as TensorFlow Quantum's serializer does.
 * Bounds    linear in the bytes; nothing is allocated.
 * Errors    INVALID_ARGUMENT: malformed, or not of TensorFlow Quantum's gate set; those of the
 *           callback, which ends the reading.
 * Threads   any; pure functions.
 */
#ifndef QR_FORMAT_TFQ_PROGRAM_H
#define QR_FORMAT_TFQ_PROGRAM_H

#include <stdbool.h>

#include "base/bytes.h"

enum { QR_TFQ_QUBITS = 2, QR_TFQ_ARGS = 8, QR_TFQ_PAULIS = 1024 };

/* Texts are UTF-8 without control characters, borrowed from the bytes. */
enum qr_tfq_arg_kind { QR_TFQ_NUMBER, QR_TFQ_SYMBOL, QR_TFQ_STRING };
struct qr_tfq_arg {
    struct qr_bytes name; /* "exponent" */
    enum qr_tfq_arg_kind kind;
    double number;
    struct qr_bytes text;
};
struct qr_tfq_operation {
    struct qr_bytes gate; /* "XP" */
    size_t moment, place; /* place: its number in the moment */
    unsigned n_qubits, n_args;
    struct qr_bytes qubits[QR_TFQ_QUBITS]; /* "0_4" or "4" */
    struct qr_tfq_arg args[QR_TFQ_ARGS];
};
struct qr_tfq_pauli {
    struct qr_bytes qubit;
    char pauli; /* X, Y or Z */
};
struct qr_tfq_term {
    size_t number;
    double re, im;
    unsigned n;
    struct qr_tfq_pauli paulis[QR_TFQ_PAULIS];
};

/* Whether the bytes begin like a program of TensorFlow Quantum's gate set. */
bool qr_tfq_is_program(struct qr_bytes bytes);
/* Calls `each` for every operation, or term, in order. */
QR_MUST_CHECK enum qr_code qr_tfq_program_decode(
    struct qr_bytes bytes,
    enum qr_code (*each)(void *context, const struct qr_tfq_operation *operation), void *context,
    struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_tfq_sum_decode(struct qr_bytes bytes,
                                             enum qr_code (*each)(void *context,
                                                                  const struct qr_tfq_term *term),
                                             void *context, struct qr_err *err);

static inline bool qr_tfq_is(struct qr_bytes text, const char *word) {
    return text.n == __builtin_strlen(word) && __builtin_memcmp(text.p, word, text.n) == 0;
}

#endif
