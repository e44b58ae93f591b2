/* model/kernels/dense_kernel.h — the hot loops of dense layers, one table per instruction set.
 *
 * Bits      Every table evaluates the same expressions in the same order, so all give the same bits
 *           (exact/contract.md §1); tests/unit/test_model_kernels.c checks this. A sum has one
 *           accumulator; lanes are different sums. A product is rounded before it is added: there
 *           is no fused multiply-add.
 * Threads   any (pure functions).
 */
#ifndef QR_MODEL_KERNELS_DENSE_KERNEL_H
#define QR_MODEL_KERNELS_DENSE_KERNEL_H

#include "exact/integer.h"
#include "sim/sim.h"

/* A strided matrix: element (r, c) is v[r * row + c * column]. */
struct qr_matrix {
    const double *v;
    size_t row, column;
};

struct qr_dense_kernels {
    /* c[i * c_row + j] = 0 + a(i, 0) b[j] + a(i, 1) b[b_row + j] + ... , n_k terms one after the
     * other, i < n_i, j < n_j. */
    void (*matmul)(double *restrict c, size_t c_row, struct qr_matrix a, const double *b,
                   size_t b_row, size_t n_i, size_t n_k, size_t n_j);
    /* acc[i] += x[i] as qr_fixed_add_doubles; every |x[i]| < 2^40 */
    void (*add_doubles)(qr_fixed *restrict acc, const double *restrict x, size_t n);
    /* The same, with acc[i] = 0 before, whatever its contents. */
    void (*set_doubles)(qr_fixed *restrict acc, const double *restrict x, size_t n);
    /* ret[i] = qr_fixed_to_double(sum[i]) / n_terms, an integer below 2^53 */
    void (*means)(double *restrict ret, const qr_fixed *restrict sum, size_t n, double n_terms);
};

extern const struct qr_dense_kernels qr_dense_kernels_portable, qr_dense_kernels_avx2,
    qr_dense_kernels_avx512;
/* NEON is part of arm64's base, and the portable table is compiled to it there. */
const struct qr_dense_kernels *qr_dense_kernels_of(enum qr_isa isa);

#endif
