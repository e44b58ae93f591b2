/* output/previous_run.h — finds the files of an earlier run in OUT, and removes them when a new run
 * starts.
 *
 * Files     result.json, provenance*.json, weights.h5 and weights.safetensors are removed, then the
 *           lines of steps.jsonl, and job.json is replaced by that of this run. Each file only if
 *           it has not changed since qr_previous_run_init: a process that was stopped meanwhile may
 *           believe that a run starts which others have finished. Symbolic links are removed, not
 *           followed.
 * Order     Checkpoints are deleted before (qr_run_checkpoints_delete, LATEST first), job.json is
 *           replaced last and atomically. So after an interruption at any point the files in OUT
 *           belong to the job in job.json, and no result.json remains without its weights.
 * Threads   One.
 */
#ifndef QR_OUTPUT_PREVIOUS_RUN_H
#define QR_OUTPUT_PREVIOUS_RUN_H

#include <sys/stat.h>

#include "job/job.h"
#include "output/steps_log.h"

enum { QR_PREVIOUS_FILES = 6 };

struct qr_previous_run {
    char *dir;
    bool present[QR_PREVIOUS_FILES];
    struct stat found[QR_PREVIOUS_FILES];
    bool replaced; /* qr_previous_run_replace has succeeded */
};
/* Records the files of an earlier run. dir need not exist. */
void qr_previous_run_init(struct qr_previous_run *f, const char *dir);
void qr_previous_run_fini(struct qr_previous_run *f);
/* Removes the files of the earlier run, once; call at the first step of a run.
 *
 * Args:     job     NULL: keep job.json
 *           epochs  epochs of the run
 * Errors:   those of the file system; the remaining files are of the earlier run, without results
 */
QR_MUST_CHECK enum qr_code qr_previous_run_replace(struct qr_previous_run *f,
                                                   struct qr_steps_log *steps,
                                                   const struct qr_job *job, uint64_t epochs,
                                                   struct qr_err *err);

#endif
