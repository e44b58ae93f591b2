/* Circuits with noise: the exact engines against full density matrices, and their derivatives
 * against finite differences; trajectories against the exact engines, within bounds that follow
 * from their spread; equal bits over tables. */
#include "base/mem.h"
#include "base/pool.h"
#include "sim/sim.h"
#include "tests/ref/dense.h"
#include "tests/ref/noisy.h"
#include "tests/t.h"

#include <math.h>

enum { MOST = 64, READOUTS = 2 };

struct noisy {
    struct qr_circuit *c;
    struct qr_observable obs[READOUTS];
    double theta[MOST], x[NOISY_MAX_QUBITS * 2], direction[READOUTS * 2], scale[2];
    uint8_t wanted[NOISY_MAX_QUBITS];
    size_t n_samples;
};
struct result {
    double z[READOUTS * 2], grad[MOST], dx[NOISY_MAX_QUBITS * 2];
    char engine[64];
};

static struct noisy noisy_new(uint64_t seed, unsigned n, unsigned n_gates, unsigned n_channels) {
    struct noisy p = {.c = noisy_random_circuit(seed, n, n_gates, n_channels), .n_samples = 2};
    for (size_t r = 0; r < READOUTS; r++) p.obs[r] = ref_random_observable(seed * 7 + r, n);
    CHECK(p.c->n_params <= MOST);
    noisy_random_parameters(seed + 1, p.c, p.theta);
    ref_random_numbers(seed + 2, n * 2, -1, 1, p.x);
    ref_random_numbers(seed + 3, READOUTS * 2, -1, 1, p.direction);
    ref_random_numbers(seed + 4, 2, -2, 2, p.scale);
    memset(p.wanted, 1, sizeof p.wanted);
    return p;
}
/* The same with measurements and gates that depend on them. With an odd seed there is no noise, and
 * a bit is set once. */
static struct noisy measuring_new(uint64_t seed, bool any_channel) {
    unsigned n = 1 + seed % 3, n_gates = 6 + seed % 9;
    struct noisy p = noisy_new(seed, n, n_gates, 4);
    struct qr_circuit *plain = seed % 2 ? ref_random_circuit(seed, n, n_gates) : NULL,
                      *c = noisy_with_measurements(seed, plain ? plain : p.c, plain ? 3 : 2, plain,
                                                   any_channel);
    qr_circuit_free(plain);
    qr_circuit_free(p.c);
    p.c = c;
    return p;
}
static void noisy_free(struct noisy *p) {
    qr_circuit_free(p->c);
    for (size_t r = 0; r < READOUTS; r++) qr_observable_fini(&p->obs[r]);
}

/* Returns false if the engine does not support the circuit. */
static bool run_noisy(const struct noisy *p, struct qr_sim_options opt, uint64_t key,
                      struct result *ret) {
    struct qr_sim_plan *plan;
    struct qr_sim_workspace *ws;
    struct qr_err err;
    qr_fixed grad[MOST] = {0};
    memset(ret, 0, sizeof *ret);
    if (qr_sim_compile(p->c, p->obs, READOUTS, &opt, &plan, &err) != QR_OK) return false;
    struct qr_sim_bound *b = qr_sim_bound_new(plan);
    qr_sim_bind(b, p->theta, NULL);
    CHECK(qr_sim_workspace_new(plan, 2, &ws, &err) == QR_OK, "%s", err.msg);
    qr_sim_set_draw(ws, &(struct qr_sim_draw){.key = key});
    qr_sim_forward_for_gradient(b, ws, NULL, p->x, p->c->n_columns, p->n_samples, NULL, ret->z);
    CHECK(qr_sim_backward(b, ws, NULL, p->direction, p->scale, grad, ret->dx));
    for (unsigned k = 0; k < p->c->n_params; k++) ret->grad[k] = qr_fixed_to_double(grad[k]);
    snprintf(ret->engine, sizeof ret->engine, "%s", qr_sim_engine_name(plan));
    qr_sim_workspace_free(ws);
    qr_sim_bound_free(b);
    qr_sim_plan_free(plan);
    return true;
}

/* Sum over samples and read-outs. */
static double loss(const struct noisy *p, const double *theta, const double *x) {
    double z[READOUTS], sum = 0;
    for (size_t s = 0; s < p->n_samples; s++) {
        noisy_expectation(p->c, theta, x + s * p->c->n_columns, p->obs, READOUTS, z);
        for (size_t r = 0; r < READOUTS; r++)
            sum += p->scale[s] * p->direction[s * READOUTS + r] * z[r];
    }
    return sum;
}

/* Derivative by differences of fourth order. Step 1e-3: an argument is at most 2 pi times a
 * parameter, so the fifth derivative is below (4 pi)^5 times the sum of the coefficients and
 * scales, the error below 1e-12 / 30 times that: 1e-8 for sums below 1; and rounding, 1e-16
 * / 1e-3. */
static double finite_difference(const struct noisy *p, double *at) {
    double h = 1e-3, v = *at, f[4];
    for (int i = 0; i < 4; i++) {
        *at = v + h * (i < 2 ? i - 2 : i - 1);
        f[i] = loss(p, p->theta, p->x);
    }
    *at = v;
    return (f[0] - 8 * f[1] + 8 * f[2] - f[3]) / (12 * h);
}

static double coefficients(const struct noisy *p) {
    double sum = 0;
    for (size_t r = 0; r < READOUTS; r++)
        for (size_t t = 0; t < p->obs[r].n_terms; t++) sum += fabs(p->obs[r].terms[t].coefficient);
    return sum;
}

/* At most 100 operations of float64 in a row. */
static void test_exact_engines(bool measuring) {
    unsigned n_cones = 0, n_density = 0;
    double worst_z = 0, worst_grad = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct noisy p = measuring ? measuring_new(seed, false)
                                   : noisy_new(seed, 1 + seed % 4, 6 + seed % 9, 3 + seed % 6);
        unsigned n = p.c->n_qubits;
        double bound = 1e-13 * (1 + coefficients(&p)), grad[MOST], dx[NOISY_MAX_QUBITS * 2];
        for (unsigned k = 0; k < p.c->n_params; k++) grad[k] = finite_difference(&p, &p.theta[k]);
        for (unsigned k = 0; k < 2 * n; k++) dx[k] = finite_difference(&p, &p.x[k]);
        for (int engine = 0; engine < 2; engine++) {
            struct result r;
            if (!run_noisy(
                    &p,
                    (struct qr_sim_options){.precision = QR_DOUBLE,
                                            .isa = qr_isa_best(),
                                            .engine = engine ? QR_ENGINE_DENSITY : QR_ENGINE_CONES,
                                            .wanted = p.wanted,
                                            .method = QR_METHOD_EXACT},
                    0, &r))
                continue;
            ++*(engine ? &n_density : &n_cones);
            for (size_t s = 0; s < p.n_samples; s++) {
                double z[READOUTS];
                noisy_expectation(p.c, p.theta, p.x + s * n, p.obs, READOUTS, z);
                for (size_t k = 0; k < READOUTS; k++) {
                    double off = fabs(r.z[s * READOUTS + k] - z[k]);
                    if (!(off <= worst_z)) worst_z = off;
                    CHECK(off <= bound, "seed %d %s: %g, off %g", (int)seed, r.engine, z[k], off);
                }
            }
            double large = 1e-8 * (1 + coefficients(&p)) * 8;
            for (unsigned k = 0; k < p.c->n_params; k++) {
                double off = fabs(r.grad[k] - grad[k]);
                if (!(off <= worst_grad)) worst_grad = off;
                CHECK(off <= large, "seed %d %s %s: %g, off %g", (int)seed, r.engine,
                      p.c->param_names[k], grad[k], off);
            }
            for (unsigned k = 0; k < 2 * n; k++)
                CHECK(fabs(r.dx[k] - dx[k]) <= large, "seed %d %s input %u: %g, not %g", (int)seed,
                      r.engine, k, r.dx[k], dx[k]);
        }
        noisy_free(&p);
    }
    /* Some circuits have no noise once their measurements are deferred. */
    CHECK(n_cones > 40 && n_density >= (measuring ? 40 : 60), "%u and %u", n_cones, n_density);
    printf("exact%s: largest error %.2g, of derivatives %.2g\n",
           measuring ? " with measurements" : "", worst_z, worst_grad);
}

/* Trajectories: REPEATS estimates with keys of their own. The mean's distance from the exact value
 * over its standard error is Student's t with REPEATS - 1 degrees of freedom: above BOUND once in
 * 10^9, so in 10^5 numbers once in 10^4 runs of new seeds (these are fixed). Numbers whose spread
 * is rounding are compared as such. */
enum { REPEATS = 48, EACH = 64 };
#define BOUND 7.6

static void score(double exact, const double *values, double rounding, uint64_t seed,
                  const char *what, double *worst) {
    double mean = 0, square = 0;
    for (int i = 0; i < REPEATS; i++) mean += values[i] / REPEATS;
    for (int i = 0; i < REPEATS; i++) square += (values[i] - mean) * (values[i] - mean);
    double deviation = sqrt(square / (REPEATS - 1) / REPEATS);
    if (fabs(mean - exact) <= rounding) return;
    double t = fabs(mean - exact) / deviation;
    if (!(t <= *worst)) *worst = t;
    CHECK(t < BOUND, "seed %d, %s: exact %g, mean %g, z-score %.2f", (int)seed, what, exact, mean,
          t);
}

/* The derivative of a rare outcome's probability p is up to 2 sqrt(p) times that of an angle, but
 * the REPEATS * EACH trajectories sample it 3072 p times: their spread is meaningless until that is
 * large. Known where the states between measurements are pure. */
static bool has_rare_outcomes(const struct noisy *p) {
    bool rare = false;
    for (size_t s = 0; s < p->n_samples; s++)
        rare |= noisy_least_outcome(p->c, p->theta, p->x + s * p->c->n_columns) < 0.01;
    return rare;
}

static void test_trajectories(bool measuring) {
    double worst = 0, worst_grad = 0;
    unsigned n_tested = 0;
    for (uint64_t seed = 1; n_tested < (measuring ? 100 : 200); seed++) {
        struct noisy p = measuring ? measuring_new(seed, false)
                                   : noisy_new(seed, 1 + seed % 4, 6 + seed % 9, 3 + seed % 6);
        unsigned n = p.c->n_qubits;
        bool read_outs_alone = measuring && seed % 2 == 0;
        if (measuring && !read_outs_alone && has_rare_outcomes(&p)) {
            noisy_free(&p);
            continue;
        }
        n_tested++;
        struct result exact, r[REPEATS];
        struct qr_sim_options opt = {.precision = QR_DOUBLE,
                                     .isa = qr_isa_best(),
                                     .engine = measuring ? QR_ENGINE_AUTO : QR_ENGINE_DENSITY,
                                     .method = QR_METHOD_EXACT,
                                     .wanted = p.wanted};
        double values[REPEATS], rounding = 1e-10 * (1 + coefficients(&p));
        CHECK(run_noisy(&p, opt, 0, &exact));
        opt.engine = QR_ENGINE_STATEVECTOR;
        opt.method = QR_METHOD_TRAJECTORIES;
        opt.n_trajectories = EACH;
        for (uint64_t i = 0; i < REPEATS; i++) CHECK(run_noisy(&p, opt, seed * 1000 + i, &r[i]));
        for (size_t k = 0; k < READOUTS * 2; k++) {
            for (int i = 0; i < REPEATS; i++) values[i] = r[i].z[k];
            score(exact.z[k], values, rounding, seed, "read-out", &worst);
        }
        for (unsigned k = 0; k < p.c->n_params && !read_outs_alone; k++) {
            for (int i = 0; i < REPEATS; i++) values[i] = r[i].grad[k];
            score(exact.grad[k], values, rounding, seed, p.c->param_names[k], &worst_grad);
        }
        for (unsigned k = 0; k < 2 * n && !read_outs_alone; k++) {
            for (int i = 0; i < REPEATS; i++) values[i] = r[i].dx[k];
            score(exact.dx[k], values, rounding, seed, "input", &worst_grad);
        }
        noisy_free(&p);
    }
    printf("trajectories%s: largest z-score %.2f, of derivatives %.2f\n",
           measuring ? " with measurements" : "", worst, worst_grad);
}

static void add(struct qr_circuit *c, enum qr_gate_kind kind, uint16_t a, uint16_t b,
                struct qr_gate_arg arg, int bit, bool value) {
    const struct qr_gate_info *info = qr_gate_info(kind);
    struct qr_condition on = {{{0}}, {{0}}};
    struct qr_gate g = {
        .kind = kind, .n_targets = info->n_targets, .n_args = 1, .targets = {a, b}, .args = {arg}};
    if (bit >= 0) {
        qr_qubits_add(&on.bits, (unsigned)bit);
        if (value) qr_qubits_add(&on.values, (unsigned)bit);
        g.condition = qr_conditions_add(&c->conditions, &on);
    }
    CHECK(qr_circuit_add(c, &g, QR_IGNORED) == QR_OK);
}

/* A qubit's state is teleported over n qubits and rotated by a weight and an input for either value
 * of the first bit. Each trajectory has the read-outs and derivatives of the qubit alone. At 13
 * qubits lanes are qubits, and gates are reordered unless their bits forbid it. */
static void test_teleportation(unsigned n) {
    const struct qr_gate_arg one = {QR_ARG_CONSTANT, 1, 0}, w = {QR_ARG_PARAMETER, 0.7, 0},
                             v = {QR_ARG_PARAMETER, 1, 1}, x = {QR_ARG_DATA, 1, 0};
    struct qr_err err;
    struct result r[2];
    for (int whole = 0; whole < 2; whole++) {
        uint16_t last = (uint16_t)(whole ? n - 1 : 0);
        struct noisy p = {.c = qr_circuit_new(whole ? n : 1, 1),
                          .n_samples = 2,
                          .theta = {0.3, -0.8},
                          .x = {0.4, 1.7},
                          .direction = {1, 0.3, -0.2, 0.6},
                          .scale = {1, 0.5},
                          .wanted = {1}};
        struct qr_channel m = {.info = qr_channel_info_of("Measure", 1)};
        uint32_t measure = qr_circuit_channel(p.c, &m);
        (void)qr_circuit_param(p.c, "w");
        (void)qr_circuit_param(p.c, "w1");
        add(p.c, QR_GATE_Y, 0, 0, w, -1, false);
        for (uint16_t q = 0; q < last; q += 2) {
            add(p.c, QR_GATE_H, q + 1, 0, one, -1, false);
            add(p.c, QR_GATE_CNOT, q + 1, q + 2, one, -1, false);
            add(p.c, QR_GATE_CNOT, q, q + 1, one, -1, false);
            add(p.c, QR_GATE_H, q, 0, one, -1, false);
            for (uint16_t k = 0; k < 2; k++) {
                CHECK(qr_circuit_add_channel(p.c, measure, &(uint16_t){q + k}, &err) == QR_OK);
                struct qr_gate g = p.c->gates[--p.c->n_gates];
                g.bit = (uint16_t)(q + k + 1);
                CHECK(qr_circuit_add(p.c, &g, &err) == QR_OK, "%s", err.msg);
            }
            add(p.c, QR_GATE_X, q + 2, 0, one, q + 1, true);
            add(p.c, QR_GATE_Z, q + 2, 0, one, q, true);
        }
        for (int value = 0; value < (whole ? 2 : 1); value++) {
            add(p.c, QR_GATE_X, last, 0, v, whole ? 0 : -1, value);
            add(p.c, QR_GATE_Y, last, 0, x, whole ? 0 : -1, value);
        }
        for (size_t k = 0; k < READOUTS; k++) {
            char text[32];
            if (k) snprintf(text, sizeof text, "0.5*Y%u - Z%u", last, last);
            else snprintf(text, sizeof text, "X%u", last);
            CHECK(qr_observable_parse(text, p.c->n_qubits, &p.obs[k], &err) == QR_OK);
        }
        struct qr_sim_options opt = {.precision = QR_DOUBLE,
                                     .isa = qr_isa_best(),
                                     .n_trajectories = 40,
                                     .method = whole ? QR_METHOD_TRAJECTORIES : QR_METHOD_AUTO,
                                     .wanted = p.wanted};
        CHECK(run_noisy(&p, opt, n, &r[whole]));
        noisy_free(&p);
    }
    double worst = 0;
    for (size_t k = 0; k < READOUTS * 2; k++) worst = t_worst(worst, fabs(r[1].z[k] - r[0].z[k]));
    for (size_t k = 0; k < 2; k++) worst = t_worst(worst, fabs(r[1].grad[k] - r[0].grad[k]));
    for (size_t k = 0; k < 2; k++) worst = t_worst(worst, fabs(r[1].dx[k] - r[0].dx[k]));
    /* about 100 operations in a row, derivatives of at most 2 pi */
    CHECK(worst < 1e-12 && r[0].grad[1] != 0 && r[0].dx[1] != 0, "%u qubits: off %g", n, worst);
}

/* Qubit 12 is a lane, in state 1, and its measurement waits for other qubits; a gate on qubit 0
 * that depends on the bit must wait too. */
static void test_order_of_bits(void) {
    struct noisy p = {
        .c = qr_circuit_new(13, 0), .n_samples = 1, .theta = {1}, .direction = {1}, .scale = {1}};
    struct qr_channel m = {.info = qr_channel_info_of("Measure", 1)};
    struct qr_gate measure = {.kind = QR_GATE_CHANNEL,
                              .n_targets = 1,
                              .targets = {12},
                              .bit = 1,
                              .channel = qr_circuit_channel(p.c, &m)};
    struct qr_err err;
    struct result r;
    (void)qr_circuit_param(p.c, "one"); /* gates without weights run in earlier passes */
    for (uint16_t q = 0; q < 13; q++)
        add(p.c, QR_GATE_X, q, 0, (struct qr_gate_arg){QR_ARG_PARAMETER, 1, 0}, -1, false);
    for (uint16_t q = 0; q < 12; q += q < 10 ? 2 : 1) /* only signs; qubit 12 is used last */
        add(p.c, QR_GATE_CZ, q, q + 1, (struct qr_gate_arg){QR_ARG_CONSTANT, 1, 0}, -1, false);
    CHECK(qr_circuit_add(p.c, &measure, &err) == QR_OK, "%s", err.msg);
    add(p.c, QR_GATE_X, 0, 0, (struct qr_gate_arg){QR_ARG_CONSTANT, 1, 0}, 0, true);
    for (size_t k = 0; k < READOUTS; k++)
        CHECK(qr_observable_parse(k ? "Z12" : "Z0", 13, &p.obs[k], &err) == QR_OK);
    CHECK(run_noisy(&p,
                    (struct qr_sim_options){.precision = QR_DOUBLE,
                                            .isa = qr_isa_best(),
                                            .n_trajectories = 2,
                                            .method = QR_METHOD_TRAJECTORIES},
                    0, &r));
    CHECK(fabs(r.z[0] - 1) < 1e-12 && fabs(r.z[1] + 1) < 1e-12, "%g, %g", r.z[0], r.z[1]);
    noisy_free(&p);
}

/* Channels that depend on bits and have no exact equivalent: trajectories against full density
 * matrices. */
static void test_conditional_channels(void) {
    double worst = 0;
    for (uint64_t seed = 2; seed <= 40; seed += 2) {
        struct noisy p = measuring_new(seed, true);
        struct qr_sim_options opt = {.precision = QR_DOUBLE,
                                     .isa = qr_isa_best(),
                                     .method = QR_METHOD_TRAJECTORIES,
                                     .n_trajectories = EACH};
        struct result r[REPEATS];
        double exact[READOUTS], values[REPEATS];
        for (uint64_t i = 0; i < REPEATS; i++) CHECK(run_noisy(&p, opt, seed * 1000 + i, &r[i]));
        noisy_expectation(p.c, p.theta, p.x, p.obs, READOUTS, exact);
        for (size_t k = 0; k < READOUTS; k++) {
            for (int i = 0; i < REPEATS; i++) values[i] = r[i].z[k];
            score(exact[k], values, 1e-10 * (1 + coefficients(&p)), seed, "read-out", &worst);
        }
        noisy_free(&p);
    }
    printf("conditional channels: largest z-score %.2f\n", worst);
}

static double max_difference(const struct result *a, const struct result *b) {
    double worst = 0;
    for (size_t k = 0; k < READOUTS * 2; k++) worst = t_worst(worst, fabs(a->z[k] - b->z[k]));
    for (size_t k = 0; k < MOST; k++) worst = t_worst(worst, fabs(a->grad[k] - b->grad[k]));
    for (size_t k = 0; k < 2; k++) worst = t_worst(worst, fabs(a->dx[k] - b->dx[k]));
    return worst;
}

/* For a circuit whose gates depend on bits, "auto" is exact or has the same trajectories. */
static void test_auto(void) {
    unsigned n_exact = 0, n_drawn = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct noisy p = measuring_new(seed, seed % 4 == 2);
        struct qr_sim_options opt = {
            .precision = QR_DOUBLE, .isa = qr_isa_best(), .n_trajectories = 1 + seed % 16};
        struct result chosen, drawn;
        double exact[READOUTS], rounding = 1e-10 * (1 + coefficients(&p));
        bool is_exact = true;
        CHECK(run_noisy(&p, opt, seed, &chosen));
        opt.method = QR_METHOD_TRAJECTORIES;
        CHECK(run_noisy(&p, opt, seed, &drawn));
        noisy_expectation(p.c, p.theta, p.x, p.obs, READOUTS, exact);
        for (size_t k = 0; k < READOUTS; k++)
            is_exact = is_exact && fabs(chosen.z[k] - exact[k]) <= rounding;
        CHECK(is_exact || max_difference(&chosen, &drawn) == 0,
              "seed %llu: %s, neither exact nor drawn", (unsigned long long)seed, chosen.engine);
        n_exact += is_exact;
        n_drawn += !is_exact;
        noisy_free(&p);
    }
    CHECK(n_exact > 20 && n_drawn > 20, "%u exact, %u drawn", n_exact, n_drawn);
}

enum { QUBITS = 12, GATES = 8 * QUBITS };
static struct noisy wide_new(void) {
    struct qr_err err;
    struct noisy p = {
        .c = qr_circuit_new(QUBITS, 0), .n_samples = 1, .direction = {1, -0.6}, .scale = {1}};
    struct qr_channel flip = {.info = qr_channel_info_of("Depolarize", 1),
                              .args = {{QR_ARG_CONSTANT, 0.2, 0}}};
    uint32_t channel = qr_circuit_channel(p.c, &flip);
    ref_random_numbers(5, MOST, -1, 1, p.theta);
    for (uint16_t i = 0; i < GATES; i++) {
        char name[16];
        uint16_t q = i % QUBITS, next = (q + 1) % QUBITS;
        snprintf(name, sizeof name, "w%u", i % MOST);
        if (i < MOST) (void)qr_circuit_param(p.c, name);
        const struct qr_gate_arg w = {QR_ARG_PARAMETER, 1, i % MOST};
        add(p.c, i / QUBITS % 2 ? QR_GATE_XX : QR_GATE_Y, q, next, w, -1, false);
        add(p.c, i / QUBITS % 2 ? QR_GATE_ZZ : QR_GATE_X, q, next, w, -1, false);
        CHECK(qr_circuit_add_channel(p.c, channel, &q, &err) == QR_OK);
        add(p.c, QR_GATE_Z, q, 0, w, -1, false);
    }
    CHECK(qr_observable_parse("X0 + Z3 Z7", QUBITS, &p.obs[0], &err) == QR_OK);
    CHECK(qr_observable_parse("Y5 - 0.5*Z11", QUBITS, &p.obs[1], &err) == QR_OK);
    return p;
}

/* Pauli errors and data on n qubits. flips: gates and errors permute basis states. alone: a final
 * channel without effect prevents trajectories from sharing their prefix. */
static struct noisy prefix_new(uint64_t seed, unsigned n, double p_error, bool flips, bool alone) {
    struct qr_err err;
    struct noisy p = {.c = qr_circuit_new(n, 1),
                      .n_samples = 1 + seed % 3 / 2,
                      .direction = {1, 0.3, -0.7, 0.2},
                      .scale = {1, 0.5},
                      .wanted = {1}};
    const struct qr_gate_arg one = {QR_ARG_CONSTANT, 1, 0}, x = {QR_ARG_DATA, 1, 0};
    struct qr_channel error = {.info = qr_channel_info_of(flips ? "BitFlip" : "Depolarize", 1),
                               .args = {{QR_ARG_CONSTANT, p_error, 0}}},
                      nothing = {.info = qr_channel_info_of("AmplitudeDamping", 1),
                                 .args = {{QR_ARG_CONSTANT, 0, 0}}};
    uint32_t channel = qr_circuit_channel(p.c, &error);
    ref_random_numbers(seed, MOST, -1, 1, p.theta);
    ref_random_numbers(seed + 1, 2, -1, 1, p.x);
    for (unsigned k = 0; flips && k < MOST; k++) p.theta[k] = k % 2; /* X^0 and X^1 */
    for (unsigned k = 0; flips && k < 2; k++) p.x[k] = k;
    for (uint16_t i = 0; i < MOST; i++) {
        char name[16];
        uint16_t q = (uint16_t)(i % n), next = i < n ? q ^ 1 : (uint16_t)((q + 1) % n);
        const struct qr_gate_arg w = {QR_ARG_PARAMETER, 1, i};
        snprintf(name, sizeof name, "w%u", i);
        (void)qr_circuit_param(p.c, name);
        add(p.c, flips || i / n % 2 ? QR_GATE_X : QR_GATE_Y, q, next, w, -1, false);
        if (q == 2) add(p.c, QR_GATE_X, q, next, x, -1, false);
        add(p.c, flips ? QR_GATE_CNOT : QR_GATE_ZZ, q, next, flips ? one : w, -1, false);
        CHECK(qr_circuit_add_channel(p.c, channel, &q, &err) == QR_OK);
    }
    if (alone) channel = qr_circuit_channel(p.c, &nothing);
    if (alone) CHECK(qr_circuit_add_channel(p.c, channel, &(uint16_t){0}, &err) == QR_OK);
    CHECK(qr_observable_parse(flips ? "Z0 - 0.5*Z3 Z5" : "X0 + Z3 Y5", n, &p.obs[0], &err) ==
          QR_OK);
    CHECK(qr_observable_parse("Z1 + 0.5*Z9", n, &p.obs[1], &err) == QR_OK);
    return p;
}

/* On 12 qubits (one tile) and 16 (several), trajectories continue the sweep without errors, and
 * give the same as trajectories with the same draws that do not. With few errors and many: all,
 * some or no trajectories have some; 16 qubits, and 700 trajectories, have more of them than
 * waiting lambdas. */
static void test_shared_prefix(void) {
    static const double errors[] = {0, 0.002, 0.02, 0.3};
    double worst = 0;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        struct result r[2];
        for (int alone = 0; alone < 2; alone++) {
            struct noisy p =
                prefix_new(seed, seed % 2 ? 12 : 16, errors[seed / 2 % 4], false, alone);
            struct qr_sim_options opt = {.precision = QR_DOUBLE,
                                         .isa = qr_isa_best(),
                                         .engine = QR_ENGINE_STATEVECTOR,
                                         .n_trajectories = seed == 13 ? 700 : 1 + seed,
                                         .method = QR_METHOD_TRAJECTORIES,
                                         .wanted = p.wanted};
            CHECK(run_noisy(&p, opt, seed, &r[alone]));
            noisy_free(&p);
        }
        worst = t_worst(worst, max_difference(&r[0], &r[1]));
    }
    /* about 150 operations in a row, derivatives of at most 2 pi for each of a weight's gates */
    CHECK(worst < 150 * 4 * M_PI * 0x1p-53 * 4, "%.3g", worst);
    printf("trajectories that share their prefix: %.2g from those that do not\n", worst);
}

/* If each trajectory is one basis state, its shots are equal, and means over shots are means over
 * trajectories. */
static void test_shared_prefix_of_shots(void) {
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct result r[2];
        for (int shots = 0; shots < 2; shots++) {
            struct noisy p = prefix_new(seed, 12, seed % 2 ? 0.01 : 0.1, true, false);
            struct qr_sim_options opt = {.precision = QR_DOUBLE,
                                         .isa = qr_isa_best(),
                                         .engine = QR_ENGINE_STATEVECTOR,
                                         .n_trajectories = 40,
                                         .shots = shots ? 80 : 0,
                                         .method = QR_METHOD_TRAJECTORIES,
                                         .wanted = p.wanted};
            CHECK(run_noisy(&p, opt, seed, &r[shots]));
            noisy_free(&p);
        }
        CHECK(max_difference(&r[0], &r[1]) < 1e-12, "seed %llu: %.3g", (unsigned long long)seed,
              max_difference(&r[0], &r[1]));
    }
}

/* With lanes as qubits, matrices with errors are in single precision: the same trajectories as in
 * double precision, on 12 qubits. Derivatives of gates before and after an error. */
static void check_single_precision(struct noisy p, unsigned n_trajectories) {
    struct result r[2];
    for (int single = 0; single < 2; single++) {
        struct qr_sim_options opt = {.precision = single ? QR_SINGLE : QR_DOUBLE,
                                     .isa = qr_isa_best(),
                                     .engine = QR_ENGINE_STATEVECTOR,
                                     .n_trajectories = n_trajectories,
                                     .method = QR_METHOD_TRAJECTORIES};
        CHECK(run_noisy(&p, opt, 3, &r[single]));
    }
    double worst = 0;
    for (size_t k = 0; k < READOUTS; k++) worst = t_worst(worst, fabs(r[1].z[k] - r[0].z[k]));
    for (size_t k = 0; k < MOST; k++) worst = t_worst(worst, fabs(r[1].grad[k] - r[0].grad[k]));
    /* 4 gates at a position, each with numbers and sums of 2^-24 in a norm of 1, times the
     * operators' norm of 3.5; a weight has two positions. */
    CHECK(worst <= 2 * 3.5 * 4 * GATES * 0x1p-24, "%.3g", worst);
    printf("12 qubits with errors: single precision %.2g from double\n", worst);
    noisy_free(&p);
}

enum { SHOTS = 37 };
struct shared_results {
    struct result r[2]; /* of two backward sweeps */
    uint64_t strings[2 * SHOTS], bits[2 * SHOTS];
};

/* alone: the second forward sweep runs on one thread. */
static void run_shared(struct noisy *p, const struct qr_sim_options *opt, struct qr_pool *pool,
                       bool alone, struct shared_results *ret) {
    struct qr_sim_plan *plan;
    struct qr_sim_workspace *ws;
    struct qr_err err;
    memset(ret, 0, sizeof *ret);
    CHECK(qr_sim_compile(p->c, p->obs, READOUTS, opt, &plan, &err) == QR_OK, "%s", err.msg);
    CHECK(qr_sim_threads_share(plan));
    struct qr_sim_bound *b = qr_sim_bound_new(plan);
    qr_sim_bind(b, p->theta, NULL);
    CHECK(qr_sim_workspace_new(plan, 2, &ws, &err) == QR_OK, "%s", err.msg);
    for (uint64_t key = 4; key <= 5; key++) { /* the second key must not see the first one's data */
        qr_sim_set_draw(ws, &(struct qr_sim_draw){.key = key});
        qr_sim_forward_for_gradient(b, ws, key == 5 && alone ? NULL : pool, p->x, p->c->n_columns,
                                    p->n_samples, NULL, ret->r[0].z);
    }
    for (int i = 0; i < 2; i++) {
        qr_fixed grad[MOST] = {0};
        CHECK(qr_sim_backward(b, ws, i ? NULL : pool, p->direction, p->scale, grad, ret->r[i].dx));
        for (unsigned k = 0; k < p->c->n_params; k++)
            ret->r[i].grad[k] = qr_fixed_to_double(grad[k]);
    }
    if (opt->shots)
        CHECK(qr_sim_sample(b, ws, pool, p->x, p->c->n_columns, p->n_samples, ret->strings,
                            ret->bits));
    memcpy(ret->r[1].z, ret->r[0].z, sizeof ret->r[0].z);
    qr_sim_workspace_free(ws);
    qr_sim_bound_free(b);
    qr_sim_plan_free(plan);
}

/* Groups of trajectories on three threads, in any order, give the bits of one thread; so does a
 * second backward sweep, also with another number of threads. */
static void test_threads(void) {
    struct qr_pool *pool = qr_pool_new(3);
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct noisy p = seed % 3 == 2 ? measuring_new(2 * seed, false)
                         : seed % 3    ? noisy_new(seed, 1 + seed % 4, 6 + seed % 9, 3 + seed % 6)
                         : seed % 2    ? prefix_new(seed, 12, 0.02, false, false)
                                       : wide_new();
        struct qr_sim_options opt = {.precision = seed % 2 ? QR_DOUBLE : QR_SINGLE,
                                     .isa = qr_isa_best(),
                                     .engine = QR_ENGINE_STATEVECTOR,
                                     .method = QR_METHOD_TRAJECTORIES,
                                     .n_trajectories = 100,
                                     .shots = seed % 4 < 2 ? SHOTS : 0,
                                     .wanted = p.wanted};
        struct shared_results by[2];
        for (int i = 0; i < 2; i++) run_shared(&p, &opt, i ? pool : NULL, seed % 5 == 0, &by[i]);
        CHECK(memcmp(&by[0].r[0], &by[0].r[1], sizeof by[0].r[0]) == 0, "seed %llu: second sweep",
              (unsigned long long)seed);
        CHECK(memcmp(&by[0], &by[1], sizeof by[0]) == 0, "seed %llu: on three threads",
              (unsigned long long)seed);
        noisy_free(&p);
    }
    qr_pool_free(pool);
}

/* Read-out errors: each term's Paulis are rotated to Z, and the probabilities of the bits pass
 * through each qubit's error matrix. */
static double read_with_errors(const struct qr_circuit *c, const double *theta,
                               const struct qr_observable *o, const double (*errors)[2]) {
    unsigned n = c->n_qubits, dim = 1u << n;
    double sum = 0;
    for (size_t t = 0; t < o->n_terms; t++) {
        static double complex rho[1 << 2 * NOISY_MAX_QUBITS];
        struct qr_circuit *turned = qr_circuit_copy(c);
        const struct qr_qubits on = qr_pauli_qubits(&o->terms[t]);
        double p[1 << NOISY_MAX_QUBITS], mean = 0;
        for (unsigned q = 0; q < n; q++) {
            char letter = qr_qubits_has(&on, q) ? qr_pauli_letter(&o->terms[t], q) : 'Z';
            struct qr_gate g = {.kind = letter == 'X' ? QR_GATE_Y : QR_GATE_X,
                                .n_targets = 1,
                                .n_args = 1,
                                .targets = {(uint16_t)q},
                                .args = {{QR_ARG_CONSTANT, letter == 'X' ? -0.5 : 0.5, 0}}};
            if (letter != 'Z') CHECK(qr_circuit_add(turned, &g, QR_IGNORED) == QR_OK);
        }
        noisy_density(turned, theta, NULL, rho);
        for (unsigned i = 0; i < dim; i++) p[i] = creal(rho[i * dim + i]);
        for (unsigned q = 0; q < n; q++)
            for (unsigned i = 0; i < dim; i++) {
                unsigned bit = 1u << (n - 1 - q);
                if (i & bit) continue;
                double zero = p[i], one = p[i | bit];
                p[i] = zero * (1 - errors[q][0]) + one * errors[q][1];
                p[i | bit] = zero * errors[q][0] + one * (1 - errors[q][1]);
            }
        for (unsigned i = 0; i < dim; i++) {
            bool odd = false;
            for (unsigned q = 0; q < n; q++) odd ^= qr_qubits_has(&on, q) && (i >> (n - 1 - q) & 1);
            mean += odd ? -p[i] : p[i];
        }
        sum += o->terms[t].coefficient * mean;
        qr_circuit_free(turned);
    }
    return sum;
}

/* With shots, derivatives by adjoints are those of the expectation values with errors. */
static void test_readout_errors_of_shots(void) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct noisy p = noisy_new(seed, 3, 1, 1);
        struct result r[2];
        qr_circuit_free(p.c);
        p.c = ref_random_circuit(seed, 3, 14);
        p.c->readout_errors = qr_xcalloc(3, sizeof *p.c->readout_errors);
        ref_random_numbers(seed + 5, 6, 0, 0.4, &p.c->readout_errors[0][0]);
        for (int shots = 0; shots < 2; shots++)
            CHECK(run_noisy(&p,
                            (struct qr_sim_options){.precision = QR_DOUBLE,
                                                    .isa = qr_isa_best(),
                                                    .engine = QR_ENGINE_STATEVECTOR,
                                                    .shots = shots ? 10 : 0,
                                                    .wanted = p.wanted},
                            seed, &r[shots]));
        memcpy(r[1].z, r[0].z, sizeof r[0].z);
        CHECK(max_difference(&r[0], &r[1]) == 0, "seed %llu: derivatives %.3g off",
              (unsigned long long)seed, max_difference(&r[0], &r[1]));
        noisy_free(&p);
    }
}

static void test_readout_errors(void) {
    static const char *const texts[READOUTS] = {"0.5*X0 Z1 - Y2 + 0.25*Z0 Z1 Z2", "Y0 X1 + 2 + Z2"};
    struct noisy p = {.c = noisy_random_circuit(77, 3, 14, 4), .n_samples = 1};
    struct qr_err err;
    struct result r;
    noisy_random_parameters(78, p.c, p.theta);
    p.c->n_columns = 0;
    for (size_t i = 0; i < p.c->n_gates; i++)
        for (unsigned k = 0; k < p.c->gates[i].n_args; k++)
            if (p.c->gates[i].args[k].kind == QR_ARG_DATA)
                p.c->gates[i].args[k] = (struct qr_gate_arg){QR_ARG_CONSTANT, 0.3, 0};
    for (size_t k = 0; k < READOUTS; k++)
        CHECK(qr_observable_parse(texts[k], 3, &p.obs[k], &err) == QR_OK, "%s", err.msg);
    p.c->readout_errors = qr_xcalloc(3, sizeof *p.c->readout_errors);
    for (unsigned q = 0; q < 3; q++)
        p.c->readout_errors[q][0] = 0.02 + 0.1 * q, p.c->readout_errors[q][1] = 0.3 - 0.14 * q;
    for (int engine = 0; engine < 2; engine++) {
        CHECK(run_noisy(
            &p,
            (struct qr_sim_options){.precision = QR_DOUBLE,
                                    .isa = qr_isa_best(),
                                    .engine = engine ? QR_ENGINE_DENSITY : QR_ENGINE_CONES},
            0, &r));
        for (size_t k = 0; k < READOUTS; k++) {
            double z =
                read_with_errors(p.c, p.theta, &p.obs[k], (const double(*)[2])p.c->readout_errors);
            CHECK(fabs(r.z[k] - z) < 1e-13, "%s: %g, not %g", texts[k], r.z[k], z);
        }
    }
    noisy_free(&p);
}

/* The parameter-shift rule gives the derivatives of the adjoint method: sums of at most 100 pairs
 * of values with errors of 1e-14, times pi / 2 and scales of at most 2. With noise and shots its
 * mean does. */
static void test_parameter_shift(void) {
    unsigned n_tested = 0;
    double worst = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        unsigned n = 1 + seed % 4;
        struct noisy p = {.n_samples = 2};
        struct result r[2];
        p.c = ref_random_circuit(seed, n, 6 + seed % 9);
        for (size_t i = 0; i < READOUTS; i++) p.obs[i] = ref_random_observable(seed * 7 + i, n);
        ref_random_numbers(seed + 1, p.c->n_params, -2, 2, p.theta);
        ref_random_numbers(seed + 2, n * 2, -1, 1, p.x);
        ref_random_numbers(seed + 3, READOUTS * 2, -1, 1, p.direction);
        ref_random_numbers(seed + 4, 2, -2, 2, p.scale);
        memset(p.wanted, 1, sizeof p.wanted);
        struct qr_sim_options opt = {
            .precision = QR_DOUBLE, .isa = qr_isa_best(), .wanted = p.wanted};
        CHECK(run_noisy(&p, opt, 0, &r[0]));
        opt.parameter_shift = true;
        if (run_noisy(&p, opt, 0, &r[1])) {
            double bound = 1e-11 * (1 + coefficients(&p));
            n_tested++;
            for (unsigned k = 0; k < p.c->n_params; k++) {
                double off = fabs(r[1].grad[k] - r[0].grad[k]);
                if (!(off <= worst)) worst = off;
                CHECK(off < bound, "seed %d %s: %g, not %g", (int)seed, p.c->param_names[k],
                      r[1].grad[k], r[0].grad[k]);
            }
            for (unsigned k = 0; k < 2 * n; k++)
                CHECK(fabs(r[1].dx[k] - r[0].dx[k]) < bound, "seed %d input %u: %g, not %g",
                      (int)seed, k, r[1].dx[k], r[0].dx[k]);
        }
        noisy_free(&p);
    }
    CHECK(n_tested > 20, "%u", n_tested);
    printf("parameter-shift: %u circuits, largest difference %.2g\n", n_tested, worst);
}

/* z-scores of parameter-shift estimates with shots and trajectories, as above. */
static void test_sampled_shift(void) {
    double worst = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        static const char text[] = "0.5*X0 Z1 - Y1 + Z0";
        struct noisy p = {
            .c = qr_circuit_new(2, 1), .n_samples = 1, .direction = {1, 0.5}, .scale = {1.5}};
        struct qr_channel d = {.info = qr_channel_info_of("Depolarize", 1),
                               .args = {{QR_ARG_CONSTANT, seed % 2 ? 0.1 : 0, 0}}};
        uint32_t channel = qr_circuit_channel(p.c, &d);
        struct qr_err err;
        for (unsigned i = 0; i < 8; i++) {
            static const enum qr_gate_kind kinds[] = {QR_GATE_X, QR_GATE_Y, QR_GATE_CNOT,
                                                      QR_GATE_FSIM};
            char name[8];
            snprintf(name, sizeof name, "w%u", i % 5);
            const struct qr_gate_info *info = qr_gate_info(kinds[i % 4]);
            struct qr_gate g = {.kind = kinds[i % 4],
                                .n_targets = info->n_targets,
                                .n_args = info->n_args,
                                .targets = {(uint16_t)(i / 4), (uint16_t)(1 - i / 4)},
                                .args = {{QR_ARG_PARAMETER, 0.7, qr_circuit_param(p.c, name)},
                                         {QR_ARG_DATA, 1, 0}}};
            CHECK(qr_circuit_add(p.c, &g, &err) == QR_OK, "%s", err.msg);
            CHECK(qr_circuit_add_channel(p.c, channel, g.targets, &err) == QR_OK, "%s", err.msg);
        }
        for (size_t r = 0; r < READOUTS; r++)
            CHECK(qr_observable_parse(r ? "Z1" : text, 2, &p.obs[r], &err) == QR_OK, "%s", err.msg);
        ref_random_numbers(seed, 5, -1, 1, p.theta);
        p.x[0] = 0.3;
        p.wanted[0] = 1;
        struct qr_sim_options opt = {
            .precision = QR_DOUBLE, .isa = qr_isa_best(), .wanted = p.wanted};
        struct result exact, r[REPEATS];
        double values[REPEATS];
        CHECK(run_noisy(&p, opt, 0, &exact));
        opt.parameter_shift = true;
        opt.shots = 100;
        opt.n_trajectories = 50;
        for (uint64_t i = 0; i < REPEATS; i++) CHECK(run_noisy(&p, opt, seed * 1000 + i, &r[i]));
        for (unsigned k = 0; k < 6; k++) {
            for (int i = 0; i < REPEATS; i++) values[i] = k < 5 ? r[i].grad[k] : r[i].dx[0];
            score(k < 5 ? exact.grad[k] : exact.dx[0], values, 1e-12, seed, "shift", &worst);
        }
        noisy_free(&p);
    }
    printf("parameter-shift with shots: largest z-score %.2f\n", worst);
}

int main(void) {
    test_parameter_shift();
    test_sampled_shift();
    test_readout_errors();
    test_readout_errors_of_shots();
    test_exact_engines(false);
    test_exact_engines(true);
    test_trajectories(false);
    test_trajectories(true);
    test_conditional_channels();
    test_auto();
    test_shared_prefix();
    test_shared_prefix_of_shots();
    check_single_precision(wide_new(), 8);
    check_single_precision(prefix_new(3, 12, 0.02, false, false), 64);
    test_threads();
    test_teleportation(5);
    test_teleportation(13);
    test_order_of_bits();
    return t_end();
}
