/* sim/kernels/kernel_structure_template_impl.h — gates with structure on a tile: one-qubit gates, a
 * product of diagonal gates, and their derivatives. Part of kernel_template_impl.h, with its
 * macros. All arithmetic is in E; sums of derivatives as of the cross numbers. */

/* Loops of phase are made twice: for cells in order (NULL) and for others. */
INLINE size_t NAME(position)(const uint16_t *order, size_t i) { return order ? order[i] : i; }

struct NAME(rotation) {
    enum qr_rotation_form form;
    E ar, ai, br, bi; /* of the first column */
    E cr, ci, dr, di; /* of the second one: -sign conj(b), sign conj(a) */
};
INLINE struct NAME(rotation) NAME(rotation_of)(const struct qr_tile_qubits *at, unsigned k) {
    const double *a = at->numbers[k];
    E ar = (E)a[0], ai = (E)a[1], br = (E)a[2], bi = (E)a[3], sign = (E)a[4];
    return (struct NAME(rotation)){at->form[k], ar,        ai,        br,        bi,
                                   -sign * br,  sign * bi, sign * ar, -sign * ai};
}

/* Multiplies cells in registers: x by a x - sign conj(b) y, y = x + d by b x + sign conj(a) y, for
 * two pairs of each vector. */
#define EACH_PAIR(...)                                                                             \
    _Pragma("GCC unroll 2") for (int q = 0; q < n_vectors; q++)                                    \
        _Pragma("GCC unroll 2") for (int k = 0; k < 2; k++) {                                      \
        const int x = d == 1 ? 2 * k : k, y = x + d;                                               \
        V xr = re[q][x], xi = im[q][x], yr = re[q][y], yi = im[q][y];                              \
        __VA_ARGS__                                                                                \
    }
INLINE void NAME(rotate_pairs)(const struct NAME(rotation) * t, enum qr_rotation_form form,
                               const int n_vectors, const int d, V (*re)[4], V (*im)[4]) {
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
/* Two RX and two RY have loops of their own. */
#define KNOWN_FORMS(LOOP)                                                                          \
    LOOP(QR_ROTATION_X_A, QR_ROTATION_X_A, QR_ROTATION_IM)                                         \
    LOOP(QR_ROTATION_X_A, QR_ROTATION_X_B, QR_ROTATION_IM)                                         \
    LOOP(QR_ROTATION_X_B, QR_ROTATION_X_A, QR_ROTATION_IM)                                         \
    LOOP(QR_ROTATION_X_B, QR_ROTATION_X_B, QR_ROTATION_IM)                                         \
    LOOP(QR_ROTATION_REAL_A, QR_ROTATION_REAL_A, QR_ROTATION_RE)                                   \
    LOOP(QR_ROTATION_REAL_A, QR_ROTATION_REAL_B, QR_ROTATION_RE)                                   \
    LOOP(QR_ROTATION_REAL_B, QR_ROTATION_REAL_A, QR_ROTATION_RE)                                   \
    LOOP(QR_ROTATION_REAL_B, QR_ROTATION_REAL_B, QR_ROTATION_RE)

/* n: 1 or 2 gates */
INLINE void NAME(rotate_group)(const struct NAME(rotation) * t, const struct NAME(forms) f,
                               int n_vectors, const int n, V (*re)[4], V (*im)[4]) {
    if (n == 2) NAME(rotate_pairs)(&t[0], f.known ? f.form[0] : t[0].form, n_vectors, 2, re, im);
    const struct NAME(rotation) *last = &t[n - 1];
    NAME(rotate_pairs)(last, f.known ? f.form[n - 1] : last->form, n_vectors, 1, re, im);
}

/* The groups of a step, with offsets in bytes: of a pair of the last gate, sb; of two pairs, sa. */
struct NAME(groups) {
    struct qr_tile_positions at;
    size_t sa, sb;
};
INLINE struct NAME(groups) NAME(groups_of)(const struct qr_tile_qubits *at) {
    return (struct NAME(groups)){.at = at->groups,
                                 .sa = at->across[at->n == 1] * sizeof(struct NAME(cell)),
                                 .sb = at->across[at->n - 1] * sizeof(struct NAME(cell))};
}
INLINE void NAME(group_of)(const struct NAME(groups) * w, size_t g, size_t ret[4]) {
    ret[0] = (size_t)(w->at.at[g] ^ w->at.origin) * sizeof(struct NAME(cell));
    ret[1] = ret[0] ^ w->sb;
    ret[2] = ret[0] ^ w->sa;
    ret[3] = ret[1] ^ w->sa;
}
INLINE struct NAME(cell) * NAME(cell_of)(void *cells, size_t offset) {
    return (struct NAME(cell) *)(void *)((unsigned char *)cells + offset);
}

INLINE void NAME(load_group)(void *c, const size_t at[4], int v, V re[4], V im[4]) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        re[j] = LOAD(&NAME(cell_of)(c, at[j])->re[v]);
        im[j] = LOAD(&NAME(cell_of)(c, at[j])->im[v]);
    }
}
INLINE void NAME(store_group)(void *c, const size_t at[4], int v, const V re[4], const V im[4]) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        STORE(&NAME(cell_of)(c, at[j])->re[v], re[j]);
        STORE(&NAME(cell_of)(c, at[j])->im[v], im[j]);
    }
}

INLINE void NAME(rotation_cells)(void *c, const struct NAME(groups) * w,
                                 const struct NAME(rotation) * t, const struct NAME(forms) f,
                                 const int n, struct qr_prefetch *prefetch) {
    for (size_t g = 0; g < w->at.n; g++) {
        size_t at[4];
        NAME(group_of)(w, g, at);
        NAME(prefetch_cell)(prefetch);
        for (int v = 0; v < QR_LANES; v += W) {
            V re[1][4] RAW, im[1][4] RAW;
            NAME(load_group)(c, at, v, re[0], im[0]);
            NAME(rotate_group)(t, f, 1, n, re, im);
            NAME(store_group)(c, at, v, re[0], im[0]);
        }
    }
}

#define ROTATE(a_form, b_form, number)                                                             \
    if (t[0].form == (a_form) && t[1].form == (b_form)) {                                          \
        const struct NAME(forms) f = {true, {a_form, b_form}};                                     \
        NAME(rotation_cells)(cells, &w, t, f, 2, at->prefetch);                                    \
        return;                                                                                    \
    }
static void NAME(rotate)(void *cells, const struct qr_tile_qubits *at) {
    struct NAME(groups) w = NAME(groups_of)(at);
    struct NAME(rotation) t[2] RAW;
    const struct NAME(forms) any = {0};
    for (unsigned k = 0; k < at->n; k++) t[k] = NAME(rotation_of)(at, k);
    if (at->n == 1) NAME(rotation_cells)(cells, &w, t, any, 1, at->prefetch);
    else {
        KNOWN_FORMS(ROTATE)
        NAME(rotation_cells)(cells, &w, t, any, 2, at->prefetch);
    }
}
#undef ROTATE

/* Adds the numbers of pairs of cells: Re and Im of phi_0 conj(lambda_1) - conj(phi_1
 * conj(lambda_0)), and Im of phi_0 conj(lambda_0) - phi_1 conj(lambda_1). re, im: phi, lambda.
 * Each of the two pairs has a sum of its own, a chain of additions that need not wait for the
 * other. */
INLINE void NAME(rotation_cross)(unsigned wanted, const int d, V (*re)[4], V (*im)[4],
                                 V (*sums)[2]) {
    const V *pr = re[0], *pi = im[0], *lr = re[1], *li = im[1];
#pragma GCC unroll 2
    for (int k = 0; k < 2; k++) {
        const int x = d == 1 ? 2 * k : k, y = x + d;
        if (wanted & QR_ROTATION_RE) {
            V a = FMA(pr[x], lr[y], sums[0][k]);
            a = FMA(pi[x], li[y], a);
            a = FNMA(pr[y], lr[x], a);
            sums[0][k] = FNMA(pi[y], li[x], a);
        }
        if (wanted & QR_ROTATION_IM) {
            V a = FMA(pi[x], lr[y], sums[1][k]);
            a = FNMA(pr[x], li[y], a);
            a = FMA(pi[y], lr[x], a);
            sums[1][k] = FNMA(pr[y], li[x], a);
        }
        if (wanted & QR_ROTATION_Z) {
            V a = FMA(pi[x], lr[x], sums[2][k]);
            a = FNMA(pr[x], li[x], a);
            a = FNMA(pi[y], lr[y], a);
            sums[2][k] = FMA(pr[y], li[y], a);
        }
    }
}

enum { NAME(ROTATION_BATCH) = 8 }; /* groups: 32 terms of each pair's sum */

/* Groups first .. end - 1. wanted: of the first gate, then of the second */
INLINE void NAME(rotation_back_batch)(void *p, void *l, const struct NAME(groups) * w,
                                      const struct NAME(rotation) * t, const struct NAME(forms) f,
                                      const int n, unsigned wanted, double (*acc)[QR_LANES],
                                      size_t first, size_t end, struct qr_prefetch *prefetch) {
    const bool both = sizeof(V) == 64; /* Registers hold the cells of both vectors. */
    const int n_sums = n * QR_ROTATION_CROSS, last = n_sums - QR_ROTATION_CROSS;
    _Alignas(64) E sum[2 * QR_ROTATION_CROSS][QR_LANES] RAW;
    V a[QR_LANES / W][2 * QR_ROTATION_CROSS][2] RAW;
#pragma GCC unroll 4
    for (int v = 0; v < QR_LANES / W; v++)
#pragma GCC unroll 6
        for (int k = 0; k < n_sums; k++) a[v][k][0] = a[v][k][1] = ZERO();
    for (size_t g = first; g < end; g++) {
        size_t at[4];
        NAME(group_of)(w, g, at);
        NAME(prefetch_cell)(prefetch);
#pragma GCC unroll 2
        for (int v = 0; v < QR_LANES; v += W) {
            V re[2][4] RAW, im[2][4] RAW;
            NAME(load_group)(p, at, v, re[0], im[0]);
            NAME(load_group)(l, at, v, re[1], im[1]);
            if (n == 2) NAME(rotation_cross)(wanted, 2, re, im, a[v / W]);
            NAME(rotation_cross)(wanted >> last, 1, re, im, a[v / W] + last);
            if (!t) continue;
            NAME(rotate_group)(t, f, both ? 2 : 1, n, re, im);
            NAME(store_group)(p, at, v, re[0], im[0]);
            if (!both) {
                NAME(load_group)(l, at, v, re[1], im[1]);
                NAME(rotate_group)(t, f, 1, n, re + 1, im + 1);
            }
            NAME(store_group)(l, at, v, re[1], im[1]);
        }
    }
#pragma GCC unroll 4
    for (int v = 0; v < QR_LANES / W; v++)
#pragma GCC unroll 6
        for (int k = 0; k < n_sums; k++)
            if (wanted >> k & 1) STORE(&sum[k][v * W], ADD(a[v][k][0], a[v][k][1]));
#pragma GCC unroll 6
    for (int k = 0; k < n_sums; k++)
        if (wanted >> k & 1) NAME(add_sums)(sum + k, acc + k, 1);
}

INLINE void NAME(rotation_back_cells)(void *p, void *l, const struct qr_tile_qubits *at,
                                      const struct NAME(rotation) * t, const struct NAME(forms) f,
                                      const int n, unsigned wanted) {
    const struct NAME(groups) w = NAME(groups_of)(at);
    const size_t n_groups = at->groups.n, most = NAME(ROTATION_BATCH);
    for (size_t first = 0, end; first < n_groups; first = end) {
        end = n_groups - first < most ? n_groups : first + most;
        NAME(rotation_back_batch)(p, l, &w, t, f, n, wanted, at->acc, first, end, at->prefetch);
    }
}

#define ROTATE_BACK(a_form, b_form, number)                                                        \
    if (t[0].form == (a_form) && t[1].form == (b_form) &&                                          \
        wanted == ((number) | (number) << QR_ROTATION_CROSS)) {                                    \
        const struct NAME(forms) f = {true, {a_form, b_form}};                                     \
        NAME(rotation_back_cells)(p, l, at, t, f, 2, (number) | (number) << QR_ROTATION_CROSS);    \
        return;                                                                                    \
    }
static void NAME(rotate_back)(void *p, void *l, const struct qr_tile_qubits *at) {
    struct NAME(rotation) t[2] RAW;
    const struct NAME(forms) any = {0};
    unsigned wanted = at->wanted[0] | (unsigned)at->wanted[1] << QR_ROTATION_CROSS;
    for (unsigned k = 0; k < at->n && at->numbers; k++) t[k] = NAME(rotation_of)(at, k);
    if (at->n == 1 && at->numbers) NAME(rotation_back_cells)(p, l, at, t, any, 1, wanted);
    else if (at->n == 1) NAME(rotation_back_cells)(p, l, at, NULL, any, 1, wanted);
    else if (!at->numbers) NAME(rotation_back_cells)(p, l, at, NULL, any, 2, wanted);
    else {
        KNOWN_FORMS(ROTATE_BACK)
        NAME(rotation_back_cells)(p, l, at, t, any, 2, wanted);
    }
}
#undef ROTATE_BACK
#undef KNOWN_FORMS

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

/* Sums of a row of QR_PHASE_CELLS cells: bits in registers. */
INLINE void NAME(parities_of_row)(const struct NAME(cell) * p, const struct NAME(cell) * l,
                                  const uint16_t *order, size_t first, E (*ret)[QR_LANES]) {
    for (int v = 0; v < QR_LANES; v += W) {
        V s[QR_PHASE_CELLS] RAW;
#pragma GCC unroll 8
        for (int k = 0; k < QR_PHASE_CELLS; k++) {
            size_t o = NAME(position)(order, first + (size_t)k);
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
            /* without the mask of three bits */
#pragma GCC unroll 8
        for (int k = 0; k < QR_PHASE_CELLS - 1; k++) STORE(&ret[k][v], s[k]);
    }
}

/* The sums of two halves with `bits` bits as those of one with one bit more, in place of the second
 * half's. */
INLINE void NAME(parities_join)(E (*x)[QR_LANES], unsigned bits, E (*y)[QR_LANES]) {
    const size_t n = qr_parity_masks(bits);
    size_t more = n, single = 0, n_single = 0; /* The next mask of at most one bit; those before */
    for (size_t i = 0; i < n; i++) {
        bool minus = i == single;
        for (int v = 0; v < QR_LANES; v += W) {
            V a = LOAD(&x[i][v]), b = LOAD(&y[i][v]);
            STORE(&y[i][v], ADD(a, b));
            if (minus) STORE(&y[more][v], SUB(a, b));
        }
        if (!minus) continue;
        more++;
        single += n_single ? n_single : 1;
        n_single++;
    }
}

/* Halves are joined as soon as both are there, so that all sums stay in L1. */
static void NAME(parities)(const void *phi, const void *lambda, const uint16_t *order,
                           unsigned bits, void *ret) {
    _Alignas(64) E halves[QR_TILE_BITS][QR_PARITY_MASKS][QR_LANES] RAW;
    _Alignas(64) E row[QR_PARITY_MASKS][QR_LANES] RAW;
    for (size_t r = 0; r < (size_t)1 << (bits - QR_PHASE_BITS); r++) {
        unsigned have = QR_PHASE_BITS;
        NAME(parities_of_row)(phi, lambda, order, r * QR_PHASE_CELLS, row);
        for (; r >> (have - QR_PHASE_BITS) & 1; have++)
            NAME(parities_join)(halves[have], have, row);
        memcpy(have == bits ? ret : halves[have], row, qr_parity_masks(have) * sizeof *row);
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
