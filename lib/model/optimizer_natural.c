/* model/optimizer_natural.c — gradient descent, along the natural gradient that it is given. */
#include "model/optimizer_impl.h"

static size_t moments(const struct qr_optimizer_options *o, const char **ret) {
    (void)o, (void)ret;
    return 0;
}

static void update(const struct qr_optimizer_options *o, double lr, size_t n, const double *g,
                   double *w, double *vectors, double *products) {
    qr_optimizer_sgd.update(o, lr, n, g, w, vectors, products);
}

const struct qr_optimizer_rule qr_optimizer_natural = {
    .learning_rate = 0.01,
    .keys = {"regularization"},
    .moments = moments,
    .update = update,
};
