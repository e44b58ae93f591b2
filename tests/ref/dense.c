/* tests/ref/dense.c — matrices of gates, states, derivatives. Start reading at derivatives. */
#include "tests/ref/dense.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ref/expression.h"

typedef double complex amp;
enum { MAX_DIM = 1 << REF_MAX_QUBITS };

#define IMAG __builtin_complex(0.0, 1.0) /* I is a float in gcc's header */

/* ---- small matrices ---- */

static void zero(amp *m, unsigned d) {
    for (unsigned i = 0; i < d * d; i++) m[i] = 0;
}
/* 2x2 by 2x2; a is the more significant */
static void kron2(const amp *a, const amp *b, amp *ret) {
    for (unsigned r = 0; r < 4; r++)
        for (unsigned c = 0; c < 4; c++)
            ret[4 * r + c] = a[2 * (r >> 1) + (c >> 1)] * b[2 * (r & 1) + (c & 1)];
}
static void product(const amp *a, const amp *b, unsigned d, amp *ret) {
    zero(ret, d);
    for (unsigned i = 0; i < d; i++)
        for (unsigned j = 0; j < d; j++)
            for (unsigned k = 0; k < d; k++) ret[i * d + j] += a[i * d + k] * b[k * d + j];
}

static const amp pauli_x[4] = {0, 1, 1, 0},
                 pauli_y[4] = {0, __builtin_complex(0.0, -1.0), __builtin_complex(0.0, 1.0), 0},
                 pauli_z[4] = {1, 0, 0, -1};

/* The involution P of a power gate. Returns false for other kinds. */
static bool involution(enum qr_gate_kind kind, amp *p) {
    double r = sqrt(0.5);
    const amp h[4] = {r, r, r, -r};
    const amp cz[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, -1};
    const amp cnot[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0};
    const amp swap[16] = {1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1};
    switch (kind) {
    case QR_GATE_X: memcpy(p, pauli_x, sizeof pauli_x); return true;
    case QR_GATE_Y: memcpy(p, pauli_y, sizeof pauli_y); return true;
    case QR_GATE_Z: memcpy(p, pauli_z, sizeof pauli_z); return true;
    case QR_GATE_H: memcpy(p, h, sizeof h); return true;
    case QR_GATE_XX: kron2(pauli_x, pauli_x, p); return true;
    case QR_GATE_YY: kron2(pauli_y, pauli_y, p); return true;
    case QR_GATE_ZZ: kron2(pauli_z, pauli_z, p); return true;
    case QR_GATE_CZ: memcpy(p, cz, sizeof cz); return true;
    case QR_GATE_CNOT: memcpy(p, cnot, sizeof cnot); return true;
    case QR_GATE_SWAP: memcpy(p, swap, sizeof swap); return true;
    default: return false;
    }
}

/* e^{i pi g t} [ (I + P) / 2 + e^{i pi t} (I - P) / 2 ] and its derivative in t */
static void power(const amp *p, unsigned d, double g, double t, amp *u, amp *du) {
    for (unsigned i = 0; i < d * d; i++) {
        double one = i % (d + 1) == 0;
        amp even = (one + p[i]) / 2, odd = (one - p[i]) / 2, shift = cexp(IMAG * M_PI * g * t),
            turn = cexp(IMAG * M_PI * t);
        u[i] = shift * (even + turn * odd);
        if (du) du[i] = IMAG * M_PI * g * u[i] + shift * IMAG * M_PI * turn * odd;
    }
}

/* Z^p X^t Z^-p e^{i pi g t}; d/dp = i pi (N U - U N) with N = |1><1| */
static void phased_x(double g, double p, double t, amp *u, amp *dp, amp *dt) {
    amp xt[4], dxt[4], half[4];
    const amp zp[4] = {1, 0, 0, cexp(IMAG * M_PI * p)}, zm[4] = {1, 0, 0, cexp(-IMAG * M_PI * p)},
              n[4] = {0, 0, 0, 1};
    power(pauli_x, 2, g, t, xt, dxt);
    product(zp, xt, 2, half);
    product(half, zm, 2, u);
    if (dt) {
        product(zp, dxt, 2, half);
        product(half, zm, 2, dt);
    }
    if (dp) {
        amp nu[4], un[4];
        product(n, u, 2, nu);
        product(u, n, 2, un);
        for (int i = 0; i < 4; i++) dp[i] = IMAG * M_PI * (nu[i] - un[i]);
    }
}

/* e^{i pi g t} exp(i pi t / 4 * (XX + YY)), turned by Z^p x Z^-p from both sides */
static void phased_iswap(double g, double p, double t, amp *u, amp *dp, amp *dt) {
    double c = cos(M_PI * t / 2), s = sin(M_PI * t / 2);
    amp shift = cexp(IMAG * M_PI * g * t), f = cexp(2 * IMAG * M_PI * p);
    const amp inner[4] = {c, IMAG * s * f, IMAG * s * conj(f), c};
    const amp d_t[4] = {-s, IMAG * c * f, IMAG * c * conj(f), -s},
              d_p[4] = {0, 2 * IMAG * M_PI * IMAG * s * f, -2 * IMAG * M_PI * IMAG * s * conj(f),
                        0};
    static const int at[4] = {5, 6, 9, 10};
    u[0] = u[15] = shift;
    for (int i = 0; i < 4; i++) {
        u[at[i]] = shift * inner[i];
        if (dp) dp[at[i]] = shift * d_p[i];
        if (dt) dt[at[i]] = IMAG * M_PI * g * u[at[i]] + shift * M_PI_2 * d_t[i];
    }
    if (dt) dt[0] = dt[15] = IMAG * M_PI * g * shift;
}

void ref_gate_matrix(const struct qr_gate *g, const double a[2], amp *ret_u, amp *ret_da[2]) {
    unsigned d = g->n_targets == 1 ? 2 : 4;
    amp p[16], *da[2] = {ret_da ? ret_da[0] : NULL, ret_da ? ret_da[1] : NULL};
    zero(ret_u, d);
    for (int k = 0; k < 2; k++)
        if (da[k]) zero(da[k], d);
    if (involution(g->kind, p)) {
        power(p, d, g->global_shift, a[0], ret_u, da[0]);
    } else if (g->kind == QR_GATE_I) {
        ret_u[0] = ret_u[3] = 1;
    } else if (g->kind == QR_GATE_PHASED_X) {
        phased_x(g->global_shift, a[0], a[1], ret_u, da[0], da[1]);
    } else if (g->kind == QR_GATE_ISWAP) {
        phased_iswap(g->global_shift, 0, a[0], ret_u, NULL, da[0]);
    } else if (g->kind == QR_GATE_PHASED_ISWAP) {
        phased_iswap(g->global_shift, a[0], a[1], ret_u, da[0], da[1]);
    } else if (g->kind == QR_GATE_FSIM) {
        ret_u[0] = 1, ret_u[5] = ret_u[10] = cos(a[0]), ret_u[6] = ret_u[9] = -IMAG * sin(a[0]),
        ret_u[15] = cexp(-IMAG * a[1]);
        if (da[0]) da[0][5] = da[0][10] = -sin(a[0]), da[0][6] = da[0][9] = -IMAG * cos(a[0]);
        if (da[1]) da[1][15] = -IMAG * cexp(-IMAG * a[1]);
    } else {
        fprintf(stderr, "dense: unknown gate kind %d\n", (int)g->kind);
        abort();
    }
}

/* ---- whole matrices ---- */

static unsigned bit(unsigned index, unsigned q, unsigned n) { return index >> (n - 1 - q) & 1; }

/* Entry (row, column) of the gate on all qubits. outside: the diagonal where the controls do not
 * hold, 1 for a gate and 0 for a derivative. */
static amp entry(const struct qr_gate *g, const amp *m, unsigned n, unsigned row, unsigned col,
                 double outside) {
    unsigned d = g->n_targets == 1 ? 2 : 4, r = 0, c = 0;
    bool holds = true;
    for (unsigned q = 0; q < n; q++) {
        bool target = q == g->targets[0] || (g->n_targets == 2 && q == g->targets[1]);
        if (!target && bit(row, q, n) != bit(col, q, n)) return 0;
        if (qr_qubits_has(&g->controls, q) &&
            bit(row, q, n) != qr_qubits_has(&g->control_values, q))
            holds = false;
    }
    if (!holds) return row == col ? outside : 0;
    for (unsigned k = 0; k < g->n_targets; k++) {
        r = r << 1 | bit(row, g->targets[k], n);
        c = c << 1 | bit(col, g->targets[k], n);
    }
    return m[r * d + c];
}

void ref_gate_full(const struct qr_gate *g, unsigned n, const double a[2], amp *ret) {
    amp m[16];
    unsigned dim = 1u << n;
    ref_gate_matrix(g, a, m, NULL);
    for (unsigned r = 0; r < dim; r++)
        for (unsigned c = 0; c < dim; c++) ret[(size_t)r * dim + c] = entry(g, m, n, r, c, 1);
}

/* state := gate * state. Only columns that differ from the row in targets can be other than 0. */
static void apply(const struct qr_gate *g, const amp *m, unsigned n, double outside, amp *state) {
    amp out[MAX_DIM];
    unsigned dim = 1u << n, mask[2] = {0, 0};
    for (unsigned k = 0; k < g->n_targets; k++) mask[k] = 1u << (n - 1 - g->targets[k]);
    for (unsigned r = 0; r < dim; r++) {
        out[r] = 0;
        for (unsigned k = 0; k < 1u << g->n_targets; k++) {
            unsigned col = r ^ (k & 1 ? mask[0] : 0) ^ (k & 2 ? mask[1] : 0);
            out[r] += entry(g, m, n, r, col, outside) * state[col];
        }
    }
    memcpy(state, out, dim * sizeof *out);
}

static void values(const struct qr_circuit *c, const struct qr_gate *g, const double *theta,
                   const double *x, double a[2]) {
    for (unsigned k = 0; k < g->n_args; k++) {
        const struct qr_gate_arg *arg = &g->args[k];
        a[k] = arg->scale;
        if (arg->kind == QR_ARG_PARAMETER) a[k] *= theta[arg->index];
        if (arg->kind == QR_ARG_DATA) a[k] *= x[arg->index];
        if (arg->kind == QR_ARG_EXPRESSION)
            a[k] *= ref_expression(c, arg->index, theta, x, QR_EXPRESSION_NUMBER, 0, NULL);
    }
}

static void check_size(const struct qr_circuit *c) {
    if (c->n_qubits <= REF_MAX_QUBITS) return;
    fprintf(stderr, "dense: %u qubits, at most %d\n", c->n_qubits, REF_MAX_QUBITS);
    abort();
}

/* Runs gates from..end on state. */
static void run(const struct qr_circuit *c, size_t from, const double *theta, const double *x,
                amp *state) {
    for (size_t i = from; i < c->n_gates; i++) {
        amp m[16];
        double a[2] = {0, 0};
        values(c, &c->gates[i], theta, x, a);
        ref_gate_matrix(&c->gates[i], a, m, NULL);
        apply(&c->gates[i], m, c->n_qubits, 1, state);
    }
}

void ref_state(const struct qr_circuit *c, const double *theta, const double *x, amp *ret) {
    check_size(c);
    memset(ret, 0, sizeof *ret << c->n_qubits);
    ret[0] = 1;
    run(c, 0, theta, x, ret);
}

/* Re <a| O |b> */
static double braket(const struct qr_observable *o, unsigned n, const amp *a, const amp *b) {
    amp sum = 0;
    for (size_t t = 0; t < o->n_terms; t++)
        for (unsigned col = 0; col < 1u << n; col++) {
            amp factor = o->terms[t].coefficient;
            unsigned row = col;
            for (unsigned q = 0; q < n; q++) {
                bool x = qr_qubits_has(&o->terms[t].x, q), z = qr_qubits_has(&o->terms[t].z, q);
                const amp *p = x && z ? pauli_y : x ? pauli_x : pauli_z;
                unsigned in = bit(col, q, n), out = x ? !in : in;
                if (x || z) factor *= p[2 * out + in];
                if (x) row ^= 1u << (n - 1 - q);
            }
            sum += conj(a[row]) * factor * b[col];
        }
    return creal(sum);
}

void ref_expectation(const struct qr_circuit *c, const double *theta, const double *x,
                     const struct qr_observable *obs, size_t n_obs, double *ret_z) {
    amp state[MAX_DIM];
    ref_state(c, theta, x, state);
    for (size_t r = 0; r < n_obs; r++) ret_z[r] = braket(&obs[r], c->n_qubits, state, state);
}

/* Adds the derivative d by argument a to the derivatives by the names in a. */
static void add_derivative(const struct qr_circuit *c, const struct qr_gate_arg *a,
                           const double *theta, const double *x, enum qr_arg_kind by, unsigned n,
                           double d, double *ret) {
    enum qr_expression_op op = by == QR_ARG_DATA ? QR_EXPRESSION_INPUT : QR_EXPRESSION_PARAMETER;
    if (a->kind == by) ret[a->index] += a->scale * d;
    for (unsigned i = 0; i < n && a->kind == QR_ARG_EXPRESSION; i++) {
        double slope;
        ref_expression(c, a->index, theta, x, op, i, &slope);
        ret[i] += a->scale * slope * d;
    }
}

/* Derivatives by the n parameters or columns. */
static void derivatives(const struct qr_circuit *c, const double *theta, const double *x,
                        const struct qr_observable *obs, size_t n_obs, enum qr_arg_kind by,
                        unsigned n, double *ret) {
    amp final[MAX_DIM], before[MAX_DIM] = {0}, changed[MAX_DIM];
    ref_state(c, theta, x, final);
    for (size_t i = 0; i < n_obs * n; i++) ret[i] = 0;
    before[0] = 1;
    for (size_t i = 0; i < c->n_gates; i++) {
        const struct qr_gate *g = &c->gates[i];
        amp u[16], d0[16], d1[16], *da[2] = {d0, d1};
        double a[2] = {0, 0};
        values(c, g, theta, x, a);
        ref_gate_matrix(g, a, u, da);
        for (unsigned k = 0; k < g->n_args; k++) {
            if (g->args[k].kind != by && g->args[k].kind != QR_ARG_EXPRESSION) continue;
            memcpy(changed, before, sizeof changed);
            apply(g, da[k], c->n_qubits, 0, changed);
            run(c, i + 1, theta, x, changed);
            for (size_t r = 0; r < n_obs; r++)
                add_derivative(c, &g->args[k], theta, x, by, n,
                               2 * braket(&obs[r], c->n_qubits, final, changed), ret + r * n);
        }
        apply(g, u, c->n_qubits, 1, before);
    }
}

void ref_gradient(const struct qr_circuit *c, const double *theta, const double *x,
                  const struct qr_observable *obs, size_t n_obs, double *ret) {
    derivatives(c, theta, x, obs, n_obs, QR_ARG_PARAMETER, c->n_params, ret);
}
void ref_input_gradient(const struct qr_circuit *c, const double *theta, const double *x,
                        const struct qr_observable *obs, size_t n_obs, double *ret) {
    derivatives(c, theta, x, obs, n_obs, QR_ARG_DATA, c->n_columns, ret);
}

/* ---- random circuits ---- */

static uint64_t next(uint64_t *s) { /* splitmix64 */
    uint64_t z = *s += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}
static unsigned below(uint64_t *s, unsigned n) { return (unsigned)(next(s) % n); }
static double uniform(uint64_t *s, double low, double high) {
    return low + (high - low) * (double)(next(s) >> 11) * 0x1p-53;
}

void ref_random_numbers(uint64_t seed, size_t n, double low, double high, double *ret) {
    for (size_t i = 0; i < n; i++) ret[i] = uniform(&seed, low, high);
}

static struct qr_gate_arg random_arg(uint64_t *s, struct qr_circuit *c) {
    static const double scales[] = {1, 1, -1, 0.5, -2, 0.318309886183790672};
    double scale = scales[below(s, 6)];
    unsigned what = below(s, 8);
    if (what == 0)
        return (struct qr_gate_arg){QR_ARG_CONSTANT, below(s, 2) ? uniform(s, -2, 2) : below(s, 3),
                                    0};
    if (what == 1) return (struct qr_gate_arg){QR_ARG_DATA, scale, below(s, c->n_columns)};
    if (what < 4 && c->n_params)
        return (struct qr_gate_arg){QR_ARG_PARAMETER, scale, below(s, c->n_params)};
    char name[24];
    snprintf(name, sizeof name, "p%u", c->n_params);
    return (struct qr_gate_arg){QR_ARG_PARAMETER, scale, qr_circuit_param(c, name)};
}

struct qr_circuit *ref_random_circuit(uint64_t seed, unsigned n, unsigned n_gates) {
    struct qr_circuit *c = qr_circuit_new(n, n);
    uint64_t s = seed ^ UINT64_C(0x5eed);
    for (unsigned i = 0; i < n_gates; i++) {
        struct qr_gate g = {0};
        const struct qr_gate_info *info;
        do {
            g.kind = (enum qr_gate_kind)below(&s, QR_GATE_KINDS);
            info = qr_gate_info(g.kind);
        } while (info->n_targets > n);
        g.n_targets = info->n_targets;
        g.n_args = info->n_args;
        g.targets[0] = (uint16_t)below(&s, n);
        do g.targets[1] = (uint16_t)below(&s, n);
        while (g.n_targets == 2 && g.targets[1] == g.targets[0]);
        if (g.n_targets == 1) g.targets[1] = 0;
        for (unsigned k = 0; k < g.n_args; k++) g.args[k] = random_arg(&s, c);
        if (g.kind != QR_GATE_I && g.kind != QR_GATE_FSIM)
            g.global_shift = below(&s, 3) == 0 ? -0.5 : below(&s, 3) == 0 ? uniform(&s, -1, 1) : 0;
        for (unsigned q = 0; q < n; q++) {
            bool target = q == g.targets[0] || (g.n_targets == 2 && q == g.targets[1]);
            if (target || below(&s, 6)) continue;
            qr_qubits_add(&g.controls, q);
            if (below(&s, 2)) qr_qubits_add(&g.control_values, q);
        }
        struct qr_err err;
        if (qr_circuit_add(c, &g, &err)) {
            fprintf(stderr, "dense: %s\n", err.msg);
            abort();
        }
    }
    return c;
}

struct qr_observable ref_random_observable(uint64_t seed, unsigned n) {
    char text[512];
    size_t len = 0;
    uint64_t s = seed ^ UINT64_C(0x0b5);
    unsigned terms = 1 + below(&s, 3);
    for (unsigned t = 0; t < terms; t++) {
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%.3f", t ? " + " : "",
                                uniform(&s, 0.2, 1.5));
        unsigned first = below(&s, n);
        for (unsigned q = 0; q < n; q++)
            if (q == first || below(&s, 3) == 0)
                len += (size_t)snprintf(text + len, sizeof text - len, " %c%u", "XYZ"[below(&s, 3)],
                                        q);
    }
    struct qr_observable o;
    struct qr_err err;
    if (qr_observable_parse(text, n, &o, &err)) {
        fprintf(stderr, "dense: %s\n", err.msg);
        abort();
    }
    return o;
}

struct qr_observable ref_alike_observable(uint64_t seed, unsigned n, unsigned terms) {
    struct qr_buf text = {0};
    uint64_t s = seed ^ UINT64_C(0xa11e), turned = 1 + below(&s, (1u << n) - 1);
    for (unsigned t = 0; t < terms; t++) {
        qr_buf_printf(&text, "%s%.3f", t ? " + " : "", uniform(&s, 0.2, 1.5) / terms);
        for (unsigned q = 0; q < n; q++) {
            bool z = below(&s, 2);
            if (turned >> q & 1) qr_buf_printf(&text, " %c%u", z ? 'Y' : 'X', q);
            else if (z) qr_buf_printf(&text, " Z%u", q);
        }
    }
    struct qr_observable o;
    struct qr_err err;
    if (qr_observable_parse(qr_buf_string(&text), n, &o, &err)) {
        fprintf(stderr, "dense: %s\n", err.msg);
        abort();
    }
    qr_buf_free(&text);
    return o;
}
