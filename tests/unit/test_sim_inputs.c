/* Derivatives by a circuit's inputs, separate for each sample: random circuits against the dense
 * reference, and against the same circuit with parameters in place of its data; the gradient by
 * parameters beside them; equal bits over tables, threads and micro-batches. For the cones engine
 * see test_sim_cones.c. */
#include "base/mem.h"
#include "circuit/circuit.h"
#include "sim/sim.h"
#include "tests/ref/dense.h"
#include "tests/ref/problem.h"
#include "tests/t.h"

#include <math.h>

/* Those of test_sim_gradient.c, which has the same circuits. */
static const double tolerance[2] = {2e-5, 1e-12};

/* ---- problems ---- */

static bool has(const struct qr_gate *g, enum qr_arg_kind kind) {
    bool any = false;
    for (unsigned k = 0; k < g->n_args; k++) any |= g->args[k].kind == kind;
    return any;
}

static unsigned n_both; /* gates with data and a parameter */

/* Gates of all kinds. A third of their parameters become data of a few columns, which thus occur in
 * several gates, also several times on one qubit. `wanted`: most columns. */
static struct problem problem_of(uint64_t seed, unsigned n, unsigned gates, size_t n_samples,
                                 uint8_t *wanted) {
    struct problem p = {.n_samples = n_samples};
    double u[MAX_COLUMNS + 4 * 64];
    ref_random_numbers(seed + 50, COUNT(u), 0, 1, u);
    p.c = ref_random_circuit(seed, n, gates);
    for (size_t i = 0; i < p.c->n_gates; i++) {
        struct qr_gate *g = &p.c->gates[i];
        for (unsigned k = 0; k < g->n_args; k++)
            if (g->args[k].kind == QR_ARG_PARAMETER && u[MAX_COLUMNS + 2 * i + k] < 0.33)
                g->args[k] = (struct qr_gate_arg){QR_ARG_DATA, g->args[k].scale,
                                                  g->args[k].index % (1 + n / 2)};
        n_both += has(g, QR_ARG_DATA) && has(g, QR_ARG_PARAMETER);
    }
    problem_draw(&p, seed);
    for (unsigned i = 0; i < n; i++) wanted[i] = seed % 3 == 0 || u[i] < 0.7;
    wanted[0] = 1;
    return p;
}

static struct answer run_engine(const struct problem *p, enum qr_precision precision,
                                enum qr_isa isa, unsigned threads, const uint8_t *wanted) {
    const struct qr_sim_options opt = {
        .precision = precision, .isa = isa, .engine = QR_ENGINE_STATEVECTOR, .wanted = wanted};
    return answer_of(p, p->c, p->obs, &opt, threads, NULL);
}

/* ---- comparisons ---- */

static double worst[2];

/* `want` has n_columns numbers of sample s. */
static void compare(const struct problem *p, const struct answer *a, size_t s, const double *want,
                    const uint8_t *wanted, enum qr_precision precision, uint64_t seed) {
    unsigned n = p->c->n_columns;
    double top = 1;
    for (unsigned i = 0; i < n; i++) top = fmax(top, wanted[i] ? fabs(want[i]) : 0);
    for (unsigned i = 0; i < n; i++) {
        double got = a->dx[s * n + i], off = fabs(got - (wanted[i] ? want[i] : 0)) / top;
        CHECK(wanted[i] ? off <= tolerance[precision] : got == 0,
              "seed %lu, %u qubits, precision %d, sample %zu, column %u%s: %.17g not %.17g",
              (unsigned long)seed, p->c->n_qubits, precision, s, i, wanted[i] ? "" : " not wanted",
              got, want[i]);
        worst[precision] = t_worst(worst[precision], off);
    }
}

static void check_dense(const struct problem *p, const struct answer *a, const uint8_t *wanted,
                        enum qr_precision precision, uint64_t seed) {
    unsigned n = p->c->n_columns;
    double *j = qr_xcalloc(p->n_obs * n, sizeof *j);
    for (size_t s = 0; s < p->n_samples; s++) {
        double want[MAX_COLUMNS] = {0};
        ref_input_gradient(p->c, p->theta, p->x + s * n, p->obs, p->n_obs, j);
        for (size_t r = 0; r < p->n_obs; r++)
            for (unsigned i = 0; i < n; i++)
                want[i] += p->scale[s] * p->direction[s * p->n_obs + r] * j[r * n + i];
        compare(p, a, s, want, wanted, precision, seed);
    }
    free(j);
}

/* Compares with the same circuit with a parameter for each column, run for sample s alone. */
static void check_parameters(const struct problem *p, const struct answer *a, const uint8_t *wanted,
                             enum qr_precision precision, uint64_t seed) {
    unsigned n = p->c->n_columns, first = p->c->n_params;
    struct problem twin = *p;
    twin.c = qr_circuit_copy(p->c);
    twin.n_samples = 1;
    twin.theta = qr_xcalloc(first + n, sizeof *twin.theta);
    memcpy(twin.theta, p->theta, first * sizeof *twin.theta);
    for (unsigned i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%u", i);
        CHECK(qr_circuit_param(twin.c, name) == first + i);
    }
    for (size_t i = 0; i < twin.c->n_gates; i++)
        for (unsigned k = 0; k < twin.c->gates[i].n_args; k++) {
            struct qr_gate_arg *arg = &twin.c->gates[i].args[k];
            if (arg->kind != QR_ARG_DATA) continue;
            *arg = (struct qr_gate_arg){QR_ARG_PARAMETER, arg->scale, first + arg->index};
        }
    for (size_t s = 0; s < p->n_samples; s++) {
        double want[MAX_COLUMNS];
        memcpy(twin.theta + first, p->x + s * n, n * sizeof *twin.theta);
        twin.direction = p->direction + s * p->n_obs;
        twin.scale = p->scale + s;
        struct answer b = run_engine(&twin, QR_DOUBLE, qr_isa_best(), 0, NULL);
        CHECK(b.ok);
        for (unsigned i = 0; i < n; i++) want[i] = qr_fixed_to_double(b.grad[first + i]);
        compare(p, a, s, want, wanted, precision, seed);
    }
    free(twin.theta);
    qr_circuit_free(twin.c);
}

/* Compares the gradient by parameters with that of a run in which no input is wanted. */
static void check_plain(const struct problem *p, const struct answer *a,
                        enum qr_precision precision, uint64_t seed) {
    struct answer b = run_engine(p, precision, qr_isa_best(), 0, NULL);
    double top = 1;
    for (unsigned k = 0; k < p->c->n_params; k++)
        top = fmax(top, fabs(qr_fixed_to_double(b.grad[k])));
    for (unsigned k = 0; k < p->c->n_params; k++) {
        double got = qr_fixed_to_double(a->grad[k]), want = qr_fixed_to_double(b.grad[k]);
        CHECK(fabs(got - want) <= tolerance[precision] * top,
              "seed %lu, precision %d, parameter %u: %.17g not %.17g", (unsigned long)seed,
              precision, k, got, want);
    }
    for (size_t i = 0; i < p->n_samples * p->n_obs; i++)
        CHECK(fabs(a->z[i] - b.z[i]) <= tolerance[precision] * 10, "seed %lu, z", seed);
}

/* ---- equal bits ---- */

static void check_equal_bits(const struct problem *p, const struct answer *a, const uint8_t *wanted,
                             enum qr_precision precision, uint64_t seed) {
    unsigned n = p->c->n_columns;
    for (int isa = 0; isa < QR_ISAS; isa++) {
        if (!qr_isa_available((enum qr_isa)isa)) continue;
        struct answer b = run_engine(p, precision, (enum qr_isa)isa, 0, wanted);
        CHECK(answer_equal(a, &b), "bits of %s, precision %d, seed %lu",
              qr_isa_name((enum qr_isa)isa), precision, (unsigned long)seed);
    }
    for (unsigned threads = 1; threads <= 2; threads++) {
        struct answer b = run_engine(p, precision, qr_isa_best(), threads, wanted);
        CHECK(answer_equal(a, &b), "bits with %u threads, precision %d, seed %lu", threads,
              precision, (unsigned long)seed);
    }
    for (size_t s = 0; s < p->n_samples; s++) {
        struct problem one = sample_of(p, s);
        struct answer b = run_engine(&one, precision, qr_isa_best(), 0, wanted);
        CHECK(memcmp(a->dx + s * n, b.dx, n * sizeof *b.dx) == 0,
              "bits of sample %zu alone, precision %d, seed %lu", s, precision,
              (unsigned long)seed);
    }
}

/* ---- cases ---- */

static void test_random_circuits(void) {
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint8_t wanted[MAX_COLUMNS];
        struct problem p = problem_of(seed, 1 + (unsigned)(seed % 6), 10 + (unsigned)(seed % 30),
                                      seed % 10 == 0 ? 19 : 1 + seed % 4, wanted);
        for (int precision = 0; precision < 2; precision++) {
            struct answer a =
                run_engine(&p, (enum qr_precision)precision, qr_isa_best(), 0, wanted);
            CHECK(a.ok);
            check_dense(&p, &a, wanted, (enum qr_precision)precision, seed);
            check_plain(&p, &a, (enum qr_precision)precision, seed);
            if (seed % 5 == 0) {
                check_equal_bits(&p, &a, wanted, (enum qr_precision)precision, seed);
                check_parameters(&p, &a, wanted, (enum qr_precision)precision, seed);
            }
        }
        problem_fini(&p);
    }
    CHECK(n_both >= 20, "only %u gates with data and a parameter", n_both);
}

/* At 11 qubits lanes are still samples, at 12 they are qubits; 17 have eight tiles. */
static void test_large(void) {
    static const unsigned sizes[] = {9, 11, 12, 13, 17};
    for (size_t i = 0; i < 2 * COUNT(sizes); i++) {
        unsigned n = sizes[i % COUNT(sizes)];
        uint8_t wanted[MAX_COLUMNS];
        if (n > t_qubits()) continue;
        struct problem p = problem_of(200 + i, n, 60, n == 11 ? 18 : 2, wanted);
        for (int precision = 0; precision < 2; precision++) {
            struct answer a =
                run_engine(&p, (enum qr_precision)precision, qr_isa_best(), 0, wanted);
            CHECK(a.ok);
            check_parameters(&p, &a, wanted, (enum qr_precision)precision, 200 + i);
            check_plain(&p, &a, (enum qr_precision)precision, 200 + i);
            if (i < COUNT(sizes))
                check_equal_bits(&p, &a, wanted, (enum qr_precision)precision, 200 + i);
        }
        problem_fini(&p);
    }
}

/* The tutorial's circuits in single precision against double: a sample's error, relative to its
 * largest component, is within the bound that sim/planner.md states for gradients. */
static void test_float32_bound(void) {
    static const unsigned sizes[] = {8, 9, 11, 12, 14};
    double mean = 0, most = 0;
    size_t n_samples = 0;
    for (size_t i = 0; i < 2 * COUNT(sizes); i++) {
        unsigned n = sizes[i / 2];
        uint8_t wanted[MAX_COLUMNS];
        memset(wanted, 1, sizeof wanted);
        if (n > t_qubits()) continue;
        struct problem p = case_of(n, i % 2, i % 2 ? EACH : LAST, n < 12 ? MAX_SAMPLES : 6);
        struct answer a = run_engine(&p, QR_SINGLE, qr_isa_best(), 0, wanted),
                      b = run_engine(&p, QR_DOUBLE, qr_isa_best(), 0, wanted);
        for (size_t s = 0; s < p.n_samples; s++, n_samples++) {
            double top = 0, off = 0;
            for (unsigned k = s * n; k < (s + 1) * n; k++) {
                top = fmax(top, fabs(b.dx[k]));
                off = t_worst(off, fabs(a.dx[k] - b.dx[k]));
            }
            mean += off / top;
            most = t_worst(most, off / top);
        }
        problem_fini(&p);
    }
    mean /= (double)n_samples;
    printf("    %zu samples in single precision: mean %.2g, worst %.2g of the largest component\n",
           n_samples, mean, most);
    CHECK(mean <= 6e-7 && most <= 2e-6, "mean %.3g, worst %.3g", mean, most);
}

static struct qr_gate_arg column(double scale, uint32_t i) {
    return (struct qr_gate_arg){QR_ARG_DATA, scale, i};
}

/* Gates that are rare in random circuits: data in both arguments, of one column and of two; data
 * and a parameter; the same column in all of them, and under a control. */
static void test_both_arguments(void) {
    static const enum qr_gate_kind kinds[] = {QR_GATE_PHASED_X, QR_GATE_PHASED_ISWAP, QR_GATE_FSIM};
    struct problem p = {.c = qr_circuit_new(3, 3), .n_obs = 1, .n_samples = 17};
    struct qr_err err;
    CHECK(qr_observable_parse("Z0 + X1 - 0.5*Y2", 3, &p.obs[0], &err) == QR_OK, "%s", err.msg);
    for (unsigned i = 0; i < 4 * COUNT(kinds); i++) {
        struct qr_gate g = {.kind = kinds[i % COUNT(kinds)], .n_args = 2};
        uint32_t a = qr_circuit_param(p.c, "a");
        g.n_targets = qr_gate_info(g.kind)->n_targets;
        g.targets[0] = (uint16_t)(i % 3);
        if (g.n_targets == 2) g.targets[1] = (uint16_t)((i + 1) % 3);
        g.args[0] = column(0.5, 0);
        g.args[1] = column(-0.7, i / 3 == 0 ? 0 : 1);
        if (i / 3 >= 2) g.args[i / 3 - 2] = (struct qr_gate_arg){QR_ARG_PARAMETER, 0.9, a};
        if (i % 2) qr_qubits_add(&g.controls, (i + 2) % 3);
        CHECK(qr_circuit_add(p.c, &g, &err) == QR_OK, "%s", err.msg);
    }
    problem_alloc(&p, 3);
    ref_random_numbers(1, p.c->n_params, -2, 2, p.theta);
    ref_random_numbers(2, p.n_samples * 3, -2, 2, p.x);
    ref_random_numbers(3, p.n_samples, -1, 1, p.direction);
    ref_random_numbers(4, p.n_samples, -2, 2, p.scale);
    for (unsigned mask = 1; mask < 8; mask++) {
        const uint8_t wanted[] = {mask & 1, mask >> 1 & 1, mask >> 2};
        for (int precision = 0; precision < 2; precision++) {
            struct answer a =
                run_engine(&p, (enum qr_precision)precision, qr_isa_best(), 0, wanted);
            CHECK(a.ok);
            check_dense(&p, &a, wanted, (enum qr_precision)precision, mask);
            check_plain(&p, &a, (enum qr_precision)precision, mask);
            check_equal_bits(&p, &a, wanted, (enum qr_precision)precision, mask);
        }
    }
    problem_fini(&p);
}

/* A NaN of a sample and a value that is too large are reported, and nothing is added. */
static void test_bad_numbers(void) {
    static const uint8_t wanted[4] = {1, 1, 1, 1};
    for (unsigned turn = 0; turn < 2; turn++) {
        uint8_t most[MAX_COLUMNS];
        struct problem p = problem_of(78, 4, 30, 3, most);
        if (turn) p.x[5] = NAN;
        else p.scale[1] = 0x1p41;
        struct answer a = run_engine(&p, QR_SINGLE, qr_isa_best(), 0, wanted);
        bool clean = true;
        for (unsigned k = 0; k < p.c->n_params; k++) clean &= a.grad[k] == 0;
        CHECK(!a.ok && clean, "turn %u", turn);
        problem_fini(&p);
    }
}

/* The streaming engine has no derivatives by inputs and says so; a mask without inputs requests
 * none. */
static void test_engines(void) {
    struct problem p = case_of(8, 0, LAST, 1);
    uint8_t wanted[8] = {0};
    for (unsigned turn = 0; turn < 2; turn++) {
        const struct qr_sim_options opt = {.precision = QR_SINGLE,
                                           .isa = QR_ISA_PORTABLE,
                                           .engine = QR_ENGINE_AUTO,
                                           .wanted = wanted};
        struct answer a = answer_of(&p, p.c, p.obs, &opt, 0, NULL);
        CHECK(strcmp(a.engine, turn ? "statevector" : "streaming") == 0, "%s", a.engine);
        wanted[3] = 1;
    }
    const struct qr_sim_options opt = {.precision = QR_SINGLE,
                                       .isa = QR_ISA_PORTABLE,
                                       .engine = QR_ENGINE_STREAMING,
                                       .wanted = wanted};
    struct qr_sim_plan *plan = NULL;
    struct qr_err err;
    CHECK(qr_sim_compile(p.c, p.obs, 1, &opt, &plan, &err) == QR_RESOURCE_EXHAUSTED &&
              strstr(err.msg, "derivatives with respect to inputs are required"),
          "%s", err.msg);
    problem_fini(&p);
}

int main(void) {
    test_random_circuits();
    test_both_arguments();
    test_large();
    test_float32_bound();
    test_bad_numbers();
    test_engines();
    printf("    worst %.2g of the largest component in single precision, %.2g in double\n",
           worst[QR_SINGLE], worst[QR_DOUBLE]);
    return t_end();
}
