/* job/record.h — a job as it was trained, as a job file; what differs between two of them, by
 * key. */
#ifndef QR_JOB_RECORD_H
#define QR_JOB_RECORD_H

#include "job/job.h"

/* The job file with the keys that were set and these epochs in it; names of files that stand beside
 * it, or where the program runs, are absolute, so that it means the same in another folder. Without
 * "sweep": a run trains one job. */
void qr_job_record(const struct qr_job *job, uint64_t epochs, struct qr_buf *ret);
/* The same with it, and the job's own epochs. */
void qr_job_record_sweep(const struct qr_job *job, struct qr_buf *ret);
/* "seed: 1 in WHERE, 2 here; …" of two job files' trees, without "worker"; at most so many, and how
 * many more there are. Nothing where nothing differs. */
enum { QR_JOB_DIFFERENCES = 4 };
void qr_job_differences(const struct qr_json *there, const struct qr_json *here, const char *where,
                        struct qr_buf *ret);

#endif
