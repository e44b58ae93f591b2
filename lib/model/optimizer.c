#include "model/optimizer.h"

#include <math.h>
#include <string.h>

#include "base/err.h"

struct qr_optimizer_options qr_optimizer_defaults(enum qr_optimizer_kind kind) {
    return (struct qr_optimizer_options){
        .kind = kind,
        .learning_rate = kind == QR_SGD ? 0.01 : 0.001,
        .rho = 0.9,
        .beta_1 = 0.9,
        .beta_2 = 0.999,
        .epsilon = 1e-7,
        .schedule = {.kind = QR_SCHEDULE_CONSTANT},
    };
}

/* Names in the order in which the vectors stand. */
static size_t moment_names(const struct qr_optimizer_options *o, const char *ret[3]) {
    size_t n = 0;
    switch (o->kind) {
    case QR_SGD:
        if (o->momentum != 0) ret[n++] = "velocity";
        break;
    case QR_RMSPROP:
        ret[n++] = "rms";
        if (o->momentum > 0) ret[n++] = "momentum";
        if (o->centered) ret[n++] = "average_gradient";
        break;
    case QR_ADAM:
        ret[n++] = "m";
        ret[n++] = "v";
        if (o->amsgrad) ret[n++] = "v_hat";
        break;
    }
    return n;
}

size_t qr_optimizer_n_moments(const struct qr_optimizer_options *o) {
    const char *names[3];
    return moment_names(o, names);
}

size_t qr_optimizer_n_products(const struct qr_optimizer_options *o) {
    return o->kind == QR_ADAM ? 2 : 0;
}

const char *qr_optimizer_moment_name(const struct qr_optimizer_options *o, size_t i) {
    const char *names[3];
    size_t n = moment_names(o, names);
    QR_ASSERT(i < n);
    return names[i];
}

void qr_optimizer_init(const struct qr_optimizer_options *o, size_t n, double *moments, double *products) {
    size_t n_values = qr_optimizer_n_moments(o) * n;
    if (n_values) memset(moments, 0, n_values * sizeof *moments);
    for (size_t i = 0; i < qr_optimizer_n_products(o); i++) products[i] = 1.0;
}

static double square_sum(const double *g, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s += g[i] * g[i];
    return s;
}

/* tf.clip_by_value, tf.clip_by_norm per tensor, tf.clip_by_global_norm: one of them, in Keras' order of precedence. */
static void clip(const struct qr_optimizer_options *o, const size_t *tensor_sizes, size_t n_tensors, size_t n, double *g) {
    if (o->clipnorm > 0) {
        for (size_t t = 0; t < n_tensors; g += tensor_sizes[t], t++) {
            double norm = sqrt(square_sum(g, tensor_sizes[t]));
            double below = norm > o->clipnorm ? norm : o->clipnorm;
            for (size_t i = 0; i < tensor_sizes[t]; i++) g[i] = g[i] * o->clipnorm / below;
        }
    } else if (o->global_clipnorm > 0) {
        double total = 0;
        size_t at = 0;
        for (size_t t = 0; t < n_tensors; at += tensor_sizes[t], t++) total += square_sum(g + at, tensor_sizes[t]);
        double norm = sqrt(total), inverse = 1.0 / norm, most = 1.0 / o->global_clipnorm;
        double scale = o->global_clipnorm * (inverse < most ? inverse : most);
        for (size_t i = 0; i < n; i++) g[i] *= scale;
    } else if (o->clipvalue > 0) {
        double c = o->clipvalue;
        for (size_t i = 0; i < n; i++) g[i] = g[i] > c ? c : g[i] < -c ? -c : g[i];
    }
}

/* An update of exactly 0 leaves the weight alone, the sign of a -0 too. */
static inline void move(double *w, double by) {
    if (by != 0) *w += by;
}

static void sgd(const struct qr_optimizer_options *o, double lr, size_t n, const double *g, double *w, double *velocity) {
    for (size_t i = 0; i < n; i++) {
        double step = -g[i] * lr;
        if (o->momentum != 0) {
            velocity[i] = step + velocity[i] * o->momentum;
            step = o->nesterov ? step + velocity[i] * o->momentum : velocity[i];
        }
        move(&w[i], step);
    }
}

static void rmsprop(const struct qr_optimizer_options *o, double lr, size_t n, const double *g, double *w, double *moments) {
    double *velocity = moments, *momentum = moments + n;
    double *average = o->momentum > 0 ? momentum + n : momentum;
    for (size_t i = 0; i < n; i++) {
        velocity[i] = o->rho * velocity[i] + (1.0 - o->rho) * (g[i] * g[i]);
        double below = velocity[i] + o->epsilon;
        if (o->centered) {
            average[i] = o->rho * average[i] + (1.0 - o->rho) * g[i];
            below = velocity[i] - average[i] * average[i] + o->epsilon;
        }
        double step = g[i] != 0 ? lr * g[i] / sqrt(below) : 0.0; /* 0 / sqrt(0) with epsilon 0 */
        if (o->momentum > 0) step = momentum[i] = o->momentum * momentum[i] + step;
        move(&w[i], -step);
    }
}

static void adam(const struct qr_optimizer_options *o, double lr, size_t n, const double *g, double *w, double *moments,
                 double *products) {
    products[0] *= o->beta_1;
    products[1] *= o->beta_2;
    double alpha = lr * sqrt(1.0 - products[1]) / (1.0 - products[0]);
    double *m = moments, *v = moments + n, *v_hat = v + n;
    for (size_t i = 0; i < n; i++) {
        m[i] += (g[i] - m[i]) * (1.0 - o->beta_1);
        v[i] += (g[i] * g[i] - v[i]) * (1.0 - o->beta_2);
        double under = v[i];
        if (o->amsgrad) {
            if (!(v_hat[i] > v[i])) v_hat[i] = v[i];
            under = v_hat[i];
        }
        if (m[i] != 0) move(&w[i], -(m[i] * alpha / (sqrt(under) + o->epsilon)));
    }
}

void qr_optimizer_apply(const struct qr_optimizer_options *o, uint64_t step, size_t n, const size_t *tensor_sizes,
                        size_t n_tensors, double *gradient, double *weights, double *moments, double *products) {
    clip(o, tensor_sizes, n_tensors, n, gradient);
    double lr = qr_learning_rate_at(o, step);
    switch (o->kind) {
    case QR_SGD: sgd(o, lr, n, gradient, weights, moments); break;
    case QR_RMSPROP: rmsprop(o, lr, n, gradient, weights, moments); break;
    case QR_ADAM: adam(o, lr, n, gradient, weights, moments, products); break;
    }
}
