/* sim/block_algebra.c — 4x4 algebra in float64: from gates to a block's matrix, from a cross matrix to derivatives. */
#include <string.h>

#include "sim/planner_impl.h"

/* Written out: C's complex product looks for infinities, at ten times the price. */
static inline struct qr_c64 mul(struct qr_c64 a, struct qr_c64 b) {
    return (struct qr_c64){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
static inline struct qr_c64 mul_conj(struct qr_c64 a, struct qr_c64 b) { /* a * conj(b) */
    return (struct qr_c64){a.re * b.re + a.im * b.im, a.im * b.re - a.re * b.im};
}
static inline struct qr_c64 add(struct qr_c64 a, struct qr_c64 b) { return (struct qr_c64){a.re + b.re, a.im + b.im}; }

struct qr_m4 qr_m4_identity(void) {
    struct qr_m4 m;
    memset(&m, 0, sizeof m);
    for (int i = 0; i < 4; i++) m.e[i * 5].re = 1;
    return m;
}

struct qr_m4 qr_m4_mul(const struct qr_m4 *a, const struct qr_m4 *b) {
    struct qr_m4 m;
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++) {
            struct qr_c64 s = mul(a->e[r * 4], b->e[c]);
            for (int k = 1; k < 4; k++) s = add(s, mul(a->e[r * 4 + k], b->e[k * 4 + c]));
            m.e[r * 4 + c] = s;
        }
    return m;
}

struct qr_m4 qr_m4_mul_adjoint(const struct qr_m4 *a, const struct qr_m4 *b) {
    struct qr_m4 m;
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++) {
            struct qr_c64 s = mul_conj(a->e[r * 4], b->e[c * 4]);
            for (int k = 1; k < 4; k++) s = add(s, mul_conj(a->e[r * 4 + k], b->e[c * 4 + k]));
            m.e[r * 4 + c] = s;
        }
    return m;
}

struct qr_m4 qr_m4_embed(const struct qr_plan_op *op, const double complex *m, bool derivative) {
    struct qr_m4 u;
    memset(&u, 0, sizeof u);
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++) {
            const int rb[2] = {r >> 1, r & 1}, cb[2] = {c >> 1, c & 1};
            struct qr_c64 *e = &u.e[r * 4 + c];
            if (op->gate.n_targets == 2) {
                double complex z = m[(rb[op->t[0]] * 2 + rb[op->t[1]]) * 4 + cb[op->t[0]] * 2 + cb[op->t[1]]];
                *e = (struct qr_c64){creal(z), cimag(z)};
                continue;
            }
            int t = op->t[0], o = 1 - t;
            if (rb[o] != cb[o]) continue;
            if (op->has_control && rb[o] != op->control_value) {
                e->re = !derivative && r == c;
                continue;
            }
            double complex z = m[rb[t] * 2 + cb[t]];
            *e = (struct qr_c64){creal(z), cimag(z)};
        }
    return u;
}

struct qr_m4 qr_m4_generator(const struct qr_plan_op *op, const double complex *u, const double complex *d) {
    struct qr_m4 a = qr_m4_embed(op, d, true), b = qr_m4_embed(op, u, false);
    return qr_m4_mul_adjoint(&a, &b);
}

/* D = s g s^adjoint is anti-Hermitian and so is K: Re Tr(D K) = sum_{i<j} 2 Re(D_ji K_ij) - 2 sum_i Im D_ii Im K_ii / 2. */
void qr_slope_weights(const struct qr_m4 *s, const struct qr_m4 *g, double scale, double ret[QR_CROSS]) {
    struct qr_m4 t = qr_m4_mul(s, g), d = qr_m4_mul_adjoint(&t, s);
    int k = 0;
    for (int i = 0; i < 4; i++)
        for (int j = i + 1; j < 4; j++) {
            ret[k++] = 2 * scale * d.e[j * 4 + i].re;
            ret[k++] = -2 * scale * d.e[j * 4 + i].im;
        }
    for (int i = 0; i < 4; i++) ret[k++] = -2 * scale * d.e[i * 5].im;
}

double qr_slope_value(const double w[QR_CROSS], const double k[QR_CROSS]) {
    double s = 0;
    for (int i = 0; i < QR_CROSS; i++) s += w[i] * k[i];
    return s;
}

void qr_narrow_numbers(const struct qr_m4 *m, double ret[QR_NARROW]) {
    for (size_t r = 0; r < 4; r++)
        for (size_t c = 0; c < 4; c++) {
            struct qr_c64 z = m->e[r * 4 + c];
            ret[r * 4 + c] = z.re;
            ret[16 + r * 4 + c] = z.im;
            ret[32 + c * 4 + r] = z.re;
            ret[48 + c * 4 + r] = -z.im;
        }
}

void qr_wide_numbers(const struct qr_m4 *m, unsigned lane, double ret[QR_WIDE]) {
    for (size_t r = 0; r < 4; r++)
        for (size_t c = 0; c < 4; c++) {
            struct qr_c64 z = m->e[r * 4 + c];
            size_t there = (r * 4 + c) * 32, back = (16 + c * 4 + r) * 32;
            ret[there + lane] = z.re;
            ret[there + 16 + lane] = z.im;
            ret[back + lane] = z.re;
            ret[back + 16 + lane] = -z.im;
        }
}
