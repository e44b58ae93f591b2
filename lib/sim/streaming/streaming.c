/* sim/streaming/streaming.c — entry points of the streaming engine: bound numbers, read-outs and
 * gradients of a micro-batch. Start reading at streaming_forward() and streaming_backward(). */
#include "sim/streaming/streaming.h"

#include <string.h>

#include "base/mem.h"
#include "sim/streaming/streaming_impl.h"

/* ---- numbers for one theta ---- */

/* Sets one entry of a matrix and of its adjoint. narrow: re[16] im[16]; wide: per entry re[16
 * lanes] im[16 lanes]. */
static void bind_entry(struct qr_sim_bound *b, const struct qr_stream_gate *x, size_t variant,
                       size_t row, size_t column, unsigned lane, struct qr_c64 z) {
    size_t size = x->wide ? QR_STREAM_WIDE : QR_STREAM_NARROW;
    size_t each = x->wide ? 2 * QR_LANES : 1;
    size_t forward = x->coef + variant * size + (row * 4 + column) * each + lane;
    size_t adjoint = x->coef + variant * size + size / 2 + (column * 4 + row) * each + lane;
    void *to = b->stream->coefs;
    qr_element_set(b->plan, to, forward, z.re);
    qr_element_set(b->plan, to, forward + QR_LANES, z.im);
    qr_element_set(b->plan, to, adjoint, z.re);
    qr_element_set(b->plan, to, adjoint + QR_LANES, -z.im);
}

/* Sets the four variants of a fused gate: input flipped on neither, either or both qubits. A qubit
 * with a flip that depends on the lane needs no variant: each lane has its own coefficients. */
static void bind_fused(struct qr_sim_bound *b, const struct qr_stream_gate *x) {
    const struct qr_m4 *m = &b->suffix[x->shape];
    unsigned lanes = x->wide ? QR_LANES : 1;
    bool by_lane[2], by_variant[2];
    for (int f = 0; f < 2; f++) {
        by_lane[f] = x->wide && x->flip[f] < QR_LANE_BITS;
        by_variant[f] = x->flip[f] != QR_FLIP_NONE && !by_lane[f];
    }
    for (unsigned v = 0; v < 4; v++) {
        bool asked = (by_variant[0] || !(v & 2)) && (by_variant[1] || !(v & 1));
        if (!asked) continue;
        for (unsigned l = 0; l < lanes; l++) {
            unsigned flip_0 = by_lane[0] ? l >> x->flip[0] & 1 : v >> 1;
            unsigned flip_1 = by_lane[1] ? l >> x->flip[1] & 1 : v & 1;
            unsigned flipped = flip_0 << 1 | flip_1; /* as column bits */
            for (size_t r = 0; r < 4; r++)
                for (size_t c = 0; c < 4; c++)
                    bind_entry(b, x, v, r, c, l, m->e[r * 4 + (c ^ flipped)]);
        }
    }
}

static struct qr_c64 streaming_complex_product(struct qr_c64 a, struct qr_c64 b) {
    return (struct qr_c64){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* Sets the fused gates across the cut: one of their qubits is a lane before and an outcome
 * after. */
static void bind_crossing(struct qr_sim_bound *b) {
    const struct qr_stream_front *f = &b->plan->stream->front;
    for (unsigned v = 0; v < f->variants; v++)
        for (unsigned l = 0; l < QR_LANES; l++) {
            unsigned e = f->wrap ? l & 1 : 0, last = f->wrap ? l >> 1 & 1 : l & 1, d = v & 1,
                     a = f->wrap ? v >> 1 : v;
            struct qr_m4 t;
            memset(&t, 0, sizeof t);
            for (unsigned r = 0; r < 4; r++)
                for (unsigned c = 0; c < 4; c++) {
                    struct qr_c64 x = {(r >> 1) == (c >> 1), 0}, y = {(r & 1) == (c & 1), 0};
                    if (!f->centre_first)
                        x = b->suffix[f->centre].e[(a * 2 + (r >> 1)) * 4 + last * 2 + (c >> 1)];
                    if (f->wrap)
                        y = b->suffix[f->around].e[(d * 2 + (r & 1)) * 4 + e * 2 + (c & 1)];
                    t.e[r * 4 + c] = streaming_complex_product(x, y);
                }
            qr_wide_numbers(&t, l, b->stream->wide + (size_t)v * QR_WIDE);
        }
}

static void streaming_bind(struct qr_sim_bound *b, struct qr_pool *pool) {
    (void)pool;
    const struct qr_stream *s = b->plan->stream;
    for (size_t i = 0; i < s->n_fused; i++)
        if (s->fused[i].data[0] < 0 && s->fused[i].data[1] < 0) bind_fused(b, &s->fused[i]);
    if (s->sliced) bind_crossing(b);
    qr_tail_bind(b);
    /* A process-wide counter: a workspace must not mistake a bound for a former one at the same
     * address. */
    static atomic_uint_fast64_t binds;
    b->stream->generation = atomic_fetch_add(&binds, 1) + 1;
}

/* ---- lanes are samples ---- */

static struct qr_stream_run streaming_run_of(const struct qr_sim_bound *b,
                                             struct qr_stream_workspace *ws, struct qr_pool *pool,
                                             const struct qr_stream_direction *direction) {
    return (struct qr_stream_run){.p = b->plan,
                                  .s = b->plan->stream,
                                  .b = b,
                                  .k = b->plan->kernels,
                                  .ws = ws,
                                  .pool = pool,
                                  .direction = direction};
}

static void group_encode(struct qr_stream_run *r, const double *x, size_t n) {
    const struct qr_stream *s = r->s;
    _Alignas(64) double pair[2][4][32];
    qr_stream_encodings(s, x, r->p->n_columns, n, r->ws->encoding);
    for (size_t i = 0; i < s->n_fused; i++) {
        const struct qr_stream_gate *b = &s->fused[i];
        if (b->data[0] < 0 && b->data[1] < 0) continue;
        memset(pair, 0, sizeof pair);
        for (int f = 0; f < 2; f++) {
            if (b->data[f] >= 0)
                memcpy(pair[f], r->ws->encoding + (size_t)b->data[f] * 128, sizeof pair[f]);
            for (int l = 0; b->data[f] < 0 && l < QR_LANES; l++) pair[f][0][l] = pair[f][3][l] = 1;
        }
        r->k->encode(r->b->narrow + (size_t)b->shape * QR_NARROW, &pair[0][0][0],
                     (unsigned char *)r->ws->coefs + b->coef * r->p->elem_bytes);
    }
}

static void group_run(struct qr_stream_run *r, size_t group) {
    struct qr_stream_workspace *ws = r->ws;
    struct qr_stream_slot *slot = &ws->slots[0];
    size_t first = group * QR_LANES,
           n = ws->n_samples - first < QR_LANES ? ws->n_samples - first : QR_LANES;
    unsigned char *kept = ws->kept + group * ws->group_bytes;
    slot->sums = (double(*)[QR_LANES])(void *)kept;
    slot->density = kept + ws->group_bytes - r->s->density_numbers * QR_LANES * r->p->elem_bytes;
    memset(kept, 0, ws->group_bytes);
    memset(slot->terms, 0, r->s->n_sets * sizeof *slot->terms);
    group_encode(r, ws->x + first * r->p->n_columns, n);
    qr_stream_level(r, slot, 0, ws->start, slot->lambda, 0, false);
}

static double in_range_or_nan(double x) {
    qr_fixed f; /* The same range check as for all other numbers */
    return qr_fixed_from_double(x, &f) ? x : __builtin_nan("");
}

static void group_readouts(struct qr_stream_run *r, size_t group, double *ret_z) {
    size_t first = group * QR_LANES, R = r->p->n_readouts;
    _Alignas(64) double z[QR_LANES];
    for (size_t k = 0; k < R; k++) {
        r->k->weighted_sum(r->ws->slots[0].density, r->s->density_numbers,
                           r->b->stream->weights + k * r->s->density_numbers, z);
        for (size_t l = 0; l < QR_LANES && first + l < r->ws->n_samples; l++)
            ret_z[(first + l) * R + k] = in_range_or_nan(z[l]);
    }
}

/* Scale of each lane: that of its sample, times row[sample] of the direction unless row is NULL. 0
 * in empty lanes. */
static void group_lane_scales(const struct qr_stream_run *r, size_t group, const double *scale,
                              const double *row, double ret[QR_LANES]) {
    size_t first = group * QR_LANES;
    for (size_t l = 0; l < QR_LANES; l++) {
        size_t i = first + l;
        if (i < r->ws->n_samples) ret[l] = scale[i] * (row ? row[i * r->p->n_readouts] : 1);
        else ret[l] = 0;
    }
}

/* Scales and adds the kept cross sums of a group. */
static bool group_scale(struct qr_stream_run *r, size_t group, const double scale[QR_LANES]) {
    const struct qr_stream *s = r->s;
    struct qr_stream_workspace *ws = r->ws;
    double(*sums)[QR_LANES] = (double(*)[QR_LANES])(void *)(ws->kept + group * ws->group_bytes);
    bool ok = true;
    for (size_t i = 0; i < s->n_fused; i++)
        for (size_t piece = 0;
             piece < ws->n_pieces && r->p->shapes[s->fused[i].shape].n_derivatives; piece++) {
            double k[QR_CROSS];
            r->k->fold((const double(*)[QR_LANES])(sums + (i * ws->n_pieces + piece) * QR_CROSS),
                       scale, k);
            ok &=
                qr_fixed_add_doubles(ws->cross + (size_t)s->fused[i].shape * QR_CROSS, k, QR_CROSS);
        }
    return ok;
}

/* Scales and adds the density matrices of all groups. */
static bool density_scale(struct qr_stream_run *r, const double *scale, const double *row) {
    struct qr_stream_workspace *ws = r->ws;
    size_t n = r->s->density_numbers;
    double *rho = ws->scratch + r->p->n_params;
    qr_fixed *sum = ws->slots[0].density_sum;
    bool ok = true;
    memset(sum, 0, n * sizeof *sum);
    for (size_t g = 0; g * QR_LANES < ws->n_samples; g++) {
        double lanes[QR_LANES];
        group_lane_scales(r, g, scale, row, lanes);
        r->k->fold_sums(ws->kept + (g + 1) * ws->group_bytes - n * QR_LANES * r->p->elem_bytes, n,
                        lanes, rho);
        ok &= qr_fixed_add_doubles(sum, rho, n);
    }
    for (size_t i = 0; i < n; i++) rho[i] = qr_fixed_to_double(sum[i]);
    return ok;
}

/* Repeats the sweep with each sample's own direction. */
static void group_run_each(struct qr_stream_run *r, size_t group, const double *direction) {
    struct qr_stream_workspace *ws = r->ws;
    size_t R = r->p->n_readouts;
    for (size_t k = 0; k < R; k++)
        for (size_t l = 0; l < QR_LANES; l++) {
            size_t i = group * QR_LANES + l;
            qr_element_set(r->p, ws->each_weight, k * QR_LANES + l,
                           i < ws->n_samples ? direction[i * R + k] : 0);
        }
    group_run(r, group);
}

static bool samples_backward(const struct qr_sim_bound *b, struct qr_stream_workspace *ws,
                             const double *direction, const double *scale) {
    const struct qr_sim_plan *p = b->plan;
    const struct qr_stream *s = p->stream;
    size_t R = p->n_readouts, after = s->n_tail * qr_tail_doubles(s);
    const double one = 1;
    struct qr_stream_run r = streaming_run_of(b, ws, NULL, &ws->direction);
    r.each = !ws->done && R > 1;
    if (r.each && (ws->each_bound != b || ws->each_generation != b->stream->generation)) {
        qr_tail_each(b, ws->each_dense);
        ws->each_bound = b;
        ws->each_generation = b->stream->generation;
    }
    if (!ws->done && !r.each) qr_tail_set_direction(&ws->direction, b, &one);
    bool ok = true;
    for (size_t g = 0; g * QR_LANES < ws->n_samples; g++) {
        double lanes[QR_LANES];
        if (r.each) group_run_each(&r, g, direction);
        else if (!ws->done) group_run(&r, g);
        group_lane_scales(&r, g, scale, R == 1 ? direction : NULL, lanes);
        ok &= group_scale(&r, g, lanes);
    }
    if (!s->n_tail) return ok;
    /* Once per read-out if each sample has its own direction, else once for the common
     * direction. */
    double *rho = ws->scratch + p->n_params;
    for (size_t k = 0; k < (r.each ? R : 1); k++) {
        const double *row = r.each || R == 1 ? direction + k : NULL;
        const double *observables = r.each ? b->stream->after + k * after : ws->direction.after;
        ok &= density_scale(&r, scale, row);
        ok &= qr_tail_gradient(b, observables, ws->matrix, rho, ws->cross);
    }
    return ok;
}

/* ---- lanes are slices ---- */

/* Runs one sample; its cross matrices are kept until the scale is known. Returns false if a number
 * was out of range. */
static bool run_sample(struct qr_stream_run *r, size_t sample, double *ret_z) {
    const struct qr_sim_plan *p = r->p;
    const struct qr_stream *s = r->s;
    struct qr_stream_workspace *ws = r->ws;
    size_t n_cross = p->n_shapes * QR_CROSS;
    for (unsigned i = 0; i < ws->n_slots; i++) {
        memset(ws->slots[i].cross, 0, n_cross * sizeof(qr_fixed));
        memset(ws->slots[i].density_sum, 0, s->density_numbers * sizeof(qr_fixed));
        ws->slots[i].bad = false;
    }
    qr_front_run(r, ws->x + sample * p->n_columns);
    bool ok = true;
    double *rho = ws->scratch + p->n_params;
    for (unsigned i = 0; i < ws->n_slots; i++) {
        ok &= !ws->slots[i].bad;
        if (i) qr_fixed_add(ws->slots[0].density_sum, ws->slots[i].density_sum, s->density_numbers);
        if (i) qr_fixed_add(ws->slots[0].cross, ws->slots[i].cross, n_cross);
    }
    for (size_t i = 0; i < s->density_numbers; i++)
        rho[i] = qr_fixed_to_double(ws->slots[0].density_sum[i]);
    for (size_t k = 0; k < p->n_readouts && ret_z; k++) {
        double z = 0;
        for (size_t i = 0; i < s->density_numbers; i++)
            z += r->b->stream->weights[k * s->density_numbers + i] * rho[i];
        ret_z[k] = ok ? in_range_or_nan(z) : __builtin_nan("");
    }
    if (!r->direction) return ok;
    memcpy(ws->sample_cross + sample * n_cross, ws->slots[0].cross, n_cross * sizeof(qr_fixed));
    return qr_tail_gradient(r->b, r->direction->after, ws->matrix, rho,
                            ws->sample_cross + sample * n_cross) &&
           ok;
}

static bool slices_backward(const struct qr_sim_bound *b, struct qr_stream_workspace *ws,
                            struct qr_pool *pool, const double *direction, const double *scale) {
    const struct qr_sim_plan *p = b->plan;
    size_t n_cross = p->n_shapes * QR_CROSS, R = p->n_readouts;
    bool ok = true;
    for (size_t i = 0; i < ws->n_samples; i++) {
        const double one = 1;
        double f = R == 1 ? scale[i] * direction[i] : scale[i];
        if (!ws->done) {
            qr_tail_set_direction(&ws->direction, b, R == 1 ? &one : direction + i * R);
            struct qr_stream_run r = streaming_run_of(b, ws, pool, &ws->direction);
            ok &= run_sample(&r, i, NULL);
        }
        for (size_t k = 0; k < n_cross; k += QR_CROSS) {
            double v[QR_CROSS];
            for (size_t j = 0; j < QR_CROSS; j++)
                v[j] = qr_fixed_to_double(ws->sample_cross[i * n_cross + k + j]) * f;
            ok &= qr_fixed_add_doubles(ws->cross + k, v, QR_CROSS);
        }
    }
    return ok;
}

/* ---- the engine ---- */

static void streaming_forward(const struct qr_sim_bound *b, struct qr_sim_workspace *workspace,
                              struct qr_pool *pool, const double *x, size_t x_stride,
                              size_t n_samples, bool gradient, const double *direction,
                              double *ret_z) {
    struct qr_stream_workspace *ws = (struct qr_stream_workspace *)workspace;
    const struct qr_sim_plan *p = b->plan;
    const double one = 1;
    QR_ASSERT(n_samples <= ws->head.max_samples);
    ws->n_samples = n_samples;
    for (size_t s = 0; s < n_samples && p->n_columns; s++)
        memcpy(ws->x + s * p->n_columns, x + s * x_stride, p->n_columns * sizeof *x);
    if (p->n_readouts == 1) direction = &one; /* Always known */
    ws->done = gradient && direction;
    if (ws->done) qr_tail_set_direction(&ws->direction, b, direction);
    struct qr_stream_run r = streaming_run_of(b, ws, pool, ws->done ? &ws->direction : NULL);
    if (p->stream->sliced) {
        for (size_t s = 0; s < n_samples; s++)
            if (!run_sample(&r, s, ret_z + s * p->n_readouts) && ws->done) ws->done = false;
        return;
    }
    for (size_t g = 0; g * QR_LANES < n_samples; g++) {
        group_run(&r, g);
        group_readouts(&r, g, ret_z);
    }
}

static bool streaming_backward(const struct qr_sim_bound *b, struct qr_sim_workspace *workspace,
                               struct qr_pool *pool, const double *direction, const double *scale,
                               qr_fixed *ret_grad, double *ret_dx) {
    struct qr_stream_workspace *ws = (struct qr_stream_workspace *)workspace;
    const struct qr_sim_plan *p = b->plan;
    (void)ret_dx; /* Plans with requested input derivatives are rejected. */
    memset(ws->cross, 0, p->n_shapes * QR_CROSS * sizeof *ws->cross);
    bool ok = p->stream->sliced ? slices_backward(b, ws, pool, direction, scale)
                                : samples_backward(b, ws, direction, scale);
    const struct qr_bound_sums sums = {.cross = ws->cross, .x = ws->x, .n_samples = ws->n_samples};
    return ok && qr_bound_gradient(b, &sums, ws->scratch, ret_grad, NULL);
}

const struct qr_sim_engine qr_streaming_engine = {
    .name = "streaming",
    .memory = "slices and tables",
    .max_qubits = QR_FUSED_QUBITS,
    .joins_sweeps = true,
    .plan = qr_stream_plan,
    .plan_free = qr_stream_free,
    .micro_batches_in_parallel = qr_stream_in_parallel,
    .threads_share = qr_stream_threads_share,
    .bound_size = sizeof(struct qr_stream_bound),
    .bound_buffers = qr_stream_bound_buffers,
    .bind = streaming_bind,
    .workspace_size = sizeof(struct qr_stream_workspace),
    .workspace_buffers = qr_stream_workspace_buffers,
    .workspace_begin = qr_stream_workspace_begin,
    .workspace_end = qr_stream_workspace_end,
    .forward = streaming_forward,
    .backward = streaming_backward,
    .report = qr_stream_report,
};
