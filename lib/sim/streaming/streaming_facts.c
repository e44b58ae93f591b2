/* sim/streaming/streaming_facts.c — report of a streaming plan: its lines, and the costs of its
 * kernel calls. sim/planner.md has a diagram. Start reading at qr_stream_report(). */
#include <stdio.h>

#include "base/mem.h"
#include "sim/report/report_build.h"
#include "sim/streaming/streaming_impl.h"

/* ---- costs ---- */

enum { ENCODE_OPERATIONS = 4 * 4 * (4 + 4 * 4 + 1) }; /* per lane of the kernel encode */

/* One sweep over all lanes of a group of samples, or of one sample. */
struct sweep {
    bool backward;
    unsigned each; /* number of read-outs summed into lambda; 0: one direction */
};

static double streaming_cells(const struct qr_stream *s) {
    double cells = (double)(UINT64_C(1) << s->n);
    return s->sliced ? cells / QR_LANES : cells;
}

static void level_cost(struct qr_report_build *b, const struct sweep *w, unsigned level) {
    const struct qr_stream *s = b->p->stream;
    const struct qr_stream_level *l = &s->levels[level];
    double cells = streaming_cells(s);
    char name[16];
    snprintf(name, sizeof name, "layer %u", level + (s->sliced ? 2 : 1));
    struct qr_sim_stage *stage =
        qr_report_stage(b, name, "fused gates, their cross matrices, their adjoints");
    for (unsigned h = 0; h < l->n_halves; h++) {
        const struct qr_stream_half *half = &l->halves[h];
        for (uint32_t i = half->first_set; i < half->first_set + half->n_sets; i++)
            for (uint32_t j = 0; j < s->sets[i].n_fused; j++) {
                const struct qr_plan_shape *shape =
                    &b->p->shapes[s->fused[s->sets[i].first_fused + j].shape];
                qr_cost_apply(stage, cells, qr_report_dense, b->p->cell_bytes);
                if (w->backward && shape->n_derivatives)
                    qr_cost_cross(stage, cells, b->p->cell_bytes);
                if (w->backward && (h > 0 || level > 0 || s->sliced))
                    qr_cost_apply(stage, cells, qr_report_dense, b->p->cell_bytes);
            }
    }
}

/* lambda = O phi, and the sums of |phi><phi|. */
static void observe_cost(struct qr_report_build *b, const struct sweep *w) {
    const struct qr_stream *s = b->p->stream;
    double cells = streaming_cells(s), half = s->dim / 2.0, tiles = half * (half + 1) / 2;
    size_t cell = b->p->cell_bytes;
    struct qr_sim_stage *stage =
        qr_report_stage(b, "tail", "lambda = O phi; density matrix of the remaining qubits");
    bool one = w->backward && !w->each;
    if (s->diagonal) {
        qr_cost(stage, cells * (one ? 4 : 2), cells * (double)cell * (one ? 2 : 1));
        qr_cost(stage, cells * 3 * w->each, cells * (double)cell * 3 * w->each);
        return;
    }
    qr_cost_products(stage, cells, 4 * tiles / s->dim, 1, cell);
    if (one) qr_cost_products(stage, cells, s->dim, 2, cell);
    qr_cost_products(stage, cells, (double)s->dim * w->each, 3 * w->each, cell);
    qr_cost(stage, cells * 2 * w->each, 0); /* Times the lane's weight */
}

/* Cells of one matrix of the tail, in float64. */
static double tail_cells(const struct qr_stream *s) {
    return (double)qr_tail_doubles(s) / (2 * QR_LANES);
}

static void tail_gradient_cost(struct qr_report_build *b, double times) {
    const struct qr_stream *s = b->p->stream;
    if (!s->n_tail) return;
    size_t cell = 2 * QR_LANES * sizeof(double);
    struct qr_sim_stage *stage =
        qr_report_stage(b, "tail's back", "fused gates of the tail on density matrices, float64");
    for (uint32_t i = s->tail_first; i < s->tail_first + s->n_tail; i++) {
        uint32_t shape = b->p->fused[i].shape;
        qr_cost_apply(stage, times * 2 * tail_cells(s), b->sparsity[shape][0], cell);
        if (b->p->shapes[shape].n_derivatives) qr_cost_cross(stage, times * tail_cells(s), cell);
    }
}

static void bind_cost(struct qr_report_build *b) {
    const struct qr_stream *s = b->p->stream;
    if (!s->n_tail) return;
    struct qr_sim_stage *stage =
        qr_report_stage(b, "bind", "read-outs propagated back through the tail, float64");
    stage->when = QR_EACH_STEP;
    for (uint32_t i = s->tail_first; i < s->tail_first + s->n_tail; i++)
        qr_cost_apply(stage, 2 * tail_cells(s) * b->p->n_readouts,
                      b->sparsity[b->p->fused[i].shape][1], 2 * QR_LANES * sizeof(double));
}

/* ---- the first layer of a sliced plan ---- */

/* A dense 4x4 on 8 lanes of `cells` cells. */
static void half_cost(struct qr_sim_stage *stage, double cells, size_t cell) {
    qr_cost_apply(stage, cells / 2, qr_report_dense, cell);
}

/* forward: count the forward chain. encoding: if all 16 lanes run backward; else NULL. */
static void chain_cost(struct qr_report_build *b, bool forward, bool backward, unsigned bits,
                       struct qr_front_gate *const half[2], const unsigned n[2],
                       const double *encoding) {
    double cells = (double)(UINT64_C(1) << bits);
    size_t cell = b->p->cell_bytes;
    for (unsigned h = 0; h < 2; h++)
        for (unsigned i = 0; i < n[h]; i++) {
            if (forward)
                half_cost(qr_report_stage(b, "tables", "layer 1 on sources and sinks separately"),
                          cells, cell);
            if (!backward) continue;
            struct qr_sim_stage *stage =
                qr_report_stage(b, "tables, back", "derivatives of layer 1");
            if (b->p->shapes[half[h][i].shape].n_derivatives) qr_cost_cross(stage, cells, cell);
            if (h && !encoding) half_cost(stage, cells, cell);
            if (!h || !encoding) continue;
            double numbers[QR_NARROW];
            struct qr_m4 m = qr_front_matrix(b->probe, &half[h][i], encoding);
            qr_narrow_numbers(&m, numbers);
            qr_cost_apply(stage, cells, qr_report_sparsity(numbers + QR_NARROW / 2), cell);
        }
}

static void front_cost(struct qr_report_build *b, const struct sweep *w) {
    const struct qr_stream *s = b->p->stream;
    const struct qr_stream_front *f = &s->front;
    double cells = streaming_cells(s), chain = (double)(UINT64_C(1) << f->right_bits),
           all = f->variants * chain;
    size_t cell = b->p->cell_bytes;
    double *encoding = qr_xcalloc((size_t)s->n * 8, sizeof *encoding);
    qr_stream_encodings(s, b->x, 0, 1, encoding);
    bool one = qr_front_one_chain(f);
    chain_cost(b, true, w->backward, f->k, f->left, f->n_left, NULL);
    chain_cost(b, !one, w->backward, f->right_bits, f->right, f->n_right, one ? encoding : NULL);
    free(encoding);
    unsigned builds = qr_stream_one_table(s) ? 1 + w->backward : 1;
    if (f->variants > 1)
        qr_cost_apply(qr_report_stage(b, "tables", NULL), builds * all, qr_report_dense, cell);
    qr_cost_products(
        qr_report_stage(b, "slices",
                        "a slice from the tables, and their derivatives from its lambda"),
        cells, f->terms, 2, cell);
    struct qr_sim_stage *stage = qr_report_stage(b, "slices", NULL);
    qr_cost(stage, cells * 2, 0); /* Adds the two halves of the terms. */
    if (!w->backward) return;
    qr_cost_products(stage, cells, f->terms, 2, cell);
    double pieces = s->split ? (double)(f->n_slices / QR_LANES / s->item_chunks) : 1,
           first = f->variants * pieces * (double)(UINT64_C(1) << f->m);
    qr_cost_products(stage, cells, QR_LANES, 3, cell);
    /* Added to the previous contents, except for the first of a piece */
    qr_cost(stage, cells * 4 - first * 2, -first * (double)cell);
    stage = qr_report_stage(b, "tables, back", NULL);
    if (!f->centre_first && b->p->shapes[f->centre].n_derivatives) qr_cost_cross(stage, all, cell);
    if (f->wrap && b->p->shapes[f->around].n_derivatives) qr_cost_cross(stage, all, cell);
    if (f->variants > 1) qr_cost_apply(stage, all, qr_report_dense, cell);
    qr_cost(stage, (all - chain) * 2, (all + chain) * (double)cell); /* Adds the variants. */
}

static void encode_cost(struct qr_report_build *b) {
    const struct qr_stream *s = b->p->stream;
    unsigned n = 0;
    for (size_t i = 0; i < s->n_fused; i++)
        n += s->fused[i].data[0] >= 0 || s->fused[i].data[1] >= 0;
    qr_cost(qr_report_stage(b, "encode", "the samples' gates folded into the first fused gates"),
            (double)n * ENCODE_OPERATIONS, n * 32.0 * (double)b->p->cell_bytes);
}

static void sweep_cost(struct qr_report_build *b, const struct sweep *w) {
    const struct qr_stream *s = b->p->stream;
    if (s->sliced) front_cost(b, w);
    else encode_cost(b);
    for (unsigned l = 0; l < s->n_levels; l++) level_cost(b, w, l);
    observe_cost(b, w);
}

/* Read-outs are weighted sums of the density matrices. */
static void streaming_readout_cost(struct qr_report_build *b) {
    double n = (double)b->p->stream->density_numbers * b->p->n_readouts;
    if (!b->p->stream->sliced)
        qr_cost(qr_report_stage(b, "tail", NULL), n, n * QR_LANES * (double)b->p->elem_bytes);
}

static void streaming_cost(struct qr_report_build *b) {
    const struct qr_stream *s = b->p->stream;
    size_t groups = s->sliced ? b->r->n_samples : (b->r->n_samples + QR_LANES - 1) / QR_LANES;
    bool first = b->r->read_outs_first;
    for (size_t g = 0; g < groups; g++) {
        if (first) sweep_cost(b, &(struct sweep){.backward = false});
        if (first) streaming_readout_cost(b);
        sweep_cost(b, &(struct sweep){.backward = true,
                                      .each = first && !s->sliced ? b->p->n_readouts : 0});
        if (!first) streaming_readout_cost(b);
    }
    tail_gradient_cost(b, s->sliced ? (double)groups : first ? b->p->n_readouts : 1);
    bind_cost(b);
}

/* ---- lines ---- */

static void report_level(struct qr_report_build *b, unsigned level, unsigned first) {
    const struct qr_stream *s = b->p->stream;
    const struct qr_stream_level *l = &s->levels[level];
    struct qr_buf text = {0};
    char key[16];
    qr_buf_printf(&text, "qubits %u-%u:", first, first + l->m - 1);
    for (unsigned h = 0; h < l->n_halves; h++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < l->halves[h].n_sets; i++)
            n += s->sets[l->halves[h].first_set + i].n_fused;
        qr_buf_printf(&text, "%s %u fused gates in %u tile%s of 2^%u", h ? ", then" : "", n,
                      l->halves[h].n_sets, l->halves[h].n_sets == 1 ? "" : "s",
                      s->sets[l->halves[h].first_set].n_bits);
    }
    if (l->k)
        qr_buf_printf(&text, "; %u-%u are traced out by the pool onto %u-%u", first,
                      first + l->k - 1, first + l->k, first + 2 * l->k - 1);
    snprintf(key, sizeof key, "layer %u", level + (s->sliced ? 2 : 1));
    qr_report_line(b, key, "%s", qr_buf_string(&text));
    qr_buf_free(&text);
}

static void report_front(struct qr_report_build *b) {
    const struct qr_stream *s = b->p->stream;
    const struct qr_stream_front *f = &s->front;
    qr_report_line(
        b, "layer 1",
        "not simulated as a whole: a table of 2^%u (qubits 0-%u) times one of 2^%u (%u-%u) for "
        "%u outcome%s, %u products;",
        f->k, f->k - 1, f->m, f->k, s->n - 1, f->variants, f->variants == 1 ? "" : "s", f->terms);
    qr_report_line(b, "", "across the cut: %u-%u%s; 0-%u are traced out by the pool onto %u-%u",
                   f->k - 1, f->k, f->wrap ? " and the ring's last fused gate" : "", f->k - 1, f->k,
                   2 * f->k - 1);
    qr_report_line(b, "slices", "%zu of 2^%u amplitudes, 16 at a time in the lanes",
                   f->variants * f->n_slices, f->m);
}

static void report_tail(struct qr_report_build *b) {
    const struct qr_stream *s = b->p->stream;
    if (s->diagonal)
        qr_report_line(b, "tail", "%u qubits: read-outs of Z only, one factor per amplitude",
                       s->tail_bits);
    else
        qr_report_line(b, "tail",
                       "%u qubits, %u fused gates: read-outs propagated back to a matrix of %u x "
                       "%u, density matrices instead of states",
                       s->tail_bits, s->n_tail, s->dim, s->dim);
}

static void report_threads(struct qr_report_build *b) {
    const struct qr_stream *s = b->p->stream;
    bool apart = qr_stream_in_parallel(b->p), shared = qr_stream_threads_share(b->p);
    const char *own = "each thread runs micro-batches in its own workspace";
    char items[128] = "";
    if (shared)
        snprintf(items, sizeof items,
                 "the slices of one sample: %zu times %zu for each outcome across the cut",
                 s->front.n_slices / QR_LANES / s->item_chunks, (size_t)s->item_chunks * QR_LANES);
    if (apart)
        qr_report_line(b, "threads", "%s%s%s", own, shared ? "; idle threads share " : "", items);
    else qr_report_line(b, "threads", "all threads share %s", items);
}

static void report_preparation(struct qr_report_build *b) {
    const struct qr_stream *s = b->p->stream;
    unsigned before = 0, after = 0;
    for (unsigned q = 0; q < s->n; q++) {
        before += s->n_before[q];
        after += s->n_after[q];
    }
    qr_report_line(b, "prepare",
                   "%u one-qubit gates and %d CZ, in closed form; %u one-qubit gates "
                   "with data, folded into the first fused gates",
                   before, __builtin_popcountll(s->edges), after);
}

/* Lists the half-layers of fused gates first..end of one segment. */
static void streaming_list_fused(struct qr_report_build *b, uint32_t first, uint32_t end,
                                 unsigned part, unsigned base) {
    unsigned depth[QR_FUSED_QUBITS] = {0};
    for (uint32_t i = first; i < end; i++) {
        const uint8_t *q = b->p->fused[i].q;
        unsigned h = depth[q[0]] > depth[q[1]] ? depth[q[0]] : depth[q[1]];
        depth[q[0]] = depth[q[1]] = h + 1;
        qr_report_gate(b, i, part, h, base);
    }
}

void qr_stream_report(struct qr_report_build *b) {
    const struct qr_stream *s = b->p->stream;
    unsigned base = s->sliced ? s->front.k : 0, part = 0;
    uint32_t at = s->tail_first;
    for (unsigned l = 0; l < s->n_levels; l++) at -= s->levels[l].n_fused;
    report_preparation(b);
    if (s->sliced) {
        report_front(b);
        qr_report_part(b, "layer 1");
        streaming_list_fused(b, 0, at, part++, 0);
    } else {
        qr_report_line(b, "lanes", "16 samples side by side");
    }
    for (unsigned l = 0; l < s->n_levels; l++) {
        report_level(b, l, base);
        qr_report_part(b, "layer %u", l + (s->sliced ? 2 : 1));
        streaming_list_fused(b, at, at + s->levels[l].n_fused, part++, base);
        at += s->levels[l].n_fused;
        base += s->levels[l].k;
    }
    report_tail(b);
    report_threads(b);
    if (s->n_tail) {
        qr_report_part(b, "tail");
        streaming_list_fused(b, s->tail_first, s->tail_first + s->n_tail, part, base);
    }
    streaming_cost(b);
}
