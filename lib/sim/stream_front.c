/* sim/stream_front.c — the first layer of a sliced plan as a sum over products of a left and a right table, the slices in between,
 * and the way back. planner.md has the picture. */
#include <string.h>

#include "base/mem.h"
#include "sim/stream_run_impl.h"

static const double ones[QR_LANES] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

static void put(const struct qr_sim_plan *p, unsigned char *cells, size_t cell, unsigned lane, struct qr_c64 v) {
    size_t at = cell * 2 * QR_LANES + lane;
    if (p->opt.precision == QR_DOUBLE) {
        ((double *)(void *)cells)[at] = v.re;
        ((double *)(void *)cells)[at + QR_LANES] = v.im;
    } else {
        ((float *)(void *)cells)[at] = (float)v.re;
        ((float *)(void *)cells)[at + QR_LANES] = (float)v.im;
    }
}

static void copy_lane(const struct qr_sim_plan *p, unsigned char *to, size_t cell, unsigned lane, const unsigned char *from, size_t from_cell,
                      unsigned from_lane, bool conjugate) {
    size_t a = cell * 2 * QR_LANES + lane, b = from_cell * 2 * QR_LANES + from_lane;
    if (p->opt.precision == QR_DOUBLE) {
        double *x = (double *)(void *)to;
        const double *y = (const double *)(const void *)from;
        x[a] = y[b];
        x[a + QR_LANES] = conjugate ? -y[b + QR_LANES] : y[b + QR_LANES];
    } else {
        float *x = (float *)(void *)to;
        const float *y = (const float *)(const void *)from;
        x[a] = y[b];
        x[a + QR_LANES] = conjugate ? -y[b + QR_LANES] : y[b + QR_LANES];
    }
}

/* Product state of qubits first..first+n-1 with the CZ between them; the first is the most significant bit. */
static void product(const struct qr_stream *s, unsigned first, unsigned n, double complex *ret) {
    ret[0] = 1;
    for (unsigned j = 0; j < n; j++) {
        const struct qr_c64 *v = s->state[first + j];
        double complex v0 = CMPLX(v[0].re, v[0].im), v1 = CMPLX(v[1].re, v[1].im);
        bool edge = j && (s->edges >> (first + j - 1) & 1);
        for (size_t x = (size_t)1 << j; x-- > 0;) { /* downwards: in place */
            double complex a = ret[x];
            ret[2 * x + 1] = edge && (x & 1) ? -(a * v1) : a * v1;
            ret[2 * x] = a * v0;
        }
    }
}

static struct qr_c64 c64(double complex z, bool minus) {
    return minus ? (struct qr_c64){-creal(z), -cimag(z)} : (struct qr_c64){creal(z), cimag(z)};
}

/* The left table's start. Lanes: initial values of the qubits at the cut. */
static void start_left(const struct qr_sim_plan *plan, double complex *a, unsigned char *to) {
    const struct qr_stream *s = plan->stream;
    const struct qr_stream_front *f = &s->front;
    unsigned k = f->k;
    memset(to, 0, plan->cell_bytes << k);
    product(s, 0, f->centre_first ? k - 1 : k, a);
    for (size_t x = 0; x < (size_t)1 << k; x++) {
        unsigned q = (unsigned)(x >> (k - 1)), last = (unsigned)(x & 1);
        if (!f->centre_first) {
            put(plan, to, x, last * 2 + q, c64(a[x], false));
            continue;
        }
        bool edge = s->edges >> (k - 2) & 1;
        for (unsigned b = 0; b < 2; b++) /* the last source is as the block across the centre left it; before, it was b */
            put(plan, to, x, (last * 2 + b) * 2 + q, c64(a[x >> 1], edge && b && (x >> 1 & 1)));
    }
}

/* The right chain's start, the same lanes for every outcome of a block across the cut. */
static void start_right(const struct qr_sim_plan *plan, double complex *a, unsigned char *to) {
    const struct qr_stream *s = plan->stream;
    const struct qr_stream_front *f = &s->front;
    unsigned k = f->k, m = f->m, lanes = f->centre_first ? f->terms / 2 : f->terms;
    bool centre = s->edges >> (k - 1) & 1, ring = s->edges >> (s->n - 1) & 1;
    memset(to, 0, plan->cell_bytes << f->right_bits);
    product(s, k, m, a);
    for (size_t z = 0; z < (size_t)1 << m; z++)
        for (unsigned u = 0; u < lanes; u++) {
            unsigned per = f->wrap ? 2 : 1, q, p;
            if (f->centre_first) {
                q = u / per & 1;
                p = u / per >> 1;
            } else {
                q = u / (2 * per) & 1;
                p = u / (2 * per) >> 1;
            }
            bool minus = (centre && p && z >> (m - 1)) != (ring && q && (z & 1));
            if (!f->centre_first) {
                put(plan, to, z, u, c64(a[z], minus));
                continue;
            }
            const struct qr_c64 *v = s->state[k - 1];
            put(plan, to, (size_t)p << m | z, u, c64(a[z] * CMPLX(v[p].re, v[p].im), minus));
        }
}

void qr_front_start(const struct qr_sim_plan *p, struct qr_stream_workspace *ws, unsigned char *left, unsigned char *right) {
    start_left(p, ws->amplitudes, left);
    start_right(p, ws->amplitudes, right);
}

/* ---- chains: O(2^(n/2)), with the blocked engine's kernels ---- */

struct chain {
    struct qr_front_block *const *half;
    const unsigned *n;
    unsigned bits;
    unsigned char *const *state;
    size_t first_number; /* among the numbers of blocks with data */
};

static struct chain left_chain(const struct qr_stream_run *r) {
    const struct qr_stream_front *f = &r->s->front;
    return (struct chain){f->left, f->n_left, f->k, r->ws->left, 0};
}
static struct chain right_chain(const struct qr_stream_run *r) {
    const struct qr_stream_front *f = &r->s->front;
    return (struct chain){f->right, f->n_right, f->right_bits, r->ws->right, f->n_left[0] + f->n_left[1]};
}

static const double *chain_numbers(const struct qr_stream_run *r, const struct chain *c, unsigned h, unsigned i) {
    const struct qr_front_block *b = &c->half[h][i];
    if (b->data[0] < 0 && b->data[1] < 0) return r->b->narrow + (size_t)b->shape * QR_NARROW;
    return r->ws->narrow + (c->first_number + (h ? c->n[0] : 0) + i) * QR_NARROW;
}

/* U (b0 x b1) */
struct qr_m4 qr_front_matrix(const struct qr_sim_bound *b, const struct qr_front_block *at, const double *encoding) {
    static const double one[8] = {1, 0, 0, 0, 0, 0, 1, 0};
    const double *e0 = at->data[0] < 0 ? one : encoding + (size_t)at->data[0] * 8;
    const double *e1 = at->data[1] < 0 ? one : encoding + (size_t)at->data[1] * 8;
    struct qr_m4 k;
    for (int x = 0; x < 4; x++)
        for (int y = 0; y < 4; y++) {
            const double *u = e0 + ((x >> 1) * 2 + (y >> 1)) * 2, *v = e1 + ((x & 1) * 2 + (y & 1)) * 2;
            k.e[x * 4 + y] = (struct qr_c64){u[0] * v[0] - u[1] * v[1], u[0] * v[1] + u[1] * v[0]};
        }
    return qr_m4_mul(&b->suffix[at->shape], &k);
}

static void chain_encode(const struct qr_stream_run *r, const struct chain *c) {
    for (unsigned h = 0; h < 2; h++)
        for (unsigned i = 0; i < c->n[h]; i++) {
            const struct qr_front_block *b = &c->half[h][i];
            if (b->data[0] < 0 && b->data[1] < 0) continue;
            struct qr_m4 m = qr_front_matrix(r->b, b, r->ws->encoding);
            qr_narrow_numbers(&m, r->ws->narrow + (c->first_number + (h ? c->n[0] : 0) + i) * QR_NARROW);
        }
}

static void chain_forward(const struct qr_stream_run *r, const struct chain *c) {
    for (unsigned h = 0; h < 2; h++) {
        if (h) memcpy(c->state[1], c->state[0], r->p->cell_bytes << c->bits);
        for (unsigned i = 0; i < c->n[h]; i++) {
            struct qr_place at = {.bit = {c->half[h][i].bit[0], c->half[h][i].bit[1]}};
            r->k->apply(c->state[h], c->bits, &at, chain_numbers(r, c, h, i), false);
        }
    }
}

static void cross(struct qr_stream_run *r, void *phi, void *lambda, unsigned bits, const struct qr_place *at, uint32_t shape) {
    struct qr_stream_slot *slot = &r->ws->slots[0];
    if (!r->p->shapes[shape].n_slopes) return;
    size_t groups = (size_t)1 << (bits - 2);
    uint64_t next = 0;
    for (size_t done = 0; done < groups; done += QR_PIECE_GROUPS) {
        size_t n = groups - done < QR_PIECE_GROUPS ? groups - done : QR_PIECE_GROUPS;
        _Alignas(64) double acc[QR_CROSS][QR_LANES];
        double k[QR_CROSS];
        memset(acc, 0, sizeof acc);
        next = r->k->cross(phi, lambda, bits, at, NULL, false, next, n, acc);
        r->k->fold((const double(*)[QR_LANES])acc, ones, k);
        if (!qr_fixed_add_doubles(slot->cross + (size_t)shape * QR_CROSS, k, QR_CROSS)) slot->bad = true;
    }
}

static void chain_backward(struct qr_stream_run *r, const struct chain *c, unsigned char *lambda) {
    for (unsigned h = 2; h-- > 0;) {
        for (unsigned i = 0; i < c->n[h]; i++) {
            struct qr_place at = {.bit = {c->half[h][i].bit[0], c->half[h][i].bit[1]}};
            cross(r, c->state[h], lambda, c->bits, &at, c->half[h][i].shape);
        }
        for (unsigned i = 0; h && i < c->n[h]; i++) {
            struct qr_place at = {.bit = {c->half[h][i].bit[0], c->half[h][i].bit[1]}};
            r->k->apply(lambda, c->bits, &at, chain_numbers(r, c, h, i) + QR_NARROW / 2, false);
        }
    }
}

/* ---- the right table: blocks across the cut, by outcome ---- */

static struct qr_place wide_place(const struct qr_stream_front *f) {
    return (struct qr_place){.bit = {(uint8_t)(f->centre_first ? f->m : f->m - 1), 0}};
}

static void swap_terms(const struct qr_stream_run *r, unsigned char *chain, unsigned char *table, bool to_table) {
    /* the last source's value: cells of the chain, the upper half of the table's terms */
    const struct qr_stream_front *f = &r->s->front;
    size_t half = f->terms / 2, bytes = half * r->p->elem_bytes, line = QR_LANES * r->p->elem_bytes;
    for (size_t a = 0; a < 2; a++)
        for (size_t z = 0; z < (size_t)1 << f->m; z++) {
            unsigned char *x = chain + ((a << f->m) + z) * 2 * line, *y = table + z * 2 * line + a * bytes;
            for (int c = 0; c < 2; c++, x += line, y += line) memcpy(to_table ? y : x, to_table ? x : y, bytes);
        }
}

/* One variant: in the numbering of the right chain, then of the table. */
static void build_variant(const struct qr_stream_run *r, unsigned v, unsigned char *chain, unsigned char *table) {
    const struct qr_stream_front *f = &r->s->front;
    struct qr_place at = wide_place(f);
    memcpy(chain, r->ws->right[1], r->p->cell_bytes << f->right_bits);
    if (f->variants > 1) r->k->apply(chain, f->right_bits, &at, r->b->stream->wide + (size_t)v * QR_WIDE, true);
    if (f->centre_first) swap_terms(r, chain, table, true);
}

static void build_table(const struct qr_stream_run *r) {
    const struct qr_stream_front *f = &r->s->front;
    size_t chain = r->p->cell_bytes << f->right_bits, table = r->p->cell_bytes << f->m;
    for (unsigned v = 0; v < f->variants; v++)
        build_variant(r, v, r->ws->wide_table + v * chain, r->ws->one_table ? r->ws->table : r->ws->table + v * table);
}

/* lambda of the right chain's end, from that of the table. Returns it. */
static unsigned char *unbuild_table(struct qr_stream_run *r) {
    const struct qr_stream_front *f = &r->s->front;
    struct qr_stream_workspace *ws = r->ws;
    size_t chain = r->p->cell_bytes << f->right_bits, table = r->p->cell_bytes << f->m;
    unsigned m = f->m, bits = f->right_bits + (f->variants == 4 ? 2 : f->variants == 2 ? 1 : 0);
    struct qr_place at = wide_place(f);
    if (f->centre_first) {
        memset(ws->wide_grad, 0, f->variants * chain);
        for (unsigned v = 0; v < f->variants; v++) swap_terms(r, ws->wide_grad + v * chain, ws->table_grad + v * table, false);
    }
    if (!f->centre_first) {
        struct qr_place centre = {.bit = {(uint8_t)(bits - 1), (uint8_t)(m - 1)}};
        cross(r, ws->wide_table, ws->wide_grad, bits, &centre, f->centre);
    }
    if (f->wrap) {
        struct qr_place around = {.bit = {(uint8_t)f->right_bits, 0}};
        cross(r, ws->wide_table, ws->wide_grad, bits, &around, f->around);
    }
    for (unsigned v = 0; v < f->variants; v++) {
        unsigned char *from = ws->wide_grad + v * chain;
        if (f->variants > 1) r->k->apply(from, f->right_bits, &at, r->b->stream->wide + (size_t)v * QR_WIDE + QR_WIDE / 2, true);
        if (!v) continue;
        size_t n = chain / r->p->elem_bytes;
        if (r->p->opt.precision == QR_DOUBLE)
            for (size_t i = 0; i < n; i++) ((double *)(void *)ws->wide_grad)[i] += ((const double *)(const void *)from)[i];
        else
            for (size_t i = 0; i < n; i++) ((float *)(void *)ws->wide_grad)[i] += ((const float *)(const void *)from)[i];
    }
    return ws->wide_grad;
}

/* ---- slices ---- */

/* Slice and term to the left table's cell and lane. */
static void left_at(const struct qr_stream_front *f, size_t slice, unsigned term, size_t *cell, unsigned *lane) {
    size_t e = f->wrap ? (size_t)(term & 1) << (f->k - 1) : 0;
    unsigned t = f->wrap ? term >> 1 : term;
    if (f->centre_first) {
        *cell = e | slice;
        *lane = t;
    } else {
        *cell = e | slice << 1 | (t & 1);
        *lane = t >> 1;
    }
}

static void load_mixing(const struct qr_stream_run *r, struct qr_stream_slot *slot, size_t chunk) {
    const struct qr_stream_front *f = &r->s->front;
    unsigned char *there = slot->mixing, *back = there + QR_LANES * r->p->cell_bytes;
    for (unsigned l = 0; l < QR_LANES; l++)
        for (unsigned t = 0; t < f->terms; t++) {
            size_t cell;
            unsigned lane;
            left_at(f, chunk * QR_LANES + l, t, &cell, &lane);
            copy_lane(r->p, there, t, l, r->ws->left[1], cell, lane, false);
            copy_lane(r->p, back, l, t, r->ws->left[1], cell, lane, true);
        }
}

static bool add_fixed(const struct qr_stream_run *r, const unsigned char *from, size_t n, qr_fixed *to) {
    bool ok = true;
    for (size_t i = 0; i < n; i++) {
        double x = r->p->opt.precision == QR_DOUBLE ? ((const double *)(const void *)from)[i] : (double)((const float *)(const void *)from)[i];
        qr_fixed v;
        if (qr_fixed_from_double(x, &v)) to[i] += v;
        else ok = false;
    }
    return ok;
}

/* Derivatives of the 16 slices' coefficients: pieces of at most 1024 rows, or all variants in one when they fit. */
static void left_derivative(const struct qr_stream_run *r, struct qr_stream_slot *slot, size_t chunk, const unsigned char *table) {
    const struct qr_stream_front *f = &r->s->front;
    size_t rows = (size_t)1 << f->m, numbers = (size_t)f->terms * 2 * QR_LANES, at = chunk * 2 * QR_LANES;
    if (!r->s->split) {
        r->k->columns(table, slot->lambda, rows, f->terms, r->ws->slice_grad + at);
        return;
    }
    double sums[2 * QR_LANES][QR_LANES];
    for (size_t z = 0; z < rows; z += QR_STREAM_PIECE_TERMS) {
        size_t n = rows - z < QR_STREAM_PIECE_TERMS ? rows - z : QR_STREAM_PIECE_TERMS;
        memset(sums, 0, sizeof sums);
        r->k->columns(table + z * r->p->cell_bytes, slot->lambda + z * r->p->cell_bytes, n, f->terms, sums);
        if (!qr_fixed_add_doubles(r->ws->slice_sum + at * QR_LANES, &sums[0][0], numbers)) slot->bad = true;
    }
}

/* One variant of a chunk whose coefficients are loaded. */
static void run_chunk(struct qr_stream_run *r, struct qr_stream_slot *slot, size_t chunk, unsigned char *right) {
    const struct qr_stream_front *f = &r->s->front;
    const unsigned char *table = r->ws->table + (r->ws->one_table ? 0 : r->variant * (r->p->cell_bytes << f->m));
    unsigned char *in = slot->phi[0][0];
    size_t rows = (size_t)1 << f->m;
    uint64_t a = f->centre_first ? 0 : f->wrap ? r->variant >> 1 : r->variant, d = f->wrap ? r->variant & 1 : 0;
    uint64_t word = (uint64_t)chunk * QR_LANES | a << QR_FLIP_A | d << QR_FLIP_D;
    r->k->mix(table, slot->mixing, in, rows, f->terms, false);
    qr_stream_level(r, slot, 0, in, slot->lambda, word, true);
    if (!r->direction) return;
    left_derivative(r, slot, chunk, table);
    r->k->mix(slot->lambda, slot->mixing + QR_LANES * r->p->cell_bytes, right, rows, QR_LANES, true);
}

static void run_item(void *ctx, size_t i, unsigned worker) {
    (void)worker;
    struct qr_stream_run *r = ctx;
    struct qr_stream_slot *slot = &r->ws->slots[i];
    size_t first = (r->first_item + i) * r->s->item_chunks, rows = (size_t)1 << r->s->front.m;
    unsigned char *right = slot->right;
    if (!right) right = r->ws->table_grad + r->variant * rows * r->p->cell_bytes;
    else memset(right, 0, rows * r->p->cell_bytes);
    for (size_t c = 0; c < r->s->item_chunks; c++) {
        load_mixing(r, slot, first + c);
        run_chunk(r, slot, first + c, right);
    }
    qr_stream_flush(r, slot);
}

/* Small plans: all variants of a chunk, then the next; pieces go on from one to the other. */
static void run_serial(struct qr_stream_run *r) {
    const struct qr_stream_front *f = &r->s->front;
    struct qr_stream_slot *slot = &r->ws->slots[0];
    size_t table = r->p->cell_bytes << f->m;
    if (r->direction) memset(r->ws->table_grad, 0, f->variants * table);
    for (size_t c = 0; c < f->n_slices / QR_LANES; c++) {
        load_mixing(r, slot, c);
        for (r->variant = 0; r->variant < f->variants; r->variant++) run_chunk(r, slot, c, r->ws->table_grad + r->variant * table);
    }
    qr_stream_flush(r, slot);
}

enum { SUM_NUMBERS = 8192 }; /* of the right table's derivative, in one item */

static void sum_item(void *ctx, size_t i, unsigned worker) {
    (void)worker;
    struct qr_stream_run *r = ctx;
    for (unsigned s = 0; s < r->ws->n_slots; s++)
        if (r->ws->slots[s].right && r->ws->slots[s].terms[r->s->n_sets])
            if (!add_fixed(r, r->ws->slots[s].right + i * SUM_NUMBERS * r->p->elem_bytes, SUM_NUMBERS, r->ws->right_sum + i * SUM_NUMBERS))
                atomic_store(&r->ws->bad_sum, true);
}

static void take_right(const struct qr_stream_run *r, size_t numbers) {
    unsigned char *to = r->ws->table_grad + r->variant * numbers * r->p->elem_bytes;
    for (size_t i = 0; i < numbers; i++) {
        double x = qr_fixed_to_double(r->ws->right_sum[i]);
        if (r->p->opt.precision == QR_DOUBLE) ((double *)(void *)to)[i] = x;
        else ((float *)(void *)to)[i] = (float)x;
    }
}

/* All slices of one variant. Where there is one piece only, its sum stays as it is. */
static void run_variant(struct qr_stream_run *r) {
    const struct qr_stream_front *f = &r->s->front;
    size_t items = f->n_slices / QR_LANES / r->s->item_chunks, numbers = (size_t)2 * QR_LANES << f->m;
    size_t most = r->pool ? qr_pool_size(r->pool) : 1;
    if (most > r->ws->n_slots) most = r->ws->n_slots;
    if (items == 1) {
        memset(r->ws->table_grad + r->variant * numbers * r->p->elem_bytes, 0, numbers * r->p->elem_bytes);
        r->first_item = 0;
        run_item(r, 0, 0);
        return;
    }
    build_variant(r, r->variant, f->centre_first ? r->ws->wide_grad : r->ws->table, r->ws->table);
    if (r->direction) memset(r->ws->right_sum, 0, numbers * sizeof *r->ws->right_sum);
    for (r->first_item = 0; r->first_item < items; r->first_item += most) {
        size_t n = items - r->first_item < most ? items - r->first_item : most;
        for (size_t i = 0; i < r->ws->n_slots; i++) r->ws->slots[i].terms[r->s->n_sets] = i < n;
        qr_pool_for(n > 1 ? r->pool : NULL, n, run_item, r);
        if (r->direction) qr_pool_for(n > 1 ? r->pool : NULL, numbers / SUM_NUMBERS, sum_item, r);
    }
    if (r->direction) take_right(r, numbers);
}

/* lambda of the left chain's end. */
static unsigned char *left_lambda(const struct qr_stream_run *r) {
    const struct qr_stream_front *f = &r->s->front;
    struct qr_stream_workspace *ws = r->ws;
    size_t all = f->n_slices * 2 * QR_LANES;
    double *grad = &ws->slice_grad[0][0];
    for (size_t i = 0; r->s->split && i < all; i++) grad[i] = qr_fixed_to_double(ws->slice_sum[i]);
    memset(ws->left_grad, 0, r->p->cell_bytes << f->k);
    for (size_t slice = 0; slice < f->n_slices; slice++)
        for (unsigned t = 0; t < f->terms; t++) {
            size_t cell;
            unsigned lane;
            left_at(f, slice, t, &cell, &lane);
            const double *from = grad + (slice / QR_LANES * QR_LANES + t) * 2 * QR_LANES + slice % QR_LANES;
            put(r->p, ws->left_grad, cell, lane, (struct qr_c64){from[0], from[QR_LANES]});
        }
    return ws->left_grad;
}

void qr_front_run(struct qr_stream_run *r, const double *x) {
    const struct qr_stream_front *f = &r->s->front;
    struct qr_stream_workspace *ws = r->ws;
    struct chain left = left_chain(r), right = right_chain(r);
    size_t chunks = f->n_slices / QR_LANES;
    qr_stream_encodings(r->s, x, 0, 1, ws->encoding);
    chain_encode(r, &left);
    chain_encode(r, &right);
    if (ws->left_start) {
        memcpy(ws->left[0], ws->left_start, r->p->cell_bytes << f->k);
        memcpy(ws->right[0], ws->right_start, r->p->cell_bytes << f->right_bits);
    } else {
        qr_front_start(r->p, ws, ws->left[0], ws->right[0]);
    }
    chain_forward(r, &left);
    chain_forward(r, &right);
    if (!ws->one_table) build_table(r);
    if (r->direction && r->s->split) memset(ws->slice_sum, 0, chunks * QR_LANES * 2 * QR_LANES * sizeof *ws->slice_sum);
    else if (r->direction) memset(ws->slice_grad, 0, chunks * 2 * QR_LANES * sizeof *ws->slice_grad);
    if (!r->s->split) run_serial(r);
    for (r->variant = 0; r->s->split && r->variant < f->variants; r->variant++) run_variant(r);
    if (!r->direction) return;
    if (ws->one_table) build_table(r); /* all of them now, where the integers were */
    chain_backward(r, &right, unbuild_table(r));
    chain_backward(r, &left, left_lambda(r));
}
