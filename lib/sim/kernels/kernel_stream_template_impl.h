/* sim/kernels/kernel_stream_template_impl.h — kernels of the streaming engine;
 * kernel_template_impl.h includes this file per element type.
 *
 * The coefficients of a 4x4 are E: narrow ones re[16], im[16], the same in all lanes; wide ones 16
 * cells, row-major. No include guard: the file is included more than once. */
struct NAME(coef) {
    E re[16], im[16];
};

/* re, im += a b */
INLINE void NAME(add_product)(V ar, V ai, V br, V bi, V *re, V *im) {
    *re = FMA(ar, br, *re);
    *im = FMA(ar, bi, *im);
    *re = FNMA(ai, bi, *re);
    *im = FMA(ai, br, *im);
}

/* ng groups and nr rows at a time. */
INLINE void NAME(tile_groups)(const int ng, const int nr, const struct NAME(cell) * in,
                              const uint32_t *ti, struct NAME(cell) * out, const uint32_t *to,
                              const void *numbers, bool wide) {
    const struct NAME(cell) *w = numbers;
    const struct NAME(coef) *n = numbers;
    for (int v = 0; v < QR_LANES; v += W) {
        V xr[2][4] RAW, xi[2][4] RAW;
#pragma GCC unroll 2
        for (int g = 0; g < ng; g++) {
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) {
                xr[g][j] = LOAD(&in[ti[g * 4 + j]].re[v]);
                xi[g][j] = LOAD(&in[ti[g * 4 + j]].im[v]);
            }
        }
#pragma GCC unroll 4
        for (int first = 0; first < 4; first += nr) {
            V yr[2][2] RAW, yi[2][2] RAW;
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) {
#pragma GCC unroll 2
                for (int r = 0; r < nr; r++) {
                    int k = (first + r) * 4 + j;
                    V c = wide ? LOAD(&w[k].re[v]) : SET1(n->re[k]);
#pragma GCC unroll 2
                    for (int g = 0; g < ng; g++) {
                        yr[g][r] = j ? FMA(c, xr[g][j], yr[g][r]) : MUL(c, xr[g][j]);
                        yi[g][r] = j ? FMA(c, xi[g][j], yi[g][r]) : MUL(c, xi[g][j]);
                    }
                }
#pragma GCC unroll 2
                for (int r = 0; r < nr; r++) {
                    int k = (first + r) * 4 + j;
                    V c = wide ? LOAD(&w[k].im[v]) : SET1(n->im[k]);
#pragma GCC unroll 2
                    for (int g = 0; g < ng; g++) {
                        yr[g][r] = FNMA(c, xi[g][j], yr[g][r]);
                        yi[g][r] = FMA(c, xr[g][j], yi[g][r]);
                    }
                }
            }
#pragma GCC unroll 2
            for (int g = 0; g < ng; g++) {
#pragma GCC unroll 2
                for (int r = 0; r < nr; r++) {
                    STORE(&out[to[g * 4 + first + r]].re[v], yr[g][r]);
                    STORE(&out[to[g * 4 + first + r]].im[v], yi[g][r]);
                }
            }
        }
    }
}

INLINE void NAME(tile_all)(const struct NAME(cell) * in, const uint32_t *ti,
                           struct NAME(cell) * out, const uint32_t *to, size_t groups,
                           const void *numbers, bool wide) {
    size_t g = 0;
    if (W == QR_LANES) /* Two groups share the coefficients if there are enough registers. */
        for (; g + 2 <= groups; g += 2)
            NAME(tile_groups)(2, 1, in, ti + 4 * g, out, to + 4 * g, numbers, wide);
    for (; g < groups; g++) NAME(tile_groups)(1, 2, in, ti + 4 * g, out, to + 4 * g, numbers, wide);
}

static void NAME(tile)(const void *in, const uint32_t *ti, void *out, const uint32_t *to,
                       size_t groups, const void *numbers, bool wide) {
    if (wide) NAME(tile_all)(in, ti, out, to, groups, numbers, true);
    else NAME(tile_all)(in, ti, out, to, groups, numbers, false);
}

static void NAME(tile_cross)(const void *phi, const void *lambda, const uint32_t *at, size_t groups,
                             double (*acc)[QR_LANES]) {
    _Alignas(64) E sum[QR_CROSS][QR_LANES] RAW;
    const struct NAME(cell) *p = phi, *l = lambda;
    for (int v = 0; v < QR_LANES; v += W) {
        V a[QR_CROSS] RAW;
#pragma GCC unroll 16
        for (int k = 0; k < QR_CROSS; k++) a[k] = ZERO();
        for (size_t g = 0; g < groups; g++) {
            const size_t ix[4] = {at[4 * g], at[4 * g + 1], at[4 * g + 2], at[4 * g + 3]};
            NAME(cross_group)(p, l, ix, v, a);
        }
#pragma GCC unroll 16
        for (int k = 0; k < QR_CROSS; k++) STORE(&sum[k][v], a[k]);
    }
    NAME(add_sums)(sum, acc, QR_CROSS);
}

/* Computes four rows of out; the lanes of a multiply the cells of b. Each half of the terms is
 * summed separately: shorter chains lose fewer bits. */
INLINE void NAME(mix_rows)(const struct NAME(cell) * a, const struct NAME(cell) * b,
                           struct NAME(cell) * out, unsigned n, bool add) {
    for (int v = 0; v < QR_LANES; v += W) {
        V r[2][4] RAW, i[2][4] RAW;
#pragma GCC unroll 2
        for (int h = 0; h < 2; h++) {
#pragma GCC unroll 4
            for (int t = 0; t < 4; t++) r[h][t] = i[h][t] = ZERO();
            for (unsigned j = h ? n / 2 : 0; j < (h ? n : n / 2); j++) {
                V br = LOAD(&b[j].re[v]), bi = LOAD(&b[j].im[v]);
#pragma GCC unroll 4
                for (int t = 0; t < 4; t++) {
                    V x = SET1(a[t].re[j]), y = SET1(a[t].im[j]);
                    NAME(add_product)(x, y, br, bi, &r[h][t], &i[h][t]);
                }
            }
        }
#pragma GCC unroll 4
        for (int t = 0; t < 4; t++) {
            V re = ADD(r[0][t], r[1][t]), im = ADD(i[0][t], i[1][t]);
            STORE(&out[t].re[v], add ? ADD(LOAD(&out[t].re[v]), re) : re);
            STORE(&out[t].im[v], add ? ADD(LOAD(&out[t].im[v]), im) : im);
        }
    }
}

static void NAME(mix)(const void *a, const void *b, void *out, size_t rows, unsigned n, bool add) {
    const struct NAME(cell) *x = a;
    struct NAME(cell) *y = out;
    for (size_t z = 0; z < rows; z += 4) {
        if (add) NAME(mix_rows)(x + z, b, y + z, n, true);
        else NAME(mix_rows)(x + z, b, y + z, n, false);
    }
}

enum { NAME(COLUMNS) = W == QR_LANES ? 8 : 4 }; /* computed together */

/* One batch of rows, summed in E: sum[2k] real, sum[2k + 1] imaginary parts. */
INLINE void NAME(columns_batch)(const struct NAME(cell) * x, const struct NAME(cell) * y,
                                size_t rows, unsigned k0, E (*sum)[QR_LANES]) {
    for (int v = 0; v < QR_LANES; v += W) {
        V r[NAME(COLUMNS)] RAW, i[NAME(COLUMNS)] RAW;
#pragma GCC unroll 8
        for (int k = 0; k < NAME(COLUMNS); k++) r[k] = i[k] = ZERO();
        for (size_t z = 0; z < rows; z++) {
            V lr = LOAD(&y[z].re[v]), li = LOAD(&y[z].im[v]);
#pragma GCC unroll 8
            for (int k = 0; k < NAME(COLUMNS); k++) {
                V p = SET1(x[z].re[k0 + k]), q = SET1(x[z].im[k0 + k]);
                r[k] = FMA(p, lr, r[k]);
                i[k] = FMA(p, li, i[k]);
                r[k] = FMA(q, li, r[k]);
                i[k] = FNMA(q, lr, i[k]);
            }
        }
#pragma GCC unroll 8
        for (int k = 0; k < NAME(COLUMNS); k++) {
            STORE(&sum[2 * k][v], r[k]);
            STORE(&sum[2 * k + 1][v], i[k]);
        }
    }
}

static void NAME(columns)(const void *a, const void *b, size_t rows, unsigned n,
                          double (*acc)[QR_LANES]) {
    _Alignas(64) E sum[2 * NAME(COLUMNS)][QR_LANES] RAW;
    const struct NAME(cell) *x = a, *y = b;
    for (size_t z = 0; z < rows; z += QR_BATCH_ROWS)
        for (unsigned k0 = 0; k0 < n; k0 += NAME(COLUMNS)) {
            NAME(columns_batch)
            (x + z, y + z, rows - z < QR_BATCH_ROWS ? rows - z : QR_BATCH_ROWS, k0, sum);
            NAME(add_sums)(sum, acc + (size_t)2 * k0, 2 * NAME(COLUMNS));
        }
}

static void NAME(dense)(const void *phi, void *lambda, unsigned dim, unsigned flip,
                        const void *numbers, const void *weights) {
    const struct NAME(cell) *p = phi;
    struct NAME(cell) *l = lambda;
    const E *re = numbers, *im = re + (size_t)dim * dim, *weight = weights;
    for (unsigned i0 = 0; i0 < dim; i0 += 4)
        for (int v = 0; v < QR_LANES; v += W) {
            V r[4] RAW, i[4] RAW;
#pragma GCC unroll 4
            for (int t = 0; t < 4; t++) r[t] = i[t] = ZERO();
            const E *a = re + (size_t)i0 * dim, *b = im + (size_t)i0 * dim;
            for (unsigned j = 0; j < dim; j++) {
                V x = LOAD(&p[j ^ flip].re[v]), y = LOAD(&p[j ^ flip].im[v]);
#pragma GCC unroll 4
                for (int t = 0; t < 4; t++) {
                    V c = SET1(a[(size_t)t * dim + j]), s = SET1(b[(size_t)t * dim + j]);
                    NAME(add_product)(c, s, x, y, &r[t], &i[t]);
                }
            }
#pragma GCC unroll 4
            for (unsigned t = 0; t < 4; t++) {
                struct NAME(cell) *to = &l[(i0 + t) ^ flip];
                STORE(&to->re[v], weight ? FMA(LOAD(&weight[v]), r[t], LOAD(&to->re[v])) : r[t]);
                STORE(&to->im[v], weight ? FMA(LOAD(&weight[v]), i[t], LOAD(&to->im[v])) : i[t]);
            }
        }
}

/* One 2 x 2 tile of the density matrix over all sub-slices. */
INLINE void NAME(density_tile)(const struct NAME(cell) * p, unsigned bits, size_t slices,
                               unsigned flip_shift, unsigned i0, unsigned j0, E *sum) {
    for (int v = 0; v < QR_LANES; v += W) {
        V a[8] RAW;
#pragma GCC unroll 8
        for (int k = 0; k < 8; k++) a[k] = LOAD(&sum[k * QR_LANES + v]);
        for (size_t t = 0; t < slices; t++) {
            const struct NAME(cell) *q = p + (t << bits);
            unsigned flip = (unsigned)(t << flip_shift);
            V xr[2] RAW, xi[2] RAW;
#pragma GCC unroll 2
            for (unsigned u = 0; u < 2; u++) {
                xr[u] = LOAD(&q[(i0 + u) ^ flip].re[v]);
                xi[u] = LOAD(&q[(i0 + u) ^ flip].im[v]);
            }
#pragma GCC unroll 2
            for (unsigned w = 0; w < 2; w++) {
                V yr = LOAD(&q[(j0 + w) ^ flip].re[v]), yi = LOAD(&q[(j0 + w) ^ flip].im[v]);
#pragma GCC unroll 2
                for (unsigned u = 0; u < 2; u++) {
                    unsigned k = (u * 2 + w) * 2;
                    a[k] = FMA(xr[u], yr, a[k]);
                    a[k] = FMA(xi[u], yi, a[k]);
                    a[k + 1] = FMA(xi[u], yr, a[k + 1]);
                    a[k + 1] = FNMA(xr[u], yi, a[k + 1]);
                }
            }
        }
#pragma GCC unroll 8
        for (int k = 0; k < 8; k++) STORE(&sum[k * QR_LANES + v], a[k]);
    }
}

static void NAME(density)(const void *phi, unsigned bits, size_t slices, unsigned flip_shift,
                          void *sums) {
    E *sum = sums;
    for (unsigned i = 0; i < 1u << bits; i += 2)
        for (unsigned j = i; j < 1u << bits; j += 2, sum += 8 * QR_LANES)
            NAME(density_tile)(phi, bits, slices, flip_shift, i, j, sum);
}

static void NAME(collect)(void *sums, size_t n, double (*acc)[QR_LANES]) {
    NAME(add_sums)(sums, acc, (int)n);
    memset(sums, 0, n * QR_LANES * sizeof(E));
}

static void NAME(diagonal)(const void *phi, void *lambda, size_t cells, const void *numbers,
                           const void *weights, void *sums) {
    const struct NAME(cell) *p = phi;
    struct NAME(cell) *l = lambda;
    const E *o = numbers, *weight = weights;
    E *sum = sums;
    for (size_t z = 0; z < cells; z++)
        for (int v = 0; v < QR_LANES; v += W) {
            V x = LOAD(&p[z].re[v]), y = LOAD(&p[z].im[v]);
            if (sum) {
                V s = LOAD(&sum[z * QR_LANES + (size_t)v]);
                STORE(&sum[z * QR_LANES + (size_t)v], FMA(y, y, FMA(x, x, s)));
            }
            if (!l) continue;
            V c = SET1(o[z]);
            if (weight) c = MUL(c, LOAD(&weight[v]));
            STORE(&l[z].re[v], weight ? FMA(c, x, LOAD(&l[z].re[v])) : MUL(c, x));
            STORE(&l[z].im[v], weight ? FMA(c, y, LOAD(&l[z].im[v])) : MUL(c, y));
        }
}

/* The same tree as fold. */
static void NAME(fold_sums)(const void *sums, size_t n, const double scale[QR_LANES], double *ret) {
    NAME(d8) s0, s1;
    memcpy(&s0, scale, sizeof s0);
    memcpy(&s1, scale + 8, sizeof s1);
    const E *from = sums;
    for (size_t k = 0; k < n; k++, from += QR_LANES) {
        NAME(e8) lo, hi;
        memcpy(&lo, from, sizeof lo);
        memcpy(&hi, from + 8, sizeof hi);
        NAME(d8)
        t = __builtin_convertvector(lo, NAME(d8)) * s0 + __builtin_convertvector(hi, NAME(d8)) * s1;
        double u0 = t[0] + t[4], u1 = t[1] + t[5], u2 = t[2] + t[6], u3 = t[3] + t[7];
        ret[k] = (u0 + u2) + (u1 + u3);
    }
}

static void NAME(weighted_sum)(const void *sums, size_t n, const double *weights,
                               double ret[QR_LANES]) {
    const E *from = sums;
    for (int v = 0; v < QR_LANES; v += DW) {
        D z = DSET1(0);
        for (size_t k = 0; k < n; k++)
            z = DFMA(DSET1(weights[k]), DLOAD(&from[k * QR_LANES + (size_t)v]), z);
        DPUT(&ret[v], z);
    }
}

/* Computes m (b0 x b1) per lane, and its adjoint: sums in float64, rounded once. b: two 2x2
 * matrices, entry e of frame position f at (f * 4 + e) * 32, re[16], im[16]. */
static void NAME(encode)(const double *m, const double *b, void *ret) {
    struct NAME(cell) *forward = ret, *adjoint = forward + 16;
    for (int v = 0; v < QR_LANES; v += DW) {
        D pr[4][4] RAW, pi[4][4] RAW;
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
#pragma GCC unroll 4
            for (int c = 0; c < 4; c++) {
                const double *x = b + ((j >> 1) * 2 + (c >> 1)) * 32 + v,
                             *y = b + (4 + (j & 1) * 2 + (c & 1)) * 32 + v;
                D xr = DNUMBERS(x), xi = DNUMBERS(x + 16), yr = DNUMBERS(y), yi = DNUMBERS(y + 16);
                pr[j][c] = DFNMA(xi, yi, DMUL(xr, yr));
                pi[j][c] = DFMA(xi, yr, DMUL(xr, yi));
            }
        for (int r = 0; r < 4; r++)
            for (int c = 0; c < 4; c++) {
                D sr = DSET1(0), si = DSET1(0);
#pragma GCC unroll 4
                for (int j = 0; j < 4; j++) {
                    D ur = DSET1(m[r * 4 + j]), ui = DSET1(m[16 + r * 4 + j]);
                    sr = DFNMA(ui, pi[j][c], DFMA(ur, pr[j][c], sr));
                    si = DFMA(ui, pr[j][c], DFMA(ur, pi[j][c], si));
                }
                DSTORE(&forward[r * 4 + c].re[v], sr);
                DSTORE(&forward[r * 4 + c].im[v], si);
                DSTORE(&adjoint[c * 4 + r].re[v], sr);
                DSTORE(&adjoint[c * 4 + r].im[v], DFNMA(si, DSET1(1), DSET1(0)));
            }
    }
}

/* ---- tables of the first layer ---- */

static void NAME(apply_half)(const void *in, void *out, unsigned bits,
                             const struct qr_tile_target *at, const double *numbers) {
    struct NAME(walk) w = NAME(walk_of)(bits, at);
    uint64_t i = 0;
    for (size_t g = 0; g < w.n; g++, i = NAME(next_group)(&w, i)) {
        const struct NAME(cell) *x = (const struct NAME(cell) *)in + i;
        struct NAME(cell) *y = (struct NAME(cell) *)out + i;
        const size_t cell[4] = {0, w.sb, w.sa, w.sa + w.sb};
        for (int v = 0; v < QR_HALF_LANES; v += DW) {
            D xr[4] RAW, xi[4] RAW;
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) {
                xr[j] = DLOAD(&x[cell[j]].re[v]);
                xi[j] = DLOAD(&x[cell[j]].im[v]);
            }
#pragma GCC unroll 4
            for (int r = 0; r < 4; r++) {
                D yr = DSET1(0), yi = DSET1(0);
                const double *c = numbers + (size_t)r * 8 * QR_HALF_LANES + v;
#pragma GCC unroll 4
                for (int j = 0; j < 4; j++, c += 2 * QR_HALF_LANES) {
                    D cr = DNUMBERS(c), ci = DNUMBERS(c + QR_HALF_LANES);
                    yr = j ? DFMA(cr, xr[j], yr) : DMUL(cr, xr[j]);
                    yi = j ? DFMA(cr, xi[j], yi) : DMUL(cr, xi[j]);
                    yr = DFNMA(ci, xi[j], yr);
                    yi = DFMA(ci, xr[j], yi);
                }
                DSTORE(&y[cell[r]].re[v], yr);
                DSTORE(&y[cell[r]].im[v], yi);
            }
        }
    }
}

/* Two groups share the numbers if there are enough registers. */
INLINE void NAME(wide_groups)(const int ng, const struct NAME(cell) *const x[2],
                              struct NAME(cell) *const y[2], const size_t cell[4],
                              const struct NAME(wide) * w) {
    for (int v = 0; v < QR_LANES; v += DW) {
        D xr[2][4] RAW, xi[2][4] RAW;
#pragma GCC unroll 2
        for (int g = 0; g < ng; g++) {
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) {
                xr[g][j] = DLOAD(&x[g][cell[j]].re[v]);
                xi[g][j] = DLOAD(&x[g][cell[j]].im[v]);
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < 4; r++) {
            D yr[2] RAW, yi[2] RAW;
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) {
                D cr = DNUMBERS(&w[r * 4 + j].re[v]), ci = DNUMBERS(&w[r * 4 + j].im[v]);
#pragma GCC unroll 2
                for (int g = 0; g < ng; g++) {
                    yr[g] = j ? DFMA(cr, xr[g][j], yr[g]) : DMUL(cr, xr[g][j]);
                    yi[g] = j ? DFMA(cr, xi[g][j], yi[g]) : DMUL(cr, xi[g][j]);
                    yr[g] = DFNMA(ci, xi[g][j], yr[g]);
                    yi[g] = DFMA(ci, xr[g][j], yi[g]);
                }
            }
#pragma GCC unroll 2
            for (int g = 0; g < ng; g++) {
                DSTORE(&y[g][cell[r]].re[v], yr[g]);
                DSTORE(&y[g][cell[r]].im[v], yi[g]);
            }
        }
    }
}

static void NAME(apply_wide)(const void *in, void *out, unsigned bits,
                             const struct qr_tile_target *at, const double *numbers) {
    struct NAME(walk) w = NAME(walk_of)(bits, at);
    const struct NAME(wide) *c = (const void *)numbers;
    const size_t cell[4] = {0, w.sb, w.sa, w.sa + w.sb};
    uint64_t i = 0;
    for (size_t g = 0; g < w.n; g += W == QR_LANES ? 2 : 1) { /* At least two groups */
        uint64_t second = NAME(next_group)(&w, i);
        const struct NAME(cell) *const x[2] = {(const struct NAME(cell) *)in + i,
                                               (const struct NAME(cell) *)in + second};
        struct NAME(cell) *const y[2] = {(struct NAME(cell) *)out + i,
                                         (struct NAME(cell) *)out + second};
        NAME(wide_groups)(W == QR_LANES ? 2 : 1, x, y, cell, c);
        i = W == QR_LANES ? NAME(next_group)(&w, second) : second;
    }
}

static void NAME(repeat)(const void *from, void *to, size_t cells) {
    const struct NAME(cell) *x = from;
    struct NAME(cell) *y = to;
    const NAME(i16) lanes = {4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7};
    for (size_t i = 0; i < cells; i++) {
        NAME(e16) re, im;
        memcpy(&re, x[i].re, sizeof re);
        memcpy(&im, x[i].im, sizeof im);
        re = SHUFFLE(re, re, lanes);
        im = SHUFFLE(im, im, lanes);
        memcpy(y[i].re, &re, sizeof re);
        memcpy(y[i].im, &im, sizeof im);
    }
}

static void NAME(add_parts)(void *cells, size_t n, unsigned parts) {
    struct NAME(cell) *c = cells;
    for (size_t i = 0; i < n; i++)
        for (int v = 0; v < QR_LANES; v += W) {
            V re = LOAD(&c[i].re[v]), im = LOAD(&c[i].im[v]);
            for (unsigned k = 1; k < parts; k++) {
                re = ADD(re, LOAD(&c[k * n + i].re[v]));
                im = ADD(im, LOAD(&c[k * n + i].im[v]));
            }
            STORE(&c[i].re[v], re);
            STORE(&c[i].im[v], im);
        }
}

static void NAME(numbers_of_slices)(const void *table, size_t stride, const uint32_t *at,
                                    unsigned terms, void *forward, void *adjoint) {
    const E *from = table;
    struct NAME(cell) *x = forward, *y = adjoint;
    for (size_t l = 0; l < QR_LANES; l++, from += stride)
        for (size_t t = 0; t < terms; t++) {
            E re = from[at[t]], im = from[at[t] + QR_LANES];
            x[t].re[l] = re;
            x[t].im[l] = im;
            y[l].re[t] = re;
            y[l].im[t] = -im;
        }
}

static void NAME(table_of_slices)(const double (*sums)[QR_LANES], void *table, size_t stride,
                                  const uint32_t *at, unsigned terms) {
    E *to = table;
    for (size_t l = 0; l < QR_LANES; l++, to += stride)
        for (size_t t = 0; t < terms; t++) {
            to[at[t]] = (E)sums[2 * t][l];
            to[at[t] + QR_LANES] = (E)sums[2 * t + 1][l];
        }
}
