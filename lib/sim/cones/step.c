/* sim/cones/step.c — what is done once a step: transfer matrices, and the contractions that no
 * sample reaches; backward, once a micro-batch. */
#include <string.h>

#include "base/mem.h"
#include "sim/cones/cones_impl.h"

static void bound_buffers(struct qr_buffers *r, const struct qr_sim_plan *p,
                          struct qr_cones_bound *b) {
    const struct qr_cones *own = p->cones;
    qr_buffers_take(r, "transfer matrices", p->n_shapes * QR_TRANSFER * sizeof(double),
                    &b->transfer);
    qr_buffers_take(r, "step", own->n_step * sizeof(double), &b->step);
    qr_buffers_take(r, "step", own->max_numbers * sizeof(double), &b->scratch);
}

size_t cones_bound_bytes(const struct qr_sim_plan *p) {
    struct qr_cones_bound none;
    struct qr_buffers r = {.allocate = false};
    bound_buffers(&r, p, &none);
    return r.bytes;
}

void cones_bound_new(struct qr_sim_bound *b) {
    struct qr_cones_bound *own = qr_xcalloc(1, sizeof *own);
    struct qr_err err;
    struct qr_buffers r = {.allocate = true, .err = &err};
    bound_buffers(&r, b->plan, own);
    qr_check_memory(r.code == QR_OK, "numbers of a step");
    b->cones = own;
}

void cones_bound_free(struct qr_sim_bound *b) {
    free(b->cones->transfer);
    free(b->cones->step);
    free(b->cones->scratch);
    free(b->cones);
}

const double *cones_numbers(const struct qr_sim_bound *b, const struct cone_tensor *t) {
    return t->when == CONE_FIXED ? b->plan->cones->fixed + t->at : b->cones->step + t->at;
}

static void contract(const struct qr_sim_bound *b, const struct cone_contraction *c) {
    const struct qr_cones *own = b->plan->cones;
    double *out = b->cones->step + own->tensors[c->out].at;
    double *result = c->order_out == NO_ORDER ? out : b->cones->scratch;
    b->plan->kernels->matmul(result, cones_numbers(b, &own->tensors[c->a]), c->n_k, 1,
                             cones_numbers(b, &own->tensors[c->b]), c->n_i, c->n_k, c->n_j);
    if (result == out) return;
    const uint32_t *order = own->orders + c->order_out;
    for (size_t x = 0; x < (size_t)c->n_i * c->n_j; x++) out[order[x]] = result[x];
}

void cones_bind(struct qr_sim_bound *b) {
    const struct qr_sim_plan *p = b->plan;
    const struct qr_cones *own = p->cones;
    for (size_t i = 0; i < own->n_gates; i++) {
        const struct cone_gate *g = &own->gates[i];
        qr_transfer(&b->suffix[g->shape], g->columns,
                    b->cones->transfer + (size_t)g->shape * QR_TRANSFER);
    }
    for (size_t i = 0; i < own->n_tensors; i++) {
        const struct cone_tensor *t = &own->tensors[i];
        if (t->from != CONE_GATE) continue;
        const double *from = b->cones->transfer + (size_t)t->source * QR_TRANSFER;
        double *to = b->cones->step + t->at;
        for (uint32_t k = 0; k < t->size; k++) to[k] = from[own->entries[t->first_entry + k]];
    }
    for (size_t i = 0; i < own->n_classes; i++) {
        const struct cone_class *k = &own->classes[i];
        for (uint32_t c = 0; c < k->n_step; c++) contract(b, &own->contractions[k->first_step + c]);
    }
}

static void contract_back(const struct qr_sim_bound *b, const struct cone_contraction *c, double *d,
                          double *scratch) {
    const struct qr_cones *own = b->plan->cones;
    const struct qr_kernels *kernels = b->plan->kernels;
    const struct cone_tensor *ta = &own->tensors[c->a], *tb = &own->tensors[c->b],
                             *out = &own->tensors[c->out];
    const double *va = cones_numbers(b, ta), *vb = cones_numbers(b, tb), *result = d + out->at;
    if (!out->needs) return;
    double *turned = scratch + own->max_numbers;
    if (c->order_out != NO_ORDER) {
        const uint32_t *order = own->orders + c->order_out;
        for (size_t x = 0; x < (size_t)c->n_i * c->n_j; x++) scratch[x] = result[order[x]];
        result = scratch;
    }
    if (ta->needs) {
        for (size_t k = 0; k < c->n_k; k++)
            for (size_t j = 0; j < c->n_j; j++) turned[j * c->n_k + k] = vb[k * c->n_j + j];
        kernels->matmul(d + ta->at, result, c->n_j, 1, turned, c->n_i, c->n_j, c->n_k);
    }
    if (tb->needs) kernels->matmul(d + tb->at, va, 1, c->n_k, result, c->n_k, c->n_i, c->n_j);
}

void cones_step_backward(const struct qr_sim_bound *b, double *d, double *scratch,
                         double *d_transfer) {
    const struct qr_sim_plan *p = b->plan;
    const struct qr_cones *own = p->cones;
    memset(d_transfer, 0, p->n_shapes * QR_TRANSFER * sizeof *d_transfer);
    for (size_t i = own->n_classes; i-- > 0;) {
        const struct cone_class *k = &own->classes[i];
        for (uint32_t c = k->n_step; c-- > 0;)
            contract_back(b, &own->contractions[k->first_step + c], d, scratch);
    }
    for (size_t i = 0; i < own->n_tensors; i++) {
        const struct cone_tensor *t = &own->tensors[i];
        if (t->from != CONE_GATE || !t->needs) continue;
        double *to = d_transfer + (size_t)t->source * QR_TRANSFER;
        for (uint32_t k = 0; k < t->size; k++) to[own->entries[t->first_entry + k]] += d[t->at + k];
    }
}
