/* sim/statevector/readout.c — the items of a sweep, read-outs of a final state, and lambda = O phi.
 * Start reading at qr_sweep_expect() and qr_sweep_observe(). */
#include <stdatomic.h>
#include <string.h>

#include "sim/statevector/statevector_impl.h"

/* ---- items of a sweep on threads ---- */

struct items {
    struct qr_sweep *run;
    qr_sweep_item_fn fn;
    size_t n;
    atomic_size_t next;
};

static size_t items_take_next(struct items *it) {
    size_t i = atomic_fetch_add_explicit(&it->next, 1, memory_order_relaxed);
    return i < it->n ? i : it->n;
}

static void run_slot(void *ctx, size_t slot, unsigned worker) {
    (void)worker;
    struct items *it = ctx;
    struct qr_sweep_slot *own_slot = &it->run->ws->slots[slot];
    for (size_t i = items_take_next(it); i < it->n; i = own_slot->next) {
        own_slot->next = items_take_next(it);
        it->fn(it->run, i, own_slot);
    }
}

void qr_sweep_items(struct qr_sweep *r, size_t n, qr_sweep_item_fn fn) {
    struct items it = {.run = r, .fn = fn, .n = n};
    size_t threads = r->pool ? qr_pool_size(r->pool) : 1;
    if (threads > r->ws->n_slots) threads = r->ws->n_slots;
    if (threads > n) threads = n;
    qr_pool_for(threads > 1 ? r->pool : NULL, threads, run_slot, &it);
}

/* ---- read-outs ---- */

static bool odd_lane(unsigned lane, unsigned z_lane) {
    return __builtin_popcount(lane & z_lane) & 1;
}

static void readout_add_value(struct qr_sweep_slot *slot, size_t at, double value) {
    qr_fixed f;
    if (qr_fixed_from_double(value, &f)) slot->z[at] += f;
    else slot->bad_z[at] = true;
}

/* Adds one piece to the sums: each lane separately if it is a sample, else the 16 lanes by the tree
 * of the kernel fold. */
static void readout_add_piece(struct qr_sweep *r, const struct qr_plan_term *t, const void *acc,
                              struct qr_sweep_slot *slot) {
    size_t at = (size_t)t->readout * QR_LANES;
    if (r->p->lanes_are_samples) {
        for (unsigned l = 0; l < r->n; l++)
            readout_add_value(slot, at + l, qr_element(r->p, acc, l) * t->coefficient);
        return;
    }
    double v[QR_LANES];
    for (unsigned l = 0; l < QR_LANES; l++) {
        double x = qr_element(r->p, acc, l);
        v[l] = odd_lane(l, t->string.z_lane) ? -x : x;
    }
    for (unsigned half = QR_LANES / 2; half; half /= 2)
        for (unsigned l = 0; l < half; l++) v[l] += v[l + half];
    readout_add_value(slot, at, v[0] * t->coefficient);
}

static size_t readout_piece_cells(const struct qr_sweep *r, size_t first) {
    size_t all = (size_t)1 << r->p->cell_bits;
    return all - first < QR_PIECE_CELLS ? all - first : QR_PIECE_CELLS;
}

/* Consecutive runs whose terms are worked on together, one chunk of cells after the other: a chunk
 * is in L1 while all of them read it. */
enum { BATCH_TERMS = 2 * QR_RUN_MOST, CHUNK_CELLS = 64 };
struct run_batch {
    const struct qr_plan_run *runs;
    size_t n_runs;
    const struct qr_plan_term *terms;
    size_t n_terms;
    struct qr_pauli_string strings[BATCH_TERMS]; /* of the terms */
};

/* The batch that starts with a run; its strings are those of the whole state. */
static struct run_batch batch_of_runs(const struct qr_statevector *v, size_t first) {
    const struct qr_plan_run *runs = v->runs + first;
    struct run_batch b = {.runs = runs, .terms = v->terms + runs->first};
    while (first + b.n_runs < v->n_runs && b.n_terms + runs[b.n_runs].n <= BATCH_TERMS)
        b.n_terms += runs[b.n_runs++].n;
    for (size_t k = 0; k < b.n_terms; k++) b.strings[k] = b.terms[k].string;
    return b;
}

static size_t chunk_cells(size_t left) { return left < CHUNK_CELLS ? left : CHUNK_CELLS; }

static void readout_expect_batch(struct qr_sweep *r, const struct run_batch *b, size_t first,
                                 size_t n, struct qr_sweep_slot *slot) {
    /* double or float */
    _Alignas(64) unsigned char acc[BATCH_TERMS * QR_LANES * sizeof(double)] QR_RAW;
    size_t each = r->p->cell_bytes / 2;
    memset(acc, 0, b->n_terms * each);
    for (size_t at = 0; at < n; at += CHUNK_CELLS)
        for (const struct qr_plan_run *run = b->runs; run < b->runs + b->n_runs; run++) {
            size_t k = run->first - b->runs->first;
            r->p->kernels->expect(r->ws->phi, first + at, chunk_cells(n - at), b->strings + k,
                                  run->n, acc + k * each);
        }
    for (size_t k = 0; k < b->n_terms; k++)
        readout_add_piece(r, &b->terms[k], acc + k * each, slot);
}

/* All terms while the piece is in the cache. */
static void readout_expect_item(struct qr_sweep *r, size_t item, struct qr_sweep_slot *slot) {
    size_t first = item * QR_PIECE_CELLS, n = readout_piece_cells(r, first);
    for (size_t i = 0; i < r->v->n_runs;) {
        const struct run_batch b = batch_of_runs(r->v, i);
        readout_expect_batch(r, &b, first, n, slot);
        i += b.n_runs;
    }
}

/* Sets the lanes' weights of a term, and their negations. minus: sign of the bits outside the
 * tile. */
static void readout_set_weights(const struct qr_sweep *r, const struct qr_plan_term *t,
                                const struct qr_pauli_string *string, bool minus, void *ret,
                                void *ret_negated) {
    const struct qr_sim_plan *p = r->p;
    for (unsigned l = 0; l < QR_LANES; l++) {
        double w = 0;
        if (!p->lanes_are_samples) {
            w = r->direction[t->readout] * t->coefficient;
            if (odd_lane(l ^ string->x_lane, string->z_lane) != minus) w = -w;
        } else if (l < r->n) {
            w = r->direction[l * p->n_readouts + t->readout] * t->coefficient;
        }
        qr_element_set(p, ret, l, w);
        qr_element_set(p, ret_negated, l, -w);
    }
}

/* lambda += the terms of the batch on phi; minus: sign of each. */
static void readout_observe_batch(const struct qr_sweep *r, const struct run_batch *b,
                                  const bool *minus, unsigned char *lambda,
                                  const unsigned char *phi, size_t first, size_t n) {
    /* per run, its terms' weights, then their negations */
    _Alignas(64) unsigned char weights[2 * BATCH_TERMS * QR_LANES * sizeof(double)] QR_RAW;
    size_t each = r->p->cell_bytes / 2;
    const struct qr_plan_run *end = b->runs + b->n_runs;
    for (const struct qr_plan_run *run = b->runs; run < end; run++)
        for (size_t k = run->first - b->runs->first, i = 0; i < run->n; k++, i++) {
            unsigned char *to = weights + (k + run->first - b->runs->first) * each;
            readout_set_weights(r, &b->terms[k], &b->strings[k], minus[k], to, to + run->n * each);
        }
    for (size_t at = 0; at < n; at += CHUNK_CELLS)
        for (const struct qr_plan_run *run = b->runs; run < end; run++) {
            size_t k = run->first - b->runs->first;
            r->p->kernels->observe(lambda, phi, first + at, chunk_cells(n - at), b->strings + k,
                                   run->n, weights + 2 * k * each);
        }
}

static void readout_observe_item(struct qr_sweep *r, size_t item, struct qr_sweep_slot *slot) {
    (void)slot;
    static const bool plus[BATCH_TERMS];
    const struct qr_sim_plan *p = r->p;
    size_t first = item * QR_PIECE_CELLS, n = readout_piece_cells(r, first);
    memset(r->ws->lambda + first * p->cell_bytes, 0, n * p->cell_bytes);
    for (size_t i = 0; i < r->v->n_runs;) {
        const struct run_batch b = batch_of_runs(r->v, i);
        readout_observe_batch(r, &b, plus, r->ws->lambda, r->ws->phi, first, n);
        i += b.n_runs;
    }
}

void qr_sweep_observe_tile(const struct qr_sweep *r, uint64_t base, unsigned char *lambda,
                           const unsigned char *phi) {
    const struct qr_sim_plan *p = r->p;
    size_t n = (size_t)1 << r->v->tile_bits;
    memset(lambda, 0, n * p->cell_bytes);
    for (size_t i = 0; i < r->v->n_runs;) {
        struct run_batch b = batch_of_runs(r->v, i);
        bool minus[BATCH_TERMS];
        for (size_t k = 0; k < b.n_terms; k++) {
            minus[k] = __builtin_parityll(b.strings[k].z & base) != b.terms[k].tile_minus;
            b.strings[k] = b.terms[k].tile;
        }
        readout_observe_batch(r, &b, minus, lambda, phi, 0, n);
        i += b.n_runs;
    }
}

static size_t readout_piece_count(const struct qr_sweep *r) {
    return (((size_t)1 << r->p->cell_bits) + QR_PIECE_CELLS - 1) / QR_PIECE_CELLS;
}
void qr_sweep_expect(struct qr_sweep *r) {
    qr_sweep_items(r, readout_piece_count(r), readout_expect_item);
}
void qr_sweep_observe(struct qr_sweep *r) {
    if (!r->v->tiles_observe) qr_sweep_items(r, readout_piece_count(r), readout_observe_item);
}
