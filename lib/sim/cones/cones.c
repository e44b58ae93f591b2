/* sim/cones/cones.c — entry points of the cones engine: workspaces, read-outs and gradients of a
 * micro-batch. Start reading at cones_forward() and cones_backward(). */
#include "sim/cones/cones.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "sim/cones/cones_impl.h"

/* ---- workspaces ---- */

static void cones_items_buffers(struct qr_buffers *r, size_t most, size_t n_inputs, size_t size,
                                bool needs, struct cone_items *items) {
    qr_buffers_take(r, "items", most * size * sizeof(double), &items->values);
    /* One more: the key of the next item is written before it is looked up. */
    qr_buffers_take(r, "items", (most + 1) * n_inputs * sizeof *items->keys, &items->keys);
    if (needs) qr_buffers_take(r, "items", most * size * sizeof(double), &items->d);
}

/* The most rows for any number of items: with fewer items other classes may be kept. */
static size_t cones_max_kept_rows(const struct qr_cones *own, size_t max_samples) {
    size_t most = 0;
    for (size_t i = 0; i < own->n_classes; i++) {
        size_t rows = 0;
        cones_blocks_kept(&own->classes[i], own->classes[i].n_instances * max_samples, &rows);
        most += rows;
    }
    return most < CONE_KEPT_ROWS ? most : CONE_KEPT_ROWS;
}

static void cones_buffers(struct qr_buffers *r, struct qr_sim_workspace *workspace) {
    struct cones_workspace *ws = (struct cones_workspace *)workspace;
    const struct qr_sim_plan *p = workspace->plan;
    size_t max_samples = workspace->max_samples;
    const struct qr_cones *own = p->cones;
    qr_buffers_take(r, "samples", max_samples * p->n_columns * sizeof *ws->x, &ws->x);
    qr_buffers_take(r, "items", own->n_signals * sizeof *ws->signals, &ws->signals);
    qr_buffers_take(r, "items", own->n_classes * sizeof *ws->classes, &ws->classes);
    for (size_t i = 0; i < own->n_signals && r->code == QR_OK; i++) {
        struct cone_items unused, *items = ws->signals ? &ws->signals[i] : &unused;
        size_t most = own->signals[i].n_instances * max_samples,
               bytes = most * QR_SIGNALS * sizeof(double);
        qr_buffers_take(r, "items", bytes, &items->values);
        if (own->signals[i].wanted) qr_buffers_take(r, "items", bytes, &items->d);
        else qr_buffers_take(r, "items", most * sizeof *items->bits, &items->bits);
    }
    for (size_t i = 0; i < own->n_classes && r->code == QR_OK; i++) {
        const struct cone_class *c = &own->classes[i];
        struct cone_items unused;
        cones_items_buffers(r, c->n_instances * max_samples, c->n_inputs,
                            own->tensors[c->root].size, c->needs,
                            ws->classes ? &ws->classes[i] : &unused);
    }
    qr_buffers_take(r, "items", own->n_slots * max_samples * sizeof *ws->item, &ws->item);
    qr_buffers_take(r, "items", cones_table_size(own, max_samples) * sizeof *ws->table, &ws->table);
    qr_buffers_take(r, "lanes", own->max_rows * sizeof *ws->rows, &ws->rows);
    qr_buffers_take(r, "lanes", own->max_rows * sizeof *ws->rows, &ws->d_rows);
    qr_buffers_take(r, "lanes", cones_max_kept_rows(own, max_samples) * sizeof *ws->rows,
                    &ws->kept);
    qr_buffers_take(r, "lanes", own->max_result * sizeof *ws->rows, &ws->result);
    qr_buffers_take(r, "sums", own->max_sums * sizeof *ws->rows, &ws->sums);
    qr_buffers_take(r, "step", own->n_step * sizeof *ws->d_step, &ws->d_step);
    qr_buffers_take(r, "step", 2 * own->n_scratch * sizeof *ws->scratch, &ws->scratch);
    qr_buffers_take(r, "sums", cone_n_transfers(p) * QR_TRANSFER * sizeof *ws->d_transfer,
                    &ws->d_transfer);
    qr_buffers_take(r, "sums", p->n_shapes * QR_CROSS * sizeof *ws->cross, &ws->cross);
    qr_buffers_take(r, "sums", p->n_params * sizeof *ws->gradient, &ws->gradient);
}

/* ---- a micro-batch ---- */

static size_t cones_term_item(const struct qr_cones *own, const struct cones_workspace *ws,
                              const struct cone_term *t, size_t sample) {
    size_t slot = own->classes[t->class].first_slot + t->instance;
    return ws->item[slot * ws->head.max_samples + sample];
}

static void cones_forward(const struct qr_sim_bound *b, struct qr_sim_workspace *workspace,
                          struct qr_pool *pool, const double *x, size_t x_stride, size_t n_samples,
                          bool gradient, const double *direction, double *ret_z) {
    (void)gradient, (void)direction; /* The backward sweep runs separately. */
    struct cones_workspace *ws = (struct cones_workspace *)workspace;
    const struct qr_sim_plan *p = b->plan;
    const struct qr_cones *own = p->cones;
    QR_ASSERT(n_samples <= ws->head.max_samples);
    ws->n_samples = n_samples;
    for (size_t s = 0; s < n_samples && p->n_columns; s++)
        memcpy(ws->x + s * p->n_columns, x + s * x_stride, p->n_columns * sizeof *x);
    cones_find_items(own, ws);
    ws->n_kept = 0;
    ws->pool = pool;
    for (uint32_t c = 0; c < own->n_classes; c++) cones_class_forward(b, ws, c);
    for (size_t s = 0; s < n_samples; s++) {
        double *z = ret_z + s * p->n_readouts;
        memcpy(z, own->constants, p->n_readouts * sizeof *z);
        for (size_t t = 0; t < own->n_terms; t++) {
            const struct cone_term *term = &own->terms[t];
            z[term->readout] += term->coefficient *
                                ws->classes[term->class].values[cones_term_item(own, ws, term, s)];
        }
    }
}

/* Sets the derivatives by the values of the terms' items. */
static void cones_seed_derivatives(const struct qr_sim_plan *p, struct cones_workspace *ws,
                                   const double *direction, const double *scale) {
    const struct qr_cones *own = p->cones;
    for (size_t i = 0; i < own->n_classes; i++) {
        size_t size = ws->classes[i].n * own->tensors[own->classes[i].root].size;
        if (own->classes[i].needs) memset(ws->classes[i].d, 0, size * sizeof(double));
    }
    for (size_t i = 0; i < own->n_signals; i++)
        if (own->signals[i].wanted)
            memset(ws->signals[i].d, 0, ws->signals[i].n * QR_SIGNALS * sizeof(double));
    for (size_t t = 0; t < own->n_terms; t++) {
        const struct cone_term *term = &own->terms[t];
        if (!own->classes[term->class].needs) continue;
        for (size_t s = 0; s < ws->n_samples; s++)
            ws->classes[term->class].d[cones_term_item(own, ws, term, s)] +=
                scale[s] * direction[s * p->n_readouts + term->readout] * term->coefficient;
    }
}

/* Converts derivatives by the signals (1, cos pi t, sin pi t) to derivatives by the columns, t =
 * scale * column. */
static void cones_input_derivatives(const struct qr_sim_plan *p, const struct cones_workspace *ws,
                                    double *ret_dx) {
    memset(ret_dx, 0, ws->n_samples * p->n_columns * sizeof *ret_dx);
    for (size_t i = 0; i < p->cones->n_signals; i++) {
        const struct cone_signal *s = &p->cones->signals[i];
        const double *v = ws->signals[i].values, *d = ws->signals[i].d;
        if (!s->wanted) continue;
        for (size_t t = 0; t < s->n_instances; t++)
            for (size_t k = 0; k < ws->n_samples; k++, v += QR_SIGNALS, d += QR_SIGNALS)
                ret_dx[k * p->n_columns + s->columns[t]] +=
                    M_PI * s->scale * (d[2] * v[1] - d[1] * v[2]);
    }
}

static bool cones_backward(const struct qr_sim_bound *b, struct qr_sim_workspace *workspace,
                           struct qr_pool *pool, const double *direction, const double *scale,
                           qr_fixed *ret_grad, double *ret_dx) {
    struct cones_workspace *ws = (struct cones_workspace *)workspace;
    const struct qr_sim_plan *p = b->plan;
    const struct qr_cones *own = p->cones;
    ws->pool = pool;
    cones_seed_derivatives(p, ws, direction, scale);
    for (uint32_t c = (uint32_t)own->n_classes; c-- > 0;) cones_class_backward(b, ws, c);
    cones_step_backward(b, pool, ws->d_step, ws->scratch, ws->d_transfer);
    if (p->wanted) cones_input_derivatives(p, ws, ret_dx);
    bool good = true;
    memset(ws->cross, 0, p->n_shapes * QR_CROSS * sizeof *ws->cross);
    for (size_t i = 0; i < own->n_gates && good; i++) {
        const struct cone_gate *g = &own->gates[i];
        size_t shape = g->shape;
        double cross[QR_CROSS];
        if (shape >= p->n_shapes || !p->shapes[shape].n_derivatives) continue;
        qr_transfer_cross(b->cones->transfer + shape * QR_TRANSFER,
                          ws->d_transfer + shape * QR_TRANSFER, g->rows, g->columns, cross);
        good = qr_fixed_add_doubles(ws->cross + shape * QR_CROSS, cross, QR_CROSS);
    }
    const struct qr_bound_sums sums = {.cross = ws->cross,
                                       .channels = ws->d_transfer + p->n_shapes * QR_TRANSFER,
                                       .x = ws->x,
                                       .n_samples = ws->n_samples};
    return good && qr_bound_gradient(b, &sums, ws->gradient, ret_grad, ret_dx);
}

/* ---- the engine ---- */

static void cones_plan_free(struct qr_sim_plan *p) {
    cones_free(p->cones);
    p->cones = NULL;
}

static bool cones_in_parallel(const struct qr_sim_plan *p) {
    (void)p;
    return true;
}

/* Keeps the cost per micro-batch a small part of the whole, and leaves micro-batches for other
 * threads and workers. */
static size_t cones_micro_batch_size(const struct qr_sim_plan *p, size_t batch_size) {
    size_t part = (batch_size / 8 + QR_LANES - 1) / QR_LANES * QR_LANES;
    if (!p->cones->n_signals) return 1;
    return part < CONE_STEP_SAMPLES ? CONE_STEP_SAMPLES : part < 256 ? part : 256;
}

const struct qr_sim_engine qr_cones_engine = {
    .name = "cones",
    .memory = "tensors",
    .max_qubits = QR_MAX_QUBITS,
    .plan = cones_build,
    .plan_free = cones_plan_free,
    .micro_batches_in_parallel = cones_in_parallel,
    .micro_batch_size = cones_micro_batch_size,
    .bound_size = sizeof(struct qr_cones_bound),
    .bound_buffers = cones_bound_buffers,
    .bind = cones_bind,
    .workspace_size = sizeof(struct cones_workspace),
    .workspace_buffers = cones_buffers,
    .forward = cones_forward,
    .backward = cones_backward,
    .report = qr_cones_report,
};
