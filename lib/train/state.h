/* train/state.h — what training changes: weights, moments, products, counters (step.md §1).
 *
 * Everything is float64 and a pure function of (job, data, step). The digest is XXH3-128 of
 * contract name, u64 step, u64 epoch, then weights, moments, products, accumulators and stopping
 * counters, little-endian, in model order.
 * Ownership  a state owns its arrays; all are allocated at init, so copying does not allocate.
 * Threads    a state belongs to one thread at a time.
 */
#ifndef QR_TRAIN_STATE_H
#define QR_TRAIN_STATE_H

#include "job/job.h"
#include "record/chain.h"

enum { QR_STOP_BEST, QR_STOP_WAIT, QR_STOP_BEST_EPOCH, QR_STOP_STOPPED, QR_STOP_COUNTERS };

struct qr_state {
    const char *contract;
    uint64_t step;       /* updates applied */
    uint64_t epoch;      /* epochs finished */
    uint64_t reductions; /* reductions applied: updates and evaluations; the group counts them */
    /* Chain of the line that led to this state (record/chain.h); not in the digest */
    uint8_t chain[QR_CHAIN_BYTES];
    size_t n_params, n_moments, n_products, n_sums;
    double *weights;  /* n_params */
    double *moments;  /* n_moments * n_params */
    double *products; /* n_products */
    double *sums;     /* n_sums + 1: sums of loss and metrics, and samples, of this epoch so far */
    /* Early stopping: best value, epochs without improvement, epoch of the best, 1 = stopped */
    double stop[QR_STOP_COUNTERS];
    double *best; /* n_params: the weights at the best epoch; 0 without early stopping */
    double *best_sums, *best_validation; /* sums and validation at the best epoch */
    bool keeps_best;
    /* n_sums; begins with loss and metrics of the last evaluation; for the result, not in the
     * digest */
    double *validation;
    double *all; /* one allocation that the pointers above point into */
    size_t n_all;
};

/* Allocates a state for this job and model: zero weights, initial moments and products. */
void qr_state_init(struct qr_state *s, const struct qr_job *job, const struct qr_model *m);
/* Sets weights, moments ... to their positions in s->all. */
void qr_state_point(struct qr_state *s);
void qr_state_fini(struct qr_state *s);
/* Copies between states of one job; does not allocate. */
void qr_state_copy(struct qr_state *to, const struct qr_state *from);
/* Copies everything but weights and moments. */
void qr_state_copy_rest(struct qr_state *to, const struct qr_state *from);
/* Swaps two states of one job: only pointers and counters are copied. */
void qr_state_exchange(struct qr_state *a, struct qr_state *b);
void qr_state_digest(const struct qr_state *s, uint8_t ret[16]);

/* Updates early stopping after an epoch.
 *
 * Args:     s      s->epoch counts the finished epoch (from 1)
 *           value  the monitored value
 */
void qr_state_monitor(struct qr_state *s, const struct qr_early_stopping *e, double value);
/* Whether the result has the best weights rather than the last. */
bool qr_state_restores_best(const struct qr_state *s, const struct qr_early_stopping *e);

#endif
