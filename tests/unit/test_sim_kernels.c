/* Every kernel of every table against the portable one, bit for bit: all positions, controls and
 * both precisions; and the portable one against plain complex arithmetic. */
#include "base/mem.h"
#include "sim/fusion/matrix.h"
#include "tests/isa.h"
#include "tests/t.h"

#include <complex.h>
#include <math.h>

enum { BITS = 7, CELLS = 1 << BITS };

static uint64_t state = 12345;
static double random_uniform(void) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(state >> 11) * 0x1p-53 * 2 - 1;
}

/* A cell has lanes * 2 numbers. */
static size_t bytes_of(size_t cells, int precision) {
    return cells * 2 * QR_LANES * (precision ? 8 : 4);
}
static void *random_cells(size_t cells, int precision) {
    void *p = qr_xaligned(bytes_of(cells, precision));
    for (size_t i = 0; i < cells * 2 * QR_LANES; i++) {
        if (precision) ((double *)p)[i] = random_uniform();
        else ((float *)p)[i] = (float)random_uniform();
    }
    return p;
}
static void *copy_of(const void *p, size_t bytes) {
    void *c = qr_xaligned(bytes);
    memcpy(c, p, bytes);
    return c;
}
static double complex amplitude(const void *cells, int precision, size_t cell, size_t lane) {
    size_t i = cell * 2 * QR_LANES + lane;
    if (precision) return CMPLX(((const double *)cells)[i], ((const double *)cells)[i + QR_LANES]);
    return CMPLX((double)((const float *)cells)[i], (double)((const float *)cells)[i + QR_LANES]);
}

/* From rows with one number for each lane. */
static double lane_of(const void *rows, int precision, size_t row, size_t lane) {
    size_t i = row * QR_LANES + lane;
    return precision ? ((const double *)rows)[i] : (double)((const float *)rows)[i];
}
static void negate(const void *row, void *ret, int precision) {
    for (size_t l = 0; l < QR_LANES; l++) {
        double v = -lane_of(row, precision, 0, l);
        if (precision) ((double *)ret)[l] = v;
        else ((float *)ret)[l] = (float)v;
    }
}

struct work {
    void *phi, *lambda;
    double *narrow, *wide;
};
static struct work work_new(int precision) {
    struct work w = {random_cells(CELLS, precision), random_cells(CELLS, precision),
                     qr_xaligned(64 * 8), qr_xaligned(1024 * 8)};
    for (int i = 0; i < 64; i++) w.narrow[i] = random_uniform();
    for (int i = 0; i < 1024; i++) w.wide[i] = random_uniform();
    return w;
}
static void work_free(struct work *w) {
    free(w->phi);
    free(w->lambda);
    free(w->narrow);
    free(w->wide);
}

static bool make_target(unsigned a, unsigned b, unsigned variant, struct qr_tile_target *ret) {
    if (a == b) return false;
    *ret = (struct qr_tile_target){.bit = {(uint8_t)a, (uint8_t)b}};
    /* Variants 1 and 2 have one or two controls, on 1 and then on 0. */
    for (unsigned c = 0, v = variant; c < BITS && v; c++) {
        if (c == a || c == b) continue;
        ret->controls |= UINT64_C(1) << c;
        if (v & 1) ret->values |= UINT64_C(1) << c;
        v--;
    }
    return true;
}

/* One rounding of each of 8 fused terms, each at most 8 in size: 8 * 8 * 2^-53; float32: one
 * rounding when stored. */
static const double tolerance[2] = {8 * 0x1p-24, 64 * 0x1p-53};

static void check_apply(const struct work *w, const void *got, const struct qr_tile_target *at,
                        bool wide, int precision) {
    size_t sa = (size_t)1 << at->bit[0], sb = (size_t)1 << at->bit[1];
    double worst = 0;
    for (size_t i = 0; i < CELLS; i++)
        for (size_t l = 0; l < QR_LANES; l++) {
            double complex want = amplitude(w->phi, precision, i, l);
            if ((i & at->controls) == at->values) {
                size_t base = i & ~sa & ~sb, r = (i & sa ? 2u : 0u) + (i & sb ? 1u : 0u);
                want = 0;
                for (size_t j = 0; j < 4; j++) {
                    size_t e = r * 4 + j;
                    double complex u = wide ? CMPLX(w->wide[e * 32 + l], w->wide[e * 32 + 16 + l])
                                            : CMPLX(w->narrow[e], w->narrow[16 + e]);
                    want += u * amplitude(w->phi, precision,
                                          base + (j & 2 ? sa : 0) + (j & 1 ? sb : 0), l);
                }
            }
            worst = t_worst(worst, cabs(want - amplitude(got, precision, i, l)));
        }
    CHECK(worst <= 2 * tolerance[precision], "%.3g", worst);
}

static void check_cross(const struct work *w, const double (*acc)[QR_LANES],
                        const struct qr_tile_target *at, int precision) {
    size_t sa = (size_t)1 << at->bit[0], sb = (size_t)1 << at->bit[1];
    double complex m[4][4];
    double worst = 0;
    for (size_t l = 0; l < QR_LANES; l++) {
        memset(m, 0, sizeof m);
        for (size_t i = 0; i < CELLS; i++) {
            if ((i & at->controls) != at->values || (i & sa) || (i & sb)) continue;
            for (size_t r = 0; r < 4; r++)
                for (size_t c = 0; c < 4; c++)
                    m[r][c] +=
                        amplitude(w->phi, precision, i + (r & 2 ? sa : 0) + (r & 1 ? sb : 0), l) *
                        conj(amplitude(w->lambda, precision,
                                       i + (c & 2 ? sa : 0) + (c & 1 ? sb : 0), l));
        }
        size_t k = 0;
        for (size_t r = 0; r < 4; r++)
            for (size_t c = r + 1; c < 4; c++, k += 2)
                worst =
                    t_worst(worst, cabs(m[r][c] - conj(m[c][r]) - CMPLX(acc[k][l], acc[k + 1][l])));
        for (size_t r = 0; r < 4; r++)
            worst = t_worst(worst, fabs(cimag(m[r][r]) - acc[12 + r][l]));
    }
    /* 64 terms in a batch, partial sums of at most ~16 */
    CHECK(worst <= 64 * 16 * (precision ? 0x1p-53 : 0x1p-24), "%.3g", worst);
}

static void fused_gates(const struct qr_kernels *k, const struct qr_kernels *portable,
                        int precision, bool sparse) {
    struct work w = work_new(precision);
    for (size_t r = 0; sparse && r < 4; r++) /* one or two entries in a row */
        for (size_t j = 0; j < 4; j++)
            if (j != r && (r == 0 || (j != (r + 1) % 4 && (r != 3 || j == 0))))
                w.narrow[r * 4 + j] = w.narrow[16 + r * 4 + j] = 0;
    size_t bytes = bytes_of(CELLS, precision);
    struct qr_tile_target at;
    for (unsigned a = 0; a < BITS; a++)
        for (unsigned b = 0; b < BITS; b++)
            for (unsigned variant = 0; variant < 3; variant++) {
                if (!make_target(a, b, variant, &at)) continue;
                size_t groups = (size_t)CELLS >> (2 + variant);
                for (int wide = 0; wide < 2; wide++) {
                    const double *numbers = wide ? w.wide : w.narrow;
                    void *x = copy_of(w.phi, bytes), *y = copy_of(w.phi, bytes),
                         *lx = copy_of(w.lambda, bytes), *ly = copy_of(w.lambda, bytes);
                    k->apply(x, BITS, &at, numbers, wide);
                    portable->apply(y, BITS, &at, numbers, wide);
                    CHECK(memcmp(x, y, bytes) == 0, "%s apply %u %u", k->name, a, b);
                    if (k == portable) check_apply(&w, x, &at, wide, precision);
                    memcpy(x, w.phi, bytes);
                    memcpy(y, w.phi, bytes);
                    _Alignas(64) double p[QR_CROSS][QR_LANES] = {{0}},
                                        q[QR_CROSS][QR_LANES] = {{0}};
                    if (k == portable) {
                        k->cross(x, lx, BITS, &at, NULL, false, 0, groups, p);
                        CHECK(memcmp(x, w.phi, bytes) == 0);
                        check_cross(&w, (const double(*)[QR_LANES])p, &at, precision);
                        memset(p, 0, sizeof p);
                    }
                    k->cross(x, lx, BITS, &at, numbers, wide, 0, groups, p);
                    uint64_t go = 0; /* in two calls */
                    size_t first = groups > QR_BATCH_GROUPS ? QR_BATCH_GROUPS : groups;
                    go = portable->cross(y, ly, BITS, &at, numbers, wide, go, first, q);
                    portable->cross(y, ly, BITS, &at, numbers, wide, go, groups - first, q);
                    CHECK(memcmp(x, y, bytes) == 0 && memcmp(lx, ly, bytes) == 0 &&
                              memcmp(p, q, sizeof p) == 0,
                          "%s cross %u %u", k->name, a, b);
                    free(x);
                    free(y);
                    free(lx);
                    free(ly);
                }
            }
    work_free(&w);
}

/* Exact permutations: CNOT in both directions, CZ, SWAP, X, -1 and a cycle; every cell is an old
 * one or its negative. */
static void permutations(const struct qr_kernels *k, int precision) {
    static const struct {
        uint8_t column[4];
        int8_t sign[4];
    } cases[] = {
        {{0, 1, 3, 2}, {1, 1, 1, 1}},   {{0, 3, 2, 1}, {1, 1, 1, 1}},
        {{0, 1, 2, 3}, {1, 1, 1, -1}},  {{0, 2, 1, 3}, {1, 1, 1, 1}},
        {{2, 3, 0, 1}, {1, 1, 1, 1}},   {{0, 1, 2, 3}, {-1, -1, -1, -1}},
        {{1, 2, 3, 0}, {1, -1, 1, -1}}, {{0, 1, 2, 3}, {1, 1, 1, 1}},
    };
    struct work w = work_new(precision);
    size_t bytes = bytes_of(CELLS, precision);
    struct qr_tile_target at;
    for (size_t c = 0; c < COUNT(cases); c++)
        for (unsigned variant = 0; variant < 2; variant++) {
            if (!make_target(4, 1, variant, &at)) continue;
            memset(w.narrow, 0, 64 * sizeof *w.narrow);
            for (size_t r = 0; r < 4; r++) w.narrow[r * 4 + cases[c].column[r]] = cases[c].sign[r];
            void *x = copy_of(w.phi, bytes), *y = copy_of(w.lambda, bytes);
            k->apply(x, BITS, &at, w.narrow, false);
            bool right = true;
            for (size_t i = 0; i < CELLS; i++)
                for (size_t l = 0; l < QR_LANES; l++) {
                    size_t r = (i >> 4 & 1) << 1 | (i >> 1 & 1), from = cases[c].column[r];
                    bool on = (i & at.controls) == at.values;
                    size_t source = on ? (i & ~(size_t)18) | (from & 2) << 3 | (from & 1) << 1 : i;
                    right &= amplitude(x, precision, i, l) ==
                             (on ? cases[c].sign[r] : 1) * amplitude(w.phi, precision, source, l);
                }
            CHECK(right, "%s permutation %zu", k->name, c);
            _Alignas(64) double acc[QR_CROSS][QR_LANES] = {{0}};
            void *z = copy_of(w.phi, bytes);
            k->cross(z, y, BITS, &at, w.narrow, false, 0, (size_t)CELLS >> (2 + variant), acc);
            CHECK(memcmp(x, z, bytes) == 0, "%s permutation %zu after its cross matrix", k->name,
                  c);
            free(x);
            free(y);
            free(z);
        }
    work_free(&w);
}

static void folds(const struct qr_kernels *k, const struct qr_kernels *portable) {
    _Alignas(64) double acc[QR_CROSS][QR_LANES], scale[QR_LANES], p[QR_CROSS], q[QR_CROSS];
    for (int i = 0; i < QR_CROSS * QR_LANES; i++)
        acc[i / QR_LANES][i % QR_LANES] = random_uniform() * ldexp(1, i % 40);
    for (int i = 0; i < QR_LANES; i++) scale[i] = random_uniform();
    k->fold((const double(*)[QR_LANES])acc, scale, p);
    portable->fold((const double(*)[QR_LANES])acc, scale, q);
    CHECK(memcmp(p, q, sizeof p) == 0, "%s fold", k->name);
    for (int i = 0; i < QR_CROSS; i++) {
        double t[QR_LANES];
        for (int l = 0; l < QR_LANES; l++) t[l] = acc[i][l] * scale[l];
        for (int half = 8; half; half /= 2)
            for (int l = 0; l < half; l++) t[l] += t[l + half];
        CHECK(t[0] == p[i]);
    }
}

/* Strings that flip the same qubits: compared lane by lane with sums of the plain terms. */
static void check_readouts(const struct work *w, const struct qr_pauli_string *at, size_t n,
                           const void *weights, const void *sums, const void *lambda,
                           int precision) {
    static const double complex turned[4] = {1, -I, -1, I}, straight[4] = {1, I, -1, -I};
    double worst = 0;
    for (size_t l = 0; l < QR_LANES; l++) {
        double sum[32] = {0};
        for (size_t i = 3; i < CELLS; i++) {
            double complex b = amplitude(w->phi, precision, i, l),
                           a = amplitude(w->phi, precision, i ^ at->x, l ^ at->x_lane),
                           o = amplitude(w->lambda, precision, i, l);
            for (size_t k = 0; k < n; k++) {
                double here = __builtin_parityll(i & at[k].z) ? -1 : 1,
                       there = __builtin_parityll((i ^ at->x) & at[k].z) ? -1 : 1;
                sum[k] += here * creal(conj(b) * turned[at[k].n_y] * a);
                o += there * lane_of(weights, precision, k, l) * straight[at[k].n_y] * a;
            }
            worst = t_worst(worst, cabs(o - amplitude(lambda, precision, i, l)));
        }
        for (size_t k = 0; k < n; k++)
            worst = t_worst(worst, fabs(sum[k] - lane_of(sums, precision, k, l)) / CELLS);
    }
    /* each of at most 32 terms of an amplitude, or of CELLS terms of a sum, is at most 2 in size */
    CHECK(worst <= 4 * 32 * 32 * (precision ? 0x1p-53 : 0x1p-24), "%.3g", worst);
}

/* Many strings in one call give the bits of one call each with the portable table. */
static void readouts(const struct qr_kernels *k, const struct qr_kernels *portable, int precision) {
    static const size_t sizes[] = {1, 2, 7, 32};
    struct work w = work_new(precision);
    size_t bytes = bytes_of(CELLS, precision), row = bytes_of(1, precision) / 2;
    for (unsigned c = 0; c < 128; c++) {
        size_t n = sizes[c / 32];
        struct qr_pauli_string at[32] = {0};
        unsigned char *weights = random_cells(n, precision), *x = copy_of(w.lambda, bytes),
                      *y = copy_of(w.lambda, bytes), *s = qr_xaligned(n * row),
                      *t = qr_xaligned(n * row);
        memset(s, 0, n * row);
        memset(t, 0, n * row);
        for (size_t i = 0; i < n; i++) {
            at[i].x = c & 1 ? c * 37 % CELLS : 0;
            at[i].x_lane = (uint8_t)(c >> 1 & 15);
            at[i].z = (uint64_t)(random_uniform() * CELLS / 2 + CELLS / 2);
            at[i].n_y = (uint8_t)((c + i) & 3);
            at[i].turned = false;
            negate(weights + i * row, weights + (n + i) * row, precision);
        }
        k->expect(w.phi, 3, CELLS - 3, at, n, s);
        k->observe(x, w.phi, 3, CELLS - 3, at, n, weights);
        for (size_t i = 0; i < n; i++) {
            unsigned char *one = random_cells(1, precision);
            memcpy(one, weights + i * row, row);
            negate(one, one + row, precision);
            portable->expect(w.phi, 3, CELLS - 3, at + i, 1, t + i * row);
            portable->observe(y, w.phi, 3, CELLS - 3, at + i, 1, one);
            free(one);
        }
        CHECK(memcmp(s, t, n * row) == 0, "%s expect %zu", k->name, n);
        CHECK(memcmp(x, y, bytes) == 0, "%s observe %zu", k->name, n);
        if (k == portable) check_readouts(&w, at, n, weights, s, x, precision);
        free(weights);
        free(s);
        free(t);
        free(x);
        free(y);
    }
    work_free(&w);
}

static void moves(const struct qr_kernels *k, int precision) {
    struct work w = work_new(precision);
    size_t bytes = bytes_of(CELLS, precision);
    uint64_t offsets[CELLS];
    void *x = copy_of(w.phi, bytes);
    for (uint64_t i = 0; i < CELLS; i++) offsets[i] = (i * 37 + 5) % CELLS;
    const struct qr_tile_positions all = {.n = CELLS};
    k->gather(x, w.phi, 3, offsets, &all);
    CHECK(amplitude(x, precision, 1, 3) == amplitude(w.phi, precision, offsets[1] ^ 3, 3));
    k->scatter(w.lambda, x, 3, offsets, &all);
    CHECK(memcmp(w.lambda, w.phi, bytes) == 0);
    /* Every second position, in two parts. */
    uint16_t at[CELLS / 4];
    for (uint16_t i = 0; i < CELLS / 4; i++) at[i] = (uint16_t)(2 * i);
    memset(w.lambda, 0, bytes);
    for (uint16_t part = 0; part < 2; part++) {
        const struct qr_tile_positions some = {at, CELLS / 4, (uint16_t)(part * CELLS / 2 | 1)};
        void *y = copy_of(w.lambda, bytes);
        k->gather(y, w.phi, 3, offsets, &some);
        k->scatter(w.lambda, y, 3, offsets, &some);
        free(y);
    }
    size_t wrong = 0;
    for (size_t i = 0; i < CELLS; i++) {
        size_t p = offsets[i] ^ 3;
        wrong +=
            amplitude(w.lambda, precision, p, 3) != (i & 1 ? amplitude(w.phi, precision, p, 3) : 0);
    }
    CHECK(!wrong, "%s: %zu cells", k->name, wrong);
    free(x);
    work_free(&w);
}

/* Tables of the first layer. Applying a different matrix in each of 8 lanes is compared with
 * `apply`; the rest are copies and sums. */
static void tables(const struct qr_kernels *k, const struct qr_kernels *portable, int precision) {
    struct work w = work_new(precision);
    size_t bytes = bytes_of(CELLS, precision);
    double *numbers = qr_xaligned(32 * QR_HALF_LANES * sizeof *numbers);
    for (size_t e = 0; e < 16; e++)
        for (size_t l = 0; l < 2 * QR_HALF_LANES; l++)
            numbers[e * 2 * QR_HALF_LANES + l] = w.wide[e * 32 + l / 8 * 16 + l % 8];
    void *x = copy_of(w.lambda, bytes), *y = copy_of(w.phi, bytes);
    struct qr_tile_target at;
    for (unsigned p = 0; p < BITS * BITS; p++) {
        if (!make_target(p / BITS, p % BITS, 0, &at)) continue;
        memcpy(x, w.lambda, bytes);
        memcpy(y, w.phi, bytes);
        k->apply_half(w.phi, x, BITS, &at, numbers);
        portable->apply(y, BITS, &at, w.wide, true);
        bool right = true;
        for (size_t i = 0; i < CELLS; i++)
            for (size_t l = 0; l < QR_LANES; l++)
                right &= amplitude(x, precision, i, l) ==
                         amplitude(l < QR_HALF_LANES ? y : w.lambda, precision, i, l);
        CHECK(right, "%s apply_half %u", k->name, p);
        memcpy(y, w.phi, bytes);
        k->apply_half(y, y, BITS, &at, numbers);
        for (size_t i = 0; i < CELLS; i++)
            right &= amplitude(x, precision, i, 7) == amplitude(y, precision, i, 7);
        CHECK(right, "%s apply_half at position %u", k->name, p);
        memcpy(y, w.phi, bytes);
        portable->apply(y, BITS, &at, w.wide, true);
        k->apply_wide(w.phi, x, BITS, &at, w.wide);
        CHECK(memcmp(x, y, bytes) == 0, "%s apply_wide %u", k->name, p);
        memcpy(x, w.phi, bytes);
        k->apply_wide(x, x, BITS, &at, w.wide);
        CHECK(memcmp(x, y, bytes) == 0, "%s apply_wide at position %u", k->name, p);
    }
    bool repeated = true;
    k->repeat(w.phi, x, CELLS);
    for (size_t i = 0; i < CELLS * QR_LANES; i++)
        repeated &= amplitude(x, precision, i / 16, i % 16) ==
                    amplitude(w.phi, precision, i / 16, 4 + i % 16 / 4);
    CHECK(repeated, "%s repeat", k->name);
    for (unsigned parts = 1; parts <= 4; parts *= 2) {
        memcpy(x, w.phi, bytes);
        memcpy(y, w.phi, bytes);
        k->add_parts(x, CELLS / 4, parts);
        portable->add_parts(y, CELLS / 4, parts);
        CHECK(memcmp(x, y, bytes) == 0, "%s add_parts %u", k->name, parts);
        double complex sum = 0;
        for (unsigned i = 0; i < parts; i++)
            sum += amplitude(w.phi, precision, 3 + i * CELLS / 4, 5);
        CHECK(cabs(sum - amplitude(x, precision, 3, 5)) <= 8 * tolerance[precision]);
    }
    free(x);
    free(y);
    free(numbers);
    work_free(&w);
}

/* In both directions, with terms in an order that no table has. */
static void slices(const struct qr_kernels *k, int precision) {
    enum { TERMS = 8, STRIDE = 64 };
    struct work w = work_new(precision);
    void *there = random_cells(TERMS, precision), *back = random_cells(QR_LANES, precision),
         *x = qr_xaligned(bytes_of(CELLS, precision));
    double sums[2 * TERMS][QR_LANES];
    uint32_t at[TERMS];
    bool right = true;
    for (uint32_t t = 0; t < TERMS; t++) at[t] = t * 5 % 16 + (t & 1) * 32;
    k->numbers_of_slices(w.phi, STRIDE, at, TERMS, there, back);
    for (size_t l = 0; l < QR_LANES; l++)
        for (size_t t = 0; t < TERMS; t++) {
            double complex z = amplitude(w.phi, precision, l * 2 + (t & 1), t * 5 % 16);
            right &= amplitude(there, precision, t, l) == z &&
                     amplitude(back, precision, l, t) == conj(z);
            sums[2 * t][l] = creal(z);
            sums[2 * t + 1][l] = cimag(z);
        }
    CHECK(right, "%s numbers_of_slices", k->name);
    k->table_of_slices((const double(*)[QR_LANES])sums, x, STRIDE, at, TERMS);
    for (size_t i = 0; i < QR_LANES * TERMS; i++) {
        size_t cell = i / TERMS * 2 + (i & 1), lane = i % TERMS * 5 % 16;
        right &= amplitude(x, precision, cell, lane) == amplitude(w.phi, precision, cell, lane);
    }
    CHECK(right, "%s table_of_slices", k->name);
    free(there);
    free(back);
    free(x);
    work_free(&w);
}

/* Products of matrices are, to the last bit, what the header says: each number is a product, then
 * fused multiply-adds in order. Both orders of a, all remainders of rows and columns. */
static void products(const struct qr_kernels *k) {
    enum { MOST = 37 };
    double *a = qr_xaligned(MOST * MOST * 8), *b = qr_xaligned(MOST * MOST * 8),
           *c = qr_xaligned(MOST * MOST * 8);
    for (size_t i = 0; i < MOST * MOST; i++) a[i] = random_uniform(), b[i] = random_uniform();
    for (size_t n_i = 1; n_i <= 9; n_i += 2)
        for (size_t n_k = 1; n_k <= 5; n_k += 2)
            for (size_t n_j = 1; n_j <= MOST; n_j++)
                for (int turned = 0; turned < 2; turned++) {
                    size_t a_i = turned ? 1 : n_k, a_k = turned ? n_i : 1, wrong = 0;
                    size_t row = turned ? n_j : MOST; /* some of the columns */
                    k->matmul(c, a, a_i, a_k, b, n_i, n_k, n_j, row);
                    for (size_t i = 0; i < n_i; i++)
                        for (size_t j = 0; j < n_j; j++) {
                            double sum = a[i * a_i] * b[j];
                            for (size_t s = 1; s < n_k; s++)
                                sum = fma(a[i * a_i + s * a_k], b[s * row + j], sum);
                            wrong += c[i * row + j] != sum;
                        }
                    CHECK(!wrong, "%s: %zu x %zu x %zu: %zu wrong numbers", k->name, n_i, n_k, n_j,
                          wrong);
                }
    free(a);
    free(b);
    free(c);
}

static void products_of_lanes(const struct qr_kernels *k) {
    enum { N_I = 3, N_S = 4, N_O = 5 };
    double(*x)[QR_LANES] = qr_xaligned(N_I * N_S * sizeof *x),
    (*y)[QR_LANES] = qr_xaligned(N_O * N_S * sizeof *y),
    (*out)[QR_LANES] = qr_xaligned(N_I * N_O * sizeof *out);
    for (size_t i = 0; i < N_I * N_S * QR_LANES; i++)
        x[i / QR_LANES][i % QR_LANES] = random_uniform();
    for (size_t i = 0; i < N_O * N_S * QR_LANES; i++)
        y[i / QR_LANES][i % QR_LANES] = random_uniform();
    for (int turned = 0; turned < 4; turned++)
        for (int add = 0; add < 2; add++) {
            size_t x_i = turned & 1 ? 1 : N_S, x_s = turned & 1 ? N_I : 1,
                   y_o = turned & 2 ? 1 : N_S, y_s = turned & 2 ? N_O : 1, wrong = 0;
            for (size_t i = 0; i < N_I * N_O * QR_LANES; i++) out[i / QR_LANES][i % QR_LANES] = 0.5;
            k->lanes(out, (const double(*)[QR_LANES])x, x_i, x_s, (const double(*)[QR_LANES])y, y_o,
                     y_s, N_I, N_S, N_O, add);
            for (size_t i = 0; i < N_I; i++)
                for (size_t o = 0; o < N_O; o++)
                    for (size_t l = 0; l < QR_LANES; l++) {
                        double sum = add ? fma(x[i * x_i][l], y[o * y_o][l], 0.5)
                                         : x[i * x_i][l] * y[o * y_o][l];
                        for (size_t s = 1; s < N_S; s++)
                            sum = fma(x[i * x_i + s * x_s][l], y[o * y_o + s * y_s][l], sum);
                        wrong += out[i * N_O + o][l] != sum;
                    }
            CHECK(!wrong, "%s: order %d, add %d: %zu wrong numbers", k->name, turned, add, wrong);
        }
    free(x);
    free(y);
    free(out);
}

/* ---- gates with structure ---- */

/* Positions of cells: any affine map. NULL: in order. */
static uint16_t affine[CELLS];
static size_t position(const uint16_t *order, size_t i) { return order ? order[i] : i; }

static void set_affine(void) {
    uint16_t image[BITS];
    for (unsigned k = 0; k < BITS; k++) image[k] = (uint16_t)(1u << k);
    for (unsigned k = 0; k < 40; k++) {
        unsigned a = (unsigned)(fabs(random_uniform()) * BITS),
                 b = (unsigned)(fabs(random_uniform()) * BITS);
        if (a != b) image[a] ^= image[b];
    }
    for (unsigned i = 0; i < CELLS; i++) {
        affine[i] = 37;
        for (unsigned k = 0; k < BITS; k++) affine[i] ^= i >> k & 1 ? image[k] : 0;
    }
}

/* Moves cells to their positions, and back. */
static void *cells_placed(const void *cells, size_t bytes, const uint16_t *order) {
    unsigned char *x = qr_xaligned(bytes);
    size_t each = bytes / CELLS;
    for (size_t i = 0; i < CELLS; i++)
        memcpy(x + position(order, i) * each, (const unsigned char *)cells + i * each, each);
    return x;
}
static void *cells_taken(const void *cells, size_t bytes, const uint16_t *order) {
    unsigned char *x = qr_xaligned(bytes);
    size_t each = bytes / CELLS;
    for (size_t i = 0; i < CELLS; i++)
        memcpy(x + i * each, (const unsigned char *)cells + position(order, i) * each, each);
    return x;
}

/* Positions of the cells with only bits of `bits`, relative to that of cell 0. */
static struct qr_tile_positions positions(const uint16_t *order, uint64_t bits, uint16_t *ret) {
    struct qr_tile_positions p = {.at = ret, .origin = (uint16_t)position(order, 0)};
    uint64_t i = 0;
    do ret[p.n++] = (uint16_t)(position(order, i) ^ position(order, 0));
    while ((i = ((i | ~bits) + 1) & bits));
    return p;
}
static uint16_t across(const uint16_t *order, unsigned bit) {
    return (uint16_t)(position(order, (size_t)1 << bit) ^ position(order, 0));
}

/* The bits of a lane and four bits of a cell are exchanged. */
static void transposes(const struct qr_kernels *k, int precision) {
    static const uint8_t swaps[][QR_LANE_BITS] = {{0, 1, 2, 3}, {6, 5, 4, 3}, {2, 6, 0, 5}};
    struct work w = work_new(precision);
    size_t bytes = bytes_of(CELLS, precision);
    for (unsigned variant = 0; variant < 2 * COUNT(swaps); variant++) {
        const uint16_t *order = variant & 1 ? affine : NULL;
        const uint8_t *swap = swaps[variant / 2];
        size_t wrong = 0;
        void *x = copy_of(w.phi, bytes);
        uint16_t room[CELLS], by[QR_LANE_BITS];
        uint64_t rest = CELLS - 1;
        for (unsigned b = 0; b < QR_LANE_BITS; b++) {
            by[b] = across(order, swap[b]);
            rest &= ~(UINT64_C(1) << swap[b]);
        }
        const struct qr_tile_positions groups = positions(order, rest, room);
        k->transpose(x, &groups, by);
        for (size_t i = 0; i < CELLS; i++)
            for (size_t l = 0; l < QR_LANES; l++) {
                size_t cell = i, lane = 0;
                for (unsigned b = 0; b < QR_LANE_BITS; b++) {
                    lane |= (i >> swap[b] & 1) << b;
                    cell &= ~((size_t)1 << swap[b]);
                    cell |= (l >> b & 1) << swap[b];
                }
                wrong += amplitude(x, precision, position(order, i), l) !=
                         amplitude(w.phi, precision, position(order, cell), lane);
            }
        CHECK(!wrong, "%s transpose %u: %zu amplitudes", k->name, variant, wrong);
        k->transpose(x, &groups, by);
        CHECK(memcmp(x, w.phi, bytes) == 0, "%s transpose %u twice", k->name, variant);
        free(x);
    }
    work_free(&w);
}

/* Numbers for each form: reals in [-1, 1] and a 1. */
static void rotation_numbers(enum qr_rotation_form form, int precision,
                             double ret[QR_ROTATION_NUMBERS]) {
    double length = 0, x = random_uniform();
    if (!precision) x = (double)(float)x;
    for (unsigned k = 0; k < 4; k++) ret[k] = random_uniform(), length += ret[k] * ret[k];
    for (unsigned k = 0; k < 4; k++) {
        ret[k] /= sqrt(length);
        if (!precision) ret[k] = (double)(float)ret[k];
    }
    ret[4] = form == QR_ROTATION_REFLECTION || (!form && random_uniform() < 0) ? -1 : 1;
    if (form) memset(ret, 0, 4 * sizeof *ret);
    switch (form) {
    case QR_ROTATION_ANY: break;
    case QR_ROTATION_REAL_A:
    case QR_ROTATION_REFLECTION: ret[0] = 1, ret[2] = x; break;
    case QR_ROTATION_REAL_B: ret[0] = x, ret[2] = 1; break;
    case QR_ROTATION_X_A: ret[0] = 1, ret[3] = x; break;
    case QR_ROTATION_X_B: ret[0] = x, ret[3] = 1; break;
    }
    CHECK(qr_rotation_form(ret) == form, "form %d", (int)form);
}

/* A cell after a one-qubit gate on a bit, by the header's formula. */
static double complex apply_to_cell(const void *cells, int precision, size_t i, size_t l,
                                    unsigned bit, const double a[QR_ROTATION_NUMBERS]) {
    size_t set = (size_t)1 << bit;
    double complex x = amplitude(cells, precision, i & ~set, l),
                   y = amplitude(cells, precision, i | set, l), u = CMPLX(a[0], a[1]),
                   v = CMPLX(a[2], a[3]);
    return i & set ? v * x + a[4] * conj(u) * y : u * x - a[4] * conj(v) * y;
}

static void check_rotation_cross(const struct work *w, const struct qr_tile_qubits *at,
                                 const uint8_t bit[2], const double (*acc)[QR_LANES],
                                 int precision) {
    double worst = 0;
    for (unsigned g = 0; g < at->n; g++)
        for (size_t l = 0; l < QR_LANES; l++) {
            size_t set = (size_t)1 << bit[g];
            double complex off = 0;
            double z = 0;
            for (size_t i = 0; i < CELLS; i++) {
                if (i & set) continue;
                double complex x = amplitude(w->phi, precision, i, l),
                               y = amplitude(w->phi, precision, i | set, l),
                               a = amplitude(w->lambda, precision, i, l),
                               b = amplitude(w->lambda, precision, i | set, l);
                off += x * conj(b) - conj(y * conj(a));
                z += cimag(x * conj(a)) - cimag(y * conj(b));
            }
            const double want[QR_ROTATION_CROSS] = {creal(off), cimag(off), z};
            for (unsigned k = 0; k < QR_ROTATION_CROSS; k++)
                worst = t_worst(worst, fabs(acc[g * QR_ROTATION_CROSS + k][l] -
                                            (at->wanted[g] >> k & 1 ? want[k] : 0)));
        }
    /* 256 products, each at most 2 in size, summed in batches of 64 */
    CHECK(worst <= 256 * 8 * tolerance[precision], "%.3g", worst);
}

static void rotations(const struct qr_kernels *k, const struct qr_kernels *portable,
                      int precision) {
    struct work w = work_new(precision);
    size_t bytes = bytes_of(CELLS, precision);
    enum { FORMS = QR_ROTATION_X_B + 1, MIXED = 120, PAIRS = FORMS * FORMS * 2 };
    for (unsigned variant = 0; variant < MIXED + 2 * PAIRS; variant++) {
        unsigned pair = variant - MIXED; /* of any two forms with one number, which have loops */
        const uint8_t bit[2] = {(uint8_t)(variant % BITS),
                                (uint8_t)((variant + 1 + variant / BITS % 6) % BITS)};
        struct qr_tile_qubits at = {.n = (uint8_t)(1 + variant % 2),
                                    .wanted = {(uint8_t)(variant % 8), (uint8_t)(variant / 8 % 8)}};
        unsigned form[2] = {variant / 2 % FORMS, (variant / 2 + 1) % FORMS};
        if (variant >= MIXED) {
            at.n = 2;
            at.wanted[0] = at.wanted[1] = pair % 2 ? QR_ROTATION_IM : QR_ROTATION_RE;
            form[0] = pair / 2 % FORMS;
            form[1] = pair / 2 / FORMS % FORMS;
        }
        double numbers[2][QR_ROTATION_NUMBERS], acc[2][2 * QR_ROTATION_CROSS][QR_LANES] = {0};
        for (unsigned g = 0; g < 2; g++) rotation_numbers(form[g], precision, numbers[g]);
        at.numbers = (const double(*)[QR_ROTATION_NUMBERS])numbers;
        const uint16_t *order = (variant < MIXED ? variant & 2 : pair / PAIRS) ? affine : NULL;
        uint16_t room[CELLS];
        for (unsigned g = 0; g < 2; g++) {
            at.form[g] = (enum qr_rotation_form)form[g];
            at.across[g] = across(order, bit[g]);
        }
        at.groups =
            positions(order, (CELLS - 1) & ~(UINT64_C(1) << bit[0] | UINT64_C(1) << bit[1]), room);
        void *phi = cells_placed(w.phi, bytes, order),
             *lambda = cells_placed(w.lambda, bytes, order), *x = copy_of(phi, bytes),
             *y = copy_of(phi, bytes), *z = copy_of(phi, bytes),
             *l[2] = {copy_of(lambda, bytes), copy_of(lambda, bytes)};
        k->rotate(x, &at);
        portable->rotate(y, &at);
        CHECK(memcmp(x, y, bytes) == 0, "%s turn %u", k->name, variant);
        double worst = 0;
        if (at.n == 2) {
            struct qr_tile_qubits first = at;
            first.n = 1;
            portable->rotate(z, &first);
        }
        void *before = cells_taken(z, bytes, order), *after = cells_taken(x, bytes, order);
        for (size_t i = 0; i < CELLS; i++)
            for (size_t lane = 0; lane < QR_LANES; lane++)
                worst = t_worst(worst, cabs(apply_to_cell(before, precision, i, lane, bit[at.n - 1],
                                                          numbers[at.n - 1]) -
                                            amplitude(after, precision, i, lane)));
        CHECK(worst <= 2 * tolerance[precision], "%s turn %u: %.3g", k->name, variant, worst);
        memcpy(x, phi, bytes);
        memcpy(y, phi, bytes);
        if (variant < MIXED && variant % 5 == 0) at.numbers = NULL;
        at.acc = acc[0];
        k->rotate_back(x, l[0], &at);
        at.acc = acc[1];
        portable->rotate_back(y, l[1], &at);
        CHECK(memcmp(x, y, bytes) == 0 && memcmp(l[0], l[1], bytes) == 0 &&
                  memcmp(acc[0], acc[1], sizeof acc[0]) == 0,
              "%s rotate_back %u", k->name, variant);
        check_rotation_cross(&w, &at, bit, (const double(*)[QR_LANES])acc[0], precision);
        memcpy(z, phi, bytes);
        if (at.numbers) portable->rotate(z, &at);
        CHECK(memcmp(x, z, bytes) == 0, "%s rotate_back %u leaves phi", k->name, variant);
        memcpy(z, lambda, bytes);
        if (at.numbers) portable->rotate(z, &at);
        CHECK(memcmp(l[0], z, bytes) == 0, "%s rotate_back %u leaves lambda", k->name, variant);
        free(phi);
        free(lambda);
        free(before);
        free(after);
        free(x);
        free(y);
        free(z);
        free(l[0]);
        free(l[1]);
    }
    work_free(&w);
}

static void phases(const struct qr_kernels *k, const struct qr_kernels *portable, int precision) {
    enum { ROWS = CELLS / QR_PHASE_CELLS };
    struct work w = work_new(precision);
    size_t bytes = bytes_of(CELLS, precision);
    void *lanes = random_cells(ROWS, precision), *cells = random_cells(ROWS, precision),
         *inside = random_cells(QR_PHASE_CELLS, precision);
    for (unsigned variant = 0; variant < 16; variant++) {
        const uint16_t *order = variant & 8 ? affine : NULL;
        size_t by = variant & 1 ? ROWS - 3 : 0; /* bit 1 of the row has no effect */
        bool some = variant & 2, back = variant & 4;
        void *x = copy_of(w.phi, bytes), *y = copy_of(w.phi, bytes),
             *l[2] = {copy_of(w.lambda, bytes), copy_of(w.lambda, bytes)};
        k->phase(x, back ? l[0] : NULL, order, ROWS, lanes, by, cells, some ? inside : NULL);
        portable->phase(y, back ? l[1] : NULL, order, ROWS, lanes, by, cells, some ? inside : NULL);
        CHECK(memcmp(x, y, bytes) == 0 && memcmp(l[0], l[1], bytes) == 0, "%s phase %u", k->name,
              variant);
        double worst = 0;
        for (size_t i = 0; i < CELLS; i++)
            for (size_t lane = 0; lane < QR_LANES; lane++) {
                size_t row = i / QR_PHASE_CELLS, c = i % QR_PHASE_CELLS,
                       at = row * 2 * QR_PHASE_CELLS + c;
                double complex f = amplitude(lanes, precision, row & by, lane) *
                                   CMPLX(lane_of(cells, precision, 0, at),
                                         lane_of(cells, precision, 0, at + QR_PHASE_CELLS));
                if (some) f *= amplitude(inside, precision, c, lane);
                if (back) f = conj(f);
                worst =
                    t_worst(worst, cabs(f * amplitude(w.phi, precision, position(order, i), lane) -
                                        amplitude(x, precision, position(order, i), lane)));
                if (back)
                    worst = t_worst(
                        worst, cabs(f * amplitude(w.lambda, precision, position(order, i), lane) -
                                    amplitude(l[0], precision, position(order, i), lane)));
            }
        /* three products in a row, each at most 2^(3/2) times the one before */
        CHECK(worst <= 8 * tolerance[precision], "%s phase %u: %.3g", k->name, variant, worst);
        free(x);
        free(y);
        free(l[0]);
        free(l[1]);
    }
    free(lanes);
    free(cells);
    free(inside);
    work_free(&w);
}

static bool is_rounded(const void *numbers, int precision, size_t i, double x) {
    return precision ? ((const double *)numbers)[i] == x : ((const float *)numbers)[i] == (float)x;
}

/* A product of complex numbers as in C, every operation rounded, then rounded to E. */
static void phase_numbers(const struct qr_kernels *k, int precision) {
    enum { ROWS = 16, WIDTH = 2 * QR_PHASE_CELLS };
    struct qr_phase_cells cells[ROWS];
    double re[ROWS], im[ROWS];
    for (size_t x = 0; x < ROWS; x++) {
        re[x] = random_uniform();
        im[x] = random_uniform();
        for (size_t c = 0; c < QR_PHASE_CELLS; c++) {
            cells[x].re[c] = random_uniform();
            cells[x].im[c] = random_uniform();
        }
    }
    void *ret = qr_xaligned(ROWS * WIDTH * sizeof(double));
    for (size_t by = 0; by < ROWS; by += 5) {
        size_t wrong = 0;
        k->phase_numbers(cells, by, re, im, ROWS, ret);
        for (size_t x = 0; x < ROWS; x++)
            for (size_t c = 0; c < QR_PHASE_CELLS; c++) {
                double ar = cells[x & by].re[c], ai = cells[x & by].im[c];
                double r = ar * re[x] - ai * im[x], i = ar * im[x] + ai * re[x];
                size_t at = x * WIDTH + c;
                wrong += !is_rounded(ret, precision, at, r) +
                         !is_rounded(ret, precision, at + QR_PHASE_CELLS, i);
            }
        CHECK(!wrong, "%s phase numbers, rows %zu: %zu differ", k->name, by, wrong);
    }
    free(ret);
}

static void parities(const struct qr_kernels *k, const struct qr_kernels *portable, int precision) {
    struct work w = work_new(precision);
    size_t bytes = bytes_of(CELLS, precision);
    void *x = qr_xaligned(bytes), *y = qr_xaligned(bytes);
    for (unsigned variant = 2 * QR_PHASE_BITS; variant < 2 * BITS + 2; variant++) {
        const uint16_t *order = variant & 1 ? affine : NULL;
        unsigned bits = variant / 2;
        double worst = 0;
        size_t seen = 0;
        k->parities(w.phi, w.lambda, order, bits, x);
        portable->parities(w.phi, w.lambda, order, bits, y);
        for (size_t m = 0; m < (size_t)1 << bits; m++) {
            if (__builtin_popcountll(m) > 2) continue;
            size_t at =
                m ? qr_parity_index((unsigned)__builtin_ctzll(m), 63 - (unsigned)__builtin_clzll(m))
                  : 0;
            seen += at < qr_parity_masks(bits);
            for (size_t l = 0; l < QR_LANES; l++) {
                CHECK(lane_of(x, precision, at, l) == lane_of(y, precision, at, l), "%s parities",
                      k->name);
                double sum = 0;
                for (size_t c = 0; c < (size_t)1 << bits; c++) {
                    double v = cimag(amplitude(w.phi, precision, position(order, c), l) *
                                     conj(amplitude(w.lambda, precision, position(order, c), l)));
                    sum += __builtin_parityll(m & c) ? -v : v;
                }
                worst = t_worst(worst, fabs(sum - lane_of(x, precision, at, l)));
            }
        }
        CHECK(seen == qr_parity_masks(bits), "%zu masks of %u bits", seen, bits);
        CHECK(worst <= 128 * tolerance[precision], "%s parities of %u bits: %.3g", k->name, bits,
              worst);
    }
    free(x);
    free(y);
    work_free(&w);
}

static void cycles(const struct qr_kernels *k, int precision) {
    static const uint16_t list[] = {3, 5 | QR_CYCLE_END, 7, 100, 1, 64 | QR_CYCLE_END};
    struct work w = work_new(precision);
    size_t bytes = bytes_of(CELLS, precision), each = bytes / CELLS, wrong = 0;
    unsigned char *x = copy_of(w.phi, bytes), *from = w.phi;
    size_t takes[CELLS];
    for (size_t i = 0; i < CELLS; i++) takes[i] = i;
    takes[3] = 5, takes[5] = 3, takes[7] = 100, takes[100] = 1, takes[1] = 64, takes[64] = 7;
    k->permute(x, list, COUNT(list), false);
    for (size_t i = 0; i < CELLS; i++)
        wrong += memcmp(x + i * each, from + takes[i] * each, each) != 0;
    CHECK(!wrong, "%s permute: %zu cells", k->name, wrong);
    k->permute(x, list, COUNT(list), true);
    CHECK(memcmp(x, w.phi, bytes) == 0, "%s permute back", k->name);
    free(x);
    work_free(&w);
}

int main(void) {
    set_affine();
    for (int precision = 0; precision < 2; precision++)
        for (int isa = 0; isa < QR_ISAS; isa++) {
            if (!qr_isa_available((enum qr_isa)isa)) {
                if (of_this_architecture(isa))
                    SKIP("%s: not on this machine", qr_isa_name((enum qr_isa)isa));
                continue;
            }
            const struct qr_kernels *k =
                qr_kernels_of((enum qr_isa)isa, (enum qr_precision)precision);
            const struct qr_kernels *portable =
                qr_kernels_of(QR_ISA_PORTABLE, (enum qr_precision)precision);
            fused_gates(k, portable, precision, false);
            fused_gates(k, portable, precision, true);
            permutations(k, precision);
            folds(k, portable);
            readouts(k, portable, precision);
            moves(k, precision);
            tables(k, portable, precision);
            slices(k, precision);
            transposes(k, precision);
            rotations(k, portable, precision);
            phases(k, portable, precision);
            phase_numbers(k, precision);
            parities(k, portable, precision);
            cycles(k, precision);
            products(k);
            products_of_lanes(k);
        }
    return t_end();
}
