/* train/update.h — from the sum of a TRAIN reduction to the next state (step.md §6).
 *
 * Everything is a function of (job, state, sum). Only init allocates.
 */
#ifndef QR_TRAIN_UPDATE_H
#define QR_TRAIN_UPDATE_H

#include "train/state.h"
#include "train/step.h"

struct qr_update {
    const struct qr_job *job;
    const struct qr_model *model;
    struct qr_pool *pool;
    size_t n_points; /* evaluations of each sample of a training batch */
    size_t n_tensors;
    struct qr_optimizer_tensor *tensors;
    /* The gradient that is applied, where clipping or the natural gradient changes it */
    double *changed;
    /* With two points: the points of the current state, and the weights that do not move. */
    double *plus, *minus;
    uint8_t *still;
};
/* All arguments are borrowed. */
void qr_update_init(struct qr_update *u, const struct qr_job *job, const struct qr_model *m,
                    struct qr_pool *pool);
void qr_update_fini(struct qr_update *u);
/* Prepares the stepper for the reduction based on this state. */
void qr_update_prepare(struct qr_update *u, struct qr_stepper *stepper, const struct qr_state *s,
                       bool train);
/* Computes the next state *ret from s, except epoch and reductions. begins: first update of an
 * epoch, clears its sums. sums: the vector from QR_VECTOR_SUMS on. ret_gradient[n_params]: the
 * unclipped gradient. */
void qr_update_apply(struct qr_update *u, const qr_fixed *sums, uint64_t samples, bool begins,
                     const struct qr_state *s, struct qr_state *ret, double *ret_gradient);

#endif
