/* Kinds of gates: names, matrices and derivatives. Formulas: those of cirq.ops and of TFQ's serializer. */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "circuit/circuit.h"
#include "exact/functions.h"

#define EXPONENT {"exponent", NULL}
#define PHASED {"phase_exponent", "exponent"}
static const struct qr_gate_info infos[QR_GATE_KINDS] = {
    [QR_GATE_I] = {"I", 1, 0, {NULL, NULL}},
    [QR_GATE_X] = {"X", 1, 1, EXPONENT},
    [QR_GATE_Y] = {"Y", 1, 1, EXPONENT},
    [QR_GATE_Z] = {"Z", 1, 1, EXPONENT},
    [QR_GATE_H] = {"H", 1, 1, EXPONENT},
    [QR_GATE_XX] = {"XX", 2, 1, EXPONENT},
    [QR_GATE_YY] = {"YY", 2, 1, EXPONENT},
    [QR_GATE_ZZ] = {"ZZ", 2, 1, EXPONENT},
    [QR_GATE_CZ] = {"CZ", 2, 1, EXPONENT},
    [QR_GATE_CNOT] = {"CNOT", 2, 1, EXPONENT},
    [QR_GATE_SWAP] = {"SWAP", 2, 1, EXPONENT},
    [QR_GATE_ISWAP] = {"ISWAP", 2, 1, EXPONENT},
    [QR_GATE_PHASED_X] = {"PhasedX", 1, 2, PHASED},
    [QR_GATE_PHASED_ISWAP] = {"PhasedISwap", 2, 2, PHASED},
    [QR_GATE_FSIM] = {"FSIM", 2, 2, {"theta", "phi"}},
};

const struct qr_gate_info *qr_gate_info(enum qr_gate_kind kind) {
    QR_ASSERT((unsigned)kind < QR_GATE_KINDS);
    return &infos[kind];
}

int qr_gate_kind_of(const char *name) {
    static const struct { const char *name; enum qr_gate_kind kind; } aliases[] = {
        {"CX", QR_GATE_CNOT}, {"RX", QR_GATE_X}, {"RY", QR_GATE_Y}, {"RZ", QR_GATE_Z},
        /* TFQ's names on the wire, and Cirq's classes */
        {"XP", QR_GATE_X}, {"YP", QR_GATE_Y}, {"ZP", QR_GATE_Z}, {"HP", QR_GATE_H}, {"XXP", QR_GATE_XX}, {"YYP", QR_GATE_YY}, {"ZZP", QR_GATE_ZZ},
        {"CZP", QR_GATE_CZ}, {"CNP", QR_GATE_CNOT}, {"SP", QR_GATE_SWAP}, {"ISP", QR_GATE_ISWAP}, {"PXP", QR_GATE_PHASED_X},
        {"PISP", QR_GATE_PHASED_ISWAP}, {"PhasedXPow", QR_GATE_PHASED_X}, {"PhasedISwapPow", QR_GATE_PHASED_ISWAP}};
    for (int k = 0; k < QR_GATE_KINDS; k++)
        if (strcasecmp(name, infos[k].name) == 0) return k;
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcasecmp(name, aliases[i].name) == 0) return (int)aliases[i].kind;
    return -1;
}

double qr_gate_arg_value(const struct qr_gate_arg *arg, const double *theta, const double *x) {
    switch (arg->kind) {
    case QR_ARG_CONSTANT: break;
    case QR_ARG_PARAMETER: return arg->scale * theta[arg->index];
    case QR_ARG_DATA: return arg->scale * x[arg->index];
    }
    return arg->scale;
}

/* ---- small complex algebra, spelled out: the bits are in the expressions ---- */

/* CMPLX, which glibc gives only to gcc */
static double complex make(double re, double im) { return __builtin_complex(re, im); }
static double complex mul(double complex a, double complex b) {
    return make(creal(a) * creal(b) - cimag(a) * cimag(b), creal(a) * cimag(b) + cimag(a) * creal(b));
}
static double complex add(double complex a, double complex b) { return make(creal(a) + creal(b), cimag(a) + cimag(b)); }
static double complex sub(double complex a, double complex b) { return make(creal(a) - creal(b), cimag(a) - cimag(b)); }
static double complex times(double s, double complex a) { return make(s * creal(a), s * cimag(a)); }
static double complex times_i(double s, double complex a) { return make(-s * cimag(a), s * creal(a)); } /* i s a */
static double complex expipi(double t) {
    double s, c;
    qr_sincospi(t, &s, &c);
    return make(c, s);
}

/* A power of an involution P is plus (I + P) / 2 + minus (I - P) / 2, with plus = e^{i pi g t} and minus = e^{i pi (g + 1) t};
 * its derivative has the same form with other numbers. */
struct halves { double complex plus, minus; };

static void put_power(enum qr_gate_kind kind, struct halves h, double complex *u) {
    double complex even = times(0.5, add(h.plus, h.minus)), odd = times(0.5, sub(h.plus, h.minus));
    switch (kind) {
    case QR_GATE_X: u[0] = u[3] = even, u[1] = u[2] = odd; break;
    case QR_GATE_Y: u[0] = u[3] = even, u[1] = times_i(-1, odd), u[2] = times_i(1, odd); break;
    case QR_GATE_Z: u[0] = h.plus, u[3] = h.minus; break;
    case QR_GATE_H: {
        double complex part = times(0x1.6a09e667f3bcdp-1, odd); /* 1/sqrt 2 */
        u[0] = add(even, part), u[1] = u[2] = part, u[3] = sub(even, part);
        break;
    }
    case QR_GATE_XX: u[0] = u[5] = u[10] = u[15] = even, u[3] = u[6] = u[9] = u[12] = odd; break;
    case QR_GATE_YY:
        u[0] = u[5] = u[10] = u[15] = even, u[6] = u[9] = odd, u[3] = u[12] = times(-1, odd);
        break;
    case QR_GATE_ZZ: u[0] = u[15] = h.plus, u[5] = u[10] = h.minus; break;
    case QR_GATE_CZ: u[0] = u[5] = u[10] = h.plus, u[15] = h.minus; break;
    case QR_GATE_CNOT: u[0] = u[5] = h.plus, u[10] = u[15] = even, u[11] = u[14] = odd; break;
    case QR_GATE_SWAP: u[0] = u[15] = h.plus, u[5] = u[10] = even, u[6] = u[9] = odd; break;
    default: QR_ASSERT(!"not a power of an involution");
    }
}

static void power_matrix(const struct qr_gate *g, double t, double complex *u, double complex *du) {
    double a = g->global_shift, b = g->global_shift + 1;
    struct halves h = {expipi(a * t), expipi(b * t)};
    put_power(g->kind, h, u);
    if (du) put_power(g->kind, (struct halves){times_i(M_PI * a, h.plus), times_i(M_PI * b, h.minus)}, du);
}

/* Z^p X^t Z^-p e^{i pi g t}: X^t with its off-diagonal turned by -p and p. */
static void phased_x_matrix(const struct qr_gate *g, double p, double t, double complex *u, double complex *da) {
    struct qr_gate x = *g;
    x.kind = QR_GATE_X;
    double complex dt[4] = {0}, turn = expipi(p), back = conj(turn);
    power_matrix(&x, t, u, dt);
    u[1] = mul(u[1], back);
    u[2] = mul(u[2], turn);
    if (!da) return;
    da[1] = times_i(-M_PI, u[1]);
    da[2] = times_i(M_PI, u[2]);
    da[4] = dt[0], da[5] = mul(dt[1], back), da[6] = mul(dt[2], turn), da[7] = dt[3];
}

/* {01, 10}: [[c, i s f], [i s f*, c]] with c, s of pi t / 2 and f = e^{2 pi i p}; all times e^{i pi g t}. dp is NULL for ISWAP. */
static void iswap_matrix(const struct qr_gate *g, double p, double t, double complex *u, double complex *dp, double complex *dt) {
    double s, c;
    qr_sincospi(0.5 * t, &s, &c);
    double complex shift = expipi(g->global_shift * t), f = expipi(2 * p), is = times_i(s, shift), ic = times_i(c, shift);
    u[0] = u[15] = shift;
    u[5] = u[10] = times(c, shift);
    u[6] = mul(is, f);
    u[9] = mul(is, conj(f));
    if (dp) {
        dp[6] = times_i(2 * M_PI, u[6]);
        dp[9] = times_i(-2 * M_PI, u[9]);
    }
    if (!dt) return;
    double w = M_PI * g->global_shift;
    dt[0] = dt[15] = times_i(w, shift);
    dt[5] = dt[10] = add(times_i(w, u[5]), times(-M_PI_2 * s, shift));
    dt[6] = add(times_i(w, u[6]), times(M_PI_2, mul(ic, f)));
    dt[9] = add(times_i(w, u[9]), times(M_PI_2, mul(ic, conj(f))));
}

static void fsim_matrix(double theta, double phi, double complex *u, double complex *da) {
    double s, c, sp, cp;
    qr_sincos(theta, &s, &c);
    qr_sincos(phi, &sp, &cp);
    u[0] = 1;
    u[5] = u[10] = c;
    u[6] = u[9] = make(0, -s);
    u[15] = make(cp, -sp);
    if (!da) return;
    da[5] = da[10] = -s;
    da[6] = da[9] = make(0, -c);
    da[16 + 15] = make(-sp, -cp);
}

void qr_gate_matrix(const struct qr_gate *g, const double a[2], double complex *ret_u, double complex *ret_da) {
    const struct qr_gate_info *info = qr_gate_info(g->kind);
    size_t n = info->n_targets == 1 ? 4 : 16;
    for (size_t i = 0; i < n; i++) ret_u[i] = 0;
    for (size_t i = 0; ret_da && i < n * info->n_args; i++) ret_da[i] = 0;
    switch (g->kind) {
    case QR_GATE_I: ret_u[0] = ret_u[3] = 1; break;
    case QR_GATE_PHASED_X: phased_x_matrix(g, a[0], a[1], ret_u, ret_da); break;
    case QR_GATE_ISWAP: iswap_matrix(g, 0, a[0], ret_u, NULL, ret_da); break;
    case QR_GATE_PHASED_ISWAP: iswap_matrix(g, a[0], a[1], ret_u, ret_da, ret_da ? ret_da + 16 : NULL); break;
    case QR_GATE_FSIM: fsim_matrix(a[0], a[1], ret_u, ret_da); break;
    default: power_matrix(g, a[0], ret_u, ret_da); break;
    }
}
