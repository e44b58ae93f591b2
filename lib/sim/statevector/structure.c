/* sim/statevector/structure.c — steps of plans by structure: one-qubit gates (rotations), products
 * of diagonal gates (phases), 4x4 matrices in single precision: their numbers, and their work on
 * one tile. Start reading at qr_structure_prepare(). */
#include <math.h>
#include <string.h>

#include "sim/statevector/statevector_impl.h"

enum {
    /* of the bits inside a tile, lanes first: these vary inside a row of phases; the others number
     * the rows */
    COLUMN_BITS = QR_LANE_BITS + QR_PHASE_BITS,
    COLUMNS = 1 << COLUMN_BITS,
    ROW_NUMBERS = 2 * QR_PHASE_CELLS,
    MOST_ROWS = 1 << (QR_TILE_BITS - QR_PHASE_BITS),
    /* where the numbers of a one-qubit cross matrix lie among those of the frame; two more on the
     * diagonal follow if the other qubit is not idle */
    CROSS_RE = 2,
    CROSS_IM = 3,
    CROSS_ZERO = 12,
    CROSS_ONE = 14,
    MOST_GROWTH = 32, /* gates until the state is scaled back: far from float32's range */
};

/* Below this, a number of modulus 1 at most is taken for 0 (eight roundings). */
#define NOISE 0x1p-50

static const struct qr_c64 one = {1, 0};

static struct qr_c64 c_mul(struct qr_c64 a, struct qr_c64 b) {
    return (struct qr_c64){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
static struct qr_c64 c_conj(struct qr_c64 a) { return (struct qr_c64){a.re, -a.im}; }
static double c_square(struct qr_c64 a) { return a.re * a.re + a.im * a.im; }

static size_t row_count(const struct qr_statevector *v) {
    return (size_t)1 << (v->tile_bits - QR_PHASE_BITS);
}

/* Sets, for each bit inside a row, the set of row bits that it has a pair with; returns the number
 * of factors of all columns: one for each of the row's values at these bits. */
static size_t column_masks(const struct qr_statevector *v, const struct qr_plan_step *st,
                           uint8_t ret[COLUMN_BITS]) {
    size_t n = 0;
    memset(ret, 0, COLUMN_BITS);
    for (uint32_t k = 0; k < st->n_gates; k++) {
        const uint8_t *bit = v->gates[st->first_gate + k].bit;
        unsigned low = bit[0] < bit[1] ? bit[0] : bit[1], high = bit[0] ^ bit[1] ^ low;
        if (low < COLUMN_BITS && high >= COLUMN_BITS && high < QR_INNER_BITS)
            ret[low] |= (uint8_t)(1u << (high - COLUMN_BITS));
    }
    for (unsigned a = 0; a < COLUMN_BITS; a++)
        if (ret[a]) n += (size_t)1 << __builtin_popcount(ret[a]);
    return n;
}

/* Collects the bits of x in mask into the lowest bits. */
static size_t compress(size_t x, unsigned mask) {
    size_t o = 0;
    for (unsigned k = 0; mask; mask &= mask - 1, k++)
        if (x & mask & -mask) o |= (size_t)1 << k;
    return o;
}

/* ---- buffers ---- */

void qr_structure_buffers(struct qr_buffers *r, struct qr_statevector_workspace *ws) {
    const struct qr_sim_plan *p = ws->head.plan;
    const struct qr_statevector *v = p->statevector;
    qr_buffers_take(r, "numbers", v->n_steps * sizeof *ws->step_scale, &ws->step_scale);
    qr_buffers_take(r, "numbers", v->n_numbers[QR_FUSED_ROTATION] * sizeof *ws->rotations,
                    &ws->rotations);
    qr_buffers_take(r, "numbers", v->n_numbers[QR_FUSED_MATRIX] * sizeof *ws->matrices,
                    &ws->matrices);
    qr_buffers_take(r, "numbers", v->n_numbers[QR_FUSED_PHASE] * sizeof *ws->phases, &ws->phases);
    for (size_t i = 0; i < v->n_steps; i++) {
        const struct qr_plan_step *st = &v->steps[i];
        if (st->kind != QR_FUSED_PHASE) continue;
        size_t rows = row_count(v);
        struct qr_phase_table unused, *t = ws->phases ? &ws->phases[st->numbers] : &unused;
        qr_buffers_take(r, "numbers", st->n_gates * sizeof *t->pairs, &t->pairs);
        qr_buffers_take(r, "numbers", rows * sizeof *t->rows, &t->rows);
        uint8_t masks[COLUMN_BITS];
        qr_buffers_take(r, "numbers", column_masks(v, st, masks) * sizeof *t->columns, &t->columns);
        qr_buffers_take(r, "numbers", QR_PHASE_CELLS * p->cell_bytes, &t->inside);
    }
}

void qr_structure_slot_buffers(struct qr_buffers *r, const struct qr_sim_plan *p,
                               struct qr_sweep_slot *s) {
    const struct qr_statevector *v = p->statevector;
    if (!v->n_numbers[QR_FUSED_PHASE]) return;
    qr_buffers_take(r, "tiles", row_count(v) * p->cell_bytes, &s->lanes);
    qr_buffers_take(r, "tiles", row_count(v) * ROW_NUMBERS * p->elem_bytes, &s->rows);
    qr_buffers_take(r, "tiles", QR_PARITY_MASKS * p->cell_bytes / 2, &s->parities);
}

/* ---- numbers ---- */

static struct qr_c64 entry(const double *narrow, int row, int column) {
    int at = row * 4 + column;
    return (struct qr_c64){narrow[at], narrow[16 + at]};
}

static double rounded(const struct qr_sim_plan *p, double x) {
    return p->precision == QR_DOUBLE ? x : (double)(float)x;
}

/* One of the square roots of a number of modulus 1. */
static struct qr_c64 unit_root(struct qr_c64 z) {
    bool left = z.re < 0;
    struct qr_c64 w = left ? (struct qr_c64){1 - z.re, -z.im} : (struct qr_c64){1 + z.re, z.im};
    double length = sqrt(c_square(w));
    struct qr_c64 root = {w.re / length, w.im / length};
    return left ? (struct qr_c64){-root.im, root.re} : root;
}

/* U = s ((a, -sign conj b), (b, sign conj a)) with s^2 = sign det U; a and b are not rounded. */
static struct qr_c64 rotation_factors(const double *narrow, double sign,
                                      double ret[QR_ROTATION_NUMBERS]) {
    struct qr_c64 u00 = entry(narrow, 0, 0), u01 = entry(narrow, 0, 2), u10 = entry(narrow, 2, 0),
                  u11 = entry(narrow, 2, 2), d = c_mul(u00, u11), e = c_mul(u01, u10);
    struct qr_c64 s = unit_root((struct qr_c64){sign * (d.re - e.re), sign * (d.im - e.im)}),
                  back = c_conj(s);
    struct qr_c64 a0 = c_mul(back, u00), a1 = c_conj(c_mul(back, u11)), b0 = c_mul(back, u10),
                  b1 = c_conj(c_mul(back, u01));
    ret[0] = (a0.re + sign * a1.re) / 2;
    ret[1] = (a0.im + sign * a1.im) / 2;
    ret[2] = (b0.re - sign * b1.re) / 2;
    ret[3] = (b0.im - sign * b1.im) / 2;
    ret[4] = sign;
    for (int k = 0; k < 4; k++)
        if (fabs(ret[k]) < NOISE) ret[k] = 0;
    return s;
}

/* The number to divide by for a form with fewer operations; 0: there is none. It is the larger one
 * of two, so a gate multiplies the square of the norm by 2 at most. */
static double rotation_divisor(const double a[QR_ROTATION_NUMBERS]) {
    if (a[1] != 0 || (a[2] != 0 && a[3] != 0)) return 0;
    double b = a[2] != 0 ? a[2] : a[3];
    bool is_real = a[3] == 0;
    if (fabs(a[0]) >= fabs(b)) return a[4] == 1 || is_real ? a[0] : 0;
    return a[4] == 1 ? b : 0;
}

double qr_growth_scale(struct qr_growth *g) {
    double by = 1;
    while (g->norm * by * by >= 4) by /= 2;
    g->n_gates = 0;
    return by;
}

/* Rounded numbers give a matrix that is unitary up to the factor r: no rounding makes an operation
 * that is not unitary. */
void qr_rotation_set(const struct qr_sim_plan *p, const double *narrow, struct qr_growth *g,
                     double forward[QR_ROTATION_NUMBERS], double adjoint[QR_ROTATION_NUMBERS],
                     struct qr_c64 *ret_s) {
    double other[QR_ROTATION_NUMBERS];
    *ret_s = rotation_factors(narrow, 1, forward);
    double divisor = rotation_divisor(forward), scale = 1;
    if (divisor == 0) {
        struct qr_c64 s = rotation_factors(narrow, -1, other);
        divisor = rotation_divisor(other);
        if (divisor != 0) {
            memcpy(forward, other, sizeof other);
            *ret_s = s;
        }
    }
    if (divisor == 0 || g->n_gates == MOST_GROWTH) {
        divisor = 1;
        scale = qr_growth_scale(g);
    } else {
        g->n_gates++;
        if (divisor < 0) *ret_s = (struct qr_c64){-ret_s->re, -ret_s->im};
    }
    double square = 0;
    for (int k = 0; k < 4; k++) {
        forward[k] = rounded(p, forward[k] / divisor) * scale;
        square += forward[k] * forward[k];
    }
    g->norm *= square;
    /* -1 times the adjoint where that keeps b: both vectors have it. */
    enum qr_rotation_form form = qr_rotation_form(forward);
    double by = form == QR_ROTATION_REAL_B || form == QR_ROTATION_X_B ? -1 : 1;
    adjoint[0] = by * forward[0];
    adjoint[1] = by * -forward[1];
    adjoint[2] = by * -forward[4] * forward[2];
    adjoint[3] = by * -forward[4] * forward[3];
    adjoint[4] = forward[4];
}

/* A weight that is 0, or rounding noise beside the others, needs no number. */
uint8_t qr_rotation_wanted(const struct qr_sim_bound *b, const struct qr_plan_shape *s) {
    uint8_t wanted = 0;
    for (uint32_t j = s->first_derivative; j < s->first_derivative + s->n_derivatives; j++) {
        const double *w = b->weights + (size_t)j * QR_CROSS;
        double re = fabs(w[CROSS_RE]), im = fabs(w[CROSS_IM]),
               z = fabs(w[CROSS_ZERO]) + fabs(w[CROSS_ONE]), least = NOISE * (re + im + z);
        if (b->plan->derivatives[j].mixed) return QR_ROTATION_RE | QR_ROTATION_IM | QR_ROTATION_Z;
        if (re > least) wanted |= QR_ROTATION_RE;
        if (im > least) wanted |= QR_ROTATION_IM;
        if (z > least) wanted |= QR_ROTATION_Z;
    }
    return wanted;
}

/* The matrix of a gate of the step (qr_narrow_numbers). */
static const double *gate_matrix(const struct qr_sweep *r, const struct qr_plan_step *st,
                                 uint32_t k) {
    uint32_t shape = qr_step_gate(r->p, st, k)->shape, slot = r->p->shapes[shape].data_slot;
    return slot == QR_NO_SLOT ? r->b->narrow + (size_t)shape * QR_NARROW
                              : r->ws->narrow + (size_t)slot * QR_NARROW;
}

/* Writes n complex numbers in the amplitudes' precision: real parts, then imaginary parts. */
static void write_numbers(const struct qr_sim_plan *p, unsigned char *to, const struct qr_c64 *from,
                          size_t n) {
    for (size_t k = 0; k < n; k++) {
        qr_element_set(p, to, k, from[k].re);
        qr_element_set(p, to, n + k, from[k].im);
    }
}

/* Multiplies the entries of a table with these bits set. */
static void table_multiply(struct qr_c64 *table, size_t n, size_t bits, struct qr_c64 by) {
    for (size_t x = bits; x < n; x = (x + 1) | bits) table[x] = c_mul(table[x], by);
}

static void table_fill(struct qr_c64 *table, size_t n) {
    for (size_t x = 0; x < n; x++) table[x] = one;
}

/* Multiplies the table of the kind that a pair of bits inside the tile has. */
static void phase_pair(struct qr_phase_table *t, const uint8_t bit[2], size_t rows,
                       struct qr_c64 *inside, struct qr_c64 pair) {
    unsigned low = bit[0] < bit[1] ? bit[0] : bit[1], high = bit[0] ^ bit[1] ^ low;
    if (high < COLUMN_BITS) {
        table_multiply(inside, COLUMNS, (size_t)1 << low | (size_t)1 << high, pair);
        t->has_inside = true;
    } else if (low >= COLUMN_BITS) {
        size_t bits = (size_t)1 << (low - COLUMN_BITS) | (size_t)1 << (high - COLUMN_BITS);
        table_multiply(t->rows, rows, bits, pair);
        t->has_rows = true;
    } else {
        unsigned mask = t->column_rows[low];
        table_multiply(t->columns + t->first_column[low], (size_t)1 << __builtin_popcount(mask),
                       compress((size_t)1 << (high - COLUMN_BITS), mask), pair);
    }
}

static void phase_tables(const struct qr_sweep *r, const struct qr_plan_step *st, double scale) {
    const struct qr_sim_plan *p = r->p;
    struct qr_phase_table *t = &r->ws->phases[st->numbers];
    size_t rows = row_count(r->v);
    struct qr_c64 inside[COLUMNS];
    t->constant = (struct qr_c64){scale, 0};
    table_fill(t->single, sizeof t->single / sizeof *t->single);
    table_fill(t->rows, rows);
    table_fill(inside, COLUMNS);
    size_t n_columns = column_masks(r->v, st, t->column_rows);
    table_fill(t->columns, n_columns);
    t->lane_rows = t->cell_rows = 0;
    for (unsigned a = 0, first = 0; a < COLUMN_BITS; a++) {
        unsigned mask = t->column_rows[a];
        t->first_column[a] = (uint16_t)first;
        if (mask) first += 1u << __builtin_popcount(mask);
        *(a < QR_LANE_BITS ? &t->lane_rows : &t->cell_rows) |= mask;
    }
    t->has_rows = t->has_inside = false;
    for (uint32_t k = 0; k < st->n_gates; k++) {
        const uint8_t *bit = r->v->gates[st->first_gate + k].bit;
        const double *m = gate_matrix(r, st, k);
        struct qr_c64 d00 = entry(m, 0, 0), d01 = entry(m, 1, 1), d10 = entry(m, 2, 2),
                      d11 = entry(m, 3, 3);
        t->constant = c_mul(t->constant, d00);
        t->single[bit[0]] = c_mul(t->single[bit[0]], c_mul(d10, c_conj(d00)));
        if (qr_step_gate(p, st, k)->single) continue;
        t->single[bit[1]] = c_mul(t->single[bit[1]], c_mul(d01, c_conj(d00)));
        t->pairs[k] = c_mul(c_mul(d11, d00), c_conj(c_mul(d10, d01)));
        if (bit[0] < QR_OUTER_BIT && bit[1] < QR_OUTER_BIT)
            phase_pair(t, bit, rows, inside, t->pairs[k]);
    }
    for (size_t k = 0; k < QR_PHASE_CELLS; k++)
        write_numbers(p, t->inside + k * p->cell_bytes, inside + k * QR_LANES, QR_LANES);
}

static void matrix_set(const double *narrow, struct qr_single_matrix *ret) {
    for (int e = 0; e < 32; e++) {
        ret->forward[e] = (float)narrow[e];
        ret->adjoint[e] = (float)narrow[QR_NARROW / 2 + e];
    }
}

/* Multiplies *phase by what the numbers of the step leave out. */
static void rotation_numbers(const struct qr_sweep *r, const struct qr_plan_step *st,
                             struct qr_growth *g, struct qr_c64 *phase) {
    struct qr_rotation_numbers *t = &r->ws->rotations[st->numbers];
    for (uint32_t k = 0; k < st->n_gates; k++) {
        struct qr_c64 s;
        qr_rotation_set(r->p, gate_matrix(r, st, k), g, t->forward[k], t->adjoint[k], &s);
        *phase = c_mul(*phase, s);
        t->wanted[k] = qr_rotation_wanted(r->b, qr_step_shape(r->p, st, k));
    }
}

void qr_structure_prepare(const struct qr_sweep *r) {
    const struct qr_statevector *v = r->v;
    struct qr_statevector_workspace *ws = r->ws;
    struct qr_c64 phase = one;
    struct qr_growth growth[2] = {{.norm = 1}, {.norm = 1}};
    for (size_t i = 0; i < v->n_steps; i++) {
        const struct qr_plan_step *st = &v->steps[i];
        struct qr_growth *g = &growth[st->needs_adjoint];
        double before = g->norm;
        if (st->kind == QR_FUSED_PHASE) {
            double scale = qr_growth_scale(g);
            g->norm *= scale * scale;
            phase_tables(r, st, scale);
        }
        if (st->kind == QR_FUSED_ROTATION) rotation_numbers(r, st, g, &phase);
        if (st->kind == QR_FUSED_MATRIX && st->numbers != QR_NO_SLOT)
            matrix_set(gate_matrix(r, st, 0), &ws->matrices[st->numbers]);
        ws->step_scale[i] = g->norm / before;
    }
    /* Backward, the product of both vectors' norms is that of the final state, squared, times the
     * factor of each adjoint since. */
    double norm = growth[0].norm * growth[1].norm, back = norm, length = sqrt(norm);
    for (size_t i = v->n_steps; i-- > 0;) {
        double square = ws->step_scale[i];
        ws->step_scale[i] = 1 / back;
        if (v->steps[i].needs_adjoint) back *= square;
    }
    ws->factor = (struct qr_c64){phase.re / length, phase.im / length};
}

/* ---- one-qubit gates and exchanges of lanes ---- */

/* The sum over the lanes, as a fixed tree. */
static double lane_sum(const double v[QR_LANES]) {
    double s[QR_LANES / 2];
    for (int l = 0; l < 8; l++) s[l] = v[l] + v[l + 8];
    for (int l = 0; l < 4; l++) s[l] += s[l + 4];
    return (s[0] + s[2]) + (s[1] + s[3]);
}

/* With the sums locked */
static void structure_add(const struct qr_sweep *r, struct qr_sweep_slot *slot, uint32_t shape,
                          int number, double x) {
    qr_fixed f;
    if (qr_fixed_from_double(x, &f)) r->ws->cross[(size_t)shape * QR_CROSS + (size_t)number] += f;
    else slot->bad = true;
}

static double step_scale(const struct qr_sweep *r, const struct qr_plan_step *st) {
    return r->scale[0] * r->ws->step_scale[st - r->v->steps];
}

static void rotation_add(const struct qr_sweep *r, const struct qr_plan_step *st,
                         const struct qr_tile_qubits *at, struct qr_sweep_slot *slot) {
    double scale = step_scale(r, st);
    for (uint32_t k = 0; k < st->n_gates; k++) {
        uint32_t shape = qr_step_gate(r->p, st, k)->shape;
        const double(*sums)[QR_LANES] = (const double(*)[QR_LANES])at->acc + k * QR_ROTATION_CROSS;
        if (at->wanted[k] & QR_ROTATION_RE)
            structure_add(r, slot, shape, CROSS_RE, lane_sum(sums[0]) * scale);
        if (at->wanted[k] & QR_ROTATION_IM)
            structure_add(r, slot, shape, CROSS_IM, lane_sum(sums[1]) * scale);
        if (!(at->wanted[k] & QR_ROTATION_Z)) continue;
        double z = lane_sum(sums[2]) * scale / 2;
        structure_add(r, slot, shape, CROSS_ZERO, z);
        structure_add(r, slot, shape, CROSS_ONE, -z);
    }
}

/* A step of a chain, as the kernels take it. */
struct chain_step {
    const struct qr_plan_step *step;
    struct qr_tile_qubits qubits;
    uint16_t across[QR_LANE_BITS]; /* of an exchange */
    uint16_t groups[1 << (QR_TILE_BITS - 2)];
    _Alignas(64) double acc[2 * QR_ROTATION_CROSS][QR_LANES];
};
/* A chain on the blocks of a tile, one after the other. */
struct block_chain {
    const struct qr_kernels *kernels;
    const uint16_t *order;
    uint64_t block, first; /* bits of the cells of a block; its first cell */
    struct qr_tile_positions cells;
    uint16_t positions[1 << QR_TILE_BITS];
    unsigned n;
    struct chain_step steps[QR_CHAIN_STEPS];
};

/* Relative to that of cell 0 */
static uint16_t chain_position(const struct block_chain *c, uint64_t cell) {
    return c->order ? c->order[cell] ^ c->order[0] : (uint16_t)cell;
}

/* The positions of the cells with bits of `bits` alone. */
static struct qr_tile_positions chain_positions(const struct block_chain *c, uint64_t bits,
                                                uint16_t *ret) {
    size_t n = 0;
    uint64_t i = 0;
    do ret[n++] = chain_position(c, i);
    while ((i = ((i | ~bits) + 1) & bits));
    return (struct qr_tile_positions){.at = ret, .n = n};
}

static void chain_begin(const struct qr_sweep *r, const struct qr_plan_step *head, bool copies,
                        struct block_chain *c) {
    c->kernels = r->p->kernels;
    c->order = qr_step_order(r->p, head);
    c->block = head->block;
    c->first = 0;
    if (copies) c->cells = chain_positions(c, c->block, c->positions);
    c->n = 0;
}

static struct chain_step *chain_add(const struct qr_sweep *r, const struct qr_plan_step *st,
                                    struct qr_prefetch *prefetch, struct block_chain *c) {
    struct chain_step *to = &c->steps[c->n++];
    uint64_t bits = 0;
    to->step = st;
    to->qubits = (struct qr_tile_qubits){.n = (uint8_t)st->n_gates, .prefetch = prefetch};
    for (unsigned k = 0; st->transpose && k < QR_LANE_BITS; k++) {
        bits |= UINT64_C(1) << st->swap[k];
        to->across[k] = chain_position(c, UINT64_C(1) << st->swap[k]);
    }
    for (uint32_t k = 0; k < st->n_gates; k++) {
        uint64_t bit = UINT64_C(1) << r->v->gates[st->first_gate + k].bit[0];
        bits |= bit;
        to->qubits.across[k] = chain_position(c, bit);
    }
    if (st->n_gates == 1) { /* Two pairs are a group. */
        uint64_t others = c->block & ~bits, bit = others & -others;
        bits |= bit;
        to->qubits.across[1] = chain_position(c, bit);
    }
    to->qubits.groups = chain_positions(c, c->block & ~bits, to->groups);
    return to;
}

static void chain_step_numbers(struct chain_step *s, const double (*numbers)[QR_ROTATION_NUMBERS]) {
    s->qubits.numbers = numbers;
    for (unsigned k = 0; k < s->qubits.n; k++) s->qubits.form[k] = qr_rotation_form(numbers[k]);
}

/* False: there is no other block. */
static bool chain_next_block(const struct qr_sweep *r, struct block_chain *c) {
    uint64_t all = (UINT64_C(1) << r->v->tile_bits) - 1;
    c->first = ((c->first | c->block) + 1) & ~c->block & all;
    return c->first;
}
static void chain_set_origin(struct block_chain *c) {
    uint16_t origin = c->order ? c->order[c->first] : (uint16_t)c->first;
    c->cells.origin = origin;
    for (unsigned k = 0; k < c->n; k++) c->steps[k].qubits.groups.origin = origin;
}

static void chain_read(const struct block_chain *c, const struct qr_tile_copy *in,
                       unsigned char *cells) {
    c->kernels->gather(cells, in->state, in->base, in->offsets, &c->cells);
}
static void chain_write(const struct block_chain *c, const struct qr_tile_copy *out,
                        const unsigned char *cells) {
    c->kernels->scatter(out->state, cells, out->base, out->offsets, &c->cells);
}

void qr_chain_forward(const struct qr_sweep *r, const struct qr_plan_step *head,
                      unsigned char *cells, const struct qr_tile_copy *in,
                      const struct qr_tile_copy *out, struct qr_prefetch *prefetch) {
    struct block_chain c QR_RAW;
    chain_begin(r, head, in || out, &c);
    for (const struct qr_plan_step *st = head; st < head + head->n_chain; st++) {
        struct chain_step *s = chain_add(r, st, prefetch, &c);
        if (!st->transpose) chain_step_numbers(s, r->ws->rotations[st->numbers].forward);
    }
    do {
        chain_set_origin(&c);
        if (in) chain_read(&c, in, cells);
        for (struct chain_step *s = c.steps; s < c.steps + c.n; s++) {
            if (s->step->transpose) c.kernels->transpose(cells, &s->qubits.groups, s->across);
            else c.kernels->rotate(cells, &s->qubits);
        }
        if (out) chain_write(&c, out, cells);
    } while (chain_next_block(r, &c));
}

/* Adds the steps of a chain that both vectors need, the last one first. */
static void chain_add_backward(const struct qr_sweep *r, const struct qr_plan_step *head,
                               struct qr_prefetch *prefetch, struct block_chain *c) {
    for (const struct qr_plan_step *st = head + head->n_chain; st-- > head;) {
        if (!st->transpose && !st->cross && !st->needs_adjoint) continue;
        struct chain_step *s = chain_add(r, st, prefetch, c);
        if (st->transpose) continue;
        const struct qr_rotation_numbers *t = &r->ws->rotations[st->numbers];
        if (st->needs_adjoint) chain_step_numbers(s, t->adjoint);
        if (st->cross) memcpy(s->qubits.wanted, t->wanted, sizeof t->wanted);
        memset(s->acc, 0, sizeof s->acc);
        s->qubits.acc = s->acc;
    }
}

void qr_chain_backward(const struct qr_sweep *r, const struct qr_plan_step *head,
                       unsigned char *phi, unsigned char *lambda, const struct qr_tile_copy *in,
                       const struct qr_tile_copy *out, struct qr_prefetch *prefetch,
                       struct qr_sweep_slot *slot) {
    struct block_chain c QR_RAW;
    chain_begin(r, head, in || out, &c);
    chain_add_backward(r, head, prefetch, &c);
    do {
        chain_set_origin(&c);
        if (in) chain_read(&c, &in[0], phi);
        if (in) chain_read(&c, &in[1], lambda);
        for (struct chain_step *s = c.steps; s < c.steps + c.n; s++) {
            if (s->step->transpose) {
                c.kernels->transpose(phi, &s->qubits.groups, s->across);
                c.kernels->transpose(lambda, &s->qubits.groups, s->across);
            } else {
                c.kernels->rotate_back(phi, lambda, &s->qubits);
            }
        }
        if (out) chain_write(&c, &out[0], phi);
        if (out) chain_write(&c, &out[1], lambda);
    } while (chain_next_block(r, &c));
    qr_statevector_lock_sums(r);
    for (const struct chain_step *s = c.steps; s < c.steps + c.n; s++)
        if (!s->step->transpose) rotation_add(r, s->step, &s->qubits, slot);
    qr_statevector_unlock_sums(r);
}

/* ---- 4x4 matrices in single precision ---- */

/* Work in batches, so that cells are still in L1 when they are multiplied. */
static void matrix_batches(const struct qr_sweep *r, const struct qr_plan_step *st,
                           unsigned char *phi, unsigned char *lambda, const float *numbers,
                           struct qr_prefetch *prefetch, double (*acc)[QR_LANES]) {
    const struct qr_kernels *kernels = r->p->kernels;
    const uint32_t *at = r->v->groups + st->first_cell;
    for (size_t cells = (size_t)1 << r->v->tile_bits, i = 0; i < cells; i += 4 * QR_BATCH_GROUPS) {
        for (size_t k = 0; k < QR_BATCH_GROUPS; k++) qr_prefetch_cell(prefetch, r->p->cell_bytes);
        if (acc) kernels->tile_cross(phi, lambda, at + i, QR_BATCH_GROUPS, acc);
        if (!numbers) continue;
        kernels->tile(phi, at + i, phi, at + i, QR_BATCH_GROUPS, numbers, false);
        if (lambda) kernels->tile(lambda, at + i, lambda, at + i, QR_BATCH_GROUPS, numbers, false);
    }
}

/* The step's matrix, with the Pauli errors of this trajectory if it has any. */
static const struct qr_single_matrix *matrix_of(const struct qr_sweep *r,
                                                const struct qr_plan_step *st,
                                                struct qr_single_matrix *noisy) {
    const double *numbers = r->ws->noise ? qr_noise_numbers(r, st) : NULL;
    if (!numbers) return &r->ws->matrices[st->numbers];
    matrix_set(numbers, noisy);
    return noisy;
}

static void matrix_forward(const struct qr_sweep *r, const struct qr_plan_step *st,
                           unsigned char *cells, struct qr_prefetch *prefetch) {
    struct qr_single_matrix noisy;
    matrix_batches(r, st, cells, NULL, matrix_of(r, st, &noisy)->forward, prefetch, NULL);
}

static void matrix_backward(const struct qr_sweep *r, const struct qr_plan_step *st,
                            unsigned char *phi, unsigned char *lambda, struct qr_prefetch *prefetch,
                            struct qr_sweep_slot *slot) {
    struct qr_single_matrix noisy;
    _Alignas(64) double acc[QR_CROSS][QR_LANES] = {0};
    double sum[QR_CROSS];
    bool undone = qr_noise_is_undone(r, st);
    if (!st->cross && !undone) return;
    matrix_batches(r, st, phi, lambda, undone ? matrix_of(r, st, &noisy)->adjoint : NULL, prefetch,
                   st->cross ? acc : NULL);
    if (!st->cross) return;
    for (int k = 0; k < QR_CROSS; k++) sum[k] = lane_sum(acc[k]) * step_scale(r, st);
    if (st->noise_slot != QR_NO_SLOT) qr_noise_correct(r, st, NULL, sum, slot);
    qr_statevector_lock_sums(r);
    for (int k = 0; k < QR_CROSS; k++) structure_add(r, slot, st->shape, k, sum[k]);
    qr_statevector_unlock_sums(r);
}

/* ---- products of diagonal gates ---- */

/* Doubles a table of products: entries with the next bit set are those without, times `by`. */
static void table_double(struct qr_c64 *table, unsigned bit, struct qr_c64 by) {
    for (size_t x = 0, n = (size_t)1 << bit; x < n; x++) table[x + n] = c_mul(table[x], by);
}

/* The factors of the bits in one tile: of each bit inside it, and of those outside. */
static struct qr_c64 phase_of_tile(const struct qr_sweep *r, const struct qr_plan_step *st,
                                   uint64_t base, struct qr_c64 *single) {
    const struct qr_phase_table *t = &r->ws->phases[st->numbers];
    struct qr_c64 outside = t->constant;
    memcpy(single, t->single, QR_INNER_BITS * sizeof *single);
    for (uint64_t m = base; m; m &= m - 1)
        outside = c_mul(outside, t->single[QR_OUTER_BIT + __builtin_ctzll(m)]);
    for (uint32_t k = 0; k < st->n_gates; k++) {
        const uint8_t *bit = r->v->gates[st->first_gate + k].bit;
        unsigned a = bit[0], b = bit[1];
        if (qr_step_gate(r->p, st, k)->single || (a < QR_OUTER_BIT && b < QR_OUTER_BIT)) continue;
        if (a >= QR_OUTER_BIT && !(base >> (a - QR_OUTER_BIT) & 1)) continue;
        if (b >= QR_OUTER_BIT && !(base >> (b - QR_OUTER_BIT) & 1)) continue;
        struct qr_c64 *to = a < QR_OUTER_BIT   ? &single[a]
                            : b < QR_OUTER_BIT ? &single[b]
                                               : &outside;
        *to = c_mul(*to, t->pairs[k]);
    }
    return outside;
}

/* Multiplies by the phases of one tile; lambda NULL: forward. */
static void phase_apply(const struct qr_sweep *r, const struct qr_plan_step *st, uint64_t base,
                        unsigned char *phi, unsigned char *lambda, struct qr_sweep_slot *slot) {
    const struct qr_sim_plan *p = r->p;
    const struct qr_phase_table *t = &r->ws->phases[st->numbers];
    size_t rows = row_count(r->v);
    struct qr_c64 single[QR_INNER_BITS], row[MOST_ROWS];
    struct qr_phase_cells cells[MOST_ROWS] QR_RAW;
    double re[MOST_ROWS] QR_RAW, im[MOST_ROWS] QR_RAW;
    row[0] = phase_of_tile(r, st, base, single);
    for (unsigned b = 0; (size_t)1 << b < rows; b++) table_double(row, b, single[COLUMN_BITS + b]);
    for (size_t x = 0; x < rows; x++) {
        struct qr_c64 e[COLUMN_BITS], f = t->has_rows ? c_mul(row[x], t->rows[x]) : row[x],
                                      lanes[QR_LANES];
        bool new_lanes = !(x & ~t->lane_rows), new_cells = !(x & ~t->cell_rows);
        re[x] = f.re;
        im[x] = f.im;
        for (unsigned a = 0; a < COLUMN_BITS && (new_lanes || new_cells); a++)
            e[a] = t->column_rows[a]
                       ? c_mul(single[a],
                               t->columns[t->first_column[a] + compress(x, t->column_rows[a])])
                       : single[a];
        if (new_lanes) {
            lanes[0] = one;
            for (unsigned a = 0; a < QR_LANE_BITS; a++) table_double(lanes, a, e[a]);
            write_numbers(p, slot->lanes + x * p->cell_bytes, lanes, QR_LANES);
        }
        if (new_cells) {
            struct qr_c64 cell[QR_PHASE_CELLS] = {one};
            for (unsigned a = 0; a < QR_PHASE_BITS; a++) table_double(cell, a, e[QR_LANE_BITS + a]);
            for (size_t k = 0; k < QR_PHASE_CELLS; k++) {
                cells[x].re[k] = cell[k].re;
                cells[x].im[k] = cell[k].im;
            }
        }
    }
    p->kernels->phase_numbers(cells, t->cell_rows, re, im, rows, slot->rows);
    p->kernels->phase(phi, lambda, qr_step_order(p, st), rows, slot->lanes, t->lane_rows,
                      slot->rows, t->has_inside ? t->inside : NULL);
}

/* Sum over the tile of Im(phi conj(lambda)) with the signs of n bits. */
static double phase_parity(const struct qr_sweep *r, const struct qr_sweep_slot *slot,
                           uint64_t base, const uint8_t *bits, unsigned n) {
    unsigned lane_bits = 0, cell[2], n_cell = 0;
    bool minus = false;
    double v[QR_LANES];
    for (unsigned k = 0; k < n; k++) {
        unsigned b = bits[k];
        if (b >= QR_OUTER_BIT) minus ^= base >> (b - QR_OUTER_BIT) & 1;
        else if (b >= QR_LANE_BITS) cell[n_cell++] = b - QR_LANE_BITS;
        else lane_bits |= 1u << b;
    }
    size_t row = 0;
    if (n_cell) {
        unsigned a = cell[0], b = cell[n_cell - 1];
        row = a < b ? qr_parity_index(a, b) : qr_parity_index(b, a);
    }
    for (unsigned l = 0; l < QR_LANES; l++) {
        double x = qr_element(r->p, slot->parities, row * QR_LANES + l);
        v[l] = __builtin_parity(l & lane_bits) ? -x : x;
    }
    double sum = lane_sum(v);
    return minus ? -sum : sum;
}

/* The diagonal of the cross matrix of each gate, from sums over the bits' parities. */
static void phase_cross(const struct qr_sweep *r, const struct qr_plan_step *st, uint64_t base,
                        struct qr_sweep_slot *slot) {
    double scale = step_scale(r, st), all = phase_parity(r, slot, base, NULL, 0);
    qr_statevector_lock_sums(r);
    for (uint32_t k = 0; k < st->n_gates; k++) {
        const uint8_t *bit = r->v->gates[st->first_gate + k].bit;
        const struct qr_fused_gate *g = qr_step_gate(r->p, st, k);
        if (!r->p->shapes[g->shape].n_derivatives) continue;
        double a = phase_parity(r, slot, base, bit, 1), b = phase_parity(r, slot, base, bit + 1, 1),
               both = phase_parity(r, slot, base, bit, 2);
        structure_add(r, slot, g->shape, CROSS_ZERO, ((all + a) + (b + both)) / 4 * scale);
        structure_add(r, slot, g->shape, CROSS_ZERO + 1, ((all + a) - (b + both)) / 4 * scale);
        structure_add(r, slot, g->shape, CROSS_ONE, ((all - a) + (b - both)) / 4 * scale);
        structure_add(r, slot, g->shape, CROSS_ONE + 1, ((all - a) - (b - both)) / 4 * scale);
    }
    qr_statevector_unlock_sums(r);
}

static void phase_backward(const struct qr_sweep *r, const struct qr_plan_step *st, uint64_t base,
                           unsigned char *phi, unsigned char *lambda, struct qr_sweep_slot *slot) {
    if (st->cross) {
        r->p->kernels->parities(phi, lambda, qr_step_order(r->p, st), r->v->tile_bits,
                                slot->parities);
        phase_cross(r, st, base, slot);
    }
    if (st->needs_adjoint) phase_apply(r, st, base, phi, lambda, slot);
}

/* ---- one step ---- */

void qr_structure_forward(const struct qr_sweep *r, const struct qr_plan_step *st, uint64_t base,
                          unsigned char *cells, struct qr_prefetch *prefetch,
                          struct qr_sweep_slot *slot) {
    switch (st->kind) {
    case QR_FUSED_MATRIX: matrix_forward(r, st, cells, prefetch); break;
    case QR_FUSED_ROTATION: break; /* of a chain */
    case QR_FUSED_PHASE: phase_apply(r, st, base, cells, NULL, slot); break;
    case QR_FUSED_PERMUTATION:
        r->p->kernels->permute(cells, r->v->cycles + st->first_cell, st->n_cells, false);
        break;
    }
}

void qr_structure_backward(const struct qr_sweep *r, const struct qr_plan_step *st, uint64_t base,
                           unsigned char *phi, unsigned char *lambda, struct qr_prefetch *prefetch,
                           struct qr_sweep_slot *slot) {
    switch (st->kind) {
    case QR_FUSED_MATRIX: matrix_backward(r, st, phi, lambda, prefetch, slot); break;
    case QR_FUSED_ROTATION: break;
    case QR_FUSED_PHASE: phase_backward(r, st, base, phi, lambda, slot); break;
    case QR_FUSED_PERMUTATION:
        r->p->kernels->permute(phi, r->v->cycles + st->first_cell, st->n_cells, true);
        r->p->kernels->permute(lambda, r->v->cycles + st->first_cell, st->n_cells, true);
        break;
    }
}
