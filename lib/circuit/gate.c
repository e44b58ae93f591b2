/* circuit/gate.c — matrices and derivatives of the gates of gate_rows.h, after the formulas of
 * cirq.ops and of TFQ's serializer. Start reading at qr_gate_matrix(). */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "circuit/circuit.h"
#include "exact/functions.h"

/* ---- complex arithmetic, written out: the order of operations determines the bits ---- */

/* CMPLX, which glibc provides for gcc only */
static double complex complex_of(double re, double im) { return __builtin_complex(re, im); }
static double complex complex_mul(double complex a, double complex b) {
    return complex_of(creal(a) * creal(b) - cimag(a) * cimag(b),
                      creal(a) * cimag(b) + cimag(a) * creal(b));
}
static double complex complex_add(double complex a, double complex b) {
    return complex_of(creal(a) + creal(b), cimag(a) + cimag(b));
}
static double complex complex_sub(double complex a, double complex b) {
    return complex_of(creal(a) - creal(b), cimag(a) - cimag(b));
}
static double complex complex_scale(double s, double complex a) {
    return complex_of(s * creal(a), s * cimag(a));
}
/* i s a */
static double complex complex_scale_i(double s, double complex a) {
    return complex_of(-s * cimag(a), s * creal(a));
}
static double complex expipi(double t) {
    double s, c;
    qr_sincospi(t, &s, &c);
    return complex_of(c, s);
}

/* ---- powers of involutions ---- */

static double complex even(struct qr_power n) {
    return complex_scale(0.5, complex_add(n.plus, n.minus));
}
static double complex odd(struct qr_power n) {
    return complex_scale(0.5, complex_sub(n.plus, n.minus));
}

static void power_of_x(struct qr_power n, double complex *u) {
    u[0] = u[3] = even(n), u[1] = u[2] = odd(n);
}
static void power_of_y(struct qr_power n, double complex *u) {
    u[0] = u[3] = even(n);
    u[1] = complex_scale_i(-1, odd(n));
    u[2] = complex_scale_i(1, odd(n));
}
static void power_of_z(struct qr_power n, double complex *u) { u[0] = n.plus, u[3] = n.minus; }
static void power_of_h(struct qr_power n, double complex *u) {
    double complex part = complex_scale(0x1.6a09e667f3bcdp-1, odd(n)); /* 1/sqrt 2 */
    u[0] = complex_add(even(n), part), u[1] = u[2] = part, u[3] = complex_sub(even(n), part);
}
static void power_of_xx(struct qr_power n, double complex *u) {
    u[0] = u[5] = u[10] = u[15] = even(n);
    u[3] = u[6] = u[9] = u[12] = odd(n);
}
static void power_of_yy(struct qr_power n, double complex *u) {
    u[0] = u[5] = u[10] = u[15] = even(n);
    u[6] = u[9] = odd(n);
    u[3] = u[12] = complex_scale(-1, odd(n));
}
static void power_of_zz(struct qr_power n, double complex *u) {
    u[0] = u[15] = n.plus, u[5] = u[10] = n.minus;
}
static void power_of_cz(struct qr_power n, double complex *u) {
    u[0] = u[5] = u[10] = n.plus, u[15] = n.minus;
}
static void power_of_cnot(struct qr_power n, double complex *u) {
    u[0] = u[5] = n.plus;
    u[10] = u[15] = even(n);
    u[11] = u[14] = odd(n);
}
static void power_of_swap(struct qr_power n, double complex *u) {
    u[0] = u[15] = n.plus;
    u[5] = u[10] = even(n);
    u[6] = u[9] = odd(n);
}

static void power_matrix(const struct qr_gate *g,
                         void (*power)(struct qr_power n, double complex *u), double t,
                         double complex *u, double complex *du) {
    double a = g->global_shift, b = g->global_shift + 1;
    struct qr_power n = {expipi(a * t), expipi(b * t)};
    power(n, u);
    if (du)
        power((struct qr_power){complex_scale_i(M_PI * a, n.plus),
                                complex_scale_i(M_PI * b, n.minus)},
              du);
}

/* ---- other gates ---- */

static void identity_matrix(const struct qr_gate *g, const double a[2], double complex *u,
                            double complex *da) {
    (void)g, (void)a, (void)da;
    u[0] = u[3] = 1;
}

/* Z^p X^t Z^-p e^{i pi g t}: X^t with its off-diagonal rotated by -p and p. */
static void phased_x_matrix(const struct qr_gate *g, const double a[2], double complex *u,
                            double complex *da) {
    double complex dt[4] = {0}, turn = expipi(a[0]), back = conj(turn);
    power_matrix(g, power_of_x, a[1], u, dt);
    u[1] = complex_mul(u[1], back);
    u[2] = complex_mul(u[2], turn);
    if (!da) return;
    da[1] = complex_scale_i(-M_PI, u[1]);
    da[2] = complex_scale_i(M_PI, u[2]);
    da[4] = dt[0], da[5] = complex_mul(dt[1], back), da[6] = complex_mul(dt[2], turn),
    da[7] = dt[3];
}

/* {01, 10}: [[c, i s f], [i s f*, c]] with c, s of pi t / 2 and f = e^{2 pi i p}; all times e^{i pi
 * g t}. dp is NULL for ISWAP. */
static void exchange_matrix(const struct qr_gate *g, double p, double t, double complex *u,
                            double complex *dp, double complex *dt) {
    double s, c;
    qr_sincospi(0.5 * t, &s, &c);
    double complex shift = expipi(g->global_shift * t), f = expipi(2 * p),
                   is = complex_scale_i(s, shift), ic = complex_scale_i(c, shift);
    u[0] = u[15] = shift;
    u[5] = u[10] = complex_scale(c, shift);
    u[6] = complex_mul(is, f);
    u[9] = complex_mul(is, conj(f));
    if (dp) {
        dp[6] = complex_scale_i(2 * M_PI, u[6]);
        dp[9] = complex_scale_i(-2 * M_PI, u[9]);
    }
    if (!dt) return;
    double w = M_PI * g->global_shift;
    dt[0] = dt[15] = complex_scale_i(w, shift);
    dt[5] = dt[10] = complex_add(complex_scale_i(w, u[5]), complex_scale(-M_PI_2 * s, shift));
    dt[6] = complex_add(complex_scale_i(w, u[6]), complex_scale(M_PI_2, complex_mul(ic, f)));
    dt[9] = complex_add(complex_scale_i(w, u[9]), complex_scale(M_PI_2, complex_mul(ic, conj(f))));
}

static void iswap_matrix(const struct qr_gate *g, const double a[2], double complex *u,
                         double complex *da) {
    exchange_matrix(g, 0, a[0], u, NULL, da);
}
static void phased_iswap_matrix(const struct qr_gate *g, const double a[2], double complex *u,
                                double complex *da) {
    exchange_matrix(g, a[0], a[1], u, da, da ? da + 16 : NULL);
}

static void fsim_matrix(const struct qr_gate *g, const double a[2], double complex *u,
                        double complex *da) {
    (void)g;
    double s, c, sp, cp;
    qr_sincos(a[0], &s, &c);
    qr_sincos(a[1], &sp, &cp);
    u[0] = 1;
    u[5] = u[10] = c;
    u[6] = u[9] = complex_of(0, -s);
    u[15] = complex_of(cp, -sp);
    if (!da) return;
    da[5] = da[10] = -s;
    da[6] = da[9] = complex_of(0, -c);
    da[16 + 15] = complex_of(-sp, -cp);
}

/* ---- the table ---- */

#define ONE_EXPONENT .n_args = 1, .arg_names = {"exponent"}, .has_exponent = true
#define PHASE_AND_EXPONENT                                                                         \
    .n_args = 2, .arg_names = {"phase_exponent", "exponent"}, .has_exponent = true
static const struct qr_gate_info infos[QR_GATE_KINDS] = {
#define INFO(kind, ...) [QR_GATE_##kind] = {__VA_ARGS__},
    QR_GATE_ROWS(INFO)};

const struct qr_gate_info *qr_gate_info(enum qr_gate_kind kind) {
    QR_ASSERT((unsigned)kind < QR_GATE_KINDS);
    return &infos[kind];
}

static bool gate_has_name(const char *name, const char *one) {
    return one && strcasecmp(name, one) == 0;
}

int qr_gate_kind_of(const char *name) {
    for (int k = 0; k < QR_GATE_KINDS; k++) {
        const struct qr_gate_info *i = &infos[k];
        if (gate_has_name(name, i->name) || gate_has_name(name, i->also) ||
            gate_has_name(name, i->tfq) || gate_has_name(name, i->cirq))
            return k;
    }
    return -1;
}

void qr_gate_matrix(const struct qr_gate *g, const double a[2], double complex *ret_u,
                    double complex *ret_da) {
    const struct qr_gate_info *info = qr_gate_info(g->kind);
    size_t n = info->n_targets == 1 ? 4 : 16;
    for (size_t i = 0; i < n; i++) ret_u[i] = 0;
    for (size_t i = 0; ret_da && i < n * info->n_args; i++) ret_da[i] = 0;
    if (info->power) power_matrix(g, info->power, a[0], ret_u, ret_da);
    else info->matrix(g, a, ret_u, ret_da);
}
