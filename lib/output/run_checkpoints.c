/* output/run_checkpoints.c — finds the checkpoint from which a run resumes. Start reading at
 * qr_run_checkpoints_load(). */
#include "output/run_checkpoints.h"

#include <string.h>

#include "base/mem.h"
#include "data/batch.h"
#include "job/canonical.h"
#include "output/job_file.h"
#include "train/train_checkpoint.h"

enum qr_code qr_run_checkpoints_load_from(const struct qr_checkpoint_folder *p,
                                          const struct qr_workload *w, const char *job_hash,
                                          uint64_t epochs, struct qr_resume_point *ret,
                                          struct qr_err *err) {
    qr_auto(qr_checkpoint_fini) struct qr_checkpoint c = {0};
    *ret = (struct qr_resume_point){0};
    struct qr_state *s = &ret->state;
    size_t n_batches = qr_batch_count(w->data.n_train, w->job->train.batch_size);
    bool done = false;
    QR_TRY(qr_checkpoint_load(&p->at, job_hash, &c, &done, &ret->notes, err));
    if (!*c.job_hash) return QR_OK;
    qr_state_init(s, w->job, w->model);
    if (qr_state_load(&c, w->job, w->model, s, err) != QR_OK) return qr_wrap(err, "%s", p->url);
    bool complete = done && (s->epoch >= epochs || s->stop[QR_STOP_STOPPED] > 0);
    ret->found = complete                       ? QR_FOUND_DONE
                 : s->step > epochs * n_batches ? QR_FOUND_BEYOND
                                                : QR_FOUND_STATE;
    return QR_OK;
}

enum qr_code qr_run_checkpoints_check_epochs(const char *url, const struct qr_workload *w,
                                             uint64_t epochs, const struct qr_resume_point *found,
                                             struct qr_err *err) {
    if (found->found != QR_FOUND_BEYOND) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "%s: the checkpoint of step %llu is beyond %llu epochs of %zu steps; increase "
                   "--epochs, or start over with --fresh",
                   url, (unsigned long long)found->state.step, (unsigned long long)epochs,
                   qr_batch_count(w->data.n_train, w->job->train.batch_size));
}

/* Adds the keys that differ, for checkpoints of another job and of this one. */
static enum qr_code explain_mismatch(const char *dir, const struct qr_workload *w, uint64_t epochs,
                                     enum qr_code code, struct qr_resume_point *ret,
                                     struct qr_err *err) {
    if (code == QR_OK && ret->found == QR_FOUND_NOTHING) return code;
    if (code != QR_OK && code != QR_INVALID_ARGUMENT) return code;
    bool known = qr_job_file_differs(dir, w->job, epochs, &ret->differs);
    if (code == QR_OK || !known) return code;
    if (ret->differs.n) return qr_wrap(err, "%.320s", qr_buf_string(&ret->differs));
    return qr_wrap(err,
                   "no key differs from %.120s/job.json, but the data, the initial weights or the "
                   "program differ",
                   dir);
}

enum qr_code qr_run_checkpoints_load(const char *url, const char *dir, const struct qr_workload *w,
                                     uint64_t epochs, struct qr_resume_point *ret,
                                     struct qr_err *err) {
    struct qr_job_canonical canonical;
    qr_auto(qr_checkpoint_folder_close) struct qr_checkpoint_folder p = {0};
    *ret = (struct qr_resume_point){0};
    QR_TRY(qr_checkpoint_folder_open(url, &p, err));
    qr_job_canonical(w->job, &w->data, w->initial_from_file ? w->initial_digest : NULL, &canonical);
    enum qr_code code = qr_run_checkpoints_load_from(&p, w, canonical.hex, epochs, ret, err);
    qr_job_canonical_fini(&canonical);
    return explain_mismatch(dir, w, epochs, code, ret, err);
}

enum qr_code qr_run_checkpoints_check_earlier(const char *url, const char *dir,
                                              const struct qr_workload *w, uint64_t epochs,
                                              struct qr_err *err) {
    qr_auto(qr_resume_point_fini) struct qr_resume_point earlier = {0};
    QR_TRY(qr_run_checkpoints_load(url, dir, w, epochs, &earlier, err));
    if (earlier.state.step > epochs * qr_batch_count(w->data.n_train, w->job->train.batch_size))
        earlier.found = QR_FOUND_BEYOND; /* also where that run has finished */
    return qr_run_checkpoints_check_epochs(url, w, epochs, &earlier, err);
}

void qr_resume_point_fini(struct qr_resume_point *s) {
    qr_state_fini(&s->state);
    qr_buf_free(&s->notes);
    qr_buf_free(&s->differs);
}

void qr_run_checkpoints_warn(const struct qr_buf *notes, const struct qr_log *log) {
    for (const char *at = qr_buf_string(notes); *at;) {
        size_t n = strcspn(at, "\n");
        qr_warn(log, "checkpoint", "%.*s", (int)n, at);
        at += n + (at[n] == '\n');
    }
}

enum qr_code qr_run_checkpoints_delete(const char *url, struct qr_err *err) {
    qr_auto(qr_checkpoint_folder_close) struct qr_checkpoint_folder p = {0};
    QR_TRY(qr_checkpoint_folder_open(url, &p, err));
    return qr_checkpoint_delete_all(&p.at, err);
}
