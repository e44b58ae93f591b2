/* sim/cones/pauli_transfer.c — Pauli transfer matrices from gates, and cross matrices from their
 * derivatives. Start reading at qr_transfer(). */
#include "sim/cones/pauli_transfer.h"

#include <string.h>

#include "base/mem.h"

enum { X = 1, Y = 2, Z = 3 };

/* The nonzero entry of Pauli p in row r is in column r ^ pauli_flips(p): a power of i. */
static unsigned pauli_flips(unsigned p) { return p == X || p == Y; }
static struct qr_c64 pauli_entry(unsigned p, unsigned row) {
    switch (p) {
    case Y: return (struct qr_c64){0, row ? 1 : -1};
    case Z: return (struct qr_c64){row ? -1 : 1, 0};
    default: return (struct qr_c64){1, 0};
    }
}

static struct qr_c64 pauli_complex_product(struct qr_c64 a, struct qr_c64 b) {
    return (struct qr_c64){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* The same for a string on k qubits. */
static unsigned string_flips(unsigned p, unsigned k) {
    return k == 1 ? pauli_flips(p) : pauli_flips(p / QR_PAULIS) << 1 | pauli_flips(p % QR_PAULIS);
}
static struct qr_c64 string_entry(unsigned p, unsigned k, unsigned row) {
    if (k == 1) return pauli_entry(p, row);
    return pauli_complex_product(pauli_entry(p / QR_PAULIS, row >> 1),
                                 pauli_entry(p % QR_PAULIS, row & 1));
}

/* w = a Q b^adjoint, all 2^k x 2^k. */
static void conjugate_string(const struct qr_c64 *a, const struct qr_c64 *b, unsigned q, unsigned k,
                             struct qr_c64 w[16]) {
    unsigned dim = 1u << k, x = string_flips(q, k);
    for (unsigned r = 0; r < dim; r++) {
        struct qr_c64 aq[4];
        for (unsigned c = 0; c < dim; c++)
            aq[c] = pauli_complex_product(a[r * dim + (c ^ x)], string_entry(q, k, c ^ x));
        for (unsigned s = 0; s < dim; s++) {
            struct qr_c64 sum = {0, 0};
            for (unsigned c = 0; c < dim; c++) {
                struct qr_c64 v = b[s * dim + c];
                sum.re += aq[c].re * v.re + aq[c].im * v.im;
                sum.im += aq[c].im * v.re - aq[c].re * v.im;
            }
            w[r * dim + s] = sum;
        }
    }
}

/* Tr(P w) / 2^k. */
static struct qr_c64 string_component(const struct qr_c64 w[16], unsigned p, unsigned k) {
    unsigned dim = 1u << k, x = string_flips(p, k);
    struct qr_c64 sum = {0, 0};
    for (unsigned r = 0; r < dim; r++) {
        struct qr_c64 t = pauli_complex_product(string_entry(p, k, r), w[(r ^ x) * dim + r]);
        sum.re += t.re;
        sum.im += t.im;
    }
    return (struct qr_c64){sum.re / dim, sum.im / dim};
}

/* A complex number, or two reals: a vector of two lanes, which every base instruction set has. */
typedef double pair __attribute__((vector_size(16)));

/* Strings on two qubits by the row bits that they flip and the row bits that give their sign, with
 * their number of Y: row r is (-i)^n_y (-1)^(r & signs) in column r ^ flips. */
static const struct {
    uint8_t p, n_y;
} strings[4][4] = {
    {{0, 0}, {Z, 0}, {Z * 4, 0}, {Z * 5, 0}},
    {{X, 0}, {Y, 1}, {Z * 4 + X, 0}, {Z * 4 + Y, 1}},
    {{X * 4, 0}, {X * 4 + Z, 0}, {Y * 4, 1}, {Y * 4 + Z, 1}},
    {{X * 5, 0}, {X * 4 + Y, 1}, {Y * 4 + X, 1}, {Y * 5, 2}},
};

/* The strings that flip these bits, as a mask. */
static const uint16_t flipped[4] = {
    1 << 0 | 1 << Z | 1 << Z * 4 | 1 << Z * 5,
    1 << X | 1 << Y | 1 << (Z * 4 + X) | 1 << (Z * 4 + Y),
    1 << X * 4 | 1 << (X * 4 + Z) | 1 << Y * 4 | 1 << (Y * 4 + Z),
    1 << X * 5 | 1 << (X * 4 + Y) | 1 << (Y * 4 + X) | 1 << Y * 5,
};

/* Replaces each pair of values `apart` apart by sum and difference: the two signs of a digit, so
 * without and with Z in the string. */
static inline void butterflies(pair *v, unsigned apart) {
#pragma GCC unroll 2
    for (unsigned step = apart; step < 4 * apart; step *= 2)
#pragma GCC unroll 4
        for (unsigned i = 0; i < 4 * apart; i += apart) {
            if (i & step) continue;
            pair a = v[i], b = v[i + step];
            v[i] = a + b;
            v[i + step] = a - b;
        }
}

/* R_PQ for all P that flip the bits x of a row, and all Q that flip the bits y of a column. */
static inline __attribute__((always_inline)) void transfer_of_flips(const struct qr_m4 *u,
                                                                    unsigned x, unsigned y,
                                                                    double ret[QR_TRANSFER]) {
    pair v[16] QR_RAW; /* by sign bits: those of Q in the lower two bits */
#pragma GCC unroll 4
    for (unsigned r = 0; r < 4; r++) {
#pragma GCC unroll 4
        for (unsigned c = 0; c < 4; c++) {
            struct qr_c64 a = u->e[(r ^ x) * 4 + c], b = u->e[r * 4 + (c ^ y)];
            v[r * 4 + c] = (pair){a.re, a.im} * b.re + (pair){a.im, -a.re} * b.im;
        }
        butterflies(v + r * 4, 1);
    }
#pragma GCC unroll 4
    for (unsigned q = 0; q < 4; q++) {
        /* A power of i selects the real or imaginary part, and its sign. */
        unsigned n_y = strings[y][q].n_y, other = n_y & 1;
        const double sign[3] = {n_y & 2 ? -0.25 : 0.25, n_y ? -0.25 : 0.25, n_y & 2 ? 0.25 : -0.25};
        double *to = ret + strings[y][q].p;
        butterflies(v + q, 4);
#pragma GCC unroll 4
        for (unsigned p = 0; p < 4; p++) {
            unsigned in_p = strings[x][p].n_y;
            pair w = v[p * 4 + q];
            double part = other ? w[!(in_p & 1)] : w[in_p & 1];
            to[strings[x][p].p * 16] = part * sign[in_p];
        }
    }
}

/* R_PQ = 1/4 sum over r, c of P[r][r ^ x] Q[c][c ^ y] U[r ^ x][c] conj(U[r][c ^ y]), where x and y
 * are the bits that P and Q flip: for each x and y, butterflies give the signs of all P and Q. */
void qr_transfer(const struct qr_m4 *u, uint16_t columns, double ret[QR_TRANSFER]) {
    for (unsigned y = 0; y < 4; y++) {
        if (!(columns & flipped[y])) continue;
#pragma GCC unroll 4
        for (unsigned x = 0; x < 4; x++) transfer_of_flips(u, x, y, ret);
    }
}

/* Sum over q of ra[q] db[q] - rb[q] da[q]: even q, odd q, then both. */
static double cross_sum(const double ra[16], const double da[16], const double rb[16],
                        const double db[16], const uint8_t *columns, unsigned n_columns) {
    pair sum = {0, 0};
    for (unsigned i = 0; i < n_columns; i++) {
        unsigned q = columns[i];
        sum += (pair){ra[q], ra[q + 1]} * (pair){db[q], db[q + 1]} -
               (pair){rb[q], rb[q + 1]} * (pair){da[q], da[q + 1]};
    }
    return sum[0] + sum[1];
}

/* K = 1/4 sum over a, b of (R d^T)_ab [a, b], where [a, b] = 2 i p for the listed a and b of each
 * p; all others commute. */
void qr_transfer_cross(const double r[QR_TRANSFER], const double d[QR_TRANSFER], uint16_t rows_used,
                       uint16_t columns_used, double ret[QR_CROSS]) {
    static const uint8_t rows[6] = {0, 0, 0, 1, 1, 2}, columns[6] = {1, 2, 3, 2, 3, 3};
    static const uint8_t pairs[15][4][2] = {
        /* for p = 1 to 15 */
        {{2, 3}, {6, 7}, {10, 11}, {14, 15}}, {{3, 1}, {7, 5}, {11, 9}, {15, 13}},
        {{1, 2}, {5, 6}, {9, 10}, {13, 14}},  {{8, 12}, {9, 13}, {10, 14}, {11, 15}},
        {{2, 7}, {6, 3}, {8, 13}, {9, 12}},   {{3, 5}, {7, 1}, {8, 14}, {10, 12}},
        {{1, 6}, {5, 2}, {8, 15}, {11, 12}},  {{12, 4}, {13, 5}, {14, 6}, {15, 7}},
        {{2, 11}, {10, 3}, {12, 5}, {13, 4}}, {{3, 9}, {11, 1}, {12, 6}, {14, 4}},
        {{1, 10}, {9, 2}, {12, 7}, {15, 4}},  {{4, 8}, {5, 9}, {6, 10}, {7, 11}},
        {{2, 15}, {4, 9}, {5, 8}, {14, 3}},   {{3, 13}, {4, 10}, {6, 8}, {15, 1}},
        {{1, 14}, {4, 11}, {7, 8}, {13, 2}}};
    uint8_t twos[8]; /* first of each pair of columns */
    unsigned n_twos = 0;
    for (unsigned q = 0; q < 16; q += 2)
        if (columns_used >> q & 3) twos[n_twos++] = (uint8_t)q;
    double kappa[16] = {0}; /* K = i sum kappa_P P */
    for (unsigned p = 1; p < 16; p++)
        for (unsigned i = 0; i < 4; i++) {
            unsigned a = pairs[p - 1][i][0], b = pairs[p - 1][i][1];
            if (rows_used & (1u << a | 1u << b))
                kappa[p] +=
                    cross_sum(r + a * 16, d + a * 16, r + b * 16, d + b * 16, twos, n_twos) / 2;
        }
    pair k[16] QR_RAW;
#pragma GCC unroll 4
    for (unsigned x = 0; x < 4; x++)
#pragma GCC unroll 4
        for (unsigned row = 0; row < 4; row++) {
            pair sum = {0, 0};
#pragma GCC unroll 4
            for (unsigned z = 0; z < 4; z++) {
                unsigned n_y = strings[x][z].n_y; /* i times (-i)^n_y */
                double v = n_y & 2 ? -kappa[strings[x][z].p] : kappa[strings[x][z].p];
                if (__builtin_parity(row & z)) v = -v;
                sum += n_y & 1 ? (pair){v, 0} : (pair){0, v};
            }
            k[row * 4 + (row ^ x)] = sum;
        }
    for (unsigned i = 0; i < 6; i++) {
        ret[2 * i] = k[rows[i] * 4 + columns[i]][0];
        ret[2 * i + 1] = k[rows[i] * 4 + columns[i]][1];
    }
    for (unsigned i = 0; i < 4; i++) ret[12 + i] = k[i * 5][1] / 2;
}

static void power_projector(const struct qr_gate_info *info, bool plus, struct qr_c64 ret[16]) {
    double complex u[16] = {0};
    info->power((struct qr_power){plus, !plus}, u);
    for (unsigned i = 0; i < 16; i++) ret[i] = (struct qr_c64){creal(u[i]), cimag(u[i])};
}

bool qr_transfer_of_power(const struct qr_gate *g, double ret[QR_SIGNAL_NUMBERS]) {
    const struct qr_gate_info *info = qr_gate_info(g->kind);
    if (!info->power || !qr_qubits_is_empty(&g->controls)) return false;
    unsigned k = g->n_targets, dim = 1u << k, n = dim * dim;
    struct qr_c64 side[2][16];
    for (int minus = 0; minus < 2; minus++) power_projector(info, !minus, side[minus]);
    /* U = plus + e^{i pi t} minus, up to a phase. */
    for (unsigned q = 0; q < n; q++) {
        struct qr_c64 w[2][2][16];
        for (int a = 0; a < 2; a++)
            for (int b = 0; b < 2; b++) conjugate_string(side[a], side[b], q, k, w[a][b]);
        for (unsigned p = 0; p < n; p++) {
            double *to = ret + (p * n + q) * QR_SIGNALS;
            struct qr_c64 up = string_component(w[1][0], p, k),
                          down = string_component(w[0][1], p, k);
            to[0] = string_component(w[0][0], p, k).re + string_component(w[1][1], p, k).re;
            to[1] = up.re + down.re;
            to[2] = down.im - up.im;
        }
    }
    return true;
}
