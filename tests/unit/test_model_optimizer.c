/* Update rules, schedules and clipping against golden/keras/optimizers.json; exact zeros; bits. */
#include "model/optimizer.h"

#include <math.h>

#include "tests/golden.h"

static struct qr_optimizer_options options_of(const struct qr_json *j) {
    const char *name = golden_text(j, "name");
    struct qr_optimizer_options o = qr_optimizer_defaults(strcmp(name, "sgd") == 0    ? QR_SGD
                                                          : strcmp(name, "adam") == 0 ? QR_ADAM
                                                                                      : QR_RMSPROP);
    o.learning_rate = golden_number(j, "learning_rate", o.learning_rate);
    o.momentum = golden_number(j, "momentum", 0);
    o.nesterov = golden_flag(j, "nesterov");
    o.centered = golden_flag(j, "centered");
    o.amsgrad = golden_flag(j, "amsgrad");
    o.rho = golden_number(j, "rho", o.rho);
    o.beta_1 = golden_number(j, "beta_1", o.beta_1);
    o.beta_2 = golden_number(j, "beta_2", o.beta_2);
    o.epsilon = golden_number(j, "epsilon", o.epsilon);
    o.clipvalue = golden_number(j, "clipvalue", 0);
    o.clipnorm = golden_number(j, "clipnorm", 0);
    o.global_clipnorm = golden_number(j, "global_clipnorm", 0);
    const struct qr_json *s = qr_json_get(j, "schedule");
    if (s) {
        const char *kind = golden_text(s, "kind");
        o.schedule.kind = strcmp(kind, "cosine") == 0 ? QR_SCHEDULE_COSINE
                          : strcmp(kind, "step") == 0 ? QR_SCHEDULE_STEP
                                                      : QR_SCHEDULE_EXPONENTIAL;
        o.schedule.decay_steps = (uint64_t)golden_number(s, "decay_steps", 0);
        o.schedule.decay_rate = golden_number(s, "decay_rate", 0);
        o.schedule.alpha = golden_number(s, "alpha", 0);
        o.schedule.staircase = golden_flag(s, "staircase");
    }
    return o;
}

static void test_golden(void) {
    struct qr_json *root = golden_load("tests/golden/keras/optimizers.json");
    size_t row = 0;
    for (const struct qr_json *e = qr_json_first(root); e; e = qr_json_next(e), row++) {
        struct qr_optimizer_options o = options_of(qr_json_get(e, "optimizer"));
        size_t n, n_steps, n_gradients, n_sizes, sizes[8];
        double *w = golden_numbers(qr_json_get(e, "weights"), &n),
               *g = golden_numbers(qr_json_get(e, "gradients"), &n_gradients);
        double *after = golden_numbers(qr_json_get(e, "after"), &n_steps),
               *s = golden_numbers(qr_json_get(e, "tensor_sizes"), &n_sizes);
        for (size_t i = 0; i < n_sizes; i++) sizes[i] = (size_t)s[i];
        n_steps /= n;
        CHECK(n_gradients == n_steps * n && n_steps >= 5);
        double moments[64], products[2];
        qr_optimizer_init(&o, n, moments, products);
        double worst = 0;
        for (size_t t = 0; t < n_steps; t++) {
            qr_optimizer_apply(&o, t, n, sizes, n_sizes, g + t * n, w, moments, products);
            for (size_t i = 0; i < n; i++) worst = fmax(worst, fabs(w[i] - after[t * n + i]));
        }
        /* Weights are below 2; a step adds about ten roundings of at most 2^-52 on an update of at
         * most 1, and Adam's beta^t by multiplication instead of a power is off by t 2^-53
         * relative: below 20 * 2^-52 a step. RMSprop's first quotient is 3 lr. */
        CHECK(worst <= 20 * DBL_EPSILON * (double)n_steps, "row %zu (%s): off by %g", row,
              golden_text(qr_json_get(e, "optimizer"), "name"), worst);
        free(w), free(g), free(after), free(s);
    }
    CHECK(row >= 17);
    qr_json_free(root);
}

static void test_shapes(void) {
    struct qr_optimizer_options o = qr_optimizer_defaults(QR_SGD);
    CHECK(o.learning_rate == 0.01 && qr_optimizer_n_moments(&o) == 0 &&
          qr_optimizer_n_products(&o) == 0);
    o.momentum = 0.9;
    CHECK(qr_optimizer_n_moments(&o) == 1 &&
          strcmp(qr_optimizer_moment_name(&o, 0), "velocity") == 0);
    o = qr_optimizer_defaults(QR_RMSPROP);
    CHECK(o.rho == 0.9 && o.epsilon == 1e-7 && qr_optimizer_n_moments(&o) == 1 &&
          o.learning_rate == 0.001);
    o.centered = true;
    CHECK(qr_optimizer_n_moments(&o) == 2 &&
          strcmp(qr_optimizer_moment_name(&o, 1), "average_gradient") == 0);
    o.momentum = 0.1;
    CHECK(qr_optimizer_n_moments(&o) == 3 &&
          strcmp(qr_optimizer_moment_name(&o, 1), "momentum") == 0);
    o = qr_optimizer_defaults(QR_ADAM);
    CHECK(qr_optimizer_n_moments(&o) == 2 && qr_optimizer_n_products(&o) == 2 &&
          strcmp(qr_optimizer_moment_name(&o, 1), "v") == 0);
    o.amsgrad = true;
    CHECK(qr_optimizer_n_moments(&o) == 3);
}

/* Exact zeros leave all bits alone in every rule, also -0.0 and with epsilon 0 (0 /
 * 0 otherwise). */
static void test_zero_gradient(void) {
    for (int kind = 0; kind < 3; kind++) {
        for (int extra = 0; extra < 4; extra++) {
            struct qr_optimizer_options o = qr_optimizer_defaults((enum qr_optimizer_kind)kind);
            o.momentum = extra & 1 ? 0.9 : 0;
            o.nesterov = o.centered = o.amsgrad = extra & 2;
            o.epsilon = 0;
            o.clipnorm = extra == 3 ? 1 : 0;
            double w[4] = {-0.0, 0.1, 0x1p-1074, 5}, was[4], moments[16], products[2];
            memcpy(was, w, sizeof w);
            const size_t size = 4;
            qr_optimizer_init(&o, 4, moments, products);
            for (uint64_t t = 0; t < 20; t++) {
                double g[4] = {0, -0.0, 0, t % 3 == 2 ? -0.25 : 0.5};
                qr_optimizer_apply(&o, t, 4, &size, 1, g, w, moments, products);
            }
            CHECK(memcmp(w, was, 3 * sizeof *w) == 0, "kind %d, options %d", kind, extra);
            CHECK(w[3] != 5 && isfinite(w[3]), "kind %d, options %d: %g", kind, extra, w[3]);
        }
    }
}

static void test_schedules(void) {
    struct qr_optimizer_options o = qr_optimizer_defaults(QR_SGD);
    CHECK(qr_learning_rate_at(&o, 1000) == 0.01);
    o.schedule =
        (struct qr_rate_schedule){.kind = QR_SCHEDULE_COSINE, .decay_steps = 10, .alpha = 0.25};
    CHECK(qr_learning_rate_at(&o, 0) == 0.01 && qr_learning_rate_at(&o, 10) == 0.01 * 0.25 &&
          qr_learning_rate_at(&o, 99) == 0.01 * 0.25);
    /* cos(pi/2) is exactly 0 here */
    CHECK(qr_learning_rate_at(&o, 5) == 0.01 * (0.75 * 0.5 + 0.25));
    o.schedule =
        (struct qr_rate_schedule){.kind = QR_SCHEDULE_STEP, .decay_steps = 3, .decay_rate = 0.5};
    CHECK(qr_learning_rate_at(&o, 2) == 0.01 && qr_learning_rate_at(&o, 3) == 0.005 &&
          qr_learning_rate_at(&o, 6) == 0.0025);
    o.schedule = (struct qr_rate_schedule){
        .kind = QR_SCHEDULE_EXPONENTIAL, .decay_steps = 4, .decay_rate = 0.25};
    CHECK(qr_learning_rate_at(&o, 2) == 0.005 && qr_learning_rate_at(&o, 4) == 0.0025);
}

int main(void) {
    test_golden();
    test_shapes();
    test_zero_gradient();
    test_schedules();
    return t_end();
}
