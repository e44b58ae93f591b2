/* collective/mesh_streams.c — the data streams to the peers: dialing, greetings, losses. Start
 * reading at qr_mesh_expect() and mesh_on_greeting().
 */
#include <stdio.h>
#include <string.h>

#include "collective/mesh_impl.h"

#define GREET_WITHIN_NS (5 * QR_SECOND)
/* A polling peer has answered by then, or closed a stream that it does not expect. */
#define ANSWER_WITHIN_NS (10 * QR_SECOND)

static bool same_incarnation(const uint8_t a[16], const uint8_t b[16]) {
    return memcmp(a, b, 16) == 0;
}

struct mesh_peer *mesh_by_conn(struct qr_mesh *m, uint32_t conn) {
    if (conn == 0) return NULL;
    for (uint32_t r = 0; r < m->n; r++) /* almost always one of these */
        if (m->peer[m->index_of[r]].conn == conn) return &m->peer[m->index_of[r]];
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (m->peer[i].conn == conn) return &m->peer[i];
    return NULL;
}

/* ---- connections without a greeting ---- */

static struct pending_stream *find_pending(struct qr_mesh *m, uint32_t conn) {
    for (size_t i = 0; i < m->n_pending; i++)
        if (m->pending_stream[i].conn == conn) return &m->pending_stream[i];
    return NULL;
}

static void remove_pending(struct qr_mesh *m, uint32_t conn) {
    struct pending_stream *s = find_pending(m, conn);
    if (s) *s = m->pending_stream[--m->n_pending];
}

/* The receive queue is not drained while computing; do not count that time as peer silence. */
static int64_t stream_waited_ns(const struct qr_mesh *m, int64_t since_ns) {
    return mesh_now_ns(m) - (since_ns > m->polled.since_ns ? since_ns : m->polled.since_ns);
}

void mesh_check_pending(struct qr_mesh *m) {
    for (size_t i = 0; i < m->n_pending; i++)
        if (stream_waited_ns(m, m->pending_stream[i].since_ns) > GREET_WITHIN_NS) {
            uint32_t conn = m->pending_stream[i].conn;
            remove_pending(m, conn);
            mesh_close(m, conn);
            m->dropped++;
            return;
        }
}

void mesh_check_dials(struct qr_mesh *m) {
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) {
        struct mesh_peer *p = &m->peer[i];
        if (!p->dialing || p->up || !p->conn ||
            stream_waited_ns(m, p->dialed_ns) <= ANSWER_WITHIN_NS)
            continue;
        mesh_close(m, p->conn); /* it is dialed again */
        p->conn = 0;
    }
}

/* ---- a stream comes up ---- */

static bool send_greeting(struct qr_mesh *m, const struct mesh_peer *p) {
    struct qr_greeting g = {.index = m->o.index, .to_index = p->info.index};
    uint8_t bytes[QR_GREETING_BYTES];
    memcpy(g.incarnation, m->o.incarnation, sizeof g.incarnation);
    memcpy(g.to_incarnation, p->info.incarnation, sizeof g.to_incarnation);
    qr_greeting_encode(&g, bytes);
    return m->o.link->ops->send(m->o.link, p->conn, qr_bytes_of(bytes, sizeof bytes),
                                (struct qr_bytes){0});
}

void mesh_send_mark(struct qr_mesh *m, struct mesh_peer *p) {
    uint8_t bytes[QR_MARK_BYTES];
    qr_mark_encode(&m->id, bytes);
    p->mark_due = !m->o.link->ops->send(m->o.link, p->conn, qr_bytes_of(bytes, sizeof bytes),
                                        (struct qr_bytes){0});
}

static void mark_stream_up(struct qr_mesh *m, struct mesh_peer *p) {
    p->up = true;
    p->received_ns = m->progress_ns = mesh_now_ns(m);
    m->o.up(m->o.ctx, p->info.index, p->info.incarnation);
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
        p->dialed_ns = mesh_now_ns(m);
        (void)send_greeting(m, p); /* if the connection is lost already, an event follows */
        return;
    }
    if (m->n_pending == MAX_PENDING) {
        mesh_close(m, e->conn);
        return;
    }
    m->pending_stream[m->n_pending++] =
        (struct pending_stream){.conn = e->conn, .since_ns = mesh_now_ns(m)};
}

/* Returns the peer that the greeting names, when exactly that process is expected. The higher index
 * dials. */
static struct mesh_peer *expected_caller(struct qr_mesh *m, const struct qr_greeting *g) {
    if (g->index <= m->o.index || g->index >= QR_MAX_MEMBERS) return NULL;
    struct mesh_peer *p = &m->peer[g->index];
    return p->expected && same_incarnation(p->info.incarnation, g->incarnation) ? p : NULL;
}

static void accept_caller(struct qr_mesh *m, struct mesh_peer *p, uint32_t conn) {
    uint32_t old = p->conn;
    remove_pending(m, conn);
    if (p->up) mesh_lose(m, p, "it reconnected");
    if (old) mesh_close(m, old);
    p->conn = conn;
    (void)send_greeting(m, p);
    mark_stream_up(m, p);
}

void mesh_on_greeting(struct qr_mesh *m, uint32_t conn, struct qr_bytes bytes) {
    struct qr_greeting g;
    struct mesh_peer *p = mesh_by_conn(m, conn); /* dialed by this process */
    struct pending_stream *s = find_pending(m, conn);
    bool to_us = qr_greeting_decode(bytes, &g) && g.to_index == m->o.index &&
                 same_incarnation(g.to_incarnation, m->o.incarnation);
    struct mesh_peer *caller = to_us && s ? expected_caller(m, &g) : NULL;
    if (to_us && p && p->info.index == g.index &&
        same_incarnation(p->info.incarnation, g.incarnation)) {
        mark_stream_up(m, p);
    } else if (caller) {
        accept_caller(m, caller, conn);
    } else if (to_us && s) {
        s->early = true;
        s->greeting = g;
        m->o.link->ops->pause(m->o.link, conn, true);
    } else {
        m->dropped++;
        remove_pending(m, conn);
        if (p) p->conn = 0;
        mesh_close(m, conn);
    }
}

/* Accepts peers that greeted before they were expected. */
static void accept_early(struct qr_mesh *m) {
    for (size_t i = 0; i < m->n_pending;) {
        struct pending_stream s = m->pending_stream[i];
        struct mesh_peer *p = s.early ? expected_caller(m, &s.greeting) : NULL;
        if (!p) {
            i++;
            continue;
        }
        m->o.link->ops->pause(m->o.link, s.conn, false);
        accept_caller(m, p, s.conn);
        i = 0; /* the list has changed */
    }
}

/* ---- a stream is lost ---- */

void mesh_lose(struct qr_mesh *m, struct mesh_peer *p, const char *reason) {
    bool was_up = p->up;
    /* Data of this generation may be lost. */
    bool work = p->member && p->in && !m->over;
    p->conn = 0;
    p->up = p->in = p->mark_due = p->holding = false;
    if (!was_up) return;
    if (work) p->lost = true;
    snprintf(p->reason, sizeof p->reason, "%s", reason);
    if (work && !m->idle && !m->broken_ns) {
        m->broken_ns = mesh_now_ns(m);
        m->broken_index = p->info.index;
    }
    m->o.down(m->o.ctx, p->info.index, p->reason, work && !m->idle);
}

void mesh_on_down(struct qr_mesh *m, const struct qr_link_event *e) {
    remove_pending(m, e->conn);
    struct mesh_peer *p = mesh_by_conn(m, e->conn);
    if (p) mesh_lose(m, p, e->reason); /* the dialing side dials again */
}

/* ---- expected peers ---- */

void qr_mesh_expect(struct qr_mesh *m, const struct qr_mesh_member *member) {
    QR_ASSERT(member->index < QR_MAX_MEMBERS && member->index != m->o.index);
    struct mesh_peer *p = &m->peer[member->index];
    if (p->expected && same_incarnation(p->info.incarnation, member->incarnation)) return;
    qr_mesh_forget(m, member->index);
    p->info = *member;
    if (member->later && member->index < m->o.index) return;
    p->expected = true;
    if (member->index > m->o.index) {
        accept_early(m);
        return;
    }
    p->dialing = true;
    m->o.link->ops->dial(m->o.link, member->index, member->address);
}

/* Closes a stream at both ends; a dial starts anew. */
static void mesh_close_stream(struct qr_mesh *m, struct mesh_peer *p, const char *reason) {
    uint32_t conn = p->conn;
    if (p->dialing) m->o.link->ops->hang_up(m->o.link, p->info.index);
    else if (conn) mesh_close(m, conn);
    mesh_lose(m, p, reason);
}

void qr_mesh_renew(struct qr_mesh *m, uint32_t index) {
    struct mesh_peer *p = &m->peer[index];
    if (!p->expected) return;
    mesh_close_stream(m, p, "no data passed");
    if (p->dialing) m->o.link->ops->dial(m->o.link, index, p->info.address);
}

void qr_mesh_forget(struct qr_mesh *m, uint32_t index) {
    struct mesh_peer *p = &m->peer[index];
    if (!p->expected) return;
    mesh_close_stream(m, p, "it is gone");
    p->expected = p->dialing = false;
}

/* ---- early messages ---- */

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

void mesh_release_held(struct qr_mesh *m, struct mesh_peer *p) {
    if (!p->holding) return;
    p->holding = false;
    p->received_ns = mesh_now_ns(m); /* messages sent meanwhile are still unread */
    m->o.link->ops->pause(m->o.link, p->conn, false);
}
