/* local/trial_hash.h — the job hash of each trial of a sweep, without training.
 *
 * Cost      Data are read once for each different request of the trials, initial weights once for
 *           each name; one data set at a time is in memory.
 * Threads   the caller's.
 */
#ifndef QR_LOCAL_TRIAL_HASH_H
#define QR_LOCAL_TRIAL_HASH_H

#include "job/workload.h"

/* Computes the hashes as the trials' runs do (canonical.h).
 *
 * Args:     first     trial 0's workload; freed before other data are read
 *           ret_hash  [n_trials], hex; "" where the job of the trial cannot be trained on its data
 * Errors:   others that keep data or initial weights from being read, with the trial's number
 */
QR_MUST_CHECK enum qr_code qr_local_trial_hashes(const struct qr_job *job,
                                                 struct qr_workload *first, char (*ret_hash)[65],
                                                 struct qr_err *err);

#endif
