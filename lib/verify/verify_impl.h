/* verify/verify_impl.h — a verification in progress, shared by verify.c, verify_files.c (the run as
 * it is), verify_weights.c (weights and result) and verify_steps.c (steps that are computed
 * again). */
#ifndef QR_VERIFY_VERIFY_IMPL_H
#define QR_VERIFY_VERIFY_IMPL_H

#include "job/canonical.h"
#include "verify/run_files.h"
#include "verify/verify.h"

struct verifying {
    const struct qr_verify_options *opt;
    struct qr_verification *ret;
    struct qr_run_files files;
    struct qr_chain chain;
    size_t result_bytes; /* lines up to the run's result, if others follow; 0: none follow */
    struct qr_job *job;
    struct qr_workload load;
    struct qr_job_canonical canonical;
    bool loaded;
    bool same_job; /* job, data and arithmetic are those of the run: steps can be computed again */
    struct qr_checkpoint *checkpoint; /* that belong to the chain, by step */
    size_t n_checkpoints;
    bool weights_checked;
};

void verify_add(struct verifying *v, const char *name, enum qr_check_state state, const char *fmt,
                ...) QR_PRINTF(4, 5);
/* Loads job and data, and compares them with those of the run. needed: an error if that fails. */
QR_MUST_CHECK enum qr_code verify_job(struct verifying *v, bool needed, struct qr_err *err);
void verify_chain(struct verifying *v);
/* Compares the files that the run lists with their hashes. UNAVAILABLE: a store does not answer,
 * and nothing differs so far. */
QR_MUST_CHECK enum qr_code verify_files(struct verifying *v, struct qr_err *err);
/* Appends the weights that the run must list, but does not; and, without result.json, weights that
 * nothing lists. */
void verify_listed(const struct verifying *v, struct qr_buf *wrong, struct qr_buf *unproven);
/* What an error of a store says about the run: nothing yet, or nothing for this reader. */
static inline bool verify_is_temporary(enum qr_code code) {
    return code == QR_UNAVAILABLE || code == QR_DEADLINE_EXCEEDED;
}
static inline bool verify_is_denied(enum qr_code code) {
    return code == QR_PERMISSION_DENIED || code == QR_UNAUTHENTICATED;
}
/* Checks the signature. Errors: those of the public key's file, and of the store. */
QR_MUST_CHECK enum qr_code verify_signature(struct verifying *v, struct qr_err *err);
/* Reads the checkpoints, and checks that each is a state of the chain. */
QR_MUST_CHECK enum qr_code verify_checkpoints(struct verifying *v, struct qr_err *err);
/* Computes the steps again that the options ask for. */
QR_MUST_CHECK enum qr_code verify_steps(struct verifying *v, struct qr_err *err);
/* Compares the values in result.json with those that training ended with. */
void verify_result(struct verifying *v, const struct qr_train_result *r);
/* Compares the values of the weights files with these, of the state that training ended with; NULL:
 * with each other; and their names with those of the data. Errors: UNAVAILABLE. */
QR_MUST_CHECK enum qr_code verify_weights(struct verifying *v, const double *params,
                                          struct qr_err *err);

#endif
