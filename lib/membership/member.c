/* membership/member.c — the membership machine: connections, liveness of peers, and the ways to
 * end. Start reading at qr_member_message() and member_consider().
 */
#include "membership/member.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "membership/member_impl.h"

static void member_emit(struct qr_member *m, const struct qr_member_action *a) {
    m->emit(m->ctx, a);
}

void member_log(struct qr_member *m, enum qr_log_level level, const char *fmt, ...) {
    char line[QR_ERR_MSG_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    member_emit(m, &(struct qr_member_action){.kind = QR_ACT_LOG, .level = level, .text = line});
}

const char *qr_member_peer_text(struct qr_member *m, uint32_t index) {
    const struct peer *p = &m->peer[index];
    const char *address = index < m->opt.n_peers ? m->opt.peers[index]
                          : *p->address          ? p->address
                          : *p->at               ? p->at
                                                 : p->hint;
    snprintf(m->peer_text, sizeof m->peer_text, "%s %u%s%.256s%s",
             index < m->opt.n_servers ? "parameter server" : "worker", index, *address ? " (" : "",
             address, *address ? ")" : "");
    return m->peer_text;
}

bool member_in_generation(const struct qr_member *m, uint32_t index) {
    for (uint32_t r = 0; m->formed && r < m->generation.begin.n_members; r++)
        if (m->generation.begin.member[r].name.index == index) return true;
    return false;
}

/* Checks that the process now at this index is the one of the last generation. */
static bool member_is_of_generation(const struct qr_member *m, uint32_t index) {
    for (uint32_t r = 0; r < m->generation.begin.n_members; r++) {
        const struct qr_member_name *name = &m->generation.begin.member[r].name;
        if (name->index == index) return same_inc(name->incarnation, m->peer[index].incarnation);
    }
    return false;
}

struct member_conn *member_conn(struct qr_member *m, uint32_t id) {
    for (struct member_conn *c = m->conns; c < m->conns + MAX_CONNS; c++)
        if (c->state != CONN_FREE && c->id == id) return c;
    return NULL;
}

void member_send(struct qr_member *m, uint32_t conn) {
    member_emit(m,
                &(struct qr_member_action){.kind = QR_ACT_SEND, .conn = conn, .message = &m->out});
}

void member_broadcast(struct qr_member *m) {
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (m->peer[i].connected) member_send(m, m->peer[i].conn);
}

/* Marks the connection as closed. After the last connection of a peer with other settings, the
 * mismatch expires MISMATCH_KEEP_NS later. */
static void free_connection(struct qr_member *m, struct member_conn *c) {
    bool last = c->state == CONN_MISMATCH;
    c->state = CONN_FREE;
    for (const struct member_conn *o = m->conns; o < m->conns + MAX_CONNS; o++)
        last = last && !(o->state == CONN_MISMATCH && o->index == c->index);
    if (last) m->peer[c->index].mismatch.down_ns = m->now_ns;
}

void member_close(struct qr_member *m, struct member_conn *c) {
    member_emit(m, &(struct qr_member_action){.kind = QR_ACT_CLOSE, .conn = c->id});
    free_connection(m, c);
    if (c->outgoing) member_dial_rejected(m, c->tag);
}

void member_heartbeat(struct qr_member *m) {
    struct qr_heartbeat *h = &m->out.heartbeat;
    m->out.kind = QR_MESSAGE_HEARTBEAT;
    memset(h, 0, sizeof *h);
    h->sequence = ++m->sequence;
    memcpy(h->incarnation, m->opt.incarnation, sizeof h->incarnation);
    if (m->active) h->active = m->generation.begin.id;
    h->promised = m->promised;
    h->highest_number = m->highest;
    h->refusals = m->held.refusals;
    h->applied_reductions = m->held.applied_reductions;
    h->committed_reductions = m->held.committed_reductions;
    h->phase = m->ending ? QR_PHASE_DONE : m->formed ? QR_PHASE_MEMBER : QR_PHASE_STARTING;
    h->form_expired = !m->formed && m->now_ns - m->start_ns >= m->opt.form_timeout_ns;
    h->trainer_turns = m->turns;
    h->expected_micro_batch_ms = m->micro_batch_ms;
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (member_reaches(m, i)) {
            h->heard[h->n_heard].index = i;
            memcpy(h->heard[h->n_heard++].incarnation, m->peer[i].incarnation,
                   QR_INCARNATION_BYTES);
        }
    /* Without recent polls the training thread is computing and sends no beats. */
    bool polls = m->now_ns - m->polled.turn_ns < POLLS_NS;
    h->polled_ms = polls ? (uint64_t)((m->polled.turn_ns - m->polled.since_ns) / MS(1)) : 0;
    h->no_data = member_no_data(m);
    if (m->formed) h->common = m->common;
}

static int64_t count_beyond_few(const struct qr_member *m) {
    int64_t n = -FEW_PEERS;
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) n += m->peer[i].connected;
    return n > 0 ? n : 0;
}

int64_t member_forming_ns(const struct qr_member *m) {
    return m->formed ? 0 : count_beyond_few(m) * FORMING_GAP_NS;
}

void member_heartbeats(struct qr_member *m) {
    member_heartbeat(m);
    m->broadcast_ns = m->now_ns;
    m->beat_ns = m->now_ns + QR_MEMBER_HEARTBEAT_NS + member_forming_ns(m);
    member_broadcast(m);
}

void member_heartbeats_soon(struct qr_member *m) {
    int64_t at_ns =
        m->broadcast_ns + count_beyond_few(m) * CHANGE_GAP_NS + member_forming_ns(m) / 2;
    if (m->now_ns >= at_ns) member_heartbeats(m);
    else if (at_ns < m->beat_ns) m->beat_ns = at_ns;
}

/* ---- leaving ---- */
static void send_goodbye(struct qr_member *m, enum qr_goodbye_reason why, enum qr_code code,
                         const char *text) {
    struct qr_goodbye *g = &m->out.goodbye;
    m->out.kind = QR_MESSAGE_GOODBYE;
    *g = (struct qr_goodbye){.why = why, .code = code};
    qr_text_cut(g->text, sizeof g->text, text);
    member_broadcast(m);
    for (struct member_conn *c = m->conns; c < m->conns + MAX_CONNS; c++)
        if (c->state == CONN_MISMATCH) member_send(m, c->id);
}

void member_stop(struct qr_member *m, enum qr_code code, enum qr_goodbye_reason why,
                 const char *text) {
    if (m->over) return;
    char kept[QR_ERR_MSG_BYTES];
    snprintf(kept, sizeof kept, "%s", text);
    send_goodbye(m, why, code, kept);
    m->over = true;
    m->active = false;
    member_emit(m, &(struct qr_member_action){.kind = QR_ACT_STOP, .code = code, .text = kept});
}

void member_end_all(struct qr_member *m, enum qr_code code, const char *text) {
    m->out.kind = QR_MESSAGE_DONE;
    m->out.done = (struct qr_done){.code = code};
    qr_text_cut(m->out.done.text, sizeof m->out.done.text, text);
    member_broadcast(m);
    member_stop(m, code, QR_GOODBYE_LEAVING, text);
}

void member_finish(struct qr_member *m, enum qr_code code, const char *text) {
    if (m->over) return;
    char kept[QR_MESSAGE_TEXT_BYTES];
    qr_text_cut(kept, sizeof kept, text);
    send_goodbye(m, QR_GOODBYE_DONE, code, kept);
    m->over = true;
    m->active = false;
    member_emit(m, &(struct qr_member_action){.kind = QR_ACT_DONE, .code = code, .text = kept});
}

/* Handles the loss of a peer: its connection broke, it fell silent, or it left. */
static void note_peer_lost(struct qr_member *m, uint32_t index, const char *reason) {
    const struct peer *p = &m->peer[index];
    if (m->promised.index == index && same_inc(m->promised.incarnation, p->incarnation))
        m->promise_exclusive = false;
    if (m->over || m->ending) return;
    /* The departure of this peer was logged already; a warning here would hide an earlier error. */
    member_log(m, p->gone ? QR_LOG_DEBUG : QR_LOG_WARNING, "%s: %s", qr_member_peer_text(m, index),
               reason);
    member_heartbeats_soon(m);
}

void member_peer_down(struct qr_member *m, uint32_t index, const char *reason) {
    struct peer *p = &m->peer[index];
    if (!p->connected) return;
    bool was_silent = p->silent;
    p->connected = p->silent = false;
    member_dial_down(m, index);
    if (!was_silent) note_peer_lost(m, index, reason);
}

/* Any message is a sign of life of the peer. */
static void note_received(struct qr_member *m, uint32_t index) {
    struct peer *p = &m->peer[index];
    p->received_ns = m->now_ns;
    if (!p->silent) return;
    p->silent = false;
    member_log(m, QR_LOG_INFO, "%s answers again", qr_member_peer_text(m, index));
    member_reset_backoff(m);
    member_heartbeats_soon(m);
}

/* ---- events ---- */
struct qr_member *qr_member_new(const struct qr_member_options *opt, qr_member_emit_fn *emit_fn,
                                void *ctx) {
    QR_ASSERT(opt->n_peers >= 1 && opt->n_peers <= QR_MAX_MEMBERS && opt->index < QR_MAX_MEMBERS);
    struct qr_member *m = qr_xcalloc(1, sizeof *m);
    m->opt = *opt;
    m->emit = emit_fn;
    m->ctx = ctx;
    m->own = (struct qr_common){.epochs = 1, .allreduce = opt->allreduce, .places = opt->places};
    size_t n_computing = opt->n_peers > opt->n_servers ? opt->n_peers - opt->n_servers : 1;
    m->own.min_workers = opt->min_workers   ? opt->min_workers
                         : opt->count_known ? (unsigned)(n_computing + 1) / 2
                                            : 1;
    m->random = opt->seed ^ UINT64_C(0x9e3779b97f4a7c15);
    m->peer[opt->index].known = true;
    m->peer[opt->index].server = opt->server;
    memcpy(m->peer[opt->index].incarnation, opt->incarnation, QR_INCARNATION_BYTES);
    return m;
}

void qr_member_free(struct qr_member *m) { free(m); }

/* Advances the time. A gap long after the deadline means that this process was stopped or not
 * scheduled. The gap counts neither as silence of the peers nor towards the form timeout or the
 * time limit of a connection. */
void member_advance(struct qr_member *m, int64_t now_ns) {
    int64_t gap = now_ns - m->now_ns;
    if (m->started && gap > QR_MEMBER_HEARTBEAT_NS + LATE_TICK_NS) {
        for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) {
            struct peer *p = &m->peer[i];
            p->received_ns += gap;
            p->turns_ns += gap;
            p->data_since_ns += gap;
            if (p->dial.at_ns) p->dial.at_ns += gap;
            if (p->dial.until_ns) p->dial.until_ns += gap;
        }
        for (struct member_conn *c = m->conns; c < m->conns + MAX_CONNS; c++) c->since_ns += gap;
        m->start_ns += gap;
        m->newcomer_ns += gap;
        m->idle_ns += gap;
        if (!m->over && gap > QR_MEMBER_HEARTBEAT_NS + STALL_NS)
            member_log(m, QR_LOG_WARNING,
                       "this worker's control thread was not scheduled for %.1f s",
                       (double)gap / 1e9);
    }
    if (gap > 0) m->now_ns = now_ns;
}

void qr_member_start(struct qr_member *m, int64_t now_ns) {
    m->now_ns = m->start_ns = m->newcomer_ns = m->idle_ns = now_ns;
    m->beat_ns = now_ns + QR_MEMBER_HEARTBEAT_NS;
    m->started = true;
    member_dial_first(m);
    member_consider(m);
}

void qr_member_up(struct qr_member *m, int64_t now_ns, uint32_t conn, bool outgoing, uint32_t tag) {
    member_advance(m, now_ns);
    struct member_conn *c = m->conns;
    while (c < m->conns + MAX_CONNS && c->state != CONN_FREE) c++;
    if (c == m->conns + MAX_CONNS || m->over) {
        member_emit(m, &(struct qr_member_action){.kind = QR_ACT_CLOSE, .conn = conn});
        if (!m->over)
            member_log(m, QR_LOG_WARNING, "a connection was closed: %d are already open",
                       MAX_CONNS);
        return;
    }
    *c = (struct member_conn){
        .state = CONN_NEW, .id = conn, .tag = tag, .outgoing = outgoing, .since_ns = m->now_ns};
    member_send_hello(m, conn);
}

void qr_member_set_host(struct qr_member *m, uint32_t conn, const char *host) {
    struct member_conn *c = member_conn(m, conn);
    if (c && qr_ip_ok(host)) memcpy(c->host, host, strlen(host) + 1);
}

void qr_member_down(struct qr_member *m, int64_t now_ns, uint32_t conn, const char *reason) {
    member_advance(m, now_ns);
    struct member_conn *c = member_conn(m, conn);
    if (c == NULL) return;
    enum conn_state was = c->state;
    free_connection(m, c);
    bool only = was == CONN_PEER && m->peer[c->index].connected && m->peer[c->index].conn == conn;
    if (only && !member_use_spare(m, c->index)) {
        snprintf(m->text, sizeof m->text, "the connection broke (%.200s)",
                 reason && *reason ? reason : "closed by the other side");
        member_peer_down(m, c->index, m->text);
    }
    member_consider(m);
}

static void member_on_heartbeat(struct qr_member *m, uint32_t from, const struct qr_heartbeat *h) {
    struct peer *p = &m->peer[from];
    if (!same_inc(h->incarnation, p->incarnation) || h->sequence <= p->beat.sequence) return;
    bool moved = h->trainer_turns != p->beat.trainer_turns || h->expected_micro_batch_ms == 0;
    /* A Busy answer may be outdated: the state in which one member has stopped listing a lost peer
     * and another has not yet lasts only a moment. */
    if (h->n_heard != p->beat.n_heard ||
        memcmp(h->heard, p->beat.heard, h->n_heard * sizeof *h->heard) != 0)
        member_reset_backoff(m);
    uint64_t no_data = p->beat.no_data;
    p->beat = *h;
    p->beat_ns = m->now_ns;
    member_reports_changed(m, from);
    if (h->active.number) p->worked_ns = m->now_ns;
    member_on_no_data(m, from, no_data, h->no_data);
    if (moved) {
        p->turns_ns = m->now_ns;
        if (p->frozen) {
            p->frozen = false;
            member_log(m, QR_LOG_INFO, "%s: training thread makes progress again",
                       qr_member_peer_text(m, from));
        }
    }
    if (h->highest_number > m->highest) m->highest = h->highest_number;
}

/* A parameter server keeps its state for workers that return. When the last worker of its
 * generation has failed permanently, none will return. */
static void end_after_last_worker(struct qr_member *m, const struct qr_goodbye *g) {
    const struct qr_begin *b = &m->generation.begin;
    if (!m->opt.server || m->ending) return;
    for (uint32_t r = 0; r < b->n_members; r++) {
        const struct qr_member_name *name = &b->member[r].name;
        const struct peer *p = &m->peer[name->index];
        bool failed = p->gone && p->failed && same_inc(p->incarnation, name->incarnation);
        if (!b->member[r].server && !failed) return;
    }
    member_stop(m, g->code, QR_GOODBYE_LEAVING, g->text);
}

static void member_on_goodbye(struct qr_member *m, struct member_conn *c,
                              const struct qr_goodbye *g) {
    uint32_t from = c->index;
    if (c->state == CONN_MISMATCH) {
        if (g->why == QR_GOODBYE_REFUSED) member_mismatch_goodbye(m, from);
        return;
    }
    struct peer *p = &m->peer[from];
    bool is_member = m->formed && member_is_of_generation(m, from);
    /* Chunks that the peer sent last may still arrive; its data stream closes by itself. */
    bool ends = is_member && g->why == QR_GOODBYE_DONE;
    p->gone = true;
    p->failed = g->why == QR_GOODBYE_LEAVING && qr_exit_code(g->code) < 128 && g->code != QR_OK;
    if (!ends) member_emit(m, &(struct qr_member_action){.kind = QR_ACT_PEER_GONE, .index = from});
    /* The same as when the connection breaks. */
    if (m->promised.index == from && same_inc(m->promised.incarnation, p->incarnation))
        m->promise_exclusive = false;
    switch (g->why) {
    case QR_GOODBYE_CLAIMED:
        snprintf(m->text, sizeof m->text,
                 "another process claimed index %u (reported by %s): this process is an older "
                 "instance or a duplicate, and exits",
                 m->opt.index, qr_member_peer_text(m, from));
        member_stop(m, QR_UNAVAILABLE, QR_GOODBYE_LEAVING, m->text);
        return;
    case QR_GOODBYE_DONE:
        m->others_done = m->others_done ||
                         (!m->formed && g->code == QR_OK && p->beat.phase != QR_PHASE_STARTING);
        if (!is_member || m->ending) return;
        member_finish(m, g->code, g->text);
        return;
    case QR_GOODBYE_LEAVING:
    case QR_GOODBYE_REFUSED: break;
    }
    bool clean = g->code == QR_OK || g->code == QR_CANCELLED;
    member_log(m, clean ? QR_LOG_INFO : QR_LOG_WARNING, "%s left: %.400s",
               qr_member_peer_text(m, from), g->text);
    member_heartbeats_soon(m);
    if (is_member && p->failed) end_after_last_worker(m, g);
}

/* Accepts a Done from the leader, or from the promised proposer, which found no state to continue
 * from. A newcomer also accepts a failure from any member: alone it would repeat the failed run. */
static bool may_end_run(const struct qr_member *m, uint32_t from, const struct qr_done *d) {
    const struct qr_member_name *leader = &m->generation.begin.member[0].name;
    /* A newcomer at the leader's index is not the leader. */
    const uint8_t *incarnation = m->peer[from].incarnation;
    bool promised = m->promised.number && m->promised.index == from &&
                    same_inc(m->promised.incarnation, incarnation);
    bool leads = m->formed && leader->index == from && same_inc(leader->incarnation, incarnation);
    return promised || leads ||
           (!m->formed && d->code != QR_OK && m->peer[from].beat.phase == QR_PHASE_MEMBER);
}

void qr_member_message(struct qr_member *m, int64_t now_ns, uint32_t conn,
                       const struct qr_message *msg) {
    member_advance(m, now_ns);
    struct member_conn *c = member_conn(m, conn);
    if (c == NULL || m->over) return;
    if (msg->kind == QR_MESSAGE_HELLO) member_on_hello(m, c, &msg->hello);
    else if (msg->kind == QR_MESSAGE_FIELD) member_on_field(m, c, &msg->field);
    else if (msg->kind == QR_MESSAGE_GOODBYE && c->state != CONN_NEW)
        member_on_goodbye(m, c, &msg->goodbye);
    else if (c->state == CONN_PEER) {
        uint32_t from = c->index;
        note_received(m, from);
        switch (msg->kind) {
        case QR_MESSAGE_HEARTBEAT: member_on_heartbeat(m, from, &msg->heartbeat); break;
        case QR_MESSAGE_PROPOSE: member_on_propose(m, from, &msg->propose); break;
        case QR_MESSAGE_PROMISE: member_on_promise(m, from, &msg->promise); break;
        case QR_MESSAGE_BUSY: member_on_busy(m, &msg->busy); break;
        case QR_MESSAGE_BEGIN: member_on_begin(m, from, &msg->begin); break;
        case QR_MESSAGE_ADDRESSES: member_on_addresses(m, &msg->addresses); break;
        case QR_MESSAGE_DONE:
            if (!m->ending && may_end_run(m, from, &msg->done))
                member_finish(m, msg->done.code, msg->done.text);
            break;
        default: break;
        }
    }
    member_consider(m);
}

void qr_member_malformed(struct qr_member *m, int64_t now_ns, uint32_t conn, const char *what) {
    member_advance(m, now_ns);
    struct member_conn *c = member_conn(m, conn);
    if (c == NULL || m->over) return;
    enum conn_state was = c->state;
    uint32_t index = c->index;
    member_log(m, QR_LOG_WARNING, "a connection was closed: %s", what);
    member_close(m, c);
    if (was == CONN_PEER) {
        snprintf(m->text, sizeof m->text, "it sent a malformed message (%.300s)", what);
        member_peer_down(m, index, m->text);
    }
    member_consider(m);
}

/* ---- time ---- */

/* Five heartbeats. The limit after which the connection is dropped is 16 heartbeats, or 20 while
 * forming. */
static int64_t silence_limit_ns(const struct qr_member *m) {
    return QR_MEMBER_TIMEOUT_NS + 5 * member_forming_ns(m);
}
static int64_t drop_limit_ns(const struct qr_member *m) {
    return GIVE_UP_NS + 20 * member_forming_ns(m);
}

/* The peer may only lack processor time, so its connection stays: a new handshake costs more. */
static void mark_silent(struct qr_member *m, uint32_t i, int64_t quiet_ns) {
    struct peer *p = &m->peer[i];
    member_dropped(m, p);
    p->fell_silent = p->silent = true;
    snprintf(m->text, sizeof m->text, "silent for %.2f s", (double)quiet_ns / 1e9);
    note_peer_lost(m, i, m->text);
}

/* TCP would retransmit at growing intervals, also after the network path has recovered. */
static void drop_silent_peer(struct qr_member *m, uint32_t i) {
    struct member_conn *c = member_conn(m, m->peer[i].conn);
    if (c) member_close(m, c);
    member_data_renew(m, i);
    m->peer[i].connected = m->peer[i].silent = false;
    member_dial_down(m, i);
}

static void check_peer(struct qr_member *m, uint32_t i) {
    struct peer *p = &m->peer[i];
    member_check_dial(m, i);
    /* Independent of the control connection. */
    bool broken = p->data_broken_ns && m->now_ns - p->data_broken_ns >= DATA_SETTLE_NS;
    if (broken && m->active && member_in_generation(m, i) && !m->ending) m->need_new = true;
    if (!p->connected) return;
    member_check_data(m, i);
    int64_t quiet = m->now_ns - p->received_ns;
    if (quiet >= silence_limit_ns(m) && !p->silent) mark_silent(m, i, quiet);
    if (quiet >= drop_limit_ns(m)) drop_silent_peer(m, i);
    if (p->silent) return;
    if (!m->active || !member_in_generation(m, i) || p->gone || m->ending) return;
    int64_t limit = (int64_t)p->beat.expected_micro_batch_ms > FROZEN_NS / MS(1) / 5
                        ? 5 * MS(p->beat.expected_micro_batch_ms)
                        : FROZEN_NS;
    int64_t stalled_ns = m->now_ns - p->turns_ns;
    if (p->beat.expected_micro_batch_ms && !p->frozen && stalled_ns >= limit) {
        p->frozen = true;
        member_log(m, QR_LOG_WARNING, "%s: training thread has made no progress for %.1f s",
                   qr_member_peer_text(m, i), (double)stalled_ns / 1e9);
    }
}

static void check_end(struct qr_member *m) {
    if (!m->ending || m->over) return;
    bool all = true;
    for (uint32_t r = 0; m->formed && r < m->generation.begin.n_members; r++) {
        uint32_t i = m->generation.begin.member[r].name.index;
        all = all && (i == m->opt.index || !is_responding(&m->peer[i]) || m->peer[i].gone);
    }
    if (!all && m->now_ns - m->end_ns < GOODBYES_NS) return;
    if (!all)
        member_log(m, QR_LOG_WARNING, "not every worker sent a goodbye within %.0f s",
                   (double)GOODBYES_NS / 1e9);
    member_finish(m, m->end_code, m->end_text);
}

void qr_member_tick(struct qr_member *m, int64_t now_ns) {
    member_advance(m, now_ns);
    member_consider(m);
}

/* Runs every check that time or a change of the peers may trigger. */
static void check_all_peers(struct qr_member *m) {
    for (uint32_t i = 0; i < QR_MAX_MEMBERS && !m->over; i++) check_peer(m, i);
    for (struct member_conn *c = m->conns; c < m->conns + MAX_CONNS && !m->over; c++) {
        if (c->state == CONN_NEW && m->now_ns - c->since_ns >= HELLO_WAIT_NS) member_close(m, c);
        member_check_spare(m, c);
    }
    if (!m->over) member_send_hints(m);
    if (!m->over) check_end(m);
    if (!m->over && m->now_ns >= m->beat_ns) member_heartbeats(m);
}

void member_consider(struct qr_member *m) {
    if (!m->started || m->over) return;
    check_all_peers(m);
    if (!m->over) member_check_mismatch(m);
    if (!m->over && !m->ending) member_consider_proposing(m);
}

static void lower_deadline(int64_t *at, int64_t t) {
    if (t < *at) *at = t;
}

int64_t qr_member_deadline_ns(const struct qr_member *m) {
    int64_t at = m->beat_ns < m->now_ns + QR_MEMBER_HEARTBEAT_NS
                     ? m->beat_ns
                     : m->now_ns + QR_MEMBER_HEARTBEAT_NS;
    if (m->over || !m->started) return m->now_ns + QR_MEMBER_HEARTBEAT_NS;
    int64_t given_up_ns = drop_limit_ns(m), silent_ns = silence_limit_ns(m);
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) {
        const struct peer *p = &m->peer[i];
        lower_deadline(&at, member_dial_due_ns(m, i));
        if (p->connected)
            lower_deadline(&at, p->received_ns + (p->silent ? given_up_ns : silent_ns));
        int64_t settled_ns = p->data_broken_ns + DATA_SETTLE_NS;
        if (p->data_broken_ns && settled_ns > m->now_ns) lower_deadline(&at, settled_ns);
    }
    if (m->pending.on) lower_deadline(&at, m->pending.sent_ns + PROMISE_WAIT_NS);
    if (m->backoff_until_ns > m->now_ns) lower_deadline(&at, m->backoff_until_ns);
    if (m->ending) lower_deadline(&at, m->end_ns + GOODBYES_NS);
    if (!m->formed && m->start_ns + m->opt.form_timeout_ns > m->now_ns)
        lower_deadline(&at, m->start_ns + m->opt.form_timeout_ns);
    return at > m->now_ns ? at : m->now_ns + 1;
}

/* ---- state reported by the caller ---- */
void qr_member_set_held(struct qr_member *m, const struct qr_held *held) { m->held = *held; }
void qr_member_set_turns(struct qr_member *m, uint64_t turns, int64_t expected_micro_batch_ns) {
    m->turns = turns;
    m->micro_batch_ms =
        expected_micro_batch_ns <= 0 ? 0 : (uint64_t)expected_micro_batch_ns / 1000000 + 1;
}

void qr_member_coverage_rejected(struct qr_member *m, int64_t now_ns) {
    member_advance(m, now_ns);
    m->need_new = true;
    member_consider(m);
}

void qr_member_end(struct qr_member *m, int64_t now_ns, enum qr_code code, const char *text) {
    member_advance(m, now_ns);
    if (m->over || m->ending) return;
    m->ending = true;
    m->end_ns = m->now_ns;
    m->end_code = code;
    qr_text_cut(m->end_text, sizeof m->end_text, text ? text : "");
    m->out.kind = QR_MESSAGE_DONE;
    m->out.done = (struct qr_done){.code = code};
    memcpy(m->out.done.text, m->end_text, sizeof m->end_text);
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (m->peer[i].connected && member_in_generation(m, i)) member_send(m, m->peer[i].conn);
    member_consider(m);
}

void qr_member_leave(struct qr_member *m, int64_t now_ns, enum qr_code code, const char *why) {
    member_advance(m, now_ns);
    if (m->over) return;
    send_goodbye(m, QR_GOODBYE_LEAVING, code, why ? why : "");
    m->over = true;
    m->active = false;
}

uint32_t qr_member_conn(const struct qr_member *m, uint32_t index) {
    return index < QR_MAX_MEMBERS && m->peer[index].connected ? m->peer[index].conn : 0;
}

unsigned qr_member_n_connected(const struct qr_member *m) {
    unsigned n = 0;
    for (uint32_t i = 0; i < m->opt.n_peers; i++) n += is_responding(&m->peer[i]);
    return n;
}
