/* tests/evaluator_world.h — a run's states, and an evaluator that walks through what is published
 * of them, in virtual time over a store in memory, with what may happen there. Included once. */
#ifndef TESTS_EVALUATOR_WORLD_H
#define TESTS_EVALUATOR_WORLD_H

#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "data/batch.h"
#include "evaluator/evaluator.h"
#include "tests/t.h"
#include "train/train_checkpoint.h"
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
    struct qr_step_line bare = *line; /* a curve's lines have no digests */
    *bare.state_digest = *bare.chain = 0;
    bare.text = (struct qr_bytes){0};
    qr_step_json(&bare, &inline_lines[line->epoch]);
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

/* The job, its data, and the run; false: nothing more can be tested. */
static bool evaluator_begin(void) {
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
    if (t_failed) return false;
    qr_job_canonical(job, &load.data, NULL, &canonical);
    pool = qr_pool_new(2);
    CHECK(qr_batch_count(load.data.n_train, 9) == BATCHES);
    train();
    return true;
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
    struct qr_checkpoint_location place, own; /* as the evaluator sees it, and the workers */
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
    case FORGET: CHECK(qr_checkpoint_delete_all(&w.own, &err) == QR_OK, "%s", err.msg); break;
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
    w.own = (struct qr_checkpoint_location){
        .store = w.inner, .dir = "run/checkpoints", .url = "memory://checkpoints"};
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
                                           .begin_timeout_ns = 60 * QR_SECOND,
                                           .fresh = anew,
                                           .pool = pool,
                                           .clock = &world_clock,
                                           .log = &log_of_test,
                                           .ctx = &w,
                                           .stopping = world_stopping,
                                           .pause = world_sleep,
                                           .computing = world_computes,
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

static int evaluator_end(void) {
    for (size_t i = 0; i <= STATES; i++) qr_state_fini(&states[i]);
    for (size_t i = 0; i <= EPOCHS; i++) qr_buf_free(&inline_lines[i]);
    qr_pool_free(pool);
    qr_job_canonical_fini(&canonical);
    qr_workload_fini(&load);
    qr_job_free(job);
    curve_gone();
    CHECK(rmdir(dir) == 0);
    return t_end();
}

#endif
