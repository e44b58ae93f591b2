/* model/optimizer_adadelta.c — Adadelta; optimizer.h has the formulas. Start reading at
 * adadelta_update(). */
#include <math.h>

#include "model/optimizer_impl.h"

static size_t adadelta_moments(const struct qr_optimizer_options *o, const char **ret) {
    (void)o;
    ret[0] = "accumulated_grad";
    ret[1] = "accumulated_delta_var";
    return 2;
}

static void adadelta_set_defaults(struct qr_optimizer_options *o) { o->rho = 0.95; }

static void adadelta_update(const struct qr_optimizer_options *o, double lr, size_t n,
                            const double *g, double *w, struct qr_moments moments,
                            const double *products) {
    (void)products;
    double *grad = moments.v, *delta = grad + moments.row;
    for (size_t i = 0; i < n; i++) {
        double by = 0;
        grad[i] = o->rho * grad[i] + (1.0 - o->rho) * g[i] * g[i];
        if (g[i] != 0) by = sqrt(delta[i] + o->epsilon) * g[i] / sqrt(grad[i] + o->epsilon);
        delta[i] = o->rho * delta[i] + (1.0 - o->rho) * by * by;
        qr_weight_move(&w[i], -(lr * by));
    }
}

const struct qr_optimizer_rule qr_optimizer_adadelta = {
    .learning_rate = 0.001,
    .keys = {"rho", "epsilon"},
    .moments = adadelta_moments,
    .set_defaults = adadelta_set_defaults,
    .update = adadelta_update,
};
