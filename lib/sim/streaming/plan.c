/* sim/streaming/plan.c — recognises prepare-convolve-pool circuits and lays out their plan.
 * sim/planner.md explains the design. Start reading at qr_stream_plan(). */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "sim/streaming/plan_impl.h"

/* Gates of one segment, numbered by the qubits of the segment. */
struct segment {
    struct qr_gate *gates;
    size_t n;
    unsigned qubits, base;
};

struct circuit_reader {
    struct qr_sim_plan *p;
    struct qr_stream *s;
    struct segment rest, seg[QR_STREAM_SEGMENTS];
    unsigned k[QR_STREAM_SEGMENTS]; /* number of qubits traced out at the end of each segment */
    size_t n_segments, n_prepared;  /* n_prepared: gates of the preparation */
    uint64_t observed;              /* qubits that some observable reads */
};

/* Stores the reason in p->why and returns false. */
static bool QR_PRINTF(2, 3) plan_reject(struct qr_sim_plan *p, const char *format, ...) {
    va_list ap;
    va_start(ap, format);
    vsnprintf(p->why, sizeof p->why, format, ap);
    va_end(ap);
    return false;
}

static bool exponent_is_one(const struct qr_gate *g) {
    return g->n_args == 1 && g->args[0].kind == QR_ARG_CONSTANT && g->args[0].scale == 1 &&
           g->global_shift == 0;
}

/* Recognises a CNOT or CZ, also as an X or Z with one control. pauli: "X" or "Z". */
static bool gate_controlled_pauli(const struct qr_gate *g, const char *pauli, unsigned *control,
                                  unsigned *target) {
    const struct qr_gate_info *info = qr_gate_info(g->kind);
    if (!exponent_is_one(g)) return false;
    if (info->controlled && strcmp(info->controlled, pauli) == 0 &&
        qr_qubits_is_empty(&g->controls)) {
        *control = g->targets[0];
        *target = g->targets[1];
        return true;
    }
    if (strcmp(info->name, pauli) != 0 || qr_qubits_count(&g->controls) != 1 ||
        !qr_qubits_equal(&g->control_values, &g->controls))
        return false;
    *control = qr_qubits_first(&g->controls);
    *target = g->targets[0];
    return true;
}

/* True for a gate on one qubit without controls. */
static bool gate_is_single(const struct qr_gate *g) {
    return g->n_targets == 1 && qr_qubits_is_empty(&g->controls);
}

static bool gate_has_kind(const struct qr_gate *g, enum qr_arg_kind kind) {
    for (unsigned k = 0; k < g->n_args; k++)
        if (g->args[k].kind == kind) return true;
    return false;
}

/* ---- preparation: one-qubit gates, CZ between neighbours on the ring, one-qubit gates (data only
 * here) ---- */

static size_t plan_read_preparation(struct circuit_reader *r, const struct qr_circuit *c) {
    struct qr_stream *s = r->s;
    uint64_t entangled = 0, encoded = 0;
    size_t i = 0;
    for (; i < c->n_gates; i++) {
        const struct qr_gate *g = &c->gates[i];
        unsigned a, b;
        if (qr_gate_info(g->kind)->identity) continue;
        if (gate_has_kind(g, QR_ARG_PARAMETER)) break;
        if (gate_controlled_pauli(g, "Z", &a, &b)) {
            unsigned low = a < b ? a : b, high = a < b ? b : a;
            uint64_t both = UINT64_C(1) << low | UINT64_C(1) << high, edge;
            if (high == low + 1) edge = UINT64_C(1) << low;
            else if (low == 0 && high == s->n - 1) edge = UINT64_C(1) << high;
            else break;
            if (encoded & both) break;
            s->edges ^= edge;
            entangled |= both;
            continue;
        }
        if (!gate_is_single(g)) break;
        unsigned q = g->targets[0];
        if (entangled >> q & 1 || gate_has_kind(g, QR_ARG_DATA)) encoded |= UINT64_C(1) << q;
    }
    size_t end = i, n = 0;
    s->gates = qr_xcalloc(end + 1, sizeof *s->gates);
    for (int after = 0; after < 2; after++)
        for (unsigned q = 0; q < s->n; q++) {
            uint32_t *first = after ? s->after : s->before,
                     *count = after ? s->n_after : s->n_before;
            bool seen = false; /* a gate after the CZ was found */
            first[q] = (uint32_t)n;
            for (i = 0; i < end; i++) {
                const struct qr_gate *g = &c->gates[i];
                if (!(qr_gate_mask(g) >> q & 1)) continue;
                if (!gate_is_single(g)) seen = true;
                else if (gate_has_kind(g, QR_ARG_DATA) || seen) {
                    seen = true;
                    if (after) s->gates[n++] = *g;
                } else if (!after) s->gates[n++] = *g;
            }
            count[q] = (uint32_t)n - first[q];
        }
    return end;
}

/* Computes the states of the qubits before the CZ. */
static void plan_prepare_states(struct qr_stream *s) {
    for (unsigned q = 0; q < s->n; q++) {
        double complex v[2] = {1, 0};
        for (uint32_t i = 0; i < s->n_before[q]; i++) {
            const struct qr_gate *g = &s->gates[s->before[q] + i];
            double complex u[4], w[2];
            double a[2] = {0, 0};
            for (unsigned k = 0; k < g->n_args; k++)
                a[k] = qr_gate_arg_value(&g->args[k], NULL, NULL);
            qr_gate_matrix(g, a, u, NULL);
            for (int x = 0; x < 2; x++) w[x] = u[2 * x] * v[0] + u[2 * x + 1] * v[1];
            v[0] = w[0];
            v[1] = w[1];
        }
        for (int x = 0; x < 2; x++) s->state[q][x] = (struct qr_c64){creal(v[x]), cimag(v[x])};
    }
}

/* ---- layers: gates before a pool, the pool's CNOTs, gates after ---- */

static void gate_shift_qubits(struct qr_gate *g, unsigned by) {
    for (unsigned t = 0; t < g->n_targets; t++) g->targets[t] = (uint16_t)(g->targets[t] - by);
    g->controls = qr_qubits_of_mask(qr_qubits_mask(&g->controls) >> by);
    g->control_values = qr_qubits_of_mask(qr_qubits_mask(&g->control_values) >> by);
}

/* Splits r->rest at its next pool into a segment and a new rest. Returns false if there is no pool,
 * or one of another kind. */
static bool plan_split_at_pool(struct circuit_reader *r, unsigned base) {
    struct segment *in = &r->rest;
    unsigned m = in->qubits, k = m / 2, pairs = 0;
    size_t last[QR_FUSED_QUBITS] = {0}, n_now = 0, n_later = 0;
    uint64_t later = 0, discarded = 0;
    struct qr_gate *now = qr_xcalloc(in->n + 1, sizeof *now),
                   *then = qr_xcalloc(in->n + 1, sizeof *then);
    for (size_t i = 0; i < in->n; i++)
        for (uint64_t q = qr_gate_mask(&in->gates[i]); q; q &= q - 1) last[__builtin_ctzll(q)] = i;
    bool ok = true;
    for (size_t i = 0; i < in->n && ok; i++) {
        const struct qr_gate *g = &in->gates[i];
        uint64_t q = qr_gate_mask(g);
        unsigned source, sink;
        if (gate_controlled_pauli(g, "X", &source, &sink) && last[source] == i && !(later & q) &&
            !(discarded & q) && !(r->observed >> (base + source) & 1)) {
            ok = source < k && sink == source + k;
            discarded |= UINT64_C(1) << source;
            later |= UINT64_C(1) << sink;
            pairs++;
        } else if (q & later) {
            later |= q;
            then[n_later] = *g;
            gate_shift_qubits(&then[n_later++], k);
        } else {
            now[n_now++] = *g;
        }
    }
    ok = ok && pairs == k;
    if (!ok) {
        free(now);
        free(then);
        return false;
    }
    r->k[r->n_segments] = k;
    r->seg[r->n_segments++] = (struct segment){.gates = now, .n = n_now, .qubits = m, .base = base};
    free(in->gates);
    *in = (struct segment){.gates = then, .n = n_later, .qubits = m - k, .base = base + k};
    return true;
}

/* Makes the rest a segment that traces out no qubit. */
static void plan_end_segments(struct circuit_reader *r) {
    r->k[r->n_segments] = 0;
    r->seg[r->n_segments++] = r->rest;
    r->rest = (struct segment){.gates = qr_xcalloc(1, sizeof *r->rest.gates),
                               .qubits = r->rest.qubits,
                               .base = r->rest.base};
}

/* Splits the circuit into the layers to simulate and the tail. */
static bool plan_read_layers(struct circuit_reader *r, const struct qr_observable *obs,
                             size_t n_obs) {
    struct qr_stream *s = r->s;
    for (size_t i = 0; i < r->rest.n; i++)
        if (gate_has_kind(&r->rest.gates[i], QR_ARG_DATA))
            return plan_reject(r->p,
                               "gate %zu (%s) uses data after the preparation (one-qubit gates, "
                               "CZ between neighbours, one-qubit gates with data)",
                               r->n_prepared + i, qr_gate_info(r->rest.gates[i].kind)->name);
    unsigned least = s->sliced ? 2 : 1; /* The first layer, and one in the slices */
    while (r->n_segments < QR_STREAM_SEGMENTS - 1 && (r->n_segments < least || r->rest.qubits > 5))
        if (!plan_split_at_pool(r, r->rest.base)) break;
    bool z_only = true;
    for (size_t i = 0; i < n_obs; i++)
        for (size_t t = 0; t < obs[i].n_terms; t++)
            z_only &= qr_qubits_is_empty(&obs[i].terms[t].x);
    if (r->n_segments && (r->n_segments < least ||
                          (z_only && r->rest.qubits > 5 && r->n_segments < QR_STREAM_SEGMENTS - 1)))
        plan_end_segments(r);
    s->diagonal = z_only && !r->rest.n;
    if (r->n_segments < least)
        return plan_reject(
            r->p,
            "not a QCNN: after %zu layers there is no pool in which source i "
            "of the first half controls a CNOT onto qubit i + half and is not used again",
            r->n_segments);
    if (r->rest.qubits < 2 || (r->rest.qubits > QR_STREAM_TAIL_QUBITS && !s->diagonal))
        return plan_reject(r->p,
                           "%u qubits remain after the last pool: 2 to %d are supported, "
                           "or more if only read-outs of Z follow",
                           r->rest.qubits, (int)QR_STREAM_TAIL_QUBITS);
    s->n_levels = (unsigned)(r->n_segments - (s->sliced ? 1 : 0));
    s->tail_bits = r->rest.qubits;
    plan_end_segments(r);
    return s->n_levels <= QR_STREAM_LEVELS ||
           plan_reject(r->p, "%u layers to simulate: at most %d are supported", s->n_levels,
                       (int)QR_STREAM_LEVELS);
}

/* ---- fused gates to half-layers ---- */

/* Sets half[i] for fused gates first..end; returns false for a gate with controls or too many
 * half-layers. */
static bool plan_find_halves(const struct qr_sim_plan *p, uint32_t first, uint32_t end,
                             uint8_t *half, unsigned *ret_n) {
    unsigned depth[QR_FUSED_QUBITS] = {0};
    *ret_n = 0;
    for (uint32_t i = first; i < end; i++) {
        const struct qr_fused_gate *b = &p->fused[i];
        unsigned a = depth[b->q[0]], c = depth[b->q[1]], h = a > c ? a : c;
        if (b->controls || h >= QR_STREAM_HALVES) return false;
        half[i - first] = (uint8_t)h;
        depth[b->q[0]] = depth[b->q[1]] = h + 1;
        if (h + 1 > *ret_n) *ret_n = h + 1;
    }
    return true;
}

/* ---- the first layer, split into sources and sinks ---- */

static void plan_add_front(struct qr_front_gate *list, unsigned *n, const struct qr_fused_gate *b,
                           unsigned top, const int8_t data[2]) {
    list[(*n)++] =
        (struct qr_front_gate){.shape = b->shape,
                               .bit = {(uint8_t)(top - b->q[0]), (uint8_t)(top - b->q[1])},
                               .data = {data[0], data[1]}};
}

static bool plan_front(struct qr_sim_plan *p, uint32_t first, uint32_t end) {
    struct qr_stream *s = p->stream;
    struct qr_stream_front *f = &s->front;
    uint8_t half[4 * QR_FUSED_QUBITS];
    unsigned n = s->n, n_halves, k = n / 2, m = n - k,
             wanted = n / 2 + (n % 2 ? (n - 1) / 2 : n / 2);
    if (end - first != wanted || !plan_find_halves(p, first, end, half, &n_halves) || n_halves != 2)
        return false;
    f->k = k;
    f->m = m;
    f->centre_first = k % 2;
    f->wrap = n % 2 == 0;
    f->variants = (f->centre_first ? 1 : 2) * (f->wrap ? 2 : 1);
    f->terms = f->wrap ? 16 : 8;
    f->right_bits = m + f->centre_first;
    f->n_slices = (size_t)1 << (k - (f->centre_first ? 0 : 1) - (f->wrap ? 1 : 0));
    f->centre = f->around = QR_NO_SLOT;
    for (int h = 0; h < 2; h++) {
        f->left[h] = qr_xcalloc(n, sizeof *f->left[h]);
        f->right[h] = qr_xcalloc(n, sizeof *f->right[h]);
    }
    uint64_t touched = 0;
    for (uint32_t i = first; i < end; i++) {
        const struct qr_fused_gate *b = &p->fused[i];
        /* a < c: the fuser orders the qubits of a frame. */
        unsigned h = half[i - first], a = b->q[0], c = b->q[1];
        int8_t data[2];
        for (int x = 0; x < 2; x++) data[x] = touched >> b->q[x] & 1 ? -1 : (int8_t)b->q[x];
        touched |= UINT64_C(1) << a | UINT64_C(1) << c;
        if (f->wrap && h == 1 && a == 0 && c == n - 1) f->around = b->shape;
        else if (c != a + 1 || a % 2 != h) return false;
        else if (c < k) plan_add_front(f->left[h], &f->n_left[h], b, k - 1, data);
        else if (a >= k || h == 0) plan_add_front(f->right[h], &f->n_right[h], b, n - 1, data);
        else f->centre = b->shape;
    }
    return f->wrap == (f->around != QR_NO_SLOT) && f->centre_first == (f->centre == QR_NO_SLOT);
}

/* ---- levels: half-layers in tiles ---- */

static void plan_fill_offsets(struct qr_stream *s, struct qr_stream_set *set, uint64_t mask,
                              unsigned m) {
    unsigned bits[QR_STREAM_SET_BITS], n = 0;
    uint32_t offset[1 << QR_STREAM_SET_BITS];
    for (unsigned b = 0; b < m; b++)
        if (mask >> b & 1) bits[n++] = b;
    size_t cells = (size_t)1 << n;
    for (size_t x = 0; x < cells; x++) {
        offset[x] = 0;
        for (unsigned b = 0; b < n; b++) offset[x] |= (uint32_t)(x >> b & 1) << bits[b];
    }
    set->n_bits = n;
    set->global = qr_xcalloc(set->n_fused * cells, sizeof *set->global);
    set->local = qr_xcalloc(set->n_fused * cells, sizeof *set->local);
    for (uint32_t i = 0; i < set->n_fused; i++) {
        const struct qr_stream_gate *b = &s->fused[set->first_fused + i];
        unsigned at[2] = {0, 0};
        for (unsigned x = 0; x < n; x++)
            for (int f = 0; f < 2; f++)
                if (bits[x] == b->bit[f]) at[f] = x;
        size_t out = i * cells;
        for (size_t x = 0; x < cells; x++) {
            if (x >> at[0] & 1 || x >> at[1] & 1) continue;
            for (unsigned j = 0; j < 4; j++) {
                size_t y = x | (size_t)(j >> 1) << at[0] | (size_t)(j & 1) << at[1];
                set->local[out] = (uint32_t)y;
                set->global[out++] = offset[y];
            }
        }
    }
    unsigned run = 0;
    while (run < n && bits[run] == run) run++;
    set->gathered = set->n_fused > 1 && n < m && run < 4;
    set->n_bases = (size_t)1 << (m - n);
    set->bases = qr_xcalloc(set->n_bases, sizeof *set->bases);
    uint64_t free_bits = ~mask & (((uint64_t)1 << m) - 1), at = 0;
    for (size_t i = 0; i < set->n_bases; i++, at = ((at | ~free_bits) + 1) & free_bits)
        set->bases[i] = (uint32_t)at;
}

/* Neighbours share a tile; the remaining bits of the tile are the lowest cell bits, for long
 * runs. */
static void plan_half(struct qr_stream *s, struct qr_stream_half *h, uint32_t first, uint32_t end,
                      unsigned m) {
    h->first_set = (uint32_t)s->n_sets;
    for (uint32_t at = first; at < end;) {
        struct qr_stream_set *set = &s->sets[s->n_sets++];
        uint64_t mask = 0;
        set->first_fused = at;
        for (; at < end; at++, set->n_fused++) {
            uint64_t more =
                mask | UINT64_C(1) << s->fused[at].bit[0] | UINT64_C(1) << s->fused[at].bit[1];
            if (__builtin_popcountll(more) > QR_STREAM_SET_BITS) break;
            mask = more;
        }
        for (unsigned b = 0; b < m && __builtin_popcountll(mask) < QR_STREAM_SET_BITS; b++)
            mask |= UINT64_C(1) << b;
        plan_fill_offsets(s, set, mask, m);
    }
    h->n_sets = (uint32_t)s->n_sets - h->first_set;
}

/* Returns the bit of the word that holds the outcome of source j of the previous layer. */
static uint8_t plan_flip_bit(const struct qr_stream *s, unsigned level, unsigned j) {
    if (level == 0 && !s->sliced) return QR_FLIP_NONE;
    if (level > 0) {
        unsigned k = s->levels[level - 1].k;
        return j < k ? (uint8_t)(k - 1 - j) : QR_FLIP_NONE;
    }
    const struct qr_stream_front *f = &s->front;
    if (j >= f->k) return QR_FLIP_NONE;
    if (f->wrap && j == 0) return QR_FLIP_D;
    if (!f->centre_first && j == f->k - 1) return QR_FLIP_A;
    return (uint8_t)(f->k - 1 - j - (f->centre_first ? 0 : 1));
}

static int compare_bits(const struct qr_stream_gate *a, const struct qr_stream_gate *b) {
    unsigned x = a->bit[0] < a->bit[1] ? a->bit[0] : a->bit[1],
             y = b->bit[0] < b->bit[1] ? b->bit[0] : b->bit[1];
    return x < y ? -1 : x > y;
}

static struct qr_stream_gate plan_level_gate(struct qr_stream *s, unsigned level,
                                             const struct qr_fused_gate *b, uint64_t *touched) {
    struct qr_stream_gate x = {.shape = b->shape, .cross = 0};
    for (int f = 0; f < 2; f++) {
        bool first = !(*touched >> b->q[f] & 1);
        x.bit[f] = (uint8_t)(s->levels[level].m - 1 - b->q[f]);
        x.flip[f] = first ? plan_flip_bit(s, level, b->q[f]) : QR_FLIP_NONE;
        x.data[f] = first && level == 0 && !s->sliced ? (int8_t)b->q[f] : -1;
        x.wide |= (level == 0 && s->sliced && x.flip[f] < QR_LANE_BITS) || x.data[f] >= 0;
    }
    *touched |= UINT64_C(1) << b->q[0] | UINT64_C(1) << b->q[1];
    x.coef = s->n_coefs;
    s->n_coefs += x.wide ? 4 * QR_STREAM_WIDE : 4 * QR_STREAM_NARROW;
    return x;
}

static bool plan_level(struct qr_sim_plan *p, unsigned level, uint32_t first, uint32_t end,
                       unsigned m, unsigned k) {
    struct qr_stream *s = p->stream;
    struct qr_stream_level *l = &s->levels[level];
    uint8_t half[4 * QR_FUSED_QUBITS];
    uint64_t touched = 0;
    *l = (struct qr_stream_level){
        .m = m, .k = k, .first_fused = (uint32_t)s->n_fused, .n_fused = end - first};
    if (end - first > 4 * QR_FUSED_QUBITS || !plan_find_halves(p, first, end, half, &l->n_halves))
        return false;
    for (unsigned h = 0; h < l->n_halves; h++) {
        uint32_t begin = (uint32_t)s->n_fused;
        for (uint32_t i = first; i < end; i++)
            if (half[i - first] == h) {
                struct qr_stream_gate x = plan_level_gate(s, level, &p->fused[i], &touched);
                uint32_t at = (uint32_t)s->n_fused++;
                for (; at > begin && compare_bits(&x, &s->fused[at - 1]) < 0; at--)
                    s->fused[at] = s->fused[at - 1];
                s->fused[at] = x;
            }
        plan_half(s, &l->halves[h], begin, (uint32_t)s->n_fused, m);
    }
    for (uint32_t i = l->first_fused; i < s->n_fused; i++) s->fused[i].cross = i;
    bool reached = l->n_halves > 0; /* Every flip and every encoding must reach a fused gate. */
    for (unsigned j = 0; j < m; j++)
        if (plan_flip_bit(s, level, j) != QR_FLIP_NONE || (level == 0 && !s->sliced))
            reached &= touched >> j & 1;
    return reached;
}

/* ---- the whole plan ---- */

static void plan_sizes(struct qr_stream *s) {
    size_t half = s->dim / 2;
    s->density_numbers = s->diagonal ? s->dim : half * (half + 1) / 2 * 8;
    const struct qr_stream_front *f = &s->front;
    s->split = s->sliced && ((size_t)f->variants << f->m) > QR_STREAM_PIECE_TERMS;
    size_t chunks = s->sliced ? f->n_slices / QR_LANES : 0,
           most = s->split ? QR_STREAM_SPLIT_CHUNKS : chunks;
    if (f->m >= 14) most = QR_STREAM_PIECE_TERMS / QR_LANES;
    s->item_chunks = (unsigned)(chunks < most ? chunks : most);
}

static void plan_keep_observables(struct circuit_reader *r, const struct qr_observable *obs,
                                  size_t n_obs, unsigned base) {
    struct qr_stream *s = r->s;
    s->observables = qr_xcalloc(n_obs + 1, sizeof *s->observables);
    for (size_t i = 0; i < n_obs; i++) {
        struct qr_observable *o = &s->observables[i];
        o->n_terms = obs[i].n_terms;
        o->terms = qr_xcalloc(o->n_terms + 1, sizeof *o->terms);
        for (size_t t = 0; t < o->n_terms; t++) {
            const struct qr_pauli_term *from = &obs[i].terms[t];
            o->terms[t] = (struct qr_pauli_term){
                from->coefficient, qr_qubits_of_mask(qr_qubits_mask(&from->x) >> base),
                qr_qubits_of_mask(qr_qubits_mask(&from->z) >> base)};
        }
    }
}

static bool plan_lay_out(struct circuit_reader *r, const struct qr_observable *obs, size_t n_obs) {
    struct qr_sim_plan *p = r->p;
    struct qr_stream *s = r->s;
    struct qr_circuit c[QR_STREAM_SEGMENTS];
    uint32_t first[QR_STREAM_SEGMENTS + 1];
    memset(c, 0, sizeof c);
    for (size_t i = 0; i < r->n_segments; i++) {
        c[i].n_qubits = r->seg[i].qubits;
        c[i].gates = r->seg[i].gates;
        c[i].n_gates = r->seg[i].n;
    }
    if (r->observed & ((UINT64_C(1) << r->seg[r->n_segments - 1].base) - 1))
        return plan_reject(p, "a read-out uses a qubit that a pool traces out");
    qr_plan_fuse(p, c, r->n_segments, first);
    s->fused = qr_xcalloc(p->n_fused + 1, sizeof *s->fused);
    s->sets = qr_xcalloc(p->n_fused + 1, sizeof *s->sets);
    size_t i = 0;
    if (s->sliced && !plan_front(p, first[0], first[1]))
        return plan_reject(p, "the first layer is not pairs (0,1) (2,3) ..., then (1,2) (3,4) ..., "
                              "closed to a ring if the number of qubits is even");
    if (s->sliced) i = 1;
    for (unsigned l = 0; l < s->n_levels; l++, i++)
        if (!plan_level(p, l, first[i], first[i + 1], r->seg[i].qubits, r->k[i]))
            return plan_reject(
                p,
                "layer %zu is not made of at most %d half-layers of disjoint pairs that "
                "reach every qubit, without further controls",
                i + 1, (int)QR_STREAM_HALVES);
    s->tail_first = first[i];
    s->n_tail = first[i + 1] - first[i];
    for (uint32_t b = first[i]; b < first[i + 1]; b++)
        if (p->fused[b].controls)
            return plan_reject(p, "a gate on more than two qubits follows the last pool");
    s->dim = 1u << s->tail_bits;
    plan_keep_observables(r, obs, n_obs, r->seg[i].base);
    plan_sizes(s);
    plan_prepare_states(s);
    return true;
}

bool qr_stream_plan(struct qr_sim_plan *p, const struct qr_circuit *c,
                    const struct qr_observable *obs, size_t n_obs) {
    if (!n_obs) return plan_reject(p, "the circuit has no read-out");
    if (p->wanted)
        return plan_reject(p, p->inputs_wanted
                                  ? "derivatives with respect to inputs are required"
                                  : "an angle combines inputs and parameters in one expression");
    if (c->n_qubits < QR_STREAM_MIN_QUBITS || c->n_qubits > QR_STREAM_MAX_QUBITS)
        return plan_reject(p, "%u qubits: streaming supports %d to %d", c->n_qubits,
                           (int)QR_STREAM_MIN_QUBITS, (int)QR_STREAM_MAX_QUBITS);
    struct circuit_reader r = {.p = p, .s = qr_xcalloc(1, sizeof *r.s)};
    p->stream = r.s;
    r.s->n = c->n_qubits;
    r.s->sliced = !p->lanes_are_samples;
    for (size_t i = 0; i < n_obs; i++)
        for (size_t t = 0; t < obs[i].n_terms; t++)
            r.observed |= qr_qubits_mask(&obs[i].terms[t].x) | qr_qubits_mask(&obs[i].terms[t].z);
    size_t done = r.n_prepared = plan_read_preparation(&r, c);
    r.rest = (struct segment){.gates = qr_xcalloc(c->n_gates + 1, sizeof *r.rest.gates),
                              .n = c->n_gates - done,
                              .qubits = c->n_qubits};
    memcpy(r.rest.gates, c->gates + done, r.rest.n * sizeof *r.rest.gates);
    bool ok = plan_read_layers(&r, obs, n_obs) && plan_lay_out(&r, obs, n_obs);
    free(r.rest.gates);
    for (size_t i = 0; i < r.n_segments; i++) free(r.seg[i].gates);
    if (ok) {
        snprintf(p->why, sizeof p->why,
                 "a product state, CZ between neighbours, one-qubit gates with the data; then "
                 "layers of disjoint pairs, each "
                 "ending in a pool that traces out half of its qubits");
        return true;
    }
    qr_stream_free(p);
    qr_plan_unfuse(p);
    return false;
}

void qr_stream_free(struct qr_sim_plan *p) {
    struct qr_stream *s = p->stream;
    for (int h = 0; h < 2; h++) {
        free(s->front.left[h]);
        free(s->front.right[h]);
    }
    for (size_t i = 0; i < s->n_sets; i++) {
        free(s->sets[i].global);
        free(s->sets[i].local);
        free(s->sets[i].bases);
    }
    for (size_t i = 0; s->observables && s->observables[i].terms; i++)
        free(s->observables[i].terms);
    free(s->observables);
    free(s->fused);
    free(s->sets);
    free(s->gates);
    free(s);
    p->stream = NULL;
}
