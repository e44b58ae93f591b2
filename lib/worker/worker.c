/* worker/worker.c — a worker from start to exit code. Start reading at worker_run(). */
#include "worker/worker_impl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/counter.h"
#include "base/file.h"
#include "base/mem.h"
#include "data/batch.h"
#include "monitor/last_error.h"
#include "monitor/termination_log.h"
#include "output/run_checkpoints.h"
#include "store/store.h"
#include "worker/watchdog.h"
#include "worker/limits.h"
#include "worker/results.h"
#include "worker/ring.h"
#include "worker/stop.h"

enum { MAX_UNKNOWN = 8 };

static const char help_head[] =
    "qringd - one worker of a training job\n"
    "\n"
    "Examples:\n"
    "  qringd                                          # the tutorial's model, alone, into "
    "out/qcnn\n"
    "  qringd job.json --out /results --threads 4      # one worker, one job\n"
    "  TF_CONFIG='{\"cluster\": ...}' qringd job.json    # in a TFJob: peers and index from "
    "TF_CONFIG\n"
    "  QRING_PEER_TEMPLATE='job-{i}.svc:2222' QRING_REPLICAS=3 qringd gs://bucket/job.json   "
    "# in an Indexed Job\n"
    "  qringd job.json --role evaluator --out out/job  # evaluate the checkpoints of a run "
    "beside it\n"
    "  qringd --print-identity                         # its index and peers\n"
    "\n"
    "Usage: qringd [JOB] [FLAGS]\n"
    "  JOB: path or URL of a job file, - for standard input, or the folder of a run (also "
    "QRING_JOB) [the built-in tutorial]\n"
    "  --a-b VALUE may also be --a-b=VALUE, the variable QRING_A_B, or \"a_b\" in the job "
    "file's \"worker\" object; the flag wins, then the\n"
    "  variable, then the job file.\n"
    "\n"
    "Flags:\n";
static const char help_tail[] =
    "\n"
    "Exit codes: 0 done, 2 usage or job file, 3 rejected by the job's leader, 4 bad data, 5 "
    "--max-cost reached, 138 temporary failure (retry), 143 after SIGTERM.\n";

static struct qr_log make_log(const struct qr_settings *s) {
    enum qr_log_level level = QR_LOG_INFO;
    bool text = strcmp(s->log_format, "auto") == 0 ? isatty(STDERR_FILENO)
                                                   : strcmp(s->log_format, "text") == 0;
    for (int i = 0; qr_log_level_names[i]; i++)
        if (strcmp(s->log_level, qr_log_level_names[i]) == 0) level = (enum qr_log_level)i;
    bool color =
        text && qr_log_wants_color(isatty(STDERR_FILENO), getenv("NO_COLOR"), getenv("TERM"));
    return qr_last_error_keep(qr_log_stderr(level, !text   ? QR_LOG_JSON
                                                   : color ? QR_LOG_COLOR
                                                           : QR_LOG_TEXT));
}

/* ---- settings, job, identity ---- */

static enum qr_code read_settings(struct worker *w, int argc, char *const *argv,
                                  char *const *environment, struct qr_err *err) {
    struct qr_settings *s = &w->settings;
    char *unknown[MAX_UNKNOWN];
    size_t n_unknown = 0;
    enum qr_code code = qr_settings_flags(s, argc, argv, err);
    if (code == QR_OK && (s->help || s->version || s->print_settings)) return QR_OK;
    if (code == QR_OK)
        code = qr_settings_environment(s, environment, unknown, MAX_UNKNOWN, &n_unknown, err);
    w->log = make_log(s);
    for (size_t i = 0; i < n_unknown; i++) {
        if (code == QR_OK && !s->print_identity) qr_warn(&w->log, "worker", "%s", unknown[i]);
        free(unknown[i]);
    }
    qr_stop_exit_code((int)s->exit_on_drain); /* loading the job may take long */
    qr_termination_log_to(s->termination_log, false);
    if (code == QR_OK) code = qr_settings_load_job(s, NULL, NULL, &w->job, err);
    if (code == QR_OK) code = qr_settings_check(s, err);
    w->log = make_log(s);
    qr_stop_exit_code((int)s->exit_on_drain);
    qr_termination_log_to(s->termination_log,
                          qr_settings_origin(s, "termination-log") == QR_ORIGIN_JOB);
    return code;
}

/* Writes standard output; the worker has nothing else to do. */
static enum qr_code print_text(struct worker *w, const struct qr_buf *text, struct qr_err *err) {
    w->finished = true;
    if (fwrite(text->p, 1, text->n, stdout) == text->n && fflush(stdout) == 0) return QR_OK;
    return qr_fail_errno(err, errno, "cannot write standard output");
}

/* Appends the text for which the command line asked; empty: it asked for training. */
static void append_text(const struct qr_settings *s, struct qr_buf *ret) {
    if (s->help) {
        qr_buf_puts(ret, help_head);
        qr_settings_help(ret);
        qr_buf_puts(ret, help_tail);
    } else if (s->version) {
        qr_buf_printf(ret, "qringd %s (arithmetic %s, %s)\n", QR_VERSION,
                      qr_contract_name(QR_SINGLE), qr_contract_name(QR_DOUBLE));
    } else if (s->print_settings) {
        qr_settings_markdown(ret);
    }
}

static void log_role(const struct worker *w) {
    const struct qr_identity *id = &w->identity;
    char index[32] = "";
    if (id->index >= 0 && id->role != QR_ROLE_SINGLE)
        snprintf(index, sizeof index, ", index %d", id->index);
    qr_info(&w->log, "worker", "this is %s %s%s%s%s (%s: %s)",
            id->role == QR_ROLE_EVALUATOR ? "an" : "a",
            id->role == QR_ROLE_SINGLE ? "single worker" : qr_role_name(id->role), index,
            id->address ? ", at " : "", id->address ? id->address : "",
            qr_identity_source_name(id->source), id->why);
    qr_gauge(QR_EVALUATOR, id->role == QR_ROLE_EVALUATOR);
}

static void log_settings(const struct worker *w) {
    const struct qr_settings *s = &w->settings;
    qr_settings_log(s, &w->log);
    if (qr_termination_log_refused())
        qr_warn(&w->log, "worker",
                "worker.termination_log: %s is not overwritten on request of a job file, unless it "
                "is an empty regular file; the reason for the end goes to this log only (or set "
                "--termination-log)",
                s->termination_log);
    if (w->job->profile_first && !s->logdir)
        qr_warn(&w->log, "worker",
                "profile.steps: not recorded, since no folder for TensorBoard is set (--logdir)");
}

/* ---- work ---- */

static void worker_log_warnings(const struct worker *w) {
    struct qr_job_warnings warnings;
    struct qr_buf inputs = {0};
    qr_job_warnings(w->job, &w->load.data, &warnings);
    for (size_t i = 0; i < warnings.n; i++) qr_warn(&w->log, "worker", "%s", warnings.sentence[i]);
    qr_job_warnings_fini(&warnings);
    qr_job_put_inputs(w->job, &w->load.data, &inputs);
    if (inputs.n) qr_info(&w->log, "worker", "inputs: %s", qr_buf_string(&inputs));
    qr_buf_clear(&inputs);
    qr_job_put_classes(w->job, &w->load.data, &inputs);
    if (inputs.n) qr_info(&w->log, "worker", "classes: %s", qr_buf_string(&inputs));
    qr_buf_free(&inputs);
}

static enum qr_code worker_prepare(struct worker *w, struct qr_err *err) {
    const struct qr_settings *s = &w->settings;
    unsigned n_threads = s->threads > 0 ? (unsigned)s->threads : 0;
    QR_TRY((w->identity.role == QR_ROLE_PS ? qr_workload_load_idle : qr_workload_load)(
        w->job, s->isa, n_threads, &w->load, err));
    worker_log_warnings(w);
    QR_TRY(qr_workload_check_training(&w->load, err));
    QR_TRY(qr_outputs_check_inputs(&w->outputs, w->job, err));
    QR_TRY(qr_outputs_check(&w->outputs, err));
    if (s->lock_fd < 0) QR_TRY(qr_outputs_lock(&w->outputs, w->job->name, &w->identity, err));
    qr_job_canonical(w->job, &w->load.data,
                     w->load.initial_from_file ? w->load.initial_digest : NULL, &w->canonical);
    size_t n_frozen = qr_model_n_frozen(w->load.model);
    qr_info(&w->log, "worker",
            "job %s (%.12s): %zu samples, %zu of them train; %zu parameters: %zu trainable, %zu "
            "frozen",
            w->job->name, w->canonical.hex, w->load.data.n_samples, w->load.data.n_train,
            qr_model_n_params(w->load.model), qr_model_n_params(w->load.model) - n_frozen,
            n_frozen);
    qr_auto(qr_buf_free) struct qr_buf limits = {0};
    qr_limits_text(w->load.n_threads, n_threads != 0, &limits);
    qr_info(&w->log, "worker", "limits: %s", qr_buf_string(&limits));
    return QR_OK;
}

/* ---- checkpoints ---- */

/* The ring's number of epochs, once known. */
static uint64_t worker_epochs(const struct worker *w) {
    uint64_t ring = w->group ? qr_group_epochs(w->group) : 0;
    if (ring) return ring;
    return w->settings.epochs > 0 ? (uint64_t)w->settings.epochs : w->job->train.epochs;
}

/* A group that forms sooner after the last look at the store need not look again. */
static const int64_t look_again_ns = 2 * QR_SECOND;

static void log_trained(const struct worker *w, const struct qr_state *s, const char *url) {
    uint8_t digest[16];
    char hex[33];
    qr_state_digest(s, digest);
    qr_hex(digest, sizeof digest, hex);
    qr_info(&w->log, "worker",
            "already trained: %llu steps, %llu epochs (%s), state_digest %s; --fresh starts over",
            (unsigned long long)s->step, (unsigned long long)s->epoch, url, hex);
}

static enum qr_code look_for_checkpoint(struct worker *w, struct qr_resume_point *start,
                                        struct qr_err *err) {
    const char *url = w->outputs.checkpoints_url;
    w->looked_ns = qr_now_ns(&qr_clock_monotonic);
    enum qr_code code =
        qr_run_checkpoints_load(url, w->outputs.dir, &w->load, worker_epochs(w), start, err);
    qr_run_checkpoints_warn(&start->notes, &w->log);
    if (code == QR_OK && start->differs.n)
        qr_info(&w->log, "worker", "%s", qr_buf_string(&start->differs));
    w->ended = start->found == QR_FOUND_DONE;
    if (w->ended) log_trained(w, &start->state, url);
    return code;
}

/* For --fresh, when no ring is working: deletes the checkpoints of any job. Other files of an
 * earlier run are deleted when this one begins (output/previous_run.h). */
static enum qr_code delete_checkpoints(void *ctx, struct qr_err *err) {
    struct worker *w = ctx;
    qr_auto(qr_free_p) char *url = qr_outputs_earlier_checkpoints(&w->outputs);
    QR_TRY(qr_run_checkpoints_delete(url, err));
    return worker_delete_cost(w, err);
}

/* Decides where training begins, by the checkpoints found; w->finished: training has ended
 * already. */
static enum qr_code find_start(struct worker *w, struct qr_err *err) {
    qr_auto(qr_free_p) char *url = qr_outputs_earlier_checkpoints(&w->outputs);
    struct qr_resume_point *start = &w->start;
    bool solo = w->identity.role == QR_ROLE_SINGLE;
    /* Files stay until everything that can fail before training has been done:
     * delete_checkpoints(). */
    if (w->settings.fresh) return QR_OK;
    if (!w->outputs.checkpoints_url)
        return qr_run_checkpoints_check_earlier(url, w->outputs.dir, &w->load, worker_epochs(w),
                                                err);
    QR_TRY(worker_find_cost(w, err));
    enum qr_code code = look_for_checkpoint(w, start, err);
    if (code == QR_OK && solo)
        code = qr_run_checkpoints_check_epochs(url, &w->load, worker_epochs(w), start, err);
    w->finished = w->ended;
    if (start->found == QR_FOUND_BEYOND && !solo)
        qr_warn(&w->log, "worker",
                "the checkpoint of step %llu is beyond %llu epochs (%s): looking for a ring that "
                "trains more",
                (unsigned long long)start->state.step, (unsigned long long)worker_epochs(w), url);
    if (start->found == QR_FOUND_STATE) qr_steps_log_resume(&w->outputs.steps, start->state.step);
    if (start->found == QR_FOUND_STATE)
        qr_info(&w->log, "worker", "resuming from step %llu, %llu epochs finished (%s)",
                (unsigned long long)start->state.step, (unsigned long long)start->state.epoch, url);
    return code;
}

/* Loads the present checkpoint: for a group of new workers, and for members with different
 * states. */
static enum qr_code worker_reload(void *ctx, struct qr_state *ret, bool *ret_found,
                                  struct qr_err *err) {
    struct worker *w = ctx;
    qr_auto(qr_resume_point_fini) struct qr_resume_point start = {0};
    *ret_found = w->ended = false;
    if (!w->outputs.checkpoints_url ||
        qr_now_ns(&qr_clock_monotonic) - w->looked_ns < look_again_ns)
        return QR_OK;
    enum qr_code code = look_for_checkpoint(w, &start, err);
    if (code == QR_OK)
        code = qr_run_checkpoints_check_epochs(w->outputs.checkpoints_url, &w->load,
                                               worker_epochs(w), &start, err);
    *ret_found = code == QR_OK && start.found != QR_FOUND_NOTHING;
    if (*ret_found) qr_state_copy(ret, &start.state);
    return code;
}

static bool worker_ended(void *ctx) { return ((struct worker *)ctx)->ended; }

/* The state to continue from, or NULL. */
static const struct qr_state *resume_state(const struct worker *w) {
    return w->start.found == QR_FOUND_STATE || w->start.found == QR_FOUND_BEYOND ? &w->start.state
                                                                                 : NULL;
}

static enum qr_code open_publisher(struct worker *w, struct qr_err *err) {
    if (!w->outputs.checkpoints_url) return QR_OK;
    qr_auto(qr_free_p) char *steps = qr_path_join(w->outputs.dir, "steps.jsonl");
    const struct qr_publisher_options opt = {
        .url = w->outputs.checkpoints_url,
        .log_path = steps,
        .job = w->job,
        .model = w->load.model,
        .job_hash = w->canonical.hex,
        .begin = resume_state(w),
        .every_ns = w->settings.checkpoint_interval_ns,
        .every_steps = (uint64_t)w->settings.checkpoint_steps,
        .every_epochs =
            w->settings.checkpoint_epochs > 0 ? (uint64_t)w->settings.checkpoint_epochs : 0,
        .keep = (size_t)w->settings.checkpoint_keep,
        .n_batches = qr_batch_count(w->load.data.n_train, w->job->train.batch_size),
        .epochs = worker_epochs(w),
        .clock = &qr_clock_awake,
        .log = &w->log,
    };
    enum qr_code code = qr_publisher_new(&opt, &w->publisher, err);
    w->outputs.publisher = w->publisher;
    qr_stop_set_publisher(w->publisher);
    return code;
}

/* A publisher has looked when it had something to publish; otherwise look here. */
static bool check_others_ended(struct worker *w) {
    qr_auto(qr_resume_point_fini) struct qr_resume_point start = {0};
    struct qr_err unknown;
    if (!w->publisher || qr_publisher_has_tried(w->publisher))
        return qr_publisher_training_done(w->publisher);
    bool yes = look_for_checkpoint(w, &start, &unknown) == QR_OK && w->ended;
    return yes;
}

/* A worker that ends early first publishes its newest committed state, and may learn that the
 * others have ended. When results cannot be published or logged at the ring's locations, all
 * members end for that reason. */
static enum qr_code publish_before_exit(struct worker *w, enum qr_code code,
                                        const struct qr_err *err) {
    struct qr_err end_err;
    bool refused = qr_publisher_has_failed(w->publisher);
    if (!refused) {
        if (qr_outputs_flush(&w->outputs, &end_err) != QR_OK)
            qr_debug(&w->log, "worker", "%s", end_err.msg);
        qr_publisher_publish_now(w->publisher);
        qr_publisher_wait(w->publisher, QR_STOP_PUBLISH_NS);
    }
    if ((refused || w->outputs.steps.full) && !w->end_sent && w->outputs.leader &&
        qr_group_shares_outputs(w->group) &&
        qr_group_done(w->group, err, QR_SECOND, &end_err) != QR_OK)
        qr_debug(&w->log, "worker", "%s", end_err.msg);
    if (qr_exit_code(code) != 138 || !check_others_ended(w)) return code;
    qr_info(&w->log, "worker", "%s; but training has ended, and all outputs are written", err->msg);
    return QR_OK;
}

/* ---- the end of training ---- */

/* Each upload of the leader has ten minutes from its last progress. */
static const int64_t written_within_ns = 1900 * QR_SECOND;

/* All members end together: the leader once all outputs are written, the others at its Done. */
static enum qr_code worker_finish(void *ctx, const struct qr_group_view *view,
                                  const struct qr_train_result *result, struct qr_err *err) {
    struct worker *w = ctx;
    enum qr_code wrote = QR_OK;
    struct qr_err done_err = {0};
    qr_stop_set_short(false);
    if (result->over_budget) {
        if (view->rank == 0) wrote = worker_over_budget(w, result, err);
    } else if (view->rank == 0) {
        double seconds = (double)(qr_now_ns(&qr_clock_monotonic) - w->began_ns) / 1e9;
        unsigned n_workers = view->n_members - (unsigned)__builtin_popcountll(view->servers);
        wrote =
            qr_outputs_write(&w->outputs, &w->load, &w->canonical, result, n_workers, seconds, err);
        /* The next leader has its own locations. */
        if (wrote != QR_OK && !qr_group_shares_outputs(w->group)) return wrote;
    }
    enum qr_code done =
        qr_group_done(w->group, wrote == QR_OK ? NULL : err, written_within_ns, &done_err);
    w->end_sent = done != QR_ABORTED;
    if (wrote != QR_OK) return wrote;
    /* All outputs are written; a missing goodbye changes nothing. */
    if (done != QR_OK && done != QR_ABORTED && view->rank == 0) {
        qr_warn(&w->log, "worker", "%s", done_err.msg);
        return QR_OK;
    }
    if (done != QR_OK) *err = done_err;
    return done;
}

static enum qr_code worker_train(struct worker *w, struct qr_err *err) {
    qr_auto(qr_train_result_fini) struct qr_train_result result = {0};
    char host[256] = "";
    uint64_t epochs = worker_epochs(w);
    gethostname(host, sizeof host - 1);
    QR_TRY(qr_outputs_open_events(&w->outputs, &w->load, &w->canonical, epochs, host, err));
    if (open_publisher(w, err) != QR_OK || worker_open_progress_reporter(w, err) != QR_OK)
        return err->code;
    w->pool = qr_pool_new(w->load.n_threads);
    if (qr_pool_size(w->pool) < w->load.n_threads)
        qr_warn(&w->log, "worker",
                "computing with %u threads instead of %u: the system allows no more (ulimit -u, "
                "the pod's pids, ulimit -v); the result is the same",
                qr_pool_size(w->pool), w->load.n_threads);
    worker_follow_pod(w);
    const struct qr_train_options opt = {
        .job = w->job,
        .canonical = &w->canonical,
        .data = &w->load.data,
        .model = w->load.model,
        .initial = w->load.initial,
        .resume = resume_state(w),
        .epochs = epochs,
        .pod_ms = w->pod_ms,
        .max_pod_ms = w->max_pod_ms,
        .server = w->identity.role == QR_ROLE_PS,
        .group = w->group,
        .pool = w->pool,
        .clock = &qr_clock_monotonic,
        .log = &w->log,
        .observer = qr_outputs_observer(&w->outputs),
        .reload = worker_reload,
        .reload_ctx = w,
        .ended = worker_ended,
        .anew = w->settings.fresh ? delete_checkpoints : NULL,
        .finish = worker_finish,
        .finish_ctx = w,
        .begins = w->profiler && w->job->profile_first ? qr_profiler_on_reduction : NULL,
        .begins_ctx = w->profiler,
    };
    qr_http_watch(w->http, QR_HTTP_TRAINING, true);
    enum qr_code code = worker_pod_error(w, qr_train_run(&opt, &result, err), err);
    qr_profiler_finish(w->profiler);
    qr_stop_set_short(false);
    qr_http_watch(w->http, QR_HTTP_TRAINING, false);
    qr_debug(&w->log, "worker", "computed %lld micro-batches",
             (long long)qr_counter_value(QR_MICRO_BATCHES));
    if (code != QR_OK) code = publish_before_exit(w, code, err);
    if (code == QR_OK && result.ended_by_peers)
        qr_info(&w->log, "worker", "the others have ended the run, and all outputs are written");
    return code;
}

static enum qr_code worker_run(struct worker *w, int argc, char *const *argv,
                               char *const *environment, struct qr_err *err) {
    QR_TRY(read_settings(w, argc, argv, environment, err));
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    append_text(&w->settings, &text);
    if (text.n) return print_text(w, &text, err);
    QR_TRY(qr_ring_identity(&w->settings, environment, &w->identity, err));
    if (w->settings.print_identity) {
        qr_identity_json(&w->identity, &text);
        qr_buf_puts(&text, "\n");
        return print_text(w, &text, err);
    }
    log_settings(w);
    QR_TRY(qr_settings_price(&w->settings, &w->price, &w->max_pod_ms, err));
    worker_find_progress_target(w, environment);
    struct qr_outputs_options where = qr_results_options(&w->settings, &w->log);
    where.price = w->price;
    where.evaluator = w->identity.role == QR_ROLE_EVALUATOR;
    qr_outputs_init(&w->outputs, &where, w->job->name);
    w->has_outputs = true;
    log_role(w);
    if (where.evaluator) return worker_evaluate(w, err);
    if (w->identity.role != QR_ROLE_SINGLE) QR_TRY(worker_choose_address(w, err));
    QR_TRY(worker_prepare(w, err));
    QR_TRY(find_start(w, err));
    if (w->finished) return QR_OK;
    if (qr_stop_requested())
        return qr_fail(err, QR_CANCELLED, "asked to stop before training began");
    QR_TRY(worker_await_port(w, worker_open_group, err));
    QR_TRY(worker_await_port(w, worker_open_http, err));
    QR_TRY(worker_await_port(w, worker_open_profiler, err));
    return worker_train(w, err);
}

/* ---- the end ---- */

/* Time limits of the end's parts: normally, and after SIGTERM. A library call that takes longer is
 * abandoned (worker/stop.h). */
enum { TERMINATION_LOG, PUBLISHER, REPORTER, GROUP, OUTPUTS, REST };
static const struct qr_stop_part parts[] = {
    [TERMINATION_LOG] = {2 * QR_SECOND, QR_SECOND, "while writing the termination log"},
    [PUBLISHER] = {QR_PUBLISHER_CLOSE_NS + QR_SECOND / 2, QR_PUBLISHER_CLOSE_NS + QR_SECOND / 4,
                   "while closing the checkpoints"},
    [REPORTER] = {2 * QR_SECOND, QR_SECOND, "while sending the last progress report"},
    [GROUP] = {3 * QR_SECOND, QR_SECOND, "while closing the connections"},
    [OUTPUTS] = {QR_OUTPUTS_CLOSE_NS, QR_OUTPUTS_CLOSE_ASKED_NS, "while closing the outputs"},
    [REST] = {2 * QR_SECOND, QR_SECOND / 2, "while cleaning up"},
};

static int worker_exit_code(const struct worker *w, enum qr_code code, bool *ret_asked) {
    *ret_asked =
        code != QR_OK && qr_stop_requested() && (code == QR_CANCELLED || qr_exit_code(code) == 138);
    return *ret_asked ? (int)w->settings.exit_on_drain : qr_exit_code(code);
}

/* Reports the end and decides the exit code. */
static int report_end(struct worker *w, enum qr_code code, const struct qr_err *err) {
    bool asked;
    int exit_code = worker_exit_code(w, code, &asked);
    qr_stop_begin_part(exit_code, &parts[TERMINATION_LOG]);
    if (asked) {
        char words[80];
        qr_termination_log_drained(words, sizeof words);
        qr_info(&w->log, "worker", "%s (%s)", words, err->msg);
        qr_termination_log(words);
    } else if (code != QR_OK) {
        qr_error(&w->log, "worker", "%s", err->msg);
        if (w->has_outputs) qr_outputs_report_error(&w->outputs, err);
        qr_termination_log(err->msg);
    }
    return exit_code;
}

/* False: a thread that hangs in a request was left behind. */
static bool worker_cleanup(struct worker *w, int exit_code) {
    bool ended = true;
    qr_stop_set_group(NULL);
    qr_http_ready(w->http, false);
    qr_http_watch(w->http, QR_HTTP_CONTROL, false);
    qr_stop_begin_part(exit_code, &parts[PUBLISHER]);
    qr_stop_set_publisher(NULL);
    bool gone = qr_publisher_free(w->publisher);
    qr_stop_begin_part(exit_code, &parts[REPORTER]);
    gone =
        qr_progress_reporter_close(w->progress_reporter, exit_code == 0,
                                   qr_stop_requested() ? 3 * QR_SECOND / 4 : 3 * QR_SECOND / 2) &&
        gone;
    qr_stop_begin_part(exit_code, &parts[GROUP]);
    qr_profiler_close(w->profiler);
    qr_group_close(w->group);
    qr_link_tls_free(w->tls);
    worker_unfollow_pod(w);
    qr_pool_free(w->pool);
    qr_stop_begin_part(exit_code, &parts[OUTPUTS]);
    if (w->has_outputs) ended = qr_outputs_fini(&w->outputs);
    qr_stop_begin_part(exit_code, &parts[REST]);
    qr_job_canonical_fini(&w->canonical);
    qr_resume_point_fini(&w->start);
    /* Otherwise its thread may use the model and the job until the process ends. */
    if (gone) qr_workload_fini(&w->load);
    if (gone) qr_progress_target_fini(&w->progress_target);
    qr_identity_fini(&w->identity);
    if (gone) qr_job_free(w->job);
    qr_settings_fini(&w->settings);
    free(w->fields);
    free(w->listen);
    free(w->places);
    qr_http_close(w->http);
    return ended && gone;
}

static __attribute__((noinline)) int worker_work(int argc, char *const *argv,
                                                 char *const *environment, enum qr_code code,
                                                 struct qr_err *err) {
    struct worker w = {.began_ns = qr_now_ns(&qr_clock_monotonic)};
    /* Before gRPC starts; few connections, and nothing to wake up. */
    setenv("GRPC_POLL_STRATEGY", "poll", 0);
    /* No file: otherwise the system's root certificates precede the job's (link_grpc_tls.c). */
    setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "", 1);
    /* A lost DNS query is repeated after 1 s, not 5: for libc and c-ares. */
    setenv("RES_OPTIONS", "timeout:1 attempts:4 retrans:1000 retry:4", 0);
    if (code == QR_OK) code = qr_limits_raise(err);
    if (code == QR_OK) code = qr_stop_start(err);
    /* Until there are weights to write; a bucket may hang before the first step. */
    qr_stop_set_short(true);
    qr_store_configure(environment, qr_stop_requested, &w.log);
    qr_settings_init(&w.settings);
    w.log = make_log(&w.settings);
    if (code == QR_OK) code = worker_run(&w, argc, argv, environment, err);
    int exit_code = report_end(&w, code, err);
    /* That thread may use data that libraries free at exit. */
    if (!worker_cleanup(&w, exit_code)) _exit(exit_code);
    return exit_code;
}

int qr_worker_main(int argc, char *const *argv, char *const *environment) {
    struct qr_err err = {0};
    qr_standard_streams_occupy();
    enum qr_code code = qr_watchdog_install(&err); /* before any deep use of the stack */
    return worker_work(argc, argv, environment, code, &err);
}
