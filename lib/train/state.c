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
    s->validation = s->best + n;
}

void qr_state_init(struct qr_state *s, const struct qr_job *job, const struct qr_model *m) {
    const struct qr_optimizer_options *o = &job->train.optimizer;
    *s = (struct qr_state){.contract = qr_contract_name(job->precision),
                           .n_params = qr_model_n_params(m),
                           .n_moments = qr_optimizer_n_moments(o),
                           .n_products = qr_optimizer_n_products(o),
                           .n_sums = qr_model_n_sums(m)};
    size_t n = s->n_params;
    s->n_all = n + s->n_moments * n + s->n_products + s->n_sums + 1 + n + s->n_sums;
    s->all = qr_xaligned(s->n_all * sizeof *s->all);
    qr_state_point(s);
    qr_optimizer_init(o, n, s->moments, s->products);
    s->stop[QR_STOP_BEST] = job->train.early_stopping.maximize ? -0x1p1000 : 0x1p1000;
}

void qr_state_fini(struct qr_state *s) {
    free(s->all);
    *s = (struct qr_state){0};
}

void qr_state_copy(struct qr_state *to, const struct qr_state *from) {
    QR_ASSERT(to->n_all == from->n_all && to->n_params == from->n_params);
    to->step = from->step;
    to->epoch = from->epoch;
    to->reductions = from->reductions;
    memcpy(to->stop, from->stop, sizeof to->stop);
    memcpy(to->all, from->all, from->n_all * sizeof *to->all);
}

static void put_doubles(struct qr_buf *b, const double *v, size_t n) {
    uint8_t *at = qr_buf_grow(b, 8 * n);
    QR_ASSERT(at != NULL || n == 0);
    for (size_t i = 0; i < n; i++) qr_set_u64le(at + 8 * i, qr_bits_of_double(v[i]));
}

void qr_state_digest(const struct qr_state *s, struct qr_buf *scratch, uint8_t ret[16]) {
    uint8_t counters[16];
    qr_buf_clear(scratch);
    qr_buf_puts(scratch, s->contract);
    qr_set_u64le(counters, s->step);
    qr_set_u64le(counters + 8, s->epoch);
    qr_buf_put(scratch, counters, sizeof counters);
    put_doubles(scratch, s->weights, s->n_params);
    put_doubles(scratch, s->moments, s->n_moments * s->n_params);
    put_doubles(scratch, s->products, s->n_products);
    put_doubles(scratch, s->sums, s->n_sums + 1);
    put_doubles(scratch, s->stop, QR_STOP_COUNTERS);
    qr_xxh3(scratch->p, scratch->n, ret);
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
    } else {
        s->stop[QR_STOP_WAIT] += 1;
        if (s->stop[QR_STOP_WAIT] >= (double)e->patience && s->epoch > 1)
            s->stop[QR_STOP_STOPPED] = 1;
    }
}
