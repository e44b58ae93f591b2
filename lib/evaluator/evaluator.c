/* evaluator/evaluator.c — watches the checkpoints of a run and evaluates each new state. Start
 * reading at watch_checkpoints(). */
#include "evaluator/evaluator.h"

#include <inttypes.h>
#include <string.h>

#include "base/counter.h"
#include "base/mem.h"
#include "base/text.h"
#include "evaluator/curve.h"
#include "output/run_checkpoints.h"
#include "train/train_checkpoint.h"
#include "train/validation.h"
#include "train/logged.h"

static const int64_t damaged_timeout_ns = 600 * QR_SECOND, log_interval_ns = 600 * QR_SECOND;

struct evaluator {
    struct qr_evaluator_options opt;
    struct qr_curve curve;
    struct qr_validation_pass *validation;
    struct qr_state state;
    struct qr_checkpoint_latest seen; /* LATEST at the last check; job_hash "": none */
    bool looked, changed;             /* checked once; LATEST has changed since the first check */
    uint64_t n;                       /* evaluations by this process */
    double loss;                      /* of the last one */
    int64_t began_ns, changed_ns, logged_ns, damaged_since_ns; /* damaged_since_ns 0: not damaged */
};

static int64_t evaluator_now_ns(const struct evaluator *e) { return qr_now_ns(e->opt.clock); }

/* ---- one state ---- */

static void evaluator_report(struct evaluator *e, const struct qr_step_values *r,
                             const struct qr_step_line *line) {
    const struct qr_workload *l = e->opt.load;
    const struct qr_step_detail detail = {
        .weights = e->state.weights,
        .ends_epoch = r->ends_epoch,
        .readouts = qr_model_n_readouts(l->model) ? r->readouts : NULL,
        .readout_bound = qr_model_readout_bound(l->model),
    };
    if (e->opt.show) e->opt.show(e->opt.ctx, e->curve.other && e->n == 0, line, &detail);
}

static void count_evaluation(struct evaluator *e, const struct qr_step_values *r) {
    struct qr_buf values = {0};
    const struct qr_model *m = e->opt.load->model;
    e->n++;
    e->loss = r->value[0];
    qr_count(QR_EVALUATIONS, 1);
    qr_gauge(QR_EVALUATED_STEP, (int64_t)r->step);
    qr_gauge(QR_EVALUATED_TIME, qr_now_ns(&qr_clock_wall) / QR_SECOND);
    qr_gauge_real(QR_VAL_LOSS, r->value[0]);
    qr_logged_publish(e->opt.load->job, m, r);
    for (size_t i = 0; i < qr_model_n_values(m); i++)
        if (qr_metric_is_number(qr_model_value_name(m, i, false)))
            qr_buf_printf(&values, "%s%s %s", i ? ", " : "", qr_model_value_name(m, i, true),
                          qr_text_number(r->value[i]).s);
    qr_info(e->opt.log, "evaluator", "step %" PRIu64 ", epoch %" PRIu64 "%s: %s", r->step, r->epoch,
            r->ends_epoch ? "" : " in part", qr_buf_string(&values));
    qr_buf_free(&values);
}

static enum qr_code evaluate_state(struct evaluator *e, struct qr_err *err) {
    struct qr_named_value metrics[QR_LINE_VALUES], logged[QR_MAX_LOGGED];
    const struct qr_workload *l = e->opt.load;
    struct qr_step_line line;
    struct qr_step_values r;
    if (e->opt.computing) e->opt.computing(e->opt.ctx, true);
    enum qr_code code = qr_validation_pass_evaluate(e->validation, &e->state, &r, err);
    if (e->opt.computing) e->opt.computing(e->opt.ctx, false);
    if (code != QR_OK) return code;
    qr_logged_line(l->job, l->model, &r, metrics, logged, &line);
    evaluator_report(e, &r, &line);
    QR_TRY(qr_curve_add(&e->curve, &line, err));
    count_evaluation(e, &r);
    return QR_OK;
}

/* ---- checkpoints ---- */

static enum qr_code reject_other_job(const struct evaluator *e,
                                     const struct qr_checkpoint_latest *l, struct qr_err *err) {
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "%s has the checkpoints of another job: its hash is %s, this evaluator's job "
                   "has %s; give this evaluator the workers' job file, --set keys and location "
                   "(--checkpoints, --weights or --out)",
                   e->opt.place->url, l->job_hash, e->opt.job_hash);
}

/* Handles an incomplete checkpoint: the next one may be complete. */
static enum qr_code retry_damaged(struct evaluator *e, struct qr_err *err) {
    int64_t now = evaluator_now_ns(e);
    bool first = !e->damaged_since_ns;
    if (first) e->damaged_since_ns = now;
    if (now - e->damaged_since_ns >= damaged_timeout_ns) return err->code;
    if (first)
        qr_warn(e->opt.log, "evaluator",
                "%s; waiting for the next checkpoint, for ten minutes at most", err->msg);
    return QR_OK;
}

static bool same_latest(const struct qr_checkpoint_latest *a,
                        const struct qr_checkpoint_latest *b) {
    return strcmp(a->job_hash, b->job_hash) == 0 && strcmp(a->object, b->object) == 0 &&
           a->crc32c == b->crc32c && a->done == b->done;
}

/* Loads the newest complete checkpoint into e->state; *ret false: there is none now. */
static enum qr_code load_newest(struct evaluator *e, bool *ret, struct qr_err *err) {
    const struct qr_workload *l = e->opt.load;
    struct qr_checkpoint c = {0};
    struct qr_buf notes = {0};
    bool done;
    *ret = false;
    enum qr_code code = qr_checkpoint_load(e->opt.place, e->opt.job_hash, &c, &done, &notes, err);
    if (code == QR_OK) qr_run_checkpoints_warn(&notes, e->opt.log);
    qr_buf_free(&notes);
    if (code != QR_OK || !*c.job_hash) return code;
    code = qr_state_load(&c, l->job, l->model, &e->state, err);
    qr_checkpoint_fini(&c);
    if (code != QR_OK) return qr_wrap(err, "%s", e->opt.place->url);
    *ret = true;
    return QR_OK;
}

/* Decides whether an end in LATEST, after so many epochs or by early stopping, is the end of this
 * run. */
static bool is_run_end(const struct evaluator *e, bool stopped) {
    bool all = e->seen.epoch >= e->opt.epochs || stopped;
    return e->changed || (all && !e->opt.fresh) ||
           evaluator_now_ns(e) - e->began_ns >= e->opt.begin_timeout_ns;
}

/* Processes a new LATEST. */
static enum qr_code process_latest(struct evaluator *e, struct qr_err *err) {
    bool there = false;
    qr_gauge(QR_CHECKPOINT_STEP, (int64_t)e->seen.step);
    /* Early stopping is recorded in the state. */
    bool asks = e->seen.done && e->seen.epoch < e->opt.epochs && !e->changed;
    if (e->seen.step <= e->curve.step && !asks) return QR_OK;
    enum qr_code code = load_newest(e, &there, err);
    if (code != QR_OK || !there) return code;
    if (e->state.step > e->curve.step) code = evaluate_state(e, err);
    if (code == QR_OK && e->seen.done && e->seen.step > e->curve.step)
        code = qr_fail(err, QR_DATA_LOSS,
                       "%s: the last state of the run, of step %" PRIu64 ", cannot be read",
                       e->opt.place->url, e->seen.step);
    return code;
}

static enum qr_code check_latest(struct evaluator *e, bool *ret_end, struct qr_err *err) {
    struct qr_checkpoint_latest l;
    enum qr_code code = qr_checkpoint_peek(e->opt.place, &l, err);
    if (code == QR_DATA_LOSS) return retry_damaged(e, err);
    if (code != QR_OK) return code;
    if (*l.job_hash && strcmp(l.job_hash, e->opt.job_hash) != 0) {
        bool may_go = e->opt.fresh && evaluator_now_ns(e) - e->began_ns < e->opt.begin_timeout_ns;
        e->looked = true;
        return may_go ? QR_OK : reject_other_job(e, &l, err);
    }
    bool is_new = !e->looked || !same_latest(&l, &e->seen);
    if (is_new) {
        e->changed |= e->looked;
        e->looked = true;
        e->seen = l;
        e->changed_ns = e->logged_ns = evaluator_now_ns(e);
    }
    if (*l.job_hash && (is_new || e->damaged_since_ns)) {
        code = process_latest(e, err);
        if (code == QR_DATA_LOSS) return retry_damaged(e, err);
        if (code != QR_OK) return code;
    }
    e->damaged_since_ns = 0;
    *ret_end = l.done && is_run_end(e, e->state.stop[QR_STOP_STOPPED] > 0);
    return QR_OK;
}

/* ---- waiting ---- */

static void log_waiting(struct evaluator *e, bool first) {
    int64_t now = evaluator_now_ns(e);
    if (!first && now - e->logged_ns < log_interval_ns) return;
    e->logged_ns = now;
    const char *url = e->opt.place->url;
    int minutes = (int)((now - e->changed_ns) / (60 * QR_SECOND));
    if (!*e->seen.job_hash && first)
        qr_info(e->opt.log, "evaluator", "no checkpoint of this job in %s yet; waiting", url);
    else if (!*e->seen.job_hash)
        qr_warn(e->opt.log, "evaluator", "no checkpoint of this job in %s for %d minutes", url,
                minutes);
    else if (e->seen.done)
        qr_info(e->opt.log, "evaluator",
                "a run of %" PRIu64 " epochs has ended in %s; waiting for a new run or more epochs",
                e->seen.epoch, url);
    else if (!first)
        qr_warn(e->opt.log, "evaluator",
                "the state in %s has stayed at step %" PRIu64 " for %d minutes", url, e->seen.step,
                minutes);
}

static enum qr_code watch_checkpoints(struct evaluator *e, struct qr_err *err) {
    bool end = false;
    for (bool first = true;; first = false) {
        if (e->opt.stopping(e->opt.ctx))
            return qr_fail(err, QR_CANCELLED, "asked to stop; the curve ends at step %" PRIu64,
                           e->curve.step);
        enum qr_code code = check_latest(e, &end, err);
        if (code != QR_OK || end) return code;
        log_waiting(e, first);
        e->opt.pause(e->opt.ctx, e->opt.every_ns);
    }
}

/* ---- run ---- */

static enum qr_code evaluator_open(struct evaluator *e, struct qr_err *err) {
    const struct qr_workload *l = e->opt.load;
    const struct qr_validation_pass_options opt = {
        .job = l->job,
        .model = l->model,
        .data = &l->data,
        .pool = e->opt.pool,
        .clock = e->opt.clock,
        .stopping = e->opt.stopping,
        .stopping_ctx = e->opt.ctx,
    };
    QR_TRY(qr_workload_check_validation(l, err));
    QR_TRY(qr_validation_pass_new(&opt, &e->validation, err));
    QR_TRY(qr_curve_open(e->opt.dir, e->opt.job_hash, e->opt.fresh, e->opt.pause, e->opt.ctx,
                         &e->curve, err));
    qr_logged_register(l->job, l->model);
    if (e->curve.other)
        qr_info(e->opt.log, "evaluator",
                "%s has lines of another job; the first line of this job replaces them",
                e->curve.path);
    if (e->curve.step) qr_gauge(QR_EVALUATED_STEP, (int64_t)e->curve.step);
    qr_info(e->opt.log, "evaluator", "%zu validation samples; states from %s; the curve %s %s",
            l->data.n_samples - l->data.n_train, e->opt.place->url,
            e->curve.step ? "continues in" : "goes to", e->curve.path);
    return QR_OK;
}

enum qr_code qr_evaluator_run(const struct qr_evaluator_options *opt, struct qr_err *err) {
    struct evaluator e = {.opt = *opt};
    e.began_ns = e.changed_ns = e.logged_ns = evaluator_now_ns(&e);
    qr_state_init(&e.state, opt->load->job, opt->load->model);
    enum qr_code code = evaluator_open(&e, err);
    if (code == QR_OK) code = watch_checkpoints(&e, err);
    if (code == QR_OK && e.n)
        qr_info(opt->log, "evaluator",
                "done: the run has ended; %" PRIu64 " state%s evaluated here, the last that of "
                "step %" PRIu64 ", val_loss %s; the curve: %s",
                e.n, e.n == 1 ? "" : "s", e.curve.step, qr_text_number(e.loss).s, e.curve.path);
    else if (code == QR_OK)
        qr_info(opt->log, "evaluator",
                "done: the run has ended, and the curve had its last state, of step %" PRIu64
                ": %s",
                e.curve.step, e.curve.path);
    qr_validation_pass_free(e.validation);
    qr_curve_close(&e.curve);
    qr_state_fini(&e.state);
    return code;
}
