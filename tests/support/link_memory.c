/* tests/support/link_memory.c — links between threads of one process, for tests of the components
 * above link. Start reading at memory_poll.
 *
 * One lock for a hub (tests have at most a dozen threads), one condition per link. A body stays
 * borrowed until the receiver polls it, as with a real link, so that a caller that reuses it too
 * early is found here. A dial without a listener waits for the listener, without a clock. A
 * connection that was closed is dialed again after 50 ms, doubling to 1 s.
 */
#include "tests/support/link_memory.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"

enum { QUEUE_MESSAGES = 64, QUEUE_BYTES = 8 << 20, FIRST_PORT = 40000 };
#define BACKOFF_FIRST_NS INT64_C(50000000)

struct memory_link;
struct message {
    struct message *next;
    size_t n_head, n_body;
    const uint8_t *body;        /* borrowed from the sender until taken; NULL once copied */
    struct memory_link *sender; /* whose unreleased count it is part of; NULL once copied */
    uint8_t bytes[];            /* head, then the body when copied */
};
struct end {
    struct end *next, *peer; /* peer NULL: the other side has closed */
    struct memory_link *owner;
    struct dial *dial; /* of the side that dialed */
    struct message *first, **last;
    size_t n_queued, queued_bytes;
    uint32_t conn;
    bool up_told, paused, broken;
    char reason[160];
};
struct dial {
    struct dial *next;
    uint32_t tag;
    char *address;
    struct end *end;
    int64_t not_before_ns, backoff_ns;
};
struct memory_link {
    struct qr_link base;
    struct qr_link_hub *hub;
    struct memory_link *next;
    pthread_cond_t cond;
    char *address; /* listening, or NULL */
    struct dial *dials;
    struct end *ends;
    uint32_t next_conn;
    size_t unreleased;
    bool woken, dead;
    struct message *current; /* the message that the last poll handed out */
};
struct qr_link_hub {
    pthread_mutex_t lock;
    struct memory_link *links;
    unsigned next_port;
};

struct qr_link_hub *qr_link_hub_new(void) {
    struct qr_link_hub *hub = qr_xcalloc(1, sizeof *hub);
    pthread_mutex_init(&hub->lock, NULL);
    hub->next_port = FIRST_PORT;
    return hub;
}

void qr_link_hub_free(struct qr_link_hub *hub) {
    if (!hub) return;
    QR_ASSERT(!hub->links);
    pthread_mutex_destroy(&hub->lock);
    free(hub);
}

static struct memory_link *self(struct qr_link *l) { return (struct memory_link *)l; }
static struct end *find(struct memory_link *m, uint32_t conn) {
    for (struct end *e = m->ends; e; e = e->next)
        if (e->conn == conn) return e;
    return NULL;
}

static void release(struct message *msg) {
    if (msg->sender) msg->sender->unreleased--;
    free(msg);
}

static void drop_queue(struct end *e) {
    while (e->first) {
        struct message *msg = e->first;
        e->first = msg->next;
        release(msg);
    }
    e->last = &e->first;
    e->n_queued = e->queued_bytes = 0;
}

/* Copies the bodies that are queued, because their sender closes. */
static void detach_bodies(struct end *e) {
    for (struct message **at = &e->first; *at; at = &(*at)->next) {
        struct message *msg = *at;
        if (!msg->sender) continue;
        struct message *whole = qr_xmalloc(sizeof *whole + msg->n_head + msg->n_body);
        *whole = *msg;
        memcpy(whole->bytes, msg->bytes, msg->n_head);
        memcpy(whole->bytes + msg->n_head, msg->body, msg->n_body);
        whole->n_head += whole->n_body;
        whole->n_body = 0;
        whole->body = NULL;
        whole->sender = NULL;
        if (e->last == &msg->next) e->last = &whole->next;
        *at = whole;
        release(msg);
    }
}

static void remove_end(struct end *e) {
    struct end **at = &e->owner->ends;
    while (*at != e) at = &(*at)->next;
    *at = e->next;
    if (e->dial) e->dial->end = NULL;
    drop_queue(e);
    free(e);
}

/* Closes this side. The other side receives what was sent, then DOWN. */
static void close_end(struct end *e, const char *reason) {
    struct end *peer = e->peer;
    if (peer) {
        detach_bodies(peer);
        peer->peer = NULL;
        peer->broken = true;
        snprintf(peer->reason, sizeof peer->reason, "%s", reason);
        pthread_cond_broadcast(&peer->owner->cond);
    }
    remove_end(e);
}

static struct end *new_end(struct memory_link *m, struct dial *d) {
    struct end *e = qr_xcalloc(1, sizeof *e);
    e->owner = m;
    e->dial = d;
    e->last = &e->first;
    e->conn = ++m->next_conn;
    struct end **at = &m->ends;
    while (*at) at = &(*at)->next;
    *at = e;
    if (d) d->end = e;
    pthread_cond_broadcast(&m->cond);
    return e;
}

static void connect_now(struct memory_link *from, struct dial *d, struct memory_link *to) {
    struct end *a = new_end(from, d), *b = new_end(to, NULL);
    a->peer = b;
    b->peer = a;
}

static struct memory_link *listener(struct qr_link_hub *hub, const char *address) {
    for (struct memory_link *m = hub->links; m; m = m->next)
        if (m->address && strcmp(m->address, address) == 0) return m;
    return NULL;
}

/* Connects dials that have a listener. Returns the time of the next attempt, or INT64_MAX. */
static int64_t try_dials(struct memory_link *m, int64_t now_ns) {
    int64_t due_ns = INT64_MAX;
    for (struct dial *d = m->dials; d; d = d->next) {
        if (d->end) continue;
        struct memory_link *to = listener(m->hub, d->address);
        if (!to) continue; /* memory_listen wakes this link */
        if (d->not_before_ns <= now_ns) connect_now(m, d, to);
        else if (d->not_before_ns < due_ns) due_ns = d->not_before_ns;
    }
    return due_ns;
}

static enum qr_code memory_listen(struct qr_link *l, const char *address, unsigned *ret_port,
                                  struct qr_err *err) {
    struct memory_link *m = self(l);
    const char *colon = strrchr(address, ':');
    if (!colon || colon == address)
        return qr_fail(err, QR_INVALID_ARGUMENT, "listen address '%s' is not host:port", address);
    unsigned port = 0;
    for (const char *p = colon + 1; *p >= '0' && *p <= '9' && port < 65536; p++)
        port = port * 10 + (unsigned)(*p - '0');
    pthread_mutex_lock(&m->hub->lock);
    if (!port) port = m->hub->next_port++;
    char *whole = qr_xasprintf("%.*s:%u", (int)(colon - address), address, port);
    if (listener(m->hub, whole)) {
        pthread_mutex_unlock(&m->hub->lock);
        enum qr_code code = qr_fail(
            err, QR_ALREADY_EXISTS,
            "cannot listen on %s: the port is in use; choose another or stop its owner", whole);
        free(whole);
        return code;
    }
    free(m->address);
    m->address = whole;
    for (struct memory_link *other = m->hub->links; other; other = other->next)
        pthread_cond_broadcast(&other->cond);
    pthread_mutex_unlock(&m->hub->lock);
    *ret_port = port;
    return QR_OK;
}

static void drop_dials(struct memory_link *m) {
    while (m->dials) {
        struct dial *d = m->dials;
        m->dials = d->next;
        free(d->address);
        free(d);
    }
}

static void memory_dial(struct qr_link *l, uint32_t tag, const char *address) {
    struct memory_link *m = self(l);
    struct dial *d = qr_xcalloc(1, sizeof *d);
    d->tag = tag;
    d->address = qr_xstrdup(address);
    d->backoff_ns = BACKOFF_FIRST_NS;
    pthread_mutex_lock(&m->hub->lock);
    d->next = m->dials;
    m->dials = d;
    if (m->dead) drop_dials(m);
    pthread_mutex_unlock(&m->hub->lock);
}

static void memory_hang_up(struct qr_link *l, uint32_t tag) {
    struct memory_link *m = self(l);
    pthread_mutex_lock(&m->hub->lock);
    for (struct dial **at = &m->dials; *at;) {
        struct dial *d = *at;
        if (d->tag != tag) {
            at = &d->next;
            continue;
        }
        *at = d->next;
        if (d->end) close_end(d->end, "the other side closed the connection");
        free(d->address);
        free(d);
    }
    pthread_mutex_unlock(&m->hub->lock);
}

/* Delays the next attempt of a dial whose connection was closed, longer each time. */
static void back_off(struct dial *d) {
    if (!d) return;
    d->not_before_ns = qr_now_ns(&qr_clock_monotonic) + d->backoff_ns;
    d->backoff_ns = 2 * d->backoff_ns > QR_SECOND ? QR_SECOND : 2 * d->backoff_ns;
}

static void memory_close(struct qr_link *l, uint32_t conn) {
    struct memory_link *m = self(l);
    pthread_mutex_lock(&m->hub->lock);
    struct end *e = find(m, conn);
    if (e) {
        back_off(e->dial);
        close_end(e, "the other side closed the connection");
    }
    pthread_mutex_unlock(&m->hub->lock);
}

static bool memory_send(struct qr_link *l, uint32_t conn, struct qr_bytes head,
                        struct qr_bytes body) {
    struct memory_link *m = self(l);
    if (head.n + body.n > QR_LINK_MAX_MESSAGE) return false;
    pthread_mutex_lock(&m->hub->lock);
    struct end *e = find(m, conn), *to = e ? e->peer : NULL;
    bool ok = to && to->n_queued < QUEUE_MESSAGES && to->queued_bytes + head.n <= QUEUE_BYTES;
    if (ok) {
        struct message *msg = qr_xmalloc(sizeof *msg + head.n);
        *msg = (struct message){.n_head = head.n, .n_body = body.n, .body = body.p};
        if (head.n) memcpy(msg->bytes, head.p, head.n);
        if (body.n) {
            msg->sender = m;
            m->unreleased++;
        }
        *to->last = msg;
        to->last = &msg->next;
        to->n_queued++;
        to->queued_bytes += head.n;
        pthread_cond_broadcast(&to->owner->cond);
    }
    pthread_mutex_unlock(&m->hub->lock);
    return ok;
}

static size_t memory_unreleased(struct qr_link *l) {
    struct memory_link *m = self(l);
    pthread_mutex_lock(&m->hub->lock);
    size_t n = m->unreleased;
    pthread_mutex_unlock(&m->hub->lock);
    return n;
}

static void memory_pause(struct qr_link *l, uint32_t conn, bool paused) {
    struct memory_link *m = self(l);
    pthread_mutex_lock(&m->hub->lock);
    struct end *e = find(m, conn);
    if (e) e->paused = paused;
    pthread_mutex_unlock(&m->hub->lock);
}

static struct message *dequeue(struct end *e) {
    struct message *msg = e->first;
    e->first = msg->next;
    if (!e->first) e->last = &e->first;
    e->n_queued--;
    e->queued_bytes -= msg->n_head < e->queued_bytes ? msg->n_head : e->queued_bytes;
    if (msg->sender) {
        size_t total = msg->n_head + msg->n_body;
        struct message *whole = qr_xmalloc(sizeof *whole + total);
        *whole = *msg;
        memcpy(whole->bytes, msg->bytes, msg->n_head);
        memcpy(whole->bytes + msg->n_head, msg->body, msg->n_body);
        whole->n_head = total;
        whole->n_body = 0;
        whole->sender = NULL;
        release(msg);
        return whole;
    }
    return msg;
}

/* One event of one connection, or false. */
static bool event_of(struct memory_link *m, struct end *e, struct qr_link_event *ret) {
    ret->conn = e->conn;
    ret->outgoing = e->dial != NULL;
    ret->tag = e->dial ? e->dial->tag : 0;
    if (!e->up_told) {
        e->up_told = true;
        ret->kind = QR_LINK_UP;
        return true;
    }
    if (e->first && !e->paused) {
        m->current = dequeue(e);
        ret->kind = QR_LINK_MESSAGE;
        ret->message = qr_bytes_of(m->current->bytes, m->current->n_head);
        if (e->dial) e->dial->backoff_ns = BACKOFF_FIRST_NS;
        return true;
    }
    if (!e->broken) return false;
    ret->kind = QR_LINK_DOWN;
    memcpy(ret->reason, e->reason, sizeof ret->reason);
    back_off(e->dial);
    remove_end(e);
    return true;
}

static bool next_event(struct memory_link *m, struct qr_link_event *ret) {
    if (m->woken) {
        m->woken = false;
        ret->kind = QR_LINK_WOKEN;
        return true;
    }
    for (struct end *e = m->ends; e; e = e->next) {
        if (!event_of(m, e, ret)) continue;
        if (ret->kind != QR_LINK_DOWN && e->next) { /* move it behind the others */
            struct end **at = &m->ends;
            while (*at != e) at = &(*at)->next;
            *at = e->next;
            e->next = NULL;
            while (*at) at = &(*at)->next;
            *at = e;
        }
        return true;
    }
    return false;
}

static void memory_poll(struct qr_link *l, int64_t deadline_ns, struct qr_link_event *ret) {
    struct memory_link *m = self(l);
    pthread_mutex_lock(&m->hub->lock);
    free(m->current);
    m->current = NULL;
    for (;;) {
        *ret = (struct qr_link_event){.kind = QR_LINK_NOTHING};
        int64_t now_ns = qr_now_ns(&qr_clock_monotonic), until_ns = try_dials(m, now_ns);
        if (next_event(m, ret)) break;
        if (now_ns >= deadline_ns) break;
        if (until_ns > deadline_ns) until_ns = deadline_ns;
        struct timespec ts = {.tv_sec = until_ns / QR_SECOND, .tv_nsec = until_ns % QR_SECOND};
        pthread_cond_timedwait(&m->cond, &m->hub->lock, &ts);
    }
    pthread_mutex_unlock(&m->hub->lock);
}

static void memory_wake(struct qr_link *l) {
    struct memory_link *m = self(l);
    pthread_mutex_lock(&m->hub->lock);
    m->woken = true;
    pthread_cond_broadcast(&m->cond);
    pthread_mutex_unlock(&m->hub->lock);
}

static void close_all(struct memory_link *m) {
    while (m->ends) close_end(m->ends, "the other process is gone");
    drop_dials(m);
}

void qr_link_memory_kill(struct qr_link *l) {
    struct memory_link *m = self(l);
    pthread_mutex_lock(&m->hub->lock);
    close_all(m);
    free(m->address);
    m->address = NULL;
    m->dead = true;
    pthread_cond_broadcast(&m->cond);
    pthread_mutex_unlock(&m->hub->lock);
}

static void memory_free(struct qr_link *l) {
    struct memory_link *m = self(l);
    if (!m) return;
    struct qr_link_hub *hub = m->hub;
    pthread_mutex_lock(&hub->lock);
    close_all(m);
    struct memory_link **at = &hub->links;
    while (*at != m) at = &(*at)->next;
    *at = m->next;
    pthread_mutex_unlock(&hub->lock);
    pthread_cond_destroy(&m->cond);
    free(m->current);
    free(m->address);
    free(m);
}

static const struct qr_link_ops memory_ops = {
    .listen = memory_listen,
    .dial = memory_dial,
    .hang_up = memory_hang_up,
    .close_conn = memory_close,
    .send = memory_send,
    .unreleased = memory_unreleased,
    .pause = memory_pause,
    .poll = memory_poll,
    .wake = memory_wake,
    .free = memory_free,
};
struct qr_link *qr_link_memory_new(struct qr_link_hub *hub) {
    struct memory_link *m = qr_xcalloc(1, sizeof *m);
    m->base.ops = &memory_ops;
    m->hub = hub;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&m->cond, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_lock(&hub->lock);
    m->next = hub->links;
    hub->links = m;
    pthread_mutex_unlock(&hub->lock);
    return &m->base;
}
