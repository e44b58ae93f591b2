/* sim/kernels/kernel_structure_template_impl.h — gates with structure on a tile: one-qubit gates, a
 * product of diagonal gates, and their derivatives. Part of kernel_template_impl.h, with its
 * macros. All arithmetic is in E; sums of derivatives as of the cross numbers. */

/* Loops are made twice: for cells in order (NULL) and for others. */
INLINE size_t NAME(position)(const uint16_t *order, size_t i) { return order ? order[i] : i; }

/* A step and the groups of cells that it acts on: cells c, c ^ sb of one gate; with two, c, c ^ sb,
 * c ^ sa, c ^ sa ^ sb, where the first gate acts on the bit of sa. */
struct NAME(pair) {
    size_t sa, sb; /* in bytes */
    uint64_t free;
    size_t n;
    struct qr_prefetch *prefetch;
};
INLINE struct NAME(pair)
    NAME(pair_of)(unsigned bits, const struct qr_tile_qubits *at, const uint16_t *order) {
    size_t a = at->n == 2 ? (size_t)1 << at->bit[0] : 0, b = (size_t)1 << at->bit[at->n - 1];
    struct NAME(pair) w = {.prefetch = at->prefetch};
    w.sa = (NAME(position)(order, a) ^ NAME(position)(order, 0)) * sizeof(struct NAME(cell));
    w.sb = (NAME(position)(order, b) ^ NAME(position)(order, 0)) * sizeof(struct NAME(cell));
    w.free = ((UINT64_C(1) << bits) - 1) & ~(uint64_t)a & ~(uint64_t)b;
    w.n = (size_t)1 << __builtin_popcountll(w.free);
    return w;
}

struct NAME(rotation) {
    enum qr_rotation_form form;
    E ar, ai, br, bi; /* of the first column */
    E cr, ci, dr, di; /* of the second one: -sign conj(b), sign conj(a) */
};
INLINE struct NAME(rotation) NAME(rotation_of)(const double a[QR_ROTATION_NUMBERS]) {
    E ar = (E)a[0], ai = (E)a[1], br = (E)a[2], bi = (E)a[3], sign = (E)a[4];
    return (struct NAME(rotation)){qr_rotation_form(a), ar,        ai,        br,        bi,
                                   -sign * br,          sign * bi, sign * ar, -sign * ai};
}

/* Multiplies cells in registers: x by a x - sign conj(b) y, y = x + d by b x + sign conj(a) y, for
 * each pair of each vector. */
#define EACH_PAIR(...)                                                                             \
    _Pragma("GCC unroll 2") for (int q = 0; q < n_vectors; q++)                                    \
        _Pragma("GCC unroll 2") for (int k = 0; k < n_pairs; k++) {                                \
        const int x = d == 1 ? 2 * k : k, y = x + d;                                               \
        V xr = re[q][x], xi = im[q][x], yr = re[q][y], yi = im[q][y];                              \
        __VA_ARGS__                                                                                \
    }
INLINE void NAME(rotate_pairs)(const struct NAME(rotation) * t, enum qr_rotation_form form,
                               const int n_vectors, const int n_pairs, const int d, V (*re)[4],
                               V (*im)[4]) {
    V ar = SET1(t->ar), ai = SET1(t->ai), br = SET1(t->br), bi = SET1(t->bi);
    V cr = SET1(t->cr), ci = SET1(t->ci), dr = SET1(t->dr), di = SET1(t->di);
    switch (form) {
    case QR_ROTATION_REAL_A:
        EACH_PAIR(re[q][x] = FNMA(br, yr, xr); im[q][x] = FNMA(br, yi, xi);
                  re[q][y] = FMA(br, xr, yr); im[q][y] = FMA(br, xi, yi);)
        break;
    case QR_ROTATION_REFLECTION:
        EACH_PAIR(re[q][x] = FMA(br, yr, xr); im[q][x] = FMA(br, yi, xi);
                  re[q][y] = FMS(br, xr, yr); im[q][y] = FMS(br, xi, yi);)
        break;
    case QR_ROTATION_REAL_B:
        EACH_PAIR(re[q][x] = FMS(ar, xr, yr); im[q][x] = FMS(ar, xi, yi);
                  re[q][y] = FMA(ar, yr, xr); im[q][y] = FMA(ar, yi, xi);)
        break;
    case QR_ROTATION_X_A:
        EACH_PAIR(re[q][x] = FNMA(bi, yi, xr); im[q][x] = FMA(bi, yr, xi);
                  re[q][y] = FNMA(bi, xi, yr); im[q][y] = FMA(bi, xr, yi);)
        break;
    case QR_ROTATION_X_B:
        EACH_PAIR(re[q][x] = FMS(ar, xr, yi); im[q][x] = FMA(ar, xi, yr);
                  re[q][y] = FMS(ar, yr, xi); im[q][y] = FMA(ar, yi, xr);)
        break;
    default:
        EACH_PAIR(re[q][x] = FNMA(ci, yi, FMA(cr, yr, FNMA(ai, xi, MUL(ar, xr))));
                  im[q][x] = FMA(ci, yr, FMA(cr, yi, FMA(ai, xr, MUL(ar, xi))));
                  re[q][y] = FNMA(di, yi, FNMA(bi, xi, FMA(br, xr, MUL(dr, yr))));
                  im[q][y] = FMA(di, yr, FMA(bi, xr, FMA(br, xi, MUL(dr, yi))));)
    }
}
#undef EACH_PAIR

/* Forms of two gates, known when a loop is compiled; or those that the gates have. */
struct NAME(forms) {
    bool known;
    enum qr_rotation_form form[2];
};

/* n: 1 or 2 gates, on 2 or 4 cells of each vector */
INLINE void NAME(rotate_group)(const struct NAME(rotation) * t, const struct NAME(forms) f,
                               int n_vectors, int n, V (*re)[4], V (*im)[4]) {
    NAME(rotate_pairs)(&t[0], f.known ? f.form[0] : t[0].form, n_vectors, n, n, re, im);
    if (n == 2) NAME(rotate_pairs)(&t[1], f.known ? f.form[1] : t[1].form, n_vectors, 2, 1, re, im);
}

/* Offsets in bytes of a group's cells. */
INLINE void NAME(group_of)(const struct NAME(pair) * w, const uint16_t *order, uint64_t i,
                           size_t ret[4]) {
    ret[0] = NAME(position)(order, i) * sizeof(struct NAME(cell));
    ret[1] = ret[0] ^ w->sb;
    ret[2] = ret[0] ^ w->sa;
    ret[3] = ret[1] ^ w->sa;
}
INLINE struct NAME(cell) * NAME(cell_of)(void *cells, size_t offset) {
    return (struct NAME(cell) *)(void *)((unsigned char *)cells + offset);
}

INLINE void NAME(load_group)(void *c, const size_t at[4], int v, const int n, V re[4], V im[4]) {
#pragma GCC unroll 4
    for (int j = 0; j < 2 * n; j++) {
        re[j] = LOAD(&NAME(cell_of)(c, at[j])->re[v]);
        im[j] = LOAD(&NAME(cell_of)(c, at[j])->im[v]);
    }
}
INLINE void NAME(store_group)(void *c, const size_t at[4], int v, const int n, const V re[4],
                              const V im[4]) {
#pragma GCC unroll 4
    for (int j = 0; j < 2 * n; j++) {
        STORE(&NAME(cell_of)(c, at[j])->re[v], re[j]);
        STORE(&NAME(cell_of)(c, at[j])->im[v], im[j]);
    }
}

INLINE void NAME(rotation_cells)(void *c, const struct NAME(pair) * w, const uint16_t *order,
                                 const struct NAME(rotation) * t, const int n) {
    uint64_t i = 0;
    for (size_t g = 0; g < w->n; g++, i = ((i | ~w->free) + 1) & w->free) {
        size_t at[4];
        NAME(group_of)(w, order, i, at);
        NAME(prefetch_cell)(w->prefetch);
        for (int v = 0; v < QR_LANES; v += W) {
            V re[1][4] RAW, im[1][4] RAW;
            NAME(load_group)(c, at, v, n, re[0], im[0]);
            NAME(rotate_group)(t, (struct NAME(forms)){0}, 1, n, re, im);
            NAME(store_group)(c, at, v, n, re[0], im[0]);
        }
    }
}

INLINE void NAME(rotate_in_order)(void *cells, unsigned bits, const struct qr_tile_qubits *at,
                                  const uint16_t *order) {
    struct NAME(pair) w = NAME(pair_of)(bits, at, order);
    struct NAME(rotation) t[2] RAW;
    for (unsigned k = 0; k < at->n; k++) t[k] = NAME(rotation_of)(at->numbers[k]);
    if (at->n == 1) NAME(rotation_cells)(cells, &w, order, t, 1);
    else NAME(rotation_cells)(cells, &w, order, t, 2);
}
static void NAME(rotate)(void *cells, unsigned bits, const struct qr_tile_qubits *at) {
    if (!at->order) NAME(rotate_in_order)(cells, bits, at, NULL);
    else NAME(rotate_in_order)(cells, bits, at, at->order);
}

/* Adds the numbers of pairs of cells: Re and Im of phi_0 conj(lambda_1) - conj(phi_1
 * conj(lambda_0)), and Im of phi_0 conj(lambda_0) - phi_1 conj(lambda_1). re, im: phi, lambda */
INLINE void NAME(rotation_cross)(unsigned wanted, const int n_pairs, const int d, V (*re)[4],
                                 V (*im)[4], V *a) {
    const V *pr = re[0], *pi = im[0], *lr = re[1], *li = im[1];
    if (wanted & QR_ROTATION_RE)
#pragma GCC unroll 2
        for (int k = 0; k < n_pairs; k++) {
            const int x = d == 1 ? 2 * k : k, y = x + d;
            a[0] = FMA(pr[x], lr[y], a[0]);
            a[0] = FMA(pi[x], li[y], a[0]);
            a[0] = FNMA(pr[y], lr[x], a[0]);
            a[0] = FNMA(pi[y], li[x], a[0]);
        }
    if (wanted & QR_ROTATION_IM)
#pragma GCC unroll 2
        for (int k = 0; k < n_pairs; k++) {
            const int x = d == 1 ? 2 * k : k, y = x + d;
            a[1] = FMA(pi[x], lr[y], a[1]);
            a[1] = FNMA(pr[x], li[y], a[1]);
            a[1] = FMA(pi[y], lr[x], a[1]);
            a[1] = FNMA(pr[y], li[x], a[1]);
        }
    if (wanted & QR_ROTATION_Z)
#pragma GCC unroll 2
        for (int k = 0; k < n_pairs; k++) {
            const int x = d == 1 ? 2 * k : k, y = x + d;
            a[2] = FMA(pi[x], lr[x], a[2]);
            a[2] = FNMA(pr[x], li[x], a[2]);
            a[2] = FNMA(pi[y], lr[y], a[2]);
            a[2] = FMA(pr[y], li[y], a[2]);
        }
}

enum { NAME(ROTATION_BATCH) = 8 }; /* groups of two gates: 64 terms of each number */

INLINE uint64_t NAME(rotation_back_batch)(void *p, void *l, const struct NAME(pair) * w,
                                          const uint16_t *order, const struct NAME(rotation) * t,
                                          const struct NAME(forms) f, const int n,
                                          unsigned wanted_a, unsigned wanted_b,
                                          double (*acc)[QR_LANES], uint64_t start, size_t count) {
    const bool both = sizeof(V) == 64; /* Registers hold the cells of both vectors. */
    _Alignas(64) E sum[2 * QR_ROTATION_CROSS][QR_LANES] RAW;
    V a[QR_LANES / W][2 * QR_ROTATION_CROSS] RAW;
    uint64_t i = start;
#pragma GCC unroll 2
    for (int v = 0; v < QR_LANES / W; v++)
#pragma GCC unroll 6
        for (int k = 0; k < n * QR_ROTATION_CROSS; k++) a[v][k] = ZERO();
    for (size_t g = 0; g < count; g++, i = ((i | ~w->free) + 1) & w->free) {
        size_t at[4];
        NAME(group_of)(w, order, i, at);
        NAME(prefetch_cell)(w->prefetch);
#pragma GCC unroll 2
        for (int v = 0; v < QR_LANES; v += W) { /* Independent chains of sums */
            V re[2][4] RAW, im[2][4] RAW, *to = a[v / W];
            NAME(load_group)(p, at, v, n, re[0], im[0]);
            NAME(load_group)(l, at, v, n, re[1], im[1]);
            NAME(rotation_cross)(wanted_a, n, n, re, im, to);
            if (n == 2) NAME(rotation_cross)(wanted_b, 2, 1, re, im, to + QR_ROTATION_CROSS);
            if (!t) continue;
            NAME(rotate_group)(t, f, both ? 2 : 1, n, re, im);
            NAME(store_group)(p, at, v, n, re[0], im[0]);
            if (!both) {
                NAME(load_group)(l, at, v, n, re[1], im[1]);
                NAME(rotate_group)(t, f, 1, n, re + 1, im + 1);
            }
            NAME(store_group)(l, at, v, n, re[1], im[1]);
        }
    }
#pragma GCC unroll 2
    for (int v = 0; v < QR_LANES / W; v++)
#pragma GCC unroll 6
        for (int k = 0; k < n * QR_ROTATION_CROSS; k++) STORE(&sum[k][v * W], a[v][k]);
    if (acc) NAME(add_sums)(sum, acc, n * QR_ROTATION_CROSS);
    return i;
}

INLINE void NAME(rotation_back_cells)(void *p, void *l, const struct NAME(pair) * w,
                                      const uint16_t *order, const struct NAME(rotation) * t,
                                      const struct NAME(forms) f, const int n, unsigned wanted_a,
                                      unsigned wanted_b, double (*acc)[QR_LANES]) {
    uint64_t i = 0;
    size_t most = NAME(ROTATION_BATCH) * 2 / (size_t)n;
    for (size_t done = 0; done < w->n; done += most) {
        size_t count = w->n - done < most ? w->n - done : most;
        i = NAME(rotation_back_batch)(p, l, w, order, t, f, n, wanted_a, wanted_b, acc, i, count);
    }
}

/* Two RX and two RY have loops of their own. */
#define BACK_2(a_form, b_form, number)                                                             \
    if (t[0].form == (a_form) && t[1].form == (b_form) && a == (number) && b == (number)) {        \
        const struct NAME(forms) f = {true, {a_form, b_form}};                                     \
        NAME(rotation_back_cells)(p, l, &w, order, t, f, 2, number, number, acc);                  \
        return;                                                                                    \
    }
INLINE void NAME(rotate_back_in_order)(void *p, void *l, unsigned bits,
                                       const struct qr_tile_qubits *at, const uint16_t *order) {
    struct NAME(pair) w = NAME(pair_of)(bits, at, order);
    struct NAME(rotation) t[2] RAW;
    const struct NAME(forms) any = {0};
    unsigned a = at->wanted[0], b = at->wanted[1];
    double(*acc)[QR_LANES] = at->acc;
    for (unsigned k = 0; k < at->n && at->numbers; k++) t[k] = NAME(rotation_of)(at->numbers[k]);
    if (at->n == 1 && at->numbers) NAME(rotation_back_cells)(p, l, &w, order, t, any, 1, a, 0, acc);
    else if (at->n == 1) NAME(rotation_back_cells)(p, l, &w, order, NULL, any, 1, a, 0, acc);
    else if (!at->numbers) NAME(rotation_back_cells)(p, l, &w, order, NULL, any, 2, a, b, acc);
    else {
        BACK_2(QR_ROTATION_X_A, QR_ROTATION_X_A, QR_ROTATION_IM)
        BACK_2(QR_ROTATION_X_A, QR_ROTATION_X_B, QR_ROTATION_IM)
        BACK_2(QR_ROTATION_X_B, QR_ROTATION_X_A, QR_ROTATION_IM)
        BACK_2(QR_ROTATION_X_B, QR_ROTATION_X_B, QR_ROTATION_IM)
        BACK_2(QR_ROTATION_REAL_A, QR_ROTATION_REAL_A, QR_ROTATION_RE)
        BACK_2(QR_ROTATION_REAL_A, QR_ROTATION_REAL_B, QR_ROTATION_RE)
        BACK_2(QR_ROTATION_REAL_B, QR_ROTATION_REAL_A, QR_ROTATION_RE)
        BACK_2(QR_ROTATION_REAL_B, QR_ROTATION_REAL_B, QR_ROTATION_RE)
        NAME(rotation_back_cells)(p, l, &w, order, t, any, 2, a, b, acc);
    }
}
#undef BACK_2
static void NAME(rotate_back)(void *phi, void *lambda, unsigned bits,
                              const struct qr_tile_qubits *at) {
    if (!at->order) NAME(rotate_back_in_order)(phi, lambda, bits, at, NULL);
    else NAME(rotate_back_in_order)(phi, lambda, bits, at, at->order);
}

/* ---- products of diagonal gates ---- */

INLINE void NAME(phase_cell)(struct NAME(cell) * c, int v, V pr, V pi, bool adjoint) {
    V xr = LOAD(&c->re[v]), xi = LOAD(&c->im[v]);
    if (adjoint) {
        STORE(&c->re[v], FMA(pi, xi, MUL(pr, xr)));
        STORE(&c->im[v], FNMA(pi, xr, MUL(pr, xi)));
    } else {
        STORE(&c->re[v], FNMA(pi, xi, MUL(pr, xr)));
        STORE(&c->im[v], FMA(pi, xr, MUL(pr, xi)));
    }
}

INLINE void NAME(phase_rows)(struct NAME(cell) * p, struct NAME(cell) * l, const uint16_t *order,
                             size_t n_rows, const struct NAME(cell) * lanes, size_t lane_rows,
                             const E *cells, const struct NAME(cell) * inside) {
    size_t first = 0;
    for (size_t b = 0; b < n_rows; b++) {
        for (int v = 0; v < QR_LANES; v += W) {
            const struct NAME(cell) *f = &lanes[b & lane_rows];
            V fr = LOAD(&f->re[v]), fi = LOAD(&f->im[v]);
            for (size_t k = 0; k < QR_PHASE_CELLS; k++) {
                V cr = SET1(cells[k]), ci = SET1(cells[QR_PHASE_CELLS + k]);
                V sr = FNMA(fi, ci, MUL(fr, cr)), si = FMA(fi, cr, MUL(fr, ci));
                if (inside) {
                    V ir = LOAD(&inside[k].re[v]), ii = LOAD(&inside[k].im[v]);
                    V r = FNMA(si, ii, MUL(sr, ir));
                    si = FMA(si, ir, MUL(sr, ii));
                    sr = r;
                }
                NAME(phase_cell)(p + NAME(position)(order, first + k), v, sr, si, l);
                if (l) NAME(phase_cell)(l + NAME(position)(order, first + k), v, sr, si, true);
            }
        }
        first += QR_PHASE_CELLS;
        cells += 2 * QR_PHASE_CELLS;
    }
}

static void NAME(phase)(void *phi, void *lambda, const uint16_t *order, size_t n_rows,
                        const void *lanes, size_t lane_rows, const void *cells,
                        const void *inside) {
    if (!lambda && !order)
        NAME(phase_rows)(phi, NULL, NULL, n_rows, lanes, lane_rows, cells, inside);
    else if (!lambda) NAME(phase_rows)(phi, NULL, order, n_rows, lanes, lane_rows, cells, inside);
    else if (!order) NAME(phase_rows)(phi, lambda, NULL, n_rows, lanes, lane_rows, cells, inside);
    else NAME(phase_rows)(phi, lambda, order, n_rows, lanes, lane_rows, cells, inside);
}

/* The products and sums of complex numbers, each with its own rounding. */
static void NAME(phase_numbers)(const struct qr_phase_cells *cells, size_t cell_rows,
                                const double *re, const double *im, size_t n_rows, void *ret) {
    E *out = ret;
    const D one = DSET1(1.0);
    for (size_t x = 0; x < n_rows; x++, out += 2 * QR_PHASE_CELLS) {
        const struct qr_phase_cells *c = &cells[x & cell_rows];
        D fr = DSET1(re[x]), fi = DSET1(im[x]);
        for (int k = 0; k < QR_PHASE_CELLS; k += DW) {
            D cr = DNUMBERS(&c->re[k]), ci = DNUMBERS(&c->im[k]);
            D rr = DMUL(cr, fr), ii = DMUL(ci, fi), ri = DMUL(cr, fi), ir = DMUL(ci, fr);
            DSTORE(&out[k], DFNMA(one, ii, rr));
            DSTORE(&out[QR_PHASE_CELLS + k], DFMA(one, ir, ri));
        }
    }
}

/* The first three bits in registers, then one bit at a time, of masks of up to two bits only. */
static void NAME(parities)(const void *phi, const void *lambda, const uint16_t *order,
                           unsigned bits, void *ret) {
    const struct NAME(cell) *p = phi, *l = lambda;
    E(*out)[QR_LANES] = ret;
    size_t n = (size_t)1 << bits;
    for (size_t c = 0; c < n; c += QR_PHASE_CELLS)
        for (int v = 0; v < QR_LANES; v += W) {
            V s[QR_PHASE_CELLS] RAW;
#pragma GCC unroll 8
            for (int k = 0; k < QR_PHASE_CELLS; k++) {
                size_t o = NAME(position)(order, c + (size_t)k);
                s[k] = FNMA(LOAD(&p[o].re[v]), LOAD(&l[o].im[v]),
                            MUL(LOAD(&p[o].im[v]), LOAD(&l[o].re[v])));
            }
#pragma GCC unroll 3
            for (int h = 1; h < QR_PHASE_CELLS; h *= 2)
#pragma GCC unroll 8
                for (int k = 0; k < QR_PHASE_CELLS; k++) {
                    if (k & h) continue;
                    V x = s[k], y = s[k | h];
                    s[k] = ADD(x, y);
                    s[k | h] = SUB(x, y);
                }
#pragma GCC unroll 8
            for (int k = 0; k < QR_PHASE_CELLS; k++) STORE(&out[c + (size_t)k][v], s[k]);
        }
    uint16_t masks[QR_PARITY_MASKS] RAW;
    size_t n_masks = QR_PHASE_CELLS - 1;
    for (size_t m = 0; m < n_masks; m++) masks[m] = (uint16_t)m;
    for (size_t h = QR_PHASE_CELLS, before = n_masks; h < n; h *= 2, before = n_masks) {
        for (size_t i = 0; i < before; i++)
            if (!(masks[i] & (masks[i] - 1))) masks[n_masks++] = (uint16_t)(masks[i] | h);
        for (size_t first = 0; first < n; first += 2 * h)
            for (size_t i = 0; i < before; i++) {
                E *x = out[first + masks[i]], *y = out[first + masks[i] + h];
                for (int v = 0; v < QR_LANES; v += W) {
                    V a = LOAD(x + v), b = LOAD(y + v);
                    STORE(x + v, ADD(a, b));
                    if (!(masks[i] & (masks[i] - 1))) STORE(y + v, SUB(a, b));
                }
            }
    }
}

static void NAME(permute)(void *cells, const uint16_t *cycles, size_t n, bool inverse) {
    struct NAME(cell) *c = cells;
    const size_t mask = QR_CYCLE_END - 1;
    for (size_t first = 0, end; first < n; first = end) {
        for (end = first + 1; !(cycles[end - 1] & QR_CYCLE_END);) end++;
        size_t last = end - 1;
        struct NAME(cell) kept = c[cycles[inverse ? last : first] & mask];
        for (size_t i = first; i < last; i++) {
            size_t k = inverse ? last - (i - first) : i, other = inverse ? k - 1 : k + 1;
            c[cycles[k] & mask] = c[cycles[other] & mask];
        }
        c[cycles[inverse ? first : last] & mask] = kept;
    }
}
