/* train/evaluate.h — predictions, loss, metrics and derivatives without training: qring infer,
 * evaluate, predict and gradient.
 *
 * Errors    OUT_OF_RANGE with the sample: an input, value or derivative is not finite or reaches
 *           2^40; RESOURCE_EXHAUSTED: no memory for a workspace
 * Threads   the caller's and the pool's; the model and the data are read only
 */
#ifndef QR_TRAIN_EVALUATE_H
#define QR_TRAIN_EVALUATE_H

#include "base/pool.h"
#include "data/dataset.h"
#include "model/model.h"

/* Evaluates samples of the data.
 *
 * Args:     sample     n positions in the data set
 *           ret_p      predictions, n x n_outputs, or NULL
 *           ret_z      read-outs, n x n_readouts, or NULL
 *           ret_means  loss (with penalties) and metrics over the samples, n_values; NULL: labels
 *                      are not read
 * Errors:   of several bad samples the first is named
 */
QR_MUST_CHECK enum qr_code qr_evaluate(const struct qr_model *m, const double *params,
                                       const struct qr_dataset *data, const size_t *sample,
                                       size_t n, struct qr_pool *pool, double *ret_p, double *ret_z,
                                       double *ret_means, struct qr_err *err);
/* Computes the gradient of the mean loss over n samples.
 *
 * Args:     ret_loss  the mean loss, with penalties
 *           ret_grad  n_params
 */
QR_MUST_CHECK enum qr_code qr_loss_gradient(const struct qr_model *m, const double *params,
                                            const struct qr_dataset *data, const size_t *sample,
                                            size_t n, struct qr_pool *pool, double *ret_loss,
                                            double *ret_grad, struct qr_err *err);
#endif
