/* train/confusion.h — the confusion matrix, from a reduction's sums to the result. */
#ifndef QR_TRAIN_CONFUSION_H
#define QR_TRAIN_CONFUSION_H

#include "model/model.h"
#include "train/state.h"

/* n rows (labels) of n counts (predictions); owned. n is 0 without that metric; validation is NULL
 * without validation samples. */
struct qr_confusion {
    size_t n;
    uint64_t *training, *validation;
};

/* Stores an evaluation's counts after its values; does nothing where the job has no confusion
 * matrix.
 *
 * Args:     sums        of an EVAL reduction, from QR_VECTOR_SUMS on
 *           validation  qr_state.validation, n_sums
 */
void qr_confusion_keep(const struct qr_model *m, const qr_fixed *sums, double *validation);
/* Returns the matrices of a state: of the training samples from the running sums of the last epoch,
 * and of the validation samples.
 *
 * Returns:  caller frees with qr_confusion_fini
 */
struct qr_confusion qr_confusion_of(const struct qr_model *m, const struct qr_state *s,
                                    bool has_val);
void qr_confusion_fini(struct qr_confusion *c);

#endif
