/* model/layers/dense_algebra.c — products and gradients of dense layers. Start reading at
 * qr_dense_forward() and qr_dense_gradient(). */
#include "model/layers/dense_algebra.h"

#include <math.h>
#include <stdatomic.h>

#include "base/mem.h"

enum {
    COLUMNS = 32, /* of a product per task: a multiple of every table's tile */
    ROWS = 16,
    WIDEST = 256, /* columns of a gradient computed before they are added: 32 KiB */
    TASK_ROWS = 64,
};
/* Minimum number of multiply-adds for sharing a product with idle threads: waking one takes as long
 * as some tens of thousands. */
static const size_t many = (size_t)1 << 19;

/* ---- bounds ---- */

typedef double lanes __attribute__((vector_size(16)));
typedef double lanes_at __attribute__((vector_size(16), aligned(8), may_alias));
typedef int64_t words __attribute__((vector_size(16)));

double qr_dense_magnitude(const double *v, size_t n) {
    const words all_but_sign = {INT64_MAX, INT64_MAX};
    lanes sum[4] = {0};
    double rest = 0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 4; k++)
            sum[k] += (lanes)((words)(*(const lanes_at *)(v + i + 2 * k)) & all_but_sign);
    for (; i < n; i++) rest += fabs(v[i]);
    lanes all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    return all[0] + all[1] + rest;
}

bool qr_dense_fits(const double *v, size_t n, double magnitude) {
    if (magnitude < 0x1p39) return true;
    bool ok = true;
    for (size_t i = 0; i < n; i++) ok &= fabs(v[i]) < 0x1p40; /* false for NaN */
    return ok;
}

/* ---- products: c = a b ---- */

struct dense_product {
    const struct qr_dense_kernels *by;
    double *c;
    struct qr_matrix a;
    const double *b;
    size_t n_i, n_k, n_j;
};

static void product_task(void *ctx, size_t i, unsigned worker) {
    const struct dense_product *p = ctx;
    size_t j = i * COLUMNS, n = p->n_j - j < COLUMNS ? p->n_j - j : COLUMNS;
    (void)worker;
    p->by->matmul(p->c + j, p->n_j, p->a, p->b + j, p->n_j, p->n_i, p->n_k, n);
}

static void multiply_matrices(const struct dense_product *p, struct qr_pool *pool) {
    struct dense_product shared = *p;
    if (pool && p->n_i * p->n_k * p->n_j >= many)
        qr_pool_for(pool, (p->n_j + COLUMNS - 1) / COLUMNS, product_task, &shared);
    else p->by->matmul(p->c, p->n_j, p->a, p->b, p->n_j, p->n_i, p->n_k, p->n_j);
}

bool qr_dense_forward(const struct qr_dense *d, struct qr_pool *pool, const double *params,
                      const double *in, size_t n, double *ret_z) {
    const double *kernel = params + d->kernel, *bias = params + d->bias;
    size_t units = d->units;
    multiply_matrices(
        &(struct dense_product){d->by, ret_z, {in, d->n_in, 1}, kernel, n, d->n_in, units}, pool);
    for (size_t s = 0; s < n; s++)
        for (size_t j = 0; j < units; j++) ret_z[s * units + j] += bias[j];
    /* Checked here, since a tanh would hide an infinity */
    return qr_dense_fits(ret_z, n * units, qr_dense_magnitude(ret_z, n * units));
}

void qr_dense_backward(const struct qr_dense *d, struct qr_pool *pool, const double *transposed,
                       const double *dz, size_t n, double *ret_d) {
    multiply_matrices(
        &(struct dense_product){d->by, ret_d, {dz, d->units, 1}, transposed, n, d->units, d->n_in},
        pool);
}

/* ---- gradients ---- */

struct gradient {
    const struct qr_dense *d;
    const double *in, *dz;
    size_t n;
    qr_fixed *acc; /* NULL: only check whether they fit */
    /* Adds to acc, or assigns */
    void (*accumulate)(qr_fixed *restrict acc, const double *restrict x, size_t n);
    atomic_bool bad;
};

/* `rows` (at most ROWS) rows and `columns` columns of the kernel's gradient, or, where row is n_in,
 * of the bias's. */
static void gradient_part(struct gradient *g, size_t row, size_t rows, size_t column,
                          size_t columns) {
    const struct qr_dense *d = g->d;
    static const double one = 1;
    double made[ROWS * WIDEST] QR_RAW;
    struct qr_matrix in = {row < d->n_in ? g->in + row : &one, row < d->n_in,
                           row < d->n_in ? d->n_in : 0};
    d->by->matmul(made, columns, in, g->dz + column, d->units, rows, g->n, columns);
    if (!g->acc) {
        if (!qr_dense_fits(made, rows * columns, INFINITY)) atomic_store(&g->bad, true);
        return;
    }
    qr_fixed *acc = g->acc + d->kernel + row * d->units + column;
    if (columns == d->units) g->accumulate(acc, made, rows * columns);
    else
        for (size_t r = 0; r < rows; r++)
            g->accumulate(acc + r * d->units, made + r * columns, columns);
}

static size_t min_size(size_t a, size_t b) { return a < b ? a : b; }

static void gradient_task(void *ctx, size_t i, unsigned worker) {
    struct gradient *g = ctx;
    size_t n_in = g->d->n_in, units = g->d->units, row = i * TASK_ROWS,
           end = min_size(row + TASK_ROWS, n_in);
    (void)worker;
    for (; row < end; row += ROWS)
        for (size_t j = 0; j < units; j += WIDEST)
            gradient_part(g, row, min_size(ROWS, end - row), j, min_size(WIDEST, units - j));
    for (size_t j = 0; j < units && end == n_in; j += WIDEST)
        gradient_part(g, n_in, 1, j, min_size(WIDEST, units - j));
}

static bool gradient_all_rows(struct gradient *g, struct qr_pool *pool) {
    size_t n = (g->d->n_in + TASK_ROWS - 1) / TASK_ROWS;
    QR_ASSERT(g->d->bias == g->d->kernel + g->d->n_in * g->d->units);
    if (pool && g->n * g->d->n_in * g->d->units >= many) qr_pool_for(pool, n, gradient_task, g);
    else
        for (size_t i = 0; i < n; i++) gradient_task(g, i, 0);
    return !atomic_load(&g->bad);
}

bool qr_dense_gradient_fits(const struct qr_dense *d, struct qr_pool *pool, const double *in,
                            double magnitude, const double *dz, size_t n) {
    /* No sum of products is larger */
    if ((1 + magnitude) * qr_dense_magnitude(dz, n * d->units) < 0x1p39) return true;
    return gradient_all_rows(&(struct gradient){.d = d, .in = in, .dz = dz, .n = n}, pool);
}

void qr_dense_gradient(const struct qr_dense *d, struct qr_pool *pool, const double *in,
                       const double *dz, size_t n, bool sets, qr_fixed *ret_grad) {
    struct gradient g = {.d = d, .in = in, .dz = dz, .n = n, .acc = ret_grad};
    g.accumulate = sets ? d->by->set_doubles : d->by->add_doubles;
    gradient_all_rows(&g, pool);
}
