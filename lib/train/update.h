/* train/update.h — from the sum of a TRAIN reduction to the next state (step.md §6): what the
 * optimizer wants to be evaluated, and what it makes of it.
 *
 * Everything is a function of (job, state, sum). No allocation but in init.
 */
#ifndef QR_TRAIN_UPDATE_H
#define QR_TRAIN_UPDATE_H

#include "train/state.h"
#include "train/step.h"

struct qr_update {
    const struct qr_job *job;
    const struct qr_model *model;
    struct qr_pool *pool;
    size_t n_points; /* as often is each sample of a training batch evaluated */
    size_t n_tensors;
    struct qr_optimizer_tensor *tensors;
    double *changed; /* the gradient that is applied, where it is not as it came */
    /* where the loss is wanted at two points: these, of the present state; which weights stay */
    double *plus, *minus;
    uint8_t *still;
};
/* All borrowed. */
void qr_update_init(struct qr_update *u, const struct qr_job *job, const struct qr_model *m,
                    struct qr_pool *pool);
void qr_update_fini(struct qr_update *u);
/* The stepper's numbers for the reduction that this state is the base of. */
void qr_update_prepare(struct qr_update *u, struct qr_stepper *stepper, const struct qr_state *s,
                       bool train);
/* s, the state that was prepared -> *ret, the next one, but for epoch and reductions. begins: an
 * epoch, whose sums begin at 0. sums: of the vector, from QR_VECTOR_SUMS on.
 * ret_gradient[n_params]: as it came. */
void qr_update_apply(struct qr_update *u, const qr_fixed *sums, uint64_t samples, bool begins,
                     const struct qr_state *s, struct qr_state *ret, double *ret_gradient);

#endif
