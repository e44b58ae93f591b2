/* sim/cones/pauli_transfer.h — gates as real matrices on Pauli coordinates, and back.
 *
 * A state of k qubits is r_P = Tr(P rho) for the 4^k Pauli strings P. Index: one digit per qubit,
 * I X Y Z = 0 1 2 3, the first qubit most significant. A gate U maps r to R r with
 * R_PQ = 2^-k Tr(P U Q U^adjoint), which is real (Greenbaum, arXiv:1509.02921). |0> is (1, 0, 0,
 * 1);
 * a qubit that is traced out has digit 0; the expectation value of P is r_P.
 * Threads   pure functions. float64 without fused operations: the same bits everywhere.
 */
#ifndef QR_SIM_CONES_PAULI_TRANSFER_H
#define QR_SIM_CONES_PAULI_TRANSFER_H

#include "sim/fusion/matrix.h"

enum {
    QR_PAULIS = 4,
    /* numbers of a transfer matrix on two qubits: row (out) * 16 + column (in) */
    QR_TRANSFER = 256,
    QR_SIGNALS = 3, /* 1, cos(pi t), sin(pi t): the basis of a power P^t of an involution */
    QR_SIGNAL_NUMBERS = QR_TRANSFER * QR_SIGNALS,
    QR_ALL_DIGITS = 0xffff,
};

/* Computes the transfer matrix of U. columns: bit Q set if column Q is needed; other columns may
 * keep their old contents. */
void qr_transfer(const struct qr_m4 *u, uint16_t columns, double ret[QR_TRANSFER]);

/* Computes the numbers of the cross matrix K with dE = Tr(g K) for dU = g U (fusion/matrix.h,
 * kernels/kernel.h), given dE = sum d[PQ] dR_PQ.
 *
 * Args:     r              transfer matrix; unused columns must be finite
 *           d              derivatives, 0 outside `rows` and `columns`
 *           rows, columns  masks of the rows and columns in use
 */
void qr_transfer_cross(const double r[QR_TRANSFER], const double d[QR_TRANSFER], uint16_t rows,
                       uint16_t columns, double ret[QR_CROSS]);

/* Computes the transfer matrix of a power of an involution without controls as sum_m signal_m(t) *
 * ret[(out * 4^k + in) * 3 + m], t its exponent. Returns false, ret unchanged, for other gates. */
bool qr_transfer_of_power(const struct qr_gate *g, double ret[QR_SIGNAL_NUMBERS]);

#endif
