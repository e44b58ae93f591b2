/* output/job_file.h — OUT/job.json: the job of the run in this folder, as a job file.
 *
 * Use       The leader writes the file at its first step; a later start in the folder reports the
 *           keys that differ. The file decides nothing: the job hash says which states belong to a
 *           job.
 * Threads   Any.
 */
#ifndef QR_OUTPUT_JOB_FILE_H
#define QR_OUTPUT_JOB_FILE_H

#include "job/job.h"

/* Replaces DIR/job.json. Errors: those of qr_file_replace. */
QR_MUST_CHECK enum qr_code qr_job_file_write(const char *dir, const struct qr_job *job,
                                             uint64_t epochs, struct qr_err *err);
/* Appends "train.epochs: 50 in the run in DIR, 60 here"; nothing if no key differs. False: DIR has
 * no readable job.json. */
bool qr_job_file_differs(const char *dir, const struct qr_job *job, uint64_t epochs,
                         struct qr_buf *ret);

#endif
