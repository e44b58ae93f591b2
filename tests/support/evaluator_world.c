/* tests/support/evaluator_world.c — trains a job, and runs evaluators over a store in memory. */
#include "tests/support/evaluator_world.h"

#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "data/batch.h"
#include "train/train_checkpoint.h"

/* ---- a run: its committed states, and the lines of its evaluations ---- */

static enum qr_code keep_state(void *ctx, bool leader, struct qr_state *s, struct qr_err *e) {
    struct trained_run *run = ctx;
    (void)leader, (void)e;
    qr_state_copy(&run->states[s->reductions], s);
    return QR_OK;
}
static enum qr_code keep_line(void *ctx, bool leader, const struct qr_step_line *line,
                              const struct qr_step_detail *d, struct qr_err *e) {
    struct trained_run *run = ctx;
    (void)leader, (void)e;
    if (!line->eval) return QR_OK;
    struct qr_step_line bare = *line; /* the lines of a curve have no digests */
    *bare.state_digest = *bare.chain = 0;
    bare.text = (struct qr_bytes){0};
    qr_step_json(&bare, &run->inline_lines[line->epoch]);
    memcpy(run->inline_readouts[line->epoch], d->readouts, sizeof *run->inline_readouts);
    return QR_OK;
}

static void train(struct trained_run *run) {
    struct qr_err err;
    struct qr_group_options g = {.run = "t", .clock = &qr_clock_monotonic};
    struct qr_train_result r = {0};
    memcpy(g.job_hash, run->canonical.hash, sizeof g.job_hash);
    struct qr_group *group = qr_group_solo(&g);
    for (size_t i = 0; i <= STATES; i++) qr_state_init(&run->states[i], run->job, run->load.model);
    const struct qr_train_options o = {
        .job = run->job,
        .canonical = &run->canonical,
        .data = &run->load.data,
        .model = run->load.model,
        .group = group,
        .pool = run->pool,
        .clock = &qr_clock_monotonic,
        .observer = {.ctx = run, .committed = keep_state, .step = keep_line},
    };
    CHECK(qr_train_run(&o, &r, &err) == QR_OK, "%s", err.msg);
    CHECK(r.steps == BATCHES * EPOCHS && r.epochs == EPOCHS);
    qr_train_result_fini(&r);
    qr_group_close(group);
}

bool trained_run_init(struct trained_run *run) {
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
    struct qr_err err;
    *run = (struct trained_run){.dir = "/tmp/qring-evaluator-XXXXXX"};
    CHECK(mkdtemp(run->dir) != NULL);
    CHECK(qr_job_parse(qr_bytes_of_string(text), "t", &run->job, &err) == QR_OK &&
              qr_workload_load(run->job, "portable", 2, &run->load, &err) == QR_OK,
          "%s", err.msg);
    if (t_failed) return false;
    qr_job_canonical(run->job, &run->load.data, NULL, &run->canonical);
    run->pool = qr_pool_new(2);
    CHECK(qr_batch_count(run->load.data.n_train, 9) == BATCHES);
    train(run);
    return true;
}

void trained_run_fini(struct trained_run *run) {
    for (size_t i = 0; i <= STATES; i++) qr_state_fini(&run->states[i]);
    for (size_t i = 0; i <= EPOCHS; i++) qr_buf_free(&run->inline_lines[i]);
    qr_pool_free(run->pool);
    qr_job_canonical_fini(&run->canonical);
    qr_workload_fini(&run->load);
    qr_job_free(run->job);
    curve_delete(run);
    CHECK(rmdir(run->dir) == 0);
}

/* ---- the curve ---- */

char *curve_path(const struct trained_run *run) {
    return qr_path_join(run->dir, "evaluation.jsonl");
}
void curve_write(const struct trained_run *run, const char *text) {
    qr_auto(qr_free_p) char *path = curve_path(run);
    struct qr_err err;
    CHECK(qr_file_replace(path, qr_bytes_of_string(text), &err) == QR_OK, "%s", err.msg);
}
void curve_delete(const struct trained_run *run) {
    qr_auto(qr_free_p) char *path = curve_path(run);
    unlink(path);
}
void curve_check(const struct trained_run *run, const uint64_t *epochs, size_t n,
                 const char *where) {
    qr_auto(qr_free_p) char *path = curve_path(run);
    struct qr_buf got = {0}, want = {0};
    struct qr_err err;
    CHECK(qr_file_read(path, 1 << 20, &got, &err) == QR_OK, "%s", err.msg);
    for (size_t i = 0; i < n; i++) {
        const struct qr_buf *line = &run->inline_lines[epochs[i]];
        qr_buf_printf(&want, "%.*s,\"job_hash\":\"%.16s\"}\n", (int)line->n - 2,
                      (const char *)line->p, run->canonical.hex);
    }
    CHECK(strcmp(qr_buf_string(&got), qr_buf_string(&want)) == 0, "%s:\n%sexpected\n%s", where,
          qr_buf_string(&got), qr_buf_string(&want));
    qr_buf_free(&got);
    qr_buf_free(&want);
}

/* ---- a read-only store in memory whose reads may fail ---- */

static bool faulty_read(struct qr_store *s, struct qr_err *e) {
    struct faulty_store *f = (struct faulty_store *)s;
    if (++f->n != f->fail_at) return false;
    return qr_fail(e, f->why, "planted") != QR_OK;
}
static enum qr_code faulty_get(struct qr_store *s, const char *name, size_t max, struct qr_buf *ret,
                               struct qr_err *e) {
    struct faulty_store *f = (struct faulty_store *)s;
    return faulty_read(s, e) ? e->code : f->inner->ops->get(f->inner, name, max, ret, e);
}
static enum qr_code faulty_version(struct qr_store *s, const char *name, size_t max,
                                   struct qr_buf *ret, struct qr_store_version *v,
                                   struct qr_err *e) {
    struct faulty_store *f = (struct faulty_store *)s;
    return faulty_read(s, e) ? e->code : f->inner->ops->get_version(f->inner, name, max, ret, v, e);
}
static enum qr_code faulty_list(struct qr_store *s, const char *prefix, struct qr_buf *ret,
                                struct qr_err *e) {
    struct faulty_store *f = (struct faulty_store *)s;
    return f->inner->ops->list(f->inner, prefix, ret, e);
}
static enum qr_code faulty_write(void) {
    CHECK(false, "an evaluator wrote to the checkpoint folder");
    return QR_INTERNAL;
}
static enum qr_code faulty_put(struct qr_store *s, const char *n, struct qr_bytes b, bool absent,
                               struct qr_err *e) {
    return (void)s, (void)n, (void)b, (void)absent, (void)e, faulty_write();
}
static enum qr_code faulty_remove(struct qr_store *s, const char *n, struct qr_err *e) {
    return (void)s, (void)n, (void)e, faulty_write();
}
static enum qr_code faulty_swap(struct qr_store *s, const char *n, struct qr_bytes b,
                                const struct qr_store_version *v, struct qr_err *e) {
    return (void)s, (void)n, (void)b, (void)v, (void)e, faulty_write();
}
static const struct qr_store_ops faulty_ops = {.get = faulty_get,
                                               .put = faulty_put,
                                               .remove = faulty_remove,
                                               .list = faulty_list,
                                               .get_version = faulty_version,
                                               .swap = faulty_swap};

/* ---- the world ---- */

static int64_t world_now(void *ctx) { return ((struct world *)ctx)->now_ns; }
static bool world_stopping(void *ctx) { return ((struct world *)ctx)->stop; }

/* Replaces the content of an object in the checkpoint folder. */
static void write_object(struct world *w, const char *name, const char *text) {
    qr_auto(qr_free_p) char *path = qr_xasprintf("%s/%s", w->own.dir, name);
    struct qr_err err;
    CHECK(w->inner->ops->put(w->inner, path, qr_bytes_of_string(text), false, &err) == QR_OK, "%s",
          err.msg);
}

static void publish(struct world *w, const struct qr_state *s, const char *hash, bool done) {
    struct qr_checkpoint c;
    struct qr_checkpoint_latest l;
    struct qr_buf notes = {0};
    struct qr_err err;
    qr_state_save(s, w->run->job, w->run->load.model, hash, &c);
    CHECK(qr_checkpoint_save(&w->own, &c, done, &l, &notes, &err) == QR_OK, "%s", err.msg);
    qr_checkpoint_fini(&c);
    qr_buf_free(&notes);
}

void world_act(struct world *w, enum world_event_kind kind, uint64_t k) {
    static const char foreign[] = "ffffffffffffffffffffffffffffffff"
                                  "ffffffffffffffffffffffffffffffff";
    struct qr_checkpoint_latest l;
    struct qr_err err;
    switch (kind) {
    case PUBLISH:
    case DONE: publish(w, &w->run->states[k], w->run->canonical.hex, kind == DONE); break;
    case FORGET: CHECK(qr_checkpoint_delete_all(&w->own, &err) == QR_OK, "%s", err.msg); break;
    case FOREIGN: publish(w, &w->run->states[k], foreign, false); break;
    case BREAK_LATEST: write_object(w, "LATEST", "torn"); break;
    case BREAK_FILE:
        CHECK(qr_checkpoint_peek(&w->own, &l, &err) == QR_OK);
        write_object(w, l.object, "torn");
        break;
    case WAIT: w->now_ns += (int64_t)k * QR_SECOND; break;
    case STOP: w->stop = true; break;
    }
}

void world_sleep(void *world, int64_t ns) {
    struct world *w = world;
    CHECK(!w->computing);
    w->now_ns += ns;
    w->n_waits++;
    if (w->next < w->end) {
        const struct world_event *e = w->next++;
        world_act(w, e->kind, e->k);
    } else if (w->n_waits > 3000) w->stop = true;
}
static void world_compute(void *ctx, bool yes) {
    struct world *w = ctx;
    CHECK(w->computing != yes);
    w->computing = yes;
}
static void world_show(void *ctx, bool fresh, const struct qr_step_line *line,
                       const struct qr_step_detail *d) {
    struct world *w = ctx;
    CHECK(line->eval && d->readouts && d->weights);
    w->n_shown++;
    w->n_anew += fresh;
}
static void world_log(void *ctx, enum qr_log_level level, const char *module, const char *message) {
    struct world *w = ctx;
    (void)level, (void)module;
    size_t n = strlen(w->said);
    snprintf(w->said + n, sizeof w->said - n, "%s\n", message);
}

void world_init(struct world *w, const struct trained_run *run) {
    *w = (struct world){.run = run, .inner = qr_store_memory_new()};
    w->store =
        (struct faulty_store){.base = {&faulty_ops}, .inner = w->inner, .why = QR_UNAVAILABLE};
    w->own = (struct qr_checkpoint_location){
        .store = w->inner, .dir = "run/checkpoints", .url = "memory://checkpoints"};
    w->place = w->own;
    w->place.store = &w->store.base;
}
void world_fini(struct world *w) { w->inner->ops->close(w->inner); }

enum qr_code world_evaluate(struct world *w, const struct world_event *events, size_t n,
                            uint64_t epochs, bool fresh, struct qr_err *err) {
    const struct qr_clock clock = {world_now, w};
    const struct qr_log log = {.level = QR_LOG_INFO, .write = world_log, .ctx = w};
    const struct qr_evaluator_options o = {.place = &w->place,
                                           .load = &w->run->load,
                                           .job_hash = w->run->canonical.hex,
                                           .epochs = epochs,
                                           .dir = w->run->dir,
                                           .every_ns = 2 * QR_SECOND,
                                           .begin_timeout_ns = 60 * QR_SECOND,
                                           .fresh = fresh,
                                           .pool = w->run->pool,
                                           .clock = &clock,
                                           .log = &log,
                                           .ctx = w,
                                           .stopping = world_stopping,
                                           .pause = world_sleep,
                                           .computing = world_compute,
                                           .show = world_show};
    w->next = events;
    w->end = events + n;
    w->n_waits = w->n_shown = w->n_anew = 0;
    w->stop = false;
    *w->said = 0;
    *err = (struct qr_err){0};
    return qr_evaluator_run(&o, err);
}
