/* verify/verify.c — verifies a run. Start reading at verify_run(). */
#include "verify/verify.h"

#include <string.h>

#include "base/mem.h"
#include "verify/verify_impl.h"

static void verifying_fini(struct verifying *v) {
    for (size_t i = 0; i < v->n_checkpoints; i++) qr_checkpoint_fini(&v->checkpoint[i]);
    free(v->checkpoint);
    qr_chain_fini(&v->chain);
    qr_run_files_fini(&v->files);
    qr_job_canonical_fini(&v->canonical);
    qr_workload_fini(&v->load);
    qr_job_free(v->job);
}

static enum qr_code verify_run(struct verifying *v, struct qr_err *err) {
    const struct qr_verify_options *o = v->opt;
    bool steps = o->first || o->sample || o->all;
    bool needed = steps || o->checkpoints || o->isa || (o->set && o->set->n);
    QR_TRY(qr_run_files_read(o->run, &v->files, err));
    QR_TRY(verify_job(v, needed, err));
    verify_chain(v);
    QR_TRY(verify_files(v, err));
    QR_TRY(verify_signature(v, err));
    if (v->chain.state != QR_CHAIN_MISSING) QR_TRY(verify_checkpoints(v, err));
    if (steps) QR_TRY(verify_steps(v, err));
    return v->loaded && !v->weights_checked ? verify_weights(v, NULL, err) : QR_OK;
}

enum qr_code qr_verify(const struct qr_verify_options *opt, struct qr_verification *ret,
                       struct qr_err *err) {
    struct verifying v = {.opt = opt, .ret = ret};
    *ret = (struct qr_verification){.run = qr_xstrdup(opt->run)};
    enum qr_code code = verify_run(&v, err);
    verifying_fini(&v);
    if (code != QR_OK) qr_verification_fini(ret);
    return code;
}

void qr_verification_fini(struct qr_verification *v) {
    free(v->run);
    qr_replay_fini(&v->difference);
    *v = (struct qr_verification){0};
}
