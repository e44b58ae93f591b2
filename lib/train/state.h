/* train/state.h — what training changes: weights, moments, products, counters (step.md §1).
 *
 * Everything is float64 and a pure function of (job, data, step). The digest names it: XXH3-128 of
 * contract name, u64 step, u64 epoch, then weights, moments, products, accumulators and stopping
 * counters, little-endian, in model order.
 * Ownership  a state owns its arrays; all are made at init, so that copying allocates nothing.
 */
#ifndef QR_TRAIN_STATE_H
#define QR_TRAIN_STATE_H

#include "job/job.h"

enum { QR_STOP_BEST, QR_STOP_WAIT, QR_STOP_BEST_EPOCH, QR_STOP_STOPPED, QR_STOP_COUNTERS };

struct qr_state {
    const char *contract;
    uint64_t step;       /* updates applied */
    uint64_t epoch;      /* epochs finished */
    uint64_t reductions; /* applied: updates and evaluations; what the group counts */
    size_t n_params, n_moments, n_products, n_sums;
    double *weights;  /* n_params */
    double *moments;  /* n_moments * n_params */
    double *products; /* n_products */
    double *sums;     /* n_sums + 1: of loss and metrics, and samples, of this epoch so far */
    /* early stopping: best value, epochs without a better one, its epoch, 1 = stopped */
    double stop[QR_STOP_COUNTERS];
    double *best; /* n_params: the weights at the best epoch; 0 without early stopping */
    double *best_sums, *best_validation; /* of that epoch, as sums and validation of the last one */
    bool keeps_best;
    /* n_sums; the first of them: loss and metrics of the last evaluation, for the result, not in
     * the digest */
    double *validation;
    double *all; /* what the pointers above point into */
    size_t n_all;
};

void qr_state_init(struct qr_state *s, const struct qr_job *job, const struct qr_model *m);
void qr_state_point(struct qr_state *s); /* weights, moments ... into s->all */
void qr_state_fini(struct qr_state *s);
/* both of one job; no allocation */
void qr_state_copy(struct qr_state *to, const struct qr_state *from);
/* The same without weights and moments. */
void qr_state_copy_rest(struct qr_state *to, const struct qr_state *from);
/* Each becomes the other; nothing is copied but pointers and counters. */
void qr_state_exchange(struct qr_state *a, struct qr_state *b);
void qr_state_digest(const struct qr_state *s, uint8_t ret[16]);

/* Early stopping after an epoch, which counts from 1 in s->epoch; value is the monitored one. */
void qr_state_monitor(struct qr_state *s, const struct qr_early_stopping *e, double value);
/* The state is left with its best weights for its result. */
bool qr_state_restores_best(const struct qr_state *s, const struct qr_early_stopping *e);

#endif
