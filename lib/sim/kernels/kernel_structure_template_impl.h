/* sim/kernels/kernel_structure_template_impl.h — gates with structure on a tile: one-qubit gates, a
 * product of diagonal gates, and their derivatives. Part of kernel_template_impl.h, with its
 * macros. All arithmetic is in E; sums of derivatives as of the cross numbers. */

/* One or two one-qubit gates and the groups of cells that they act on: cells c, c + sb of one gate;
 * with two, c, c + sb, c + sa, c + sa + sb, where the first gate acts on the bit of sa. */
struct NAME(pair) {
    size_t sa, sb;
    uint64_t free;
    size_t n;
    struct qr_prefetch *prefetch;
};
INLINE struct NAME(pair) NAME(pair_of)(unsigned bits, const struct qr_tile_qubits *at) {
    uint64_t all = (UINT64_C(1) << bits) - 1;
    struct NAME(pair) w = {.sb = (size_t)1 << at->bit[at->n - 1], .prefetch = at->prefetch};
    if (at->n == 2) w.sa = (size_t)1 << at->bit[0];
    w.free = all & ~(uint64_t)w.sa & ~(uint64_t)w.sb;
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

/* x becomes a x - sign conj(b) y, y becomes b x + sign conj(a) y. */
INLINE void NAME(rotation_two)(const struct NAME(rotation) * t, V *xr, V *xi, V *yr, V *yi) {
    V ar = SET1(t->ar), br = SET1(t->br), cr = SET1(t->cr), dr = SET1(t->dr);
    V ai = SET1(t->ai), bi = SET1(t->bi), ci = SET1(t->ci), di = SET1(t->di);
    V r, i, s, j;
    switch (t->form) {
    case QR_ROTATION_REAL_A:
        r = FNMA(br, *yr, *xr);
        i = FNMA(br, *yi, *xi);
        s = FMA(br, *xr, *yr);
        j = FMA(br, *xi, *yi);
        break;
    case QR_ROTATION_REFLECTION:
        r = FMA(br, *yr, *xr);
        i = FMA(br, *yi, *xi);
        s = FMS(br, *xr, *yr);
        j = FMS(br, *xi, *yi);
        break;
    case QR_ROTATION_REAL_B:
        r = FMS(ar, *xr, *yr);
        i = FMS(ar, *xi, *yi);
        s = FMA(ar, *yr, *xr);
        j = FMA(ar, *yi, *xi);
        break;
    case QR_ROTATION_X_A:
        r = FNMA(bi, *yi, *xr);
        i = FMA(bi, *yr, *xi);
        s = FNMA(bi, *xi, *yr);
        j = FMA(bi, *xr, *yi);
        break;
    case QR_ROTATION_X_B:
        r = FMS(ar, *xr, *yi);
        i = FMA(ar, *xi, *yr);
        s = FMS(ar, *yr, *xi);
        j = FMA(ar, *yi, *xr);
        break;
    default:
        r = FNMA(ci, *yi, FMA(cr, *yr, FNMA(ai, *xi, MUL(ar, *xr))));
        i = FMA(ci, *yr, FMA(cr, *yi, FMA(ai, *xr, MUL(ar, *xi))));
        s = FNMA(di, *yi, FNMA(bi, *xi, FMA(br, *xr, MUL(dr, *yr))));
        j = FMA(di, *yr, FMA(bi, *xr, FMA(br, *xi, MUL(dr, *yi))));
    }
    *xr = r;
    *xi = i;
    *yr = s;
    *yi = j;
}

/* n: 1 or 2 gates, on 2 or 4 cells in registers */
INLINE void NAME(rotation_group)(const struct NAME(rotation) * t, int n, V *r, V *i) {
    if (n == 1) {
        NAME(rotation_two)(&t[0], &r[0], &i[0], &r[1], &i[1]);
        return;
    }
    NAME(rotation_two)(&t[0], &r[0], &i[0], &r[2], &i[2]);
    NAME(rotation_two)(&t[0], &r[1], &i[1], &r[3], &i[3]);
    NAME(rotation_two)(&t[1], &r[0], &i[0], &r[1], &i[1]);
    NAME(rotation_two)(&t[1], &r[2], &i[2], &r[3], &i[3]);
}

INLINE void NAME(rotation_cells)(struct NAME(cell) * c, const struct NAME(pair) * w,
                                 const struct NAME(rotation) * t, const int n) {
    uint64_t i = 0;
    for (size_t g = 0; g < w->n; g++, i = ((i | ~w->free) + 1) & w->free) {
        struct NAME(cell) * q[4] = {c + i, c + i + w->sb, c + i + w->sa, c + i + w->sa + w->sb};
        NAME(prefetch_cell)(w->prefetch);
        for (int v = 0; v < QR_LANES; v += W) {
            V re[4] RAW, im[4] RAW;
#pragma GCC unroll 4
            for (int j = 0; j < 2 * n; j++) {
                re[j] = LOAD(&q[j]->re[v]);
                im[j] = LOAD(&q[j]->im[v]);
            }
            NAME(rotation_group)(t, n, re, im);
#pragma GCC unroll 4
            for (int j = 0; j < 2 * n; j++) {
                STORE(&q[j]->re[v], re[j]);
                STORE(&q[j]->im[v], im[j]);
            }
        }
    }
}

static void NAME(rotate)(void *cells, unsigned bits, const struct qr_tile_qubits *at,
                         const double (*numbers)[QR_ROTATION_NUMBERS]) {
    struct NAME(pair) w = NAME(pair_of)(bits, at);
    struct NAME(rotation) t[2] RAW;
    for (unsigned k = 0; k < at->n; k++) t[k] = NAME(rotation_of)(numbers[k]);
    if (at->n == 1) NAME(rotation_cells)(cells, &w, t, 1);
    else NAME(rotation_cells)(cells, &w, t, 2);
}

/* Adds the numbers of one pair of cells: Re and Im of phi_0 conj(lambda_1) - conj(phi_1
 * conj(lambda_0)), and Im of phi_0 conj(lambda_0) - phi_1 conj(lambda_1). */
INLINE void NAME(rotation_cross)(unsigned wanted, const V *pr, const V *pi, const V *lr,
                                 const V *li, int x, int y, V *a) {
    if (wanted & QR_ROTATION_RE) {
        a[0] = FMA(pr[x], lr[y], a[0]);
        a[0] = FMA(pi[x], li[y], a[0]);
        a[0] = FNMA(pr[y], lr[x], a[0]);
        a[0] = FNMA(pi[y], li[x], a[0]);
    }
    if (wanted & QR_ROTATION_IM) {
        a[1] = FMA(pi[x], lr[y], a[1]);
        a[1] = FNMA(pr[x], li[y], a[1]);
        a[1] = FMA(pi[y], lr[x], a[1]);
        a[1] = FNMA(pr[y], li[x], a[1]);
    }
    if (wanted & QR_ROTATION_Z) {
        a[2] = FMA(pi[x], lr[x], a[2]);
        a[2] = FNMA(pr[x], li[x], a[2]);
        a[2] = FNMA(pi[y], lr[y], a[2]);
        a[2] = FMA(pr[y], li[y], a[2]);
    }
}

enum { NAME(ROTATION_BATCH) = 8 }; /* groups of two gates: 64 terms of each number */

INLINE uint64_t NAME(rotation_back_batch)(struct NAME(cell) * p, struct NAME(cell) * l,
                                          const struct NAME(pair) * w,
                                          const struct NAME(rotation) * t, const int n,
                                          const struct qr_tile_qubits *at, uint64_t start,
                                          size_t count, double (*acc)[QR_LANES]) {
    _Alignas(64) E sum[2 * QR_ROTATION_CROSS][QR_LANES] RAW;
    uint64_t i = start;
    for (int v = 0; v < QR_LANES; v += W) {
        V a[2 * QR_ROTATION_CROSS] RAW;
#pragma GCC unroll 6
        for (int k = 0; k < n * QR_ROTATION_CROSS; k++) a[k] = ZERO();
        i = start;
        for (size_t g = 0; g < count; g++, i = ((i | ~w->free) + 1) & w->free) {
            size_t o = i;
            const size_t ix[4] = {o, o + w->sb, o + w->sa, o + w->sa + w->sb};
            V pr[4] RAW, pi[4] RAW, lr[4] RAW, li[4] RAW;
            if (!v) NAME(prefetch_cell)(w->prefetch);
#pragma GCC unroll 4
            for (int j = 0; j < 2 * n; j++) {
                pr[j] = LOAD(&p[ix[j]].re[v]);
                pi[j] = LOAD(&p[ix[j]].im[v]);
                lr[j] = LOAD(&l[ix[j]].re[v]);
                li[j] = LOAD(&l[ix[j]].im[v]);
            }
            if (n == 1) {
                NAME(rotation_cross)(at->wanted[0], pr, pi, lr, li, 0, 1, a);
            } else {
                NAME(rotation_cross)(at->wanted[0], pr, pi, lr, li, 0, 2, a);
                NAME(rotation_cross)(at->wanted[0], pr, pi, lr, li, 1, 3, a);
                NAME(rotation_cross)(at->wanted[1], pr, pi, lr, li, 0, 1, a + QR_ROTATION_CROSS);
                NAME(rotation_cross)(at->wanted[1], pr, pi, lr, li, 2, 3, a + QR_ROTATION_CROSS);
            }
            if (!t) continue;
            NAME(rotation_group)(t, n, pr, pi);
            NAME(rotation_group)(t, n, lr, li);
#pragma GCC unroll 4
            for (int j = 0; j < 2 * n; j++) {
                STORE(&p[ix[j]].re[v], pr[j]);
                STORE(&p[ix[j]].im[v], pi[j]);
                STORE(&l[ix[j]].re[v], lr[j]);
                STORE(&l[ix[j]].im[v], li[j]);
            }
        }
#pragma GCC unroll 6
        for (int k = 0; k < n * QR_ROTATION_CROSS; k++) STORE(&sum[k][v], a[k]);
    }
    NAME(add_sums)(sum, acc, n * QR_ROTATION_CROSS);
    return i;
}

INLINE void NAME(rotation_back_cells)(struct NAME(cell) * p, struct NAME(cell) * l,
                                      const struct NAME(pair) * w, const struct NAME(rotation) * t,
                                      const int n, const struct qr_tile_qubits *at,
                                      double (*acc)[QR_LANES]) {
    uint64_t i = 0;
    size_t most = NAME(ROTATION_BATCH) * 2 / (size_t)n;
    for (size_t done = 0; done < w->n; done += most) {
        size_t count = w->n - done < most ? w->n - done : most;
        i = NAME(rotation_back_batch)(p, l, w, t, n, at, i, count, acc);
    }
}

static void NAME(rotate_back)(void *phi, void *lambda, unsigned bits,
                              const struct qr_tile_qubits *at,
                              const double (*numbers)[QR_ROTATION_NUMBERS],
                              double (*acc)[QR_LANES]) {
    struct NAME(pair) w = NAME(pair_of)(bits, at);
    struct NAME(rotation) t[2] RAW;
    for (unsigned k = 0; k < at->n && numbers; k++) t[k] = NAME(rotation_of)(numbers[k]);
    if (at->n == 1 && numbers) NAME(rotation_back_cells)(phi, lambda, &w, t, 1, at, acc);
    else if (at->n == 1) NAME(rotation_back_cells)(phi, lambda, &w, NULL, 1, at, acc);
    else if (numbers) NAME(rotation_back_cells)(phi, lambda, &w, t, 2, at, acc);
    else NAME(rotation_back_cells)(phi, lambda, &w, NULL, 2, at, acc);
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

INLINE void NAME(phase_rows)(struct NAME(cell) * p, struct NAME(cell) * l, size_t n_rows,
                             const struct NAME(cell) * lanes, size_t lane_rows, const E *cells,
                             const struct NAME(cell) * inside) {
    for (size_t b = 0; b < n_rows; b++) {
        for (int v = 0; v < QR_LANES; v += W) {
            const struct NAME(cell) *f = &lanes[b & lane_rows];
            V fr = LOAD(&f->re[v]), fi = LOAD(&f->im[v]);
            for (int k = 0; k < QR_PHASE_CELLS; k++) {
                V cr = SET1(cells[k]), ci = SET1(cells[QR_PHASE_CELLS + k]);
                V sr = FNMA(fi, ci, MUL(fr, cr)), si = FMA(fi, cr, MUL(fr, ci));
                if (inside) {
                    V ir = LOAD(&inside[k].re[v]), ii = LOAD(&inside[k].im[v]);
                    V r = FNMA(si, ii, MUL(sr, ir));
                    si = FMA(si, ir, MUL(sr, ii));
                    sr = r;
                }
                NAME(phase_cell)(p + k, v, sr, si, l);
                if (l) NAME(phase_cell)(l + k, v, sr, si, true);
            }
        }
        p += QR_PHASE_CELLS;
        if (l) l += QR_PHASE_CELLS;
        cells += 2 * QR_PHASE_CELLS;
    }
}

static void NAME(phase)(void *phi, void *lambda, size_t n_rows, const void *lanes, size_t lane_rows,
                        const void *cells, const void *inside) {
    if (!lambda) NAME(phase_rows)(phi, NULL, n_rows, lanes, lane_rows, cells, inside);
    else NAME(phase_rows)(phi, lambda, n_rows, lanes, lane_rows, cells, inside);
}

/* The first three bits in registers, then one bit at a time. */
static void NAME(parities)(const void *phi, const void *lambda, unsigned bits, void *ret) {
    const struct NAME(cell) *p = phi, *l = lambda;
    E(*out)[QR_LANES] = ret;
    size_t n = (size_t)1 << bits;
    for (size_t c = 0; c < n; c += QR_PHASE_CELLS)
        for (int v = 0; v < QR_LANES; v += W) {
            V s[QR_PHASE_CELLS] RAW;
#pragma GCC unroll 8
            for (int k = 0; k < QR_PHASE_CELLS; k++)
                s[k] = FNMA(LOAD(&p[c + (size_t)k].re[v]), LOAD(&l[c + (size_t)k].im[v]),
                            MUL(LOAD(&p[c + (size_t)k].im[v]), LOAD(&l[c + (size_t)k].re[v])));
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
    for (size_t h = QR_PHASE_CELLS; h < n; h *= 2)
        for (size_t first = 0; first < n; first += 2 * h)
            for (size_t c = first; c < first + h; c++)
                for (int v = 0; v < QR_LANES; v += W) {
                    V x = LOAD(&out[c][v]), y = LOAD(&out[c + h][v]);
                    STORE(&out[c][v], ADD(x, y));
                    STORE(&out[c + h][v], SUB(x, y));
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
