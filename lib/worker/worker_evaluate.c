/* worker/worker_evaluate.c — runs an evaluator in place of a worker. Start reading at
 * worker_evaluate().
 */
#include <string.h>
#include <unistd.h>

#include "base/counter.h"
#include "evaluator/evaluator.h"
#include "worker/stop.h"
#include "worker/worker_impl.h"

/* Interval at which stop requests and /healthz are served. */
static const int64_t turn_ns = 50 * QR_MS, least_interval_ns = 10 * QR_MS;

static bool evaluator_stopping(void *ctx) { return qr_stop_requested() || worker_pod_refuses(ctx); }

static void evaluator_pause(void *ctx, int64_t ns) {
    for (int64_t left_ns = ns; left_ns > 0 && !evaluator_stopping(ctx); left_ns -= turn_ns)
        qr_sleep_ns(left_ns < turn_ns ? left_ns : turn_ns);
}

/* Waiting for a store may take much longer than /healthz allows a thread to make no progress. */
static void evaluator_computing(void *ctx, bool yes) {
    struct worker *w = ctx;
    qr_http_watch(w->http, QR_HTTP_TRAINING, yes);
}

static void evaluator_show(void *ctx, bool fresh, const struct qr_step_line *line,
                           const struct qr_step_detail *detail) {
    struct worker *w = ctx;
    qr_outputs_evaluated(&w->outputs, fresh, line, detail);
}

static enum qr_code evaluator_prepare(struct worker *w, struct qr_err *err) {
    const struct qr_settings *s = &w->settings;
    char host[256] = "";
    if (!w->outputs.checkpoints_url)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "cannot evaluate: an evaluator reads a run's checkpoints, and --checkpoints "
                       "is none; set one location for it and the workers");
    QR_TRY(
        qr_workload_load(w->job, s->isa, s->threads > 0 ? (unsigned)s->threads : 0, &w->load, err));
    QR_TRY(qr_workload_check_validation(&w->load, err));
    QR_TRY(qr_outputs_check_folders(&w->outputs, err));
    QR_TRY(qr_outputs_check_logdir(&w->outputs, err));
    qr_job_canonical(w->job, &w->load.data,
                     w->load.initial_from_file ? w->load.initial_digest : NULL, &w->canonical);
    gethostname(host, sizeof host - 1);
    uint64_t epochs = s->epochs > 0 ? (uint64_t)s->epochs : w->job->train.epochs;
    return qr_outputs_open_events(&w->outputs, &w->load, &w->canonical, epochs, host, err);
}

enum qr_code worker_evaluate(struct worker *w, struct qr_err *err) {
    const struct qr_settings *s = &w->settings;
    struct qr_checkpoint_folder place;
    QR_TRY(evaluator_prepare(w, err));
    QR_TRY(worker_await_port(w, worker_open_http, err));
    QR_TRY(qr_checkpoint_folder_open(w->outputs.checkpoints_url, &place, err));
    w->pool = qr_pool_new(w->load.n_threads);
    worker_follow_pod(w);
    const struct qr_evaluator_options opt = {
        .place = &place.at,
        .load = &w->load,
        .job_hash = w->canonical.hex,
        .epochs = s->epochs > 0 ? (uint64_t)s->epochs : w->job->train.epochs,
        .dir = w->outputs.dir,
        .every_ns = s->evaluate_interval_ns > least_interval_ns ? s->evaluate_interval_ns
                                                                : least_interval_ns,
        .begin_timeout_ns = s->form_timeout_ns >= 0 ? s->form_timeout_ns : s->start_timeout_ns,
        .fresh = s->fresh,
        .pool = w->pool,
        .clock = &qr_clock_awake,
        .log = &w->log,
        .ctx = w,
        .stopping = evaluator_stopping,
        .pause = evaluator_pause,
        .computing = evaluator_computing,
        .show = evaluator_show,
    };
    enum qr_code code = worker_pod_error(w, qr_evaluator_run(&opt, err), err);
    w->outputs.ended_well = code == QR_OK;
    qr_checkpoint_folder_close(&place);
    return code;
}
