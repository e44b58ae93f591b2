/* sim/streaming/levels.c — runs 16 slices (or samples) through convolutions and pools to the tail,
 * and lambda back. Start reading at qr_stream_level(). */
#include <string.h>

#include "base/mem.h"
#include "sim/streaming/streaming_impl.h"

static const double ones[QR_LANES] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/* The flip bits of the run's word select one of four variants. */
static const unsigned char *gate_coefficients(const struct qr_stream_run *r,
                                              const struct qr_stream_gate *b, uint64_t word,
                                              bool adjoint) {
    unsigned variant = (unsigned)(word >> b->flip[0] & 1) << 1 | (unsigned)(word >> b->flip[1] & 1);
    size_t size = b->wide ? QR_STREAM_WIDE : QR_STREAM_NARROW;
    const unsigned char *table =
        b->data[0] >= 0 || b->data[1] >= 0 ? r->ws->coefs : r->b->stream->coefs;
    return table + (b->coef + variant * size + (adjoint ? size / 2 : 0)) * r->p->elem_bytes;
}

/* The hardware prefetcher does not follow the strides of a tile. */
static void level_prefetch_tile(const struct qr_stream_set *set, size_t cell,
                                const unsigned char *state, size_t next) {
    if (!set->gathered || next >= set->n_bases) return;
    const unsigned char *from = state + set->bases[next] * cell;
    for (size_t x = 0; x < (size_t)1 << set->n_bits; x++)
        for (size_t line = 0; line < cell; line += 64)
            __builtin_prefetch(from + set->global[x] * cell + line, 0, 2);
}

/* Applies all fused gates of a set to all tiles, from one state to another (or in place). */
static void level_apply_set(struct qr_stream_run *r, struct qr_stream_slot *slot,
                            const struct qr_stream_set *set, const unsigned char *in,
                            unsigned char *out, uint64_t word, bool adjoint) {
    size_t cell = r->p->cell_bytes, step = (size_t)1 << set->n_bits, n = set->n_fused;
    const struct qr_stream_gate *gate = &r->s->fused[set->first_fused];
    for (size_t i = 0; i < set->n_bases; i++) {
        const unsigned char *from = in + set->bases[i] * cell;
        unsigned char *to = out + set->bases[i] * cell;
        level_prefetch_tile(set, cell, in, i + 1);
        if (in != out) level_prefetch_tile(set, cell, out, i + 1);
        for (size_t j = 0; j < n; j++) {
            const uint32_t *global = set->global + j * step, *local = set->local + j * step;
            const unsigned char *c = gate_coefficients(r, &gate[j], word, adjoint);
            if (!set->gathered)
                r->k->tile(j ? to : from, global, to, global, step / 4, c, gate[j].wide);
            else
                r->k->tile(j ? slot->tile : from, j ? local : global, j + 1 < n ? slot->tile : to,
                           j + 1 < n ? local : global, step / 4, c, gate[j].wide);
        }
    }
}

/* ---- pieces ---- */

static void level_end_cross(struct qr_stream_run *r, struct qr_stream_slot *slot,
                            const struct qr_stream_gate *b) {
    double(*acc)[QR_LANES] = slot->sums + (size_t)b->cross * QR_CROSS, k[QR_CROSS];
    r->k->fold((const double(*)[QR_LANES])acc, ones, k);
    if (!qr_fixed_add_doubles(slot->cross + (size_t)b->shape * QR_CROSS, k, QR_CROSS))
        slot->bad = true;
    memset(acc, 0, QR_CROSS * sizeof *acc);
}

static void level_end_set(struct qr_stream_run *r, struct qr_stream_slot *slot, size_t set) {
    const struct qr_stream_set *x = &r->s->sets[set];
    if (!slot->terms[set]) return;
    for (uint32_t j = 0; j < x->n_fused; j++)
        if (r->p->shapes[r->s->fused[x->first_fused + j].shape].n_derivatives)
            level_end_cross(r, slot, &r->s->fused[x->first_fused + j]);
    slot->terms[set] = 0;
}

static void level_end_diagonal(struct qr_stream_run *r, struct qr_stream_slot *slot) {
    enum { AT_ONCE = 64 };
    double v[AT_ONCE];
    for (size_t i = 0; i < r->s->density_numbers; i += AT_ONCE) {
        size_t n = r->s->density_numbers - i < AT_ONCE ? r->s->density_numbers - i : AT_ONCE;
        r->k->fold_sums(slot->density + i * QR_LANES * r->p->elem_bytes, n, ones, v);
        if (!qr_fixed_add_doubles(slot->density_sum + i, v, n)) slot->bad = true;
    }
    memset(slot->density, 0, r->s->density_numbers * QR_LANES * r->p->elem_bytes);
}

static void level_end_density(struct qr_stream_run *r, struct qr_stream_slot *slot) {
    if (!slot->density_terms) return;
    slot->density_terms = slot->batch_terms = 0;
    if (r->s->diagonal) {
        level_end_diagonal(r, slot);
        return;
    }
    size_t n = r->s->density_numbers;
    r->k->collect(slot->density, n, slot->density_batches);
    for (size_t i = 0; i < n; i += QR_CROSS) {
        double v[QR_CROSS];
        r->k->fold((const double(*)[QR_LANES])slot->density_batches + i, ones, v);
        if (!qr_fixed_add_doubles(slot->density_sum + i, v, n - i < QR_CROSS ? n - i : QR_CROSS))
            slot->bad = true;
    }
    memset(slot->density_batches, 0, n * sizeof *slot->density_batches);
}

void qr_stream_flush(struct qr_stream_run *r, struct qr_stream_slot *slot) {
    for (size_t i = 0; i < r->s->n_sets; i++) level_end_set(r, slot, i);
    level_end_density(r, slot);
}

/* Where lanes are samples, pieces are kept separately until their scales are known. */
static double (*level_gate_sums(struct qr_stream_run *r, struct qr_stream_slot *slot,
                                const struct qr_stream_gate *b, uint32_t terms))[QR_LANES] {
    size_t piece =
        r->s->sliced ? b->cross : b->cross * r->ws->n_pieces + terms / QR_STREAM_PIECE_TERMS;
    return slot->sums + piece * QR_CROSS;
}

/* ---- backward ---- */

static void level_cross_tile(struct qr_stream_run *r, struct qr_stream_slot *slot, size_t set,
                             const unsigned char *phi, const unsigned char *lambda) {
    const struct qr_stream_set *x = &r->s->sets[set];
    size_t step = (size_t)1 << x->n_bits, cell = r->p->cell_bytes;
    const uint32_t *at = x->global;
    if (x->gathered) {
        /* The groups of the first fused gate cover all cells of the tile. */
        for (size_t i = 0; i < step; i++) {
            memcpy(slot->tile + (step + x->local[i]) * cell, phi + x->global[i] * cell, cell);
            memcpy(slot->tile + (2 * step + x->local[i]) * cell, lambda + x->global[i] * cell,
                   cell);
        }
        phi = slot->tile + step * cell;
        lambda = slot->tile + 2 * step * cell;
        at = x->local;
    }
    for (uint32_t j = 0; j < x->n_fused; j++) {
        const struct qr_stream_gate *b = &r->s->fused[x->first_fused + j];
        if (r->p->shapes[b->shape].n_derivatives)
            r->k->tile_cross(phi, lambda, at + j * step, step / 4,
                             level_gate_sums(r, slot, b, slot->terms[set]));
    }
    slot->terms[set] += (uint32_t)step;
    if (r->s->sliced && slot->terms[set] >= QR_STREAM_PIECE_TERMS) level_end_set(r, slot, set);
}

/* All cross matrices of a half-layer can be taken from the state after it, because its gates act on
 * disjoint qubits. */
static void level_half_backward(struct qr_stream_run *r, struct qr_stream_slot *slot,
                                const struct qr_stream_half *h, const unsigned char *phi,
                                unsigned char *lambda, uint64_t word, bool undo) {
    size_t cell = r->p->cell_bytes;
    for (uint32_t i = h->first_set; i < h->first_set + h->n_sets; i++) {
        const struct qr_stream_set *set = &r->s->sets[i];
        for (size_t t = 0; t < set->n_bases; t++) {
            level_prefetch_tile(set, cell, phi, t + 1);
            level_prefetch_tile(set, cell, lambda, t + 1);
            level_cross_tile(r, slot, i, phi + set->bases[t] * cell, lambda + set->bases[t] * cell);
        }
    }
    for (uint32_t i = h->first_set; undo && i < h->first_set + h->n_sets; i++)
        level_apply_set(r, slot, &r->s->sets[i], lambda, lambda, word, true);
}

/* ---- levels ---- */

/* lambda where each lane has its own direction: a sum over the read-outs. */
static void level_apply_each(struct qr_stream_run *r, const unsigned char *phi,
                             unsigned char *lambda, size_t slices, unsigned shift) {
    const struct qr_stream *s = r->s;
    size_t part = r->p->cell_bytes << s->tail_bits;
    memset(lambda, 0, slices * part);
    for (unsigned k = 0; k < r->p->n_readouts; k++) {
        const unsigned char *o = r->ws->each_dense + k * qr_tail_numbers(s) * r->p->elem_bytes;
        const unsigned char *weights = r->ws->each_weight + k * QR_LANES * r->p->elem_bytes;
        if (s->diagonal) r->k->diagonal(phi, lambda, s->dim, o, weights, NULL);
        for (size_t t = 0; !s->diagonal && t < slices; t++)
            r->k->dense(phi + t * part, lambda + t * part, s->dim, (unsigned)(t << shift), o,
                        weights);
    }
}

static void level_reach_tail(struct qr_stream_run *r, struct qr_stream_slot *slot,
                             const struct qr_stream_level *l, const unsigned char *phi,
                             unsigned char *lambda) {
    const struct qr_stream *s = r->s;
    if (s->diagonal) { /* No qubit is traced out here. */
        unsigned char *to = r->direction && !r->each ? lambda : NULL;
        r->k->diagonal(phi, to, s->dim, to ? r->direction->dense : NULL, NULL, slot->density);
        if (r->each) level_apply_each(r, phi, lambda, 1, 0);
        slot->density_terms += 2;
        if (s->sliced && slot->density_terms >= QR_STREAM_PIECE_TERMS) level_end_density(r, slot);
        return;
    }
    unsigned shift = s->tail_bits - l->k;
    size_t slices = (size_t)1 << l->k;
    if (r->each) level_apply_each(r, phi, lambda, slices, shift);
    for (size_t t = 0; r->direction && !r->each && t < slices; t++)
        r->k->dense(phi + (t << s->tail_bits) * r->p->cell_bytes,
                    lambda + (t << s->tail_bits) * r->p->cell_bytes, s->dim, (unsigned)(t << shift),
                    r->direction->dense, NULL);
    r->k->density(phi, s->tail_bits, slices, shift, slot->density);
    slot->density_terms += (uint32_t)(2 * slices);
    slot->batch_terms += (uint32_t)(2 * slices);
    if (s->sliced && slot->density_terms >= QR_STREAM_PIECE_TERMS) level_end_density(r, slot);
    if (!s->sliced || slot->batch_terms < QR_STREAM_BATCH_TERMS) return;
    r->k->collect(slot->density, s->density_numbers, slot->density_batches);
    slot->batch_terms = 0;
}

void qr_stream_level(struct qr_stream_run *r, struct qr_stream_slot *slot, unsigned level,
                     const unsigned char *in, unsigned char *lambda, uint64_t word,
                     bool input_too) {
    const struct qr_stream_level *l = &r->s->levels[level];
    for (unsigned h = 0; h < l->n_halves; h++)
        for (uint32_t i = 0; i < l->halves[h].n_sets; i++)
            level_apply_set(r, slot, &r->s->sets[l->halves[h].first_set + i],
                            i   ? slot->phi[level][h]
                            : h ? slot->phi[level][h - 1]
                                : in,
                            slot->phi[level][h], word, false);
    const unsigned char *phi = slot->phi[level][l->n_halves - 1];
    size_t part = r->p->cell_bytes << (l->m - l->k);
    if (level + 1 == r->s->n_levels) level_reach_tail(r, slot, l, phi, lambda);
    else
        for (size_t t = 0; t < (size_t)1 << l->k; t++)
            qr_stream_level(r, slot, level + 1, phi + t * part, lambda + t * part, t, true);
    for (unsigned h = l->n_halves; r->direction && h-- > 0;)
        level_half_backward(r, slot, &l->halves[h], slot->phi[level][h], lambda, word,
                            h > 0 || input_too);
}
