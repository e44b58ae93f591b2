/* circuit/qcnn.h — the quantum convolutional network of TFQ's tutorial, for any n >= 4.
 *
 * Cluster state (H on all, ring of CZ), RX(x_q) on every qubit, then stages of convolution and
 * pooling (those of TensorFlow Quantum's tutorial "Quantum Convolutional Neural Network",
 * docs/tutorials/qcnn.ipynb; odd sizes: pairs truncated by zip, pooling keeps the unpaired last
 * qubits: 22 -> 11 -> 6 -> 3 -> 2 -> 1). Symbols are "qconv<k>", 21 a stage; unused ones do not
 * become parameters, so parameters are in natural (numeric) order of the used symbols.
 */
#ifndef QR_CIRCUIT_QCNN_H
#define QR_CIRCUIT_QCNN_H

#include "circuit/circuit.h"

enum qr_qcnn_variant {
    QR_QCNN_NOTEBOOK, /* ZZ, YY, XX use symbols 6, 7, 8 of the stage */
    QR_QCNN_RESEARCH, /* 7, 8, 9: symbol 6 unused, 9 shared with X of the first qubit */
};

struct qr_qcnn_options {
    unsigned n_qubits;
    unsigned n_stages; /* 0: down to one qubit */
    enum qr_qcnn_variant variant;
};
/* *ret_remaining (may be NULL): the qubits that are left after the last stage.
 * INVALID_ARGUMENT: n < 4, more stages than there are, n > QR_MAX_QUBITS. */
QR_MUST_CHECK enum qr_code qr_qcnn_new(const struct qr_qcnn_options *opt, struct qr_circuit **ret,
                                       struct qr_qubits *ret_remaining, struct qr_err *err);

#endif
