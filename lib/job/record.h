/* job/record.h — writes a job as a job file, as it was trained, and compares two jobs key by key.
 *
 * Threads   Any.
 */
#ifndef QR_JOB_RECORD_H
#define QR_JOB_RECORD_H

#include "job/job.h"

/* Appends the job file with the keys that were set and with this number of epochs. Names of files
 * are absolute, so that the text means the same in another folder. Without "sweep": a run trains
 * one job. */
void qr_job_record(const struct qr_job *job, uint64_t epochs, struct qr_buf *ret);
/* As qr_job_record, with "sweep" and the job's own epochs. */
void qr_job_record_sweep(const struct qr_job *job, struct qr_buf *ret);
/* Whether the job names the file of this path or URL: data, initial weights, circuits,
 * Hamiltonians. */
bool qr_job_names_file(const struct qr_job *job, const char *url);
/* Appends the differences of two job files, without "worker": "seed: 1 in WHERE, 2 here; ...", at
 * most QR_JOB_DIFFERENCES and the number of further ones. Nothing if they are equal. */
enum { QR_JOB_DIFFERENCES = 4 };
void qr_job_differences(const struct qr_json *there, const struct qr_json *here, const char *where,
                        struct qr_buf *ret);

#endif
