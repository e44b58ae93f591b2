/* preflight/estimate.c — the model of estimate.h. Start reading at total_s(). */
#include "preflight/estimate.h"

#include "exact/integer.h"
#include "collective/allreduce_schedule.h"

/* Integers of a reduction besides sums and derivatives: bad micro-batches, the sum of their ids,
 * samples, read-outs (train/step.h). */
enum { VECTOR_HEAD = 18 };

static uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

double qr_estimate_reduce_s(const struct qr_estimate_facts *f, unsigned n, uint64_t n_integers) {
    if (n < 2) return 0;
    double whole_s = (double)n_integers * QR_FIXED_BYTES / f->bytes_per_s;
    struct qr_schedule s = qr_schedule_make(f->allreduce, n, 0, n_integers);
    switch (s.kind) {
    case QR_ALLREDUCE_DOUBLING: return s.n_rounds * (f->message_s + whole_s);
    case QR_ALLREDUCE_HALVING: return s.n_rounds * f->message_s + 2 * (n - 1) * (whole_s / n);
    case QR_ALLREDUCE_RING: return 2 * (n - 1) * (f->message_s + whole_s / n);
    default: return 2 * (f->message_s + (n - 1) * whole_s);
    }
}

/* One step or validation pass over this many samples. */
static double reduction_s(const struct qr_estimate_facts *f, unsigned n, uint64_t samples,
                          double wave_s, uint64_t n_integers) {
    uint64_t busiest = ceil_div(ceil_div(samples, f->micro_batch_size), n);
    return f->own_s + (double)ceil_div(busiest, f->lanes) * wave_s +
           qr_estimate_reduce_s(f, n, n_integers + n);
}

static double total_s(const struct qr_estimate_facts *f, unsigned n) {
    uint64_t sums = VECTOR_HEAD + f->n_sums, whole = f->n_train / f->batch_size,
             rest = f->n_train % f->batch_size;
    double epoch_s =
        (double)whole * reduction_s(f, n, f->batch_size, f->train_wave_s, sums + f->n_derivatives);
    if (rest) epoch_s += reduction_s(f, n, rest, f->train_wave_s, sums + f->n_derivatives);
    if (f->n_validate) epoch_s += reduction_s(f, n, f->n_validate, f->validate_wave_s, sums);
    return (double)f->epochs * epoch_s;
}

struct qr_estimate_row qr_estimate_row(const struct qr_estimate_facts *f, unsigned n) {
    uint64_t batch = f->batch_size < f->n_train ? f->batch_size : f->n_train;
    double alone_s = total_s(f, 1), all_s = total_s(f, n);
    return (struct qr_estimate_row){
        .n_workers = n,
        .step_s =
            reduction_s(f, n, batch, f->train_wave_s, VECTOR_HEAD + f->n_sums + f->n_derivatives),
        .total_s = all_s,
        .speedup = n > 1 && all_s > 0 ? alone_s / all_s : 1,
        .pod_hours = n * all_s / 3600,
    };
}

unsigned qr_estimate_best(const struct qr_estimate_facts *f, unsigned max_workers) {
    unsigned best = 1;
    double least_s = total_s(f, 1);
    for (unsigned n = 2; n <= max_workers; n++) {
        struct qr_estimate_row row = qr_estimate_row(f, n);
        if (row.total_s >= least_s || 2 * row.speedup < n) continue;
        best = n;
        least_s = row.total_s;
    }
    return best;
}
