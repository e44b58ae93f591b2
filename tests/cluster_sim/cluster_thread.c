/* tests/cluster_sim/cluster_thread.c — coroutines in place of threads, and links whose poll
 * switches between them. Start reading at actor_wait() and port_poll(). */
#include "base/mem.h"
#include "tests/cluster_sim/cluster_impl.h"

enum { STACK_BYTES = 512 << 10 };

/* ---- coroutines ---- */

void actor_wait(struct cluster *c, int64_t until_ns, struct port *port, const unsigned *counter) {
    struct actor *a = c->running;
    a->until_ns = until_ns;
    a->port = port;
    a->counter = counter;
    a->seen = counter ? *counter : 0;
    swapcontext(&a->context, &c->scheduler);
}
static bool port_ready(const struct port *p) { return p->woken || qr_sim_link_ready(p->inner); }
/* makecontext passes ints only: the two halves of the actor's address. */
static void enter(unsigned high, unsigned low) {
    struct actor *a = (struct actor *)((uintptr_t)high << 32 | low);
    a->run(a->node);
    a->done = true;
    swapcontext(&a->context, &a->node->c->scheduler);
}
void actor_start(struct actor *a, struct node *x, void (*run)(struct node *)) {
    void *stack = a->stack ? a->stack : qr_xaligned(STACK_BYTES);
    *a = (struct actor){.run = run, .node = x, .started = true, .stack = stack};
    getcontext(&a->context);
    a->context.uc_stack.ss_sp = stack;
    a->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&a->context, (void (*)(void))enter, 2, (unsigned)((uintptr_t)a >> 32),
                (unsigned)(uintptr_t)a);
}
void actor_resume(struct cluster *c, struct actor *a) {
    c->running = a;
    c->schedule = mix(c->schedule ^ (uint64_t)now_of(c) ^ ((uint64_t)a->node->index << 56) ^
                      (uint64_t)(a - a->node->actor) << 60);
    swapcontext(&c->scheduler, &a->context);
    c->running = NULL;
}
bool actor_can_run(const struct cluster *c, const struct actor *a) {
    int64_t now = now_of(c);
    if (!a->started || a->done || a->node->paused || now < a->frozen_until_ns) return false;
    return now >= a->until_ns || (a->port && port_ready(a->port)) ||
           (a->counter && *a->counter != a->seen);
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
    int64_t now = now_of(p->node->c);
    if (!p->inner->ops->send(p->inner, conn, head, body)) return false;
    for (int i = 0; i < MAX_SENT && body.n && now < p->slow_until_ns; i++)
        if (p->held_until_ns[i] <= now) {
            p->held_until_ns[i] = now + dice_ns(p->node->c, MS(700));
            break;
        }
    return true;
}
static size_t port_unreleased(struct qr_link *l) {
    const struct port *p = port_of(l);
    size_t n = p->inner->ops->unreleased(p->inner);
    for (int i = 0; i < MAX_SENT; i++) n += p->held_until_ns[i] > now_of(p->node->c);
    return n;
}
static void port_pause(struct qr_link *l, uint32_t conn, bool paused) {
    inner_of(l)->ops->pause(inner_of(l), conn, paused);
}
static void port_poll(struct qr_link *l, int64_t deadline_ns, struct qr_link_event *ret) {
    struct port *p = port_of(l);
    struct cluster *c = p->node->c;
    int64_t until_ns =
        deadline_ns == INT64_MAX ? deadline_ns : deadline_ns - p->node->clock_offset_ns;
    if (!port_ready(p)) actor_wait(c, until_ns, p, NULL);
    *ret = (struct qr_link_event){.kind = p->woken ? QR_LINK_WOKEN : QR_LINK_NOTHING};
    if (!p->woken) p->inner->ops->poll(p->inner, now_of(c), ret);
    p->woken = false;
}
static void port_wake(struct qr_link *l) { port_of(l)->woken = true; }
static void port_free(struct qr_link *l) { inner_of(l)->ops->free(inner_of(l)); }
void ports_open(struct node *x) {
    static const struct qr_link_ops ops = {
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
    for (int k = 0; k < 2; k++)
        x->port[k] = (struct port){.base.ops = &ops,
                                   .inner = qr_link_simulated_at(x->c->net, cluster_site(x, k)),
                                   .node = x};
}
unsigned cluster_site(const struct node *x, int link) { return 2 * x->index + (unsigned)link; }
void cluster_block(struct node *a, struct node *b, int link, bool on) {
    if (a != b) qr_sim_net_block_sites(a->c->net, cluster_site(a, link), cluster_site(b, link), on);
}
void cluster_cut(struct node *a, struct node *b, bool on) {
    for (int k = 0; k < 2; k++) {
        cluster_block(a, b, k, on);
        cluster_block(b, a, k, on);
    }
}
void cluster_partition(struct cluster *c, unsigned set, bool on) {
    for (unsigned i = 0; i < c->n; i++)
        for (unsigned k = 0; k < c->n; k++)
            if ((set >> i & 1) != (set >> k & 1)) cluster_cut(&c->node[i], &c->node[k], on);
}
