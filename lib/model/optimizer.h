/* model/optimizer.h — update rules in float64, to the operation tf-keras 2.18's where Keras has
 * them.
 *
 * SGD       momentum m: v = m v - lr g; w += v (nesterov: w += m v - lr g).
 * RMSprop   v = rho v + (1 - rho) g^2; w -= lr g / sqrt(v + epsilon) (ε under the root; momentum
 *           and centered as Keras).
 * Adam      running products beta^t are state; alpha = lr sqrt(1 - beta2^t) / (1 - beta1^t);
 *           m += (g - m)(1 - beta1); v += (g^2 - v)(1 - beta2);
 *           w -= alpha m / (sqrt(v) + epsilon). (amsgrad as Keras.) AdamW is Adam with a weight
 *           decay of 0.004 unless told otherwise.
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
 *           makes that gradient (natural/natural_gradient.h).
 * L-BFGS    for objectives without data: an update is one evaluation of loss and gradient, at w. A
 *           line search goes from the point reached so far along the direction that the last
 *           `memory` steps and changes of the gradient give (SciPy's L-BFGS-B without bounds;
 *           line_search.h); w is the step that it tries next. When no derivative at the point is
 *           larger than gradient_tolerance, or the last step lowered the loss by no more than
 *           loss_tolerance max(|loss|, 1), or no step lowers it, it has ended, and w is the point.
 *           A step that does not lower the loss is never taken.
 * Rate      schedule.h.
 * Clipping  clipvalue, clipnorm (per tensor) or global_clipnorm, on the mean gradient, before the
 *           update. One per job; Keras' precedence is clipnorm, global_clipnorm, clipvalue.
 * Decay     weight_decay wd, of any rule: w -= w wd lr before the update, with the step's rate.
 * Average   use_ema: e is the weights before the first update; e += (w - e) (1 - ema_momentum)
 *           after each; w = e after each ema_overwrite-th (0: never). The last e is the result.
 * Zero      a gradient that is exactly 0 from the first step leaves its weight's bits alone in
 *           all rules, averaged or not; a natural one is 0 where no weight that it is coupled to
 *           has one. Weight decay is no gradient: with it such a weight shrinks by the factor
 *           1 - wd lr a step, like every other, unless its tensor is frozen.
 */
#ifndef QR_MODEL_OPTIMIZER_H
#define QR_MODEL_OPTIMIZER_H

#include "base/rows.h"
#include "model/learning_rate.h"

/* Kind, name in job files, its rule: the file of its name (adamw's is adam's, the natural
 * gradient's sgd's). */
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
/* Keras' defaults of a kind (learning rate 0.01 SGD, 0.0001 Lion, 0.001 else; rho 0.9, 0.95
 * Adadelta; betas 0.9, 0.999, 0.99 Lion's second; epsilon 1e-7). */
struct qr_optimizer_options qr_optimizer_defaults(enum qr_optimizer_kind kind);

/* The options that it has besides those of all (learning rate, clipping, decay, average), as keys
 * of a job file: ret[QR_OPTIMIZER_KEYS], returns how many. */
enum { QR_OPTIMIZER_KEYS = 8 };
size_t qr_optimizer_keys(enum qr_optimizer_kind kind, const char *ret[QR_OPTIMIZER_KEYS]);

/* Values that belong to the state besides the weights, in this order: n_moments vectors of n_params
 * (SGD "velocity"; RMSprop "rms", "momentum", "average_gradient"; Adam "m", "v", "v_hat" …; those
 * that the options use; with use_ema last "average"), then n_products scalars (beta_1^t …), 1 at
 * first. */
enum {
    QR_LBFGS_MEMORY = 20,
    QR_LBFGS_PRODUCTS = 21,
    QR_OPTIMIZER_MOMENTS = 3 + 2 * QR_LBFGS_MEMORY, /* at most, without the average */
    QR_OPTIMIZER_PRODUCTS = QR_LBFGS_PRODUCTS       /* at most */
};
size_t qr_optimizer_n_moments(const struct qr_optimizer_options *o);
size_t qr_optimizer_n_products(const struct qr_optimizer_options *o);
const char *qr_optimizer_moment_name(const struct qr_optimizer_options *o, size_t i);
void qr_optimizer_init(const struct qr_optimizer_options *o, size_t n, double *moments,
                       double *products);

/* What is written after so many steps: the weights, or what is in moments: their average, or the
 * point that a rule with steps of its own has reached. */
const double *qr_optimizer_result(const struct qr_optimizer_options *o, uint64_t step, size_t n,
                                  const double *weights, const double *moments);

/* step: updates done before; as they are applied, gains too */
double qr_learning_rate_at(const struct qr_optimizer_options *o, uint64_t step);

/* How many evaluations a step's reduction sums: 1, of loss and gradient at the weights; or 2, of
 * the loss alone, at two points around them. */
size_t qr_optimizer_n_points(enum qr_optimizer_kind kind);
/* These points, ret_plus[n] and ret_minus[n], and what follows from the difference of their mean
 * losses, for qr_optimizer_apply. still[i]: no loss depends on weight i, or it is frozen. */
void qr_optimizer_points(const struct qr_optimizer_options *o, uint64_t seed, uint64_t step,
                         size_t n, const uint8_t *still, const double *weights, double *ret_plus,
                         double *ret_minus);
void qr_optimizer_estimate(const struct qr_optimizer_options *o, uint64_t seed, uint64_t step,
                           size_t n, const uint8_t *still, double difference, double *ret);

/* It takes no rate and nothing that changes steps: it finds their length from the loss. */
bool qr_optimizer_has_line_search(enum qr_optimizer_kind kind);
/* Why it has ended, or NULL: it has not. Further updates change nothing. */
const char *qr_optimizer_ended(const struct qr_optimizer_options *o, const double *products);

/* One of the clippings is on. */
bool qr_optimizer_clips(const struct qr_optimizer_options *o);

/* Weights that belong together: clipnorm's norm is theirs. Those of a frozen one have gradient 0,
 * and stay as they are. */
struct qr_optimizer_tensor {
    size_t n;
    bool frozen;
};
/* loss and gradient are the means at the weights; the gradient is overwritten by the clipped one.
 * The tensors' sizes sum to n. No allocation. */
void qr_optimizer_apply(const struct qr_optimizer_options *o, uint64_t step, double loss, size_t n,
                        const struct qr_optimizer_tensor *tensors, size_t n_tensors,
                        double *gradient, double *weights, double *moments, double *products);

/* The same in parts, where nothing is clipped, and for kinds that do not find their own steps:
 * begin, then weights from..end-1 of each part once, in any order, by any threads. */
struct qr_optimizer_update {
    size_t n; /* of all */
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
