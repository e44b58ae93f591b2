/* model/optimizer.h — update rules in float64, identical to tf-keras 2.18's operation by operation
 * where Keras has them.
 *
 * SGD       momentum m: v = m v - lr g; w += v (nesterov: w += m v - lr g).
 * RMSprop   v = rho v + (1 - rho) g^2; w -= lr g / sqrt(v + epsilon) (ε under the root; momentum
 *           and centered as Keras).
 * Adam      running products beta^t are state; alpha = lr sqrt(1 - beta2^t) / (1 - beta1^t);
 *           m += (g - m)(1 - beta1); v += (g^2 - v)(1 - beta2);
 *           w -= alpha m / (sqrt(v) + epsilon). (amsgrad as Keras.) AdamW is Adam with a default
 *           weight decay of 0.004.
 * Nadam     m and v as Adam's; u_t = beta1 (1 - 0.96^t / 2), U its running product;
 *           w -= lr (u_t+1 m / (1 - U u_t+1) + (1 - u_t) g / (1 - U))
 *                / (sqrt(v / (1 - beta2^t)) + epsilon).
 * Adagrad   a = initial_accumulator at first; a += g^2; w -= lr g / sqrt(a + epsilon).
 * Adadelta  a = rho a + (1 - rho) g^2; d = g sqrt(b + epsilon) / sqrt(a + epsilon);
 *           b = rho b + (1 - rho) d^2; w -= lr d.
 * Adamax    m as Adam's; u = max(beta2 u, |g|); w -= lr m / ((1 - beta1^t) (u + epsilon)).
 * Lion      w -= lr sign(beta1 m + (1 - beta1) g); m = beta2 m + (1 - beta2) g.
 * SPSA      two losses instead of a gradient: g_i = (L(w + c_k d) - L(w - c_k d)) / (2 c_k d_i),
 *           k = 1 at first, c_k = perturbation / k^gamma, each d_i -1 or 1 by Philox(seed, SPSA,
 *           step); the rate is the schedule's times ((stability + 1) / (stability + k))^alpha;
 *           w -= rate g.
 * Natural   w -= rate (F + regularization)^+ g, F the metric of the circuit's states: the caller
 *           computes that gradient (natural/natural_gradient.h).
 * L-BFGS    for objectives without data: an update is one evaluation of loss and gradient, at w. A
 *           line search goes from the point reached so far along the direction given by the last
 *           `memory` steps and changes of the gradient (SciPy's L-BFGS-B without bounds;
 *           line_search.h); w is the step to try next. The optimizer has ended, and w is the point,
 *           when no derivative at the point is larger than gradient_tolerance, or the last step
 *           lowered the loss by no more than loss_tolerance max(|loss|, 1), or no step lowers the
 *           loss. A step that does not lower the loss is never taken.
 * Rate      learning_rate.h.
 * Clipping  clipvalue, clipnorm (per tensor) or global_clipnorm, on the mean gradient, before the
 *           update. One per job; Keras' precedence is clipnorm, global_clipnorm, clipvalue.
 * Decay     weight_decay wd, of any rule: w -= w wd lr before the update, with the step's rate.
 * Average   use_ema: e is the weights before the first update; e += (w - e) (1 - ema_momentum)
 *           after each; w = e after each ema_overwrite-th (0: never). The last e is the result.
 * Zero      a gradient that is exactly 0 from the first step leaves its weight's bits unchanged in
 *           all rules, averaged or not; a natural one is 0 where all weights coupled to it have
 *           gradient 0. Weight decay is no gradient: with it such a weight shrinks by the factor
 *           1 - wd lr per step, like every other, unless its tensor is frozen.
 * Use       qr_optimizer_init once; per step qr_optimizer_apply, or qr_optimizer_begin and
 *           qr_optimizer_part; with two points qr_optimizer_points and qr_optimizer_estimate first.
 * Threads   any (functions of their arguments).
 */
#ifndef QR_MODEL_OPTIMIZER_H
#define QR_MODEL_OPTIMIZER_H

#include "base/rows.h"
#include "model/learning_rate.h"

/* Kind, name in job files, rule (in the file of its name; adamw's is adam's, the natural gradient's
 * is sgd's). Rules of Keras stand before lbfgs and have values in
 * tests/golden/keras/optimizers.json; others stand at the end. */
#define QR_OPTIMIZER_ROWS(ROW)                                                                     \
    ROW(QR_SGD, "sgd", qr_optimizer_sgd)                                                           \
    ROW(QR_RMSPROP, "rmsprop", qr_optimizer_rmsprop)                                               \
    ROW(QR_ADAM, "adam", qr_optimizer_adam)                                                        \
    ROW(QR_ADAMW, "adamw", qr_optimizer_adamw)                                                     \
    ROW(QR_NADAM, "nadam", qr_optimizer_nadam)                                                     \
    ROW(QR_ADAGRAD, "adagrad", qr_optimizer_adagrad)                                               \
    ROW(QR_ADADELTA, "adadelta", qr_optimizer_adadelta)                                            \
    ROW(QR_ADAMAX, "adamax", qr_optimizer_adamax)                                                  \
    ROW(QR_LION, "lion", qr_optimizer_lion)                                                        \
    ROW(QR_LBFGS, "lbfgs", qr_optimizer_lbfgs)                                                     \
    ROW(QR_SPSA, "spsa", qr_optimizer_spsa)                                                        \
    ROW(QR_NATURAL_GRADIENT, "quantum-natural-gradient", qr_optimizer_natural)

enum qr_optimizer_kind { QR_OPTIMIZER_ROWS(QR_ROW_KIND) QR_OPTIMIZERS };
extern const char *const qr_optimizer_names[QR_OPTIMIZERS];

struct qr_optimizer_options {
    enum qr_optimizer_kind kind;
    double learning_rate, momentum, rho, beta_1, beta_2, epsilon, initial_accumulator;
    bool nesterov, centered, amsgrad;
    struct qr_rate_schedule schedule;
    double clipvalue, clipnorm, global_clipnorm; /* 0: off */
    double weight_decay;                         /* 0: off */
    bool use_ema;
    double ema_momentum;
    uint64_t ema_overwrite;                       /* 0: never */
    double perturbation, stability, alpha, gamma; /* SPSA */
    unsigned memory; /* pairs that L-BFGS keeps, 1 to QR_LBFGS_MEMORY */
    double gradient_tolerance, loss_tolerance;
    double regularization; /* of the natural gradient's metric */
};
/* Defaults of a kind, Keras' for its rules (the learning rate is in the rule's file; rho 0.9, 0.95
 * Adadelta; betas 0.9, 0.999, 0.99 Lion's second; epsilon 1e-7). */
struct qr_optimizer_options qr_optimizer_defaults(enum qr_optimizer_kind kind);

/* Lists the options of a kind besides the common ones (learning rate, clipping, decay, average), as
 * keys of a job file.
 *
 * Args:     ret  QR_OPTIMIZER_KEYS entries, static strings
 * Returns:  number of keys
 */
enum { QR_OPTIMIZER_KEYS = 8 };
size_t qr_optimizer_keys(enum qr_optimizer_kind kind, const char *ret[QR_OPTIMIZER_KEYS]);

/* Values of the state besides the weights, in this order: n_moments vectors of n_params (SGD
 * "velocity"; RMSprop "rms", "momentum", "average_gradient"; Adam "m", "v", "v_hat" …; those
 * that the options use; with use_ema last "average"), then n_products scalars (beta_1^t …), 1 at
 * first. */
enum {
    QR_LBFGS_MEMORY = 20,
    QR_LBFGS_PRODUCTS = 21,
    QR_OPTIMIZER_MOMENTS = 3 + 2 * QR_LBFGS_MEMORY, /* maximum, without the average */
    QR_OPTIMIZER_PRODUCTS = QR_LBFGS_PRODUCTS       /* maximum */
};
size_t qr_optimizer_n_moments(const struct qr_optimizer_options *o);
size_t qr_optimizer_n_products(const struct qr_optimizer_options *o);
const char *qr_optimizer_moment_name(const struct qr_optimizer_options *o, size_t i);
void qr_optimizer_init(const struct qr_optimizer_options *o, size_t n, double *moments,
                       double *products);

/* The weights to write after this many steps: the current ones, or, from moments, their average or
 * the point that L-BFGS has reached. */
const double *qr_optimizer_result(const struct qr_optimizer_options *o, uint64_t step, size_t n,
                                  const double *weights, const double *moments);

/* The learning rate as applied, with SPSA's gain. step: updates done before. */
double qr_learning_rate_at(const struct qr_optimizer_options *o, uint64_t step);

/* Number of evaluations that a step's reduction sums: 1, loss and gradient at the weights; or 2,
 * the loss only, at two points around them. */
size_t qr_optimizer_n_points(enum qr_optimizer_kind kind);
/* Computes the two points, and the gradient from the difference of their mean losses.
 *
 * Args:     still       n flags; 1: no loss depends on the weight, or it is frozen
 *           difference  mean loss at ret_plus minus mean loss at ret_minus
 *           ret         gradient for qr_optimizer_apply, n
 */
void qr_optimizer_points(const struct qr_optimizer_options *o, uint64_t seed, uint64_t step,
                         size_t n, const uint8_t *still, const double *weights, double *ret_plus,
                         double *ret_minus);
void qr_optimizer_estimate(const struct qr_optimizer_options *o, uint64_t seed, uint64_t step,
                           size_t n, const uint8_t *still, double difference, double *ret);

/* Whether the kind determines step lengths from the loss (L-BFGS); it then accepts no rate,
 * clipping, decay or average. */
bool qr_optimizer_has_line_search(enum qr_optimizer_kind kind);
/* Why the optimizer has ended, static; NULL: it has not. Further updates change nothing. */
const char *qr_optimizer_ended(const struct qr_optimizer_options *o, const double *products);

/* Whether one of the clippings is on. */
bool qr_optimizer_clips(const struct qr_optimizer_options *o);

/* Weights of one tensor, the unit of clipnorm. A frozen tensor has gradient 0 and stays
 * unchanged. */
struct qr_optimizer_tensor {
    size_t n;
    bool frozen;
};
/* Applies one update. Does not allocate.
 *
 * Args:     step      number of updates done before
 *           loss      mean loss at the weights
 *           tensors   sizes sum to n
 *           gradient  mean gradient; overwritten by the clipped one
 *           weights, moments, products  updated in place
 */
void qr_optimizer_apply(const struct qr_optimizer_options *o, uint64_t step, double loss, size_t n,
                        const struct qr_optimizer_tensor *tensors, size_t n_tensors,
                        double *gradient, double *weights, double *moments, double *products);

/* The same in parts, for kinds without a line search and without clipping: begin once, then each
 * part of weights from..end-1 once, in any order, on any threads. */
struct qr_optimizer_update {
    size_t n; /* number of all weights */
    const struct qr_optimizer_tensor *tensors;
    size_t n_tensors;
    const double *gradient;
    double *weights, *moments;
    const double *products;
};
void qr_optimizer_begin(const struct qr_optimizer_options *o, double *products);
void qr_optimizer_part(const struct qr_optimizer_options *o, uint64_t step, size_t from, size_t end,
                       const struct qr_optimizer_update *u);

#endif
