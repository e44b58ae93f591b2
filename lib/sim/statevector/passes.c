/* sim/statevector/passes.c — the order of fused gates over a state, and every qubit's place in it.
 * sim/planner.md has the rules. */
#include <string.h>

#include "base/mem.h"
#include "sim/statevector/statevector_impl.h"

enum { NEVER = 1 << 30 }; /* later than any fused gate */

struct layout {
    unsigned pos[QR_FUSED_QUBITS]; /* physical bit of a qubit; the first lane_bits are lanes */
    unsigned lane_bits;
    bool *done; /* per fused gate */
};

static uint64_t bit(unsigned b) { return UINT64_C(1) << b; }
static uint64_t qubits_of(const struct qr_fused_gate *b) {
    return b->controls | bit(b->q[0]) | bit(b->q[1]);
}
static bool is_lane(const struct layout *l, unsigned q) { return l->pos[q] < l->lane_bits; }

/* Fused gates that are fixed, with nothing but fixed ones before them need no sample and
 * no theta. */
static size_t mark_start(const struct qr_sim_plan *p, bool *ret) {
    uint64_t later = 0;
    size_t n = 0;
    for (size_t i = 0; i < p->n_fused; i++) {
        const struct qr_fused_gate *b = &p->fused[i];
        const struct qr_plan_shape *s = &p->shapes[b->shape];
        uint64_t all = qubits_of(b);
        bool fixed = true;
        for (uint32_t o = s->first_op; o < s->first_op + s->n_ops; o++)
            for (unsigned k = 0; k < p->ops[o].gate.n_args; k++)
                fixed &= p->ops[o].gate.args[k].kind == QR_ARG_CONSTANT;
        ret[i] = fixed && !(all & later);
        if (ret[i]) n++;
        else later |= all;
    }
    return n;
}

/* Place in the list of the first fused gate still to do on each qubit. */
static void next_use(const struct qr_sim_plan *p, const bool *done, unsigned *ret) {
    for (unsigned q = 0; q < p->n; q++) ret[q] = NEVER;
    for (size_t i = p->n_fused; i-- > 0;)
        if (!done[i])
            for (int k = 0; k < 2; k++) ret[p->fused[i].q[k]] = (unsigned)i;
}

/* The four qubits among `from` that are wanted last. */
static void latest(const struct qr_sim_plan *p, const unsigned *use, uint64_t from,
                   unsigned ret[QR_LANE_BITS]) {
    for (int k = 0; k < QR_LANE_BITS; k++) {
        unsigned best = QR_FUSED_QUBITS;
        for (unsigned q = 0; q < p->n; q++)
            if ((from & bit(q)) && (best == QR_FUSED_QUBITS || use[q] >= use[best])) best = q;
        ret[k] = best;
        from &= ~bit(best);
    }
}

static void first_layout(const struct qr_sim_plan *p, struct layout *l) {
    if (!l->lane_bits) { /* qubit 0 is the most significant bit */
        for (unsigned q = 0; q < p->n; q++) l->pos[q] = p->n - 1 - q;
        return;
    }
    unsigned lanes[QR_LANE_BITS], use[QR_FUSED_QUBITS];
    next_use(p, l->done, use);
    latest(p, use, p->n == 64 ? ~UINT64_C(0) : bit(p->n) - 1, lanes);
    uint64_t taken = 0;
    for (unsigned k = 0; k < QR_LANE_BITS; k++) {
        l->pos[lanes[k]] = k;
        taken |= bit(lanes[k]);
    }
    unsigned next = QR_LANE_BITS;
    for (unsigned q = 0; q < p->n; q++)
        if (!(taken & bit(q))) l->pos[q] = next++;
}

/* Bits of `mask` below bit b, counted. */
static unsigned rank_in(uint64_t mask, unsigned b) {
    return (unsigned)__builtin_popcountll(mask & (bit(b) - 1));
}

static struct qr_plan_step *new_step(struct qr_sim_plan *p) {
    struct qr_statevector *v = p->statevector;
    v->steps = qr_xreallocarray(v->steps, v->n_steps + 1, sizeof *v->steps);
    struct qr_plan_step *s = &v->steps[v->n_steps++];
    *s = (struct qr_plan_step){.lanes = 0xffff, .wide_slot = QR_NO_SLOT};
    return s;
}

static void add_step(struct qr_sim_plan *p, const struct layout *l, uint64_t tile, uint32_t fused) {
    const struct qr_fused_gate *b = &p->fused[fused];
    struct qr_plan_step s = {.fused = fused,
                             .shape = b->shape,
                             .lanes = 0xffff,
                             .wide_slot = QR_NO_SLOT,
                             .cross = p->shapes[b->shape].n_derivatives > 0};
    for (int k = 0; k < 2; k++)
        s.place.bit[k] = (uint8_t)rank_in(tile, l->pos[b->q[k]] - l->lane_bits);
    for (unsigned q = 0; q < p->n; q++) {
        if (!(b->controls & bit(q))) continue;
        bool value = b->control_values & bit(q);
        if (is_lane(l, q)) {
            for (unsigned lane = 0; lane < QR_LANES; lane++)
                if ((lane >> l->pos[q] & 1) != value) s.lanes &= (uint16_t) ~(1u << lane);
        } else {
            unsigned cell = l->pos[q] - l->lane_bits;
            bool inside = tile & bit(cell);
            uint64_t m = inside ? bit(rank_in(tile, cell)) : bit(cell);
            *(inside ? &s.place.controls : &s.outer_controls) |= m;
            if (value) *(inside ? &s.place.values : &s.outer_values) |= m;
        }
    }
    bool data = p->shapes[b->shape].data_slot != QR_NO_SLOT;
    if (p->lanes_are_samples) s.wide_slot = data ? p->shapes[b->shape].data_slot : QR_NO_SLOT;
    else if (s.lanes != 0xffff) s.wide_slot = (uint32_t)p->statevector->n_wide++;
    *new_step(p) = s;
}

/* Cells of the tile: where each lies. */
static void add_offsets(struct qr_sim_plan *p, struct qr_plan_pass *pass) {
    struct qr_statevector *v = p->statevector;
    pass->first_offset = (uint32_t)v->n_offsets;
    if (v->tile_bits == p->cell_bits) return;
    size_t n = (size_t)1 << v->tile_bits;
    v->offsets = qr_xreallocarray(v->offsets, v->n_offsets + n, sizeof *v->offsets);
    uint64_t o = 0;
    for (size_t i = 0; i < n; i++, o = ((o | ~pass->tile) + 1) & pass->tile)
        v->offsets[v->n_offsets + i] = qr_cell_at(o);
    v->n_offsets += n;
}

/* The fused gates that one pass takes, in program order: greedily, a fused gate enters when its
 * frame is on lanes or inside the tile, which grows to tile_bits, and no fused gate left out before
 * it touches its qubits. Returns how many. */
static size_t choose(const struct qr_sim_plan *p, const struct layout *l, const bool *only,
                     uint64_t *ret_tile, uint32_t *ret) {
    const struct qr_statevector *v = p->statevector;
    uint64_t tile = 0, blocked = 0;
    size_t n = 0;
    for (size_t i = 0; i < p->n_fused; i++) {
        if (l->done[i] || (only && !only[i])) continue;
        const struct qr_fused_gate *b = &p->fused[i];
        uint64_t all = qubits_of(b), want = tile;
        for (int k = 0; k < 2; k++)
            if (!is_lane(l, b->q[k])) want |= bit(l->pos[b->q[k]] - l->lane_bits);
        if ((all & blocked) || (unsigned)__builtin_popcountll(want) > v->tile_bits) {
            blocked |= all;
            continue;
        }
        tile = want;
        ret[n++] = (uint32_t)i;
    }
    for (unsigned c = 0; (unsigned)__builtin_popcountll(tile) < v->tile_bits; c++) tile |= bit(c);
    *ret_tile = tile;
    return n;
}

/* Those of the chosen fused gates that touch no lane and that no other has to come before; the
 * others stay, in order. */
static size_t add_ready(struct qr_sim_plan *p, struct layout *l, uint64_t tile, uint32_t *chosen,
                        size_t n) {
    uint64_t blocked = 0;
    size_t left = 0;
    for (size_t i = 0; i < n; i++) {
        const struct qr_fused_gate *b = &p->fused[chosen[i]];
        if (is_lane(l, b->q[0]) || is_lane(l, b->q[1]) || (qubits_of(b) & blocked)) {
            blocked |= qubits_of(b);
            chosen[left++] = chosen[i];
            continue;
        }
        add_step(p, l, tile, chosen[i]);
        l->done[chosen[i]] = true;
    }
    return left;
}

/* The lanes change places with the qubits of the tile that are wanted last: in this pass, then
 * later. Those that the pass's next fused gate needs stay. */
static void add_transpose(struct qr_sim_plan *p, struct layout *l, uint64_t tile,
                          const uint32_t *chosen, size_t n) {
    uint64_t cells = 0;
    unsigned use[QR_FUSED_QUBITS];
    next_use(p, l->done, use);
    for (unsigned q = 0; q < p->n; q++) use[q] += use[q] == NEVER ? NEVER : (unsigned)p->n_fused;
    for (size_t i = n; i-- > 0;)
        for (int k = 0; k < 2; k++) use[p->fused[chosen[i]].q[k]] = (unsigned)i;
    for (unsigned q = 0; q < p->n; q++)
        if (!is_lane(l, q) && (tile & bit(l->pos[q] - l->lane_bits))) cells |= bit(q);
    for (int k = 0; k < 2; k++) cells &= ~bit(p->fused[chosen[0]].q[k]);
    unsigned in[QR_LANE_BITS], out[QR_LANE_BITS] = {0};
    latest(p, use, cells, in);
    for (unsigned q = 0; q < p->n; q++)
        if (is_lane(l, q)) out[l->pos[q]] = q;
    struct qr_plan_step *s = new_step(p);
    s->transpose = true;
    for (unsigned k = 0; k < QR_LANE_BITS; k++) {
        unsigned cell = l->pos[in[k]];
        s->swap[k] = (uint8_t)rank_in(tile, cell - l->lane_bits);
        l->pos[in[k]] = k;
        l->pos[out[k]] = cell;
    }
}

/* Returns how many fused gates it has. */
static size_t add_pass(struct qr_sim_plan *p, struct layout *l, const bool *only,
                       uint32_t *chosen) {
    struct qr_statevector *v = p->statevector;
    struct qr_plan_pass pass = {.first_step = (uint32_t)v->n_steps};
    size_t n = choose(p, l, only, &pass.tile, chosen);
    add_offsets(p, &pass);
    for (size_t left = add_ready(p, l, pass.tile, chosen, n); left;
         left = add_ready(p, l, pass.tile, chosen, left))
        add_transpose(p, l, pass.tile, chosen, left);
    pass.n_steps = (uint32_t)v->n_steps - pass.first_step;
    v->passes = qr_xreallocarray(v->passes, v->n_passes + 1, sizeof *v->passes);
    v->passes[v->n_passes++] = pass;
    return n;
}

static bool turn_alike(const struct qr_plan_term *a, const struct qr_plan_term *b) {
    return a->place.x == b->place.x && a->place.x_lane == b->place.x_lane;
}

static void find_runs(struct qr_statevector *v) {
    v->runs = qr_xcalloc(v->n_terms + 1, sizeof *v->runs);
    for (size_t first = 0, n; first < v->n_terms; first += n) {
        unsigned odd = 0;
        for (n = 0; first + n < v->n_terms && n < QR_RUN_MOST; n++) {
            if (!turn_alike(&v->terms[first], &v->terms[first + n])) break;
            odd += v->terms[first + n].place.n_y & 1;
        }
        v->runs[v->n_runs++] = (struct qr_plan_run){
            .first = (uint32_t)first, .n = (uint32_t)n, .parities = odd > 0 && odd < n ? 2 : 1};
    }
}

static void place_terms(struct qr_sim_plan *p, const struct layout *l,
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
            to->place.turned = v->tile_bits < p->cell_bits;
            to->place.n_y = (uint8_t)(__builtin_popcountll(x & z) & 3);
            for (unsigned q = 0; q < p->n_qubits; q++) {
                if (is_lane(l, q)) {
                    if (x & bit(q)) to->place.x_lane |= (uint8_t)bit(l->pos[q]);
                    if (z & bit(q)) to->place.z_lane |= (uint8_t)bit(l->pos[q]);
                } else {
                    if (x & bit(q)) to->place.x |= bit(l->pos[q] - l->lane_bits);
                    if (z & bit(q)) to->place.z |= bit(l->pos[q] - l->lane_bits);
                }
            }
            paired |= to->place.x;
        }
    find_runs(v);
    v->tiles_observe =
        v->tile_bits < p->cell_bits && v->n_passes && !(paired & ~v->passes[v->n_passes - 1].tile);
}

/* A step's adjoint is wanted only where an earlier step that owes derivatives, or whose adjoint is
 * wanted, shares a qubit with it: what happens on other qubits does not show in a cross matrix. */
static void mark_back(struct qr_sim_plan *p) {
    struct qr_statevector *v = p->statevector;
    uint64_t owed = 0;
    for (size_t i = 0; i < v->n_steps; i++) {
        if (v->steps[i].transpose) continue;
        uint64_t all = qubits_of(&p->fused[v->steps[i].fused]);
        v->steps[i].back = all & owed;
        if (v->steps[i].cross || v->steps[i].back) owed |= all;
    }
}

void qr_plan_passes(struct qr_sim_plan *p, const struct qr_observable *obs, size_t n_obs) {
    struct qr_statevector *v = p->statevector;
    struct layout l = {.lane_bits = p->lanes_are_samples ? 0 : QR_LANE_BITS,
                       .done = qr_xcalloc(p->n_fused + 1, sizeof *l.done)};
    uint32_t *chosen = qr_xcalloc(p->n_fused + 1, sizeof *chosen);
    bool *start = qr_xcalloc(p->n_fused + 1, sizeof *start);
    if (p->lanes_are_samples) v->n_wide = p->n_data;
    first_layout(p, &l);
    size_t left = p->n_fused, before = mark_start(p, start);
    if (p->cell_bits < 32 && p->cell_bytes << p->cell_bits <= QR_START_MAX_BYTES) {
        for (left -= before; before;) before -= add_pass(p, &l, start, chosen);
        v->first_pass = v->n_passes;
    }
    while (left) left -= add_pass(p, &l, NULL, chosen);
    for (v->first_cross = 0; v->first_cross < v->n_steps; v->first_cross++)
        if (v->steps[v->first_cross].cross) break;
    mark_back(p);
    place_terms(p, &l, obs, n_obs);
    free(start);
    free(chosen);
    free(l.done);
}
