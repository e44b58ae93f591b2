/* train/train_checkpoint.h — a state as named tensors of a checkpoint, and back.
 *
 * Names     weights as in weight files ("pqc/parameters", "dense/kernel");
 *           "optimizer/m/dense/kernel" for each moment and weight, "optimizer/products",
 *           "epoch/sums", "early_stopping/counters": these in the digest's order; then
 *           "early_stopping/best/dense/kernel", "early_stopping/best_sums" and "…best_validation"
 *           where the job keeps the best weights, and "validation/last".
 * Threads   any (pure functions); the state is read only.
 */
#ifndef QR_TRAIN_TRAIN_CHECKPOINT_H
#define QR_TRAIN_TRAIN_CHECKPOINT_H

#include "record/checkpoint.h"
#include "train/state.h"

/* Converts a state to a checkpoint, with the state's digest.
 *
 * Args:     job_hash  hex
 *           ret       owns copies
 */
void qr_state_save(const struct qr_state *s, const struct qr_job *job, const struct qr_model *m,
                   const char *job_hash, struct qr_checkpoint *ret);
/* Restores a state from a checkpoint.
 *
 * Args:     ret  made by qr_state_init for this job; unchanged on failure
 * Errors:   DATA_LOSS: names the contract or tensor that does not match this job's model
 */
QR_MUST_CHECK enum qr_code qr_state_load(const struct qr_checkpoint *c, const struct qr_job *job,
                                         const struct qr_model *m, struct qr_state *ret,
                                         struct qr_err *err);

#endif
