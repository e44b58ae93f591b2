/* verify/verify_impl.h — a verification in progress, shared by verify.c, verify_files.c (the run as
 * it is) and verify_steps.c (steps that are computed again). */
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
};

void verify_add(struct verifying *v, const char *name, enum qr_check_state state, const char *fmt,
                ...) QR_PRINTF(4, 5);
/* Loads job and data, and compares them with those of the run. needed: an error if that fails. */
QR_MUST_CHECK enum qr_code verify_job(struct verifying *v, bool needed, struct qr_err *err);
void verify_chain(struct verifying *v);
void verify_files(struct verifying *v);
/* Checks the signature. Errors: those of the public key's file, and of the store. */
QR_MUST_CHECK enum qr_code verify_signature(struct verifying *v, struct qr_err *err);
/* Reads the checkpoints, and checks that each is a state of the chain. */
QR_MUST_CHECK enum qr_code verify_checkpoints(struct verifying *v, struct qr_err *err);
/* Computes the steps again that the options ask for. */
QR_MUST_CHECK enum qr_code verify_steps(struct verifying *v, struct qr_err *err);
/* Compares the values of the weights files with these, of the state that training ended with; NULL:
 * with each other. */
void verify_weights(struct verifying *v, const double *params);

#endif
