/* tests/cluster_sim/whole.h — whole workers in one process on virtual time: the real step loop,
 * group, state copies, log, publisher and checkpoints over a computed network and store.
 *
 * A worker's three threads are coroutines. One runs until it polls its link, waits for the
 * publisher, calls the store or, in a step, reads the clock; then time, the network, the store and
 * the other coroutines advance. So a seed fixes one run, every wait of the code is a place where a
 * fault can happen, and an hour takes a second. whole_store.h has the store, whole_worker.h the
 * life of a worker, whole_world.h time and faults. */
#ifndef TESTS_CLUSTER_SIM_WHOLE_H
#define TESTS_CLUSTER_SIM_WHOLE_H

#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "group/group.h"
#include "group/group_over_impl.h"
#include "tests/support/link_simulated.h"
#include "tests/support/planted.h"
#include "output/run_checkpoints.h"
#include "output/publisher_impl.h"
#include "output/steps_log.h"
#include "tests/t.h"
#include "train/train.h"

enum { MAX_INSTANT = 200000 }; /* turns of all at one instant: more, and time stands still */
#ifndef MAX_NODES
enum { MAX_NODES = 8 };
#endif
enum { MAX_LIVES = 100, STACK_BYTES = 512 << 10, MAX_SAID = 700, MAX_SENT = 64 };
#define MS(n) ((int64_t)(n)*1000000)

/* Bugs that are planted here; the smaller bits are planted.h's. */
enum plant {
    PLANT_UNCOMMITTED = 1 << 16, /* publishes a state that is not committed yet */
    PLANT_PLAIN_WRITE = 1 << 17, /* LATEST moved by a plain write instead of compare-and-swap */
    PLANT_UNVERIFIED = 1 << 18,  /* a damaged checkpoint is loaded as if it were whole */
};

struct whole;
struct node;
/* A link whose poll lets the others run, and whose streams may be slow in taking what they
 * were given. */
struct port {
    struct qr_link base;
    struct qr_link *inner;
    struct node *node;
    bool woken;
    int64_t slow_ns;           /* until then each body is held for a while */
    int64_t held_ns[MAX_SENT]; /* bodies that are not released: until when; 0: free */
};
struct actor {
    ucontext_t context;
    void *stack;
    void (*run)(struct node *x);
    struct node *node;
    bool started, done;
    struct port *port;    /* it polls this */
    const unsigned *news; /* or waits until this is no longer `seen` */
    unsigned seen;
    int64_t until_ns, frozen_ns; /* frozen: it alone does not run before that */
};
enum { CONTROL, TRAINING, PUBLISHING, ACTORS };
struct node {
    struct whole *w;
    uint32_t index;
    /* away: it is not started again */
    bool live, killed, paused, finished, leaving, away, told_end, leader, damage_hidden, saw_end;
    unsigned lives, news;
    /* micro_batch_ns: a look at the clock in a step takes up to so long */
    int64_t looked_ns, start_ns, resume_ns, leave_by_ns, offset_ns, micro_batch_ns;
    struct qr_clock clock, busy_clock;
    struct qr_log say;
    struct port port[2]; /* control, data */
    struct actor actor[ACTORS];
    struct qr_group *group;
    struct qr_publisher *publisher;
    void (*publish)(struct qr_publisher *p);
    struct qr_steps_log log;
    struct qr_resume_point start;
    enum qr_code code;
    struct qr_err err;
    char digest[33];
    /* when it last told a step, first named the victim as gone, ended */
    int64_t reported_ns, named_ns, ended_ns;
    unsigned joins, n_members;
    uint64_t ring_epochs; /* of the generation that it joined last */
    /* its own settings; the truth's, auto, 1, unless the world has others */
    uint64_t epochs;
    enum qr_allreduce wish;
    unsigned fewest;
};
/* good: before the damage */
struct object {
    char name[120];
    struct qr_buf bytes, good;
    uint64_t version;
    bool damaged;
};
enum verb { GET, PUT, CREATE, REMOVE, LIST, SWAP };
struct request {
    struct request *next;
    struct node *node; /* NULL: who asked has died; it is under way all the same */
    enum verb verb;
    char name[120];
    struct qr_buf bytes; /* to write, or read */
    struct qr_store_version version;
    int64_t at_ns, back_ns; /* takes effect; the answer is there */
    bool locked, performed, lose_answer, fail;
    enum qr_code code;
    bool wrote, had; /* what a power cut can undo */
    struct qr_buf before;
    uint64_t wrote_version;
};
struct store {
    bool on, cloud;
    unsigned fault; /* of 1000 requests: refused, slow, or their answer is lost */
    struct object *v;
    size_t n;
    uint64_t versions;
    struct request *requests, *lock;    /* lock: LATEST's, of a file system */
    struct qr_checkpoint_latest newest; /* the last that LATEST was moved to; no reductions: none */
    uint64_t acked_reductions;          /* LATEST was acknowledged there */
    bool has_newest, lied;              /* lied: something acknowledged was damaged since */
    /* a leaver's state was published before its line; the last one was given up, as a local disk's
     * may be; the log lacks a line for that */
    bool ahead_of_log, gave_up, gap;
    long long synced; /* of the log */
    unsigned n_saves, n_cuts, n_earlier;
};
struct whole {
    uint64_t seed, random, turns, print; /* print: of all that happened */
    int64_t instant_ns;
    unsigned instant_turns; /* at this instant */
    bool done;              /* one has ended well */
    unsigned n, n_lives, broken_rules, n_kills, n_joins, mutations, n_said;
    struct qr_sim_net *net;
    struct store store;
    struct node node[MAX_NODES];
    char address[MAX_NODES][32], dir[64];
    const char *peers[MAX_NODES];
    uint64_t said_hash;
    bool others;  /* who is started again has other settings */
    bool offsets; /* clocks that began at different times */
    /* at the end, and from then on, two members hear each other and pass no data */
    bool no_data;
    int64_t every_ns, form_ns;
    uint64_t every_steps;
    unsigned min_workers;
    unsigned servers; /* the first so many compute nothing */
    ucontext_t scheduler;
    struct actor *now;        /* who runs */
    unsigned victims;         /* whose loss is timed: a set of indices */
    uint64_t top, n_reported; /* the last step that anybody told, and how many there were */
    /* when; the longest pause between two since longest_ns was cleared */
    int64_t top_ns, longest_ns;
    /* a thread may be so late each time: a neighbour has the processor */
    int64_t late_ns;
    const char *rule;
    char detail[300];
};
/* A job and its undisturbed run, for all worlds. */
static struct {
    struct qr_workload load;
    struct qr_job *job;
    struct qr_job_canonical canonical;
    char digest[33];
    uint64_t epochs;
    size_t n_reductions, n_lines;
    struct qr_state *state; /* by reductions, with its digest and where the log then ends */
    char (*digest_at)[33];
    size_t *log_end;
    struct qr_buf *line; /* by 2 * step + eval */
    struct qr_buf log;
} truth;

static bool hearing, loud; /* a replay: what happens is told, and printed */

static uint64_t mix(uint64_t z) {
    z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
static uint64_t dice(struct whole *w, uint64_t n) { return (w->random = mix(w->random)) % n; }
static int64_t dice_ns(struct whole *w, int64_t n) { return (int64_t)dice(w, (uint64_t)n); }
static int64_t now_of(const struct whole *w) { return qr_sim_net_now_ns(w->net); }
static void broken(struct whole *w, const struct node *x, const char *rule, const char *more) {
    if (w->broken_rules++ == 0) {
        w->rule = rule;
        snprintf(w->detail, sizeof w->detail, "worker %u at %.3f s: %.200s", x->index,
                 (double)now_of(w) / 1e9, more);
    }
}
/* One line of a replay. */
static QR_PRINTF(2, 3) void say(const struct node *x, const char *fmt, ...) {
    struct whole *w = x->w;
    char text[400];
    va_list args;
    if (!hearing) return;
    int n = snprintf(text, sizeof text, "%9.4f worker %u ", (double)now_of(w) / 1e9, x->index);
    va_start(args, fmt);
    vsnprintf(text + n, sizeof text - (size_t)n, fmt, args);
    va_end(args);
    for (const char *c = text; *c; c++)
        w->said_hash = (w->said_hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
    if (loud && w->n_said++ < MAX_SAID) puts(text);
    if (loud && w->n_said == MAX_SAID) puts("... (the rest is not shown)");
}

/* ---- coroutines ---- */

static void wait_for(struct whole *w, int64_t until_ns, struct port *port, const unsigned *news) {
    struct actor *a = w->now;
    a->until_ns = until_ns;
    a->port = port;
    a->news = news;
    a->seen = news ? *news : 0;
    swapcontext(&a->context, &w->scheduler);
}
static void wait_until(struct whole *w, int64_t until_ns) { wait_for(w, until_ns, NULL, NULL); }
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
    w->print = mix(w->print ^ (uint64_t)now_of(w) ^ ((uint64_t)a->node->index << 56) ^
                   (uint64_t)(a - a->node->actor) << 60);
    entering = a;
    swapcontext(&w->scheduler, &a->context);
    w->now = NULL;
}
static bool can_run(const struct whole *w, const struct actor *a) {
    int64_t now = now_of(w);
    if (!a->started || a->done || a->node->paused || now < a->frozen_ns) return false;
    return now >= a->until_ns || (a->port && ready(a->port)) || (a->news && *a->news != a->seen);
}

/* ---- links ---- */

static struct port *port_of(struct qr_link *l) { return (struct port *)l; }
static struct qr_link *inner_of(struct qr_link *l) { return port_of(l)->inner; }
static enum qr_code port_listen(struct qr_link *l, const char *address, unsigned *ret_port,
                                struct qr_err *err) {
    return inner_of(l)->ops->listen(inner_of(l), address, ret_port, err);
}
static void port_dial(struct qr_link *l, uint32_t tag, const char *address) {
    inner_of(l)->ops->dial(inner_of(l), tag, address);
}
static void port_hang_up(struct qr_link *l, uint32_t tag) {
    inner_of(l)->ops->hang_up(inner_of(l), tag);
}
static void port_close(struct qr_link *l, uint32_t conn) {
    inner_of(l)->ops->close_conn(inner_of(l), conn);
}
static bool port_send(struct qr_link *l, uint32_t conn, struct qr_bytes head,
                      struct qr_bytes body) {
    struct port *p = port_of(l);
    int64_t now = now_of(p->node->w);
    if (!p->inner->ops->send(p->inner, conn, head, body)) return false;
    for (int i = 0; i < MAX_SENT && body.n && now < p->slow_ns; i++)
        if (p->held_ns[i] <= now) {
            p->held_ns[i] = now + dice_ns(p->node->w, MS(700));
            break;
        }
    return true;
}
static size_t port_unreleased(struct qr_link *l) {
    const struct port *p = port_of(l);
    size_t n = p->inner->ops->unreleased(p->inner);
    for (int i = 0; i < MAX_SENT; i++) n += p->held_ns[i] > now_of(p->node->w);
    return n;
}
static void port_pause(struct qr_link *l, uint32_t conn, bool paused) {
    inner_of(l)->ops->pause(inner_of(l), conn, paused);
}
static void port_poll(struct qr_link *l, int64_t deadline_ns, struct qr_link_event *ret) {
    struct port *p = port_of(l);
    struct whole *w = p->node->w;
    int64_t until_ns = deadline_ns == INT64_MAX ? deadline_ns : deadline_ns - p->node->offset_ns;
    if (!ready(p)) wait_for(w, until_ns, p, NULL);
    *ret = (struct qr_link_event){.kind = p->woken ? QR_LINK_WOKEN : QR_LINK_NOTHING};
    if (!p->woken) p->inner->ops->poll(p->inner, now_of(w), ret);
    p->woken = false;
}
static void port_wake(struct qr_link *l) { port_of(l)->woken = true; }
static void port_free(struct qr_link *l) { inner_of(l)->ops->free(inner_of(l)); }
static const struct qr_link_ops port_ops = {
    .listen = port_listen,
    .dial = port_dial,
    .hang_up = port_hang_up,
    .close_conn = port_close,
    .send = port_send,
    .unreleased = port_unreleased,
    .pause = port_pause,
    .poll = port_poll,
    .wake = port_wake,
    .free = port_free,
};
static unsigned site_of(const struct node *x, int kind) { return 2 * x->index + (unsigned)kind; }
static void open_ports(struct node *x) {
    for (int k = 0; k < 2; k++)
        x->port[k] = (struct port){.base.ops = &port_ops,
                                   .inner = qr_link_simulated_at(x->w->net, site_of(x, k)),
                                   .node = x};
}
/* From now on nothing gets from a to b on that link, or all gets through again. */
static void block(struct node *a, struct node *b, int kind, bool on) {
    if (a != b) qr_sim_net_block_sites(a->w->net, site_of(a, kind), site_of(b, kind), on);
}
static void cut(struct node *a, struct node *b, bool on) {
    for (int k = 0; k < 2; k++) {
        block(a, b, k, on);
        block(b, a, k, on);
    }
}

#endif
