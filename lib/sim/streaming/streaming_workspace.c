/* sim/streaming/streaming_workspace.c — memory of the streaming engine: bound numbers and
 * workspaces. Start reading at qr_stream_workspace_buffers(). */
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "sim/streaming/streaming_impl.h"

/* ---- bound ---- */

void qr_stream_bound_buffers(struct qr_buffers *r, struct qr_sim_bound *bound) {
    const struct qr_sim_plan *p = bound->plan;
    const struct qr_stream *s = p->stream;
    struct qr_stream_bound *b = bound->stream;
    size_t matrix = qr_tail_doubles(s) * sizeof(double), n = p->n_readouts;
    qr_buffers_take(r, "coefficients", s->n_coefs * p->elem_bytes, &b->coefs);
    if (s->sliced) qr_buffers_take(r, "coefficients", 4 * QR_WIDE * sizeof(double), &b->wide);
    qr_buffers_take(r, "observables", (n * s->n_tail + 1) * matrix, &b->after);
    qr_buffers_take(r, "observables", n * matrix, &b->input);
    qr_buffers_take(r, "observables", n * s->density_numbers * sizeof *b->weights, &b->weights);
}

/* ---- workspace ---- */

enum { SUMS_BYTES = QR_CROSS * QR_LANES * sizeof(double) }; /* of one piece of a fused gate */

static size_t streaming_piece_count(const struct qr_stream *s) {
    return !s->sliced && ((size_t)1 << s->n) > QR_STREAM_PIECE_TERMS
               ? ((size_t)1 << s->n) / QR_STREAM_PIECE_TERMS
               : 1;
}

static size_t streaming_item_count(const struct qr_stream *s) {
    return s->sliced ? s->front.n_slices / QR_LANES / s->item_chunks : 1;
}

bool qr_stream_one_table(const struct qr_stream *s) { return streaming_item_count(s) > 1; }

size_t qr_stream_shares(const struct qr_stream *s) {
    if (!s->split) return 1;
    return qr_stream_one_table(s) ? streaming_item_count(s) : s->front.variants;
}

static unsigned streaming_slot_count(const struct qr_stream *s) {
    size_t shares = qr_stream_shares(s), least = s->front.m < 14 ? 4 : 1;
    if (shares == 1) return 1;
    /* Small workspaces may be used by more threads than the CPU limit. */
    size_t cpus = qr_cpu_limit();
    if (cpus < least) cpus = least;
    return (unsigned)(cpus < shares ? cpus : shares);
}

static size_t max_size(size_t a, size_t b) { return a > b ? a : b; }

static void streaming_slot_buffers(struct qr_buffers *r, const struct qr_sim_plan *p,
                                   struct qr_stream_slot *slot) {
    const struct qr_stream *s = p->stream;
    for (unsigned l = 0; l < s->n_levels; l++)
        for (unsigned h = 0; h < s->levels[l].n_halves; h++)
            qr_buffers_take(r, "phi", p->cell_bytes << s->levels[l].m, &slot->phi[l][h]);
    qr_buffers_take(r, "lambda", p->cell_bytes << s->levels[0].m, &slot->lambda);
    qr_buffers_take(r, "tiles", 3 * (p->cell_bytes << QR_STREAM_SET_BITS), &slot->tile);
    qr_buffers_take(r, "sums", s->n_sets * sizeof *slot->terms, &slot->terms);
    qr_buffers_take(r, "sums", p->n_shapes * QR_CROSS * sizeof *slot->cross, &slot->cross);
    qr_buffers_take(r, "sums", s->density_numbers * sizeof *slot->density_sum, &slot->density_sum);
    if (!s->sliced) return;
    if (qr_stream_one_table(s))
        qr_buffers_take(r, "lambda's table", p->cell_bytes << s->front.m, &slot->right);
    qr_buffers_take(r, "tiles", 2 * QR_LANES * p->cell_bytes, &slot->mixing);
    qr_buffers_take(r, "sums", s->n_fused * SUMS_BYTES, &slot->sums);
    qr_buffers_take(r, "sums", s->density_numbers * QR_LANES * p->elem_bytes, &slot->density);
    if (!s->diagonal)
        qr_buffers_take(r, "sums", (s->density_numbers + QR_CROSS) * sizeof *slot->density_batches,
                        &slot->density_batches);
}

/* The initial tables are equal for all samples; small ones are kept. */
static bool starts_are_kept(const struct qr_stream *s) { return !s->split; }

static void streaming_table_buffers(struct qr_buffers *r, const struct qr_sim_plan *p,
                                    struct qr_stream_workspace *ws) {
    const struct qr_stream *s = p->stream;
    const struct qr_stream_front *f = &s->front;
    bool one_table = qr_stream_one_table(s);
    size_t left = p->cell_bytes << f->k, chain = p->cell_bytes << f->right_bits,
           table = p->cell_bytes << f->m, all = f->variants * chain;
    size_t left_sum = s->split ? f->n_slices * 2 * QR_LANES * sizeof(qr_fixed) : 0;
    size_t right_sum = one_table ? ((size_t)2 * QR_LANES << f->m) * sizeof(qr_fixed) : 0;
    for (int h = 0; h < 2; h++) {
        qr_buffers_take(r, "left table", left, &ws->left[h]);
        qr_buffers_take(r, "right table", chain, &ws->right[h]);
    }
    qr_buffers_take(r, "left table", max_size(left, left_sum), &ws->left_grad);
    qr_buffers_take(r, "variants", max_size(all, right_sum), &ws->wide_table);
    qr_buffers_take(r, "lambda's variants", all, &ws->wide_grad);
    if (one_table) qr_buffers_take(r, "variants", table, &ws->table);
    else if (f->centre_first) qr_buffers_take(r, "variants", f->variants * table, &ws->table);
    if (f->centre_first)
        qr_buffers_take(r, "lambda's variants", f->variants * table, &ws->table_grad);
    qr_buffers_take(r, "left table", f->n_slices * 2 * QR_LANES * sizeof(double), &ws->slice_grad);
    qr_buffers_take(r, "right table", (size_t)16 << f->m, &ws->amplitudes);
    if (starts_are_kept(s)) {
        qr_buffers_take(r, "left table", left, &ws->left_start);
        if (!qr_front_one_chain(f)) qr_buffers_take(r, "right table", chain, &ws->right_start);
    }
    qr_buffers_take(r, "numbers", (size_t)4 * s->n * QR_NARROW * sizeof *ws->narrow, &ws->narrow);
}

void qr_stream_workspace_buffers(struct qr_buffers *r, struct qr_sim_workspace *workspace) {
    struct qr_stream_workspace *ws = (struct qr_stream_workspace *)workspace;
    const struct qr_sim_plan *p = workspace->plan;
    size_t max_samples = workspace->max_samples;
    const struct qr_stream *s = p->stream;
    size_t matrix = qr_tail_doubles(s) * sizeof(double);
    ws->n_slots = streaming_slot_count(s);
    qr_buffers_take(r, "sums", ws->n_slots * sizeof *ws->slots, &ws->slots);
    for (unsigned i = 0; i < ws->n_slots && r->code == QR_OK; i++) {
        struct qr_stream_slot unused;
        streaming_slot_buffers(r, p, ws->slots ? &ws->slots[i] : &unused);
    }
    qr_buffers_take(r, "samples", max_samples * p->n_columns * sizeof *ws->x, &ws->x);
    qr_buffers_take(r, "observables", p->n_readouts * sizeof(double), &ws->direction.row);
    qr_buffers_take(r, "observables", (s->n_tail + 1) * matrix, &ws->direction.after);
    qr_buffers_take(r, "observables", qr_tail_numbers(s) * p->elem_bytes, &ws->direction.dense);
    qr_buffers_take(r, "numbers",
                    (size_t)s->n * 4 * 2 * (s->sliced ? 1 : QR_LANES) * sizeof(double),
                    &ws->encoding);
    for (int i = 0; i < 3; i++) qr_buffers_take(r, "observables", matrix, &ws->matrix[i]);
    qr_buffers_take(r, "sums", p->n_shapes * QR_CROSS * sizeof *ws->cross, &ws->cross);
    qr_buffers_take(r, "sums", (p->n_params + s->density_numbers) * sizeof *ws->scratch,
                    &ws->scratch);
    if (s->sliced) {
        qr_buffers_take(r, "samples",
                        max_samples * p->n_shapes * QR_CROSS * sizeof *ws->sample_cross,
                        &ws->sample_cross);
        streaming_table_buffers(r, p, ws);
        return;
    }
    ws->group_bytes = s->n_fused * streaming_piece_count(s) * SUMS_BYTES +
                      s->density_numbers * QR_LANES * p->elem_bytes;
    qr_buffers_take(r, "observables", p->n_readouts * qr_tail_numbers(s) * p->elem_bytes,
                    &ws->each_dense);
    qr_buffers_take(r, "observables", p->n_readouts * QR_LANES * p->elem_bytes, &ws->each_weight);
    qr_buffers_take(r, "samples", (max_samples + QR_LANES - 1) / QR_LANES * ws->group_bytes,
                    &ws->kept);
    qr_buffers_take(r, "numbers", s->n_coefs * p->elem_bytes, &ws->coefs);
    qr_buffers_take(r, "cluster state", p->cell_bytes << s->levels[0].m, &ws->start);
}

/* The same state in all lanes. */
static void fill_start_state(const struct qr_sim_plan *p, unsigned char *ret) {
    const struct qr_stream *s = p->stream;
    for (size_t x = 0; x < (size_t)1 << s->n; x++) {
        double complex a = 1;
        for (unsigned q = 0; q < s->n; q++) {
            unsigned bit = x >> (s->n - 1 - q) & 1, next = x >> (s->n - 1 - (q + 1) % s->n) & 1;
            a *= CMPLX(s->state[q][bit].re, s->state[q][bit].im);
            if (s->edges >> q & 1 && bit && next) a = -a;
        }
        for (unsigned l = 0; l < QR_LANES; l++) {
            qr_element_set(p, ret, x * 2 * QR_LANES + l, creal(a));
            qr_element_set(p, ret, x * 2 * QR_LANES + QR_LANES + l, cimag(a));
        }
    }
}

/* Sets buffers that overlay others, and contents that never change. */
void qr_stream_workspace_begin(struct qr_sim_workspace *workspace) {
    struct qr_stream_workspace *ws = (struct qr_stream_workspace *)workspace;
    const struct qr_sim_plan *p = workspace->plan;
    const struct qr_stream *s = p->stream;
    for (int i = 0; i < QR_STREAM_SUM_PARTS; i++) pthread_mutex_init(&ws->sum_lock[i], NULL);
    ws->n_pieces = streaming_piece_count(s);
    if (!s->sliced) {
        fill_start_state(p, ws->start);
        return;
    }
    ws->one_table = qr_stream_one_table(s);
    if (!ws->table) ws->table = ws->wide_table;
    if (!ws->table_grad) ws->table_grad = ws->wide_grad;
    if (s->split) ws->slice_sum = (qr_fixed *)(void *)ws->left_grad;
    if (ws->one_table) ws->right_sum = (qr_fixed *)(void *)ws->wide_table;
    if (ws->left_start) qr_front_start(p, ws, ws->left_start, ws->right_start);
}

void qr_stream_workspace_end(struct qr_sim_workspace *workspace) {
    struct qr_stream_workspace *ws = (struct qr_stream_workspace *)workspace;
    for (int i = 0; i < QR_STREAM_SUM_PARTS; i++) pthread_mutex_destroy(&ws->sum_lock[i]);
}

bool qr_stream_threads_share(const struct qr_sim_plan *p) {
    return p->stream->sliced && qr_stream_shares(p->stream) > 1;
}

bool qr_stream_in_parallel(const struct qr_sim_plan *p) {
    return !p->stream->sliced || p->n < QR_STREAM_SHARED_QUBITS;
}
