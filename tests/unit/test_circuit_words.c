/* Composite gates: equal to PennyLane's and Qiskit's matrices and to their definitions, also with
 * controls; derivatives; every engine; any constant unitary. */
#include <float.h>
#include <math.h>

#include "circuit/circuit_json.h"
#include "circuit/composite_gates.h"
#include "tests/golden.h"
#include "tests/ref/dense.h"
#include "tests/ref/field.h"
#include "tests/ref/problem.h"

enum { MAX_QUBITS_HERE = 7, MAX_ENTRIES = 1 << (2 * MAX_QUBITS_HERE) };

static struct qr_circuit *circuit_of(const struct qr_json *json) {
    struct qr_circuit *c = NULL;
    struct qr_qubits readouts;
    struct qr_err err;
    CHECK(qr_circuit_from_json(json, "circuit", &c, &readouts, &err) == QR_OK, "%s", err.msg);
    if (!c) exit(1);
    return c;
}

static struct qr_circuit *read_circuit(const char *text) {
    struct qr_json *root = NULL;
    struct qr_err err;
    CHECK(qr_json_parse(qr_bytes_of_string(text), "test", &root, &err) == QR_OK, "%s: %s", err.msg,
          text);
    struct qr_circuit *c = circuit_of(root);
    qr_json_free(root);
    return c;
}

/* The product of all gates on all qubits. */
static void matrix_of(const struct qr_circuit *c, const double *theta, const double *x,
                      double complex *ret) {
    size_t dim = (size_t)1 << c->n_qubits;
    static double complex gate[MAX_ENTRIES], before[MAX_ENTRIES];
    for (size_t i = 0; i < dim * dim; i++) ret[i] = i % (dim + 1) == 0;
    for (size_t i = 0; i < c->n_gates; i++) {
        double a[2] = {0, 0};
        for (unsigned k = 0; k < c->gates[i].n_args; k++)
            a[k] = qr_gate_arg_value(&c->gates[i].args[k], theta, x);
        ref_gate_full(&c->gates[i], c->n_qubits, a, gate);
        memcpy(before, ret, dim * dim * sizeof *ret);
        for (size_t r = 0; r < dim; r++)
            for (size_t k = 0; k < dim; k++) {
                double complex sum = 0;
                for (size_t j = 0; j < dim; j++) sum += gate[r * dim + j] * before[j * dim + k];
                ret[r * dim + k] = sum;
            }
    }
}

/* Distance up to a global phase, unless `phase`. */
static double distance(const double complex *a, const double complex *b, size_t n, bool phase) {
    double worst = 0;
    double complex turn = 1;
    for (size_t i = 0; i < n && !phase; i++)
        if (cabs(b[i]) > 0.1) {
            turn = a[i] / b[i];
            break;
        }
    for (size_t i = 0; i < n; i++) worst = t_worst(worst, cabs(a[i] - turn * b[i]));
    return worst;
}

/* An entry is a sum of products of at most 40 numbers, each within a few 2^-53, in both programs
 * (Qiskit builds a controlled unitary from many gates). */
#define ENTRY_TOLERANCE 1e-14

static void against_others(void) {
    struct qr_json *root = golden_load("tests/golden/gates/gates.json");
    size_t n = 0;
    for (const struct qr_json *row = qr_json_first(qr_json_get(root, "rows")); row;
         row = qr_json_next(row), n++) {
        static double complex ours[MAX_ENTRIES], theirs[MAX_ENTRIES];
        struct qr_circuit *c = circuit_of(qr_json_get(row, "circuit"));
        size_t entries = (size_t)1 << (2 * c->n_qubits);
        const struct qr_json *matrix = qr_json_get(row, "matrix");
        double *numbers = qr_xcalloc(2 * entries, sizeof *numbers);
        CHECK(golden_count(matrix) == 2 * entries);
        golden_fill(matrix, numbers);
        for (size_t i = 0; i < entries; i++)
            theirs[i] = __builtin_complex(numbers[2 * i], numbers[2 * i + 1]);
        matrix_of(c, NULL, NULL, ours);
        double off = distance(ours, theirs, entries, golden_flag(row, "phase"));
        CHECK(off < ENTRY_TOLERANCE, "%s: %g", golden_text(row, "from"), off);
        free(numbers);
        qr_circuit_free(c);
    }
    CHECK(n > 200, "%zu rows", n);
    qr_json_free(root);
}

/* ---- definitions ---- */

/* Writes the gate with argument k as `text[k]` on qubits 0, 1, ..., and with a control on value 0
 * unless `control` is -1. */
static void write_gate(const struct ref_field_gate *f, char text[][64], int control,
                       struct qr_buf *to) {
    qr_buf_printf(to, "{\"gate\": \"%s\", \"qubits\": [", f->name);
    for (unsigned q = 0; q < f->n_qubits; q++) qr_buf_printf(to, "%s%u", q ? ", " : "", q);
    qr_buf_puts(to, "]");
    for (unsigned k = 0; k < REF_FIELD_ARGS && f->args[k]; k++)
        qr_buf_printf(to, ", \"%s\": %s", f->args[k], text[k]);
    if (strcmp(f->name, "PauliRot") == 0) qr_buf_printf(to, ", \"pauli_word\": \"%s\"", f->word);
    if (control >= 0) qr_buf_printf(to, ", \"controls\": [%d], \"control_values\": [0]", control);
    qr_buf_puts(to, "}");
}

/* The definition on the first qubits; `control`: with a control on value 0 as the last qubit. */
static void definition(const struct ref_field_gate *f, const double *a, bool control,
                       double complex *ret) {
    double complex u[256];
    unsigned n = f->n_qubits + control, d = 1u << f->n_qubits, dim = 1u << n;
    f->matrix(f, a, u);
    for (unsigned r = 0; r < dim; r++)
        for (unsigned c = 0; c < dim; c++)
            ret[r * dim + c] = !control             ? u[r * d + c]
                               : (r & 1) != (c & 1) ? 0
                               : r & 1              ? (double)(r == c)
                                                    : u[(r >> 1) * d + (c >> 1)];
}

static unsigned args_of(const struct ref_field_gate *f) {
    unsigned n = 0;
    while (n < REF_FIELD_ARGS && f->args[n]) n++;
    return n;
}

/* Expectation of o, which has X or Z on every qubit, after the circuit `turns` and then u. */
static double expectation(const double complex *u, const struct qr_circuit *turns,
                          const struct qr_observable *o) {
    double complex state[1 << MAX_QUBITS_HERE], out[1 << MAX_QUBITS_HERE];
    unsigned n = turns->n_qubits, dim = 1u << n;
    ref_state(turns, NULL, NULL, state);
    for (unsigned r = 0; r < dim; r++) {
        out[r] = 0;
        for (unsigned c = 0; c < dim; c++) out[r] += u[r * dim + c] * state[c];
    }
    double complex sum = 0;
    for (unsigned c = 0; c < dim; c++) {
        unsigned row = c;
        double sign = 1;
        for (unsigned q = 0; q < n; q++) {
            unsigned mask = 1u << (n - 1 - q);
            if (qr_qubits_has(&o->terms[0].x, q)) row ^= mask;
            else if (c & mask) sign = -sign;
        }
        sum += conj(out[row]) * sign * out[c];
    }
    return creal(sum);
}

static void put_rotations(unsigned n, unsigned seed, struct qr_buf *to) {
    double a[2 * MAX_QUBITS_HERE];
    ref_random_numbers(seed, COUNT(a), 0.3, 2.5, a);
    for (unsigned q = 0; q < n; q++)
        qr_buf_printf(to,
                      "{\"gate\": \"RY\", \"qubits\": [%u], \"angle\": %.17g}, "
                      "{\"gate\": \"RX\", \"qubits\": [%u], \"angle\": %.17g}%s",
                      q, a[2 * q], q, a[2 * q + 1], q + 1 < n ? ", " : "");
}

/* Values and derivatives. Argument 0 is shared with a scale, the last of several is data. A central
 * difference at 1e-4 is off by h^2/6 * 2^3 * 0.7^3 + 1e-15 / h < 1e-8. */
static void one_definition(const struct ref_field_gate *f, bool control, unsigned seed) {
    static double complex ours[MAX_ENTRIES], want[MAX_ENTRIES];
    unsigned n = f->n_qubits + control, n_args = args_of(f), n_params = n_args > 1 ? n_args - 1 : 1;
    double a[REF_FIELD_ARGS], theta[REF_FIELD_ARGS], x[1];
    char text[REF_FIELD_ARGS][64];
    struct qr_buf b = {0};
    ref_random_numbers(seed, REF_FIELD_ARGS, -3, 3, theta);
    ref_random_numbers(seed + 7, 1, -3, 3, x);
    for (unsigned k = 0; k < n_args; k++) {
        bool data = k == n_params;
        snprintf(text[k], sizeof text[k], "{\"%s\": %s%.0u%s, \"scale\": 0.7}",
                 data ? "data" : "parameter", data ? "0" : "\"p", data ? 0 : k + 1,
                 data ? "" : "\"");
        a[k] = 0.7 * (data ? x[0] : theta[k]);
    }
    qr_buf_printf(&b, "{\"qubits\": %u, \"gates\": [", n);
    write_gate(f, text, control ? (int)f->n_qubits : -1, &b);
    qr_buf_puts(&b, "]}");
    struct qr_circuit *c = read_circuit(qr_buf_string(&b));
    matrix_of(c, theta, x, ours);
    definition(f, a, control, want);
    double off = distance(ours, want, (size_t)1 << 2 * n, true);
    CHECK(off < ENTRY_TOLERANCE, "%s, %d controls: %g", f->name, control, off);
    CHECK(c->n_params == n_params && c->n_columns == (n_args > 1), "%s", f->name);
    qr_circuit_free(c);

    struct qr_buf t = {0};
    qr_buf_printf(&t, "{\"qubits\": %u, \"gates\": [", n);
    put_rotations(n, seed + 1, &t);
    qr_buf_clear(&b);
    qr_buf_puts(&b, qr_buf_string(&t));
    qr_buf_puts(&b, ", ");
    write_gate(f, text, control ? (int)f->n_qubits : -1, &b);
    qr_buf_puts(&b, "]}");
    qr_buf_puts(&t, "]}");
    c = read_circuit(qr_buf_string(&b));
    struct qr_circuit *turns = read_circuit(qr_buf_string(&t));
    char word[64] = "Z0";
    for (unsigned q = 1; q < n; q++)
        snprintf(word + strlen(word), sizeof word - strlen(word), " %c%u", q % 2 ? 'X' : 'Z', q);
    struct qr_observable o;
    double gradient[REF_FIELD_ARGS];
    CHECK(qr_observable_parse(word, n, &o, QR_IGNORED) == QR_OK);
    ref_gradient(c, theta, x, &o, 1, gradient);
    for (unsigned k = 0; k < n_params; k++) {
        double at = a[k], side[2];
        for (int up = 0; up < 2; up++) {
            a[k] = at + 0.7 * (up ? 1e-4 : -1e-4);
            definition(f, a, control, want);
            side[up] = expectation(want, turns, &o);
        }
        a[k] = at;
        CHECK(fabs((side[1] - side[0]) / 2e-4 - gradient[k]) < 1e-8, "%s argument %u: %.12g not %g",
              f->name, k, gradient[k], (side[1] - side[0]) / 2e-4);
    }
    qr_observable_fini(&o);
    qr_circuit_free(c);
    qr_circuit_free(turns);
    qr_buf_free(&b);
    qr_buf_free(&t);
}

static void definitions(void) {
    const struct ref_field_gate *f;
    for (unsigned i = 0; (f = ref_field_gate_at(i)); i++)
        for (unsigned seed = 0; seed < 6; seed++) one_definition(f, seed % 2, 100 * i + seed);
}

/* Each gate of the table has a row in the golden file or among the definitions. */
static void all_have_references(void) {
    struct qr_json *root = golden_load("tests/golden/gates/gates.json");
    const struct qr_composite_gate *w;
    const struct ref_field_gate *f;
    for (size_t i = 0; (w = qr_composite_gate_at(i)); i++) {
        bool found = false;
        for (unsigned k = 0; (f = ref_field_gate_at(k)); k++)
            found |= qr_composite_gate_of(f->name) == w;
        for (const struct qr_json *row = qr_json_first(qr_json_get(root, "rows")); row && !found;
             row = qr_json_next(row))
            found =
                qr_composite_gate_of(golden_text(
                    qr_json_first(qr_json_get(qr_json_get(row, "circuit"), "gates")), "gate")) == w;
        CHECK(found, "%s has no reference", w->names[0]);
        for (unsigned k = 0; k < QR_COMPOSITE_NAMES && w->names[k]; k++)
            CHECK(qr_composite_gate_of(w->names[k]) == w && qr_gate_kind_of(w->names[k]) < 0,
                  "%s is also the name of another gate", w->names[k]);
    }
    qr_json_free(root);
}

/* ---- engines ---- */

static const char *const random_gates[] = {
    "\"S\"|1", "\"Tdg\"|1", "\"SX\"|1", "\"P\", \"angle\": $|1",
    "\"U3\", \"theta\": $, \"phi\": $, \"lambda\": $|1", "\"R\", \"theta\": $, \"phi\": $|1",
    "\"Rot\", \"phi\": $, \"theta\": $, \"omega\": $|1", "\"CRX\", \"angle\": $|2",
    "\"CU\", \"theta\": $, \"phi\": $, \"lambda\": $, \"gamma\": $|2", "\"RZX\", \"angle\": $|2",
    "\"ECR\"|2", "\"IsingXY\", \"angle\": $|2", "\"Givens\", \"angle\": $|2",
    "\"SingleExcitation\", \"angle\": $|2", "\"PauliRot\", \"pauli_word\": \"XYZ\", \"angle\": $|3",
    "\"MS\", \"angle\": $|3",
    "\"Unitary\", \"matrix\": [[[0.6, 0], [0, 0.8]], [[0, 0.8], [0.6, 0]]]|1",
    "\"Unitary\", \"matrix\": [[0, 0, 1, 0], [0.6, 0, 0, [0, 0.8]], [0, 1, 0, 0], "
    "[[0, 0.8], 0, 0, 0.6]]|2",
    "\"Basis\", \"state\": \"10\"|2",
    /* The rest is on more than two qubits at once, which cones do not support. */
    "\"CCX\"|3", "\"CSWAP\"|3", "\"MCP\", \"angle\": $|3", "\"DoubleExcitation\", \"angle\": $|4"};
enum { N_NARROW = COUNT(random_gates) - 4 };

/* `$` is a parameter of p0 to p9, a constant, or data. Some gates are inverted, squared, or
 * controlled by the qubit before theirs. */
static struct qr_circuit *random_composites(uint64_t seed, unsigned n, unsigned n_gates,
                                            size_t kinds, bool data) {
    struct qr_buf b = {0};
    double u[600];
    size_t at = 0;
    ref_random_numbers(seed, COUNT(u), 0, 1, u);
    qr_buf_printf(&b, "{\"qubits\": %u, \"columns\": %u, \"gates\": [", n, n);
    for (unsigned q = 0; q < n; q++)
        qr_buf_printf(&b, "{\"gate\": \"RY\", \"qubits\": [%u], \"angle\": {\"data\": %u}}, ", q,
                      q);
    for (unsigned i = 0; i < n_gates; i++) {
        const char *s = random_gates[(size_t)(u[at++] * (double)kinds)];
        double block = u[at++];
        unsigned first = (unsigned)(u[at++] * n), step = n % 2 && u[at++] < 0.5 ? 2 : 1;
        bool inverse = block < 0.2, power = block >= 0.2 && block < 0.3,
             control = block >= 0.9 && kinds == COUNT(random_gates) && step == 1 && n > 4;
        if (i) qr_buf_puts(&b, ", ");
        if (inverse) qr_buf_puts(&b, "{\"adjoint\": true, \"gates\": [");
        if (power) qr_buf_puts(&b, "{\"power\": 2, \"gates\": [");
        if (control) qr_buf_printf(&b, "{\"control\": [%u], \"gates\": [", (first + n - 1) % n);
        qr_buf_puts(&b, "{\"gate\": ");
        for (; *s != '|'; s++) {
            double what = *s == '$' ? u[at++] : 0;
            if (*s != '$') qr_buf_put(&b, s, 1);
            else if (what < 0.2) qr_buf_printf(&b, "%.3f", 20 * what - 2);
            else if (what < 0.3 && data) qr_buf_printf(&b, "{\"data\": %u, \"scale\": 0.5}", i % n);
            else qr_buf_printf(&b, "{\"parameter\": \"p%d\", \"scale\": -0.8}", (int)(what * 10));
        }
        qr_buf_puts(&b, ", \"qubits\": [");
        for (unsigned k = 0; k < (unsigned)(s[1] - '0'); k++)
            qr_buf_printf(&b, "%s%u", k ? ", " : "", (first + k * step) % n);
        qr_buf_puts(&b, inverse || power || control ? "]}]}" : "]}");
    }
    qr_buf_puts(&b, "]}");
    struct qr_circuit *c = read_circuit(qr_buf_string(&b));
    qr_buf_free(&b);
    return c;
}

/* z is at most 10, and a derivative a sum of a few hundred terms of that size. */
static void compare(const struct problem *p, const struct answer *a, double tolerance,
                    const char *what, uint64_t seed) {
    double z[MAX_OBS], j[MAX_OBS * MAX_PARAMS], g[MAX_PARAMS] = {0}, top = 1;
    CHECK(a->ok);
    for (size_t s = 0; s < p->n_samples; s++) {
        const double *x = p->x + s * p->c->n_columns;
        ref_expectation(p->c, p->theta, x, p->obs, p->n_obs, z);
        ref_gradient(p->c, p->theta, x, p->obs, p->n_obs, j);
        for (size_t r = 0; r < p->n_obs; r++) {
            CHECK(fabs(z[r] - a->z[s * p->n_obs + r]) <= tolerance, "%s seed %d z %g not %g", what,
                  (int)seed, a->z[s * p->n_obs + r], z[r]);
            for (unsigned k = 0; k < p->c->n_params; k++)
                g[k] += p->scale[s] * p->direction[s * p->n_obs + r] * j[r * p->c->n_params + k];
        }
    }
    for (unsigned k = 0; k < p->c->n_params; k++) top = fmax(top, fabs(g[k]));
    for (unsigned k = 0; k < p->c->n_params; k++)
        CHECK(fabs(g[k] - qr_fixed_to_double(a->grad[k])) <= tolerance * top,
              "%s seed %d parameter %u: %g not %g", what, (int)seed, k,
              qr_fixed_to_double(a->grad[k]), g[k]);
}

static void engines(void) {
    for (uint64_t seed = 0; seed < 40; seed++) {
        bool narrow = seed % 2;
        unsigned n = 4 + (unsigned)seed % 3;
        struct problem p = {.n_obs = 1 + seed % 3, .n_samples = 3};
        p.c = random_composites(seed, n, 14, narrow ? N_NARROW : COUNT(random_gates), !narrow);
        for (size_t r = 0; r < p.n_obs; r++) p.obs[r] = ref_random_observable(seed * 7 + r, n);
        problem_alloc(&p, n);
        ref_random_numbers(seed + 1, p.c->n_params, -2, 2, p.theta);
        ref_random_numbers(seed + 2, p.n_samples * n, -2, 2, p.x);
        ref_random_numbers(seed + 3, p.n_samples * p.n_obs, -1, 1, p.direction);
        ref_random_numbers(seed + 4, p.n_samples, -2, 2, p.scale);
        static const struct {
            const char *name;
            struct qr_sim_options opt;
            double tolerance;
        } runs[] = {
            {"statevector, double",
             {.precision = QR_DOUBLE, .isa = QR_ISA_PORTABLE, .engine = QR_ENGINE_STATEVECTOR},
             1e-12},
            {"statevector, single",
             {.precision = QR_SINGLE, .isa = QR_ISA_PORTABLE, .engine = QR_ENGINE_STATEVECTOR},
             2e-5},
            {"cones, double",
             {.precision = QR_DOUBLE, .isa = QR_ISA_PORTABLE, .engine = QR_ENGINE_CONES},
             1e-12},
            {"cones, single",
             {.precision = QR_SINGLE, .isa = QR_ISA_PORTABLE, .engine = QR_ENGINE_CONES},
             1e-12}};
        for (size_t i = 0; i < COUNT(runs); i++) {
            if (!narrow && runs[i].opt.engine == QR_ENGINE_CONES) continue;
            struct answer a = answer_of(&p, p.c, p.obs, &runs[i].opt, 0, NULL);
            compare(&p, &a, runs[i].tolerance, runs[i].name, seed);
        }
        problem_fini(&p);
    }
}

/* The streaming engine also recognizes a QCNN of composite gates. */
static void streaming(void) {
    static const char *const obs[] = {"Z7"};
    struct problem p = qcnn_problem(8, 0, 3, obs, 1, 5);
    struct qr_buf b = {0};
    qr_buf_puts(&b, "{\"qubits\": 8, \"gates\": [");
    for (size_t i = 0; i < p.c->n_gates; i++) {
        const struct qr_gate *g = &p.c->gates[i];
        const struct qr_gate_arg *a = &g->args[0];
        bool phase = g->kind == QR_GATE_Z && a->kind == QR_ARG_PARAMETER && !g->global_shift;
        double scale = a->scale * (phase ? M_PI : 1);
        qr_buf_printf(&b, "%s{\"gate\": \"%s\", \"%s\": ", i ? ", " : "",
                      phase                  ? "P"
                      : g->kind == QR_GATE_H ? "Hadamard"
                                             : qr_gate_info(g->kind)->name,
                      phase                  ? "angle"
                      : g->kind == QR_GATE_H ? "qubits"
                                             : "exponent");
        if (g->kind == QR_GATE_H) {
            qr_buf_printf(&b, "[%u]}", g->targets[0]);
            continue;
        }
        if (a->kind == QR_ARG_CONSTANT) qr_buf_printf(&b, "%.17g", scale);
        if (a->kind == QR_ARG_DATA)
            qr_buf_printf(&b, "{\"data\": %u, \"scale\": %.17g}", a->index, scale);
        if (a->kind == QR_ARG_PARAMETER)
            qr_buf_printf(&b, "{\"parameter\": \"%s\", \"scale\": %.17g}",
                          p.c->param_names[a->index], scale);
        qr_buf_printf(&b, ", \"qubits\": [%u", g->targets[0]);
        if (g->n_targets > 1) qr_buf_printf(&b, ", %u", g->targets[1]);
        qr_buf_puts(&b, "]");
        if (g->global_shift) qr_buf_printf(&b, ", \"global_shift\": %.17g", g->global_shift);
        if (!qr_qubits_is_empty(&g->controls))
            qr_buf_printf(&b, ", \"controls\": [%u]", qr_qubits_first(&g->controls));
        qr_buf_puts(&b, "}");
    }
    qr_buf_puts(&b, "]}");
    CHECK(strstr(qr_buf_string(&b), "Hadamard") && strstr(qr_buf_string(&b), "\"P\""));
    struct qr_circuit *words = read_circuit(qr_buf_string(&b)), *own = p.c;
    CHECK(words->n_gates == own->n_gates && words->n_params == own->n_params);
    const struct qr_sim_options opt = {
        .precision = QR_DOUBLE, .isa = QR_ISA_PORTABLE, .engine = QR_ENGINE_STREAMING};
    struct answer a = answer_of(&p, words, p.obs, &opt, 0, NULL),
                  c = answer_of(&p, own, p.obs, &opt, 0, NULL);
    CHECK(a.ok && c.ok && strcmp(a.engine, "streaming") == 0);
    for (size_t s = 0; s < p.n_samples; s++) CHECK(fabs(a.z[s] - c.z[s]) < 1e-13);
    compare(&p, &a, 1e-12, "streaming", 0);
    qr_circuit_free(words);
    problem_fini(&p);
    qr_buf_free(&b);
}

/* ---- sequences ---- */

static bool same_gate(const struct qr_gate *a, const struct qr_gate *b) {
    bool same = a->kind == b->kind && a->n_targets == b->n_targets && a->n_args == b->n_args &&
                memcmp(a->targets, b->targets, sizeof a->targets) == 0 &&
                a->global_shift == b->global_shift && qr_qubits_equal(&a->controls, &b->controls) &&
                qr_qubits_equal(&a->control_values, &b->control_values);
    for (unsigned k = 0; k < a->n_args && same; k++)
        same = a->args[k].kind == b->args[k].kind && a->args[k].index == b->args[k].index &&
               a->args[k].scale == b->args[k].scale;
    return same;
}

static bool same_gates(const struct qr_circuit *a, const struct qr_circuit *b) {
    bool same = a->n_gates == b->n_gates;
    for (size_t i = 0; i < a->n_gates && same; i++) same = same_gate(&a->gates[i], &b->gates[i]);
    return same;
}

/* Equal to the last bit to native gates written by hand: a job has one hash however it is
 * written. */
static void sequences(void) {
    static const char *const pairs[][2] = {
        {"{\"gate\": \"t\", \"qubits\": [1]}",
         "{\"gate\": \"Z\", \"qubits\": [1], \"exponent\": 0.25}"},
        {"{\"gate\": \"CRX\", \"qubits\": [2, 0], \"angle\": {\"parameter\": \"a\", \"scale\": 3}}",
         "{\"gate\": \"RX\", \"qubits\": [0], \"angle\": {\"parameter\": \"a\", \"scale\": 3}, "
         "\"controls\": [2]}"},
        {"{\"gate\": \"toffoli\", \"qubits\": [2, 0, 1]}",
         "{\"gate\": \"X\", \"qubits\": [1], \"controls\": [0, 2]}"},
        {"{\"gate\": \"Fredkin\", \"qubits\": [3, 0, 1], \"controls\": [2], \"control_values\": "
         "[0]}",
         "{\"gate\": \"SWAP\", \"qubits\": [0, 1], \"controls\": [3, 2], \"control_values\": [1, "
         "0]}"},
        {"{\"gate\": \"PauliRot\", \"pauli_word\": \"IXIX\", \"qubits\": [3, 2, 1, 0], \"angle\": "
         "{\"data\": 1}}",
         "{\"gate\": \"XX\", \"qubits\": [2, 0], \"angle\": {\"data\": 1}}"},
        {"{\"gate\": \"MultiRZ\", \"qubits\": [3], \"angle\": 0.3}",
         "{\"gate\": \"RZ\", \"qubits\": [3], \"angle\": 0.3}"},
        {"{\"gate\": \"RZX\", \"qubits\": [0, 1], \"angle\": 0.3, \"controls\": [2]}",
         "{\"gate\": \"H\", \"qubits\": [1]}, {\"gate\": \"ZZ\", \"qubits\": [0, 1], \"angle\": "
         "0.3, \"controls\": [2]}, {\"gate\": \"H\", \"qubits\": [1]}"},
        {"{\"gate\": \"Basis\", \"qubits\": [0, 2, 3], \"state\": \"011\"}",
         "{\"gate\": \"X\", \"qubits\": [2]}, {\"gate\": \"X\", \"qubits\": [3]}"},
        {"{\"gate\": \"Basis\", \"qubits\": [3, 0], \"state\": {\"data\": 4}}",
         "{\"gate\": \"X\", \"qubits\": [3], \"exponent\": {\"data\": 4}}, "
         "{\"gate\": \"X\", \"qubits\": [0], \"exponent\": {\"data\": 5}}"},
        {"{\"gate\": \"Basis\", \"qubits\": [1], \"state\": \"0\"}",
         "{\"gate\": \"I\", \"qubits\": [1]}"},
    };
    for (size_t i = 0; i < COUNT(pairs); i++) {
        struct qr_circuit *c[2];
        for (int k = 0; k < 2; k++) {
            struct qr_buf b = {0};
            qr_buf_printf(&b, "{\"qubits\": 4, \"gates\": [%s]}", pairs[i][k]);
            c[k] = read_circuit(qr_buf_string(&b));
            qr_buf_free(&b);
        }
        CHECK(same_gates(c[0], c[1]) && c[0]->n_columns == c[1]->n_columns, "%s", pairs[i][0]);
        qr_circuit_free(c[0]);
        qr_circuit_free(c[1]);
    }
}

/* Names in natural order, each argument of a sequence with its parameter. */
static void parameters(void) {
    struct qr_circuit *c =
        read_circuit("{\"qubits\": 2, \"gates\": ["
                     "{\"gate\": \"Rot\", \"qubits\": [0], \"phi\": {\"parameter\": \"w10\"}, "
                     "\"theta\": {\"parameter\": \"w2\"}, \"omega\": {\"parameter\": \"w10\"}},"
                     "{\"gate\": \"R\", \"qubits\": [1], \"theta\": {\"parameter\": \"w1\"}, "
                     "\"phi\": {\"parameter\": \"w2\"}}]}");
    static const uint32_t want[] = {2, 1, 2, 1, 0, 1};
    CHECK(c->n_params == 3 && strcmp(c->param_names[2], "w10") == 0 && c->n_gates == COUNT(want));
    for (size_t i = 0; i < c->n_gates; i++)
        CHECK(c->gates[i].args[0].kind == QR_ARG_PARAMETER && c->gates[i].args[0].index == want[i]);
    CHECK(c->gates[3].args[0].scale == -c->gates[5].args[0].scale);
    qr_circuit_free(c);
}

/* ---- constant unitaries ---- */

static void put_matrix(struct qr_buf *to, const double complex *u, unsigned dim) {
    for (unsigned i = 0; i < dim * dim; i++)
        qr_buf_printf(to, "%s[%.17g, %.17g]%s",
                      i % dim ? ", "
                      : i     ? ", ["
                              : "[[",
                      creal(u[i]), cimag(u[i]), i % dim == dim - 1 ? "]" : "");
    qr_buf_puts(to, "]");
}

static void one_unitary(const double complex *u, unsigned n, size_t most_gates, const char *what,
                        int seed) {
    static double complex ours[MAX_ENTRIES], want[MAX_ENTRIES];
    unsigned d = 1u << n, dim = 2 * d;
    for (int control = 0; control < 2; control++) {
        struct qr_buf b = {0};
        qr_buf_printf(&b, "{\"qubits\": %u, \"gates\": [{\"gate\": \"Unitary\", \"qubits\": [%s], ",
                      n + 1, n == 1 ? "1" : "1, 2");
        if (control) qr_buf_puts(&b, "\"controls\": [0], ");
        qr_buf_puts(&b, "\"matrix\": ");
        put_matrix(&b, u, d);
        qr_buf_puts(&b, "}]}");
        struct qr_circuit *c = read_circuit(qr_buf_string(&b));
        matrix_of(c, NULL, NULL, ours);
        for (unsigned r = 0; r < dim; r++)
            for (unsigned k = 0; k < dim; k++)
                want[r * dim + k] = r / d != k / d          ? 0
                                    : control && r / d == 0 ? (double)(r == k)
                                                            : u[r % d * d + k % d];
        double off = distance(ours, want, (size_t)dim * dim, control);
        CHECK(off < ENTRY_TOLERANCE, "%s %d, %u qubits: %g", what, seed, n, off);
        CHECK(c->n_gates <= most_gates + (size_t)control, "%s: %zu gates", what, c->n_gates);
        qr_circuit_free(c);
        qr_buf_free(&b);
    }
}

/* The matrix of a random circuit on n qubits, after rotations of all and a control's. */
static void wide_unitary(unsigned n, uint64_t seed) {
    static double complex u[MAX_ENTRIES], before[1 << MAX_QUBITS_HERE], after[1 << MAX_QUBITS_HERE];
    unsigned dim = 1u << n;
    double theta[64], x[MAX_QUBITS_HERE];
    struct qr_circuit *random = ref_random_circuit(seed, n, 30);
    ref_random_numbers(seed, 64, -3, 3, theta);
    ref_random_numbers(seed + 1, MAX_QUBITS_HERE, -3, 3, x);
    matrix_of(random, theta, x, u);
    qr_circuit_free(random);
    struct qr_buf b = {0};
    qr_buf_printf(&b, "{\"qubits\": %u, \"gates\": [", n + 1);
    put_rotations(n + 1, 5, &b);
    size_t turns = b.n;
    qr_buf_puts(&b, "]}");
    struct qr_circuit *c = read_circuit(qr_buf_string(&b));
    ref_state(c, NULL, NULL, before);
    qr_circuit_free(c);
    b.n = turns;
    qr_buf_puts(&b, ", {\"gate\": \"Unitary\", \"qubits\": [");
    for (unsigned q = 0; q < n; q++) qr_buf_printf(&b, "%s%u", q ? ", " : "", q);
    qr_buf_printf(&b, "], \"controls\": [%u], \"matrix\": ", n);
    put_matrix(&b, u, dim);
    qr_buf_puts(&b, "}]}");
    c = read_circuit(qr_buf_string(&b));
    ref_state(c, NULL, NULL, after);
    double worst = 0;
    for (unsigned i = 0; i < 2 * dim; i++) {
        double complex want = i & 1 ? 0 : before[i];
        for (unsigned k = 0; k < dim && (i & 1); k++)
            want += u[i / 2 * dim + k] * before[2 * k + 1];
        worst = t_worst(worst, cabs(after[i] - want));
    }
    /* A row takes part in dim rotations of the decomposition and of the gates. */
    CHECK(worst < 4 * dim * DBL_EPSILON, "%u qubits: %g", n, worst);
    CHECK(c->n_gates <= 2 * (n + 1) + dim * (dim - 1) / 2 + dim, "%u qubits: %zu gates", n,
          c->n_gates);
    qr_circuit_free(c);
    qr_buf_free(&b);
}

static void unitaries(void) {
    for (unsigned n = 3; n <= QR_UNITARY_QUBITS; n++)
        for (uint64_t seed = 0; seed < (n < 6 ? 8 : 2); seed++) wide_unitary(n, seed);
    const double complex i = __builtin_complex(0.0, 1.0);
    const double r = sqrt(0.5);
    for (int seed = 0; seed < 200; seed++) { /* a random circuit's matrix */
        double complex u[16];
        unsigned n = 1 + (unsigned)seed % 2;
        struct qr_circuit *c = ref_random_circuit((uint64_t)seed, n, 12);
        double theta[64], x[2];
        ref_random_numbers((uint64_t)seed, 64, -3, 3, theta);
        ref_random_numbers((uint64_t)seed + 1, 2, -3, 3, x);
        matrix_of(c, theta, x, u);
        one_unitary(u, n, n == 1 ? 4 : 16, "random", seed);
        qr_circuit_free(c);
    }
    one_unitary((const double complex[]){1, 0, 0, 1}, 1, 1, "I", 0);
    one_unitary((const double complex[]){1, 0, 0, i}, 1, 1, "S", 0);
    one_unitary((const double complex[]){0, 1, 1, 0}, 1, 2, "X", 0);
    one_unitary((const double complex[]){r, r, r, -r}, 1, 2, "H", 0);
    one_unitary((const double complex[]){-1, 0, 0, -1}, 1, 1, "-I", 0);
    one_unitary((const double complex[]){1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1}, 2, 12,
                "SWAP", 0);
    one_unitary((const double complex[]){1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, i}, 2, 1,
                "CS", 0);
    one_unitary((const double complex[]){1, 0, 0, 0, 0, 0, i, 0, 0, i, 0, 0, 0, 0, 0, 1}, 2, 12,
                "ISWAP", 0);
    one_unitary((const double complex[]){0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0}, 2, 16,
                "XX", 0);
}

int main(void) {
    against_others();
    definitions();
    all_have_references();
    engines();
    streaming();
    sequences();
    parameters();
    unitaries();
    return t_end();
}
