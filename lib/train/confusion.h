/* train/confusion.h — the confusion matrix on its way from a reduction's sums to the result. */
#ifndef QR_TRAIN_CONFUSION_H
#define QR_TRAIN_CONFUSION_H

#include "train/train.h"

/* Of an evaluation's sums, behind its values; nothing where the job asks for none. */
void qr_confusion_keep(const struct qr_model *m, const qr_fixed *sums, double *validation);
/* The training samples' of the running sums of the last epoch, and the validation samples'. */
void qr_confusion_take(const struct qr_model *m, const struct qr_state *s, bool has_val,
                       struct qr_train_result *ret);

#endif
