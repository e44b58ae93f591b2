/* model/optimizer_nadam.c — Nadam; optimizer.h has the formulas. Start reading at
 * nadam_update(). */
#include <math.h>

#include "model/optimizer_impl.h"

static size_t nadam_moments(const struct qr_optimizer_options *o, const char **ret) {
    (void)o;
    ret[0] = "m";
    ret[1] = "v";
    return 2;
}

/* Dozat's schedule of the momentum. */
static const double decay = 0.96;

static double nadam_momentum(const struct qr_optimizer_options *o, double product) {
    return o->beta_1 * (1.0 - 0.5 * product);
}

static void nadam_advance(const struct qr_optimizer_options *o, double *products) {
    products[0] *= decay;
    products[1] *= nadam_momentum(o, products[0]);
    products[2] *= o->beta_2;
}

static void nadam_update(const struct qr_optimizer_options *o, double lr, size_t n, const double *g,
                         double *w, struct qr_moments moments, const double *products) {
    double u = nadam_momentum(o, products[0]), u_next = nadam_momentum(o, products[0] * decay);
    double left = 1.0 - products[1], left_next = 1.0 - products[1] * u_next,
           v_left = 1.0 - products[2], *m = moments.v, *v = m + moments.row;
    for (size_t i = 0; i < n; i++) {
        m[i] += (g[i] - m[i]) * (1.0 - o->beta_1);
        v[i] += (g[i] * g[i] - v[i]) * (1.0 - o->beta_2);
        double m_hat = u_next * m[i] / left_next + (1.0 - u) * g[i] / left;
        if (m_hat != 0) qr_weight_move(&w[i], -(m_hat * lr / (sqrt(v[i] / v_left) + o->epsilon)));
    }
}

const struct qr_optimizer_rule qr_optimizer_nadam = {
    .learning_rate = 0.001,
    .keys = {"beta_1", "beta_2", "epsilon"},
    .n_products = 3,
    .moments = nadam_moments,
    .advance = nadam_advance,
    .update = nadam_update,
};
