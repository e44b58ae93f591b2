/* sim/kernels/kernel_cones_template_impl.h — kernels of the cones engine; kernel_template_impl.h
 * includes this file per element type. The numbers are float64 in both precisions.
 *
 * Each number is one sum: a product, then fused multiply-adds, the summed index ascending.
 * No include guard: the file is included more than once. */

/* Computes rows x vectors numbers of c, from row i and column j on. */
INLINE void NAME(matmul_block)(const int rows, const int vectors, double *c, const double *a,
                               size_t a_i, size_t a_k, const double *b, size_t n_k, size_t row) {
    D s[4][2] RAW;
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) s[r][v] = DMUL(DSET1(a[r * a_i]), DGET(b + v * DW));
    for (size_t k = 1; k < n_k; k++) {
        D x[2] RAW;
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) x[v] = DGET(b + k * row + v * DW);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            D number = DSET1(a[r * a_i + k * a_k]);
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) s[r][v] = DFMA(number, x[v], s[r][v]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) DPUT(c + r * row + v * DW, s[r][v]);
}

INLINE void NAME(matmul_rows)(const int rows, double *c, const double *a, size_t a_i, size_t a_k,
                              const double *b, size_t n_k, size_t n_j, size_t row) {
    size_t j = 0;
    for (; j + 2 * DW <= n_j; j += 2 * DW)
        NAME(matmul_block)(rows, 2, c + j, a, a_i, a_k, b + j, n_k, row);
    for (; j + DW <= n_j; j += DW) NAME(matmul_block)(rows, 1, c + j, a, a_i, a_k, b + j, n_k, row);
    if (j < n_j && n_j >= DW) { /* The last columns; some are computed twice. */
        j = n_j - DW;
        NAME(matmul_block)(rows, 1, c + j, a, a_i, a_k, b + j, n_k, row);
        return;
    }
    for (; j < n_j; j++)
        for (int r = 0; r < rows; r++) {
            double s = a[r * a_i] * b[j];
            for (size_t k = 1; k < n_k; k++)
                s = __builtin_fma(a[r * a_i + k * a_k], b[k * row + j], s);
            c[r * row + j] = s;
        }
}

static void NAME(matmul)(double *c, const double *a, size_t a_i, size_t a_k, const double *b,
                         size_t n_i, size_t n_k, size_t n_j, size_t row) {
    size_t i = 0;
    for (; i + 4 <= n_i; i += 4)
        NAME(matmul_rows)(4, c + i * row, a + i * a_i, a_i, a_k, b, n_k, n_j, row);
    for (; i + 2 <= n_i; i += 2)
        NAME(matmul_rows)(2, c + i * row, a + i * a_i, a_i, a_k, b, n_k, n_j, row);
    for (; i < n_i; i++) NAME(matmul_rows)(1, c + i * row, a + i * a_i, a_i, a_k, b, n_k, n_j, row);
}

INLINE void NAME(lanes_sum)(double *out, const double (*x)[QR_LANES], size_t x_s,
                            const double (*y)[QR_LANES], size_t y_s, size_t n_s, bool add) {
    D s[QR_LANES / DW] RAW;
#pragma GCC unroll 16
    for (int v = 0; v < QR_LANES / DW; v++) {
        D a = DNUMBERS(x[0] + v * DW), b = DNUMBERS(y[0] + v * DW);
        s[v] = add ? DFMA(a, b, DNUMBERS(out + v * DW)) : DMUL(a, b);
    }
    for (size_t k = 1; k < n_s; k++)
#pragma GCC unroll 16
        for (int v = 0; v < QR_LANES / DW; v++)
            s[v] = DFMA(DNUMBERS(x[k * x_s] + v * DW), DNUMBERS(y[k * y_s] + v * DW), s[v]);
#pragma GCC unroll 16
    for (int v = 0; v < QR_LANES / DW; v++) DPUT(out + v * DW, s[v]);
}

static void NAME(lanes)(double (*out)[QR_LANES], const double (*x)[QR_LANES], size_t x_i,
                        size_t x_s, const double (*y)[QR_LANES], size_t y_o, size_t y_s, size_t n_i,
                        size_t n_s, size_t n_o, bool add) {
    for (size_t i = 0; i < n_i; i++)
        for (size_t o = 0; o < n_o; o++)
            if (add)
                NAME(lanes_sum)(out[i * n_o + o], x + i * x_i, x_s, y + o * y_o, y_s, n_s, true);
            else NAME(lanes_sum)(out[i * n_o + o], x + i * x_i, x_s, y + o * y_o, y_s, n_s, false);
}
