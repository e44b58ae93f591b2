/* sim/cones/pauli_transfer.h — gates as real matrices on Pauli coordinates, and back.
 *
 * A state of k qubits is r_P = Tr(P rho) for the 4^k Pauli strings P; index: one digit a qubit, I X
 * Y Z = 0 1 2 3, the first qubit most significant. A gate U takes r to R r with R_PQ = 2^-k Tr(P U
 * Q U^adjoint), which is real (Greenbaum, arXiv:1509.02921). |0> is (1, 0, 0, 1); a qubit that is
 * traced out has digit 0; the expectation of P is r_P.
 * Threads   pure functions. float64, nothing fused: the same bits everywhere.
 */
#ifndef QR_SIM_CONES_PAULI_TRANSFER_H
#define QR_SIM_CONES_PAULI_TRANSFER_H

#include "sim/fusion/matrix.h"

enum {
    QR_PAULIS = 4,
    QR_TRANSFER = 256, /* numbers of that of two qubits: row (out) * 16 + column (in) */
    QR_SIGNALS = 3,    /* 1, cos(pi t), sin(pi t): what a power P^t of an involution is made of */
    QR_SIGNAL_NUMBERS = QR_TRANSFER * QR_SIGNALS,
    QR_ALL_DIGITS = 0xffff,
};

/* columns: bit Q when column Q is wanted; others may stay as they are. */
void qr_transfer(const struct qr_m4 *u, uint16_t columns, double ret[QR_TRANSFER]);

/* For dE = sum d[PQ] dR_PQ: the numbers of the cross matrix K with dE = Tr(g K) for dU = g U
 * (fusion/matrix.h, kernels/kernel.h), from R and d. d is 0 outside these rows and columns; of R
 * only these columns count, the others must be finite. */
void qr_transfer_cross(const double r[QR_TRANSFER], const double d[QR_TRANSFER], uint16_t rows,
                       uint16_t columns, double ret[QR_CROSS]);

/* A gate that is the power of an involution, without controls: its transfer matrix is sum_m
 * signal_m(t) ret[(out * 4^k + in) * 3 + m], t its exponent. False, ret untouched: it is no
 * such gate. */
bool qr_transfer_of_power(const struct qr_gate *g, double ret[QR_SIGNAL_NUMBERS]);

#endif
