/* The evaluator: its numbers are those of training's own evaluations, byte for byte; its walk
 * through what a run publishes, in virtual time over a store in memory, with everything that may
 * happen there; its curve, and each call to the store failing once. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/counter.h"
#include "base/file.h"
#include "base/mem.h"
#include "data/batch.h"
#include "evaluator/curve.h"
#include "evaluator/evaluator.h"
#include "tests/t.h"
#include "train/checkpoint.h"
#include "train/held_out.h"
#include "train/logged.h"
#include "train/train.h"

enum { BATCHES = 4, EPOCHS = 5, STATES = (BATCHES + 1) * EPOCHS };
static char dir[] = "/tmp/qring-evaluator-XXXXXX";
static struct qr_err err;
static struct qr_job *job;
static struct qr_workload load;
static struct qr_job_canonical canonical;
static struct qr_pool *pool;

/* ---- a run: its committed states, and the lines of its evaluations ---- */

static struct qr_state states[STATES + 1]; /* by reductions */
static struct qr_buf inline_lines[EPOCHS + 1];
static uint64_t inline_readouts[EPOCHS + 1][QR_READOUT_BUCKETS];

static enum qr_code keep_state(void *ctx, bool leader, struct qr_state *s, struct qr_err *e) {
    (void)ctx, (void)leader, (void)e;
    qr_state_copy(&states[s->reductions], s);
    return QR_OK;
}
static enum qr_code keep_line(void *ctx, bool leader, const struct qr_step_line *line,
                              const struct qr_step_detail *d, struct qr_err *e) {
    (void)ctx, (void)leader, (void)e;
    if (!line->eval) return QR_OK;
    qr_step_json(line, &inline_lines[line->epoch]);
    memcpy(inline_readouts[line->epoch], d->readouts, sizeof *inline_readouts);
    return QR_OK;
}

static void train(void) {
    struct qr_group_options g = {.run = "t", .clock = &qr_clock_monotonic};
    struct qr_train_result r = {0};
    memcpy(g.job_hash, canonical.hash, sizeof g.job_hash);
    struct qr_group *group = qr_group_solo(&g);
    for (size_t i = 0; i <= STATES; i++) qr_state_init(&states[i], job, load.model);
    const struct qr_train_options o = {
        .job = job,
        .canonical = &canonical,
        .data = &load.data,
        .model = load.model,
        .group = group,
        .pool = pool,
        .clock = &qr_clock_monotonic,
        .observer = {.committed = keep_state, .step = keep_line},
    };
    CHECK(qr_train_run(&o, &r, &err) == QR_OK, "%s", err.msg);
    CHECK(r.steps == BATCHES * EPOCHS && r.epochs == EPOCHS);
    qr_train_result_fini(&r);
    qr_group_close(group);
}
/* After so many epochs, counted. */
static const struct qr_state *end_of(uint64_t epoch) { return &states[(BATCHES + 1) * epoch]; }

static void test_numbers(void) {
    for (unsigned threads = 1; threads <= 3; threads += 2) {
        struct qr_pool *p = qr_pool_new(threads);
        struct qr_held_out *h = NULL;
        const struct qr_held_out_options o = {.job = job,
                                              .model = load.model,
                                              .data = &load.data,
                                              .pool = p,
                                              .clock = &qr_clock_monotonic};
        CHECK(qr_held_out_new(&o, &h, &err) == QR_OK, "%s", err.msg);
        for (uint64_t k = 2 * EPOCHS; k-- > 0;) { /* before it was counted, and after; backward */
            const struct qr_state *s = end_of(k / 2 + 1) - 1 + k % 2;
            struct qr_named_value metrics[QR_LINE_VALUES], logged[QR_MAX_LOGGED];
            struct qr_step_line line;
            struct qr_reported r;
            struct qr_buf text = {0};
            CHECK(qr_held_out_evaluate(h, s, &r, &err) == QR_OK, "%s", err.msg);
            qr_logged_line(job, load.model, &r, metrics, logged, &line);
            qr_step_json(&line, &text);
            CHECK(strcmp(qr_buf_string(&text), qr_buf_string(&inline_lines[k / 2 + 1])) == 0,
                  "%u threads: %s%s", threads, qr_buf_string(&text),
                  qr_buf_string(&inline_lines[k / 2 + 1]));
            CHECK(memcmp(r.readouts, inline_readouts[k / 2 + 1], sizeof r.readouts) == 0 &&
                  r.ends_epoch);
            qr_buf_free(&text);
        }
        struct qr_reported r;
        CHECK(qr_held_out_evaluate(h, &states[BATCHES + 2], &r, &err) == QR_OK &&
                  r.step == BATCHES + 1 && r.epoch == 2 && !r.ends_epoch,
              "within an epoch");
        double label = load.data.y[load.data.n_train + 2];
        load.data.y[load.data.n_train + 2] = 1e30;
        CHECK(qr_held_out_evaluate(h, end_of(1), &r, &err) == QR_OUT_OF_RANGE &&
                  strstr(err.msg, "validation batch"),
              "%s", err.msg);
        load.data.y[load.data.n_train + 2] = label;
        qr_held_out_free(h);
        qr_pool_free(p);
    }
}

/* ---- the place: a store in memory, whose calls may fail ---- */

struct shaky {
    struct qr_store base;
    struct qr_store *inner;
    long n, fail_at; /* of gets; 0: none fails */
    enum qr_code why;
};
static bool shakes(struct qr_store *s, struct qr_err *e) {
    struct shaky *f = (struct shaky *)s;
    if (++f->n != f->fail_at) return false;
    return qr_fail(e, f->why, "planted") != QR_OK;
}
static enum qr_code shaky_get(struct qr_store *s, const char *name, size_t max, struct qr_buf *ret,
                              struct qr_err *e) {
    struct shaky *f = (struct shaky *)s;
    return shakes(s, e) ? e->code : f->inner->ops->get(f->inner, name, max, ret, e);
}
static enum qr_code shaky_version(struct qr_store *s, const char *name, size_t max,
                                  struct qr_buf *ret, struct qr_store_version *v,
                                  struct qr_err *e) {
    struct shaky *f = (struct shaky *)s;
    return shakes(s, e) ? e->code : f->inner->ops->get_version(f->inner, name, max, ret, v, e);
}
static enum qr_code shaky_list(struct qr_store *s, const char *prefix, struct qr_buf *ret,
                               struct qr_err *e) {
    struct shaky *f = (struct shaky *)s;
    return f->inner->ops->list(f->inner, prefix, ret, e);
}
static enum qr_code refuse(void) {
    CHECK(false, "an evaluator writes nothing into the place");
    return QR_INTERNAL;
}
static enum qr_code shaky_put(struct qr_store *s, const char *n, struct qr_bytes b, bool absent,
                              struct qr_err *e) {
    return (void)s, (void)n, (void)b, (void)absent, (void)e, refuse();
}
static enum qr_code shaky_remove(struct qr_store *s, const char *n, struct qr_err *e) {
    return (void)s, (void)n, (void)e, refuse();
}
static enum qr_code shaky_swap(struct qr_store *s, const char *n, struct qr_bytes b,
                               const struct qr_store_version *v, struct qr_err *e) {
    return (void)s, (void)n, (void)b, (void)v, (void)e, refuse();
}
static const struct qr_store_ops shaky_ops = {.get = shaky_get,
                                              .put = shaky_put,
                                              .remove = shaky_remove,
                                              .list = shaky_list,
                                              .get_version = shaky_version,
                                              .swap = shaky_swap};

/* What happens in the place while the evaluator waits, in turn. */
enum event_kind { PUBLISH, DONE, FORGET, FOREIGN, BREAK_LATEST, BREAK_FILE, WAIT, STOP };
struct event {
    enum event_kind kind;
    uint64_t k; /* PUBLISH, DONE: a state by reductions; WAIT: seconds */
};
struct world {
    struct shaky store;
    struct qr_store *inner;
    struct qr_checkpoint_place place, own; /* as the evaluator sees it, and the workers */
    const struct event *next, *end;
    int64_t now_ns;
    bool stop, computing;
    unsigned n_shown, n_anew, n_waits;
    char said[8192];
};
static struct world w;

static int64_t world_now(void *ctx) { return ((struct world *)ctx)->now_ns; }
static const struct qr_clock world_clock = {world_now, &w};
static bool world_stopping(void *ctx) { return ((struct world *)ctx)->stop; }

static void write_over(const char *name, const char *text) {
    qr_auto(qr_free_p) char *path = qr_xasprintf("%s/%s", w.own.dir, name);
    CHECK(w.inner->ops->put(w.inner, path, qr_bytes_of_string(text), false, &err) == QR_OK, "%s",
          err.msg);
}

static void publish(const struct qr_state *s, const char *hash, bool done) {
    struct qr_checkpoint c;
    struct qr_checkpoint_latest l;
    struct qr_buf notes = {0};
    qr_state_save(s, job, load.model, hash, &c);
    CHECK(qr_checkpoint_save(&w.own, &c, done, &l, &notes, &err) == QR_OK, "%s", err.msg);
    qr_checkpoint_fini(&c);
    qr_buf_free(&notes);
}

static void happens(const struct event *e) {
    struct qr_checkpoint_latest l;
    static char foreign[65];
    memset(foreign, 'f', 64);
    switch (e->kind) {
    case PUBLISH:
    case DONE: publish(&states[e->k], canonical.hex, e->kind == DONE); break;
    case FORGET: CHECK(qr_checkpoint_forget(&w.own, &err) == QR_OK, "%s", err.msg); break;
    case FOREIGN: publish(&states[e->k], foreign, false); break;
    case BREAK_LATEST: write_over("LATEST", "torn"); break;
    case BREAK_FILE:
        CHECK(qr_checkpoint_peek(&w.own, &l, &err) == QR_OK);
        write_over(l.object, "torn");
        break;
    case WAIT: w.now_ns += (int64_t)e->k * QR_SECOND; break;
    case STOP: w.stop = true; break;
    }
}

static void world_sleep(void *ctx, int64_t ns) {
    (void)ctx;
    CHECK(!w.computing);
    w.now_ns += ns;
    w.n_waits++;
    if (w.next < w.end) happens(w.next++);
    else if (w.n_waits > 3000) w.stop = true;
}
static void world_computes(void *ctx, bool yes) {
    (void)ctx;
    CHECK(w.computing != yes);
    w.computing = yes;
}
static void world_show(void *ctx, bool anew, const struct qr_step_line *line,
                       const struct qr_step_detail *d) {
    (void)ctx;
    CHECK(line->eval && d->readouts && d->weights);
    w.n_shown++;
    w.n_anew += anew;
}
static void hear(void *ctx, enum qr_log_level level, const char *module, const char *message) {
    (void)ctx, (void)level, (void)module;
    size_t n = strlen(w.said);
    snprintf(w.said + n, sizeof w.said - n, "%s\n", message);
}
static const struct qr_log log_of_test = {.level = QR_LOG_INFO, .write = hear};

static void world_begin(void) {
    w = (struct world){.inner = qr_store_memory_new()};
    w.store = (struct shaky){.base = {&shaky_ops}, .inner = w.inner, .why = QR_UNAVAILABLE};
    w.own = (struct qr_checkpoint_place){w.inner, "run/checkpoints", "memory://checkpoints"};
    w.place = w.own;
    w.place.store = &w.store.base;
}
static void world_end(void) { w.inner->ops->close(w.inner); }

static enum qr_code evaluates(const struct event *events, size_t n, uint64_t epochs, bool anew) {
    const struct qr_evaluator_options o = {.place = &w.place,
                                           .load = &load,
                                           .job_hash = canonical.hex,
                                           .epochs = epochs,
                                           .dir = dir,
                                           .every_ns = 2 * QR_SECOND,
                                           .begins_ns = 60 * QR_SECOND,
                                           .anew = anew,
                                           .pool = pool,
                                           .clock = &world_clock,
                                           .log = &log_of_test,
                                           .ctx = &w,
                                           .stopping = world_stopping,
                                           .pause = world_sleep,
                                           .computes = world_computes,
                                           .show = world_show};
    w.next = events;
    w.end = events + n;
    w.n_waits = w.n_shown = w.n_anew = 0;
    w.stop = false;
    *w.said = 0;
    err = (struct qr_err){0};
    return qr_evaluator_run(&o, &err);
}
#define EVALUATES(epochs, anew, ...)                                                               \
    evaluates((const struct event[]){__VA_ARGS__},                                                 \
              sizeof((const struct event[]){__VA_ARGS__}) / sizeof(struct event), epochs, anew)
#define END(epoch) (BATCHES + 1) * (epoch)

/* ---- the curve ---- */

static char *curve_path(void) { return qr_path_join(dir, "evaluation.jsonl"); }
static void curve_put(const char *text) {
    qr_auto(qr_free_p) char *path = curve_path();
    CHECK(qr_file_replace(path, qr_bytes_of_string(text), &err) == QR_OK, "%s", err.msg);
}
static void curve_gone(void) {
    qr_auto(qr_free_p) char *path = curve_path();
    unlink(path);
}
/* Its epochs' ends are these lines of training, the rest of the text is the job hash's. */
static void curve_has(const uint64_t *epochs, size_t n, const char *where) {
    qr_auto(qr_free_p) char *path = curve_path();
    struct qr_buf got = {0}, want = {0};
    CHECK(qr_file_read(path, 1 << 20, &got, &err) == QR_OK, "%s", err.msg);
    for (size_t i = 0; i < n; i++)
        qr_buf_printf(&want, "%.*s,\"job_hash\":\"%.16s\"}\n", (int)inline_lines[epochs[i]].n - 2,
                      qr_buf_string(&inline_lines[epochs[i]]), canonical.hex);
    CHECK(strcmp(qr_buf_string(&got), qr_buf_string(&want)) == 0, "%s:\n%snot\n%s", where,
          qr_buf_string(&got), qr_buf_string(&want));
    qr_buf_free(&got);
    qr_buf_free(&want);
}
#define CURVE(where, ...)                                                                          \
    curve_has((const uint64_t[]){__VA_ARGS__},                                                     \
              sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), where)

static void test_run(void) {
    world_begin();
    curve_gone();
    /* it is there first; the state before its evaluation is the state */
    CHECK(EVALUATES(EPOCHS, false, {WAIT, 3000}, {PUBLISH, END(1) - 1}, {PUBLISH, END(1)},
                    {PUBLISH, END(3)}, {WAIT, 0}, {PUBLISH, END(5)}, {WAIT, 700},
                    {DONE, END(5)}) == QR_OK,
          "%s", err.msg);
    CURVE("a run from its beginning", 1, 3, 5);
    CHECK(w.n_shown == 3 && w.n_anew == 0 && w.next == w.end);
    CHECK(strstr(w.said, "it waits\n") && strstr(w.said, "has come to memory://checkpoints for") &&
              strstr(w.said, "has been that of step 20 for 1") && strstr(w.said, "done: "),
          "%s", w.said);
    CHECK(qr_counter_value(QR_EVALUATED_STEP) == 20 && qr_counter_value(QR_CHECKPOINT_STEP) == 20);
    /* started again, it has nothing to do, and says so */
    CHECK(EVALUATES(EPOCHS, false, {STOP, 0}) == QR_OK && w.n_waits == 0 && w.n_shown == 0, "%s",
          err.msg);
    CURVE("again", 1, 3, 5);
    CHECK(strstr(w.said, "the curve had its last state"), "%s", w.said);
    /* the run was over when it came: the last state */
    curve_gone();
    CHECK(EVALUATES(EPOCHS, false, {STOP, 0}) == QR_OK && w.n_waits == 0, "%s", err.msg);
    CURVE("late", 5);
    world_end();
}

static void test_restarts(void) {
    world_begin();
    curve_gone();
    CHECK(EVALUATES(EPOCHS, false, {PUBLISH, END(1)}, {PUBLISH, END(2)}, {STOP, 0}) ==
                  QR_CANCELLED &&
              strstr(err.msg, "asked to stop; the curve goes to step 8"),
          "%s", err.msg);
    /* no step twice, and nothing that was published meanwhile but the newest */
    CHECK(EVALUATES(EPOCHS, false, {PUBLISH, END(3)}, {PUBLISH, END(4)}, {STOP, 0}) ==
          QR_CANCELLED);
    CHECK(w.n_shown == 2);
    CURVE("stopped and started", 1, 2, 3, 4);
    /* a torn line goes */
    qr_auto(qr_free_p) char *path = curve_path();
    struct qr_appender *a;
    CHECK(qr_appender_open(path, false, &a, &err) == QR_OK &&
          qr_appender_write(a, qr_bytes_of_string("{\"step\":20,\"epo"), &err) == QR_OK);
    qr_appender_close(a);
    CHECK(EVALUATES(EPOCHS, false, {DONE, END(5)}) == QR_OK, "%s", err.msg);
    CURVE("torn", 1, 2, 3, 4, 5);
    /* the same job again: the same numbers, which are there; until it has more */
    CHECK(EVALUATES(EPOCHS + 1, true, {FORGET, 0}, {PUBLISH, END(2)}, {DONE, END(5)}) == QR_OK &&
              w.n_shown == 0 && w.next == w.end,
          "%s", err.msg);
    CURVE("the run anew", 1, 2, 3, 4, 5);
    world_end();
}

/* An end that is there at first: this run's or a former one's? */
static void test_ends(void) {
    world_begin();
    curve_gone();
    happens(&(struct event){DONE, END(2)});
    /* more epochs are to come: they do */
    CHECK(EVALUATES(EPOCHS, false, {WAIT, 0}, {PUBLISH, END(3)}, {DONE, END(5)}) == QR_OK &&
              w.next == w.end,
          "%s", err.msg);
    CURVE("more epochs", 2, 3, 5);
    CHECK(strstr(w.said, "a run of 2 epochs has ended"), "%s", w.said);
    /* they do not, for a minute; training with fewer epochs than it was told is an end too */
    CHECK(EVALUATES(EPOCHS + 3, false, {WAIT, 20}, {WAIT, 20}, {WAIT, 20}, {STOP, 0}) == QR_OK &&
              w.next == w.end - 1,
          "%s", err.msg);
    CHECK(EVALUATES(EPOCHS, true, {WAIT, 20}, {WAIT, 20}, {WAIT, 20}, {STOP, 0}) == QR_OK &&
              w.next == w.end - 1,
          "%s", err.msg);
    happens(&(struct event){FORGET, 0});
    curve_gone();
    CHECK(EVALUATES(EPOCHS, false, {PUBLISH, END(1)}, {DONE, END(2)}, {STOP, 0}) == QR_OK,
          "what ends before its eyes has ended: %s", err.msg);
    CURVE("fewer epochs", 1, 2);
    /* stopped early */
    happens(&(struct event){FORGET, 0});
    curve_gone();
    struct qr_state *s = &states[END(3)];
    double was = s->stop[QR_STOP_STOPPED];
    s->stop[QR_STOP_STOPPED] = 1;
    happens(&(struct event){DONE, END(3)});
    for (int i = 0; i < 2; i++)
        CHECK(EVALUATES(EPOCHS, false, {STOP, 0}) == QR_OK && w.n_waits == 0, "%s", err.msg);
    CURVE("stopped early", 3);
    s->stop[QR_STOP_STOPPED] = was;
    world_end();
}

static void test_others(void) {
    world_begin();
    curve_gone();
    happens(&(struct event){FOREIGN, END(1)});
    CHECK(EVALUATES(EPOCHS, false, {STOP, 0}) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "another job: its hash is ffffffff") &&
              strstr(err.msg, canonical.hex) && strstr(err.msg, "--set"),
          "%s", err.msg);
    CHECK(EVALUATES(EPOCHS, true, {WAIT, 30}, {WAIT, 30}, {WAIT, 30}, {STOP, 0}) ==
                  QR_INVALID_ARGUMENT &&
              w.next == w.end - 2,
          "%s", err.msg);
    CHECK(EVALUATES(EPOCHS, true, {FORGET, 0}, {PUBLISH, END(2)}, {DONE, END(5)}) == QR_OK, "%s",
          err.msg);
    CURVE("another job's, taken away", 2, 5);
    /* another job's curve goes, one that is none stays */
    curve_put("{\"step\":7,\"loss\":1,\"job_hash\":\"0123456789abcdef\"}\n");
    CHECK(EVALUATES(EPOCHS, false, {STOP, 0}) == QR_OK && w.n_anew == 1, "%s", err.msg);
    CURVE("another job's curve", 5);
    static const char *const none[] = {"hello\n",
                                       "{}\n",
                                       "{\"step\":7}\n",
                                       "{\"step\":\"7\",\"job_hash\":\"0123456789abcdef\"}\n",
                                       "{\"step\":7,\"job_hash\":\"0123456789abcdef0\"}\n",
                                       "[1]\n",
                                       "\n"};
    for (size_t i = 0; i < COUNT(none); i++) {
        curve_put(none[i]);
        CHECK(EVALUATES(EPOCHS, false, {STOP, 0}) == QR_INVALID_ARGUMENT &&
                  strstr(err.msg, "evaluation.jsonl: its last line is none of an evaluator"),
              "%zu: %s", i, err.msg);
    }
    curve_gone();
    size_t n_train = load.data.n_train;
    load.data.n_train = load.data.n_samples;
    CHECK(EVALUATES(EPOCHS, false, {STOP, 0}) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "wants validation samples") && strstr(err.msg, "train_fraction"),
          "%s", err.msg);
    load.data.n_train = n_train;
    world_end();
}

static void test_damage(void) {
    world_begin();
    curve_gone();
    /* twice, and far from each other */
    CHECK(EVALUATES(EPOCHS, false, {PUBLISH, END(1)}, {BREAK_LATEST, 0}, {WAIT, 0},
                    {PUBLISH, END(2)}, {WAIT, 700}, {BREAK_LATEST, 0}, {WAIT, 0}, {PUBLISH, END(3)},
                    {WAIT, 0}, {DONE, END(5)}) == QR_OK,
          "%s", err.msg);
    CHECK(strstr(w.said, "for ten minutes at most"), "%s", w.said);
    CURVE("a damaged LATEST", 1, 2, 3, 5);
    /* a damaged file: the one before it, which is in the curve already */
    happens(&(struct event){FORGET, 0});
    curve_gone();
    happens(&(struct event){PUBLISH, END(1)});
    happens(&(struct event){PUBLISH, END(2)});
    happens(&(struct event){BREAK_FILE, 0});
    CHECK(EVALUATES(EPOCHS, false, {PUBLISH, END(3)}, {DONE, END(5)}) == QR_OK, "%s", err.msg);
    CURVE("a damaged file", 1, 3, 5);
    /* the last one */
    happens(&(struct event){FORGET, 0});
    curve_gone();
    happens(&(struct event){PUBLISH, END(4)});
    happens(&(struct event){DONE, END(5)});
    happens(&(struct event){BREAK_FILE, 0});
    CHECK(EVALUATES(EPOCHS, false, {WAIT, 300}, {WAIT, 200}, {WAIT, 200}, {STOP, 0}) ==
                  QR_DATA_LOSS &&
              w.next == w.end - 1 && strstr(err.msg, "the last state of the run, of step 20"),
          "%s", err.msg);
    CURVE("the last one", 4);
    /* nothing is whole */
    happens(&(struct event){FORGET, 0});
    happens(&(struct event){PUBLISH, END(1)});
    happens(&(struct event){BREAK_LATEST, 0});
    CHECK(EVALUATES(EPOCHS, false, {WAIT, 300}, {WAIT, 300}, {STOP, 0}) == QR_DATA_LOSS, "%s",
          err.msg);
    world_end();
}

/* Each call fails once, at each place: its error comes back, and the next start goes on. */
static void test_faults(void) {
    const enum qr_code whys[] = {QR_UNAVAILABLE, QR_PERMISSION_DENIED};
    for (long at = 1, failed = 1; failed; at++) {
        failed = 0;
        for (size_t i = 0; i < COUNT(whys); i++) {
            world_begin();
            curve_gone();
            w.store.fail_at = at;
            w.store.why = whys[i];
            happens(&(struct event){PUBLISH, END(1)});
            enum qr_code code =
                EVALUATES(EPOCHS, false, {PUBLISH, END(2)}, {PUBLISH, END(3)}, {DONE, END(5)});
            CHECK(code == (w.store.n >= at ? whys[i] : QR_OK), "call %ld: %s", at, err.msg);
            failed += code != QR_OK;
            if (code != QR_OK) CHECK(strstr(err.msg, "planted"), "%s", err.msg);
            while (w.next < w.end) happens(w.next++);
            w.store.fail_at = 0;
            CHECK(EVALUATES(EPOCHS, false, {STOP, 0}) == QR_OK, "%s", err.msg);
            qr_auto(qr_free_p) char *path = curve_path();
            struct qr_buf text = {0};
            CHECK(qr_file_read(path, 1 << 20, &text, &err) == QR_OK, "%s", err.msg);
            uint64_t last = 0;
            for (const char *l = qr_buf_string(&text); *l; l = strchr(l, '\n') + 1) {
                uint64_t step = strtoull(l + strlen("{\"step\":"), NULL, 10);
                CHECK(step > last && step % BATCHES == 0, "call %ld: %s", at, qr_buf_string(&text));
                last = step;
            }
            CHECK(last == BATCHES * EPOCHS);
            qr_buf_free(&text);
            world_end();
        }
    }
}

static void test_curve(void) {
    world_begin();
    curve_gone();
    happens(&(struct event){DONE, END(5)});
    qr_auto(qr_free_p) char *path = curve_path();
    /* another evaluator writes it */
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && flock(fd, LOCK_EX) == 0);
    CHECK(EVALUATES(EPOCHS, false, {WAIT, 0}) == QR_UNAVAILABLE &&
              strstr(err.msg, "evaluation.jsonl: another evaluator writes it"),
          "%s", err.msg);
    CHECK(w.now_ns >= QR_SECOND && w.n_shown == 0);
    close(fd);
    /* a full disk: half a line does not stay */
    struct rlimit was, few;
    CHECK(getrlimit(RLIMIT_FSIZE, &was) == 0);
    few = (struct rlimit){100, was.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &few) == 0);
    CHECK(EVALUATES(EPOCHS, false, {STOP, 0}) != QR_OK && strstr(err.msg, "evaluation.jsonl"), "%s",
          err.msg);
    struct stat st;
    CHECK(stat(path, &st) == 0 && st.st_size == 0, "%lld", (long long)st.st_size);
    CHECK(setrlimit(RLIMIT_FSIZE, &was) == 0);
    CHECK(EVALUATES(EPOCHS, false, {STOP, 0}) == QR_OK, "%s", err.msg);
    CURVE("room again", 5);
    /* a link is not written through */
    curve_gone();
    CHECK(symlink("/dev/null", path) == 0);
    CHECK(EVALUATES(EPOCHS, false, {STOP, 0}) != QR_OK && strstr(err.msg, "evaluation.jsonl"), "%s",
          err.msg);
    curve_gone();
    /* longer than a window */
    struct qr_buf long_one = {0};
    for (int i = 1; i < 2000; i++)
        qr_buf_printf(&long_one, "{\"step\":%d,\"loss\":0.25,\"job_hash\":\"%.16s\"}\n", i,
                      canonical.hex);
    curve_put(qr_buf_string(&long_one));
    struct qr_curve c = {0};
    CHECK(long_one.n > QR_CURVE_WINDOW_BYTES &&
              qr_curve_open(dir, canonical.hex, world_sleep, &w, &c, &err) == QR_OK &&
              c.step == 1999 && !c.other && c.end == (long long)long_one.n,
          "%s", err.msg);
    qr_curve_close(&c);
    memset(long_one.p, 'x', long_one.n);
    curve_put(qr_buf_string(&long_one));
    CHECK(qr_curve_open(dir, canonical.hex, world_sleep, &w, &c, &err) == QR_INVALID_ARGUMENT);
    qr_buf_free(&long_one);
    curve_gone();
    world_end();
}

/* A stop while it computes: the point is not in the curve, and is made at the next start. */
static unsigned asked;
static bool stops_soon(void *ctx) { return (void)ctx, ++asked > 2; }
static void test_stop(void) {
    struct qr_held_out *h = NULL;
    struct qr_reported r;
    const struct qr_held_out_options o = {.job = job,
                                          .model = load.model,
                                          .data = &load.data,
                                          .pool = pool,
                                          .clock = &qr_clock_monotonic,
                                          .stopping = stops_soon};
    CHECK(qr_held_out_new(&o, &h, &err) == QR_OK, "%s", err.msg);
    CHECK(qr_held_out_evaluate(h, end_of(1), &r, &err) == QR_CANCELLED, "%s", err.msg);
    qr_held_out_free(h);
}

int main(void) {
    static const char text[] =
        "{\"seed\":3,\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\","
        "\"qubits\":4,\"stages\":1},\"watch\":{\"energy\":\"Z0 Z1\"}},{\"layer\":\"dense\","
        "\"units\":3,\"activation\":\"tanh\",\"l2\":0.02},{\"layer\":\"dropout\",\"rate\":0.2},"
        "{\"layer\":\"dense\",\"units\":1,\"l1\":0.01}],"
        "\"data\":{\"source\":\"cluster-excitations\",\"rounds\":10,\"train_fraction\":0.7},"
        "\"micro_batch_size\":2,\"train\":{\"epochs\":5,\"batch_size\":9,\"loss\":\"mse\","
        "\"metrics\":[\"accuracy\",\"mae\"],\"log\":{\"gap\":\"val_loss - loss\",\"speed\":"
        "\"learning_rate * step\",\"e\":\"val_energy * epoch\"},\"optimizer\":{\"name\":\"adam\","
        "\"learning_rate\":0.02,\"use_ema\":true}}}";
    CHECK(mkdtemp(dir) != NULL);
    CHECK(qr_job_parse(qr_bytes_of_string(text), "t", &job, &err) == QR_OK &&
              qr_workload_load(job, "portable", 2, &load, &err) == QR_OK,
          "%s", err.msg);
    if (t_failed) return t_end();
    qr_job_canonical(job, &load.data, NULL, &canonical);
    pool = qr_pool_new(2);
    CHECK(qr_batch_count(load.data.n_train, 9) == BATCHES);
    train();
    test_numbers();
    test_run();
    test_restarts();
    test_ends();
    test_others();
    test_damage();
    test_faults();
    test_curve();
    test_stop();
    for (size_t i = 0; i <= STATES; i++) qr_state_fini(&states[i]);
    for (size_t i = 0; i <= EPOCHS; i++) qr_buf_free(&inline_lines[i]);
    qr_pool_free(pool);
    qr_job_canonical_fini(&canonical);
    qr_workload_fini(&load);
    qr_job_free(job);
    CHECK(rmdir(dir) == 0);
    return t_end();
}
