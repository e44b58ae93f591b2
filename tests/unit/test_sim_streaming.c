/* The streaming engine against the blocked one: every n from 8 to 16, read-outs, encodings; equal bits over tables and threads; the
 * plan's cost against counted operations; no allocation; bounded memory. */
#include "base/mem.h"
#include "base/pool.h"
#include "circuit/qcnn.h"
#include "sim/planner_impl.h"
#include "sim/sim.h"
#include "tests/ref/dense.h"
#include "tests/ref/problem.h"
#include "tests/t.h"

#include <math.h>

static struct answer ours(const struct problem *p, enum qr_engine engine, enum qr_precision precision, enum qr_isa isa, unsigned threads,
                          const double *known) {
    return answer_of(p, p->c, p->obs, &(struct qr_sim_options){precision, isa, engine}, threads, known);
}

static struct problem make(unsigned n, unsigned stages, size_t n_samples, const char *const *obs, size_t n_obs, uint64_t seed) {
    struct problem p;
    memset(&p, 0, sizeof p);
    struct qr_err err;
    struct qr_qcnn_options o = {n, stages, QR_QCNN_NOTEBOOK};
    uint64_t remaining;
    CHECK(qr_qcnn_new(&o, &p.c, &remaining, &err) == QR_OK, "%s", err.msg);
    p.n_obs = n_obs;
    p.n_samples = n_samples;
    for (size_t r = 0; r < n_obs; r++) CHECK(qr_observable_parse(obs[r], n, &p.obs[r], &err) == QR_OK, "%s", err.msg);
    problem_room(&p, n);
    ref_random_numbers(seed, p.c->n_params, 0, 6.28, p.theta);
    ref_random_numbers(seed + 1, n_samples * n, -2, 2, p.x);
    ref_random_numbers(seed + 2, n_samples * n_obs, -1, 1, p.direction);
    ref_random_numbers(seed + 3, n_samples, -2, 2, p.scale);
    return p;
}

/* tolerance: of the largest component. In double: at most ~100 blocks in a row, each 2^-50 off, times a few. In single: the contract's
 * 2e-6. |z| <= 4. */
static double worst_single;
static void compare(const struct problem *p, const struct answer *a, const struct answer *b, double tolerance, const char *what) {
    double top = 0, worst = 0, worst_z = 0;
    for (unsigned k = 0; k < p->c->n_params; k++) top = fmax(top, fabs(qr_fixed_to_double(b->grad[k])));
    for (unsigned k = 0; k < p->c->n_params; k++) worst = fmax(worst, fabs(qr_fixed_to_double(a->grad[k]) - qr_fixed_to_double(b->grad[k])));
    for (size_t i = 0; i < p->n_samples * p->n_obs; i++) worst_z = fmax(worst_z, fabs(a->z[i] - b->z[i]));
    CHECK(a->ok && b->ok && worst <= tolerance * top && worst_z <= tolerance * 4, "%s n %u: engine %s: gradient off by %.3g of %.3g (%.2g), z by %.3g", what,
          p->c->n_qubits, a->engine, worst, top, worst / top, worst_z);
    if (worst / top > worst_single && tolerance > 1e-9) worst_single = worst / top;
}

/* The read-outs that are left after `stages` stages: one on the last qubit, Z on each, or strings with X and Y too. */
enum kind { LAST, EACH, MIXED };

static struct problem case_of(unsigned n, unsigned stages, enum kind kind, size_t samples) {
    char text[MAX_OBS][48];
    const char *obs[MAX_OBS];
    unsigned left = n, n_obs = 0;
    for (unsigned s = 0; s < stages; s++) left -= left / 2;
    if (kind == LAST) snprintf(text[n_obs++], sizeof text[0], "Z%u", n - 1);
    for (unsigned q = n - left; kind == EACH && q < n && n_obs < MAX_OBS; q++) snprintf(text[n_obs++], sizeof text[0], "Z%u", q);
    if (kind == MIXED) {
        snprintf(text[n_obs++], sizeof text[0], "0.5*X%u Z%u - Y%u", n - 1, n - 2, n - 2);
        snprintf(text[n_obs++], sizeof text[0], "Y%u Y%u + 0.25*Z%u", n - 1, n - 2, n - 1);
    }
    for (unsigned i = 0; i < n_obs; i++) obs[i] = text[i];
    return make(n, stages, samples, obs, n_obs, 17 * n + stages);
}

static void check(unsigned n, unsigned stages, enum kind kind, const char *engine) {
    struct problem p = case_of(n, stages, kind, n <= 11 ? 19 : 2);
    struct answer b = ours(&p, QR_ENGINE_BLOCKED, QR_DOUBLE, qr_isa_best(), 0, NULL);
    struct answer a = ours(&p, QR_ENGINE_AUTO, QR_DOUBLE, qr_isa_best(), 0, NULL);
    CHECK(strcmp(a.engine, engine) == 0, "n %u stages %u: engine %s", n, stages, a.engine);
    compare(&p, &a, &b, 1e-12, "double");
    struct answer single = ours(&p, QR_ENGINE_AUTO, QR_SINGLE, qr_isa_best(), 0, NULL);
    compare(&p, &single, &b, 2e-6, "single");
    /* one direction for all samples, before and after the forward sweep */
    for (size_t i = p.n_obs; i < p.n_samples * p.n_obs; i++) p.direction[i] = p.direction[i - p.n_obs];
    b = ours(&p, QR_ENGINE_BLOCKED, QR_DOUBLE, qr_isa_best(), 0, NULL);
    a = ours(&p, QR_ENGINE_AUTO, QR_DOUBLE, qr_isa_best(), 0, p.direction);
    compare(&p, &a, &b, 1e-12, "directed");
    drop(&p);
}

/* ---- encodings: the same layers behind another preparation ---- */

static void add(struct qr_circuit *c, enum qr_gate_kind kind, unsigned a, unsigned b, enum qr_arg_kind arg, double scale, unsigned column) {
    const struct qr_gate_info *info = qr_gate_info(kind);
    struct qr_gate g = {.kind = kind, .n_targets = info->n_targets, .n_args = info->n_args, .targets = {(uint16_t)a, (uint16_t)b},
                        .args = {{arg, scale, arg == QR_ARG_DATA ? column : 0}}};
    if (info->n_args == 2) g.args[1] = (struct qr_gate_arg){QR_ARG_CONSTANT, 0.3, 0};
    struct qr_err err;
    CHECK(qr_circuit_add(c, &g, &err) == QR_OK, "%s", err.msg);
}

enum encoding { ROTATIONS, PRODUCT, BROKEN_RING, ENTANGLED };

static void encode(struct problem *p, enum encoding e) {
    struct qr_circuit *old = p->c;
    unsigned n = old->n_qubits;
    struct qr_circuit *c = qr_circuit_new(n, n);
    for (unsigned k = 0; k < old->n_params; k++) qr_circuit_param(c, old->param_names[k]);
    for (unsigned q = 0; q < n && e != PRODUCT; q++) add(c, QR_GATE_Y, q, 0, QR_ARG_CONSTANT, 0.2 + 0.07 * q, 0);
    for (unsigned q = 0; q < n && e != PRODUCT; q++)
        if (e != BROKEN_RING || q % 3) add(c, QR_GATE_CZ, q, (q + 1) % n, QR_ARG_CONSTANT, 1, 0);
    for (unsigned q = 0; q < n; q++) {
        add(c, QR_GATE_X, q, 0, QR_ARG_DATA, 0.4, q);
        if (e == ROTATIONS) add(c, QR_GATE_PHASED_X, q, 0, QR_ARG_DATA, 0.7, (q + 1) % n);
        if (e != BROKEN_RING) add(c, QR_GATE_Z, q, 0, QR_ARG_DATA, -1.3, q);
    }
    if (e == ENTANGLED) add(c, QR_GATE_ZZ, 0, 1, QR_ARG_DATA, 0.5, 0);
    struct qr_err err;
    for (size_t i = 3 * n; i < old->n_gates; i++) CHECK(qr_circuit_add(c, &old->gates[i], &err) == QR_OK, "%s", err.msg);
    qr_circuit_free(old);
    p->c = c;
}

static void check_encoding(unsigned n, enum encoding e) {
    struct problem p = case_of(n, 0, LAST, n <= 11 ? 5 : 2);
    encode(&p, e);
    struct answer b = ours(&p, QR_ENGINE_BLOCKED, QR_DOUBLE, qr_isa_best(), 0, NULL);
    struct answer a = ours(&p, QR_ENGINE_AUTO, QR_DOUBLE, qr_isa_best(), 0, NULL);
    CHECK(strcmp(a.engine, e == ENTANGLED ? "blocked" : "streaming") == 0, "n %u encoding %d: engine %s", n, e, a.engine);
    compare(&p, &a, &b, 1e-12, "double");
    struct answer single = ours(&p, QR_ENGINE_AUTO, QR_SINGLE, qr_isa_best(), 0, NULL);
    compare(&p, &single, &b, 2e-6, "single");
    drop(&p);
}

/* ---- bits ---- */

static void check_bits(unsigned n, unsigned stages, enum kind kind, enum qr_precision precision, bool portable) {
    struct problem p = case_of(n, stages, kind, n <= 11 ? 19 : 1);
    struct answer first = ours(&p, QR_ENGINE_AUTO, precision, qr_isa_best(), 0, NULL);
    for (int isa = portable ? 0 : 1; isa < QR_ISAS; isa++) {
        if (!qr_isa_available((enum qr_isa)isa)) continue;
        struct answer a = ours(&p, QR_ENGINE_AUTO, precision, (enum qr_isa)isa, 1, NULL);
        CHECK(same(&a, &first), "n %u stages %u table %s", n, stages, qr_isa_name((enum qr_isa)isa));
    }
    for (unsigned threads = 2; threads <= 3; threads++) {
        struct answer a = ours(&p, QR_ENGINE_AUTO, precision, qr_isa_best(), threads, NULL);
        CHECK(same(&a, &first), "n %u stages %u threads %u", n, stages, threads);
    }
    for (size_t i = 1; i < p.n_samples; i++) memcpy(p.direction + i * p.n_obs, p.direction, p.n_obs * sizeof *p.direction);
    struct answer known = ours(&p, QR_ENGINE_AUTO, precision, qr_isa_best(), 2, p.direction);
    struct answer again = ours(&p, QR_ENGINE_AUTO, precision, qr_isa_best(), 0, p.direction);
    CHECK(same(&known, &again), "n %u stages %u directed", n, stages);
    drop(&p);
}

/* ---- cost: the kernels counted ---- */

static const struct qr_kernels *real;
static double counted;
static void count_apply(void *cells, unsigned bits, const struct qr_place *at, const void *numbers, bool wide) {
    counted += 32.0 * 16 * (double)(UINT64_C(1) << bits);
    real->apply(cells, bits, at, numbers, wide);
}
static uint64_t count_cross(void *phi, void *lambda, unsigned bits, const struct qr_place *at, const void *numbers, bool wide,
                            uint64_t start, size_t count, double (*acc)[QR_LANES]) {
    counted += 28.0 * 16 * 4 * (double)count;
    return real->cross(phi, lambda, bits, at, numbers, wide, start, count, acc);
}
static void count_tile(const void *in, const uint32_t *ti, void *out, const uint32_t *to, size_t groups, const void *numbers, bool wide) {
    counted += 32.0 * 16 * 4 * (double)groups;
    real->tile(in, ti, out, to, groups, numbers, wide);
}
static void count_tile_cross(const void *phi, const void *lambda, const uint32_t *at, size_t groups, double (*acc)[QR_LANES]) {
    counted += 28.0 * 16 * 4 * (double)groups;
    real->tile_cross(phi, lambda, at, groups, acc);
}
static void count_mix(const void *a, const void *b, void *out, size_t rows, unsigned n, bool more) {
    counted += 8.0 * 16 * n * (double)rows;
    real->mix(a, b, out, rows, n, more);
}
static void count_columns(const void *a, const void *b, size_t rows, unsigned n, double (*sums)[QR_LANES]) {
    counted += 8.0 * 16 * n * (double)rows;
    real->columns(a, b, rows, n, sums);
}
static void count_dense(const void *phi, void *lambda, unsigned dim, unsigned flip, const void *numbers, const void *weights) {
    counted += 8.0 * 16 * dim * dim;
    real->dense(phi, lambda, dim, flip, numbers, weights);
}
static void count_density(const void *phi, unsigned bits, size_t slices, unsigned shift, void *sums) {
    double half = (double)(1u << bits) / 2;
    counted += 8.0 * 16 * 4 * half * (half + 1) / 2 * (double)slices;
    real->density(phi, bits, slices, shift, sums);
}
static void count_diagonal(const void *phi, void *lambda, size_t cells, const void *numbers, const void *weights, void *sums) {
    counted += 6.0 * 16 * (double)cells;
    real->diagonal(phi, lambda, cells, numbers, weights, sums);
}

static void check_cost(unsigned n, unsigned stages, enum kind kind) {
    struct problem p = case_of(n, stages, kind, n <= 11 ? 16 : 1);
    struct qr_err err;
    struct qr_sim_options opt = {QR_SINGLE, qr_isa_best(), QR_ENGINE_AUTO};
    struct qr_sim_plan *plan = NULL;
    struct qr_sim_workspace *ws = NULL;
    double z[MAX_SAMPLES * MAX_OBS];
    qr_fixed grad[MAX_PARAMS] = {0};
    for (size_t i = 1; i < p.n_samples; i++) memcpy(p.direction + i * p.n_obs, p.direction, p.n_obs * sizeof *p.direction);
    CHECK(qr_sim_compile(p.c, p.obs, p.n_obs, &opt, &plan, &err) == QR_OK && qr_sim_workspace_new(plan, p.n_samples, &ws, &err) == QR_OK);
    struct qr_kernels counting = *plan->kernels;
    real = plan->kernels;
    counting.apply = count_apply;
    counting.cross = count_cross;
    counting.tile = count_tile;
    counting.tile_cross = count_tile_cross;
    counting.mix = count_mix;
    counting.columns = count_columns;
    counting.dense = count_dense;
    counting.density = count_density;
    counting.diagonal = count_diagonal;
    plan->kernels = &counting;
    struct qr_sim_bound *b = qr_sim_bound_new(plan);
    qr_sim_bind(b, p.theta);
    counted = 0;
    qr_sim_forward_for_gradient(b, ws, NULL, p.x, n, p.n_samples, p.direction, z);
    CHECK(qr_sim_backward(b, ws, NULL, p.direction, p.scale, grad));
    double per_sample = counted / (double)p.n_samples, said = qr_sim_facts(plan).flop_per_gradient;
    CHECK(fabs(said / per_sample - 1) < 1e-9, "n %u stages %u: the plan says %.6g, counted %.6g", n, stages, said, per_sample);
    qr_sim_workspace_free(ws);
    qr_sim_bound_free(b);
    qr_sim_plan_free(plan);
    drop(&p);
}

/* ---- the plan in words ---- */

static void check_text(unsigned n, unsigned stages, enum kind kind, const char *const *says, size_t n_says) {
    struct problem p = case_of(n, stages, kind, 1);
    struct qr_sim_options opt = {QR_SINGLE, qr_isa_best(), QR_ENGINE_AUTO};
    struct qr_sim_plan *plan = NULL;
    struct qr_err err;
    struct qr_buf text = {0};
    CHECK(qr_sim_compile(p.c, p.obs, p.n_obs, &opt, &plan, &err) == QR_OK, "%s", err.msg);
    qr_sim_plan_text(plan, &text);
    for (size_t i = 0; i < n_says; i++)
        CHECK(strstr(qr_buf_string(&text), says[i]), "n %u: no \"%s\" in\n%s", n, says[i], qr_buf_string(&text));
    qr_buf_free(&text);
    qr_sim_plan_free(plan);
    drop(&p);
}

static void check_texts(void) {
    static const char *const pure_8[] = {"16 samples", "layer 1   qubits 0-7: 4 blocks", "0-3 are traced out by the pool onto 4-7", "16 x 16 matrix"};
    static const char *const pure_16[] = {"a table of 2^8 (qubits 0-7) times one of 2^8 (8-15) for 4 outcomes, 16 products", "256 of 2^8 amplitudes",
                                          "layer 2   qubits 8-15", "8-11 are traced out by the pool onto 12-15", "tail      4 qubits"};
    static const char *const hybrid_15[] = {"for 1 outcome, 8 products", "across the cut: 6-7;", "read-outs of Z only"};
    check_text(8, 0, LAST, pure_8, COUNT(pure_8));
    check_text(16, 0, LAST, pure_16, COUNT(pure_16));
    check_text(15, 1, EACH, hybrid_15, COUNT(hybrid_15));
}

/* ---- memory ---- */

static void check_memory(void) {
    size_t last = 0;
    for (unsigned n = 12; n <= 36; n++) {
        struct problem p = case_of(n, 0, LAST, 1);
        struct qr_sim_options opt = {QR_SINGLE, qr_isa_best(), QR_ENGINE_AUTO};
        struct qr_sim_plan *plan = NULL;
        struct qr_err err;
        CHECK(qr_sim_compile(p.c, p.obs, 1, &opt, &plan, &err) == QR_OK, "%s", err.msg);
        size_t bytes = qr_sim_bytes_per_thread(plan);
        CHECK(strcmp(qr_sim_facts(plan).engine, "streaming") == 0 && bytes > last / 2, "n %u", n);
        if (n == 24) CHECK(bytes < (size_t)32 << 20, "%zu bytes", bytes);
        if (n == 32) CHECK(bytes <= (size_t)200 * 1000 * 1000, "%zu bytes", bytes);
        last = bytes;
        qr_sim_plan_free(plan);
        drop(&p);
    }
}

int main(void) {
    unsigned top = t_qubits();
    for (unsigned n = 8; n <= 16 && n <= top; n++) check(n, 0, LAST, "streaming");
    for (unsigned n = 8; n <= 15 && n <= top; n++) check(n, 1, EACH, "streaming");
    check(8, 2, EACH, "streaming");
    check(10, 1, MIXED, "streaming");
    check(12, 2, EACH, "streaming");
    if (top >= 13) check(13, 2, MIXED, "streaming");
    if (top >= 14) check(14, 1, MIXED, "blocked"); /* seven qubits left, and not only Z */
    for (unsigned n = 8; n <= 15 && n <= top; n++)
        for (int e = ROTATIONS; e <= ENTANGLED; e++) check_encoding(n, (enum encoding)e);
    for (unsigned n = 8; n <= 15 && n <= top; n++) check_bits(n, 0, LAST, QR_SINGLE, true);
    check_bits(8, 1, EACH, QR_SINGLE, true);
    if (top >= 13) check_bits(13, 1, EACH, QR_SINGLE, true);
    check_bits(9, 0, LAST, QR_DOUBLE, true);
    check_bits(12, 0, LAST, QR_DOUBLE, true);
    if (top >= 20) check_bits(20, 0, LAST, QR_SINGLE, false);
    if (top >= 21) check_bits(21, 0, LAST, QR_SINGLE, false); /* from here on threads share slices */
    if (top >= 21) check_bits(21, 1, EACH, QR_SINGLE, false);
    for (unsigned n = 8; n <= 19; n++) check_cost(n, 0, LAST);
    for (unsigned n = 8; n <= 19; n++) check_cost(n, 1, EACH);
    check_texts();
    check_memory();
    printf("largest error in single precision: %.2g of the largest component\n", worst_single);
    return t_end();
}
