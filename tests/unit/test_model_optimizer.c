/* Update rules, schedules and clipping against golden/keras/optimizers.json; zero gradients;
 * updates in parts, bit for bit. */
#include "model/optimizer.h"

#include <math.h>

#include "tests/golden.h"

/* The other optimizers have tests of their own. */
static bool is_of_keras(enum qr_optimizer_kind kind) { return kind < QR_LBFGS; }

static size_t kind_of(const char *name, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0) return i;
    CHECK(false, "no row has the name %s", name);
    return 0;
}

static struct qr_rate_schedule schedule_of(const struct qr_json *j) {
    struct qr_rate_schedule s = qr_rate_schedule_defaults();
    s.kind =
        (enum qr_schedule_kind)kind_of(golden_text(j, "kind"), qr_schedule_names, QR_SCHEDULES);
    s.decay_steps = (uint64_t)golden_number(j, "decay_steps", 0);
    s.decay_rate = golden_number(j, "decay_rate", 0);
    s.alpha = golden_number(j, "alpha", 0);
    s.staircase = golden_flag(j, "staircase");
    s.t_mul = golden_number(j, "t_mul", s.t_mul);
    s.m_mul = golden_number(j, "m_mul", s.m_mul);
    s.end = golden_number(j, "end", s.end);
    s.power = golden_number(j, "power", s.power);
    s.cycle = golden_flag(j, "cycle");
    s.warmup_steps = (uint64_t)golden_number(j, "warmup_steps", 0);
    s.warmup_from = golden_number(j, "warmup_from", 0);
    const struct qr_json *list = qr_json_get(j, "boundaries");
    if (list) {
        size_t n_values;
        double *at = golden_numbers(list, &s.n_boundaries),
               *values = golden_numbers(qr_json_get(j, "values"), &n_values);
        CHECK(n_values == s.n_boundaries + 1);
        for (size_t i = 0; i < s.n_boundaries; i++) s.boundaries[i] = (uint64_t)at[i];
        for (size_t i = 0; i < n_values; i++) s.values[i] = values[i];
        free(at), free(values);
    }
    return s;
}

static struct qr_optimizer_options options_of(const struct qr_json *j) {
    struct qr_optimizer_options o = qr_optimizer_defaults(
        (enum qr_optimizer_kind)kind_of(golden_text(j, "name"), qr_optimizer_names, QR_OPTIMIZERS));
    o.learning_rate = golden_number(j, "learning_rate", o.learning_rate);
    o.momentum = golden_number(j, "momentum", 0);
    o.nesterov = golden_flag(j, "nesterov");
    o.centered = golden_flag(j, "centered");
    o.amsgrad = golden_flag(j, "amsgrad");
    o.rho = golden_number(j, "rho", o.rho);
    o.beta_1 = golden_number(j, "beta_1", o.beta_1);
    o.beta_2 = golden_number(j, "beta_2", o.beta_2);
    o.epsilon = golden_number(j, "epsilon", o.epsilon);
    o.initial_accumulator = golden_number(j, "initial_accumulator_value", o.initial_accumulator);
    o.clipvalue = golden_number(j, "clipvalue", 0);
    o.clipnorm = golden_number(j, "clipnorm", 0);
    o.global_clipnorm = golden_number(j, "global_clipnorm", 0);
    o.weight_decay = golden_number(j, "weight_decay", o.weight_decay);
    o.use_ema = golden_flag(j, "use_ema");
    o.ema_momentum = golden_number(j, "ema_momentum", o.ema_momentum);
    o.ema_overwrite = (uint64_t)golden_number(j, "ema_overwrite_frequency", 0);
    if (qr_json_get(j, "schedule")) o.schedule = schedule_of(qr_json_get(j, "schedule"));
    return o;
}

/* A rate is a few operations on numbers below 1. */
static void golden_rates(const struct qr_optimizer_options *o, const struct qr_json *list,
                         size_t row) {
    size_t n;
    double *rates = golden_numbers(list, &n), worst = 0;
    for (size_t t = 0; t < n; t++)
        worst = t_worst(worst, fabs(qr_learning_rate_at(o, t) - rates[t]));
    CHECK(n >= 40 && worst <= 8 * DBL_EPSILON, "row %zu (%s): off by %g", row,
          qr_schedule_names[o->schedule.kind], worst);
    free(rates);
}

/* A step's update in parts, the last part first, equals the update in one call. */
static bool same_by_parts(const struct qr_optimizer_options *o, uint64_t step, size_t n,
                          const struct qr_optimizer_tensor *tensors, size_t n_tensors,
                          const double *gradient, const double *w, const double *moments,
                          const double *products) {
    double g[64], a[64], b[64], m[64], v[64], p[QR_OPTIMIZER_PRODUCTS], q[QR_OPTIMIZER_PRODUCTS];
    size_t n_moments = qr_optimizer_n_moments(o) * n, n_products = qr_optimizer_n_products(o);
    QR_ASSERT(n <= COUNT(a) && n_moments <= COUNT(m));
    memcpy(g, gradient, n * sizeof *g), memcpy(a, w, n * sizeof *a), memcpy(b, w, n * sizeof *b);
    memcpy(m, moments, n_moments * sizeof *m), memcpy(v, moments, n_moments * sizeof *v);
    memcpy(p, products, n_products * sizeof *p), memcpy(q, products, n_products * sizeof *q);
    qr_optimizer_apply(o, step, 0, n, tensors, n_tensors, g, a, m, p);
    qr_optimizer_begin(o, q);
    const struct qr_optimizer_update u = {n, tensors, n_tensors, gradient, b, v, q};
    for (size_t end = n; end > 0; end -= end < 3 ? end : 3)
        qr_optimizer_part(o, step, end < 3 ? 0 : end - 3, end, &u);
    return memcmp(a, b, n * sizeof *a) == 0 && memcmp(m, v, n_moments * sizeof *m) == 0 &&
           memcmp(p, q, n_products * sizeof *p) == 0;
}

/* Compares the weights after each step and the result at the end. */
static void golden_weights(const struct qr_optimizer_options *o, const struct qr_json *e,
                           size_t row) {
    size_t n, n_steps, n_gradients, n_sizes, n_result = 0;
    struct qr_optimizer_tensor tensors[8] = {0};
    double *w = golden_numbers(qr_json_get(e, "weights"), &n),
           *g = golden_numbers(qr_json_get(e, "gradients"), &n_gradients);
    double *after = golden_numbers(qr_json_get(e, "after"), &n_steps),
           *s = golden_numbers(qr_json_get(e, "tensor_sizes"), &n_sizes), *result = NULL;
    if (qr_json_get(e, "result")) result = golden_numbers(qr_json_get(e, "result"), &n_result);
    for (size_t i = 0; i < n_sizes; i++) tensors[i].n = (size_t)s[i];
    n_steps /= n;
    CHECK(n_gradients == n_steps * n && n_steps >= 5 && (!result || n_result == n));
    double moments[64], products[QR_OPTIMIZER_PRODUCTS];
    qr_optimizer_init(o, n, moments, products);
    CHECK(memcmp(qr_optimizer_result(o, 0, n, w, moments), w, n * sizeof *w) == 0, "row %zu", row);
    double worst = 0;
    bool by_parts = !qr_optimizer_clips(o) && !qr_optimizer_has_line_search(o->kind);
    for (size_t t = 0; t < n_steps; t++) {
        CHECK(!by_parts ||
                  same_by_parts(o, t, n, tensors, n_sizes, g + t * n, w, moments, products),
              "row %zu (%s), step %zu", row, qr_optimizer_names[o->kind], t);
        qr_optimizer_apply(o, t, 0, n, tensors, n_sizes, g + t * n, w, moments, products);
        for (size_t i = 0; i < n; i++) worst = t_worst(worst, fabs(w[i] - after[t * n + i]));
    }
    const double *written = qr_optimizer_result(o, n_steps, n, w, moments);
    for (size_t i = 0; i < n_result; i++) worst = t_worst(worst, fabs(written[i] - result[i]));
    /* Weights are below 3; a step adds about ten roundings of at most 2^-52 on an update of at
     * most 1, and Adam's beta^t by multiplication instead of a power is off by t 2^-53
     * relative: below 20 * 2^-52 a step. RMSprop's first quotient is 3 lr. */
    CHECK(worst <= 20 * DBL_EPSILON * (double)n_steps, "row %zu (%s): off by %g", row,
          qr_optimizer_names[o->kind], worst);
    free(w), free(g), free(after), free(s), free(result);
}

static void test_golden(void) {
    struct qr_json *root = golden_load("tests/golden/keras/optimizers.json");
    size_t row = 0, of_kind[QR_OPTIMIZERS] = {0}, of_schedule[QR_SCHEDULES] = {0};
    for (const struct qr_json *e = qr_json_first(root); e; e = qr_json_next(e), row++) {
        struct qr_optimizer_options o = options_of(qr_json_get(e, "optimizer"));
        const struct qr_json *rates = qr_json_get(e, "rates");
        of_kind[o.kind]++, of_schedule[o.schedule.kind]++;
        if (rates) golden_rates(&o, rates, row);
        else golden_weights(&o, e, row);
    }
    for (size_t i = 0; i < QR_OPTIMIZERS; i++)
        CHECK(of_kind[i] > 0 || !is_of_keras((enum qr_optimizer_kind)i), "no golden values of %s",
              qr_optimizer_names[i]);
    for (size_t i = 0; i < QR_SCHEDULES; i++)
        CHECK(of_schedule[i] > 0, "no golden values of %s", qr_schedule_names[i]);
    CHECK(row >= 52, "%zu rows", row);
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
    o.use_ema = true;
    CHECK(qr_optimizer_n_moments(&o) == 4 &&
          strcmp(qr_optimizer_moment_name(&o, 2), "v_hat") == 0 &&
          strcmp(qr_optimizer_moment_name(&o, 3), "average") == 0);
    CHECK(qr_optimizer_defaults(QR_ADAMW).weight_decay == 0.004 &&
          qr_optimizer_defaults(QR_ADAM).weight_decay == 0);
    CHECK(qr_optimizer_defaults(QR_ADADELTA).rho == 0.95 &&
          qr_optimizer_defaults(QR_LION).beta_2 == 0.99 &&
          qr_optimizer_defaults(QR_LION).learning_rate == 0.0001);
    o = qr_optimizer_defaults(QR_ADAGRAD);
    o.use_ema = true;
    double moments[4] = {7, 7, 7, 7};
    qr_optimizer_init(&o, 2, moments, NULL);
    CHECK(moments[0] == 0.1 && moments[1] == 0.1 && moments[2] == 0 && moments[3] == 0);
    for (int kind = 0; kind < QR_OPTIMIZERS; kind++) {
        o = qr_optimizer_defaults((enum qr_optimizer_kind)kind);
        CHECK(qr_optimizer_n_products(&o) <= QR_OPTIMIZER_PRODUCTS);
    }
}

/* A zero gradient keeps every bit of a weight, also of -0.0, in every rule, with epsilon 0 (0 / 0
 * otherwise) and where the average overwrites the weights. */
static void test_zero_gradient(void) {
    for (int kind = 0; kind < QR_OPTIMIZERS && is_of_keras((enum qr_optimizer_kind)kind); kind++) {
        for (int extra = 0; extra < 8; extra++) {
            struct qr_optimizer_options o = qr_optimizer_defaults((enum qr_optimizer_kind)kind);
            o.weight_decay = 0;
            o.initial_accumulator = 0;
            o.use_ema = extra & 4;
            o.ema_momentum = 0.3;
            o.ema_overwrite = 6;
            if (kind == QR_ADADELTA) o.learning_rate = 1;
            o.momentum = extra & 1 ? 0.9 : 0;
            o.nesterov = o.centered = o.amsgrad = extra & 2;
            o.epsilon = kind == QR_ADADELTA ? 1e-7 : 0; /* Adadelta never moves with 0. */
            o.clipnorm = extra == 3 ? 1 : 0;
            double w[4] = {-0.0, 0.1, 0x1p-1074, 5}, was[4], moments[16],
                   products[QR_OPTIMIZER_PRODUCTS];
            memcpy(was, w, sizeof w);
            const struct qr_optimizer_tensor tensor = {4, false};
            qr_optimizer_init(&o, 4, moments, products);
            for (uint64_t t = 0; t < 20; t++) {
                double g[4] = {0, -0.0, 0, t % 3 == 2 ? -0.25 : 0.5};
                qr_optimizer_apply(&o, t, 0, 4, &tensor, 1, g, w, moments, products);
            }
            CHECK(memcmp(w, was, 3 * sizeof *w) == 0, "kind %d, options %d", kind, extra);
            CHECK(w[3] != 5 && isfinite(w[3]), "kind %d, options %d: %g", kind, extra, w[3]);
        }
    }
}

/* Weight decay also shrinks a weight with a zero gradient, unless its tensor is frozen. */
static void test_decay(void) {
    for (int kind = 0; kind < QR_OPTIMIZERS && is_of_keras((enum qr_optimizer_kind)kind); kind++) {
        struct qr_optimizer_options o = qr_optimizer_defaults((enum qr_optimizer_kind)kind);
        o.learning_rate = 0.25;
        o.weight_decay = 0.5;
        double w[4] = {-0.0, 1, -2, 3}, moments[12], products[QR_OPTIMIZER_PRODUCTS], want = 1;
        const struct qr_optimizer_tensor tensors[2] = {{3, false}, {1, true}};
        qr_optimizer_init(&o, 4, moments, products);
        for (uint64_t t = 0; t < 5; t++) {
            double g[4] = {0, 0, -0.0, 0};
            qr_optimizer_apply(&o, t, 0, 4, tensors, 2, g, w, moments, products);
            want -= want * 0.125;
            CHECK(signbit(w[0]) && w[1] == want && w[2] == -2 * want && w[3] == 3,
                  "%s, step %d: %g %g", qr_optimizer_names[kind], (int)t, w[1], w[2]);
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
    /* cos(pi/2) is exactly 0 here. */
    CHECK(qr_learning_rate_at(&o, 5) == 0.01 * (0.75 * 0.5 + 0.25));
    o.schedule =
        (struct qr_rate_schedule){.kind = QR_SCHEDULE_STEP, .decay_steps = 3, .decay_rate = 0.5};
    CHECK(qr_learning_rate_at(&o, 2) == 0.01 && qr_learning_rate_at(&o, 3) == 0.005 &&
          qr_learning_rate_at(&o, 6) == 0.0025);
    o.schedule = (struct qr_rate_schedule){
        .kind = QR_SCHEDULE_EXPONENTIAL, .decay_steps = 4, .decay_rate = 0.25};
    CHECK(qr_learning_rate_at(&o, 2) == 0.005 && qr_learning_rate_at(&o, 4) == 0.0025);
}

/* A period's first update has the full rate, for every run length and growth that float64 can
 * represent. */
static void test_restarts(void) {
    static const double growth[] = {1, 1.25, 1.5, 2, 3, 7};
    for (size_t k = 0; k < COUNT(growth); k++) {
        struct qr_optimizer_options o = qr_optimizer_defaults(QR_SGD);
        o.learning_rate = 1;
        o.schedule = qr_rate_schedule_defaults();
        o.schedule.kind = QR_SCHEDULE_COSINE_RESTARTS;
        o.schedule.decay_steps = growth[k] == floor(growth[k]) ? 5 : 1 << 20;
        o.schedule.t_mul = growth[k];
        o.schedule.m_mul = 0.5;
        double begin = 0, length = (double)o.schedule.decay_steps, rate = 1;
        for (int i = 0; i < 6; i++) {
            uint64_t at = (uint64_t)llround(begin);
            CHECK(fabs(qr_learning_rate_at(&o, at) - rate) < 1e-12, "growth %g, period %d: %.17g",
                  growth[k], i, qr_learning_rate_at(&o, at));
            CHECK(i == 0 || qr_learning_rate_at(&o, at - 1) < rate / 2, "growth %g, period %d",
                  growth[k], i);
            begin += length, length *= growth[k], rate *= 0.5;
        }
    }
}

int main(void) {
    test_golden();
    test_shapes();
    test_zero_gradient();
    test_decay();
    test_schedules();
    test_restarts();
    return t_end();
}
