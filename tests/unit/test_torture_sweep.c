/* Each call to the store of a sweep's board fails once, before or after its effect: the worker
 * exits with that error, or continues where it may. A restarted worker resumes, no finished trial
 * is trained again, and the table has the same bytes. */
#include "base/mem.h"
#include "sweep/board_impl.h"
#include "tests/t.h"

/* ---- a store in memory with planted failures ---- */

static const char sweep_text[] = "{\"keys\": {\"k\": [0, 1, 2, 3]}, \"halving\": {\"epochs\": [1, "
                                 "2], \"factor\": 2}}";
enum { TRIALS = 4, RUNGS = 2, ROWS = 6, WORKERS = 2 };
static struct qr_store *bucket;
static struct {
    long n, at; /* calls; which one fails; 0: none */
    bool after; /* the call fails after its effect */
    enum qr_code why;
    bool tolerated, was_tolerated; /* the worker tolerates errors now; did so at the failure */
    char name[80];                 /* of the object whose call failed */
} fault;

static bool fails(bool after, const char *name, struct qr_err *err) {
    if (!after) fault.n++;
    if (fault.n != fault.at || fault.after != after) return false;
    fault.was_tolerated = fault.tolerated;
    snprintf(fault.name, sizeof fault.name, "%s", name);
    return qr_fail(err, fault.why, "planted: %s", name) != QR_OK;
}
#define INNER(call, name)                                                                          \
    if (fails(false, name, err)) return err->code;                                                 \
    enum qr_code code = bucket->ops->call;                                                         \
    return fails(true, name, err) ? err->code : code
static enum qr_code shaky_get(struct qr_store *s, const char *name, size_t max, struct qr_buf *ret,
                              struct qr_err *err) {
    (void)s;
    INNER(get(bucket, name, max, ret, err), name);
}
static enum qr_code shaky_put(struct qr_store *s, const char *name, struct qr_bytes content,
                              bool absent, struct qr_err *err) {
    (void)s;
    INNER(put(bucket, name, content, absent, err), name);
}
static enum qr_code shaky_remove(struct qr_store *s, const char *name, struct qr_err *err) {
    (void)s;
    INNER(remove(bucket, name, err), name);
}
static enum qr_code shaky_list(struct qr_store *s, const char *prefix, struct qr_buf *ret,
                               struct qr_err *err) {
    (void)s;
    INNER(list(bucket, prefix, ret, err), prefix);
}
static enum qr_code shaky_version(struct qr_store *s, const char *name, size_t max,
                                  struct qr_buf *ret, struct qr_store_version *v,
                                  struct qr_err *err) {
    (void)s;
    INNER(get_version(bucket, name, max, ret, v, err), name);
}
static enum qr_code shaky_swap(struct qr_store *s, const char *name, struct qr_bytes content,
                               const struct qr_store_version *v, struct qr_err *err) {
    (void)s;
    INNER(swap(bucket, name, content, v, err), name);
}
static void shaky_close(struct qr_store *s) { free(s); }
static const struct qr_store_ops shaky_ops = {.get = shaky_get,
                                              .put = shaky_put,
                                              .remove = shaky_remove,
                                              .list = shaky_list,
                                              .get_version = shaky_version,
                                              .swap = shaky_swap,
                                              .close = shaky_close};

static size_t names_below(const char *prefix) {
    struct qr_buf names = {0};
    struct qr_err err;
    size_t n = 0;
    CHECK(bucket->ops->list(bucket, prefix, &names, &err) == QR_OK);
    for (const char *at = qr_buf_string(&names); *at; at += strcspn(at, "\n") + (n++, 0))
        at += *at == '\n';
    qr_buf_free(&names);
    return n;
}

/* ---- a worker like local/sweep_slot.c, with trials of a few seconds ---- */

static int64_t virtual_ns;
static int64_t virtual_now(void *ctx) { return (void)ctx, virtual_ns; }
static const struct qr_clock clock_of_test = {virtual_now, NULL};
static struct qr_sweep_spec *sweep;
static unsigned trained[RUNGS][TRIALS];

struct worker {
    char letter;
    struct qr_sweep_board *board;
    struct qr_sweep_rows rows;
    bool busy, done;
    size_t rung, trial;
    int64_t until_ns;
};

static void worker_end(struct worker *w) {
    qr_sweep_board_close(w->board);
    qr_sweep_rows_fini(&w->rows);
    *w = (struct worker){.letter = w->letter};
}

static enum qr_code worker_begin(struct worker *w, struct qr_err *err) {
    struct qr_sweep_board_options opt = {.url = "memory://sweep",
                                         .n_trials = TRIALS,
                                         .n_rungs = RUNGS,
                                         .lease_ns = 10 * QR_SECOND,
                                         .clock = &clock_of_test};
    struct qr_store *s = qr_xcalloc(1, sizeof *s);
    struct qr_buf there = {0};
    s->ops = &shaky_ops;
    memset(opt.holder, w->letter, 32);
    w->board = qr_sweep_board_over(&opt, s, qr_xstrdup("sweep/"));
    qr_sweep_rows_init(&w->rows, sweep, 1);
    w->rows.metric = "m";
    enum qr_code code =
        qr_sweep_board_publish(w->board, qr_bytes_of_string(sweep_text), &there, err);
    CHECK(code != QR_OK || strcmp(qr_buf_string(&there), sweep_text) == 0);
    qr_buf_free(&there);
    return code == QR_OK ? qr_sweep_board_rows(w->board, &w->rows, err) : code;
}

/* A trial's result, which is the same for every worker. */
static enum qr_code worker_add_row(struct worker *w, struct qr_err *err) {
    struct qr_sweep_row r = {
        .there = true, .trial = w->trial, .rung = w->rung, .epochs = w->rung + 1, .steps = 7};
    r.n_metrics = 1;
    memset(r.job_hash, 'a', 64);
    memset(r.state_digest, 'b', 32);
    memset(r.weights_sha256, 'c', 64);
    memset(r.safetensors_sha256, 'd', 64);
    snprintf(r.metrics[0].name, sizeof r.metrics[0].name, "m");
    r.metrics[0].value = (double)((w->trial * 5 + 2) % 4) / (double)(w->rung + 1);
    w->busy = false;
    return qr_sweep_board_add_row(w->board, &r, err);
}

static enum qr_code worker_claim(struct worker *w, size_t rung, size_t trial, struct qr_err *err) {
    bool mine = false;
    fault.tolerated = true;
    enum qr_code code = qr_sweep_board_claim(w->board, rung, trial, &mine, err);
    fault.tolerated = false;
    if (code == QR_UNAVAILABLE) return QR_OK;
    if (code != QR_OK || !mine) return code;
    code = qr_sweep_board_rows(w->board, &w->rows, err);
    if (code != QR_OK || qr_sweep_row_at(&w->rows, rung, trial)->there) {
        fault.tolerated = true;
        qr_sweep_board_release(w->board, rung, trial);
        fault.tolerated = false;
        return code;
    }
    struct qr_buf there = {0};
    struct qr_err none;
    qr_auto(qr_free_p) char *name = qr_xasprintf("sweep/rows/%zu-%04zu.json", rung, trial);
    CHECK(bucket->ops->get(bucket, name, 1 << 16, &there, &none) == QR_NOT_FOUND,
          "call %ld: %s is trained again", fault.at, name);
    qr_buf_free(&there);
    trained[rung][trial]++;
    w->busy = true;
    w->rung = rung, w->trial = trial;
    w->until_ns = virtual_ns + (int64_t)(3 + trial) * QR_SECOND;
    return QR_OK;
}

static enum qr_code worker_choose(struct worker *w, struct qr_err *err) {
    size_t trials[TRIALS];
    enum qr_code code = qr_sweep_board_rows(w->board, &w->rows, err);
    for (size_t rung = 0; rung < RUNGS && code == QR_OK; rung++) {
        size_t n = qr_sweep_rung_trials(&w->rows, rung, trials), missing = 0;
        for (size_t i = 0; i < n; i++)
            missing += !qr_sweep_row_at(&w->rows, rung, trials[i])->there;
        for (size_t i = 0; i < n && code == QR_OK && !w->busy; i++)
            if (!qr_sweep_row_at(&w->rows, rung, trials[i])->there)
                code = worker_claim(w, rung, trials[i], err);
        if (missing) return code;
    }
    w->done = code == QR_OK;
    return code;
}

static enum qr_code worker_turn(struct worker *w, struct qr_err *err) {
    if (!w->board) return worker_begin(w, err);
    if (w->busy) {
        bool mine = true;
        struct qr_err unread = {0};
        fault.tolerated = true;
        if (qr_sweep_board_renew(w->board, w->rung, w->trial, &mine, &unread) == QR_OK)
            w->busy = mine;
        fault.tolerated = false;
        if (w->busy && virtual_ns >= w->until_ns) return worker_add_row(w, err);
        return QR_OK;
    }
    return worker_choose(w, err);
}

/* ---- a sweep, one of whose calls fails ---- */

static struct qr_buf table; /* of the sweep without a failure */

/* Runs two workers; one that exits with an error restarts two seconds later under the same name.
 * Returns whether the call was reached. */
static bool run_sweep(long at, bool after, enum qr_code why) {
    struct worker w[WORKERS] = {{.letter = 'a'}, {.letter = 'b'}};
    struct qr_err err = {0};
    struct qr_buf csv = {0};
    unsigned errors = 0, seconds = 0, n_trained = 0;
    memset(&fault, 0, sizeof fault);
    fault.at = at, fault.after = after, fault.why = why;
    memset(trained, 0, sizeof trained);
    bucket = qr_store_memory_new();
    for (; !(w[0].done && w[1].done) && seconds < 200; seconds++, virtual_ns += QR_SECOND)
        for (unsigned i = 0; i < WORKERS; i++) {
            if (w[i].done || (!w[i].board && virtual_ns < w[i].until_ns)) continue;
            if (worker_turn(&w[i], &err) == QR_OK) continue;
            errors++;
            CHECK(err.code == why && strstr(err.msg, "planted: ") && strstr(err.msg, fault.name),
                  "call %ld: %s", at, err.msg);
            worker_end(&w[i]);
            w[i].until_ns = virtual_ns + 2 * QR_SECOND;
        }
    bool reached = at > 0 && fault.n >= at;
    CHECK(w[0].done && w[1].done, "call %ld (%s): the workers do not finish", at, fault.name);
    CHECK(errors == 1 ? reached : errors == 0 && (!reached || fault.was_tolerated),
          "call %ld (%s) failed and caused %u errors", at, fault.name, errors);
    struct worker reader = {.letter = 'c'};
    fault.at = 0;
    CHECK(worker_begin(&reader, &err) == QR_OK && qr_sweep_complete(&reader.rows), "%s", err.msg);
    qr_sweep_csv(&reader.rows, &csv);
    if (!table.n) qr_buf_puts(&table, qr_buf_string(&csv));
    CHECK(strcmp(qr_buf_string(&csv), qr_buf_string(&table)) == 0, "call %ld (%s): the table\n%s",
          at, fault.name, qr_buf_string(&csv));
    for (size_t r = 0; r < RUNGS; r++)
        for (size_t t = 0; t < TRIALS; t++) n_trained += trained[r][t];
    CHECK(n_trained >= ROWS && n_trained <= ROWS + (reached ? 1 : 0),
          "call %ld (%s): %u trainings of %d trials", at, fault.name, n_trained, ROWS);
    fault.n = 0;
    fault.at = at;
    qr_sweep_board_delete_claims(reader.board); /* a failure here has no effect */
    fault.at = 0;
    CHECK(names_below("sweep/rows/") == ROWS && names_below("sweep/job") == 1);
    worker_end(&reader);
    for (unsigned i = 0; i < WORKERS; i++) worker_end(&w[i]);
    qr_buf_free(&csv);
    bucket->ops->close(bucket);
    return reached;
}

/* --fresh: what could not be deleted is deleted by the next run. */
static bool run_delete(long at, bool after) {
    struct worker w = {.letter = 'a'};
    struct qr_err err = {0};
    memset(&fault, 0, sizeof fault);
    bucket = qr_store_memory_new();
    CHECK(worker_begin(&w, &err) == QR_OK && worker_claim(&w, 0, 2, &err) == QR_OK && w.busy &&
              worker_add_row(&w, &err) == QR_OK && names_below("sweep/") == 3,
          "%s", err.msg);
    fault.n = 0, fault.at = at, fault.after = after, fault.why = QR_PERMISSION_DENIED;
    enum qr_code code = qr_sweep_board_delete(w.board, &err);
    bool reached = fault.n >= at;
    CHECK(code == (reached ? QR_PERMISSION_DENIED : QR_OK) &&
              (!reached || strstr(err.msg, "planted: sweep/")),
          "call %ld: %s", at, err.msg);
    fault.at = 0;
    CHECK(qr_sweep_board_delete(w.board, &err) == QR_OK && names_below("sweep/") == 0, "%s",
          err.msg);
    worker_end(&w);
    bucket->ops->close(bucket);
    return reached;
}

int main(void) {
    static const enum qr_code whys[] = {QR_UNAVAILABLE, QR_PERMISSION_DENIED};
    qr_auto(qr_json_free_p) struct qr_json *o = NULL;
    struct qr_err err = {0};
    CHECK(qr_json_parse(qr_bytes_of_string(sweep_text), "sweep", &o, &err) == QR_OK &&
              qr_sweep_read(o, &sweep, &err) == QR_OK,
          "%s", err.msg);
    if (t_failed) return t_end();
    long n_calls = 0;
    run_sweep(0, false, QR_OK);
    for (unsigned after = 0; after < 2; after++) {
        for (size_t i = 0; i < COUNT(whys); i++) {
            long at = 1;
            while (run_sweep(at, after, whys[i])) at++;
            n_calls += at - 1;
        }
        for (long at = 1; run_delete(at, after); at++) n_calls++;
    }
    CHECK(n_calls > 200, "%ld calls", n_calls);
    printf("%ld calls of a sweep's board to its store failed: the table is the same after each\n",
           n_calls);
    qr_buf_free(&table);
    qr_sweep_free(sweep);
    return t_end();
}
