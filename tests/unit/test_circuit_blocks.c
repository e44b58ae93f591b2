/* Adjoint, control and power of every gate and ansatz: their states against those of the items
 * inside, and against PennyLane's and Qiskit's matrices, with global phases. */
#include <math.h>

#include "circuit/circuit_json.h"
#include "circuit/composite_gates.h"
#include "tests/golden.h"
#include "tests/ref/dense.h"

enum { MAX_DIM = 1 << REF_MAX_QUBITS };

/* Amplitudes are at most 1 and each gate adds a few 2^-53; an item and its powers are a few hundred
 * gates. */
#define WITHIN 2e-13

struct values {
    const double *theta, *x;
};

static struct qr_circuit *circuit_of(const char *text) {
    struct qr_json *root = NULL;
    struct qr_circuit *c = NULL;
    struct qr_qubits readouts;
    struct qr_err err;
    CHECK(qr_json_parse(qr_bytes_of_string(text), "test", &root, &err) == QR_OK, "%s: %s", err.msg,
          text);
    CHECK(qr_circuit_from_json(root, "circuit", &c, &readouts, &err) == QR_OK, "%s: %s", err.msg,
          text);
    if (!c) exit(1);
    qr_json_free(root);
    return c;
}

/* The state after rotations of all n qubits by fixed angles and then `pattern`, with `items` in
 * place of each $. */
static void state_after(unsigned n, const char *pattern, const char *items, const struct values *v,
                        double complex *ret) {
    double a[2 * REF_MAX_QUBITS];
    struct qr_buf b = {0};
    ref_random_numbers(11, 2 * n, 0.3, 2.5, a);
    qr_buf_printf(&b, "{\"qubits\": %u, \"gates\": [", n);
    for (unsigned q = 0; q < n; q++)
        qr_buf_printf(&b,
                      "%s{\"gate\": \"RY\", \"qubits\": [%u], \"angle\": %.17g}, "
                      "{\"gate\": \"RZ\", \"qubits\": [%u], \"angle\": %.17g}",
                      q ? ", " : "", q, a[2 * q], q, a[2 * q + 1]);
    if (*pattern) qr_buf_puts(&b, ", ");
    for (const char *p = pattern; *p; p++)
        if (*p == '$') qr_buf_puts(&b, items);
        else qr_buf_put(&b, p, 1);
    qr_buf_puts(&b, "]}");
    struct qr_circuit *c = circuit_of(qr_buf_string(&b));
    ref_state(c, v->theta, v->x, ret);
    qr_circuit_free(c);
    qr_buf_free(&b);
}

static void check_same(const double complex *a, const double complex *b, size_t n, const char *what,
                       const char *pattern) {
    double worst = 0;
    for (size_t i = 0; i < n; i++) worst = t_worst(worst, cabs(a[i] - b[i]));
    CHECK(worst < WITHIN, "%s: %s: %g", what, pattern, worst);
}

#define ADJOINT(items) "{\"adjoint\": true, \"gates\": [" items "]}"
#define POWER(p, items) "{\"power\": " p ", \"gates\": [" items "]}"
#define CONTROL(q, v, items)                                                                       \
    "{\"control\": [" q "], \"control_values\": [" v "], \"gates\": [" items "]}"

/* Pairs of patterns with the same state. */
static const char *const equal[][2] = {
    {"$, " ADJOINT("$"), ""},
    {ADJOINT("$") ", $", ""},
    {ADJOINT(ADJOINT("$")), "$"},
    {"{\"adjoint\": false, \"gates\": [$]}", "$"},
    {POWER("2", "$"), "$, $"},
    {POWER("3", "$"), "$, $, $"},
    {POWER("-1", "$") ", $", ""},
    {POWER("-2", "$") ", $, $", ""},
    {POWER("0", "$"), ""},
    {POWER("1", "$"), "$"},
    {POWER("2", POWER("-1", ADJOINT("$"))), "$, $"},
    {"{\"repeat\": 2, \"index\": \"z\", \"gates\": [" POWER("\"z+1\"", "$") "]}", "$, $, $"},
    {ADJOINT("$, {\"gate\": \"S\", \"qubits\": [0]}"),
     "{\"gate\": \"Sdg\", \"qubits\": [0]}, " ADJOINT("$")},
    {"$, " POWER("-0.5", "{\"gate\": \"Z\", \"qubits\": [0]}"),
     "$, {\"gate\": \"Sdg\", \"qubits\": [0]}"},
};

/* Patterns on two more qubits c and d. Where both have these values (-1: any) the state is that of
 * `inside`, elsewhere that without the pattern. */
static const struct {
    const char *pattern, *inside;
    int c, d;
} controlled[] = {
    {CONTROL("c", "1", "$"), "$", 1, -1},
    {CONTROL("c", "0", "$"), "$", 0, -1},
    {"{\"control\": [c, d], \"gates\": [$]}", "$", 1, 1},
    {CONTROL("d, c", "0, 1", "$"), "$", 1, 0},
    {CONTROL("c", "0", CONTROL("d", "0", "$")), "$", 0, 0},
    {CONTROL("c", "1", ADJOINT("$")), ADJOINT("$"), 1, -1},
    {ADJOINT(CONTROL("c", "0", "$")), ADJOINT("$"), 0, -1},
    {POWER("-2", CONTROL("d", "1", "$")), ADJOINT("$, $"), -1, 1},
    {CONTROL("d", "1", POWER("2", "$")), "$, $", -1, 1},
};

/* Writes the pattern with the control qubits' numbers in place of c and d. */
static void with_controls(const char *pattern, unsigned n, struct qr_buf *to) {
    for (const char *p = pattern; *p; p++) {
        bool name = (*p == 'c' || *p == 'd') && (p[-1] == '[' || p[-1] == ' ') &&
                    (p[1] == ']' || p[1] == ',');
        if (name) qr_buf_printf(to, "%u", n + (*p == 'd'));
        else qr_buf_put(to, p, 1);
    }
}

static void check_items(const char *items, unsigned n, bool control, const struct values *v,
                        const char *what) {
    static double complex a[MAX_DIM], b[MAX_DIM], none[MAX_DIM];
    for (size_t i = 0; i < COUNT(equal); i++) {
        state_after(n, equal[i][0], items, v, a);
        state_after(n, equal[i][1], items, v, b);
        check_same(a, b, (size_t)1 << n, what, equal[i][0]);
    }
    if (!control || n + 2 > REF_MAX_QUBITS) return;
    state_after(n + 2, "", items, v, none);
    for (size_t i = 0; i < COUNT(controlled); i++) {
        struct qr_buf pattern = {0};
        with_controls(controlled[i].pattern, n, &pattern);
        state_after(n + 2, qr_buf_string(&pattern), items, v, a);
        state_after(n + 2, controlled[i].inside, items, v, b);
        for (size_t k = 0; k < (size_t)4 << n; k++) {
            int c = k >> 1 & 1, d = k & 1;
            if ((controlled[i].c >= 0 && controlled[i].c != c) ||
                (controlled[i].d >= 0 && controlled[i].d != d))
                b[k] = none[k];
        }
        check_same(a, b, (size_t)4 << n, what, controlled[i].pattern);
        qr_buf_free(&pattern);
    }
}

/* ---- items ---- */

/* Members of an array, or of a circuit object that is one item. */
static char *items_of(const struct qr_json *circuit) {
    struct qr_buf b = {0};
    struct qr_json_writer w = qr_json_writer(&b, 0);
    const struct qr_json *gates = qr_json_get(circuit, "gates");
    for (const struct qr_json *v = gates ? qr_json_first(gates) : NULL; v; v = qr_json_next(v)) {
        struct qr_json_writer one = qr_json_writer(&b, 0);
        if (b.n) qr_buf_puts(&b, ", ");
        qr_json_put_value(&one, v, false);
    }
    if (!gates) {
        qr_json_open(&w, '{');
        for (const struct qr_json *v = qr_json_first(circuit); v; v = qr_json_next(v)) {
            if (strcmp(qr_json_key(v), "qubits") == 0) continue;
            qr_json_put_key(&w, qr_json_key(v));
            qr_json_put_value(&w, v, false);
        }
        qr_json_key_open(&w, "qubits", '[');
        int64_t n = (int64_t)golden_number(circuit, "qubits", 0);
        for (int64_t q = 0; q < n; q++) qr_json_put_i64(&w, q);
        qr_json_close(&w, ']');
        qr_json_close(&w, '}');
    }
    char *text = qr_xstrdup(qr_buf_string(&b));
    qr_buf_free(&b);
    return text;
}

/* All kinds of gates, with controls, shifts, shared parameters and data. */
static void native_gates(void) {
    double theta[64], x[REF_MAX_QUBITS];
    for (uint64_t seed = 0; seed < 60; seed++) {
        unsigned n = 1 + (unsigned)seed % 4;
        struct qr_circuit *c = ref_random_circuit(seed, n, seed < 40 ? 1 : 8);
        struct qr_buf b = {0};
        struct qr_json *root;
        struct qr_json_writer w = qr_json_writer(&b, 0);
        qr_circuit_put_json(c, &w);
        CHECK(qr_json_parse(qr_buf_view(&b), "test", &root, QR_IGNORED) == QR_OK);
        char *items = items_of(root);
        ref_random_numbers(seed, 64, -3, 3, theta);
        ref_random_numbers(seed + 1, REF_MAX_QUBITS, -3, 3, x);
        check_items(items, n, true, &(struct values){theta, x},
                    qr_gate_info(c->gates[0].kind)->name);
        free(items);
        qr_json_free(root);
        qr_buf_free(&b);
        qr_circuit_free(c);
    }
}

/* Also against the other program's matrix, controlled by the last qubit. */
static void composite_gates(void) {
    struct qr_json *root = golden_load("tests/golden/gates/gates.json");
    size_t n = 0;
    for (const struct qr_json *row = qr_json_first(qr_json_get(root, "rows")); row;
         row = qr_json_next(row), n++) {
        static double complex before[MAX_DIM], state[MAX_DIM], want[MAX_DIM];
        static double numbers[2 * MAX_DIM * MAX_DIM];
        const struct qr_json *circuit = qr_json_get(row, "circuit");
        unsigned qubits = (unsigned)golden_number(circuit, "qubits", 0);
        size_t dim = (size_t)1 << qubits;
        char *items = items_of(circuit);
        const struct values none = {NULL, NULL};
        /* An item without a control may drop its global phase, and is then no reference for a
         * controlled one. */
        if (n % 4 == 0)
            check_items(items, qubits, golden_flag(row, "phase"), &none, golden_text(row, "from"));
        golden_fill(qr_json_get(row, "matrix"), numbers);
        state_after(qubits + 1, "", items, &none, before);
        for (int inverse = 0; inverse < 2; inverse++) {
            char pattern[96];
            snprintf(pattern, sizeof pattern,
                     inverse ? CONTROL("%u", "0", ADJOINT("$"))
                             : "{\"control\": [%u], \"gates\": [$]}",
                     qubits);
            state_after(qubits + 1, pattern, items, &none, state);
            for (size_t i = 0; i < 2 * dim; i++) {
                want[i] = before[i];
                if ((int)(i & 1) == inverse) continue;
                want[i] = 0;
                for (size_t k = 0; k < dim; k++) {
                    size_t at = inverse ? k * dim + i / 2 : i / 2 * dim + k;
                    double im = numbers[2 * at + 1];
                    want[i] += __builtin_complex(numbers[2 * at], inverse ? -im : im) *
                               before[2 * k + (i & 1)];
                }
            }
            check_same(state, want, 2 * dim, golden_text(row, "from"), pattern);
        }
        free(items);
    }
    CHECK(n > 200, "%zu rows", n);
    qr_json_free(root);
}

/* A controlled preparation keeps the phase of its state; one without a control does not. */
static void controlled_state(const char *items, unsigned n, const struct qr_json *want) {
    static double complex state[MAX_DIM];
    double *numbers = golden_numbers(want, &(size_t){0});
    struct qr_buf b = {0};
    qr_buf_printf(&b,
                  "{\"qubits\": %u, \"gates\": [{\"gate\": \"X\", \"qubits\": [%u]}, {\"control\": "
                  "[%u], \"gates\": [%s]}]}",
                  n + 1, n, n, items);
    struct qr_circuit *c = circuit_of(qr_buf_string(&b));
    ref_state(c, NULL, NULL, state);
    for (size_t i = 0; i < (size_t)1 << n; i++)
        CHECK(cabs(state[2 * i + 1] - __builtin_complex(numbers[2 * i], numbers[2 * i + 1])) <
                  WITHIN,
              "%s: amplitude %zu", items, i);
    qr_circuit_free(c);
    qr_buf_free(&b);
    free(numbers);
}

/* e^(-i gamma (Z + 3)) under a control. */
static void constant_cost(void) {
    static const char
        ansatz[] = "{\"ansatz\": \"qaoa\", \"qubits\": [0], \"cost\": \"Z0 + 3\"}",
        by_hand[] = "{\"gate\": \"H\", \"qubits\": [0]}, {\"gate\": \"Z\", \"qubits\": [0], "
                    "\"exponent\": \"2*gamma_0/pi\", \"global_shift\": -2}, {\"gate\": \"RX\", "
                    "\"qubits\": [0], \"angle\": \"2*beta_0\"}";
    const double theta[] = {0.7, -1.3};
    double complex a[4], b[4];
    for (int value = 0; value < 2; value++) {
        char pattern[96];
        snprintf(pattern, sizeof pattern, CONTROL("1", "%d", "$"), value);
        state_after(2, pattern, ansatz, &(struct values){theta, NULL}, a);
        state_after(2, pattern, by_hand, &(struct values){theta, NULL}, b);
        check_same(a, b, 4, "a cost with a constant", pattern);
    }
}

static void ansaetze(void) {
    struct qr_json *root = golden_load("tests/golden/ansatz/ansatz.json");
    for (const struct qr_json *row = qr_json_first(qr_json_get(root, "rows")); row;
         row = qr_json_next(row)) {
        const struct qr_json *circuit = qr_json_get(row, "circuit");
        size_t n_weights, n_x;
        double *weights = golden_numbers(qr_json_get(row, "weights"), &n_weights),
               *x = golden_numbers(qr_json_get(row, "x"), &n_x);
        char *items = items_of(circuit);
        unsigned n = (unsigned)golden_number(circuit, "qubits", 0);
        /* A list may mean all qubits of its circuit. */
        bool constant = qr_json_get(circuit, "state"), list = qr_json_get(circuit, "gates");
        check_items(items, n, !list && !constant, &(struct values){weights, x},
                    golden_text(row, "from"));
        if (constant) controlled_state(items, n, qr_json_get(row, "state"));
        free(items);
        free(weights);
        free(x);
    }
    qr_json_free(root);
    /* In the golden file these are in lists. */
    static const char *const items[] = {
        "{\"ansatz\": \"tensor-network\", \"kind\": \"ttn\", \"qubits\": [3, 0, 1, 2]}",
        "{\"ansatz\": \"angle\", \"qubits\": [0, 2], \"data\": 1}, {\"gate\": \"Basis\", "
        "\"qubits\": "
        "[1, 3], \"state\": {\"data\": 0}}",
        "{\"repeat\": 4, \"index\": \"i\", \"gates\": [{\"gate\": \"CRot\", \"qubits\": [\"i\", "
        "\"(i+1)%4\"], \"phi\": \"w{i}\", \"theta\": \"w0*x[{i}]\", \"omega\": 0.3}]}"};
    const double weights[] = {0.3, -0.8, 1.7, 2.2, -2.9, 0.6}, x[] = {0.4, 1.1, -0.7, 2.5};
    for (size_t i = 0; i < COUNT(items); i++)
        check_items(items[i], 4, true, &(struct values){weights, x}, items[i]);
}

int main(void) {
    native_gates();
    composite_gates();
    ansaetze();
    constant_cost();
    return t_end();
}
