/* collective/mesh.c — one generation after the other over the data streams: its marks, its
 * reductions, its states that change hands. */
#include "collective/mesh.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/span.h"
#include "collective/mesh_impl.h"

#define SLICE_NS (50 * QR_MS)
/* members that have computed as long as each other are no further apart */
#define LOOK_NS (QR_MS / 5)
#define BEAT_NS (250 * QR_MS)
/* who did not turn for so long computed, was stopped, or starved */
#define PAUSED_NS (500 * QR_MS)
#define TELL_AFTER_NS (5 * QR_SECOND) /* a line names whom a reduction waits for */
#define STALLED_AFTER_NS (600 * QR_SECOND)
/* within this the control thread gives the true reason */
#define BROKEN_FOR_NS (2 * QR_SECOND)
/* streams that pass data have given back by then what they read */
#define GIVEN_BACK_NS (50 * QR_MS)
/* a frozen member's socket may keep its bytes; they are sent nowhere any more */
#define ABANDON_WITHIN_NS (QR_SECOND / 2)
#define RELEASE_WITHIN_NS (10 * QR_SECOND)

/* 1 Mbit/s: on a thinner line a chunk that is under way looks like none */
enum { SLOW_BYTES_PER_MS = 125 };

struct qr_mesh *qr_mesh_new(const struct qr_mesh_options *opt) {
    struct qr_mesh *m = qr_xcalloc(1, sizeof *m);
    m->o = *opt;
    m->reduction = qr_reduction_new();
    m->o.link->in_pieces = true;
    return m;
}

void qr_mesh_free(struct qr_mesh *m) {
    if (!m) return;
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) qr_buf_free(&m->peer[i].held);
    qr_buf_free(&m->whole);
    qr_reduction_free(m->reduction);
    free(m);
}

bool qr_mesh_buffers_in_use(struct qr_mesh *m) { return m->o.link->ops->unreleased(m->o.link) > 0; }
uint64_t qr_mesh_dropped(const struct qr_mesh *m) { return m->dropped; }

static struct mesh_peer *at_rank(struct qr_mesh *m, uint32_t rank) {
    return &m->peer[m->index_of[rank]];
}

/* ---- marks ---- */

void mesh_send_mark(struct qr_mesh *m, struct mesh_peer *p) {
    uint8_t bytes[QR_MARK_BYTES];
    qr_mark_encode(&m->id, bytes);
    p->mark_due = !m->o.link->ops->send(m->o.link, p->conn, qr_bytes_of(bytes, sizeof bytes),
                                        (struct qr_bytes){0});
}

/* It is in this generation, or in a later one: then its stream waits for that; or this one has left
 * that behind. */
static void on_mark(struct qr_mesh *m, struct mesh_peer *p, const struct qr_gen_id *id,
                    struct qr_pieces message) {
    int order = qr_gen_id_compare(id, &m->id);
    if (order > 0) {
        mesh_hold(m, p, message);
    } else if (order == 0 && p->member && !m->over) {
        p->in = true;
        m->progress_ns = mesh_now_ns(m);
    } else {
        m->dropped++;
    }
}

static bool held_mark(const struct mesh_peer *p, struct qr_gen_id *ret) {
    return p->holding && qr_mark_decode(qr_buf_view(&p->held), ret);
}

/* What was held for an earlier generation is of no use; a mark of this one is what its sender
 * begins with. */
static void sort_held(struct qr_mesh *m, struct mesh_peer *p) {
    struct qr_gen_id id;
    bool mark = held_mark(p, &id);
    int order = mark ? qr_gen_id_compare(&id, &m->id) : -1;
    if (order > 0) return;
    if (order == 0 && p->member) p->in = true;
    mesh_let_go(m, p);
}

/* ---- messages ---- */

/* A part of a state: of the one that is being fetched, or of no use. */
static enum qr_reduction_status take_state(struct qr_mesh *m, struct mesh_peer *p,
                                           struct qr_pieces message, struct qr_err *err) {
    struct qr_state_part part;
    struct qr_bytes bytes;
    if (!m->fetched && !m->reducing) return QR_REDUCTION_DEFERRED;
    if (!m->fetched || p != at_rank(m, m->fetch_rank) || m->fetch_whole)
        return QR_REDUCTION_ACCEPTED;
    if (message.n_pieces > 1) mesh_gather(&m->whole, message);
    struct qr_bytes whole = message.n_pieces > 1 ? qr_buf_view(&m->whole) : *message.piece;
    if (!qr_state_part_decode(whole, &part, &bytes) || part.offset != m->fetched->n) {
        qr_fail(err, QR_UNAVAILABLE, "sent a damaged part of a state (%zu bytes)", message.n);
        return QR_REDUCTION_MALFORMED;
    }
    if (part.generation != m->generation) return QR_REDUCTION_OTHER_GENERATION;
    qr_buf_put(m->fetched, bytes.p, bytes.n);
    m->fetch_whole = m->fetched->n == part.total;
    return QR_REDUCTION_ACCEPTED;
}

/* Hands one message in. False: the reduction is lost, *err says why. */
static bool hand_in(struct qr_mesh *m, struct mesh_peer *p, struct qr_pieces message,
                    enum qr_reduction_status *ret, struct qr_err *err) {
    uint8_t name[4];
    *ret = QR_REDUCTION_DEFERRED;
    if (qr_state_part_is(qr_bytes_of(name, qr_pieces_copy(message, sizeof name, name))))
        *ret = take_state(m, p, message, err);
    else if (m->reducing) *ret = qr_reduction_message(m->reduction, p->rank, message, err);
    if (*ret == QR_REDUCTION_ACCEPTED) m->progress_ns = mesh_now_ns(m);
    if (*ret == QR_REDUCTION_OTHER_GENERATION) m->dropped++;
    if (*ret != QR_REDUCTION_MALFORMED) return true;
    (void)qr_wrap(err, "%s", p->who.name);
    if (err->code != QR_UNAVAILABLE) return false;
    /* Damaged on its way. The stream is closed, both ends ask for a new generation, and the
     * reduction is computed again there. */
    qr_warn(m->o.log, "group", "%s; the stream is closed", err->msg);
    if (p->conn) mesh_close(m, p->conn);
    mesh_lose(m, p, "something damaged came on it");
    err->code = QR_ABORTED;
    return false;
}

/* Offers what waits, again and again while that makes headway. */
static bool offer_held(struct qr_mesh *m, struct qr_err *err) {
    struct qr_gen_id id;
    for (bool again = m->reducing || m->fetched; again;) {
        again = false;
        for (uint32_t r = 0; r < m->n; r++) {
            struct mesh_peer *p = at_rank(m, r);
            if (!p->holding || held_mark(p, &id)) continue;
            enum qr_reduction_status taken;
            struct qr_bytes held = qr_buf_view(&p->held);
            if (!hand_in(m, p, qr_pieces_of(&held), &taken, err)) return false;
            if (taken == QR_REDUCTION_DEFERRED) continue;
            again = true;
            mesh_let_go(m, p);
        }
    }
    return true;
}

/* The short ones are the mesh's own. True when it was one. */
static bool on_short(struct qr_mesh *m, struct mesh_peer *p, struct qr_pieces message) {
    uint8_t room[QR_MARK_BYTES];
    struct qr_gen_id id;
    if (message.n > QR_MARK_BYTES) return false;
    struct qr_bytes bytes = qr_bytes_of(room, qr_pieces_copy(message, sizeof room, room));
    if (qr_mark_decode(bytes, &id)) on_mark(m, p, &id, message);
    else if (!qr_beat_is(bytes)) return false;
    return true;
}

static bool on_message(struct qr_mesh *m, const struct qr_link_event *e, struct qr_err *err) {
    struct mesh_peer *p = mesh_by_conn(m, e->conn);
    struct qr_pieces message = e->pieces.n_pieces ? e->pieces : qr_pieces_of(&e->message);
    if (!p || !p->up) {
        uint8_t greeting[QR_GREETING_BYTES + 1]; /* one byte more shows what is too long */
        mesh_on_greeting(m, e->conn,
                         qr_bytes_of(greeting, qr_pieces_copy(message, sizeof greeting, greeting)));
        return true;
    }
    /* what a paused stream still had when it broke: it is lost with it */
    if (p->holding) return true;
    p->heard_ns = mesh_now_ns(m);
    if (on_short(m, p, message)) return true;
    if (!p->in || m->over) { /* left over from a generation that is over */
        m->dropped += !p->in;
        return true;
    }
    enum qr_reduction_status taken = QR_REDUCTION_DEFERRED;
    if (!hand_in(m, p, message, &taken, err)) return false;
    if (taken == QR_REDUCTION_DEFERRED) mesh_hold(m, p, message);
    return taken != QR_REDUCTION_ACCEPTED || offer_held(m, err);
}

static enum qr_code take_event(struct qr_mesh *m, int64_t until_ns, struct qr_err *err) {
    struct qr_link_event e;
    m->o.link->ops->poll(m->o.link, until_ns, &e);
    if (e.kind == QR_LINK_UP) mesh_on_up(m, &e);
    else if (e.kind == QR_LINK_DOWN) mesh_on_down(m, &e);
    else if (e.kind == QR_LINK_MESSAGE && !on_message(m, &e, err))
        return err ? err->code : QR_UNKNOWN;
    return QR_OK;
}

/* ---- waits ---- */

/* So long messages of so many bytes may be on their way on a thin line: one chunk out and one in,
 * or a short vector whole from each member. */
static void expect_bytes(struct qr_mesh *m, size_t bytes) {
    size_t most = bytes < QR_CHUNK_MAX_BYTES ? bytes * m->n : 2 * QR_CHUNK_MAX_BYTES;
    m->polled.allow_ns = (int64_t)(most / SLOW_BYTES_PER_MS) * QR_MS;
}

/* The members hear that these streams pass data, and the group whom this one has heard. */
static void beat(struct qr_mesh *m, int64_t now) {
    for (uint32_t r = 0; r < m->n; r++) {
        struct mesh_peer *p = at_rank(m, r);
        if (r == m->rank) continue;
        if (p->up)
            (void)m->o.link->ops->send(m->o.link, p->conn, qr_bytes_of(qr_beat, sizeof qr_beat),
                                       (struct qr_bytes){0});
        /* what is not read cannot be judged */
        m->polled.heard_ns[p->who.index] = p->holding ? now : p->heard_ns;
    }
    m->o.polled(m->o.ctx, &m->polled);
}

static void polls(struct qr_mesh *m, int64_t now) {
    if (now - m->polled.turn_ns > PAUSED_NS) m->polled.since_ns = now;
    m->polled.turn_ns = now;
    if (now < m->beat_ns) return;
    m->beat_ns = now + BEAT_NS;
    mesh_look_at_calls(m);
    if (!m->over) beat(m, now);
}

/* One turn of every wait: an event, the reasons to stop, strangers who never greet. */
static enum qr_code turn(struct qr_mesh *m, int64_t until_ns, struct qr_err *err) {
    enum qr_code code = m->o.stop(m->o.ctx, err);
    if (code != QR_OK) return code;
    int64_t now = mesh_now_ns(m), slice_ns = now + SLICE_NS;
    if (m->broken_ns && !m->idle && now - m->broken_ns > BROKEN_FOR_NS) {
        const struct mesh_peer *p = &m->peer[m->broken_index];
        return qr_fail(err, QR_UNAVAILABLE, "%s is gone: %s", p->who.name, p->reason);
    }
    polls(m, now);
    mesh_look_at_strangers(m);
    return take_event(m, until_ns < slice_ns ? until_ns : slice_ns, err);
}

static enum qr_code stalled(struct qr_mesh *m, bool *told, struct qr_err *err) {
    int64_t still_ns = mesh_now_ns(m) - m->progress_ns;
    if (still_ns < TELL_AFTER_NS) {
        *told = false;
        return QR_OK;
    }
    uint32_t r = qr_reduction_waits_for(m->reduction);
    const char *name = r < m->n ? at_rank(m, r)->who.name : "nobody";
    if (still_ns >= STALLED_AFTER_NS)
        return qr_fail(err, QR_DEADLINE_EXCEEDED,
                       "a reduction made no progress for %" PRId64 " s: it waits for %s",
                       still_ns / QR_SECOND, name);
    if (!*told)
        qr_warn(m->o.log, "group", "a reduction waits for %s since %" PRId64 " s", name,
                still_ns / QR_SECOND);
    *told = true;
    return QR_OK;
}

/* Is anything still on its way out? */
static bool unreleased(struct qr_mesh *m) {
    size_t n = m->o.link->ops->unreleased(m->o.link);
    if (n < m->stuck) m->stuck = n;
    return n > m->stuck;
}

/* The link still reads vector and sum; they are given back to the caller only after that. */
static enum qr_code wait_released(struct qr_mesh *m, struct qr_err *err) {
    int64_t by_ns = mesh_now_ns(m) + RELEASE_WITHIN_NS;
    while (unreleased(m)) {
        int64_t now = mesh_now_ns(m);
        if (now >= by_ns)
            return qr_fail(err, QR_UNAVAILABLE,
                           "a data stream has not taken what it was given for %lld s: a member or "
                           "its network is stuck",
                           (long long)(RELEASE_WITHIN_NS / QR_SECOND));
        enum qr_code code = turn(m, now + QR_MS / 5, err);
        if (code != QR_OK) return code;
    }
    return QR_OK;
}

enum qr_code qr_mesh_idle(struct qr_mesh *m, int64_t until_ns, struct qr_err *err) {
    m->idle = true;
    enum qr_code code = turn(m, until_ns, err);
    m->idle = false;
    return code;
}

/* ---- generations ---- */

void qr_mesh_leave(struct qr_mesh *m) {
    struct qr_gen_id id;
    m->reducing = false;
    m->over = true;
    m->broken_ns = 0;
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (!held_mark(&m->peer[i], &id)) mesh_let_go(m, &m->peer[i]);
}

void qr_mesh_await(struct qr_mesh *m, const struct qr_gen_id *id) {
    struct qr_gen_id held;
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (held_mark(&m->peer[i], &held) && !(id && qr_gen_id_compare(&held, id) == 0))
            mesh_let_go(m, &m->peer[i]);
}

/* After a failure. Streams that still read the caller's memory are closed: they come up again. */
static void abandon(struct qr_mesh *m) {
    /* every event is taken as usual: nothing that it brings can fail any more */
    struct qr_err ignored;
    qr_mesh_leave(m);
    int64_t by_ns = mesh_now_ns(m) + GIVEN_BACK_NS;
    while (unreleased(m) && mesh_now_ns(m) < by_ns)
        (void)take_event(m, mesh_now_ns(m) + QR_MS, &ignored);
    if (!unreleased(m)) return;
    for (uint32_t r = 0; r < m->n; r++) {
        struct mesh_peer *p = at_rank(m, r);
        if (p->conn) mesh_close(m, p->conn);
        mesh_lose(m, p, "it did not take what it was given");
    }
    by_ns = mesh_now_ns(m) + ABANDON_WITHIN_NS;
    while (unreleased(m) && mesh_now_ns(m) < by_ns)
        (void)take_event(m, mesh_now_ns(m) + QR_MS, &ignored);
}

static void begin_generation(struct qr_mesh *m, const struct qr_gen_id *id,
                             const struct qr_mesh_member *members, uint32_t n_members,
                             uint32_t rank) {
    m->id = *id;
    m->generation = qr_gen_id_hash(id);
    m->n = n_members;
    m->rank = rank;
    m->broken_ns = 0;
    m->over = false;
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        m->peer[i].member = m->peer[i].in = m->peer[i].lost = m->peer[i].mark_due = false;
    for (uint32_t r = 0; r < n_members; r++) m->index_of[r] = members[r].index;
    for (uint32_t r = 0; r < n_members; r++) {
        struct mesh_peer *p = at_rank(m, r);
        if (r == rank) continue;
        p->member = true;
        p->rank = r;
        qr_mesh_expect(m, &members[r]);
        if (p->up) mesh_send_mark(m, p);
    }
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) sort_held(m, &m->peer[i]);
}

/* The first that is not in it yet, or n. */
static uint32_t missing_rank(struct qr_mesh *m) {
    for (uint32_t r = 0; r < m->n; r++) {
        struct mesh_peer *p = at_rank(m, r);
        if (r == m->rank) continue;
        if (p->mark_due && p->up) mesh_send_mark(m, p);
        if (!p->in || p->mark_due) return r;
    }
    return m->n;
}

enum qr_code qr_mesh_form(struct qr_mesh *m, const struct qr_gen_id *id,
                          const struct qr_mesh_member *members, uint32_t n_members, uint32_t rank,
                          int64_t deadline_ns, struct qr_err *err) {
    QR_ASSERT(n_members >= 1 && n_members <= QR_MAX_MEMBERS && rank < n_members);
    begin_generation(m, id, members, n_members, rank);
    int64_t all_in_ns = 0;
    enum qr_code code = QR_OK;
    while (code == QR_OK) {
        uint32_t missing = missing_rank(m);
        if (missing == n_members && !all_in_ns) all_in_ns = mesh_now_ns(m);
        if (missing == n_members && mesh_now_ns(m) - all_in_ns > ABANDON_WITHIN_NS)
            m->stuck = m->o.link->ops->unreleased(m->o.link);
        if (missing == n_members && !m->broken_ns && !unreleased(m)) break;
        if (mesh_now_ns(m) >= deadline_ns) {
            const struct qr_mesh_member *who = &members[missing % n_members];
            code = qr_fail(err, QR_DEADLINE_EXCEEDED,
                           "no data came from %s (data port at %s) in time: is the port open "
                           "between the pods?",
                           who->name, who->address);
        } else {
            code = turn(m, deadline_ns, err);
        }
    }
    if (code != QR_OK) qr_mesh_leave(m);
    return code;
}

/* ---- a state changes hands ---- */

static enum qr_code give(struct qr_mesh *m, struct mesh_peer *p, struct qr_bytes state,
                         int64_t deadline_ns, struct qr_err *err) {
    struct qr_link *l = m->o.link;
    enum qr_code code = QR_OK;
    for (size_t at = 0; at < state.n && code == QR_OK;) {
        size_t n = state.n - at < QR_CHUNK_MAX_BYTES ? state.n - at : QR_CHUNK_MAX_BYTES;
        struct qr_bytes bytes = qr_bytes_of(state.p + at, n);
        struct qr_state_part part = {
            .generation = m->generation, .total = state.n, .offset = at, .count = (uint32_t)n};
        uint8_t head[QR_STATE_PART_HEADER_BYTES];
        qr_state_part_encode(&part, bytes, head);
        if (p->in && l->ops->send(l, p->conn, qr_bytes_of(head, sizeof head), bytes)) {
            at += n;
            continue;
        }
        code = turn(m, mesh_now_ns(m) + QR_MS, err);
        if (code == QR_OK && mesh_now_ns(m) >= deadline_ns)
            code = qr_fail(err, QR_DEADLINE_EXCEEDED, "%s does not take the state that it lacks",
                           p->who.name);
    }
    return code == QR_OK ? wait_released(m, err) : code;
}

enum qr_code qr_mesh_give(struct qr_mesh *m, uint32_t rank, struct qr_bytes state,
                          int64_t deadline_ns, struct qr_err *err) {
    expect_bytes(m, state.n);
    enum qr_code code = give(m, at_rank(m, rank), state, deadline_ns, err);
    if (code != QR_OK) abandon(m);
    return code;
}

enum qr_code qr_mesh_fetch(struct qr_mesh *m, uint32_t rank, struct qr_buf *ret,
                           int64_t deadline_ns, struct qr_err *err) {
    struct qr_err own;
    if (!err) err = &own;
    enum qr_code code = QR_OK;
    expect_bytes(m, QR_CHUNK_MAX_BYTES); /* how long it is nobody has said yet */
    m->fetched = ret;
    m->fetch_rank = rank;
    m->fetch_whole = false;
    if (!offer_held(m, err)) code = err->code;
    while (code == QR_OK && !m->fetch_whole) {
        code = turn(m, deadline_ns, err);
        if (code == QR_OK && !m->fetch_whole && mesh_now_ns(m) >= deadline_ns)
            code = qr_fail(err, QR_DEADLINE_EXCEEDED,
                           "%s does not send the state that this worker lacks",
                           at_rank(m, rank)->who.name);
    }
    m->fetched = NULL;
    if (code != QR_OK) qr_mesh_leave(m);
    return code;
}

/* ---- reductions ---- */

/* A stream that broke while nothing was reduced is missed now. */
static void miss_lost(struct qr_mesh *m) {
    for (uint32_t r = 0; r < m->n && !m->broken_ns; r++) {
        struct mesh_peer *p = at_rank(m, r);
        if (r == m->rank || p->in) continue;
        m->broken_ns = mesh_now_ns(m);
        m->broken_index = p->who.index;
        m->o.down(m->o.ctx, p->who.index, p->reason, true);
        /* another in its place, by now */
        if (p->up) m->o.up(m->o.ctx, p->who.index, p->who.incarnation);
    }
}

/* A reduction that waits for nobody, of a ring of one above all, polls nothing: what streams have
 * to tell is heard all the same. */
static enum qr_code hear(struct qr_mesh *m, struct qr_err *err) {
    int64_t now = mesh_now_ns(m);
    if (now - m->polled.turn_ns < SLICE_NS) return QR_OK;
    return turn(m, now, err);
}

/* For whom a reduction waits, as spans. */
struct wait {
    int64_t began_ns; /* 0: nobody captures */
    uint32_t rank;
};

static void note_wait(struct qr_mesh *m, struct wait *w) {
    int64_t now_ns = qr_span_begin();
    if (!now_ns && !w->began_ns) return;
    uint32_t rank = qr_reduction_waits_for(m->reduction);
    if (w->began_ns && rank == w->rank) return;
    if (w->rank < m->n) qr_span_end(w->began_ns, QR_SPAN_WAIT, NULL, m->index_of[w->rank]);
    *w = (struct wait){now_ns, rank};
}

static enum qr_code reduce(struct qr_mesh *m, struct qr_err *err) {
    struct wait wait = {0};
    enum qr_code code = QR_OK;
    bool told = false;
    m->reducing = true;
    m->o.link->look_ns = LOOK_NS;
    miss_lost(m);
    if (!offer_held(m, err)) code = err->code;
    if (code == QR_OK) code = hear(m, err);
    while (code == QR_OK && !qr_reduction_done(m->reduction)) {
        note_wait(m, &wait);
        code = turn(m, INT64_MAX, err);
        if (code == QR_OK) qr_reduction_pump(m->reduction);
        if (code == QR_OK) code = stalled(m, &told, err);
    }
    note_wait(m, &wait);
    if (code == QR_OK) m->reducing = false;
    if (code == QR_OK) code = wait_released(m, err);
    m->o.link->look_ns = 0;
    return code;
}

enum qr_code qr_mesh_reduce(struct qr_mesh *m, enum qr_allreduce allreduce,
                            const struct qr_contribution *c, qr_fixed *ret_sum,
                            struct qr_err *err) {
    struct qr_err local; /* its code is needed here also when the caller wants no text */
    if (!err) err = &local;
    for (uint32_t r = 0; r < m->n; r++) m->conn[r] = r == m->rank ? 0 : at_rank(m, r)->conn;
    struct qr_reduction_args args = {.link = m->o.link,
                                     .conn = m->conn,
                                     .n_ranks = m->n,
                                     .rank = m->rank,
                                     .generation = m->generation,
                                     .allreduce = allreduce,
                                     .contribution = c,
                                     .sum = ret_sum};
    m->progress_ns = mesh_now_ns(m);
    expect_bytes(m, c->n * sizeof *c->vector);
    enum qr_code code = qr_reduction_begin(m->reduction, &args, err);
    if (code != QR_OK) return code;
    code = reduce(m, err);
    if (code != QR_OK) {
        abandon(m);
        return code;
    }
    return qr_reduction_check(m->reduction, err);
}
