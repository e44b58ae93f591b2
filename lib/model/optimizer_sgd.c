/* model/optimizer_sgd.c — optimizer.h has the formulas. */
#include "model/optimizer_impl.h"

static size_t moments(const struct qr_optimizer_options *o, const char *ret[3]) {
    size_t n = 0;
    if (o->momentum != 0) ret[n++] = "velocity";
    return n;
}

static void update(const struct qr_optimizer_options *o, double lr, size_t n, const double *g,
                   double *w, double *velocity, double *products) {
    (void)products;
    for (size_t i = 0; i < n; i++) {
        double step = -g[i] * lr;
        if (o->momentum != 0) {
            velocity[i] = step + velocity[i] * o->momentum;
            step = o->nesterov ? step + velocity[i] * o->momentum : velocity[i];
        }
        qr_weight_move(&w[i], step);
    }
}

const struct qr_optimizer_rule qr_optimizer_sgd = {
    .learning_rate = 0.01,
    .keys = {"momentum", "nesterov"},
    .moments = moments,
    .update = update,
};
