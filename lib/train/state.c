/* train/state.c — the training state and early stopping. Start reading at qr_state_init(). */
#include "train/state.h"

#include <math.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "job/canonical.h"

void qr_state_point(struct qr_state *s) {
    size_t n = s->n_params;
    s->weights = s->all;
    s->moments = s->weights + n;
    s->products = s->moments + s->n_moments * n;
    s->sums = s->products + s->n_products;
    s->best = s->sums + s->n_sums + 1;
    s->best_sums = s->best + n;
    s->best_validation = s->best_sums + s->n_sums + 1;
    s->validation = s->best_validation + s->n_sums;
}

void qr_state_init(struct qr_state *s, const struct qr_job *job, const struct qr_model *m) {
    const struct qr_optimizer_options *o = &job->train.optimizer;
    *s = (struct qr_state){.contract = qr_contract_name(job->precision),
                           .n_params = qr_model_n_params(m),
                           .n_moments = qr_optimizer_n_moments(o),
                           .n_products = qr_optimizer_n_products(o),
                           .n_sums = qr_model_n_sums(m),
                           .keeps_best = job->train.early_stopping.on};
    size_t n = s->n_params;
    s->n_all = n + s->n_moments * n + s->n_products + 2 * (s->n_sums + 1) + n + 2 * s->n_sums;
    s->all = qr_xaligned(s->n_all * sizeof *s->all);
    qr_state_point(s);
    qr_optimizer_init(o, n, s->moments, s->products);
    s->stop[QR_STOP_BEST] = job->train.early_stopping.maximize ? -0x1p1000 : 0x1p1000;
}

void qr_state_fini(struct qr_state *s) {
    free(s->all);
    *s = (struct qr_state){0};
}

void qr_state_copy_rest(struct qr_state *to, const struct qr_state *from) {
    QR_ASSERT(to->n_all == from->n_all && to->n_params == from->n_params);
    to->step = from->step;
    to->epoch = from->epoch;
    to->reductions = from->reductions;
    memcpy(to->chain, from->chain, sizeof to->chain);
    memcpy(to->stop, from->stop, sizeof to->stop);
    memcpy(to->products, from->products,
           (size_t)(from->best - from->products) * sizeof *to->products);
    if (from->keeps_best)
        memcpy(to->best, from->best, (size_t)(from->validation - from->best) * sizeof *to->best);
    memcpy(to->validation, from->validation, from->n_sums * sizeof *to->validation);
}

void qr_state_copy(struct qr_state *to, const struct qr_state *from) {
    qr_state_copy_rest(to, from);
    memcpy(to->all, from->all, (size_t)(from->products - from->all) * sizeof *to->all);
}

void qr_state_exchange(struct qr_state *a, struct qr_state *b) {
    struct qr_state was = *a;
    QR_ASSERT(a->n_all == b->n_all && a->n_params == b->n_params);
    *a = *b;
    *b = was;
}

static struct qr_bytes state_bytes_of(const double *v, size_t n) {
    return qr_bytes_of(v, n * sizeof *v);
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a digest is of little-endian numbers");

void qr_state_digest(const struct qr_state *s, uint8_t ret[16]) {
    uint8_t counters[16];
    qr_set_u64le(counters, s->step);
    qr_set_u64le(counters + 8, s->epoch);
    const struct qr_bytes parts[] = {
        qr_bytes_of_string(s->contract),
        qr_bytes_of(counters, sizeof counters),
        state_bytes_of(s->weights, s->n_params),
        state_bytes_of(s->moments, s->n_moments * s->n_params),
        state_bytes_of(s->products, s->n_products),
        state_bytes_of(s->sums, s->n_sums + 1),
        state_bytes_of(s->stop, QR_STOP_COUNTERS),
    };
    qr_xxh3_parts(parts, sizeof parts / sizeof parts[0], ret);
}

bool qr_state_restores_best(const struct qr_state *s, const struct qr_early_stopping *e) {
    return e->on && e->restore_best && s->stop[QR_STOP_BEST_EPOCH] > 0;
}

void qr_state_monitor(struct qr_state *s, const struct qr_early_stopping *e, double value) {
    if (!e->on) return;
    double best = s->stop[QR_STOP_BEST];
    bool better = e->maximize ? value - e->min_delta > best : value + e->min_delta < best;
    if (better) {
        s->stop[QR_STOP_BEST] = value;
        s->stop[QR_STOP_BEST_EPOCH] = (double)s->epoch;
        s->stop[QR_STOP_WAIT] = 0;
        memcpy(s->best, s->weights, s->n_params * sizeof *s->best);
        memcpy(s->best_sums, s->sums, (s->n_sums + 1) * sizeof *s->best_sums);
        memcpy(s->best_validation, s->validation, s->n_sums * sizeof *s->best_validation);
    } else {
        s->stop[QR_STOP_WAIT] += 1;
        if (s->stop[QR_STOP_WAIT] >= (double)e->patience && s->epoch > 1)
            s->stop[QR_STOP_STOPPED] = 1;
    }
}
