/* membership/member.c — the membership machine: a handler for each event, and the checks that
 * follow every one. Start reading at qr_member_handle().
 */
#include "membership/member.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "membership/member_impl.h"

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
static void advance_time(struct qr_member *m, int64_t now_ns) {
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

/* ---- events: connections ---- */

static void on_start(struct qr_member *m, const struct qr_member_event *e) {
    (void)e;
    m->start_ns = m->newcomer_ns = m->idle_ns = m->now_ns;
    m->beat_ns = m->now_ns + QR_MEMBER_HEARTBEAT_NS;
    m->started = true;
    member_dial_first(m);
}

static void on_up(struct qr_member *m, const struct qr_member_event *e) {
    struct member_conn *c = m->conns;
    while (c < m->conns + MAX_CONNS && c->state != CONN_FREE) c++;
    if (c == m->conns + MAX_CONNS || m->over) {
        member_emit(m, .kind = QR_ACT_CLOSE, .conn = e->conn);
        if (!m->over)
            member_log(m, QR_LOG_WARNING, "a connection was closed: %d are already open",
                       MAX_CONNS);
        return;
    }
    *c = (struct member_conn){.state = CONN_NEW,
                              .id = e->conn,
                              .tag = e->index,
                              .outgoing = e->outgoing,
                              .since_ns = m->now_ns};
    if (e->text && qr_ip_ok(e->text)) memcpy(c->host, e->text, strlen(e->text) + 1);
    member_send_hello(m, e->conn);
}

static void on_down(struct qr_member *m, const struct qr_member_event *e) {
    struct member_conn *c = member_conn(m, e->conn);
    if (c == NULL) return;
    bool only =
        c->state == CONN_PEER && m->peer[c->index].connected && m->peer[c->index].conn == e->conn;
    member_free_conn(m, c);
    if (!only || member_use_spare(m, c->index)) return;
    snprintf(m->text, sizeof m->text, "the connection broke (%.200s)",
             e->text && *e->text ? e->text : "closed by the other side");
    member_peer_down(m, c->index, m->text);
}

static void on_malformed(struct qr_member *m, const struct qr_member_event *e) {
    struct member_conn *c = member_conn(m, e->conn);
    if (c == NULL) return;
    bool peer = c->state == CONN_PEER;
    member_log(m, QR_LOG_WARNING, "a connection was closed: %s", e->text);
    member_close(m, c);
    if (!peer) return;
    snprintf(m->text, sizeof m->text, "it sent a malformed message (%.300s)", e->text);
    member_peer_down(m, c->index, m->text);
}

/* ---- events: messages ---- */

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
    if (qr_gen_id_compare(&h->active, &m->generation.begin.id) == 0) p->has_begun = true;
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
        bool failed = p->gone && p->failed && is_process(m, name);
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
    bool is_member = member_is_established(m, from);
    /* Chunks that the peer sent last may still arrive; its data stream closes by itself. */
    bool ends = is_member && g->why == QR_GOODBYE_DONE;
    p->gone = true;
    p->failed = g->why == QR_GOODBYE_LEAVING && qr_exit_code(g->code) < 128 && g->code != QR_OK;
    if (!ends) member_emit(m, .kind = QR_ACT_PEER_GONE, .index = from);
    /* The same as when the connection breaks. */
    if (is_promised_to(m, from)) m->promise_exclusive = false;
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
    bool leads = m->formed && leader->index == from && is_process(m, leader);
    return leads || is_promised_to(m, from) ||
           (!m->formed && d->code != QR_OK && m->peer[from].beat.phase == QR_PHASE_MEMBER);
}

static void on_message(struct qr_member *m, const struct qr_member_event *e) {
    const struct qr_message *msg = e->message;
    struct member_conn *c = member_conn(m, e->conn);
    if (c == NULL) return;
    uint32_t from = c->index;
    switch (msg->kind) {
    case QR_MESSAGE_HELLO: member_on_hello(m, c, &msg->hello); return;
    case QR_MESSAGE_FIELD: member_on_field(m, c, &msg->field); return;
    case QR_MESSAGE_GOODBYE:
        if (c->state != CONN_NEW) member_on_goodbye(m, c, &msg->goodbye);
        return;
    default: break;
    }
    if (c->state != CONN_PEER) return;
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

/* ---- time ---- */

/* 16 heartbeats: then the connection is dropped. Keeping it until then costs nothing. */
static int64_t give_up_ns(const struct qr_member *m, uint32_t i) {
    return member_silence_ns(m, i) / 5 * 16;
}

/* The peer may only lack processor time, so its connection stays: a new handshake costs more. */
static void mark_silent(struct qr_member *m, uint32_t i, int64_t quiet_ns) {
    struct peer *p = &m->peer[i];
    /* The leader may have noticed it first, and begun a generation without it: one drop. */
    if (p->dropped_ns < p->received_ns) {
        member_dropped(m, p);
        p->fell_silent = true;
    }
    p->silent = true;
    snprintf(m->text, sizeof m->text, "silent for %.2f s", (double)quiet_ns / 1e9);
    member_peer_lost(m, i, m->text);
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
    if (quiet >= member_silence_ns(m, i) && !p->silent) mark_silent(m, i, quiet);
    if (quiet >= give_up_ns(m, i)) drop_silent_peer(m, i);
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

/* Runs every check that time or a change of the peers may trigger. */
static void run_checks(struct qr_member *m) {
    for (uint32_t i = 0; i < QR_MAX_MEMBERS && !m->over; i++) check_peer(m, i);
    for (struct member_conn *c = m->conns; c < m->conns + MAX_CONNS && !m->over; c++) {
        if (c->state == CONN_NEW && m->now_ns - c->since_ns >= HELLO_WAIT_NS) member_close(m, c);
        member_check_spare(m, c);
    }
    if (!m->over) member_send_hints(m);
    if (!m->over) check_end(m);
    if (!m->over && m->now_ns >= m->beat_ns) member_heartbeats(m);
    if (!m->over) member_check_mismatch(m);
    if (!m->over && !m->ending) member_consider_proposing(m);
}

static void lower_deadline(int64_t *at, int64_t t) {
    if (t < *at) *at = t;
}

int64_t qr_member_deadline_ns(const struct qr_member *m) {
    int64_t at = m->now_ns + QR_MEMBER_HEARTBEAT_NS;
    if (m->over || !m->started) return at;
    lower_deadline(&at, m->beat_ns);
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) {
        const struct peer *p = &m->peer[i];
        lower_deadline(&at, member_dial_due_ns(m, i));
        if (p->connected)
            lower_deadline(&at, p->received_ns +
                                    (p->silent ? give_up_ns(m, i) : member_silence_ns(m, i)));
        int64_t settled_ns = p->data_broken_ns + DATA_SETTLE_NS;
        if (p->data_broken_ns && settled_ns > m->now_ns) lower_deadline(&at, settled_ns);
    }
    if (m->pending.on) lower_deadline(&at, m->pending.sent_ns + member_promise_wait_ns(m));
    if (m->backoff_until_ns > m->now_ns) lower_deadline(&at, m->backoff_until_ns);
    if (m->ending) lower_deadline(&at, m->end_ns + GOODBYES_NS);
    if (!m->formed && m->start_ns + m->opt.form_timeout_ns > m->now_ns)
        lower_deadline(&at, m->start_ns + m->opt.form_timeout_ns);
    return at > m->now_ns ? at : m->now_ns + 1;
}

uint32_t qr_member_conn(const struct qr_member *m, uint32_t index) {
    return index < QR_MAX_MEMBERS && m->peer[index].connected ? m->peer[index].conn : 0;
}

unsigned qr_member_n_connected(const struct qr_member *m) {
    unsigned n = 0;
    for (uint32_t i = 0; i < m->opt.n_peers; i++) n += is_responding(&m->peer[i]);
    return n;
}

/* ---- events: the trainer ---- */

void qr_member_set_held(struct qr_member *m, const struct qr_held *held) { m->held = *held; }

static void on_trainer(struct qr_member *m, const struct qr_member_event *e) {
    m->turns = e->turns;
    m->micro_batch_ms = e->micro_batch_ns <= 0 ? 0 : (uint64_t)e->micro_batch_ns / 1000000 + 1;
    if (e->polled) m->polled = *e->polled;
}

static void on_rejected(struct qr_member *m, const struct qr_member_event *e) {
    (void)e;
    m->need_new = true;
}

static void on_end(struct qr_member *m, const struct qr_member_event *e) {
    if (m->ending) return;
    m->ending = true;
    m->end_ns = m->now_ns;
    m->end_code = e->code;
    qr_text_cut(m->end_text, sizeof m->end_text, e->text ? e->text : "");
    m->out.kind = QR_MESSAGE_DONE;
    m->out.done = (struct qr_done){.code = e->code};
    memcpy(m->out.done.text, m->end_text, sizeof m->end_text);
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (m->peer[i].connected && member_in_generation(m, i)) member_send(m, m->peer[i].conn);
}

static void on_leave(struct qr_member *m, const struct qr_member_event *e) {
    member_leave(m, QR_GOODBYE_LEAVING, e->code, e->text ? e->text : "");
}

/* ---- all events ---- */

void qr_member_handle(struct qr_member *m, int64_t now_ns, const struct qr_member_event *e) {
    static void (*const on[])(struct qr_member * m, const struct qr_member_event *e) = {
        [QR_EVENT_START] = on_start,
        [QR_EVENT_UP] = on_up,
        [QR_EVENT_DOWN] = on_down,
        [QR_EVENT_MESSAGE] = on_message,
        [QR_EVENT_MALFORMED] = on_malformed,
        [QR_EVENT_DATA_UP] = member_on_data_up,
        [QR_EVENT_DATA_DOWN] = member_on_data_down,
        [QR_EVENT_TRAINER] = on_trainer,
        [QR_EVENT_REJECTED] = on_rejected,
        [QR_EVENT_END] = on_end,
        [QR_EVENT_LEAVE] = on_leave,
    };
    /* A report before the next tick changes nothing at once. */
    bool early = e->kind == QR_EVENT_TRAINER && now_ns < qr_member_deadline_ns(m);
    if (!early) advance_time(m, now_ns);
    if (on[e->kind] && (!m->over || e->kind == QR_EVENT_UP)) on[e->kind](m, e);
    if (m->started && !early) run_checks(m);
}
