/* record/provenance.h — provenance.json: an in-toto statement about the files of a run.
 *
 * Statement https://in-toto.io/Statement/v1. Subjects are the run's files with their SHA-256, by
 *           their paths below the folder, or else by absolute path or URL.
 * Predicate https://slsa.dev/provenance/v1, buildType QR_PROVENANCE_BUILD: the fields of the job
 *           hash (externalParameters.job), job and data by their hashes, the program, and as
 *           byproducts the digest of the last state and the chain of the last line (chain.h).
 * Bytes     No time, host or number of workers.
 * Threads   Any; pure functions.
 */
#ifndef QR_RECORD_PROVENANCE_H
#define QR_RECORD_PROVENANCE_H

#include "base/bytes.h"

#define QR_PROVENANCE_BUILD "urn:qring:training:v1"

/* A file with its SHA-256, or a field of the job with its value; hex or text. */
struct qr_provenance_pair {
    char *name, *value;
};
struct qr_provenance {
    /* "": not known */
    char job_hash[65], data_hash[65], arithmetic[24], program[32], state_digest[33], chain[65];
    size_t n_files, n_fields;
    struct qr_provenance_pair *files, *fields; /* owned, with their texts */
};
void qr_provenance_fini(struct qr_provenance *p);
/* Appends copies to a list. */
void qr_provenance_add(struct qr_provenance_pair **list, size_t *n, const char *name,
                       const char *value);
/* Returns the value of a name, borrowed; NULL: there is none. */
const char *qr_provenance_find(const struct qr_provenance_pair *list, size_t n, const char *name);
void qr_provenance_json(const struct qr_provenance *p, struct qr_buf *ret);
/* Reads a statement of another process.
 *
 * Args:     what  name of the file, for messages
 *           ret   freed with qr_provenance_fini
 * Errors:   DATA_LOSS: malformed, or not a statement of qring
 */
QR_MUST_CHECK enum qr_code qr_provenance_read(struct qr_bytes text, const char *what,
                                              struct qr_provenance *ret, struct qr_err *err);

#endif
