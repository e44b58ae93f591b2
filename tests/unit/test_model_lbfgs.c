/* L-BFGS, an evaluation an update, against SciPy's L-BFGS-B (golden/optimizers/lbfgs.json): the
 * points at which it evaluates, and the end; weights that no gradient moves; a loss with noise. */
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

static void begin(struct run *r, size_t n, const double *start) {
    r->o = qr_optimizer_defaults(QR_LBFGS);
    r->n = n;
    r->step = 0;
    memcpy(r->w, start, n * sizeof *start);
}

/* Loss and gradient at the weights. */
static void told(struct run *r, double loss, double *g) {
    const struct qr_optimizer_tensor all = {r->n, false};
    if (r->step == 0) qr_optimizer_init(&r->o, r->n, r->moments, r->products);
    qr_optimizer_apply(&r->o, r->step++, loss, r->n, &all, 1, g, r->w, r->moments, r->products);
}
static double evaluate(struct run *r, const struct function *f) {
    double g[MOST] = {0}, loss = f->at(r->n, r->w, g);
    told(r, loss, g);
    return loss;
}
static const char *ended(const struct run *r) { return qr_optimizer_ended(&r->o, r->products); }

static double furthest(const double *a, const double *b, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) most = fmax(most, fabs(a[i] - b[i]));
    return most;
}

/* Rounding grows as the search goes on, and is forgotten at the minimum: the first points are the
 * same to 1e-12, and so many of them, and the end. */
static void golden_row(const struct qr_json *e, size_t row) {
    enum { FIRST = 17 };
    const struct function *f = function_of(golden_text(e, "function"));
    size_t n, n_seen;
    double *seen = golden_numbers(qr_json_get(e, "evaluations"), &n_seen),
           *end = golden_numbers(qr_json_get(e, "end"), &n), first = 0, worst = 0, g[MOST] = {0};
    struct run r;
    CHECK(n <= MOST, "row %zu", row);
    begin(&r, n, seen);
    r.o.memory = (unsigned)golden_number(e, "memory", 0);
    r.o.gradient_tolerance = golden_number(e, "gradient_tolerance", 0);
    r.o.loss_tolerance = golden_number(e, "loss_tolerance", 0);
    n_seen /= n;
    do {
        worst = fmax(worst, furthest(r.w, seen + r.step * n, n));
        if (r.step < FIRST) first = worst;
        (void)evaluate(&r, f);
    } while (!ended(&r) && r.step < n_seen);
    const double *got = qr_optimizer_result(&r.o, r.step, n, r.w, r.moments);
    double loss = f->at(n, got, g) - golden_number(e, "loss", 0);
    bool by_gradient = strstr(golden_text(e, "why"), "PROJECTED GRADIENT") != NULL;
    CHECK(ended(&r) && r.step == n_seen, "row %zu: %d evaluations, and SciPy %zu", row, (int)r.step,
          n_seen);
    CHECK(first <= 1e-12 && worst <= 1e-8, "row %zu: off by %g, later %g", row, first, worst);
    CHECK(furthest(got, end, n) <= 2e-11 && fabs(loss) <= 1e-14, "row %zu: off by %g, loss %g", row,
          furthest(got, end, n), loss);
    CHECK(ended(&r) && !strstr(ended(&r), "gradient") == !by_gradient, "row %zu: %s", row,
          ended(&r));
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

/* A loss that float32 has rounded: what is kept never becomes worse, and the search ends. */
static void test_noise(void) {
    for (size_t k = 0; k < COUNT(functions); k++)
        for (int case_ = 0; case_ < 20; case_++) {
            double start[5];
            struct run r;
            for (int i = 0; i < 5; i++) start[i] = 1.5 * qr_sin(1.0 + i + 7 * case_);
            begin(&r, 5, start);
            r.o.loss_tolerance = r.o.gradient_tolerance = 0;
            double kept = 1e300, was[5] = {0};
            bool falls = true;
            while (r.step < 400 && !(r.step && ended(&r))) {
                double g[MOST] = {0}, at[5], loss = (float)functions[k].at(5, r.w, g);
                for (int i = 0; i < 5; i++) g[i] = (float)g[i];
                memcpy(at, r.w, sizeof at);
                told(&r, loss, g);
                if (memcmp(was, r.moments, sizeof was) == 0) continue;
                /* the point has moved, to where it was evaluated last */
                falls &= loss <= kept && memcmp(at, r.moments, sizeof at) == 0;
                kept = loss;
                memcpy(was, r.moments, sizeof was);
            }
            CHECK(falls && ended(&r), "%s, case %d: %s after %d", functions[k].name, case_,
                  falls ? "it goes on" : "it rises", (int)r.step);
            CHECK(memcmp(r.w, r.moments, 5 * sizeof *r.w) == 0, "the weights are the point");
        }
}

/* Losses that float32 has rounded to the same number near the minimum: the search ends with the
 * first evaluation whose gradient meets its tolerance, at its point, and says why; not where a flat
 * gradient is of a higher loss. */
static void test_rounded_flat(void) {
    int n = 0;
    for (int k = 0; k < 40; k++) {
        double start = 0.15 + 0.07 * k, g = 0;
        struct run r;
        begin(&r, 1, &start);
        r.o.loss_tolerance = 0;
        double at = 0;
        uint64_t flat = 0;
        while (r.step < 100 && !(r.step && ended(&r))) {
            double loss = (float)-qr_cos(at = r.w[0]);
            g = (float)qr_sin(at);
            if (!flat && fabs(g) <= r.o.gradient_tolerance && loss < -0.99) flat = r.step + 1;
            told(&r, loss, &g);
        }
        CHECK(ended(&r), "from %g", start);
        if (!flat) continue; /* rounding hides where to go before */
        n++;
        CHECK(r.step == flat && strstr(ended(&r), "gradient_tolerance"),
              "from %g: flat at %d, %d evaluations: %s", start, (int)flat, (int)r.step, ended(&r));
        CHECK(*qr_optimizer_result(&r.o, r.step, 1, r.w, r.moments) == at, "from %g: %g", start,
              r.w[0] - at);
    }
    CHECK(n >= 39, "%d of 40 came to a flat gradient", n);
    double start = 1, g = -1;
    struct run r;
    begin(&r, 1, &start);
    told(&r, 1, &g);
    g = 0;
    told(&r, 2, &g); /* a maximum */
    CHECK(!ended(&r));
}

/* No derivative, no move, not of a bit; a slope that promises what the loss does not keep is the
 * end; and the end is the end. */
static void test_ends(void) {
    static const double start[4] = {-0.0, 0x1p-1074, 0.25, -3};
    struct run r, was;
    begin(&r, 4, start);
    for (int i = 0; i < 30 && !(i && ended(&r)); i++) {
        double g[4] = {0, 0, 0, 2 * (r.w[3] - 1)};
        told(&r, (r.w[3] - 1) * (r.w[3] - 1), g);
    }
    CHECK(ended(&r) && fabs(r.w[3] - 1) < 1e-6 && memcmp(r.w, start, 3 * sizeof *start) == 0,
          "%g after %d", r.w[3], (int)r.step);
    begin(&r, 4, start);
    for (int i = 0; i < 80 && !(i && ended(&r)); i++) {
        double g[4] = {1, 1, 1, 1};
        told(&r, i, g);
    }
    CHECK(ended(&r) && strstr(ended(&r), "no step") && memcmp(r.w, start, sizeof start) == 0,
          "after %d", (int)r.step);
    was = r;
    double g[4] = {1, 2, 3, 4};
    told(&r, -5, g);
    was.step = r.step;
    CHECK(memcmp(r.w, was.w, sizeof start) == 0 &&
          memcmp(r.products, was.products, sizeof r.products) == 0 &&
          memcmp(r.moments, was.moments, sizeof r.moments) == 0);
    double flat_g[4] = {0, 0, 1e-6, 0};
    begin(&r, 4, start);
    told(&r, 3, flat_g);
    CHECK(ended(&r) && memcmp(r.w, start, sizeof start) == 0);
}

int main(void) {
    test_golden();
    test_noise();
    test_rounded_flat();
    test_ends();
    return t_end();
}
