#include "train/train.h"

#include <string.h>

#include "base/counter.h"
#include "base/mem.h"
#include "train/state.h"
#include "train/step.h"

struct run {
    const struct qr_train_options *opt;
    const struct qr_job *job;
    uint64_t epochs;
    struct qr_state state;
    struct qr_stepper *stepper;
    struct qr_order order;
    struct qr_buf digest_scratch;
    uint8_t digest[16];              /* of the present state */
    qr_fixed *sum;                   /* of the last reduction */
    double *gradient, *mean_gradient; /* clipped by the optimizer; as it came */
    size_t n_tensors, *tensor_sizes;
    size_t n_values;                 /* 1 + metrics */
    struct qr_named_value values[16], val_values[16], epoch_values[32]; /* loss, metrics */
    struct qr_step_line pending;     /* applied, not yet stable */
    struct qr_named_value pending_metrics[16];
    uint64_t pending_readouts[QR_READOUT_BUCKETS];
    bool has_pending, pending_ends_epoch, has_val, said_schedule;
};

static bool leads(const struct run *r) { return r->opt->view.rank == 0; }

static void note_state(struct run *r) {
    qr_state_digest(&r->state, &r->digest_scratch, r->digest);
    qr_group_progress(r->opt->group, r->state.pass, r->digest);
}

/* The state that the last reduction was based on is stable now: what led to it may be told. Nothing has been applied since, so weights,
 * gradient and running means are still those of that state. */
static enum qr_code tell_pending(struct run *r, struct qr_err *err) {
    if (!r->has_pending) return QR_OK;
    r->has_pending = false;
    if (r->pending.eval) {
        qr_gauge_real(QR_VAL_LOSS, r->pending.loss);
    } else {
        qr_gauge(QR_STEP, (int64_t)r->pending.step);
        qr_gauge(QR_EPOCH, (int64_t)r->pending.epoch);
        qr_gauge_real(QR_LOSS, r->pending.loss);
    }
    const struct qr_train_observer *o = &r->opt->observer;
    if (!o->step) return QR_OK;
    const struct qr_step_detail detail = {
        .weights = r->state.weights, .gradient = r->pending.eval ? NULL : r->mean_gradient, .ends_epoch = r->pending_ends_epoch,
        .readouts = qr_model_n_readouts(r->opt->model) ? r->pending_readouts : NULL, .readout_bound = qr_model_readout_bound(r->opt->model),
        .learning_rate = qr_learning_rate_at(&r->job->train.optimizer, r->state.step), .running = r->values, .n_running = r->n_values,
    };
    return o->step(o->ctx, leads(r), &r->pending, &detail, err);
}

static void set_pending(struct run *r, bool eval, bool ends_epoch, uint64_t samples, const struct qr_named_value *values) {
    r->pending_ends_epoch = ends_epoch;
    r->pending = (struct qr_step_line){.step = r->state.step, .epoch = r->state.epoch + 1, .eval = eval,
                                       .samples = samples, .loss = values[0].value,
                                       .metrics = r->pending_metrics, .n_metrics = r->n_values - 1};
    for (size_t i = 1; i < r->n_values; i++)
        r->pending_metrics[i - 1] = (struct qr_named_value){r->values[i].name, values[i].value};
    qr_stepper_readouts(r->sum, r->pending_readouts);
    r->has_pending = true;
}

static void say_schedule(struct run *r, size_t n) {
    if (r->said_schedule || r->opt->view.n_members < 2) return;
    r->said_schedule = true;
    qr_info(r->opt->log, "train", "all-reduce: %s over %u workers, %zu integers (%zu bytes) a step",
            qr_group_schedule_name(r->opt->group, n), r->opt->view.n_members, n, n * QR_FIXED_BYTES);
}

/* One reduction: compute our blocks, sum over the group, refuse bad blocks. r->sum has the result. */
static enum qr_code reduce(struct run *r, struct qr_step_work *w, struct qr_err *err) {
    const qr_fixed *vector;
    struct qr_contribution c;
    memcpy(w->key.job_hash, r->opt->canonical->hash, sizeof w->key.job_hash);
    memcpy(w->key.base_digest, r->digest, sizeof w->key.base_digest);
    w->key.step = r->state.pass;
    w->key.kind = w->kind;
    qr_stepper_compute(r->stepper, w, &vector, &c.coverage);
    c.key = w->key;
    c.n_blocks = qr_stepper_blocks(r->stepper, w);
    c.vector = vector;
    c.n = qr_stepper_vector_length(r->stepper, w->kind);
    say_schedule(r, c.n);
    int64_t began_ns = qr_now_ns(r->opt->clock);
    enum qr_code code = qr_group_reduce(r->opt->group, &c, r->sum, err);
    qr_count_time(QR_REDUCE_TIME, qr_now_ns(r->opt->clock) - began_ns);
    if (code != QR_OK) return code;
    if (tell_pending(r, err) != QR_OK) return err->code;
    uint64_t bad = qr_fixed_to_count(r->sum[QR_VECTOR_BAD]);
    if (bad == 0) return QR_OK;
    return qr_stepper_blame(r->stepper, w, r->state.step + 1, bad, qr_fixed_to_count(r->sum[QR_VECTOR_BAD_IDS]), err);
}

static void means(const struct run *r, uint64_t samples, struct qr_named_value *ret) {
    for (size_t i = 0; i < r->n_values; i++)
        ret[i].value = qr_model_mean(r->opt->model, i, r->sum + QR_VECTOR_SUMS, samples);
}

/* Keras' running means: sums since the epoch began over samples since then. */
static void running_means(const struct run *r, struct qr_named_value *ret) {
    double samples = r->state.sums[r->n_values];
    for (size_t i = 0; i < r->n_values; i++) ret[i].value = samples > 0 ? r->state.sums[i] / samples : 0;
}

/* An epoch's sums stay until the next one's first update, so that the state has one digest between two reductions. */
static void apply(struct run *r, bool first_of_epoch, uint64_t samples) {
    struct qr_state *s = &r->state;
    int64_t began_ns = qr_now_ns(r->opt->clock);
    if (first_of_epoch) memset(s->sums, 0, (s->n_sums + 1) * sizeof *s->sums);
    const qr_fixed *grad = r->sum + QR_VECTOR_SUMS + r->n_values;
    for (size_t i = 0; i < s->n_params; i++) r->gradient[i] = qr_fixed_to_double(grad[i]) / (double)samples;
    memcpy(r->mean_gradient, r->gradient, s->n_params * sizeof *r->gradient);
    qr_optimizer_apply(&r->job->train.optimizer, s->step, s->n_params, r->tensor_sizes, r->n_tensors, r->gradient,
                       s->weights, s->moments, s->products);
    for (size_t i = 0; i < r->n_values; i++) s->sums[i] += qr_fixed_to_double(r->sum[QR_VECTOR_SUMS + i]);
    s->sums[r->n_values] += (double)samples;
    s->step++;
    s->pass++;
    qr_stepper_prepare(r->stepper, s->weights);
    qr_count(QR_STEPS, 1);
    qr_count_time(QR_UPDATE_TIME, qr_now_ns(r->opt->clock) - began_ns);
}

static enum qr_code train_batch(struct run *r, size_t batch, size_t n_batches, struct qr_err *err) {
    struct qr_step_work w = {.kind = QR_STEP_TRAIN, .sample = r->order.index,
                             .range = qr_batch_at(r->opt->data->n_train, r->job->train.batch_size, batch)};
    if (reduce(r, &w, err) != QR_OK) return err->code;
    uint64_t samples = qr_fixed_to_count(r->sum[QR_VECTOR_SAMPLES]);
    QR_ASSERT(samples == w.range.end - w.range.begin);
    struct qr_named_value now[16];
    memcpy(now, r->values, sizeof now);
    means(r, samples, now);
    apply(r, batch == 0, samples);
    note_state(r);
    set_pending(r, false, batch + 1 == n_batches && !r->has_val, samples, now);
    running_means(r, r->values);
    const struct qr_train_observer *o = &r->opt->observer;
    if (o->progress) o->progress(o->ctx, r->state.epoch + 1, r->epochs, batch + 1, n_batches, r->values, r->n_values);
    return QR_OK;
}

static double monitored(const struct run *r) {
    for (size_t i = 0; i < r->n_values; i++)
        if (strcmp(r->val_values[i].name, r->job->train.early_stopping.monitor) == 0) return r->val_values[i].value;
    return r->val_values[0].value;
}

static enum qr_code validate(struct run *r, struct qr_err *err) {
    const struct qr_dataset *d = r->opt->data;
    struct qr_step_work w = {.kind = QR_STEP_EVAL, .range = {d->n_train, d->n_samples}};
    if (reduce(r, &w, err) != QR_OK) return err->code;
    uint64_t samples = qr_fixed_to_count(r->sum[QR_VECTOR_SAMPLES]);
    QR_ASSERT(samples == d->n_samples - d->n_train);
    means(r, samples, r->val_values);
    set_pending(r, true, true, samples, r->val_values);
    r->state.pass++;
    return QR_OK;
}

static enum qr_code run_epoch(struct run *r, struct qr_err *err) {
    const struct qr_train_observer *o = &r->opt->observer;
    int64_t start = qr_now_ns(r->opt->clock);
    size_t n_batches = qr_batch_count(r->opt->data->n_train, r->job->train.batch_size);
    qr_order_fill(&r->order, r->job->seed, r->state.epoch, r->job->train.shuffle);
    for (size_t b = 0; b < n_batches; b++)
        if (train_batch(r, b, n_batches, err) != QR_OK) return err->code;
    if (r->has_val && validate(r, err) != QR_OK) return err->code;
    r->state.epoch++;
    if (r->has_val) qr_state_monitor(&r->state, &r->job->train.early_stopping, monitored(r));
    note_state(r);
    memcpy(r->epoch_values, r->values, r->n_values * sizeof *r->values);
    memcpy(r->epoch_values + r->n_values, r->val_values, r->n_values * sizeof *r->values);
    double seconds = (double)(qr_now_ns(r->opt->clock) - start) / (double)QR_SECOND;
    if (o->epoch)
        o->epoch(o->ctx, r->state.epoch, r->epochs, n_batches, seconds, r->epoch_values, r->n_values * (r->has_val ? 2 : 1));
    return QR_OK;
}

/* The empty closing reduction: when it has passed, everybody had the final state, and it may be published. */
static enum qr_code close_run(struct run *r, struct qr_err *err) {
    const qr_fixed nothing = 0;
    struct qr_contribution c = {.vector = &nothing, .n = 1, .n_blocks = 0};
    memcpy(c.key.job_hash, r->opt->canonical->hash, sizeof c.key.job_hash);
    memcpy(c.key.base_digest, r->digest, sizeof c.key.base_digest);
    c.key.step = r->state.pass;
    c.key.kind = QR_STEP_CLOSE;
    if (qr_group_reduce(r->opt->group, &c, r->sum, err) != QR_OK) return err->code;
    return tell_pending(r, err);
}

/* As qr_metric_names. */
static const char *const val_metric_names[] = {"val_accuracy", "val_binary_accuracy", "val_mse", "val_mae"};

static void name_values(struct run *r) {
    r->n_values = qr_model_n_sums(r->opt->model);
    QR_ASSERT(r->n_values <= 9);
    r->values[0].name = "loss";
    for (size_t i = 1; i < r->n_values; i++) r->values[i].name = qr_metric_names[r->job->train.metrics[i - 1]];
    r->val_values[0].name = "val_loss";
    for (size_t i = 1; i < r->n_values; i++) r->val_values[i].name = val_metric_names[r->job->train.metrics[i - 1]];
}

static enum qr_code run_init(struct run *r, const struct qr_train_options *opt, struct qr_err *err) {
    *r = (struct run){.opt = opt, .job = opt->job, .epochs = opt->epochs ? opt->epochs : opt->job->train.epochs};
    const struct qr_model *m = opt->model;
    r->has_val = opt->data->n_samples > opt->data->n_train;
    if (r->job->train.early_stopping.on && !r->has_val)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "train.early_stopping watches %s, but there is no validation data; give data.train_fraction below 1 or "
                       "data.validation_url", r->job->train.early_stopping.monitor);
    name_values(r);
    const struct qr_stepper_options so = {.model = m, .data = opt->data, .block_size = r->job->block_size, .rank = opt->view.rank,
                                          .n_members = opt->view.n_members, .pool = opt->pool, .clock = opt->clock};
    if (qr_stepper_new(&so, &r->stepper, err) != QR_OK) return err->code;
    qr_state_init(&r->state, r->job, m);
    if (opt->initial) memcpy(r->state.weights, opt->initial, r->state.n_params * sizeof *r->state.weights);
    else qr_model_init(m, r->job->seed, r->state.weights);
    qr_order_init(&r->order, opt->data->n_train);
    r->sum = qr_xaligned(qr_stepper_vector_length(r->stepper, QR_STEP_TRAIN) * sizeof *r->sum);
    r->gradient = qr_xaligned(r->state.n_params * sizeof *r->gradient);
    r->mean_gradient = qr_xaligned(r->state.n_params * sizeof *r->mean_gradient);
    r->n_tensors = qr_model_n_tensors(m);
    r->tensor_sizes = qr_xcalloc(r->n_tensors, sizeof *r->tensor_sizes);
    for (size_t i = 0; i < r->n_tensors; i++) r->tensor_sizes[i] = qr_model_tensor(m, i)->n;
    qr_stepper_prepare(r->stepper, r->state.weights);
    qr_gauge(QR_EPOCHS_PLANNED, (int64_t)r->epochs);
    qr_gauge(QR_STEPS_PLANNED, (int64_t)(r->epochs * qr_batch_count(opt->data->n_train, r->job->train.batch_size)));
    note_state(r);
    return QR_OK;
}

static void run_fini(struct run *r) {
    qr_stepper_free(r->stepper);
    qr_state_fini(&r->state);
    qr_order_fini(&r->order);
    qr_buf_free(&r->digest_scratch);
    free(r->sum);
    free(r->gradient);
    free(r->mean_gradient);
    free(r->tensor_sizes);
}

static void fill_result(const struct run *r, struct qr_train_result *ret) {
    const struct qr_state *s = &r->state;
    bool best = r->job->train.early_stopping.on && r->job->train.early_stopping.restore_best && s->stop[QR_STOP_BEST_EPOCH] > 0;
    *ret = (struct qr_train_result){.steps = s->step, .epochs = s->epoch, .loss = r->values[0].value, .has_val = r->has_val,
                                    .val_loss = r->has_val ? r->val_values[0].value : 0,
                                    .stopped_early = s->stop[QR_STOP_STOPPED] > 0};
    for (size_t v = 0; v < (r->has_val ? 2u : 1u); v++)
        for (size_t i = 1; i < r->n_values; i++) ret->metrics[ret->n_metrics++] = v ? r->val_values[i] : r->values[i];
    qr_hex(r->digest, sizeof r->digest, ret->state_digest);
    ret->params = qr_xcalloc(s->n_params, sizeof *ret->params);
    memcpy(ret->params, best ? s->best : s->weights, s->n_params * sizeof *ret->params);
}

enum qr_code qr_train_run(const struct qr_train_options *opt, struct qr_train_result *ret, struct qr_err *err) {
    struct qr_err own;
    if (!err) err = &own;
    struct run *r = qr_xcalloc(1, sizeof *r);
    enum qr_code code = run_init(r, opt, err);
    while (code == QR_OK && r->state.epoch < r->epochs && r->state.stop[QR_STOP_STOPPED] == 0) code = run_epoch(r, err);
    if (code == QR_OK) code = close_run(r, err);
    if (code == QR_OK) fill_result(r, ret);
    run_fini(r);
    free(r);
    return code;
}
