/* worker/place.h — where this run's checkpoints are, and what a start finds there.
 *
 * Threads   one at a time for each place.
 */
#ifndef QR_WORKER_PLACE_H
#define QR_WORKER_PLACE_H

#include "record/checkpoint.h"
#include "train/state.h"

struct qr_place {
    char *url, *dir;
    struct qr_checkpoint_place at; /* borrows the two */
};
QR_MUST_CHECK enum qr_code qr_place_open(const char *url, struct qr_place *ret, struct qr_err *err);
void qr_place_close(struct qr_place *p);

enum qr_found { QR_FOUND_NOTHING, QR_FOUND_STATE, QR_FOUND_DONE };
/* What this job does next with n_batches steps an epoch: begin, go on from *ret_state (made by qr_state_init, else untouched), or nothing, since it
 * has been trained. Warnings are lines in notes. INVALID_ARGUMENT: another job's checkpoints, or ones beyond these epochs; DATA_LOSS: none is whole. */
QR_MUST_CHECK enum qr_code qr_place_find(const struct qr_place *p, const struct qr_job *job, const struct qr_model *m, const char *job_hash,
                                         uint64_t epochs, size_t n_batches, enum qr_found *ret, struct qr_state *ret_state, struct qr_buf *notes,
                                         struct qr_err *err);

#endif
