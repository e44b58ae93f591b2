/* circuit/ansatz/index.h — index expressions: qubits, columns and names in the gates of a repeat.
 *
 * Numbers   "i", "i+1", "(i+1)%n", "2*i-j": integers, names, + - * % and parentheses. a % b has
 *           b's sign, so (i-1)%n is a qubit for any i. Every intermediate value is within 2^53.
 * Names     "w{i}", "w{2*i+1}_{j}": each pair of braces has an index expression and is replaced
 *           with its value.
 * Cost      linear in the text, which has at most 64 bytes.
 */
#ifndef QR_CIRCUIT_ANSATZ_INDEX_H
#define QR_CIRCUIT_ANSATZ_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { QR_MAX_REPEATS = 8, QR_INDEX_TEXT_BYTES = 64 };

/* Names and their current values: the number of qubits, then the index of each repeat that names
 * one, from the outermost. */
struct qr_index_scope {
    unsigned n; /* 0: outside all repeats, where index expressions are not allowed */
    struct {
        const char *name;
        int64_t value;
    } known[QR_MAX_REPEATS + 1];
};

/* INVALID_ARGUMENT: the message has the text, the position and the reason. */
QR_MUST_CHECK enum qr_code qr_index_value(const struct qr_index_scope *s, const char *text,
                                          const char *path, int64_t *ret, struct qr_err *err);
/* Copies the text with its braces filled in, at most size - 1 bytes. */
QR_MUST_CHECK enum qr_code qr_index_fill(const struct qr_index_scope *s, const char *text,
                                         const char *path, char *ret, size_t size,
                                         struct qr_err *err);
/* Whether the name is valid for an index: letters, digits, '_', no digit first, at most 16
 * bytes. */
bool qr_index_is_name(const char *name);

#endif
