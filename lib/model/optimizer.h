/* model/optimizer.h — update rules in float64, tf-keras 2.18's to the operation.
 *
 * SGD       momentum m: v = m v - lr g; w += v (nesterov: w += m v - lr g).
 * RMSprop   v = rho v + (1 - rho) g^2; w -= lr g / sqrt(v + epsilon) (ε under the root; momentum
 *           and centered as Keras).
 * Adam      running products beta^t are state; alpha = lr sqrt(1 - beta2^t) / (1 - beta1^t);
 *           m += (g - m)(1 - beta1); v += (g^2 - v)(1 - beta2);
 *           w -= alpha m / (sqrt(v) + epsilon). (amsgrad as Keras.)
 * Schedules constant; step: lr rate^floor(t / decay_steps); exponential: lr rate^(t / decay_steps),
 *           floor with staircase;
 *           cosine: lr ((1 - alpha) (1 + cos(pi min(t, decay_steps) / decay_steps)) / 2 + alpha).
 *           decay_steps >= 1.
 * Clipping  clipvalue, clipnorm (per tensor) or global_clipnorm, on the mean gradient, before the
 *           update. One per job; Keras' precedence is clipnorm, global_clipnorm, clipvalue.
 * Zero      a gradient that is exactly 0 from the first step leaves its weight's bits alone in
 *           all rules.
 */
#ifndef QR_MODEL_OPTIMIZER_H
#define QR_MODEL_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kind, name in job files, its rule: the file of its name. */
#define QR_OPTIMIZER_ROWS(ROW)                                                                     \
    ROW(QR_SGD, "sgd", qr_optimizer_sgd)                                                           \
    ROW(QR_RMSPROP, "rmsprop", qr_optimizer_rmsprop)                                               \
    ROW(QR_ADAM, "adam", qr_optimizer_adam)

enum qr_optimizer_kind {
#define QR_OPTIMIZER_KIND(kind, name, rule) kind,
    QR_OPTIMIZER_ROWS(QR_OPTIMIZER_KIND)
#undef QR_OPTIMIZER_KIND
        QR_OPTIMIZERS
};
extern const char *const qr_optimizer_names[QR_OPTIMIZERS];

enum qr_schedule_kind {
    QR_SCHEDULE_CONSTANT,
    QR_SCHEDULE_STEP,
    QR_SCHEDULE_EXPONENTIAL,
    QR_SCHEDULE_COSINE,
    QR_SCHEDULES
};
extern const char *const qr_schedule_names[QR_SCHEDULES]; /* "constant" ... as in job files */
struct qr_rate_schedule {
    enum qr_schedule_kind kind;
    uint64_t decay_steps; /* STEP: steps between drops */
    double decay_rate;    /* EXPONENTIAL, STEP (factor) */
    bool staircase;
    double alpha; /* COSINE: final fraction */
};
struct qr_optimizer_options {
    enum qr_optimizer_kind kind;
    double learning_rate, momentum, rho, beta_1, beta_2, epsilon;
    bool nesterov, centered, amsgrad;
    struct qr_rate_schedule schedule;
    double clipvalue, clipnorm, global_clipnorm; /* 0: off */
};
/* Keras' defaults of a kind (learning rate 0.01 SGD, 0.001 else; rho 0.9; betas 0.9, 0.999;
 * epsilon 1e-7). */
struct qr_optimizer_options qr_optimizer_defaults(enum qr_optimizer_kind kind);

/* The options that it has besides learning rate and clipping, as keys of a job file:
 * ret[QR_OPTIMIZER_KEYS], returns how many. */
enum { QR_OPTIMIZER_KEYS = 8 };
size_t qr_optimizer_keys(enum qr_optimizer_kind kind, const char *ret[QR_OPTIMIZER_KEYS]);

/* Values that belong to the state besides the weights, in this order: n_moments vectors of n_params
 * (SGD "velocity"; RMSprop "rms", "momentum", "average_gradient"; Adam "m", "v", "v_hat"; those
 * that the options use), then n_products scalars (beta_1^t, beta_2^t). */
size_t qr_optimizer_n_moments(const struct qr_optimizer_options *o);
size_t qr_optimizer_n_products(const struct qr_optimizer_options *o);
const char *qr_optimizer_moment_name(const struct qr_optimizer_options *o, size_t i);
void qr_optimizer_init(const struct qr_optimizer_options *o, size_t n, double *moments,
                       double *products);

/* step: updates done before */
double qr_learning_rate_at(const struct qr_optimizer_options *o, uint64_t step);

/* One of the clippings is on. */
bool qr_optimizer_clips(const struct qr_optimizer_options *o);

/* gradient is the mean and is overwritten by the clipped one. tensor_sizes[n_tensors] sum to n (for
 * clipnorm). No allocation. */
void qr_optimizer_apply(const struct qr_optimizer_options *o, uint64_t step, size_t n,
                        const size_t *tensor_sizes, size_t n_tensors, double *gradient,
                        double *weights, double *moments, double *products);

#endif
