/* model/model_impl.h — contents of a model, its state and its workspace. */
#ifndef QR_MODEL_MODEL_IMPL_H
#define QR_MODEL_MODEL_IMPL_H

#include "model/layers/layer.h"
#include "model/model.h"
#include "model/natural/natural_gradient.h"

struct qr_model {
    size_t n_layers;
    struct qr_layer *layers;
    size_t known;   /* index of the quantum layer with a known head; n_layers: none */
    size_t quantum; /* index of the last quantum layer; n_layers: none */
    size_t n_inputs, n_outputs, n_params, micro_batch_size;
    uint64_t seed;
    size_t widest; /* maximum number of values of a sample between layers */
    const struct qr_dense_kernels *kernels;
    bool penalized; /* some kernel has l1 or l2 */
    size_t n_tensors;
    struct qr_model_tensor *tensors;
    enum qr_loss loss;
    struct qr_loss_options loss_options;
    /* The loss is computed from the last layer's values before its activation. */
    bool before_activation;
    double *class_weight;   /* of each class; NULL: none */
    double *output_weights; /* copy of loss_options.weights; NULL: none */
    size_t n_labels;        /* n_outputs, or 0 */
    bool weighted;
    size_t n_metrics;
    enum qr_metric *metrics;
    size_t n_watched;   /* of all layers, in their order; after the metrics */
    char **value_names; /* n_values, then those of the validation samples */
    size_t *sum_at;     /* position of each value in the sums */
    size_t n_sums;
    struct qr_metric_options metric_options;
    struct qr_natural_gradient *natural; /* NULL: not used */
};

struct qr_model_state {
    const struct qr_model *m;
    const double *params; /* borrowed */
    struct qr_layer_state *layers;
    double *row; /* of the known head; the second half is scratch */
};

struct qr_model_workspace {
    const struct qr_model *m;
    struct qr_layer_work *layers;
    double *numbers; /* x, and the layers' doubles: one allocation */
    double *x;       /* micro-batch x n_inputs */
    qr_fixed *sums;  /* n_sums */
};

#endif
