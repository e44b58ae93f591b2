#include "model/layers_impl.h"

#include <math.h>
#include <string.h>

/* Four doubles at any address; the compiler lowers it to what the base ISA has. */
typedef double lanes __attribute__((vector_size(32), aligned(8), may_alias));

static void add_row(double *restrict acc, size_t n, double a, const double *restrict row) {
    for (size_t j = 0; j < n; j++) acc[j] += a * row[j];
}

/* acc += a[0] row[0], then a[1] row[1], a[2] row[2], a[3] row[3]: the same roundings as four
 * add_row, with acc in registers. */
static void add_four_rows(double *restrict acc, size_t n, const double a[4],
                          const double *const row[4]) {
    size_t j = 0;
    for (; j + 4 <= n; j += 4) {
        lanes sum = *(const lanes *)(acc + j);
        for (int k = 0; k < 4; k++) sum += a[k] * *(const lanes *)(row[k] + j);
        *(lanes *)(acc + j) = sum;
    }
    for (; j < n; j++)
        for (int k = 0; k < 4; k++) acc[j] += a[k] * row[k][j];
}

bool qr_dense_forward(const struct qr_dense *d, const double *params, const double *const *in,
                      size_t n, double *ret_z) {
    const double *kernel = params + d->kernel, *bias = params + d->bias;
    size_t units = d->units;
    memset(ret_z, 0, n * units * sizeof *ret_z);
    size_t i = 0;
    for (; i + 4 <= d->n_in; i += 4) {
        const double *row = kernel + i * units, *const rows[4] = {row, row + units, row + 2 * units,
                                                                  row + 3 * units};
        for (size_t s = 0; s < n; s++) add_four_rows(ret_z + s * units, units, in[s] + i, rows);
    }
    for (; i < d->n_in; i++)
        for (size_t s = 0; s < n; s++)
            add_row(ret_z + s * units, units, in[s][i], kernel + i * units);
    bool fits = true;
    for (size_t s = 0; s < n; s++) {
        for (size_t j = 0; j < units; j++) {
            ret_z[s * units + j] += bias[j];
            /* false for NaN; a tanh would hide an infinity */
            fits &= fabs(ret_z[s * units + j]) < 0x1p40;
        }
    }
    return fits;
}

static bool to_fixed(const double *v, size_t n, qr_fixed *ret) {
    bool fits = true;
    for (size_t j = 0; j < n; j++) fits &= qr_fixed_from_double(v[j], &ret[j]);
    return fits;
}

bool qr_dense_gradient(const struct qr_dense *d, const double *const *in, const double *dz,
                       size_t n, double *acc, qr_fixed *ret_grad) {
    size_t units = d->units;
    bool fits = true;
    for (size_t i = 0; i < d->n_in; i++) {
        memset(acc, 0, units * sizeof *acc);
        size_t s = 0;
        for (; s + 4 <= n; s += 4) {
            const double a[4] = {in[s][i], in[s + 1][i], in[s + 2][i], in[s + 3][i]},
                         *row = dz + s * units;
            const double *const rows[4] = {row, row + units, row + 2 * units, row + 3 * units};
            add_four_rows(acc, units, a, rows);
        }
        for (; s < n; s++) add_row(acc, units, in[s][i], dz + s * units);
        fits &= to_fixed(acc, units, ret_grad + d->kernel + i * units);
    }
    memset(acc, 0, units * sizeof *acc);
    for (size_t s = 0; s < n; s++)
        for (size_t j = 0; j < units; j++) acc[j] += dz[s * units + j];
    return fits & to_fixed(acc, units, ret_grad + d->bias);
}

void qr_dense_backward(const struct qr_dense *d, const double *transposed, const double *dz,
                       size_t n, double *ret_d) {
    size_t n_in = d->n_in, units = d->units, j = 0;
    memset(ret_d, 0, n * n_in * sizeof *ret_d);
    for (; j + 4 <= units; j += 4) {
        const double *row = transposed + j * n_in, *const rows[4] = {row, row + n_in,
                                                                     row + 2 * n_in,
                                                                     row + 3 * n_in};
        for (size_t s = 0; s < n; s++)
            add_four_rows(ret_d + s * n_in, n_in, dz + s * units + j, rows);
    }
    for (; j < units; j++)
        for (size_t s = 0; s < n; s++)
            add_row(ret_d + s * n_in, n_in, dz[s * units + j], transposed + j * n_in);
}
