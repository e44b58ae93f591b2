/* tests/functions.h — the functions of golden/optimizers/make.py. Each returns the loss, and adds
 * the gradient to g. */
#ifndef TESTS_FUNCTIONS_H
#define TESTS_FUNCTIONS_H

#include "exact/functions.h"
#include "tests/t.h"

static inline double rosenbrock(size_t n, const double *x, double *g) {
    double f = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        double a = x[i + 1] - x[i] * x[i], b = 1 - x[i];
        f += 100 * a * a + b * b;
        g[i] += -400 * a * x[i] - 2 * b;
        g[i + 1] += 200 * a;
    }
    return f;
}
static inline double quadratic(size_t n, const double *x, double *g) {
    double f = 0;
    for (size_t i = 0; i < n; i++) {
        double k = (double)((i + 1) * (i + 1));
        f += 0.5 * k * x[i] * x[i] - x[i];
        g[i] += k * x[i] - 1;
        if (i + 1 == n) break;
        f += 0.25 * x[i] * x[i + 1];
        g[i] += 0.25 * x[i + 1];
        g[i + 1] += 0.25 * x[i];
    }
    return f;
}
static inline double waves(size_t n, const double *x, double *g) {
    double f = 0;
    for (size_t i = 0; i < n; i++) {
        size_t k = (i + 1) % n;
        f += qr_cos(x[i]) * qr_cos(x[k]) + 0.5 * qr_sin(x[i]);
        g[i] += -qr_sin(x[i]) * qr_cos(x[k]) + 0.5 * qr_cos(x[i]);
        g[k] += -qr_cos(x[i]) * qr_sin(x[k]);
    }
    return f;
}
static inline double flat(size_t n, const double *x, double *g) {
    double f = 0;
    for (size_t i = 0; i < n; i++) {
        double v = x[i], below = 1 + v * v;
        f += v * v * v * v / below;
        g[i] = (2 * v * v * v * v * v + 4 * v * v * v) / (below * below);
    }
    return f;
}
struct function {
    const char *name;
    double (*at)(size_t n, const double *x, double *g);
};
static const struct function functions[] = {
    {"rosenbrock", rosenbrock}, {"quadratic", quadratic}, {"waves", waves}, {"flat", flat}};
static inline const struct function *function_of(const char *name) {
    size_t k = 0;
    while (k < COUNT(functions) && strcmp(functions[k].name, name) != 0) k++;
    CHECK(k < COUNT(functions), "no function is named %s", name);
    return &functions[k];
}

#endif
