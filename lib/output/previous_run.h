/* output/previous_run.h — what an earlier run left in OUT, and its removal when a run begins there.
 *
 * What      result.json, weights.h5 and weights.safetensors go, then the lines of steps.jsonl, and
 *           job.json becomes this run's; each file only while it is as it was when this process
 *           looked: one that was stopped since then may take the run for a new one when others have
 *           ended it. Symbolic links are removed, not followed.
 * Order     The checkpoints go before (qr_run_checkpoints_delete: LATEST is the first), job.json
 *           is replaced
 *           last and at once. So what is in OUT after an interruption at any point is of the job
 *           that job.json names, and no run is said to have ended whose weights are gone.
 * Threads   one.
 */
#ifndef QR_OUTPUT_PREVIOUS_RUN_H
#define QR_OUTPUT_PREVIOUS_RUN_H

#include <sys/stat.h>

#include "job/job.h"
#include "output/steps_log.h"

enum { QR_PREVIOUS_FILES = 4 };

struct qr_previous_run {
    char *dir;
    bool there[QR_PREVIOUS_FILES];
    struct stat was[QR_PREVIOUS_FILES];
    bool gone; /* qr_previous_run_replace has done its work */
};
/* Looks. dir need not be there. */
void qr_previous_run_init(struct qr_previous_run *f, const char *dir);
void qr_previous_run_fini(struct qr_previous_run *f);
/* This run begins at its first step. job NULL: job.json stays. An error: what is left is of the
 * earlier run, without its results. */
QR_MUST_CHECK enum qr_code qr_previous_run_replace(struct qr_previous_run *f,
                                                   struct qr_steps_log *steps,
                                                   const struct qr_job *job, uint64_t epochs,
                                                   struct qr_err *err);

#endif
