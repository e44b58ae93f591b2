/* model/optimizer_rmsprop.c — RMSprop; optimizer.h has the formulas. Start reading at
 * rmsprop_update(). */
#include <math.h>

#include "model/optimizer_impl.h"

static size_t rmsprop_moments(const struct qr_optimizer_options *o, const char **ret) {
    size_t n = 0;
    ret[n++] = "rms";
    if (o->momentum > 0) ret[n++] = "momentum";
    if (o->centered) ret[n++] = "average_gradient";
    return n;
}

static void rmsprop_update(const struct qr_optimizer_options *o, double lr, size_t n,
                           const double *g, double *w, struct qr_moments moments,
                           const double *products) {
    (void)products;
    double *velocity = moments.v, *momentum = velocity + moments.row;
    double *average = o->momentum > 0 ? momentum + moments.row : momentum;
    for (size_t i = 0; i < n; i++) {
        velocity[i] = o->rho * velocity[i] + (1.0 - o->rho) * (g[i] * g[i]);
        double below = velocity[i] + o->epsilon;
        if (o->centered) {
            average[i] = o->rho * average[i] + (1.0 - o->rho) * g[i];
            below = velocity[i] - average[i] * average[i] + o->epsilon;
        }
        /* Avoids 0 / sqrt(0) with epsilon 0 */
        double step = g[i] != 0 ? lr * g[i] / sqrt(below) : 0.0;
        if (o->momentum > 0) step = momentum[i] = o->momentum * momentum[i] + step;
        qr_weight_move(&w[i], -step);
    }
}

const struct qr_optimizer_rule qr_optimizer_rmsprop = {
    .learning_rate = 0.001,
    .keys = {"momentum", "rho", "epsilon", "centered"},
    .moments = rmsprop_moments,
    .update = rmsprop_update,
};
