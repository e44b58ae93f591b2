/* model/model_impl.h — what a model, its state and a micro-batch's workspace hold. */
#ifndef QR_MODEL_MODEL_IMPL_H
#define QR_MODEL_MODEL_IMPL_H

#include "model/layers_impl.h"
#include "model/model.h"

struct qr_model {
    struct qr_circuit *circuit; /* NULL: classical */
    struct qr_sim_plan *plan;   /* one for all filters */
    uint8_t *zero_gradient;     /* per parameter of the circuit */
    size_t n_filters, n_theta;  /* parameters of one filter */
    size_t n_readouts_each, n_readouts;
    double readout_bound; /* no read-out's value is further from 0 */
    size_t n_inputs, n_outputs, n_params, micro_batch_size;
    const struct qr_dense_kernels *kernels;
    size_t n_dense;
    struct qr_dense *dense;
    struct qr_dense_penalty *penalties; /* n_dense; NULL: none */
    size_t n_tensors;
    struct qr_model_tensor *tensors;
    enum qr_loss loss;
    struct qr_loss_options loss_options;
    /* The loss is taken from the last layer's values before its activation. */
    bool before_activation;
    double *class_weight; /* of each class; NULL: none */
    double *output_weights; /* loss_options.weights; NULL: none */
    size_t n_labels;        /* n_outputs, or none */
    bool weighted;
    size_t n_metrics;
    enum qr_metric *metrics;
    size_t *sum_at; /* of each value its place among the sums */
    size_t n_sums;
    struct qr_metric_options metric_options;
    /* One output and nothing but linear layers behind the read-outs: d p / d z is one row for all
     * samples, known before the forward pass; dL/dp scales it afterwards. */
    bool affine;
    /* Workspaces of the simulator: one per filter, since a state must live from forward to
     * backward. Large circuits share one and go forward again. */
    size_t n_sims;
    size_t widest; /* values of a sample in the widest place between layers */
};

struct qr_model_state {
    const struct qr_model *m;
    const double *params;        /* borrowed */
    struct qr_sim_bound **bound; /* n_filters */
    double **transposed;         /* n_dense; NULL where nothing flows back */
    double *row;                 /* n_readouts: d p / d z of an affine head */
};

struct qr_model_workspace {
    const struct qr_model *m;
    struct qr_sim_workspace **sim; /* n_sims */
    double *numbers;               /* all that follow, one allocation */
    /* micro-batch x columns, x read-outs of a filter, x read-outs */
    double *x, *filter_z, *readouts;
    double **z, **p; /* per dense layer: micro-batch x units */
    /* dL/dz of the read-outs, then of each dense layer: as z; of the last one dL/dp at first */
    double **dz;
    double *magnitude; /* n_dense: of each dense layer's input */
    double *direction, *scale;
    qr_fixed *grad; /* n_params */
    qr_fixed *sums; /* n_sums */
};

#endif
