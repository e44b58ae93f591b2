/* tests/support/link_simulated.c — a network in virtual time. Start reading at
 * qr_sim_net_advance. */
#include "tests/support/link_simulated_impl.h"

#include <stdio.h>

/* ---- connections ---- */
static struct side *side_of(struct sim_link *l, uint32_t number, struct sim_conn **ret) {
    for (struct sim_conn *c = l->net->conns; c; c = c->next)
        for (int s = 0; s < 2; s++)
            if (c->side[s].number == number && c->side[s].link == l) {
                *ret = c;
                return &c->side[s];
            }
    return NULL;
}

static bool blocked(const struct qr_sim_net *net, const struct sim_link *from,
                    const struct sim_link *to) {
    return net->blocked[from->site][to->site];
}

/* Closes a side. False: its owner gets no event. */
static bool notify_down(struct side *s, const char *reason) {
    if (!s->open) return false;
    s->open = false;
    list_clear(&s->way);
    if (!s->up || s->link->dead) return false;
    struct item *it = item_new(QR_LINK_DOWN, s->number, 0);
    it->outgoing = s->outgoing;
    snprintf(it->reason, sizeof it->reason, "%s", reason);
    list_add(&s->link->events, it);
    return true;
}

static void dial_again(struct sim_link *l, struct sim_conn *c) {
    for (struct dial *d = l->dials; d; d = d->next)
        if (d->conn == c) {
            d->conn = NULL;
            d->wait_ns = DIAL_FIRST_NS;
            if (d->on && !l->dead)
                plan(l->net, (struct event){.at_ns = l->net->now_ns + d->wait_ns,
                                            .what = DO_DIAL,
                                            .dial = d,
                                            .link = l});
        }
}

/* Closes side s. The other side gets its event after what was sent before. */
static void close_side(struct qr_sim_net *net, struct sim_conn *c, int s) {
    struct side *other = &c->side[!s];
    if (!c->side[s].open) return;
    c->side[s].open = false;
    list_clear(&c->side[s].way);
    int64_t at = net->now_ns + delay_of(net);
    if (other->last_ns > at) at = other->last_ns;
    plan(net, (struct event){.at_ns = at, .what = DO_BREAK, .conn = c, .side = !s});
    if (s == 0) dial_again(c->side[0].link, c);
}

static void reset(struct sim_conn *c) {
    bool was = c->side[0].open;
    for (int s = 0; s < 2; s++) (void)notify_down(&c->side[s], "reset");
    if (was) dial_again(c->side[0].link, c);
}

/* Frees a connection that is closed on both sides and has no event left. */
static void forget_conn(struct qr_sim_net *net, struct sim_conn *c) {
    if (c->planned || c->side[0].open || c->side[1].open) return;
    for (int s = 0; s < 2; s++)
        for (const struct item *it = c->side[s].link->events.first; it; it = it->next)
            if (it->conn == c->side[s].number) return;
    for (struct sim_conn **at = &net->conns; *at; at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            list_clear(&c->side[0].way);
            list_clear(&c->side[1].way);
            free(c);
            return;
        }
}

/* Resolves the host of host:port in place. False: unknown. */
static bool resolved(const struct qr_sim_net *net, char *address, size_t cap) {
    const char *colon = strrchr(address, ':'), *at;
    char host[128], port[16];
    if (net->opt.resolve == NULL || colon == NULL) return true;
    snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
    snprintf(port, sizeof port, "%s", colon);
    if ((at = net->opt.resolve(net->opt.ctx, host)) == NULL) return false;
    snprintf(address, cap, "%s%s", at, port);
    return true;
}

/* The host that a peer sees. */
static void host_of(const struct sim_link *l, char *ret, size_t cap) {
    const char *colon = l->address ? strrchr(l->address, ':') : NULL;
    snprintf(ret, cap, "%.*s", colon ? (int)(colon - l->address) : 0, colon ? l->address : "");
}

static void do_dial(struct qr_sim_net *net, struct sim_link *l, struct dial *d) {
    if (!d->on || l->dead || d->conn) return;
    char asked[128];
    struct sim_link *to = NULL;
    snprintf(asked, sizeof asked, "%s", d->address);
    const char *port = strrchr(d->address, ':');
    if (port && *net->lie[0] && (size_t)(port - d->address) == strlen(net->lie[0]) &&
        strncmp(d->address, net->lie[0], strlen(net->lie[0])) == 0)
        snprintf(asked, sizeof asked, "%s%s", net->lie[1], port);
    bool named = resolved(net, asked, sizeof asked);
    for (unsigned i = 0; named && i < net->n_links; i++) {
        struct sim_link *k = net->link[i];
        if (k->dead || k->address == NULL) continue;
        bool any =
            strncmp(k->address, "0.0.0.0:", 8) == 0 && port && strcmp(k->address + 7, port) == 0;
        if (any || strcmp(k->address, asked) == 0) to = k;
    }
    if (to == NULL || blocked(net, l, to) || blocked(net, to, l)) {
        plan(net, (struct event){
                      .at_ns = net->now_ns + d->wait_ns, .what = DO_DIAL, .dial = d, .link = l});
        d->wait_ns = 2 * d->wait_ns < DIAL_LAST_NS ? 2 * d->wait_ns : DIAL_LAST_NS;
        return;
    }
    struct sim_conn *c = qr_xcalloc(1, sizeof *c);
    c->tag = d->tag;
    c->side[0] =
        (struct side){.link = l, .number = ++net->conns_made, .open = true, .outgoing = true};
    c->side[1] = (struct side){.link = to, .number = ++net->conns_made, .open = true};
    c->next = net->conns;
    net->conns = c;
    d->conn = c;
    d->wait_ns = DIAL_FIRST_NS;
    for (int s = 0; s < 2; s++) {
        list_add(&c->side[s].way, item_new(QR_LINK_UP, c->side[s].number, 0));
        c->side[s].way.first->outgoing = s == 0;
        c->side[s].way.first->tag = s == 0 ? d->tag : 0;
        host_of(s == 0 ? to : l, c->side[s].way.first->reason, sizeof((struct item *)0)->reason);
        c->side[s].last_ns = net->now_ns + delay_of(net);
        plan(net,
             (struct event){.at_ns = c->side[s].last_ns, .what = DO_DELIVER, .conn = c, .side = s});
    }
}

static void happen(struct qr_sim_net *net, const struct event *e) {
    struct side *s = e->conn ? &e->conn->side[e->side] : NULL;
    if (e->what == DO_RESET) {
        reset(e->conn);
        return;
    }
    if (e->what == DO_DIAL) do_dial(net, e->link, e->dial);
    if (s == NULL || !s->open) return;
    struct sim_link *from = e->conn->side[!e->side].link;
    if (blocked(net, from, s->link)) { /* try again later */
        int64_t at = net->now_ns + BLOCK_LOOK_NS;
        if (s->last_ns < at) s->last_ns = at;
        struct event again = *e;
        again.at_ns = e->what == DO_BREAK ? s->last_ns : at;
        plan(net, again);
    } else if (e->what == DO_DELIVER && s->way.first) {
        if (s->way.first->kind == QR_LINK_UP) s->up = true;
        list_add(&s->link->events, list_cut(&s->way, &s->way.first));
    } else if (e->what == DO_BREAK) {
        bool notified = notify_down(s, "closed by the other side");
        /* if notified, sim_poll dials again when the owner has read the event */
        if (e->side == 0 && !notified) dial_again(s->link, e->conn);
    }
}

int64_t qr_sim_net_now_ns(const struct qr_sim_net *net) { return net->now_ns; }
static int64_t clock_now(void *ctx) { return ((struct qr_sim_net *)ctx)->now_ns; }
struct qr_clock qr_sim_net_clock(struct qr_sim_net *net) {
    return (struct qr_clock){clock_now, net};
}
int64_t qr_sim_net_next_ns(const struct qr_sim_net *net) {
    return net->n ? net->heap[0].at_ns : INT64_MAX;
}
void qr_sim_net_advance(struct qr_sim_net *net, int64_t to_ns) {
    while (net->n && net->heap[0].at_ns <= to_ns) {
        struct event e = next_of(net);
        if (e.at_ns > net->now_ns) net->now_ns = e.at_ns;
        if (e.conn) e.conn->planned--;
        happen(net, &e);
        if (e.conn) forget_conn(net, e.conn);
    }
    if (to_ns > net->now_ns) net->now_ns = to_ns;
}

/* ---- the interface ---- */
static struct sim_link *sim_of(struct qr_link *l) { return (struct sim_link *)l; }

static enum qr_code sim_listen(struct qr_link *base, const char *address, unsigned *ret_port,
                               struct qr_err *err) {
    struct sim_link *l = sim_of(base);
    const char *colon = strrchr(address, ':');
    if (colon == NULL) return qr_fail(err, QR_INVALID_ARGUMENT, "listen on %s: no port", address);
    unsigned port = 0;
    for (const char *d = colon + 1; *d >= '0' && *d <= '9' && port < 65536; d++)
        port = 10 * port + (unsigned)(*d - '0');
    if (port == 0) port = 30000 + ++l->net->ports;
    char *full = qr_xasprintf("%.*s:%u", (int)(colon - address), address, port);
    for (unsigned i = 0; i < l->net->n_links; i++) {
        const struct sim_link *k = l->net->link[i];
        if (k->dead || k->address == NULL || strcmp(k->address, full) != 0) continue;
        free(full);
        return qr_fail(err, QR_ALREADY_EXISTS, "listen on %s: the port is in use", address);
    }
    free(l->address);
    l->address = full;
    *ret_port = port;
    return QR_OK;
}

static void sim_hang_up(struct qr_link *base, uint32_t tag) {
    struct sim_link *l = sim_of(base);
    for (struct dial *d = l->dials; d; d = d->next) {
        if (!d->on || d->tag != tag) continue;
        d->on = false;
        if (d->conn) close_side(l->net, d->conn, 0);
    }
}

static void sim_dial(struct qr_link *base, uint32_t tag, const char *address) {
    struct sim_link *l = sim_of(base);
    sim_hang_up(base, tag);
    struct dial *d = qr_xcalloc(1, sizeof *d);
    *d = (struct dial){.next = l->dials,
                       .tag = tag,
                       .address = qr_xstrdup(address),
                       .on = true,
                       .wait_ns = DIAL_FIRST_NS};
    l->dials = d;
    plan(l->net,
         (struct event){
             .at_ns = l->net->now_ns + delay_of(l->net), .what = DO_DIAL, .dial = d, .link = l});
}

static void forget_events(struct sim_link *l, uint32_t conn) {
    for (struct item **at = &l->events.first; *at;)
        if ((*at)->conn == conn) free(list_cut(&l->events, at));
        else at = &(*at)->next;
}

static void sim_close_conn(struct qr_link *base, uint32_t conn) {
    struct sim_conn *c;
    struct side *s = side_of(sim_of(base), conn, &c);
    if (s == NULL) return;
    close_side(sim_of(base)->net, c, (int)(s - c->side));
    forget_events(sim_of(base), conn);
    if (s == &c->side[0]) dial_again(sim_of(base), c);
}

/* The delay by the rate of the sites, after earlier transfers, and by packets that are sent
 * again. */
static int64_t line_delay(struct qr_sim_net *net, unsigned from, unsigned to, size_t n,
                          bool *ret_broken) {
    int64_t until_ns = net->now_ns, resend_ns = 0;
    const unsigned site[2] = {from, to};
    unsigned lose = 0;
    for (int k = 0; k < 2; k++) {
        if (site[k] >= QR_SIM_SITES) continue;
        int64_t *busy_ns = &net->busy_ns[site[k] / 2][k], rate = net->rate[site[k] / 2];
        lose += net->lossy[site[k]];
        if (!rate) continue;
        if (*busy_ns < until_ns) *busy_ns = until_ns;
        *busy_ns += (int64_t)n * 1000000000 / rate;
        until_ns = *busy_ns;
    }
    for (size_t packet = 0; lose && packet <= n / PACKET_BYTES; packet++) {
        int64_t again_ns = 0;
        unsigned times = 0;
        while (times < MAX_RESENDS && random_of(net) % 1000 < lose)
            again_ns += times++ ? RESEND_AGAIN_NS : RESEND_FIRST_NS;
        if (times == MAX_RESENDS) *ret_broken = true;
        if (again_ns > resend_ns) resend_ns = again_ns;
    }
    return until_ns - net->now_ns + resend_ns;
}

static void way_add(struct qr_sim_net *net, struct sim_conn *c, int to, struct item *it) {
    struct side *s = &c->side[to];
    unsigned dice = (unsigned)(random_of(net) % 1000);
    /* before all others in flight */
    if (dice < net->opt.reorder && s->way.first && s->way.first->kind == QR_LINK_MESSAGE) {
        it->next = s->way.first;
        s->way.first = it;
        s->way.n++;
        s->way.n_bytes += it->n;
    } else list_add(&s->way, it);
    bool lost_for_good = false;
    int64_t at = net->now_ns + delay_of(net) +
                 line_delay(net, c->side[!to].link->site, s->link->site, it->n, &lost_for_good);
    if (at > s->last_ns) s->last_ns = at;
    plan(net, (struct event){.at_ns = s->last_ns, .what = DO_DELIVER, .conn = c, .side = to});
    if (lost_for_good) plan(net, (struct event){.at_ns = s->last_ns, .what = DO_RESET, .conn = c});
}

static bool sim_send(struct qr_link *base, uint32_t conn, struct qr_bytes head,
                     struct qr_bytes body) {
    struct sim_link *l = sim_of(base);
    struct qr_sim_net *net = l->net;
    struct sim_conn *c;
    struct side *s = side_of(l, conn, &c);
    if (s == NULL || !s->open || l->dead || head.n + body.n > QR_LINK_MAX_MESSAGE) return false;
    struct side *to = &c->side[s == &c->side[0]];
    size_t waiting = to->way.n;
    for (struct item *it = to->paused ? to->link->events.first : NULL; it; it = it->next)
        waiting += it->conn == to->number;
    if (waiting >= MAX_WAITING || to->way.n_bytes + head.n > MAX_WAITING_BYTES) return false;
    if (!to->open) return true; /* closed by the peer; that event is in flight */
    unsigned copies = 1 + (random_of(net) % 1000 < net->opt.repeat);
    if (random_of(net) % 1000 < net->opt.lose) copies = 0;
    while (copies--) {
        struct item *it = item_new(QR_LINK_MESSAGE, to->number, head.n + body.n);
        if (head.n) memcpy(it->bytes, head.p, head.n);
        if (body.n) memcpy(it->bytes + head.n, body.p, body.n);
        way_add(net, c, (int)(to - c->side), it);
    }
    return true;
}

static size_t sim_unreleased(struct qr_link *base) {
    (void)base;
    return 0;
}

static void sim_pause(struct qr_link *base, uint32_t conn, bool paused) {
    struct sim_conn *c;
    struct side *s = side_of(sim_of(base), conn, &c);
    if (s) s->paused = paused;
}

static struct item **first_ready(struct sim_link *l) {
    for (struct item **at = &l->events.first; *at; at = &(*at)->next) {
        struct sim_conn *c;
        struct side *s = side_of(l, (*at)->conn, &c);
        if (s == NULL || !s->paused) return at;
    }
    return NULL;
}

bool qr_sim_link_ready(const struct qr_link *l) {
    union {
        const struct qr_link *in;
        struct qr_link *out;
    } u = {.in = l};
    return sim_of(u.out)->woken || first_ready(sim_of(u.out)) != NULL;
}

static void end_of_call(struct sim_link *l, uint32_t conn) {
    struct sim_conn *c;
    if (side_of(l, conn, &c)) dial_again(l, c);
}

static void sim_poll(struct qr_link *base, int64_t deadline_ns, struct qr_link_event *ret) {
    struct sim_link *l = sim_of(base);
    struct qr_sim_net *net = l->net;
    free(l->lent);
    l->lent = NULL;
    memset(ret, 0, sizeof *ret);
    for (;;) {
        struct item **at = first_ready(l);
        if (at) {
            struct item *it = l->lent = list_cut(&l->events, at);
            ret->kind = it->kind;
            ret->conn = it->conn;
            ret->tag = it->tag;
            ret->outgoing = it->outgoing;
            if (it->kind == QR_LINK_MESSAGE) ret->message = qr_bytes_of(it->bytes, it->n);
            if (it->kind == QR_LINK_DOWN && it->outgoing) end_of_call(l, it->conn);
            if (it->kind == QR_LINK_UP) snprintf(ret->host, sizeof ret->host, "%.47s", it->reason);
            else snprintf(ret->reason, sizeof ret->reason, "%s", it->reason);
            return;
        }
        if (l->woken) {
            l->woken = false;
            ret->kind = QR_LINK_WOKEN;
            return;
        }
        if (qr_sim_net_next_ns(net) > deadline_ns) break;
        qr_sim_net_advance(net, qr_sim_net_next_ns(net));
    }
    qr_sim_net_advance(net, deadline_ns);
}

static void sim_wake(struct qr_link *base) { sim_of(base)->woken = true; }

/* orderly: messages sent before arrive first. */
static void end_link(struct qr_link *base, bool orderly) {
    struct sim_link *l = sim_of(base);
    struct qr_sim_net *net = l->net;
    l->dead = true;
    list_clear(&l->events);
    for (struct dial *d = l->dials; d; d = d->next) {
        d->on = false;
        d->conn = NULL;
    }
    /* Peers behind a block must get the end of the connections. */
    if (l->lone) memset(net->blocked[l->site], 0, sizeof net->blocked[l->site]);
    for (struct sim_conn *c = net->conns; c; c = c->next)
        for (int s = 0; s < 2; s++) {
            if (c->side[s].link != l || !c->side[s].open) continue;
            int64_t at_ns = net->now_ns + delay_of(net), sent_ns = c->side[!s].last_ns;
            c->side[s].open = false;
            list_clear(&c->side[s].way);
            plan(net, (struct event){.at_ns = orderly && sent_ns > at_ns ? sent_ns : at_ns,
                                     .what = DO_BREAK,
                                     .conn = c,
                                     .side = !s});
        }
}

void qr_sim_net_kill(struct qr_link *base) { end_link(base, false); }
static void sim_free(struct qr_link *base) { end_link(base, true); }

struct qr_link *qr_link_simulated_at(struct qr_sim_net *net, unsigned site) {
    static const struct qr_link_ops ops = {sim_listen, sim_dial,       sim_hang_up, sim_close_conn,
                                           sim_send,   sim_unreleased, sim_pause,   sim_poll,
                                           sim_wake,   sim_free};
    QR_ASSERT(net->n_links < MAX_LINKS);
    struct sim_link *l = qr_xcalloc(1, sizeof *l);
    l->base.ops = &ops;
    l->net = net;
    l->site = site;
    l->lone = site >= QR_SIM_SITES;
    net->link[net->n_links++] = l;
    return &l->base;
}

struct qr_link *qr_link_simulated_new(struct qr_sim_net *net) {
    return qr_link_simulated_at(net, QR_SIM_SITES + net->n_links);
}

/* ---- faults ---- */
void qr_sim_net_faults(struct qr_sim_net *net, unsigned lose, unsigned repeat, unsigned reorder) {
    net->opt.lose = lose;
    net->opt.repeat = repeat;
    net->opt.reorder = reorder;
}

static unsigned site_of(const struct qr_link *l) { return ((const struct sim_link *)l)->site; }
void qr_sim_net_block_sites(struct qr_sim_net *net, unsigned a, unsigned b, bool on) {
    net->blocked[a][b] = on;
}
void qr_sim_net_block(struct qr_sim_net *net, const struct qr_link *a, const struct qr_link *b,
                      bool on) {
    qr_sim_net_block_sites(net, site_of(a), site_of(b), on);
}
void qr_sim_net_lossy(struct qr_sim_net *net, unsigned site, unsigned lose) {
    net->lossy[site] = lose;
}
void qr_sim_net_rate(struct qr_sim_net *net, unsigned site, int64_t bytes_per_s) {
    net->rate[site / 2] = bytes_per_s;
}
void qr_sim_net_lie(struct qr_sim_net *net, const char *host, const char *other) {
    snprintf(net->lie[0], sizeof net->lie[0], "%s", host ? host : "");
    snprintf(net->lie[1], sizeof net->lie[1], "%s", other ? other : "no-host");
}

void qr_sim_net_break(struct qr_sim_net *net, const struct qr_link *a, const struct qr_link *b) {
    for (struct sim_conn *c = net->conns; c; c = c->next) {
        unsigned p = c->side[0].link->site, q = c->side[1].link->site;
        if ((p == site_of(a) && q == site_of(b)) || (p == site_of(b) && q == site_of(a))) reset(c);
    }
}

struct qr_sim_net *qr_sim_net_new(const struct qr_sim_net_options *opt) {
    struct qr_sim_net *net = qr_xcalloc(1, sizeof *net);
    net->opt = *opt;
    if (net->opt.max_delay_ns <= 0) {
        net->opt.min_delay_ns = 100000;
        net->opt.max_delay_ns = 500000;
    }
    QR_ASSERT(net->opt.min_delay_ns <= net->opt.max_delay_ns);
    net->random = opt->seed;
    return net;
}

void qr_sim_net_free(struct qr_sim_net *net) {
    if (net == NULL) return;
    for (struct sim_conn *c = net->conns, *next; c; c = next) {
        next = c->next;
        list_clear(&c->side[0].way);
        list_clear(&c->side[1].way);
        free(c);
    }
    for (unsigned i = 0; i < net->n_links; i++) {
        struct sim_link *l = net->link[i];
        list_clear(&l->events);
        for (struct dial *d = l->dials, *next; d; d = next) {
            next = d->next;
            free(d->address);
            free(d);
        }
        free(l->lent);
        free(l->address);
        free(l);
    }
    free(net->heap);
    free(net);
}
