/* model/optimizer_adam.c — Adam, and AdamW, which is Adam that decays weights unless told
 * otherwise; optimizer.h has the formulas. */
#include <math.h>

#include "model/optimizer_impl.h"

static size_t names(const struct qr_optimizer_options *o, const char **ret) {
    size_t n = 0;
    ret[n++] = "m";
    ret[n++] = "v";
    if (o->amsgrad) ret[n++] = "v_hat";
    return n;
}

static void advance(const struct qr_optimizer_options *o, double *products) {
    products[0] *= o->beta_1;
    products[1] *= o->beta_2;
}

static void update(const struct qr_optimizer_options *o, double lr, size_t n, const double *g,
                   double *w, struct qr_moments moments, const double *products) {
    double alpha = lr * sqrt(1.0 - products[1]) / (1.0 - products[0]);
    double *m = moments.v, *v = m + moments.row, *v_hat = v + moments.row;
    for (size_t i = 0; i < n; i++) {
        m[i] += (g[i] - m[i]) * (1.0 - o->beta_1);
        v[i] += (g[i] * g[i] - v[i]) * (1.0 - o->beta_2);
        double under = v[i];
        if (o->amsgrad) {
            if (!(v_hat[i] > v[i])) v_hat[i] = v[i];
            under = v_hat[i];
        }
        if (m[i] != 0) qr_weight_move(&w[i], -(m[i] * alpha / (sqrt(under) + o->epsilon)));
    }
}

const struct qr_optimizer_rule qr_optimizer_adam = {
    .learning_rate = 0.001,
    .keys = {"beta_1", "beta_2", "epsilon", "amsgrad"},
    .n_products = 2,
    .moments = names,
    .advance = advance,
    .update = update,
};

static void set_adamw_defaults(struct qr_optimizer_options *o) { o->weight_decay = 0.004; }

const struct qr_optimizer_rule qr_optimizer_adamw = {
    .learning_rate = 0.001,
    .keys = {"beta_1", "beta_2", "epsilon", "amsgrad"},
    .n_products = 2,
    .moments = names,
    .set_defaults = set_adamw_defaults,
    .advance = advance,
    .update = update,
};
