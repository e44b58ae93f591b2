/* membership/member_send.c — actions and messages that go out: log lines, heartbeats, goodbyes, the
 * end. Start reading at build_heartbeat() and member_stop().
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "membership/member_impl.h"

void member_log(struct qr_member *m, enum qr_log_level level, const char *fmt, ...) {
    char line[QR_ERR_MSG_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    member_emit(m, .kind = QR_ACT_LOG, .level = level, .text = line);
}

void member_send(struct qr_member *m, uint32_t conn) {
    member_emit(m, .kind = QR_ACT_SEND, .conn = conn, .message = &m->out);
}

/* Sends m->out to all connected peers. */
static void broadcast(struct qr_member *m) {
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (m->peer[i].connected) member_send(m, m->peer[i].conn);
}

static void build_heartbeat(struct qr_member *m) {
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
    h->n_heard = member_list_reached(m, h->heard);
    /* Without recent polls the training thread is computing and sends no beats. */
    bool polls = m->now_ns - m->polled.turn_ns < POLLS_NS;
    h->polled_ms = polls ? (uint64_t)((m->polled.turn_ns - m->polled.since_ns) / MS(1)) : 0;
    h->no_data = member_no_data(m);
    if (m->formed) h->common = m->common;
}

void member_heartbeats(struct qr_member *m) {
    bool is_built = false;
    m->beat_ns = m->now_ns + QR_MEMBER_HEARTBEAT_NS;
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) {
        struct peer *p = &m->peer[i];
        if (!p->connected) continue;
        if (m->now_ns >= p->due_ns) {
            int64_t interval_ns = member_interval_ns(m, i);
            if (!is_built) build_heartbeat(m);
            is_built = true;
            m->out.heartbeat.interval_ms = (uint32_t)(interval_ns / MS(1));
            p->sent_ns = m->now_ns;
            p->due_ns = m->now_ns + interval_ns;
            member_send(m, p->conn);
        }
        if (p->due_ns < m->beat_ns) m->beat_ns = p->due_ns;
    }
}

/* Of the peers that answer, the lowest proposes: it is told first. */
static void bring_heartbeats_forward(struct qr_member *m, bool at_once) {
    int64_t further = member_n_further(m);
    uint32_t lowest = 0;
    while (lowest < m->opt.index && !is_responding(&m->peer[lowest])) lowest++;
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) {
        struct peer *p = &m->peer[i];
        int64_t gap_ns = CHANGE_GAP_NS + (i == lowest ? 0
                                          : m->formed ? NEWS_GAP_NS
                                                      : HEARTBEAT_GAP_NS),
                at_ns = at_once && i == lowest ? m->now_ns : p->sent_ns + further * gap_ns;
        if (!p->connected) continue;
        if (at_ns < p->due_ns) p->due_ns = at_ns;
        if (p->due_ns < m->beat_ns) m->beat_ns = p->due_ns;
    }
    if (m->now_ns >= m->beat_ns) member_heartbeats(m);
}

void member_heartbeats_now(struct qr_member *m) { bring_heartbeats_forward(m, true); }
void member_heartbeats_soon(struct qr_member *m) { bring_heartbeats_forward(m, false); }

/* ---- leaving ---- */
void member_leave(struct qr_member *m, enum qr_goodbye_reason why, enum qr_code code,
                  const char *text) {
    struct qr_goodbye *g = &m->out.goodbye;
    m->out.kind = QR_MESSAGE_GOODBYE;
    *g = (struct qr_goodbye){.why = why, .code = code};
    qr_text_cut(g->text, sizeof g->text, text);
    broadcast(m);
    for (struct member_conn *c = m->conns; c < m->conns + MAX_CONNS; c++)
        if (c->state == CONN_MISMATCH) member_send(m, c->id);
    m->over = true;
    m->active = false;
}

static void leave_with(struct qr_member *m, enum qr_member_action_kind kind, enum qr_code code,
                       enum qr_goodbye_reason why, const char *text) {
    if (m->over) return;
    char kept[QR_ERR_MSG_BYTES];
    snprintf(kept, sizeof kept, "%s", text);
    member_leave(m, why, code, kept);
    member_emit(m, .kind = kind, .code = code, .text = kept);
}

void member_stop(struct qr_member *m, enum qr_code code, enum qr_goodbye_reason why,
                 const char *text) {
    leave_with(m, QR_ACT_STOP, code, why, text);
}

void member_finish(struct qr_member *m, enum qr_code code, const char *text) {
    leave_with(m, QR_ACT_DONE, code, QR_GOODBYE_DONE, text);
}

void member_end_all(struct qr_member *m, enum qr_code code, const char *text) {
    m->out.kind = QR_MESSAGE_DONE;
    m->out.done = (struct qr_done){.code = code};
    qr_text_cut(m->out.done.text, sizeof m->out.done.text, text);
    broadcast(m);
    member_stop(m, code, QR_GOODBYE_LEAVING, text);
}
