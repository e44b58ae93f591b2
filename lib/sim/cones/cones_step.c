/* sim/cones/cones_step.c — the work per step: transfer matrices and the contractions without data;
 * backward, once per micro-batch. Start reading at cones_bind(). */
#include <string.h>

#include "base/mem.h"
#include "circuit/channel.h"
#include "sim/cones/cones_impl.h"

void cones_bound_buffers(struct qr_buffers *r, struct qr_sim_bound *b) {
    const struct qr_cones *own = b->plan->cones;
    qr_buffers_take(r, "transfer matrices",
                    cone_n_transfers(b->plan) * QR_TRANSFER * sizeof(double), &b->cones->transfer);
    qr_buffers_take(r, "step", own->n_step * sizeof(double), &b->cones->step);
    qr_buffers_take(r, "step", own->n_scratch * sizeof(double), &b->cones->scratch);
}

const double *cones_numbers(const struct qr_sim_bound *b, const struct cone_tensor *t) {
    return t->when == CONE_FIXED ? b->plan->cones->fixed + t->at : b->cones->step + t->at;
}

/* The contractions of a step, shared by the pool's threads. */
struct step_work {
    const struct qr_sim_bound *b;
    const struct qr_cones *own;
    struct qr_pool *pool;
    double *scratch, *d;
};

static void step_contract(const struct step_work *w, const struct cone_contraction *c,
                          double *scratch) {
    double *out = w->b->cones->step + w->own->tensors[c->out].at;
    double *result = c->order_out == NO_ORDER ? out : scratch;
    cones_matmul(w->b->plan->kernels, w->pool, result, cones_numbers(w->b, &w->own->tensors[c->a]),
                 c->n_k, 1, cones_numbers(w->b, &w->own->tensors[c->b]), c->n_i, c->n_k, c->n_j);
    if (result == out) return;
    const uint32_t *order = w->own->orders + c->order_out;
    for (size_t x = 0; x < (size_t)c->n_i * c->n_j; x++) out[order[x]] = result[x];
}

static void step_share_forward(void *ctx, size_t share, unsigned worker) {
    const struct step_work *w = ctx;
    const struct cone_share *s = &w->own->shares[share];
    (void)worker;
    for (uint32_t i = s->first_class; i < s->first_class + s->n_classes; i++) {
        const struct cone_class *k = &w->own->classes[i];
        for (uint32_t c = 0; c < k->n_step; c++)
            step_contract(w, &w->own->contractions[k->first_step + c], w->scratch + s->scratch);
    }
}

static void bind_channel(const struct qr_sim_bound *b, const struct qr_channel *c, double *ret) {
    double a[QR_CHANNEL_ARGS];
    qr_channel_values(c, b->theta, a);
    qr_channel_transfer(c, a, ret, NULL);
}

void cones_bind(struct qr_sim_bound *b, struct qr_pool *pool) {
    const struct qr_sim_plan *p = b->plan;
    const struct qr_cones *own = p->cones;
    for (size_t i = 0; i < own->n_gates; i++) {
        const struct cone_gate *g = &own->gates[i];
        double *to = b->cones->transfer + (size_t)g->shape * QR_TRANSFER;
        if (g->shape < p->n_shapes) qr_transfer(&b->suffix[g->shape], g->columns, to);
        else bind_channel(b, &p->channels[g->shape - p->n_shapes], to);
    }
    for (size_t i = 0; i < own->n_tensors; i++) {
        const struct cone_tensor *t = &own->tensors[i];
        if (t->from != CONE_GATE) continue;
        const double *from = b->cones->transfer + (size_t)t->source * QR_TRANSFER;
        double *to = b->cones->step + t->at;
        for (uint32_t k = 0; k < t->size; k++) to[k] = from[own->entries[t->first_entry + k]];
    }
    struct step_work w = {.b = b, .own = own, .pool = pool, .scratch = b->cones->scratch};
    qr_pool_for(pool, own->n_shares, step_share_forward, &w);
}

/* scratch: the result in the order of the sum; turned: the transpose of b. */
static void step_contract_backward(const struct step_work *w, const struct cone_contraction *c,
                                   double *scratch, double *turned) {
    const struct qr_cones *own = w->own;
    const struct qr_kernels *kernels = w->b->plan->kernels;
    const struct cone_tensor *ta = &own->tensors[c->a], *tb = &own->tensors[c->b],
                             *out = &own->tensors[c->out];
    const double *va = cones_numbers(w->b, ta), *vb = cones_numbers(w->b, tb),
                 *result = w->d + out->at;
    if (!out->needs) return;
    if (c->order_out != NO_ORDER) {
        const uint32_t *order = own->orders + c->order_out;
        for (size_t x = 0; x < (size_t)c->n_i * c->n_j; x++) scratch[x] = result[order[x]];
        result = scratch;
    }
    if (ta->needs) {
        bool same = c->n_k == 1 || c->n_j == 1; /* A single row or column is its own transpose. */
        for (size_t k = 0; k < c->n_k && !same; k++)
            for (size_t j = 0; j < c->n_j; j++) turned[j * c->n_k + k] = vb[k * c->n_j + j];
        cones_matmul(kernels, w->pool, w->d + ta->at, result, c->n_j, 1, same ? vb : turned, c->n_i,
                     c->n_j, c->n_k);
    }
    if (tb->needs)
        cones_matmul(kernels, w->pool, w->d + tb->at, va, 1, c->n_k, result, c->n_k, c->n_i,
                     c->n_j);
}

static void step_share_backward(void *ctx, size_t share, unsigned worker) {
    const struct step_work *w = ctx;
    const struct cone_share *s = &w->own->shares[share];
    double *scratch = w->scratch + 2 * s->scratch;
    (void)worker;
    for (uint32_t i = s->first_class; i < s->first_class + s->n_classes; i++) {
        const struct cone_class *k = &w->own->classes[i];
        for (uint32_t c = k->n_step; c-- > 0;)
            step_contract_backward(w, &w->own->contractions[k->first_step + c], scratch,
                                   scratch + s->numbers);
    }
}

void cones_step_backward(const struct qr_sim_bound *b, struct qr_pool *pool, double *d,
                         double *scratch, double *d_transfer) {
    const struct qr_sim_plan *p = b->plan;
    const struct qr_cones *own = p->cones;
    struct step_work w = {.b = b, .own = own, .pool = pool, .scratch = scratch, .d = d};
    qr_pool_for(pool, own->n_shares, step_share_backward, &w);
    memset(d_transfer, 0, cone_n_transfers(p) * QR_TRANSFER * sizeof *d_transfer);
    for (size_t i = 0; i < own->n_tensors; i++) {
        const struct cone_tensor *t = &own->tensors[i];
        if (t->from != CONE_GATE || !t->needs) continue;
        double *to = d_transfer + (size_t)t->source * QR_TRANSFER;
        for (uint32_t k = 0; k < t->size; k++) to[own->entries[t->first_entry + k]] += d[t->at + k];
    }
}
