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

static const int64_t give_up_ns = 600 * QR_SECOND, say_every_ns = 600 * QR_SECOND;

struct evaluator {
    struct qr_evaluator_options opt;
    struct qr_curve curve;
    struct qr_validation_pass *held_out;
    struct qr_state state;
    struct qr_checkpoint_latest seen; /* at the last look; job_hash "": nothing was there */
    bool looked, changed;             /* at all; what is there has changed since the first look */
    uint64_t n;                       /* evaluations of this process */
    double loss;                      /* of the last */
    int64_t began_ns, news_ns, said_ns, trouble_ns; /* trouble_ns 0: none */
};

static int64_t now_ns(const struct evaluator *e) { return qr_now_ns(e->opt.clock); }

/* ---- one state ---- */

static void report(struct evaluator *e, const struct qr_step_values *r,
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

static void count(struct evaluator *e, const struct qr_step_values *r) {
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

static enum qr_code evaluate(struct evaluator *e, struct qr_err *err) {
    struct qr_named_value metrics[QR_LINE_VALUES], logged[QR_MAX_LOGGED];
    const struct qr_workload *l = e->opt.load;
    struct qr_step_line line;
    struct qr_step_values r;
    if (e->opt.computes) e->opt.computes(e->opt.ctx, true);
    enum qr_code code = qr_validation_pass_evaluate(e->held_out, &e->state, &r, err);
    if (e->opt.computes) e->opt.computes(e->opt.ctx, false);
    if (code != QR_OK) return code;
    qr_logged_line(l->job, l->model, &r, metrics, logged, &line);
    report(e, &r, &line);
    code = qr_curve_add(&e->curve, &line, err);
    if (code == QR_OK) count(e, &r);
    return code;
}

/* ---- what is there ---- */

static enum qr_code refuse_other(const struct evaluator *e, const struct qr_checkpoint_latest *l,
                                 struct qr_err *err) {
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "%s has the checkpoints of another job: its hash is %s, this evaluator's job "
                   "has %s. Give it the workers' job file, keys that they set (--set) and place "
                   "(--checkpoints, --weights or --out)",
                   e->opt.place->url, l->job_hash, e->opt.job_hash);
}

/* Something that is not whole: the next one may be. */
static enum qr_code bear(struct evaluator *e, struct qr_err *err) {
    int64_t now = now_ns(e);
    bool first = !e->trouble_ns;
    if (first) e->trouble_ns = now;
    if (now - e->trouble_ns >= give_up_ns) return err->code;
    if (first)
        qr_warn(e->opt.log, "evaluator",
                "%s. The next checkpoint is waited for, for ten minutes at most", err->msg);
    return QR_OK;
}

static bool same(const struct qr_checkpoint_latest *a, const struct qr_checkpoint_latest *b) {
    return strcmp(a->job_hash, b->job_hash) == 0 && strcmp(a->object, b->object) == 0 &&
           a->crc32c == b->crc32c && a->done == b->done;
}

/* The newest whole one into e->state; *ret false: by now there is none. */
static enum qr_code load(struct evaluator *e, bool *ret, struct qr_err *err) {
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

/* LATEST says that training has ended, with so many epochs or by itself: is it this run's end? */
static bool is_end(const struct evaluator *e, bool stopped) {
    bool all = e->seen.epoch >= e->opt.epochs || stopped;
    return e->changed || (all && !e->opt.anew) || now_ns(e) - e->began_ns >= e->opt.begins_ns;
}

/* What LATEST names is new to this process. */
static enum qr_code take(struct evaluator *e, struct qr_err *err) {
    bool there = false;
    qr_gauge(QR_CHECKPOINT_STEP, (int64_t)e->seen.step);
    /* whether it stopped by itself, the state knows */
    bool asks = e->seen.done && e->seen.epoch < e->opt.epochs && !e->changed;
    if (e->seen.step <= e->curve.step && !asks) return QR_OK;
    enum qr_code code = load(e, &there, err);
    if (code != QR_OK || !there) return code;
    if (e->state.step > e->curve.step) code = evaluate(e, err);
    if (code == QR_OK && e->seen.done && e->seen.step > e->curve.step)
        code = qr_fail(err, QR_DATA_LOSS,
                       "%s: the last state of the run, of step %" PRIu64 ", cannot be read",
                       e->opt.place->url, e->seen.step);
    return code;
}

static enum qr_code look(struct evaluator *e, bool *ret_end, struct qr_err *err) {
    struct qr_checkpoint_latest l;
    enum qr_code code = qr_checkpoint_peek(e->opt.place, &l, err);
    if (code == QR_DATA_LOSS) return bear(e, err);
    if (code != QR_OK) return code;
    if (*l.job_hash && strcmp(l.job_hash, e->opt.job_hash) != 0) {
        bool may_go = e->opt.anew && now_ns(e) - e->began_ns < e->opt.begins_ns;
        e->looked = true;
        return may_go ? QR_OK : refuse_other(e, &l, err);
    }
    bool news = !e->looked || !same(&l, &e->seen);
    if (news) {
        e->changed |= e->looked;
        e->looked = true;
        e->seen = l;
        e->news_ns = e->said_ns = now_ns(e);
    }
    if (*l.job_hash && (news || e->trouble_ns)) {
        code = take(e, err);
        if (code == QR_DATA_LOSS) return bear(e, err);
        if (code != QR_OK) return code;
    }
    e->trouble_ns = 0;
    *ret_end = l.done && is_end(e, e->state.stop[QR_STOP_STOPPED] > 0);
    return QR_OK;
}

/* ---- waiting ---- */

static void say_waiting(struct evaluator *e, bool first) {
    int64_t now = now_ns(e);
    if (!first && now - e->said_ns < say_every_ns) return;
    e->said_ns = now;
    const char *url = e->opt.place->url;
    int minutes = (int)((now - e->news_ns) / (60 * QR_SECOND));
    if (!*e->seen.job_hash && first)
        qr_info(e->opt.log, "evaluator", "no checkpoint of this job is in %s yet: it waits", url);
    else if (!*e->seen.job_hash)
        qr_warn(e->opt.log, "evaluator", "no checkpoint of this job has come to %s for %d minutes",
                url, minutes);
    else if (e->seen.done)
        qr_info(e->opt.log, "evaluator",
                "a run of %" PRIu64 " epochs has ended in %s: a new one, or more epochs, are "
                "waited for",
                e->seen.epoch, url);
    else if (!first)
        qr_warn(e->opt.log, "evaluator",
                "the state in %s has been that of step %" PRIu64 " for %d minutes", url,
                e->seen.step, minutes);
}

static enum qr_code watch(struct evaluator *e, struct qr_err *err) {
    bool end = false;
    for (bool first = true;; first = false) {
        if (e->opt.stopping(e->opt.ctx))
            return qr_fail(err, QR_CANCELLED, "asked to stop; the curve goes to step %" PRIu64,
                           e->curve.step);
        enum qr_code code = look(e, &end, err);
        if (code != QR_OK || end) return code;
        say_waiting(e, first);
        e->opt.pause(e->opt.ctx, e->opt.every_ns);
    }
}

/* ---- the whole ---- */

static enum qr_code begin(struct evaluator *e, struct qr_err *err) {
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
    enum qr_code code = qr_workload_check_validation(l, err);
    if (code == QR_OK) code = qr_validation_pass_new(&opt, &e->held_out, err);
    if (code == QR_OK)
        code = qr_curve_open(e->opt.dir, e->opt.job_hash, e->opt.anew, e->opt.pause, e->opt.ctx,
                             &e->curve, err);
    if (code != QR_OK) return code;
    qr_logged_register(l->job, l->model);
    if (e->curve.other)
        qr_info(e->opt.log, "evaluator",
                "%s has another job's lines: the first of this job replaces them", e->curve.path);
    if (e->curve.step) qr_gauge(QR_EVALUATED_STEP, (int64_t)e->curve.step);
    qr_info(e->opt.log, "evaluator", "%zu validation samples; states from %s; the curve %s %s",
            l->data.n_samples - l->data.n_train, e->opt.place->url,
            e->curve.step ? "goes on in" : "goes to", e->curve.path);
    return QR_OK;
}

enum qr_code qr_evaluator_run(const struct qr_evaluator_options *opt, struct qr_err *err) {
    struct qr_err own;
    if (!err) err = &own;
    struct evaluator e = {.opt = *opt};
    e.began_ns = e.news_ns = e.said_ns = now_ns(&e);
    qr_state_init(&e.state, opt->load->job, opt->load->model);
    enum qr_code code = begin(&e, err);
    if (code == QR_OK) code = watch(&e, err);
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
    qr_validation_pass_free(e.held_out);
    qr_curve_close(&e.curve);
    qr_state_fini(&e.state);
    return code;
}
