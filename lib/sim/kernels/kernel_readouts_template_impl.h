/* sim/kernels/kernel_readouts_template_impl.h — Pauli strings that flip the same qubits: cells are
 * read, and their lanes exchanged, once for all of them. Part of kernel_template_impl.h, with its
 * macros.
 *
 * A sum adds the terms of one string in the order of cells; an amplitude adds the terms of the
 * strings in their order. Neither depends on the number of strings. */
enum { NAME(BLOCK) = 16 }; /* cells with products kept for all strings */

/* Exchanges the lanes of a cell by XOR: bit 3 by swapping halves, the others by shuffles in
 * registers. */
typedef E NAME(e8) __attribute__((vector_size(8 * sizeof(E))));
typedef NAME(index) NAME(i8) __attribute__((vector_size(8 * sizeof(E))));
INLINE void NAME(turn_half)(const E *from, unsigned x_lane, E *to) {
    NAME(e8) v;
    const NAME(i8) by4 = {4, 5, 6, 7, 0, 1, 2, 3}, by2 = {2, 3, 0, 1, 6, 7, 4, 5},
                   by1 = {1, 0, 3, 2, 5, 4, 7, 6};
    memcpy(&v, from, sizeof v);
    if (x_lane & 4) v = SHUFFLE(v, v, by4);
    if (x_lane & 2) v = SHUFFLE(v, v, by2);
    if (x_lane & 1) v = SHUFFLE(v, v, by1);
    memcpy(to, &v, sizeof v);
}
INLINE const struct NAME(cell) *
    NAME(turned_cell)(const struct NAME(cell) * c, unsigned x_lane, struct NAME(cell) * scratch) {
    if (!x_lane) return c;
    unsigned other = x_lane & QR_HALF_LANES;
#pragma GCC unroll 2
    for (unsigned h = 0; h < QR_LANES; h += QR_HALF_LANES) {
        NAME(turn_half)(&c->re[h ^ other], x_lane, &scratch->re[h]);
        NAME(turn_half)(&c->im[h ^ other], x_lane, &scratch->im[h]);
    }
    return scratch;
}

INLINE uint64_t NAME(cell_at)(const struct qr_pauli_string *at, uint64_t i) {
    return at->turned ? qr_cell_at(i) : i;
}

INLINE bool NAME(odd_parity)(uint64_t i) { return __builtin_popcountll(i) & 1; }

/* products[0]: for an even number of Y; products[1]: for an odd one. */
INLINE void NAME(products_of)(const struct NAME(cell) * p, uint64_t begin, size_t n,
                              const struct qr_pauli_string *at, const bool some[2],
                              E (*products)[NAME(BLOCK)][QR_LANES]) {
    for (size_t i = 0; i < n; i++) {
        struct NAME(cell) scratch RAW;
        const struct NAME(cell) *b = p + NAME(cell_at)(at, begin + i),
                                *a = NAME(turned_cell)(p + NAME(cell_at)(at, (begin + i) ^ at->x),
                                                       at->x_lane, &scratch);
        for (int v = 0; v < QR_LANES; v += W) {
            V ar = LOAD(&a->re[v]), ai = LOAD(&a->im[v]), br = LOAD(&b->re[v]),
              bi = LOAD(&b->im[v]);
            if (some[0]) STORE(&products[0][i][v], FMA(ai, bi, MUL(ar, br)));
            if (some[1]) STORE(&products[1][i][v], FNMA(ai, br, MUL(ar, bi)));
        }
    }
}

INLINE void NAME(add_products)(const E (*products)[QR_LANES], const E *signs, size_t n, E *sum) {
    V s[QR_LANES / W];
#pragma GCC unroll 16
    for (int v = 0; v < QR_LANES / W; v++) s[v] = LOAD(&sum[v * W]);
    for (size_t i = 0; i < n; i++) {
        V sign = SET1(signs[i]);
#pragma GCC unroll 16
        for (int v = 0; v < QR_LANES / W; v++) s[v] = FMA(LOAD(&products[i][v * W]), sign, s[v]);
    }
#pragma GCC unroll 16
    for (int v = 0; v < QR_LANES / W; v++) STORE(&sum[v * W], s[v]);
}

/* One string: its products stay in registers. */
INLINE void NAME(expect_one)(const struct NAME(cell) * p, size_t first, size_t count,
                             const struct qr_pauli_string *at, const bool odd_y, E *sum) {
    static const E one[2] = {1, -1};
    bool flip = at->n_y == 1 || at->n_y == 2;
    V s[QR_LANES / W];
#pragma GCC unroll 16
    for (int v = 0; v < QR_LANES / W; v++) s[v] = LOAD(&sum[v * W]);
    for (size_t i = first; i < first + count; i++) {
        struct NAME(cell) scratch RAW;
        const struct NAME(cell) *b = p + NAME(cell_at)(at, i),
                                *a = NAME(turned_cell)(p + NAME(cell_at)(at, i ^ at->x), at->x_lane,
                                                       &scratch);
        V sign = SET1(one[NAME(odd_parity)(i & at->z) ^ flip]);
#pragma GCC unroll 16
        for (int v = 0; v < QR_LANES / W; v++) {
            V ar = LOAD(&a->re[v * W]), ai = LOAD(&a->im[v * W]), br = LOAD(&b->re[v * W]),
              bi = LOAD(&b->im[v * W]);
            s[v] = FMA(odd_y ? FNMA(ai, br, MUL(ar, bi)) : FMA(ai, bi, MUL(ar, br)), sign, s[v]);
        }
    }
#pragma GCC unroll 16
    for (int v = 0; v < QR_LANES / W; v++) STORE(&sum[v * W], s[v]);
}

static void NAME(expect)(const void *phi, size_t first, size_t count,
                         const struct qr_pauli_string *at, size_t n, void *acc) {
    static const E one[2] = {1, -1};
    _Alignas(64) E products[2][NAME(BLOCK)][QR_LANES] RAW;
    E signs[NAME(BLOCK)] RAW, *sum = acc;
    bool some[2] = {false, false};
    if (n == 1 && at->n_y & 1) NAME(expect_one)(phi, first, count, at, true, sum);
    else if (n == 1) NAME(expect_one)(phi, first, count, at, false, sum);
    if (n == 1) return;
    for (size_t k = 0; k < n; k++) some[at[k].n_y & 1] = true;
    for (size_t begin = first; begin < first + count; begin += NAME(BLOCK)) {
        size_t left = first + count - begin, m = left < NAME(BLOCK) ? left : NAME(BLOCK);
        NAME(products_of)(phi, begin, m, at, some, products);
        for (size_t k = 0; k < n; k++) {
            bool flip = at[k].n_y == 1 || at[k].n_y == 2;
            for (size_t i = 0; i < m; i++)
                signs[i] = one[NAME(odd_parity)((begin + i) & at[k].z) ^ flip];
            NAME(add_products)
            ((const E(*)[QR_LANES])products[at[k].n_y & 1], signs, m, sum + k * QR_LANES);
        }
    }
}

/* Rows of weights of a string, by the parity of a cell's bits in z. */
struct NAME(weights) {
    const E *re[2], *im[2];
};

INLINE void NAME(observe_strings)(struct NAME(cell) * to, const struct NAME(cell) * p, size_t first,
                                  size_t count, const struct qr_pauli_string *at, const size_t n,
                                  const struct NAME(weights) * w) {
    for (size_t i = first; i < first + count; i++) {
        struct NAME(cell) scratch RAW;
        const struct NAME(cell) *a =
            NAME(turned_cell)(p + NAME(cell_at)(at, i ^ at->x), at->x_lane, &scratch);
        struct NAME(cell) *o = to + NAME(cell_at)(at, i);
        V re[QR_LANES / W], im[QR_LANES / W];
#pragma GCC unroll 16
        for (int v = 0; v < QR_LANES / W; v++) {
            re[v] = LOAD(&o->re[v * W]);
            im[v] = LOAD(&o->im[v * W]);
        }
        for (size_t k = 0; k < n; k++) {
            bool odd = NAME(odd_parity)((i ^ at->x) & at[k].z), swap = at[k].n_y & 1;
            const E *c = w[k].re[odd], *d = w[k].im[odd], *x = swap ? a->im : a->re,
                    *y = swap ? a->re : a->im;
#pragma GCC unroll 16
            for (int v = 0; v < QR_LANES / W; v++) {
                re[v] = FMA(LOAD(&c[v * W]), LOAD(&x[v * W]), re[v]);
                im[v] = FMA(LOAD(&d[v * W]), LOAD(&y[v * W]), im[v]);
            }
        }
#pragma GCC unroll 16
        for (int v = 0; v < QR_LANES / W; v++) {
            STORE(&o->re[v * W], re[v]);
            STORE(&o->im[v * W], im[v]);
        }
    }
}

static void NAME(observe)(void *lambda, const void *phi, size_t first, size_t count,
                          const struct qr_pauli_string *at, size_t n, const void *weights) {
    struct NAME(weights) w[QR_RUN_MOST] RAW;
    for (size_t k = 0; k < n; k++) {
        const E *sign[2] = {(const E *)weights + k * QR_LANES,
                            (const E *)weights + (n + k) * QR_LANES};
        bool minus = at[k].n_y == 1 || at[k].n_y == 2, swap = at[k].n_y & 1;
        for (int odd = 0; odd < 2; odd++) {
            w[k].re[odd] = sign[odd != minus];
            w[k].im[odd] = sign[(odd != minus) != swap];
        }
    }
    if (n == 1) NAME(observe_strings)(lambda, phi, first, count, at, 1, w);
    else NAME(observe_strings)(lambda, phi, first, count, at, n, w);
}
