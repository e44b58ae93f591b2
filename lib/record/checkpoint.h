/* record/checkpoint.h — checkpoints of a run: one state as a file that is either complete and
 * verified, or not visible (publication.md).
 *
 * Use       qr_checkpoint_save publishes a state, qr_checkpoint_load finds the newest one of a job,
 *           qr_checkpoint_peek reads LATEST only. The codecs below work on bytes alone.
 * File      safetensors, F64, named by job hash, step and digest. The metadata have format,
 *           contract, job hash, step, epoch, reductions, digest and chain, and the crc32c of
 *           each tensor and of the whole file (computed with zeros in its place). No time, host,
 *           generation or number of workers: equal states give equal bytes. Any changed bit is
 *           detected, and the message names the damaged section.
 * LATEST    one line of JSON beside the files: job hash, step, digest, object, crc32c, done, and a
 *           crc32c of its own. LATEST changes by compare-and-swap, and only to a later state of the
 *           same job. A file is created, read back and compared before LATEST names it.
 * Numbers   step counts updates; reductions counts updates and evaluations. Two states of one job
 *           with equal reductions are equal.
 * Versions  A file of a later format version, with an intact checksum, is UNIMPLEMENTED; no older
 *           checkpoint is loaded instead.
 * Threads   none of its own; a location is used by one thread at a time.
 */
#ifndef QR_RECORD_CHECKPOINT_H
#define QR_RECORD_CHECKPOINT_H

#include "base/bytes.h"
#include "format/tensor.h"
#include "store/store.h"

enum { QR_CHECKPOINT_FORMAT = 1, QR_CHECKPOINTS_KEPT = 3 };

struct qr_checkpoint {
    char job_hash[65], contract[24];
    uint64_t step, epoch, reductions;
    char digest[33];           /* of the state, hex */
    char chain[65];            /* of the line that led to it, hex (chain.h); "": none */
    struct qr_tensors tensors; /* owned; in the file's order */
    size_t n_digested;         /* the digest covers this many tensors, from the first */
};
void qr_checkpoint_fini(struct qr_checkpoint *c);
/* Computes the state digest as train does: XXH3-128 of contract, step, epoch and the values of the
 * first n_digested tensors. */
void qr_checkpoint_digest(const struct qr_checkpoint *c, char ret[33]);

/* Appends the file's bytes.
 *
 * Args:     ret_crc32c   of the whole file; may be NULL
 * Errors:   INTERNAL: the values do not match c->digest (memory was damaged); RESOURCE_EXHAUSTED:
 *           above 1 GiB
 */
QR_MUST_CHECK enum qr_code qr_checkpoint_encode(const struct qr_checkpoint *c, struct qr_buf *ret,
                                                uint32_t *ret_crc32c, struct qr_err *err);
/* Decodes and verifies a file.
 *
 * Args:     what   name of the file, for messages
 *           ret    free with qr_checkpoint_fini
 * Errors:   DATA_LOSS, naming `what` and the damaged section; UNIMPLEMENTED: a later format
 */
QR_MUST_CHECK enum qr_code qr_checkpoint_decode(struct qr_bytes file, const char *what,
                                                struct qr_checkpoint *ret, struct qr_err *err);
/* True when the metadata say that the file is a checkpoint. The file may be damaged. */
bool qr_checkpoint_is(struct qr_bytes safetensors);
/* Prefixes of tensors that are not weights of a model ("optimizer/", ...); NULL-terminated. */
extern const char *const qr_checkpoint_non_weights[];

/* The content of LATEST. */
struct qr_checkpoint_latest {
    char job_hash[65], digest[33];
    /* The file's name beside LATEST: follows from job hash, step and digest */
    char object[128];
    uint64_t step, epoch, reductions;
    uint32_t crc32c; /* of the file */
    bool done;       /* training ended at this state, and the weights are written */
};
void qr_checkpoint_latest_encode(const struct qr_checkpoint_latest *l, struct qr_buf *ret);
/* Errors: DATA_LOSS (damaged), UNIMPLEMENTED (a later format). */
QR_MUST_CHECK enum qr_code qr_checkpoint_latest_decode(struct qr_bytes text, const char *what,
                                                       struct qr_checkpoint_latest *ret,
                                                       struct qr_err *err);

/* The location of a run's checkpoints. All borrowed. */
struct qr_checkpoint_location {
    struct qr_store *store;
    const char *dir; /* in the store, without a slash at the end */
    const char *url; /* of dir, for messages */
    size_t keep;     /* files kept by a save, the newest; 0: QR_CHECKPOINTS_KEPT */
};
/* Reads LATEST. ret->job_hash is "" when there is none. DATA_LOSS when LATEST is damaged. */
QR_MUST_CHECK enum qr_code qr_checkpoint_peek(const struct qr_checkpoint_location *p,
                                              struct qr_checkpoint_latest *ret, struct qr_err *err);

/* Publishes a state: writes the file, then LATEST, then deletes old files (publication.md §4).
 *
 * Args:     done         the weights are written too
 *           ret_latest   content of LATEST afterwards. If it names a later state already, nothing
 *                        is written, which is success.
 *           notes        warnings for the log, one per line
 * Errors:   INVALID_ARGUMENT: the location has another job's checkpoints (names both hashes);
 *           INTERNAL: LATEST names another state after the same number of reductions; UNAVAILABLE:
 *           retry; else the store's errors
 */
QR_MUST_CHECK enum qr_code qr_checkpoint_save(const struct qr_checkpoint_location *p,
                                              const struct qr_checkpoint *c, bool done,
                                              struct qr_checkpoint_latest *ret_latest,
                                              struct qr_buf *notes, struct qr_err *err);

/* Loads the newest intact checkpoint of this job: the one that LATEST names, or else, with a note,
 * the newest before it.
 *
 * Args:     ret        ret->job_hash is "" when there is no checkpoint yet; free with
 *                      qr_checkpoint_fini
 *           ret_done   `done` of LATEST
 *           notes      warnings for the log, one per line
 * Errors:   INVALID_ARGUMENT: the location has another job's checkpoints (names both hashes);
 *           DATA_LOSS: there are checkpoints, but none is intact; else the store's errors
 */
QR_MUST_CHECK enum qr_code qr_checkpoint_load(const struct qr_checkpoint_location *p,
                                              const char *job_hash, struct qr_checkpoint *ret,
                                              bool *ret_done, struct qr_buf *notes,
                                              struct qr_err *err);

/* Lists the names of a job's checkpoints, '\n'-separated and in order of their steps.
 *
 * Errors:   UNIMPLEMENTED: a web server, whose files cannot be listed; else the store's errors
 */
QR_MUST_CHECK enum qr_code qr_checkpoint_list(const struct qr_checkpoint_location *p,
                                              const char *job_hash, struct qr_buf *ret,
                                              struct qr_err *err);
/* Loads the checkpoint of that name.
 *
 * Args:     ret   freed with qr_checkpoint_fini
 * Errors:   DATA_LOSS: damaged, or not the state that its name says; else the store's errors
 */
QR_MUST_CHECK enum qr_code qr_checkpoint_read(const struct qr_checkpoint_location *p,
                                              const char *name, const char *job_hash,
                                              struct qr_checkpoint *ret, struct qr_err *err);
/* Reads step and digest in the name of a checkpoint. False: not such a name. */
bool qr_checkpoint_parse_name(const char *name, uint64_t *ret_step, char ret_digest[33]);

/* True when a file name (without directory) is that of a checkpoint of any job. */
bool qr_checkpoint_has_name(const char *name);
/* Deletes LATEST, then all checkpoints of any job at the location. */
QR_MUST_CHECK enum qr_code qr_checkpoint_delete_all(const struct qr_checkpoint_location *p,
                                                    struct qr_err *err);

#endif
