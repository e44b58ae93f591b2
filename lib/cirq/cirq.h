/* cirq/cirq.h — reads circuits of Cirq and TensorFlow Quantum into circuits and read-outs.
 *
 * Use       qr_cirq_read for one circuit, qr_tfq_read for a model with data circuits; then
 *           qr_program_fini. README.md says what is read.
 * Cirq      what cirq.to_json writes: a circuit, or a list that begins with one and continues with
 *           observables, which become read-outs after the measurements.
 * TFQ       what tfq.convert_to_tensor writes: numbers have the six decimals of its serializer.
 * Qubits    those that occur, in Cirq's order: grid, line, named.
 * Symbols   become parameters of the same name, or columns of data where the caller names them. In
 *           Cirq's JSON, characters that no name in an expression can have become underscores, and
 *           a word of expressions (x, pi) gets one.
 * Bounds    QR_PROGRAM_BYTES, QR_MAX_QUBITS qubits, QR_PROGRAM_GATES gates, QR_CIRQ_STEPS objects
 *           and names looked at, QR_CIRQ_DEPTH nested operations; QR_TFQ_DATA_GATES gates of a
 *           merged data circuit: any bytes end within seconds.
 * Threads   any; one call is one thread.
 */
#ifndef QR_CIRQ_CIRQ_H
#define QR_CIRQ_CIRQ_H

#include "base/bytes.h"
#include "circuit/circuit_program.h"

enum { QR_CIRQ_DEPTH = 32, QR_CIRQ_STEPS = 1 << 22, QR_TFQ_DATA_GATES = 1 << 12 };

/* Whether the bytes begin like Cirq's JSON or a program of TensorFlow Quantum. */
bool qr_cirq_recognizes(struct qr_bytes bytes);

/* Reads Cirq's JSON or one program of TensorFlow Quantum.
 *
 * Args:     ret   freed with qr_program_fini
 * Errors:   INVALID_ARGUMENT with the path of the value ("moments[3].operations[0].gate.exponent");
 *           UNIMPLEMENTED with the same form: valid, but it cannot be simulated
 */
QR_MUST_CHECK enum qr_code qr_cirq_read(struct qr_bytes bytes,
                                        const struct qr_program_options *options,
                                        struct qr_program *ret, struct qr_err *err);

/* Serialized messages of TensorFlow Quantum, each padded with NULs to the same width. */
struct qr_tfq_tensor {
    const uint8_t *bytes; /* NULL: absent */
    size_t n, width;
};
/* The inputs of a PQC layer. */
struct qr_tfq_model {
    struct qr_tfq_tensor prepend, data, circuit, readouts; /* prepend, circuit: one program */
};
struct qr_tfq_samples {
    size_t n_samples, n_columns;
    double *x; /* row-major; owned by the caller */
};

/* Reads a model: prepend, then the data circuit of each sample, then circuit.
 *
 * The data circuits become one circuit whose numbers are columns of data. A gate that a sample has
 * not has exponent 0 there; a number that all samples share stays a number.
 * Args:     ret          freed with qr_program_fini
 *           ret_samples  a row per data circuit
 * Errors:   as qr_cirq_read, with the array and the element in front; INVALID_ARGUMENT: the data
 *           circuits have so different gates that one for all has more than QR_TFQ_DATA_GATES;
 *           RESOURCE_EXHAUSTED
 */
QR_MUST_CHECK enum qr_code qr_tfq_read(const struct qr_tfq_model *model, struct qr_program *ret,
                                       struct qr_tfq_samples *ret_samples, struct qr_err *err);

#endif
