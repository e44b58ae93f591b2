/* output/run_checkpoints.h — where this run's checkpoints are, and what a start finds there.
 *
 * Threads   one at a time for each place.
 * Cost      LATEST and one checkpoint are read.
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
    QR_FOUND_BEYOND, /* these epochs: of a run that trains more */
    QR_FOUND_DONE
};
struct qr_resume_point {
    enum qr_found found;
    /* of the checkpoint, unless nothing was found; freed with qr_resume_point_fini */
    struct qr_state state;
    struct qr_buf notes;   /* warnings, a line each */
    struct qr_buf differs; /* keys of the job that the run there has otherwise; job_file.h */
};
/* What this job does next: begin, go on from ret->state, or nothing, since it has been trained.
 * dir: OUT, whose job.json says what differs. ret is set in every case. INVALID_ARGUMENT: another
 * job's checkpoints are there, and which keys differ; DATA_LOSS: none is whole. */
QR_MUST_CHECK enum qr_code qr_run_checkpoints_load(const char *url, const char *dir,
                                                   const struct qr_workload *w, uint64_t epochs,
                                                   struct qr_resume_point *ret, struct qr_err *err);
/* The same in a place that is open. */
QR_MUST_CHECK enum qr_code qr_run_checkpoints_load_from(const struct qr_checkpoint_folder *p,
                                                        const struct qr_workload *w,
                                                        const char *job_hash, uint64_t epochs,
                                                        struct qr_resume_point *ret,
                                                        struct qr_err *err);
/* INVALID_ARGUMENT when what was found lies beyond these epochs: for who has nobody that
 * trains more. */
QR_MUST_CHECK enum qr_code qr_run_checkpoints_check_epochs(const char *url,
                                                           const struct qr_workload *w,
                                                           uint64_t epochs,
                                                           const struct qr_resume_point *found,
                                                           struct qr_err *err);
void qr_resume_point_fini(struct qr_resume_point *s);
/* Each line of notes as a warning. */
void qr_run_checkpoints_warn(const struct qr_buf *notes, const struct qr_log *log);
/* Takes away what is there, of any job. */
QR_MUST_CHECK enum qr_code qr_run_checkpoints_delete(const char *url, struct qr_err *err);

#endif
