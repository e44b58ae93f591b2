/* cmd/qring/sweep.c — qring sweep: trains the trials of a sweep and prints the best. Start reading
 * at sweep_start(). */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bounds.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/pool.h"
#include "base/text.h"
#include "cmd/qring/command.h"
#include "local/trial_hash.h"
#include "job/record.h"
#include "local/local_sweep.h"
#include "worker/settings.h"

const char qr_help_sweep[] =
    "Trains the trials of a job's \"sweep\", each with a single worker, N at a time; finished "
    "trials are\n"
    "kept. The table and the weights are the same bytes whichever machine trains which trial, on "
    "one\n"
    "machine or on many that share a bucket.\n"
    "\n"
    "Examples:\n"
    "  qring sweep job.json -n 4                        # out/NAME: sweep.csv, sweep.json, best/, "
    "trials/\n"
    "  qring sweep --set 'sweep={\"keys\": {\"seed\": [1, 2, 3]}}' -n 2    # an ensemble of the "
    "tutorial's model\n"
    "  qring sweep job.json --to gs://my-bucket/sweep   # in each pod of an Indexed Job\n"
    "\n"
    "Usage: qring sweep [JOB] [FLAGS]\n"
    "  -n N                   number of trials at a time [1]\n"
    "  --out DIR              folder for the table, best/ (weights of the best trial) and\n"
    "                         trials/<number>/ (the files of a run) [out/NAME]\n"
    "  --to URL               folder that several machines share for one sweep [OUT], a path, "
    "gs:// or\n"
    "                         s3://; weights and checkpoints are written there too\n"
    "  --fresh                delete the rows, claims, results and checkpoints of this sweep, and "
    "start over\n"
    "  --lease TIME           time without renewal after which a worker loses its trial [15s]\n"
    "  --logdir ''            write no TensorBoard event files [OUT/trials/<number>/logs]\n"
    "  --set PATH=VALUE       set a key of the job, repeatable\n"
    "  --seed N               random seed, as --set seed=N\n"
    "  --epochs E             number of epochs, as --set train.epochs=E\n"
    "  --threads T            threads of each worker [CPUs of this machine divided by trials at a "
    "time]\n"
    "  --json                 print sweep.json on standard output, progress on standard error\n"
    "  and every flag of qringd (qringd --help) for computation, logs and checkpoints.\n"
    "\n"
    "Each trial prints a line with its metrics as metric=value, which Katib's collector reads. A "
    "trial\n"
    "whose numbers exceed the range of the arithmetic has a row with its error.\n"
    "Exit codes: 0 every trial has a row, 4 no trial has a result, 130 and 143 stopped (the same "
    "command\n"
    "resumes), others as of qringd.\n";

enum { MAX_FLAGS = 64, SHOWN = 5, MAX_TEXT_BYTES = 64 << 20 };

struct sweep_command {
    struct qr_settings settings;
    unsigned n_slots;
    bool json, fresh, help, events, says_epochs;
    char *to;
    int64_t lease_ns;
    char *arguments[MAX_FLAGS + 2];
    size_t n_arguments;
    struct qr_job *job;
    char *out, *job_path, *program;
    const char *metric;
    bool maximize;
    char (*hash)[65]; /* of each trial */
    struct qr_local_sweep_options opt;
    struct qr_local_sweep_result result;
    struct qr_sweep_board *board;
    struct qr_sweep_rows rows;
    FILE *text_out;
};

/* ---- arguments ---- */

/* Reads a flag of the workers; rejects those for identity and paths, which the sweep sets. */
static enum qr_code worker_flag(void *sweep, const char *name, const char *value,
                                struct qr_err *err) {
    struct sweep_command *c = sweep;
    static const char *const ours[] = {"out", "set", "seed", "threads", "logdir"};
    static const char *const not [] = {"weights", "weights-gcs-bucket", "weights-gcs-path",
                                       "http-port", "checkpoints"};
    bool own = false, refused = qr_run_rejects(name);
    for (size_t i = 0; i < sizeof not / sizeof *not ; i++) refused |= strcmp(name, not [i]) == 0;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) own |= strcmp(name, ours[i]) == 0;
    if (refused)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--%s is not supported by qring sweep, which sets it for each trial; use "
                       "--set, --out and --to",
                       name);
    c->says_epochs |= strcmp(name, "epochs") == 0;
    if (strcmp(name, "epochs") == 0)
        return qr_overrides_add(&c->settings.set, QR_OVERRIDES_FLAG, "--epochs", "train.epochs",
                                value, err);
    enum qr_code code = qr_settings_set(&c->settings, name, value, err);
    if (strcmp(name, "logdir") == 0 && *value)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--logdir: event files are in OUT/trials/<number>/logs; give '' for none");
    if (strcmp(name, "logdir") == 0) c->events = false;
    if (code == QR_OK && !own && c->n_arguments == MAX_FLAGS)
        return qr_fail(err, QR_INVALID_ARGUMENT, "more than %d flags; write a job file", MAX_FLAGS);
    if (code == QR_OK && !own)
        c->arguments[c->n_arguments++] = qr_xasprintf("--%s=%s", name, value);
    return code;
}

static enum qr_code read_arguments(struct sweep_command *c, int argc, char **argv,
                                   struct qr_err *err) {
    const char *n_slots = NULL, *to = NULL, *lease = NULL;
    const struct qr_flag flags[] = {{"-n", &n_slots, NULL},
                                    {"--to", &to, NULL},
                                    {"--lease", &lease, NULL},
                                    {"--json", NULL, &c->json},
                                    {"--fresh", NULL, &c->fresh}};
    const struct qr_flag_reader reader = {.flags = flags,
                                          .n_flags = sizeof flags / sizeof *flags,
                                          .setting = worker_flag,
                                          .context = c,
                                          .max_words = 1};
    struct qr_words words;
    QR_TRY(qr_read_arguments(argc, argv, &reader, &words, &c->help, err));
    if (words.n) c->settings.job = qr_xstrdup(words.v[0]);
    if (to && *to) c->to = qr_xstrdup(to);
    if (lease && (!qr_parse_duration_ns(lease, &c->lease_ns) || c->lease_ns < QR_SECOND ||
                  c->lease_ns > 86400 * QR_SECOND))
        return qr_fail(err, QR_INVALID_ARGUMENT, "--lease: '%.40s' is not a duration in 1s ... 24h",
                       lease);
    return qr_parse_workers(n_slots, &c->n_slots, err);
}

/* ---- before workers start ---- */

/* --epochs sets train.epochs, which has no effect if the sweep sets it for each trial. */
static enum qr_code check_epochs(const struct sweep_command *c, struct qr_err *err) {
    const struct qr_sweep_spec *s = c->job->sweep;
    const char *by = s->n_rungs > 1 ? "halving.epochs" : NULL;
    for (size_t i = 0; i < s->n_keys; i++)
        if (strcmp(s->keys[i].path, "train.epochs") == 0) by = "keys.train.epochs";
    if (!c->says_epochs || !by) return QR_OK;
    return qr_fail(
        err, QR_INVALID_ARGUMENT,
        "--epochs has no effect on the trials: sweep.%s sets their epochs; change that with --set",
        by);
}

static enum qr_code load_job(struct sweep_command *c, struct qr_err *err) {
    QR_TRY(qr_read_environment(&c->settings, err));
    QR_TRY(qr_settings_load_job(&c->settings, NULL, NULL, &c->job, err));
    if (!c->job->sweep)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s has no \"sweep\"; give the keys that trials differ in, such as "
                       "\"sweep\": {\"keys\": {\"seed\": [1, 2, 3]}} (qring help job sweep)",
                       c->settings.job ? c->settings.job : "the built-in job");
    return check_epochs(c, err);
}

/* Checks memory and options of the first trial, and the keys of all. */
static enum qr_code check_first(struct sweep_command *c, struct qr_workload *load,
                                struct qr_err *err) {
    bool validates = load->data.n_samples > load->data.n_train;
    QR_TRY(qr_workload_check_training(load, err));
    return qr_job_check_trials(c->job, validates, &c->metric, &c->maximize, err);
}

/* Reports errors in the keys of all trials once, and those in data, model and memory of the first
 * one. */
static enum qr_code check_trials(struct sweep_command *c, struct qr_err *err) {
    const struct qr_settings *s = &c->settings;
    struct qr_job *first = NULL;
    struct qr_workload load;
    unsigned n_threads = s->threads > 0 ? (unsigned)s->threads : 1;
    QR_TRY(qr_job_trial(c->job, 0, &first, err));
    enum qr_code code = qr_workload_load(first, s->isa, n_threads, &load, err);
    if (code == QR_OK) {
        code = check_first(c, &load, err);
        c->hash = qr_xcalloc(c->job->sweep->n_trials, sizeof *c->hash);
        if (code == QR_OK) code = qr_local_trial_hashes(c->job, &load, c->hash, err);
        else qr_workload_fini(&load);
    }
    qr_job_free(first);
    return code;
}

/* INVALID_ARGUMENT if the folder has another sweep. */
static enum qr_code compare_sweeps(struct sweep_command *c, struct qr_bytes here_text,
                                   const struct qr_buf *there_text, struct qr_err *err) {
    qr_auto(qr_json_free_p) struct qr_json *here = NULL, *there = NULL;
    qr_auto(qr_buf_free) struct qr_buf differs = {0};
    QR_TRY(qr_json_parse(here_text, "the job", &here, err));
    QR_TRY(qr_json_parse(qr_buf_view(there_text), "sweep/job.json", &there, err));
    qr_job_differences(there, here, c->opt.board_url, &differs);
    if (!differs.n) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "%.200s has another sweep: %.400s; choose another --out or --to, or delete "
                   "that sweep with --fresh",
                   c->opt.board_url, qr_buf_string(&differs));
}

static enum qr_code open_board(struct sweep_command *c, struct qr_err *err) {
    const struct qr_sweep_spec *s = c->job->sweep;
    const struct qr_sweep_board_options at = {.url = c->opt.board_url,
                                              .n_trials = s->n_trials,
                                              .n_rungs = s->n_rungs,
                                              .lease_ns = c->lease_ns,
                                              .clock = &qr_clock_awake};
    qr_auto(qr_buf_free) struct qr_buf text = {0}, there = {0};
    qr_job_record_sweep(c->job, &text);
    QR_TRY(qr_sweep_board_open(&at, &c->board, err));
    if (c->fresh) QR_TRY(qr_local_sweep_delete(&c->opt, c->board, err));
    QR_TRY(qr_sweep_board_publish(c->board, qr_buf_view(&text), &there, err));
    QR_TRY(compare_sweeps(c, qr_buf_view(&text), &there, err));
    return qr_sweep_board_rows(c->board, &c->rows, err);
}

/* Writes the job without its sweep, for the workers. */
static enum qr_code write_base(struct sweep_command *c, struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    qr_job_record(c->job, c->job->train.epochs, &text);
    return qr_file_replace(c->job_path, qr_buf_view(&text), err);
}

static enum qr_code sweep_prepare(struct sweep_command *c, struct qr_err *err) {
    struct qr_settings *s = &c->settings;
    QR_TRY(load_job(c, err));
    QR_TRY(qr_settings_check(s, err));
    QR_TRY(check_trials(c, err));
    QR_TRY(qr_find_worker(&c->program, err));
    unsigned share = qr_cpu_limit() / c->n_slots;
    unsigned n_threads = s->threads > 0 ? (unsigned)s->threads : share ? share : 1;
    c->arguments[c->n_arguments++] = qr_xasprintf("--threads=%u", n_threads);
    c->out = s->out ? qr_xstrdup(s->out) : qr_path_join("out", c->job->name);
    c->job_path = qr_path_join(c->out, "sweep/base.json");
    qr_auto(qr_free_p) char *folder = qr_path_join(c->out, "sweep");
    c->opt = (struct qr_local_sweep_options){
        .program = c->program,
        .job = c->job,
        .job_path = c->job_path,
        .out = c->out,
        .board_url = c->to ? c->to : c->out,
        .arguments = (const char *const *)c->arguments,
        .n_arguments = c->n_arguments,
        .environment = environ,
        .n_slots = c->n_slots,
        .events = c->events,
        .lease_ns = c->lease_ns,
        .metric = c->metric,
        .maximize = c->maximize,
        .hash = (const char(*)[65])c->hash,
        .people = c->text_out,
        .log = qr_command_log(),
    };
    qr_sweep_rows_init(&c->rows, c->job->sweep, c->job->seed);
    c->rows.metric = c->metric;
    c->rows.maximize = c->maximize;
    c->rows.hash = c->opt.hash;
    QR_TRY(open_board(c, err)); /* before the folder: an invalid URL must not leave one */
    QR_TRY(qr_dir_make(folder, err));
    QR_TRY(write_base(c, err));
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    size_t there = 0, total = c->job->sweep->n_trials * c->job->sweep->n_rungs;
    for (size_t i = 0; i < total; i++) there += c->rows.row[i].there;
    qr_sweep_describe(c->job->sweep, &text);
    qr_buf_printf(&text, "\n%u at a time, %u thread%s each, compared by %s\n", c->n_slots,
                  n_threads, n_threads == 1 ? "" : "s", c->metric);
    qr_print_escaped(c->text_out, qr_buf_string(&text));
    if (there)
        fprintf(c->text_out, "resuming: %zu row%s there (--fresh starts over)\n", there,
                there == 1 ? " is" : "s are");
    fflush(c->text_out);
    return QR_OK;
}

/* ---- result ---- */

static void print_best(const struct sweep_command *c, const size_t *best, size_t n) {
    for (size_t i = 0; i < n && i < SHOWN; i++) {
        const struct qr_sweep_row *r =
            qr_sweep_row_at(&c->rows, c->job->sweep->n_rungs - 1, best[i]);
        struct qr_overrides set = {0};
        struct qr_buf text = {0};
        double v = 0;
        if (!qr_sweep_row_metric(r, c->metric, &v)) continue;
        qr_job_trial_set(c->job, r->trial, &set);
        qr_overrides_put(&set, &text);
        fprintf(c->text_out, "%s%s %s  trial %zu  %s\n", i ? "      " : "best  ", c->metric,
                qr_text_number(v).s, r->trial, qr_buf_string(&text));
        qr_overrides_fini(&set);
        qr_buf_free(&text);
    }
}

static void print_wrote(const struct sweep_command *c, bool best) {
    struct qr_buf text = {0};
    qr_buf_printf(&text, "wrote\n  %s/sweep.csv\n  %s/sweep.json\n", c->out, c->out);
    if (best) qr_buf_printf(&text, "  %s/best/weights.h5\n", c->out);
    qr_print_escaped(c->text_out, qr_buf_string(&text));
    qr_buf_free(&text);
}

static enum qr_code sweep_report(struct sweep_command *c, struct qr_err *err) {
    qr_auto(qr_free_p) size_t *best = qr_xcalloc(c->job->sweep->n_trials, sizeof *best);
    size_t failed = 0;
    QR_TRY(qr_sweep_board_rows(c->board, &c->rows, err));
    if (!qr_sweep_complete(&c->rows))
        return qr_fail(err, QR_INTERNAL, "%s: all trials have ended, but rows are missing",
                       c->opt.board_url);
    QR_TRY(qr_local_sweep_publish(&c->opt, &c->rows, err));
    qr_sweep_board_delete_claims(c->board);
    const char *status;
    for (size_t t = 0; t < c->job->sweep->n_trials; t++)
        failed += qr_sweep_last_row(&c->rows, t, &status)->failed;
    size_t n = qr_sweep_best(&c->rows, best);
    print_best(c, best, n);
    if (failed) fprintf(c->text_out, "%zu failed: see sweep.csv\n", failed);
    print_wrote(c, n > 0);
    if (c->json) {
        struct qr_buf json = {0};
        qr_sweep_json(&c->rows, &json);
        fputs(qr_buf_string(&json), stdout);
        qr_buf_free(&json);
    }
    return n ? QR_OK
             : qr_fail(err, QR_OUT_OF_RANGE, "no trial has a result: see %s/sweep.csv", c->out);
}

static enum qr_code sweep_start(struct sweep_command *c, int *ret_exit_code, struct qr_err *err) {
    QR_TRY(sweep_prepare(c, err));
    if (!qr_sweep_complete(&c->rows)) QR_TRY(qr_local_sweep(&c->opt, &c->result, err));
    *ret_exit_code = c->result.exit_code;
    if (c->result.interrupted) {
        fprintf(c->text_out, "stopped; the same command resumes\n");
        if (c->result.terminated) *ret_exit_code = (int)c->settings.exit_on_drain;
        return QR_OK;
    }
    return c->result.exit_code == 0 ? sweep_report(c, err) : QR_OK;
}

int qr_command_sweep(const struct qr_command *self, int argc, char **argv) {
    struct sweep_command c = {.n_slots = 1, .events = true, .lease_ns = 15 * QR_SECOND};
    struct qr_err err = {0};
    int exit_code = 0;
    qr_settings_init(&c.settings);
    enum qr_code code = read_arguments(&c, argc, argv, &err);
    c.text_out = c.json ? stderr : stdout;
    if (code == QR_OK && c.help) fputs(self->help, stdout);
    else if (code == QR_OK) code = sweep_start(&c, &exit_code, &err);
    qr_sweep_board_close(c.board);
    if (c.rows.row) qr_sweep_rows_fini(&c.rows);
    for (size_t i = 0; i < c.n_arguments; i++) free(c.arguments[i]);
    qr_job_free(c.job);
    qr_settings_fini(&c.settings);
    free(c.to);
    free(c.out);
    free(c.job_path);
    free(c.program);
    free(c.hash);
    if (c.result.interrupted && !c.result.terminated && code == QR_OK) qr_exit_by_sigint();
    return code == QR_OK ? exit_code : qr_exit_report(code, &err);
}
