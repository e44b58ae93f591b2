/* job/job_spec.c — reads the keys at the top of a job file. Start reading at qr_job_finish(). */
#include <string.h>

#include "base/mem.h"
#include "job/job_impl.h"
#include "sim/sim.h"

/* The name of a run becomes part of object names and DNS names. */
enum qr_code qr_job_read_name(struct qr_job_reader *r, const struct qr_json *v, const char *where,
                              void *to) {
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
                      others[] =
                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    const char *name;
    QR_TRY(qr_json_string(v, where, &name, r->err));
    size_t n = strlen(name);
    if (n < 1 || n > 63 || !strchr(first, *name) || strspn(name, others) != n)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: '%.80s' is not a valid job name; use 1 to 63 letters, digits, '-', "
                       "'_' or '.', beginning with a letter or digit",
                       where, name);
    *(char **)to = qr_xstrdup(name);
    return QR_OK;
}

/* That of the plan of the first circuit, which reads the data. A circuit that cannot be compiled is
 * rejected when the model is built. */
static size_t default_micro_batch_size(const struct qr_job *job) {
    struct qr_sim_options any = {.precision = job->precision, .isa = QR_ISA_PORTABLE};
    size_t first = qr_job_quantum(job, 0);
    struct qr_sim_plan *plan = NULL;
    struct qr_err err;
    if (first == job->n_layers) return 32;
    if (job->data.source == QR_DATA_NONE) return 1;
    const struct qr_quantum_options *q = &job->layers[first].quantum;
    any.method = q->method;
    any.n_trajectories = q->n_trajectories;
    any.shots = q->shots;
    if (qr_sim_compile(q->circuit, q->readouts, q->n_readouts, &any, &plan, &err) != QR_OK)
        return 1;
    size_t size = qr_sim_micro_batch_size(plan, job->train.batch_size);
    qr_sim_plan_free(plan);
    return size;
}

/* Steps for the profiler; they do not affect the result. */
enum qr_code qr_job_read_profile_steps(struct qr_job_reader *r, const struct qr_json *v,
                                       const char *where, void *to) {
    uint64_t *step = to; /* profile_first and profile_last */
    static const struct qr_job_key number = {.type = QR_KEY_COUNT, .low = 1, .high = 0x1p53};
    QR_TRY(qr_json_want(v, where, QR_JSON_ARRAY, r->err));
    if (qr_json_size(v) != 2)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s has %zu entries; give the first and the last step to record, such as "
                       "[100, 110]",
                       where, qr_json_size(v));
    for (size_t i = 0; i < 2; i++)
        QR_TRY(qr_job_read_value(r, &number, qr_json_at(v, i), qr_path_of("%s[%zu]", where, i).s,
                                 &step[i]));
    if (step[0] <= step[1]) return QR_OK;
    return qr_fail(r->err, QR_INVALID_ARGUMENT,
                   "%s: the first step %llu is after the last step %llu; swap them", where,
                   (unsigned long long)step[0], (unsigned long long)step[1]);
}

enum qr_code qr_job_read_nothing(struct qr_job_reader *r, const struct qr_json *v,
                                 const char *where, void *to) {
    const char *unread;
    (void)to;
    return qr_json_string(v, where, &unread, r->err);
}

enum qr_code qr_job_read_sweep(struct qr_job_reader *r, const struct qr_json *v, const char *where,
                               void *to) {
    (void)where;
    return qr_sweep_read(v, to, r->err);
}

enum qr_code qr_job_read_worker(struct qr_job_reader *r, const struct qr_json *v, const char *where,
                                void *to) {
    *(const struct qr_json **)to = v;
    return qr_json_want(v, where, QR_JSON_OBJECT, r->err);
}

enum qr_code qr_job_finish(struct qr_job_reader *r, void *to) {
    struct qr_job *job = to;
    uint64_t *batch = &job->train.batch_size;
    if (!job->name) job->name = qr_xstrdup("job");
    if (job->data.source == QR_DATA_NONE &&
        !qr_json_get(qr_json_get(r->object, "train"), "batch_size"))
        *batch = 1;
    job->data.seed = job->seed;
    QR_TRY(qr_job_check_outputs(job, r->err));
    if (!job->micro_batch_size) job->micro_batch_size = default_micro_batch_size(job);
    if (*batch / job->micro_batch_size < QR_JOB_MAX_MICRO_BATCHES) return QR_OK;
    return qr_fail(r->err, QR_INVALID_ARGUMENT,
                   "train.batch_size: %llu samples in micro-batches of %zu exceed the limit of %d "
                   "micro-batches per step; increase micro_batch_size",
                   (unsigned long long)*batch, job->micro_batch_size, QR_JOB_MAX_MICRO_BATCHES);
}
