/* api_train/api_job.c — jobs of the C interface: reading, cancelling, predicting. Training is in
 * api_training.c, weights are in api_weights.c. Start reading at qring_job_new(). */
#include <stdio.h>
#include <string.h>

#include "api_train/api_train_impl.h"
#include "base/mem.h"
#include "train/evaluate.h"

/* ---- reading ---- */

/* Errors of a job, in the caller's message. */
struct job_errors {
    struct qring_error *to;
    size_t n, shown, used;
};

/* Leaves room for the line that counts the errors that are not shown. */
enum { ERRORS_TAIL = 32 };

static void job_errors_add(void *context, const struct qr_err *err) {
    struct job_errors *e = context;
    size_t room = sizeof e->to->message, n = strlen(err->msg) + (e->n > 0);
    e->n++;
    if (e->shown < e->n - 1 || (e->used && e->used + n + ERRORS_TAIL > room)) return;
    snprintf(e->to->message + e->used, room - e->used, "%s%s", e->n > 1 ? "\n" : "", err->msg);
    e->used += n;
    e->shown++;
}

static enum qring_code job_errors_report(struct job_errors *e, enum qr_code code,
                                         const struct qr_err *err) {
    if (!e->n) return qr_api_report(e->to, code, err);
    if (e->shown < e->n)
        snprintf(e->to->message + e->used, sizeof e->to->message - e->used, "\nand %zu more",
                 e->n - e->shown);
    return e->to->code = (enum qring_code)code;
}

enum qring_code qring_job_new(const char *text, size_t bytes, const char *folder,
                              struct qring_job **ret, struct qring_error *ret_err) {
    struct qring_error unread = {0};
    struct qr_err err = {0};
    struct job_errors errors = {.to = ret_err ? ret_err : &unread};
    struct qr_number_env env;
    struct qr_job *job = NULL;
    *ret = NULL;
    if (!text)
        return qr_api_report(
            ret_err, qr_fail(&err, QR_INVALID_ARGUMENT, "cannot read the job: text is NULL"), &err);
    qr_number_env_enter(&env);
    enum qr_code code = qr_job_parse_all(qr_bytes_of((const uint8_t *)text, bytes), "the job",
                                         folder, job_errors_add, &errors, &job, &err);
    qr_number_env_leave(&env);
    if (code != QR_OK) return job_errors_report(&errors, code, &err);
    struct qring_job *j = qr_xcalloc(1, sizeof *j);
    atomic_flag_clear(&j->busy);
    pthread_mutex_init(&j->lock, NULL);
    j->job = job;
    *ret = j;
    return qr_api_report(ret_err, QR_OK, &err);
}

void qring_job_free(struct qring_job *j) {
    if (!j) return;
    qr_job_free(j->job);
    pthread_mutex_destroy(&j->lock);
    free(j);
}

/* ---- predictions ---- */

enum qr_code qr_api_tensor(const struct qring_array *a, const char *name, size_t n, size_t m,
                           struct qr_tensors *ret, struct qr_err *err) {
    struct qr_tensor *t;
    const size_t dims[2] = {n, m};
    QR_TRY(qr_array_check(a, name, true, err));
    QR_TRY(qr_tensors_add_large(ret, name, 2, dims, "the arrays", &t, err));
    qr_array_copy(a, n, m, t->values);
    return QR_OK;
}

struct prediction {
    const struct qr_job *job;
    const struct qring_weights *weights;
    const struct qring_array *x, *ret;
    size_t n_samples, n_inputs, n_outputs;
    unsigned threads;
    struct qr_workload load;
    size_t *sample;
    double *p;
};

static enum qr_code predict_load(struct prediction *p, struct qr_err *err) {
    qr_auto(qr_tensors_free) struct qr_tensors arrays = {0};
    const struct qr_job_samples samples = {.url = "the arrays", .arrays = &arrays};
    if (p->job->data.source == QR_DATA_NONE) {
        if (p->n_samples != 1 || p->n_inputs != 0)
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "cannot predict %zu samples of %zu inputs: the job's model takes no "
                           "inputs (data.source is none); give 1 sample of 0 inputs",
                           p->n_samples, p->n_inputs);
        return qr_workload_load(p->job, "auto", p->threads, &p->load, err);
    }
    QR_TRY(qr_api_tensor(p->x, "x", p->n_samples, p->n_inputs, &arrays, err));
    return qr_workload_load_samples(p->job, &samples, "auto", p->threads, &p->load, err);
}

static enum qr_code predict_run(struct prediction *p, struct qr_err *err) {
    QR_TRY(qr_array_check(p->ret, "ret", true, err));
    QR_TRY(predict_load(p, err));
    const struct qr_model *m = p->load.model;
    size_t n = qr_model_n_outputs(m);
    if (n != p->n_outputs)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "cannot predict %zu outputs for each sample: the model has %zu",
                       p->n_outputs, n);
    QR_TRY(qr_api_weights_take(p->weights, m, p->load.initial, err));
    void *numbers;
    QR_TRY(qr_large_new(p->n_samples, sizeof *p->sample, "numbers of samples", &numbers, err));
    p->sample = numbers;
    QR_TRY(qr_large_new(p->n_samples * n, sizeof *p->p, "predictions", &numbers, err));
    p->p = numbers;
    for (size_t i = 0; i < p->n_samples; i++) p->sample[i] = i;
    struct qr_pool *pool = qr_pool_new(p->threads);
    enum qr_code code = qr_evaluate(m, p->load.initial, &p->load.data, p->sample, p->n_samples,
                                    pool, p->p, NULL, NULL, err);
    qr_pool_free(pool);
    for (size_t i = 0; code == QR_OK && i < p->n_samples; i++)
        for (size_t j = 0; j < n; j++) qr_array_set(p->ret, i, j, 0, p->p[i * n + j]);
    return code;
}

enum qring_code qring_predict(struct qring_job *j, const struct qring_weights *weights,
                              const struct qring_array *x, size_t n_samples, size_t n_inputs,
                              unsigned threads, const struct qring_array *ret, size_t n_outputs,
                              struct qring_error *ret_err) {
    struct qr_err err = {0};
    struct qr_number_env env;
    struct prediction p = {.job = j->job,
                           .weights = weights,
                           .x = x,
                           .ret = ret,
                           .n_samples = n_samples,
                           .n_inputs = n_inputs,
                           .n_outputs = n_outputs};
    enum qr_code code = qr_api_begin(&j->busy, "job", &env, &err);
    if (code != QR_OK) return qr_api_report(ret_err, code, &err);
    p.threads = qr_api_threads(threads);
    if (!weights) code = qr_fail(&err, QR_INVALID_ARGUMENT, "cannot predict: weights is NULL");
    if (code == QR_OK && n_samples) code = predict_run(&p, &err);
    qr_workload_fini(&p.load);
    free(p.sample);
    free(p.p);
    qr_api_end(&j->busy, &env);
    return qr_api_report(ret_err, code, &err);
}
