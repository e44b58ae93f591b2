/* cmd/qring/run.c — qring run: starts workers on this machine and reports their progress. Start
 * reading at run_start(). */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "cmd/qring/command.h"
#include "data/batch.h"
#include "local/processes.h"
#include "local/progress_bar.h"
#include "output/run_checkpoints.h"
#include "worker/results.h"
#include "worker/settings.h"
#include "worker/tls.h"

const char qr_help_run[] =
    "Trains a job on this machine with N worker processes, which communicate over loopback as "
    "pods\n"
    "do over a network. The weights are identical for every N.\n"
    "\n"
    "Examples:\n"
    "  qring run                                          # the tutorial, one worker, into "
    "out/qcnn\n"
    "  qring run deploy/jobs/qcnn.json -n 2 --out /tmp/q  # two workers: the same weights\n"
    "  qring run job.json -n 4 --epochs 5 --allreduce ring --isa portable\n"
    "  for s in 1 2 3; do qring run --seed $s --set train.optimizer.learning_rate=0.01 --out "
    "out/$s; done\n"
    "\n"
    "Usage: qring run [JOB] [FLAGS]\n"
    "  -n N                   number of workers [1]\n"
    "  --out DIR              folder for the results [out/NAME]: weights.h5, weights.safetensors,\n"
    "                         result.json, job.json, steps.jsonl, checkpoints and worker-<i>.log\n"
    "  --checkpoints URL      folder of the checkpoints [OUT/checkpoints], from which the same "
    "command\n"
    "                         resumes; none for no checkpoints\n"
    "  --fresh                delete existing checkpoints and the earlier run in OUT, and start "
    "over\n"
    "  --logdir URL           TensorBoard event files [OUT/logs], in a folder, gs:// or s3://; '' "
    "for none\n"
    "  --epochs E             number of epochs [the job's]\n"
    "  --set PATH=VALUE       set a key of the job, repeatable: --set train.epochs=5 --set "
    "'model[1].units=8'\n"
    "  --seed N               random seed, as --set seed=N\n"
    "  --threads T            threads of each worker [the available CPUs divided by workers]\n"
    "  --isa NAME             kernels [auto]: auto, portable, avx2, avx512 or neon; all give the "
    "same bits\n"
    "  --plaintext            no TLS between the workers [TLS with certificates made for this "
    "run]\n"
    "  --http-port PORT       probes and metrics of worker i on PORT + i [0: none]\n"
    "  --profiler-port PORT   TensorBoard's \"Capture profile\" of worker i on PORT + i [0: none]\n"
    "  --restart              restart a worker that exits; it joins the others while they train\n"
    "  --quiet                print only errors, and with --json the result (-q)\n"
    "  --json                 print result.json on standard output, progress on standard error\n"
    "  and every flag of qringd (qringd --help), for all workers, except those of index, "
    "peers,\n"
    "  role, control port and its address.\n"
    "\n"
    "Ctrl-C stops all workers after a checkpoint and exits with 130; a second Ctrl-C stops them "
    "at\n"
    "once. SIGTERM does the same and exits with 143 (--exit-on-drain). When a worker exits early, "
    "the\n"
    "others finish with the same result; when all do, this command exits with 138. A permanent "
    "error\n"
    "ends the run with its own code.\n";

enum { MAX_FLAGS = 256, MAX_OWN_FLAGS = 32 };

struct run_command {
    struct qr_settings settings;
    unsigned n_workers, n_threads, http_port, profiler_port;
    bool json, quiet, help, restart, trained, tls; /* tls: with certificates made for this run */
    bool interrupted;                              /* by Ctrl-C */
    char *arguments[MAX_FLAGS + MAX_OWN_FLAGS];
    size_t n_arguments;
    struct qr_job *job;
    char *out;
    struct qr_run_lock lock; /* on out, for this command and its workers */
    enum qr_isa isa;
    FILE *text_out; /* for the table and the progress bar */
    struct qr_progress progress;
    struct qr_buf wrote;
    bool done;
    struct qr_buf stopped;   /* why training ended before its last epoch; empty: it did not */
    struct qr_buf best;      /* best epoch of early stopping; empty: none */
    struct qr_buf values;    /* loss and metrics of the weights that are written */
    struct qr_buf confusion; /* confusion matrix; empty: none */
    char digest[33];
};

static void add_argument(struct run_command *r, char *argument) {
    QR_ASSERT(r->n_arguments < sizeof r->arguments / sizeof *r->arguments);
    r->arguments[r->n_arguments++] = argument;
}

/* ---- arguments ---- */

bool qr_run_rejects(const char *name) {
    static const char *const ours[] = {
        "index",   "peers",       "peer-template",  "replicas",
        "port",    "bind",        "print-identity", "print-settings",
        "version", "progress-fd", "lock-fd",        "parameter-servers",
        "role"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (strcmp(name, ours[i]) == 0) return true;
    return false;
}

static enum qr_code worker_flag(void *run, const char *name, const char *value,
                                struct qr_err *err) {
    struct run_command *r = run;
    if (qr_run_rejects(name))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--%s is not supported by qring run, which assigns each worker its "
                       "identity; use qringd",
                       name);
    enum qr_code code = qr_settings_set(&r->settings, name, value, err);
    if (strcmp(name, "fresh") == 0) return code; /* not passed on to restarted workers */
    if (strcmp(name, "http-port") == 0)
        r->http_port =
            code == QR_OK && r->settings.http_port > 0 ? (unsigned)r->settings.http_port : 0;
    else if (strcmp(name, "profiler-port") == 0)
        r->profiler_port = code == QR_OK && r->settings.profiler_port > 0
                               ? (unsigned)r->settings.profiler_port
                               : 0;
    else if (code == QR_OK && r->n_arguments == MAX_FLAGS)
        code = qr_fail(err, QR_INVALID_ARGUMENT, "more than %d flags; write a job file", MAX_FLAGS);
    else if (code == QR_OK) add_argument(r, qr_xasprintf("--%s=%s", name, value));
    return code;
}

static enum qr_code read_arguments(struct run_command *r, int argc, char **argv,
                                   struct qr_err *err) {
    const char *n_workers = NULL;
    const struct qr_flag flags[] = {{"-n", &n_workers, NULL},
                                    {"--json", NULL, &r->json},
                                    {"--quiet", NULL, &r->quiet},
                                    {"-q", NULL, &r->quiet},
                                    {"--restart", NULL, &r->restart}};
    const struct qr_flag_reader reader = {.flags = flags,
                                          .n_flags = sizeof flags / sizeof *flags,
                                          .setting = worker_flag,
                                          .context = r,
                                          .max_words = 1};
    struct qr_words words;
    QR_TRY(qr_read_arguments(argc, argv, &reader, &words, &r->help, err));
    if (words.n) r->settings.job = qr_xstrdup(words.v[0]);
    return qr_parse_workers(n_workers, &r->n_workers, err);
}

/* ---- before workers start ---- */

static bool takes_input(const struct run_command *r) {
    return r->settings.job && strcmp(r->settings.job, "-") == 0;
}

/* Copies standard input to a memory file: a pipe can be read only once, but each worker reads the
 * job. */
static enum qr_code copy_stdin_job(struct qr_err *err) {
    enum { MAX_BYTES = 64 << 20 };
    static const char cannot[] = "cannot keep the job from standard input";
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    qr_auto(qr_close_p) int fd = memfd_create("job", MFD_CLOEXEC);
    if (fd < 0) return qr_fail_errno(err, errno, cannot);
    QR_TRY(qr_input_read(MAX_BYTES, &text, err));
    for (size_t at = 0; at < text.n;) {
        ssize_t n = write(fd, text.p + at, text.n - at);
        if (n > 0) at += (size_t)n;
        else if (errno != EINTR) return qr_fail_errno(err, errno, cannot);
    }
    if (lseek(fd, 0, SEEK_SET) != 0 || dup2(fd, STDIN_FILENO) < 0)
        return qr_fail_errno(err, errno, cannot);
    return QR_OK;
}

/* Reports the checkpoint of an earlier run, from which training resumes or which is the result, or
 * that the earlier run may not be replaced. */
static enum qr_code load_checkpoint(struct run_command *r, const struct qr_outputs *outputs,
                                    const struct qr_workload *load, struct qr_err *err) {
    uint64_t epochs = r->settings.epochs > 0 ? (uint64_t)r->settings.epochs : r->job->train.epochs;
    unsigned long long planned =
        epochs * qr_batch_count(load->data.n_train, r->job->train.batch_size);
    qr_auto(qr_free_p) char *url = qr_outputs_earlier_checkpoints(outputs);
    struct qr_resume_point start;
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    if (!outputs->checkpoints_url)
        return qr_run_checkpoints_check_earlier(url, outputs->dir, load, epochs, err);
    enum qr_code code = qr_run_checkpoints_load(url, outputs->dir, load, epochs, &start, err);
    unsigned long long step = start.state.step, epoch = start.state.epoch;
    qr_run_checkpoints_warn(&start.notes, qr_command_log());
    if (code == QR_OK && start.differs.n)
        fprintf(r->text_out, "%s\n", qr_buf_string(&start.differs));
    if (start.found == QR_FOUND_STATE)
        qr_buf_printf(
            &text,
            "resuming from step %llu of %llu, %llu epochs finished (%s; --fresh starts over)\n",
            step, planned, epoch, url);
    r->trained = start.found == QR_FOUND_DONE;
    if (r->trained)
        qr_buf_printf(
            &text, "already trained: %llu steps, %llu epochs, weights in %s; --fresh starts over\n",
            step, epoch, outputs->weights_url);
    qr_print_escaped(r->text_out, qr_buf_string(&text));
    qr_resume_point_fini(&start);
    return code;
}

/* Each worker checks its own memory; this checks the sum. Code and libraries count once. */
static enum qr_code check_memory_of_workers(const struct run_command *r,
                                            const struct qr_workload *load, struct qr_err *err) {
    const struct qr_memory_process process = {
        .threads = r->n_threads, .workers = r->n_workers, .tls = r->tls, .hdf5 = true};
    const struct qr_memory_estimate one = qr_workload_memory(load, &process);
    uint64_t need = one.total, available = qr_memory_available_under("", qr_memory_limit_bytes());
    for (unsigned i = 1; i < r->n_workers && need <= available; i++)
        need += one.follower > one.process ? one.follower - one.process : 0;
    if (need <= available) return QR_OK;
    return qr_fail(err, QR_UNAVAILABLE,
                   "%u workers need more than the %llu bytes that are available now (each %llu, of "
                   "which %llu for data and %llu for workspaces); use fewer workers (-n), fewer "
                   "--threads or a smaller job, or stop other programs",
                   r->n_workers, (unsigned long long)available, (unsigned long long)one.total,
                   (unsigned long long)one.data, (unsigned long long)one.workspaces);
}

static enum qr_code load_job(struct run_command *r, struct qr_err *err) {
    struct qr_settings *s = &r->settings;
    QR_TRY(qr_read_environment(s, err));
    if (takes_input(r)) QR_TRY(copy_stdin_job(err));
    bool given = qr_tls_given(s); /* certificates in the job file are for a cluster */
    QR_TRY(qr_settings_load_job(s, NULL, NULL, &r->job, err));
    r->tls = !given && !s->plaintext && r->n_workers > 1;
    QR_TRY(qr_settings_check(s, err));
    QR_TRY(qr_isa_parse(s->isa, &r->isa, err));
    unsigned share = qr_cpu_limit() / r->n_workers;
    r->n_threads = s->threads > 0 ? (unsigned)s->threads : share ? share : 1;
    return QR_OK;
}

static void warn_of_job(const struct run_command *r, const struct qr_dataset *data) {
    struct qr_job_warnings warnings;
    qr_job_warnings(r->job, data, &warnings);
    for (size_t i = 0; i < warnings.n; i++)
        qr_warn(qr_command_log(), "qring", "%s", warnings.sentence[i]);
    qr_job_warnings_fini(&warnings);
    if (r->job->sweep)
        qr_warn(qr_command_log(), "qring",
                "the job has a sweep, which qring run ignores; qring sweep trains its trials");
}

static void print_plan(const struct run_command *r, const struct qr_workload *load) {
    const struct qr_settings *s = &r->settings;
    const struct qr_dataset *data = &load->data;
    struct qr_buf text = {0};
    qr_model_table(load->model, r->job, &text);
    fprintf(r->text_out, "%s%zu training samples, %zu validation samples\n", qr_buf_string(&text),
            data->n_train, data->n_samples - data->n_train);
    qr_buf_clear(&text);
    qr_job_put_inputs(r->job, data, &text);
    if (text.n) fprintf(r->text_out, "inputs: %s\n", qr_buf_string(&text));
    qr_buf_clear(&text);
    qr_job_put_classes(r->job, data, &text);
    if (text.n) fprintf(r->text_out, "classes: %s\n", qr_buf_string(&text));
    qr_buf_clear(&text);
    qr_overrides_put(&s->set, &text);
    if (text.n) fprintf(r->text_out, "set: %s\n", qr_buf_string(&text));
    fprintf(r->text_out, "%u worker%s, %u thread%s each, %s kernels, all-reduce %s%s\n",
            r->n_workers, r->n_workers == 1 ? "" : "s", r->n_threads, r->n_threads == 1 ? "" : "s",
            qr_isa_name(r->isa), r->n_workers == 1 ? "none" : s->allreduce,
            r->n_workers == 1 ? ""
            : s->plaintext    ? ", plaintext"
                              : ", TLS");
    qr_buf_free(&text);
}

/* The job.json that a run writes has the values of --set and no sweep: it replaces that of an
 * earlier run only. */
static enum qr_code check_job_file(const struct run_command *r, struct qr_err *err) {
    const char *given = r->settings.job ? qr_url_local_path(r->settings.job) : NULL;
    qr_auto(qr_free_p) char *path = qr_path_join(r->out, "job.json"),
                            *steps = qr_path_join(r->out, "steps.jsonl");
    if (!given || !qr_file_same(given, path) || qr_file_exists(steps)) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "cannot write %s: the job is read from this file; choose another --out", path);
}

/* Reports all errors of job, data and outputs once, before anything is written. */
static enum qr_code check_job(struct run_command *r, struct qr_err *err) {
    const struct qr_settings *s = &r->settings;
    qr_auto(qr_workload_fini) struct qr_workload load = {0};
    QR_TRY(load_job(r, err));
    QR_TRY(qr_workload_load(r->job, s->isa, r->n_threads, &load, err));
    const struct qr_outputs_options where = qr_results_options(s, qr_command_log());
    qr_auto(qr_outputs_fini) struct qr_outputs outputs;
    qr_outputs_init(&outputs, &where, r->job->name);
    if (!s->checkpoints) {
        free(outputs.checkpoints_url);
        outputs.checkpoints_url = qr_path_join(outputs.dir, "checkpoints");
    }
    r->out = qr_xstrdup(outputs.dir);
    warn_of_job(r, &load.data);
    QR_TRY(qr_workload_check_training(&load, err));
    QR_TRY(check_memory_of_workers(r, &load, err));
    QR_TRY(check_job_file(r, err));
    QR_TRY(qr_outputs_check_inputs(&outputs, r->job, err));
    QR_TRY(qr_outputs_check(&outputs, err));
    QR_TRY(qr_outputs_lock(&outputs, r->job->name, NULL, err));
    r->lock = QR_MOVE(outputs.lock);
    outputs.dir_was_there = true; /* keep it for the logs of the workers */
    print_plan(r, &load);
    enum qr_code code = s->fresh ? QR_OK : load_checkpoint(r, &outputs, &load, err);
    fflush(r->text_out);
    return code;
}

/* Puts defaults before the arguments of the user, which override them, and fixed values after. */
static void arrange_arguments(struct run_command *r) {
    char *given[MAX_FLAGS];
    size_t n = r->n_arguments;
    memcpy(given, r->arguments, n * sizeof *given);
    r->n_arguments = 0;
    if (r->settings.job) add_argument(r, qr_xstrdup(r->settings.job));
    add_argument(r, qr_xstrdup("--log-format=text"));
    add_argument(r, qr_xstrdup("--min-workers=1"));
    add_argument(r,
                 /* a worker may exit before it has met the others */
                 qr_xstrdup("--form-timeout=30s"));
    if (!r->settings.logdir) { /* an empty --logdir comes later and overrides it */
        qr_auto(qr_free_p) char *logs = qr_path_join(r->out, "logs");
        add_argument(r, qr_xasprintf("--logdir=%s", logs));
    }
    if (!r->settings.checkpoints) {
        qr_auto(qr_free_p) char *checkpoints = qr_path_join(r->out, "checkpoints");
        add_argument(r, qr_xasprintf("--checkpoints=%s", checkpoints));
    }
    for (size_t i = 0; i < n; i++) add_argument(r, given[i]);
    add_argument(r, qr_xasprintf("--threads=%u", r->n_threads));
    add_argument(r, qr_xasprintf("--out=%s", r->out));
    static const char *const names[] = {"index", "peers", "peer-template",     "replicas",
                                        "port",  "bind",  "parameter-servers", "role"};
    /* Those in the job file are for clusters. */
    for (size_t i = 0; r->job->worker && i < sizeof names / sizeof *names; i++)
        add_argument(r, qr_xasprintf("--%s=", names[i]));
    if (r->tls) add_argument(r, qr_xstrdup("--tls-dir="));
}

enum qr_code qr_find_worker(char **ret, struct qr_err *err) {
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0)
        return qr_fail(err, QR_NOT_FOUND,
                       "cannot start workers: /proc/self/exe cannot be read; mount /proc (mount -t "
                       "proc proc /proc), or start qringd itself");
    path[n] = 0;
    char *slash = strrchr(path, '/');
    *slash = 0;
    *ret = qr_path_join(path, "qringd");
    if (access(*ret, X_OK) == 0) return QR_OK;
    qr_auto(qr_free_p) char *missing = QR_MOVE(*ret);
    return qr_fail(err, QR_NOT_FOUND, "cannot find the worker program %s; install it beside qring",
                   missing);
}

/* Output for the table, the progress bar and the result; /dev/null with --quiet. */
static enum qr_code choose_text_out(struct run_command *r, struct qr_err *err) {
    r->text_out = r->json ? stderr : stdout;
    if (!r->quiet || r->help) return QR_OK;
    FILE *null_out = fopen("/dev/null", "we");
    if (!null_out) return qr_fail_errno(err, errno, "--quiet: cannot open /dev/null");
    qr_command_quiet();
    r->text_out = null_out;
    return QR_OK;
}

/* ---- while workers run ---- */

/* Text of a key of the event; empty: missing. */
static void read_event_text(const struct qr_json *event, const char *key, struct qr_buf *ret) {
    qr_buf_clear(ret);
    qr_buf_puts(ret, qr_json_text(qr_json_get(event, key), ""));
}

/* In the format of qring evaluate. */
static void read_event_values(const struct qr_json *event, struct qr_buf *ret) {
    const struct qr_json *values = qr_json_get(event, "values");
    qr_buf_clear(ret);
    if (!values || qr_json_type(values) != QR_JSON_OBJECT) return;
    for (const struct qr_json *v = qr_json_first(values); v; v = qr_json_next(v)) {
        const char *name = qr_json_key(v);
        double x = NAN;
        if (!qr_metric_is_number(name)) continue;
        if (qr_json_double(v, name, -1e308, 1e308, &x, QR_IGNORED) != QR_OK) x = NAN;
        qr_buf_printf(ret, "%s%s: %s", ret->n ? " - " : "", name, qr_text_number(x).s);
    }
}

static void on_done(struct run_command *r, const struct qr_json *event) {
    r->done = true;
    snprintf(r->digest, sizeof r->digest, "%s",
             qr_json_text(qr_json_get(event, "state_digest"), ""));
    read_event_text(event, "stopped", &r->stopped);
    read_event_text(event, "best", &r->best);
    read_event_text(event, "confusion", &r->confusion);
    read_event_values(event, &r->values);
    qr_buf_clear(&r->wrote);
    for (const struct qr_json *p = qr_json_first(qr_json_get(event, "wrote")); p;
         p = qr_json_next(p)) {
        qr_buf_puts(&r->wrote, "  ");
        qr_buf_put_printable(&r->wrote, qr_json_text(p, "?"));
        qr_buf_puts(&r->wrote, "\n");
    }
}

static void on_event(void *ctx, const struct qr_json *event) {
    struct run_command *r = ctx;
    if (strcmp(qr_json_text(qr_json_get(event, "event"), ""), "done") == 0) on_done(r, event);
    qr_progress_event(&r->progress, event);
}

static void on_lost(void *ctx, unsigned worker, const char *sentence, unsigned n_left,
                    bool comes_back) {
    struct run_command *r = ctx;
    qr_progress_end(&r->progress);
    qr_warn(qr_command_log(), "qring", "worker %u: %s; %u %s%s", worker, sentence, n_left,
            n_left == 1 ? "remains" : "remain", comes_back ? "; restarting it" : "");
}

static void print_result(const struct run_command *r) {
    qr_auto(qr_free_p) char *path = qr_path_join(r->out, "result.json");
    struct qr_buf text = {0};
    struct qr_err err;
    if (qr_file_read(path, 1 << 20, &text, &err) == QR_OK) fputs(qr_buf_string(&text), stdout);
    qr_buf_free(&text);
}

static int run_report(struct run_command *r, const struct qr_local_result *result) {
    qr_progress_end(&r->progress);
    if (result->sentence) {
        qr_error(qr_command_log(), "qring", "worker %d: %s (its log: %s/worker-%d.log)",
                 result->worker, result->sentence, r->out, result->worker);
        return result->exit_code;
    }
    r->interrupted = result->interrupted && !result->terminated;
    if (!r->done) {
        if (result->interrupted) fprintf(r->text_out, "stopped: all workers have exited\n");
        return result->terminated && result->exit_code == 0 ? (int)r->settings.exit_on_drain
                                                            : result->exit_code;
    }
    if (r->stopped.n) fprintf(r->text_out, "%s\n", qr_buf_string(&r->stopped));
    if (r->best.n) fprintf(r->text_out, "%s\n", qr_buf_string(&r->best));
    fprintf(r->text_out, "wrote\n%s", qr_buf_string(&r->wrote));
    if (r->confusion.n) fprintf(r->text_out, "%s\n", qr_buf_string(&r->confusion));
    if (*r->digest) fprintf(r->text_out, "state_digest: %s\n", r->digest);
    fprintf(r->text_out, "%s\n", qr_buf_string(&r->values));
    if (r->json) print_result(r);
    return result->exit_code;
}

static enum qr_code run_start(struct run_command *r, int *ret_exit_code, struct qr_err *err) {
    qr_auto(qr_free_p) char *program = NULL;
    struct qr_local_result result = {0};
    QR_TRY(qr_find_worker(&program, err));
    QR_TRY(check_job(r, err));
    if (r->trained && r->json) print_result(r);
    if (r->trained) return QR_OK;
    arrange_arguments(r);
    r->progress = (struct qr_progress){
        .out = r->text_out, .terminal = isatty(fileno(r->text_out)), .clock = &qr_clock_monotonic};
    const struct qr_local_options opt = {
        .program = program,
        .n_workers = r->n_workers,
        .arguments = (const char *const *)r->arguments,
        .n_arguments = r->n_arguments,
        .environment = environ,
        .log_dir = r->out,
        .lock_fd = r->lock.held ? &r->lock.fd : NULL,
        .input = takes_input(r),
        .tls = r->tls,
        .http_port = r->http_port,
        .profiler_port = r->profiler_port,
        .restart = r->restart,
        .fresh = r->settings.fresh,
        .event = on_event,
        .lost = on_lost,
        .ctx = r,
    };
    QR_TRY(qr_local_run(&opt, &result, err));
    *ret_exit_code = run_report(r, &result);
    free(result.sentence);
    return QR_OK;
}

/* A shell ends its loop if a signal ended the command, but not if the command exits, even with 130.
 * If the signal does not end this process (the first one of a container), exit with that code. */
_Noreturn void qr_exit_by_sigint(void) {
    enum { OF_INTERRUPT = 128 + SIGINT };
    fflush(NULL);
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
    _exit(OF_INTERRUPT);
}

int qr_command_run(const struct qr_command *self, int argc, char **argv) {
    struct run_command r = {.n_workers = 1};
    struct qr_err err = {0};
    int exit_code = 0;
    qr_settings_init(&r.settings);
    enum qr_code code = read_arguments(&r, argc, argv, &err);
    if (code == QR_OK) code = choose_text_out(&r, &err);
    if (code == QR_OK && r.help) fputs(self->help, stdout);
    else if (code == QR_OK) code = run_start(&r, &exit_code, &err);
    for (size_t i = 0; i < r.n_arguments; i++) free(r.arguments[i]);
    qr_run_lock_release(&r.lock);
    if (r.job) qr_job_free(r.job);
    qr_settings_fini(&r.settings);
    qr_buf_free(&r.wrote);
    qr_buf_free(&r.stopped);
    qr_buf_free(&r.best);
    qr_buf_free(&r.values);
    qr_buf_free(&r.confusion);
    free(r.out);
    if (r.text_out && r.text_out != stdout && r.text_out != stderr) fclose(r.text_out);
    if (r.interrupted && code == QR_OK && exit_code == 0) qr_exit_by_sigint();
    return code == QR_OK ? exit_code : qr_exit_report(code, &err);
}
