/* tests/support/ring.c — workers on threads, whose data links count operations. Start reading at
 * ring_run. */
#include "tests/support/ring.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/counter.h"
#include "base/file.h"
#include "base/mem.h"
#include "group/group_over_impl.h"
#include "tests/support/link_memory.h"

/* ---- a data link that counts operations ---- */

void ring_kill(struct ring_worker *w) {
    atomic_store(&w->killed, true);
    qr_link_memory_kill(w->control_link);
    qr_link_memory_kill(w->data_link);
    qr_group_interrupt(w->group); /* a killed process stops computing */
}
static bool ring_is_server(const struct ring_worker *w) { return w->index < w->ring->servers; }
static bool ring_has_blow(struct ring_worker *w) {
    unsigned blows = atomic_load(&w->ring->blows);
    if (ring_is_server(w) || w->survived == blows) return false;
    w->survived = blows;
    return true;
}

struct fused_link {
    struct qr_link base;
    struct qr_link *inner;
    struct ring_worker *worker;
    long left; /* operations before the worker is killed; < 0: never */
};
static struct fused_link *fused_of(struct qr_link *l) { return (struct fused_link *)l; }
/* Kills the worker if the operation is the one at which it is to be killed. */
static struct qr_link *fused_count(struct qr_link *l) {
    struct fused_link *f = fused_of(l);
    struct ring_worker *w = f->worker;
    if ((f->left >= 0 && w->stepped >= w->lit_at && f->left-- == 0) || ring_has_blow(w))
        ring_kill(w);
    return f->inner;
}
static enum qr_code fused_listen(struct qr_link *l, const char *address, unsigned *ret_port,
                                 struct qr_err *err) {
    return fused_of(l)->inner->ops->listen(fused_of(l)->inner, address, ret_port, err);
}
static void fused_dial(struct qr_link *l, uint32_t tag, const char *address) {
    struct qr_link *i = fused_count(l);
    i->ops->dial(i, tag, address);
}
static void fused_hang_up(struct qr_link *l, uint32_t tag) {
    struct qr_link *i = fused_count(l);
    i->ops->hang_up(i, tag);
}
static void fused_close(struct qr_link *l, uint32_t conn) {
    struct qr_link *i = fused_count(l);
    i->ops->close_conn(i, conn);
}
static bool fused_send(struct qr_link *l, uint32_t conn, struct qr_bytes head,
                       struct qr_bytes body) {
    struct qr_link *i = fused_count(l);
    return i->ops->send(i, conn, head, body);
}
static size_t fused_unreleased(struct qr_link *l) {
    return fused_of(l)->inner->ops->unreleased(fused_of(l)->inner);
}
static void fused_pause(struct qr_link *l, uint32_t conn, bool paused) {
    fused_of(l)->inner->ops->pause(fused_of(l)->inner, conn, paused);
}
static void fused_poll(struct qr_link *l, int64_t deadline_ns, struct qr_link_event *ret) {
    struct qr_link *i = fused_count(l);
    i->ops->poll(i, deadline_ns, ret);
}
static void fused_wake(struct qr_link *l) { fused_of(l)->inner->ops->wake(fused_of(l)->inner); }
static void fused_free(struct qr_link *l) {
    fused_of(l)->inner->ops->free(fused_of(l)->inner);
    free(l);
}
static const struct qr_link_ops fused_ops = {
    .listen = fused_listen,
    .dial = fused_dial,
    .hang_up = fused_hang_up,
    .close_conn = fused_close,
    .send = fused_send,
    .unreleased = fused_unreleased,
    .pause = fused_pause,
    .poll = fused_poll,
    .wake = fused_wake,
    .free = fused_free,
};

/* ---- a worker ---- */

static const char *const ring_peers[RING_MAX] = {"w0:2222", "w1:2222", "w2:2222",
                                                 "w3:2222", "w4:2222", "w5:2222"};

void ring_pause(int64_t ns) {
    if (ns > 0)
        nanosleep(&(struct timespec){.tv_sec = ns / QR_SECOND, .tv_nsec = ns % QR_SECOND}, NULL);
}
static void ring_report(struct ring_worker *w, enum ring_event e, const struct qr_step_line *line) {
    if (w->ring->on && !atomic_load(&w->killed)) w->ring->on(w, e, line);
}
static enum qr_code ring_check_killed(struct ring_worker *w, struct qr_err *err) {
    return atomic_load(&w->killed) ? qr_fail(err, QR_CANCELLED, "killed") : QR_OK;
}
static enum qr_code ring_joined(void *ctx, const struct qr_group_view *view, uint64_t epochs,
                                bool fresh, struct qr_err *err) {
    struct ring_worker *w = ctx;
    w->view = *view;
    (void)epochs;
    ring_report(w, RING_JOINED, NULL);
    if (ring_check_killed(w, err) != QR_OK) return QR_CANCELLED;
    return fresh ? qr_steps_log_truncate(&w->log, err) : QR_OK;
}
static enum qr_code ring_step(void *ctx, bool leader, const struct qr_step_line *line,
                              const struct qr_step_detail *detail, struct qr_err *err) {
    struct ring_worker *w = ctx;
    bool continues;
    atomic_store(&w->ring->has_stepped, true);
    w->stepped = line->step;
    ring_report(w, RING_STEP, line);
    if (ring_check_killed(w, err) != QR_OK) return QR_CANCELLED;
    if (!leader) return QR_OK;
    ring_pause(w->ring->step_ns);
    return qr_steps_log_write(&w->log, line, detail->before, detail->n_before, &continues, err);
}
static enum qr_code ring_finish(void *ctx, const struct qr_group_view *view,
                                const struct qr_train_result *result, struct qr_err *err) {
    struct ring_worker *w = ctx;
    (void)result;
    w->view = *view;
    ring_report(w, RING_WRITES, NULL);
    if (ring_check_killed(w, err) != QR_OK) return QR_CANCELLED;
    if (view->rank == 0) {
        atomic_fetch_add(&w->ring->n_wrote, 1);
        ring_report(w, RING_WROTE, NULL);
        if (ring_check_killed(w, err) != QR_OK) return QR_CANCELLED;
    }
    return qr_group_done(w->group, NULL, 20 * QR_SECOND, err);
}

static void *ring_control(void *g) {
    qr_group_control_run(g);
    return NULL;
}
static enum qr_code ring_start_control(void *ctx, struct qr_group *g, struct qr_err *err) {
    struct ring_worker *w = ctx;
    (void)err;
    return pthread_create(&w->control, NULL, ring_control, g) == 0 ? QR_OK : QR_INTERNAL;
}
static void ring_join_control(void *ctx) {
    pthread_join(((struct ring_worker *)ctx)->control, NULL);
}

static int64_t ring_now(void *ctx) {
    struct ring_worker *w = ctx;
    if (w->slow) {
        ring_pause(w->ring->look_ns);
        w->ring->looked(w, ++w->looks);
    }
    return qr_now_ns(&qr_clock_monotonic);
}
static enum qr_code ring_run_once(struct ring_worker *w) {
    struct ring *ring = w->ring;
    struct qr_field field = {"contract", "f64-v1"};
    struct qr_group_options o = {.run = "ring",
                                 .fields = &field,
                                 .n_fields = 1,
                                 .index = w->index,
                                 .n_peers = w->n_known ? w->n_known : ring->n,
                                 .peers = ring_peers,
                                 .count_known = true,
                                 .n_servers = ring->servers,
                                 .server = ring_is_server(w),
                                 .min_workers = w->min_workers ? w->min_workers : ring->min_workers,
                                 .listen_address = ring_peers[w->index],
                                 .form_timeout_ns = ring->form_ns,
                                 .allreduce = w->has_wish ? w->wish : ring->wish,
                                 .clock = &qr_clock_monotonic,
                                 .log = &ring->noise};
    memcpy(o.job_hash, ring->canonical.hash, sizeof o.job_hash);
    struct fused_link *f = qr_xcalloc(1, sizeof *f);
    w->control_link = qr_link_memory_new(ring->hub);
    w->data_link = qr_link_memory_new(ring->hub);
    *f = (struct fused_link){
        .base.ops = &fused_ops, .inner = w->data_link, .worker = w, .left = w->fuse};
    atomic_store(&w->killed, false);
    unsigned port;
    enum qr_code code = qr_group_over(&o, w->control_link, &f->base, &w->group, &port, &w->err);
    if (code != QR_OK) return code;
    qr_group_set_thread(w->group, ring_start_control, ring_join_control, w);
    struct qr_pool *pool = qr_pool_new(ring->threads ? ring->threads : 1);
    struct qr_clock busy = {ring_now, w};
    qr_steps_log_init(&w->log, ring->dir);
    const struct qr_train_options t = {
        .job = ring->job,
        .canonical = &ring->canonical,
        .data = &ring->data,
        .model = ring->model,
        .group = w->group,
        .pool = pool,
        .clock = ring->looked ? &busy : &qr_clock_monotonic,
        .log = &ring->noise,
        .epochs = w->epochs,
        .server = ring_is_server(w),
        .reload = ring->reload,
        .reload_ctx = w,
        .ended = ring->ended,
        .observer = {.ctx = w,
                     .joined = ring_joined,
                     .step = ring_step,
                     .committed = ring->committed},
        .finish = ring_finish,
        .finish_ctx = w,
    };
    free(w->result.params);
    w->result = (struct qr_train_result){0};
    code = qr_train_run(&t, &w->result, &w->err);
    qr_group_close(w->group);
    qr_steps_log_fini(&w->log);
    qr_pool_free(pool);
    return code;
}
static void *ring_run_worker(void *arg) {
    struct ring_worker *w = arg;
    ring_pause(w->start_ns);
    for (int ms = 0; w->comes_late && !atomic_load(&w->ring->has_stepped) && ms < 60000; ms++)
        ring_pause(QR_MS);
    for (;;) {
        w->lives++;
        w->code = ring_run_once(w);
        w->fuse = -1;
        if (!atomic_load(&w->killed) && w->code != QR_OK && qr_exit_code(w->code) < 128)
            atomic_store(&w->ring->failed, true);
        if (!atomic_load(&w->killed) || w->again_ns == INT64_MAX) return NULL;
        ring_pause(w->again_ns);
        if (atomic_load(&w->ring->failed)) return NULL;
        /* A real worker would read in LATEST that the run is done. */
        if (w->ring->servers && atomic_load(&w->ring->n_wrote)) return NULL;
    }
}
static void ring_print(void *ctx, enum qr_log_level level, const char *module,
                       const char *message) {
    (void)ctx, (void)level;
    fprintf(stderr, "%.4f %s: %s\n",
            (double)(qr_now_ns(&qr_clock_monotonic) % (1000 * QR_SECOND)) / 1e9, module, message);
}

bool ring_came_too_late(const struct ring_worker *w) {
    return w->code == QR_DEADLINE_EXCEEDED &&
           strstr(w->err.msg, "the run ended before this worker joined");
}

void ring_init(struct ring *r, const char *job, uint32_t n) {
    struct qr_err err = {0};
    *r = (struct ring){.n = n, .min_workers = 1, .form_ns = 10 * QR_SECOND};
    r->noise = (struct qr_log){.level = getenv("NOISE") ? QR_LOG_DEBUG : QR_LOG_ERROR + 1,
                               .write = ring_print};
    CHECK(qr_job_parse(qr_bytes_of_string(job), "the test", &r->job, &err) == QR_OK, "%s", err.msg);
    CHECK(qr_job_data(r->job, &r->data, &err) == QR_OK, "%s", err.msg);
    CHECK(qr_job_model(r->job, qr_isa_best(), r->data.n_columns, &r->model, &err) == QR_OK, "%s",
          err.msg);
    qr_job_canonical(r->job, &r->data, NULL, &r->canonical);
    for (uint32_t i = 0; i < RING_MAX; i++)
        r->worker[i] =
            (struct ring_worker){.ring = r, .index = i, .fuse = -1, .again_ns = INT64_MAX};
}

void ring_run(struct ring *r) {
    snprintf(r->dir, sizeof r->dir, "/tmp/qring-ring-XXXXXX");
    CHECK(mkdtemp(r->dir) != NULL);
    r->hub = qr_link_hub_new();
    for (uint32_t i = 0; i < r->n; i++)
        pthread_create(&r->worker[i].thread, NULL, ring_run_worker, &r->worker[i]);
    for (uint32_t i = 0; i < r->n; i++) pthread_join(r->worker[i].thread, NULL);
    qr_link_hub_free(r->hub);
}

struct qr_buf ring_log(const struct ring *r) {
    struct qr_buf text = {0};
    struct qr_err err;
    qr_auto(qr_free_p) char *path = qr_path_join(r->dir, "steps.jsonl");
    CHECK(qr_file_read(path, 1 << 24, &text, &err) == QR_OK, "%s", err.msg);
    return text;
}

void ring_fini(struct ring *r) {
    qr_auto(qr_free_p) char *path = qr_path_join(r->dir, "steps.jsonl");
    unlink(path);
    rmdir(r->dir);
    for (uint32_t i = 0; i < RING_MAX; i++) free(r->worker[i].result.params);
    qr_job_canonical_fini(&r->canonical);
    qr_model_free(r->model);
    qr_dataset_fini(&r->data);
    qr_job_free(r->job);
}

/* ---- the same job without disturbance ---- */

struct ring_reference ring_undisturbed(const char *job) {
    struct ring r;
    struct ring_reference ref = {0};
    ring_init(&r, job, 1);
    int64_t before = qr_counter_value(QR_MICRO_BATCHES);
    ring_run(&r);
    ref.n_micro_batches = qr_counter_value(QR_MICRO_BATCHES) - before;
    CHECK(r.worker[0].code == QR_OK, "%s", r.worker[0].err.msg);
    ref.numbers = r.worker[0].result;
    memcpy(ref.digest, ref.numbers.state_digest, sizeof ref.digest);
    ref.lines = ring_log(&r);
    CHECK(ref.lines.n > 900 && strlen(ref.digest) == 32);
    ring_fini(&r);
    ref.numbers.params = NULL;
    return ref;
}

static bool ring_same_numbers(const struct qr_train_result *a, const struct qr_train_result *b) {
    bool same = a->loss == b->loss && a->has_val == b->has_val && a->val_loss == b->val_loss &&
                a->n_metrics == b->n_metrics;
    for (size_t i = 0; same && i < a->n_metrics; i++)
        same = a->metrics[i].value == b->metrics[i].value;
    return same;
}

void ring_check(const struct ring *r, const struct ring_reference *want, const char *what) {
    struct qr_buf text = ring_log(r);
    unsigned ended = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        const struct ring_worker *w = &r->worker[i];
        if (atomic_load(&w->killed) || ring_came_too_late(w)) continue;
        CHECK(w->code == QR_OK, "%s: member %u: %s", what, i, w->err.msg);
        if (w->result.ended_by_peers) continue;
        ended++;
        CHECK(strcmp(w->result.state_digest, want->digest) == 0, "%s: member %u: %s", what, i,
              w->result.state_digest);
        CHECK(ring_same_numbers(&w->result, &want->numbers),
              "%s: member %u: val_loss %.17g, expected %.17g", what, i, w->result.val_loss,
              want->numbers.val_loss);
    }
    CHECK(ended > 0 && atomic_load(&r->n_wrote) > 0, "%s: no member ended", what);
    CHECK(text.n == want->lines.n && memcmp(text.p, want->lines.p, text.n) == 0,
          "%s: the log differs: %zu bytes, expected %zu (%s)", what, text.n, want->lines.n, r->dir);
    qr_buf_free(&text);
}
