/* circuit/ansatz/index.h — texts that count: qubits, columns and names in the gates of a repeat.
 *
 * Numbers   "i", "i+1", "(i+1)%n", "2*i-j": integers, names, + - * % and parentheses. a % b has
 *           b's sign, so (i-1)%n is a qubit for any i. Every value on the way is within 2^53.
 * Names     "w{i}", "w{2*i+1}_{j}": what stands in braces is such a text; its value takes the
 *           place.
 * Cost      linear in the text, which has at most 64 bytes.
 */
#ifndef QR_CIRCUIT_ANSATZ_INDEX_H
#define QR_CIRCUIT_ANSATZ_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { QR_MAX_REPEATS = 8, QR_INDEX_TEXT_BYTES = 64 };

/* Names and what they are now: the number of qubits, then an index for each repeat that names one,
 * from the outermost. */
struct qr_index_scope {
    unsigned n; /* 0: outside all repeats, where there are no such texts */
    struct {
        const char *name;
        int64_t value;
    } known[QR_MAX_REPEATS + 1];
};

/* INVALID_ARGUMENT: the text, what is wrong with it and where. */
QR_MUST_CHECK enum qr_code qr_index_value(const struct qr_index_scope *s, const char *text,
                                          const char *path, int64_t *ret, struct qr_err *err);
/* The text with its braces filled in, at most room - 1 bytes; whatever stands outside of braces
 * stays as it is. */
QR_MUST_CHECK enum qr_code qr_index_fill(const struct qr_index_scope *s, const char *text,
                                         const char *path, char *ret, size_t room,
                                         struct qr_err *err);
/* A name for an index: letters, digits, '_', no digit first, not too long. */
bool qr_index_is_name(const char *name);

#endif
