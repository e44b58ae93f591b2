/* output/run_checkpoints.h — finds the checkpoint from which a run resumes.
 *
 * Cost      Reads LATEST and one checkpoint.
 * Threads   One at a time for each folder.
 */
#ifndef QR_OUTPUT_RUN_CHECKPOINTS_H
#define QR_OUTPUT_RUN_CHECKPOINTS_H

#include "base/log.h"
#include "job/workload.h"
#include "record/checkpoint_folder.h"
#include "train/state.h"

enum qr_found {
    QR_FOUND_NOTHING,
    QR_FOUND_STATE,
    QR_FOUND_BEYOND, /* a state beyond these epochs: of a run with more epochs */
    QR_FOUND_DONE
};
struct qr_resume_point {
    enum qr_found found;
    /* Of the checkpoint, unless nothing was found; freed with qr_resume_point_fini. */
    struct qr_state state;
    struct qr_buf notes;   /* warnings, one per line */
    struct qr_buf differs; /* keys in which the run in the folder differs; job_file.h */
};
/* Decides what the job does next: start, resume from ret->state, or nothing since it is done.
 *
 * Args:     url   folder of the checkpoints
 *           dir   OUT; its job.json says which keys differ
 *           ret   set in every case; caller frees with qr_resume_point_fini
 * Errors:   INVALID_ARGUMENT (checkpoints of another job; the message has the keys that differ),
 *           DATA_LOSS (no checkpoint is intact), those of the store
 */
QR_MUST_CHECK enum qr_code qr_run_checkpoints_load(const char *url, const char *dir,
                                                   const struct qr_workload *w, uint64_t epochs,
                                                   struct qr_resume_point *ret, struct qr_err *err);
/* The same for an open folder. */
QR_MUST_CHECK enum qr_code qr_run_checkpoints_load_from(const struct qr_checkpoint_folder *p,
                                                        const struct qr_workload *w,
                                                        const char *job_hash, uint64_t epochs,
                                                        struct qr_resume_point *ret,
                                                        struct qr_err *err);
/* For a run without checkpoints, which starts over: INVALID_ARGUMENT if it would replace the
 * results of another job, or of more epochs, that has checkpoints at url. Other arguments and
 * errors as above. */
QR_MUST_CHECK enum qr_code qr_run_checkpoints_check_earlier(const char *url, const char *dir,
                                                            const struct qr_workload *w,
                                                            uint64_t epochs, struct qr_err *err);
/* INVALID_ARGUMENT if the checkpoint is beyond these epochs: for a worker without peers that train
 * more. */
QR_MUST_CHECK enum qr_code qr_run_checkpoints_check_epochs(const char *url,
                                                           const struct qr_workload *w,
                                                           uint64_t epochs,
                                                           const struct qr_resume_point *found,
                                                           struct qr_err *err);
void qr_resume_point_fini(struct qr_resume_point *s);
/* Logs each line of notes as a warning. */
void qr_run_checkpoints_warn(const struct qr_buf *notes, const struct qr_log *log);
/* Deletes the checkpoints of any job. */
QR_MUST_CHECK enum qr_code qr_run_checkpoints_delete(const char *url, struct qr_err *err);

#endif
