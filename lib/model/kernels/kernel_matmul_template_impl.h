/* model/kernels/kernel_matmul_template_impl.h — matmul by vectors of W doubles; the file of a table
 * includes it once, with
 *
 *   W, VECTORS   a tile is 4 rows of VECTORS vectors, all in registers
 *   NARROWER     the table for remainders narrower than a vector; not defined where W is 2
 *
 * The vectors are the compiler's, lowered to the instruction set of the file.
 * No include guard, on purpose.
 */

enum { ROWS = 4, TERMS = 64 }; /* TERMS rows of a tile's part of b stay in L1 */

#define INLINE static inline __attribute__((always_inline))
/* Exempt from the compiler's -ftrivial-auto-var-init */
#define RAW __attribute__((uninitialized))
typedef double vector __attribute__((vector_size(8 * W)));
typedef double vector_at __attribute__((vector_size(8 * W), aligned(8), may_alias));

/* rows x vectors numbers of c; `begins`: from 0, else added to c */
INLINE void matmul_tile(const int rows, const int vectors, const bool begins, double *c,
                        size_t c_row, const double *a, size_t a_i, size_t a_k, const double *b,
                        size_t b_row, size_t n_k) {
    vector sum[ROWS][VECTORS] RAW;
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            sum[r][v] =
                begins ? (vector){0} : (vector)(*(const vector_at *)(c + r * c_row + v * W));
    for (size_t k = 0; k < n_k; k++, a += a_k, b += b_row) {
        vector x[VECTORS] RAW;
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) x[v] = *(const vector_at *)(b + v * W);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++) sum[r][v] += a[r * a_i] * x[v];
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) *(vector_at *)(c + r * c_row + v * W) = sum[r][v];
}

/* vectors * W columns, all rows */
INLINE void matmul_columns(const int vectors, const bool begins, double *c, size_t c_row,
                           struct qr_matrix a, const double *b, size_t b_row, size_t n_i,
                           size_t n_k) {
    size_t i = 0;
    for (; i + ROWS <= n_i; i += ROWS)
        matmul_tile(ROWS, vectors, begins, c + i * c_row, c_row, a.v + i * a.row, a.row, a.column,
                    b, b_row, n_k);
    for (; i < n_i; i++)
        matmul_tile(1, vectors, begins, c + i * c_row, c_row, a.v + i * a.row, a.row, a.column, b,
                    b_row, n_k);
}

/* Columns of whole tiles; returns how many. */
INLINE size_t matmul_whole_tiles(const bool begins, double *c, size_t c_row, struct qr_matrix a,
                                 const double *b, size_t b_row, size_t n_i, size_t n_k,
                                 size_t n_j) {
    size_t j = 0;
    for (; j + VECTORS * W <= n_j; j += VECTORS * W)
        matmul_columns(VECTORS, begins, c + j, c_row, a, b + j, b_row, n_i, n_k);
    return j;
}

static void kernel_matmul(double *restrict c, size_t c_row, struct qr_matrix a, const double *b,
                          size_t b_row, size_t n_i, size_t n_k, size_t n_j) {
#ifdef NARROWER
    if (n_j < W) {
        NARROWER.matmul(c, c_row, a, b, b_row, n_i, n_k, n_j);
        return;
    }
#endif
    size_t n = n_k < TERMS ? n_k : TERMS;
    size_t j = matmul_whole_tiles(true, c, c_row, a, b, b_row, n_i, n, n_j);
    for (size_t k = n; j && k < n_k; k += n) {
        struct qr_matrix rest = {a.v + k * a.column, a.row, a.column};
        n = n_k - k < TERMS ? n_k - k : TERMS;
        (void)matmul_whole_tiles(false, c, c_row, rest, b + k * b_row, b_row, n_i, n, n_j);
    }
    for (; j + W <= n_j; j += W) matmul_columns(1, true, c + j, c_row, a, b + j, b_row, n_i, n_k);
    if (j == n_j) return;
#ifdef NARROWER
    /* Recomputes some numbers, with the same result */
    j = n_j - W;
    matmul_columns(1, true, c + j, c_row, a, b + j, b_row, n_i, n_k);
#else
    last_column(c + j, c_row, a, b + j, b_row, n_i, n_k);
#endif
}
