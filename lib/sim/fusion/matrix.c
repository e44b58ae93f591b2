/* sim/fusion/matrix.c — 4x4 algebra in float64: from gates to the matrix of a fused gate, from a
 * cross matrix to derivatives. Start reading at qr_m4_mul_gate() and qr_derivative_weights(). */
#include <string.h>

#include "base/mem.h"
#include "sim/fusion/matrix.h"

struct qr_m4 qr_m4_identity(void) {
    struct qr_m4 m;
    memset(&m, 0, sizeof m);
    for (int i = 0; i < 4; i++) m.e[i * 5].re = 1;
    return m;
}

/* re, im: a vector of two lanes, which every base instruction set has. */
typedef double pair __attribute__((vector_size(16)));

/* Products and sums as written out for complex numbers, k ascending, without fused operations. */
struct qr_m4 qr_m4_mul(const struct qr_m4 *a, const struct qr_m4 *b) {
    struct qr_m4 m QR_RAW;
    pair y[16] QR_RAW, turned[16] QR_RAW; /* b and i b */
    memcpy(y, b->e, sizeof y);
    for (int k = 0; k < 16; k++) turned[k] = (pair){-b->e[k].im, b->e[k].re};
    for (int r = 0; r < 4; r++) {
        const struct qr_c64 *x = &a->e[r * 4];
        pair s[4] QR_RAW;
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) s[c] = x[0].re * y[c] + x[0].im * turned[c];
#pragma GCC unroll 3
        for (int k = 1; k < 4; k++)
#pragma GCC unroll 4
            for (int c = 0; c < 4; c++)
                s[c] += x[k].re * y[k * 4 + c] + x[k].im * turned[k * 4 + c];
        memcpy(&m.e[r * 4], s, sizeof s);
    }
    return m;
}

struct qr_m4 qr_m4_adjoint(const struct qr_m4 *a) {
    struct qr_m4 t QR_RAW;
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++)
            t.e[r * 4 + c] = (struct qr_c64){a->e[c * 4 + r].re, -a->e[c * 4 + r].im};
    return t;
}

/* a times the adjoint of b. */
static struct qr_m4 m4_mul_adjoint(const struct qr_m4 *a, const struct qr_m4 *b) {
    struct qr_m4 t QR_RAW = qr_m4_adjoint(b);
    return qr_m4_mul(a, &t);
}

static void embed_two_qubits(const struct qr_plan_op *op, const double complex *m,
                             struct qr_m4 *u) {
    bool swapped = op->t[0] == 1;
    for (int r = 0; r < 4; r++)
        for (int c = 0; c < 4; c++) {
            int rr = swapped ? (r & 1) << 1 | r >> 1 : r, cc = swapped ? (c & 1) << 1 | c >> 1 : c;
            u->e[r * 4 + c] = (struct qr_c64){creal(m[rr * 4 + cc]), cimag(m[rr * 4 + cc])};
        }
}

static struct qr_m4 m4_embed(const struct qr_plan_op *op, const double complex *m,
                             bool derivative) {
    struct qr_m4 u QR_RAW;
    if (op->gate.n_targets == 2) {
        embed_two_qubits(op, m, &u);
        return u;
    }
    for (int i = 0; i < 16; i++) {
        u.e[i] = (struct qr_c64){0, 0};
        /* Keeps the loop from becoming a call of memset, which takes longer than the rest. */
        __asm__("" ::: "memory");
    }
    /* Index bits of the target and of the other qubit. */
    int step = op->t[0] ? 1 : 2, other = 3 - step;
    for (int o = 0; o < 2; o++) {
        bool off = op->has_control && o != op->control_value;
        for (int r = 0; r < 2; r++)
            for (int c = 0; c < 2; c++) {
                struct qr_c64 *e = &u.e[(o * other + r * step) * 4 + o * other + c * step];
                if (off) e->re = !derivative && r == c;
                else *e = (struct qr_c64){creal(m[r * 2 + c]), cimag(m[r * 2 + c])};
            }
    }
    return u;
}

/* A gate on one qubit has two nonzero entries per column. */
struct qr_m4 qr_m4_mul_gate(const struct qr_m4 *a, const struct qr_plan_op *op,
                            const double complex *m, bool derivative) {
    if (!a) return m4_embed(op, m, derivative);
    if (op->gate.n_targets == 2 || op->has_control) {
        struct qr_m4 u QR_RAW = m4_embed(op, m, derivative);
        return qr_m4_mul(a, &u);
    }
    struct qr_m4 p QR_RAW;
    pair y[4] QR_RAW, turned[4] QR_RAW;
    memcpy(y, m, sizeof y);
    for (int k = 0; k < 4; k++) turned[k] = (pair){-y[k][1], y[k][0]};
    int step = op->t[0] ? 1 : 2, other = 3 - step;
    for (int i = 0; i < 8; i++) {
        int at = i / 2 * 4 + i % 2 * other;
        const struct qr_c64 *x0 = &a->e[at], *x1 = x0 + step;
        pair s0 = x0->re * y[0] + x0->im * turned[0], s1 = x0->re * y[1] + x0->im * turned[1];
        s0 += x1->re * y[2] + x1->im * turned[2];
        s1 += x1->re * y[3] + x1->im * turned[3];
        memcpy(&p.e[at], &s0, sizeof s0);
        memcpy(&p.e[at + step], &s1, sizeof s1);
    }
    return p;
}

/* s g, g = (dG) G^adjoint in the frame; g alone where s is NULL. */
static struct qr_m4 mul_generator(const struct qr_m4 *s, const struct qr_plan_op *op,
                                  const double complex *u, const double complex *d) {
    if (op->gate.n_targets == 1) { /* Multiply first: a quarter of the entries. */
        double complex g[4];
        for (int r = 0; r < 2; r++)
            for (int c = 0; c < 2; c++) {
                const double *x = (const double *)&d[r * 2], *y = (const double *)&u[c * 2];
                g[r * 2 + c] = CMPLX((x[0] * y[0] + x[1] * y[1]) + (x[2] * y[2] + x[3] * y[3]),
                                     (x[1] * y[0] - x[0] * y[1]) + (x[3] * y[2] - x[2] * y[3]));
            }
        return qr_m4_mul_gate(s, op, g, true);
    }
    struct qr_m4 a QR_RAW = m4_embed(op, d, true), b QR_RAW = m4_embed(op, u, false),
                   g QR_RAW = m4_mul_adjoint(&a, &b);
    return s ? qr_m4_mul(s, &g) : g;
}

/* Sets the weights of entry z of D = s g s^adjoint, in row j and column i <= j. */
static inline void set_entry_weights(pair z, int j, int i, double scale, double ret[QR_CROSS]) {
    static const int place[4][4] = {{12, 0, 2, 4}, {0, 13, 6, 8}, {2, 6, 14, 10}, {4, 8, 10, 15}};
    double *to = ret + place[j][i];
    if (i < j) *to++ = 2 * scale * z[0];
    *to = -2 * scale * z[1];
}

/* D and K are anti-Hermitian: Re Tr(D K) = sum_{i<j} 2 Re(D_ji K_ij) - 2 sum_i Im D_ii Im K_ii / 2.
 * So the lower half of D is enough. */
void qr_derivative_weights(const struct qr_m4 *s, const struct qr_plan_op *op,
                           const double complex *u, const double complex *d, double scale,
                           double ret[QR_CROSS]) {
    struct qr_m4 t QR_RAW = mul_generator(s, op, u, d);
    if (!s) {
        for (int j = 0; j < 4; j++)
            for (int i = 0; i <= j; i++) {
                struct qr_c64 z = t.e[j * 4 + i];
                set_entry_weights((pair){z.re, z.im}, j, i, scale, ret);
            }
        return;
    }
    pair y[16] QR_RAW, turned[16] QR_RAW; /* Columns of the adjoint, and i times those. */
    for (int k = 0; k < 16; k++) {
        y[k] = (pair){s->e[k].re, -s->e[k].im};
        turned[k] = (pair){s->e[k].im, s->e[k].re};
    }
    for (int j = 0; j < 4; j++)
        for (int i = 0; i <= j; i++) {
            const struct qr_c64 *x = &t.e[j * 4];
            pair z = x[0].re * y[i * 4] + x[0].im * turned[i * 4];
#pragma GCC unroll 3
            for (int k = 1; k < 4; k++) z += x[k].re * y[i * 4 + k] + x[k].im * turned[i * 4 + k];
            set_entry_weights(z, j, i, scale, ret);
        }
}

/* Each value has the bits of qr_derivative_value. */
void qr_two_derivatives(const double w[2 * QR_CROSS], const double k[QR_CROSS], double ret[2]) {
    pair s = {0, 0};
#pragma GCC unroll 8
    for (int i = 0; i < QR_CROSS; i += 2) {
        pair a, b;
        memcpy(&a, w + i, sizeof a);
        memcpy(&b, w + QR_CROSS + i, sizeof b);
        s += (pair){a[0], b[0]} * k[i];
        s += (pair){a[1], b[1]} * k[i + 1];
    }
    memcpy(ret, &s, sizeof s);
}

double qr_derivative_value(const double w[QR_CROSS], const double k[QR_CROSS]) {
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
            size_t forward = (r * 4 + c) * 32, adjoint = (16 + c * 4 + r) * 32;
            ret[forward + lane] = z.re;
            ret[forward + 16 + lane] = z.im;
            ret[adjoint + lane] = z.re;
            ret[adjoint + 16 + lane] = -z.im;
        }
}
