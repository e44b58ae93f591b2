/* sim/statevector/noise_prefix.c — what trajectories of a sample share: before their first error
 * they have the state of the sweep without errors, and backward they read it there. Start reading
 * at qr_prefix_plan() and qr_prefix_sum().
 *
 * A plan has stops between its steps. The sweep without errors keeps its state at each of them; a
 * trajectory begins at the last stop before its first error. Backward it ends there: derivatives
 * before the stop are linear in lambda, so the lambdas of all trajectories with that stop are added
 * to that of the sweep without errors, which goes on for all of them. */
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "sim/statevector/statevector_impl.h"

static size_t state_bytes(const struct qr_sim_plan *p) { return p->cell_bytes << p->cell_bits; }

/* ---- the plan ---- */

/* Steps that a stop may precede: all of them if a tile is the whole state, or else those that begin
 * a pass. */
static size_t list_stops(const struct qr_sim_plan *p, uint32_t *ret) {
    const struct qr_statevector *v = p->statevector;
    bool whole = v->tile_bits == p->cell_bits;
    size_t n = 0;
    for (size_t i = v->first_pass; i < v->n_passes; i++)
        for (uint32_t k = 0; k < (whole ? v->passes[i].n_steps : 1); k++)
            ret[n++] = v->passes[i].first_step + k;
    return n;
}

void qr_prefix_plan(struct qr_sim_plan *p) {
    struct qr_statevector *v = p->statevector;
    if (p->lanes_are_samples || !v->n_noisy || v->n_branches || p->cell_bits >= 24) return;
    uint32_t *stops = qr_xcalloc(v->n_steps + v->n_passes + 1, sizeof *stops);
    size_t n = list_stops(p, stops), most = QR_KEPT_BYTES / (2 * state_bytes(p)), every = 1;
    if (most > QR_PREFIX_STOPS) most = QR_PREFIX_STOPS;
    while (most && (n + every - 1) / every > most) every++;
    for (size_t i = 0; most > 1 && i < n; i += every) stops[v->n_stops++] = stops[i];
    if (v->n_stops > 1) {
        stops[v->n_stops] = (uint32_t)v->n_steps;
        v->stops = stops;
        return;
    }
    v->n_stops = 0;
    free(stops);
}

uint32_t qr_prefix_stop_of(const struct qr_statevector *v, size_t step) {
    uint32_t stop = 0;
    while (stop + 1 < v->n_stops && v->stops[stop + 1] <= step) stop++;
    return stop;
}

/* ---- the states ---- */

enum { ENDS_BYTES = QR_KEPT_BYTES / 4 };
void qr_prefix_buffers(struct qr_buffers *r, const struct qr_sim_plan *p, size_t n_rows,
                       struct qr_trajectory_rows *rows) {
    size_t n = p->statevector->n_stops, most = ENDS_BYTES / state_bytes(p);
    if (!n) return;
    rows->n_ends = n_rows < most ? n_rows : most ? most : 1;
    qr_buffers_take(r, "kept", rows->n_ends * state_bytes(p), &rows->ends);
    qr_buffers_take(r, "kept", n * state_bytes(p), &rows->kept);
    qr_buffers_take(r, "kept", n * state_bytes(p), &rows->lambdas);
    qr_buffers_take(r, "kept", n * sizeof *rows->has_lambda, &rows->has_lambda);
}

unsigned char *qr_prefix_state(const struct qr_sweep *r, size_t stop) {
    return r->ws->noise->rows->kept + stop * state_bytes(r->p);
}

static void add_state(const struct qr_sim_plan *p, void *restrict to, const void *restrict from) {
    enum { CELL = 2 * QR_LANES };
    size_t cells = (size_t)1 << p->cell_bits;
    if (p->precision == QR_DOUBLE) {
        double(*a)[CELL] = to;
        const double(*b)[CELL] = from;
        for (size_t i = 0; i < cells; i++)
            for (size_t k = 0; k < CELL; k++) a[i][k] += b[i][k];
    } else {
        float(*a)[CELL] = to;
        const float(*b)[CELL] = from;
        for (size_t i = 0; i < cells; i++)
            for (size_t k = 0; k < CELL; k++) a[i][k] += b[i][k];
    }
}

void qr_prefix_add(const struct qr_sweep *r, size_t stop) {
    const struct qr_trajectory_rows *rows = r->ws->noise->rows;
    if (rows->has_lambda[stop])
        add_state(r->p, r->ws->lambda, rows->lambdas + stop * state_bytes(r->p));
}

void qr_prefix_keep(const struct qr_sweep *r, size_t row) {
    const struct qr_trajectory_rows *rows = r->ws->noise->rows;
    size_t bytes = state_bytes(r->p);
    if (qr_prefix_is_needed(r->v, r->start))
        memcpy(rows->ends + (row - rows->first_end) * bytes, r->ws->lambda, bytes);
}

struct prefix_sum {
    const struct qr_sim_plan *p;
    struct qr_trajectory_rows *rows;
    size_t end;
};

/* The rows that begin at one stop, in order: no sum depends on threads. */
static void sum_task(void *ctx, size_t task, unsigned worker) {
    const struct prefix_sum *s = ctx;
    size_t stop = task + 1, bytes = state_bytes(s->p);
    unsigned char *to = s->rows->lambdas + stop * bytes;
    (void)worker;
    if (!qr_prefix_is_needed(s->p->statevector, (uint32_t)stop)) return;
    for (size_t i = s->rows->first_end; i < s->end; i++) {
        if (s->rows->list[i].start != stop) continue;
        const unsigned char *from = s->rows->ends + (i - s->rows->first_end) * bytes;
        if (s->rows->has_lambda[stop]) add_state(s->p, to, from);
        else memcpy(to, from, bytes);
        s->rows->has_lambda[stop] = true;
    }
}

void qr_prefix_sum(const struct qr_sim_plan *p, struct qr_trajectory_rows *rows, size_t end,
                   struct qr_pool *pool) {
    struct prefix_sum s = {p, rows, end};
    qr_pool_for(pool, p->statevector->n_stops - 1, sum_task, &s);
}
