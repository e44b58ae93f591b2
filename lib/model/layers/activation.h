/* model/layers/activation.h — activations of dense layers: one row each, from which kinds and names
 * follow. */
#ifndef QR_MODEL_LAYERS_ACTIVATION_H
#define QR_MODEL_LAYERS_ACTIVATION_H

#include <stddef.h>

#include "base/rows.h"

/* Kind, name in job files, suffix of its functions in activation.c. */
#define QR_ACTIVATION_ROWS(ROW)                                                                    \
    ROW(QR_LINEAR, "linear", linear)                                                               \
    ROW(QR_RELU, "relu", relu)                                                                     \
    ROW(QR_TANH, "tanh", tanh)                                                                     \
    ROW(QR_SIGMOID, "sigmoid", sigmoid)                                                            \
    ROW(QR_SOFTMAX, "softmax", softmax)

enum qr_activation { QR_ACTIVATION_ROWS(QR_ROW_KIND) QR_ACTIVATIONS };
extern const char *const qr_activation_names[QR_ACTIVATIONS];

/* p = f(z) of one sample, k values. In place is allowed. */
void qr_activation_apply(enum qr_activation f, size_t k, const double *z, double *ret_p);
/* dL/dz from dL/dp of one sample, in place. */
void qr_activation_backward(enum qr_activation f, size_t k, const double *z, const double *p,
                            double *d);

#endif
