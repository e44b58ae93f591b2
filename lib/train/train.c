/* train/train.c — the step loop. Start reading at qr_train_run() and one_reduction(). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/bounds.h"
#include "base/counter.h"
#include "base/mem.h"
#include "base/span.h"
#include "train/train_impl.h"

static void log_schedule(struct train_run *r, size_t n) {
    if (r->logged_schedule || r->view.n_members < 2) return;
    r->logged_schedule = true;
    qr_info(r->opt->log, "train", "all-reduce: %s over %u %s, %zu integers (%zu bytes) per step",
            qr_group_schedule_name(r->opt->group, n), r->view.n_members,
            r->view.servers ? "members" : "workers", n, n * QR_FIXED_BYTES);
}

/* ---- the next reduction: a function of the state alone ---- */

/* Sets kind, range, sample and step of the k-th reduction of an epoch. */
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

/* Whether steps are left, regardless of the limit on pod-time. */
static bool has_steps_left(const struct train_run *r) {
    return r->state.epoch < r->epochs && r->state.stop[QR_STOP_STOPPED] == 0;
}

/* The weights that are written when training ends in this state. */
static const double *final_weights(const struct train_run *r) {
    const struct qr_state *s = &r->state;
    if (qr_state_restores_best(s, &r->job->train.early_stopping)) return s->best;
    return qr_optimizer_result(&r->job->train.optimizer, s->step, s->n_params, s->weights,
                               s->moments);
}

/* Whether the closing reduction evaluates weights that no other reduction has: for example an
 * average. */
static bool close_evaluates(const struct train_run *r) {
    return r->has_val && !has_steps_left(r) && final_weights(r) != r->state.weights &&
           final_weights(r) != r->state.best;
}

static void next_work(struct train_run *r, struct qr_step_work *ret) {
    const struct qr_state *s = &r->state;
    *ret = (struct qr_step_work){.kind = QR_REDUCTION_CLOSE};
    if (close_evaluates(r))
        ret->range = (struct qr_range){r->opt->data->n_train, r->opt->data->n_samples};
    memcpy(ret->key.job_hash, r->opt->canonical->hash, sizeof ret->key.job_hash);
    memcpy(ret->key.base_digest, r->digest, sizeof ret->key.base_digest);
    if (has_steps_left(r) && !r->over) {
        work_at(r, s->epoch, train_batch_of(r), ret);
        if (train_batch_of(r) == 0) r->epoch_began_ns = qr_now_ns(r->opt->clock);
    }
    ret->key.reductions = s->reductions;
    ret->key.kind = ret->kind;
}

/* ---- one reduction ---- */

static bool take_micro_batch(void *group, uint64_t *ret_micro_batch) {
    return qr_group_take_micro_batch(group, ret_micro_batch);
}

static void send_pod_time(struct train_run *r) {
    uint64_t ms = qr_pod_time_ms(&r->pod_time, qr_now_ns(r->opt->clock));
    qr_stepper_set_pod_time(r->stepper, ms, r->opt->max_pod_ms && ms >= r->opt->max_pod_ms);
}

/* Computes this member's micro-batches, or those that are left, then reduces over the group:
 * r->sum. */
static enum qr_code run_reduction(struct train_run *r, const struct qr_step_work *w,
                                  struct qr_err *err) {
    static const qr_fixed nothing;
    struct qr_group *g = r->opt->group;
    /* For a closing reduction that evaluates nothing */
    struct qr_contribution c = {.key = w->key, .vector = &nothing, .n = 1};
    size_t left = 0;
    bool votes = w->range.begin == w->range.end;
    if (!votes) c.n_micro_batches = qr_stepper_micro_batches(r->stepper, w);
    QR_TRY(qr_group_open_reduction(g, c.n_micro_batches, &left, err));
    if (!votes) {
        c.n = qr_stepper_vector_length(r->stepper, w->kind);
        c.n_by_rank = r->view.n_members;
        if (left) QR_TRY(qr_stepper_work(r->stepper, w, left, take_micro_batch, g, err));
        qr_group_expect(g, qr_stepper_micro_batch_ns(r->stepper));
        send_pod_time(r);
        qr_stepper_sum(r->stepper, w->kind, &c.vector, &c.coverage);
        log_schedule(r, c.n);
    }
    int64_t began_ns = qr_now_ns(r->opt->clock), span_ns = qr_span_begin();
    bool alone = r->view.n_members == 1;
    enum qr_code code = qr_group_reduce(g, &c, alone ? NULL : r->own_sum, err);
    r->sum = alone ? c.vector : r->own_sum;
    qr_span_end(span_ns, QR_SPAN_REDUCE, NULL, c.n);
    qr_count_time(QR_REDUCE_TIME, qr_now_ns(r->opt->clock) - began_ns);
    if (code != QR_OK || votes) return code;
    uint64_t bad = qr_fixed_to_count(r->sum[QR_VECTOR_BAD]);
    if (bad == 0) return QR_OK;
    return qr_stepper_find_bad_sample(r->stepper, w, r->state.step + 1, bad,
                                      qr_fixed_to_count(r->sum[QR_VECTOR_BAD_IDS]), err);
}

/* weights: those of the sum. Their penalty is added once, after the reduction. */
static void sum_means(const struct train_run *r, const double *weights, uint64_t samples,
                      double *ret) {
    for (size_t i = 0; i < r->n_values; i++)
        ret[i] = qr_model_mean(r->opt->model, i, r->sum + QR_VECTOR_SUMS, samples);
    ret[0] += qr_model_penalty(r->opt->model, weights);
}

/* Stores the evaluation of the sum in the form that a state keeps. */
static void keep_validation(const struct train_run *r, const double *weights, double *ret) {
    sum_means(r, weights, qr_fixed_to_count(r->sum[QR_VECTOR_SAMPLES]), ret);
    qr_confusion_keep(r->opt->model, r->sum + QR_VECTOR_SUMS, ret);
}

/* An epoch's sums stay until the next epoch's first update, so that the state has one digest
 * between two reductions. */
static void apply_update(struct train_run *r, uint64_t samples) {
    qr_update_apply(&r->update, r->sum + QR_VECTOR_SUMS, samples, train_batch_of(r) == 0, &r->state,
                    &r->spare, r->next_gradient);
}

static uint64_t n_validation(const struct train_run *r) {
    return r->has_val ? r->opt->data->n_samples - r->opt->data->n_train : 0;
}

/* Called when the spare ends an epoch. */
static void check_early_stopping(struct train_run *r) {
    const struct qr_early_stopping *e = &r->job->train.early_stopping;
    if (!e->on) return;
    double value = qr_logged_epoch(r->job, r->opt->model, &r->spare, &e->value, n_validation(r));
    qr_state_monitor(&r->spare, e, value);
}

/* Fails on every member alike, since all have the same sum (step.md §7). s: the next state. */
static enum qr_code check_numbers(const struct qr_state *s, double loss, struct qr_err *err) {
    unsigned long long step = s->step;
    bool finite = true;
    for (size_t i = 0; i < s->n_params; i++) finite &= (bool)isfinite(s->weights[i]);
    if (!(fabs(loss) < 0x1p40))
        return qr_fail(err, QR_OUT_OF_RANGE,
                       "step %llu: the loss with the penalties reaches 2^40; lower learning_rate, "
                       "l1 or l2",
                       step);
    if (!finite)
        return qr_fail(err, QR_OUT_OF_RANGE,
                       "step %llu: a new weight is not finite; lower learning_rate", step);
    return QR_OK;
}

/* Computes the next state into the spare, with its digest and its line. */
static enum qr_code update_spare(struct train_run *r, const struct qr_step_work *w,
                                 uint8_t digest[16], struct qr_step_values *line,
                                 struct qr_err *err) {
    struct qr_state *s = &r->spare;
    int64_t began_ns = qr_now_ns(r->opt->clock);
    uint64_t samples = qr_fixed_to_count(r->sum[QR_VECTOR_SAMPLES]);
    bool eval = w->kind == QR_REDUCTION_EVAL,
         ends_epoch = eval || (train_batch_of(r) + 1 == r->n_batches && !r->has_val);
    QR_ASSERT(samples == w->range.end - w->range.begin);
    if (eval) {
        qr_state_copy(s, &r->state);
        keep_validation(r, r->state.weights, s->validation);
    } else {
        apply_update(r, samples);
    }
    *line = (struct qr_step_values){.step = s->step,
                                    .epoch = s->epoch + 1,
                                    .samples = samples,
                                    .eval = eval,
                                    .ends_epoch = ends_epoch};
    sum_means(r, r->state.weights, eval ? samples : r->update.n_points * samples, line->value);
    QR_TRY(check_numbers(s, line->value[0], err));
    qr_stepper_readouts(r->sum, line->readouts);
    qr_logged_add(r->job, r->opt->model, s, r->next_gradient, line);
    if (ends_epoch) s->epoch++;
    if (ends_epoch) check_early_stopping(r);
    s->reductions++;
    int64_t applied_ns = qr_now_ns(r->opt->clock);
    qr_state_digest(s, digest);
    memcpy(line->digest, digest, sizeof line->digest);
    train_chain(r, s, line);
    qr_count_time(QR_DIGEST_TIME, qr_now_ns(r->opt->clock) - applied_ns);
    qr_count_time(QR_UPDATE_TIME, qr_now_ns(r->opt->clock) - began_ns);
    return QR_OK;
}

/* The slots of the ranks in the sum. */
static const qr_fixed *rank_slots(const struct train_run *r, const struct qr_step_work *w) {
    return r->sum + qr_stepper_vector_length(r->stepper, w->kind) - r->view.n_members;
}

static void receive_pod_time(struct train_run *r, const struct qr_step_work *w) {
    const struct qr_pod_time_report report =
        qr_pod_time_decode(rank_slots(r, w), r->view.n_members);
    qr_pod_time_raise(&r->pod_time, report.pod_ms, qr_now_ns(r->opt->clock));
    r->over = report.bound;
}

static void update_shares(struct train_run *r, const struct qr_step_work *w) {
    const qr_fixed *took = rank_slots(r, w);
    uint64_t ns[QR_MAX_MEMBERS];
    for (uint32_t k = 0; k < r->view.n_members; k++) ns[k] = qr_fixed_to_count(took[k]);
    qr_group_set_speeds(r->opt->group, qr_stepper_micro_batches(r->stepper, w), ns);
}

/* The reduction has completed: applies the next state if the generation is still current. */
static enum qr_code apply_reduction(struct train_run *r, const struct qr_step_work *w,
                                    struct qr_err *err) {
    struct qr_step_values line;
    uint8_t digest[16];
    int64_t span_ns = qr_span_begin();
    QR_TRY(update_spare(r, w, digest, &line, err));
    qr_span_end(span_ns, QR_SPAN_UPDATE, NULL, r->spare.step);
    enum qr_code code = qr_group_apply(r->opt->group, r->spare.reductions, digest, err);
    if (code == QR_OK && w->kind == QR_REDUCTION_TRAIN) update_shares(r, w);
    if (code == QR_OK) receive_pod_time(r, w);
    span_ns = qr_span_begin();
    if (code == QR_OK) code = train_note_committed(r, err);
    qr_span_end(span_ns, QR_SPAN_REPORT, NULL, r->state.step);
    if (code != QR_OK) return code;
    train_swap(r, digest);
    qr_lines_add(&r->lines, &line);
    r->lines.waits = true;
    train_show(r, &line);
    return QR_OK;
}

static void name_run_values(struct train_run *r) {
    r->n_values = qr_model_n_values(r->opt->model);
    QR_ASSERT(r->n_values <= 9);
    for (size_t i = 0; i < r->n_values; i++) {
        r->values[i].name = qr_model_value_name(r->opt->model, i, false);
        r->val_values[i].name = qr_model_value_name(r->opt->model, i, true);
    }
    qr_logged_register(r->job, r->opt->model);
}

/* So that no step allocates; a line with longer names grows it once. */
static void reserve_text(struct qr_buf *text) {
    QR_ASSERT(qr_buf_grow(text, 512 + 96 * (size_t)QR_LINE_VALUES) != NULL);
    qr_buf_clear(text);
}

static enum qr_code run_init(struct train_run *r, const struct qr_train_options *opt,
                             struct qr_err *err) {
    *r = (struct train_run){.opt = opt, .job = opt->job};
    const struct qr_model *m = opt->model;
    bool has_samples = opt->data->n_samples > opt->data->n_train;
    r->has_val = has_samples && r->job->train.evaluate;
    if (qr_job_check_validation(r->job, has_samples, err) != QR_OK) return err->code;
    name_run_values(r);
    qr_pod_time_begin(&r->pod_time, opt->pod_ms);
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
    train_begin_state(r, &r->state);
    qr_order_init(&r->order, opt->data->n_train);
    qr_state_init(&r->spare, r->job, m);
    qr_stepper_set_rank(r->stepper, 0, QR_MAX_MEMBERS);
    r->own_sum =
        qr_xaligned(qr_stepper_vector_length(r->stepper, QR_REDUCTION_TRAIN) * sizeof *r->own_sum);
    r->gradient = qr_xaligned(r->state.n_params * sizeof *r->gradient);
    r->next_gradient = qr_xaligned(r->state.n_params * sizeof *r->next_gradient);
    r->n_batches = qr_batch_count(opt->data->n_train, r->job->train.batch_size);
    reserve_text(&r->text);
    reserve_text(&r->next_text);
    train_prepare(r);
    train_show_values(r);
    train_plan(r, opt->epochs ? opt->epochs : opt->job->train.epochs);
    qr_group_plan(opt->group, r->epochs, r->n_batches + r->has_val);
    qr_state_digest(&r->state, r->digest);
    size_t batch = qr_micro_batch_count(
        qr_batch_at(opt->data->n_train, r->job->train.batch_size, 0), r->job->micro_batch_size);
    size_t validation = qr_micro_batch_count(
        (struct qr_range){opt->data->n_train, opt->data->n_samples}, r->job->micro_batch_size);
    return qr_group_ready(opt->group, r->state.reductions, r->digest,
                          batch > validation ? batch : validation, err);
}

/* Streams may still read a run's vectors when it is freed: the run is then kept until the process
 * ends, and referenced here for leak checkers. */
static struct train_run *volatile kept_for_streams;

static void run_free(struct train_run *r) {
    if (qr_group_buffers_in_use(r->opt->group)) {
        kept_for_streams = r;
        return;
    }
    qr_stepper_free(r->stepper);
    qr_state_fini(&r->state);
    qr_state_fini(&r->spare);
    qr_order_fini(&r->order);
    qr_buf_free(&r->bytes);
    qr_buf_free(&r->text);
    qr_buf_free(&r->next_text);
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

struct qr_result qr_train_result_record(const struct qr_train_result *r,
                                        const struct qr_workload *w,
                                        const struct qr_job_canonical *canonical,
                                        char ret_data_hash[65]) {
    const struct qr_early_stopping *stopping = &w->job->train.early_stopping;
    qr_hex(w->data.digest, sizeof w->data.digest, ret_data_hash);
    return (struct qr_result){
        .job = w->job->name,
        .job_hash = canonical->hex,
        .steps = r->steps,
        .epochs = r->epochs,
        .monitor = stopping->on ? stopping->monitor : NULL,
        .best_epoch = r->best_epoch,
        .best = r->best,
        .restored = r->restored,
        .loss = r->loss,
        .has_val_loss = r->has_val,
        .val_loss = r->val_loss,
        .metrics = r->metrics,
        .n_metrics = r->n_metrics,
        .n_classes = r->confusion.n,
        .confusion = r->confusion.training,
        .val_confusion = r->confusion.validation,
        .state_digest = r->state_digest,
        .data_hash = ret_data_hash,
        .arithmetic = qr_contract_name(w->job->precision),
        .chain = r->chain,
    };
}

/* The state with the numbers of the result: the best epoch's where its weights are written, else
 * the last one, with what the closing reduction has evaluated. */
static struct qr_state result_state(struct train_run *r, const struct qr_step_work *w) {
    struct qr_state s = r->state;
    if (w->range.begin != w->range.end) {
        keep_validation(r, final_weights(r), r->spare.validation);
        s.validation = r->spare.validation;
    }
    if (!qr_state_restores_best(&s, &r->job->train.early_stopping)) return s;
    s.epoch = (uint64_t)s.stop[QR_STOP_BEST_EPOCH];
    s.step = s.epoch * r->n_batches;
    s.sums = s.best_sums;
    s.validation = s.best_validation;
    return s;
}

/* Loss and metrics as qring evaluate gives them for the same weights, and the logged values. */
static void fill_values(const struct train_run *r, const struct qr_state *of,
                        struct qr_train_result *ret) {
    const struct qr_model *m = r->opt->model;
    ret->loss = qr_model_running_mean(m, 0, of->sums, of->sums[of->n_sums]);
    ret->val_loss = r->has_val ? of->validation[0] : 0;
    for (size_t v = 0; v < (r->has_val ? 2u : 1u); v++)
        for (size_t i = 1; i < r->n_values; i++)
            ret->metrics[ret->n_metrics++] = (struct qr_named_value){
                v ? r->val_values[i].name : r->values[i].name,
                v ? of->validation[i]
                  : qr_model_running_mean(m, i, of->sums, of->sums[of->n_sums])};
    ret->n_logged = qr_logged_last(r->job, m, of, n_validation(r), ret->metrics + ret->n_metrics);
    ret->n_metrics += ret->n_logged;
    ret->confusion = qr_confusion_of(m, of, r->has_val);
}

static void fill_result(struct train_run *r, const struct qr_step_work *w,
                        struct qr_train_result *ret) {
    const struct qr_state *s = &r->state, of = result_state(r, w);
    *ret = (struct qr_train_result){.steps = s->step,
                                    .epochs = s->epoch,
                                    .has_val = r->has_val,
                                    .best_epoch = (uint64_t)s->stop[QR_STOP_BEST_EPOCH],
                                    .best = s->stop[QR_STOP_BEST],
                                    .restored = of.sums == s->best_sums,
                                    .evaluated_at_end = w->range.begin != w->range.end,
                                    .stopped_early = s->stop[QR_STOP_STOPPED] > 0,
                                    .ended =
                                        qr_optimizer_ended(&r->job->train.optimizer, s->products)};
    fill_values(r, &of, ret);
    ret->pod_ms = qr_pod_time_ms(&r->pod_time, qr_now_ns(r->opt->clock));
    ret->over_budget = has_steps_left(r);
    uint8_t digest[sizeof r->digest];
    qr_state_digest(s, digest);
    qr_hex(digest, sizeof digest, ret->state_digest);
    if (qr_chain_known(s->chain)) qr_hex(s->chain, sizeof s->chain, ret->chain);
    ret->params = qr_xcalloc(s->n_params, sizeof *ret->params);
    memcpy(ret->params, final_weights(r), s->n_params * sizeof *ret->params);
}

/* The closing reduction has completed: every member had the final state, and it may be
 * published. */
static enum qr_code finish_run(struct train_run *r, const struct qr_step_work *w,
                               struct qr_train_result *ret, struct qr_err *err) {
    const struct qr_train_options *o = r->opt;
    qr_state_copy(&r->spare, &r->state); /* publishing may exchange the state */
    enum qr_code code = train_note_committed(r, err);
    if (code != QR_OK) return code;
    qr_state_exchange(&r->state, &r->spare);
    qr_train_result_fini(ret);
    fill_result(r, w, ret);
    if (o->finish) code = o->finish(o->finish_ctx, &r->view, ret, err);
    if (code == QR_OK) r->done = true;
    return code;
}

static enum qr_code one_reduction(struct train_run *r, struct qr_train_result *ret,
                                  struct qr_err *err) {
    static const enum qr_span_kind spans[] = {[QR_REDUCTION_TRAIN] = QR_SPAN_STEP,
                                              [QR_REDUCTION_EVAL] = QR_SPAN_EVALUATION,
                                              [QR_REDUCTION_CLOSE] = QR_SPAN_CLOSING};
    struct qr_step_work w;
    next_work(r, &w);
    bool close = w.kind == QR_REDUCTION_CLOSE, evaluates = close && w.range.begin < w.range.end;
    if (evaluates) qr_stepper_prepare(r->stepper, final_weights(r));
    if (r->opt->begins) r->opt->begins(r->opt->begins_ctx, w.kind, r->state.step);
    int64_t span_ns = qr_span_begin();
    enum qr_code code = run_reduction(r, &w, err);
    if (code == QR_OK && !close) code = apply_reduction(r, &w, err);
    qr_span_end(span_ns, spans[w.kind], NULL, r->state.step);
    if (code == QR_OK && close) code = finish_run(r, &w, ret, err);
    if (code != QR_ABORTED) return code;
    if (evaluates) train_prepare(r); /* the next generation may resume from this state or another */
    span_ns = qr_span_begin();
    code = train_join(r, err);
    qr_span_end(span_ns, QR_SPAN_REGROUP, NULL, r->state.step);
    return code;
}

enum qr_code qr_train_run(const struct qr_train_options *opt, struct qr_train_result *ret,
                          struct qr_err *err) {
    struct train_run *r = qr_xcalloc(1, sizeof *r);
    struct qr_train_result result = {.ended_by_peers = true};
    enum qr_code code = run_init(r, opt, err);
    if (code == QR_OK) code = train_join(r, err);
    while (code == QR_OK && !r->done) code = one_reduction(r, &result, err);
    struct qr_err ignored;
    /* Peers may have published the state that this line belongs to */
    if (code == QR_CANCELLED) (void)!train_report(r, &ignored);
    if (code != QR_OK) {
        qr_group_set_error(opt->group, err);
        (void)!train_report_again(r, &ignored);
    }
    if (code == QR_OK) *ret = result;
    else qr_train_result_fini(&result);
    run_free(r);
    return code;
}
