/* verify/verify.h — checks a run: the chain of its lines, its files, its signature, and steps that
 * are computed again.
 *
 * Use       qr_verify; then qr_verification_text or _json, and qr_verification_code for the exit
 *           code; qr_verification_fini.
 * Run       A folder, or a URL of one (gs://, s3://, https://), also read-only: job.json,
 *           steps.jsonl, result.json, provenance.json, weights, checkpoints.
 * Trust     Without a signature and a recomputation the files only prove that they belong together.
 *           A signature proves their author. Recomputed steps are proved by their bits.
 * Threads   One, and those of the computation.
 */
#ifndef QR_VERIFY_VERIFY_H
#define QR_VERIFY_VERIFY_H

#include "job/overrides.h"
#include "verify/replay.h"

struct qr_verify_options { /* all borrowed; NULL: default */
    const char *run;
    const char *checkpoints;  /* folder or URL [RUN/checkpoints] */
    const char *key;          /* file with the public key (PEM) that must have signed the run */
    struct qr_overrides *set; /* keys that say where data is: data.url=FILE */
    const char *isa;
    unsigned threads;      /* 0: the available CPUs */
    uint64_t first, last;  /* steps to compute again; 0: none */
    uint64_t sample, seed; /* or this many steps, drawn by the seed */
    bool all;              /* or all steps */
};

/* UNPROVEN: not checked, and without that the run proves nothing. */
enum qr_check_state { QR_CHECK_SAME, QR_CHECK_DIFFERS, QR_CHECK_UNKNOWN, QR_CHECK_UNPROVEN };
struct qr_check {
    const char *name; /* "chain", "files" ...; static */
    enum qr_check_state state;
    char text[512];
};
enum { QR_CHECKS_MAX = 16 };
struct qr_verification {
    char *run;
    size_t n;
    struct qr_check check[QR_CHECKS_MAX];
    uint64_t seed; /* of the sample */
    size_t n_steps;
    double seconds;
    struct qr_replay difference; /* of the first step that differs; differs: it is set */
};
/* Checks a run. What differs is not an error: see the checks.
 *
 * Args:     ret   freed with qr_verification_fini
 * Errors:   INVALID_ARGUMENT (a step that the run does not have, not a run); UNAVAILABLE (a file of
 *           the run cannot be reached now, and nothing differs so far); those of the store and of
 *           loading the job, where an option needs it
 */
QR_MUST_CHECK enum qr_code qr_verify(const struct qr_verify_options *opt,
                                     struct qr_verification *ret, struct qr_err *err);
/* Returns QR_OK: all that was checked is the same; QR_DIFFERS: something differs, *err names the
 * first; QR_UNPROVEN: nothing differs, but a check is unproven: no chain, another arithmetic,
 * files or weights that could not be checked, a run that goes on after its result. */
enum qr_code qr_verification_code(const struct qr_verification *v, struct qr_err *err);
void qr_verification_text(const struct qr_verification *v, struct qr_buf *ret);
void qr_verification_json(const struct qr_verification *v, struct qr_buf *ret);
void qr_verification_fini(struct qr_verification *v);

#endif
