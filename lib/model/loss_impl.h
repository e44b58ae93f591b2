/* model/loss_impl.h — losses, metrics and label rules of one sample.
 *
 * tf-keras 2.18's formulas in float64 (epsilon 1e-7), k outputs:
 *   mse, mae        mean over outputs of (p - y)^2, |p - y| (derivative 0 at 0, as tf.abs).
 *   hinge           mean of max(1 - y p, 0), derivative -y where 1 - y p >= 0 (tf.maximum at a tie); label 0 stands for -1.
 *   binary_ce       mean of -(y log(q + eps) + (1 - y) log(1 - q + eps)), q = p clipped to [eps, 1 - eps]; derivative 0 where clipped.
 *                   After a sigmoid Keras takes the logits: max(z, 0) - z y + log1p(exp(-|z|)), derivative sigmoid(z) - y.
 *   categorical_ce  -sum y log q, q = p / sum p clipped; after a softmax, from its logits: log sum exp(z - max) - sum y (z - max), derivative
 *                   softmax(z) - y.
 * Keras takes the logits because its losses trace a graph and look through the activation's op; a model that ends in sigmoid or softmax
 * is therefore never clipped.
 */
#ifndef QR_MODEL_LOSS_IMPL_H
#define QR_MODEL_LOSS_IMPL_H

#include "model/model.h"

/* True when the loss is taken from the last layer's values before its activation. */
bool qr_loss_from_logits(enum qr_loss loss, enum qr_activation last);

/* Loss of one sample with k outputs p, labels y, and pre-activations z (read only for logits). ret_d[k], unless NULL, is dL/dz for
 * logits, else dL/dp. */
double qr_loss_of(enum qr_loss loss, bool from_logits, size_t k, const double *z, const double *p, const double *y, double *ret_d);

/* A sample's term in the metric's sum: the share of right outputs, or the error's mean. */
double qr_metric_of(enum qr_metric metric, enum qr_loss loss, size_t k, const double *p, const double *y);

#endif
