/* model/kernels/dense_kernel_portable.c — the portable table: vectors of two, for every CPU. */
#include "model/kernels/dense_kernel.h"

#include <string.h>

#include "base/err.h"

#define W 2
#define VECTORS 2

/* One column, n_i rows: four sums side by side. */
static void last_column(double *c, size_t c_row, struct qr_matrix a, const double *b, size_t b_row,
                        size_t n_i, size_t n_k) {
    size_t i = 0;
    for (; i + 4 <= n_i; i += 4) {
        const double *v = a.v + i * a.row;
        double sum[4] = {0};
        for (size_t k = 0; k < n_k; k++, v += a.column)
            for (int r = 0; r < 4; r++) sum[r] += v[r * a.row] * b[k * b_row];
        for (int r = 0; r < 4; r++) c[(i + r) * c_row] = sum[r];
    }
    for (; i < n_i; i++) {
        double sum = 0;
        for (size_t k = 0; k < n_k; k++) sum += a.v[i * a.row + k * a.column] * b[k * b_row];
        c[i * c_row] = sum;
    }
}

#include "model/kernels/kernel_matmul_template_impl.h"

static void kernel_add_doubles(qr_fixed *restrict acc, const double *restrict x, size_t n) {
    bool all = qr_fixed_add_doubles(acc, x, n);
    QR_ASSERT(all);
}

static void kernel_set_doubles(qr_fixed *restrict acc, const double *restrict x, size_t n) {
    memset(acc, 0, n * sizeof *acc);
    kernel_add_doubles(acc, x, n);
}

static void kernel_means(double *restrict ret, const qr_fixed *restrict sum, size_t n,
                         double n_terms) {
    for (size_t i = 0; i < n; i++) ret[i] = qr_fixed_to_double(sum[i]) / n_terms;
}

const struct qr_dense_kernels qr_dense_kernels_portable = {kernel_matmul, kernel_add_doubles,
                                                           kernel_set_doubles, kernel_means};
