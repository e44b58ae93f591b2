/* sim/statevector/statevector_passes.c — runs one group of samples through all passes, forward and
 * backward. Start reading at qr_sweep_forward(). */
#include <stdatomic.h>
#include <string.h>

#include "sim/statevector/statevector_impl.h"

/* ---- numbers ---- */

static bool samples_share_data(const struct qr_sim_plan *p, const struct qr_plan_shape *s,
                               const double *a, const double *b) {
    for (uint32_t i = s->first_op; i < s->first_op + s->n_prefix; i++)
        for (unsigned k = 0; k < p->ops[i].gate.n_args; k++) {
            const struct qr_gate_arg *arg = &p->ops[i].gate.args[k];
            if (arg->kind == QR_ARG_DATA && memcmp(&a[arg->index], &b[arg->index], sizeof *a) != 0)
                return false;
        }
    return true;
}

/* One lane per sample. Equal data (most angles of the tutorial's samples are 0) is computed
 * once. */
static void sample_numbers(const struct qr_sweep *r, const struct qr_plan_shape *s) {
    const struct qr_sim_plan *p = r->p;
    const double *x = r->x;
    struct qr_m4 m[QR_LANES];
    for (unsigned l = 0; l < QR_LANES; l++) {
        unsigned same = 0;
        if (l >= r->n) m[l] = qr_m4_identity();
        else {
            while (same < l &&
                   !samples_share_data(p, s, x + same * p->n_columns, x + l * p->n_columns))
                same++;
            m[l] = same < l ? m[same] : qr_bound_data_matrix(r->b, s, 0, x + l * p->n_columns);
        }
        qr_wide_numbers(&m[l], l, r->ws->wide + (size_t)s->data_slot * QR_WIDE);
    }
}

void qr_sweep_prepare(const struct qr_sweep *r) {
    const struct qr_sim_plan *p = r->p;
    const double *x = r->x;
    if (r->ws->noise) qr_noise_prepare(r);
    for (size_t i = 0; i < p->n_shapes; i++) {
        const struct qr_plan_shape *s = &p->shapes[i];
        if (s->data_slot == QR_NO_SLOT) continue;
        if (p->lanes_are_samples) {
            sample_numbers(r, s);
            continue;
        }
        struct qr_m4 m = qr_bound_data_matrix(r->b, s, 0, x);
        qr_narrow_numbers(&m, r->ws->narrow + (size_t)s->data_slot * QR_NARROW);
    }
    qr_structure_prepare(r);
    if (p->lanes_are_samples) return;
    struct qr_m4 one = qr_m4_identity();
    /* Controls on lane bits: the identity in lanes where they do not hold. */
    for (size_t i = 0; i < r->v->n_steps; i++) {
        const struct qr_plan_step *st = &r->v->steps[i];
        if (st->wide_slot == QR_NO_SLOT) continue;
        const struct qr_plan_shape *s = &p->shapes[st->shape];
        struct qr_m4 m = s->data_slot == QR_NO_SLOT ? r->b->suffix[st->shape]
                                                    : qr_bound_data_matrix(r->b, s, 0, x);
        for (unsigned l = 0; l < QR_LANES; l++)
            qr_wide_numbers(st->lanes >> l & 1 ? &m : &one, l,
                            r->ws->wide + (size_t)st->wide_slot * QR_WIDE);
    }
}

/* ret_wide: one set of numbers per lane */
static const void *step_numbers(const struct qr_sweep *r, const struct qr_plan_step *st,
                                bool adjoint, bool *ret_wide) {
    const struct qr_sim_plan *p = r->p;
    const double *noisy = r->ws->noise ? qr_noise_numbers(r, st) : NULL;
    *ret_wide = noisy ? p->lanes_are_samples : st->wide_slot != QR_NO_SLOT;
    if (noisy) return noisy + (adjoint ? (*ret_wide ? QR_WIDE : QR_NARROW) / 2 : 0);
    if (st->wide_slot != QR_NO_SLOT)
        return r->ws->wide + (size_t)st->wide_slot * QR_WIDE + (adjoint ? QR_WIDE / 2 : 0);
    uint32_t slot = p->shapes[st->shape].data_slot;
    const double *n = slot == QR_NO_SLOT ? r->b->narrow + (size_t)st->shape * QR_NARROW
                                         : r->ws->narrow + (size_t)slot * QR_NARROW;
    return n + (adjoint ? QR_NARROW / 2 : 0);
}

/* ---- tiles ---- */

/* Returns the i-th index with all bits in mask. */
static uint64_t deposit_bits(uint64_t i, uint64_t mask) {
    uint64_t o = 0;
    for (; mask; mask &= mask - 1, i >>= 1)
        if (i & 1) o |= mask & -mask;
    return o;
}

static uint64_t tile_base(const struct qr_sweep *r, size_t tile) {
    return deposit_bits(tile, r->outside);
}

static size_t tile_count(const struct qr_sweep *r) {
    return (size_t)1 << __builtin_popcountll(r->outside);
}

/* Prefetch of the tile that this thread processes next; lambda NULL: one vector. */
static struct qr_prefetch next_tile_prefetch(const struct qr_sweep *r,
                                             const struct qr_sweep_slot *slot,
                                             const uint64_t *offsets, const unsigned char *phi,
                                             const unsigned char *lambda) {
    bool none = slot->next == tile_count(r);
    return (struct qr_prefetch){.from = {lambda ? lambda : phi, phi},
                                .offsets = offsets,
                                .base = none ? 0 : qr_cell_at(tile_base(r, slot->next)),
                                .n = (size_t)1 << r->v->tile_bits,
                                .vector = none     ? 2
                                          : lambda ? 0
                                                   : 1};
}

static bool step_is_structured(const struct qr_plan_step *st) {
    return st->kind != QR_FUSED_MATRIX || st->numbers != QR_NO_SLOT;
}

/* The steps of the pass that belong to the part of the sweep that runs. */
static size_t pass_first(const struct qr_sweep *r) {
    return r->pass->first_step > r->first_step ? r->pass->first_step : r->first_step;
}
static size_t pass_end(const struct qr_sweep *r) {
    size_t end = r->pass->first_step + r->pass->n_steps;
    return end < r->end_step ? end : r->end_step;
}

static struct qr_tile_positions whole_tile(const struct qr_sweep *r) {
    return (struct qr_tile_positions){.n = (size_t)1 << r->v->tile_bits};
}

/* A step that is not a chain's. */
static void forward_step(struct qr_sweep *r, const struct qr_plan_step *st, uint64_t base,
                         unsigned char *cells, struct qr_prefetch *prefetch,
                         struct qr_sweep_slot *slot) {
    if ((base & st->outer_controls) != st->outer_values) return;
    if (step_is_structured(st)) {
        qr_structure_forward(r, st, base, cells, prefetch, slot);
        return;
    }
    struct qr_tile_target target = st->target;
    bool wide;
    target.prefetch = prefetch;
    if (st->condition && !qr_condition_forward(r, st)) return;
    if (st->branch != QR_NO_SLOT) qr_branch_forward(r, st, cells);
    const void *numbers = step_numbers(r, st, false, &wide);
    r->p->kernels->apply(cells, r->v->tile_bits, &target, numbers, wide);
}

/* A chain at the start of the pass reads the tile, one at its end writes it. */
static void forward_tile(struct qr_sweep *r, size_t tile, struct qr_sweep_slot *slot) {
    const struct qr_kernels *kernels = r->p->kernels;
    const struct qr_plan_step *steps = r->v->steps;
    bool whole = r->v->tile_bits == r->p->cell_bits;
    uint64_t base = tile_base(r, tile), at = qr_cell_at(base);
    const struct qr_tile_positions all = whole_tile(r);
    const struct qr_tile_copy in = {r->from, at, r->v->offsets + r->pass->first_offset},
                              out = {r->ws->phi, at, r->v->offsets + r->pass->last_offset};
    unsigned char *cells = whole ? r->ws->phi : slot->phi;
    size_t first = pass_first(r), end = pass_end(r);
    bool first_reads = !whole && first < end && qr_step_is_of_chain(&steps[first]);
    struct qr_prefetch prefetch = next_tile_prefetch(r, slot, in.offsets, r->from, NULL);
    if (!whole && !first_reads) kernels->gather(cells, in.state, at, in.offsets, &all);
    for (size_t i = first; i < end; i++) {
        const struct qr_plan_step *st = &steps[i];
        if (!qr_step_is_of_chain(st)) {
            forward_step(r, st, base, cells, &prefetch, slot);
            continue;
        }
        bool writes = !whole && i + st->n_chain == end;
        qr_chain_forward(r, st, cells, i == first && first_reads ? &in : NULL, writes ? &out : NULL,
                         &prefetch);
        if (writes) return;
        i += st->n_chain - 1;
    }
    if (!whole) kernels->scatter(out.state, cells, at, out.offsets, &all);
}

/* Adds the numbers of one piece to the integers. */
static void sweep_add_piece(struct qr_sweep *r, const struct qr_plan_step *st,
                            const double (*acc)[QR_LANES], struct qr_sweep_slot *slot) {
    const struct qr_sim_plan *p = r->p;
    uint32_t mixed = p->shapes[st->shape].mixed_slot;
    if (mixed != QR_NO_SLOT && p->lanes_are_samples) {
        for (size_t l = 0; l < r->n; l++)
            for (size_t k = 0; k < QR_CROSS && qr_condition_holds(r, st, (unsigned)l); k++) {
                qr_fixed f;
                if (qr_fixed_from_double(acc[k][l] * r->scale[l], &f))
                    r->ws->mixed[(mixed * r->ws->head.max_samples + r->sample[l]) * QR_CROSS + k] +=
                        f;
                else slot->bad = true;
            }
        return;
    }
    double scale[QR_LANES], sum[QR_CROSS];
    uint16_t lanes = st->lanes;
    if (st->condition && p->lanes_are_samples) lanes &= r->ws->noise->holds[st->noise_slot];
    for (unsigned l = 0; l < QR_LANES; l++)
        scale[l] = lanes >> l & 1 ? r->scale[l] * r->ws->step_scale[st - r->v->steps] : 0;
    p->kernels->fold(acc, scale, sum);
    if (st->noise_slot != QR_NO_SLOT)
        qr_noise_correct(r, st, p->lanes_are_samples ? acc : NULL, sum, slot);
    qr_fixed add[QR_CROSS];
    for (int k = 0; k < QR_CROSS; k++)
        if (!qr_fixed_from_double(sum[k], &add[k])) {
            slot->bad = true;
            add[k] = 0;
        }
    qr_statevector_lock_sums(r);
    qr_fixed_add(r->ws->cross + (size_t)st->shape * QR_CROSS, add, QR_CROSS);
    qr_statevector_unlock_sums(r);
}

static void backward_step(struct qr_sweep *r, const struct qr_plan_step *st, unsigned char *phi,
                          unsigned char *lambda, struct qr_prefetch *prefetch,
                          struct qr_sweep_slot *slot) {
    const struct qr_sim_plan *p = r->p;
    const struct qr_kernels *k = p->kernels;
    bool wide;
    if (st->condition && !r->ws->noise->holds[st->noise_slot]) return;
    if (st->branch != QR_NO_SLOT) {
        qr_branch_backward(r, st, phi, lambda);
        return;
    }
    const void *numbers = step_numbers(r, st, true, &wide);
    if (!qr_noise_is_undone(r, st)) numbers = NULL;
    struct qr_tile_target target = st->target;
    target.prefetch = prefetch;
    if (!st->cross) {
        if (!numbers) return;
        k->apply(phi, r->v->tile_bits, &target, numbers, wide);
        k->apply(lambda, r->v->tile_bits, &target, numbers, wide);
        return;
    }
    size_t groups =
        (size_t)1 << (r->v->tile_bits - 2 - (unsigned)__builtin_popcountll(target.controls));
    uint64_t at = 0;
    for (size_t done = 0; done < groups; done += QR_PIECE_GROUPS) {
        size_t n = groups - done < QR_PIECE_GROUPS ? groups - done : QR_PIECE_GROUPS;
        _Alignas(64) double acc[QR_CROSS][QR_LANES];
        memset(acc, 0, sizeof acc);
        at = k->cross(phi, lambda, r->v->tile_bits, &target, numbers, wide, at, n, acc);
        sweep_add_piece(r, st, (const double(*)[QR_LANES])acc, slot);
    }
}

/* Sets phi and lambda of a tile before the last step of the pass. */
static void backward_read(const struct qr_sweep *r, const struct qr_tile_copy in[2], uint64_t base,
                          bool observe, unsigned char *phi, unsigned char *lambda) {
    const struct qr_kernels *k = r->p->kernels;
    const struct qr_tile_positions all = whole_tile(r);
    bool whole = r->v->tile_bits == r->p->cell_bits;
    if (!whole) k->gather(phi, in[0].state, in[0].base, in[0].offsets, &all);
    if (observe) qr_sweep_observe_tile(r, base, lambda, phi);
    else if (!whole) k->gather(lambda, in[1].state, in[1].base, in[1].offsets, &all);
}

static void backward_tile(struct qr_sweep *r, size_t tile, struct qr_sweep_slot *slot) {
    const struct qr_kernels *kernels = r->p->kernels;
    bool whole = r->v->tile_bits == r->p->cell_bits,
         written = r->pass->first_step > r->v->first_cross,
         observe = r->v->tiles_observe && r->pass == &r->v->passes[r->v->n_passes - 1];
    uint64_t base = tile_base(r, tile), at = qr_cell_at(base);
    const uint64_t *first = r->v->offsets + r->pass->first_offset,
                   *last = r->v->offsets + r->pass->last_offset;
    const struct qr_tile_copy in[2] = {{r->ws->phi, at, last}, {r->ws->lambda, at, last}},
                              out[2] = {{r->ws->phi, at, first}, {r->ws->lambda, at, first}};
    const struct qr_tile_positions all = whole_tile(r);
    unsigned char *phi = whole ? r->ws->phi : slot->phi,
                  *lambda = whole ? r->ws->lambda : slot->lambda;
    /* Prefetch lambda even if it is not read: it is written at the end. */
    struct qr_prefetch prefetch = next_tile_prefetch(r, slot, last, r->ws->phi, r->ws->lambda);
    for (size_t i = pass_end(r); i-- > pass_first(r);) {
        const struct qr_plan_step *st = &r->v->steps[i];
        bool chain = qr_step_is_of_chain(st);
        if (chain && !st->n_chain) continue;
        size_t end = i + (chain ? st->n_chain : 1);
        if (end <= r->v->first_cross) break;
        bool reads = chain && !whole && !observe && end == pass_end(r),
             writes = chain && !whole && written && i == pass_first(r);
        if (end == pass_end(r) && !reads) backward_read(r, in, base, observe, phi, lambda);
        if (chain) {
            qr_chain_backward(r, st, phi, lambda, reads ? in : NULL, writes ? out : NULL, &prefetch,
                              slot);
            if (writes) return;
        } else if ((base & st->outer_controls) != st->outer_values) {
            continue;
        } else if (step_is_structured(st)) {
            qr_structure_backward(r, st, base, phi, lambda, &prefetch, slot);
        } else {
            backward_step(r, st, phi, lambda, &prefetch, slot);
        }
    }
    if (whole || !written) return;
    kernels->scatter(r->ws->phi, phi, at, first, &all);
    kernels->scatter(r->ws->lambda, lambda, at, first, &all);
}

/* ---- sweeps ---- */

static void sweep_set_pass(struct qr_sweep *r, size_t pass, bool backward) {
    r->pass = &r->v->passes[pass];
    r->outside = qr_pass_outside(r->p, pass, backward);
}

static void set_steps(struct qr_sweep *r, size_t first, size_t end) {
    r->first_step = first;
    r->end_step = end;
}

static void forward_passes(struct qr_sweep *r, size_t first, size_t end) {
    for (size_t i = first; i < end; i++) {
        sweep_set_pass(r, i, false);
        qr_sweep_items(r, tile_count(r), forward_tile);
        r->from = r->ws->phi;
    }
}

static void clear_item(struct qr_sweep *r, size_t item, struct qr_sweep_slot *slot) {
    size_t cells = (size_t)1 << r->v->tile_bits;
    (void)slot;
    memset(r->ws->phi + item * cells * r->p->cell_bytes, 0, cells * r->p->cell_bytes);
}

/* Sets phi to |0...0>; applies the fixed gates if their state is kept. */
static void sweep_start_state(struct qr_sweep *r) {
    const struct qr_sim_plan *p = r->p;
    set_steps(r, 0, r->v->n_steps);
    qr_sweep_items(r, (size_t)1 << (p->cell_bits - r->v->tile_bits), clear_item);
    for (unsigned l = 0; l < (p->lanes_are_samples ? QR_LANES : 1); l++)
        qr_element_set(p, r->ws->phi, l, 1);
    if (!r->v->first_pass) return;
    forward_passes(r, 0, r->v->first_pass);
    memcpy(r->ws->start, r->ws->phi, p->cell_bytes << p->cell_bits);
    r->ws->started = true;
}

/* Runs the steps from first to end, which are whole passes unless a tile is the whole state. */
static void forward_steps(struct qr_sweep *r, size_t first, size_t end) {
    const struct qr_plan_pass *passes = r->v->passes;
    size_t i = r->v->first_pass, last = r->v->n_passes;
    while (i < last && passes[i].first_step + passes[i].n_steps <= first) i++;
    while (last > i && passes[last - 1].first_step >= end) last--;
    set_steps(r, first, end);
    forward_passes(r, i, last);
}

static void backward_steps(struct qr_sweep *r, size_t first, size_t end) {
    set_steps(r, first, end);
    for (size_t i = r->v->n_passes; i-- > 0;) {
        sweep_set_pass(r, i, true);
        size_t last = r->pass->first_step + r->pass->n_steps;
        if (r->pass->first_step >= end) continue;
        if (last <= r->v->first_cross || last <= first) break;
        qr_sweep_items(r, tile_count(r), backward_tile);
    }
}

/* Sets phi, or r->from where the first pass can read a kept state. */
static void start_forward(struct qr_sweep *r) {
    const struct qr_sim_plan *p = r->p;
    size_t bytes = p->cell_bytes << p->cell_bits;
    r->from = r->ws->phi;
    if (r->start) memcpy(r->ws->phi, qr_prefix_state(r, r->start % r->v->n_stops), bytes);
    else if (!r->ws->started) sweep_start_state(r);
    else if (r->v->first_pass == r->v->n_passes || r->v->tile_bits == p->cell_bits)
        memcpy(r->ws->phi, r->ws->start, bytes);
    else r->from = r->ws->start; /* The first pass reads the kept state. */
}

void qr_sweep_forward(struct qr_sweep *r) {
    size_t bytes = r->p->cell_bytes << r->p->cell_bits;
    qr_sweep_prepare(r);
    start_forward(r);
    if (!r->shared) {
        forward_steps(r, r->start ? r->v->stops[r->start] : 0, r->v->n_steps);
        return;
    }
    for (size_t k = 0; k < r->v->n_stops; k++) {
        if (k) memcpy(qr_prefix_state(r, k), r->ws->phi, bytes);
        forward_steps(r, r->v->stops[k], r->v->stops[k + 1]);
    }
    memcpy(qr_prefix_state(r, 0), r->ws->phi, bytes);
}

void qr_sweep_backward(struct qr_sweep *r) {
    if (!r->shared) {
        backward_steps(r, r->start ? r->v->stops[r->start] : 0, r->v->n_steps);
        return;
    }
    for (size_t k = r->v->n_stops; k-- > 0;) {
        backward_steps(r, k ? r->v->stops[k] : 0, r->v->stops[k + 1]);
        if (k) qr_prefix_add(r, k);
    }
}
