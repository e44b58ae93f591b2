/* model/optimizer_adam.c — Adam, and AdamW, which has weight decay by default; optimizer.h has the
 * formulas. Start reading at adam_update(). */
#include <math.h>

#include "model/optimizer_impl.h"

static size_t adam_moments(const struct qr_optimizer_options *o, const char **ret) {
    size_t n = 0;
    ret[n++] = "m";
    ret[n++] = "v";
    if (o->amsgrad) ret[n++] = "v_hat";
    return n;
}

static void adam_advance(const struct qr_optimizer_options *o, double *products) {
    products[0] *= o->beta_1;
    products[1] *= o->beta_2;
}

static inline qr_two root_two(qr_two x) {
#if defined __SSE2__
    return __builtin_ia32_sqrtpd(x);
#else
    return (qr_two){sqrt(x[0]), sqrt(x[1])};
#endif
}

/* Options and bias corrections for two weights. v_hat: NULL without amsgrad. */
struct adam {
    double towards_g, towards_square, alpha, epsilon;
};
static inline void adam_two(struct adam a, const double *g, double *w, double *m, double *v,
                            double *v_hat) {
    qr_two slope = *(const qr_two_at *)g, mean = *(const qr_two_at *)m,
           square = *(const qr_two_at *)v;
    mean += (slope - mean) * a.towards_g;
    square += (slope * slope - square) * a.towards_square;
    *(qr_two_at *)m = mean;
    *(qr_two_at *)v = square;
    if (v_hat) {
        qr_two most = *(const qr_two_at *)v_hat;
        square = qr_two_select(most > square, most, square);
        *(qr_two_at *)v_hat = square;
    }
    qr_two by = -(mean * a.alpha / (root_two(square) + a.epsilon));
    qr_two_move(w, qr_two_select(mean != 0, by, (qr_two){0, 0}));
}

static void adam_update(const struct qr_optimizer_options *o, double lr, size_t n, const double *g,
                        double *w, struct qr_moments moments, const double *products) {
    const struct adam a = {1.0 - o->beta_1, 1.0 - o->beta_2,
                           lr * sqrt(1.0 - products[1]) / (1.0 - products[0]), o->epsilon};
    double *m = moments.v, *v = m + moments.row, *v_hat = o->amsgrad ? v + moments.row : NULL;
    size_t i = 0;
    for (; i + 2 <= n; i += 2) adam_two(a, g + i, w + i, m + i, v + i, v_hat ? v_hat + i : NULL);
    if (i == n) return;
    double last[5][2] = {{g[i]}, {w[i]}, {m[i]}, {v[i]}, {v_hat ? v_hat[i] : 0}};
    adam_two(a, last[0], last[1], last[2], last[3], v_hat ? last[4] : NULL);
    w[i] = last[1][0];
    m[i] = last[2][0];
    v[i] = last[3][0];
    if (v_hat) v_hat[i] = last[4][0];
}

const struct qr_optimizer_rule qr_optimizer_adam = {
    .learning_rate = 0.001,
    .keys = {"beta_1", "beta_2", "epsilon", "amsgrad"},
    .n_products = 2,
    .moments = adam_moments,
    .advance = adam_advance,
    .update = adam_update,
};

static void adamw_set_defaults(struct qr_optimizer_options *o) { o->weight_decay = 0.004; }

const struct qr_optimizer_rule qr_optimizer_adamw = {
    .learning_rate = 0.001,
    .keys = {"beta_1", "beta_2", "epsilon", "amsgrad"},
    .n_products = 2,
    .moments = adam_moments,
    .set_defaults = adamw_set_defaults,
    .advance = adam_advance,
    .update = adam_update,
};
