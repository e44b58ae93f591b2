#include "train/train.h"

#include <stdio.h>
#include <string.h>

#include "base/bounds.h"
#include "base/counter.h"
#include "base/mem.h"
#include "train/members.h"
#include "train/state.h"
#include "train/step.h"
#include "train/transfer.h"
#include "train/update.h"

struct train_run {
    const struct qr_train_options *opt;
    const struct qr_job *job;
    uint64_t epochs;  /* the ring's */
    size_t n_batches; /* of an epoch */
    struct qr_group_view view;
    /* spare: the next one until it is applied, then the one before */
    struct qr_state state, spare;
    struct qr_stepper *stepper;
    struct qr_order order;
    uint64_t ordered;    /* the epoch that order is of, + 1 */
    struct qr_buf bytes; /* for states that change hands */
    uint8_t digest[16]; /* of the present state; after an update alone, all 0: nobody compares it */
    qr_fixed *own_sum;
    const qr_fixed *sum; /* of the last reduction: own_sum, or, alone, the stepper's */
    struct qr_update update;
    /* as they came: of the update that led to the state, and to the spare */
    double *gradient, *next_gradient;
    size_t n_values;                                                    /* 1 + metrics */
    struct qr_named_value values[16], val_values[16], epoch_values[32]; /* loss, metrics */
    struct qr_lines lines, fetched_lines;
    struct qr_step_line reported[QR_LINES_KEPT];
    struct qr_named_value reported_metrics[QR_LINES_KEPT][QR_LINE_VALUES];
    bool reported_leading; /* the last line was reported by this process, leading */
    /* of the last line that this process reported, leading: none is reported again, also after a
     * step back */
    uint64_t reported_place;
    int64_t epoch_began_ns;
    unsigned n_joined;
    bool has_val, said_schedule, done;
    uint64_t in_flight[QR_STEPPER_IN_FLIGHT]; /* the control thread's */
};

static bool leads(const struct train_run *r) { return r->view.rank == 0; }

/* ---- what is reported ---- */

static void set_lines(struct train_run *r) {
    for (size_t k = 0; k < r->lines.n; k++) {
        const struct qr_reported *t = &r->lines.line[k];
        r->reported[k] = (struct qr_step_line){.step = t->step,
                                               .epoch = t->epoch,
                                               .eval = t->eval,
                                               .samples = t->samples,
                                               .loss = t->value[0],
                                               .metrics = r->reported_metrics[k],
                                               .n_metrics = r->n_values - 1};
        for (size_t i = 1; i < r->n_values; i++)
            r->reported_metrics[k][i - 1] = (struct qr_named_value){r->values[i].name, t->value[i]};
    }
}

/* Keras' running means: sums since the epoch began over samples since then. */
static void running_means(const struct train_run *r, struct qr_named_value *ret) {
    const struct qr_state *s = &r->state;
    for (size_t i = 0; i < r->n_values; i++)
        ret[i].value = qr_model_running_mean(r->opt->model, i, s->sums, s->sums[s->n_sums]);
}

/* The present state is committed: a reduction that was based on it has passed. What led to it may
 * be reported, once, and by who leads now in any case. */
static enum qr_code report(struct train_run *r, struct qr_err *err) {
    if (r->lines.n == 0 || (!r->lines.waits && (r->reported_leading || !leads(r)))) return QR_OK;
    const struct qr_reported *last = &r->lines.line[r->lines.n - 1];
    uint64_t place = 2 * last->step + last->eval;
    bool again = place <= r->reported_place;
    r->lines.waits = false;
    r->reported_leading = leads(r);
    if (leads(r) && !again) r->reported_place = place;
    if (last->eval) {
        qr_gauge_real(QR_VAL_LOSS, last->value[0]);
    } else {
        qr_gauge(QR_STEP, (int64_t)last->step);
        qr_gauge(QR_EPOCH, (int64_t)last->epoch);
        qr_gauge_real(QR_LOSS, last->value[0]);
    }
    const struct qr_train_observer *o = &r->opt->observer;
    if (!o->step || again) return QR_OK;
    set_lines(r);
    running_means(r, r->values);
    const struct qr_step_detail detail = {
        .weights = r->state.weights,
        .gradient = last->eval ? NULL : r->gradient,
        .ends_epoch = last->ends_epoch,
        .readouts = qr_model_n_readouts(r->opt->model) ? last->readouts : NULL,
        .readout_bound = qr_model_readout_bound(r->opt->model),
        .learning_rate = qr_learning_rate_at(&r->job->train.optimizer, r->state.step),
        .running = r->values,
        .n_running = r->n_values,
        .before = r->reported,
        .n_before = r->lines.n - 1,
    };
    return o->step(o->ctx, leads(r), &r->reported[r->lines.n - 1], &detail, err);
}

/* The log may lack what others should have written. */
static enum qr_code report_again(struct train_run *r, struct qr_err *err) {
    const struct qr_train_observer *o = &r->opt->observer;
    size_t n = r->lines.n - r->lines.waits;
    if (!o->reported || n == 0) return QR_OK;
    set_lines(r);
    return o->reported(o->ctx, leads(r), r->reported, n, err);
}

/* A reduction that was based on the present state has passed. Its line is written before the state
 * is published, which may leave other numbers in its place. */
static enum qr_code note_committed(struct train_run *r, struct qr_err *err) {
    const struct qr_train_observer *o = &r->opt->observer;
    if (report(r, err) != QR_OK) return err->code;
    return o->committed ? o->committed(o->ctx, leads(r), &r->state, err) : QR_OK;
}

static void say_schedule(struct train_run *r, size_t n) {
    if (r->said_schedule || r->view.n_members < 2) return;
    r->said_schedule = true;
    qr_info(r->opt->log, "train", "all-reduce: %s over %u %s, %zu integers (%zu bytes) a step",
            qr_group_schedule_name(r->opt->group, n), r->view.n_members,
            r->view.servers ? "members" : "workers", n, n * QR_FIXED_BYTES);
}

/* ---- what comes next: a function of the state alone ---- */

static size_t batch_of(const struct train_run *r) {
    return (size_t)(r->state.step - r->state.epoch * r->n_batches);
}

/* kind, range, sample, step: of the k-th reduction of an epoch. */
static void work_at(struct train_run *r, uint64_t epoch, size_t k, struct qr_step_work *ret) {
    const struct qr_dataset *d = r->opt->data;
    bool train = k < r->n_batches;
    ret->kind = train ? QR_REDUCTION_TRAIN : QR_REDUCTION_EVAL;
    ret->range = train ? qr_batch_at(d->n_train, r->job->train.batch_size, k)
                       : (struct qr_range){d->n_train, d->n_samples};
    ret->sample = train ? r->order.index : NULL;
    ret->step = epoch * r->n_batches + k;
    if (r->ordered != epoch + 1)
        qr_order_fill(&r->order, r->job->seed, epoch, r->job->train.shuffle);
    r->ordered = epoch + 1;
}

static void next_work(struct train_run *r, struct qr_step_work *ret) {
    const struct qr_state *s = &r->state;
    *ret = (struct qr_step_work){.kind = QR_REDUCTION_CLOSE};
    memcpy(ret->key.job_hash, r->opt->canonical->hash, sizeof ret->key.job_hash);
    memcpy(ret->key.base_digest, r->digest, sizeof ret->key.base_digest);
    if (s->epoch < r->epochs && s->stop[QR_STOP_STOPPED] == 0) {
        work_at(r, s->epoch, batch_of(r), ret);
        if (batch_of(r) == 0) r->epoch_began_ns = qr_now_ns(r->opt->clock);
    }
    ret->key.reductions = s->reductions;
    ret->key.kind = ret->kind;
}

/* ---- one reduction ---- */

/* For the group's control thread. */
static bool finished(void *run, struct qr_group_finished *ret) {
    struct train_run *r = run;
    ret->in_flight = r->in_flight;
    return qr_stepper_finished(r->stepper, &ret->vector, &ret->n, &ret->coverage, r->in_flight,
                               &ret->n_in_flight);
}

static bool take(void *group, uint64_t *ret_micro_batch) {
    return qr_group_take(group, ret_micro_batch);
}

/* Our micro-batches, or what is left of them, then the sum over the group: r->sum. */
static enum qr_code reduce(struct train_run *r, const struct qr_step_work *w, struct qr_err *err) {
    static const qr_fixed nothing;
    struct qr_group *g = r->opt->group;
    /* a closing reduction's */
    struct qr_contribution c = {.key = w->key, .vector = &nothing, .n = 1};
    size_t left = 0;
    bool close = w->kind == QR_REDUCTION_CLOSE;
    if (!close) c.n_micro_batches = qr_stepper_micro_batches(r->stepper, w);
    enum qr_code code = qr_group_open_reduction(g, c.n_micro_batches, &left, err);
    if (code != QR_OK) return code;
    if (!close) {
        c.n = qr_stepper_vector_length(r->stepper, w->kind);
        c.n_by_rank = r->view.n_members;
        qr_group_expect_sums(g, &c);
        while ((code = qr_group_portion(g, qr_stepper_at_once(r->stepper), &left, err)) == QR_OK &&
               left > 0)
            qr_stepper_work(r->stepper, w, left, take, g);
        if (code != QR_OK && code != QR_CANCELLED) return code;
        qr_group_expect(g, qr_stepper_micro_batch_ns(r->stepper));
        qr_stepper_sum(r->stepper, w->kind, &c.vector, &c.coverage);
        say_schedule(r, c.n);
    }
    int64_t began_ns = qr_now_ns(r->opt->clock);
    bool alone = r->view.n_members == 1;
    code = qr_group_reduce(g, &c, alone ? NULL : r->own_sum, err);
    r->sum = alone ? c.vector : r->own_sum;
    qr_count_time(QR_REDUCE_TIME, qr_now_ns(r->opt->clock) - began_ns);
    if (code != QR_OK || close) return code;
    uint64_t bad = qr_fixed_to_count(r->sum[QR_VECTOR_BAD]);
    if (bad == 0) return QR_OK;
    return qr_stepper_blame(r->stepper, w, r->state.step + 1, bad,
                            qr_fixed_to_count(r->sum[QR_VECTOR_BAD_IDS]), err);
}

/* Of the state that the reduction is based on: it enters once, whoever computed what. */
static double penalty(const struct train_run *r) {
    return qr_model_penalty(r->opt->model, r->state.weights);
}

static void means(const struct train_run *r, uint64_t samples, double *ret) {
    for (size_t i = 0; i < r->n_values; i++)
        ret[i] = qr_model_mean(r->opt->model, i, r->sum + QR_VECTOR_SUMS, samples);
    ret[0] += penalty(r);
}

/* An epoch's sums stay until the next one's first update, so that the state has one digest between
 * two reductions. */
static void update(struct train_run *r, uint64_t samples) {
    qr_update_apply(&r->update, r->sum + QR_VECTOR_SUMS, samples, batch_of(r) == 0, &r->state,
                    &r->spare, r->next_gradient);
}

static double monitored(const struct train_run *r) {
    for (size_t i = 0; i < r->n_values; i++)
        if (strcmp(r->val_values[i].name, r->job->train.early_stopping.monitor) == 0)
            return r->spare.validation[i];
    return r->spare.validation[0];
}

/* The next state, as the spare, with its digest and its line. */
static void update_spare(struct train_run *r, const struct qr_step_work *w, uint8_t digest[16],
                         struct qr_reported *line) {
    struct qr_state *s = &r->spare;
    int64_t began_ns = qr_now_ns(r->opt->clock);
    uint64_t samples = qr_fixed_to_count(r->sum[QR_VECTOR_SAMPLES]);
    bool eval = w->kind == QR_REDUCTION_EVAL,
         ends_epoch = eval || (batch_of(r) + 1 == r->n_batches && !r->has_val);
    QR_ASSERT(samples == w->range.end - w->range.begin);
    if (eval) {
        qr_state_copy(s, &r->state);
        means(r, samples, s->validation);
        qr_confusion_keep(r->opt->model, r->sum + QR_VECTOR_SUMS, s->validation);
    } else {
        update(r, samples);
    }
    *line = (struct qr_reported){.step = s->step,
                                 .epoch = s->epoch + 1,
                                 .samples = samples,
                                 .eval = eval,
                                 .ends_epoch = ends_epoch};
    means(r, eval ? samples : r->update.n_points * samples, line->value);
    qr_stepper_readouts(r->sum, line->readouts);
    if (ends_epoch) s->epoch++;
    if (eval) qr_state_monitor(s, &r->job->train.early_stopping, monitored(r));
    s->reductions++;
    int64_t applied_ns = qr_now_ns(r->opt->clock);
    if (qr_group_compares(r->opt->group)) qr_state_digest(s, digest);
    else memset(digest, 0, sizeof r->digest);
    qr_count_time(QR_DIGEST_TIME, qr_now_ns(r->opt->clock) - applied_ns);
    qr_count_time(QR_UPDATE_TIME, qr_now_ns(r->opt->clock) - began_ns);
}

static void show_values(struct train_run *r) {
    running_means(r, r->values);
    for (size_t i = 0; i < r->n_values; i++) r->val_values[i].value = r->state.validation[i];
}

/* Numbers for what comes next. */
static void prepare(struct train_run *r) {
    qr_update_prepare(&r->update, r->stepper, &r->state, batch_of(r) < r->n_batches);
}

/* The spare is the state from now on. */
static void swap(struct train_run *r, const uint8_t digest[16]) {
    struct qr_state s = r->state;
    double *gradient = r->gradient;
    r->state = r->spare;
    r->spare = s;
    r->gradient = r->next_gradient;
    r->next_gradient = gradient;
    memcpy(r->digest, digest, sizeof r->digest);
    qr_stepper_clear(r->stepper);
    prepare(r);
    show_values(r);
}

static void show(struct train_run *r, const struct qr_reported *line) {
    const struct qr_train_observer *o = &r->opt->observer;
    if (!line->eval) {
        uint64_t batch = line->step - (line->epoch - 1) * r->n_batches;
        qr_count(QR_STEPS, 1);
        if (o->progress)
            o->progress(o->ctx, line->epoch, r->epochs, batch, r->n_batches, r->values,
                        r->n_values);
    }
    if (!line->ends_epoch || !o->epoch) return;
    memcpy(r->epoch_values, r->values, r->n_values * sizeof *r->values);
    memcpy(r->epoch_values + r->n_values, r->val_values, r->n_values * sizeof *r->values);
    double seconds = (double)(qr_now_ns(r->opt->clock) - r->epoch_began_ns) / (double)QR_SECOND;
    o->epoch(o->ctx, line->epoch, r->epochs, r->n_batches, seconds, r->epoch_values,
             r->n_values * (r->has_val ? 2 : 1));
}

static void weigh(struct train_run *r, const struct qr_step_work *w) {
    const qr_fixed *took =
        r->sum + qr_stepper_vector_length(r->stepper, w->kind) - r->view.n_members;
    uint64_t ns[QR_MAX_MEMBERS];
    for (uint32_t k = 0; k < r->view.n_members; k++) ns[k] = qr_fixed_to_count(took[k]);
    qr_group_weigh(r->opt->group, qr_stepper_micro_batches(r->stepper, w), ns);
}

/* The reduction has passed: the next state is this member's if its generation still stands. */
static enum qr_code apply(struct train_run *r, const struct qr_step_work *w, struct qr_err *err) {
    struct qr_reported line;
    uint8_t digest[16];
    update_spare(r, w, digest, &line);
    enum qr_code code = qr_group_apply(r->opt->group, r->spare.reductions, digest, err);
    if (code == QR_OK && w->kind == QR_REDUCTION_TRAIN) weigh(r, w);
    if (code == QR_OK) code = note_committed(r, err);
    if (code != QR_OK) return code;
    swap(r, digest);
    qr_lines_add(&r->lines, &line);
    r->lines.waits = true;
    show(r, &line);
    return QR_OK;
}

/* ---- generations ---- */

static enum qr_code fetch(struct train_run *r, const struct qr_group_start *start,
                          struct qr_err *err) {
    qr_buf_clear(&r->bytes);
    enum qr_code code = qr_group_fetch(r->opt->group, &r->bytes, err);
    if (code == QR_OK)
        code =
            qr_transfer_decode(qr_buf_view(&r->bytes), start->base_reductions, start->base_digest,
                               &r->spare, r->next_gradient, &r->fetched_lines, err);
    if (code == QR_OK)
        code = qr_group_apply(r->opt->group, start->base_reductions, start->base_digest, err);
    if (code != QR_OK) return code;
    swap(r, start->base_digest);
    r->lines = r->fetched_lines;
    r->reported_leading = false;
    r->epoch_began_ns = qr_now_ns(r->opt->clock);
    qr_info(r->opt->log, "train", "took over the state of step %llu from the group",
            (unsigned long long)r->state.step);
    return QR_OK;
}

/* As it is before anything has been computed here: the job's first state, or that of the checkpoint
 * that this process began from. */
static void begin_state(const struct train_run *r, struct qr_state *s) {
    const struct qr_train_options *opt = r->opt;
    qr_state_fini(s);
    qr_state_init(s, r->job, opt->model);
    if (opt->resume) qr_state_copy(s, opt->resume);
    else if (opt->initial) memcpy(s->weights, opt->initial, s->n_params * sizeof *s->weights);
    else qr_model_init(opt->model, r->job->seed, s->weights);
}

/* The spare is a checkpoint's: the next generation goes on from it. */
static enum qr_code go_from_spare(struct train_run *r, const char *goes, const char *where,
                                  struct qr_err *err) {
    uint8_t digest[16];
    qr_state_digest(&r->spare, digest);
    enum qr_code code = qr_group_reloaded(r->opt->group, r->spare.reductions, digest, err);
    if (code != QR_ABORTED) return code;
    swap(r, digest);
    r->lines = (struct qr_lines){0};
    qr_warn(r->opt->log, "train", "goes %s step %llu (%s)", goes, (unsigned long long)r->state.step,
            where);
    return code;
}

/* The members' states differ, and who is right is not known: back to what is known to be. */
static enum qr_code reload(struct train_run *r, struct qr_err *err) {
    const struct qr_train_options *o = r->opt;
    bool found = false;
    enum qr_code code = o->reload ? o->reload(o->reload_ctx, &r->spare, &found, err) : QR_OK;
    if (code != QR_OK) return qr_wrap(err, "go back to the last checkpoint");
    if (!found) begin_state(r, &r->spare);
    return go_from_spare(r, "back to",
                         found ? "the last checkpoint" : "there is no newer checkpoint", err);
}

enum { ENDED_WITHIN_S = 60 };

/* Rule 7: these have just started, some time ago; have others trained on? r->done: to the end. */
static enum qr_code look(struct train_run *r, struct qr_err *err) {
    const struct qr_train_options *o = r->opt;
    bool found = false;
    struct qr_err why;
    if (o->anew) return o->anew(o->reload_ctx, err);
    if (!leads(r) || !o->reload || !o->ended) return QR_OK;
    if (o->reload(o->reload_ctx, &r->spare, &found, &why) != QR_OK) {
        qr_warn(o->log, "train", "whether others have trained on is not known: %s", why.msg);
        return QR_OK;
    }
    if (found && o->ended(o->reload_ctx)) {
        r->done = true;
        return qr_group_done(o->group, NULL, ENDED_WITHIN_S * QR_SECOND, err);
    }
    if (!found || r->spare.reductions <= r->state.reductions) return QR_OK;
    return go_from_spare(r, "on from", "others have trained on since this worker started", err);
}

static enum qr_code give(struct train_run *r, struct qr_err *err) {
    qr_buf_clear(&r->bytes);
    qr_transfer_encode(&r->state, r->gradient, &r->lines, &r->bytes);
    return qr_group_give(r->opt->group, qr_buf_view(&r->bytes), err);
}

static void say_members(struct train_run *r, int64_t took_ns) {
    char who[900];
    qr_members_text(&r->view, who, sizeof who);
    if (r->n_joined > 1)
        qr_info(r->opt->log, "train", "goes on after step %llu with %s; the change took %.2f s",
                (unsigned long long)r->state.step, who, (double)took_ns / 1e9);
}

/* The first leader's number counts for all. */
static void plan(struct train_run *r, uint64_t epochs) {
    r->epochs = epochs;
    qr_gauge(QR_EPOCHS_PLANNED, (int64_t)epochs);
    qr_gauge(QR_STEPS_PLANNED, (int64_t)(epochs * r->n_batches));
}

/* A parameter server without workers: they may have gone on without it, and ended. */
static bool ended_elsewhere(struct train_run *r) {
    const struct qr_train_options *o = r->opt;
    bool found = false;
    struct qr_err why;
    if (!o->reload || !o->ended) return false;
    if (o->reload(o->reload_ctx, &r->spare, &found, &why) == QR_OK)
        return found && o->ended(o->reload_ctx);
    qr_warn(o->log, "train", "whether others have ended the run is not known: %s", why.msg);
    return false;
}

/* Until this member works in a generation and has its base, or the others have ended the
 * run (r->done). */
static enum qr_code join(struct train_run *r, struct qr_err *err) {
    const struct qr_train_observer *o = &r->opt->observer;
    int64_t began_ns = qr_now_ns(r->opt->clock);
    enum qr_code code;
    do {
        struct qr_group_start start;
        if ((code = qr_group_join(r->opt->group, &start, err)) != QR_OK) return code;
        r->done = start.done || (start.waits && ended_elsewhere(r));
        if (r->done) return QR_OK;
        if (start.waits) {
            code = QR_ABORTED;
            continue;
        }
        r->view = start.view;
        plan(r, start.epochs);
        r->n_joined++;
        qr_stepper_seat(r->stepper, r->view.rank, r->view.n_members);
        if (!start.keep) qr_stepper_clear(r->stepper);
        if (start.n_more) qr_stepper_add(r->stepper, start.more, start.n_more, start.more_coverage);
        if (start.first && ((code = look(r, err)) != QR_OK || r->done)) continue;
        if (o->joined && !start.reload &&
            (code = o->joined(o->ctx, &r->view, r->epochs,
                              start.whole && start.base_reductions == 0, err)) != QR_OK)
            return code;
        if (start.reload) code = reload(r, err);
        else if (start.fetch) code = fetch(r, &start, err);
        else if (start.give) code = give(r, err);
    } while (code == QR_ABORTED);
    /* of an epoch that began in an earlier process, its rest */
    if (!r->epoch_began_ns) r->epoch_began_ns = qr_now_ns(r->opt->clock);
    if (code == QR_OK && !r->done && leads(r) && !r->reported_leading) code = report_again(r, err);
    if (code == QR_OK && !r->done) say_members(r, qr_now_ns(r->opt->clock) - began_ns);
    return code;
}

static void name_values(struct train_run *r) {
    r->n_values = qr_model_n_values(r->opt->model);
    QR_ASSERT(r->n_values <= 9);
    for (size_t i = 0; i < r->n_values; i++) {
        r->values[i].name = qr_model_value_name(r->opt->model, i, false);
        r->val_values[i].name = qr_model_value_name(r->opt->model, i, true);
    }
}

static enum qr_code run_init(struct train_run *r, const struct qr_train_options *opt,
                             struct qr_err *err) {
    *r = (struct train_run){.opt = opt, .job = opt->job};
    const struct qr_model *m = opt->model;
    r->has_val = opt->data->n_samples > opt->data->n_train;
    if (r->job->train.early_stopping.on && !r->has_val)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "train.early_stopping watches %s, but there is no validation data; give "
                       "data.train_fraction below 1 or "
                       "data.validation_url",
                       r->job->train.early_stopping.monitor);
    name_values(r);
    qr_update_init(&r->update, r->job, m, opt->pool);
    const struct qr_stepper_options so = {.model = m,
                                          .data = opt->data,
                                          .micro_batch_size = r->job->micro_batch_size,
                                          .seed = r->job->seed,
                                          .n_points = r->update.n_points,
                                          .idle = opt->server,
                                          .rank = 0,
                                          .n_members = 1,
                                          .pool = opt->pool,
                                          .clock = opt->clock};
    if (qr_stepper_new(&so, &r->stepper, err) != QR_OK) return err->code;
    begin_state(r, &r->state);
    qr_order_init(&r->order, opt->data->n_train);
    qr_state_init(&r->spare, r->job, m);
    qr_stepper_seat(r->stepper, 0, QR_MAX_MEMBERS);
    r->own_sum =
        qr_xaligned(qr_stepper_vector_length(r->stepper, QR_REDUCTION_TRAIN) * sizeof *r->own_sum);
    r->gradient = qr_xaligned(r->state.n_params * sizeof *r->gradient);
    r->next_gradient = qr_xaligned(r->state.n_params * sizeof *r->next_gradient);
    r->n_batches = qr_batch_count(opt->data->n_train, r->job->train.batch_size);
    prepare(r);
    show_values(r);
    plan(r, opt->epochs ? opt->epochs : opt->job->train.epochs);
    qr_group_plan(opt->group, r->epochs, r->n_batches + r->has_val);
    qr_state_digest(&r->state, r->digest);
    size_t batch = qr_micro_batch_count(
        qr_batch_at(opt->data->n_train, r->job->train.batch_size, 0), r->job->micro_batch_size);
    size_t validation = qr_micro_batch_count(
        (struct qr_range){opt->data->n_train, opt->data->n_samples}, r->job->micro_batch_size);
    qr_group_tell_finished(opt->group, finished, r);
    return qr_group_ready(opt->group, r->state.reductions, r->digest,
                          batch > validation ? batch : validation, err);
}

/* What a stream goes on reading stays until the process ends; it is held here, so that whoever
 * looks for leaks finds it. */
static struct train_run *volatile still_read;

static void run_free(struct train_run *r) {
    qr_group_tell_finished(r->opt->group, NULL, NULL);
    if (qr_group_is_read(r->opt->group)) {
        still_read = r;
        return;
    }
    qr_stepper_free(r->stepper);
    qr_state_fini(&r->state);
    qr_state_fini(&r->spare);
    qr_order_fini(&r->order);
    qr_buf_free(&r->bytes);
    free(r->own_sum);
    qr_update_fini(&r->update);
    free(r->gradient);
    free(r->next_gradient);
    free(r);
}

void qr_train_result_fini(struct qr_train_result *r) {
    free(r->params);
    qr_confusion_fini(&r->confusion);
    *r = (struct qr_train_result){0};
}

static void fill_result(const struct train_run *r, struct qr_train_result *ret) {
    const struct qr_state *s = &r->state;
    bool best = r->job->train.early_stopping.on && r->job->train.early_stopping.restore_best &&
                s->stop[QR_STOP_BEST_EPOCH] > 0;
    *ret = (struct qr_train_result){.steps = s->step,
                                    .epochs = s->epoch,
                                    .loss = r->values[0].value,
                                    .has_val = r->has_val,
                                    .val_loss = r->has_val ? r->val_values[0].value : 0,
                                    .stopped_early = s->stop[QR_STOP_STOPPED] > 0,
                                    .ended =
                                        qr_optimizer_ended(&r->job->train.optimizer, s->products)};
    for (size_t v = 0; v < (r->has_val ? 2u : 1u); v++)
        for (size_t i = 1; i < r->n_values; i++)
            ret->metrics[ret->n_metrics++] = v ? r->val_values[i] : r->values[i];
    ret->confusion = qr_confusion_of(r->opt->model, s, r->has_val);
    uint8_t digest[sizeof r->digest];
    qr_state_digest(s, digest);
    qr_hex(digest, sizeof digest, ret->state_digest);
    ret->params = qr_xcalloc(s->n_params, sizeof *ret->params);
    const double *last =
        qr_optimizer_result(&r->job->train.optimizer, s->step, s->n_params, s->weights, s->moments);
    memcpy(ret->params, best ? s->best : last, s->n_params * sizeof *ret->params);
}

/* The empty closing reduction has passed: everybody had the final state, and it may
 * be published. */
static enum qr_code finish(struct train_run *r, struct qr_train_result *ret, struct qr_err *err) {
    const struct qr_train_options *o = r->opt;
    qr_state_copy(&r->spare, &r->state); /* whose place may be taken */
    enum qr_code code = note_committed(r, err);
    if (code != QR_OK) return code;
    qr_state_exchange(&r->state, &r->spare);
    qr_train_result_fini(ret);
    fill_result(r, ret);
    if (o->finish) code = o->finish(o->finish_ctx, &r->view, ret, err);
    if (code == QR_OK) r->done = true;
    return code;
}

/* Which samples a micro-batch that killed three workers holds: said alike by all, also by who has
 * not that state. */
static void say_poison(struct train_run *r, uint64_t reductions, uint64_t micro_batch,
                       struct qr_err *err) {
    char who[200] = "", why[QR_ERR_MSG_BYTES];
    size_t n = 0, each = r->n_batches + r->has_val, k = (size_t)(reductions % each);
    struct qr_step_work w;
    work_at(r, reductions / each, k, &w);
    uint64_t step =
        reductions / each * r->n_batches + (w.kind == QR_REDUCTION_TRAIN ? k + 1 : r->n_batches);
    struct qr_range at = qr_micro_batch_at(w.range, r->job->micro_batch_size, (size_t)micro_batch);
    for (size_t i = at.begin; i < at.end && n < sizeof who - 16; i++)
        n += (size_t)snprintf(who + n, sizeof who - n, "%s%zu", i > at.begin ? ", " : "",
                              qr_dataset_row(r->opt->data, w.sample ? w.sample[i] : i));
    snprintf(why, sizeof why, "%s", err->msg);
    qr_fail(err, err->code,
            "step %llu: %s; %s samples %s are in it: look at their values, and at the memory that "
            "a worker may use",
            (unsigned long long)step, why, w.kind == QR_REDUCTION_TRAIN ? "training" : "validation",
            who);
}

static enum qr_code one_reduction(struct train_run *r, struct qr_train_result *ret,
                                  struct qr_err *err) {
    struct qr_step_work w;
    next_work(r, &w);
    enum qr_code code = reduce(r, &w, err);
    if (code == QR_OK)
        code = w.kind == QR_REDUCTION_CLOSE ? finish(r, ret, err) : apply(r, &w, err);
    return code == QR_ABORTED ? join(r, err) : code;
}

enum qr_code qr_train_run(const struct qr_train_options *opt, struct qr_train_result *ret,
                          struct qr_err *err) {
    struct qr_err own;
    if (!err) err = &own;
    struct train_run *r = qr_xcalloc(1, sizeof *r);
    struct qr_train_result result = {.by_others = true};
    enum qr_code code = run_init(r, opt, err);
    if (code == QR_OK) code = join(r, err);
    while (code == QR_OK && !r->done) code = one_reduction(r, &result, err);
    uint64_t reductions, micro_batch;
    if (code == QR_DATA_LOSS && qr_group_blames(opt->group, &reductions, &micro_batch))
        say_poison(r, reductions, micro_batch, err);
    struct qr_err ignored;
    /* the others may have published the state that it belongs to */
    if (code == QR_CANCELLED && report(r, &ignored) == QR_OK) report_again(r, &ignored);
    if (code == QR_OK) *ret = result;
    else qr_train_result_fini(&result);
    run_free(r);
    return code;
}
