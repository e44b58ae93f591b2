/* tests/ref/against_dense.h — what an engine makes of a problem, beside the dense reference.
 * Included once a program, behind its `tolerance` (of single, of double): what a number may be off
 * by, as a share of the largest of its kind. */
#ifndef TESTS_REF_AGAINST_DENSE_H
#define TESTS_REF_AGAINST_DENSE_H

#include <math.h>

#include "tests/ref/problem.h"

/* As far as any number has been off, by precision. */
static double worst[2];

static inline void off_by(const char *what, double got, double want, double top,
                          enum qr_precision precision, uint64_t seed) {
    double off = fabs(got - want) / top;
    CHECK(off <= tolerance[precision], "seed %lu, precision %d, %s: %.17g not %.17g",
          (unsigned long)seed, precision, what, got, want);
    worst[precision] = fmax(worst[precision], off);
}

/* Read-outs, the gradient and, where wanted is not NULL, the derivatives by those inputs. */
static inline void against_dense(const struct problem *p, const struct answer *a,
                                 const uint8_t *wanted, enum qr_precision precision,
                                 uint64_t seed) {
    unsigned n_params = p->c->n_params, n_columns = p->c->n_columns;
    double *j = qr_xcalloc(p->n_obs * (n_params + n_columns) + 1, sizeof *j),
           *grad = qr_xcalloc(n_params + 1, sizeof *grad), top = 1;
    for (size_t s = 0; s < p->n_samples; s++) {
        const double *x = p->x + s * n_columns, *direction = p->direction + s * p->n_obs;
        double z[MAX_OBS], dx[MAX_COLUMNS] = {0}, top_x = 1;
        ref_expectation(p->c, p->theta, x, p->obs, p->n_obs, z);
        for (size_t r = 0; r < p->n_obs; r++)
            off_by("z", a->z[s * p->n_obs + r], z[r], 10, precision, seed);
        ref_gradient(p->c, p->theta, x, p->obs, p->n_obs, j);
        for (size_t r = 0; r < p->n_obs; r++)
            for (unsigned k = 0; k < n_params; k++)
                grad[k] += p->scale[s] * direction[r] * j[r * n_params + k];
        if (!wanted) continue;
        ref_input_gradient(p->c, p->theta, x, p->obs, p->n_obs, j);
        for (size_t r = 0; r < p->n_obs; r++)
            for (unsigned i = 0; i < n_columns; i++)
                dx[i] += wanted[i] * p->scale[s] * direction[r] * j[r * n_columns + i];
        for (unsigned i = 0; i < n_columns; i++) top_x = fmax(top_x, fabs(dx[i]));
        for (unsigned i = 0; i < n_columns; i++)
            off_by("by an input", a->dx[s * n_columns + i], dx[i], top_x, precision, seed);
    }
    for (unsigned k = 0; k < n_params; k++) top = fmax(top, fabs(grad[k]));
    for (unsigned k = 0; k < n_params; k++)
        off_by(p->c->param_names[k], qr_fixed_to_double(a->grad[k]), grad[k], top, precision, seed);
    free(j);
    free(grad);
}

#endif
