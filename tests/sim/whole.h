/* tests/sim/whole.h — whole workers in one process on virtual time: the real step loop, group, state copies and log over the computed network.
 *
 * A worker's two threads are coroutines: one runs until it polls its link or, in a step, looks at the clock; then time, the network and the
 * others move on. So a seed gives one run, every wait of the code is among the places where something may happen, and an hour is a second.
 * Included once. */
#ifndef TESTS_SIM_WHOLE_H
#define TESTS_SIM_WHOLE_H

#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "group/group_impl.h"
#include "group/link_simulated.h"
#include "tests/t.h"
#include "train/train.h"
#include "worker/steps_log.h"

enum { MAX_NODES = 5, MAX_LIVES = 30, STACK_BYTES = 512 << 10, MAX_LINES = 64 };
#define MS(n) ((int64_t)(n) * 1000000)

struct whole;
struct node;
/* A link whose poll lets the others run. */
struct port {
    struct qr_link base;
    struct qr_link *inner;
    struct node *node;
    bool woken;
};
struct actor {
    ucontext_t context;
    void *stack;
    void (*run)(struct node *x);
    struct node *node;
    bool started, done;
    struct port *port; /* it polls this */
    int64_t until_ns;
};
struct node {
    struct whole *w;
    uint32_t index;
    bool live, killed, paused, finished, by_others;
    unsigned lives;
    int64_t start_ns, resume_ns, block_ns; /* block_ns: a look at the clock in a step takes up to so long */
    struct port control_port, data_port;
    struct actor control, training;
    struct qr_group *group;
    struct qr_steps_log log;
    enum qr_code code;
    struct qr_err err;
    char digest[33];
    int64_t told_ns, named_ns; /* when it last told a step or ended, and first named the victim as gone */
};
struct whole {
    uint64_t seed, random;
    bool loud, done;          /* done: one has ended well */
    unsigned n, n_lives, broken_rules, n_kills, n_joins, mutations;
    struct qr_sim_net *net;
    struct qr_clock clock;
    struct node node[MAX_NODES];
    char address[MAX_NODES][32], dir[64];
    const char *peers[MAX_NODES];
    ucontext_t scheduler;
    struct actor *now;        /* who runs */
    uint64_t turns;
    struct node *victim;
    const char *rule;
    char detail[300];
};
/* The job and its undisturbed run, for all worlds. */
static struct {
    struct qr_job *job;
    struct qr_dataset data;
    struct qr_model *model;
    struct qr_job_canonical canonical;
    char digest[33];
    struct qr_buf line[MAX_LINES]; /* by 2 * step + eval */
    struct qr_buf log;
} truth;

static uint64_t mix(uint64_t z) {
    z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
static uint64_t dice(struct whole *w, uint64_t n) { return (w->random = mix(w->random)) % n; }
static int64_t now_of(const struct whole *w) { return qr_sim_net_now_ns(w->net); }
static void broken(struct whole *w, const struct node *x, const char *rule, const char *more) {
    if (w->broken_rules++ == 0) {
        w->rule = rule;
        snprintf(w->detail, sizeof w->detail, "worker %u at %.3f s: %.200s", x->index, (double)now_of(w) / 1e9, more);
    }
}
#define SAY(x, ...)                                                                     \
    do {                                                                                \
        if ((x)->w->loud) {                                                             \
            printf("%9.4f worker %u ", (double)now_of((x)->w) / 1e9, (x)->index);       \
            printf(__VA_ARGS__);                                                        \
            putchar('\n');                                                              \
        }                                                                               \
    } while (0)

/* ---- coroutines ---- */

static void wait_until(struct whole *w, int64_t until_ns, struct port *port) {
    struct actor *a = w->now;
    a->until_ns = until_ns;
    a->port = port;
    swapcontext(&a->context, &w->scheduler);
}
static bool ready(const struct port *p) { return p->woken || qr_sim_link_ready(p->inner); }
static struct actor *entering; /* makecontext takes ints only */
static void enter(void) {
    struct actor *a = entering;
    a->run(a->node);
    a->done = true;
    swapcontext(&a->context, &a->node->w->scheduler);
}
static void begin_actor(struct actor *a, struct node *x, void (*run)(struct node *)) {
    void *stack = a->stack ? a->stack : qr_xaligned(STACK_BYTES);
    *a = (struct actor){.run = run, .node = x, .started = true, .stack = stack};
    getcontext(&a->context);
    a->context.uc_stack.ss_sp = stack;
    a->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&a->context, enter, 0);
}
static void resume(struct whole *w, struct actor *a) {
    w->now = a;
    entering = a;
    swapcontext(&w->scheduler, &a->context);
    w->now = NULL;
}

/* ---- links ---- */

static struct port *port_of(struct qr_link *l) { return (struct port *)l; }
static struct qr_link *inner_of(struct qr_link *l) { return port_of(l)->inner; }
static enum qr_code port_listen(struct qr_link *l, const char *address, unsigned *ret_port, struct qr_err *err) {
    return inner_of(l)->ops->listen(inner_of(l), address, ret_port, err);
}
static void port_dial(struct qr_link *l, uint32_t tag, const char *address) { inner_of(l)->ops->dial(inner_of(l), tag, address); }
static void port_hang_up(struct qr_link *l, uint32_t tag) { inner_of(l)->ops->hang_up(inner_of(l), tag); }
static void port_close(struct qr_link *l, uint32_t conn) { inner_of(l)->ops->close_conn(inner_of(l), conn); }
static bool port_send(struct qr_link *l, uint32_t conn, struct qr_bytes head, struct qr_bytes body) {
    return inner_of(l)->ops->send(inner_of(l), conn, head, body);
}
static size_t port_unreleased(struct qr_link *l) { return inner_of(l)->ops->unreleased(inner_of(l)); }
static void port_pause(struct qr_link *l, uint32_t conn, bool paused) { inner_of(l)->ops->pause(inner_of(l), conn, paused); }
static void port_poll(struct qr_link *l, int64_t deadline_ns, struct qr_link_event *ret) {
    struct port *p = port_of(l);
    struct whole *w = p->node->w;
    if (!ready(p)) wait_until(w, deadline_ns, p);
    *ret = (struct qr_link_event){.kind = p->woken ? QR_LINK_WOKEN : QR_LINK_NOTHING};
    if (!p->woken) p->inner->ops->poll(p->inner, now_of(w), ret);
    p->woken = false;
}
static void port_wake(struct qr_link *l) { port_of(l)->woken = true; }
static void port_free(struct qr_link *l) { inner_of(l)->ops->free(inner_of(l)); }
static const struct qr_link_ops port_ops = {
    .listen = port_listen, .dial = port_dial, .hang_up = port_hang_up, .close_conn = port_close, .send = port_send,
    .unreleased = port_unreleased, .pause = port_pause, .poll = port_poll, .wake = port_wake, .free = port_free,
};

/* ---- a worker ---- */

/* The clock of a step: looking at it takes time, in which anything may happen. Computing, that is. */
static int64_t busy_now(void *ctx) {
    struct node *x = ctx;
    wait_until(x->w, now_of(x->w) + (int64_t)dice(x->w, (uint64_t)x->block_ns), NULL);
    return now_of(x->w);
}
static enum qr_code dead(const struct node *x, struct qr_err *err) { return x->killed ? qr_fail(err, QR_CANCELLED, "killed") : QR_OK; }
static enum qr_code on_joined(void *ctx, const struct qr_group_view *view, bool fresh, struct qr_err *err) {
    struct node *x = ctx;
    if (dead(x, err) != QR_OK) return QR_CANCELLED;
    SAY(x, "JOINS generation %llu: rank %u of %u", (unsigned long long)view->generation, view->rank, view->n_members);
    x->w->n_joins++;
    return fresh ? qr_steps_log_fresh(&x->log, err) : QR_OK;
}
static enum qr_code on_step(void *ctx, bool leader, const struct qr_step_line *line, const struct qr_step_detail *detail, struct qr_err *err) {
    static struct qr_buf text;
    struct node *x = ctx;
    bool continues;
    if (dead(x, err) != QR_OK) return QR_CANCELLED;
    uint64_t place = 2 * line->step + line->eval;
    qr_buf_clear(&text);
    qr_step_json(line, &text);
    if (place >= MAX_LINES || text.n != truth.line[place].n || memcmp(text.p, truth.line[place].p, text.n) != 0)
        broken(x->w, x, "every stable step is the undisturbed run's", qr_buf_string(&text));
    x->told_ns = now_of(x->w);
    SAY(x, "TELLS step %llu%s%s", (unsigned long long)line->step, line->eval ? " (evaluation)" : "", leader ? ", and leads" : "");
    return leader ? qr_steps_log_write(&x->log, line, detail->before, detail->n_before, &continues, err) : QR_OK;
}
static enum qr_code on_finish(void *ctx, const struct qr_group_view *view, const struct qr_train_result *result, struct qr_err *err) {
    struct node *x = ctx;
    if (dead(x, err) != QR_OK) return QR_CANCELLED;
    if (strcmp(result->state_digest, truth.digest) != 0) broken(x->w, x, "the digest is the undisturbed run's", result->state_digest);
    SAY(x, "CLOSES%s", view->rank == 0 ? " and writes" : "");
    if (view->rank == 0) wait_until(x->w, now_of(x->w) + (int64_t)dice(x->w, (uint64_t)MS(30)), NULL); /* the upload */
    if (dead(x, err) != QR_OK) return QR_CANCELLED;
    return qr_group_done(x->group, NULL, 20 * QR_SECOND, err);
}
static void run_control(struct node *x) { qr_group_control_run(x->group); }
static enum qr_code start_control(void *ctx, struct qr_group *g, struct qr_err *err) {
    struct node *x = ctx;
    (void)g, (void)err;
    begin_actor(&x->control, x, run_control);
    return QR_OK;
}
static void join_control(void *ctx) {
    struct node *x = ctx;
    while (x->control.started && !x->control.done) wait_until(x->w, now_of(x->w) + MS(1), NULL);
}
static void whole_log(void *ctx, enum qr_log_level level, const char *module, const char *message) {
    struct node *x = ctx;
    SAY(x, "log: %s: %s", module, message);
    char name[48];
    snprintf(name, sizeof name, "worker %u (host%u:2222): ", x->w->victim ? x->w->victim->index : 99, x->w->victim ? x->w->victim->index : 99);
    if (level == QR_LOG_WARNING && !x->named_ns && strstr(message, name)) x->named_ns = now_of(x->w);
    if (level == QR_LOG_WARNING && strstr(message, "coverage refused")) broken(x->w, x, "coverage is a net that is never needed", message);
}
static void open_port(struct port *p, struct node *x) {
    *p = (struct port){.base.ops = &port_ops, .inner = qr_link_simulated_new(x->w->net), .node = x};
}
static void run_training(struct node *x) {
    struct whole *w = x->w;
    struct qr_group_field field = {"contract", "f64-v1"};
    struct qr_log log = {.level = w->loud ? QR_LOG_DEBUG : QR_LOG_WARNING, .write = whole_log, .ctx = x};
    struct qr_clock busy = {busy_now, x};
    struct qr_group_options o = {.run = "whole", .fields = &field, .n_fields = 1, .index = x->index, .n_peers = w->n, .peers = w->peers,
                                 .count_known = true, .min_workers = 1, .listen_address = w->address[x->index],
                                 .form_timeout_ns = 5 * QR_SECOND, .clock = &w->clock, .log = &log,
                                 .seed = mix(w->seed * 1000 + x->index * 100 + x->lives) | 1, .mutations = w->mutations};
    struct qr_train_options t = {
        .job = truth.job, .canonical = &truth.canonical, .data = &truth.data, .model = truth.model, .clock = &busy, .log = &log,
        .observer = {.ctx = x, .joined = on_joined, .step = on_step}, .finish = on_finish, .finish_ctx = x,
    };
    struct qr_train_result result = {0};
    unsigned port;
    memcpy(o.job_hash, truth.canonical.hash, sizeof o.job_hash);
    x->code = qr_group_over(&o, &x->control_port.base, &x->data_port.base, &x->group, &port, &x->err);
    if (x->code != QR_OK) return;
    qr_group_set_thread(x->group, start_control, join_control, x);
    qr_steps_log_init(&x->log, w->dir);
    t.group = x->group;
    t.pool = qr_pool_new(1);
    x->code = qr_train_run(&t, &result, &x->err);
    x->by_others = result.by_others;
    snprintf(x->digest, sizeof x->digest, "%s", result.state_digest);
    free(result.params);
    struct qr_group *g = x->group;
    qr_group_close(g);
    x->group = NULL;
    qr_steps_log_fini(&x->log);
    qr_pool_free(t.pool);
}
static void start_node(struct node *x) {
    SAY(x, "starts");
    x->live = true;
    x->killed = x->paused = false;
    x->lives++;
    x->control.started = x->control.done = false;
    open_port(&x->control_port, x);
    open_port(&x->data_port, x);
    begin_actor(&x->training, x, run_training);
}
static void kill_node(struct node *x) {
    SAY(x, "is killed");
    x->killed = true;
    x->paused = false;
    x->w->n_kills++;
    qr_sim_net_kill(x->control_port.inner);
    qr_sim_net_kill(x->data_port.inner);
    if (x->group) qr_group_interrupt(x->group); /* what is left of it ends at the next look */
}

/* ---- time ---- */

static void end_node(struct whole *w, struct node *x) {
    x->live = false;
    x->told_ns = now_of(w);
    SAY(x, "has ended: %s %s", qr_code_name(x->code), x->code == QR_OK ? "" : x->err.msg);
    if (!x->killed && x->code == QR_OK) {
        x->finished = w->done = true;
        if (!x->by_others && strcmp(x->digest, truth.digest) != 0) broken(w, x, "the digest is the undisturbed run's", x->digest);
        return;
    }
    bool retry = x->killed || x->code == QR_CANCELLED || qr_exit_code(x->code) == 138;
    if (!retry) broken(w, x, "nobody ends with a permanent error", x->err.msg);
    if (w->done) x->finished = true; /* LATEST says done */
    else if (w->n_lives++ < MAX_LIVES) x->start_ns = now_of(w) + MS(20) + (int64_t)dice(w, 1500) * MS(1);
    else x->finished = true;
}
static bool can_run(const struct whole *w, const struct actor *a) {
    if (!a->started || a->done || a->node->paused) return false;
    return now_of(w) >= a->until_ns || (a->port && ready(a->port));
}
static void sooner(int64_t *at, int64_t t) {
    if (t < *at) *at = t;
}
/* One coroutine runs, or time goes on, not beyond limit_ns. */
static void turn(struct whole *w, int64_t limit_ns) {
    struct actor *can[2 * MAX_NODES];
    unsigned n = 0;
    int64_t next = limit_ns;
    w->turns++;
    for (unsigned i = 0; i < w->n; i++) {
        struct node *x = &w->node[i];
        if (x->paused && now_of(w) >= x->resume_ns) x->paused = false;
        if (!x->live && x->start_ns && now_of(w) >= x->start_ns) {
            x->start_ns = 0;
            if (w->done) x->finished = true;
            else start_node(x);
        }
        struct actor *a[2] = {&x->control, &x->training};
        for (int k = 0; k < 2; k++) {
            if (can_run(w, a[k])) can[n++] = a[k];
            else if (a[k]->started && !a[k]->done && !x->paused) sooner(&next, a[k]->until_ns);
        }
        if (x->paused) sooner(&next, x->resume_ns);
        if (x->start_ns) sooner(&next, x->start_ns);
    }
    if (n == 0) {
        sooner(&next, qr_sim_net_next_ns(w->net));
        qr_sim_net_advance(w->net, next > now_of(w) ? next : now_of(w) + 1);
        return;
    }
    struct actor *a = can[dice(w, n)];
    resume(w, a);
    if (a->done && a == &a->node->training) end_node(w, a->node);
}

/* ---- a world ---- */

static void whole_init(struct whole *w, uint64_t seed, bool loud) {
    void *stacks[MAX_NODES][2];
    for (unsigned i = 0; i < MAX_NODES; i++) {
        stacks[i][0] = w->node[i].control.stack;
        stacks[i][1] = w->node[i].training.stack;
    }
    *w = (struct whole){.seed = seed, .random = mix(seed), .loud = loud};
    w->n = w->n_lives = 1 + (unsigned)dice(w, MAX_NODES);
    struct qr_sim_net_options opt = {.seed = mix(seed + 1), .min_delay_ns = 50000, .max_delay_ns = MS(1 + (int64_t)dice(w, 20))};
    w->net = qr_sim_net_new(&opt);
    w->clock = qr_sim_net_clock(w->net);
    snprintf(w->dir, sizeof w->dir, "/tmp/qring-whole-XXXXXX");
    CHECK(mkdtemp(w->dir) != NULL);
    int64_t block_ns = dice(w, 4) ? MS(1 + (int64_t)dice(w, 8)) : MS(100);
    for (unsigned i = 0; i < MAX_NODES; i++) {
        struct node *x = &w->node[i];
        x->w = w;
        x->index = i;
        x->control.stack = stacks[i][0];
        x->training.stack = stacks[i][1];
        x->block_ns = block_ns * (1 + (dice(w, 5) == 0) * 7); /* some are slow */
        x->start_ns = i < w->n ? 1 + (int64_t)dice(w, 3) * (int64_t)dice(w, 200) * MS(1) : 0;
        snprintf(w->address[i], sizeof w->address[i], "host%u:2222", i);
        w->peers[i] = w->address[i];
    }
}
static void whole_fini(struct whole *w) {
    char path[96];
    snprintf(path, sizeof path, "%s/steps.jsonl", w->dir);
    unlink(path);
    rmdir(w->dir);
    qr_sim_net_free(w->net);
}

#endif
