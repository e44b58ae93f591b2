/* train/confusion.h — the confusion matrix on its way from a reduction's sums to the result. */
#ifndef QR_TRAIN_CONFUSION_H
#define QR_TRAIN_CONFUSION_H

#include "model/model.h"
#include "train/state.h"

/* n rows, labels', of n counts; owned. Without that metric n is 0, without validation samples
 * validation is NULL. */
struct qr_confusion {
    size_t n;
    uint64_t *training, *validation;
};

/* Of an evaluation's sums, behind its values; nothing where the job asks for none. */
void qr_confusion_keep(const struct qr_model *m, const qr_fixed *sums, double *validation);
/* The training samples' of the running sums of the last epoch, and the validation samples'. */
struct qr_confusion qr_confusion_of(const struct qr_model *m, const struct qr_state *s,
                                    bool has_val);
void qr_confusion_fini(struct qr_confusion *c);

#endif
