/* local/trial_hash.h — the job hash of each trial of a sweep, without training any.
 *
 * Cost      data are read once for each different way in which trials ask for them, the initial
 *           weights once for each name; one at a time is in memory.
 * Threads   the caller's.
 */
#ifndef QR_LOCAL_TRIAL_HASH_H
#define QR_LOCAL_TRIAL_HASH_H

#include "job/workload.h"

/* hash[t] of trial t, hex: as its run finds it (canonical.h), "" where the trial's keys make a job
 * that these data cannot train. first: trial 0's workload; it is freed before other data are read.
 * Errors: what else keeps a trial's data or initial weights from being read, with the trial's
 * number. */
QR_MUST_CHECK enum qr_code qr_local_trial_hashes(const struct qr_job *job,
                                                 struct qr_workload *first, char (*ret_hash)[65],
                                                 struct qr_err *err);

#endif
