/* The cones engine against the statevector engine: random circuits of every gate, with controls and
 * data in all of them, local and wide read-outs and their sums, up to 16 qubits, and derivatives by
 * some inputs; equal bits over tables; equal items are computed once. */
#include "base/mem.h"
#include "base/pool.h"
#include "observable/qubits.h"
#include "sim/sim.h"
#include "tests/ref/dense.h"
#include "tests/ref/problem.h"
#include "tests/t.h"

#include <math.h>
#include <stdlib.h>

/* Inputs whose derivatives are computed too, or NULL. */
static const uint8_t *wanted;

static struct answer run_engine(const struct problem *p, enum qr_engine engine, enum qr_isa isa) {
    return answer_of(p, p->c, p->obs,
                     &(struct qr_sim_options){
                         .precision = QR_DOUBLE, .isa = isa, .engine = engine, .wanted = wanted},
                     0, NULL);
}

/* ---- random problems ---- */

static uint64_t state;
static unsigned below(unsigned n) {
    double u;
    ref_random_numbers(state++, 1, 0, 1, &u);
    return (unsigned)(u * n);
}
static double between(double low, double high) {
    double u;
    ref_random_numbers(state++, 1, low, high, &u);
    return u;
}

/* Factors of parameters p0 to p7, which are as much larger, so that angles are of order 1. */
static const double units[] = {1, 1, 1, 1, 1, 1e-3, 1e-6, 1e-11};

/* A parameter, a column or a number; a gate's other argument may be of another kind. */
static struct qr_gate_arg argument(struct qr_circuit *c, unsigned what) {
    unsigned k = below(COUNT(units));
    char name[16];
    snprintf(name, sizeof name, "p%u", k);
    if (below(4) == 0) what = below(6);
    if (what < 3)
        return (struct qr_gate_arg){QR_ARG_PARAMETER, units[k] * between(0.2, 1),
                                    qr_circuit_param(c, name)};
    if (what == 3) return (struct qr_gate_arg){QR_ARG_DATA, between(0.5, 1), below(c->n_columns)};
    return (struct qr_gate_arg){QR_ARG_CONSTANT, what == 4 ? 1 : between(-1, 1), 0};
}

/* Up to three more qubits near the gate. */
static void add_controls(const struct qr_circuit *c, struct qr_gate *g) {
    for (unsigned i = 0, n = 1 + below(below(3) ? 1 : 3); i < n; i++) {
        unsigned q = (g->targets[0] + 1 + below(4)) % c->n_qubits;
        if (q == g->targets[0] || (g->n_targets == 2 && q == g->targets[1])) continue;
        qr_qubits_add(&g->controls, q);
        if (below(2)) qr_qubits_add(&g->control_values, q);
    }
}

static void add(struct qr_circuit *c, enum qr_gate_kind kind, unsigned a, unsigned b) {
    const struct qr_gate_info *info = qr_gate_info(kind);
    struct qr_gate g = {.kind = kind,
                        .n_targets = info->n_targets,
                        .n_args = info->n_args,
                        .targets = {(uint16_t)a, info->n_targets == 2 ? (uint16_t)b : 0}};
    unsigned what = below(6);
    for (unsigned k = 0; k < g.n_args; k++) g.args[k] = argument(c, what);
    if (kind != QR_GATE_FSIM && below(3) == 0) g.global_shift = below(2) ? -0.5 : between(-1, 1);
    if (below(5) == 0) add_controls(c, &g);
    struct qr_err err;
    CHECK(qr_circuit_add(c, &g, &err) == QR_OK, "%s", err.msg);
}

/* Layers of gates on neighbours (of a line, a ring, or anywhere): shallow, so that cones are small,
 * or not. */
static struct problem random_problem(uint64_t seed) {
    state = seed * 100003;
    unsigned n = 2 + below(15), reach = below(4) ? 2 : n, layers = 1 + below(n > 10 ? 2 : 4);
    struct problem p = {
        .c = qr_circuit_new(n, n), .n_obs = 1 + below(4), .n_samples = 1 + below(5)};
    for (unsigned i = 0; i < layers * n; i++) {
        enum qr_gate_kind kind = (enum qr_gate_kind)(1 + below(QR_GATE_KINDS - 1));
        unsigned a = below(n), b = (a + 1 + below(reach - 1)) % n;
        add(p.c, kind, a, b == a ? (a + 1) % n : b);
    }
    for (size_t r = 0; r < p.n_obs; r++) {
        char text[512];
        size_t len = 0;
        for (unsigned t = 0, terms = 1 + below(3); t < terms; t++) {
            unsigned first = below(n), wide = below(3) ? 1 + below(2) : 1 + below(n);
            len += (size_t)snprintf(text + len, sizeof text - len, "%s%.3f", t ? " + " : "",
                                    between(0.2, 1.5));
            for (unsigned q = 0; q < wide && q < n; q++)
                len += (size_t)snprintf(text + len, sizeof text - len, " %c%u", "XYZ"[below(3)],
                                        (first + q) % n);
        }
        struct qr_err err;
        CHECK(qr_observable_parse(text, n, &p.obs[r], &err) == QR_OK, "%s", err.msg);
    }
    problem_alloc(&p, n);
    ref_random_numbers(seed + 1, p.c->n_params, -1, 1, p.theta);
    for (unsigned k = 0; k < p.c->n_params; k++) p.theta[k] /= units[p.c->param_names[k][1] - '0'];
    ref_random_numbers(seed + 2, p.n_samples * n, -1, 1, p.x);
    ref_random_numbers(seed + 3, p.n_samples * p.n_obs, -1, 1, p.direction);
    ref_random_numbers(seed + 4, p.n_samples, -2, 2, p.scale);
    /* Some data are equal and some are 0, so that samples share items. */
    for (size_t i = 0; i < p.n_samples * n; i++)
        if (below(2)) p.x[i] = below(2) ? 0 : 0.25;
    return p;
}

/* Both engines are float64: at most ~200 gates in a row, each a few 2^-53 off in either, and sums
 * of up to 20 terms. */
static double worst;
static void compare(const struct problem *p, const struct answer *a, const struct answer *b,
                    uint64_t seed) {
    double top = 1;
    for (unsigned k = 0; k < p->c->n_params; k++)
        top = fmax(top, fabs(qr_fixed_to_double(b->grad[k])));
    double off = 0, off_z = 0;
    for (unsigned k = 0; k < p->c->n_params; k++)
        off = t_worst(off, fabs(qr_fixed_to_double(a->grad[k]) - qr_fixed_to_double(b->grad[k])));
    for (size_t i = 0; i < p->n_samples * p->n_obs; i++)
        off_z = t_worst(off_z, fabs(a->z[i] - b->z[i]));
    CHECK(a->ok && b->ok && off <= 1e-12 * top && off_z <= 1e-12,
          "seed %lu, %u qubits: gradient off by %.3g of %.3g, z by %.3g", (unsigned long)seed,
          p->c->n_qubits, off, top, off_z);
    worst = t_worst(worst, off / top);
    top = 1;
    off = 0;
    for (size_t i = 0; i < p->n_samples * p->c->n_columns; i++) {
        top = fmax(top, fabs(b->dx[i]));
        off = t_worst(off, fabs(a->dx[i] - b->dx[i]));
    }
    CHECK(off <= 1e-12 * top, "seed %lu, %u qubits: derivatives by inputs off by %.3g of %.3g",
          (unsigned long)seed, p->c->n_qubits, off, top);
    worst = t_worst(worst, off / top);
}

/* Flop of a gradient, infinite if there is no plan. */
static double flops_of(const struct problem *p) {
    struct qr_sim_plan *plan = NULL;
    struct qr_err err;
    const struct qr_sim_options opt = {.precision = QR_DOUBLE,
                                       .isa = QR_ISA_PORTABLE,
                                       .engine = QR_ENGINE_CONES,
                                       .wanted = wanted};
    if (qr_sim_compile(p->c, p->obs, p->n_obs, &opt, &plan, &err) != QR_OK) return INFINITY;
    struct qr_sim_facts f = qr_sim_facts(plan);
    qr_sim_plan_free(plan);
    return f.flop_per_gradient;
}

static bool plans(const struct problem *p) { return flops_of(p) < 1e8; }

/* A sample's derivatives do not depend on the other samples of its micro-batch. */
static void check_samples_alone(const struct problem *p, const struct answer *a, uint64_t seed) {
    unsigned n = p->c->n_columns;
    for (size_t s = 0; s < p->n_samples; s++) {
        struct problem one = sample_of(p, s);
        struct answer b = run_engine(&one, QR_ENGINE_CONES, qr_isa_best());
        CHECK(memcmp(a->dx + s * n, b.dx, n * sizeof *b.dx) == 0, "sample %zu alone, seed %lu", s,
              (unsigned long)seed);
    }
}

static void compare_engines(const struct problem *p, uint64_t seed) {
    struct answer a = run_engine(p, QR_ENGINE_CONES, qr_isa_best()),
                  b = run_engine(p, QR_ENGINE_STATEVECTOR, qr_isa_best());
    compare(p, &a, &b, seed);
    for (int isa = 0; isa < QR_ISAS; isa++) {
        if (!qr_isa_available((enum qr_isa)isa)) continue;
        struct answer other = run_engine(p, QR_ENGINE_CONES, (enum qr_isa)isa);
        CHECK(answer_equal(&a, &other), "bits of %s, seed %lu", qr_isa_name((enum qr_isa)isa),
              (unsigned long)seed);
    }
    if (wanted) check_samples_alone(p, &a, seed);
}

/* Wants some columns, or all of them. */
static void want(const struct problem *p, uint64_t seed, uint8_t *ret) {
    for (unsigned i = 0; i < p->c->n_columns; i++) ret[i] = seed % 2 || below(2);
    wanted = ret;
}

static void test_random_circuits(void) {
    unsigned n_seeds = getenv("SEEDS") ? (unsigned)atoi(getenv("SEEDS")) : 300, n_compared = 0;
    for (uint64_t seed = 1; seed <= n_seeds; seed++) {
        struct problem p = random_problem(seed);
        uint8_t some[MAX_COLUMNS];
        if (plans(&p)) {
            n_compared++;
            compare_engines(&p, seed);
            want(&p, seed, some);
            compare_engines(&p, seed);
            wanted = NULL;
        }
        problem_fini(&p);
    }
    printf("    %u of %u random circuits compared; worst %.2g of the largest component\n",
           n_compared, n_seeds, worst);
    CHECK(n_compared >= n_seeds * 3 / 4, "only %u of %u", n_compared, n_seeds);
}

/* ---- corner cases ---- */

static struct problem bare(unsigned n, size_t n_samples, const char *const *obs, size_t n_obs) {
    struct problem p = {.c = qr_circuit_new(n, n), .n_obs = n_obs, .n_samples = n_samples};
    struct qr_err err;
    for (size_t r = 0; r < n_obs; r++)
        CHECK(qr_observable_parse(obs[r], n, &p.obs[r], &err) == QR_OK, "%s", err.msg);
    return p;
}

static void put(struct problem *p, enum qr_gate_kind kind, unsigned a, unsigned b,
                struct qr_gate_arg arg) {
    const struct qr_gate_info *info = qr_gate_info(kind);
    const struct qr_gate g = {.kind = kind,
                              .n_targets = info->n_targets,
                              .n_args = 1,
                              .targets = {(uint16_t)a, info->n_targets == 2 ? (uint16_t)b : 0},
                              .args = {arg}};
    struct qr_err err;
    CHECK(qr_circuit_add(p->c, &g, &err) == QR_OK, "%s", err.msg);
}
static struct qr_gate_arg number(double x) { return (struct qr_gate_arg){QR_ARG_CONSTANT, x, 0}; }
static struct qr_gate_arg column(uint32_t i) { return (struct qr_gate_arg){QR_ARG_DATA, 0.5, i}; }
static struct qr_gate_arg parameter(struct problem *p, const char *name) {
    return (struct qr_gate_arg){QR_ARG_PARAMETER, 1, qr_circuit_param(p->c, name)};
}

static void fill(struct problem *p) {
    problem_alloc(p, p->c->n_columns);
    ref_random_numbers(1, p->c->n_params, -1, 1, p->theta);
    ref_random_numbers(2, p->n_samples * p->c->n_columns, -1, 1, p->x);
    ref_random_numbers(3, p->n_samples * p->n_obs, -1, 1, p->direction);
    ref_random_numbers(4, p->n_samples, -2, 2, p->scale);
}

/* With no input, with all and with every second one wanted. */
static void check_equal(struct problem *p, uint64_t number) {
    uint8_t some[MAX_COLUMNS];
    for (unsigned turn = 0; turn < 3; turn++) {
        for (unsigned i = 0; i < MAX_COLUMNS; i++) some[i] = turn == 1 || i % 2;
        wanted = turn ? some : NULL;
        struct answer a = run_engine(p, QR_ENGINE_CONES, qr_isa_best()),
                      b = run_engine(p, QR_ENGINE_STATEVECTOR, qr_isa_best());
        compare(p, &a, &b, number);
        if (turn) check_samples_alone(p, &a, number);
    }
    wanted = NULL;
    problem_fini(p);
}

/* Read-outs without a Pauli, that are always 0, or that depend on data but no parameter, or on a
 * parameter but no data. */
static void test_trivial_readouts(void) {
    static const char *const obs[] = {"1.5", "X0", "Z1 - 2", "Z2", "Z3 Z2", "Y4"};
    struct problem p = bare(5, 3, obs, COUNT(obs));
    put(&p, QR_GATE_Z, 0, 0, parameter(&p, "none"));
    put(&p, QR_GATE_X, 1, 0, column(1));
    put(&p, QR_GATE_X, 2, 0, parameter(&p, "a"));
    put(&p, QR_GATE_Y, 3, 0, parameter(&p, "b"));
    put(&p, QR_GATE_H, 4, 0, number(1));
    put(&p, QR_GATE_Z, 4, 0, parameter(&p, "a"));
    fill(&p);
    check_equal(&p, 1);
}

/* Gates with small factors and large parameters, and gates with small numbers: an entry of the
 * fused gate that is a product of four small sines is not a structural zero. */
static void test_small_factors(void) {
    static const char *const obs[] = {"Z0", "Y1"};
    static const enum qr_gate_kind kinds[] = {QR_GATE_XX, QR_GATE_Z, QR_GATE_Z, QR_GATE_XX};
    static const double factors[] = {1, 0.01, 1e-3, 1e-5, 1e-11, 1e-300};
    for (unsigned fixed = 0; fixed < 2; fixed++)
        for (unsigned f = 0; f < COUNT(factors); f++) {
            struct problem p = bare(2, 1, obs, COUNT(obs));
            put(&p, QR_GATE_Y, 0, 0, parameter(&p, "a"));
            put(&p, QR_GATE_Y, 1, 0, number(0.6));
            for (unsigned i = 0; i < COUNT(kinds); i++) {
                char name[] = {'b', (char)('0' + i), 0};
                struct qr_gate_arg arg = parameter(&p, name);
                arg.scale = factors[f];
                put(&p, kinds[i], i == 2, i == 2 ? 0 : 1, fixed ? number(0.3 * factors[f]) : arg);
            }
            fill(&p);
            for (unsigned k = 1; k < p.c->n_params; k++) p.theta[k] /= factors[f];
            check_equal(&p, 100 * fixed + f);
        }
}

/* The same column repeatedly, in gates on one and two qubits, and several read-out terms. */
static void test_repeated_column(void) {
    static const char *const obs[] = {"Z0", "X1 Y2", "0.5*Z0 Z1 Z2 + Z2"};
    static const enum qr_gate_kind kinds[] = {QR_GATE_X,    QR_GATE_Y,   QR_GATE_Z,  QR_GATE_H,
                                              QR_GATE_XX,   QR_GATE_YY,  QR_GATE_ZZ, QR_GATE_CZ,
                                              QR_GATE_CNOT, QR_GATE_SWAP};
    struct problem p = bare(3, 18, obs, COUNT(obs));
    for (unsigned i = 0; i < COUNT(kinds); i++) {
        put(&p, kinds[i], i % 3, (i + 1) % 3, column(i % 2));
        put(&p, QR_GATE_Y, i % 3, 0, parameter(&p, i % 2 ? "a" : "b"));
    }
    fill(&p);
    check_equal(&p, 2);
}

/* Qubits with equal circuits on columns of which some are wanted. Each column, and each pair of
 * them, is in several places, first or second. Two columns are equal from the 17th sample on, but
 * not before. */
static void test_columns_in_many_places(void) {
    static const uint32_t in[][2] = {{0, 1}, {1, 2}, {2, 0}, {1, 0},
                                     {3, 2}, {2, 1}, {1, 3}, {3, 1}};
    char text[COUNT(in)][24];
    const char *obs[COUNT(in)];
    for (unsigned q = 0; q < COUNT(in); q++) {
        snprintf(text[q], sizeof text[q], "Z%u + 0.3*X%u", q, q);
        obs[q] = text[q];
    }
    struct problem p = bare(COUNT(in), 19, obs, COUNT(in));
    for (unsigned q = 0; q < COUNT(in); q++) {
        put(&p, QR_GATE_X, q, 0, column(in[q][0]));
        put(&p, QR_GATE_Y, q, 0, parameter(&p, "a"));
        put(&p, QR_GATE_Z, q, 0, column(in[q][1]));
        put(&p, QR_GATE_X, q, 0, parameter(&p, "b"));
    }
    fill(&p);
    for (size_t s = 16; s < p.n_samples; s++) p.x[s * COUNT(in) + 3] = p.x[s * COUNT(in) + 2];
    for (unsigned mask = 1; mask < 16; mask++) {
        const uint8_t some[COUNT(in)] = {mask & 1, mask >> 1 & 1, mask >> 2 & 1, mask >> 3};
        wanted = some;
        compare_engines(&p, mask);
    }
    wanted = NULL;
    problem_fini(&p);
}

/* Pairs of qubits with cones that differ in one thing each: none may be mistaken for another. */
static void test_nearly_equal_cones(void) {
    enum { BASE, CONTROL_VALUE, PARAMETER, SCALE, SHIFT, KIND, NO_CONTROL, DATA, PAIRS };
    char text[PAIRS][16];
    const char *obs[PAIRS];
    for (unsigned k = 0; k < PAIRS; k++) {
        snprintf(text[k], sizeof text[k], "Z%u + X%u", 2 * k + 1, 2 * k);
        obs[k] = text[k];
    }
    struct problem p = bare(2 * PAIRS, 2, obs, PAIRS);
    for (unsigned k = 0; k < PAIRS; k++) {
        struct qr_err err;
        struct qr_gate g = {.kind = k == KIND ? QR_GATE_Y : QR_GATE_X,
                            .n_targets = 1,
                            .n_args = 1,
                            .targets = {(uint16_t)(2 * k + 1)},
                            .args = {parameter(&p, k == PARAMETER ? "b" : "a")},
                            .global_shift = k == SHIFT ? 0.25 : 0};
        if (k == SCALE) g.args[0].scale = 0.5;
        if (k == DATA) g.args[0] = number(0.7);
        if (k != NO_CONTROL) qr_qubits_add(&g.controls, 2 * k);
        if (k != CONTROL_VALUE) g.control_values = g.controls;
        put(&p, QR_GATE_Y, 2 * k, 0, k == DATA ? column(3) : number(0.3));
        CHECK(qr_circuit_add(p.c, &g, &err) == QR_OK, "%s", err.msg);
    }
    fill(&p);
    check_equal(&p, 4);
}

static void put_controlled(struct problem *p, enum qr_gate_kind kind, const unsigned *on,
                           unsigned n_controls, unsigned values, struct qr_gate_arg arg,
                           double shift) {
    const struct qr_gate_info *info = qr_gate_info(kind);
    struct qr_gate g = {
        .kind = kind, .n_targets = info->n_targets, .n_args = info->n_args, .global_shift = shift};
    for (unsigned k = 0; k < n_controls; k++) {
        qr_qubits_add(&g.controls, on[k]);
        if (values >> k & 1) qr_qubits_add(&g.control_values, on[k]);
    }
    for (unsigned k = 0; k < g.n_targets; k++) g.targets[k] = (uint16_t)on[n_controls + k];
    for (unsigned k = 0; k < g.n_args; k++) g.args[k] = arg;
    struct qr_err err;
    CHECK(qr_circuit_add(p->c, &g, &err) == QR_OK, "%s", err.msg);
}

/* Groups of three qubits with two controls each that differ in one thing. */
static void test_nearly_equal_controls(void) {
    enum { BASE, FIRST_VALUE, SECOND_VALUE, PARAMETER, SHIFT, KIND, DATA, THREES };
    char text[THREES][24];
    const char *obs[THREES];
    for (unsigned k = 0; k < THREES; k++) {
        snprintf(text[k], sizeof text[k], "Z%u + 0.5*X%u", 3 * k + 2, 3 * k);
        obs[k] = text[k];
    }
    struct problem p = bare(3 * THREES, 2, obs, THREES);
    for (unsigned k = 0; k < THREES; k++) {
        unsigned on[3] = {3 * k, 3 * k + 1, 3 * k + 2};
        for (unsigned q = 0; q < 3; q++)
            put(&p, QR_GATE_Y, on[q], 0, q ? number(0.2 + 0.3 * q) : parameter(&p, "c"));
        put_controlled(&p, k == KIND ? QR_GATE_Y : QR_GATE_X, on, 2,
                       k == FIRST_VALUE    ? 2
                       : k == SECOND_VALUE ? 1
                                           : 3,
                       k == DATA ? column(3) : parameter(&p, k == PARAMETER ? "b" : "a"),
                       k == SHIFT ? -0.5 : 0.25);
    }
    fill(&p);
    check_equal(&p, 7);
}

/* A line of n qubits in groups of three, and again in groups that lie across them: gates with
 * several controls, data in gates that are not powers, excitations. The same circuit from 12 qubits
 * on. */
static struct problem line(unsigned n, const char *const *obs, size_t n_obs) {
    static const enum qr_gate_kind kinds[] = {QR_GATE_X, QR_GATE_SWAP, QR_GATE_ISWAP, QR_GATE_Y};
    struct problem p = bare(n, 2, obs, n_obs);
    p.c->n_columns = 12;
    for (unsigned q = 0; q < n; q++) put(&p, QR_GATE_Y, q, 0, parameter(&p, q % 2 ? "a" : "b"));
    for (unsigned layer = 0; layer < 2; layer++) {
        for (unsigned q = 2 * layer, k = 0; q + 3 <= n; q += 3, k++) {
            const enum qr_gate_kind kind = kinds[k % 4];
            unsigned on[3] = {q, q + 1, q + 2}, n_controls = 3 - qr_gate_info(kind)->n_targets;
            put_controlled(&p, kind, on, n_controls, 1 + k % 3,
                           k % 3 == 0   ? parameter(&p, "c")
                           : k % 3 == 1 ? column(k % 12)
                                        : number(1),
                           k % 2 ? 0 : -0.5);
            put_controlled(&p, QR_GATE_FSIM, on + layer, 0, 0, column(q % 12), 0);
            put_controlled(&p, QR_GATE_PHASED_X, on, 1, layer, parameter(&p, "d"), 0);
        }
        for (unsigned q = 0; q < n; q++) put(&p, QR_GATE_X, q, 0, parameter(&p, "e"));
    }
    fill(&p);
    return p;
}

/* 240 qubits: too many for a state vector, but a read-out depends on at most 12 of them. */
static void test_240_qubits(void) {
    static const char *const far[] = {"Z150 X151", "Y149"}, *const near[] = {"Z6 X7", "Y5"};
    struct problem p = line(240, far, 2), part = line(12, near, 2);
    uint8_t all[MAX_COLUMNS];
    memset(all, 1, sizeof all);
    for (unsigned turn = 0; turn < 2; turn++) {
        wanted = turn ? all : NULL;
        struct answer a = run_engine(&p, QR_ENGINE_AUTO, qr_isa_best()),
                      b = run_engine(&part, QR_ENGINE_STATEVECTOR, qr_isa_best());
        CHECK(strcmp(a.engine, "cones") == 0, "%s", a.engine);
        compare(&p, &a, &b, 8);
    }
    wanted = NULL;
    problem_fini(&p);
    problem_fini(&part);
}

/* Micro-batches of one sample, of more than a block, and of equal samples. */
static void test_equal_samples(void) {
    static const char *const obs[] = {"Z3"};
    for (size_t n_samples = 1; n_samples <= 20; n_samples += 19) {
        struct problem p = qcnn_problem(8, 1, n_samples, obs, 1, 5);
        for (size_t i = 8; i < n_samples * 8; i++) p.x[i] = p.x[i - 8];
        check_equal(&p, 3);
    }
}

/* More commuting gates than the planner examines to find the next one. */
static void test_long_runs(void) {
    static const char *const obs[] = {"X0 Y1", "Z2"};
    struct problem p = bare(3, 1, obs, COUNT(obs));
    for (unsigned q = 0; q < 3; q++) put(&p, QR_GATE_Y, q, 0, number(0.3));
    for (unsigned i = 0; i < 200; i++) {
        put(&p, QR_GATE_ZZ, i % 3, (i + 1) % 3, i % 7 ? number(0.01 * i) : parameter(&p, "a"));
        put(&p, QR_GATE_Z, i % 3, 0, i % 5 ? number(0.02 * i) : parameter(&p, "b"));
    }
    for (unsigned q = 0; q < 3; q++) put(&p, QR_GATE_X, q, 0, parameter(&p, "c"));
    fill(&p);
    check_equal(&p, 5);
}

/* A ring whose symmetric gates are written from either end: the plan is the same, and so is each
 * bit. */
static struct problem ring(const enum qr_gate_kind *kinds, bool reversed, const char *const *obs,
                           size_t n_obs) {
    struct problem p = bare(14, 3, obs, n_obs);
    for (unsigned layer = 0; layer < 2; layer++) {
        for (unsigned q = 0; q < 14; q++) put(&p, QR_GATE_Y, q, 0, parameter(&p, "a"));
        for (unsigned q = 0; q < 14; q++) {
            unsigned next = (q + 1) % 14;
            bool turn = reversed && q * 7 % 5 < 3;
            put(&p, kinds[layer], turn ? next : q, turn ? q : next,
                layer % 2 ? column(q) : parameter(&p, "b"));
        }
    }
    fill(&p);
    return p;
}

static void test_either_end(void) {
    static const enum qr_gate_kind kinds[][2] = {
        {QR_GATE_XX, QR_GATE_CZ}, {QR_GATE_YY, QR_GATE_ZZ}, {QR_GATE_CNOT, QR_GATE_CNOT}};
    static const char *const obs[] = {"Z3 Z4", "Z9 Z10 + Z0 Z1"};
    for (size_t k = 0; k < COUNT(kinds); k++) {
        struct problem one = ring(kinds[k], false, obs, COUNT(obs)),
                       other = ring(kinds[k], true, obs, COUNT(obs));
        struct answer a = run_engine(&one, QR_ENGINE_CONES, qr_isa_best()),
                      b = run_engine(&other, QR_ENGINE_CONES, qr_isa_best());
        bool symmetric = kinds[k][0] != QR_GATE_CNOT;
        CHECK(answer_equal(&a, &b) == symmetric, "gates %zu from their other ends", k);
        CHECK(!symmetric || flops_of(&one) == flops_of(&other), "%.0f and %.0f flop",
              flops_of(&one), flops_of(&other));
        check_equal(&one, 9);
        check_equal(&other, 10);
    }
}

/* Contractions that are large enough for slices and shares, with and without data: the number of
 * threads changes no bit. */
static void test_threads(bool with_data) {
    static const char *const obs[] = {"Z4 Z5", "Z7 X2", "Y1 Z8"};
    struct problem p = bare(10, with_data ? 17 : 1, obs, COUNT(obs));
    for (unsigned layer = 0; layer < (with_data ? 8 : 10); layer++) {
        char name[16];
        snprintf(name, sizeof name, "w%u", layer);
        for (unsigned q = 0; q < 10 && with_data; q++) put(&p, QR_GATE_Z, q, 0, column(q));
        for (unsigned q = layer % 2; q + 1 < 10; q += 2)
            put(&p, QR_GATE_ZZ, q, q + 1, parameter(&p, name));
        for (unsigned q = 0; q < 10; q++) put(&p, q % 2 ? QR_GATE_X : QR_GATE_Y, q, 0, number(0.3));
        for (unsigned q = 0; q < 10; q++) put(&p, QR_GATE_X, q, 0, parameter(&p, name));
    }
    fill(&p);
    uint8_t all[MAX_COLUMNS];
    memset(all, 1, sizeof all);
    const struct qr_sim_options opt = {.precision = QR_DOUBLE,
                                       .isa = qr_isa_best(),
                                       .engine = QR_ENGINE_CONES,
                                       .wanted = with_data ? all : NULL};
    struct answer one = answer_of(&p, p.c, p.obs, &opt, 0, NULL);
    for (unsigned threads = 2; threads <= 5; threads++) {
        struct answer many = answer_of(&p, p.c, p.obs, &opt, threads, NULL);
        CHECK(answer_equal(&one, &many), "%u threads, %s data", threads,
              with_data ? "with" : "without");
    }
    check_equal(&p, 6);
}

/* Without parameters, a derivative by an input that is not finite is reported. */
static void test_bad_numbers(void) {
    static const char *const obs[] = {"Z0"};
    static const uint8_t all[] = {1};
    for (unsigned turn = 0; turn < 3; turn++) {
        struct problem p = bare(1, 2, obs, 1);
        put(&p, QR_GATE_X, 0, 0, column(0));
        fill(&p);
        if (turn == 1) p.x[1] = NAN;
        if (turn == 2) p.scale[0] = 0x1p60;
        wanted = all;
        struct answer a = run_engine(&p, QR_ENGINE_CONES, qr_isa_best());
        wanted = NULL;
        CHECK(a.ok == !turn, "turn %u", turn);
        problem_fini(&p);
    }
}

/* Up to 11 qubits "auto" still selects the statevector engine, so that earlier results keep their
 * bits. */
static void test_small_states(void) {
    static const char *const obs[] = {"Z6 X7", "Y5"};
    for (unsigned n = 11; n <= 12; n++) {
        struct problem p = line(n, obs, COUNT(obs));
        struct answer a = run_engine(&p, QR_ENGINE_AUTO, qr_isa_best());
        CHECK(strcmp(a.engine, n < 12 ? "statevector" : "cones") == 0, "%u qubits by %s", n,
              a.engine);
        problem_fini(&p);
    }
}

/* Only these two engines simulate a ring of CNOTs: the cones' limit is a state vector's cost, even
 * if the streaming engine would be cheaper for another circuit of this size. */
static void test_cheaper_than_a_state(void) {
    static const char *const obs[] = {"Z0", "Z1", "Z2", "Z3", "Z4", "Z5", "Z6", "Z7"};
    enum { QUBITS = 14 };
    struct problem p = bare(QUBITS, 2, obs, COUNT(obs));
    for (unsigned q = 0; q < QUBITS; q++) put(&p, QR_GATE_X, q, 0, column(q));
    for (unsigned layer = 0; layer < 3; layer++) {
        for (unsigned q = 0; q < QUBITS; q++) {
            char name[16];
            snprintf(name, sizeof name, "w%u", QUBITS * layer + q);
            put(&p, QR_GATE_Y, q, 0, parameter(&p, name));
            put(&p, QR_GATE_Z, q, 0, parameter(&p, name));
        }
        for (unsigned q = 0; q < QUBITS; q++) put(&p, QR_GATE_CNOT, q, (q + 1) % QUBITS, number(1));
    }
    fill(&p);
    struct answer a = run_engine(&p, QR_ENGINE_AUTO, qr_isa_best());
    CHECK(strcmp(a.engine, "cones") == 0, "%s", a.engine);
    check_equal(&p, 11);
}

static void check_rejected(struct problem *p, const char *words) {
    const struct qr_sim_options opt = {
        .precision = QR_SINGLE, .isa = QR_ISA_PORTABLE, .engine = QR_ENGINE_CONES};
    struct qr_sim_plan *plan = NULL;
    struct qr_err err;
    CHECK(qr_sim_compile(p->c, p->obs, p->n_obs, &opt, &plan, &err) == QR_RESOURCE_EXHAUSTED &&
              strstr(err.msg, words),
          "%s", err.msg);
    problem_fini(p);
}

static void test_rejected(void) {
    static const char *const obs[] = {"Z2"};
    struct problem p = bare(3, 1, obs, 1);
    for (unsigned i = 0; i < 62; i++) { /* one helper qubit each, and three qubits */
        static const unsigned on[] = {0, 1, 2};
        put_controlled(&p, QR_GATE_X, on, 2, 3, number(1), 0);
        for (unsigned q = 0; q < 3; q++) put(&p, QR_GATE_Y, q, 0, number(0.3));
    }
    fill(&p);
    check_rejected(&p, "has more than 64 qubits");
    p = bare(3, 1, obs, 1);
    for (unsigned i = 0; i < 1025; i++) {
        put(&p, QR_GATE_X, 2, 0, number(0.3));
        put(&p, QR_GATE_Y, 2, 0, number(0.3));
    }
    fill(&p);
    check_rejected(&p, "or 2048 gates");
    p = bare(3, 1, obs, 0);
    fill(&p);
    check_rejected(&p, "the circuit has no read-out");
}

int main(void) {
    test_random_circuits();
    test_trivial_readouts();
    test_small_factors();
    test_repeated_column();
    test_columns_in_many_places();
    test_nearly_equal_cones();
    test_nearly_equal_controls();
    test_240_qubits();
    test_equal_samples();
    test_long_runs();
    test_either_end();
    test_threads(false);
    test_threads(true);
    test_bad_numbers();
    test_small_states();
    test_cheaper_than_a_state();
    test_rejected();
    return t_end();
}
