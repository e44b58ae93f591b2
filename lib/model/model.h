/* model/model.h — layers, loss and metrics over micro-batches.
 *
 * A model is a chain of layers (layers/options.h) in any order, each taking what the one before it
 * gives. Parameters live in one float64 vector, in the chain's order: pqc/parameters,
 * pqc_1/parameters ... (one for each filter of each quantum layer), dense/kernel (in x out,
 * row-major), dense/bias, dense_1/kernel ...; quantum ones in natural symbol order. What is between
 * layers is float64: one accumulator per value, index ascending (exact/contract.md §1).
 * Source    losses, metrics and their keys are tf-keras 2.18's.
 * Threads   a model is const after qr_model_new; prepare writes a qr_model_state (one owner);
 *           micro-batches may run side by side, each with its own workspace.
 */
#ifndef QR_MODEL_MODEL_H
#define QR_MODEL_MODEL_H

#include "circuit/circuit.h"
#include "exact/integer.h"
#include "model/layers/options.h"
#include "model/loss.h"
#include "model/metric.h"
#include "sim/sim.h"

struct qr_model_options {
    const struct qr_layer_options *layers;
    size_t n_layers;
    size_t n_inputs; /* columns of x, where no circuit reads them (qr_layers_input_circuit) */
    enum qr_loss loss;
    struct qr_loss_options loss_options; /* its weights, where it has any: n_outputs, copied */
    const double *class_weight;          /* one for each class, or NULL; copied */
    size_t n_class_weights;
    bool weighted; /* behind its labels a sample has the weight of its loss */
    const enum qr_metric *metrics;
    size_t n_metrics;
    unsigned top_k; /* of top_k_accuracy */
    struct qr_sim_options sim;
    size_t micro_batch_size; /* samples of one at most */
    /* qr_model_natural_gradient is wanted: the first layer is quantum and takes no inputs, no other
     * has weights */
    bool natural_gradient;
};

/* One weight tensor; its number is a of Philox INIT. */
struct qr_model_tensor {
    char name[QR_LAYER_NAME + 40]; /* "pqc/parameters", "dense/kernel" ... */
    unsigned rank;
    size_t dims[2];
    size_t offset, n;                 /* in the parameter vector */
    const struct qr_circuit *circuit; /* whose parameters they are; NULL: of no quantum layer */
    bool frozen;
};

/* The circuit that reads the data's columns: of a quantum layer at the beginning of the chain, or
 * behind layers that keep the number of values. It says how many columns the model takes. NULL:
 * there is none, and the model takes as many as there are. */
const struct qr_circuit *qr_layers_input_circuit(const struct qr_layer_options *layers, size_t n);
/* Values that it gives for a sample; its inputs do not matter unless no layer changes them: 0. */
size_t qr_layers_n_outputs(const struct qr_layer_options *layers, size_t n);

struct qr_model;
/* INVALID_ARGUMENT, with the layer's number: a layer that cannot take what the one before it gives,
 * or that cannot be; RESOURCE_EXHAUSTED: one that cannot be simulated or held. */
QR_MUST_CHECK enum qr_code qr_model_new(const struct qr_model_options *opt, struct qr_model **ret,
                                        struct qr_err *err);
void qr_model_free(struct qr_model *m);
size_t qr_model_n_params(const struct qr_model *m);
/* Of these, those of layers that are not trainable. */
size_t qr_model_n_frozen(const struct qr_model *m);
size_t qr_model_n_tensors(const struct qr_model *m);
const struct qr_model_tensor *qr_model_tensor(const struct qr_model *m, size_t i);
size_t qr_model_n_inputs(const struct qr_model *m), qr_model_n_outputs(const struct qr_model *m);

/* A layer of the model; what is pointed to is the model's. */
struct qr_model_layer {
    enum qr_layer_kind kind;
    size_t n_in, n_out, n_params;
    bool frozen;
    /* of a quantum layer; else NULL and 0 */
    const struct qr_circuit *circuit;
    const struct qr_sim_plan *plan;
    size_t n_filters;
    /* what is behind it is affine with one output: the derivative by every read-out is known before
     * any read-out is (sim/planner.md#when-the-head-is-known) */
    bool head_known;
};
size_t qr_model_n_layers(const struct qr_model *m);
struct qr_model_layer qr_model_layer(const struct qr_model *m, size_t i);
/* The number of the i-th quantum layer; n_layers when there are not so many. */
size_t qr_model_quantum(const struct qr_model *m, size_t i);
/* Read-outs of the last quantum layer, all filters; 0 when there is none. */
size_t qr_model_n_readouts(const struct qr_model *m);
/* None of these is further from 0 (but for rounding): the largest sum of an observable's
 * |coefficients|; 0 when there is none. */
double qr_model_readout_bound(const struct qr_model *m);
size_t qr_model_micro_batch_size(const struct qr_model *m); /* samples that it may have at most */
/* The loss sum, then each metric's sums (model/metric.h), then one for each observable that is
 * watched, as they stand in a contribution. */
size_t qr_model_n_sums(const struct qr_model *m);
/* The loss, the metrics, and what quantum layers watch. */
size_t qr_model_n_values(const struct qr_model *m);
/* "loss", "accuracy" ...; of the validation samples "val_loss" ...; the model's. */
const char *qr_model_value_name(const struct qr_model *m, size_t i, bool validation);
/* Parameters whose gradient is exactly zero whatever the data, or that are frozen:
 * ret[n_params]. */
void qr_model_zero_gradient(const struct qr_model *m, uint8_t *ret);

/* Initial weights: quantum uniform in [0, 2 pi); kernels glorot_uniform +-sqrt(6 / (in + out));
 * biases 0; from Philox(seed, INIT, tensor, i). */
void qr_model_init(const struct qr_model *m, uint64_t seed, double *ret_params);

/* The model with numbers for one state: bound circuits, folded head. Once per step. */
struct qr_model_state;
struct qr_model_state *qr_model_state_new(const struct qr_model *m);
void qr_model_state_free(struct qr_model_state *s);
/* no allocation; params borrowed until the next prepare */
void qr_model_prepare(struct qr_model_state *s, const double *params, struct qr_pool *pool);

struct qr_model_workspace;
QR_MUST_CHECK enum qr_code qr_model_workspace_new(const struct qr_model *m,
                                                  struct qr_model_workspace **ret,
                                                  struct qr_err *err);
void qr_model_workspace_free(struct qr_model_workspace *w);
/* Of a workspace; and of the numbers for one state, which all threads read. */
size_t qr_model_bytes_per_thread(const struct qr_model *m);
size_t qr_model_bytes_of_state(const struct qr_model *m);
/* True when micro-batches should run on several threads side by side; false when the pool goes
 * inside one only. */
bool qr_model_micro_batches_in_parallel(const struct qr_model *m);

/* One micro-batch, n <= micro_batch_size samples: sample i has x[i] (n_inputs values) and y[i]
 * (n_label_columns values; one-hot for categorical). Adds to ret_sums[n_sums] the loss and metric
 * sums, and, unless ret_grad is NULL, to ret_grad[n_params] the gradient of the loss sum. A
 * sample's weight multiplies its loss, a class' weight only where there is a gradient or a draw,
 * as Keras' fit does; metrics have no weights, and every sample counts 1 in a mean. draw: for
 * dropout, in training; NULL: nothing is dropped. Frozen weights have gradient 0. Integers: a pure
 * function of (state, samples). False, and nothing added, when a number (input, read-out, value
 * before an activation, loss, gradient) is not finite or leaves +-2^40. pool: NULL, or whose idle
 * threads help; a task of it may give it too. No allocation. */
QR_MUST_CHECK bool qr_model_micro_batch(const struct qr_model_state *s,
                                        struct qr_model_workspace *w, struct qr_pool *pool,
                                        const double *const *x, const double *const *y, size_t n,
                                        const struct qr_draw *draw, qr_fixed *ret_sums,
                                        qr_fixed *ret_grad);
/* The same; `sets`: ret_grad, whatever it has, becomes the gradient, or is untouched when false. */
QR_MUST_CHECK bool qr_model_put_micro_batch(const struct qr_model_state *s,
                                            struct qr_model_workspace *w, struct qr_pool *pool,
                                            const double *const *x, const double *const *y,
                                            size_t n, const struct qr_draw *draw, bool sets,
                                            qr_fixed *ret_sums, qr_fixed *ret_grad);
/* The n x n_readouts read-outs of the workspace's last micro-batch, filter-major; borrowed until
 * its next use; NULL when there are none. */
const double *qr_model_readouts(const struct qr_model_workspace *w);
/* Predictions ret_p[n * n_outputs] and, unless NULL, read-outs ret_z[n * n_readouts]. n
 * <= micro_batch_size. */
QR_MUST_CHECK bool qr_model_predict(const struct qr_model_state *s, struct qr_model_workspace *w,
                                    struct qr_pool *pool, const double *const *x, size_t n,
                                    double *ret_p, double *ret_z);
/* d p_component / d params for one sample: ret_grad[n_params] float64 (exact integers converted).
 * Untouched when false. */
QR_MUST_CHECK bool qr_model_prediction_gradient(const struct qr_model_state *s,
                                                struct qr_model_workspace *w, struct qr_pool *pool,
                                                const double *x, size_t component,
                                                double *ret_grad);
/* The mean gradient by weights from..end-1 of all: ret[i] = grad's sum i / n, one float64 division
 * each. */
void qr_model_mean_gradient(const struct qr_model *m, size_t from, size_t end, const qr_fixed *grad,
                            uint64_t n, double *ret);
/* The natural gradient instead of a mean one (natural/natural_gradient.h): ret[n_params]. One
 * caller at a time. */
void qr_model_natural_gradient(const struct qr_model *m, const double *params,
                               double regularization, struct qr_pool *pool, double *ret);
/* Value i < n_values from sums over n samples ("loss" is i = 0, without the penalty): sum / n, or
 * over its own sum (0 where that is 0), one float64 division. The second: of sums in float64. */
double qr_model_mean(const struct qr_model *m, size_t i, const qr_fixed *sums, uint64_t n);
double qr_model_running_mean(const struct qr_model *m, size_t i, const double *sums, double n);
/* Where the confusion matrix stands among the sums: as many rows of as many counts; 0: there is
 * none, and *ret_at untouched. There is room in n_sums numbers for the values and it. */
size_t qr_model_confusion(const struct qr_model *m, size_t *ret_at);
/* What the kernels' l1 and l2 add to the mean loss of any samples, and to its gradient by weights
 * from..end-1: a function of the weights alone, in one order, so that every member has the same
 * bits. 0, and nothing done, without them. */
double qr_model_penalty(const struct qr_model *m, const double *params);
void qr_model_add_penalty_gradient(const struct qr_model *m, const double *params, size_t from,
                                   size_t end, double *grad);
/* Labels that this loss cannot take: DATA_LOSS naming the sample. y: n_samples rows of
 * n_label_columns. Sign accuracy with mse or mae wants ±1; hinge ±1, or 0/1 throughout (0 then
 * stands for -1, as in Keras); binary 0/1; categorical one-hot; all: below 2^40. row: the number
 * that people know a sample by; NULL: its own. */
QR_MUST_CHECK enum qr_code qr_model_check_labels(const struct qr_model *m, const double *y,
                                                 const uint32_t *row, size_t n_samples,
                                                 struct qr_err *err);
/* Values of a sample's y: its labels, n_outputs of them or, with a loss without labels, none; then
 * its weight where the model is weighted. */
size_t qr_model_n_label_columns(const struct qr_model *m);

#endif
