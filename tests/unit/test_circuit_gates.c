/* Matrices of all gates: unitary, equal to the reference's, equal to Cirq's at known points;
 * derivatives; gates that qr_circuit_add rejects. */
#include <float.h>
#include <math.h>

#include "circuit/circuit.h"
#include "tests/ref/dense.h"
#include "tests/t.h"

/* An entry is a product of at most three numbers of size <= 1, each within 2 ulp (1 ulp of the
 * function, 1 of its rounded argument g t, |g t| <= 4, whose error pi * 4 * 2^-53 dominates): below
 * 64 * DBL_EPSILON. A derivative has a factor of up to 2 pi (g + 1) more. */
#define ENTRY_TOLERANCE (64 * DBL_EPSILON)
#define DERIVATIVE_TOLERANCE (64 * 16 * DBL_EPSILON)

static double distance(const double complex *a, const double complex *b, size_t n) {
    double worst = 0;
    for (size_t i = 0; i < n; i++) worst = t_worst(worst, cabs(a[i] - b[i]));
    return worst;
}

static double not_unitary(const double complex *u, size_t d) {
    double worst = 0;
    for (size_t r = 0; r < d; r++)
        for (size_t c = 0; c < d; c++) {
            double complex sum = r == c ? -1 : 0;
            for (size_t k = 0; k < d; k++) sum += u[r * d + k] * conj(u[c * d + k]);
            worst = t_worst(worst, cabs(sum));
        }
    return worst;
}

static struct qr_gate of_kind(enum qr_gate_kind kind, double shift) {
    const struct qr_gate_info *info = qr_gate_info(kind);
    return (struct qr_gate){.kind = kind,
                            .n_targets = info->n_targets,
                            .n_args = info->n_args,
                            .targets = {0, 1},
                            .global_shift = shift};
}

static void against_reference(void) {
    double numbers[64];
    ref_random_numbers(1, 64, -4, 4, numbers);
    for (int kind = 0; kind < QR_GATE_KINDS; kind++)
        for (int trial = 0; trial < 60; trial++) {
            double shift = kind == QR_GATE_FSIM || kind == QR_GATE_I ? 0
                           : trial % 3 == 0                          ? 0
                           : trial % 3 == 1                          ? -0.5
                                                                     : 0.37;
            struct qr_gate g = of_kind((enum qr_gate_kind)kind, shift);
            size_t d = g.n_targets == 1 ? 2 : 4, n = d * d;
            const double a[2] = {numbers[trial], numbers[trial + 3]};
            double complex u[16], da[32] = {0}, ref[16], r0[16], r1[16], *rd[2] = {r0, r1};
            qr_gate_matrix(&g, a, u, da);
            ref_gate_matrix(&g, a, ref, rd);
            CHECK(distance(u, ref, n) < ENTRY_TOLERANCE, "%s: %g", qr_gate_info(g.kind)->name,
                  distance(u, ref, n));
            CHECK(not_unitary(u, d) < 4 * ENTRY_TOLERANCE, "%s", qr_gate_info(g.kind)->name);
            for (unsigned k = 0; k < g.n_args; k++) {
                CHECK(distance(da + k * n, rd[k], n) < DERIVATIVE_TOLERANCE, "%s argument %u",
                      qr_gate_info(g.kind)->name, k);
                /* Central difference: error h^2/6 |f'''| <= h^2/6 (2 pi * 1.37)^3 + eps / h, at h =
                 * 1e-5 below 2e-8. */
                double lo[2] = {a[0], a[1]}, hi[2] = {a[0], a[1]};
                double complex um[16], up[16];
                lo[k] -= 1e-5, hi[k] += 1e-5;
                qr_gate_matrix(&g, lo, um, NULL);
                qr_gate_matrix(&g, hi, up, NULL);
                for (size_t i = 0; i < n; i++) up[i] = (up[i] - um[i]) / 2e-5;
                CHECK(distance(da + k * n, up, n) < 2e-8, "%s argument %u: %g",
                      qr_gate_info(g.kind)->name, k, distance(da + k * n, up, n));
            }
        }
}

/* Cirq's unitaries, written by hand. Whole powers must be exact: sincospi is. */
static void known_matrices(void) {
    const double one[2] = {1, 0}, half[2] = {0.5, 0};
    const double r = sqrt(0.5);
    const double complex i = __builtin_complex(0.0, 1.0);
    const struct {
        enum qr_gate_kind kind;
        double shift;
        const double *a;
        double complex want[16];
        double tolerance;
    } table[] = {
        {QR_GATE_X, 0, one, {0, 1, 1, 0}, 0},
        {QR_GATE_Y, 0, one, {0, -i, i, 0}, 0},
        {QR_GATE_Z, 0, one, {1, 0, 0, -1}, 0},
        {QR_GATE_Z, 0, half, {1, 0, 0, i}, 0},
        {QR_GATE_H, 0, one, {r, r, r, -r}, DBL_EPSILON},
        {QR_GATE_X, 0, half, {0.5 + 0.5 * i, 0.5 - 0.5 * i, 0.5 - 0.5 * i, 0.5 + 0.5 * i}, 0},
        {QR_GATE_X, -0.5, half, {r, -i * r, -i * r, r}, DBL_EPSILON},
        {QR_GATE_Y, -0.5, half, {r, -r, r, r}, DBL_EPSILON},
        {QR_GATE_Z, -0.5, one, {-i, 0, 0, i}, 0},
        {QR_GATE_CZ, 0, one, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, -1}, 0},
        {QR_GATE_CNOT, 0, one, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0}, 0},
        {QR_GATE_SWAP, 0, one, {1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1}, 0},
        {QR_GATE_ISWAP, 0, one, {1, 0, 0, 0, 0, 0, i, 0, 0, i, 0, 0, 0, 0, 0, 1}, 0},
        {QR_GATE_ZZ, 0, one, {1, 0, 0, 0, 0, -1, 0, 0, 0, 0, -1, 0, 0, 0, 0, 1}, 0},
        {QR_GATE_XX, 0, one, {0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0}, 0},
        {QR_GATE_YY, 0, one, {0, 0, 0, -1, 0, 0, 1, 0, 0, 1, 0, 0, -1, 0, 0, 0}, 0},
        {QR_GATE_I, 0, one, {1, 0, 0, 1}, 0},
    };
    for (size_t k = 0; k < COUNT(table); k++) {
        struct qr_gate g = of_kind(table[k].kind, table[k].shift);
        double complex u[16];
        qr_gate_matrix(&g, table[k].a, u, NULL);
        CHECK(distance(u, table[k].want, g.n_targets == 1 ? 4 : 16) <= table[k].tolerance,
              "row %zu (%s)", k, qr_gate_info(g.kind)->name);
    }
}

static void names(void) {
    CHECK(qr_gate_kind_of("cx") == QR_GATE_CNOT && qr_gate_kind_of("RX") == QR_GATE_X &&
          qr_gate_kind_of("phasediswap") == QR_GATE_PHASED_ISWAP);
    CHECK(qr_gate_kind_of("T") == -1 && qr_gate_kind_of("") == -1);
    for (int k = 0; k < QR_GATE_KINDS; k++)
        CHECK(qr_gate_kind_of(qr_gate_info((enum qr_gate_kind)k)->name) == k);
    const char *sorted[] = {"a",    "a1", "a01b",   "a2",      "a10",
                            "a10b", "b",  "qconv2", "qconv10", "qconv100"};
    for (size_t i = 0; i < COUNT(sorted); i++)
        for (size_t j = 0; j < COUNT(sorted); j++) {
            int want = i < j ? -1 : i > j;
            if (strcmp(sorted[i], "a01b") && strcmp(sorted[j], "a01b"))
                CHECK(qr_natural_compare(sorted[i], sorted[j]) == want, "%s %s", sorted[i],
                      sorted[j]);
        }
    CHECK(qr_natural_compare("p01", "p1") == -1 && qr_natural_compare("p1", "p01") == 1 &&
          qr_natural_compare("p01", "p01") == 0);
}

/* Controls beyond the first word are checked like those in it. */
static void wide(void) {
    struct qr_circuit *c = qr_circuit_new(1000, 0), *copy;
    struct qr_gate g = {.kind = QR_GATE_H, .n_targets = 1, .n_args = 1, .targets = {999}};
    struct qr_err err;
    qr_qubits_add(&g.controls, 700);
    qr_qubits_add(&g.control_values, 700);
    CHECK(qr_circuit_add(c, &g, &err) == QR_OK, "%s", err.msg);
    qr_circuit_param(c, "a");
    copy = qr_circuit_copy(c);
    CHECK(copy->n_gates == 1 && memcmp(copy->gates, c->gates, sizeof g) == 0 &&
          copy->n_qubits == 1000 && copy->n_params == 1 && strcmp(copy->param_names[0], "a") == 0);
    qr_circuit_free(c);
    g.targets[0] = 700;
    CHECK(qr_circuit_add(copy, &g, &err) && strstr(err.msg, "qubit 700 is a target and a control"),
          "%s", err.msg);
    g.targets[0] = 1;
    qr_qubits_add(&g.control_values, 701);
    CHECK(qr_circuit_add(copy, &g, &err) && strstr(err.msg, "qubit 701, which is not a control"),
          "%s", err.msg);
    qr_qubits_add(&g.controls, 701);
    CHECK(qr_circuit_add(copy, &g, &err) == QR_OK, "%s", err.msg);
    qr_qubits_add(&g.controls, 1000);
    CHECK(qr_circuit_add(copy, &g, &err) && strstr(err.msg, "control 1000 is out of range"), "%s",
          err.msg);
    CHECK(copy->n_gates == 2);
    qr_circuit_free(copy);
}

static void rejected(void) {
    struct qr_circuit *c = qr_circuit_new(3, 2);
    qr_circuit_param(c, "a");
    const struct qr_gate good = {.kind = QR_GATE_XX,
                                 .n_targets = 2,
                                 .n_args = 1,
                                 .targets = {0, 1},
                                 .args = {{QR_ARG_PARAMETER, 1, 0}}};
    struct qr_err err;
    CHECK(qr_circuit_add(c, &good, &err) == QR_OK);
    struct {
        struct qr_gate g;
        const char *says;
    } table[10];
    for (size_t i = 0; i < COUNT(table); i++) table[i].g = good;
    table[0].g.targets[1] = 3, table[0].says = "gate 1 (XX): qubit 3 is out of range";
    table[1].g.targets[1] = 0, table[1].says = "qubit 0 is given twice";
    table[2].g.n_targets = 1, table[2].says = "acts on 2 qubits";
    table[3].g.n_args = 2, table[3].says = "takes 1 argument";
    table[4].g.controls = qr_qubits_of_mask(2), table[4].says = "qubit 1 is a target and a control";
    table[5].g.controls = qr_qubits_of_mask(8), table[5].says = "control 3 is out of range";
    table[6].g.control_values = qr_qubits_of_mask(4),
    table[6].says = "qubit 2, which is not a control";
    table[7].g.args[0].index = 1, table[7].says = "refers to parameter 1 of 1";
    table[8].g.args[0] = (struct qr_gate_arg){QR_ARG_DATA, 1, 2},
    table[8].says = "data column 2, but the circuit has 2";
    table[9].g.args[0].scale = (double)INFINITY, table[9].says = "not a finite number";
    for (size_t i = 0; i < COUNT(table); i++) {
        CHECK(qr_circuit_add(c, &table[i].g, &err) == QR_INVALID_ARGUMENT, "row %zu", i);
        CHECK(strstr(err.msg, table[i].says), "row %zu: %s", i, err.msg);
    }
    CHECK(c->n_gates == 1);
    qr_circuit_free(c);
}

/* The reference against itself: its gradient against central differences of its expectation, with
 * controls and shared parameters. Error below h^2/6 * n_gates * (2 pi)^3 * scale + eps / h < 1e-6
 * at h = 1e-5. */
static void reference_is_sound(void) {
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct qr_circuit *c = ref_random_circuit(seed, 4, 16);
        struct qr_observable o = ref_random_observable(seed, 4);
        double theta[64], x[4], g[64], hi, lo;
        ref_random_numbers(seed, 64, 0, 6, theta);
        ref_random_numbers(seed + 99, 4, -3, 3, x);
        ref_gradient(c, theta, x, &o, 1, g);
        for (unsigned k = 0; k < c->n_params; k++) {
            double at = theta[k];
            theta[k] = at + 1e-5, ref_expectation(c, theta, x, &o, 1, &hi);
            theta[k] = at - 1e-5, ref_expectation(c, theta, x, &o, 1, &lo);
            theta[k] = at;
            CHECK(fabs((hi - lo) / 2e-5 - g[k]) < 1e-6, "seed %d parameter %u", (int)seed, k);
        }
        double complex full[256];
        ref_gate_full(&c->gates[0], 4, (const double[2]){0.3, 0.4}, full);
        CHECK(not_unitary(full, 16) < 1e-13);
        qr_observable_fini(&o);
        qr_circuit_free(c);
    }
}

int main(void) {
    against_reference();
    known_matrices();
    names();
    wide();
    rejected();
    reference_is_sound();
    return t_end();
}
