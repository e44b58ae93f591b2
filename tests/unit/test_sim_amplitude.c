/* Amplitude encoding (the ansatz 'amplitude'): read-outs, gradients by parameters and derivatives
 * by inputs against the dense reference, and against the closed form of x / |x|, which has no
 * gates; equal bits over tables and threads; zeros. */
#include <math.h>

#include "circuit/circuit_json.h"

#include "tests/ref/problem.h"

static struct deviation deviation = {.tolerance = {5e-5, 1e-12}};

static struct qr_circuit *circuit_of(const char *text) {
    struct qr_json *root = NULL;
    struct qr_circuit *c = NULL;
    struct qr_qubits readouts;
    struct qr_err err = {0};
    CHECK(qr_json_parse(qr_bytes_of_string(text), "text", &root, &err) == QR_OK &&
              qr_circuit_from_json(root, "circuit", &c, &readouts, &err) == QR_OK,
          "%s: %s", text, err.msg);
    qr_json_free(root);
    if (!c) exit(1);
    return c;
}

static struct problem problem_of(struct qr_circuit *c, uint64_t seed, size_t n_samples) {
    struct problem p = {.c = c, .n_samples = n_samples};
    problem_draw(&p, seed);
    return p;
}

static struct answer run_engine(const struct problem *p, enum qr_precision precision,
                                enum qr_isa isa, unsigned threads, const uint8_t *wanted) {
    const struct qr_sim_options opt = {
        .precision = precision, .isa = isa, .engine = QR_ENGINE_AUTO, .wanted = wanted};
    return answer_of(p, p->c, p->obs, &opt, threads, NULL);
}

/* ---- the closed form ---- */

/* Returns the sum of weight[r] <O_r> for a / |a|, and its derivatives by the amplitudes a[dim]. */
static double closed_form(const struct qr_observable *obs, size_t n_obs, const double *weight,
                          unsigned n, const double *a, double *ret_by) {
    size_t dim = (size_t)1 << n;
    double square = 0, sum = 0;
    for (size_t i = 0; i < dim; i++) square += a[i] * a[i], ret_by[i] = 0;
    /* The real part of O a, as a is real. */
    for (size_t r = 0; r < n_obs; r++)
        for (size_t t = 0; t < obs[r].n_terms; t++)
            for (size_t i = 0; i < dim; i++) {
                const struct qr_pauli_term *term = &obs[r].terms[t];
                size_t j = i;
                double complex factor = weight[r] * term->coefficient;
                for (unsigned q = 0; q < n; q++) {
                    size_t bit = (size_t)1 << (n - 1 - q);
                    bool x = qr_qubits_has(&term->x, q), z = qr_qubits_has(&term->z, q);
                    if (x) j ^= bit;
                    if (z && (i & bit)) factor = -factor;
                    if (x && z) factor *= __builtin_complex(0.0, 1.0);
                }
                ret_by[j] += creal(factor) * a[i];
            }
    for (size_t i = 0; i < dim; i++) sum += a[i] * ret_by[i] / square;
    for (size_t i = 0; i < dim; i++) ret_by[i] = 2 * (ret_by[i] - sum * a[i]) / square;
    return sum;
}

/* Checks the ansatz alone, with dim inputs. Derivatives are 0 for a pair of inputs that are
 * both 0. */
static void check_closed_form(const struct problem *p, enum qr_precision precision, uint64_t seed) {
    enum { DIM = MAX_COLUMNS };
    unsigned n = p->c->n_qubits;
    size_t dim = (size_t)1 << n;
    uint8_t wanted[DIM];
    double want[DIM];
    memset(wanted, 1, sizeof wanted);
    struct answer a = run_engine(p, precision, qr_isa_best(), 0, wanted);
    CHECK(a.ok && p->c->n_columns == dim && dim <= DIM, "seed %lu", (unsigned long)seed);
    for (size_t s = 0; s < p->n_samples; s++) {
        const double *x = p->x + s * dim, *direction = p->direction + s * p->n_obs;
        double z = 0, top = 1, sum = closed_form(p->obs, p->n_obs, direction, n, x, want);
        for (size_t r = 0; r < p->n_obs; r++) z += direction[r] * a.z[s * p->n_obs + r];
        off_by(&deviation, "z", z, sum, 10, precision, seed);
        for (size_t i = 0; i < dim; i++) top = fmax(top, fabs(p->scale[s] * want[i]));
        for (size_t i = 0; i < dim; i++) {
            bool pair = x[i] == 0 && x[i ^ 1] == 0;
            off_by(&deviation, "by an amplitude", a.dx[s * dim + i],
                   pair ? 0 : p->scale[s] * want[i], top, precision, seed);
        }
    }
}

static void test_alone(void) {
    for (uint64_t seed = 1; seed <= 40; seed++) {
        unsigned n = 1 + (unsigned)(seed % 5);
        char text[64];
        snprintf(text, sizeof text, "{\"ansatz\": \"amplitude\", \"qubits\": %u}", n);
        struct problem p = problem_of(circuit_of(text), seed, 3);
        size_t dim = (size_t)1 << n;
        for (size_t i = 0; seed % 4 == 0 && i < 2 * dim; i++) /* single zeros and blocks of zeros */
            if (seed >> 2 & (1u << i / 3 % 3)) p.x[i] = 0;
        for (size_t i = 0; seed % 7 == 0 && i < dim; i++) p.x[i] *= 1e-3;
        p.x[0] = 1;
        p.x[dim] = -1;
        for (int precision = 0; precision < 2; precision++)
            check_closed_form(&p, (enum qr_precision)precision, seed);
        problem_fini(&p);
    }
}

/* ---- with other gates, against the dense reference ---- */

#define LAYERS "{\"ansatz\": \"strongly-entangling\"}"
static const char *const circuits[] = {
    "{\"qubits\": 3, \"gates\": [{\"ansatz\": \"amplitude\"}, " LAYERS "]}",
    "{\"qubits\": 3, \"gates\": [{\"ansatz\": \"amplitude\", \"inputs\": 5, \"pad_with\": 0.5}, "
    "{\"ansatz\": \"angle\", \"data\": 3}, " LAYERS "]}",
    "{\"qubits\": 4, \"gates\": [{\"ansatz\": \"amplitude\", \"qubits\": [2, 0, 3], \"data\": "
    "[4, 1, 1, 0, 5, 6], \"pad_with\": 0}, " LAYERS "]}",
    /* Two states of the same inputs side by side, and one more after them. */
    "{\"qubits\": 4, \"gates\": [{\"ansatz\": \"amplitude\", \"qubits\": [0, 1]}, {\"ansatz\": "
    "\"amplitude\", \"qubits\": [3, 2], \"data\": 2}, " LAYERS ", {\"ansatz\": \"amplitude\", "
    "\"qubits\": [1, 3]}, {\"gate\": \"RY\", \"qubits\": [0], \"angle\": \"w*hypot(x[0], "
    "x[1])\"}]}",
    "{\"qubits\": 2, \"gates\": [{\"ansatz\": \"amplitude\"}, " LAYERS ", {\"gate\": \"RX\", "
    "\"qubits\": [1], \"angle\": \"atan2(w*x[0], x[1] + v)\"}]}",
};

static void test_with_other_gates(void) {
    for (uint64_t seed = 1; seed <= 4 * COUNT(circuits); seed++) {
        struct problem p =
            problem_of(circuit_of(circuits[seed % COUNT(circuits)]), seed, seed % 6 == 0 ? 18 : 2);
        uint8_t wanted[MAX_COLUMNS] = {1};
        for (unsigned i = 0; i < p.c->n_columns; i++) wanted[i] = seed % 2 || i % 3;
        for (int precision = 0; precision < 2; precision++) {
            struct answer a =
                run_engine(&p, (enum qr_precision)precision, qr_isa_best(), 0, wanted);
            CHECK(a.ok);
            check_against_dense(&deviation, &p, &a, wanted, (enum qr_precision)precision, seed);
            for (int isa = 0; isa < QR_ISAS; isa++) {
                if (!qr_isa_available((enum qr_isa)isa)) continue;
                struct answer b = run_engine(&p, (enum qr_precision)precision, (enum qr_isa)isa,
                                             (unsigned)isa % 3, wanted);
                CHECK(answer_equal(&a, &b), "bits of %s, seed %lu", qr_isa_name((enum qr_isa)isa),
                      (unsigned long)seed);
            }
        }
        problem_fini(&p);
    }
}

/* ---- shared subexpressions ---- */

/* Shared subexpressions stand before their uses, once. A copy, and a circuit whose columns were
 * moved, have the same ones. */
static void test_shared(void) {
    struct qr_circuit *c = circuit_of("{\"qubits\": 3, \"gates\": [{\"ansatz\": \"amplitude\"}, "
                                      "{\"ansatz\": \"amplitude\"}]}"),
                      *copy = qr_circuit_copy(c);
    const char *const names[] = {"a", NULL, "b", NULL, NULL, NULL, NULL, NULL, NULL};
    struct qr_err err;
    /* 7 angles, 6 lengths, 2 + 8 sums */
    CHECK(c->n_expressions == 7 + 6 + 2 + 8 && c->n_gates == 2 * (7 + 6), "%zu expressions",
          c->n_expressions);
    for (size_t i = 0; i < c->n_expressions; i++) {
        CHECK(qr_expression_equal(&c->expressions[i], &copy->expressions[i]));
        for (unsigned k = 0; k < c->expressions[i].n; k++)
            CHECK(c->expressions[i].node[k].op != QR_EXPRESSION_SHARED ||
                  c->expressions[i].node[k].index < i);
    }
    CHECK(qr_circuit_resolve_columns(copy, names, COUNT(names), &err) == QR_OK, "%s", err.msg);
    for (size_t i = 0; i < c->n_expressions; i++)
        CHECK(qr_expression_equal(&c->expressions[i], &copy->expressions[i]));
    qr_circuit_free(copy);
    qr_circuit_free(c);
}

/* ---- zeros ---- */

/* A sample of zeros gives |0...0> and has no derivatives. */
static void test_zeros(void) {
    static const uint8_t wanted[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct problem p = problem_of(circuit_of("{\"ansatz\": \"amplitude\", \"qubits\": 3}"), 5, 2);
    struct qr_err err;
    for (size_t r = 0; r < p.n_obs; r++) qr_observable_fini(&p.obs[r]);
    p.n_obs = 1;
    CHECK(qr_observable_parse("Z0 + 10*Z1 + 100*Z2 + X0", 3, &p.obs[0], &err) == QR_OK);
    for (size_t i = 0; i < 8; i++) p.x[8 + i] = i % 2 ? -0.0 : 0.0;
    for (int precision = 0; precision < 2; precision++) {
        struct answer a = run_engine(&p, (enum qr_precision)precision, qr_isa_best(), 0, wanted);
        CHECK(a.ok && fabs(a.z[1] - 111) <= 1e-4, "%g", a.z[1]);
        for (size_t i = 0; i < 8; i++) CHECK(a.dx[i] != 0 && a.dx[8 + i] == 0, "%g", a.dx[8 + i]);
    }
    problem_fini(&p);
}

/* ---- many qubits ---- */

/* The largest sizes, in double precision. */
static void test_large(unsigned n) {
    enum { MOST = 1 << 14 };
    static double x[2 * MOST], dx[2 * MOST], want[MOST];
    static uint8_t wanted[MOST];
    char text[64];
    size_t dim = (size_t)1 << n;
    snprintf(text, sizeof text, "{\"ansatz\": \"amplitude\", \"qubits\": %u}", n);
    struct qr_circuit *c = circuit_of(text);
    struct qr_observable o;
    struct qr_err err;
    struct qr_sim_plan *plan = NULL;
    struct qr_sim_workspace *ws = NULL;
    double z[2], top = 0, off = 0;
    const double one[2] = {1, 1};
    CHECK(qr_observable_parse("Z0 + 0.5*X1 Z3 + Y2 Y7", n, &o, &err) == QR_OK, "%s", err.msg);
    memset(wanted, 1, sizeof wanted);
    ref_random_numbers(n, 2 * dim, -1, 1, x);
    const struct qr_sim_options opt = {
        .precision = QR_DOUBLE, .isa = qr_isa_best(), .engine = QR_ENGINE_AUTO, .wanted = wanted};
    CHECK(qr_sim_compile(c, &o, 1, &opt, &plan, &err) == QR_OK &&
          qr_sim_workspace_new(plan, 2, &ws, &err) == QR_OK);
    struct qr_sim_bound *b = qr_sim_bound_new(plan);
    qr_sim_bind(b, NULL, NULL);
    qr_sim_forward(b, ws, NULL, x, dim, 2, z);
    CHECK(qr_sim_backward(b, ws, NULL, one, one, NULL, dx));
    for (size_t s = 0; s < 2; s++) {
        double sum = closed_form(&o, 1, one, n, x + s * dim, want);
        CHECK(fabs(z[s] - sum) <= 1e-12, "%u qubits: %.17g not %.17g", n, z[s], sum);
        for (size_t i = 0; i < dim; i++) {
            top = fmax(top, fabs(want[i]));
            off = t_worst(off, fabs(want[i] - dx[s * dim + i]));
        }
    }
    printf("    %u qubits: %.2g of the largest component\n", n, off / top);
    CHECK(off <= 1e-12 * top, "%u qubits: %g of %g", n, off, top);
    qr_sim_workspace_free(ws);
    qr_sim_bound_free(b);
    qr_sim_plan_free(plan);
    qr_observable_fini(&o);
    qr_circuit_free(c);
}

int main(void) {
    test_alone();
    test_with_other_gates();
    test_shared();
    test_zeros();
    test_large(8);
    test_large(10);
    test_large(12);
    test_large(14);
    printf("    worst %.2g of the largest component in single precision, %.2g in double\n",
           deviation.worst[QR_SINGLE], deviation.worst[QR_DOUBLE]);
    return t_end();
}
