/* sim/kernels/kernel_template_impl.h — the source of every kernel; kernel_<isa>.c includes it per
 * element type. Start reading at NAME(apply) and NAME(cross).
 *
 * In: E (element), V (vector of E), W (its lanes), NAME(x), LOAD(p) STORE(p, v) SET1(e) ZERO() MUL
 *     ADD SUB
 *     FMA(a, b, c) = a b + c, FNMA(a, b, c) = c - a b, both with one rounding; DLOAD(p)
 *     DSTORE(p, v) from and to E as double; TABLE_NAME. For sums in float64, once for both types,
 *     the same with D in front: D (vector of double), DW (its lanes), DNUMBERS(p) DGET(p) DPUT(p,
 *     v) from and to double, the first aligned.
 * A cell is processed in 16 / W vectors; each lane's expression is the same for any W.
 * No include guard: the file is included more than once. */
#define INLINE static inline __attribute__((always_inline))
#define RAW QR_RAW

struct NAME(cell) {
    _Alignas(64) E re[QR_LANES];
    E im[QR_LANES];
};
struct NAME(narrow) {
    double re[16], im[16];
};
struct NAME(wide) {
    _Alignas(64) double re[QR_LANES];
    double im[QR_LANES];
};

/* Enumerates the groups of four cells that a 4x4 acts on: indices with the frame's bits zero and
 * the controls' bits equal to their values. */
struct NAME(walk) {
    uint64_t free;   /* bits that are counted: neither the frame's nor controls */
    uint64_t values; /* of the controls, the same in every index */
    /* offsets from the first cell of a group to those with the more or less significant frame bit
     * set */
    size_t sa, sb;
    size_t n; /* number of groups */
    struct qr_prefetch *prefetch;
};

INLINE struct NAME(walk) NAME(walk_of)(unsigned bits, const struct qr_tile_target *at) {
    uint64_t all = bits == 64 ? ~UINT64_C(0) : (UINT64_C(1) << bits) - 1;
    struct NAME(walk) w;
    w.sa = (size_t)1 << at->bit[0];
    w.sb = (size_t)1 << at->bit[1];
    w.free = all & ~(uint64_t)w.sa & ~(uint64_t)w.sb & ~at->controls;
    w.values = at->values;
    w.n = (size_t)1 << __builtin_popcountll(w.free);
    w.prefetch = at->prefetch;
    return w;
}
/* Adds 1 in the free bits: the other bits are 1 to pass the carry on, then 0 again. */
INLINE uint64_t NAME(next_group)(const struct NAME(walk) * w, uint64_t i) {
    return ((i | ~w->free) + 1) & w->free;
}

INLINE void NAME(prefetch_cell)(struct qr_prefetch *a) {
    if (a) qr_prefetch_cell(a, sizeof(struct NAME(cell)));
}

/* Sums are float64 and rounded once when stored; sim/planner.md has the reason. */
INLINE void NAME(apply_group)(struct NAME(cell) * c, size_t sa, size_t sb, const void *numbers,
                              bool wide) {
    struct NAME(cell) * q[4] = {c, c + sb, c + sa, c + sa + sb};
    const struct NAME(wide) *w = numbers;
    const struct NAME(narrow) *n = numbers;
    /* With 32 registers, sum all rows together: eight sums fill both multipliers. */
    const int rows = sizeof(D) == 64 ? 4 : 1;
    for (int v = 0; v < QR_LANES; v += DW) {
        D xr[4] RAW, xi[4] RAW;
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            xr[j] = DLOAD(&q[j]->re[v]);
            xi[j] = DLOAD(&q[j]->im[v]);
        }
#pragma GCC unroll 4
        for (int first = 0; first < 4; first += rows) {
            D yr[4] RAW, yi[4] RAW;
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) {
#pragma GCC unroll 4
                for (int r = first; r < first + rows; r++) {
                    D cr = wide ? DNUMBERS(&w[r * 4 + j].re[v]) : DSET1(n->re[r * 4 + j]);
                    yr[r] = j ? DFMA(cr, xr[j], yr[r]) : DMUL(cr, xr[j]);
                    yi[r] = j ? DFMA(cr, xi[j], yi[r]) : DMUL(cr, xi[j]);
                }
#pragma GCC unroll 4
                for (int r = first; r < first + rows; r++) {
                    D ci = wide ? DNUMBERS(&w[r * 4 + j].im[v]) : DSET1(n->im[r * 4 + j]);
                    yr[r] = DFNMA(ci, xi[j], yr[r]);
                    yi[r] = DFMA(ci, xr[j], yi[r]);
                }
            }
#pragma GCC unroll 4
            for (int r = first; r < first + rows; r++) {
                DSTORE(&q[r]->re[v], yr[r]);
                DSTORE(&q[r]->im[v], yi[r]);
            }
        }
    }
}

INLINE uint64_t NAME(apply_range)(struct NAME(cell) * c, const struct NAME(walk) * w,
                                  const void *numbers, bool wide, uint64_t i, size_t count) {
    for (size_t g = 0; g < count; g++, i = NAME(next_group)(w, i)) {
        NAME(prefetch_cell)(w->prefetch);
        NAME(apply_group)(c + (i | w->values), w->sa, w->sb, numbers, wide);
    }
    return i;
}

/* A matrix with one or two entries per row: CNOT, CZ, a gate beside an idle qubit, a control inside
 * the frame. Short rows are padded with a zero. */
struct NAME(sparse) {
    int n;            /* entries of the longest row: 1 or 2 */
    int column[4][2]; /* of a row's entries */
    double re[4][2], im[4][2];
};

/* Returns false if a row has more entries. */
INLINE bool NAME(sparse_of)(const struct NAME(narrow) * n, struct NAME(sparse) * ret) {
    memset(ret, 0, sizeof *ret);
    for (int r = 0; r < 4; r++) {
        int k = 0;
        for (int j = 0; j < 4; j++) {
            if (n->re[r * 4 + j] == 0 && n->im[r * 4 + j] == 0) continue;
            if (k == 2) return false;
            ret->column[r][k] = j;
            ret->re[r][k] = n->re[r * 4 + j];
            ret->im[r][k++] = n->im[r * 4 + j];
        }
        if (k > ret->n) ret->n = k;
    }
    return true;
}

INLINE void NAME(sparse_group)(struct NAME(cell) * c, size_t sa, size_t sb,
                               const struct NAME(sparse) * s, int n) {
    struct NAME(cell) * q[4] = {c, c + sb, c + sa, c + sa + sb};
    for (int v = 0; v < QR_LANES; v += DW) {
        D x[4][2] RAW;
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            x[j][0] = DLOAD(&q[j]->re[v]);
            x[j][1] = DLOAD(&q[j]->im[v]);
        }
#pragma GCC unroll 4
        for (int r = 0; r < 4; r++) {
            const D *y = x[s->column[r][0]];
            D cr = DSET1(s->re[r][0]), ci = DSET1(s->im[r][0]);
            D yr = DFNMA(ci, y[1], DMUL(cr, y[0])), yi = DFMA(ci, y[0], DMUL(cr, y[1]));
            if (n == 2) {
                y = x[s->column[r][1]];
                cr = DSET1(s->re[r][1]);
                ci = DSET1(s->im[r][1]);
                yr = DFNMA(ci, y[1], DFMA(cr, y[0], yr));
                yi = DFMA(ci, y[0], DFMA(cr, y[1], yi));
            }
            DSTORE(&q[r]->re[v], yr);
            DSTORE(&q[r]->im[v], yi);
        }
    }
}

INLINE uint64_t NAME(sparse_range)(struct NAME(cell) * c, const struct NAME(walk) * w,
                                   const struct NAME(sparse) * s, uint64_t i, size_t count) {
    if (s->n == 1)
        for (size_t g = 0; g < count; g++, i = NAME(next_group)(w, i))
            NAME(sparse_group)(c + (i | w->values), w->sa, w->sb, s, 1);
    else
        for (size_t g = 0; g < count; g++, i = NAME(next_group)(w, i))
            NAME(sparse_group)(c + (i | w->values), w->sa, w->sb, s, 2);
    return i;
}

/* A matrix with one entry per row, each 1 or -1 (CNOT, CZ, SWAP, X): only the cells that change are
 * written, and nothing is rounded. */
struct NAME(moves) {
    int n;              /* cells of a group that change */
    int from[4], to[4]; /* cell to[i] becomes sign[i] * cell from[i] */
    E sign[4];
};

INLINE bool NAME(moves_of)(const struct NAME(sparse) * s, struct NAME(moves) * ret) {
    ret->n = 0;
    for (int r = 0; r < 4; r++) {
        double re = s->re[r][0];
        if (s->n != 1 || s->im[r][0] != 0 || (re != 1 && re != -1)) return false;
        if (s->column[r][0] == r && re == 1) continue;
        ret->from[ret->n] = s->column[r][0];
        ret->to[ret->n] = r;
        ret->sign[ret->n++] = (E)re;
    }
    return true;
}

INLINE void NAME(move_group)(struct NAME(cell) * c, size_t sa, size_t sb,
                             const struct NAME(moves) * m, int n) {
    struct NAME(cell) * q[4] = {c, c + sb, c + sa, c + sa + sb};
    for (int v = 0; v < QR_LANES; v += W) {
        V x[4][2] RAW;
#pragma GCC unroll 4
        for (int k = 0; k < n; k++) {
            V sign = SET1(m->sign[k]);
            x[k][0] = MUL(sign, LOAD(&q[m->from[k]]->re[v]));
            x[k][1] = MUL(sign, LOAD(&q[m->from[k]]->im[v]));
        }
#pragma GCC unroll 4
        for (int k = 0; k < n; k++) {
            STORE(&q[m->to[k]]->re[v], x[k][0]);
            STORE(&q[m->to[k]]->im[v], x[k][1]);
        }
    }
}

INLINE uint64_t NAME(move_range)(struct NAME(cell) * c, const struct NAME(walk) * w,
                                 const struct NAME(moves) * m, int n, uint64_t i, size_t count) {
    for (size_t g = 0; g < count; g++, i = NAME(next_group)(w, i))
        NAME(move_group)(c + (i | w->values), w->sa, w->sb, m, n);
    return i;
}

/* A classified matrix: the cheapest form of its rows. */
enum NAME(row_form) { NAME(WIDE), NAME(DENSE), NAME(SPARSE), NAME(MOVES) };
struct NAME(matrix) {
    enum NAME(row_form) form;
    const void *numbers;
    struct NAME(sparse) sparse;
    struct NAME(moves) moves;
};

INLINE void NAME(classify)(const void *numbers, bool wide, struct NAME(matrix) * ret) {
    ret->numbers = numbers;
    if (wide) ret->form = NAME(WIDE);
    else if (!NAME(sparse_of)(numbers, &ret->sparse)) ret->form = NAME(DENSE);
    else ret->form = NAME(moves_of)(&ret->sparse, &ret->moves) ? NAME(MOVES) : NAME(SPARSE);
}

INLINE void NAME(multiply)(struct NAME(cell) * c, const struct NAME(walk) * w,
                           const struct NAME(matrix) * m, uint64_t i, size_t count) {
    const struct NAME(moves) *v = &m->moves;
    if (m->form == NAME(WIDE)) NAME(apply_range)(c, w, m->numbers, true, i, count);
    else if (m->form == NAME(DENSE)) NAME(apply_range)(c, w, m->numbers, false, i, count);
    else if (m->form == NAME(SPARSE)) NAME(sparse_range)(c, w, &m->sparse, i, count);
    else if (v->n == 1) NAME(move_range)(c, w, v, 1, i, count);
    else if (v->n == 2) NAME(move_range)(c, w, v, 2, i, count);
    else if (v->n > 2) NAME(move_range)(c, w, v, v->n, i, count);
}

static void NAME(apply)(void *cells, unsigned bits, const struct qr_tile_target *at,
                        const void *numbers, bool wide) {
    struct NAME(walk) w = NAME(walk_of)(bits, at);
    struct NAME(matrix) m RAW;
    NAME(classify)(numbers, wide, &m);
    NAME(multiply)(cells, &w, &m, 0, w.n);
}

/* K = M - M^adjoint, M_ij = sum phi_i conj(lambda_j), over one batch of groups; the sums are
 * added to float64 lanes. */
typedef E NAME(e8) __attribute__((vector_size(8 * sizeof(E))));
typedef double NAME(d8) __attribute__((vector_size(64)));

/* One group: the cells at ix[0..3]. */
INLINE void NAME(cross_group)(const struct NAME(cell) * p, const struct NAME(cell) * l,
                              const size_t ix[4], int v, V a[QR_CROSS]) {
    V pr[4] RAW, pi[4] RAW, lr[4] RAW, li[4] RAW;
    int k = 0;
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        pr[j] = LOAD(&p[ix[j]].re[v]);
        pi[j] = LOAD(&p[ix[j]].im[v]);
        lr[j] = LOAD(&l[ix[j]].re[v]);
        li[j] = LOAD(&l[ix[j]].im[v]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) {
#pragma GCC unroll 4
        for (int s = r + 1; s < 4; s++, k += 2) {
            a[k] = FMA(pr[r], lr[s], a[k]);
            a[k] = FMA(pi[r], li[s], a[k]);
            a[k] = FNMA(pr[s], lr[r], a[k]);
            a[k] = FNMA(pi[s], li[r], a[k]);
            a[k + 1] = FMA(pi[r], lr[s], a[k + 1]);
            a[k + 1] = FNMA(pr[r], li[s], a[k + 1]);
            a[k + 1] = FMA(pi[s], lr[r], a[k + 1]);
            a[k + 1] = FNMA(pr[s], li[r], a[k + 1]);
        }
    }
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) {
        a[12 + r] = FMA(pi[r], lr[r], a[12 + r]);
        a[12 + r] = FNMA(pr[r], li[r], a[12 + r]);
    }
}

/* Adds the sums of a batch to float64 lanes. */
INLINE void NAME(add_sums)(E (*sum)[QR_LANES], double (*acc)[QR_LANES], int n) {
    for (int k = 0; k < n; k++)
        for (int h = 0; h < QR_LANES; h += DW) {
            D t;
            memcpy(&t, &acc[k][h], sizeof t);
            DPUT(&acc[k][h], t + DLOAD(&sum[k][h]));
        }
}

INLINE uint64_t NAME(cross_batch)(const struct NAME(cell) * p, const struct NAME(cell) * l,
                                  const struct NAME(walk) * w, uint64_t start, size_t count,
                                  double (*acc)[QR_LANES]) {
    _Alignas(64) E sum[QR_CROSS][QR_LANES] RAW;
    uint64_t i = start;
    for (int v = 0; v < QR_LANES; v += W) {
        V a[QR_CROSS] RAW;
#pragma GCC unroll 16
        for (int k = 0; k < QR_CROSS; k++) a[k] = ZERO();
        i = start;
        for (size_t g = 0; g < count; g++, i = NAME(next_group)(w, i)) {
            size_t o = (size_t)(i | w->values);
            const size_t ix[4] = {o, o + w->sb, o + w->sa, o + w->sa + w->sb};
            NAME(cross_group)(p, l, ix, v, a);
        }
#pragma GCC unroll 16
        for (int k = 0; k < QR_CROSS; k++) STORE(&sum[k][v], a[k]);
    }
    NAME(add_sums)(sum, acc, QR_CROSS);
    return i;
}

/* Works in batches of QR_BATCH_GROUPS, so that the cells are still in L1 when the matrix is
 * applied. numbers NULL: no matrix. */
static uint64_t NAME(cross)(void *phi, void *lambda, unsigned bits, const struct qr_tile_target *at,
                            const void *numbers, bool wide, uint64_t start, size_t count,
                            double (*acc)[QR_LANES]) {
    struct NAME(walk) w = NAME(walk_of)(bits, at);
    struct NAME(matrix) m RAW;
    uint64_t i = start;
    if (numbers) NAME(classify)(numbers, wide, &m);
    for (size_t done = 0; done < count; done += QR_BATCH_GROUPS) {
        size_t batch = count - done < QR_BATCH_GROUPS ? count - done : QR_BATCH_GROUPS;
        uint64_t next = NAME(cross_batch)(phi, lambda, &w, i, batch, acc);
        if (numbers) {
            NAME(multiply)(phi, &w, &m, i, batch);
            NAME(multiply)(lambda, &w, &m, i, batch);
        }
        i = next;
    }
    return i;
}

/* Tree: lane l with l + 8, then + 4, + 2, + 1. Vector extensions without fused operations. */
static void NAME(fold)(const double (*acc)[QR_LANES], const double scale[QR_LANES],
                       double ret[QR_CROSS]) {
    NAME(d8) s0, s1;
    memcpy(&s0, scale, sizeof s0);
    memcpy(&s1, scale + 8, sizeof s1);
    for (int k = 0; k < QR_CROSS; k++) {
        NAME(d8) lo, hi;
        memcpy(&lo, &acc[k][0], sizeof lo);
        memcpy(&hi, &acc[k][8], sizeof hi);
        NAME(d8) t = lo * s0 + hi * s1;
        double u0 = t[0] + t[4], u1 = t[1] + t[5], u2 = t[2] + t[6], u3 = t[3] + t[7];
        ret[k] = (u0 + u2) + (u1 + u3);
    }
}

typedef __typeof__(__builtin_choose_expr(sizeof(E) == 4, 0, 0ll)) NAME(index);
/* clang shuffles by constants only; make fuzz and make lint-deep compile this file with clang. */
#ifdef __clang__
#define SHUFFLE(a, b, lanes)                                                                       \
    ({                                                                                             \
        __typeof__(a) put;                                                                         \
        int most = (int)(sizeof put / sizeof put[0]);                                              \
        for (int l = 0; l < most; l++)                                                             \
            put[l] = (lanes)[l] < most ? (a)[(lanes)[l]] : (b)[(lanes)[l] - most];                 \
        put;                                                                                       \
    })
#else
#define SHUFFLE(a, b, lanes) __builtin_shuffle((a), (b), (lanes))
#endif

#include "sim/kernels/kernel_readouts_template_impl.h"
#include "sim/kernels/kernel_structure_template_impl.h"

typedef E NAME(e16) __attribute__((vector_size(16 * sizeof(E))));
typedef NAME(index) NAME(i16) __attribute__((vector_size(16 * sizeof(E))));

/* Exchanges two halves of each square of 2h x 2h lanes; called with the largest squares first.
 * Shuffles in registers. */
typedef E NAME(part) __attribute__((vector_size(W * sizeof(E))));
typedef NAME(index) NAME(part_index) __attribute__((vector_size(W * sizeof(E))));
INLINE void NAME(swap_squares)(NAME(part) r[W], const int h) {
    NAME(part_index) keep, give;
#pragma GCC unroll 16
    for (int l = 0; l < W; l++) {
        keep[l] = l & h ? W + (l & ~h) : l;
        give[l] = l & h ? W + l : l | h;
    }
#pragma GCC unroll 16
    for (int i = 0; i < W; i++) {
        if (i & h) continue;
        NAME(part) x = SHUFFLE(r[i], r[i | h], keep);
        r[i | h] = SHUFFLE(r[i], r[i | h], give);
        r[i] = x;
    }
}

/* Lane `lane` of a row of 16 cells, at first ^ offsets[row]. */
INLINE E *NAME(row_at)(struct NAME(cell) * c, size_t offset, bool im, int lane) {
    return (im ? c[offset].im : c[offset].re) + lane;
}
/* Transposes W rows of W lanes in registers. Where a register is joined from parts in memory, which
 * costs no shuffle, squares of a part are exchanged so. */
INLINE void NAME(load_transposed)(struct NAME(cell) * c, size_t first, const size_t *offsets,
                                  bool im, int lane, NAME(part) r[W]) {
#ifdef JOIN
    enum { PART = 16 / sizeof(E), PARTS = W / PART };
#pragma GCC unroll 16
    for (int i = 0; i < W; i++) {
        const E *from[PARTS];
#pragma GCC unroll 4
        for (int j = 0; j < PARTS; j++)
            from[j] =
                NAME(row_at)(c, first ^ offsets[i % PART + j * PART], im, lane + i / PART * PART);
        r[i] = (NAME(part))JOIN(from);
    }
#else
    enum { PART = W };
#pragma GCC unroll 16
    for (int j = 0; j < W; j++)
        memcpy(&r[j], NAME(row_at)(c, first ^ offsets[j], im, lane), sizeof r[j]);
#endif
    if (PART > 8) NAME(swap_squares)(r, 8);
    if (PART > 4) NAME(swap_squares)(r, 4);
    if (PART > 2) NAME(swap_squares)(r, 2);
    if (PART > 1) NAME(swap_squares)(r, 1);
}
INLINE void NAME(store_rows)(struct NAME(cell) * c, size_t first, const size_t *offsets, bool im,
                             int lane, const NAME(part) r[W]) {
#pragma GCC unroll 16
    for (int j = 0; j < W; j++)
        memcpy(NAME(row_at)(c, first ^ offsets[j], im, lane), &r[j], sizeof r[j]);
}

/* 16 cells, at first ^ offsets[j], in squares of W x W lanes */
INLINE void NAME(transpose_cells)(struct NAME(cell) * c, size_t first,
                                  const size_t offsets[QR_LANES], bool im) {
#pragma GCC unroll 16
    for (int a = 0; a < QR_LANES; a += W)
#pragma GCC unroll 16
        for (int b = 0; b <= a; b += W) {
            NAME(part) x[W] RAW, y[W] RAW;
            NAME(load_transposed)(c, first, offsets + a, im, b, x);
            if (b < a) {
                NAME(load_transposed)(c, first, offsets + b, im, a, y);
                NAME(store_rows)(c, first, offsets + a, im, b, y);
            }
            NAME(store_rows)(c, first, offsets + b, im, a, x);
        }
}

static void NAME(transpose)(void *cells, const struct qr_tile_positions *groups,
                            const uint16_t across[QR_LANE_BITS]) {
    size_t offsets[QR_LANES] = {0};
    for (int k = 0; k < QR_LANE_BITS; k++)
        for (int j = 0; j < 1 << k; j++) offsets[j | 1 << k] = offsets[j] ^ across[k];
    for (size_t g = 0; g < groups->n; g++) {
        NAME(transpose_cells)(cells, groups->at[g] ^ groups->origin, offsets, false);
        NAME(transpose_cells)(cells, groups->at[g] ^ groups->origin, offsets, true);
    }
}

INLINE size_t NAME(place)(const struct qr_tile_positions *at, size_t k) {
    return at->at ? (size_t)(at->at[k] ^ at->origin) : k;
}
static void NAME(gather)(void *to, const void *from, uint64_t base, const uint64_t *offsets,
                         const struct qr_tile_positions *at) {
    struct NAME(cell) *t = to;
    const struct NAME(cell) *f = from;
    for (size_t k = 0; k < at->n; k++) {
        size_t p = NAME(place)(at, k);
        t[p] = f[offsets[p] ^ base];
    }
}
static void NAME(scatter)(void *to, const void *from, uint64_t base, const uint64_t *offsets,
                          const struct qr_tile_positions *at) {
    struct NAME(cell) *t = to;
    const struct NAME(cell) *f = from;
    for (size_t k = 0; k < at->n; k++) {
        size_t p = NAME(place)(at, k);
        t[offsets[p] ^ base] = f[p];
    }
}

#include "sim/kernels/kernel_stream_template_impl.h"
#include "sim/kernels/kernel_cones_template_impl.h"

#define TABLE                                                                                      \
    {                                                                                              \
        .name = TABLE_NAME, .apply = NAME(apply), .cross = NAME(cross), .fold = NAME(fold),        \
        .expect = NAME(expect), .observe = NAME(observe), .transpose = NAME(transpose),            \
        .gather = NAME(gather), .scatter = NAME(scatter), .tile = NAME(tile),                      \
        .tile_cross = NAME(tile_cross), .mix = NAME(mix), .columns = NAME(columns),                \
        .dense = NAME(dense), .density = NAME(density), .collect = NAME(collect),                  \
        .diagonal = NAME(diagonal), .apply_half = NAME(apply_half),                                \
        .apply_wide = NAME(apply_wide), .repeat = NAME(repeat), .add_parts = NAME(add_parts),      \
        .numbers_of_slices = NAME(numbers_of_slices), .table_of_slices = NAME(table_of_slices),    \
        .fold_sums = NAME(fold_sums), .weighted_sum = NAME(weighted_sum), .encode = NAME(encode),  \
        .rotate = NAME(rotate), .rotate_back = NAME(rotate_back), .phase = NAME(phase),            \
        .phase_numbers = NAME(phase_numbers), .parities = NAME(parities),                          \
        .permute = NAME(permute), .matmul = NAME(matmul), .lanes = NAME(lanes)                     \
    }
static const struct qr_kernels NAME(table) = TABLE;

#undef TABLE
#undef INLINE
#undef SHUFFLE
#undef RAW
#undef E
#undef V
#undef W
#undef NAME
#undef LOAD
#undef STORE
#undef SET1
#undef ZERO
#undef MUL
#undef ADD
#undef SUB
#undef FMA
#undef FNMA
#undef FMS
#undef DLOAD
#undef DSTORE
#undef JOIN
