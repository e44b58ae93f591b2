/* local/sweep_slot.c — one slot of a sweep: claims trials, trains them, writes their rows. Start
 * reading at slot_run(). */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/parse.h"
#include "local/processes.h"
#include "local/local_sweep_impl.h"
#include "output/run_lock.h"
#include "record/checkpoint_folder.h"
#include "store/store.h"

/* Returns whether SIGINT or SIGTERM is pending while they are blocked. For waits of stores. */
static bool sweep_slot_stopping(void) {
    sigset_t s;
    return sigpending(&s) == 0 && (sigismember(&s, SIGTERM) == 1 || sigismember(&s, SIGINT) == 1);
}

char *qr_local_trial_folder(const char *out, size_t trial) {
    return qr_xasprintf("%s/trials/%04zu", out, trial);
}

char *qr_local_trial_weights(const char *board_url, const struct qr_sweep_spec *s, size_t trial,
                             size_t rung) {
    qr_auto(qr_free_p) char *folder = qr_local_trial_folder(board_url, trial);
    return s->n_rungs > 1 ? qr_xasprintf("%s/rung-%zu/weights.h5", folder, rung)
                          : qr_xasprintf("%s/weights.h5", folder);
}

/* A trial with so many crashes of its worker fails; with so many kills and no success the machine
 * is at fault. */
enum { MAX_CRASHES = 3, MAX_KILLS = 8, MAX_ARGUMENTS = 128, MAX_RESULT_BYTES = 1 << 24 };
static const int64_t poll_local_ns = 200 * QR_MS, poll_remote_ns = 2 * QR_SECOND,
                     retry_first_ns = QR_SECOND / 2, retry_last_ns = 8 * QR_SECOND,
                     stall_timeout_ns = 600 * QR_SECOND;

enum outcome {
    HAS_ROW, /* the trial has its row */
    LATER,   /* another process has the trial or its folder: try another one first */
    STOPPED, /* a stop request came */
    FAILED,  /* the sweep ends, with slot.err */
};

struct slot {
    const struct qr_local_sweep_options *opt;
    struct qr_sweep_board *board, *claims; /* claims: its calls do not wait for store outages */
    struct qr_sweep_rows rows;
    size_t *trials;    /* of a rung */
    int64_t *until_ns; /* earliest time of the next attempt, by trial */
    bool *held_logged; /* already logged that another process holds the trial's folder */
    unsigned number;
    size_t rung, trial;                         /* claimed by this slot */
    bool elsewhere, remote, lost, claim_logged; /* elsewhere: the board is not in OUT */
    int64_t progress_ns;                        /* last new row, or last claim */
    struct qr_err err;
};

static int64_t slot_now_ns(void) {
    qr_awake_pulse();
    return qr_now_ns(&qr_clock_awake);
}

/* Sleeps; false: a signal came. */
static bool slot_sleep(int64_t ns) {
    sigset_t asked;
    sigemptyset(&asked);
    sigaddset(&asked, SIGINT);
    sigaddset(&asked, SIGTERM);
    const struct timespec t = {.tv_sec = ns / QR_SECOND, .tv_nsec = ns % QR_SECOND};
    return sigtimedwait(&asked, NULL, &t) < 0;
}

/* ---- training ---- */

/* Called while a trial trains: renews its claim. A store outage does not end the trial. */
static bool slot_keep_claim(void *ctx) {
    struct slot *s = ctx;
    struct qr_err err;
    bool mine = true;
    enum qr_code code = qr_sweep_board_renew(s->claims, s->rung, s->trial, &mine, &err);
    /* A local file may be in use for a moment. */
    bool passes = code == QR_OK || (code == QR_UNAVAILABLE && !s->remote);
    if (!passes && !s->claim_logged) {
        s->claim_logged = true;
        qr_warn(s->opt->log, "qring", "trial %zu: %s", s->trial, err.msg);
    }
    s->lost = s->lost || !mine;
    return !s->lost;
}

static void trial_add_argument(char **argv, size_t *n, char *text) {
    QR_ASSERT(*n < MAX_ARGUMENTS);
    argv[(*n)++] = text;
}

/* Builds the arguments: those of the trial, then the user's; all on the heap. */
static size_t trial_arguments(const struct slot *s, const char *dir, uint64_t epochs, bool fresh,
                              char **argv) {
    static const char *const of_clusters[] = {"index", "peers", "peer-template",     "replicas",
                                              "port",  "bind",  "parameter-servers", "role"};
    const struct qr_local_sweep_options *o = s->opt;
    struct qr_overrides set = {0};
    size_t n = 0;
    qr_auto(qr_free_p) char *there = qr_local_trial_folder(o->board_url, s->trial);
    qr_auto(qr_free_p) char *weights =
        qr_local_trial_weights(o->board_url, o->job->sweep, s->trial, s->rung);
    trial_add_argument(argv, &n, qr_xstrdup(o->job_path));
    trial_add_argument(argv, &n, qr_xstrdup("--log-format=text"));
    trial_add_argument(argv, &n, qr_xasprintf("--out=%s", dir));
    trial_add_argument(argv, &n, qr_xasprintf("--weights=%s", s->elsewhere ? weights : ""));
    trial_add_argument(argv, &n, qr_xstrdup("--weights-gcs-bucket="));
    trial_add_argument(argv, &n, qr_xstrdup("--weights-gcs-path="));
    trial_add_argument(argv, &n, qr_xasprintf("--checkpoints=%s/checkpoints", there));
    trial_add_argument(
        argv, &n, qr_xasprintf("--logdir=%s%s", o->events ? dir : "", o->events ? "/logs" : ""));
    trial_add_argument(argv, &n, qr_xasprintf("--epochs=%llu", (unsigned long long)epochs));
    if (fresh) trial_add_argument(argv, &n, qr_xstrdup("--fresh"));
    for (size_t i = 0; i < sizeof of_clusters / sizeof *of_clusters; i++)
        trial_add_argument(argv, &n, qr_xasprintf("--%s=", of_clusters[i]));
    /* A trial's progress is not the sweep's. */
    trial_add_argument(argv, &n, qr_xstrdup("--progress-to=none"));
    qr_job_trial_set(o->job, s->trial, &set);
    for (size_t i = 0; i < set.n; i++)
        trial_add_argument(argv, &n, qr_xasprintf("--set=%s", set.v[i].text));
    qr_overrides_fini(&set);
    for (size_t i = 0; i < o->n_arguments; i++)
        trial_add_argument(argv, &n, qr_xstrdup(o->arguments[i]));
    return n;
}

static enum qr_code slot_train(struct slot *s, const char *dir, uint64_t epochs, bool fresh,
                               const struct qr_run_lock *lock, struct qr_local_result *ret) {
    char *argv[MAX_ARGUMENTS];
    size_t n = trial_arguments(s, dir, epochs, fresh, argv);
    const struct qr_local_options opt = {
        .program = s->opt->program,
        .n_workers = 1,
        .arguments = (const char *const *)argv,
        .n_arguments = n,
        .environment = s->opt->environment,
        .log_dir = dir,
        .lock_fd = lock->held ? &lock->fd : NULL,
        .go_on = slot_keep_claim,
        .ctx = s,
    };
    enum qr_code code = qr_local_run(&opt, ret, &s->err);
    for (size_t i = 0; i < n; i++) free(argv[i]);
    return code;
}

/* ---- one trial ---- */

static uint64_t trial_epochs(const struct slot *s, struct qr_err *err) {
    const struct qr_sweep_spec *w = s->opt->job->sweep;
    struct qr_job *trial = NULL;
    if (w->n_rungs > 1) return w->epochs[s->rung];
    if (qr_job_trial(s->opt->job, s->trial, &trial, err) != QR_OK) return 0;
    uint64_t epochs = trial->train.epochs;
    qr_job_free(trial);
    return epochs;
}

static void print_row(const struct slot *s, const struct qr_sweep_row *r) {
    struct qr_buf line = {0};
    struct qr_overrides set = {0};
    char number[32];
    qr_buf_printf(&line, "trial %zu%s", r->trial, r->failed ? " failed: " : ":");
    if (r->failed) qr_buf_puts(&line, r->error);
    for (size_t i = 0; i < r->n_metrics; i++) {
        qr_number_text(r->metrics[i].value, number);
        qr_buf_printf(&line, " %s=%s", r->metrics[i].name, number);
    }
    qr_job_trial_set(s->opt->job, r->trial, &set);
    qr_buf_puts(&line, "  (");
    /* "key: value" instead of "=", which marks a metric to log collectors */
    for (size_t i = 0; i < set.n; i++) {
        size_t n = strcspn(set.v[i].text, "=");
        qr_buf_printf(&line, "%s%.*s: %s", i ? ", " : "", (int)n, set.v[i].text,
                      set.v[i].text + n + 1);
    }
    qr_buf_puts(&line, ")\n");
    qr_overrides_fini(&set);
    fputs(qr_buf_string(&line), s->opt->people);
    fflush(s->opt->people);
    qr_buf_free(&line);
}

static enum outcome slot_put_row(struct slot *s, struct qr_sweep_row *row) {
    enum qr_code code = qr_sweep_board_add_row(s->board, row, &s->err);
    if (code == QR_OK) print_row(s, row);
    qr_sweep_row_fini(row);
    return code == QR_OK ? HAS_ROW : FAILED;
}

/* Stores a failed row: the error is the trial's own, and every worker would find it. */
static enum outcome put_failed(struct slot *s, const char *sentence) {
    struct qr_sweep_row row = {.there = true,
                               .trial = s->trial,
                               .rung = s->rung,
                               .failed = true,
                               .error = qr_xstrdup(sentence)};
    memcpy(row.job_hash, s->opt->hash[s->trial], sizeof row.job_hash);
    return slot_put_row(s, &row);
}

/* The data may change during a sweep. */
static enum qr_code slot_check_hash(const struct slot *s, const struct qr_sweep_row *row,
                                    struct qr_err *err) {
    const char *expected = s->opt->hash[s->trial];
    if (strcmp(row->job_hash, expected) == 0) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "cannot continue the sweep in %.200s: trial %zu was trained from other data "
                   "than the sweep began with (job hash %.12s, expected %.12s); restore the data, "
                   "or start over with --fresh",
                   s->opt->board_url, s->trial, row->job_hash, *expected ? expected : "none");
}

/* Stores the row of a successful run. *ret_nothing: the result is missing, since another worker
 * finished the run. */
static enum outcome put_result(struct slot *s, const char *dir, bool *ret_nothing) {
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    struct qr_sweep_row row;
    qr_auto(qr_free_p) char *path = qr_path_join(dir, "result.json");
    enum qr_code code = qr_file_read(path, MAX_RESULT_BYTES, &text, &s->err);
    *ret_nothing = code == QR_NOT_FOUND;
    if (code == QR_OK)
        code = qr_sweep_row_of_result(qr_buf_view(&text), path, s->trial, s->rung, &row, &s->err);
    if (code == QR_OK && (code = slot_check_hash(s, &row, &s->err)) != QR_OK)
        qr_sweep_row_fini(&row);
    return code == QR_OK ? slot_put_row(s, &row) : FAILED;
}

static enum outcome on_worker_error(struct slot *s, const struct qr_local_result *r) {
    bool own = r->code == QR_OUT_OF_RANGE || r->code == QR_INVALID_ARGUMENT;
    if (own) return put_failed(s, r->sentence);
    enum qr_code code = r->code ? r->code : r->exit_code < 128 ? QR_INTERNAL : QR_UNAVAILABLE;
    qr_fail(&s->err, code, "trial %zu: %.600s", s->trial, r->sentence);
    return FAILED;
}

/* Signals of a crash, which may be repeated; others come from another process. */
static bool is_crash(int number) {
    return number == SIGSEGV || number == SIGABRT || number == SIGBUS || number == SIGFPE ||
           number == SIGILL;
}

static enum outcome train_trial(struct slot *s, const char *dir, uint64_t epochs,
                                const struct qr_run_lock *lock) {
    unsigned crashes = 0, losses = 0;
    bool fresh = false, nothing;
    int64_t pause = retry_first_ns;
    qr_auto(qr_free_p) char *result = qr_path_join(dir, "result.json");
    for (;;) {
        struct qr_local_result r = {0};
        /* It may be an earlier rung's, when another machine has trained the next one. */
        if (s->elsewhere) unlink(result);
        if (slot_train(s, dir, epochs, fresh, lock, &r) != QR_OK) return FAILED;
        qr_auto(qr_free_p) char *sentence = r.sentence;
        if (s->lost) return LATER;
        if (r.interrupted) return STOPPED;
        if (r.exit_code == 0) {
            enum outcome out = put_result(s, dir, &nothing);
            if (!nothing || fresh) return out;
            fresh = true; /* its numbers are lost: train again */
            continue;
        }
        if (r.exit_code < 128) return on_worker_error(s, &r);
        crashes += is_crash(r.signal);
        losses++;
        if (crashes == MAX_CRASHES) return put_failed(s, sentence);
        if (losses >= MAX_KILLS) return on_worker_error(s, &r);
        qr_warn(s->opt->log, "qring", "trial %zu: its worker %s; restarting it in %.1f s", s->trial,
                sentence, (double)pause / 1e9);
        if (!slot_sleep(pause)) return STOPPED;
        pause = 2 * pause < retry_last_ns ? 2 * pause : retry_last_ns;
        if (!slot_keep_claim(s)) return LATER;
    }
}

/* A frozen process may hold the folder long after its claim has expired. */
static enum outcome folder_held(struct slot *s) {
    if (!s->held_logged[s->trial])
        qr_warn(s->opt->log, "qring", "trial %zu waits: %s", s->trial, s->err.msg);
    s->held_logged[s->trial] = true;
    return LATER;
}

/* Checkpoints of another job would make the trial fail with a misleading error. Other checkpoint
 * errors are reported by the worker. */
static enum qr_code slot_check_checkpoints(struct slot *s) {
    qr_auto(qr_free_p) char *there = qr_local_trial_folder(s->opt->board_url, s->trial),
                            *url = qr_path_join(there, "checkpoints");
    const char *expected = s->opt->hash[s->trial];
    qr_auto(qr_checkpoint_folder_close) struct qr_checkpoint_folder p = {0};
    struct qr_checkpoint_latest l = {0};
    struct qr_err unread;
    QR_TRY(qr_checkpoint_folder_open(url, &p, &s->err));
    bool other = qr_checkpoint_peek(&p.at, &l, &unread) == QR_OK && *l.job_hash && *expected &&
                 strcmp(l.job_hash, expected) != 0;
    if (!other) return QR_OK;
    return qr_fail(&s->err, QR_INVALID_ARGUMENT,
                   "cannot continue the sweep in %.200s: trial %zu has checkpoints of other data "
                   "or another job there (job hash %.12s, expected %.12s); choose another --out or "
                   "--to, or --fresh, which removes them",
                   s->opt->board_url, s->trial, l.job_hash, expected);
}

/* Runs a claimed trial. The worker that trains in the folder holds its lock, however late it is. */
static enum outcome run_trial(struct slot *s) {
    qr_auto(qr_free_p) char *dir = qr_local_trial_folder(s->opt->out, s->trial);
    struct qr_run_lock lock = {0};
    const struct qr_run_lock_options opt = {
        .dir = dir, .job = s->opt->job->name, .patience_ns = QR_SECOND / 2, .log = s->opt->log};
    uint64_t epochs = trial_epochs(s, &s->err);
    if (!epochs || qr_dir_make(dir, &s->err) != QR_OK) return FAILED;
    enum qr_code code = qr_run_lock_take(&opt, &lock, &s->err);
    if (code == QR_INVALID_ARGUMENT || code == QR_UNAVAILABLE) return folder_held(s);
    if (code != QR_OK) return FAILED;
    s->lost = s->claim_logged = s->held_logged[s->trial] = false;
    enum outcome out =
        slot_check_checkpoints(s) == QR_OK ? train_trial(s, dir, epochs, &lock) : FAILED;
    qr_run_lock_release(&lock);
    return out;
}

/* ---- choosing a trial ---- */

/* Claims a trial, and checks that its row has not been written meanwhile. */
static enum qr_code claim_trial(struct slot *s, size_t rung, size_t trial, bool *ret_mine) {
    enum qr_code code = qr_sweep_board_claim(s->claims, rung, trial, ret_mine, &s->err);
    /* The store may recover. */
    if (code == QR_UNAVAILABLE || code == QR_DEADLINE_EXCEEDED) code = QR_OK;
    if (code != QR_OK || !*ret_mine) return code;
    s->rung = rung;
    s->trial = trial;
    code = qr_sweep_board_rows(s->board, &s->rows, &s->err);
    if (code == QR_OK && qr_sweep_row_at(&s->rows, rung, trial)->there) *ret_mine = false;
    if (code != QR_OK || !*ret_mine) qr_sweep_board_release(s->claims, rung, trial);
    return code;
}

/* Claims the next free trial of the first rung with missing rows. Slots start at different
 * trials. */
static enum qr_code claim_next_trial(struct slot *s, bool *ret_mine, bool *ret_done) {
    *ret_mine = *ret_done = false;
    for (size_t rung = 0; rung < s->opt->job->sweep->n_rungs; rung++) {
        size_t n = qr_sweep_rung_trials(&s->rows, rung, s->trials), missing = 0;
        for (size_t i = 0; i < n; i++)
            missing += !qr_sweep_row_at(&s->rows, rung, s->trials[i])->there;
        for (size_t i = 0; i < n && missing; i++) {
            size_t t = s->trials[(i + s->number) % n];
            if (qr_sweep_row_at(&s->rows, rung, t)->there || slot_now_ns() < s->until_ns[t])
                continue;
            enum qr_code code = claim_trial(s, rung, t, ret_mine);
            if (code != QR_OK || *ret_mine || sweep_slot_stopping()) return code;
        }
        if (missing) return QR_OK;
    }
    *ret_done = true;
    return QR_OK;
}

static enum outcome slot_run(struct slot *s) {
    int64_t poll_ns = s->remote ? poll_remote_ns : poll_local_ns;
    size_t n_rows = 0, total = s->opt->job->sweep->n_trials * s->opt->job->sweep->n_rungs;
    s->progress_ns = slot_now_ns();
    for (;;) {
        bool mine, done;
        size_t rows = 0;
        if (qr_sweep_board_rows(s->board, &s->rows, &s->err) != QR_OK) return FAILED;
        for (size_t i = 0; i < total; i++) rows += s->rows.row[i].there;
        if (rows != n_rows) s->progress_ns = slot_now_ns();
        n_rows = rows;
        if (claim_next_trial(s, &mine, &done) != QR_OK) return FAILED;
        if (done) return HAS_ROW;
        if (mine) {
            enum outcome out = run_trial(s);
            if (out != LATER) s->progress_ns = slot_now_ns();
            if (out == LATER) s->until_ns[s->trial] = slot_now_ns() + s->opt->lease_ns / 3;
            if (out != HAS_ROW) qr_sweep_board_release(s->claims, s->rung, s->trial);
            if (out == STOPPED || out == FAILED) return out;
            continue;
        }
        int64_t moved = qr_sweep_board_renewal_seen_ns(s->claims);
        if (slot_now_ns() - (moved > s->progress_ns ? moved : s->progress_ns) > stall_timeout_ns) {
            qr_fail(&s->err, QR_UNAVAILABLE,
                    "cannot continue the sweep in %s: for %lld s no trial has progressed and "
                    "none was free; end what holds them, then run the same command",
                    s->opt->board_url, (long long)(stall_timeout_ns / QR_SECOND));
            return FAILED;
        }
        if (!slot_sleep(poll_ns)) return STOPPED;
    }
}

int qr_local_slot(const struct qr_local_sweep_options *opt, unsigned number, const char *holder) {
    const struct qr_sweep_spec *w = opt->job->sweep;
    struct slot s = {.opt = opt,
                     .number = number,
                     .remote = qr_url_remote(opt->board_url),
                     .elsewhere = strcmp(opt->board_url, opt->out) != 0};
    const struct qr_store_waits short_waits = {.deadline_ns = 4 * QR_SECOND,
                                               .stop_deadline_ns = QR_SECOND,
                                               .stopping = sweep_slot_stopping,
                                               .sleep = qr_sleep_ns};
    struct qr_sweep_board_options at = {.url = opt->board_url,
                                        .n_trials = w->n_trials,
                                        .n_rungs = w->n_rungs,
                                        .lease_ns = opt->lease_ns,
                                        .clock = &qr_clock_awake,
                                        .log = opt->log};
    memcpy(at.holder, holder, sizeof at.holder);
    qr_sweep_rows_init(&s.rows, w, opt->job->seed);
    s.rows.metric = opt->metric;
    s.rows.maximize = opt->maximize;
    s.rows.hash = opt->hash;
    s.trials = qr_xcalloc(w->n_trials, sizeof *s.trials);
    s.until_ns = qr_xcalloc(w->n_trials, sizeof *s.until_ns);
    s.held_logged = qr_xcalloc(w->n_trials, sizeof *s.held_logged);
    enum outcome out = FAILED;
    if (qr_sweep_board_open(&at, &s.board, &s.err) == QR_OK) {
        at.waits = &short_waits;
        if (qr_sweep_board_open(&at, &s.claims, &s.err) == QR_OK) out = slot_run(&s);
    }
    if (out == FAILED && sweep_slot_stopping()) out = STOPPED; /* a store's wait was interrupted */
    if (out == FAILED) qr_error(opt->log, "qring", "%s", s.err.msg);
    qr_sweep_board_close(s.board);
    qr_sweep_board_close(s.claims);
    qr_sweep_rows_fini(&s.rows);
    free(s.trials);
    free(s.until_ns);
    free(s.held_logged);
    return out == HAS_ROW   ? 0
           : out == STOPPED ? qr_exit_code(QR_CANCELLED)
                            : qr_exit_code(s.err.code);
}
