/* collective/mesh.c — runs generations over the data streams: marks, reductions, and the transfer
 * of states. Start reading at qr_mesh_form() and qr_mesh_reduce().
 */
#include "collective/mesh.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/span.h"
#include "collective/mesh_impl.h"

#define SLICE_NS (50 * QR_MS)
/* Members with equal computing times differ by no more than this. */
#define LOOK_NS (QR_MS / 5)
#define BEAT_NS (250 * QR_MS)
/* Firewalls drop connections without traffic after some minutes. */
enum { BEATS_TO_KEEP_OPEN = 32 };
/* A thread that has not polled for this time was computing, stopped or not scheduled. */
#define PAUSED_NS (500 * QR_MS)
#define WARN_AFTER_NS (5 * QR_SECOND) /* then log the member that a reduction waits for */
#define STALLED_AFTER_NS (600 * QR_SECOND)
/* Within this time the control thread reports the actual reason. */
#define BROKEN_FOR_NS (2 * QR_SECOND)
/* Working streams have released their data by then. */
#define GIVEN_BACK_NS (50 * QR_MS)
/* A frozen member's socket may keep its bytes; they are never sent. */
#define ABANDON_WITHIN_NS (QR_SECOND / 2)
#define RELEASE_WITHIN_NS (10 * QR_SECOND)

/* 1 Mbit/s: on a slower line a chunk under way is taken for no data. */
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

static struct mesh_peer *mesh_at_rank(struct qr_mesh *m, uint32_t rank) {
    return &m->peer[m->index_of[rank]];
}

/* ---- marks ---- */

/* Handles a mark of this generation, of a later one (its stream waits for that), or of an earlier
 * one. */
static void mesh_on_mark(struct qr_mesh *m, struct mesh_peer *p, const struct qr_gen_id *id,
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

static bool decode_held_mark(const struct mesh_peer *p, struct qr_gen_id *ret) {
    return p->holding && qr_mark_decode(qr_buf_view(&p->held), ret);
}

/* Drops a held message of an earlier generation; accepts a held mark of this one. */
static void mesh_sort_held(struct qr_mesh *m, struct mesh_peer *p) {
    struct qr_gen_id id;
    bool mark = decode_held_mark(p, &id);
    int order = mark ? qr_gen_id_compare(&id, &m->id) : -1;
    if (order > 0) return;
    if (order == 0 && p->member) p->in = true;
    mesh_release_held(m, p);
}

/* ---- messages ---- */

/* Handles a part of a state: of the state being fetched, or dropped. */
static enum qr_reduction_status mesh_receive_state(struct qr_mesh *m, struct mesh_peer *p,
                                                   struct qr_pieces message, struct qr_err *err) {
    struct qr_state_part part;
    struct qr_bytes bytes;
    if (!m->fetched && !m->reducing) return QR_REDUCTION_DEFERRED;
    if (!m->fetched || p != mesh_at_rank(m, m->fetch_rank) || m->fetch_whole)
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

/* Delivers one message. False: the reduction is lost, with the reason in *err. */
static bool mesh_deliver(struct qr_mesh *m, struct mesh_peer *p, struct qr_pieces message,
                         enum qr_reduction_status *ret, struct qr_err *err) {
    uint8_t name[4];
    *ret = QR_REDUCTION_DEFERRED;
    if (qr_state_part_is(qr_bytes_of(name, qr_pieces_copy(message, sizeof name, name))))
        *ret = mesh_receive_state(m, p, message, err);
    else if (m->reducing) *ret = qr_reduction_message(m->reduction, p->rank, message, err);
    if (*ret == QR_REDUCTION_ACCEPTED) m->progress_ns = mesh_now_ns(m);
    if (*ret == QR_REDUCTION_OTHER_GENERATION) m->dropped++;
    if (*ret != QR_REDUCTION_MALFORMED) return true;
    (void)qr_wrap(err, "%s", p->info.name);
    if (err->code != QR_UNAVAILABLE) return false;
    /* Damaged in transit. Both ends ask for a new generation, which repeats the reduction. */
    qr_warn(m->o.log, "group", "%s; the stream is closed", err->msg);
    if (p->conn) mesh_close(m, p->conn);
    mesh_lose(m, p, "damaged data was received");
    err->code = QR_ABORTED;
    return false;
}

/* Delivers held messages as long as one is accepted. */
static bool mesh_retry_held(struct qr_mesh *m, struct qr_err *err) {
    struct qr_gen_id id;
    for (bool again = m->reducing || m->fetched; again;) {
        again = false;
        for (uint32_t r = 0; r < m->n; r++) {
            struct mesh_peer *p = mesh_at_rank(m, r);
            if (!p->holding || decode_held_mark(p, &id)) continue;
            enum qr_reduction_status taken;
            struct qr_bytes held = qr_buf_view(&p->held);
            if (!mesh_deliver(m, p, qr_pieces_of(&held), &taken, err)) return false;
            if (taken == QR_REDUCTION_DEFERRED) continue;
            again = true;
            mesh_release_held(m, p);
        }
    }
    return true;
}

/* Handles a short message, which belongs to the mesh. False: it is not one. */
static bool mesh_on_short(struct qr_mesh *m, struct mesh_peer *p, struct qr_pieces message) {
    uint8_t room[QR_MARK_BYTES];
    struct qr_gen_id id;
    if (message.n > QR_MARK_BYTES) return false;
    struct qr_bytes bytes = qr_bytes_of(room, qr_pieces_copy(message, sizeof room, room));
    if (qr_mark_decode(bytes, &id)) mesh_on_mark(m, p, &id, message);
    else if (!qr_beat_is(bytes)) return false;
    return true;
}

static bool mesh_on_message(struct qr_mesh *m, const struct qr_link_event *e, struct qr_err *err) {
    struct mesh_peer *p = mesh_by_conn(m, e->conn);
    struct qr_pieces message = e->pieces.n_pieces ? e->pieces : qr_pieces_of(&e->message);
    if (!p || !p->up) {
        uint8_t greeting[QR_GREETING_BYTES + 1]; /* one byte more detects an overlong greeting */
        mesh_on_greeting(m, e->conn,
                         qr_bytes_of(greeting, qr_pieces_copy(message, sizeof greeting, greeting)));
        return true;
    }
    /* The rest of a paused stream is lost when the stream breaks. */
    if (p->holding) return true;
    p->received_ns = mesh_now_ns(m);
    if (mesh_on_short(m, p, message)) return true;
    if (!p->in || m->over) { /* late message of an earlier generation */
        m->dropped += !p->in;
        return true;
    }
    enum qr_reduction_status taken = QR_REDUCTION_DEFERRED;
    if (!mesh_deliver(m, p, message, &taken, err)) return false;
    if (taken == QR_REDUCTION_DEFERRED) mesh_hold(m, p, message);
    return taken != QR_REDUCTION_ACCEPTED || mesh_retry_held(m, err);
}

static enum qr_code mesh_poll(struct qr_mesh *m, int64_t until_ns, struct qr_err *err) {
    struct qr_link_event e;
    m->o.link->ops->poll(m->o.link, until_ns, &e);
    if (e.kind == QR_LINK_UP) mesh_on_up(m, &e);
    else if (e.kind == QR_LINK_DOWN) mesh_on_down(m, &e);
    else if (e.kind == QR_LINK_MESSAGE && !mesh_on_message(m, &e, err)) return err->code;
    return QR_OK;
}

/* ---- waiting ---- */

/* Sets the time that the expected bytes may need on a slow line: one chunk out and one in, or a
 * whole short vector from each member. */
static void mesh_allow_bytes(struct qr_mesh *m, size_t bytes) {
    size_t most = bytes < QR_CHUNK_MAX_BYTES ? bytes * m->n : 2 * QR_CHUNK_MAX_BYTES;
    m->polled.allow_ns = (int64_t)(most / SLOW_BYTES_PER_MS) * QR_MS;
}

/* Sends beats, so that the members know that these streams pass data, and reports to the group from
 * which members messages have arrived. */
static void mesh_send_beats(struct qr_mesh *m, int64_t now) {
    bool to_all = m->n_beats++ % BEATS_TO_KEEP_OPEN == 0;
    for (uint32_t r = 0; r < m->n; r++) {
        struct mesh_peer *p = mesh_at_rank(m, r);
        if (r == m->rank) continue;
        if (p->up && (p->exchanges || to_all))
            (void)m->o.link->ops->send(m->o.link, p->conn, qr_bytes_of(qr_beat, sizeof qr_beat),
                                       (struct qr_bytes){0});
        /* A stream that is not read, or on which nothing is due, cannot be judged. */
        bool is_judged = !p->holding && (p->exchanges || (p->up && !p->in));
        m->polled.received_ns[p->info.index] = is_judged ? p->received_ns : now;
    }
    m->o.polled(m->o.ctx, &m->polled);
}

static void mesh_note_poll(struct qr_mesh *m, int64_t now) {
    if (now - m->polled.turn_ns > PAUSED_NS) m->polled.since_ns = now;
    m->polled.turn_ns = now;
    if (now < m->beat_ns) return;
    m->beat_ns = now + BEAT_NS;
    mesh_check_dials(m);
    if (!m->over) mesh_send_beats(m, now);
}

/* One turn of every wait: reasons to stop, connections that never greet, one event. */
static enum qr_code mesh_turn(struct qr_mesh *m, int64_t until_ns, struct qr_err *err) {
    QR_TRY(m->o.stop(m->o.ctx, err));
    int64_t now = mesh_now_ns(m), slice_ns = now + SLICE_NS;
    if (m->broken_ns && !m->idle && now - m->broken_ns > BROKEN_FOR_NS) {
        const struct mesh_peer *p = &m->peer[m->broken_index];
        return qr_fail(err, QR_UNAVAILABLE, "%s is gone: %s", p->info.name, p->reason);
    }
    mesh_note_poll(m, now);
    mesh_check_pending(m);
    return mesh_poll(m, until_ns < slice_ns ? until_ns : slice_ns, err);
}

static enum qr_code mesh_check_progress(struct qr_mesh *m, bool *warned, struct qr_err *err) {
    int64_t still_ns = mesh_now_ns(m) - m->progress_ns;
    if (still_ns < WARN_AFTER_NS) {
        *warned = false;
        return QR_OK;
    }
    uint32_t r = qr_reduction_waits_for(m->reduction);
    const char *name = r < m->n ? mesh_at_rank(m, r)->info.name : "no member";
    if (still_ns >= STALLED_AFTER_NS)
        return qr_fail(err, QR_DEADLINE_EXCEEDED,
                       "a reduction made no progress for %" PRId64 " s: it waits for %s",
                       still_ns / QR_SECOND, name);
    if (!*warned)
        qr_warn(m->o.log, "group", "a reduction is waiting for %s for %" PRId64 " s", name,
                still_ns / QR_SECOND);
    *warned = true;
    return QR_OK;
}

/* Returns whether data is still being sent. */
static bool mesh_has_unreleased(struct qr_mesh *m) {
    size_t n = m->o.link->ops->unreleased(m->o.link);
    if (n < m->stuck) m->stuck = n;
    return n > m->stuck;
}

/* Waits until the link no longer reads vector and sum, before both return to the caller. */
static enum qr_code mesh_wait_released(struct qr_mesh *m, struct qr_err *err) {
    int64_t by_ns = mesh_now_ns(m) + RELEASE_WITHIN_NS;
    while (mesh_has_unreleased(m)) {
        int64_t now = mesh_now_ns(m);
        if (now >= by_ns)
            return qr_fail(err, QR_UNAVAILABLE,
                           "a data stream has not accepted its data for %lld s: a member or its "
                           "network is stuck",
                           (long long)(RELEASE_WITHIN_NS / QR_SECOND));
        QR_TRY(mesh_turn(m, now + QR_MS / 5, err));
    }
    return QR_OK;
}

enum qr_code qr_mesh_idle(struct qr_mesh *m, int64_t until_ns, struct qr_err *err) {
    m->idle = true;
    enum qr_code code = mesh_turn(m, until_ns, err);
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
        if (!decode_held_mark(&m->peer[i], &id)) mesh_release_held(m, &m->peer[i]);
}

void qr_mesh_await(struct qr_mesh *m, const struct qr_gen_id *id) {
    struct qr_gen_id held;
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (decode_held_mark(&m->peer[i], &held) && !(id && qr_gen_id_compare(&held, id) == 0))
            mesh_release_held(m, &m->peer[i]);
}

/* After a failure: closes streams that still read the caller's memory. They are dialed again. */
static void mesh_abandon(struct qr_mesh *m) {
    /* Events are handled as usual, but nothing more can fail. */
    struct qr_err ignored;
    qr_mesh_leave(m);
    int64_t by_ns = mesh_now_ns(m) + GIVEN_BACK_NS;
    while (mesh_has_unreleased(m) && mesh_now_ns(m) < by_ns)
        (void)mesh_poll(m, mesh_now_ns(m) + QR_MS, &ignored);
    if (!mesh_has_unreleased(m)) return;
    for (uint32_t r = 0; r < m->n; r++) {
        struct mesh_peer *p = mesh_at_rank(m, r);
        if (p->conn) mesh_close(m, p->conn);
        mesh_lose(m, p, "it did not accept its data");
    }
    by_ns = mesh_now_ns(m) + ABANDON_WITHIN_NS;
    while (mesh_has_unreleased(m) && mesh_now_ns(m) < by_ns)
        (void)mesh_poll(m, mesh_now_ns(m) + QR_MS, &ignored);
}

static void mesh_begin_generation(struct qr_mesh *m, const struct qr_gen_id *id,
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
        struct mesh_peer *p = mesh_at_rank(m, r);
        if (r == rank) continue;
        p->member = true;
        p->rank = r;
        p->exchanges = members[r].passes_state || qr_schedule_pairs(n_members, rank, r);
        struct qr_mesh_member member = members[r];
        if (p->exchanges) member.later = false;
        qr_mesh_expect(m, &member);
        if (p->up) mesh_send_mark(m, p);
    }
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) mesh_sort_held(m, &m->peer[i]);
}

/* Returns the first rank that is needed and has not joined yet, or n. */
static uint32_t mesh_missing_rank(struct qr_mesh *m) {
    uint32_t missing = m->n;
    for (uint32_t r = 0; r < m->n; r++) {
        struct mesh_peer *p = mesh_at_rank(m, r);
        if (r == m->rank) continue;
        if (p->mark_due && p->up) mesh_send_mark(m, p);
        bool is_here = !p->mark_due && (p->in || !p->exchanges);
        if (!is_here && missing == m->n) missing = r;
    }
    return missing;
}

enum qr_code qr_mesh_form(struct qr_mesh *m, const struct qr_gen_id *id,
                          const struct qr_mesh_member *members, uint32_t n_members, uint32_t rank,
                          int64_t deadline_ns, struct qr_err *err) {
    QR_ASSERT(n_members >= 1 && n_members <= QR_MAX_MEMBERS && rank < n_members);
    mesh_begin_generation(m, id, members, n_members, rank);
    int64_t all_in_ns = 0;
    enum qr_code code = QR_OK;
    while (code == QR_OK) {
        uint32_t missing = mesh_missing_rank(m);
        if (missing == n_members && !all_in_ns) all_in_ns = mesh_now_ns(m);
        if (missing == n_members && mesh_now_ns(m) - all_in_ns > ABANDON_WITHIN_NS)
            m->stuck = m->o.link->ops->unreleased(m->o.link);
        if (missing == n_members && !m->broken_ns && !mesh_has_unreleased(m)) break;
        if (mesh_now_ns(m) >= deadline_ns) {
            const struct qr_mesh_member *member = &members[missing % n_members];
            code = qr_fail(err, QR_DEADLINE_EXCEEDED,
                           "no data from %s (data port at %s) in time: check that the port is open "
                           "between the pods",
                           member->name, member->address);
        } else {
            code = mesh_turn(m, deadline_ns, err);
        }
    }
    if (code != QR_OK) qr_mesh_leave(m);
    return code;
}

/* ---- transfer of a state ---- */

static enum qr_code mesh_send_state(struct qr_mesh *m, struct mesh_peer *p, struct qr_bytes state,
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
        code = mesh_turn(m, mesh_now_ns(m) + QR_MS, err);
        if (code == QR_OK && mesh_now_ns(m) >= deadline_ns)
            code = qr_fail(err, QR_DEADLINE_EXCEEDED, "%s does not accept the state that it lacks",
                           p->info.name);
    }
    return code == QR_OK ? mesh_wait_released(m, err) : code;
}

enum qr_code qr_mesh_give(struct qr_mesh *m, uint32_t rank, struct qr_bytes state,
                          int64_t deadline_ns, struct qr_err *err) {
    mesh_allow_bytes(m, state.n);
    enum qr_code code = mesh_send_state(m, mesh_at_rank(m, rank), state, deadline_ns, err);
    if (code != QR_OK) mesh_abandon(m);
    return code;
}

enum qr_code qr_mesh_fetch(struct qr_mesh *m, uint32_t rank, struct qr_buf *ret,
                           int64_t deadline_ns, struct qr_err *err) {
    enum qr_code code = QR_OK;
    mesh_allow_bytes(m, QR_CHUNK_MAX_BYTES); /* length not known yet */
    m->fetched = ret;
    m->fetch_rank = rank;
    m->fetch_whole = false;
    if (!mesh_retry_held(m, err)) code = err->code;
    while (code == QR_OK && !m->fetch_whole) {
        code = mesh_turn(m, deadline_ns, err);
        if (code == QR_OK && !m->fetch_whole && mesh_now_ns(m) >= deadline_ns)
            code = qr_fail(err, QR_DEADLINE_EXCEEDED,
                           "%s does not send the state that this worker lacks",
                           mesh_at_rank(m, rank)->info.name);
    }
    m->fetched = NULL;
    if (code != QR_OK) qr_mesh_leave(m);
    return code;
}

/* ---- reductions ---- */

/* Reports a stream that broke between reductions. */
static void mesh_report_lost(struct qr_mesh *m) {
    for (uint32_t r = 0; r < m->n && !m->broken_ns; r++) {
        struct mesh_peer *p = mesh_at_rank(m, r);
        if (r == m->rank || !p->lost) continue;
        m->broken_ns = mesh_now_ns(m);
        m->broken_index = p->info.index;
        m->o.down(m->o.ctx, p->info.index, p->reason, true);
        /* It is already replaced. */
        if (p->up) m->o.up(m->o.ctx, p->info.index, p->info.incarnation);
    }
}

/* A reduction without waits (mainly a ring of one) polls nothing; handle pending events anyway. */
static enum qr_code mesh_poll_late(struct qr_mesh *m, struct qr_err *err) {
    int64_t now = mesh_now_ns(m);
    if (now - m->polled.turn_ns < SLICE_NS) return QR_OK;
    return mesh_turn(m, now, err);
}

/* The members that a reduction waits for, as profiler spans. */
struct wait {
    int64_t began_ns; /* 0: no capture is running */
    uint32_t rank;
};

static void mesh_note_wait(struct qr_mesh *m, struct wait *w) {
    int64_t now_ns = qr_span_begin();
    if (!now_ns && !w->began_ns) return;
    uint32_t rank = qr_reduction_waits_for(m->reduction);
    if (w->began_ns && rank == w->rank) return;
    if (w->rank < m->n) qr_span_end(w->began_ns, QR_SPAN_WAIT, NULL, m->index_of[w->rank]);
    *w = (struct wait){now_ns, rank};
}

static enum qr_code mesh_run_reduction(struct qr_mesh *m, struct qr_err *err) {
    struct wait wait = {0};
    enum qr_code code = QR_OK;
    bool warned = false;
    m->reducing = true;
    m->o.link->look_ns = LOOK_NS;
    mesh_report_lost(m);
    if (!mesh_retry_held(m, err)) code = err->code;
    if (code == QR_OK) code = mesh_poll_late(m, err);
    while (code == QR_OK && !qr_reduction_done(m->reduction)) {
        mesh_note_wait(m, &wait);
        code = mesh_turn(m, INT64_MAX, err);
        if (code == QR_OK) qr_reduction_pump(m->reduction);
        if (code == QR_OK) code = mesh_check_progress(m, &warned, err);
    }
    mesh_note_wait(m, &wait);
    if (code == QR_OK) m->reducing = false;
    if (code == QR_OK) code = mesh_wait_released(m, err);
    m->o.link->look_ns = 0;
    return code;
}

enum qr_code qr_mesh_reduce(struct qr_mesh *m, enum qr_allreduce allreduce,
                            const struct qr_contribution *c, qr_fixed *ret_sum,
                            struct qr_err *err) {
    for (uint32_t r = 0; r < m->n; r++) m->conn[r] = r == m->rank ? 0 : mesh_at_rank(m, r)->conn;
    struct qr_reduction_args args = {.link = m->o.link,
                                     .conn = m->conn,
                                     .n_ranks = m->n,
                                     .rank = m->rank,
                                     .generation = m->generation,
                                     .allreduce = allreduce,
                                     .contribution = c,
                                     .sum = ret_sum};
    m->progress_ns = mesh_now_ns(m);
    mesh_allow_bytes(m, c->n * sizeof *c->vector);
    QR_TRY(qr_reduction_begin(m->reduction, &args, err));
    enum qr_code code = mesh_run_reduction(m, err);
    if (code != QR_OK) {
        mesh_abandon(m);
        return code;
    }
    return qr_reduction_check(m->reduction, err);
}
