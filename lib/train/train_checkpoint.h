/* train/train_checkpoint.h — a state as a checkpoint's named numbers, and back.
 *
 * Names     weights as in weight files ("pqc/parameters", "dense/kernel");
 *           "optimizer/m/dense/kernel" for each moment and weight, "optimizer/products",
 *           "epoch/sums", "early_stopping/counters": these in the digest's order; then
 *           "early_stopping/best/dense/kernel", "early_stopping/best_sums" and "…best_validation"
 *           where the job keeps the best weights, and "validation/last".
 * Threads   pure; the state is read only.
 */
#ifndef QR_TRAIN_TRAIN_CHECKPOINT_H
#define QR_TRAIN_TRAIN_CHECKPOINT_H

#include "record/checkpoint.h"
#include "train/state.h"

/* job_hash: hex. ret owns copies, with the digest of the state. */
void qr_state_save(const struct qr_state *s, const struct qr_job *job, const struct qr_model *m,
                   const char *job_hash, struct qr_checkpoint *ret);
/* ret: made by qr_state_init for this job; untouched on failure. DATA_LOSS names what does not
 * belong to this job's model. */
QR_MUST_CHECK enum qr_code qr_state_load(const struct qr_checkpoint *c, const struct qr_job *job,
                                         const struct qr_model *m, struct qr_state *ret,
                                         struct qr_err *err);

#endif
