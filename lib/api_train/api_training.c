/* api_train/api_training.c — training of the C interface: the step loop of a worker, alone, with
 * the caller's callback as its observer. Start reading at qring_train(). */
#include <string.h>

#include "api_train/api_train_impl.h"
#include "base/clock.h"
#include "base/mem.h"
#include "group/group.h"
#include "model/metric.h"
#include "train/train.h"

enum { MAX_VALUES = 2 * (1 + QR_MAX_METRICS) + QR_MAX_LOGGED };

struct qring_result {
    size_t steps, epochs;
    char digest[33];
    size_t n;
    char *names[MAX_VALUES];
    double values[MAX_VALUES];
    struct qring_weights *weights;
};

/* One call of qring_train. */
struct training {
    struct qr_number_env caller; /* restored for callbacks and at the end */
    struct qring_job *of;
    struct qr_job *job;
    struct qring_train_options opt;
    struct qr_workload load;
    struct qr_job_canonical canonical;
    struct qr_group *group;
    struct qr_pool *pool;
};

/* ---- cancelling ---- */

void qring_job_cancel(struct qring_job *j) {
    pthread_mutex_lock(&j->lock);
    j->cancelled = true;
    if (j->group) qr_group_interrupt(j->group);
    pthread_mutex_unlock(&j->lock);
}

/* From now on qring_job_cancel reaches the group; group NULL: the training has ended. */
static void job_set_group(struct qring_job *j, struct qr_group *group) {
    pthread_mutex_lock(&j->lock);
    j->group = group;
    if (group && j->cancelled) qr_group_interrupt(group);
    if (!group) j->cancelled = false;
    pthread_mutex_unlock(&j->lock);
}

/* ---- progress ---- */

static void training_show(struct training *t, struct qring_progress *p,
                          const struct qr_named_value *values, size_t n) {
    const char *names[MAX_VALUES];
    double numbers[MAX_VALUES];
    for (size_t i = 0; i < n; i++)
        if (qr_metric_is_number(values[i].name)) {
            QR_ASSERT(p->n_values < MAX_VALUES);
            names[p->n_values] = values[i].name;
            numbers[p->n_values++] = values[i].value;
        }
    p->struct_size = sizeof *p;
    p->names = names;
    p->values = numbers;
    /* A change by the callback stays after qring_train. */
    qr_number_env_leave(&t->caller);
    int cancel = t->opt.progress(t->opt.context, p);
    qr_number_env_enter(&t->caller);
    if (cancel) qr_group_interrupt(t->group);
}

static void training_step(void *ctx, uint64_t epoch, uint64_t epochs, uint64_t batch,
                          uint64_t n_batches, const struct qr_named_value *running, size_t n) {
    struct qring_progress p = {.event = QRING_STEP,
                               .epoch = epoch,
                               .epochs = epochs,
                               .batch = batch,
                               .batches = n_batches};
    training_show(ctx, &p, running, n);
}

static void training_epoch(void *ctx, uint64_t epoch, uint64_t epochs, uint64_t n_batches,
                           double seconds, const struct qr_named_value *values, size_t n) {
    struct qring_progress p = {.event = QRING_EPOCH,
                               .epoch = epoch,
                               .epochs = epochs,
                               .batch = n_batches,
                               .batches = n_batches};
    (void)seconds;
    training_show(ctx, &p, values, n);
}

/* ---- data ---- */

static enum qr_code read_arrays(const struct training *t, struct qr_tensors *ret,
                                struct qr_err *err) {
    struct qring_data d = {0};
    const struct qr_data_options *o = &t->job->data;
    QR_TRY(qr_api_struct(t->opt.data, "data", &d, sizeof d, err));
    if (o->source != QR_DATA_NPZ && o->source != QR_DATA_CSV)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "cannot train on arrays: the job's data.source has no file that they could "
                       "replace; set it to npz");
    if (!d.sample_weight != !o->sample_weight)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "cannot train on the arrays: sample_weight is %s, but data.sample_weight of "
                       "the job is %s; give both or none",
                       d.sample_weight ? "given" : "NULL", o->sample_weight ? "set" : "missing");
    QR_TRY(qr_api_tensor(d.x, "x", d.n_samples, d.n_inputs, ret, err));
    if (d.y || d.n_labels) QR_TRY(qr_api_tensor(d.y, "y", d.n_samples, d.n_labels, ret, err));
    if (!d.sample_weight) return QR_OK;
    return qr_api_tensor(d.sample_weight, o->sample_weight, d.n_samples, 1, ret, err);
}

static enum qr_code training_load(struct training *t, struct qr_err *err) {
    qr_auto(qr_tensors_free) struct qr_tensors arrays = {0};
    if (t->opt.data) {
        QR_TRY(read_arrays(t, &arrays, err));
        t->job->data.arrays = &arrays;
    }
    enum qr_code code = qr_workload_load(t->job, t->opt.isa, t->opt.threads, &t->load, err);
    t->job->data.arrays = NULL;
    if (code == QR_OK) code = qr_workload_check_training(&t->load, err);
    return code;
}

static enum qr_code training_initial(struct training *t, struct qr_err *err) {
    if (!t->opt.initial) return QR_OK;
    if (t->job->train.initial_weights)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "cannot train: both the options and train.initial_weights give initial "
                       "weights; leave out one of them");
    return qr_api_weights_take(t->opt.initial, t->load.model, t->load.initial, err);
}

/* ---- training ---- */

static void result_add(struct qring_result *r, const char *name, double value) {
    if (!qr_metric_is_number(name)) return;
    QR_ASSERT(r->n < MAX_VALUES);
    r->names[r->n] = qr_xstrdup(name);
    r->values[r->n++] = value;
}

static struct qring_result *result_new(const struct training *t, const struct qr_train_result *of) {
    const struct qr_data_names names = qr_dataset_data_names(&t->load.data);
    struct qring_result *r = qr_xcalloc(1, sizeof *r);
    r->steps = of->steps;
    r->epochs = of->epochs;
    memcpy(r->digest, of->state_digest, sizeof r->digest);
    result_add(r, "loss", of->loss);
    if (of->has_val) result_add(r, "val_loss", of->val_loss);
    for (size_t i = 0; i < of->n_metrics; i++)
        result_add(r, of->metrics[i].name, of->metrics[i].value);
    r->weights = qr_api_weights(t->load.model, &names);
    memcpy(r->weights->values, of->params, r->weights->n_values * sizeof *of->params);
    return r;
}

static enum qr_code training_run(struct training *t, struct qring_result **ret,
                                 struct qr_err *err) {
    qr_auto(qr_train_result_fini) struct qr_train_result result = {0};
    QR_TRY(training_load(t, err));
    QR_TRY(training_initial(t, err));
    qr_job_canonical(t->job, &t->load.data,
                     t->load.initial_from_file ? t->load.initial_digest : NULL, &t->canonical);
    const struct qr_group_options group = {.run = t->job->name, .clock = &qr_clock_monotonic};
    t->group = qr_group_solo(&group);
    t->pool = qr_pool_new(t->opt.threads);
    const struct qr_train_options opt = {
        .job = t->job,
        .canonical = &t->canonical,
        .data = &t->load.data,
        .model = t->load.model,
        .initial = t->load.initial,
        .epochs = t->opt.epochs,
        .group = t->group,
        .pool = t->pool,
        .clock = &qr_clock_monotonic,
        .observer = {.ctx = t,
                     .progress = t->opt.progress ? training_step : NULL,
                     .epoch = t->opt.progress ? training_epoch : NULL},
    };
    job_set_group(t->of, t->group);
    enum qr_code code = qr_train_run(&opt, &result, err);
    if (code == QR_OK) *ret = result_new(t, &result);
    if (code == QR_CANCELLED)
        qr_fail(err, QR_CANCELLED, "cannot complete the training: it was cancelled");
    return code;
}

static void training_fini(struct training *t) {
    job_set_group(t->of, NULL);
    qr_group_close(t->group);
    qr_pool_free(t->pool);
    qr_job_canonical_fini(&t->canonical);
    qr_workload_fini(&t->load);
}

static enum qr_code training_options(struct training *t, const struct qring_train_options *from,
                                     struct qr_err *err) {
    QR_TRY(qr_api_struct(from, "train_options", &t->opt, sizeof t->opt, err));
    if (!t->opt.isa) t->opt.isa = "auto";
    t->opt.threads = qr_api_threads(t->opt.threads);
    return QR_OK;
}

enum qring_code qring_train(struct qring_job *j, const struct qring_train_options *options,
                            struct qring_result **ret, struct qring_error *ret_err) {
    struct qr_err err = {0};
    struct training t = {.of = j, .job = j->job};
    *ret = NULL;
    enum qr_code code = qr_api_begin(&j->busy, "job", &t.caller, &err);
    if (code != QR_OK) return qr_api_report(ret_err, code, &err);
    code = training_options(&t, options, &err);
    if (code == QR_OK) code = training_run(&t, ret, &err);
    training_fini(&t);
    qr_api_end(&j->busy, &t.caller);
    return qr_api_report(ret_err, code, &err);
}

/* ---- results ---- */

void qring_result_free(struct qring_result *r) {
    if (!r) return;
    for (size_t i = 0; i < r->n; i++) free(r->names[i]);
    qring_weights_free(r->weights);
    free(r);
}

size_t qring_result_steps(const struct qring_result *r) { return r->steps; }
size_t qring_result_epochs(const struct qring_result *r) { return r->epochs; }
const char *qring_result_digest(const struct qring_result *r) { return r->digest; }
size_t qring_result_count(const struct qring_result *r) { return r->n; }
struct qring_weights *qring_result_weights(struct qring_result *r) {
    return r->weights;
}

const char *qring_result_name(const struct qring_result *r, size_t i) {
    return i < r->n ? r->names[i] : NULL;
}

double qring_result_value(const struct qring_result *r, size_t i) {
    return i < r->n ? r->values[i] : 0;
}
