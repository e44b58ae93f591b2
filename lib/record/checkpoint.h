/* record/checkpoint.h — one state of a run as a file that is whole and verified, or not
 * seen (publication.md).
 *
 * File      safetensors, F64, named by job hash, step and digest; its metadata say format,
 *           contract, job hash, step, epoch, reductions (as "pass") and digest, and the crc32c of
 *           each tensor and of the whole file (counted with zeros in its place). No time, host,
 *           generation or number of workers: equal states, equal bytes. So one bit that is not as
 *           written is found, and the section that it is in is named.
 * LATEST    one line of JSON beside the files: job hash, step, digest, object, crc32c, done, and a
 *           crc32c of its own. It moves by compare-and-swap, and only to a later state of the same
 *           job. A file is created, read back and compared before LATEST names it.
 * Numbers   step counts updates, reductions counts updates and evaluations; two states of one job
 *           with equal reductions are equal.
 * Versions  a later version of this format says so behind an intact checksum: UNIMPLEMENTED, and
 *           nothing older is taken instead.
 * Threads   none of its own; a place is used by one thread at a time.
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
    struct qr_tensors tensors; /* owned; in the file's order */
    size_t n_digested;         /* the digest covers the first so many, one after the other */
};
void qr_checkpoint_fini(struct qr_checkpoint *c);
/* XXH3-128 of contract, step, epoch and the values of the first n_digested tensors: what train
 * calls the state's digest. */
void qr_checkpoint_digest(const struct qr_checkpoint *c, char ret[33]);

/* INTERNAL when the values do not have the digest (memory was damaged). *ret_crc32c: of the whole
 * file; may be NULL. */
QR_MUST_CHECK enum qr_code qr_checkpoint_encode(const struct qr_checkpoint *c, struct qr_buf *ret,
                                                uint32_t *ret_crc32c, struct qr_err *err);
/* DATA_LOSS names `what` and the damaged section; UNIMPLEMENTED: of a later format. */
QR_MUST_CHECK enum qr_code qr_checkpoint_decode(struct qr_bytes file, const char *what,
                                                struct qr_checkpoint *ret, struct qr_err *err);
/* True for a file that calls itself a checkpoint, whole or not. */
bool qr_checkpoint_is(struct qr_bytes safetensors);
/* The tensors that are no weights of a model ("optimizer/...") begin with one of these; NULL at
 * the end. */
extern const char *const qr_checkpoint_non_weights[];

/* What LATEST says. */
struct qr_checkpoint_latest {
    char job_hash[65], digest[33];
    /* the file's name beside LATEST: follows from job hash, step and digest */
    char object[128];
    uint64_t step, epoch, reductions;
    uint32_t crc32c;
    bool done; /* training ended there, and the weights are written */
};
void qr_checkpoint_latest_encode(const struct qr_checkpoint_latest *l, struct qr_buf *ret);
QR_MUST_CHECK enum qr_code qr_checkpoint_latest_decode(struct qr_bytes text, const char *what,
                                                       struct qr_checkpoint_latest *ret,
                                                       struct qr_err *err);

/* Where a run's checkpoints are. All borrowed. */
struct qr_checkpoint_location {
    struct qr_store *store;
    const char *dir; /* in the store, without a slash at the end */
    const char *url; /* of the same, for messages */
};
/* ret->job_hash is "" where there is no LATEST. DATA_LOSS when it is damaged. */
QR_MUST_CHECK enum qr_code qr_checkpoint_peek(const struct qr_checkpoint_location *p,
                                              struct qr_checkpoint_latest *ret, struct qr_err *err);

/* Publishes: the file, then LATEST, then takes away old files. *ret_latest: what LATEST says then;
 * when that is of a later state already, nothing is written, which is success.
 * done: the weights are written too. notes: sentences worth a warning, a line each.
 * INVALID_ARGUMENT: another job's checkpoints are there, naming both; INTERNAL: LATEST names
 * another state after as many reductions; UNAVAILABLE: try again; else the store's errors. */
QR_MUST_CHECK enum qr_code qr_checkpoint_save(const struct qr_checkpoint_location *p,
                                              const struct qr_checkpoint *c, bool done,
                                              struct qr_checkpoint_latest *ret_latest,
                                              struct qr_buf *notes, struct qr_err *err);

/* The newest whole checkpoint of this job: what LATEST names, or, with a note, the newest before
 * it. ret->job_hash is "" where there is none yet.
 * INVALID_ARGUMENT: another job's are there, naming both; DATA_LOSS: there were some, and none
 * is whole. */
QR_MUST_CHECK enum qr_code qr_checkpoint_load(const struct qr_checkpoint_location *p,
                                              const char *job_hash, struct qr_checkpoint *ret,
                                              bool *ret_done, struct qr_buf *notes,
                                              struct qr_err *err);

/* A file's name, without its folder, is that of a checkpoint of some job. */
bool qr_checkpoint_has_name(const char *name);
/* Removes LATEST, then every checkpoint of any job there. */
QR_MUST_CHECK enum qr_code qr_checkpoint_delete_all(const struct qr_checkpoint_location *p,
                                                    struct qr_err *err);

#endif
