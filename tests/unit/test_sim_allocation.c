/* No plan allocates during a step: binding, read-outs and gradients of all engines, with and
 * without noise, on one thread and on a pool. */
#include "base/mem.h"
#include "base/pool.h"
#include "circuit/qcnn.h"
#include "sim/sim.h"
#include "tests/ref/noisy.h"
#include "tests/ref/problem.h"
#include "tests/t.h"

#include <errno.h>
#include <stdatomic.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { COUNTS = 0 }; /* a sanitizer replaces the allocator */
static atomic_long n_calls;
#else
enum { COUNTS = 1 };
static atomic_long n_calls;
/* Replace those of the C library. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_realloc(void *p, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);
void *malloc(size_t bytes) {
    atomic_fetch_add(&n_calls, 1);
    return __libc_malloc(bytes);
}
void *calloc(size_t n, size_t bytes) {
    atomic_fetch_add(&n_calls, 1);
    return __libc_calloc(n, bytes);
}
void *realloc(void *p, size_t bytes) {
    atomic_fetch_add(&n_calls, 1);
    return __libc_realloc(p, bytes);
}
int posix_memalign(void **ret, size_t align, size_t bytes) {
    atomic_fetch_add(&n_calls, 1);
    *ret = __libc_memalign(align, bytes);
    return *ret ? 0 : ENOMEM;
}
#endif

struct shape {
    unsigned n, stages;
    bool mixed; /* includes a gate with data and a parameter */
};

static void set(struct problem *p, const struct shape *s, size_t n_samples) {
    struct qr_err err;
    struct qr_qcnn_options o = {s->n, s->stages, QR_QCNN_NOTEBOOK};
    struct qr_qubits remaining;
    char text[16];
    memset(p, 0, sizeof *p);
    CHECK(qr_qcnn_new(&o, &p->c, &remaining, &err) == QR_OK, "%s", err.msg);
    for (unsigned q = 0; q < s->n && p->n_obs < MAX_OBS; q++) {
        if (!qr_qubits_has(&remaining, q)) continue;
        snprintf(text, sizeof text, "Z%u", q);
        CHECK(qr_observable_parse(text, s->n, &p->obs[p->n_obs++], &err) == QR_OK, "%s", err.msg);
    }
    struct qr_gate g = {.kind = QR_GATE_PHASED_X,
                        .n_targets = 1,
                        .n_args = 2,
                        .targets = {(uint16_t)(s->n - 1)},
                        .args = {{QR_ARG_DATA, 0.3, 0}, {QR_ARG_PARAMETER, 0.4, 1}}};
    if (s->mixed) CHECK(qr_circuit_add(p->c, &g, &err) == QR_OK, "%s", err.msg);
    p->n_samples = n_samples;
    problem_alloc(p, s->n);
    for (unsigned k = 0; k < p->c->n_params; k++) p->theta[k] = 0.3 * k;
    for (size_t i = 0; i < n_samples * s->n; i++) p->x[i] = 0.1 * (double)(i % 17);
    for (size_t i = 0; i < n_samples * p->n_obs; i++) p->direction[i] = 0.5;
    for (size_t i = 0; i < n_samples; i++) p->scale[i] = 1;
}

static void check_problem(const struct problem *p, const struct qr_sim_options *opt,
                          unsigned threads) {
    struct qr_sim_plan *plan = NULL;
    struct qr_sim_workspace *ws = NULL;
    struct qr_err err;
    double z[MAX_SAMPLES * MAX_OBS];
    static qr_fixed grad[1024];
    CHECK(qr_sim_compile(p->c, p->obs, p->n_obs, opt, &plan, &err) == QR_OK &&
              qr_sim_workspace_new(plan, p->n_samples, &ws, &err) == QR_OK,
          "%s", err.msg);
    struct qr_sim_bound *b = qr_sim_bound_new(plan);
    struct qr_pool *pool = threads ? qr_pool_new(threads) : NULL;
    long before = atomic_load(&n_calls);
    for (int step = 0; step < 2; step++) {
        qr_sim_bind(b, p->theta, NULL);
        qr_sim_forward(b, ws, pool, p->x, p->c->n_columns, p->n_samples, z);
        qr_sim_forward_for_gradient(b, ws, pool, p->x, p->c->n_columns, p->n_samples, p->direction,
                                    z);
        bool ok = qr_sim_backward(b, ws, pool, p->direction, p->scale, grad, NULL);
        qr_sim_forward_for_gradient(b, ws, pool, p->x, p->c->n_columns, p->n_samples, NULL, z);
        ok = qr_sim_backward(b, ws, pool, p->direction, p->scale, grad, NULL) && ok;
        CHECK(ok);
    }
    long calls = atomic_load(&n_calls) - before;
    CHECK(calls == 0, "n %u %s, %u threads: %ld calls", p->c->n_qubits, qr_sim_facts(plan).engine,
          threads, calls);
    qr_pool_free(pool);
    qr_sim_workspace_free(ws);
    qr_sim_bound_free(b);
    qr_sim_plan_free(plan);
}

static void check(const struct shape *s, enum qr_engine engine, enum qr_precision precision,
                  unsigned threads) {
    struct problem p;
    set(&p, s, s->n <= 11 ? 19 : 2);
    check_problem(
        &p,
        &(struct qr_sim_options){.precision = precision, .isa = qr_isa_best(), .engine = engine},
        threads);
    problem_fini(&p);
}

/* Shots, and noise by density matrices and by trajectories. */
static void check_noise(unsigned threads) {
    static const struct qr_sim_options options[] = {
        {.method = QR_METHOD_DENSITY},
        {.method = QR_METHOD_TRAJECTORIES, .n_trajectories = 8},
        {.method = QR_METHOD_TRAJECTORIES, .n_trajectories = 8, .shots = 16}};
    const struct qr_sim_options shift = {
        .isa = qr_isa_best(), .shots = 16, .parameter_shift = true};
    struct problem p = case_of(6, 1, EACH, 3);
    check_problem(&p, &shift, threads);
    problem_fini(&p);
    for (size_t i = 0; i < COUNT(options); i++)
        for (unsigned n = 2; n <= NOISY_MAX_QUBITS; n += 2) {
            p = (struct problem){.c = noisy_random_circuit(n, n, 30, 6), .n_samples = 3};
            problem_draw(&p, n);
            noisy_random_parameters(n, p.c, p.theta);
            struct qr_sim_options o = options[i];
            o.isa = qr_isa_best();
            check_problem(&p, &o, threads);
            problem_fini(&p);
        }
}

int main(void) {
    if (!COUNTS) SKIP("a sanitizer allocates for itself");
    void *probe = qr_xmalloc(1);
    CHECK(!COUNTS || atomic_load(&n_calls) > 0, "calls are not counted");
    free(probe);
    static const struct shape shapes[] = {{5, 1, true},   {8, 1, false},  {9, 0, false},
                                          {12, 0, false}, {13, 1, false}, {15, 0, true},
                                          {16, 0, false}};
    unsigned top = t_qubits();
    for (size_t i = 0; i < COUNT(shapes) && shapes[i].n <= top; i++)
        for (unsigned threads = 0; threads <= 2; threads += 2) {
            check(&shapes[i], QR_ENGINE_STATEVECTOR, QR_SINGLE, threads);
            if (shapes[i].mixed) continue; /* not supported: data and a parameter in one gate */
            check(&shapes[i], QR_ENGINE_STREAMING, QR_SINGLE, threads);
            if (shapes[i].n <= 12) check(&shapes[i], QR_ENGINE_STREAMING, QR_DOUBLE, threads);
            if (shapes[i].stages == 1) check(&shapes[i], QR_ENGINE_CONES, QR_SINGLE, threads);
        }
    for (unsigned threads = 0; threads <= 2; threads += 2) check_noise(threads);
    /* Threads share slices. */
    if (top >= 24) check(&(struct shape){24, 1, false}, QR_ENGINE_STREAMING, QR_SINGLE, 2);
    return t_end();
}
