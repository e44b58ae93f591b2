/* collective/mesh_streams.c — the data streams to the peers: who is expected, who calls, who
 * greets, what breaks. */
#include <stdio.h>
#include <string.h>

#include "collective/mesh_impl.h"

#define GREET_WITHIN_NS (5 * QR_SECOND)
/* who polls has answered by then, or let go whom he does not expect */
#define ANSWER_WITHIN_NS (10 * QR_SECOND)

static bool same(const uint8_t a[16], const uint8_t b[16]) { return memcmp(a, b, 16) == 0; }

struct mesh_peer *mesh_by_conn(struct qr_mesh *m, uint32_t conn) {
    if (conn == 0) return NULL;
    for (uint32_t r = 0; r < m->n; r++) /* almost always one of these */
        if (m->peer[m->index_of[r]].conn == conn) return &m->peer[m->index_of[r]];
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (m->peer[i].conn == conn) return &m->peer[i];
    return NULL;
}

/* ---- strangers ---- */

static struct stranger *stranger_of(struct qr_mesh *m, uint32_t conn) {
    for (size_t i = 0; i < m->n_strangers; i++)
        if (m->stranger[i].conn == conn) return &m->stranger[i];
    return NULL;
}

static void forget_stranger(struct qr_mesh *m, uint32_t conn) {
    struct stranger *s = stranger_of(m, conn);
    if (s) *s = m->stranger[--m->n_strangers];
}

/* While this thread computed nobody was read: that is no silence of theirs. */
static int64_t waited_ns(const struct qr_mesh *m, int64_t since_ns) {
    return mesh_now_ns(m) - (since_ns > m->polled.since_ns ? since_ns : m->polled.since_ns);
}

void mesh_look_at_strangers(struct qr_mesh *m) {
    for (size_t i = 0; i < m->n_strangers; i++)
        if (waited_ns(m, m->stranger[i].since_ns) > GREET_WITHIN_NS) {
            uint32_t conn = m->stranger[i].conn;
            forget_stranger(m, conn);
            mesh_close(m, conn);
            m->dropped++;
            return;
        }
}

void mesh_look_at_calls(struct qr_mesh *m) {
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) {
        struct mesh_peer *p = &m->peer[i];
        if (!p->dialing || p->up || !p->conn || waited_ns(m, p->called_ns) <= ANSWER_WITHIN_NS)
            continue;
        mesh_close(m, p->conn); /* it is dialed again */
        p->conn = 0;
    }
}

/* ---- a stream comes ---- */

static bool greet(struct qr_mesh *m, const struct mesh_peer *p) {
    struct qr_greeting g = {.index = m->o.index, .to_index = p->who.index};
    uint8_t bytes[QR_GREETING_BYTES];
    memcpy(g.incarnation, m->o.incarnation, sizeof g.incarnation);
    memcpy(g.to_incarnation, p->who.incarnation, sizeof g.to_incarnation);
    qr_greeting_encode(&g, bytes);
    return m->o.link->ops->send(m->o.link, p->conn, qr_bytes_of(bytes, sizeof bytes),
                                (struct qr_bytes){0});
}

static void welcome(struct qr_mesh *m, struct mesh_peer *p) {
    p->up = true;
    p->heard_ns = m->progress_ns = mesh_now_ns(m);
    m->o.up(m->o.ctx, p->who.index, p->who.incarnation);
    if (p->member && !p->lost && !m->over) mesh_send_mark(m, p);
}

void mesh_on_up(struct qr_mesh *m, const struct qr_link_event *e) {
    if (e->outgoing) {
        struct mesh_peer *p = &m->peer[e->tag % QR_MAX_MEMBERS];
        if (e->tag >= QR_MAX_MEMBERS || !p->dialing) {
            mesh_close(m, e->conn);
            return;
        }
        p->conn = e->conn;
        p->called_ns = mesh_now_ns(m);
        (void)greet(m, p); /* a connection that is gone already tells so itself */
        return;
    }
    if (m->n_strangers == MAX_STRANGERS) {
        mesh_close(m, e->conn);
        return;
    }
    m->stranger[m->n_strangers++] = (struct stranger){.conn = e->conn, .since_ns = mesh_now_ns(m)};
}

/* Who dialed us, as it says: the peer, when it is expected so. */
static struct mesh_peer *caller_of(struct qr_mesh *m, const struct qr_greeting *g) {
    if (g->index <= m->o.index || g->index >= QR_MAX_MEMBERS) return NULL;
    struct mesh_peer *p = &m->peer[g->index];
    return p->expected && same(p->who.incarnation, g->incarnation) ? p : NULL;
}

static void take_caller(struct qr_mesh *m, struct mesh_peer *p, uint32_t conn) {
    uint32_t old = p->conn;
    forget_stranger(m, conn);
    if (p->up) mesh_lose(m, p, "it connected anew");
    if (old) mesh_close(m, old);
    p->conn = conn;
    (void)greet(m, p);
    welcome(m, p);
}

void mesh_on_greeting(struct qr_mesh *m, uint32_t conn, struct qr_bytes bytes) {
    struct qr_greeting g;
    struct mesh_peer *p = mesh_by_conn(m, conn); /* we dialed: it answers */
    struct stranger *s = stranger_of(m, conn);
    bool to_us = qr_greeting_decode(bytes, &g) && g.to_index == m->o.index &&
                 same(g.to_incarnation, m->o.incarnation);
    struct mesh_peer *caller = to_us && s ? caller_of(m, &g) : NULL;
    if (to_us && p && p->who.index == g.index && same(p->who.incarnation, g.incarnation)) {
        welcome(m, p);
    } else if (caller) {
        take_caller(m, caller, conn);
    } else if (to_us && s) {
        s->early = true;
        s->greeting = g;
        m->o.link->ops->pause(m->o.link, conn, true);
    } else {
        m->dropped++;
        forget_stranger(m, conn);
        if (p) p->conn = 0;
        mesh_close(m, conn);
    }
}

/* Those who greeted before they were expected. */
static void welcome_early(struct qr_mesh *m) {
    for (size_t i = 0; i < m->n_strangers;) {
        struct stranger s = m->stranger[i];
        struct mesh_peer *p = s.early ? caller_of(m, &s.greeting) : NULL;
        if (!p) {
            i++;
            continue;
        }
        m->o.link->ops->pause(m->o.link, s.conn, false);
        take_caller(m, p, s.conn);
        i = 0; /* the list has changed */
    }
}

/* ---- a stream goes ---- */

void mesh_lose(struct qr_mesh *m, struct mesh_peer *p, const char *reason) {
    bool was_up = p->up;
    /* of this generation: what was under way may be lost */
    bool work = p->member && p->in && !m->over;
    p->conn = 0;
    p->up = p->in = p->mark_due = p->holding = false;
    if (!was_up) return;
    if (work) p->lost = true;
    snprintf(p->reason, sizeof p->reason, "%s", reason);
    if (work && !m->idle && !m->broken_ns) {
        m->broken_ns = mesh_now_ns(m);
        m->broken_index = p->who.index;
    }
    m->o.down(m->o.ctx, p->who.index, p->reason, work && !m->idle);
}

void mesh_on_down(struct qr_mesh *m, const struct qr_link_event *e) {
    forget_stranger(m, e->conn);
    struct mesh_peer *p = mesh_by_conn(m, e->conn);
    if (p) mesh_lose(m, p, e->reason); /* whose dial it was dials again */
}

/* ---- who is expected ---- */

void qr_mesh_expect(struct qr_mesh *m, const struct qr_mesh_member *who) {
    QR_ASSERT(who->index < QR_MAX_MEMBERS && who->index != m->o.index);
    struct mesh_peer *p = &m->peer[who->index];
    if (p->expected && same(p->who.incarnation, who->incarnation)) return;
    qr_mesh_forget(m, who->index);
    p->expected = true;
    p->who = *who;
    if (who->index > m->o.index) {
        welcome_early(m);
        return;
    }
    p->dialing = true;
    m->o.link->ops->dial(m->o.link, who->index, who->address);
}

/* Both ends of it; a dial goes on afresh. */
static void close_stream(struct qr_mesh *m, struct mesh_peer *p, const char *reason) {
    uint32_t conn = p->conn;
    if (p->dialing) m->o.link->ops->hang_up(m->o.link, p->who.index);
    else if (conn) mesh_close(m, conn);
    mesh_lose(m, p, reason);
}

void qr_mesh_renew(struct qr_mesh *m, uint32_t index) {
    struct mesh_peer *p = &m->peer[index];
    if (!p->expected) return;
    close_stream(m, p, "no data passed");
    if (p->dialing) m->o.link->ops->dial(m->o.link, index, p->who.address);
}

void qr_mesh_forget(struct qr_mesh *m, uint32_t index) {
    struct mesh_peer *p = &m->peer[index];
    if (!p->expected) return;
    close_stream(m, p, "it is gone");
    p->expected = p->dialing = false;
}

/* ---- what came too early ---- */

void mesh_gather(struct qr_buf *ret, struct qr_pieces message) {
    qr_buf_clear(ret);
    uint8_t *room = qr_buf_grow(ret, message.n);
    QR_ASSERT(room);
    qr_pieces_copy(message, message.n, room);
}

void mesh_hold(struct qr_mesh *m, struct mesh_peer *p, struct qr_pieces message) {
    QR_ASSERT(!p->holding);
    mesh_gather(&p->held, message);
    p->holding = true;
    m->o.link->ops->pause(m->o.link, p->conn, true);
}

void mesh_let_go(struct qr_mesh *m, struct mesh_peer *p) {
    if (!p->holding) return;
    p->holding = false;
    p->heard_ns = mesh_now_ns(m); /* what it said meanwhile is still to be read */
    m->o.link->ops->pause(m->o.link, p->conn, false);
}
