/* qasm/qasm.h — reads OpenQASM 2 and 3 into a circuit and its read-outs.
 *
 * Use       qr_qasm_read, then the circuit and the read-outs; qr_program_fini. README.md says what
 *           is read, and how gates are mapped.
 * Method    the text is executed once: loops, definitions, constants and modifiers are expanded
 *           while reading, and only gates and free symbols remain.
 * Symbols   `input float` and `input angle` become parameters of the same name (an element of an
 *           array w[3]), or columns of data where the caller names them. A symbol that no
 *           expression can contain (x) gets an underscore.
 * Bounds    QR_PROGRAM_BYTES of text, QR_MAX_QUBITS qubits, QR_PROGRAM_GATES gates, QR_QASM_STEPS
 *           tokens executed, QR_QASM_DEPTH nested blocks, calls and brackets: any text ends within
 *           seconds.
 * Threads   any; one call is one thread.
 */
#ifndef QR_QASM_QASM_H
#define QR_QASM_QASM_H

#include "base/bytes.h"
#include "circuit/circuit_program.h"

enum { QR_QASM_DEPTH = 100, QR_QASM_STEPS = 1 << 25 };

/* Reads a text.
 *
 * Args:     text      UTF-8
 *           ret       freed with qr_program_fini. Its read-outs are Z of the measured qubits in
 *                     order of measurement, then the expectation values of Braket's result pragmas
 *           excerpt   receives, when the text has an error, the line of the text and a second line
 *                     with a caret below the place; printable
 * Errors:   INVALID_ARGUMENT: "line 3, column 7: reason; what to do"; UNIMPLEMENTED with the same
 *           form: valid OpenQASM that cannot be simulated
 */
QR_MUST_CHECK enum qr_code qr_qasm_read(struct qr_bytes text,
                                        const struct qr_program_options *options,
                                        struct qr_program *ret, struct qr_buf *excerpt,
                                        struct qr_err *err);
/* Whether a free symbol of OpenQASM 3 cannot have this name: a keyword, a constant, a function
 * or a gate of stdgates.inc. */
bool qr_qasm_reserved(const char *name);

#endif
