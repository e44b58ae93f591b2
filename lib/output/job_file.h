/* output/job_file.h — OUT/job.json: the job as this folder's run trained it, a job file again.
 *
 * Written by who leads, at its first step; what another start in that folder differs in is said by
 * key. It decides nothing: which states belong to a job, the job hash says.
 */
#ifndef QR_OUTPUT_JOB_FILE_H
#define QR_OUTPUT_JOB_FILE_H

#include "job/job.h"

QR_MUST_CHECK enum qr_code qr_job_file_write(const char *dir, const struct qr_job *job,
                                             uint64_t epochs, struct qr_err *err);
/* "train.epochs: 50 in the run in DIR, 60 here"; nothing where nothing differs. False: DIR has no
 * such file that could be read. */
bool qr_job_file_differs(const char *dir, const struct qr_job *job, uint64_t epochs,
                         struct qr_buf *ret);

#endif
