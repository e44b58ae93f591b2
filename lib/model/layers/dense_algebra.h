/* model/layers/dense_algebra.h — dense layers over the samples of a micro-batch, in float64.
 *
 * Rows are samples. Every output has one accumulator that adds its terms by ascending index; vector
 * lanes and threads compute different outputs, so that neither changes a bit. A kernel is in x
 * units, row-major; z = sum_i a_i w_i. + bias. pool: NULL, or a pool with idle threads that help
 * where that pays.
 */
#ifndef QR_MODEL_LAYERS_DENSE_ALGEBRA_H
#define QR_MODEL_LAYERS_DENSE_ALGEBRA_H

#include <stdbool.h>

#include "base/pool.h"
#include "exact/integer.h"
#include "model/layers/activation.h"
#include "model/kernels/dense_kernel.h"

struct qr_dense {
    size_t n_in, units;
    enum qr_activation activation;
    size_t kernel, bias; /* offsets in the parameter vector; the bias follows the kernel */
    const struct qr_dense_kernels *by;
};

/* The sum of |v[i]|, not finite where one is not; computed in lanes: only decides whether to check
 * values one by one. */
double qr_dense_magnitude(const double *v, size_t n);
/* Whether every |v[i]| < 2^40; magnitude: theirs. */
bool qr_dense_fits(const double *v, size_t n, double magnitude);
/* ret_z[n x units]; false when one is not finite or leaves +-2^40. in[n x n_in] */
bool qr_dense_forward(const struct qr_dense *d, struct qr_pool *pool, const double *params,
                      const double *in, size_t n, double *ret_z);
/* Whether all integers of dL/dkernel and dL/dbias fit: per weight a float64 sum over samples
 * ascending, rounded once. magnitude: of in. */
bool qr_dense_gradient_fits(const struct qr_dense *d, struct qr_pool *pool, const double *in,
                            double magnitude, const double *dz, size_t n);
/* ret_grad += these integers, which must fit; `sets`: ret_grad = them. */
void qr_dense_gradient(const struct qr_dense *d, struct qr_pool *pool, const double *in,
                       const double *dz, size_t n, bool sets, qr_fixed *ret_grad);
/* ret_d[n x n_in] = dz w^T; transposed: units x n_in. */
void qr_dense_backward(const struct qr_dense *d, struct qr_pool *pool, const double *transposed,
                       const double *dz, size_t n, double *ret_d);

#endif
