/* sim/cones/slices.c — splits large contractions into slices for the pool's threads. Each number of
 * the result is one sum in one slice, so slices do not change bits. Start reading at
 * cones_matmul(). */
#include "sim/cones/cones_impl.h"

enum {
    SLICE_WORK = 1 << 18, /* least multiply-adds of a slice: about 50 us */
    SLICE_UNIT = 16,      /* rows or columns of a slice are a multiple of this */
};

/* Returns how many of n rows or columns, with this much work each, make a slice. */
static size_t slice_size(struct qr_pool *pool, size_t n, size_t work) {
    size_t units = SLICE_WORK / SLICE_UNIT / (work + 1) + 1;
    return qr_pool_size(pool) == 1 || units * SLICE_UNIT > n ? n : units * SLICE_UNIT;
}
static size_t slice_length(size_t first, size_t n, size_t slice) {
    return n - first < slice ? n - first : slice;
}

struct slices {
    const struct qr_kernels *kernels;
    double *c;
    const double *a, *b;
    size_t a_i, a_k, n_i, n_k, n_j, slice;
    bool columns; /* a slice is a range of columns, else of rows */
};

static void run_matrix_slice(void *ctx, size_t i, unsigned worker) {
    const struct slices *p = ctx;
    size_t at = i * p->slice;
    (void)worker;
    if (p->columns)
        p->kernels->matmul(p->c + at, p->a, p->a_i, p->a_k, p->b + at, p->n_i, p->n_k,
                           slice_length(at, p->n_j, p->slice), p->n_j);
    else
        p->kernels->matmul(p->c + at * p->n_j, p->a + at * p->a_i, p->a_i, p->a_k, p->b,
                           slice_length(at, p->n_i, p->slice), p->n_k, p->n_j, p->n_j);
}

void cones_matmul(const struct qr_kernels *kernels, struct qr_pool *pool, double *c,
                  const double *a, size_t a_i, size_t a_k, const double *b, size_t n_i, size_t n_k,
                  size_t n_j) {
    /* Most contractions are this small, some only a handful of numbers. */
    if (n_i * n_k * n_j <= SLICE_WORK) {
        kernels->matmul(c, a, a_i, a_k, b, n_i, n_k, n_j, n_j);
        return;
    }
    struct slices p = {kernels, c, a, b, a_i, a_k, n_i, n_k, n_j, .columns = n_j > n_i};
    size_t n = p.columns ? n_j : n_i;
    p.slice = slice_size(pool, n, n_i * n_k * n_j / n);
    qr_pool_for(pool, (n + p.slice - 1) / p.slice, run_matrix_slice, &p);
}

struct lanes_product {
    const struct qr_kernels *kernels;
    cone_row *out;
    const cone_row *x, *y;
    size_t x_i, x_s, y_o, y_s, n_i, n_s, n_o, slice;
    bool add;
};

static void run_lanes_slice(void *ctx, size_t i, unsigned worker) {
    const struct lanes_product *p = ctx;
    size_t at = i * p->slice;
    (void)worker;
    p->kernels->lanes(p->out + at * p->n_o, p->x + at * p->x_i, p->x_i, p->x_s, p->y, p->y_o,
                      p->y_s, slice_length(at, p->n_i, p->slice), p->n_s, p->n_o, p->add);
}

void cones_lanes(const struct qr_kernels *kernels, struct qr_pool *pool, cone_row *out,
                 const cone_row *x, size_t x_i, size_t x_s, const cone_row *y, size_t y_o,
                 size_t y_s, size_t n_i, size_t n_s, size_t n_o, bool add) {
    if (n_i * n_s * n_o * QR_LANES <= SLICE_WORK) {
        kernels->lanes(out, x, x_i, x_s, y, y_o, y_s, n_i, n_s, n_o, add);
        return;
    }
    struct lanes_product p = {kernels, out, x,   y,
                              x_i,     x_s, y_o, y_s,
                              n_i,     n_s, n_o, slice_size(pool, n_i, n_s * n_o * QR_LANES),
                              add};
    qr_pool_for(pool, (n_i + p.slice - 1) / p.slice, run_lanes_slice, &p);
}
