/* sim/stream_facts.c — what a plan costs and how it reads. */
#include "base/bytes.h"
#include "sim/stream_impl.h"

/* Real operations as if a complex multiply-add were always eight; a block is 32 an amplitude, its cross matrix 28. */
enum { APPLY = 32, CROSS = 28, PRODUCT = 8 };

static double power(unsigned n) { return (double)(UINT64_C(1) << n); }

static double levels_flop(const struct qr_sim_plan *p, double amplitudes) {
    const struct qr_stream *s = p->stream;
    double flop = 0;
    for (unsigned l = 0; l < s->n_levels; l++)
        for (unsigned h = 0; h < s->levels[l].n_halves; h++) {
            const struct qr_stream_half *half = &s->levels[l].halves[h];
            bool undone = h > 0 || l > 0 || s->sliced;
            for (uint32_t i = half->first_set; i < half->first_set + half->n_sets; i++)
                for (uint32_t j = 0; j < s->sets[i].n_blocks; j++) {
                    bool owes = p->shapes[s->blocks[s->sets[i].first_block + j].shape].n_slopes;
                    flop += amplitudes * (APPLY + (owes ? CROSS : 0) + (undone ? APPLY : 0));
                }
        }
    double half = s->dim / 2.0, tiles = half * (half + 1) / 2;
    if (s->diagonal) return flop + 6 * amplitudes;
    return flop + amplitudes * (PRODUCT * (double)s->dim + 4 * PRODUCT * tiles / s->dim);
}

static double chain_flop(const struct qr_sim_plan *p, struct qr_front_block *const half[2], const unsigned n[2], double numbers) {
    double flop = 0;
    for (unsigned h = 0; h < 2; h++)
        for (unsigned i = 0; i < n[h]; i++)
            flop += numbers * (APPLY + (p->shapes[half[h][i].shape].n_slopes ? CROSS : 0) + (h ? APPLY : 0));
    return flop;
}

double qr_stream_flop(const struct qr_sim_plan *p) {
    const struct qr_stream *s = p->stream;
    const struct qr_stream_front *f = &s->front;
    double amplitudes = power(s->n), flop = levels_flop(p, amplitudes);
    if (!s->sliced) return flop;
    double chain = power(f->right_bits) * QR_LANES, tables = f->variants * chain;
    flop += amplitudes * PRODUCT * (2.0 * f->terms + QR_LANES);
    flop += chain_flop(p, f->left, f->n_left, power(f->k) * QR_LANES) + chain_flop(p, f->right, f->n_right, chain);
    if (f->variants > 1) flop += 2 * APPLY * tables;
    if (!f->centre_first && p->shapes[f->centre].n_slopes) flop += CROSS * tables;
    if (f->wrap && p->shapes[f->around].n_slopes) flop += CROSS * tables;
    return flop;
}

static void put_level(const struct qr_stream *s, unsigned level, unsigned first, struct qr_buf *to) {
    const struct qr_stream_level *l = &s->levels[level];
    qr_buf_printf(to, "  layer %u   qubits %u-%u:", level + (s->sliced ? 2 : 1), first, first + l->m - 1);
    for (unsigned h = 0; h < l->n_halves; h++) {
        uint32_t blocks = 0;
        for (uint32_t i = 0; i < l->halves[h].n_sets; i++) blocks += s->sets[l->halves[h].first_set + i].n_blocks;
        qr_buf_printf(to, "%s %u blocks in %u tile%s of 2^%u", h ? ", then" : "", blocks, l->halves[h].n_sets,
                      l->halves[h].n_sets == 1 ? "" : "s", s->sets[l->halves[h].first_set].n_bits);
    }
    if (l->k) qr_buf_printf(to, "; %u-%u are traced out by the pool onto %u-%u", first, first + l->k - 1, first + l->k, first + 2 * l->k - 1);
    qr_buf_puts(to, "\n");
}

static void put_streaming(const struct qr_sim_plan *p, struct qr_buf *to) {
    const struct qr_stream *s = p->stream;
    const struct qr_stream_front *f = &s->front;
    unsigned first = s->sliced ? f->k : 0;
    if (s->sliced) {
        qr_buf_printf(to, "  layer 1   never as a whole: a table of 2^%u (qubits 0-%u) times one of 2^%u (%u-%u) for %u outcome%s, %u products;\n",
                      f->k, f->k - 1, f->m, f->k, s->n - 1, f->variants, f->variants == 1 ? "" : "s", f->terms);
        qr_buf_printf(to, "            across the cut: %u-%u%s; 0-%u are traced out by the pool onto %u-%u\n", f->k - 1, f->k,
                      f->wrap ? " and the ring's last block" : "", f->k - 1, f->k, 2 * f->k - 1);
        qr_buf_printf(to, "  slices    %zu of 2^%u amplitudes, 16 at a time in the lanes\n", f->variants * f->n_slices, f->m);
    } else {
        qr_buf_puts(to, "  lanes     16 samples side by side\n");
    }
    for (unsigned l = 0; l < s->n_levels; l++) {
        put_level(s, l, first, to);
        first += s->levels[l].k;
    }
    if (s->diagonal) qr_buf_printf(to, "  tail      %u qubits: read-outs of Z only, a number for each amplitude\n", s->tail_bits);
    else
        qr_buf_printf(to, "  tail      %u qubits, %u blocks: the read-outs carried back to a %u x %u matrix, density matrices instead of states\n",
                      s->tail_bits, s->n_tail, s->dim, s->dim);
}

void qr_sim_plan_text(const struct qr_sim_plan *p, struct qr_buf *to) {
    if (p->stream) {
        put_streaming(p, to);
        return;
    }
    qr_buf_printf(to, "  lanes     %s\n", p->lanes_are_samples ? "16 samples side by side" : "four qubits, by turns");
    qr_buf_printf(to, "  tiles     2^%u of 2^%u amplitudes, each through as many blocks as fit\n", p->tile_bits + (p->lanes_are_samples ? 0 : 4),
                  p->n);
}
