/* train/evaluate.h — predictions, loss, metrics and derivatives without training: qring infer,
 * evaluate, predict and gradient. */
#ifndef QR_TRAIN_EVALUATE_H
#define QR_TRAIN_EVALUATE_H

#include "base/pool.h"
#include "data/dataset.h"
#include "model/model.h"

/* Samples sample[0..n) of the data (positions in the data set). ret_p[n * n_outputs] may be NULL,
 * ret_z[n * n_readouts] too. ret_means[n_values]: loss and metrics over them; NULL: labels are not
 * looked at. Of several samples that give no number the first is named. */
QR_MUST_CHECK enum qr_code qr_evaluate(const struct qr_model *m, const double *params,
                                       const struct qr_dataset *data, const size_t *sample,
                                       size_t n, struct qr_pool *pool, double *ret_p, double *ret_z,
                                       double *ret_means, struct qr_err *err);
/* Gradient of the mean loss over the samples: ret_grad[n_params]; *ret_loss. */
QR_MUST_CHECK enum qr_code qr_loss_gradient(const struct qr_model *m, const double *params,
                                            const struct qr_dataset *data, const size_t *sample,
                                            size_t n, struct qr_pool *pool, double *ret_loss,
                                            double *ret_grad, struct qr_err *err);
#endif
