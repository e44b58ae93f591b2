/* SPSA: its two points and gradient estimate against PennyLane's SPSAOptimizer
 * (golden/optimizers/spsa.json); fixed weights; signs. */
#include "model/optimizer.h"

#include <math.h>

#include "tests/functions.h"
#include "tests/golden.h"

enum { MOST = 256 };
static const struct qr_optimizer_tensor *whole(size_t n) {
    static struct qr_optimizer_tensor all;
    all.n = n;
    return &all;
}

static void spsa_step(const struct qr_optimizer_options *o, uint64_t seed, uint64_t at, size_t n,
                      const uint8_t *fixed, const struct function *f, double *w) {
    double plus[MOST], minus[MOST], g[MOST] = {0}, unused[MOST] = {0};
    qr_optimizer_points(o, seed, at, n, fixed, w, plus, minus);
    double difference = f->at(n, plus, unused) - f->at(n, minus, unused);
    qr_optimizer_estimate(o, seed, at, n, fixed, difference, g);
    qr_optimizer_apply(o, at, 0, n, whole(n), 1, g, w, NULL, NULL);
}

static void golden_row(const struct qr_json *e, size_t row) {
    struct qr_optimizer_options o = qr_optimizer_defaults(QR_SPSA);
    size_t n, n_after;
    double *w = golden_numbers(qr_json_get(e, "weights"), &n),
           *after = golden_numbers(qr_json_get(e, "after"), &n_after), worst = 0;
    static const uint8_t fixed[MOST];
    uint64_t seed = strtoull(golden_text(e, "seed"), NULL, 10);
    bool defaults = golden_number(e, "stability", 0) == 10 && o.stability == 10;
    CHECK(n <= MOST);
    o.learning_rate = golden_number(e, "learning_rate", 0);
    o.perturbation = golden_number(e, "perturbation", 0);
    o.stability = golden_number(e, "stability", 0);
    o.alpha = golden_number(e, "alpha", 0);
    o.gamma = golden_number(e, "gamma", 0);
    /* The defaults are PennyLane's. */
    if (row == 0) {
        struct qr_optimizer_options d = qr_optimizer_defaults(QR_SPSA);
        CHECK(defaults && fabs(d.learning_rate - o.learning_rate) < 1e-15 &&
              d.perturbation == o.perturbation && d.alpha == o.alpha && d.gamma == o.gamma);
    }
    for (size_t t = 0; t < n_after / n; t++) {
        spsa_step(&o, seed, t, n, fixed, function_of(golden_text(e, "function")), w);
        for (size_t i = 0; i < n; i++) worst = t_worst(worst, fabs(w[i] - after[t * n + i]));
    }
    CHECK(n_after == 30 * n && worst <= 1e-12, "row %zu: off by %g", row, worst);
    free(w), free(after);
}

static void test_golden(void) {
    struct qr_json *root = golden_load("tests/golden/optimizers/spsa.json");
    size_t row = 0;
    for (const struct qr_json *e = qr_json_first(root); e; e = qr_json_next(e))
        golden_row(e, row++);
    CHECK(row == 8, "%zu rows", row);
    qr_json_free(root);
}

/* A weight that the loss does not depend on keeps every bit, also of -0.0. */
static void test_fixed_weights(void) {
    struct qr_optimizer_options o = qr_optimizer_defaults(QR_SPSA);
    static const uint8_t fixed[4] = {1, 0, 1, 0};
    double w[4] = {-0.0, 1, 0x1p-1074, -1};
    for (uint64_t t = 0; t < 20; t++) {
        double plus[4], minus[4];
        qr_optimizer_points(&o, 5, t, 4, fixed, w, plus, minus);
        CHECK(signbit(plus[0]) && plus[0] == 0 && minus[2] == 0x1p-1074 && plus[1] != w[1] &&
              plus[3] != minus[3]);
        spsa_step(&o, 5, t, 4, fixed, function_of("waves"), w);
    }
    CHECK(signbit(w[0]) && w[0] == 0 && w[1] != 1 && w[2] == 0x1p-1074 && w[3] != -1);
}

/* Half of the signs are positive and half change in each step; the minimum is found. */
static void test_signs(void) {
    struct qr_optimizer_options o = qr_optimizer_defaults(QR_SPSA);
    static const uint8_t fixed[MOST];
    double w[MOST] = {0}, plus[MOST], minus[MOST], before[MOST] = {0};
    int up = 0, changed = 0;
    for (uint64_t t = 0; t < 100; t++) {
        qr_optimizer_points(&o, 1, t, MOST, fixed, w, plus, minus);
        for (int i = 0; i < MOST; i++) {
            up += plus[i] > 0;
            changed += (plus[i] > 0) != (before[i] > 0);
            before[i] = plus[i];
        }
    }
    /* Half of 25600; the standard deviation is 80. */
    CHECK(abs(up - 12800) < 400 && abs(changed - 12800) < 400, "%d up, %d changed", up, changed);
    double at[3] = {2, -1, 1}, g[3] = {0};
    for (uint64_t t = 0; t < 600; t++) spsa_step(&o, 1, t, 3, fixed, function_of("waves"), at);
    CHECK(function_of("waves")->at(3, at, g) < -1.6, "%g", function_of("waves")->at(3, at, g));
}

int main(void) {
    test_golden();
    test_fixed_weights();
    test_signs();
    return t_end();
}
