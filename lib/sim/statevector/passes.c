/* sim/statevector/passes.c — orders fused gates into passes over the state and assigns qubits to
 * bits. sim/planner.md has the rules. Start reading at qr_plan_passes(). */
#include <string.h>

#include "base/mem.h"
#include "sim/fusion/matrix.h"
#include "sim/statevector/statevector_impl.h"

enum { NEVER = 1 << 30 }; /* later than any fused gate */

struct layout {
    /* physical bit of each qubit; the first lane_bits bits are lanes */
    unsigned pos[QR_FUSED_QUBITS];
    unsigned lane_bits;
    bool *done;       /* per fused gate: already in a pass */
    uint16_t *order;  /* position of each cell of the tile */
    uint64_t *qubits; /* per fused gate: its qubits, or those of its batch */
};

static uint64_t bit_mask(unsigned b) { return UINT64_C(1) << b; }
/* Qubits that must be cell bits of the tile. */
static uint64_t fused_gate_frame(const struct qr_fused_gate *b) {
    return b->kind == QR_FUSED_PHASE      ? 0
           : b->kind == QR_FUSED_ROTATION ? bit_mask(b->q[0])
                                          : bit_mask(b->q[0]) | bit_mask(b->q[1]);
}
/* Gates that set bits or depend on them keep their order, as if they shared the last qubit. */
static uint64_t fused_gate_qubits(const struct qr_fused_gate *b) {
    if (b->single) return bit_mask(b->q[0]);
    return b->controls | bit_mask(b->q[0]) | bit_mask(b->q[1]) |
           (b->classical ? bit_mask(QR_FUSED_QUBITS - 1) : 0);
}
/* End of the run of fused gates that are planned together: one, or a batch of diagonal gates. */
static size_t fused_unit_end(const struct qr_sim_plan *p, size_t i) {
    size_t end = i + 1;
    while (p->fused[i].kind == QR_FUSED_PHASE && end < p->n_fused &&
           p->fused[end].kind == QR_FUSED_PHASE && p->fused[end].batch == p->fused[i].batch)
        end++;
    return end;
}
static void layout_set_qubits(const struct qr_sim_plan *p, uint64_t *ret) {
    for (size_t i = 0, end; i < p->n_fused; i = end) {
        uint64_t all = 0;
        end = fused_unit_end(p, i);
        for (size_t k = i; k < end; k++) all |= fused_gate_qubits(&p->fused[k]);
        for (size_t k = i; k < end; k++) ret[k] = all;
    }
}
static bool layout_is_lane(const struct layout *l, unsigned q) { return l->pos[q] < l->lane_bits; }

static bool fused_gate_is_fixed(const struct qr_sim_plan *p, const struct qr_fused_gate *b) {
    const struct qr_plan_shape *s = &p->shapes[b->shape];
    bool fixed = !b->branch && !b->condition && !s->n_sites;
    for (uint32_t o = s->first_op; o < s->first_op + s->n_ops; o++)
        for (unsigned k = 0; k < p->ops[o].gate.n_args; k++)
            fixed &= p->ops[o].gate.args[k].kind == QR_ARG_CONSTANT;
    return fixed;
}

/* Marks the fused gates that depend on no sample and no theta: they are fixed, and so are all fused
 * gates before them on their qubits. */
static size_t mark_fixed_start(const struct qr_sim_plan *p, const struct layout *l, bool *ret) {
    uint64_t later = 0;
    size_t n = 0;
    for (size_t i = 0, end; i < p->n_fused; i = end) {
        bool fixed = !(l->qubits[i] & later);
        end = fused_unit_end(p, i);
        for (size_t k = i; k < end; k++) fixed &= fused_gate_is_fixed(p, &p->fused[k]);
        for (size_t k = i; k < end; k++) ret[k] = fixed;
        if (fixed) n += end - i;
        else later |= l->qubits[i];
    }
    return n;
}

/* Sets ret[q] to the index of the next fused gate on qubit q that is not done. */
static void layout_next_use(const struct qr_sim_plan *p, const bool *done, unsigned *ret) {
    for (unsigned q = 0; q < p->n; q++) ret[q] = NEVER;
    for (size_t i = p->n_fused; i-- > 0;)
        if (!done[i])
            for (uint64_t m = fused_gate_frame(&p->fused[i]); m; m &= m - 1)
                ret[__builtin_ctzll(m)] = (unsigned)i;
}

/* Returns the four qubits among `from` with the latest next use. */
static void layout_latest(const struct qr_sim_plan *p, const unsigned *use, uint64_t from,
                          unsigned ret[QR_LANE_BITS]) {
    for (int k = 0; k < QR_LANE_BITS; k++) {
        unsigned best = QR_FUSED_QUBITS;
        for (unsigned q = 0; q < p->n; q++)
            if ((from & bit_mask(q)) && (best == QR_FUSED_QUBITS || use[q] >= use[best])) best = q;
        ret[k] = best;
        from &= ~bit_mask(best);
    }
}

static void layout_first(const struct qr_sim_plan *p, struct layout *l) {
    if (!l->lane_bits) { /* Qubit 0 is the most significant bit. */
        for (unsigned q = 0; q < p->n; q++) l->pos[q] = p->n - 1 - q;
        return;
    }
    unsigned lanes[QR_LANE_BITS], use[QR_FUSED_QUBITS];
    layout_next_use(p, l->done, use);
    layout_latest(p, use, p->n == 64 ? ~UINT64_C(0) : bit_mask(p->n) - 1, lanes);
    uint64_t taken = 0;
    for (unsigned k = 0; k < QR_LANE_BITS; k++) {
        l->pos[lanes[k]] = k;
        taken |= bit_mask(lanes[k]);
    }
    unsigned next = QR_LANE_BITS;
    for (unsigned q = 0; q < p->n; q++)
        if (!(taken & bit_mask(q))) l->pos[q] = next++;
}

/* Counts the bits of `mask` below bit b. */
static unsigned bit_rank(uint64_t mask, unsigned b) {
    return (unsigned)__builtin_popcountll(mask & (bit_mask(b) - 1));
}

/* Cells that are powers of two apart share few sets of L1, so a tile that is not the whole state is
 * read into another order (`spread`), as a state is by qr_cell_at. */
static void order_start(const struct qr_statevector *v, struct layout *l, bool spread) {
    for (size_t i = 0; i < (size_t)1 << v->tile_bits; i++)
        l->order[i] = (uint16_t)(spread ? i ^ i >> QR_TILE_BITS / 2 : i);
}
static bool order_is_plain(const struct qr_statevector *v, const uint16_t *order) {
    for (size_t i = 0; i < (size_t)1 << v->tile_bits; i++)
        if (order[i] != i) return false;
    return true;
}

/* Finds or adds an order; the last one is the likeliest. */
static uint32_t order_index(struct qr_statevector *v, const uint16_t *order) {
    size_t n = (size_t)1 << v->tile_bits;
    if (order_is_plain(v, order)) return QR_NO_SLOT;
    for (size_t at = v->n_orders; at; at -= n)
        if (memcmp(v->orders + at - n, order, n * sizeof *order) == 0) return (uint32_t)(at - n);
    v->orders = qr_xreallocarray(v->orders, v->n_orders + n, sizeof *v->orders);
    memcpy(v->orders + v->n_orders, order, n * sizeof *order);
    v->n_orders += n;
    return (uint32_t)(v->n_orders - n);
}

static struct qr_plan_step *passes_new_step(struct qr_sim_plan *p, const struct layout *l) {
    struct qr_statevector *v = p->statevector;
    v->steps = qr_xreallocarray(v->steps, v->n_steps + 1, sizeof *v->steps);
    struct qr_plan_step *s = &v->steps[v->n_steps++];
    *s = (struct qr_plan_step){.lanes = 0xffff,
                               .wide_slot = QR_NO_SLOT,
                               .noise_slot = QR_NO_SLOT,
                               .branch = QR_NO_SLOT,
                               .first_order = p->structured ? order_index(v, l->order) : QR_NO_SLOT,
                               .numbers = QR_NO_SLOT};
    return s;
}

/* Whether a fused gate can join a step of its kind. */
static bool step_takes(const struct qr_plan_step *s, uint64_t qubits) {
    switch (s->kind) {
    case QR_FUSED_MATRIX: return false;
    case QR_FUSED_ROTATION: return s->n_gates < 2 && !(s->qubits & qubits);
    case QR_FUSED_PHASE:
    case QR_FUSED_PERMUTATION: return true;
    }
    return false;
}

/* Adds a fused gate to the last step of the pass, or else to a new one. */
static struct qr_plan_step *passes_add_gate(struct qr_sim_plan *p, const struct layout *l,
                                            uint32_t first, const struct qr_plan_gate *gate) {
    struct qr_statevector *v = p->statevector;
    enum qr_fused_kind kind = p->fused[gate->fused].kind;
    struct qr_plan_step *s = v->n_steps > first ? &v->steps[v->n_steps - 1] : NULL;
    if (!s || s->transpose || s->kind != kind || !step_takes(s, l->qubits[gate->fused])) {
        s = passes_new_step(p, l);
        s->kind = kind;
        s->first_gate = (uint32_t)v->n_gates;
        if (kind != QR_FUSED_MATRIX) s->numbers = (uint32_t)v->n_numbers[kind]++;
    }
    v->gates = qr_xreallocarray(v->gates, v->n_gates + 1, sizeof *v->gates);
    v->gates[v->n_gates++] = *gate;
    s->n_gates++;
    s->qubits |= l->qubits[gate->fused];
    s->cross |= p->shapes[p->fused[gate->fused].shape].n_derivatives > 0;
    return s;
}

static uint8_t tile_bit(const struct layout *l, uint64_t tile, unsigned q) {
    return (uint8_t)bit_rank(tile, l->pos[q] - l->lane_bits);
}

static void passes_add_rotation(struct qr_sim_plan *p, const struct layout *l, uint64_t tile,
                                uint32_t first, uint32_t fused) {
    const struct qr_plan_gate gate = {.fused = fused,
                                      .bit = {tile_bit(l, tile, p->fused[fused].q[0])}};
    (void)passes_add_gate(p, l, first, &gate);
}

static uint8_t phase_bit(const struct layout *l, uint64_t tile, unsigned q) {
    if (layout_is_lane(l, q)) return (uint8_t)l->pos[q];
    unsigned cell = l->pos[q] - l->lane_bits;
    return (uint8_t)(tile & bit_mask(cell) ? QR_LANE_BITS + bit_rank(tile, cell)
                                           : QR_OUTER_BIT + cell);
}

static void passes_add_phase(struct qr_sim_plan *p, const struct layout *l, uint64_t tile,
                             uint32_t first, uint32_t fused) {
    const uint8_t *q = p->fused[fused].q;
    const struct qr_plan_gate gate = {.fused = fused,
                                      .bit = {phase_bit(l, tile, q[0]), phase_bit(l, tile, q[1])}};
    (void)passes_add_gate(p, l, first, &gate);
}

/* Adds a step that moves the cells of a tile into order. */
static void passes_restore_order(struct qr_sim_plan *p, struct layout *l) {
    struct qr_statevector *v = p->statevector;
    size_t n = (size_t)1 << v->tile_bits;
    if (order_is_plain(v, l->order)) return;
    struct qr_plan_step *s = passes_new_step(p, l);
    bool *seen = qr_xcalloc(n, sizeof *seen);
    s->kind = QR_FUSED_PERMUTATION;
    s->first_cell = (uint32_t)v->n_cycles;
    v->cycles = qr_xreallocarray(v->cycles, v->n_cycles + n, sizeof *v->cycles);
    for (size_t i = 0; i < n; i++) {
        if (seen[i] || l->order[i] == i) continue;
        for (size_t k = i; !seen[k]; k = l->order[k]) {
            seen[k] = true;
            v->cycles[v->n_cycles++] = (uint16_t)k;
        }
        v->cycles[v->n_cycles - 1] |= QR_CYCLE_END;
    }
    s->n_cells = (uint32_t)v->n_cycles - s->first_cell;
    order_start(v, l, false);
    free(seen);
}

/* Sets the column of each row's 1 in the matrix of a permutation. */
static void permutation_columns(const struct qr_plan_op *op, unsigned ret[4]) {
    double complex u[16];
    double a[2] = {0, 0};
    for (unsigned k = 0; k < op->gate.n_args; k++)
        a[k] = qr_gate_arg_value(&op->gate.args[k], NULL, NULL);
    qr_gate_matrix(&op->gate, a, u, NULL);
    struct qr_m4 m = qr_m4_mul_gate(NULL, op, u, false);
    for (unsigned e = 0; e < 16; e++)
        if (m.e[e].re == 1) ret[e / 4] = e % 4;
}

static void passes_add_permutation(struct qr_sim_plan *p, struct layout *l, uint64_t tile,
                                   uint32_t first, uint32_t fused) {
    struct qr_statevector *v = p->statevector;
    const struct qr_fused_gate *b = &p->fused[fused];
    (void)passes_add_gate(p, l, first, &(struct qr_plan_gate){.fused = fused});
    size_t n = (size_t)1 << v->tile_bits, high = (size_t)1 << tile_bit(l, tile, b->q[0]),
           low = (size_t)1 << tile_bit(l, tile, b->q[1]);
    uint16_t old[1 << QR_TILE_BITS];
    unsigned column[4] = {0};
    permutation_columns(&p->ops[p->shapes[b->shape].first_op], column);
    memcpy(old, l->order, n * sizeof *old);
    for (size_t i = 0; i < n; i++) {
        unsigned from = column[(i & high ? 2u : 0u) + (i & low ? 1u : 0u)];
        l->order[i] = old[(i & ~(high | low)) | (from & 2 ? high : 0) | (from & 1 ? low : 0)];
    }
}

/* Finds or adds the groups of cells of a matrix on these bits of a tile. */
static uint32_t passes_groups(struct qr_statevector *v, const uint16_t *order, unsigned high,
                              unsigned low) {
    size_t n = (size_t)1 << v->tile_bits, a = (size_t)1 << high, b = (size_t)1 << low;
    v->groups = qr_xreallocarray(v->groups, v->n_groups + n, sizeof *v->groups);
    uint32_t *added = v->groups + v->n_groups, *to = added;
    for (size_t i = 0; i < n; i++)
        if (!(i & (a | b)))
            for (size_t k = 0; k < 4; k++) *to++ = order[i | (k & 2 ? a : 0) | (k & 1 ? b : 0)];
    for (size_t at = 0; at < v->n_groups; at += n)
        if (memcmp(v->groups + at, added, n * sizeof *added) == 0) return (uint32_t)at;
    v->n_groups += n;
    return (uint32_t)(v->n_groups - n);
}

static bool fused_gate_is_single(const struct qr_sim_plan *p, const struct qr_fused_gate *b) {
    return !p->lanes_are_samples && p->statevector->tile_bits <= QR_TILE_BITS &&
           p->precision == QR_SINGLE && !b->controls && !b->condition && !b->branch &&
           p->shapes[b->shape].data_slot == QR_NO_SLOT;
}

static void passes_add_matrix(struct qr_sim_plan *p, struct layout *l, uint64_t tile,
                              uint32_t first, uint32_t fused) {
    const struct qr_fused_gate *b = &p->fused[fused];
    struct qr_statevector *v = p->statevector;
    bool single = fused_gate_is_single(p, b);
    if (p->structured && !single) passes_restore_order(p, l);
    struct qr_plan_step *s = passes_add_gate(p, l, first, &(struct qr_plan_gate){.fused = fused});
    s->shape = b->shape;
    if (p->shapes[b->shape].n_sites || b->condition) s->noise_slot = (uint32_t)v->n_noisy++;
    s->condition = b->condition;
    if (b->branch) {
        s->branch = (uint32_t)v->n_branches++;
        s->cross = p->channel_needs[p->noise[b->first_noise].channel];
    }
    for (int k = 0; k < 2; k++)
        s->target.bit[k] = (uint8_t)bit_rank(tile, l->pos[b->q[k]] - l->lane_bits);
    for (unsigned q = 0; q < p->n; q++) {
        if (!(b->controls & bit_mask(q))) continue;
        bool value = b->control_values & bit_mask(q);
        if (layout_is_lane(l, q)) {
            for (unsigned lane = 0; lane < QR_LANES; lane++)
                if ((lane >> l->pos[q] & 1) != value) s->lanes &= (uint16_t) ~(1u << lane);
        } else {
            unsigned cell = l->pos[q] - l->lane_bits;
            bool inside = tile & bit_mask(cell);
            uint64_t m = inside ? bit_mask(bit_rank(tile, cell)) : bit_mask(cell);
            *(inside ? &s->target.controls : &s->outer_controls) |= m;
            if (value) *(inside ? &s->target.values : &s->outer_values) |= m;
        }
    }
    bool data = p->shapes[b->shape].data_slot != QR_NO_SLOT;
    if (p->lanes_are_samples) s->wide_slot = data ? p->shapes[b->shape].data_slot : QR_NO_SLOT;
    else if (s->lanes != 0xffff) s->wide_slot = (uint32_t)v->n_wide++;
    if (single) {
        s->numbers = (uint32_t)v->n_numbers[QR_FUSED_MATRIX]++;
        s->first_cell = passes_groups(v, l->order, s->target.bit[0], s->target.bit[1]);
    }
}

static void passes_add_step(struct qr_sim_plan *p, struct layout *l, uint64_t tile, uint32_t first,
                            uint32_t fused) {
    switch (p->fused[fused].kind) {
    case QR_FUSED_MATRIX: passes_add_matrix(p, l, tile, first, fused); break;
    case QR_FUSED_ROTATION: passes_add_rotation(p, l, tile, first, fused); break;
    case QR_FUSED_PHASE: passes_add_phase(p, l, tile, first, fused); break;
    case QR_FUSED_PERMUTATION: passes_add_permutation(p, l, tile, first, fused); break;
    }
}

/* Stores where each cell of the tile lies in the state, by its position in the tile. */
static uint32_t passes_add_offsets(struct qr_sim_plan *p, uint64_t tile, const uint16_t *order) {
    struct qr_statevector *v = p->statevector;
    if (v->tile_bits == p->cell_bits) return 0;
    size_t n = (size_t)1 << v->tile_bits;
    v->offsets = qr_xreallocarray(v->offsets, v->n_offsets + n, sizeof *v->offsets);
    uint64_t o = 0;
    for (size_t i = 0; i < n; i++, o = ((o | ~tile) + 1) & tile)
        v->offsets[v->n_offsets + order[i]] = qr_cell_at(o);
    v->n_offsets += n;
    return (uint32_t)(v->n_offsets - n);
}

/* Chooses the fused gates of one pass, greedily in program order: a fused gate enters if its frame
 * is on lanes or inside the tile, which grows to tile_bits, and no rejected fused gate before it
 * shares a qubit. Returns their number. */
static size_t pass_choose_gates(const struct qr_sim_plan *p, const struct layout *l,
                                const bool *only, uint64_t *ret_tile, uint32_t *ret) {
    const struct qr_statevector *v = p->statevector;
    uint64_t tile = 0, blocked = 0;
    size_t n = 0;
    for (size_t i = 0; i < p->n_fused; i++) {
        if (l->done[i] || (only && !only[i])) continue;
        uint64_t all = l->qubits[i], want = tile;
        for (uint64_t m = fused_gate_frame(&p->fused[i]); m; m &= m - 1) {
            unsigned q = (unsigned)__builtin_ctzll(m);
            if (!layout_is_lane(l, q)) want |= bit_mask(l->pos[q] - l->lane_bits);
        }
        if ((all & blocked) || (unsigned)__builtin_popcountll(want) > v->tile_bits) {
            blocked |= all;
            continue;
        }
        tile = want;
        ret[n++] = (uint32_t)i;
    }
    for (unsigned c = 0; (unsigned)__builtin_popcountll(tile) < v->tile_bits; c++)
        tile |= bit_mask(c);
    *ret_tile = tile;
    return n;
}

/* Adds the chosen fused gates of one kind that touch no lane and depend on no other; keeps the
 * others in order and returns their number. */
static size_t passes_add_kind(struct qr_sim_plan *p, struct layout *l, uint64_t tile,
                              uint32_t first, enum qr_fused_kind kind, uint32_t *chosen, size_t n) {
    uint64_t blocked = 0, lanes = 0;
    size_t left = 0;
    for (unsigned q = 0; q < p->n; q++)
        if (layout_is_lane(l, q)) lanes |= bit_mask(q);
    for (size_t i = 0; i < n; i++) {
        const struct qr_fused_gate *b = &p->fused[chosen[i]];
        uint64_t all = l->qubits[chosen[i]];
        if (b->kind != kind || (fused_gate_frame(b) & lanes) || (all & blocked)) {
            blocked |= all;
            chosen[left++] = chosen[i];
            continue;
        }
        passes_add_step(p, l, tile, first, chosen[i]);
        l->done[chosen[i]] = true;
    }
    return left;
}

/* Adds all of them that can be added without an exchange of lanes. Diagonal gates wait until no
 * other gate is ready, so that many become one step. */
static size_t passes_add_ready(struct qr_sim_plan *p, struct layout *l, uint64_t tile,
                               uint32_t first, uint32_t *chosen, size_t n) {
    static const enum qr_fused_kind order[] = {QR_FUSED_MATRIX, QR_FUSED_ROTATION,
                                               QR_FUSED_PERMUTATION, QR_FUSED_PHASE};
    for (size_t k = 0; k < sizeof order / sizeof *order;) {
        size_t left = passes_add_kind(p, l, tile, first, order[k], chosen, n);
        k = left < n ? 0 : k + 1;
        n = left;
    }
    return n;
}

/* Exchanges the lanes with the qubits of the tile that are used latest, in this pass, then in later
 * ones. The qubits of the pass's next fused gate stay. */
static void passes_add_transpose(struct qr_sim_plan *p, struct layout *l, uint64_t tile,
                                 const uint32_t *chosen, size_t n) {
    uint64_t cells = 0;
    unsigned use[QR_FUSED_QUBITS];
    layout_next_use(p, l->done, use);
    for (unsigned q = 0; q < p->n; q++) use[q] += use[q] == NEVER ? NEVER : (unsigned)p->n_fused;
    for (size_t i = n; i-- > 0;)
        for (uint64_t m = fused_gate_frame(&p->fused[chosen[i]]); m; m &= m - 1)
            use[__builtin_ctzll(m)] = (unsigned)i;
    for (unsigned q = 0; q < p->n; q++)
        if (!layout_is_lane(l, q) && (tile & bit_mask(l->pos[q] - l->lane_bits)))
            cells |= bit_mask(q);
    cells &= ~fused_gate_frame(&p->fused[chosen[0]]);
    unsigned in[QR_LANE_BITS], out[QR_LANE_BITS] = {0};
    layout_latest(p, use, cells, in);
    for (unsigned q = 0; q < p->n; q++)
        if (layout_is_lane(l, q)) out[l->pos[q]] = q;
    struct qr_plan_step *s = passes_new_step(p, l);
    s->transpose = true;
    for (unsigned k = 0; k < QR_LANE_BITS; k++) {
        unsigned cell = l->pos[in[k]];
        s->swap[k] = (uint8_t)bit_rank(tile, cell - l->lane_bits);
        l->pos[in[k]] = k;
        l->pos[out[k]] = cell;
    }
}

/* Adds bits to a block until it is full, those first that add sets of L1 to it. Returns whether its
 * cells, of two vectors, are at most eight in a set. */
static bool block_fill(const struct qr_sim_plan *p, const uint16_t *order, uint64_t *block) {
    const unsigned tile_bits = p->statevector->tile_bits,
                   bits = QR_BLOCK_BITS - (p->precision == QR_DOUBLE),
                   sets = 4096 / (unsigned)p->cell_bytes - 1;
    unsigned n = 0, rank = 0, basis[16] = {0};
    uint64_t chosen = 0;
    for (int round = 0; round < 3; round++)
        for (unsigned b = 0; b < tile_bits; b++) {
            uint64_t bit = bit_mask(b);
            if (n == bits || (chosen & bit) || (round == 0 && !(*block & bit))) continue;
            unsigned set = (order[bit] ^ order[0]) & sets;
            for (unsigned k = 0; k < 16; k++)
                if (basis[k] && (set ^ basis[k]) < set) set ^= basis[k];
            if (round == 1 && !set) continue;
            if (set) basis[rank++] = set;
            chosen |= bit;
            n++;
        }
    bool fits = !(*block & ~chosen) && rank + 2 >= n;
    *block = chosen;
    return fits;
}

/* Cell bits of a tile that a step of a chain pairs. */
static uint64_t chain_step_bits(const struct qr_statevector *v, const struct qr_plan_step *s) {
    uint64_t bits = 0;
    for (unsigned k = 0; s->transpose && k < QR_LANE_BITS; k++) bits |= bit_mask(s->swap[k]);
    for (uint32_t k = 0; k < s->n_gates; k++) bits |= bit_mask(v->gates[s->first_gate + k].bit[0]);
    return bits;
}

/* Divides the rotations and exchanges of a pass into chains. One of a single step has a block only
 * where it reads or writes the tile. */
static void pass_find_chains(struct qr_sim_plan *p, const struct qr_plan_pass *pass) {
    struct qr_statevector *v = p->statevector;
    struct qr_plan_step *first = v->steps + pass->first_step, *end = first + pass->n_steps;
    uint16_t plain[1 << QR_TILE_BITS];
    for (size_t i = 0; i < (size_t)1 << QR_TILE_BITS; i++) plain[i] = (uint16_t)i;
    for (struct qr_plan_step *head = first, *s; head < end; head = s) {
        s = head + 1;
        if (!qr_step_is_of_chain(head)) continue;
        const uint16_t *order =
            head->first_order == QR_NO_SLOT ? plain : v->orders + head->first_order;
        uint64_t used = chain_step_bits(v, head), block = used;
        bool fits = p->structured && block_fill(p, order, &block);
        for (; fits && s < end && s - head < QR_CHAIN_STEPS && qr_step_is_of_chain(s) &&
               s->first_order == head->first_order;
             s++) {
            uint64_t more = used | chain_step_bits(v, s), wider = more;
            if (!block_fill(p, order, &wider)) break;
            used = more;
            block = wider;
        }
        head->n_chain = (uint8_t)(s - head);
        bool is_inside = head > first && s < end;
        head->block = fits && (s - head > 1 || !is_inside) ? block : bit_mask(v->tile_bits) - 1;
    }
}

/* Whether a gate of the pass is a matrix in float64, before which cells are in order. */
static bool any_in_double(const struct qr_sim_plan *p, const uint32_t *chosen, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const struct qr_fused_gate *b = &p->fused[chosen[i]];
        if (b->kind == QR_FUSED_MATRIX && !fused_gate_is_single(p, b)) return true;
    }
    return false;
}

/* Returns the number of fused gates in the pass. */
static size_t passes_add_pass(struct qr_sim_plan *p, struct layout *l, const bool *only,
                              uint32_t *chosen) {
    struct qr_statevector *v = p->statevector;
    struct qr_plan_pass pass = {.first_step = (uint32_t)v->n_steps};
    bool whole = v->tile_bits == p->cell_bits;
    size_t n = pass_choose_gates(p, l, only, &pass.tile, chosen);
    if (v->tile_bits <= QR_TILE_BITS)
        order_start(v, l, p->structured && !whole && !any_in_double(p, chosen, n));
    pass.first_offset = passes_add_offsets(p, pass.tile, l->order);
    for (size_t left = passes_add_ready(p, l, pass.tile, pass.first_step, chosen, n); left;
         left = passes_add_ready(p, l, pass.tile, pass.first_step, chosen, left))
        passes_add_transpose(p, l, pass.tile, chosen, left);
    if (p->structured && whole) passes_restore_order(p, l);
    pass.last_offset = passes_add_offsets(p, pass.tile, l->order);
    pass.n_steps = (uint32_t)v->n_steps - pass.first_step;
    pass_find_chains(p, &pass);
    for (size_t i = 0; i < v->n_passes; i++) pass.reached |= v->passes[i].tile;
    v->passes = qr_xreallocarray(v->passes, v->n_passes + 1, sizeof *v->passes);
    v->passes[v->n_passes++] = pass;
    return n;
}

static bool terms_flip_same_qubits(const struct qr_plan_term *a, const struct qr_plan_term *b) {
    return a->string.x == b->string.x && a->string.x_lane == b->string.x_lane;
}

static void passes_find_runs(struct qr_statevector *v) {
    v->runs = qr_xcalloc(v->n_terms + 1, sizeof *v->runs);
    for (size_t first = 0, n; first < v->n_terms; first += n) {
        unsigned odd = 0;
        for (n = 0; first + n < v->n_terms && n < QR_RUN_MOST; n++) {
            if (!terms_flip_same_qubits(&v->terms[first], &v->terms[first + n])) break;
            odd += v->terms[first + n].string.n_y & 1;
        }
        v->runs[v->n_runs++] = (struct qr_plan_run){
            .first = (uint32_t)first, .n = (uint32_t)n, .parities = odd > 0 && odd < n ? 2 : 1};
    }
}

/* Collects the bits of x that lie in mask into the lowest bits. */
static uint64_t compress_bits(uint64_t x, uint64_t mask) {
    uint64_t o = 0;
    for (unsigned k = 0; mask; mask &= mask - 1, k++)
        if (x & mask & -mask) o |= bit_mask(k);
    return o;
}

/* Restricts a term's string to the cells of a tile, by their positions. */
static void tile_string(const struct qr_statevector *v, const uint16_t *order, uint64_t tile,
                        struct qr_plan_term *t) {
    uint64_t z = compress_bits(t->string.z, tile);
    t->tile = t->string;
    t->tile.turned = false;
    t->tile.x = order[compress_bits(t->string.x, tile)] ^ order[0];
    t->tile.z = 0;
    for (size_t i = 0; i < (size_t)1 << v->tile_bits; i++) {
        unsigned moved = order[i] ^ order[0];
        if (__builtin_popcount(moved) == 1 && __builtin_parityll(i & z)) t->tile.z |= moved;
    }
    t->tile_minus = __builtin_parityll(t->tile.z & order[0]);
}

static void passes_place_terms(struct qr_sim_plan *p, const struct layout *l,
                               const struct qr_observable *obs, size_t n_obs) {
    struct qr_statevector *v = p->statevector;
    size_t n = 0;
    uint64_t paired = 0;
    for (size_t r = 0; r < n_obs; r++) n += obs[r].n_terms;
    v->terms = qr_xcalloc(n + 1, sizeof *v->terms);
    for (size_t r = 0; r < n_obs; r++)
        for (size_t t = 0; t < obs[r].n_terms; t++) {
            const struct qr_pauli_term *from = &obs[r].terms[t];
            uint64_t x = qr_qubits_mask(&from->x), z = qr_qubits_mask(&from->z);
            struct qr_plan_term *to = &v->terms[v->n_terms++];
            *to = (struct qr_plan_term){.readout = (uint32_t)r, .coefficient = from->coefficient};
            to->string.turned = v->tile_bits < p->cell_bits;
            to->string.n_y = (uint8_t)(__builtin_popcountll(x & z) & 3);
            for (unsigned q = 0; q < p->n_qubits; q++) {
                if (layout_is_lane(l, q)) {
                    if (x & bit_mask(q)) to->string.x_lane |= (uint8_t)bit_mask(l->pos[q]);
                    if (z & bit_mask(q)) to->string.z_lane |= (uint8_t)bit_mask(l->pos[q]);
                } else {
                    if (x & bit_mask(q)) to->string.x |= bit_mask(l->pos[q] - l->lane_bits);
                    if (z & bit_mask(q)) to->string.z |= bit_mask(l->pos[q] - l->lane_bits);
                }
            }
            paired |= to->string.x;
        }
    passes_find_runs(v);
    v->tiles_observe =
        v->tile_bits < p->cell_bits && v->n_passes && !(paired & ~v->passes[v->n_passes - 1].tile);
    for (size_t t = 0; t < v->n_terms && v->tiles_observe; t++)
        tile_string(v, l->order, v->passes[v->n_passes - 1].tile, &v->terms[t]);
}

/* A step needs its adjoint only if an earlier step that has derivatives, or needs its own adjoint,
 * shares a qubit with it: operations on other qubits do not change a cross matrix. Before a branch,
 * phi is a kept state, so lambda needs the adjoints of all steps after it. */
static void mark_adjoints(struct qr_sim_plan *p) {
    struct qr_statevector *v = p->statevector;
    uint64_t needed = 0;
    for (size_t i = 0; i < v->n_steps; i++) {
        if (v->steps[i].transpose) continue;
        uint64_t all = v->steps[i].qubits;
        v->steps[i].needs_adjoint = all & needed;
        if (v->steps[i].cross || v->steps[i].needs_adjoint) needed |= all;
        if (needed && v->n_branches) needed = UINT64_MAX;
    }
}

void qr_plan_passes(struct qr_sim_plan *p, const struct qr_observable *obs, size_t n_obs) {
    struct qr_statevector *v = p->statevector;
    struct layout l = {.lane_bits = p->lanes_are_samples ? 0 : QR_LANE_BITS,
                       .done = qr_xcalloc(p->n_fused + 1, sizeof *l.done),
                       .qubits = qr_xcalloc(p->n_fused + 1, sizeof *l.qubits),
                       .order = qr_xcalloc((size_t)1 << QR_TILE_BITS, sizeof *l.order)};
    uint32_t *chosen = qr_xcalloc(p->n_fused + 1, sizeof *chosen);
    bool *start = qr_xcalloc(p->n_fused + 1, sizeof *start);
    if (p->lanes_are_samples) v->n_wide = p->n_data;
    layout_set_qubits(p, l.qubits);
    layout_first(p, &l);
    size_t left = p->n_fused, before = mark_fixed_start(p, &l, start);
    if (p->cell_bits < 32 && p->cell_bytes << p->cell_bits <= QR_START_MAX_BYTES) {
        for (left -= before; before;) before -= passes_add_pass(p, &l, start, chosen);
        v->first_pass = v->n_passes;
    }
    while (left) left -= passes_add_pass(p, &l, NULL, chosen);
    for (v->first_cross = 0; v->first_cross < v->n_steps; v->first_cross++)
        if (v->steps[v->first_cross].cross) break;
    mark_adjoints(p);
    qr_prefix_plan(p);
    for (unsigned q = 0; q < p->n_qubits; q++) v->final_bit[q] = (uint8_t)l.pos[q];
    passes_place_terms(p, &l, obs, n_obs);
    free(start);
    free(chosen);
    free(l.done);
    free(l.qubits);
    free(l.order);
}
