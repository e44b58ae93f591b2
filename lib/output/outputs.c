/* output/outputs.c — checks, writes and reports the files of a run. Start reading at
 * qr_outputs_observer() and qr_outputs_write(). */
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/counter.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "job/record.h"
#include "output/job_file.h"
#include "output/model_graph.h"
#include "output/outputs_impl.h"
#include "store/gcs.h"
#include "version.h" /* QR_VERSION, made from lib/VERSION */

/* The timeout of a bucket, and a margin. */
static const int64_t last_checkpoint_ns = 620 * QR_SECOND;
static const int64_t rest_failed_ns = 2 * QR_SECOND;

/* Folder of a path or file URL; other URLs unchanged, for qr_outputs_check to reject. */
static char *folder_of(const char *out) {
    struct qr_store *store;
    char *path;
    if (qr_url_remote(out)) return qr_xstrdup(out);
    if (qr_store_resolve(out, &store, &path, QR_IGNORED) != QR_OK) return qr_xstrdup(out);
    store->ops->close(store);
    return path;
}

/* The checkpoints of "gs://bucket/dir/w.h5" are in "gs://bucket/dir/w.checkpoints". */
static char *checkpoints_of(const struct qr_outputs *o, const struct qr_outputs_options *opt) {
    if (opt->checkpoints)
        return strcmp(opt->checkpoints, "none") == 0 ? NULL : qr_xstrdup(opt->checkpoints);
    const char *dot = strrchr(o->weights_url, '.');
    if (qr_url_remote(o->weights_url) && dot)
        return qr_xasprintf("%.*s.checkpoints", (int)(dot - o->weights_url), o->weights_url);
    return qr_path_join(o->dir, "checkpoints");
}

void qr_outputs_init(struct qr_outputs *o, const struct qr_outputs_options *opt,
                     const char *job_name) {
    *o = (struct qr_outputs){.price = opt->price,
                             .progress_fd = opt->progress_fd,
                             .stopping = opt->stopping,
                             .evaluator = opt->evaluator,
                             .log = opt->log};
    o->dir = opt->out ? folder_of(opt->out) : qr_path_join("out", job_name);
    if (opt->weights) o->weights_url = qr_xstrdup(opt->weights);
    else if (opt->weights_gcs_bucket)
        o->weights_url = qr_gcs_url(opt->weights_gcs_bucket, opt->weights_gcs_path);
    else o->weights_url = qr_path_join(o->dir, "weights.h5");
    o->checkpoints_url = checkpoints_of(o, opt);
    if (opt->signing_key) o->signing_key_path = qr_xstrdup(opt->signing_key);
    o->dir_was_there = qr_file_exists(o->dir);
    qr_steps_log_init(&o->steps, o->dir);
    qr_previous_run_init(&o->previous, o->dir);
    if (!opt->logdir) return;
    if (qr_url_remote(opt->logdir)) o->logdir_url = qr_xstrdup(opt->logdir);
    o->logdir = o->logdir_url ? qr_path_join(o->dir, "logs") : folder_of(opt->logdir);
    o->logdir_was_there = qr_file_exists(o->logdir);
}

bool qr_outputs_fini(struct qr_outputs *o) {
    struct qr_err err;
    if (qr_steps_log_flush(&o->steps, &err) != QR_OK)
        qr_warn(o->log, "worker", "cannot write %zu lines of %s: %s",
                qr_steps_log_n_pending(&o->steps), o->steps.path, err.msg);
    qr_steps_log_fini(&o->steps);
    qr_tensorboard_close(o->events);
    for (size_t i = 0; i < o->n_hparam_texts; i++) free(o->hparam_texts[i]);
    free(o->hparam_texts);
    bool ended = qr_logdir_close(o->uploads, o->ended_well ? QR_OUTPUTS_UPLOAD_NS : rest_failed_ns);
    if (o->logdir && !o->logdir_was_there) rmdir(o->logdir); /* only if empty */
    qr_run_lock_release(&o->lock);
    free(o->logdir);
    free(o->logdir_url);
    if (o->dir && !o->dir_was_there && !o->wrote) rmdir(o->dir);
    free(o->checkpoints_url);
    free(o->signing_key_path);
    qr_signing_key_free(o->signing_key);
    qr_previous_run_fini(&o->previous);
    free(o->dir);
    free(o->weights_url);
    qr_buf_free(&o->line);
    return ended;
}

/* Rejects URLs with an unknown scheme, which would be taken for paths. */
static enum qr_code check_path(const char *path, struct qr_err *err) {
    struct qr_store *store;
    char *name;
    QR_TRY(qr_store_resolve(path, &store, &name, err));
    store->ops->close(store);
    free(name);
    return QR_OK;
}

/* Files of a run's folder. Those that do not grow are replaced by name. */
static const struct {
    const char *name;
    bool grows;
} files[] = {{"weights.h5", false}, {"weights.safetensors", false}, {"result.json", false},
             {"job.json", false},   {"provenance.json", false},     {"provenance.dsse.json", false},
             {"steps.jsonl", true}, {"evaluation.jsonl", true}};

const char *qr_outputs_file(size_t i) {
    return i < sizeof files / sizeof *files ? files[i].name : NULL;
}

static enum qr_code check_folder(const char *dir, struct qr_err *err) {
    struct stat st;
    if (qr_url_remote(dir))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "cannot write results to %s: --out must be a local folder; --weights "
                       "gs://BUCKET/NAME writes the weights to a bucket",
                       dir);
    QR_TRY(check_path(dir, err));
    QR_TRY(qr_dir_writable(dir, err));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        qr_auto(qr_free_p) char *file = qr_path_join(dir, files[i].name);
        bool directory = lstat(file, &st) == 0 && S_ISDIR(st.st_mode);
        const char *odd = directory        ? "a directory"
                          : files[i].grows ? qr_file_irregular(file)
                                           : NULL;
        if (odd)
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "cannot write %s: it is %s; remove it, or choose another --out", file,
                           odd);
    }
    return QR_OK;
}

enum qr_code qr_outputs_check_folders(struct qr_outputs *o, struct qr_err *err) {
    if (check_folder(o->dir, err) != QR_OK) return qr_wrap(err, "results (--out, --weights)");
    if (o->logdir && check_path(o->logdir, err) != QR_OK) return qr_wrap(err, "--logdir");
    if (o->logdir && qr_dir_writable(o->logdir, err) != QR_OK)
        return qr_wrap(err, "TensorBoard events (--logdir)");
    return QR_OK;
}

/* An existing file or link is replaced by name; other kinds of files may be in use by other
 * programs. */
static enum qr_code check_replaceable(const char *path, struct qr_err *err) {
    struct stat st;
    if (lstat(path, &st) != 0 || S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "cannot write %s: it is %s; remove it, or choose another name", path,
                   qr_file_irregular(path));
}

static enum qr_code check_weights(const char *url, struct qr_err *err) {
    enum qr_weights_format format;
    qr_auto(qr_store_close_p) struct qr_store *store = NULL;
    qr_auto(qr_free_p) char *name = NULL;
    QR_TRY(qr_weights_format_of(url, &format, err));
    QR_TRY(qr_store_resolve(url, &store, &name, err));
    if (!qr_url_remote(url)) QR_TRY(check_replaceable(name, err));
    return store->ops->check_writable(store, name, err);
}

enum qr_code qr_outputs_check_weights(struct qr_outputs *o, struct qr_err *err) {
    if (check_weights(o->weights_url, err) == QR_OK) return QR_OK;
    return qr_wrap(err, "trained weights (--weights)");
}

static enum qr_code check_checkpoints(const char *url, struct qr_err *err) {
    qr_auto(qr_checkpoint_folder_close) struct qr_checkpoint_folder p = {0};
    struct stat st;
    QR_TRY(qr_checkpoint_folder_open(url, &p, err));
    QR_TRY(p.at.store->ops->check_writable(p.at.store, p.dir, err));
    if (qr_url_remote(p.url) || stat(p.dir, &st) != 0 || S_ISDIR(st.st_mode)) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "cannot create the folder %s: it is a file; remove it, or choose another folder",
                   p.dir);
}

enum qr_code qr_outputs_check_checkpoints(struct qr_outputs *o, struct qr_err *err) {
    if (!o->checkpoints_url || check_checkpoints(o->checkpoints_url, err) == QR_OK) return QR_OK;
    return qr_wrap(err, "checkpoints (--checkpoints)");
}

char *qr_outputs_earlier_checkpoints(const struct qr_outputs *o) {
    return o->checkpoints_url ? qr_xstrdup(o->checkpoints_url)
                              : qr_path_join(o->dir, "checkpoints");
}

enum qr_code qr_outputs_check_logdir(struct qr_outputs *o, struct qr_err *err) {
    return o->logdir_url ? qr_logdir_check(o->logdir_url, err) : QR_OK;
}

enum qr_code qr_outputs_check_key(struct qr_outputs *o, struct qr_err *err) {
    if (!o->signing_key_path || o->signing_key) return QR_OK;
    if (qr_signing_key_read(o->signing_key_path, &o->signing_key, err) == QR_OK) return QR_OK;
    return qr_wrap(err, "--signing-key");
}

enum qr_code qr_outputs_check(struct qr_outputs *o, struct qr_err *err) {
    enum qr_weights_format format;
    /* Before any folder is created. */
    if (qr_weights_format_of(o->weights_url, &format, err) != QR_OK)
        return qr_wrap(err, "results (--out, --weights)");
    QR_TRY(qr_outputs_check_key(o, err));
    QR_TRY(qr_outputs_check_folders(o, err));
    QR_TRY(qr_outputs_check_weights(o, err));
    QR_TRY(qr_outputs_check_checkpoints(o, err));
    return qr_outputs_check_logdir(o, err);
}

static enum qr_code check_not_named(const struct qr_job *job, const char *url, struct qr_err *err) {
    if (!qr_job_names_file(job, url)) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "cannot write %s: the job reads this file, and the run replaces or deletes it; "
                   "choose another --out, --weights or --checkpoints, or copy the file",
                   url);
}

enum qr_code qr_outputs_check_inputs(struct qr_outputs *o, const struct qr_job *job,
                                     struct qr_err *err) {
    QR_TRY(check_not_named(job, o->weights_url, err));
    for (size_t i = 0; qr_outputs_file(i); i++) {
        qr_auto(qr_free_p) char *file = qr_path_join(o->dir, qr_outputs_file(i));
        QR_TRY(check_not_named(job, file, err));
    }
    const char *folder = o->checkpoints_url ? qr_url_local_path(o->checkpoints_url) : NULL;
    DIR *d = folder ? opendir(folder) : NULL;
    enum qr_code code = QR_OK;
    for (const struct dirent *e; d && code == QR_OK && (e = readdir(d));) {
        qr_auto(qr_free_p) char *file = qr_path_join(folder, e->d_name);
        code = check_not_named(job, file, err);
    }
    if (d) closedir(d);
    return code;
}

enum qr_code qr_outputs_lock(struct qr_outputs *o, const char *job_name,
                             const struct qr_identity *id, struct qr_err *err) {
    const struct qr_run_lock_options opt = {.dir = o->dir,
                                            .job = job_name,
                                            .peers = id ? (const char *const *)id->peers : NULL,
                                            .n_peers = id ? id->n_peers : 0,
                                            .patience_ns = 3 * QR_SECOND,
                                            .log = o->log};
    return qr_run_lock_take(&opt, &o->lock, err) == QR_OK ? QR_OK : qr_wrap(err, "results (--out)");
}

/* ---- callbacks of training ---- */

/* A failure of TensorBoard events is a warning and does not stop training. */
static void write_step_events(struct qr_outputs *o, const struct qr_step_line *line,
                              const struct qr_step_detail *detail) {
    struct qr_err err;
    struct qr_step_detail with_cost = *detail;
    with_cost.cost = qr_cost_money(&o->price, detail->pod_ms);
    if (!o->events || qr_tensorboard_step(o->events, line, &with_cost, &err) == QR_OK) return;
    qr_count(QR_STORE_PUT_ERRORS, 1);
    qr_warn(o->log, "worker", "stopped writing TensorBoard events: %s", err.msg);
    qr_tensorboard_close(o->events);
    o->events = NULL;
}

/* Pending lines do not stop training unless they exceed their memory limit. code, err: result of
 * the last attempt. */
static enum qr_code check_log_backlog(struct qr_outputs *o, enum qr_code code, struct qr_err *err) {
    struct qr_steps_log *l = &o->steps;
    if (code != QR_OK) qr_count(QR_STORE_PUT_ERRORS, 1);
    if (code != QR_OK && !o->log_behind)
        qr_warn(o->log, "worker",
                "%s; training continues, the lines are kept in memory and the write is retried; no "
                "later checkpoint is published until it succeeds",
                err->msg);
    if (o->log_behind && !qr_steps_log_pending(l))
        qr_info(o->log, "worker", "writing %s succeeds again", l->path);
    o->log_behind = qr_steps_log_pending(l);
    if (l->lacks_before && !o->log_behind)
        qr_warn(o->log, "worker",
                "%s lacks lines: it continues with step %llu after step %llu (an earlier worker "
                "published a checkpoint and could not write them)",
                l->path, (unsigned long long)l->lacks_before / 2,
                (unsigned long long)l->lacks_after / 2);
    if (!o->log_behind) l->lacks_before = 0;
    if (!l->full) return QR_OK;
    return qr_fail(err, QR_RESOURCE_EXHAUSTED,
                   "%s; %zu lines are kept in memory, which is the limit; free disk space, then "
                   "start again to resume from the last checkpoint",
                   l->why.msg, qr_steps_log_n_pending(l));
}

enum qr_code qr_outputs_flush(struct qr_outputs *o, struct qr_err *err) {
    QR_TRY(qr_steps_log_flush(&o->steps, err));
    if (o->leader) qr_publisher_logged(o->publisher);
    return QR_OK;
}

static enum qr_code on_committed(void *ctx, bool leader, struct qr_state *state,
                                 struct qr_err *err) {
    struct qr_outputs *o = ctx;
    if (!o->publisher) return QR_OK;
    /* Other members do not know what the leader has written, except when they leave:
     * on_reported(). */
    bool logged = leader && !qr_steps_log_pending(&o->steps);
    return qr_publisher_committed(o->publisher, leader, logged, state, err);
}

/* A failure is a warning and does not stop training; retried at the end. */
static void write_job_once(struct qr_outputs *o) {
    struct qr_err err;
    if (o->wrote_job || !o->job) return;
    o->wrote_job = true;
    if (qr_job_file_write(o->dir, o->job, o->epochs, &err) == QR_OK) return;
    qr_count(QR_STORE_PUT_ERRORS, 1);
    qr_warn(o->log, "worker", "%s; training continues, and the write is retried at the end",
            err.msg);
}

static enum qr_code begin_run(struct qr_outputs *o, struct qr_err *err) {
    return qr_previous_run_replace(&o->previous, &o->steps, o->job, o->epochs, err);
}

static enum qr_code on_joined(void *ctx, const struct qr_group_view *view, uint64_t epochs,
                              bool fresh, struct qr_err *err) {
    struct qr_outputs *o = ctx;
    o->leader = view->rank == 0;
    o->epochs = epochs;
    if (o->publisher) qr_publisher_set_epochs(o->publisher, epochs);
    if (o->events) qr_tensorboard_set_number(o->events, "epochs", (double)epochs);
    /* Members that do not lead begin in on_step(), after the leader has: OUT may be shared. */
    return fresh && o->leader ? begin_run(o, err) : QR_OK;
}

static enum qr_code on_step(void *ctx, bool leader, const struct qr_step_line *line,
                            const struct qr_step_detail *detail, struct qr_err *err) {
    struct qr_outputs *o = ctx;
    bool continues = false;
    o->leader = leader;
    if (line->step == 1 && !line->eval && begin_run(o, err) != QR_OK) return err->code;
    qr_gauge_real(QR_POD_SECONDS, (double)detail->pod_ms / 1e3);
    qr_gauge_real(QR_COST, qr_cost_money(&o->price, detail->pod_ms));
    if (o->progress_reporter) {
        qr_progress_snapshot_add(&o->snapshot, line, detail);
        o->snapshot.epochs = o->epochs;
        qr_progress_reporter_update(o->progress_reporter, leader, &o->snapshot);
    }
    if (!leader) return QR_OK;
    o->wrote = true;
    if (line->step == 1 && !line->eval) write_job_once(o);
    write_step_events(o, line, detail);
    enum qr_code code =
        qr_steps_log_write(&o->steps, line, detail->before, detail->n_before, &continues, err);
    code = check_log_backlog(o, code, err);
    /* When a run goes on after its result, job.json changes after steps.jsonl: `qring verify` then
     * knows why job.json is not that of the result. */
    if (!qr_steps_log_pending(&o->steps)) write_job_once(o);
    if (continues)
        qr_info(o->log, "worker", "continuing steps.jsonl from step %llu",
                (unsigned long long)line->step);
    return code;
}

static enum qr_code on_reported(void *ctx, bool leader, const struct qr_step_line *line, size_t n,
                                struct qr_err *err) {
    struct qr_outputs *o = ctx;
    bool continues = false;
    if (!leader) {
        /* OUT is local and this worker never led: no lines are missing there. */
        bool apart = access(o->steps.path, F_OK) != 0;
        enum qr_code left = apart ? QR_OK : qr_steps_log_write_leaving(&o->steps, line, n, err);
        if (left == QR_OK) qr_publisher_logged(o->publisher);
        return left;
    }
    enum qr_code code = qr_steps_log_write(&o->steps, &line[n - 1], line, n - 1, &continues, err);
    code = check_log_backlog(o, code, err);
    if (continues)
        qr_info(o->log, "worker", "continuing steps.jsonl from step %llu",
                (unsigned long long)line[n - 1].step);
    return code;
}

/* A value as it was set, strings without their quotes. Heap. */
static char *unquote(const char *value) {
    qr_auto(qr_json_free_p) struct qr_json *v = NULL;
    bool known = qr_json_parse(qr_bytes_of_string(value), "value", &v, QR_IGNORED) == QR_OK;
    return qr_xstrdup(known ? qr_json_text(v, value) : value);
}

/* Adds the keys set outside the job file, in which the trials of a sweep differ; the last of two
 * values for one key counts. owned: two texts for each. */
static size_t add_set(const struct qr_job *job, struct qr_hparam *h, size_t n, char **owned) {
    for (size_t i = 0; i < job->n_set && n < QR_HPARAMS_MAX; i++) {
        size_t length = strcspn(job->set[i], "="), k = 0;
        char *name = owned[2 * i] = qr_xstrndup(job->set[i], length);
        char *value = owned[2 * i + 1] = unquote(job->set[i] + length + 1);
        while (k < n && strcmp(h[k].name, name) != 0) k++;
        h[k] = (struct qr_hparam){.name = name, .text = value};
        if (qr_parse_double(value, &h[k].number)) h[k].text = NULL;
        n += k == n;
    }
    return n;
}

enum qr_code qr_outputs_open_events(struct qr_outputs *o, const struct qr_workload *w,
                                    const struct qr_job_canonical *canonical, uint64_t epochs,
                                    const char *host, struct qr_err *err) {
    const struct qr_job *job = o->job = w->job;
    if (!o->logdir) return QR_OK;
    const struct qr_logdir_options up = {
        .url = o->logdir_url, .folder = o->logdir, .stopping = o->stopping, .log = o->log};
    if (o->logdir_url && qr_logdir_open(&up, &o->uploads, err) != QR_OK) return err->code;
    size_t first = qr_job_quantum(job, 0);
    const struct qr_quantum_options *quantum =
        first < job->n_layers ? &job->layers[first].quantum : NULL;
    struct qr_hparam hparams[QR_HPARAMS_MAX] = {
        {.name = "optimizer", .text = qr_optimizer_names[job->train.optimizer.kind]},
        {.name = "learning_rate", .number = job->train.optimizer.learning_rate},
        {.name = "batch_size", .number = (double)job->train.batch_size},
        {.name = "epochs", .number = (double)epochs},
        {.name = "loss_function", .text = qr_loss_names[job->train.loss]},
        {.name = "seed", .number = (double)job->seed},
        {.name = "parameters", .number = (double)qr_model_n_params(w->model)},
        {.name = "precision", .text = job->precision == QR_DOUBLE ? "double" : "single"},
        {.name = "filters", .number = quantum ? quantum->n_filters : 0},
        {.name = "qubits", .number = quantum ? quantum->circuit->n_qubits : 0},
    };
    o->hparam_texts = qr_xcalloc(2 * job->n_set + 1, sizeof *o->hparam_texts);
    o->n_hparam_texts = 2 * job->n_set;
    qr_auto(qr_buf_free) struct qr_buf graph = {0};
    qr_model_graph(job, w->model, &graph);
    const struct qr_tensorboard_options opt = {
        .logdir = o->logdir,
        .host = host,
        .pid = (long)getpid(),
        .layout = &w->layout,
        .graph = qr_buf_view(&graph),
        .hparams = hparams,
        .n_hparams = add_set(job, hparams, quantum ? 10 : 8, o->hparam_texts),
        .group = canonical->hex,
        .has_validation = qr_workload_evaluates(w),
        .evaluator = o->evaluator,
        .max_file_bytes = o->uploads ? QR_LOGDIR_FILE_BYTES : 0,
        .wrote = o->uploads ? qr_logdir_wrote : NULL,
        .wrote_ctx = o->uploads,
        .monotonic = &qr_clock_monotonic,
        .wall = &qr_clock_wall,
    };
    o->events = qr_tensorboard_new(&opt);
    return QR_OK;
}

void qr_outputs_evaluated(struct qr_outputs *o, bool anew, const struct qr_step_line *line,
                          const struct qr_step_detail *detail) {
    o->wrote = true;
    if (o->events && anew) qr_tensorboard_restart(o->events);
    write_step_events(o, line, detail);
}

void qr_outputs_wrote(void *outputs, const char *name, size_t bytes) {
    struct qr_outputs *o = outputs;
    if (o->uploads) qr_logdir_wrote(o->uploads, name, bytes);
}

struct qr_train_observer qr_outputs_observer(struct qr_outputs *o) {
    return (struct qr_train_observer){.ctx = o,
                                      .joined = on_joined,
                                      .step = on_step,
                                      .reported = on_reported,
                                      .committed = on_committed,
                                      .progress = outputs_on_progress,
                                      .epoch = outputs_on_epoch};
}

void qr_outputs_report_listening(struct qr_outputs *o, unsigned port) {
    if (o->progress_fd < 0) return;
    struct qr_json_writer w = outputs_line(o, "listening");
    outputs_put_u64(&w, "port", port);
    qr_json_close(&w, '}');
    outputs_emit(o, READER_WITHIN_MS);
}

void qr_outputs_report_error(struct qr_outputs *o, const struct qr_err *err) {
    if (o->progress_fd < 0) return;
    struct qr_json_writer w = outputs_line(o, "error");
    outputs_put_u64(&w, "code", err->code);
    qr_json_key_string(&w, "message", err->msg);
    qr_json_close(&w, '}');
    outputs_emit_last(o);
}

/* ---- end of the run ---- */

static enum qr_code write_weights(const char *url, const struct qr_workload *w,
                                  const double *params, char ret_sha256[65], struct qr_err *err) {
    enum qr_weights_format format;
    uint8_t digest[QR_SHA256_BYTES];
    qr_auto(qr_buf_free) struct qr_buf file = {0};
    const struct qr_data_names names = qr_dataset_data_names(&w->data);
    QR_TRY(qr_weights_format_of(url, &format, err));
    QR_TRY(qr_weights_encode(format, &w->layout, params, &names, &file, err));
    QR_TRY(qr_url_write(url, qr_buf_view(&file), err));
    qr_sha256(file.p, file.n, digest);
    qr_hex(digest, sizeof digest, ret_sha256);
    return QR_OK;
}

static void report_done(struct qr_outputs *o, const struct qr_workload *w,
                        const struct qr_train_result *r, const char *safetensors,
                        const char *result) {
    const char *const wrote[] = {o->weights_url, safetensors, result};
    if (r->has_val)
        qr_info(o->log, "worker", "done: %llu steps, loss %s, val_loss %s, state_digest %s",
                (unsigned long long)r->steps, qr_text_number(r->loss).s,
                qr_text_number(r->val_loss).s, r->state_digest);
    else
        qr_info(o->log, "worker", "done: %llu steps, loss %s, state_digest %s",
                (unsigned long long)r->steps, qr_text_number(r->loss).s, r->state_digest);
    qr_auto(qr_free_p) char *stopped =
        r->stopped_early ? outputs_why_stopped(&w->job->train, r, o->epochs) : NULL;
    qr_auto(qr_free_p) char *best = outputs_best_text(&w->job->train.early_stopping, r);
    if (stopped) qr_info(o->log, "worker", "%s", stopped);
    if (best) qr_info(o->log, "worker", "%s", best);
    qr_info(o->log, "worker", "wrote %s, %s, %s and %s/steps.jsonl", o->weights_url, safetensors,
            result, o->dir);
    qr_buf_clear(&o->line);
    qr_cost_text(&o->price, r->pod_ms, &o->line);
    if (o->price.per_pod_hour > 0)
        qr_info(o->log, "worker", "cost of the run: %s", qr_buf_string(&o->line));
    const char *curves = o->logdir_url ? o->logdir_url : o->logdir;
    if (o->events) qr_info(o->log, "worker", "to see the curves: tensorboard --logdir %s", curves);
    if (o->progress_fd < 0) return;
    struct qr_json_writer j = outputs_line(o, "done");
    size_t n;
    qr_auto(qr_free_p) struct qr_named_value *values = outputs_values(r, &n);
    qr_named_values_json(&j, "values", values, n);
    qr_json_key_string(&j, "state_digest", r->state_digest);
    qr_auto(qr_free_p) char *confusion = r->confusion.n ? outputs_confusion_text(r) : NULL;
    if (confusion) qr_json_key_string(&j, "confusion", confusion);
    qr_json_key_bool(&j, "stopped_early", r->stopped_early);
    if (stopped) qr_json_key_string(&j, "stopped", stopped);
    if (best) qr_json_key_string(&j, "best", best);
    qr_json_key_open(&j, "wrote", '[');
    for (size_t i = 0; i < 3; i++) qr_json_put_string(&j, wrote[i]);
    qr_auto(qr_free_p) char *steps = qr_path_join(o->dir, "steps.jsonl");
    qr_json_put_string(&j, steps);
    if (o->events) qr_json_put_string(&j, curves);
    qr_json_close(&j, ']');
    qr_json_close(&j, '}');
    outputs_emit_last(o);
}

/* Cost for result.json. */
struct result_cost {
    const struct qr_price *price;
    uint64_t pod_ms;
};
static void put_cost(const void *ctx, struct qr_json_writer *w) {
    const struct result_cost *c = ctx;
    qr_cost_json(c->price, c->pod_ms, w);
}

/* The last report and HParams have the values of the weights that are written. */
static void report_values(struct qr_outputs *o, const struct qr_train_result *r) {
    struct qr_err err;
    size_t n = 0;
    bool other = r->evaluated_at_end || (r->restored && r->best_epoch != r->epochs);
    qr_auto(qr_free_p) struct qr_named_value *values = outputs_values(r, &n);
    qr_progress_snapshot_end(&o->snapshot, values, n - r->n_logged);
    if (o->progress_reporter) qr_progress_reporter_update(o->progress_reporter, true, &o->snapshot);
    if (o->events && qr_tensorboard_success(o->events, r->epochs, values,
                                            other ? n - r->n_logged : 0, &err) != QR_OK)
        qr_warn(o->log, "worker", "cannot write TensorBoard events: %s", err.msg);
}

enum qr_code qr_outputs_write(struct qr_outputs *o, const struct qr_workload *w,
                              const struct qr_job_canonical *canonical,
                              const struct qr_train_result *r, uint32_t n_workers, double seconds,
                              struct qr_err *err) {
    qr_auto(qr_free_p) char *safetensors = qr_path_join(o->dir, "weights.safetensors"),
                            *path = qr_path_join(o->dir, "result.json");
    char sha256[65] = "", safetensors_sha256[65] = "", data_hash[65];
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    o->wrote = true;
    if (write_weights(safetensors, w, r->params, safetensors_sha256, err) != QR_OK ||
        write_weights(o->weights_url, w, r->params, sha256, err) != QR_OK)
        return qr_wrap(err, "cannot write the trained weights");
    qr_auto(qr_free_p) char *location = outputs_weights_location(o);
    const struct result_cost cost = {&o->price, r->pod_ms};
    struct qr_result result = qr_train_result_record(r, w, canonical, data_hash);
    result.program = QR_VERSION;
    result.weights_url = location;
    result.weights_sha256 = sha256;
    result.safetensors_sha256 = safetensors_sha256;
    result.workers = n_workers;
    result.seconds = seconds;
    result.cost = put_cost;
    result.cost_ctx = &cost;
    qr_result_json(&result, &text);
    QR_TRY(qr_job_file_write(o->dir, w->job, o->epochs, err));
    QR_TRY(qr_outputs_flush(o, err));
    QR_TRY(outputs_write_provenance(o, &result, qr_buf_view(&text), canonical, err));
    QR_TRY(qr_file_replace(path, qr_buf_view(&text), err));
    report_values(o, r);
    if (o->publisher) QR_TRY(qr_publisher_finish(o->publisher, true, last_checkpoint_ns, err));
    report_done(o, w, r, safetensors, path);
    o->ended_well = true;
    return QR_OK;
}
