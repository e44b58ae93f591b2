/* model/model_impl.h — what a model, its state and a micro-batch's workspace hold. */
#ifndef QR_MODEL_MODEL_IMPL_H
#define QR_MODEL_MODEL_IMPL_H

#include "model/layers/layer.h"
#include "model/model.h"
#include "model/natural/natural_gradient.h"

struct qr_model {
    size_t n_layers;
    struct qr_layer *layers;
    size_t known;   /* the quantum layer whose head is known; n_layers: none */
    size_t quantum; /* the last quantum layer; n_layers: none */
    size_t n_inputs, n_outputs, n_params, micro_batch_size;
    size_t widest; /* values of a sample in the widest place between layers */
    const struct qr_dense_kernels *kernels;
    bool penalized; /* some kernel is */
    size_t n_tensors;
    struct qr_model_tensor *tensors;
    enum qr_loss loss;
    struct qr_loss_options loss_options;
    /* The loss is taken from the last layer's values before its activation. */
    bool before_activation;
    double *class_weight;   /* of each class; NULL: none */
    double *output_weights; /* loss_options.weights; NULL: none */
    size_t n_labels;        /* n_outputs, or none */
    bool weighted;
    size_t n_metrics;
    enum qr_metric *metrics;
    size_t n_watched;   /* by all layers, in their order; behind the metrics */
    char **value_names; /* n_values, then those of the validation samples */
    size_t *sum_at;     /* of each value its place among the sums */
    size_t n_sums;
    struct qr_metric_options metric_options;
    struct qr_natural_gradient *natural; /* NULL: it is not wanted */
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
