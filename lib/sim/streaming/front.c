/* sim/streaming/front.c — the first layer of a sliced plan as a sum over products of a left and a
 * right table, the slices between them, and the backward sweep. sim/planner.md has a diagram. Start
 * reading at qr_front_run(). */
#include <string.h>

#include "base/mem.h"
#include "sim/streaming/streaming_impl.h"

static const double ones[QR_LANES] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

static void front_put(const struct qr_sim_plan *p, unsigned char *cells, size_t cell, unsigned lane,
                      struct qr_c64 v) {
    size_t at = cell * 2 * QR_LANES + lane;
    qr_element_set(p, cells, at, v.re);
    qr_element_set(p, cells, at + QR_LANES, v.im);
}

/* Product state of qubits first..first+n-1 with the CZ between them; the first qubit is the most
 * significant bit. */
static void front_product_state(const struct qr_stream *s, unsigned first, unsigned n,
                                double complex *ret) {
    ret[0] = 1;
    for (unsigned j = 0; j < n; j++) {
        const struct qr_c64 *v = s->state[first + j];
        double complex v0 = CMPLX(v[0].re, v[0].im), v1 = CMPLX(v[1].re, v[1].im);
        bool edge = j && (s->edges >> (first + j - 1) & 1);
        for (size_t x = (size_t)1 << j; x-- > 0;) { /* Downwards, because it works in place. */
            double complex a = ret[x];
            ret[2 * x + 1] = edge && (x & 1) ? -(a * v1) : a * v1;
            ret[2 * x] = a * v0;
        }
    }
}

static struct qr_c64 to_c64(double complex z, bool minus) {
    return minus ? (struct qr_c64){-creal(z), -cimag(z)} : (struct qr_c64){creal(z), cimag(z)};
}

/* Initial left table. Lanes: initial values of the qubits at the cut. */
static void front_start_left(const struct qr_sim_plan *plan, double complex *a, unsigned char *to) {
    const struct qr_stream *s = plan->stream;
    const struct qr_stream_front *f = &s->front;
    unsigned k = f->k;
    memset(to, 0, plan->cell_bytes << k);
    front_product_state(s, 0, f->centre_first ? k - 1 : k, a);
    for (size_t x = 0; x < (size_t)1 << k; x++) {
        unsigned q = (unsigned)(x >> (k - 1)), last = (unsigned)(x & 1);
        if (!f->centre_first) {
            front_put(plan, to, x, last * 2 + q, to_c64(a[x], false));
            continue;
        }
        bool edge = s->edges >> (k - 2) & 1;
        /* x holds the last source after the fused gate across the centre; b is its value before. */
        for (unsigned b = 0; b < 2; b++)
            front_put(plan, to, x, (last * 2 + b) * 2 + q,
                      to_c64(a[x >> 1], edge && b && (x >> 1 & 1)));
    }
}

/* Initial right chain; its lanes do not depend on the outcomes of the fused gates across the
 * cut. */
static void front_start_right(const struct qr_sim_plan *plan, double complex *a,
                              unsigned char *to) {
    const struct qr_stream *s = plan->stream;
    const struct qr_stream_front *f = &s->front;
    bool one_chain = qr_front_one_chain(f);
    unsigned k = f->k, m = f->m;
    unsigned lanes = f->centre_first ? f->terms / 2 : f->terms;
    /* First of the distinct lanes beside those of the left chain, and distance between them. */
    unsigned first = one_chain ? 4 : 0, step = one_chain ? 4 : 1;
    /* Neighbouring lanes that differ only in the inputs of the crossing gates. */
    unsigned group = (f->wrap ? 2 : 1) * (f->centre_first ? 1 : 2);
    /* The two CZ across the cut */
    bool centre = s->edges >> (k - 1) & 1, ring = s->edges >> (s->n - 1) & 1;
    if (!one_chain) memset(to, 0, plan->cell_bytes << f->right_bits);
    front_product_state(s, k, m, a);
    for (size_t z = 0; z < (size_t)1 << m; z++)
        for (unsigned lane = 0; lane < lanes; lane += step) {
            /* The values of the two sources at the CZ */
            unsigned first_source = lane / group & 1, last_source = lane / group >> 1;
            bool top = z >> (m - 1), bottom = z & 1;
            bool minus = (centre && last_source && top) != (ring && first_source && bottom);
            if (!f->centre_first) {
                front_put(plan, to, z, first + lane / step, to_c64(a[z], minus));
                continue;
            }
            /* The last source is part of the right chain. */
            const struct qr_c64 *v = &s->state[k - 1][last_source];
            front_put(plan, to, (size_t)last_source << m | z, lane,
                      to_c64(a[z] * CMPLX(v->re, v->im), minus));
        }
}

void qr_front_start(const struct qr_sim_plan *p, struct qr_stream_workspace *ws,
                    unsigned char *left, unsigned char *right) {
    front_start_left(p, ws->amplitudes, left);
    front_start_right(p, ws->amplitudes, qr_front_one_chain(&p->stream->front) ? left : right);
}

/* ---- chains: O(2^(n/2)), sums in float64 as in the statevector engine ---- */

struct chain {
    bool half; /* lanes 8-15 are zero */
    struct qr_front_gate *const *fused;
    const unsigned *n;
    unsigned bits;
    unsigned char *const *state;
    size_t first_number; /* offset in the numbers of fused gates with data */
};

static struct chain front_left_chain(const struct qr_stream_run *r) {
    const struct qr_stream_front *f = &r->s->front;
    return (struct chain){true, f->left, f->n_left, f->k, r->ws->left, 0};
}
static struct chain front_right_chain(const struct qr_stream_run *r) {
    const struct qr_stream_front *f = &r->s->front;
    return (struct chain){!qr_front_one_chain(f), f->right,     f->n_right,
                          f->right_bits,          r->ws->right, f->n_left[0] + f->n_left[1]};
}

static const double *chain_numbers(const struct qr_stream_run *r, const struct chain *c, unsigned h,
                                   unsigned i) {
    const struct qr_front_gate *b = &c->fused[h][i];
    if (b->data[0] < 0 && b->data[1] < 0) return r->b->narrow + (size_t)b->shape * QR_NARROW;
    return r->ws->narrow + (c->first_number + (h ? c->n[0] : 0) + i) * QR_NARROW;
}

/* Returns U (b0 x b1). */
struct qr_m4 qr_front_matrix(const struct qr_sim_bound *b, const struct qr_front_gate *at,
                             const double *encoding) {
    static const double one[8] = {1, 0, 0, 0, 0, 0, 1, 0};
    const double *e0 = at->data[0] < 0 ? one : encoding + (size_t)at->data[0] * 8;
    const double *e1 = at->data[1] < 0 ? one : encoding + (size_t)at->data[1] * 8;
    struct qr_m4 k;
    for (int x = 0; x < 4; x++)
        for (int y = 0; y < 4; y++) {
            const double *u = e0 + ((x >> 1) * 2 + (y >> 1)) * 2,
                         *v = e1 + ((x & 1) * 2 + (y & 1)) * 2;
            k.e[x * 4 + y] = (struct qr_c64){u[0] * v[0] - u[1] * v[1], u[0] * v[1] + u[1] * v[0]};
        }
    return qr_m4_mul(&b->suffix[at->shape], &k);
}

static void chain_encode(const struct qr_stream_run *r, const struct chain *c) {
    for (unsigned h = 0; h < 2; h++)
        for (unsigned i = 0; i < c->n[h]; i++) {
            const struct qr_front_gate *b = &c->fused[h][i];
            if (b->data[0] < 0 && b->data[1] < 0) continue;
            struct qr_m4 m = qr_front_matrix(r->b, b, r->ws->encoding);
            qr_narrow_numbers(&m, r->ws->narrow +
                                      (c->first_number + (h ? c->n[0] : 0) + i) * QR_NARROW);
        }
}

/* Writes the numbers `first` for lanes 0-3 and `second` for lanes 4-7. */
static void pack_half_numbers(const double *first, const double *second, double *ret) {
    for (size_t e = 0; e < 32; e++, ret += QR_HALF_LANES) {
        double a = first[e / 2 + e % 2 * 16], b = second[e / 2 + e % 2 * 16];
        ret[0] = ret[1] = ret[2] = ret[3] = a;
        ret[4] = ret[5] = ret[6] = ret[7] = b;
    }
}

/* Lanes 0-3 by the gates of c, lanes 4-7 by those of other. */
static void chain_forward(const struct qr_stream_run *r, const struct chain *c,
                          const struct chain *other, const unsigned char *from) {
    _Alignas(64) double numbers[32 * QR_HALF_LANES] QR_RAW;
    for (unsigned h = 0; h < 2; h++)
        for (unsigned i = 0; i < c->n[h]; i++) {
            struct qr_tile_target at = {.bit = {c->fused[h][i].bit[0], c->fused[h][i].bit[1]}};
            pack_half_numbers(chain_numbers(r, c, h, i), chain_numbers(r, other, h, i), numbers);
            r->k->apply_half(from, c->state[h], c->bits, &at, numbers);
            from = c->state[h];
        }
}

static void front_cross(struct qr_stream_run *r, void *phi, void *lambda, unsigned bits,
                        const struct qr_tile_target *at, uint32_t shape) {
    struct qr_stream_slot *slot = &r->ws->slots[0];
    if (!r->p->shapes[shape].n_derivatives) return;
    size_t groups = (size_t)1 << (bits - 2);
    uint64_t next = 0;
    for (size_t done = 0; done < groups; done += QR_PIECE_GROUPS) {
        size_t n = groups - done < QR_PIECE_GROUPS ? groups - done : QR_PIECE_GROUPS;
        _Alignas(64) double acc[QR_CROSS][QR_LANES];
        double k[QR_CROSS];
        memset(acc, 0, sizeof acc);
        next = r->k->cross(phi, lambda, bits, at, NULL, false, next, n, acc);
        r->k->fold((const double(*)[QR_LANES])acc, ones, k);
        if (!qr_fixed_add_doubles(slot->cross + (size_t)shape * QR_CROSS, k, QR_CROSS))
            slot->bad = true;
    }
}

static void chain_undo(const struct qr_stream_run *r, const struct chain *c, unsigned h, unsigned i,
                       unsigned char *lambda) {
    const struct qr_front_gate *b = &c->fused[h][i];
    const double *adjoint = chain_numbers(r, c, h, i) + QR_NARROW / 2;
    struct qr_tile_target at = {.bit = {b->bit[0], b->bit[1]}};
    _Alignas(64) double numbers[32 * QR_HALF_LANES] QR_RAW;
    if (!c->half) {
        r->k->apply(lambda, c->bits, &at, adjoint, false);
        return;
    }
    pack_half_numbers(adjoint, adjoint, numbers);
    r->k->apply_half(lambda, lambda, c->bits, &at, numbers);
}

static void chain_backward(struct qr_stream_run *r, const struct chain *c, unsigned char *lambda) {
    for (unsigned h = 2; h-- > 0;) {
        for (unsigned i = 0; i < c->n[h]; i++) {
            struct qr_tile_target at = {.bit = {c->fused[h][i].bit[0], c->fused[h][i].bit[1]}};
            front_cross(r, c->state[h], lambda, c->bits, &at, c->fused[h][i].shape);
        }
        for (unsigned i = 0; h && i < c->n[h]; i++) chain_undo(r, c, h, i, lambda);
    }
}

/* ---- right table: fused gates across the cut, per outcome ---- */

static struct qr_tile_target crossing_target(const struct qr_stream_front *f) {
    return (struct qr_tile_target){.bit = {(uint8_t)(f->centre_first ? f->m : f->m - 1), 0}};
}

static void front_swap_terms(const struct qr_stream_run *r, unsigned char *chain,
                             unsigned char *table, bool to_table) {
    /* Value of the last source: cells of the chain, or the upper half of the table's terms. */
    const struct qr_stream_front *f = &r->s->front;
    size_t half = f->terms / 2, bytes = half * r->p->elem_bytes, line = QR_LANES * r->p->elem_bytes;
    for (size_t a = 0; a < 2; a++)
        for (size_t z = 0; z < (size_t)1 << f->m; z++) {
            unsigned char *x = chain + ((a << f->m) + z) * 2 * line,
                          *y = table + z * 2 * line + a * bytes;
            for (int c = 0; c < 2; c++, x += line, y += line)
                memcpy(to_table ? y : x, to_table ? x : y, bytes);
        }
}

/* Computes one variant, in the layout of the right chain, then of the table. */
static void front_build_variant(const struct qr_stream_run *r, unsigned v, unsigned char *chain,
                                unsigned char *table) {
    const struct qr_stream_front *f = &r->s->front;
    struct qr_tile_target at = crossing_target(f);
    if (f->variants == 1) memcpy(chain, r->ws->right[1], r->p->cell_bytes << f->right_bits);
    else
        r->k->apply_wide(r->ws->right[1], chain, f->right_bits, &at,
                         r->b->stream->wide + (size_t)v * QR_WIDE);
    if (f->centre_first) front_swap_terms(r, chain, table, true);
}

static void front_build_table(const struct qr_stream_run *r) {
    const struct qr_stream_front *f = &r->s->front;
    size_t chain = r->p->cell_bytes << f->right_bits, table = r->p->cell_bytes << f->m;
    for (unsigned v = 0; v < f->variants; v++)
        front_build_variant(r, v, r->ws->wide_table + v * chain,
                            r->ws->one_table ? r->ws->table : r->ws->table + v * table);
}

/* Returns lambda at the end of the right chain, computed from lambda of the table. */
static unsigned char *front_table_backward(struct qr_stream_run *r) {
    const struct qr_stream_front *f = &r->s->front;
    struct qr_stream_workspace *ws = r->ws;
    size_t chain = r->p->cell_bytes << f->right_bits, table = r->p->cell_bytes << f->m;
    unsigned m = f->m, bits = f->right_bits + (f->variants == 4 ? 2 : f->variants == 2 ? 1 : 0);
    struct qr_tile_target at = crossing_target(f);
    if (f->centre_first) {
        memset(ws->wide_grad, 0, f->variants * chain);
        for (unsigned v = 0; v < f->variants; v++)
            front_swap_terms(r, ws->wide_grad + v * chain, ws->table_grad + v * table, false);
    } else {
        struct qr_tile_target centre = {.bit = {(uint8_t)(bits - 1), (uint8_t)(m - 1)}};
        front_cross(r, ws->wide_table, ws->wide_grad, bits, &centre, f->centre);
    }
    if (f->wrap) {
        struct qr_tile_target around = {.bit = {(uint8_t)f->right_bits, 0}};
        front_cross(r, ws->wide_table, ws->wide_grad, bits, &around, f->around);
    }
    for (unsigned v = 0; v < f->variants; v++) {
        unsigned char *from = ws->wide_grad + v * chain;
        if (f->variants > 1)
            r->k->apply_wide(from, from, f->right_bits, &at,
                             r->b->stream->wide + (size_t)v * QR_WIDE + QR_WIDE / 2);
    }
    r->k->add_parts(ws->wide_grad, (size_t)1 << f->right_bits, f->variants);
    return ws->wide_grad;
}

/* ---- slices ---- */

/* Sets ret to the offsets of a slice's terms in the left table; returns the distance between
 * slices. Both in numbers. */
static size_t left_table_offsets(const struct qr_stream_front *f, uint32_t ret[QR_LANES]) {
    const uint32_t cell = 2 * QR_LANES;
    for (unsigned t = 0; t < f->terms; t++) {
        /* Input of the ring's last gate: the table's top bit */
        uint32_t first_source = f->wrap ? (uint32_t)(t & 1) << (f->k - 1) : 0;
        uint32_t rest = f->wrap ? t >> 1 : t;
        /* Input of the centre's gate: the lowest bit, unless that gate came first */
        uint32_t last_source = rest & 1;
        if (f->centre_first) ret[t] = first_source * cell + rest;
        else ret[t] = (first_source | last_source) * cell + (rest >> 1);
    }
    return f->centre_first ? cell : 2 * cell;
}

static void front_load_coefficients(const struct qr_stream_run *r, struct qr_stream_slot *slot,
                                    size_t chunk) {
    uint32_t at[QR_LANES];
    size_t stride = left_table_offsets(&r->s->front, at);
    r->k->numbers_of_slices(r->ws->left[1] + chunk * QR_LANES * stride * r->p->elem_bytes, stride,
                            at, r->s->front.terms, slot->mixing,
                            slot->mixing + QR_LANES * r->p->cell_bytes);
}

static bool front_add_fixed(const struct qr_stream_run *r, const unsigned char *from, size_t n,
                            qr_fixed *to) {
    enum { AT_ONCE = 64 };
    double x[AT_ONCE] QR_RAW;
    bool ok = true;
    for (size_t i = 0; i < n; i += AT_ONCE) {
        size_t many = n - i < AT_ONCE ? n - i : AT_ONCE;
        for (size_t j = 0; j < many; j++) x[j] = qr_element(r->p, from, i + j);
        ok &= qr_fixed_add_doubles(to + i, x, many);
    }
    return ok;
}

/* Derivatives by the coefficients of 16 slices: pieces of at most 1024 rows, or all variants in one
 * piece if they fit. */
static void front_left_derivative(const struct qr_stream_run *r, struct qr_stream_slot *slot,
                                  size_t chunk, const unsigned char *table) {
    const struct qr_stream_front *f = &r->s->front;
    size_t rows = (size_t)1 << f->m, numbers = (size_t)f->terms * 2 * QR_LANES,
           at = chunk * 2 * QR_LANES;
    if (!r->s->split) {
        r->k->columns(table, slot->lambda, rows, f->terms, r->ws->slice_grad + at);
        return;
    }
    double sums[2 * QR_LANES][QR_LANES];
    for (size_t z = 0; z < rows; z += QR_STREAM_PIECE_TERMS) {
        size_t n = rows - z < QR_STREAM_PIECE_TERMS ? rows - z : QR_STREAM_PIECE_TERMS;
        memset(sums, 0, sizeof sums);
        r->k->columns(table + z * r->p->cell_bytes, slot->lambda + z * r->p->cell_bytes, n,
                      f->terms, sums);
        /* Another variant's thread may work on this chunk. */
        pthread_mutex_t *lock = &r->ws->sum_lock[chunk % QR_STREAM_SUM_PARTS];
        pthread_mutex_lock(lock);
        if (!qr_fixed_add_doubles(r->ws->slice_sum + at * QR_LANES, &sums[0][0], numbers))
            slot->bad = true;
        pthread_mutex_unlock(lock);
    }
}

/* Runs one variant of a chunk with its coefficients loaded. add: add to the contents of right. */
static void front_run_chunk(struct qr_stream_run *r, struct qr_stream_slot *slot, size_t chunk,
                            unsigned variant, unsigned char *right, bool add) {
    const struct qr_stream_front *f = &r->s->front;
    const unsigned char *table =
        r->ws->table + (r->ws->one_table ? 0 : variant * (r->p->cell_bytes << f->m));
    unsigned char *in = slot->phi[0][0];
    size_t rows = (size_t)1 << f->m;
    uint64_t a = f->centre_first ? 0
                 : f->wrap       ? variant >> 1
                                 : variant,
             d = f->wrap ? variant & 1 : 0;
    uint64_t word = (uint64_t)chunk * QR_LANES | a << QR_FLIP_A | d << QR_FLIP_D;
    r->k->mix(table, slot->mixing, in, rows, f->terms, false);
    qr_stream_level(r, slot, 0, in, slot->lambda, word, true);
    if (!r->direction) return;
    front_left_derivative(r, slot, chunk, table);
    r->k->mix(slot->lambda, slot->mixing + QR_LANES * r->p->cell_bytes, right, rows, QR_LANES, add);
}

static void front_run_item(struct qr_stream_run *r, struct qr_stream_slot *slot, unsigned variant,
                           size_t item) {
    size_t first = item * r->s->item_chunks;
    unsigned char *right = slot->right
                               ? slot->right
                               : r->ws->table_grad + variant * (r->p->cell_bytes << r->s->front.m);
    for (size_t c = 0; c < r->s->item_chunks; c++) {
        front_load_coefficients(r, slot, first + c);
        front_run_chunk(r, slot, first + c, variant, right, c > 0);
    }
    qr_stream_flush(r, slot);
}

/* Small plans: all variants of a chunk, then the next; a piece spans several chunks. */
static void front_run_serial(struct qr_stream_run *r) {
    const struct qr_stream_front *f = &r->s->front;
    struct qr_stream_slot *slot = &r->ws->slots[0];
    size_t table = r->p->cell_bytes << f->m;
    for (size_t c = 0; c < f->n_slices / QR_LANES; c++) {
        front_load_coefficients(r, slot, c);
        for (unsigned v = 0; v < f->variants; v++)
            front_run_chunk(r, slot, c, v, r->ws->table_grad + v * table, c > 0);
    }
    qr_stream_flush(r, slot);
}

/* Adds the right derivative of an item to the integers, part by part; threads start at different
 * parts. */
static void front_sum_right(struct qr_stream_run *r, struct qr_stream_slot *slot) {
    struct qr_stream_workspace *ws = r->ws;
    size_t n = ((size_t)2 * QR_LANES << r->s->front.m) / QR_STREAM_SUM_PARTS,
           first = (size_t)(slot - ws->slots);
    for (size_t k = 0; k < QR_STREAM_SUM_PARTS; k++) {
        size_t i = (first + k) % QR_STREAM_SUM_PARTS;
        pthread_mutex_lock(&ws->sum_lock[i]);
        if (!front_add_fixed(r, slot->right + i * n * r->p->elem_bytes, n, ws->right_sum + i * n))
            slot->bad = true;
        pthread_mutex_unlock(&ws->sum_lock[i]);
    }
}

/* Items shared by all idle threads, each with its own slot. */
struct shared_items {
    struct qr_stream_run *run;
    unsigned variant; /* of the first item */
    size_t n, of_variant;
    atomic_size_t next;
};

static void front_run_items(void *ctx, size_t slot_index, unsigned worker) {
    (void)worker;
    struct shared_items *x = ctx;
    struct qr_stream_slot *slot = &x->run->ws->slots[slot_index];
    for (size_t i; (i = atomic_fetch_add_explicit(&x->next, 1, memory_order_relaxed)) < x->n;) {
        front_run_item(x->run, slot, x->variant + (unsigned)(i / x->of_variant), i % x->of_variant);
        if (slot->right && x->run->direction) front_sum_right(x->run, slot);
    }
}

static void front_share_out(struct qr_stream_run *r, unsigned first, unsigned n_variants) {
    size_t each = r->s->front.n_slices / QR_LANES / r->s->item_chunks,
           threads = qr_pool_size(r->pool);
    struct shared_items items = {
        .run = r, .variant = first, .n = n_variants * each, .of_variant = each};
    qr_pool_for(r->pool, threads < r->ws->n_slots ? threads : r->ws->n_slots, front_run_items,
                &items);
}

static void front_set_right(const struct qr_stream_run *r, unsigned variant, size_t numbers) {
    unsigned char *to = r->ws->table_grad + variant * numbers * r->p->elem_bytes;
    for (size_t i = 0; i < numbers; i++)
        qr_element_set(r->p, to, i, qr_fixed_to_double(r->ws->right_sum[i]));
}

/* Runs all slices of one variant; its table replaces that of the previous one. */
static void front_run_variant(struct qr_stream_run *r, unsigned variant) {
    size_t numbers = (size_t)2 * QR_LANES << r->s->front.m;
    front_build_variant(r, variant, r->s->front.centre_first ? r->ws->wide_grad : r->ws->table,
                        r->ws->table);
    if (r->direction) memset(r->ws->right_sum, 0, numbers * sizeof *r->ws->right_sum);
    front_share_out(r, variant, 1);
    if (r->direction) front_set_right(r, variant, numbers);
}

/* Returns lambda at the end of the left chain. */
static unsigned char *front_left_lambda(const struct qr_stream_run *r) {
    const struct qr_stream_front *f = &r->s->front;
    struct qr_stream_workspace *ws = r->ws;
    size_t all = f->n_slices * 2 * QR_LANES;
    double *grad = &ws->slice_grad[0][0];
    for (size_t i = 0; r->s->split && i < all; i++) grad[i] = qr_fixed_to_double(ws->slice_sum[i]);
    memset(ws->left_grad, 0, r->p->cell_bytes << f->k);
    uint32_t at[QR_LANES];
    size_t stride = left_table_offsets(f, at);
    for (size_t slice = 0; slice < f->n_slices; slice += QR_LANES)
        r->k->table_of_slices((const double(*)[QR_LANES])ws->slice_grad + slice * 2,
                              ws->left_grad + slice * stride * r->p->elem_bytes, stride, at,
                              f->terms);
    return ws->left_grad;
}

void qr_front_run(struct qr_stream_run *r, const double *x) {
    const struct qr_stream_front *f = &r->s->front;
    struct qr_stream_workspace *ws = r->ws;
    struct chain left = front_left_chain(r), right = front_right_chain(r);
    size_t chunks = f->n_slices / QR_LANES;
    bool one = qr_front_one_chain(f);
    qr_stream_encodings(r->s, x, 0, 1, ws->encoding);
    chain_encode(r, &left);
    chain_encode(r, &right);
    if (!ws->left_start) qr_front_start(r->p, ws, ws->left[0], ws->right[0]);
    chain_forward(r, &left, one ? &right : &left, ws->left_start ? ws->left_start : ws->left[0]);
    if (!one) chain_forward(r, &right, &right, ws->right_start ? ws->right_start : ws->right[0]);
    for (unsigned h = 0; h < 2 && one; h++)
        r->k->repeat(ws->left[h], ws->right[h], (size_t)1 << f->right_bits);
    if (!ws->one_table) front_build_table(r);
    if (r->direction && r->s->split)
        memset(ws->slice_sum, 0, chunks * QR_LANES * 2 * QR_LANES * sizeof *ws->slice_sum);
    else if (r->direction)
        memset(ws->slice_grad, 0, chunks * 2 * QR_LANES * sizeof *ws->slice_grad);
    if (!r->s->split) front_run_serial(r);
    else if (!ws->one_table) /* One item per variant: its sum stays in floating point. */
        front_share_out(r, 0, f->variants);
    else
        for (unsigned v = 0; v < f->variants; v++) front_run_variant(r, v);
    if (!r->direction) return;
    /* All variants, over the integers that are no longer needed. */
    if (ws->one_table) front_build_table(r);
    chain_backward(r, &right, front_table_backward(r));
    chain_backward(r, &left, front_left_lambda(r));
}
