/* model/model.h — layers, loss and metrics over micro-batches.
 *
 * A model is a chain of layers (layers/options.h) in any order; each takes the output of the one
 * before it. Parameters are one float64 vector, in the chain's order: pqc/parameters,
 * pqc_1/parameters ... (one for each filter of each quantum layer), dense/kernel (in x out,
 * row-major), dense/bias, dense_1/kernel ...; quantum ones in natural symbol order. Values between
 * layers are float64: one accumulator per value, index ascending (exact/contract.md §1).
 * Source    losses, metrics and their keys are tf-keras 2.18's.
 * Use       qr_model_new; qr_model_state_new and qr_model_prepare for each set of weights;
 *           qr_model_workspace_new for each thread; qr_model_micro_batch or qr_model_predict.
 * Threads   a model is const after qr_model_new; prepare writes a qr_model_state (one owner), which
 *           any thread may read afterwards; micro-batches may run concurrently, each with its own
 *           workspace.
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
    size_t n_inputs; /* columns of x, where no circuit determines them (qr_layers_input_circuit) */
    enum qr_loss loss;
    struct qr_loss_options loss_options; /* weights, where set: n_outputs, copied */
    const double *class_weight;          /* one for each class, or NULL; copied */
    size_t n_class_weights;
    bool weighted; /* a sample has a weight for its loss after its labels */
    const enum qr_metric *metrics;
    size_t n_metrics;
    unsigned top_k; /* for top_k_accuracy */
    struct qr_sim_options sim;
    uint64_t seed;           /* of random numbers outside of training */
    size_t micro_batch_size; /* maximum number of samples of a micro-batch */
    /* Allows qr_model_natural_gradient; requires that the first layer is quantum without inputs,
     * and that no other layer has weights. */
    bool natural_gradient;
};

/* One weight tensor; its index is the stream `a` of Philox INIT. */
struct qr_model_tensor {
    char name[QR_LAYER_NAME + 40]; /* "pqc/parameters", "dense/kernel" ... */
    unsigned rank;
    size_t dims[2];
    size_t offset, n;                 /* position in the parameter vector */
    const struct qr_circuit *circuit; /* of a quantum layer's parameters; NULL: other layers */
    bool frozen;
};

/* Returns the circuit that reads the data's columns: that of a quantum layer at the start of the
 * chain, or after layers that keep the number of values. It determines the number of columns of the
 * model. NULL: none, and the model takes as many columns as there are. */
const struct qr_circuit *qr_layers_input_circuit(const struct qr_layer_options *layers, size_t n);
/* Number of outputs of a chain; 0 when no layer changes the number of inputs. */
size_t qr_layers_n_outputs(const struct qr_layer_options *layers, size_t n);

struct qr_model;
/* Creates a model.
 *
 * Args:     opt  borrowed; the model copies it
 *           ret  caller frees with qr_model_free
 * Errors:   INVALID_ARGUMENT: names the layer that is invalid or does not accept the output of the
 *           one before it; RESOURCE_EXHAUSTED: too large to simulate or to hold in memory
 */
QR_MUST_CHECK enum qr_code qr_model_new(const struct qr_model_options *opt, struct qr_model **ret,
                                        struct qr_err *err);
void qr_model_free(struct qr_model *m);
size_t qr_model_n_params(const struct qr_model *m);
/* Number of parameters of layers that are not trainable. */
size_t qr_model_n_frozen(const struct qr_model *m);
size_t qr_model_n_tensors(const struct qr_model *m);
const struct qr_model_tensor *qr_model_tensor(const struct qr_model *m, size_t i);
size_t qr_model_n_inputs(const struct qr_model *m), qr_model_n_outputs(const struct qr_model *m);

/* A layer of the model; pointers are borrowed from the model. */
struct qr_model_layer {
    enum qr_layer_kind kind;
    size_t n_in, n_out, n_params;
    bool frozen;
    /* Of a quantum layer; else NULL and 0. */
    const struct qr_circuit *circuit;
    const struct qr_sim_plan *plan;
    size_t n_filters;
    /* The layers after it are affine with one output: the derivative by every read-out is known
     * before any read-out is (sim/planner.md#when-the-head-is-known). */
    bool head_known;
};
size_t qr_model_n_layers(const struct qr_model *m);
struct qr_model_layer qr_model_layer(const struct qr_model *m, size_t i);
/* The index of the i-th quantum layer; n_layers when there are fewer. */
size_t qr_model_quantum(const struct qr_model *m, size_t i);
/* Read-outs of the last quantum layer, all filters; 0 without one. */
size_t qr_model_n_readouts(const struct qr_model *m);
/* Bound of the absolute values of these read-outs, up to rounding: the largest sum of an
 * observable's |coefficients|; 0 without one. */
double qr_model_readout_bound(const struct qr_model *m);
/* Maximum number of samples of a micro-batch */
size_t qr_model_micro_batch_size(const struct qr_model *m);
/* Number of sums of a contribution: the loss, each metric's sums (model/metric.h), then one for
 * each watched observable. */
size_t qr_model_n_sums(const struct qr_model *m);
/* Number of values: the loss, the metrics and the watched observables. */
size_t qr_model_n_values(const struct qr_model *m);
/* "loss", "accuracy" ...; with validation "val_loss" ...; borrowed from the model. */
const char *qr_model_value_name(const struct qr_model *m, size_t i, bool validation);
/* Sets ret[n_params] to 1 for parameters that are frozen or have gradient zero for all data. */
void qr_model_zero_gradient(const struct qr_model *m, uint8_t *ret);

/* Initial weights: quantum uniform in [0, 2 pi); kernels glorot_uniform +-sqrt(6 / (in + out));
 * biases 0; from Philox(seed, INIT, tensor, i). */
void qr_model_init(const struct qr_model *m, uint64_t seed, double *ret_params);

/* A model prepared for one set of weights: bound circuits, folded head. Prepared once per step. */
struct qr_model_state;
struct qr_model_state *qr_model_state_new(const struct qr_model *m);
void qr_model_state_free(struct qr_model_state *s);
/* Does not allocate; params are borrowed until the next prepare. */
void qr_model_prepare(struct qr_model_state *s, const double *params, struct qr_pool *pool);

struct qr_model_workspace;
QR_MUST_CHECK enum qr_code qr_model_workspace_new(const struct qr_model *m,
                                                  struct qr_model_workspace **ret,
                                                  struct qr_err *err);
void qr_model_workspace_free(struct qr_model_workspace *w);
/* Memory of a workspace; and of a state, which all threads share. */
size_t qr_model_bytes_per_thread(const struct qr_model *m);
size_t qr_model_bytes_of_state(const struct qr_model *m);
/* Whether micro-batches should run concurrently on several threads; false: the pool parallelizes
 * inside one micro-batch. */
bool qr_model_micro_batches_in_parallel(const struct qr_model *m);

/* Computes one micro-batch and adds to its sums. Does not allocate.
 *
 * Args:     pool      NULL, or a pool with idle threads that help; its tasks may pass it too
 *           x, y      n <= micro_batch_size samples: x[i] has n_inputs values, y[i] n_label_columns
 *                     (one-hot for categorical)
 *           draw      random numbers of dropout, noise and shots; NULL: as of qr_model_predict
 *           ret_sums  n_sums; loss and metric sums are added
 *           ret_grad  n_params, or NULL; the gradient of the loss sum is added; 0 for frozen
 *           weights
 * Returns:  false, nothing added: a number (input, read-out, value before an activation, loss,
 *           gradient) is not finite or leaves +-2^40
 * Numbers:  integers, a pure function of (state, samples). A sample's weight multiplies its loss, a
 *           class' weight only with a gradient or a draw that trains, as in Keras' fit; metrics
 *           have no weights, and every sample counts 1 in a mean.
 */
QR_MUST_CHECK bool qr_model_micro_batch(const struct qr_model_state *s,
                                        struct qr_model_workspace *w, struct qr_pool *pool,
                                        const double *const *x, const double *const *y, size_t n,
                                        const struct qr_draw *draw, qr_fixed *ret_sums,
                                        qr_fixed *ret_grad);
/* The same; with `sets`, ret_grad is assigned instead of added to; unchanged when false. */
QR_MUST_CHECK bool qr_model_put_micro_batch(const struct qr_model_state *s,
                                            struct qr_model_workspace *w, struct qr_pool *pool,
                                            const double *const *x, const double *const *y,
                                            size_t n, const struct qr_draw *draw, bool sets,
                                            qr_fixed *ret_sums, qr_fixed *ret_grad);
/* The n x n_readouts read-outs of the workspace's last micro-batch, filter-major; borrowed until
 * its next use; NULL without a quantum layer. */
const double *qr_model_readouts(const struct qr_model_workspace *w);
/* Predicts samples.
 *
 * Args:     x      n <= micro_batch_size samples of n_inputs values
 *           draw   random numbers of noise and shots; NULL: seed 0, samples 0, 1, 2 ...
 *           ret_p  n * n_outputs
 *           ret_z  read-outs, n * n_readouts; NULL: not wanted
 * Returns:  false: a number is not finite or leaves +-2^40
 */
QR_MUST_CHECK bool qr_model_predict(const struct qr_model_state *s, struct qr_model_workspace *w,
                                    struct qr_pool *pool, const double *const *x, size_t n,
                                    const struct qr_draw *draw, double *ret_p, double *ret_z);
/* The seed of the model's options. */
uint64_t qr_model_seed(const struct qr_model *m);
/* Computes d p_component / d params of one sample: ret_grad[n_params] float64 (exact integers,
 * converted), with the random numbers that draw gives qr_model_predict. Unchanged when false. */
QR_MUST_CHECK bool qr_model_prediction_gradient(const struct qr_model_state *s,
                                                struct qr_model_workspace *w, struct qr_pool *pool,
                                                const double *x, const struct qr_draw *draw,
                                                size_t component, double *ret_grad);
/* The mean gradient of weights from..end-1: ret[i] = grad[i] / n, one float64 division each. */
void qr_model_mean_gradient(const struct qr_model *m, size_t from, size_t end, const qr_fixed *grad,
                            uint64_t n, double *ret);
/* Replaces the mean gradient ret[n_params] with the natural gradient (natural/natural_gradient.h).
 * One caller at a time. */
void qr_model_natural_gradient(const struct qr_model *m, const double *params,
                               double regularization, struct qr_pool *pool, double *ret);
/* Value i < n_values from sums over n samples ("loss" is i = 0, without the penalty): the sum / n,
 * or over its own denominator (0 where that is 0), one float64 division. The second takes sums in
 * float64. */
double qr_model_mean(const struct qr_model *m, size_t i, const qr_fixed *sums, uint64_t n);
double qr_model_running_mean(const struct qr_model *m, size_t i, const double *sums, double n);
/* Position of the confusion matrix in the sums; returns its number of rows and columns; 0: none,
 * and *ret_at is unchanged. n_sums numbers suffice for the values and the matrix. */
size_t qr_model_confusion(const struct qr_model *m, size_t *ret_at);
/* What l1 and l2 of the kernels add to the mean loss of any samples, and to its gradient by weights
 * from..end-1: a function of the weights alone, in one order, so that every member has the same
 * bits. 0 without them. */
double qr_model_penalty(const struct qr_model *m, const double *params);
void qr_model_add_penalty_gradient(const struct qr_model *m, const double *params, size_t from,
                                   size_t end, double *grad);
/* Checks the labels of a data set for this model's loss and metrics.
 *
 * Args:     y    n_samples rows of n_label_columns
 *           row  row numbers for messages; NULL: the sample's number
 * Errors:   DATA_LOSS: names the sample. Sign accuracy with mse or mae needs ±1; hinge ±1, or 0/1
 *           throughout (0 then stands for -1, as in Keras); binary 0/1; categorical probabilities;
 *           all: below 2^40
 */
QR_MUST_CHECK enum qr_code qr_model_check_labels(const struct qr_model *m, const double *y,
                                                 const uint32_t *row, size_t n_samples,
                                                 struct qr_err *err);
/* Number of values of a sample's y: its labels (n_outputs, or none with a loss without labels),
 * then its weight where the model is weighted. */
size_t qr_model_n_label_columns(const struct qr_model *m);

#endif
