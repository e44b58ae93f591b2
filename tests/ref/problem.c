/* tests/ref/problem.c — problems and answers for the tests of sim's engines. Start reading at
 * answer_of. */
#include "tests/ref/problem.h"

#include <math.h>

void problem_alloc(struct problem *p, size_t n_columns) {
    p->theta = qr_xcalloc(p->c->n_params + 1, sizeof *p->theta);
    p->x = qr_xcalloc(p->n_samples * n_columns + 1, sizeof *p->x);
    p->direction = qr_xcalloc(p->n_samples * p->n_obs, sizeof *p->direction);
    p->scale = qr_xcalloc(p->n_samples, sizeof *p->scale);
}

void problem_draw(struct problem *p, uint64_t seed) {
    p->n_obs = 1 + seed % 3;
    for (size_t r = 0; r < p->n_obs; r++)
        p->obs[r] = ref_random_observable(seed * 7 + r, p->c->n_qubits);
    problem_alloc(p, p->c->n_columns);
    ref_random_numbers(seed + 1, p->c->n_params, -2, 2, p->theta);
    ref_random_numbers(seed + 2, p->n_samples * p->c->n_columns, -2, 2, p->x);
    ref_random_numbers(seed + 3, p->n_samples * p->n_obs, -1, 1, p->direction);
    ref_random_numbers(seed + 4, p->n_samples, -2, 2, p->scale);
}

struct problem sample_of(const struct problem *p, size_t s) {
    struct problem one = *p;
    one.n_samples = 1;
    one.x = p->x + s * p->c->n_columns;
    one.direction = p->direction + s * p->n_obs;
    one.scale = p->scale + s;
    return one;
}

void problem_fini(struct problem *p) {
    qr_circuit_free(p->c);
    for (size_t r = 0; r < p->n_obs; r++) qr_observable_fini(&p->obs[r]);
    free(p->theta);
    free(p->x);
    free(p->direction);
    free(p->scale);
}

struct problem qcnn_problem(unsigned n, unsigned stages, size_t n_samples, const char *const *obs,
                            size_t n_obs, uint64_t seed) {
    struct problem p;
    memset(&p, 0, sizeof p);
    struct qr_err err;
    struct qr_qcnn_options o = {n, stages, QR_QCNN_NOTEBOOK};
    struct qr_qubits remaining;
    CHECK(qr_qcnn_new(&o, &p.c, &remaining, &err) == QR_OK, "%s", err.msg);
    p.n_obs = n_obs;
    p.n_samples = n_samples;
    for (size_t r = 0; r < n_obs; r++)
        CHECK(qr_observable_parse(obs[r], n, &p.obs[r], &err) == QR_OK, "%s", err.msg);
    problem_alloc(&p, n);
    ref_random_numbers(seed, p.c->n_params, 0, 6.28, p.theta);
    ref_random_numbers(seed + 1, n_samples * n, -2, 2, p.x);
    ref_random_numbers(seed + 2, n_samples * n_obs, -1, 1, p.direction);
    ref_random_numbers(seed + 3, n_samples, -2, 2, p.scale);
    return p;
}

struct problem case_of(unsigned n, unsigned stages, enum kind kind, size_t samples) {
    char text[MAX_OBS][48];
    const char *obs[MAX_OBS];
    unsigned left = n, n_obs = 0;
    for (unsigned s = 0; s < stages; s++) left -= left / 2;
    if (kind == LAST) snprintf(text[n_obs++], sizeof text[0], "Z%u", n - 1);
    for (unsigned q = n - left; kind == EACH && q < n && n_obs < MAX_OBS; q++)
        snprintf(text[n_obs++], sizeof text[0], "Z%u", q);
    if (kind == MIXED) {
        snprintf(text[n_obs++], sizeof text[0], "0.5*X%u Z%u - Y%u", n - 1, n - 2, n - 2);
        snprintf(text[n_obs++], sizeof text[0], "Y%u Y%u + 0.25*Z%u", n - 1, n - 2, n - 1);
    }
    for (unsigned i = 0; i < n_obs; i++) obs[i] = text[i];
    return qcnn_problem(n, stages, samples, obs, n_obs, 17 * n + stages);
}

struct answer answer_of(const struct problem *p, const struct qr_circuit *c,
                        const struct qr_observable *obs, const struct qr_sim_options *opt,
                        unsigned threads, const double *known) {
    struct qr_err err;
    struct qr_sim_plan *plan = NULL;
    struct qr_sim_workspace *ws = NULL;
    struct answer a;
    memset(&a, 0, sizeof a);
    if (qr_sim_compile(c, obs, p->n_obs, opt, &plan, &err) != QR_OK ||
        qr_sim_workspace_new(plan, p->n_samples, &ws, &err) != QR_OK) {
        CHECK(false, "%s", err.msg);
        return a;
    }
    snprintf(a.engine, sizeof a.engine, "%s", qr_sim_facts(plan).engine);
    struct qr_sim_bound *b = qr_sim_bound_new(plan);
    struct qr_pool *pool = threads ? qr_pool_new(threads) : NULL;
    CHECK(!opt->wanted || c->n_columns <= MAX_COLUMNS);
    qr_sim_bind(b, p->theta, pool);
    if (known)
        qr_sim_forward_for_gradient(b, ws, pool, p->x, c->n_columns, p->n_samples, known, a.z);
    else qr_sim_forward(b, ws, pool, p->x, c->n_columns, p->n_samples, a.z);
    a.ok = qr_sim_backward(b, ws, pool, p->direction, p->scale, a.grad, a.dx);
    qr_pool_free(pool);
    qr_sim_workspace_free(ws);
    qr_sim_bound_free(b);
    qr_sim_plan_free(plan);
    return a;
}

bool answer_equal(const struct answer *a, const struct answer *b) {
    return a->ok && b->ok && memcmp(a->z, b->z, sizeof a->z) == 0 &&
           memcmp(a->grad, b->grad, sizeof a->grad) == 0 && memcmp(a->dx, b->dx, sizeof a->dx) == 0;
}

/* ---- against the dense reference ---- */

void off_by(struct deviation *d, const char *what, double got, double want, double top,
            enum qr_precision precision, uint64_t seed) {
    double off = fabs(got - want) / top;
    CHECK(off <= d->tolerance[precision], "seed %lu, precision %d, %s: %.17g, expected %.17g",
          (unsigned long)seed, precision, what, got, want);
    d->worst[precision] = t_worst(d->worst[precision], off);
}

void check_against_dense(struct deviation *d, const struct problem *p, const struct answer *a,
                         const uint8_t *wanted, enum qr_precision precision, uint64_t seed) {
    unsigned n_params = p->c->n_params, n_columns = p->c->n_columns;
    double *j = qr_xcalloc(p->n_obs * (n_params + n_columns) + 1, sizeof *j),
           *grad = qr_xcalloc(n_params + 1, sizeof *grad), top = 1;
    for (size_t s = 0; s < p->n_samples; s++) {
        const double *x = p->x + s * n_columns, *direction = p->direction + s * p->n_obs;
        double z[MAX_OBS], dx[MAX_COLUMNS] = {0}, top_x = 1;
        ref_expectation(p->c, p->theta, x, p->obs, p->n_obs, z);
        for (size_t r = 0; r < p->n_obs; r++)
            off_by(d, "z", a->z[s * p->n_obs + r], z[r], 10, precision, seed);
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
            off_by(d, "by an input", a->dx[s * n_columns + i], dx[i], top_x, precision, seed);
    }
    for (unsigned k = 0; k < n_params; k++) top = fmax(top, fabs(grad[k]));
    for (unsigned k = 0; k < n_params; k++)
        off_by(d, p->c->param_names[k], qr_fixed_to_double(a->grad[k]), grad[k], top, precision,
               seed);
    free(j);
    free(grad);
}
