/* job/trial.c — the jobs of the trials of a sweep. Start reading at qr_job_trial(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "job/job_impl.h"
#include "job/record.h"

void qr_job_trial_set(const struct qr_job *job, size_t trial, struct qr_overrides *ret) {
    const struct qr_sweep_spec *s = job->sweep;
    char given[48];
    snprintf(given, sizeof given, "sweep: trial %zu with", trial);
    for (size_t k = 0; k < s->n_keys; k++) {
        struct qr_buf text = {0};
        qr_buf_printf(&text, "%s=", s->keys[k].path);
        qr_sweep_value(s, job->seed, trial, k, &text);
        /* One line: paths have no blanks, and values are JSON without blanks. */
        enum qr_code code =
            qr_overrides_add(ret, QR_OVERRIDES_FLAG, given, NULL, qr_buf_string(&text), QR_IGNORED);
        QR_ASSERT(code == QR_OK);
        qr_buf_free(&text);
    }
}

enum qr_code qr_job_trial(const struct qr_job *job, size_t trial, struct qr_job **ret,
                          struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    qr_auto(qr_overrides_fini) struct qr_overrides set = {0};
    qr_auto(qr_free_p) char *what = qr_xasprintf("job %s", job->name);
    char *folder = job->data.folder ? qr_xstrdup(job->data.folder) : NULL;
    qr_job_record(job, job->train.epochs, &text);
    qr_job_trial_set(job, trial, &set);
    const struct qr_job_source from = {
        .what = what, .is_file = job->is_file, .folder = folder, .set = &set};
    return qr_job_parse_in(qr_buf_view(&text), &from, ret, err);
}

/* ---- the metric that compares trials ---- */

/* job: that of a trial. */
static enum qr_code choose_metric(const struct qr_job *job, const struct qr_sweep_spec *s,
                                  bool has_validation, const char **ret, bool *ret_maximize,
                                  struct qr_err *err) {
    bool evaluates = has_validation && job->train.evaluate;
    const char *name = s->metric ? s->metric : evaluates ? "val_loss" : "loss";
    struct qr_epoch_value value;
    if (!qr_metric_is_number(name) || !qr_job_epoch_value(job, name, &value))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "sweep.metric: '%.40s' is not a value of a trial; use loss, a name in "
                       "train.metrics or in a layer's watch, one of these with the prefix val_, or "
                       "a name in train.log without gradient_norm in its expression",
                       name);
    if (value.evaluation && !has_validation)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "sweep.metric: '%.40s' needs validation samples; set data.train_fraction "
                       "below 1, or data.validation_url",
                       name);
    if (value.evaluation && !evaluates)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "sweep.metric: '%.40s' is computed only when training evaluates; remove "
                       "\"evaluate\": false from train",
                       name);
    *ret = name;
    *ret_maximize = s->mode == 2 || (s->mode == 0 && value.grows);
    return QR_OK;
}

enum qr_code qr_job_check_trials(const struct qr_job *job, bool has_validation, const char **ret,
                                 bool *ret_maximize, struct qr_err *err) {
    enum qr_code code = QR_OK;
    for (size_t t = 0; t < job->sweep->n_trials && code == QR_OK; t++) {
        struct qr_job *trial = NULL;
        code = qr_job_trial(job, t, &trial, err);
        if (code == QR_OK)
            code = choose_metric(trial, job->sweep, has_validation, ret, ret_maximize, err);
        qr_job_free(trial);
    }
    return code;
}
