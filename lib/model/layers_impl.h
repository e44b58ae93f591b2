/* model/layers_impl.h — dense layers over the samples of a micro-batch, in float64.
 *
 * Rows are samples. Every output has one accumulator that takes its terms by ascending index; loops
 * run over outputs or samples innermost, so that vectorising them changes no bit. A kernel is in x
 * units, row-major; z = sum_i a_i w_i. + bias.
 */
#ifndef QR_MODEL_LAYERS_IMPL_H
#define QR_MODEL_LAYERS_IMPL_H

#include <stdbool.h>

#include "exact/integer.h"
#include "model/activation.h"

struct qr_dense {
    size_t n_in, units;
    enum qr_activation activation;
    size_t kernel, bias; /* offsets in the parameter vector */
};

/* ret_z[n x units]; false when one is not finite or leaves +-2^40. in[s] has n_in values. */
bool qr_dense_forward(const struct qr_dense *d, const double *params, const double *const *in,
                      size_t n, double *ret_z);
/* Integers of dL/dkernel and dL/dbias: per weight a float64 sum over samples ascending, rounded
 * once. False when one does not fit (ret is then partly written). acc: units values of scratch. */
bool qr_dense_gradient(const struct qr_dense *d, const double *const *in, const double *dz,
                       size_t n, double *acc, qr_fixed *ret_grad);
/* ret_d[n x n_in] = dz w^T; transposed: units x n_in. */
void qr_dense_backward(const struct qr_dense *d, const double *transposed, const double *dz,
                       size_t n, double *ret_d);

#endif
