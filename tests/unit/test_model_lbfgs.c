/* L-BFGS with one evaluation per update against SciPy's L-BFGS-B (golden/optimizers/lbfgs.json):
 * evaluation points and end; weights with a zero gradient; a noisy loss. */
#include <math.h>

#include "model/optimizer.h"
#include "tests/functions.h"
#include "tests/golden.h"

enum { MOST = 16, MOMENTS = MOST * QR_OPTIMIZER_MOMENTS };
struct run {
    struct qr_optimizer_options o;
    size_t n;
    uint64_t step;
    double w[MOST], moments[MOMENTS], products[QR_OPTIMIZER_PRODUCTS];
};

static void run_start(struct run *r, size_t n, const double *start) {
    r->o = qr_optimizer_defaults(QR_LBFGS);
    r->n = n;
    r->step = 0;
    memcpy(r->w, start, n * sizeof *start);
}

/* Applies an update with the loss and gradient at the weights. */
static void run_apply(struct run *r, double loss, double *g) {
    const struct qr_optimizer_tensor all = {r->n, false};
    if (r->step == 0) qr_optimizer_init(&r->o, r->n, r->moments, r->products);
    qr_optimizer_apply(&r->o, r->step++, loss, r->n, &all, 1, g, r->w, r->moments, r->products);
}
static double run_evaluate(struct run *r, const struct function *f) {
    double g[MOST] = {0}, loss = f->at(r->n, r->w, g);
    run_apply(r, loss, g);
    return loss;
}
static const char *run_ended(const struct run *r) { return qr_optimizer_ended(&r->o, r->products); }

static double max_difference(const double *a, const double *b, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) most = t_worst(most, fabs(a[i] - b[i]));
    return most;
}

/* Rounding grows during the search and vanishes at the minimum: compare the first points to 1e-12,
 * the number of evaluations, and the end. */
static void golden_row(const struct qr_json *e, size_t row) {
    enum { FIRST = 17 };
    const struct function *f = function_of(golden_text(e, "function"));
    size_t n, n_seen;
    double *seen = golden_numbers(qr_json_get(e, "evaluations"), &n_seen),
           *end = golden_numbers(qr_json_get(e, "end"), &n), first = 0, worst = 0, g[MOST] = {0};
    struct run r;
    CHECK(n <= MOST, "row %zu", row);
    run_start(&r, n, seen);
    r.o.memory = (unsigned)golden_number(e, "memory", 0);
    r.o.gradient_tolerance = golden_number(e, "gradient_tolerance", 0);
    r.o.loss_tolerance = golden_number(e, "loss_tolerance", 0);
    n_seen /= n;
    do {
        worst = t_worst(worst, max_difference(r.w, seen + r.step * n, n));
        if (r.step < FIRST) first = worst;
        (void)run_evaluate(&r, f);
    } while (!run_ended(&r) && r.step < n_seen);
    const double *got = qr_optimizer_result(&r.o, r.step, n, r.w, r.moments);
    double loss = f->at(n, got, g) - golden_number(e, "loss", 0);
    bool by_gradient = strstr(golden_text(e, "why"), "PROJECTED GRADIENT") != NULL;
    CHECK(run_ended(&r) && r.step == n_seen, "row %zu: %d evaluations, and SciPy %zu", row,
          (int)r.step, n_seen);
    CHECK(first <= 1e-12 && worst <= 1e-8, "row %zu: off by %g, later %g", row, first, worst);
    CHECK(max_difference(got, end, n) <= 2e-11 && fabs(loss) <= 1e-14,
          "row %zu: off by %g, loss %g", row, max_difference(got, end, n), loss);
    CHECK(run_ended(&r) && !strstr(run_ended(&r), "gradient") == !by_gradient, "row %zu: %s", row,
          run_ended(&r));
    free(seen), free(end);
}

static void test_golden(void) {
    struct qr_json *root = golden_load("tests/golden/optimizers/lbfgs.json");
    size_t row = 0;
    for (const struct qr_json *e = qr_json_first(root); e; e = qr_json_next(e))
        golden_row(e, row++);
    CHECK(row == 18, "%zu rows", row);
    qr_json_free(root);
}

/* With a loss rounded to float32 the kept point never gets worse, and the search ends. */
static void test_noise(void) {
    for (size_t k = 0; k < COUNT(functions); k++)
        for (int case_ = 0; case_ < 20; case_++) {
            double start[5];
            struct run r;
            for (int i = 0; i < 5; i++) start[i] = 1.5 * qr_sin(1.0 + i + 7 * case_);
            run_start(&r, 5, start);
            r.o.loss_tolerance = r.o.gradient_tolerance = 0;
            double kept = 1e300, was[5] = {0};
            bool falls = true;
            while (r.step < 400 && !(r.step && run_ended(&r))) {
                double g[MOST] = {0}, at[5], loss = (float)functions[k].at(5, r.w, g);
                for (int i = 0; i < 5; i++) g[i] = (float)g[i];
                memcpy(at, r.w, sizeof at);
                run_apply(&r, loss, g);
                if (memcmp(was, r.moments, sizeof was) == 0) continue;
                /* The kept point has moved, to the last evaluated one. */
                falls &= loss <= kept && memcmp(at, r.moments, sizeof at) == 0;
                kept = loss;
                memcpy(was, r.moments, sizeof was);
            }
            CHECK(falls && run_ended(&r), "%s, case %d: %s after %d", functions[k].name, case_,
                  falls ? "does not end" : "loss rises", (int)r.step);
            CHECK(memcmp(r.w, r.moments, 5 * sizeof *r.w) == 0, "the weights are the kept point");
        }
}

/* Losses that float32 rounds to the same number near the minimum: the search ends with the first
 * evaluation whose gradient meets its tolerance, at that point and with that reason, but not at a
 * flat gradient with a higher loss. */
static void test_rounded_flat(void) {
    int n = 0;
    for (int k = 0; k < 40; k++) {
        double start = 0.15 + 0.07 * k, g = 0;
        struct run r;
        run_start(&r, 1, &start);
        r.o.loss_tolerance = 0;
        double at = 0;
        uint64_t flat = 0;
        while (r.step < 100 && !(r.step && run_ended(&r))) {
            double loss = (float)-qr_cos(at = r.w[0]);
            g = (float)qr_sin(at);
            if (!flat && fabs(g) <= r.o.gradient_tolerance && loss < -0.99) flat = r.step + 1;
            run_apply(&r, loss, &g);
        }
        CHECK(run_ended(&r), "from %g", start);
        if (!flat) continue; /* Rounding hides the descent before the gradient is flat. */
        n++;
        CHECK(r.step == flat && strstr(run_ended(&r), "gradient_tolerance"),
              "from %g: flat at %d, %d evaluations: %s", start, (int)flat, (int)r.step,
              run_ended(&r));
        CHECK(*qr_optimizer_result(&r.o, r.step, 1, r.w, r.moments) == at, "from %g: %g", start,
              r.w[0] - at);
    }
    CHECK(n >= 39, "%d of 40 reached a flat gradient", n);
    double start = 1, g = -1;
    struct run r;
    run_start(&r, 1, &start);
    run_apply(&r, 1, &g);
    g = 0;
    run_apply(&r, 2, &g); /* A maximum. */
    CHECK(!run_ended(&r));
}

/* Weights with a zero derivative keep every bit; a search that finds no descent along its slope
 * ends; a search that has ended does not change. */
static void test_ends(void) {
    static const double start[4] = {-0.0, 0x1p-1074, 0.25, -3};
    struct run r, was;
    run_start(&r, 4, start);
    for (int i = 0; i < 30 && !(i && run_ended(&r)); i++) {
        double g[4] = {0, 0, 0, 2 * (r.w[3] - 1)};
        run_apply(&r, (r.w[3] - 1) * (r.w[3] - 1), g);
    }
    CHECK(run_ended(&r) && fabs(r.w[3] - 1) < 1e-6 && memcmp(r.w, start, 3 * sizeof *start) == 0,
          "%g after %d", r.w[3], (int)r.step);
    run_start(&r, 4, start);
    for (int i = 0; i < 80 && !(i && run_ended(&r)); i++) {
        double g[4] = {1, 1, 1, 1};
        run_apply(&r, i, g);
    }
    CHECK(run_ended(&r) && strstr(run_ended(&r), "no step") &&
              memcmp(r.w, start, sizeof start) == 0,
          "after %d", (int)r.step);
    was = r;
    double g[4] = {1, 2, 3, 4};
    run_apply(&r, -5, g);
    was.step = r.step;
    CHECK(memcmp(r.w, was.w, sizeof start) == 0 &&
          memcmp(r.products, was.products, sizeof r.products) == 0 &&
          memcmp(r.moments, was.moments, sizeof r.moments) == 0);
    double flat_g[4] = {0, 0, 1e-6, 0};
    run_start(&r, 4, start);
    run_apply(&r, 3, flat_g);
    CHECK(run_ended(&r) && memcmp(r.w, start, sizeof start) == 0);
}

int main(void) {
    test_golden();
    test_noise();
    test_rounded_flat();
    test_ends();
    return t_end();
}
