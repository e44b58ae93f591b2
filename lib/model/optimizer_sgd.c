/* model/optimizer_sgd.c — SGD, and descent along a natural gradient, which is SGD without momentum;
 * optimizer.h has the formulas. Start reading at sgd_update(). */
#include "model/optimizer_impl.h"

static size_t sgd_moments(const struct qr_optimizer_options *o, const char **ret) {
    size_t n = 0;
    if (o->momentum != 0) ret[n++] = "velocity";
    return n;
}

static void sgd_without_momentum(double lr, size_t n, const double *restrict g,
                                 double *restrict w) {
    size_t i = 0;
    for (; i + 2 <= n; i += 2) qr_two_move(&w[i], -*(const qr_two_at *)(g + i) * lr);
    if (i < n) qr_weight_move(&w[i], -g[i] * lr);
}

static void sgd_update(const struct qr_optimizer_options *o, double lr, size_t n, const double *g,
                       double *w, struct qr_moments moments, const double *products) {
    double *velocity = moments.v;
    (void)products;
    if (o->momentum == 0) {
        sgd_without_momentum(lr, n, g, w);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        double step = -g[i] * lr;
        velocity[i] = step + velocity[i] * o->momentum;
        qr_weight_move(&w[i], o->nesterov ? step + velocity[i] * o->momentum : velocity[i]);
    }
}

const struct qr_optimizer_rule qr_optimizer_sgd = {
    .learning_rate = 0.01,
    .keys = {"momentum", "nesterov"},
    .moments = sgd_moments,
    .update = sgd_update,
};

const struct qr_optimizer_rule qr_optimizer_natural = {
    .learning_rate = 0.01,
    .keys = {"regularization"},
    .moments = sgd_moments,
    .update = sgd_update,
};
