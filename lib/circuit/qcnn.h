/* circuit/qcnn.h — the quantum convolutional network of TensorFlow Quantum's tutorial, for any n >=
 * 4.
 *
 * Cluster state (H on all, ring of CZ), RX(x_q) on every qubit, then stages of convolution and
 * pooling (those of the tutorial "Quantum Convolutional Neural Network", docs/tutorials/qcnn.ipynb;
 * odd sizes: pairs truncated by zip, pooling keeps the unpaired last qubits:
 * 22 -> 11 -> 6 -> 3 -> 2 -> 1). Symbols are "qconv<k>", 21 per stage; unused ones do not become
 * parameters, so parameters are in natural (numeric) order of the used symbols.
 */
#ifndef QR_CIRCUIT_QCNN_H
#define QR_CIRCUIT_QCNN_H

#include "circuit/circuit.h"

enum qr_qcnn_variant {
    QR_QCNN_NOTEBOOK, /* ZZ, YY, XX use symbols 6, 7, 8 of the stage */
    QR_QCNN_RESEARCH, /* 7, 8, 9: symbol 6 is unused, 9 is shared with X of the first qubit */
};

struct qr_qcnn_options {
    unsigned n_qubits;
    unsigned n_stages; /* 0: down to one qubit */
    enum qr_qcnn_variant variant;
};
/* Builds the network.
 *
 * Args:     ret            caller frees with qr_circuit_free
 *           ret_remaining  qubits left after the last stage; may be NULL
 * Errors:   INVALID_ARGUMENT: n < 4, n > QR_MAX_QUBITS, too many stages
 */
QR_MUST_CHECK enum qr_code qr_qcnn_new(const struct qr_qcnn_options *opt, struct qr_circuit **ret,
                                       struct qr_qubits *ret_remaining, struct qr_err *err);

#endif
