/* The C interface: random circuits as JSON text against the dense reference; states, also of many
 * qubits, against expectation values; vjp against jacobian; strides and float32 arrays; equal bits
 * over threads, instruction sets and splits of a batch; methods of noise and their random numbers;
 * misuse; forks; the caller's floating-point environment. */
#include <dirent.h>
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/qring.h"
#include "base/mem.h"
#include "circuit/circuit_json.h"
#include "format/json.h"
#include "sim/kernels/isa.h"
#include "tests/ref/dense.h"
#include "tests/t.h"

/* Relative to the largest value, or to 1; by precision, as in test_sim_gradient.c. */
static const double tolerance[2] = {2e-5, 1e-12};
enum { SAMPLES = 20, OBSERVABLES = 3 };

/* ---- problems ---- */

struct problem {
    char *text;
    const char *observables[OBSERVABLES];
    struct qr_circuit *c;
    struct qr_observable obs[OBSERVABLES];
    size_t n_params, n_inputs, n_samples;
    double *weights, *x, *cotangents;
};

static unsigned draw(uint64_t *state, unsigned n) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((*state >> 33) % n);
}

static void add_gate(struct qr_buf *b, uint64_t *s, unsigned n) {
    unsigned q = draw(s, n), p = (q + 1 + draw(s, n > 1 ? n - 1 : 1)) % n;
    unsigned w = draw(s, 6), x = draw(s, 3), kind = draw(s, n > 1 ? 9 : 4);
    static const char axes[] = "XYZ";
    switch (kind) {
    case 0: qr_buf_printf(b, "{\"gate\":\"H\",\"qubits\":[%u]}", q); break;
    case 1:
        qr_buf_printf(b, "{\"gate\":\"R%c\",\"qubits\":[%u],\"angle\":\"w%u\"}", axes[draw(s, 3)],
                      q, w);
        break;
    case 2:
        qr_buf_printf(b, "{\"gate\":\"R%c\",\"qubits\":[%u],\"angle\":{\"data\":%u,\"scale\":0.7}}",
                      axes[draw(s, 3)], q, x);
        break;
    case 3: qr_buf_printf(b, "{\"gate\":\"Y\",\"qubits\":[%u],\"exponent\":0.3}", q); break;
    case 4: qr_buf_printf(b, "{\"gate\":\"CNOT\",\"qubits\":[%u,%u]}", q, p); break;
    case 5:
        qr_buf_printf(b, "{\"gate\":\"RZZ\",\"qubits\":[%u,%u],\"angle\":\"2*w%u\"}", q, p, w);
        break;
    case 6:
        qr_buf_printf(b, "{\"gate\":\"ISWAP\",\"qubits\":[%u,%u],\"exponent\":\"w%u*w%u\"}", q, p,
                      w, x);
        break;
    case 7:
        qr_buf_printf(b,
                      "{\"gate\":\"RY\",\"qubits\":[%u],\"angle\":\"w%u\",\"controls\":[%u],"
                      "\"control_values\":[%u]}",
                      q, w, p, draw(s, 2));
        break;
    default: qr_buf_printf(b, "{\"gate\":\"SWAP\",\"qubits\":[%u,%u]}", q, p); break;
    }
}

static struct problem problem_new(uint64_t seed, unsigned n, unsigned gates, size_t n_samples) {
    struct problem p = {.n_samples = n_samples};
    struct qr_buf b = {0};
    struct qr_json *root = NULL;
    struct qr_err err;
    struct qr_qubits unused;
    uint64_t s = seed;
    qr_buf_printf(&b, "{\"qubits\":%u,\"columns\":3,\"gates\":[", n);
    for (unsigned i = 0; i < gates; i++) {
        if (i) qr_buf_puts(&b, ",");
        add_gate(&b, &s, n);
    }
    qr_buf_puts(&b, "]}");
    p.text = qr_xstrdup(qr_buf_string(&b));
    qr_buf_free(&b);
    CHECK(qr_json_parse(qr_bytes_of((const uint8_t *)p.text, strlen(p.text)), "text", &root,
                        &err) == QR_OK &&
              qr_circuit_from_json(root, "circuit", &p.c, &unused, &err) == QR_OK,
          "%s", err.msg);
    qr_json_free(root);
    for (unsigned r = 0; r < OBSERVABLES; r++) {
        p.obs[r] = ref_random_observable(seed * 7 + r, n);
        p.observables[r] = p.obs[r].text;
    }
    p.n_params = p.c->n_params;
    p.n_inputs = p.c->n_columns;
    p.weights = qr_xcalloc(p.n_params + 1, sizeof(double));
    p.x = qr_xcalloc(n_samples * p.n_inputs + 1, sizeof(double));
    p.cotangents = qr_xcalloc(n_samples * OBSERVABLES, sizeof(double));
    ref_random_numbers(seed + 1, p.n_params, -2, 2, p.weights);
    ref_random_numbers(seed + 2, n_samples * p.n_inputs, -2, 2, p.x);
    ref_random_numbers(seed + 3, n_samples * OBSERVABLES, -1, 1, p.cotangents);
    return p;
}

static void problem_free(struct problem *p) {
    for (unsigned r = 0; r < OBSERVABLES; r++) qr_observable_fini(&p->obs[r]);
    qr_circuit_free(p->c);
    free(p->text);
    free(p->weights);
    free(p->x);
    free(p->cotangents);
}

static struct qring_array vector(void *data) {
    return (struct qring_array){data, QRING_FLOAT64, {sizeof(double), 0, 0}};
}
static struct qring_array matrix(void *data, size_t columns) {
    ptrdiff_t row = (ptrdiff_t)(columns * sizeof(double));
    return (struct qring_array){data, QRING_FLOAT64, {row, sizeof(double), 0}};
}
static struct qring_array cube(void *data, size_t rows, size_t columns) {
    ptrdiff_t row = (ptrdiff_t)(columns * sizeof(double));
    return (struct qring_array){data, QRING_FLOAT64, {(ptrdiff_t)rows * row, row, sizeof(double)}};
}

static struct qring_function *compile(const struct problem *p, enum qring_dtype dtype,
                                      unsigned threads, const char *isa, bool states) {
    struct qring_function *f = NULL;
    struct qring_error err;
    struct qring_options opt = {.struct_size = sizeof opt,
                                .dtype = dtype,
                                .threads = threads,
                                .isa = isa,
                                .input_gradients = 1,
                                .states = states};
    CHECK(qring_circuit_function(p->text, strlen(p->text), p->observables, states ? 0 : OBSERVABLES,
                                 &opt, &f, &err) == QRING_OK,
          "%s", err.message);
    return f;
}

struct answer {
    double *z, *dw, *dx;
};
static struct answer answer_new(const struct problem *p) {
    return (struct answer){qr_xcalloc(p->n_samples * OBSERVABLES, sizeof(double)),
                           qr_xcalloc(p->n_params + 1, sizeof(double)),
                           qr_xcalloc(p->n_samples * p->n_inputs + 1, sizeof(double))};
}
static void answer_free(struct answer *a) {
    free(a->z);
    free(a->dw);
    free(a->dx);
}

static void vjp(const struct problem *p, struct qring_function *f, size_t first, size_t n,
                struct answer *a, struct qring_sum *sum) {
    struct qring_error err;
    struct qring_array w = vector(p->weights), x = matrix(p->x + first * p->n_inputs, p->n_inputs),
                       ct = matrix(p->cotangents + first * OBSERVABLES, OBSERVABLES),
                       z = matrix(a->z + first * OBSERVABLES, OBSERVABLES), dw = vector(a->dw),
                       dx = matrix(a->dx + first * p->n_inputs, p->n_inputs);
    CHECK(qring_vjp(f, &w, &x, n, &ct, &z, &dw, &dx, sum, &err) == QRING_OK, "%s", err.message);
}

/* ---- against the dense reference ---- */

static void check_near(const char *what, const double *got, const double *want, size_t n,
                       double limit, uint64_t seed) {
    double top = 1;
    for (size_t i = 0; i < n; i++) top = fmax(top, fabs(want[i]));
    for (size_t i = 0; i < n; i++)
        CHECK(fabs(got[i] - want[i]) <= limit * top, "seed %lu, %s[%zu]: %.17g not %.17g",
              (unsigned long)seed, what, i, got[i], want[i]);
}

static void against_dense(uint64_t seed, unsigned n, enum qring_dtype dtype) {
    struct problem p = problem_new(seed, n, 4 * n + 4, 1 + seed % SAMPLES);
    size_t params = p.n_params, inputs = p.n_inputs, samples = p.n_samples;
    double limit = tolerance[dtype == QRING_FLOAT64];
    uint8_t *unseen = qr_xcalloc(params + 1, 1);
    struct qring_function *f = compile(&p, dtype, 1 + seed % 2, "auto", false);
    struct answer a = answer_new(&p), want = answer_new(&p);
    double *jw = qr_xcalloc(OBSERVABLES * params + 1, sizeof *jw),
           *jx = qr_xcalloc(OBSERVABLES * inputs + 1, sizeof *jx),
           *got_w = qr_xcalloc(samples * OBSERVABLES * params + 1, sizeof *got_w),
           *got_x = qr_xcalloc(samples * OBSERVABLES * inputs + 1, sizeof *got_x);
    struct qring_array w = vector(p.weights), x = matrix(p.x, inputs), z = matrix(a.z, OBSERVABLES),
                       gw = cube(got_w, OBSERVABLES, params), gx = cube(got_x, OBSERVABLES, inputs);
    struct qring_error err;
    CHECK(qring_n_parameters(f) == params && qring_n_inputs(f) == inputs);
    CHECK(qring_jacobian(f, &w, &x, samples, &z, &gw, &gx, &err) == QRING_OK, "%s", err.message);
    for (size_t s = 0; s < samples; s++) {
        const double *at = p.x + s * inputs, *ct = p.cotangents + s * OBSERVABLES;
        ref_expectation(p.c, p.weights, at, p.obs, OBSERVABLES, want.z + s * OBSERVABLES);
        ref_gradient(p.c, p.weights, at, p.obs, OBSERVABLES, jw);
        ref_input_gradient(p.c, p.weights, at, p.obs, OBSERVABLES, jx);
        check_near("jacobian by weights", got_w + s * OBSERVABLES * params, jw,
                   OBSERVABLES * params, limit, seed);
        check_near("jacobian by inputs", got_x + s * OBSERVABLES * inputs, jx, OBSERVABLES * inputs,
                   limit, seed);
        for (size_t r = 0; r < OBSERVABLES; r++) {
            for (size_t i = 0; i < params; i++) want.dw[i] += ct[r] * jw[r * params + i];
            for (size_t i = 0; i < inputs; i++)
                want.dx[s * inputs + i] += ct[r] * jx[r * inputs + i];
        }
    }
    check_near("z of jacobian", a.z, want.z, samples * OBSERVABLES, 10 * limit, seed);
    vjp(&p, f, 0, samples, &a, NULL);
    check_near("z", a.z, want.z, samples * OBSERVABLES, 10 * limit, seed);
    check_near("vjp by weights", a.dw, want.dw, params, limit, seed);
    qr_circuit_zero_gradient(p.c, p.obs, OBSERVABLES, unseen);
    for (size_t i = 0; i < params; i++)
        CHECK(!unseen[i] || a.dw[i] == 0, "seed %lu: no observable depends on parameter %zu: %g",
              (unsigned long)seed, i, a.dw[i]);
    check_near("vjp by inputs", a.dx, want.dx, samples * inputs, limit, seed);
    memset(a.z, 0, samples * OBSERVABLES * sizeof *a.z);
    CHECK(qring_forward(f, &w, &x, samples, &z, &err) == QRING_OK, "%s", err.message);
    check_near("forward", a.z, want.z, samples * OBSERVABLES, 10 * limit, seed);
    qring_function_free(f);
    answer_free(&a);
    answer_free(&want);
    free(jw);
    free(jx);
    free(got_w);
    free(got_x);
    free(unseen);
    problem_free(&p);
}

/* idle: number of qubits appended to the circuit, which stay 0. */
static void dense_states(uint64_t seed, unsigned n, unsigned idle) {
    struct problem p = problem_new(seed, n, idle ? 60 : 4 * n, 1 + seed % SAMPLES);
    size_t size = (size_t)1 << (n + idle);
    char *text = qr_xasprintf("{\"qubits\":%u%s", n + idle, strchr(p.text, ','));
    free(p.text);
    p.text = text;
    struct qring_function *f = compile(&p, QRING_FLOAT64, 1, "auto", true);
    double *got = qr_xcalloc(p.n_samples * size * 2, sizeof *got);
    struct qring_array w = vector(p.weights), x = matrix(p.x, p.n_inputs), to = cube(got, size, 2);
    struct qring_error err;
    double complex *want = qr_xcalloc(size, sizeof *want);
    CHECK(qring_states(f, &w, &x, p.n_samples, &to, &err) == QRING_OK, "%s", err.message);
    for (size_t s = 0; s < p.n_samples; s++) {
        memset(want, 0, size * sizeof *want);
        ref_state(p.c, p.weights, p.x + s * p.n_inputs, want);
        for (size_t i = ((size_t)1 << n) - 1; i > 0 && idle; i--) {
            want[i << idle] = want[i];
            want[i] = 0;
        }
        check_near("state", got + s * size * 2, (const double *)want, 2 * size, tolerance[1], seed);
    }
    free(want);
    free(got);
    qring_function_free(f);
    problem_free(&p);
}

/* <P> of a state, for observables of one term, straight from its definition. */
static double expectation(const double complex *state, unsigned n, const struct qr_pauli_term *t) {
    double complex sum = 0;
    for (size_t i = 0; i < (size_t)1 << n; i++) {
        double complex factor = 1;
        size_t j = i;
        for (unsigned q = 0; q < n; q++) {
            bool x = qr_qubits_has(&t->x, q), z = qr_qubits_has(&t->z, q);
            unsigned shift = n - 1 - q;
            bool one = i >> shift & 1;
            if (x) j ^= (size_t)1 << shift;
            if (x && z) factor *= CMPLX(0, one ? -1 : 1);
            else if (z) factor *= one ? -1 : 1;
        }
        sum += conj(state[j]) * factor * state[i];
    }
    return creal(sum) * t->coefficient;
}

/* Circuits so large that SIMD lanes are qubits and a state has several tiles. */
static void large_states(uint64_t seed, unsigned n) {
    struct problem p = problem_new(seed, n, 5 * n, 2);
    size_t size = (size_t)1 << n;
    struct qring_function *f = compile(&p, QRING_FLOAT64, 2, "auto", true),
                          *g = compile(&p, QRING_FLOAT64, 1, "auto", false);
    double *got = qr_xcalloc(p.n_samples * size * 2, sizeof *got);
    struct answer a = answer_new(&p);
    struct qring_array w = vector(p.weights), x = matrix(p.x, p.n_inputs), to = cube(got, size, 2),
                       z = matrix(a.z, OBSERVABLES);
    struct qring_error err;
    CHECK(qring_states(f, &w, &x, p.n_samples, &to, &err) == QRING_OK, "%s", err.message);
    CHECK(qring_forward(g, &w, &x, p.n_samples, &z, &err) == QRING_OK, "%s", err.message);
    for (size_t s = 0; s < p.n_samples; s++)
        for (unsigned r = 0; r < OBSERVABLES; r++) {
            double want = 0;
            for (size_t t = 0; t < p.obs[r].n_terms; t++)
                want += expectation((const double complex *)(const void *)(got + s * size * 2), n,
                                    &p.obs[r].terms[t]);
            CHECK(fabs(a.z[s * OBSERVABLES + r] - want) <= 10 * tolerance[1],
                  "%u qubits, sample %zu, %s: %.17g not %.17g", n, s, p.observables[r],
                  a.z[s * OBSERVABLES + r], want);
        }
    free(got);
    answer_free(&a);
    qring_function_free(f);
    qring_function_free(g);
    problem_free(&p);
}

/* With one observable, vjp is the Jacobian scaled by the sample's cotangent. */
static void one_observable(uint64_t seed, unsigned n) {
    struct problem p = problem_new(seed, n, 4 * n, 1 + seed % SAMPLES);
    struct qring_error err;
    struct qring_function *f = NULL;
    struct qring_options opt = {.struct_size = sizeof opt, .threads = 1, .input_gradients = 1};
    size_t params = p.n_params, inputs = p.n_inputs, samples = p.n_samples;
    double *by_w = qr_xcalloc(samples * params + 1, sizeof *by_w),
           *by_x = qr_xcalloc(samples * inputs + 1, sizeof *by_x);
    struct answer a = answer_new(&p), want = answer_new(&p);
    struct qring_array w = vector(p.weights), x = matrix(p.x, inputs), ct = matrix(p.cotangents, 1),
                       jw = cube(by_w, 1, params), jx = cube(by_x, 1, inputs), dw = vector(a.dw),
                       dx = matrix(a.dx, inputs);
    CHECK(qring_circuit_function(p.text, strlen(p.text), p.observables, 1, &opt, &f, &err) ==
                  QRING_OK &&
              qring_jacobian(f, &w, &x, samples, NULL, &jw, &jx, &err) == QRING_OK &&
              qring_vjp(f, &w, &x, samples, &ct, NULL, &dw, &dx, NULL, &err) == QRING_OK,
          "%s", err.message);
    for (size_t s = 0; s < samples; s++) {
        for (size_t i = 0; i < params; i++) want.dw[i] += p.cotangents[s] * by_w[s * params + i];
        for (size_t i = 0; i < inputs; i++)
            want.dx[s * inputs + i] = p.cotangents[s] * by_x[s * inputs + i];
    }
    check_near("one observable, by weights", a.dw, want.dw, params, tolerance[1], seed);
    check_near("one observable, by inputs", a.dx, want.dx, samples * inputs, tolerance[1], seed);
    qring_function_free(f);
    answer_free(&a);
    answer_free(&want);
    free(by_w);
    free(by_x);
    problem_free(&p);
}

/* ---- bits ---- */

static bool same(const struct problem *p, const struct answer *a, const struct answer *b) {
    return memcmp(a->z, b->z, p->n_samples * OBSERVABLES * sizeof(double)) == 0 &&
           memcmp(a->dw, b->dw, p->n_params * sizeof(double)) == 0 &&
           memcmp(a->dx, b->dx, p->n_samples * p->n_inputs * sizeof(double)) == 0;
}

static void equal_bits(uint64_t seed, unsigned n) {
    struct problem p = problem_new(seed, n, 4 * n, 50);
    struct answer a = answer_new(&p), b = answer_new(&p);
    struct qring_function *one = compile(&p, QRING_FLOAT32, 1, "auto", false);
    vjp(&p, one, 0, p.n_samples, &a, NULL);
    for (unsigned threads = 1; threads <= 4; threads++)
        for (unsigned isa = 0; isa < QR_ISAS; isa++) {
            if (!qr_isa_available(isa)) continue;
            struct qring_function *f = compile(&p, QRING_FLOAT32, threads, qr_isa_name(isa), false);
            vjp(&p, f, 0, p.n_samples, &b, NULL);
            CHECK(same(&p, &a, &b), "seed %lu, %u threads, %s", (unsigned long)seed, threads,
                  qr_isa_name(isa));
            qring_function_free(f);
        }
    qring_function_free(one);
    answer_free(&a);
    answer_free(&b);
    problem_free(&p);
}

/* Any split of the batch gives the same sum; sums add up. */
static void split_sums(uint64_t seed, unsigned n) {
    struct problem p = problem_new(seed, n, 4 * n, 50);
    struct answer a = answer_new(&p);
    struct qring_function *f = compile(&p, QRING_FLOAT32, 2, "auto", false);
    struct qring_sum *whole = qring_sum_new(p.n_params), *parts = qring_sum_new(p.n_params),
                     *part = qring_sum_new(p.n_params);
    struct qring_error err;
    double *x = qr_xcalloc(p.n_params + 1, sizeof *x), *y = qr_xcalloc(p.n_params + 1, sizeof *y);
    struct qring_array to_x = vector(x), to_y = vector(y);
    vjp(&p, f, 0, p.n_samples, &a, whole);
    CHECK(qring_sum_values(whole, &to_x, &err) == QRING_OK);
    CHECK(memcmp(x, a.dw, p.n_params * sizeof *x) == 0);
    for (size_t at = 0, n_part = 1; at < p.n_samples; at += n_part, n_part = n_part * 2 + 1) {
        if (n_part > p.n_samples - at) n_part = p.n_samples - at;
        vjp(&p, f, at, n_part, &a, at % 2 ? parts : part);
    }
    CHECK(qring_sum_add(parts, part, &err) == QRING_OK);
    CHECK(qring_sum_values(parts, &to_y, &err) == QRING_OK);
    CHECK(memcmp(x, y, p.n_params * sizeof *x) == 0, "seed %lu", (unsigned long)seed);
    struct qring_sum *other = qring_sum_new(p.n_params + 1);
    CHECK(qring_sum_add(parts, other, &err) == QRING_INVALID_ARGUMENT);
    qring_sum_free(other);
    qring_sum_free(whole);
    qring_sum_free(parts);
    qring_sum_free(part);
    free(x);
    free(y);
    answer_free(&a);
    qring_function_free(f);
    problem_free(&p);
}

/* Reversed rows, float32 and unaligned memory give the results of a plain float64 array. */
static void strides(void) {
    struct problem p = problem_new(5, 4, 20, 7);
    struct answer a = answer_new(&p), b = answer_new(&p);
    struct qring_function *f = compile(&p, QRING_FLOAT64, 1, "auto", false);
    struct qring_error err;
    size_t inputs = p.n_inputs, n = p.n_samples;
    float *narrow = qr_xcalloc(n * inputs + 1, sizeof *narrow);
    char *odd = qr_xcalloc(n * inputs * sizeof(double) + 1, 1);
    for (size_t i = 0; i < n * inputs; i++) p.x[i] = (double)(narrow[i] = (float)p.x[i]);
    memcpy(odd + 1, p.x, n * inputs * sizeof(double));
    vjp(&p, f, 0, n, &a, NULL);
    struct qring_array w = vector(p.weights), z = matrix(b.z, OBSERVABLES);
    struct qring_array forms[] = {
        {narrow, QRING_FLOAT32, {(ptrdiff_t)(inputs * sizeof(float)), (ptrdiff_t)sizeof(float), 0}},
        {odd + 1, QRING_FLOAT64, {(ptrdiff_t)(inputs * sizeof(double)), sizeof(double), 0}},
    };
    for (size_t i = 0; i < COUNT(forms); i++) {
        memset(b.z, 0, n * OBSERVABLES * sizeof(double));
        CHECK(qring_forward(f, &w, &forms[i], n, &z, &err) == QRING_OK, "%s", err.message);
        CHECK(memcmp(a.z, b.z, n * OBSERVABLES * sizeof(double)) == 0, "form %zu", i);
    }
    struct qring_array back = {p.x + (n - 1) * inputs,
                               QRING_FLOAT64,
                               {-(ptrdiff_t)(inputs * sizeof(double)), sizeof(double), 0}},
                       to = {b.z + (n - 1) * OBSERVABLES,
                             QRING_FLOAT64,
                             {-(ptrdiff_t)(OBSERVABLES * sizeof(double)), sizeof(double), 0}};
    CHECK(qring_forward(f, &w, &back, n, &to, &err) == QRING_OK, "%s", err.message);
    CHECK(memcmp(a.z, b.z, n * OBSERVABLES * sizeof(double)) == 0, "reversed");
    free(narrow);
    free(odd);
    answer_free(&a);
    answer_free(&b);
    qring_function_free(f);
    problem_free(&p);
}

/* ---- noise ---- */

static const char noisy[] =
    "{\"qubits\":3,\"gates\":[{\"gate\":\"RY\",\"qubits\":[0],\"angle\":\"w0\"},"
    "{\"gate\":\"RX\",\"qubits\":[1],\"angle\":\"x[0]\"},{\"gate\":\"CNOT\",\"qubits\":[0,1]},"
    "{\"channel\":\"AmplitudeDamping\",\"qubits\":[0,1],\"gamma\":\"0.3*sin(w1)*sin(w1)\"},"
    "{\"gate\":\"RZZ\",\"qubits\":[1,2],\"angle\":\"w0*x[1]\"},"
    "{\"gate\":\"RY\",\"qubits\":[2],\"angle\":\"x[2]\"},{\"gate\":\"CNOT\",\"qubits\":[1,2]}],"
    "\"noise\":{\"after\":{\"*\":{\"channel\":\"Depolarize\",\"p\":0.05}},\"readout\":{\"p\":0.02}}"
    "}";

static struct problem noisy_problem(size_t n_samples) {
    struct problem p = {.text = qr_xstrdup(noisy),
                        .observables = {"Z0 Z2", "X1", "0.5*Z2 - Y0"},
                        .n_params = 2,
                        .n_inputs = 3,
                        .n_samples = n_samples};
    p.weights = qr_xcalloc(p.n_params, sizeof(double));
    p.x = qr_xcalloc(n_samples * p.n_inputs, sizeof(double));
    p.cotangents = qr_xcalloc(n_samples * OBSERVABLES, sizeof(double));
    ref_random_numbers(1, p.n_params, -2, 2, p.weights);
    ref_random_numbers(2, n_samples * p.n_inputs, -2, 2, p.x);
    ref_random_numbers(3, n_samples * OBSERVABLES, -1, 1, p.cotangents);
    return p;
}

static struct qring_function *compile_noisy(const struct problem *p, const char *method,
                                            unsigned trajectories, unsigned threads,
                                            unsigned long long seed, const char *engine) {
    struct qring_function *f = NULL;
    struct qring_error err;
    struct qring_options opt = {.struct_size = sizeof opt,
                                .threads = threads,
                                .input_gradients = 1,
                                .method = method,
                                .trajectories = trajectories,
                                .seed = seed};
    CHECK(qring_circuit_function(p->text, strlen(p->text), p->observables, OBSERVABLES, &opt, &f,
                                 &err) == QRING_OK,
          "%s", err.message);
    CHECK(!engine || strcmp(qring_engine(f), engine) == 0, "%s: %s", method, qring_engine(f));
    return f;
}

/* The exact methods agree, and trajectories approach them. */
static void noise_methods(void) {
    struct problem p = noisy_problem(7);
    struct answer a = answer_new(&p), b = answer_new(&p);
    struct qring_function *exact = compile_noisy(&p, "exact", 0, 1, 0, NULL),
                          *density = compile_noisy(&p, "density", 0, 1, 0, "density"),
                          *plain = compile_noisy(&p, NULL, 0, 1, 5, NULL),
                          *many = compile_noisy(&p, "trajectories", 20000, 2, 1, "statevector");
    vjp(&p, exact, 0, p.n_samples, &a, NULL);
    vjp(&p, density, 0, p.n_samples, &b, NULL);
    check_near("z by method", b.z, a.z, p.n_samples * OBSERVABLES, tolerance[1], 0);
    check_near("weights by method", b.dw, a.dw, p.n_params, tolerance[1], 0);
    check_near("inputs by method", b.dx, a.dx, p.n_samples * p.n_inputs, tolerance[1], 0);
    vjp(&p, plain, 0, p.n_samples, &b, NULL);
    check_near("z of auto", b.z, a.z, p.n_samples * OBSERVABLES, tolerance[1], 0);
    vjp(&p, many, 0, p.n_samples, &b, NULL);
    check_near("z of trajectories", b.z, a.z, p.n_samples * OBSERVABLES, 0.05, 0);
    check_near("inputs of trajectories", b.dx, a.dx, p.n_samples * p.n_inputs, 0.1, 0);
    struct qring_function *list[] = {exact, density, plain, many};
    for (size_t i = 0; i < COUNT(list); i++) qring_function_free(list[i]);
    answer_free(&a);
    answer_free(&b);
    problem_free(&p);
}

/* Random numbers depend only on the seed and the sample's index in the call. A call with a sum uses
 * micro-batches of one sample, which is another split than without. */
static void noise_draws(void) {
    struct problem p = noisy_problem(50);
    struct answer a = answer_new(&p), b = answer_new(&p);
    struct qring_sum *sum = qring_sum_new(p.n_params);
    struct qring_function *f = compile_noisy(&p, "trajectories", 32, 1, 7, "statevector"),
                          *two = compile_noisy(&p, "trajectories", 32, 2, 7, NULL),
                          *other = compile_noisy(&p, "trajectories", 32, 1, 8, NULL);
    size_t z_bytes = p.n_samples * OBSERVABLES * sizeof(double);
    vjp(&p, f, 0, p.n_samples, &a, NULL);
    vjp(&p, two, 0, p.n_samples, &b, NULL);
    CHECK(same(&p, &a, &b), "2 threads");
    vjp(&p, f, 0, p.n_samples, &b, sum);
    CHECK(memcmp(a.z, b.z, z_bytes) == 0, "micro-batches of one sample");
    check_near("inputs of one sample each", b.dx, a.dx, p.n_samples * p.n_inputs, tolerance[1], 0);
    check_near("weights of one sample each", b.dw, a.dw, p.n_params, tolerance[1], 0);
    memset(b.z, 0, z_bytes);
    vjp(&p, f, 0, 20, &b, NULL);
    CHECK(memcmp(a.z, b.z, 20 * OBSERVABLES * sizeof(double)) == 0, "the first samples alone");
    vjp(&p, other, 0, p.n_samples, &b, NULL);
    for (size_t s = 0; s < p.n_samples; s++)
        CHECK(memcmp(a.z + s * OBSERVABLES, b.z + s * OBSERVABLES, OBSERVABLES * sizeof(double)),
              "sample %zu: another seed gives the same numbers", s);
    /* The same inputs in every row: each sample has random numbers of its own. */
    for (size_t i = p.n_inputs; i < p.n_samples * p.n_inputs; i++) p.x[i] = p.x[i % p.n_inputs];
    vjp(&p, f, 0, p.n_samples, &a, NULL);
    for (size_t s = 1; s < p.n_samples; s++)
        for (size_t t = 0; t < s; t++)
            CHECK(
                memcmp(a.z + s * OBSERVABLES, a.z + t * OBSERVABLES, OBSERVABLES * sizeof(double)),
                "samples %zu and %zu are equal", t, s);
    qring_sum_free(sum);
    qring_function_free(f);
    qring_function_free(two);
    qring_function_free(other);
    answer_free(&a);
    answer_free(&b);
    problem_free(&p);
}

static void noise_misuse(void) {
    static const struct {
        struct qring_options options;
        enum qring_code code;
        const char *says;
    } cases[] = {
        {{.method = "exactly"}, QRING_INVALID_ARGUMENT, "cannot use method 'exactly': "},
        {{.method = ""}, QRING_INVALID_ARGUMENT, "cannot use method ''"},
        {{.trajectories = 1048577}, QRING_INVALID_ARGUMENT, "cannot use 1048577 trajectories"},
        {{.states = 1}, QRING_UNIMPLEMENTED, "mixed"},
        {{.states = 1, .shots = 1}, QRING_INVALID_ARGUMENT, "1 shots with states"},
        {{.shots = 16777217}, QRING_INVALID_ARGUMENT, "at most 16777216"},
        {{.shots = 1, .method = "density"}, QRING_INVALID_ARGUMENT, "shots"},
        {{.gradient = "shift"}, QRING_INVALID_ARGUMENT, "cannot use gradient 'shift'"},
    };
    const char *z0[] = {"Z0"};
    struct qring_error err;
    struct qring_function *f;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct qring_options opt = cases[i].options;
        opt.struct_size = sizeof opt;
        enum qring_code code = qring_circuit_function(noisy, strlen(noisy), z0, 1, &opt, &f, &err);
        CHECK(code == cases[i].code && !f && strstr(err.message, cases[i].says), "case %zu: %d, %s",
              i, (int)code, err.message);
    }
    /* A caller compiled before `method` was added to the options. */
    struct qring_options old = {.struct_size = offsetof(struct qring_options, method),
                                .method = "exactly"};
    CHECK(qring_circuit_function(noisy, strlen(noisy), z0, 1, &old, &f, &err) == QRING_OK, "%s",
          err.message);
    qring_function_free(f);
}

/* ---- shots ---- */

enum { SHOTS = 10000, PAIRS = 20 };

/* cos(x[0]/2) |00> + sin(x[0]/2) |11>, then RY by w on qubit 1 */
static const char pair[] =
    "{\"qubits\": 2, \"columns\": 1, \"gates\": ["
    "{\"gate\": \"RY\", \"qubits\": [0], \"angle\": {\"data\": 0}},"
    "{\"gate\": \"CNOT\", \"qubits\": [0, 1]},"
    "{\"gate\": \"RY\", \"qubits\": [1], \"angle\": {\"parameter\": \"w\"}}]}";

static struct qring_function *compile_pair(const char *observable, struct qring_options opt) {
    struct qring_function *f;
    struct qring_error err;
    opt.struct_size = sizeof opt;
    CHECK(qring_circuit_function(pair, strlen(pair), &observable, observable != NULL, &opt, &f,
                                 &err) == QRING_OK,
          "%s", err.message);
    return f;
}

/* The frequency of 11 is within 5 standard errors of its probability; 01 and 10 do not occur. */
static void shot_strings(void) {
    double w = 0, x[PAIRS];
    struct qring_array weights = vector(&w), inputs = matrix(x, 1);
    struct qring_error err;
    struct qring_function *f =
                              compile_pair(NULL, (struct qring_options){.shots = SHOTS, .seed = 3}),
                          *one = compile_pair(NULL, (struct qring_options){.shots = SHOTS,
                                                                           .threads = 1,
                                                                           .isa = "portable",
                                                                           .seed = 3});
    uint64_t *a = qr_xcalloc(PAIRS * SHOTS, sizeof *a), *b = qr_xcalloc(PAIRS * SHOTS, sizeof *b);
    for (size_t s = 0; s < PAIRS; s++) x[s] = 0.15 * (double)s;
    CHECK(qring_sample(f, &weights, &inputs, PAIRS, a, &err) == QRING_OK, "%s", err.message);
    CHECK(qring_sample(one, &weights, &inputs, PAIRS, b, &err) == QRING_OK, "%s", err.message);
    CHECK(memcmp(a, b, PAIRS * SHOTS * sizeof *a) == 0, "another number of threads and kernel");
    for (size_t s = 0; s < PAIRS; s++) {
        size_t n[4] = {0};
        double p = sin(x[s] / 2) * sin(x[s] / 2);
        for (size_t i = 0; i < SHOTS; i++) n[a[s * SHOTS + i] & 3]++;
        CHECK(n[1] == 0 && n[2] == 0 && n[0] + n[3] == SHOTS);
        CHECK(fabs((double)n[3] - SHOTS * p) <= 5 * sqrt(SHOTS * p * (1 - p)), "%zu of %g", n[3],
              SHOTS * p);
    }
    CHECK(qring_sample(f, &weights, &inputs, 1, NULL, &err) == QRING_INVALID_ARGUMENT);
    CHECK(qring_sample(f, &weights, &inputs, 0, NULL, &err) == QRING_OK);
    struct qring_array z = matrix(x, 1);
    CHECK(qring_forward(f, &weights, &inputs, 1, &z, &err) == QRING_UNIMPLEMENTED &&
              strstr(err.message, "without observables"),
          "%s", err.message);
    qring_function_free(f);
    qring_function_free(one);
    free(a);
    free(b);
}

/* Z0 Z1 is cos w: its mean over shots, and its derivative from shifted read-outs. */
static void shot_means(void) {
    static const char *const gradients[] = {NULL, "adjoint", "parameter-shift"};
    double w = 0.7, x[PAIRS] = {0}, z[PAIRS], dw, one[PAIRS];
    struct qring_array weights = vector(&w), inputs = matrix(x, 1), cotangents = matrix(one, 1),
                       to_z = matrix(z, 1), to_w = vector(&dw);
    struct qring_error err;
    double n = (double)PAIRS * SHOTS, sigma = sin(w) / sqrt(n);
    for (size_t s = 0; s < PAIRS; s++) one[s] = 1.0 / PAIRS;
    for (size_t i = 0; i < COUNT(gradients); i++) {
        double mean = 0;
        struct qring_function *f = compile_pair(
            "Z0 Z1", (struct qring_options){.shots = SHOTS, .seed = i, .gradient = gradients[i]});
        CHECK(qring_vjp(f, &weights, &inputs, PAIRS, &cotangents, &to_z, &to_w, NULL, NULL, &err) ==
                  QRING_OK,
              "%s", err.message);
        for (size_t s = 0; s < PAIRS; s++) mean += z[s] / PAIRS;
        CHECK(fabs(mean - cos(w)) <= 5 * sigma && mean != cos(w), "mean %.9f", mean);
        /* half the difference of two means, each with a variance of at most 1 / n */
        double within = i == 2 ? 5 * sqrt(0.5 / n) : 1e-12;
        CHECK(fabs(dw + sin(w)) <= within, "case %zu: derivative %.9f", i, dw);
        CHECK(qring_sample(f, &weights, &inputs, 1, NULL, &err) == QRING_UNIMPLEMENTED);
        qring_function_free(f);
    }
}

/* ---- state of the process ---- */

static unsigned count_threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    unsigned n = 0;
    for (struct dirent *d; tasks && (d = readdir(tasks));) n += d->d_name[0] != '.';
    if (tasks) closedir(tasks);
    return n;
}

static void environment(void) {
    struct problem p = problem_new(9, 5, 30, 33);
    struct answer a = answer_new(&p), b = answer_new(&p);
    struct qring_function *f = compile(&p, QRING_FLOAT32, 2, "auto", false);
    vjp(&p, f, 0, p.n_samples, &a, NULL);
    fesetround(FE_UPWARD);
    vjp(&p, f, 0, p.n_samples, &b, NULL);
    CHECK(fegetround() == FE_UPWARD, "the caller's rounding is restored");
    fesetround(FE_TONEAREST);
    CHECK(same(&p, &a, &b), "with another rounding mode");
    memset(b.dw, 0, p.n_params * sizeof *b.dw);
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        vjp(&p, f, 0, p.n_samples, &b, NULL);
        bool threads = count_threads() == 2;
        qring_function_free(f);
        _exit(same(&p, &a, &b) && threads ? 0 : 1);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0, "in a forked child: %d",
          status);
    qring_function_free(f);
    answer_free(&a);
    answer_free(&b);
    problem_free(&p);
}

struct caller {
    const struct problem *p;
    struct qring_function *f;
    const struct answer *want;
    unsigned done, busy, wrong;
};

static void *call_often(void *arg) {
    struct caller *c = arg;
    struct answer a = answer_new(c->p);
    struct qring_array w = vector(c->p->weights), x = matrix(c->p->x, c->p->n_inputs),
                       z = matrix(a.z, OBSERVABLES);
    for (unsigned i = 0; i < 200 || (!c->done && i < 100000); i++) {
        enum qring_code code = qring_forward(c->f, &w, &x, c->p->n_samples, &z, NULL);
        c->done += code == QRING_OK;
        c->busy += code == QRING_FAILED_PRECONDITION;
        if (code == QRING_OK)
            c->wrong +=
                memcmp(a.z, c->want->z, c->p->n_samples * OBSERVABLES * sizeof(double)) != 0;
        else c->wrong += code != QRING_FAILED_PRECONDITION;
    }
    answer_free(&a);
    return NULL;
}

static void two_threads(void) {
    struct problem p = problem_new(11, 6, 40, 40);
    struct answer a = answer_new(&p);
    struct qring_function *f = compile(&p, QRING_FLOAT32, 2, "auto", false);
    vjp(&p, f, 0, p.n_samples, &a, NULL);
    struct caller c[2] = {{&p, f, &a, 0, 0, 0}, {&p, f, &a, 0, 0, 0}};
    pthread_t t[2];
    for (unsigned i = 0; i < 2; i++) pthread_create(&t[i], NULL, call_often, &c[i]);
    for (unsigned i = 0; i < 2; i++) pthread_join(t[i], NULL);
    CHECK(!c[0].wrong && !c[1].wrong && c[0].done && c[1].done, "%u %u wrong, %u %u done",
          c[0].wrong, c[1].wrong, c[0].done, c[1].done);
    qring_function_free(f);
    answer_free(&a);
    problem_free(&p);
}

/* ---- misuse ---- */

static void misuse(void) {
    static const char *const z0[] = {"Z0"};
    static const struct {
        const char *circuit, *observable, *isa;
        int dtype;
        size_t struct_size;
        enum qring_code code;
        const char *says;
    } cases[] = {
        {"", "Z0", NULL, 2, 0, QRING_INVALID_ARGUMENT, "circuit"},
        {"[]", "Z0", NULL, 2, 0, QRING_INVALID_ARGUMENT, "circuit"},
        {"{\"qubits\":2}", "Z0", NULL, 2, 0, QRING_INVALID_ARGUMENT, "circuit"},
        {"{\"qubits\":0,\"gates\":[]}", "Z0", NULL, 2, 0, QRING_INVALID_ARGUMENT, "circuit.qubits"},
        {"{\"qubits\":2,\"gates\":[{\"gate\":\"HH\",\"qubits\":[0]}]}", "Z0", NULL, 2, 0,
         QRING_INVALID_ARGUMENT, "HH"},
        {"{\"qubits\":2,\"gates\":[{\"gate\":\"H\",\"qubits\":[2]}]}", "Z0", NULL, 2, 0,
         QRING_INVALID_ARGUMENT, "circuit.gates[0]"},
        {"{\"qubits\":2,\"gates\":[{\"gate\":\"H\",\"qubits\":[1]}]}", "Z2", NULL, 2, 0,
         QRING_INVALID_ARGUMENT, "observables[0]"},
        {"{\"qubits\":2,\"gates\":[{\"gate\":\"H\",\"qubits\":[1]}]}", "", NULL, 2, 0,
         QRING_INVALID_ARGUMENT, "observables[0]"},
        {"{\"qubits\":2,\"gates\":[{\"gate\":\"H\",\"qubits\":[1]}]}", "Z0", "sse", 2, 0,
         QRING_INVALID_ARGUMENT, "sse"},
        {"{\"qubits\":2,\"gates\":[{\"gate\":\"H\",\"qubits\":[1]}]}", "Z0", NULL, 7, 0,
         QRING_INVALID_ARGUMENT, "dtype"},
        {"{\"qubits\":2,\"gates\":[{\"gate\":\"H\",\"qubits\":[1]}]}", "Z0", NULL, 2, 1000,
         QRING_INVALID_ARGUMENT, "struct_size"},
    };
    struct qring_error err;
    struct qring_function *f;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct qring_options opt = {.struct_size =
                                        cases[i].struct_size ? cases[i].struct_size : sizeof opt,
                                    .dtype = (enum qring_dtype)cases[i].dtype,
                                    .threads = 1,
                                    .isa = cases[i].isa};
        f = (struct qring_function *)&opt; /* must become NULL */
        enum qring_code code = qring_circuit_function(cases[i].circuit, strlen(cases[i].circuit),
                                                      &cases[i].observable, 1, &opt, &f, &err);
        CHECK(code == cases[i].code && err.code == code && !f && strstr(err.message, cases[i].says),
              "case %zu: %d, %s", i, (int)code, err.message);
    }
    CHECK(qring_circuit_function(NULL, 0, z0, 1, NULL, &f, &err) == QRING_INVALID_ARGUMENT);
    CHECK(qring_circuit_function("{}", 2, NULL, 1, NULL, &f, &err) == QRING_INVALID_ARGUMENT);
    CHECK(qring_circuit_function("{}", 2, NULL, 0, NULL, &f, NULL) == QRING_INVALID_ARGUMENT);
    static const char wide[] = "{\"qubits\":50,\"gates\":[{\"gate\":\"H\",\"qubits\":[1]}]}";
    const struct qring_options states = {.struct_size = sizeof states, .threads = 1, .states = 1};
    CHECK(qring_circuit_function(wide, strlen(wide), z0, 1, &states, &f, &err) ==
                  QRING_RESOURCE_EXHAUSTED &&
              strstr(err.message, "50 qubits"),
          "%s", err.message);
    qring_function_free(NULL);
    qring_sum_free(NULL);
}

static void bad_numbers(void) {
    struct problem p = problem_new(3, 3, 20, 4);
    struct qring_function *f = compile(&p, QRING_FLOAT64, 1, "auto", false),
                          *states = compile(&p, QRING_FLOAT64, 1, "auto", true), *plain = NULL;
    struct answer a = answer_new(&p);
    struct qring_error err;
    struct qring_options opt = {.struct_size = sizeof opt, .threads = 1};
    struct qring_array w = vector(p.weights), x = matrix(p.x, p.n_inputs),
                       z = matrix(a.z, OBSERVABLES), ct = matrix(p.cotangents, OBSERVABLES),
                       dx = matrix(a.dx, p.n_inputs), odd = w;
    odd.dtype = (enum qring_dtype)9;
    const double bad[] = {NAN, INFINITY, -INFINITY, 0x1p40, 1e300};
    for (size_t i = 0; i < COUNT(bad); i++) {
        double *at[] = {&p.weights[0], &p.x[1], &p.cotangents[2]};
        for (size_t k = 0; k < COUNT(at); k++) {
            double before = *at[k];
            *at[k] = bad[i];
            CHECK(qring_vjp(f, &w, &x, 4, &ct, &z, NULL, NULL, NULL, &err) == QRING_OUT_OF_RANGE,
                  "%g: %s", bad[i], err.message);
            *at[k] = before;
        }
    }
    CHECK(qring_forward(f, NULL, &x, 4, &z, &err) == QRING_INVALID_ARGUMENT);
    CHECK(qring_forward(f, &w, NULL, 4, &z, &err) == QRING_INVALID_ARGUMENT);
    CHECK(qring_forward(f, &w, &x, 4, NULL, &err) == QRING_INVALID_ARGUMENT);
    CHECK(qring_forward(f, &odd, &x, 4, &z, &err) == QRING_INVALID_ARGUMENT);
    CHECK(qring_forward(f, &w, &x, SIZE_MAX, &z, &err) == QRING_INVALID_ARGUMENT);
    CHECK(qring_forward(f, &w, &x, 0, &z, &err) == QRING_OK, "%s", err.message);
    CHECK(qring_forward(states, &w, &x, 4, &z, &err) == QRING_UNIMPLEMENTED);
    CHECK(qring_states(f, &w, &x, 4, &z, &err) == QRING_UNIMPLEMENTED);
    CHECK(qring_circuit_function(p.text, strlen(p.text), p.observables, OBSERVABLES, &opt, &plain,
                                 &err) == QRING_OK);
    CHECK(qring_vjp(plain, &w, &x, 4, &ct, NULL, NULL, &dx, NULL, &err) == QRING_UNIMPLEMENTED);
    struct qring_sum *sum = qring_sum_new(p.n_params + 1);
    CHECK(qring_vjp(f, &w, &x, 4, &ct, NULL, NULL, NULL, sum, &err) == QRING_INVALID_ARGUMENT);
    vjp(&p, f, 0, 4, &a, NULL); /* still works */
    qring_sum_free(sum);
    qring_function_free(f);
    qring_function_free(plain);
    qring_function_free(states);
    answer_free(&a);
    problem_free(&p);
}

static void names(void) {
    static const char text[] =
        "{\"qubits\":2,\"gates\":[{\"gate\":\"RX\",\"qubits\":[0],\"angle\":\"w10 + w2\"},"
        "{\"gate\":\"RY\",\"qubits\":[1],\"angle\":{\"data\":0}}]}";
    static const char *const observables[] = {"Z1"};
    struct qring_function *f = NULL;
    struct qring_error err;
    CHECK(qring_circuit_function(text, strlen(text), observables, 1, NULL, &f, &err) == QRING_OK,
          "%s", err.message);
    CHECK(qring_n_qubits(f) == 2 && qring_n_gates(f) == 2 && qring_n_observables(f) == 1);
    CHECK(strcmp(qring_parameter_name(f, 0), "w2") == 0 &&
          strcmp(qring_parameter_name(f, 1), "w10") == 0 && !qring_parameter_name(f, 2));
    CHECK(!qring_input_name(f, 0) && !qring_input_name(f, 1));
    char *drawing = qring_draw(f, 60);
    CHECK(strstr(drawing, "RX"));
    qring_text_free(drawing);
    CHECK(strcmp(qring_engine(f), "cones") == 0, "%s", qring_engine(f));
    CHECK(qring_version()[0]);
    qring_function_free(f);
}

/* OpenQASM and Cirq's JSON become the JSON that qring_circuit_function reads; errors show their
 * line. */
static void openqasm(void) {
    static const char text[] = "input float w; input float a; qubit[2] q; bit c;\n"
                               "U(w, 0, 0) q[0]; ctrl @ U(a, 0, 0) q[0], q[1]; c = measure q[1];",
                      bad[] = "qubit q;\n foo q;";
    const char *inputs[] = {"a"}, *z[] = {"Z1"};
    char *circuit = NULL, *readouts = NULL;
    struct qring_error err = {0};
    struct qring_function *f = NULL;
    CHECK(qring_circuit_from_qasm(text, sizeof text - 1, inputs, 1, &circuit, &readouts, &err) ==
                  QRING_OK &&
              strcmp(readouts, "[\"Z1\"]") == 0,
          "%s", err.message);
    CHECK(qring_circuit_function(circuit, strlen(circuit), z, 1, NULL, &f, &err) == QRING_OK &&
              qring_n_inputs(f) == 1 && strcmp(qring_parameter_name(f, 0), "w") == 0,
          "%s", err.message);
    qring_function_free(f);
    qring_text_free(circuit);
    qring_text_free(readouts);
    CHECK(qring_circuit_from_qasm(text, sizeof text - 1, NULL, 0, &circuit, NULL, NULL) == QRING_OK,
          "without read-outs");
    qring_text_free(circuit);
    static const char cirq[] =
        "[{\"cirq_type\": \"Circuit\", \"moments\": [{\"operations\": [{\"cirq_type\": "
        "\"GateOperation\", \"gate\": {\"cirq_type\": \"Ry\", \"rads\": {\"cirq_type\": "
        "\"sympy.Symbol\", \"name\": \"b\"}}, \"qubits\": [{\"cirq_type\": \"LineQubit\", "
        "\"x\": 7}]}]}]}, {\"cirq_type\": \"PauliString\", \"qubit_pauli_map\": [], "
        "\"coefficient\": 2}]";
    const char *b[] = {"b"};
    CHECK(qring_circuit_from_cirq(cirq, sizeof cirq - 1, b, 1, &circuit, &readouts, &err) ==
                  QRING_OK &&
              strstr(circuit, "\"angle\":\"x[0]\"") && strcmp(readouts, "[\"2\"]") == 0,
          "%s", err.message);
    qring_text_free(circuit);
    qring_text_free(readouts);
    CHECK(qring_circuit_from_cirq(cirq, sizeof cirq - 2, NULL, 0, &circuit, NULL, &err) ==
                  QRING_INVALID_ARGUMENT &&
              strncmp(err.message, "cannot read the circuit: ", 25) == 0 &&
              qring_circuit_from_cirq(NULL, 0, NULL, 0, &circuit, NULL, &err) ==
                  QRING_INVALID_ARGUMENT &&
              strstr(err.message, "text is NULL"),
          "%s", err.message);
    CHECK(qring_circuit_from_qasm(bad, sizeof bad - 1, NULL, 0, &circuit, NULL, &err) ==
                  QRING_INVALID_ARGUMENT &&
              strstr(err.message, "line 2, column 2: ") && strstr(err.message, "\n   foo q;\n   ^"),
          "%s", err.message);
    CHECK(qring_circuit_from_qasm(bad, sizeof bad - 1, NULL, 0, &circuit, NULL, NULL) ==
                  QRING_INVALID_ARGUMENT &&
              qring_circuit_from_qasm(NULL, 0, NULL, 0, &circuit, NULL, &err) ==
                  QRING_INVALID_ARGUMENT &&
              qring_circuit_from_qasm(text, sizeof text - 1, inputs, 1, NULL, NULL, &err) ==
                  QRING_INVALID_ARGUMENT,
          "%s", err.message);
}

static void write_circuit(void) {
    static const char circuit[] =
        "{\"qubits\":2,\"gates\":[{\"gate\":\"RX\",\"qubits\":[0],\"angle\":\"w\"},"
        "{\"gate\":\"RY\",\"qubits\":[1],\"angle\":\"x[0]\"}]}";
    const char *observables[] = {"Z1"};
    const double w = 0.5, x[2] = {0.25};
    struct qring_error err;
    char *text = NULL;
    size_t n = 0;
    struct qring_write_options o = {.struct_size = sizeof o,
                                    .observables = observables,
                                    .n_observables = 1,
                                    .parameters = &w,
                                    .n_parameters = 1,
                                    .inputs = x,
                                    .n_inputs = 1};
    CHECK(!qring_circuit_write(circuit, sizeof circuit - 1, "qasm3", &o, &text, &n, &err) &&
              n == strlen(text) &&
              strstr(text, "rx(0.5) q[0];\nry(0.25) q[1];\nc[0] = measure q[1]"),
          "%s %s", err.message, text);
    qring_text_free(text);
    CHECK(!qring_circuit_write(circuit, sizeof circuit - 1, "svg", NULL, &text, NULL, NULL) &&
              strstr(text, "<title>RX(w)</title>") && !strstr(text, "⟨Z⟩"),
          "%s", text);
    qring_text_free(text);
    o.n_inputs = 2;
    CHECK(qring_circuit_write(circuit, sizeof circuit - 1, "qasm3", &o, &text, &n, &err) ==
                  QRING_INVALID_ARGUMENT &&
              strstr(err.message, "cannot write the circuit: the circuit has 1 inputs, not 2"),
          "%s", err.message);
    CHECK(qring_circuit_write(circuit, sizeof circuit - 1, "png", NULL, &text, NULL, &err) ==
                  QRING_INVALID_ARGUMENT &&
              strstr(err.message, "unknown format 'png'"),
          "%s", err.message);
    CHECK(qring_circuit_write(NULL, 0, "svg", NULL, &text, NULL, &err) == QRING_INVALID_ARGUMENT &&
              qring_circuit_write(circuit, sizeof circuit - 1, NULL, NULL, &text, NULL, &err) ==
                  QRING_INVALID_ARGUMENT &&
              qring_circuit_write(circuit, sizeof circuit - 1, "svg", NULL, NULL, NULL, &err) ==
                  QRING_INVALID_ARGUMENT,
          "%s", err.message);
}

int main(void) {
    for (uint64_t seed = 1; seed <= 40; seed++) {
        against_dense(seed, 1 + seed % 6, QRING_FLOAT64);
        against_dense(seed + 100, 1 + seed % 6, QRING_FLOAT32);
        dense_states(seed + 200, 1 + seed % 8, 0);
        one_observable(seed + 300, 1 + seed % 12);
    }
    for (unsigned idle = 4; idle <= 8; idle++) dense_states(idle, 8, idle);
    for (unsigned n = 10; n <= 16; n += 2) large_states(n, n);
    for (uint64_t seed = 1; seed <= 5; seed++) {
        equal_bits(seed, 2 + seed);
        split_sums(seed, 2 + seed);
    }
    equal_bits(7, 13);
    noise_methods();
    noise_draws();
    noise_misuse();
    shot_strings();
    shot_means();
    strides();
    environment();
    two_threads();
    misuse();
    bad_numbers();
    names();
    openqasm();
    write_circuit();
    return t_end();
}
