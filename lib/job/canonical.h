/* job/canonical.h — the effective settings that can change a bit of the result, as text, and their
 * hash.
 *
 * Format    One line per field, "name=value", in fixed order, numbers with 17 digits: contract,
 *           seed, micro_batch_size, layers, circuit, readouts, filters, dense, loss, metrics,
 *           batch_size, shuffle, evaluate, optimizer, data (manifest digest), initial_weights
 *           (digest) ... Epochs, paths, intervals and the number of workers are not part of it.
 * Hash      SHA-256 of that text. Two workers compare hashes, and on a mismatch the fields
 *           (membership/protocol.md §3).
 * Threads   Any.
 */
#ifndef QR_JOB_CANONICAL_H
#define QR_JOB_CANONICAL_H

#include "data/dataset.h"
#include "job/job.h"

struct qr_job_field {
    char *name, *value;
};
struct qr_job_canonical {
    size_t n;
    struct qr_job_field *fields;
    uint8_t hash[32];
    char hex[65];
};
/* Computes fields and hash.
 *
 * Args:     initial  SHA-256 of the bytes of train.initial_weights, or NULL
 *           ret      caller frees with qr_job_canonical_fini
 */
void qr_job_canonical(const struct qr_job *job, const struct qr_dataset *data,
                      const uint8_t initial[32], struct qr_job_canonical *ret);
void qr_job_canonical_fini(struct qr_job_canonical *c);
const char *qr_contract_name(enum qr_precision p); /* returns "f32-v1" or "f64-v1" */

#endif
