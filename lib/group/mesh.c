#include "group/mesh.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "format/chunk.h"

enum { MAX_RANKS = 64, MAX_STRANGERS = 64 };
#define SLICE_NS (50 * INT64_C(1000000))
#define LOOK_NS (200 * INT64_C(1000))     /* members that have computed as long as each other are no further apart */
#define GREET_WITHIN_NS (5 * QR_SECOND)
#define TELL_AFTER_NS (5 * QR_SECOND)     /* a line names whom a reduction waits for */
#define STALLED_AFTER_NS (600 * QR_SECOND)
#define BROKEN_FOR_NS (2 * QR_SECOND)     /* within this the control thread gives the true reason */
#define ABANDON_WITHIN_NS (QR_SECOND / 2)  /* a frozen member's socket may keep its bytes; they are sent nowhere any more */
#define RELEASE_WITHIN_NS (10 * QR_SECOND)

struct peer {
    struct qr_mesh_member member;
    uint32_t conn;
    bool dialing, up, gone;
    bool holding;            /* one message that came too early; the stream is paused */
    struct qr_buf held;
    char reason[160];
};
struct stranger { /* accepted, not yet of this generation */
    uint32_t conn;
    int64_t since_ns;
    bool early;              /* it greeted for a generation that is not formed here: its stream is paused */
    struct qr_greeting greeting;
};
struct qr_mesh {
    struct qr_mesh_options o;
    uint64_t generation;
    uint8_t own_incarnation[16];
    uint32_t n, rank, own_index;
    struct peer peer[MAX_RANKS];
    uint32_t conn[MAX_RANKS];
    struct stranger stranger[MAX_STRANGERS];
    size_t n_strangers;
    struct qr_reduction *reduction;
    bool reducing;
    int64_t broken_ns;       /* when a stream of a member broke; 0: none */
    uint32_t broken_rank;
    size_t stuck;            /* bodies that streams of former generations never gave back: their peer is frozen, its socket full */
    bool idle;               /* streams may come and go */
    struct qr_buf *fetched;  /* where a state goes that is being fetched, or NULL */
    uint32_t fetch_rank;
    bool fetch_whole;
    struct qr_buf whole;     /* a part of a state that came in pieces */
    int64_t progress_ns;
    uint64_t dropped;
};

struct qr_mesh *qr_mesh_new(const struct qr_mesh_options *opt) {
    struct qr_mesh *m = qr_xcalloc(1, sizeof *m);
    m->o = *opt;
    m->reduction = qr_reduction_new();
    m->o.link->in_pieces = true;
    return m;
}

void qr_mesh_free(struct qr_mesh *m) {
    if (!m) return;
    for (uint32_t r = 0; r < MAX_RANKS; r++) qr_buf_free(&m->peer[r].held);
    qr_buf_free(&m->whole);
    qr_reduction_free(m->reduction);
    free(m);
}

uint64_t qr_mesh_dropped(const struct qr_mesh *m) { return m->dropped; }

static int64_t now_ns(const struct qr_mesh *m) { return qr_now_ns(m->o.clock); }
static struct peer *by_conn(struct qr_mesh *m, uint32_t conn) {
    for (uint32_t r = 0; r < m->n; r++)
        if (m->peer[r].conn == conn && conn != 0) return &m->peer[r];
    return NULL;
}

static struct stranger *stranger_of(struct qr_mesh *m, uint32_t conn) {
    for (size_t i = 0; i < m->n_strangers; i++)
        if (m->stranger[i].conn == conn) return &m->stranger[i];
    return NULL;
}

static bool forget_stranger(struct qr_mesh *m, uint32_t conn) {
    struct stranger *s = stranger_of(m, conn);
    if (s) *s = m->stranger[--m->n_strangers];
    return s != NULL;
}

static void close_conn(struct qr_mesh *m, uint32_t conn) { m->o.link->ops->close_conn(m->o.link, conn); }
static bool greet(struct qr_mesh *m, uint32_t conn) {
    struct qr_greeting g = {.index = m->own_index, .generation = m->generation};
    memcpy(g.incarnation, m->own_incarnation, 16);
    uint8_t bytes[QR_GREETING_BYTES];
    qr_greeting_encode(&g, bytes);
    return m->o.link->ops->send(m->o.link, conn, qr_bytes_of(bytes, sizeof bytes), (struct qr_bytes){0});
}

/* ---- events ---- */

static void on_up(struct qr_mesh *m, const struct qr_link_event *e) {
    if (e->outgoing) {
        for (uint32_t r = 0; r < m->n; r++)
            if (m->peer[r].dialing && m->peer[r].member.index == e->tag) {
                m->peer[r].conn = e->conn;
                (void)greet(m, e->conn); /* a connection that is gone already tells so itself */
                return;
            }
        close_conn(m, e->conn);
        return;
    }
    if (m->n_strangers == MAX_STRANGERS) {
        close_conn(m, e->conn);
        return;
    }
    m->stranger[m->n_strangers++] = (struct stranger){.conn = e->conn, .since_ns = now_ns(m)};
}

/* The stream of a member is no more, until the next generation. */
static void lose(struct qr_mesh *m, struct peer *p, const char *reason) {
    p->conn = 0;
    p->up = false;
    p->gone = true;
    if (p->dialing) m->o.link->ops->hang_up(m->o.link, p->member.index);
    p->dialing = false;
    snprintf(p->reason, sizeof p->reason, "%s", reason);
    if (m->idle) return;
    if (!m->broken_ns) {
        m->broken_ns = now_ns(m);
        m->broken_rank = (uint32_t)(p - m->peer);
    }
    m->o.broken(m->o.ctx, p->member.index, p->reason);
}

static void on_down(struct qr_mesh *m, const struct qr_link_event *e) {
    forget_stranger(m, e->conn);
    struct peer *p = by_conn(m, e->conn);
    if (p && p->up) lose(m, p, e->reason);
    else if (p) p->conn = 0; /* not a stream yet: it is dialed again */
}

static void welcome(struct qr_mesh *m, struct peer *p, uint32_t conn) {
    p->conn = conn;
    p->up = true;
    m->progress_ns = now_ns(m);
}

/* A stream that was accepted: of whom? NULL: of nobody in this generation. */
static struct peer *sender_of(struct qr_mesh *m, const struct qr_greeting *g) {
    if (g->generation != m->generation) return NULL;
    for (uint32_t r = m->rank + 1; r < m->n; r++) {
        struct peer *p = &m->peer[r];
        if (p->member.index == g->index && !p->up && !p->gone && memcmp(p->member.incarnation, g->incarnation, 16) == 0) return p;
    }
    return NULL;
}

/* The first message on a stream. */
static void on_greeting(struct qr_mesh *m, uint32_t conn, struct qr_bytes bytes) {
    struct qr_greeting g;
    struct peer *p = by_conn(m, conn); /* we dialed: it answers */
    struct stranger *s = stranger_of(m, conn);
    bool known = qr_greeting_decode(bytes, &g);
    if (known && p && g.generation == m->generation && p->member.index == g.index && memcmp(p->member.incarnation, g.incarnation, 16) == 0) {
        welcome(m, p, conn);
        return;
    }
    struct peer *sender = known && !p ? sender_of(m, &g) : NULL;
    if (sender) {
        forget_stranger(m, conn);
        (void)greet(m, conn);
        welcome(m, sender, conn);
    } else if (known && s && g.generation != m->generation) {
        s->early = true;
        s->greeting = g;
        m->o.link->ops->pause(m->o.link, conn, true);
    } else {
        m->dropped++;
        forget_stranger(m, conn);
        if (p) p->conn = 0;
        close_conn(m, conn);
    }
}

/* Those who greeted for the generation that is being formed now. */
static void welcome_early(struct qr_mesh *m) {
    for (size_t i = 0; i < m->n_strangers;) {
        struct stranger s = m->stranger[i];
        struct peer *p = s.early ? sender_of(m, &s.greeting) : NULL;
        if (!p) {
            i++;
            continue;
        }
        forget_stranger(m, s.conn);
        m->o.link->ops->pause(m->o.link, s.conn, false);
        (void)greet(m, s.conn);
        welcome(m, p, s.conn);
    }
}

static void gather(struct qr_buf *ret, struct qr_pieces message) {
    qr_buf_clear(ret);
    uint8_t *room = qr_buf_grow(ret, message.n);
    QR_ASSERT(room);
    qr_pieces_copy(message, message.n, room);
}

static void hold(struct qr_mesh *m, struct peer *p, struct qr_pieces message) {
    QR_ASSERT(!p->holding);
    gather(&p->held, message);
    p->holding = true;
    m->o.link->ops->pause(m->o.link, p->conn, true);
}

/* A part of a state: of the one that is being fetched, or of no use. */
static enum qr_taken take_state(struct qr_mesh *m, struct peer *p, struct qr_pieces message, struct qr_err *err) {
    struct qr_state_part part;
    struct qr_bytes bytes;
    if (!m->fetched && !m->reducing) return QR_TAKEN_LATER;
    if (!m->fetched || p != &m->peer[m->fetch_rank] || m->fetch_whole) return QR_TAKEN;
    if (message.n_pieces > 1) gather(&m->whole, message);
    if (!qr_state_part_decode(message.n_pieces > 1 ? qr_buf_view(&m->whole) : *message.piece, &part, &bytes) || part.offset != m->fetched->n) {
        qr_fail(err, QR_UNAVAILABLE, "sent a damaged part of a state (%zu bytes)", message.n);
        return QR_TAKEN_BAD;
    }
    if (part.generation != m->generation) return QR_TAKEN_OTHER;
    qr_buf_put(m->fetched, bytes.p, bytes.n);
    m->fetch_whole = m->fetched->n == part.total;
    return QR_TAKEN;
}

/* Hands one message in. False: the reduction is lost, *err says why. */
static bool hand_in(struct qr_mesh *m, struct peer *p, struct qr_pieces message, enum qr_taken *ret, struct qr_err *err) {
    uint8_t name[4];
    *ret = QR_TAKEN_LATER;
    if (qr_state_part_is(qr_bytes_of(name, qr_pieces_copy(message, sizeof name, name)))) *ret = take_state(m, p, message, err);
    else if (m->reducing) *ret = qr_reduction_message(m->reduction, (uint32_t)(p - m->peer), message, err);
    if (*ret == QR_TAKEN) m->progress_ns = now_ns(m);
    if (*ret == QR_TAKEN_OTHER) m->dropped++;
    if (*ret != QR_TAKEN_BAD) return true;
    (void)qr_wrap(err, "%s", p->member.name);
    if (err->code != QR_UNAVAILABLE) return false;
    /* Damaged on its way. The stream is closed, both ends ask for a new generation, and the step is computed again there. */
    qr_warn(m->o.log, "group", "%s; the stream is closed", err->msg);
    if (p->conn && !p->dialing) close_conn(m, p->conn);
    lose(m, p, "something damaged came on it");
    err->code = QR_ABORTED;
    return false;
}

/* Offers what waits, again and again while that makes headway. */
static bool offer_held(struct qr_mesh *m, struct qr_err *err) {
    for (bool again = m->reducing || m->fetched; again;) {
        again = false;
        for (uint32_t r = 0; r < m->n; r++) {
            struct peer *p = &m->peer[r];
            if (!p->holding) continue;
            enum qr_taken taken;
            struct qr_bytes held = qr_buf_view(&p->held);
            if (!hand_in(m, p, qr_pieces_of(&held), &taken, err)) return false;
            if (taken == QR_TAKEN_LATER) continue;
            p->holding = false;
            again = true;
            if (p->up) m->o.link->ops->pause(m->o.link, p->conn, false);
        }
    }
    return true;
}

static bool on_message(struct qr_mesh *m, const struct qr_link_event *e, struct qr_err *err) {
    struct peer *p = by_conn(m, e->conn);
    struct qr_pieces message = e->pieces.n_pieces ? e->pieces : qr_pieces_of(&e->message);
    if (!p || !p->up) {
        uint8_t greeting[QR_GREETING_BYTES + 1]; /* one byte more shows what is too long */
        on_greeting(m, e->conn, qr_bytes_of(greeting, qr_pieces_copy(message, sizeof greeting, greeting)));
        return true;
    }
    enum qr_taken taken = QR_TAKEN_LATER;
    if (!hand_in(m, p, message, &taken, err)) return false;
    if (taken == QR_TAKEN_LATER) hold(m, p, message);
    return taken != QR_TAKEN || offer_held(m, err);
}

static enum qr_code take_event(struct qr_mesh *m, int64_t until_ns, struct qr_err *err) {
    struct qr_link_event e;
    m->o.link->ops->poll(m->o.link, until_ns, &e);
    if (e.kind == QR_LINK_UP) on_up(m, &e);
    else if (e.kind == QR_LINK_DOWN) on_down(m, &e);
    else if (e.kind == QR_LINK_MESSAGE && !on_message(m, &e, err)) return err ? err->code : QR_UNKNOWN;
    return QR_OK;
}

/* One turn of every wait: an event, the reasons to stop, strangers who never greet. */
static enum qr_code turn(struct qr_mesh *m, int64_t until_ns, struct qr_err *err) {
    enum qr_code code = m->o.stop(m->o.ctx, err);
    if (code != QR_OK) return code;
    int64_t now = now_ns(m), slice_ns = now + SLICE_NS;
    if (m->broken_ns && !m->idle && now - m->broken_ns > BROKEN_FOR_NS) {
        struct peer *p = &m->peer[m->broken_rank];
        return qr_fail(err, QR_UNAVAILABLE, "%s is gone: %s", p->member.name, p->reason);
    }
    for (size_t i = 0; i < m->n_strangers; i++)
        if (now - m->stranger[i].since_ns > GREET_WITHIN_NS) {
            uint32_t conn = m->stranger[i].conn;
            forget_stranger(m, conn);
            close_conn(m, conn);
            m->dropped++;
            break;
        }
    return take_event(m, until_ns < slice_ns ? until_ns : slice_ns, err);
}

/* ---- what the group asks for ---- */

/* Is anything of this generation still on its way out? */
static bool unreleased(struct qr_mesh *m) {
    size_t n = m->o.link->ops->unreleased(m->o.link);
    if (n < m->stuck) m->stuck = n;
    return n > m->stuck;
}

enum qr_code qr_mesh_form(struct qr_mesh *m, uint64_t generation, const struct qr_mesh_member *members, uint32_t n_members, uint32_t rank,
                          int64_t deadline_ns, struct qr_err *err) {
    QR_ASSERT(n_members >= 1 && n_members <= MAX_RANKS && rank < n_members);
    struct qr_link *l = m->o.link;
    for (uint32_t r = 0; r < m->n; r++) { /* the streams of the generation before */
        struct peer *p = &m->peer[r];
        if (p->dialing) l->ops->hang_up(l, p->member.index);
        else if (p->conn) close_conn(m, p->conn);
        p->conn = 0;
        p->dialing = p->up = p->gone = p->holding = false;
    }
    m->generation = generation;
    m->n = n_members;
    m->rank = rank;
    m->broken_ns = 0;
    m->own_index = members[rank].index;
    memcpy(m->own_incarnation, members[rank].incarnation, 16);
    for (uint32_t r = 0; r < n_members; r++) {
        m->peer[r].member = members[r];
        if (r >= rank) continue;
        m->peer[r].dialing = true;
        l->ops->dial(l, members[r].index, members[r].address);
    }
    welcome_early(m);
    int64_t all_up_ns = 0;
    for (;;) {
        uint32_t missing = n_members;
        for (uint32_t r = 0; r < n_members; r++)
            if (r != rank && !m->peer[r].up && missing == n_members) missing = r;
        if (missing == n_members && !all_up_ns) all_up_ns = now_ns(m);
        if (missing == n_members && now_ns(m) - all_up_ns > ABANDON_WITHIN_NS) m->stuck = l->ops->unreleased(l);
        if (missing == n_members && !m->broken_ns && !unreleased(m)) return QR_OK;
        if (now_ns(m) >= deadline_ns)
            return qr_fail(err, QR_DEADLINE_EXCEEDED,
                           "no data connection with %s (data port at %s) came up in time: is the port open between the pods?",
                           m->peer[missing % n_members].member.name, m->peer[missing % n_members].member.address);
        enum qr_code code = turn(m, deadline_ns, err);
        if (code != QR_OK) return code;
    }
}

static enum qr_code stalled(struct qr_mesh *m, bool *told, struct qr_err *err) {
    int64_t still_ns = now_ns(m) - m->progress_ns;
    if (still_ns < TELL_AFTER_NS) {
        *told = false;
        return QR_OK;
    }
    uint32_t r = qr_reduction_waits_for(m->reduction);
    const char *name = r < m->n ? m->peer[r].member.name : "nobody";
    if (still_ns >= STALLED_AFTER_NS)
        return qr_fail(err, QR_DEADLINE_EXCEEDED, "a reduction made no progress for %" PRId64 " s: it waits for %s", still_ns / QR_SECOND,
                       name);
    if (!*told) qr_warn(m->o.log, "group", "a reduction waits for %s since %" PRId64 " s", name, still_ns / QR_SECOND);
    *told = true;
    return QR_OK;
}

/* The link still reads vector and sum; they are given back to the caller only after that. */
static enum qr_code wait_released(struct qr_mesh *m, struct qr_err *err) {
    int64_t by_ns = now_ns(m) + RELEASE_WITHIN_NS;
    while (unreleased(m)) {
        int64_t now = now_ns(m);
        if (now >= by_ns)
            return qr_fail(err, QR_UNAVAILABLE,
                           "a data stream has not taken what it was given for %lld s: a member or its network is stuck",
                           (long long)(RELEASE_WITHIN_NS / QR_SECOND));
        enum qr_code code = turn(m, now + QR_MS / 5, err);
        if (code != QR_OK) return code;
    }
    return QR_OK;
}

static void abandon(struct qr_mesh *m);

enum qr_code qr_mesh_idle(struct qr_mesh *m, int64_t until_ns, struct qr_err *err) {
    m->idle = true;
    enum qr_code code = turn(m, until_ns, err);
    m->idle = false;
    return code;
}

/* ---- a state changes hands ---- */

enum qr_code qr_mesh_give(struct qr_mesh *m, uint32_t rank, struct qr_bytes state, int64_t deadline_ns, struct qr_err *err) {
    struct qr_link *l = m->o.link;
    enum qr_code code = QR_OK;
    for (size_t at = 0; at < state.n && code == QR_OK;) {
        size_t n = state.n - at < QR_CHUNK_MAX_BYTES ? state.n - at : QR_CHUNK_MAX_BYTES;
        struct qr_state_part part = {.generation = m->generation, .total = state.n, .offset = at, .count = (uint32_t)n};
        uint8_t head[QR_STATE_PART_HEADER_BYTES];
        qr_state_part_encode(&part, qr_bytes_of(state.p + at, n), head);
        if (m->peer[rank].up && l->ops->send(l, m->peer[rank].conn, qr_bytes_of(head, sizeof head), qr_bytes_of(state.p + at, n))) {
            at += n;
            continue;
        }
        code = turn(m, now_ns(m) + QR_MS, err);
        if (code == QR_OK && now_ns(m) >= deadline_ns)
            code = qr_fail(err, QR_DEADLINE_EXCEEDED, "%s does not take the state that it lacks", m->peer[rank].member.name);
    }
    if (code == QR_OK) code = wait_released(m, err);
    if (code != QR_OK) abandon(m);
    return code;
}

enum qr_code qr_mesh_fetch(struct qr_mesh *m, uint32_t rank, struct qr_buf *ret, int64_t deadline_ns, struct qr_err *err) {
    struct qr_err own;
    if (!err) err = &own;
    enum qr_code code = QR_OK;
    m->fetched = ret;
    m->fetch_rank = rank;
    m->fetch_whole = false;
    if (!offer_held(m, err)) code = err->code;
    while (code == QR_OK && !m->fetch_whole) {
        code = turn(m, deadline_ns, err);
        if (code == QR_OK && !m->fetch_whole && now_ns(m) >= deadline_ns)
            code = qr_fail(err, QR_DEADLINE_EXCEEDED, "%s does not send the state that this worker lacks", m->peer[rank].member.name);
    }
    m->fetched = NULL;
    return code;
}

/* After a failure: streams that still read the caller's memory are closed. */
static void abandon(struct qr_mesh *m) {
    struct qr_link *l = m->o.link;
    m->reducing = false;
    if (!unreleased(m)) return;
    for (uint32_t r = 0; r < m->n; r++) {
        struct peer *p = &m->peer[r];
        if (p->dialing) l->ops->hang_up(l, p->member.index);
        else if (p->conn) close_conn(m, p->conn);
        p->conn = 0;
        p->dialing = p->up = false;
        p->gone = true;
    }
    /* Others may be a generation ahead, and greet for it: every event is taken as usual. With no stream left none can fail. */
    int64_t by_ns = now_ns(m) + ABANDON_WITHIN_NS;
    struct qr_err ignored;
    while (unreleased(m) && now_ns(m) < by_ns)
        if (take_event(m, now_ns(m) + QR_MS, &ignored) != QR_OK) return;
}

enum qr_code qr_mesh_reduce(struct qr_mesh *m, enum qr_allreduce wish, const struct qr_contribution *c, qr_fixed *ret_sum,
                            struct qr_err *err) {
    struct qr_err local; /* its code is needed here also when the caller wants no text */
    if (!err) err = &local;
    for (uint32_t r = 0; r < m->n; r++) m->conn[r] = m->peer[r].conn;
    struct qr_reduction_args args = {.link = m->o.link, .conn = m->conn, .n_ranks = m->n, .rank = m->rank, .generation = m->generation,
                                     .wish = wish, .contribution = c, .sum = ret_sum};
    m->progress_ns = now_ns(m);
    enum qr_code code = qr_reduction_begin(m->reduction, &args, err);
    if (code != QR_OK) return code;
    m->reducing = true;
    m->o.link->look_ns = LOOK_NS;
    bool told = false;
    if (!offer_held(m, err)) code = err->code;
    while (code == QR_OK && !qr_reduction_done(m->reduction)) {
        code = turn(m, INT64_MAX, err);
        if (code == QR_OK) qr_reduction_pump(m->reduction);
        if (code == QR_OK) code = stalled(m, &told, err);
    }
    if (code == QR_OK) m->reducing = false;
    if (code == QR_OK) code = wait_released(m, err);
    m->o.link->look_ns = 0;
    if (code != QR_OK) {
        abandon(m);
        return code;
    }
    return qr_reduction_check(m->reduction, err);
}
