/* sim/fusion/matrix.h — 4x4 matrices in float64: from gates to a fused gate's matrix, from a cross
 * matrix to derivatives. */
#ifndef QR_SIM_FUSION_MATRIX_H
#define QR_SIM_FUSION_MATRIX_H

#include <complex.h>

#include "sim/fusion/plan.h"

enum {
    QR_NARROW = 64, /* numbers of a matrix and its adjoint, the same in all lanes */
    QR_WIDE = 1024, /* and one set per lane */
};

struct qr_c64 {
    double re, im;
};
struct qr_m4 {
    struct qr_c64 e[16]; /* 4x4, row-major; frame qubit 0 is the more significant */
};

struct qr_m4 qr_m4_identity(void);
struct qr_m4 qr_m4_mul(const struct qr_m4 *a, const struct qr_m4 *b);
/* a times the adjoint of b */
struct qr_m4 qr_m4_mul_adjoint(const struct qr_m4 *a, const struct qr_m4 *b);
/* A gate's matrix in its fused gate's frame. derivative: zero, not identity, where its control does
 * not hold. */
struct qr_m4 qr_m4_embed(const struct qr_plan_op *op, const double complex *m, bool derivative);
/* a times that, or that alone where a is NULL; zeros may have another sign than in the whole
 * product. */
struct qr_m4 qr_m4_mul_gate(const struct qr_m4 *a, const struct qr_plan_op *op,
                            const double complex *m, bool derivative);
/* The 16 weights with which the numbers of a cross matrix give Re Tr(s g s^adjoint K), times scale;
 * g = (dG) G^adjoint in the frame, d of one argument, both from qr_gate_matrix. s is NULL: the
 * identity. */
void qr_derivative_weights(const struct qr_m4 *s, const struct qr_plan_op *op,
                           const double complex *u, const double complex *d, double scale,
                           double ret[QR_CROSS]);
double qr_derivative_value(const double w[QR_CROSS], const double k[QR_CROSS]);
/* that follow each other */
void qr_two_derivatives(const double w[2 * QR_CROSS], const double k[QR_CROSS], double ret[2]);
/* As numbers of a kernel: 16 real then 16 imaginary parts of m, then the same of its adjoint. */
void qr_narrow_numbers(const struct qr_m4 *m, double ret[QR_NARROW]);
/* The same into one lane of a wide slot. */
void qr_wide_numbers(const struct qr_m4 *m, unsigned lane, double ret[QR_WIDE]);

#endif
