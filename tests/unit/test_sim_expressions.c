/* Circuits whose angles are expressions: read-outs, gradients by parameters and derivatives by
 * inputs against the dense reference, which differentiates expressions independently; equal bits
 * over tables, threads and micro-batches; parameters that no read-out depends on; numbers that are
 * not finite. */
#include "base/mem.h"
#include "circuit/lower.h"
#include "sim/sim.h"
#include "tests/ref/dense.h"
#include "tests/ref/expression.h"
#include "tests/t.h"

#include <math.h>

#include "tests/ref/problem.h"

static struct deviation deviation = {.tolerance = {2e-5, 1e-12}};

/* ---- problems ---- */

static uint32_t parameter(void *circuit, const char *name, size_t n) {
    char *text = qr_xstrndup(name, n);
    uint32_t i = qr_circuit_param(circuit, text);
    free(text);
    return i;
}

static struct qr_gate_arg argument(struct qr_circuit *c, const char *text) {
    const struct qr_expression_names names = {c, parameter, NULL, c->n_columns, NULL};
    struct qr_gate_arg arg = {.kind = QR_ARG_EXPRESSION};
    struct qr_expression e;
    struct qr_err err;
    if (qr_expression_parse(text, "angle", &names, &arg.scale, &e, &err) != QR_OK) {
        CHECK(false, "%s", err.msg);
        return arg;
    }
    arg.index = qr_circuit_expression(c, &e);
    qr_expression_fini(&e);
    return arg;
}

/* Of parameters, of inputs, and of both; all are finite everywhere. q0, q1 ... are parameters of
 * the expressions only. */
static const char *const texts[] = {
    "q0*x[0] + q1",
    "2*asin(0.9*sin(q0))",
    "-acos(0.8*cos(x[1] + 1))/2",
    "sin(q2)*q0 - q1/(2 + cos(q2))",
    "exp(0.3*q1*x[0]) - abs(q2 + 5)",
    "atan(q0*x[0] + q1*x[1])*log(2 + q2*q2)",
    "pow(1.5 + sin(q0), x[1])",
    "tan(0.5*sin(x[0]*x[1]))",
    "sqrt(1 + x[0]*x[0])/3 + q2*pi",
    "q0*q1*q2",
};

/* A random circuit whose every third argument is an expression; it has 2 more columns than are read
 * by number. */
static struct problem problem_of(uint64_t seed, unsigned n, unsigned gates, size_t n_samples) {
    struct problem p = {.n_samples = n_samples};
    double u[2 * 64];
    ref_random_numbers(seed + 50, COUNT(u), 0, 1, u);
    p.c = ref_random_circuit(seed, n < 2 ? 2 : n, gates);
    for (size_t i = 0; i < p.c->n_gates; i++)
        for (unsigned k = 0; k < p.c->gates[i].n_args; k++) {
            double choice = u[(2 * i + k) % COUNT(u)];
            if (choice >= 0.4) continue;
            double scale = p.c->gates[i].args[k].scale;
            struct qr_gate_arg a = argument(p.c, texts[(size_t)(choice / 0.4 * COUNT(texts))]);
            a.scale *= scale == 0 ? 1 : fmin(1, fmax(-1, scale));
            p.c->gates[i].args[k] = a;
        }
    problem_draw(&p, seed);
    return p;
}

static struct answer run_engine(const struct problem *p, enum qr_precision precision,
                                enum qr_isa isa, enum qr_engine engine, unsigned threads,
                                const uint8_t *wanted) {
    const struct qr_sim_options opt = {
        .precision = precision, .isa = isa, .engine = engine, .wanted = wanted};
    return answer_of(p, p->c, p->obs, &opt, threads, NULL);
}

static void check_equal_bits(const struct problem *p, const struct answer *a, enum qr_engine engine,
                             const uint8_t *wanted, enum qr_precision precision, uint64_t seed) {
    for (int isa = 0; isa < QR_ISAS; isa++) {
        if (!qr_isa_available((enum qr_isa)isa)) continue;
        struct answer b = run_engine(p, precision, (enum qr_isa)isa, engine, 0, wanted);
        CHECK(answer_equal(a, &b), "bits of %s, seed %lu", qr_isa_name((enum qr_isa)isa),
              (unsigned long)seed);
    }
    for (unsigned threads = 1; threads <= 2; threads++) {
        struct answer b = run_engine(p, precision, qr_isa_best(), engine, threads, wanted);
        CHECK(answer_equal(a, &b), "bits with %u threads, seed %lu", threads, (unsigned long)seed);
    }
}

static void test_random_circuits(void) {
    static const enum qr_engine engines[] = {QR_ENGINE_STATEVECTOR, QR_ENGINE_CONES};
    unsigned n_expressions = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct problem p = problem_of(seed, 2 + (unsigned)(seed % 5), 10 + (unsigned)(seed % 20),
                                      seed % 10 == 0 ? 19 : 1 + seed % 4);
        uint8_t mask[MAX_COLUMNS] = {0}, *wanted = seed % 3 ? mask : NULL;
        for (unsigned i = 0; i < p.c->n_columns; i++) mask[i] = seed % 3 == 2 || i % 2;
        n_expressions += (unsigned)p.c->n_expressions;
        for (int precision = 0; precision < 2; precision++)
            for (size_t e = 0; e < COUNT(engines); e++) {
                struct qr_sim_options opt = {.precision = (enum qr_precision)precision,
                                             .isa = qr_isa_best(),
                                             .engine = engines[e],
                                             .wanted = wanted};
                struct qr_sim_plan *plan;
                if (qr_sim_compile(p.c, p.obs, p.n_obs, &opt, &plan, QR_IGNORED) != QR_OK) {
                    CHECK(engines[e] == QR_ENGINE_CONES);
                    continue;
                }
                qr_sim_plan_free(plan);
                struct answer a = run_engine(&p, opt.precision, opt.isa, engines[e], 0, wanted);
                CHECK(a.ok);
                check_against_dense(&deviation, &p, &a, wanted, opt.precision, seed);
                if (seed % 5 == 0)
                    check_equal_bits(&p, &a, engines[e], wanted, opt.precision, seed);
            }
        problem_fini(&p);
    }
    CHECK(n_expressions > 100, "%u expressions", n_expressions);
}

/* At 12 qubits one sample is computed at a time and lanes are qubits. Against the same circuit with
 * every expression's value as a parameter. */
static void test_large(void) {
    for (unsigned n = 11; n <= 13 && n <= t_qubits(); n++) {
        struct problem p = problem_of(300 + n, n, 50, 2), twin = p;
        struct qr_lowered *l = qr_circuit_lower(p.c);
        struct answer a = run_engine(&p, QR_DOUBLE, qr_isa_best(), QR_ENGINE_STATEVECTOR, 0, NULL);
        CHECK(a.ok && l->n_derived_params && l->n_derived_columns);
        twin.n_samples = 1;
        double want[MAX_PARAMS] = {0}, top = 1;
        for (size_t s = 0; s < p.n_samples; s++) {
            /* Every derived value is a number of this sample. */
            const double *x = p.x + s * p.c->n_columns;
            unsigned n_own = p.c->n_params;
            size_t n_all = n_own + p.c->n_expressions;
            twin.c = qr_circuit_copy(p.c);
            twin.theta = qr_xcalloc(n_all, sizeof *twin.theta);
            memcpy(twin.theta, p.theta, n_own * sizeof *twin.theta);
            for (size_t i = 0; i < p.c->n_expressions; i++) {
                char name[24];
                snprintf(name, sizeof name, "expression %u", (unsigned)i);
                twin.theta[qr_circuit_param(twin.c, name)] =
                    ref_expression(p.c, i, p.theta, x, QR_EXPRESSION_NUMBER, 0, NULL);
            }
            for (size_t i = 0; i < twin.c->n_gates; i++)
                for (unsigned k = 0; k < twin.c->gates[i].n_args; k++) {
                    struct qr_gate_arg *arg = &twin.c->gates[i].args[k];
                    if (arg->kind == QR_ARG_EXPRESSION)
                        *arg =
                            (struct qr_gate_arg){QR_ARG_PARAMETER, arg->scale, n_own + arg->index};
                }
            twin.x = p.x + s * p.c->n_columns;
            twin.direction = p.direction + s * p.n_obs;
            twin.scale = p.scale + s;
            struct answer b =
                run_engine(&twin, QR_DOUBLE, qr_isa_best(), QR_ENGINE_STATEVECTOR, 0, NULL);
            for (size_t r = 0; r < p.n_obs; r++)
                off_by(&deviation, "z", a.z[s * p.n_obs + r], b.z[r], 10, QR_DOUBLE, n);
            for (unsigned k = 0; k < n_own; k++) {
                want[k] += qr_fixed_to_double(b.grad[k]);
                for (size_t i = 0; i < p.c->n_expressions; i++) {
                    double slope;
                    ref_expression(p.c, i, p.theta, x, QR_EXPRESSION_PARAMETER, k, &slope);
                    want[k] += slope * qr_fixed_to_double(b.grad[n_own + i]);
                }
            }
            qr_circuit_free(twin.c);
            free(twin.theta);
        }
        for (unsigned k = 0; k < p.c->n_params; k++) top = fmax(top, fabs(want[k]));
        for (unsigned k = 0; k < p.c->n_params; k++)
            off_by(&deviation, p.c->param_names[k], qr_fixed_to_double(a.grad[k]), want[k], top,
                   QR_DOUBLE, n);
        qr_lowered_free(l);
        problem_fini(&p);
    }
}

/* ---- circuits written here ---- */

struct line {
    enum qr_gate_kind kind;
    uint16_t qubit;
    const char *text;
};

static struct problem lines(const struct line *line, size_t n, unsigned n_columns,
                            const char *readout) {
    struct problem p = {.c = qr_circuit_new(2, n_columns), .n_obs = 1, .n_samples = 2};
    struct qr_err err;
    for (size_t i = 0; i < n; i++) {
        struct qr_gate g = {.kind = line[i].kind,
                            .n_targets = 1,
                            .n_args = 1,
                            .targets = {line[i].qubit},
                            .args = {argument(p.c, line[i].text)}};
        CHECK(qr_circuit_add(p.c, &g, &err) == QR_OK, "%s", err.msg);
    }
    CHECK(qr_observable_parse(readout, 2, &p.obs[0], &err) == QR_OK, "%s", err.msg);
    problem_alloc(&p, n_columns);
    ref_random_numbers(7, p.c->n_params, 0.1, 0.9, p.theta);
    ref_random_numbers(8, 2 * n_columns, 0.1, 0.9, p.x);
    p.direction[0] = p.direction[1] = p.scale[0] = 1;
    p.scale[1] = -0.7;
    return p;
}

/* A parameter that no read-out depends on has an exact zero, although another one in its expression
 * has effect elsewhere. */
static void test_unused_parameter(void) {
    static const struct line some[] = {
        {QR_GATE_X, 0, "sin(a) + x[0]"}, {QR_GATE_X, 1, "a*b*x[1]"}, {QR_GATE_Y, 1, "cos(b*b)"}};
    struct problem p = lines(some, 3, 2, "Z0");
    uint8_t zero[2];
    qr_circuit_zero_gradient(p.c, p.obs, 1, zero);
    CHECK(!zero[0] && zero[1]);
    for (int e = QR_ENGINE_AUTO; e <= QR_ENGINE_STATEVECTOR; e++) {
        if (e == QR_ENGINE_STREAMING) continue;
        struct answer a = run_engine(&p, QR_DOUBLE, qr_isa_best(), (enum qr_engine)e, 0, NULL);
        CHECK(a.ok && a.grad[0] != 0 && a.grad[1] == 0, "engine %d", e);
        check_against_dense(&deviation, &p, &a, NULL, QR_DOUBLE, 0);
    }
    problem_fini(&p);
}

/* A number outside of a function's domain fails the sample, or the step. */
static void test_bad_numbers(void) {
    static const struct line some[] = {{QR_GATE_X, 0, "asin(x[0]) + a"},
                                       {QR_GATE_Y, 0, "sqrt(a + 1)"}};
    struct problem p = lines(some, 2, 1, "Z0");
    struct answer good = run_engine(&p, QR_SINGLE, qr_isa_best(), QR_ENGINE_STATEVECTOR, 0, NULL);
    CHECK(good.ok && isfinite(good.z[0]) && isfinite(good.z[1]));
    for (int e = QR_ENGINE_AUTO; e <= QR_ENGINE_STATEVECTOR; e++) {
        if (e == QR_ENGINE_STREAMING) continue;
        p.x[1] = 1.5;
        struct answer a = run_engine(&p, QR_SINGLE, qr_isa_best(), (enum qr_engine)e, 0, NULL);
        CHECK(isfinite(a.z[0]) && isnan(a.z[1]) && !a.ok && a.grad[0] == 0, "engine %d", e);
        p.x[1] = 0.5;
        p.theta[0] = -2;
        a = run_engine(&p, QR_SINGLE, qr_isa_best(), (enum qr_engine)e, 0, NULL);
        CHECK(isnan(a.z[0]) && isnan(a.z[1]) && !a.ok && a.grad[0] == 0, "engine %d", e);
        p.theta[0] = 0.5;
    }
    problem_fini(&p);
}

/* The lowered circuit, and its derived parameters and columns. */
static void test_lowered(void) {
    static const struct line some[] = {
        {QR_GATE_X, 0, "sin(a)"}, {QR_GATE_X, 1, "2*(a*x[1] + x[0])"}, {QR_GATE_Y, 1, "sin(a)/3"}};
    struct problem p = lines(some, 3, 2, "Z0 Z1");
    struct qr_lowered *l = qr_circuit_lower(p.c);
    CHECK(p.c->n_expressions == 2 && l->n_params == 1 && l->n_columns == 2 &&
          l->n_derived_params == 1 && l->n_derived_columns == 1 && l->circuit->n_params == 2 &&
          l->circuit->n_columns == 3 && !l->circuit->n_expressions);
    CHECK(l->circuit->gates[2].args[0].kind == QR_ARG_PARAMETER &&
          l->circuit->gates[2].args[0].index == 1 &&
          l->circuit->gates[1].args[0].kind == QR_ARG_DATA &&
          l->circuit->gates[1].args[0].index == 2 && l->circuit->gates[1].args[0].scale == 2);
    double theta[2], x[3];
    qr_lowered_theta(l, p.theta, theta);
    qr_lowered_x(l, p.theta, p.x, x);
    CHECK(theta[0] == p.theta[0] && theta[1] == sin(p.theta[0]) && x[0] == p.x[0] &&
          x[2] == p.theta[0] * p.x[1] + p.x[0]);
    qr_lowered_free(l);
    struct qr_circuit *plain = ref_random_circuit(1, 2, 5);
    CHECK(!qr_circuit_lower(plain));
    qr_circuit_free(plain);
    problem_fini(&p);
}

int main(void) {
    test_lowered();
    test_random_circuits();
    test_large();
    test_unused_parameter();
    test_bad_numbers();
    printf("    worst %.2g of the largest component in single precision, %.2g in double\n",
           deviation.worst[QR_SINGLE], deviation.worst[QR_DOUBLE]);
    return t_end();
}
