/* model/optimizer_adagrad.c — Adagrad; optimizer.h has the formulas. Start reading at
 * adagrad_update(). */
#include <math.h>

#include "model/optimizer_impl.h"

static size_t adagrad_moments(const struct qr_optimizer_options *o, const char **ret) {
    (void)o;
    ret[0] = "accumulator";
    return 1;
}

static double adagrad_initial(const struct qr_optimizer_options *o) {
    return o->initial_accumulator;
}

static void adagrad_update(const struct qr_optimizer_options *o, double lr, size_t n,
                           const double *g, double *w, struct qr_moments moments,
                           const double *products) {
    double *accumulator = moments.v;
    (void)products;
    for (size_t i = 0; i < n; i++) {
        accumulator[i] += g[i] * g[i];
        if (g[i] != 0) qr_weight_move(&w[i], -(lr * g[i] / sqrt(accumulator[i] + o->epsilon)));
    }
}

const struct qr_optimizer_rule qr_optimizer_adagrad = {
    .learning_rate = 0.001,
    .keys = {"initial_accumulator_value", "epsilon"},
    .moments = adagrad_moments,
    .begin = adagrad_initial,
    .update = adagrad_update,
};
