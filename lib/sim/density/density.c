/* sim/density/density.c — entry points of the density engine: read-outs and gradients of a
 * micro-batch. Start reading at density_forward() and density_backward(). */
#include "sim/density/density.h"

#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "sim/density/density_impl.h"
#include "sim/report/report_build.h"

static size_t vector_size(const struct qr_density *d) { return (size_t)1 << 2 * d->n; }

/* ---- one group on a vector ---- */

/* A product of a group's matrix with a vector, in place, and the derivatives by the matrix. */
struct group_work {
    const struct qr_kernels *kernels;
    struct density_workspace *ws;
    unsigned shift[2]; /* bits of the frame's digits in an index; [0] is position 0 */
    size_t n_columns;  /* values of all other digits */
    const double *matrix;
    bool adjoint; /* use its transpose */
    double *r;
    const double *lambda; /* unless NULL: add lambda r^T to the derivatives; r is unchanged */
};

static struct group_work group_work_of(const struct qr_sim_bound *b, struct density_workspace *ws,
                                       const struct density_group *g) {
    const struct qr_density *d = b->plan->density;
    return (struct group_work){.kernels = b->plan->kernels,
                               .ws = ws,
                               .shift = {2 * (d->n - 1 - g->q[0]), 2 * (d->n - 1 - g->q[1])},
                               .n_columns = vector_size(d) / 16};
}

/* Index of the numbers with both digits 0, of a column. */
static size_t column_base(const struct group_work *w, size_t column) {
    unsigned low = w->shift[0] < w->shift[1] ? w->shift[0] : w->shift[1],
             high = w->shift[0] < w->shift[1] ? w->shift[1] : w->shift[0];
    size_t right = column & (((size_t)1 << low) - 1), rest = column >> low,
           middle = rest & (((size_t)1 << (high - low - 2)) - 1), left = rest >> (high - low - 2);
    return left << (high + 2) | middle << (low + 2) | right;
}

static size_t digits_offset(const struct group_work *w, unsigned digits) {
    return (size_t)(digits / 4) << w->shift[0] | (size_t)(digits % 4) << w->shift[1];
}

static void columns_gather(const struct group_work *w, const double *from, size_t first, size_t n,
                           double *to) {
    size_t base[DENSITY_CHUNK];
    for (size_t j = 0; j < n; j++) base[j] = column_base(w, first + j);
    for (unsigned k = 0; k < 16; k++) {
        const double *row = from + digits_offset(w, k);
        for (size_t j = 0; j < n; j++) to[k * DENSITY_CHUNK + j] = row[base[j]];
    }
}

static void columns_scatter(const struct group_work *w, const double *from, size_t first, size_t n,
                            double *to) {
    size_t base[DENSITY_CHUNK];
    for (size_t j = 0; j < n; j++) base[j] = column_base(w, first + j);
    for (unsigned k = 0; k < 16; k++) {
        double *row = to + digits_offset(w, k);
        for (size_t j = 0; j < n; j++) row[base[j]] = from[k * DENSITY_CHUNK + j];
    }
}

static void chunk_multiply(const struct group_work *w, struct density_slot *s, size_t first,
                           size_t n) {
    columns_gather(w, w->r, first, n, s->in);
    w->kernels->matmul(s->out, w->matrix, w->adjoint ? 1 : 16, w->adjoint ? 16 : 1, s->in, 16, 16,
                       n, DENSITY_CHUNK);
    columns_scatter(w, s->out, first, n, w->r);
}

/* One piece of the derivatives by the matrix. */
static void chunk_differentiate(const struct group_work *w, struct density_slot *s, size_t first,
                                size_t n) {
    columns_gather(w, w->lambda, first, n, s->out);
    columns_gather(w, w->r, first, n, s->in);
    for (size_t j = 0; j < n; j++)
        for (unsigned k = 0; k < 16; k++) s->turned[j * 16 + k] = s->in[k * DENSITY_CHUNK + j];
    w->kernels->matmul(s->sums, s->out, DENSITY_CHUNK, 1, s->turned, 16, n, 16, 16);
    for (unsigned k = 0; k < QR_TRANSFER; k++) {
        qr_fixed f;
        if (qr_fixed_from_double(s->sums[k], &f)) s->derivative[k] += f;
        else s->bad = true;
    }
}

static void group_item(void *ctx, size_t item, unsigned worker) {
    const struct group_work *w = ctx;
    struct density_slot *s = &w->ws->slots[worker];
    size_t at = item * DENSITY_CHUNK * DENSITY_CHUNKS_OF_ITEM;
    for (unsigned i = 0; i < DENSITY_CHUNKS_OF_ITEM && at < w->n_columns; i++) {
        size_t left = w->n_columns - at, n = left < DENSITY_CHUNK ? left : DENSITY_CHUNK;
        if (w->lambda) chunk_differentiate(w, s, at, n);
        else chunk_multiply(w, s, at, n);
        at += n;
    }
}

static void group_run(struct group_work *w) {
    size_t per = (size_t)DENSITY_CHUNK * DENSITY_CHUNKS_OF_ITEM;
    qr_pool_for(w->ws->pool, (w->n_columns + per - 1) / per, group_item, w);
}

static void group_multiply(const struct qr_sim_bound *b, struct density_workspace *ws,
                           const struct density_group *g, const double *matrix, bool adjoint,
                           double *r) {
    struct group_work w = group_work_of(b, ws, g);
    w.matrix = matrix;
    w.adjoint = adjoint;
    w.r = r;
    group_run(&w);
}

/* Adds the derivatives by the group's matrix to ret. */
static void group_differentiate(const struct qr_sim_bound *b, struct density_workspace *ws,
                                const struct density_group *g, double *r, qr_fixed *ret) {
    struct group_work w = group_work_of(b, ws, g);
    w.r = r;
    w.lambda = ws->lambda;
    group_run(&w);
    for (unsigned i = 0; i < ws->n_slots; i++) {
        qr_fixed_add(ret, ws->slots[i].derivative, QR_TRANSFER);
        memset(ws->slots[i].derivative, 0, QR_TRANSFER * sizeof *ret);
    }
}

/* ---- one sample ---- */

static const double *sample_matrix(const struct qr_sim_bound *b, const struct density_group *g,
                                   const double *x, double own[QR_TRANSFER]) {
    const struct qr_density *d = b->plan->density;
    if (!g->data) return b->density->groups + (size_t)(g - d->groups) * QR_TRANSFER;
    density_group_matrix(b, g, x, NULL, own);
    return own;
}

static void sample_start(const struct qr_density *d, double *r) {
    size_t n = vector_size(d);
    memset(r, 0, n * sizeof *r);
    for (size_t i = 0; i < (size_t)1 << d->n; i++) {
        size_t at = 0;
        double v = 1;
        for (unsigned q = 0; q < d->n; q++) {
            unsigned digit = i >> (d->n - 1 - q) & 1 ? 3 : 0;
            at = at << 2 | digit;
            v *= d->start[4 * q + digit];
        }
        r[at] = v;
    }
}

/* Applies groups first .. end - 1 to r; keep: where r goes before each of them, or NULL. */
static void sample_run(const struct qr_sim_bound *b, struct density_workspace *ws, const double *x,
                       size_t first, size_t end, double *keep) {
    const struct qr_density *d = b->plan->density;
    size_t n = vector_size(d);
    double own[QR_TRANSFER];
    for (size_t i = first; i < end; i++) {
        const struct density_group *g = &d->groups[i];
        if (keep) memcpy(keep + (i - first) * n, ws->r, n * sizeof *keep);
        group_multiply(b, ws, g, sample_matrix(b, g, x, own), false, ws->r);
    }
}

static void sample_observe(const struct qr_density *d, const double *direction, double scale,
                           double *lambda) {
    memset(lambda, 0, vector_size(d) * sizeof *lambda);
    for (size_t t = 0; t < d->n_terms; t++)
        lambda[d->terms[t].at] += scale * direction[d->terms[t].readout] * d->terms[t].coefficient;
}

/* Derivatives of a group with data belong to its sample. */
static void sample_data_gradient(const struct qr_sim_bound *b, struct density_workspace *ws,
                                 const struct density_group *g, const double *x, double *dx) {
    qr_fixed *sums = ws->derivatives + (size_t)(g - b->plan->density->groups) * QR_TRANSFER;
    double d[QR_TRANSFER], matrix[QR_TRANSFER];
    for (unsigned k = 0; k < QR_TRANSFER; k++) d[k] = qr_fixed_to_double(sums[k]);
    memset(sums, 0, QR_TRANSFER * sizeof *sums);
    density_group_matrix(b, g, x, ws->own, matrix);
    density_group_gradient(b, g, ws->own, d, x, ws->chain, ws->params, dx);
}

static void sample_backward(const struct qr_sim_bound *b, struct density_workspace *ws,
                            const double *x, const double *direction, double scale, double *dx) {
    const struct qr_density *d = b->plan->density;
    size_t n = vector_size(d), n_spans = (d->n_groups + d->span - 1) / d->span;
    double own[QR_TRANSFER];
    sample_start(d, ws->r);
    for (size_t s = 0; s < n_spans; s++) {
        size_t first = s * d->span,
               end = first + d->span < d->n_groups ? first + d->span : d->n_groups;
        memcpy(ws->heads + s * n, ws->r, n * sizeof *ws->r);
        if (s + 1 < n_spans) sample_run(b, ws, x, first, end, NULL);
    }
    sample_observe(d, direction, scale, ws->lambda);
    for (size_t s = n_spans; s-- > 0 && (s + 1) * d->span > d->first_needed;) {
        size_t first = s * d->span,
               end = first + d->span < d->n_groups ? first + d->span : d->n_groups;
        memcpy(ws->r, ws->heads + s * n, n * sizeof *ws->r);
        sample_run(b, ws, x, first, end, ws->inner);
        for (size_t i = end; i-- > first && i >= d->first_needed;) {
            const struct density_group *g = &d->groups[i];
            if (g->needs)
                group_differentiate(b, ws, g, ws->inner + (i - first) * n,
                                    ws->derivatives + i * QR_TRANSFER);
            if (g->needs && g->data) sample_data_gradient(b, ws, g, x, dx);
            if (i > d->first_needed)
                group_multiply(b, ws, g, sample_matrix(b, g, x, own), true, ws->lambda);
        }
    }
}

/* ---- a micro-batch ---- */

static void density_set_samples(struct density_workspace *ws, const double *x, size_t x_stride,
                                size_t n_samples) {
    size_t n = ws->head.plan->n_columns;
    QR_ASSERT(n_samples <= ws->head.max_samples);
    ws->n_samples = n_samples;
    for (size_t s = 0; s < n_samples && n; s++)
        memcpy(ws->x + s * n, x + s * x_stride, n * sizeof *x);
}

/* The pool, where threads share a sample. */
static struct qr_pool *density_pool(const struct density_workspace *ws, struct qr_pool *pool) {
    return ws->n_slots > 1 && pool && qr_pool_size(pool) <= ws->n_slots ? pool : NULL;
}

static void density_forward(const struct qr_sim_bound *b, struct qr_sim_workspace *workspace,
                            struct qr_pool *pool, const double *x, size_t x_stride,
                            size_t n_samples, bool gradient, const double *direction,
                            double *ret_z) {
    struct density_workspace *ws = (struct density_workspace *)workspace;
    const struct qr_sim_plan *p = b->plan;
    const struct qr_density *d = p->density;
    (void)gradient, (void)direction;
    density_set_samples(ws, x, x_stride, n_samples);
    ws->pool = density_pool(ws, pool);
    for (size_t s = 0; s < n_samples; s++) {
        double *z = ret_z + s * p->n_readouts;
        sample_start(d, ws->r);
        sample_run(b, ws, ws->x + s * p->n_columns, 0, d->n_groups, NULL);
        memset(z, 0, p->n_readouts * sizeof *z);
        for (size_t t = 0; t < d->n_terms; t++)
            z[d->terms[t].readout] += d->terms[t].coefficient * ws->r[d->terms[t].at];
    }
}

static bool density_backward(const struct qr_sim_bound *b, struct qr_sim_workspace *workspace,
                             struct qr_pool *pool, const double *direction, const double *scale,
                             qr_fixed *ret_grad, double *ret_dx) {
    struct density_workspace *ws = (struct density_workspace *)workspace;
    const struct qr_sim_plan *p = b->plan;
    const struct qr_density *d = p->density;
    bool bad = false;
    memset(ws->derivatives, 0, d->n_groups * QR_TRANSFER * sizeof *ws->derivatives);
    if (p->n_params) memset(ws->params, 0, p->n_params * sizeof *ws->params);
    if (p->wanted) memset(ret_dx, 0, ws->n_samples * p->n_columns * sizeof *ret_dx);
    ws->pool = density_pool(ws, pool);
    for (size_t s = 0; s < ws->n_samples && d->first_needed < d->n_groups; s++)
        sample_backward(b, ws, ws->x + s * p->n_columns, direction + s * p->n_readouts, scale[s],
                        p->wanted ? ret_dx + s * p->n_columns : NULL);
    for (unsigned i = 0; i < ws->n_slots; i++) {
        bad |= ws->slots[i].bad;
        ws->slots[i].bad = false;
    }
    if (bad) return false;
    for (size_t i = 0; i < d->n_groups; i++) {
        const struct density_group *g = &d->groups[i];
        double sums[QR_TRANSFER];
        if (!g->needs || g->data) continue;
        for (unsigned k = 0; k < QR_TRANSFER; k++)
            sums[k] = qr_fixed_to_double(ws->derivatives[i * QR_TRANSFER + k]);
        density_group_gradient(b, g, b->density->items + (size_t)g->first_item * QR_TRANSFER, sums,
                               NULL, ws->chain, ws->params, NULL);
    }
    const struct qr_bound_sums sums = {
        .params = ws->params, .x = ws->x, .n_samples = ws->n_samples};
    return qr_bound_gradient(b, &sums, ws->scratch, ret_grad, ret_dx);
}

/* ---- the engine ---- */

static void density_bound_buffers(struct qr_buffers *r, struct qr_sim_bound *b) {
    const struct qr_density *d = b->plan->density;
    qr_buffers_take(r, "transfer matrices", d->n_items * QR_TRANSFER * sizeof(double),
                    &b->density->items);
    qr_buffers_take(r, "transfer matrices", d->n_groups * QR_TRANSFER * sizeof(double),
                    &b->density->groups);
}

static void density_bind(struct qr_sim_bound *b, struct qr_pool *pool) {
    const struct qr_density *d = b->plan->density;
    (void)pool;
    for (size_t i = 0; i < d->n_groups; i++) {
        const struct density_group *g = &d->groups[i];
        if (!g->data)
            density_group_matrix(b, g, NULL,
                                 b->density->items + (size_t)g->first_item * QR_TRANSFER,
                                 b->density->groups + i * QR_TRANSFER);
    }
}

static void density_buffers(struct qr_buffers *r, struct qr_sim_workspace *workspace) {
    struct density_workspace *ws = (struct density_workspace *)workspace;
    const struct qr_sim_plan *p = workspace->plan;
    const struct qr_density *d = p->density;
    size_t n = vector_size(d), chunk = (size_t)16 * DENSITY_CHUNK * sizeof(double);
    qr_buffers_take(r, "r", n * sizeof *ws->r, &ws->r);
    qr_buffers_take(r, "lambda", n * sizeof *ws->r, &ws->lambda);
    qr_buffers_take(r, "kept", (d->n_groups / d->span + 1) * n * sizeof *ws->r, &ws->heads);
    qr_buffers_take(r, "kept", d->span * n * sizeof *ws->r, &ws->inner);
    qr_buffers_take(r, "samples", workspace->max_samples * p->n_columns * sizeof *ws->x, &ws->x);
    ws->n_slots = d->shared ? qr_cpu_limit() : 1;
    qr_buffers_take(r, "slots", ws->n_slots * sizeof *ws->slots, &ws->slots);
    for (unsigned i = 0; i < ws->n_slots && r->code == QR_OK; i++) {
        struct density_slot unused, *s = ws->slots ? &ws->slots[i] : &unused;
        qr_buffers_take(r, "slots", chunk, &s->in);
        qr_buffers_take(r, "slots", chunk, &s->out);
        qr_buffers_take(r, "slots", chunk, &s->turned);
        qr_buffers_take(r, "slots", QR_TRANSFER * sizeof(double), &s->sums);
        qr_buffers_take(r, "sums", QR_TRANSFER * sizeof(qr_fixed), &s->derivative);
    }
    qr_buffers_take(r, "sums", d->n_groups * QR_TRANSFER * sizeof(qr_fixed), &ws->derivatives);
    qr_buffers_take(r, "sums", (d->most_items + 2) * QR_TRANSFER * sizeof(double), &ws->chain);
    qr_buffers_take(r, "sums", (d->most_items + 1) * QR_TRANSFER * sizeof(double), &ws->own);
    qr_buffers_take(r, "sums", p->n_params * sizeof *ws->params, &ws->params);
    qr_buffers_take(r, "sums", p->n_params * sizeof *ws->scratch, &ws->scratch);
}

static bool density_in_parallel(const struct qr_sim_plan *p) { return !p->density->shared; }

static size_t density_micro_batch_size(const struct qr_sim_plan *p, size_t batch_size) {
    (void)p, (void)batch_size;
    return 1;
}

static void density_report(struct qr_report_build *b) {
    const struct qr_density *d = b->p->density;
    double n = (double)vector_size(d), groups = (double)d->n_groups,
           samples = (double)b->r->n_samples;
    qr_report_line(b, "state", "4^%u Pauli coordinates of a density matrix, in float64", d->n);
    qr_report_line(b, "groups", "%zu gates and channels in %zu groups on two qubits", d->n_items,
                   d->n_groups);
    qr_report_line(b, "kept", "a vector every %zu groups, and before each group of one span",
                   d->span);
    qr_cost(qr_report_stage(b, "forward", "groups on the state"), samples * n * groups * 16,
            samples * n * groups * 16);
    if (d->first_needed == d->n_groups) return;
    qr_cost(qr_report_stage(b, "forward again", "twice, keeping vectors"),
            samples * n * groups * 32, samples * n * groups * 32);
    qr_cost(qr_report_stage(b, "back", "lambda, and derivatives by the groups' matrices"),
            samples * n * groups * 32, samples * n * groups * 32);
}

const struct qr_sim_engine qr_density_engine = {
    .name = "density",
    .memory = "Pauli coordinates",
    .max_qubits = DENSITY_MAX_QUBITS,
    .plan = density_plan,
    .plan_free = density_plan_free,
    .micro_batches_in_parallel = density_in_parallel,
    .micro_batch_size = density_micro_batch_size,
    .bound_size = sizeof(struct qr_density_bound),
    .bound_buffers = density_bound_buffers,
    .bind = density_bind,
    .workspace_size = sizeof(struct density_workspace),
    .workspace_buffers = density_buffers,
    .forward = density_forward,
    .backward = density_backward,
    .report = density_report,
};
