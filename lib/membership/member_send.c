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

static int64_t count_beyond_few(const struct qr_member *m) {
    int64_t n = -FEW_PEERS;
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) n += m->peer[i].connected;
    return n > 0 ? n : 0;
}

int64_t member_forming_ns(const struct qr_member *m) {
    return m->formed ? 0 : count_beyond_few(m) * FORMING_GAP_NS;
}

void member_heartbeats(struct qr_member *m) {
    build_heartbeat(m);
    m->broadcast_ns = m->now_ns;
    m->beat_ns = m->now_ns + QR_MEMBER_HEARTBEAT_NS + member_forming_ns(m);
    broadcast(m);
}

void member_heartbeats_soon(struct qr_member *m) {
    int64_t at_ns =
        m->broadcast_ns + count_beyond_few(m) * CHANGE_GAP_NS + member_forming_ns(m) / 2;
    if (m->now_ns >= at_ns) member_heartbeats(m);
    else if (at_ns < m->beat_ns) m->beat_ns = at_ns;
}

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
