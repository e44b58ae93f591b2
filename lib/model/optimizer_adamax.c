/* model/optimizer_adamax.c — Adamax; optimizer.h has the formulas. Start reading at
 * adamax_update(). */
#include <math.h>

#include "model/optimizer_impl.h"

static size_t adamax_moments(const struct qr_optimizer_options *o, const char **ret) {
    (void)o;
    ret[0] = "m";
    ret[1] = "u";
    return 2;
}

static void adamax_advance(const struct qr_optimizer_options *o, double *products) {
    products[0] *= o->beta_1;
}

static void adamax_update(const struct qr_optimizer_options *o, double lr, size_t n,
                          const double *g, double *w, struct qr_moments moments,
                          const double *products) {
    double left = 1.0 - products[0], *m = moments.v, *u = m + moments.row;
    for (size_t i = 0; i < n; i++) {
        double least = o->beta_2 * u[i], size = fabs(g[i]);
        m[i] += (g[i] - m[i]) * (1.0 - o->beta_1);
        u[i] = least > size ? least : size;
        if (m[i] != 0) qr_weight_move(&w[i], -(lr * m[i] / (left * (u[i] + o->epsilon))));
    }
}

const struct qr_optimizer_rule qr_optimizer_adamax = {
    .learning_rate = 0.001,
    .keys = {"beta_1", "beta_2", "epsilon"},
    .n_products = 1,
    .moments = adamax_moments,
    .advance = adamax_advance,
    .update = adamax_update,
};
