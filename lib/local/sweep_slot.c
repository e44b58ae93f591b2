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

/* A trial whose worker crashes so often is one that does; one that is killed so often, without an
 * end in sight, is this machine's fault. */
enum { MAX_CRASHES = 3, MAX_KILLS = 8, MAX_ARGUMENTS = 128, MAX_RESULT_BYTES = 1 << 24 };
static const int64_t look_local_ns = 200 * QR_MS, look_remote_ns = 2 * QR_SECOND,
                     again_first_ns = QR_SECOND / 2, again_last_ns = 8 * QR_SECOND,
                     nothing_moves_ns = 600 * QR_SECOND;

enum outcome {
    ROW,   /* the trial has its row */
    LATER, /* it is somebody else's, or somebody's folder: another one first */
    ASKED, /* a signal came */
    WRONG, /* the sweep ends; slot.err says why */
};

struct slot {
    const struct qr_local_sweep_options *opt;
    struct qr_sweep_board *board, *beats; /* beats: waits for no outage of a store */
    struct qr_sweep_rows rows;
    size_t *trials;    /* of a rung */
    int64_t *until_ns; /* before which a trial is not tried again */
    bool *told_held;   /* it has been logged that another process holds the trial's folder */
    unsigned number;
    size_t rung, trial;                      /* that it has */
    bool elsewhere, remote, lost, told_beat; /* elsewhere: the board is not in OUT */
    int64_t moved_ns;                        /* when a row came, or a trial was had, last */
    struct qr_err err;
};

static int64_t now_ns(void) {
    qr_awake_pulse();
    return qr_now_ns(&qr_clock_awake);
}

/* False: a signal came. */
static bool rest(int64_t ns) {
    sigset_t asked;
    sigemptyset(&asked);
    sigaddset(&asked, SIGINT);
    sigaddset(&asked, SIGTERM);
    const struct timespec t = {.tv_sec = ns / QR_SECOND, .tv_nsec = ns % QR_SECOND};
    return sigtimedwait(&asked, NULL, &t) < 0;
}

/* ---- one worker ---- */

/* While it trains. A store that is away takes nobody's trial. */
static bool go_on(void *ctx) {
    struct slot *s = ctx;
    struct qr_err err;
    bool mine = true;
    enum qr_code code = qr_sweep_board_renew(s->beats, s->rung, s->trial, &mine, &err);
    /* a file's is one that somebody looks at just now */
    bool passes = code == QR_OK || (code == QR_UNAVAILABLE && !s->remote);
    if (!passes && !s->told_beat) {
        s->told_beat = true;
        qr_warn(s->opt->log, "qring", "trial %zu: %s", s->trial, err.msg);
    }
    s->lost = s->lost || !mine;
    return !s->lost;
}

static void add(char **argv, size_t *n, char *text) {
    QR_ASSERT(*n < MAX_ARGUMENTS);
    argv[(*n)++] = text;
}

/* What says which trial it is, in front of what the person gave; all on the heap. */
static size_t arguments_of(const struct slot *s, const char *dir, uint64_t epochs, bool fresh,
                           char **argv) {
    static const char *const of_clusters[] = {"index", "peers", "peer-template",     "replicas",
                                              "port",  "bind",  "parameter-servers", "role"};
    const struct qr_local_sweep_options *o = s->opt;
    struct qr_overrides set = {0};
    size_t n = 0;
    qr_auto(qr_free_p) char *there = qr_local_trial_folder(o->board_url, s->trial);
    qr_auto(qr_free_p) char *weights =
        qr_local_trial_weights(o->board_url, o->job->sweep, s->trial, s->rung);
    add(argv, &n, qr_xstrdup(o->job_path));
    add(argv, &n, qr_xstrdup("--log-format=text"));
    add(argv, &n, qr_xasprintf("--out=%s", dir));
    add(argv, &n, qr_xasprintf("--weights=%s", s->elsewhere ? weights : ""));
    add(argv, &n, qr_xstrdup("--weights-gcs-bucket="));
    add(argv, &n, qr_xstrdup("--weights-gcs-path="));
    add(argv, &n, qr_xasprintf("--checkpoints=%s/checkpoints", there));
    add(argv, &n, qr_xasprintf("--logdir=%s%s", o->events ? dir : "", o->events ? "/logs" : ""));
    add(argv, &n, qr_xasprintf("--epochs=%llu", (unsigned long long)epochs));
    if (fresh) add(argv, &n, qr_xstrdup("--fresh"));
    for (size_t i = 0; i < sizeof of_clusters / sizeof *of_clusters; i++)
        add(argv, &n, qr_xasprintf("--%s=", of_clusters[i]));
    add(argv, &n, qr_xstrdup("--progress-to=none")); /* a trial is not the whole */
    qr_job_trial_set(o->job, s->trial, &set);
    for (size_t i = 0; i < set.n; i++) add(argv, &n, qr_xasprintf("--set=%s", set.v[i].text));
    qr_overrides_fini(&set);
    for (size_t i = 0; i < o->n_arguments; i++) add(argv, &n, qr_xstrdup(o->arguments[i]));
    return n;
}

static enum qr_code train(struct slot *s, const char *dir, uint64_t epochs, bool fresh,
                          const struct qr_run_lock *lock, struct qr_local_result *ret) {
    char *argv[MAX_ARGUMENTS];
    size_t n = arguments_of(s, dir, epochs, fresh, argv);
    const struct qr_local_options opt = {
        .program = s->opt->program,
        .n_workers = 1,
        .arguments = (const char *const *)argv,
        .n_arguments = n,
        .environment = s->opt->environment,
        .log_dir = dir,
        .lock_fd = lock->held ? &lock->fd : NULL,
        .go_on = go_on,
        .ctx = s,
    };
    enum qr_code code = qr_local_run(&opt, ret, &s->err);
    for (size_t i = 0; i < n; i++) free(argv[i]);
    return code;
}

/* ---- one trial ---- */

static uint64_t epochs_of(const struct slot *s, struct qr_err *err) {
    const struct qr_sweep_spec *w = s->opt->job->sweep;
    struct qr_job *trial = NULL;
    if (w->n_rungs > 1) return w->epochs[s->rung];
    if (qr_job_trial(s->opt->job, s->trial, &trial, err) != QR_OK) return 0;
    uint64_t epochs = trial->train.epochs;
    qr_job_free(trial);
    return epochs;
}

static void say(const struct slot *s, const struct qr_sweep_row *r) {
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
    for (size_t i = 0; i < set.n; i++) { /* a metric has "=": who collects those reads no key */
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

static enum outcome put(struct slot *s, struct qr_sweep_row *row) {
    enum qr_code code = qr_sweep_board_add_row(s->board, row, &s->err);
    if (code == QR_OK) say(s, row);
    qr_sweep_row_fini(row);
    return code == QR_OK ? ROW : WRONG;
}

/* The trial's own fault, which every worker would find. */
static enum outcome put_failed(struct slot *s, const char *sentence) {
    struct qr_sweep_row row = {.there = true,
                               .trial = s->trial,
                               .rung = s->rung,
                               .failed = true,
                               .error = qr_xstrdup(sentence)};
    memcpy(row.job_hash, s->opt->hash[s->trial], sizeof row.job_hash);
    return put(s, &row);
}

/* Data may change while a sweep goes on. */
static enum qr_code check_hash(const struct slot *s, const struct qr_sweep_row *row,
                               struct qr_err *err) {
    const char *expected = s->opt->hash[s->trial];
    if (strcmp(row->job_hash, expected) == 0) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "cannot go on with the sweep in %.200s: trial %zu was trained from other data "
                   "than the sweep began with (job hash %.12s, expected %.12s); restore the data, "
                   "or start over with --fresh",
                   s->opt->board_url, s->trial, row->job_hash, *expected ? expected : "none");
}

/* The run ended well. *ret_nothing: here, its result is not: another worker ended it. */
static enum outcome put_result(struct slot *s, const char *dir, bool *ret_nothing) {
    struct qr_buf text = {0};
    struct qr_sweep_row row;
    qr_auto(qr_free_p) char *path = qr_path_join(dir, "result.json");
    enum qr_code code = qr_file_read(path, MAX_RESULT_BYTES, &text, &s->err);
    *ret_nothing = code == QR_NOT_FOUND;
    if (code == QR_OK)
        code = qr_sweep_row_of_result(qr_buf_view(&text), path, s->trial, s->rung, &row, &s->err);
    if (code == QR_OK && (code = check_hash(s, &row, &s->err)) != QR_OK) qr_sweep_row_fini(&row);
    qr_buf_free(&text);
    return code == QR_OK ? put(s, &row) : WRONG;
}

static enum outcome on_sentence(struct slot *s, const struct qr_local_result *r) {
    bool own = r->code == QR_OUT_OF_RANGE || r->code == QR_INVALID_ARGUMENT;
    if (own) return put_failed(s, r->sentence);
    enum qr_code code = r->code ? r->code : r->exit_code < 128 ? QR_INTERNAL : QR_UNAVAILABLE;
    qr_fail(&s->err, code, "trial %zu: %.600s", s->trial, r->sentence);
    return WRONG;
}

/* Whether a crash is to blame, which may come again; else whoever killed it. */
static bool is_crash(int number) {
    return number == SIGSEGV || number == SIGABRT || number == SIGBUS || number == SIGFPE ||
           number == SIGILL;
}

static enum outcome train_until(struct slot *s, const char *dir, uint64_t epochs,
                                const struct qr_run_lock *lock) {
    unsigned crashes = 0, losses = 0;
    bool fresh = false, nothing;
    int64_t pause = again_first_ns;
    qr_auto(qr_free_p) char *result = qr_path_join(dir, "result.json");
    for (;;) {
        struct qr_local_result r = {0};
        /* it may be of an earlier rung, where another machine has trained the next one */
        if (s->elsewhere) unlink(result);
        if (train(s, dir, epochs, fresh, lock, &r) != QR_OK) return WRONG;
        qr_auto(qr_free_p) char *sentence = r.sentence;
        if (s->lost) return LATER;
        if (r.interrupted) return ASKED;
        if (r.exit_code == 0) {
            enum outcome out = put_result(s, dir, &nothing);
            if (!nothing || fresh) return out;
            fresh = true; /* nobody has its numbers: once more */
            continue;
        }
        if (r.exit_code < 128) return on_sentence(s, &r);
        crashes += is_crash(r.signal);
        losses++;
        if (crashes == MAX_CRASHES) return put_failed(s, sentence);
        if (losses >= MAX_KILLS) return on_sentence(s, &r);
        qr_warn(s->opt->log, "qring", "trial %zu: its worker %s; it goes on in %.1f s", s->trial,
                sentence, (double)pause / 1e9);
        if (!rest(pause)) return ASKED;
        pause = 2 * pause < again_last_ns ? 2 * pause : again_last_ns;
        if (!go_on(s)) return LATER;
    }
}

/* A process that is frozen may hold the folder long after its claim was taken over. */
static enum outcome folder_held(struct slot *s) {
    if (!s->told_held[s->trial])
        qr_warn(s->opt->log, "qring", "trial %zu has to wait: %s", s->trial, s->err.msg);
    s->told_held[s->trial] = true;
    return LATER;
}

/* Another job's checkpoints would make the trial fail for a reason that is not its own. Other
 * faults of theirs are the worker's to report. */
static enum qr_code check_checkpoints(struct slot *s) {
    qr_auto(qr_free_p) char *there = qr_local_trial_folder(s->opt->board_url, s->trial),
                            *url = qr_path_join(there, "checkpoints");
    const char *expected = s->opt->hash[s->trial];
    struct qr_checkpoint_folder p;
    struct qr_checkpoint_latest l = {0};
    struct qr_err unread;
    if (qr_checkpoint_folder_open(url, &p, &s->err) != QR_OK) return s->err.code;
    bool other = qr_checkpoint_peek(&p.at, &l, &unread) == QR_OK && *l.job_hash && *expected &&
                 strcmp(l.job_hash, expected) != 0;
    qr_checkpoint_folder_close(&p);
    if (!other) return QR_OK;
    return qr_fail(&s->err, QR_INVALID_ARGUMENT,
                   "cannot go on with the sweep in %.200s: trial %zu has checkpoints of other data "
                   "or another job there (job hash %.12s, expected %.12s); choose another --out or "
                   "--to, or --fresh, which removes them",
                   s->opt->board_url, s->trial, l.job_hash, expected);
}

/* With the claim. The worker that trains in the folder holds its lock, however late it is. */
static enum outcome run_trial(struct slot *s) {
    qr_auto(qr_free_p) char *dir = qr_local_trial_folder(s->opt->out, s->trial);
    struct qr_run_lock lock = {0};
    const struct qr_run_lock_options opt = {
        .dir = dir, .job = s->opt->job->name, .patience_ns = QR_SECOND / 2, .log = s->opt->log};
    uint64_t epochs = epochs_of(s, &s->err);
    if (!epochs || qr_dir_make(dir, &s->err) != QR_OK) return WRONG;
    enum qr_code code = qr_run_lock_take(&opt, &lock, &s->err);
    if (code == QR_INVALID_ARGUMENT || code == QR_UNAVAILABLE) return folder_held(s);
    if (code != QR_OK) return WRONG;
    s->lost = s->told_beat = s->told_held[s->trial] = false;
    enum outcome out = check_checkpoints(s) == QR_OK ? train_until(s, dir, epochs, &lock) : WRONG;
    qr_run_lock_release(&lock);
    return out;
}

/* ---- which trial ---- */

/* A claim, and a look whether it came too late. */
static enum qr_code take(struct slot *s, size_t rung, size_t trial, bool *ret_mine) {
    enum qr_code code = qr_sweep_board_claim(s->beats, rung, trial, ret_mine, &s->err);
    if (code == QR_UNAVAILABLE || code == QR_DEADLINE_EXCEEDED) code = QR_OK; /* or by and by */
    if (code != QR_OK || !*ret_mine) return code;
    s->rung = rung;
    s->trial = trial;
    code = qr_sweep_board_rows(s->board, &s->rows, &s->err);
    if (code == QR_OK && qr_sweep_row_at(&s->rows, rung, trial)->there) *ret_mine = false;
    if (code != QR_OK || !*ret_mine) qr_sweep_board_release(s->beats, rung, trial);
    return code;
}

/* The next that is free, of the first rung that has rows missing. Slots begin at different
 * places. */
static enum qr_code choose(struct slot *s, bool *ret_mine, bool *ret_done) {
    *ret_mine = *ret_done = false;
    for (size_t rung = 0; rung < s->opt->job->sweep->n_rungs; rung++) {
        size_t n = qr_sweep_rung_trials(&s->rows, rung, s->trials), missing = 0;
        for (size_t i = 0; i < n; i++)
            missing += !qr_sweep_row_at(&s->rows, rung, s->trials[i])->there;
        for (size_t i = 0; i < n && missing; i++) {
            size_t t = s->trials[(i + s->number) % n];
            if (qr_sweep_row_at(&s->rows, rung, t)->there || now_ns() < s->until_ns[t]) continue;
            enum qr_code code = take(s, rung, t, ret_mine);
            if (code != QR_OK || *ret_mine || qr_local_sweep_stopping()) return code;
        }
        if (missing) return QR_OK;
    }
    *ret_done = true;
    return QR_OK;
}

static enum outcome work(struct slot *s) {
    int64_t look_ns = s->remote ? look_remote_ns : look_local_ns;
    size_t n_rows = 0, total = s->opt->job->sweep->n_trials * s->opt->job->sweep->n_rungs;
    s->moved_ns = now_ns();
    for (;;) {
        bool mine, done;
        size_t rows = 0;
        if (qr_sweep_board_rows(s->board, &s->rows, &s->err) != QR_OK) return WRONG;
        for (size_t i = 0; i < total; i++) rows += s->rows.row[i].there;
        if (rows != n_rows) s->moved_ns = now_ns();
        n_rows = rows;
        if (choose(s, &mine, &done) != QR_OK) return WRONG;
        if (done) return ROW;
        if (mine) {
            enum outcome out = run_trial(s);
            if (out != LATER) s->moved_ns = now_ns();
            if (out == LATER) s->until_ns[s->trial] = now_ns() + s->opt->lease_ns / 3;
            if (out != ROW) qr_sweep_board_release(s->beats, s->rung, s->trial);
            if (out == ASKED || out == WRONG) return out;
            continue;
        }
        int64_t moved = qr_sweep_board_renewal_seen_ns(s->beats);
        if (now_ns() - (moved > s->moved_ns ? moved : s->moved_ns) > nothing_moves_ns) {
            qr_fail(&s->err, QR_UNAVAILABLE,
                    "cannot go on with the sweep in %s: for %lld s no trial has progressed and "
                    "none was free; end what holds them, then run the same command",
                    s->opt->board_url, (long long)(nothing_moves_ns / QR_SECOND));
            return WRONG;
        }
        if (!rest(look_ns)) return ASKED;
    }
}

int qr_local_slot(const struct qr_local_sweep_options *opt, unsigned number, const char *holder) {
    const struct qr_sweep_spec *w = opt->job->sweep;
    struct slot s = {.opt = opt,
                     .number = number,
                     .remote = qr_url_remote(opt->board_url),
                     .elsewhere = strcmp(opt->board_url, opt->out) != 0};
    const struct qr_store_waits hurry = {.deadline_ns = 4 * QR_SECOND,
                                         .stop_deadline_ns = QR_SECOND,
                                         .stopping = qr_local_sweep_stopping,
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
    s.told_held = qr_xcalloc(w->n_trials, sizeof *s.told_held);
    enum outcome out = WRONG;
    if (qr_sweep_board_open(&at, &s.board, &s.err) == QR_OK) {
        at.waits = &hurry;
        if (qr_sweep_board_open(&at, &s.beats, &s.err) == QR_OK) out = work(&s);
    }
    if (out == WRONG && qr_local_sweep_stopping())
        out = ASKED; /* a store's wait that was cut short */
    if (out == WRONG) qr_error(opt->log, "qring", "%s", s.err.msg);
    qr_sweep_board_close(s.board);
    qr_sweep_board_close(s.beats);
    qr_sweep_rows_fini(&s.rows);
    free(s.trials);
    free(s.until_ns);
    free(s.told_held);
    return out == ROW ? 0 : out == ASKED ? qr_exit_code(QR_CANCELLED) : qr_exit_code(s.err.code);
}
