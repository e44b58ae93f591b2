/* tests/ring.h — whole workers in one process: the step loop and the group over in-process links,
 * each with its two threads. Included once.
 *
 * A worker can be killed at the n-th operation of its data link, or by what a callback asks for:
 * its connections break, as those of a process that dies, and nothing more goes out. All write one
 * steps.jsonl, as the workers of `qring run` do. */
#ifndef TESTS_RING_H
#define TESTS_RING_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "group/group.h"
#include "group/group_over_impl.h"
#include "tests/support/link_memory.h"
#include "output/steps_log.h"
#include "tests/t.h"
#include "train/train.h"

enum { RING_MAX = 6 };

/* Four qubits and a dense unit on ten rounds of cluster excitations, one sample a micro-batch:
 * steps of microseconds. train: the other keys of "train". */
#define RING_JOB(train)                                                                            \
    "{\"seed\":3,\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\",\"qubits\":4," \
    "\"stages\":1}},{\"layer\":\"dense\",\"units\":1}],"                                           \
    "\"data\":{\"source\":\"cluster-excitations\",\"rounds\":10,\"train_fraction\":0.7},"          \
    "\"precision\":\"double\",\"micro_batch_size\":1,\"train\":{\"loss\":\"mse\"," train "}}"
#define RING_ADAM "\"optimizer\":{\"name\":\"adam\",\"learning_rate\":0.05}"

/* ---- a data link that counts ---- */

struct ring;
struct ring_worker;
static void ring_kill(struct ring_worker *w);
static bool ring_burns(const struct ring_worker *w);
static bool ring_falls(struct ring_worker *w);
struct fused {
    struct qr_link base;
    struct qr_link *inner;
    struct ring_worker *worker;
    long left; /* operations until the worker is killed; < 0: never */
};
static struct fused *fused_of(struct qr_link *l) { return (struct fused *)l; }
static struct qr_link *burn(struct qr_link *l) {
    struct fused *f = fused_of(l);
    if ((f->left >= 0 && ring_burns(f->worker) && f->left-- == 0) || ring_falls(f->worker))
        ring_kill(f->worker);
    return f->inner;
}
static enum qr_code fused_listen(struct qr_link *l, const char *address, unsigned *ret_port,
                                 struct qr_err *err) {
    return fused_of(l)->inner->ops->listen(fused_of(l)->inner, address, ret_port, err);
}
static void fused_dial(struct qr_link *l, uint32_t tag, const char *address) {
    struct qr_link *i = burn(l);
    i->ops->dial(i, tag, address);
}
static void fused_hang_up(struct qr_link *l, uint32_t tag) {
    struct qr_link *i = burn(l);
    i->ops->hang_up(i, tag);
}
static void fused_close(struct qr_link *l, uint32_t conn) {
    struct qr_link *i = burn(l);
    i->ops->close_conn(i, conn);
}
static bool fused_send(struct qr_link *l, uint32_t conn, struct qr_bytes head,
                       struct qr_bytes body) {
    struct qr_link *i = burn(l);
    return i->ops->send(i, conn, head, body);
}
static size_t fused_unreleased(struct qr_link *l) {
    return fused_of(l)->inner->ops->unreleased(fused_of(l)->inner);
}
static void fused_pause(struct qr_link *l, uint32_t conn, bool paused) {
    fused_of(l)->inner->ops->pause(fused_of(l)->inner, conn, paused);
}
static void fused_poll(struct qr_link *l, int64_t deadline_ns, struct qr_link_event *ret) {
    struct qr_link *i = burn(l);
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

/* ---- a ring ---- */

enum ring_event { RING_JOINED, RING_STEP, RING_WRITES, RING_WROTE };
struct ring_worker {
    struct ring *ring;
    uint32_t index;
    long fuse;                  /* data link operations until it is killed; < 0: never */
    uint64_t lit_at, stepped;   /* the fuse burns from this step on; the step that it has made */
    int64_t start_ns, again_ns; /* after the ring's start; after a death, INT64_MAX: never again */
    bool comes_late;            /* when the others have made a step, however busy the machine is */
    pthread_t thread, control;
    struct qr_link *control_link, *data_link;
    struct qr_group *group; /* while it runs */
    struct qr_steps_log log;
    atomic_bool killed;
    unsigned lives, n_known; /* n_known: peers in its settings; 0: all */
    unsigned survived;       /* of the ring's blows */
    enum qr_code code;
    struct qr_err err;
    struct qr_train_result result;
    struct qr_group_view view;
    /* each look at a step's clock takes look_ns: two to a micro-batch. Of the training thread */
    bool slow;
    unsigned looks;  /* since it is slow */
    uint64_t epochs; /* its own settings; 0: the job's, the ring's */
    unsigned min_workers;
    bool has_wish;
    enum qr_allreduce wish;
};
struct ring {
    struct qr_job *job;
    struct qr_dataset data;
    struct qr_model *model;
    struct qr_job_canonical canonical;
    uint32_t n;
    unsigned servers;  /* the first so many are parameter servers */
    atomic_uint blows; /* each kills all workers that compute, at their next operation */
    unsigned min_workers, threads;
    enum qr_allreduce wish;
    int64_t step_ns; /* a leader sleeps so long in each step: time for others to come */
    int64_t form_ns;
    enum qr_code (*committed)(void *worker, bool leader, struct qr_state *state,
                              struct qr_err *err);
    enum qr_code (*reload)(void *worker, struct qr_state *ret, bool *ret_found, struct qr_err *err);
    bool (*ended)(void *worker);
    int64_t look_ns;
    char dir[64];
    struct qr_link_hub *hub;
    struct ring_worker worker[RING_MAX];
    /* called on training threads; may call ring_kill for its own worker, or interrupt one */
    void (*on)(struct ring_worker *w, enum ring_event e, const struct qr_step_line *line);
    void (*looked)(struct ring_worker *w, unsigned n); /* on a training thread, while it is slow */
    void *ctx;
    atomic_uint n_wrote;
    atomic_bool has_stepped;
    /* one has ended with a permanent code: nobody is started again, as an operator would have it */
    atomic_bool failed;
    struct qr_log noise;
};
static const char *const ring_peers[RING_MAX] = {"w0:2222", "w1:2222", "w2:2222",
                                                 "w3:2222", "w4:2222", "w5:2222"};

static void ring_kill(struct ring_worker *w) {
    atomic_store(&w->killed, true);
    qr_link_memory_kill(w->control_link);
    qr_link_memory_kill(w->data_link);
    qr_group_interrupt(w->group); /* a process that dies stops computing */
}
static bool ring_burns(const struct ring_worker *w) { return w->stepped >= w->lit_at; }
static bool ring_serves(const struct ring_worker *w) { return w->index < w->ring->servers; }
static bool ring_falls(struct ring_worker *w) {
    unsigned blows = atomic_load(&w->ring->blows);
    if (ring_serves(w) || w->survived == blows) return false;
    w->survived = blows;
    return true;
}
static void ring_pause(int64_t ns) {
    if (ns > 0)
        nanosleep(&(struct timespec){.tv_sec = ns / QR_SECOND, .tv_nsec = ns % QR_SECOND}, NULL);
}
static void ring_event(struct ring_worker *w, enum ring_event e, const struct qr_step_line *line) {
    if (w->ring->on && !atomic_load(&w->killed)) w->ring->on(w, e, line);
}
static enum qr_code dead(struct ring_worker *w, struct qr_err *err) {
    return atomic_load(&w->killed) ? qr_fail(err, QR_CANCELLED, "killed") : QR_OK;
}
static enum qr_code ring_joined(void *ctx, const struct qr_group_view *view, uint64_t epochs,
                                bool fresh, struct qr_err *err) {
    struct ring_worker *w = ctx;
    w->view = *view;
    (void)epochs;
    ring_event(w, RING_JOINED, NULL);
    if (dead(w, err) != QR_OK) return QR_CANCELLED;
    return fresh ? qr_steps_log_truncate(&w->log, err) : QR_OK;
}
static enum qr_code ring_step(void *ctx, bool leader, const struct qr_step_line *line,
                              const struct qr_step_detail *detail, struct qr_err *err) {
    struct ring_worker *w = ctx;
    bool continues;
    atomic_store(&w->ring->has_stepped, true);
    w->stepped = line->step;
    ring_event(w, RING_STEP, line);
    if (dead(w, err) != QR_OK) return QR_CANCELLED;
    if (!leader) return QR_OK;
    ring_pause(w->ring->step_ns);
    return qr_steps_log_write(&w->log, line, detail->before, detail->n_before, &continues, err);
}
static enum qr_code ring_finish(void *ctx, const struct qr_group_view *view,
                                const struct qr_train_result *result, struct qr_err *err) {
    struct ring_worker *w = ctx;
    (void)result;
    w->view = *view;
    ring_event(w, RING_WRITES, NULL);
    if (dead(w, err) != QR_OK) return QR_CANCELLED;
    if (view->rank == 0) {
        atomic_fetch_add(&w->ring->n_wrote, 1);
        ring_event(w, RING_WROTE, NULL);
        if (dead(w, err) != QR_OK) return QR_CANCELLED;
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
static enum qr_code ring_live(struct ring_worker *w) {
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
                                 .server = ring_serves(w),
                                 .min_workers = w->min_workers ? w->min_workers : ring->min_workers,
                                 .listen_address = ring_peers[w->index],
                                 .form_timeout_ns = ring->form_ns,
                                 .allreduce = w->has_wish ? w->wish : ring->wish,
                                 .clock = &qr_clock_monotonic,
                                 .log = &ring->noise};
    memcpy(o.job_hash, ring->canonical.hash, sizeof o.job_hash);
    struct fused *f = qr_xcalloc(1, sizeof *f);
    w->control_link = qr_link_memory_new(ring->hub);
    w->data_link = qr_link_memory_new(ring->hub);
    *f =
        (struct fused){.base.ops = &fused_ops, .inner = w->data_link, .worker = w, .left = w->fuse};
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
        .server = ring_serves(w),
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
        w->code = ring_live(w);
        w->fuse = -1;
        if (!atomic_load(&w->killed) && w->code != QR_OK && qr_exit_code(w->code) < 128)
            atomic_store(&w->ring->failed, true);
        if (!atomic_load(&w->killed) || w->again_ns == INT64_MAX) return NULL;
        ring_pause(w->again_ns);
        if (atomic_load(&w->ring->failed)) return NULL;
        /* it would read in LATEST, which these rings do not have, that nothing is left to do */
        if (w->ring->servers && atomic_load(&w->ring->n_wrote)) return NULL;
    }
}
static void ring_noise(void *ctx, enum qr_log_level level, const char *module,
                       const char *message) {
    (void)ctx, (void)level;
    fprintf(stderr, "%.4f %s: %s\n",
            (double)(qr_now_ns(&qr_clock_monotonic) % (1000 * QR_SECOND)) / 1e9, module, message);
}

/* It was started again and not taken in before the others ended: it would look at LATEST now, which
 * these rings do not have. */
static inline bool ring_came_too_late(const struct ring_worker *w) {
    return w->code == QR_DEADLINE_EXCEEDED &&
           strstr(w->err.msg, "the run ended before this worker joined");
}

static void ring_init(struct ring *r, const char *job, uint32_t n) {
    struct qr_err err = {0};
    *r = (struct ring){.n = n, .min_workers = 1, .form_ns = 10 * QR_SECOND};
    r->noise = (struct qr_log){.level = getenv("NOISE") ? QR_LOG_DEBUG : QR_LOG_ERROR + 1,
                               .write = ring_noise};
    CHECK(qr_job_parse(qr_bytes_of_string(job), "the test", &r->job, &err) == QR_OK, "%s", err.msg);
    CHECK(qr_job_data(r->job, &r->data, &err) == QR_OK, "%s", err.msg);
    CHECK(qr_job_model(r->job, qr_isa_best(), r->data.n_columns, &r->model, &err) == QR_OK, "%s",
          err.msg);
    qr_job_canonical(r->job, &r->data, NULL, &r->canonical);
    for (uint32_t i = 0; i < RING_MAX; i++)
        r->worker[i] =
            (struct ring_worker){.ring = r, .index = i, .fuse = -1, .again_ns = INT64_MAX};
}
static void ring_run(struct ring *r) {
    snprintf(r->dir, sizeof r->dir, "/tmp/qring-ring-XXXXXX");
    CHECK(mkdtemp(r->dir) != NULL);
    r->hub = qr_link_hub_new();
    for (uint32_t i = 0; i < r->n; i++)
        pthread_create(&r->worker[i].thread, NULL, ring_run_worker, &r->worker[i]);
    for (uint32_t i = 0; i < r->n; i++) pthread_join(r->worker[i].thread, NULL);
    qr_link_hub_free(r->hub);
}
/* The log's whole text; the caller frees it. */
static struct qr_buf ring_log(const struct ring *r) {
    struct qr_buf text = {0};
    struct qr_err err;
    qr_auto(qr_free_p) char *path = qr_path_join(r->dir, "steps.jsonl");
    CHECK(qr_file_read(path, 1 << 24, &text, &err) == QR_OK, "%s", err.msg);
    return text;
}
static void ring_fini(struct ring *r) {
    qr_auto(qr_free_p) char *path = qr_path_join(r->dir, "steps.jsonl");
    unlink(path);
    rmdir(r->dir);
    for (uint32_t i = 0; i < RING_MAX; i++) free(r->worker[i].result.params);
    qr_job_canonical_fini(&r->canonical);
    qr_model_free(r->model);
    qr_dataset_fini(&r->data);
    qr_job_free(r->job);
}

#endif
