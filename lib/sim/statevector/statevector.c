/* sim/statevector/statevector.c — the blocked engine's front: workspaces, read-outs and gradients of a block of samples. */
#include <string.h>

#include "base/mem.h"
#include "sim/statevector/statevector_impl.h"

static void slot_room(struct qr_room *r, const struct qr_sim_plan *p, struct qr_slot *s) {
    if (p->tile_bits < p->cell_bits) {
        qr_room_take(r, "tiles", p->cell_bytes << p->tile_bits, &s->phi);
        qr_room_take(r, "tiles", p->cell_bytes << p->tile_bits, &s->lambda);
    }
    qr_room_take(r, "sums", p->n_shapes * QR_CROSS * sizeof *s->cross, &s->cross);
    qr_room_take(r, "sums", (size_t)p->n_readouts * QR_LANES * sizeof *s->z, &s->z);
    qr_room_take(r, "sums", (size_t)p->n_readouts * QR_LANES * sizeof *s->bad_z, &s->bad_z);
}

/* The same calls whether room is taken or only counted: then ws has one slot, and all its pointers stay. */
static void workspace_room(struct qr_room *r, const struct qr_sim_plan *p, size_t max_samples, struct qr_sim_workspace *ws) {
    qr_room_take(r, "phi", p->cell_bytes << p->cell_bits, &ws->phi);
    qr_room_take(r, "lambda", p->cell_bytes << p->cell_bits, &ws->lambda);
    if (p->first_pass) qr_room_take(r, "fixed start", p->cell_bytes << p->cell_bits, &ws->start);
    qr_room_take(r, "samples", max_samples * p->n_columns * sizeof *ws->x, &ws->x);
    qr_room_take(r, "numbers", p->n_wide * QR_WIDE * sizeof *ws->wide, &ws->wide);
    qr_room_take(r, "numbers", p->n_data * QR_NARROW * sizeof *ws->narrow, &ws->narrow);
    qr_room_take(r, "sums", p->n_slots * sizeof *ws->slots, &ws->slots);
    for (unsigned i = 0; i < p->n_slots && r->code == QR_OK; i++) slot_room(r, p, &ws->slots[r->allocate ? i : 0]);
    qr_room_take(r, "sums", p->n_shapes * QR_CROSS * sizeof *ws->cross, &ws->cross);
    qr_room_take(r, "samples", p->n_mixed * max_samples * QR_CROSS * sizeof *ws->mixed, &ws->mixed);
    qr_room_take(r, "sums", p->n_params * sizeof *ws->scratch, &ws->scratch);
}

void qr_sim_workspace_room(const struct qr_sim_plan *p, size_t max_samples, struct qr_room *r) {
    struct qr_slot none;
    struct qr_sim_workspace ws = {.slots = &none};
    if (p->stream) qr_stream_workspace_room(p, max_samples, r);
    else workspace_room(r, p, max_samples, &ws);
}

enum qr_code qr_sim_workspace_new(const struct qr_sim_plan *p, size_t max_samples, struct qr_sim_workspace **ret,
                                  struct qr_err *err) {
    struct qr_sim_workspace *ws = qr_xcalloc(1, sizeof *ws);
    struct qr_room r = {.allocate = true, .err = err};
    ws->plan = p;
    ws->max_samples = max_samples;
    ws->phi_group = QR_NO_GROUP;
    if (p->stream) r.code = qr_stream_workspace_new(p, max_samples, &ws->stream, err);
    else workspace_room(&r, p, max_samples, ws);
    if (r.code == QR_OK) *ret = ws;
    else qr_sim_workspace_free(ws);
    return r.code;
}

void qr_sim_workspace_free(struct qr_sim_workspace *ws) {
    if (!ws) return;
    qr_stream_workspace_free(ws->stream);
    for (unsigned i = 0; ws->slots && i < ws->plan->n_slots; i++) {
        free(ws->slots[i].phi);
        free(ws->slots[i].lambda);
        free(ws->slots[i].cross);
        free(ws->slots[i].z);
        free(ws->slots[i].bad_z);
    }
    free(ws->slots);
    free(ws->phi);
    free(ws->lambda);
    free(ws->start);
    free(ws->x);
    free(ws->wide);
    free(ws->narrow);
    free(ws->cross);
    free(ws->mixed);
    free(ws->scratch);
    free(ws);
}

static size_t group_samples(const struct qr_sim_plan *p) { return p->lanes_are_samples ? QR_LANES : 1; }

static struct qr_run run_of(const struct qr_sim_bound *b, struct qr_sim_workspace *ws, struct qr_pool *pool,
                            size_t group) {
    size_t per = group_samples(b->plan), left = ws->n_samples - group * per;
    return (struct qr_run){.p = b->plan, .b = b, .ws = ws, .pool = pool, .first = group * per, .n = left < per ? left : per};
}

/* The slots' integers, summed; NaN when a term was none. */
static double take_z(struct qr_sim_workspace *ws, size_t at) {
    qr_fixed sum = 0;
    bool bad = false;
    for (unsigned i = 0; i < ws->plan->n_slots; i++) {
        sum += ws->slots[i].z[at];
        bad |= ws->slots[i].bad_z[at];
        ws->slots[i].z[at] = 0;
        ws->slots[i].bad_z[at] = false;
    }
    return bad ? __builtin_nan("") : qr_fixed_to_double(sum);
}

void qr_sim_forward(const struct qr_sim_bound *b, struct qr_sim_workspace *ws, struct qr_pool *pool, const double *x,
                    size_t x_stride, size_t n_samples, double *ret_z) {
    const struct qr_sim_plan *p = b->plan;
    QR_ASSERT(ws->plan == p && n_samples <= ws->max_samples);
    if (p->stream) {
        qr_stream_forward(b, ws->stream, pool, x, x_stride, n_samples, false, NULL, ret_z);
        return;
    }
    ws->n_samples = n_samples;
    for (size_t s = 0; s < n_samples && p->n_columns; s++)
        memcpy(ws->x + s * p->n_columns, x + s * x_stride, p->n_columns * sizeof *x);
    size_t per = group_samples(p);
    for (size_t g = 0; g * per < n_samples; g++) {
        struct qr_run r = run_of(b, ws, pool, g);
        qr_run_forward(&r);
        ws->phi_group = (int64_t)g;
        qr_run_expect(&r);
        for (size_t s = 0; s < r.n; s++)
            for (size_t k = 0; k < p->n_readouts; k++)
                ret_z[(r.first + s) * p->n_readouts + k] = take_z(ws, k * QR_LANES + s);
    }
}

void qr_sim_forward_for_gradient(const struct qr_sim_bound *b, struct qr_sim_workspace *ws, struct qr_pool *pool, const double *x,
                                 size_t x_stride, size_t n_samples, const double *direction, double *ret_z) {
    if (b->plan->stream) qr_stream_forward(b, ws->stream, pool, x, x_stride, n_samples, true, direction, ret_z);
    else qr_sim_forward(b, ws, pool, x, x_stride, n_samples, ret_z);
}

/* Where samples come one by one, the cross numbers of shapes that need them per sample leave the slots at once. */
static void take_mixed(struct qr_run *r) {
    const struct qr_sim_plan *p = r->p;
    if (p->lanes_are_samples || !p->n_mixed) return;
    for (size_t i = 0; i < p->n_shapes; i++) {
        if (p->shapes[i].mixed_slot == QR_NO_SLOT) continue;
        for (size_t k = 0; k < QR_CROSS; k++) {
            qr_fixed sum = 0;
            for (unsigned s = 0; s < p->n_slots; s++) {
                qr_fixed *from = &r->ws->slots[s].cross[i * QR_CROSS + k];
                sum += *from;
                r->ws->cross[i * QR_CROSS + k] += *from; /* for the slopes of the block that need no sample */
                *from = 0;
            }
            r->ws->mixed[(p->shapes[i].mixed_slot * r->ws->max_samples + r->first) * QR_CROSS + k] += sum;
        }
    }
}

/* Where lanes are samples, the sum over samples comes out of the single ones. */
static void sum_mixed(struct qr_sim_workspace *ws) {
    const struct qr_sim_plan *p = ws->plan;
    for (size_t i = 0; p->lanes_are_samples && i < p->n_shapes; i++) {
        if (p->shapes[i].mixed_slot == QR_NO_SLOT) continue;
        for (size_t s = 0; s < ws->n_samples; s++)
            qr_fixed_add(ws->cross + i * QR_CROSS,
                         ws->mixed + (p->shapes[i].mixed_slot * ws->max_samples + s) * QR_CROSS, QR_CROSS);
    }
}

bool qr_sim_backward(const struct qr_sim_bound *b, struct qr_sim_workspace *ws, struct qr_pool *pool,
                     const double *direction, const double *scale, qr_fixed *ret_grad) {
    const struct qr_sim_plan *p = b->plan;
    if (p->stream) return qr_stream_backward(b, ws->stream, pool, direction, scale, ret_grad);
    size_t per = group_samples(p), n_cross = p->n_shapes * QR_CROSS;
    memset(ws->cross, 0, n_cross * sizeof *ws->cross);
    memset(ws->mixed, 0, p->n_mixed * ws->max_samples * QR_CROSS * sizeof *ws->mixed);
    for (unsigned i = 0; i < p->n_slots; i++) {
        memset(ws->slots[i].cross, 0, n_cross * sizeof *ws->slots[i].cross);
        ws->slots[i].bad = false;
    }
    /* the last group's state is still there: begin with it */
    for (size_t g = (ws->n_samples + per - 1) / per; g-- > 0;) {
        struct qr_run r = run_of(b, ws, pool, g);
        if (p->first_cross == p->n_steps) break;
        if (ws->phi_group != (int64_t)g) qr_run_forward(&r);
        ws->phi_group = QR_NO_GROUP;
        r.direction = direction + r.first * p->n_readouts;
        for (size_t l = 0; l < QR_LANES; l++)
            r.scale[l] = !p->lanes_are_samples ? scale[r.first] : l < r.n ? scale[r.first + l] : 0;
        qr_run_observe(&r);
        qr_run_backward(&r);
        take_mixed(&r);
    }
    bool bad = false;
    for (unsigned i = 0; i < p->n_slots; i++) {
        bad |= ws->slots[i].bad;
        qr_fixed_add(ws->cross, ws->slots[i].cross, n_cross);
    }
    if (bad) return false;
    sum_mixed(ws);
    return qr_gradient(b, ws->cross, ws->mixed, ws->max_samples, ws->x, ws->n_samples, ws->scratch, ret_grad);
}
