/* export/export.h — writes a circuit as a text of other programs.
 *
 * Use       qr_export_format once for the name of a format, then qr_export.
 * Symbols   parameters keep their names where the language has them, and data columns are x0, x1
 *           ...; README.md says how other names are written. With theta and x the circuit has
 *           numbers instead.
 * Phase     the unitary is the circuit's up to a global phase of the whole; phases of controlled
 *           gates are exact.
 * Threads   any.
 */
#ifndef QR_EXPORT_EXPORT_H
#define QR_EXPORT_EXPORT_H

#include "base/bytes.h"
#include "circuit/circuit.h"

struct qr_export {
    const struct qr_circuit *circuit;
    const struct qr_observable *readouts;
    size_t n_readouts;
    const double *theta; /* n_params; NULL: symbols */
    const double *x;     /* n_columns; NULL: symbols */
    const char *title;   /* for a comment; NULL: none */
};
struct qr_export_format; /* a row of export.c */

/* Names of all formats, separated by commas; static. */
const char *qr_export_formats(void);
/* Finds a format by name.
 *
 * Errors:   INVALID_ARGUMENT, which lists the names
 */
QR_MUST_CHECK enum qr_code qr_export_format(const char *name, const struct qr_export_format **ret,
                                            struct qr_err *err);
/* Whether the other program expects a circuit alone: with read-outs the text has another form
 * (cirq: a list), or there is none (tfq). */
bool qr_export_circuit_alone(const struct qr_export_format *format);
/* Appends the circuit to *ret.
 *
 * Errors:   INVALID_ARGUMENT: the format has no symbols, and theta or x is missing, or a strength
 *           of noise is out of range; UNIMPLEMENTED: a gate, a channel, a function or a read-out
 *           that the format cannot express
 */
QR_MUST_CHECK enum qr_code qr_export(const struct qr_export_format *format,
                                     const struct qr_export *what, struct qr_buf *ret,
                                     struct qr_err *err);

#endif
