/* model/optimizer_lion.c — Lion; optimizer.h has the formulas. Start reading at lion_update(). */
#include "model/optimizer_impl.h"

static size_t lion_moments(const struct qr_optimizer_options *o, const char **ret) {
    (void)o;
    ret[0] = "m";
    return 1;
}

static void lion_set_defaults(struct qr_optimizer_options *o) { o->beta_2 = 0.99; }

static void lion_update(const struct qr_optimizer_options *o, double lr, size_t n, const double *g,
                        double *w, struct qr_moments moments, const double *products) {
    double *m = moments.v;
    (void)products;
    for (size_t i = 0; i < n; i++) {
        double towards = m[i] * o->beta_1 + g[i] * (1.0 - o->beta_1);
        m[i] = m[i] * o->beta_2 + g[i] * (1.0 - o->beta_2);
        qr_weight_move(&w[i], towards > 0 ? -lr : towards < 0 ? lr : 0.0);
    }
}

const struct qr_optimizer_rule qr_optimizer_lion = {
    .learning_rate = 0.0001,
    .keys = {"beta_1", "beta_2"},
    .moments = lion_moments,
    .set_defaults = lion_set_defaults,
    .update = lion_update,
};
