/* Gradients and read-outs of random circuits against the dense reference; equal bits over tables,
 * threads and micro-batches. */
#include "base/mem.h"
#include "base/pool.h"
#include "circuit/circuit_impl.h"
#include "sim/fusion/plan.h"
#include "sim/sim.h"
#include "tests/ref/dense.h"
#include "tests/ref/problem.h"
#include "tests/t.h"

#include <math.h>

static struct problem problem_of(uint64_t seed, unsigned n, unsigned gates, size_t n_samples) {
    struct problem p = {.n_samples = n_samples};
    p.c = ref_random_circuit(seed, n, gates);
    problem_draw(&p, seed);
    return p;
}

static struct answer run_engine(const struct problem *p, const struct qr_circuit *c,
                                const struct qr_observable *obs, enum qr_precision precision,
                                enum qr_isa isa, unsigned threads) {
    return answer_of(
        p, c, obs,
        &(struct qr_sim_options){.precision = precision, .isa = isa, .engine = QR_ENGINE_AUTO},
        threads, NULL);
}

/* `c` is the circuit that ran; the reference runs p->c (the same on fewer qubits). The tolerance is
 * absolute: |z| <= sum of |coefficients| <= ~10, and a derivative is a sum of at most ~30
 * derivatives of |scale * pi * coefficient| <= ~100. */
static double worst;
static void compare(const struct problem *p, const struct answer *a, double tolerance,
                    const char *what, uint64_t seed) {
    double *j = qr_xcalloc(p->n_obs * p->c->n_params + 1, sizeof(double)), z[MAX_OBS];
    double *g = qr_xcalloc(p->c->n_params + 1, sizeof(double));
    for (size_t s = 0; s < p->n_samples; s++) {
        const double *x = p->x + s * p->c->n_columns;
        ref_expectation(p->c, p->theta, x, p->obs, p->n_obs, z);
        ref_gradient(p->c, p->theta, x, p->obs, p->n_obs, j);
        for (size_t r = 0; r < p->n_obs; r++) {
            CHECK(fabs(z[r] - a->z[s * p->n_obs + r]) <= tolerance, "%s seed %lu z %.17g not %.17g",
                  what, (unsigned long)seed, a->z[s * p->n_obs + r], z[r]);
            for (unsigned k = 0; k < p->c->n_params; k++)
                g[k] += p->scale[s] * p->direction[s * p->n_obs + r] * j[r * p->c->n_params + k];
        }
    }
    double top = 1;
    for (unsigned k = 0; k < p->c->n_params; k++) top = fmax(top, fabs(g[k]));
    for (unsigned k = 0; k < p->c->n_params; k++) {
        double d = fabs(g[k] - qr_fixed_to_double(a->grad[k]));
        if (d / top > worst) worst = d / top;
        CHECK(d <= tolerance * top, "%s seed %lu param %u: %.17g not %.17g", what,
              (unsigned long)seed, k, qr_fixed_to_double(a->grad[k]), g[k]);
    }
    free(j);
    free(g);
}

static const enum qr_gate_kind structured_kinds[] = {
    QR_GATE_X,  QR_GATE_Y,  QR_GATE_Z,    QR_GATE_H,    QR_GATE_Z, QR_GATE_PHASED_X,
    QR_GATE_CZ, QR_GATE_ZZ, QR_GATE_CNOT, QR_GATE_SWAP, QR_GATE_Z};

/* Adds one batch of diagonal gates, with a parameter and then with data, on each qubit and each
 * pair. */
static void add_diagonal(struct qr_circuit *c) {
    struct qr_err err;
    for (unsigned k = 0; k < 4 * c->n_qubits; k++) {
        unsigned q = k / 4;
        struct qr_gate g = {.kind = k & 2 ? QR_GATE_ZZ : QR_GATE_Z,
                            .n_targets = k & 2 ? 2 : 1,
                            .n_args = 1,
                            .targets = {(uint16_t)q},
                            .args = {{QR_ARG_DATA, 0.6, q}}};
        if (k & 2) g.targets[1] = (uint16_t)((q + 1) % c->n_qubits);
        if (!(k & 1))
            g.args[0] = (struct qr_gate_arg){QR_ARG_PARAMETER, 0.7,
                                             (uint32_t)qr_circuit_param(c, k & 4 ? "w1" : "w0")};
        CHECK(qr_circuit_add(c, &g, &err) == QR_OK, "%s", err.msg);
    }
}

/* Makes a CNOT act where its control is 0. */
static void flip_control(struct qr_gate *g) {
    qr_qubits_add(&g->controls, g->targets[0]);
    g->kind = QR_GATE_X;
    g->n_targets = 1;
    g->targets[0] = g->targets[1];
    g->targets[1] = 0;
}

/* Layers of gates that the statevector engine has steps for, with few others between them, on five
 * qubits: parameters, data and constants. */
static struct qr_circuit *structured_circuit(uint64_t seed, unsigned n_gates) {
    enum { QUBITS = 5 };
    struct qr_circuit *c = qr_circuit_new(QUBITS, QUBITS);
    double u[8];
    struct qr_err err;
    for (unsigned i = 0; i < n_gates; i++) {
        char name[16];
        ref_random_numbers(seed * 1000 + i, 8, 0, 1, u);
        /* The same kind for some gates in a row. */
        struct qr_gate g = {.kind = structured_kinds[(i / 4 * 5 + seed) % COUNT(structured_kinds)]};
        if (u[0] < 0.08) g.kind = QR_GATE_XX;
        if (i == n_gates / 2) add_diagonal(c);
        const struct qr_gate_info *info = qr_gate_info(g.kind);
        g.n_targets = info->n_targets;
        g.n_args = info->n_args;
        /* Often on the same qubit as the gate before: data after parameters. */
        g.targets[0] = i && u[6] < 0.4 ? c->gates[i - 1].targets[0] : (uint16_t)(u[1] * QUBITS);
        if (g.n_targets == 2)
            g.targets[1] =
                (uint16_t)((g.targets[0] + 1 + (unsigned)(u[2] * (QUBITS - 1))) % QUBITS);
        if (info->has_exponent && u[3] < 0.4) g.global_shift = u[3] < 0.2 ? -0.5 : 0.3;
        for (unsigned k = 0; k < g.n_args; k++) {
            struct qr_gate_arg *a = &g.args[k];
            *a = (struct qr_gate_arg){QR_ARG_CONSTANT, u[4] < 0.3 ? 1 : 2 * u[4] - 1, 0};
            if (g.kind == QR_GATE_CNOT || g.kind == QR_GATE_SWAP) a->scale = 1, g.global_shift = 0;
            else if (u[5] < 0.2) *a = (struct qr_gate_arg){QR_ARG_DATA, u[4] + 0.5, i % QUBITS};
            else if (u[5] < 0.7) {
                snprintf(name, sizeof name, "w%u", i / (1 + i % 2));
                *a = (struct qr_gate_arg){QR_ARG_PARAMETER, u[4] + 0.5,
                                          (uint32_t)qr_circuit_param(c, name)};
            }
        }
        if (g.kind == QR_GATE_CNOT && u[7] < 0.4) flip_control(&g);
        CHECK(qr_circuit_add(c, &g, &err) == QR_OK, "%s", err.msg);
    }
    return c;
}

/* Scatters the circuit's qubits over n and entangles the others without observing them, so that
 * controls and frames fall on lanes, inside tiles and outside of them. */
static struct qr_circuit *scatter(const struct qr_circuit *from, unsigned n, uint64_t seed,
                                  bool structured, unsigned *place) {
    double u[64];
    ref_random_numbers(seed + 9, 64, 0, 1, u);
    bool taken[64] = {false};
    for (unsigned q = 0; q < from->n_qubits; q++) {
        place[q] = (unsigned)(u[q] * n);
        while (taken[place[q]]) place[q] = (place[q] + 1) % n;
        taken[place[q]] = true;
    }
    unsigned idle[64], n_idle = 0;
    for (unsigned q = 0; q < n; q++)
        if (!taken[q]) idle[n_idle++] = q;
    struct qr_circuit *c = qr_circuit_new(n, from->n_columns);
    for (unsigned k = 0; k < from->n_params; k++) qr_circuit_param(c, from->param_names[k]);
    struct qr_err err;
    for (size_t i = 0; i < from->n_gates; i++) {
        struct qr_gate g = from->gates[i];
        g.controls = g.control_values = (struct qr_qubits){0};
        for (unsigned t = 0; t < g.n_targets; t++) g.targets[t] = (uint16_t)place[g.targets[t]];
        for (unsigned q = 0; q < from->n_qubits; q++) {
            const struct qr_gate *old = &from->gates[i];
            if (qr_qubits_has(&old->controls, q)) qr_qubits_add(&g.controls, place[q]);
            if (qr_qubits_has(&old->control_values, q)) qr_qubits_add(&g.control_values, place[q]);
        }
        CHECK(qr_circuit_add(c, &g, &err) == QR_OK, "%s", err.msg);
        unsigned a = (unsigned)(u[40 + i % 20] * n_idle),
                 b = (a + 1 + (unsigned)i % (n_idle - 1)) % n_idle;
        struct qr_gate busy = {
            .kind = QR_GATE_XX,
            .n_targets = 2,
            .n_args = 1,
            .targets = {(uint16_t)idle[a], (uint16_t)idle[b]},
            .args = {{.kind = QR_ARG_CONSTANT, .scale = 0.3 + 0.1 * (double)(i % 7)}}};
        if (structured) {
            busy.kind = structured_kinds[(i * 7 + seed) % COUNT(structured_kinds)];
            busy.n_targets = qr_gate_info(busy.kind)->n_targets;
            busy.n_args = qr_gate_info(busy.kind)->n_args;
            if (busy.kind == QR_GATE_CNOT || busy.kind == QR_GATE_SWAP) busy.args[0].scale = 1;
            if (busy.n_targets == 1) busy.targets[1] = 0;
        }
        CHECK(qr_circuit_add(c, &busy, &err) == QR_OK, "%s", err.msg);
    }
    return c;
}

static struct qr_observable move(const struct qr_observable *o, const unsigned *place, unsigned n) {
    struct qr_observable m = {.n_terms = o->n_terms,
                              .terms = qr_xcalloc(o->n_terms, sizeof *m.terms)};
    for (size_t t = 0; t < o->n_terms; t++) {
        m.terms[t].coefficient = o->terms[t].coefficient;
        for (unsigned q = 0; q < n; q++) {
            if (qr_qubits_has(&o->terms[t].x, q)) qr_qubits_add(&m.terms[t].x, place[q]);
            if (qr_qubits_has(&o->terms[t].z, q)) qr_qubits_add(&m.terms[t].z, place[q]);
        }
    }
    return m;
}

/* The idle qubits' gates are XX, so their parity stays even: Z on all of them changes only signs of
 * whole tiles. The first term with X on one of them has expectation and gradient 0, but lambda then
 * pairs cells of different tiles. */
static void observe_idle(struct qr_observable *o, const unsigned *place, unsigned n_busy,
                         unsigned n, bool pair) {
    uint64_t idle = (UINT64_C(1) << n) - 1;
    for (unsigned q = 0; q < n_busy; q++) idle &= ~(UINT64_C(1) << place[q]);
    for (size_t t = 0; t < o->n_terms; t++) o->terms[t].z.word[0] |= idle;
    if (!pair) return;
    o->terms = qr_xreallocarray(o->terms, o->n_terms + n, sizeof *o->terms);
    for (unsigned q = 0; q < n; q++) {
        if (!(idle >> q & 1)) continue;
        struct qr_pauli_term t = o->terms[0];
        qr_qubits_add(&t.x, q);
        o->terms[o->n_terms++] = t;
    }
}

static void check_equal_over_tables(const struct problem *p, const struct qr_circuit *c,
                                    const struct qr_observable *obs, enum qr_precision precision,
                                    const struct answer *first, uint64_t seed) {
    for (int isa = 0; isa < QR_ISAS; isa++) {
        if (!qr_isa_available((enum qr_isa)isa)) continue;
        struct answer a = run_engine(p, c, obs, precision, (enum qr_isa)isa, 0);
        CHECK(answer_equal(&a, first), "bits of %s, precision %d, seed %lu",
              qr_isa_name((enum qr_isa)isa), precision, (unsigned long)seed);
    }
}

/* float64: ~60 fused gates of 4-term products, each 2^-53 relative to the norm, on z <= ~10: 1e-13
 * expected, 1e-12 allowed. float32: the same with 2^-24: 60 * 6e-8 * sqrt(4) at worst aligned,
 * times the norm of the observable (~3): 2e-5. */
static const double tolerance[2] = {2e-5, 1e-12};

static void test_small(void) {
    for (uint64_t seed = 1; seed <= 60; seed++) {
        unsigned n = 1 + (unsigned)(seed % 6);
        struct problem p =
            problem_of(seed, n, 10 + (unsigned)(seed % 30), seed % 10 == 0 ? 19 : 1 + seed % 4);
        for (int precision = 0; precision < 2; precision++) {
            worst = 0;
            struct answer a =
                run_engine(&p, p.c, p.obs, (enum qr_precision)precision, qr_isa_best(), 0);
            CHECK(a.ok);
            compare(&p, &a, tolerance[precision], precision ? "double" : "single", seed);
            if (seed % 6 == 0)
                check_equal_over_tables(&p, p.c, p.obs, (enum qr_precision)precision, &a, seed);
        }
        problem_fini(&p);
    }
}

/* Five qubits of p among n: against the reference, over tables and threads. */
static void check_scattered(const struct problem *p, unsigned n, uint64_t seed, bool tables,
                            const char *what) {
    unsigned place[64];
    bool structured = strcmp(what, "structured") == 0;
    struct qr_circuit *c = scatter(p->c, n, seed, structured, place);
    struct qr_observable obs[MAX_OBS];
    for (size_t r = 0; r < p->n_obs; r++) obs[r] = move(&p->obs[r], place, 5);
    if (!structured) observe_idle(&obs[0], place, 5, n, seed & 1);
    for (int precision = 0; precision < 2; precision++) {
        struct answer a = run_engine(p, c, obs, (enum qr_precision)precision, qr_isa_best(), 0);
        CHECK(a.ok);
        compare(p, &a, tolerance[precision], what, seed);
        if (tables) check_equal_over_tables(p, c, obs, (enum qr_precision)precision, &a, seed);
        for (unsigned t = 1; t <= 3; t++) {
            struct answer b = run_engine(p, c, obs, (enum qr_precision)precision, qr_isa_best(), t);
            CHECK(answer_equal(&a, &b), "%s: bits with %u threads, n = %u", what, t, n);
        }
    }
    for (size_t r = 0; r < p->n_obs; r++) qr_observable_fini(&obs[r]);
    qr_circuit_free(c);
}

static void test_large(void) {
    /* 11: two pieces; 15: two tiles; 17: eight */
    static const unsigned sizes[] = {11, 12, 13, 15, 17};
    for (uint64_t seed = 1; seed <= 15; seed++) {
        unsigned n = sizes[seed % 5];
        struct problem p = problem_of(seed + 1000, 5, 30, 2);
        if (seed % 2) {
            qr_observable_fini(&p.obs[p.n_obs - 1]);
            p.obs[p.n_obs - 1] = ref_alike_observable(seed, 5, 60);
        }
        check_scattered(&p, n, seed, seed <= 4 && n < 15, "large");
        problem_fini(&p);
    }
}

static void without_columns(struct qr_circuit *c) {
    for (size_t i = 0; i < c->n_gates; i++)
        for (unsigned k = 0; k < c->gates[i].n_args; k++)
            if (c->gates[i].args[k].kind == QR_ARG_DATA)
                c->gates[i].args[k] = (struct qr_gate_arg){QR_ARG_CONSTANT, 0.37, 0};
    c->n_columns = 0;
}

static void test_structured(void) {
    static const unsigned sizes[] = {10, 12, 13, 15, 17};
    for (uint64_t seed = 1; seed <= 30; seed++) {
        unsigned n = sizes[seed % 5];
        bool data = n >= 12 && seed % 4;
        struct problem p = {.n_samples = data ? 2 : 1, .c = structured_circuit(seed, 60)};
        if (!data) without_columns(p.c);
        problem_draw(&p, seed);
        check_scattered(&p, n, seed, seed % 6 < 2, "structured");
        problem_fini(&p);
    }
}

static void add_gate(struct qr_circuit *c, enum qr_gate_kind kind, unsigned a, unsigned b,
                     const char *param) {
    struct qr_err err;
    struct qr_gate g = {.kind = kind,
                        .n_targets = qr_gate_info(kind)->n_targets,
                        .n_args = 1,
                        .targets = {(uint16_t)a, (uint16_t)b},
                        .args = {{QR_ARG_CONSTANT, 1, 0}}};
    if (param) g.args[0] = (struct qr_gate_arg){QR_ARG_PARAMETER, 1, 0};
    if (param) g.args[0].index = (uint32_t)qr_circuit_param(c, param);
    if (g.n_targets == 1) g.targets[1] = 0;
    if (kind == QR_GATE_CNOT && a % 2) flip_control(&g);
    CHECK(qr_circuit_add(c, &g, &err) == QR_OK, "%s", err.msg);
}

enum { ALL = 99 };

/* Gates on all qubits in two layers, on lanes, inside tiles and across them, against the cones
 * engine. Some gates share angles. The observable has Z of all qubits and X of all or of one: then
 * its terms pair no cells of different tiles in some of the plans, after permutations at the end of
 * the last pass. */
static void test_against_cones(unsigned x) {
    for (unsigned n = 14; n <= 18; n += 2) {
        struct problem p = {.n_samples = 1, .c = qr_circuit_new(n, 0)};
        char name[16], text[1024] = "";
        struct qr_err err;
        for (unsigned q = 0; q < n; q++) add_gate(p.c, QR_GATE_H, q, 0, NULL);
        for (unsigned layer = 0; layer < 2; layer++) {
            for (unsigned q = 0; q < n; q++) {
                snprintf(name, sizeof name, "zz%u_%u", layer, q % 6);
                add_gate(p.c, QR_GATE_ZZ, q, (q + 1) % n, name);
            }
            for (unsigned q = 0; q < n; q++) {
                snprintf(name, sizeof name, "x%u_%u", layer, q % 7);
                add_gate(p.c, layer ? QR_GATE_Y : QR_GATE_X, q, 0, name);
            }
            for (unsigned q = 0; q < n; q++) {
                snprintf(name, sizeof name, "z%u_%u", layer, q % 5);
                add_gate(p.c, QR_GATE_Z, q, 0, name);
            }
            for (unsigned q = 0; q < n && !layer; q += 5)
                add_gate(p.c, QR_GATE_CNOT, q, (q + 2) % n, NULL);
            add_gate(p.c, QR_GATE_SWAP, layer, n - 1, NULL);
        }
        for (unsigned q = 0; q < n && x != ALL; q += 3)
            add_gate(p.c, QR_GATE_CNOT, q, (q + 1) % n, NULL);
        for (unsigned q = 0; q < n; q++) {
            size_t used = strlen(text);
            snprintf(text + used, sizeof text - used, "%sZ%u Z%u", q ? " + " : "", q, (q + 1) % n);
            used = strlen(text);
            if (x == ALL || q == x)
                snprintf(text + used, sizeof text - used, " + %.1f X%u", 0.3 + 0.1 * q, q);
        }
        p.n_obs = 1;
        CHECK(qr_observable_parse(text, n, &p.obs[0], &err) == QR_OK, "%s", err.msg);
        problem_alloc(&p, 0);
        ref_random_numbers(n, p.c->n_params, -2, 2, p.theta);
        p.direction[0] = p.scale[0] = 1;
        struct qr_sim_options o = {
            .precision = QR_DOUBLE, .isa = qr_isa_best(), .engine = QR_ENGINE_CONES};
        struct answer want = answer_of(&p, p.c, p.obs, &o, 0, NULL);
        o.engine = QR_ENGINE_STATEVECTOR;
        for (int precision = 0; precision < 2; precision++) {
            o.precision = (enum qr_precision)precision;
            struct answer a = answer_of(&p, p.c, p.obs, &o, 2, NULL);
            /* The observable has norm n * 2.5 at most, and each angle is in up to 4 gates. */
            double most = tolerance[precision] * n * 2.5;
            CHECK(fabs(a.z[0] - want.z[0]) <= most, "%u: %.17g not %.17g", n, a.z[0], want.z[0]);
            for (unsigned k = 0; k < p.c->n_params; k++)
                CHECK(fabs(qr_fixed_to_double(a.grad[k]) - qr_fixed_to_double(want.grad[k])) <=
                          4 * most,
                      "%u: param %u: %.17g not %.17g", n, k, qr_fixed_to_double(a.grad[k]),
                      qr_fixed_to_double(want.grad[k]));
        }
        problem_fini(&p);
    }
}

/* The same rotation in many layers, whose rounded matrix has the same error each time: in single
 * precision errors must add up like random ones, three a gate. After LAYERS X^beta a qubit has Z =
 * cos(pi LAYERS beta): where this or its derivative is largest, errors of beta do not count. */
static void test_equal_gates(void) {
    enum { QUBITS = 12, LAYERS = 30, GATES = LAYERS * QUBITS };
    const double most = sqrt(3.0 * GATES) * 0x1p-24, pi = 3.14159265358979323846;
    for (unsigned turns = 0; turns < 24; turns++) {
        struct problem p = {.n_samples = 1, .n_obs = 1, .c = qr_circuit_new(QUBITS, 0)};
        struct qr_err err;
        for (unsigned layer = 0; layer < LAYERS; layer++) {
            for (unsigned q = 0; q < QUBITS; q++) add_gate(p.c, QR_GATE_X, q, 0, "beta");
            for (unsigned q = 0; q < QUBITS; q++)
                add_gate(p.c, QR_GATE_ZZ, q, (q + 1) % QUBITS, "zero");
        }
        CHECK(qr_observable_parse("Z0 + Z1 + Z2 + Z3 + Z4 + Z5 + Z6 + Z7 + Z8 + Z9 + Z10 + Z11",
                                  QUBITS, &p.obs[0], &err) == QR_OK,
              "%s", err.msg);
        problem_alloc(&p, 0);
        p.theta[0] = turns * 0.5 / LAYERS;
        p.direction[0] = p.scale[0] = 1;
        struct qr_sim_options o = {
            .precision = QR_SINGLE, .isa = qr_isa_best(), .engine = QR_ENGINE_STATEVECTOR};
        struct answer a = answer_of(&p, p.c, p.obs, &o, 0, NULL);
        double z = a.z[0] / QUBITS, d = qr_fixed_to_double(a.grad[0]) / (QUBITS * LAYERS * pi);
        static const double cosines[4] = {1, 0, -1, 0};
        CHECK(turns % 2 || fabs(z - cosines[turns % 4]) <= most, "%u quarters: %.3g off", turns,
              z - cosines[turns % 4]);
        CHECK(turns % 2 == 0 || fabs(d + cosines[(turns + 3) % 4]) <= most,
              "%u quarters: derivative %.3g off", turns, d + cosines[(turns + 3) % 4]);
        problem_fini(&p);
    }
}

/* Without data the lanes are qubits from 10 on: tiles of 64 cells and more. */
static void test_without_data(void) {
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct problem p = problem_of(seed + 2000, 5, 30, 1);
        without_columns(p.c);
        check_scattered(&p, 9 + (unsigned)(seed % 3), seed, true, "without data");
        problem_fini(&p);
    }
}

/* Workspace of one layer of rotations. */
static size_t workspace_bytes(unsigned n, bool data) {
    struct qr_circuit *c = qr_circuit_new(n, data);
    struct qr_gate g = {.kind = QR_GATE_X, .n_targets = 1, .n_args = 1};
    struct qr_observable o;
    struct qr_sim_plan *plan = NULL;
    struct qr_err err;
    const struct qr_sim_options opt = {
        .precision = QR_SINGLE, .isa = qr_isa_best(), .engine = QR_ENGINE_STATEVECTOR};
    for (unsigned q = 0; q < n; q++) {
        g.targets[0] = (uint16_t)q;
        g.args[0] = (struct qr_gate_arg){data ? QR_ARG_DATA : QR_ARG_CONSTANT, 0.3, 0};
        CHECK(qr_circuit_add(c, &g, &err) == QR_OK, "%s", err.msg);
    }
    CHECK(qr_observable_parse("Z0 Z1", n, &o, &err) == QR_OK &&
              qr_sim_compile(c, &o, 1, &opt, &plan, &err) == QR_OK,
          "%s", err.msg);
    size_t bytes = plan ? qr_sim_bytes_per_thread(plan, 1) : 0;
    qr_sim_plan_free(plan);
    qr_observable_fini(&o);
    qr_circuit_free(c);
    return bytes;
}

/* Without data one state, not sixteen equal ones; with data sixteen samples, up to 11 qubits. */
static void test_workspace_sizes(void) {
    for (unsigned n = 9; n <= 12; n++) {
        double sixteen = (double)((size_t)2 * 16 * 2 * sizeof(float) << n);
        for (int data = 0; data < 2; data++) {
            double states = (double)workspace_bytes(n, data) / (sixteen / 16);
            bool one = n >= (data ? 12 : 10);
            CHECK(one ? states < 4 : states >= 16, "%u qubits, %s: %g states", n,
                  data ? "data" : "no data", states);
        }
    }
}

/* Samples are independent: read-outs do not depend on neighbouring lanes, and a gradient over
 * samples one by one is that of the micro-batch but for one rounding to 2^-64 and the
 * float64 tree. */
static void test_independent_samples(void) {
    struct problem p = problem_of(77, 5, 40, 16);
    struct answer all = run_engine(&p, p.c, p.obs, QR_SINGLE, qr_isa_best(), 0);
    double sum[256] = {0};
    for (size_t s = 0; s < p.n_samples; s++) {
        struct problem one = sample_of(&p, s);
        struct answer a = run_engine(&one, p.c, p.obs, QR_SINGLE, qr_isa_best(), 0);
        CHECK(memcmp(a.z, all.z + s * p.n_obs, p.n_obs * sizeof(double)) == 0);
        for (unsigned k = 0; k < p.c->n_params; k++) sum[k] += qr_fixed_to_double(a.grad[k]);
    }
    for (unsigned k = 0; k < p.c->n_params; k++)
        CHECK(fabs(sum[k] - qr_fixed_to_double(all.grad[k])) <= 1e-12, "%.17g %.17g", sum[k],
              qr_fixed_to_double(all.grad[k]));
    problem_fini(&p);
}

/* A workspace keeps the state after the fixed gates for later samples and parameters: a used one
 * gives the bits of a new one. At 15 qubits a pass reads the kept state in tiles. */
static void test_used_workspace(void) {
    static const unsigned sizes[] = {8, 13, 15};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        unsigned place[64];
        struct problem p = problem_of(500 + i, 5, 40, 1), q = p;
        struct qr_circuit *c = scatter(p.c, sizes[i], 7 + i, false, place);
        struct qr_observable obs[MAX_OBS];
        for (size_t r = 0; r < p.n_obs; r++) obs[r] = move(&p.obs[r], place, 5);
        problem_alloc(&q, p.c->n_columns);
        ref_random_numbers(1, p.c->n_params, -2, 2, q.theta);
        ref_random_numbers(2, p.c->n_columns, -2, 2, q.x);
        ref_random_numbers(3, p.n_obs, -1, 1, q.direction);
        q.scale[0] = 0.7;
        struct answer fresh = run_engine(&q, c, obs, QR_SINGLE, qr_isa_best(), 0), used;
        memset(&used, 0, sizeof used);
        struct qr_sim_options opt = {
            .precision = QR_SINGLE, .isa = qr_isa_best(), .engine = QR_ENGINE_AUTO};
        struct qr_sim_plan *plan = NULL;
        struct qr_sim_workspace *ws = NULL;
        struct qr_err err;
        CHECK(qr_sim_compile(c, obs, p.n_obs, &opt, &plan, &err) == QR_OK &&
                  qr_sim_workspace_new(plan, 1, &ws, &err) == QR_OK,
              "%s", err.msg);
        struct qr_sim_bound *b = qr_sim_bound_new(plan);
        const struct problem *turns[] = {&p, &q};
        for (size_t t = 0; t < COUNT(turns); t++) {
            qr_fixed *grad = t ? used.grad : qr_xcalloc(MAX_PARAMS, sizeof *grad);
            qr_sim_bind(b, turns[t]->theta, NULL);
            qr_sim_forward(b, ws, NULL, turns[t]->x, c->n_columns, 1, used.z);
            used.ok =
                qr_sim_backward(b, ws, NULL, turns[t]->direction, turns[t]->scale, grad, NULL);
            if (!t) free(grad);
        }
        CHECK(answer_equal(&used, &fresh), "n = %u", sizes[i]);
        qr_sim_workspace_free(ws);
        qr_sim_bound_free(b);
        qr_sim_plan_free(plan);
        for (size_t r = 0; r < p.n_obs; r++) qr_observable_fini(&obs[r]);
        qr_circuit_free(c);
        free(q.theta);
        free(q.x);
        free(q.direction);
        free(q.scale);
        problem_fini(&p);
    }
}

static void test_bad_numbers(void) {
    struct problem p = problem_of(78, 4, 30, 3);
    p.scale[1] = INFINITY;
    struct answer a = run_engine(&p, p.c, p.obs, QR_SINGLE, qr_isa_best(), 0);
    bool clean = true;
    for (unsigned k = 0; k < p.c->n_params; k++) clean &= a.grad[k] == 0;
    CHECK(!a.ok && clean);
    problem_fini(&p);
}

static void test_too_large(void) {
    struct qr_err err;
    struct qr_circuit *c = qr_circuit_new(64, 0);
    struct qr_observable o;
    struct qr_sim_plan *plan = NULL;
    CHECK(qr_observable_parse("Z63", 64, &o, &err) == QR_OK);
    struct qr_sim_options opt = {
        .precision = QR_SINGLE, .isa = QR_ISA_PORTABLE, .engine = QR_ENGINE_STATEVECTOR};
    CHECK(qr_sim_compile(c, &o, 1, &opt, &plan, &err) == QR_RESOURCE_EXHAUSTED && !plan);
    CHECK(strstr(err.msg, "64 qubits") && strstr(err.msg, "29514790517935") &&
              strstr(err.msg, "this process may use"),
          "%s", err.msg);
    qr_observable_fini(&o);
    qr_circuit_free(c);
}

/* More gates than memory for their plan: rejected before anything is planned. */
static void test_too_many_gates(void) {
    struct qr_err err;
    const struct qr_circuit c = {.n_qubits = 8, .n_gates = (size_t)1 << 50};
    struct qr_sim_plan *plan = NULL;
    struct qr_sim_options opt = {
        .precision = QR_SINGLE, .isa = QR_ISA_PORTABLE, .engine = QR_ENGINE_AUTO};
    CHECK(qr_sim_compile(&c, NULL, 0, &opt, &plan, &err) == QR_RESOURCE_EXHAUSTED && !plan);
    CHECK(strstr(err.msg, "1125899906842624 gates: planning needs about 159877") &&
              strstr(err.msg, "use fewer gates"),
          "%s", err.msg);
}

/* 2^18 gates with a weight each: comparing all pairs would take a quarter of an hour, the limit of
 * a test. Each weight has its own number and is in the plan once. */
static void test_many_weights(void) {
    enum { N = 1 << 18, QUBITS = 4 };
    struct qr_err err;
    struct qr_circuit *c = qr_circuit_new(QUBITS, 0);
    struct qr_observable o;
    struct qr_sim_plan *plan = NULL;
    bool added = true;
    CHECK(qr_observable_parse("Z0", QUBITS, &o, &err) == QR_OK);
    for (unsigned i = 0; i < N; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%u", i);
        const struct qr_gate turn = {.kind = QR_GATE_Y,
                                     .n_targets = 1,
                                     .n_args = 1,
                                     .targets = {i % QUBITS},
                                     .args = {{QR_ARG_PARAMETER, 1,
                                               qr_circuit_append_param(c, name)}}},
                             join = {.kind = QR_GATE_CZ,
                                     .n_targets = 2,
                                     .n_args = 1,
                                     .targets = {i / QUBITS % QUBITS, (i / QUBITS + 1) % QUBITS},
                                     .args = {{QR_ARG_CONSTANT, 1, 0}}};
        added &= qr_circuit_add(c, &turn, &err) == QR_OK;
        if (i % QUBITS == QUBITS - 1) added &= qr_circuit_add(c, &join, &err) == QR_OK;
    }
    CHECK(added);
    struct qr_sim_options opt = {
        .precision = QR_SINGLE, .isa = QR_ISA_PORTABLE, .engine = QR_ENGINE_STATEVECTOR};
    CHECK(qr_sim_compile(c, &o, 1, &opt, &plan, &err) == QR_OK, "%s", err.msg);
    CHECK(plan && plan->n_numbers == N + 1, "%zu numbers", plan ? plan->n_numbers : 0);
    size_t n = 0;
    for (size_t i = 0; plan && i < plan->n_fused; i++)
        n += plan->shapes[plan->fused[i].shape].n_ops;
    CHECK(n == c->n_gates, "%zu of %zu gates", n, c->n_gates);
    qr_sim_plan_free(plan);
    qr_observable_fini(&o);
    qr_circuit_free(c);
}

/* Beyond 64 qubits no engine with masks of 64 bits is tried; and the cones engine supports no gate
 * on so many qubits. */
static void test_too_many_qubits(void) {
    struct qr_err err;
    for (unsigned n = 65; n <= QR_MAX_QUBITS; n += QR_MAX_QUBITS - 65) {
        struct qr_circuit *c = qr_circuit_new(n, 0);
        struct qr_gate h = {.kind = QR_GATE_ISWAP,
                            .n_targets = 2,
                            .n_args = 1,
                            .targets = {0, (uint16_t)(n - 1)},
                            .args = {{QR_ARG_CONSTANT, 0.5, 0}}};
        for (unsigned q = 1; q + 1 < n; q++) qr_qubits_add(&h.controls, q);
        CHECK(qr_circuit_add(c, &h, &err) == QR_OK, "%s", err.msg);
        struct qr_observable o;
        CHECK(qr_observable_parse("X64", n, &o, &err) == QR_OK);
        for (int named = 0; named < 2; named++) {
            struct qr_sim_options opt = {.precision = QR_SINGLE,
                                         .isa = QR_ISA_PORTABLE,
                                         .engine = named ? QR_ENGINE_STATEVECTOR : QR_ENGINE_AUTO};
            struct qr_sim_plan *plan = NULL;
            char qubits[32];
            snprintf(qubits, sizeof qubits, "of %u qubits: ", n);
            CHECK(qr_sim_compile(c, &o, 1, &opt, &plan, &err) == QR_RESOURCE_EXHAUSTED && !plan);
            CHECK(strstr(err.msg, qubits) && strstr(err.msg, "statevector: at most 64 qubits") &&
                      (strstr(err.msg, "streaming: at most 64 qubits; ") != NULL) == !named &&
                      (strstr(err.msg, "cones: the cone of a term") != NULL) == !named,
                  "%s", err.msg);
        }
        qr_observable_fini(&o);
        qr_circuit_free(c);
    }
}

static void test_names(void) {
    struct qr_err err;
    enum qr_isa isa = QR_ISA_AVX2;
    CHECK(qr_isa_parse("portable", &isa, &err) == QR_OK && isa == QR_ISA_PORTABLE);
    CHECK(qr_isa_parse("avx51", &isa, &err) == QR_INVALID_ARGUMENT && strstr(err.msg, "\"avx512\""),
          "%s", err.msg);
    CHECK(isa == QR_ISA_PORTABLE);
    for (int i = 0; i < QR_ISAS; i++) {
        enum qr_code code = qr_isa_parse(qr_isa_name((enum qr_isa)i), &isa, &err);
        CHECK(qr_isa_available((enum qr_isa)i) ? code == QR_OK && isa == (enum qr_isa)i
                                               : code == QR_INVALID_ARGUMENT);
    }
}

int main(void) {
    test_names();
    test_too_large();
    test_too_many_gates();
    test_many_weights();
    test_too_many_qubits();
    test_small();
    test_independent_samples();
    test_used_workspace();
    test_bad_numbers();
    test_large();
    test_without_data();
    test_structured();
    test_against_cones(ALL);
    for (unsigned x = 0; x < 14; x += 3) test_against_cones(x);
    test_equal_gates();
    test_workspace_sizes();
    return t_end();
}
