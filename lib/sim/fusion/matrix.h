/* sim/fusion/matrix.h — 4x4 matrices in float64: from gates to the matrix of a fused gate, from a
 * cross matrix to derivatives. Pure functions. */
#ifndef QR_SIM_FUSION_MATRIX_H
#define QR_SIM_FUSION_MATRIX_H

#include <complex.h>

#include "sim/fusion/plan.h"

enum {
    QR_NARROW = 64, /* numbers of a matrix and its adjoint, shared by all lanes */
    QR_WIDE = 1024, /* the same with one set per lane */
};

struct qr_c64 {
    double re, im;
};
struct qr_m4 {
    struct qr_c64 e[16]; /* 4x4, row-major; frame qubit 0 is the more significant */
};

struct qr_m4 qr_m4_identity(void);
struct qr_m4 qr_m4_adjoint(const struct qr_m4 *a);
struct qr_m4 qr_m4_mul(const struct qr_m4 *a, const struct qr_m4 *b);
/* Returns a times a gate's matrix in the frame of its fused gate, or only the latter if a is NULL.
 * derivative: where the control does not hold the entries are those of 0, not of the identity.
 * Zeros may differ in sign from those of the whole product. */
struct qr_m4 qr_m4_mul_gate(const struct qr_m4 *a, const struct qr_plan_op *op,
                            const double complex *m, bool derivative);
/* Computes the 16 weights that turn the numbers of a cross matrix K into scale * Re Tr(s g
 * s^adjoint K).
 *
 * Args:     s    product of the ops after this one; NULL: the identity
 *           u, d the gate's matrix and its derivative by one argument, both from qr_gate_matrix;
 *                g = (dG) G^adjoint in the frame
 *           ret  16 weights
 */
void qr_derivative_weights(const struct qr_m4 *s, const struct qr_plan_op *op,
                           const double complex *u, const double complex *d, double scale,
                           double ret[QR_CROSS]);
/* Sum of weights times numbers. */
double qr_derivative_value(const double w[QR_CROSS], const double k[QR_CROSS]);
/* The values of two sets of weights that are adjacent in memory. */
void qr_two_derivatives(const double w[2 * QR_CROSS], const double k[QR_CROSS], double ret[2]);
/* Writes the numbers of a kernel: 16 real, then 16 imaginary parts of m, then those of its
 * adjoint. */
void qr_narrow_numbers(const struct qr_m4 *m, double ret[QR_NARROW]);
/* The same into one lane of a wide slot. */
void qr_wide_numbers(const struct qr_m4 *m, unsigned lane, double ret[QR_WIDE]);

#endif
