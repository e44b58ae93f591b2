/* The streaming engine against the statevector engine: every n from 8 to 16, read-outs, encodings;
 * equal bits over tables and threads. */
#include "base/mem.h"
#include "base/pool.h"
#include "sim/fusion/matrix.h"
#include "sim/sim.h"
#include "tests/ref/dense.h"
#include "tests/ref/problem.h"
#include "tests/t.h"

#include <math.h>

static struct answer run_engine(const struct problem *p, enum qr_engine engine,
                                enum qr_precision precision, enum qr_isa isa, unsigned threads,
                                const double *known) {
    return answer_of(p, p->c, p->obs,
                     &(struct qr_sim_options){.precision = precision, .isa = isa, .engine = engine},
                     threads, known);
}

/* tolerance: of the largest component. In double: at most ~100 fused gates in a row, each 2^-50
 * off, times a few. In single: the contract's 2e-6. |z| <= 4. */
static double worst_single;
static void compare(const struct problem *p, const struct answer *a, const struct answer *b,
                    double tolerance, const char *what) {
    double top = 0, worst = 0, worst_z = 0;
    for (unsigned k = 0; k < p->c->n_params; k++)
        top = fmax(top, fabs(qr_fixed_to_double(b->grad[k])));
    for (unsigned k = 0; k < p->c->n_params; k++)
        worst =
            t_worst(worst, fabs(qr_fixed_to_double(a->grad[k]) - qr_fixed_to_double(b->grad[k])));
    for (size_t i = 0; i < p->n_samples * p->n_obs; i++)
        worst_z = t_worst(worst_z, fabs(a->z[i] - b->z[i]));
    CHECK(a->ok && b->ok && worst <= tolerance * top && worst_z <= tolerance * 4,
          "%s n %u: engine %s: gradient off by %.3g of %.3g (%.2g), z by %.3g", what,
          p->c->n_qubits, a->engine, worst, top, worst / top, worst_z);
    if (worst / top > worst_single && tolerance > 1e-9) worst_single = worst / top;
}

/* No engine but another supports it. */
static void check_rejected(struct problem *p) {
    const struct qr_sim_options opt = {
        .precision = QR_DOUBLE, .isa = qr_isa_best(), .engine = QR_ENGINE_STREAMING};
    struct qr_sim_plan *plan = NULL;
    struct qr_err err;
    CHECK(qr_sim_compile(p->c, p->obs, p->n_obs, &opt, &plan, &err) == QR_RESOURCE_EXHAUSTED &&
              strstr(err.msg, "no engine supports it"),
          "n %u", p->c->n_qubits);
    qr_sim_plan_free(plan);
    problem_fini(p);
}

static void check(unsigned n, unsigned stages, enum kind kind) {
    struct problem p = case_of(n, stages, kind, n <= 11 ? 19 : 2);
    struct answer b = run_engine(&p, QR_ENGINE_STATEVECTOR, QR_DOUBLE, qr_isa_best(), 0, NULL);
    struct answer a = run_engine(&p, QR_ENGINE_STREAMING, QR_DOUBLE, qr_isa_best(), 0, NULL);
    CHECK(strcmp(a.engine, "streaming") == 0, "n %u stages %u: engine %s", n, stages, a.engine);
    compare(&p, &a, &b, 1e-12, "double");
    struct answer single = run_engine(&p, QR_ENGINE_STREAMING, QR_SINGLE, qr_isa_best(), 0, NULL);
    compare(&p, &single, &b, 2e-6, "single");
    /* One direction for all samples, known before or after the forward sweep. */
    for (size_t i = p.n_obs; i < p.n_samples * p.n_obs; i++)
        p.direction[i] = p.direction[i - p.n_obs];
    b = run_engine(&p, QR_ENGINE_STATEVECTOR, QR_DOUBLE, qr_isa_best(), 0, NULL);
    a = run_engine(&p, QR_ENGINE_STREAMING, QR_DOUBLE, qr_isa_best(), 0, p.direction);
    compare(&p, &a, &b, 1e-12, "directed");
    problem_fini(&p);
}

/* ---- encodings: the same layers after another preparation ---- */

static void add(struct qr_circuit *c, enum qr_gate_kind kind, unsigned a, unsigned b,
                enum qr_arg_kind arg, double scale, unsigned column) {
    const struct qr_gate_info *info = qr_gate_info(kind);
    struct qr_gate g = {.kind = kind,
                        .n_targets = info->n_targets,
                        .n_args = info->n_args,
                        .targets = {(uint16_t)a, (uint16_t)b},
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
    for (unsigned q = 0; q < n && e != PRODUCT; q++)
        add(c, QR_GATE_Y, q, 0, QR_ARG_CONSTANT, 0.2 + 0.07 * q, 0);
    for (unsigned q = 0; q < n && e != PRODUCT; q++)
        if (e != BROKEN_RING || q % 3) add(c, QR_GATE_CZ, q, (q + 1) % n, QR_ARG_CONSTANT, 1, 0);
    for (unsigned q = 0; q < n; q++) {
        add(c, QR_GATE_X, q, 0, QR_ARG_DATA, 0.4, q);
        if (e == ROTATIONS) add(c, QR_GATE_PHASED_X, q, 0, QR_ARG_DATA, 0.7, (q + 1) % n);
        if (e != BROKEN_RING) add(c, QR_GATE_Z, q, 0, QR_ARG_DATA, -1.3, q);
    }
    if (e == ENTANGLED) add(c, QR_GATE_ZZ, 0, 1, QR_ARG_DATA, 0.5, 0);
    struct qr_err err;
    for (size_t i = 3 * n; i < old->n_gates; i++)
        CHECK(qr_circuit_add(c, &old->gates[i], &err) == QR_OK, "%s", err.msg);
    qr_circuit_free(old);
    p->c = c;
}

static void check_encoding(unsigned n, enum encoding e) {
    struct problem p = case_of(n, 0, LAST, n <= 11 ? 5 : 2);
    encode(&p, e);
    if (e == ENTANGLED) {
        check_rejected(&p);
        return;
    }
    struct answer b = run_engine(&p, QR_ENGINE_STATEVECTOR, QR_DOUBLE, qr_isa_best(), 0, NULL);
    struct answer a = run_engine(&p, QR_ENGINE_STREAMING, QR_DOUBLE, qr_isa_best(), 0, NULL);
    compare(&p, &a, &b, 1e-12, "double");
    struct answer single = run_engine(&p, QR_ENGINE_STREAMING, QR_SINGLE, qr_isa_best(), 0, NULL);
    compare(&p, &single, &b, 2e-6, "single");
    problem_fini(&p);
}

/* ---- bits ---- */

static void check_bits(unsigned n, unsigned stages, enum kind kind, enum qr_precision precision,
                       bool portable) {
    struct problem p = case_of(n, stages, kind, n <= 11 ? 19 : 1);
    struct answer first = run_engine(&p, QR_ENGINE_STREAMING, precision, qr_isa_best(), 0, NULL);
    for (int isa = portable ? 0 : 1; isa < QR_ISAS; isa++) {
        if (!qr_isa_available((enum qr_isa)isa)) continue;
        struct answer a = run_engine(&p, QR_ENGINE_STREAMING, precision, (enum qr_isa)isa, 1, NULL);
        CHECK(answer_equal(&a, &first), "n %u stages %u table %s", n, stages,
              qr_isa_name((enum qr_isa)isa));
    }
    for (unsigned threads = 2; threads <= 3; threads++) {
        struct answer a =
            run_engine(&p, QR_ENGINE_STREAMING, precision, qr_isa_best(), threads, NULL);
        CHECK(answer_equal(&a, &first), "n %u stages %u threads %u", n, stages, threads);
    }
    for (size_t i = 1; i < p.n_samples; i++)
        memcpy(p.direction + i * p.n_obs, p.direction, p.n_obs * sizeof *p.direction);
    struct answer known =
        run_engine(&p, QR_ENGINE_STREAMING, precision, qr_isa_best(), 2, p.direction);
    struct answer again =
        run_engine(&p, QR_ENGINE_STREAMING, precision, qr_isa_best(), 0, p.direction);
    CHECK(answer_equal(&known, &again), "n %u stages %u directed", n, stages);
    problem_fini(&p);
}

int main(void) {
    unsigned top = t_qubits();
    for (unsigned n = 8; n <= 16 && n <= top; n++) check(n, 0, LAST);
    for (unsigned n = 8; n <= 15 && n <= top; n++) check(n, 1, EACH);
    check(8, 2, EACH);
    check(10, 1, MIXED);
    check(12, 2, EACH);
    if (top >= 13) check(13, 2, MIXED);
    if (top >= 14) { /* seven qubits left, and read-outs other than Z */
        struct problem p = case_of(14, 1, MIXED, 1);
        check_rejected(&p);
    }
    for (unsigned n = 8; n <= 15 && n <= top; n++)
        for (int e = ROTATIONS; e <= ENTANGLED; e++) check_encoding(n, (enum encoding)e);
    for (unsigned n = 8; n <= 15 && n <= top; n++) check_bits(n, 0, LAST, QR_SINGLE, true);
    check_bits(8, 1, EACH, QR_SINGLE, true);
    if (top >= 13) check_bits(13, 1, EACH, QR_SINGLE, true);
    check_bits(9, 0, LAST, QR_DOUBLE, true);
    check_bits(12, 0, LAST, QR_DOUBLE, true);
    if (top >= 20) check_bits(20, 0, LAST, QR_SINGLE, false);
    /* From here on threads share slices. */
    if (top >= 21) check_bits(21, 0, LAST, QR_SINGLE, false);
    if (top >= 21) check_bits(21, 1, EACH, QR_SINGLE, false);
    printf("largest error in single precision: %.2g of the largest component\n", worst_single);
    return t_end();
}
