/* membership/member_dial.c — which side of a pair dials, at which address (protocol.md §1): the
 * name in the settings, or an address that another peer has sent (a hint). Of two connections that
 * crossed, one stays. Start reading at member_check_dial() and member_dial_resolve().
 */
#include <stdio.h>
#include <string.h>

#include "membership/member_impl.h"

static bool is_lower(const struct qr_member *m, uint32_t i) { return i < m->opt.index; }

/* The candidates of a template are many names that never exist, so only the higher index dials. */
static bool may_dial(const struct qr_member *m, uint32_t i) {
    return i < m->opt.n_peers && i != m->opt.index && (is_lower(m, i) || m->opt.count_known);
}

static void dial_cancel(struct qr_member *m, uint32_t i) {
    struct peer *p = &m->peer[i];
    if (!p->dial.on) return;
    p->dial.on = p->dial.by_hint = false;
    member_emit(m, .kind = QR_ACT_HANG_UP, .index = i);
}

static void dial_start(struct qr_member *m, uint32_t i, bool by_hint) {
    struct peer *p = &m->peer[i];
    dial_cancel(m, i);
    p->dial.on = true;
    p->dial.by_hint = by_hint;
    p->dial.at_ns = 0;
    p->dial.until_ns = is_lower(m, i) && !by_hint ? 0 : m->now_ns + DIAL_NS;
    member_emit(m, .kind = QR_ACT_DIAL, .index = i, .text = by_hint ? p->hint : m->opt.peers[i]);
}

int64_t member_dial_wait_ns(const struct qr_member *m, int64_t wait_ns) {
    return wait_ns + (m->formed ? 0 : member_n_further(m) * DIAL_GAP_NS);
}

static void dial_schedule(struct qr_member *m, uint32_t i, int64_t wait_ns) {
    struct peer *p = &m->peer[i];
    if (p->dial.on || !may_dial(m, i)) return;
    p->dial.at_ns = m->now_ns + wait_ns;
    p->dial.wait_ns = DIAL_AFTER_NS;
}

void member_dial_first(struct qr_member *m) {
    for (uint32_t i = 0; i < m->opt.n_peers; i++) {
        if (is_lower(m, i)) dial_start(m, i, false);
        else dial_schedule(m, i, DIAL_AFTER_NS);
    }
}

static void dial_rejected(struct qr_member *m, uint32_t i) {
    dial_cancel(m, i);
    dial_schedule(m, i, REDIAL_NS);
}

void member_dial_down(struct qr_member *m, uint32_t i) {
    struct peer *p = &m->peer[i];
    if (p->dial.on) p->dial.until_ns = is_lower(m, i) && !p->dial.by_hint ? 0 : m->now_ns + DIAL_NS;
    else if (p->dial.at_ns == 0 && (is_lower(m, i) || !p->gone))
        dial_schedule(m, i, is_lower(m, i) ? 1 : DIAL_AFTER_NS);
}

/* An outgoing connection of this pair is open. */
static bool has_dialed_connection(const struct qr_member *m, uint32_t i) {
    for (const struct member_conn *c = m->conns; c < m->conns + MAX_CONNS; c++)
        if (c->outgoing && c->tag == i && (c->state == CONN_NEW || c->state == CONN_PEER))
            return true;
    return false;
}

/* A connection of this pair is open, being made, or was rejected: do not dial a second one. */
static bool pair_is_connected(const struct qr_member *m, uint32_t i) {
    const struct peer *p = &m->peer[i];
    const struct mismatch *mm = &p->mismatch;
    return p->connected || (mm->on && mm->dialed && mm->down_ns == 0) ||
           has_dialed_connection(m, i);
}

/* A dial that is blocked has no deadline: the caller would be woken again at once. */
int64_t member_dial_due_ns(const struct qr_member *m, uint32_t i) {
    int64_t at_ns = m->peer[i].dial.at_ns;
    return at_ns && !m->ending && !pair_is_connected(m, i) ? at_ns : INT64_MAX;
}

void member_check_dial(struct qr_member *m, uint32_t i) {
    struct peer *p = &m->peer[i];
    if ((!p->dial.at_ns && !p->dial.until_ns) || m->ending || pair_is_connected(m, i)) return;
    if (p->dial.on && p->dial.until_ns && m->now_ns >= p->dial.until_ns) {
        bool again = may_dial(m, i) && (is_lower(m, i) || !p->gone), by_hint = p->dial.by_hint;
        dial_cancel(m, i);
        p->dial.until_ns = 0;
        if (again && is_lower(m, i)) dial_start(m, i, false);
        else if (again) {
            p->dial.at_ns = m->now_ns + (by_hint ? DIAL_AFTER_NS : p->dial.wait_ns);
            p->dial.wait_ns =
                2 * p->dial.wait_ns < DIAL_AGAIN_NS ? 2 * p->dial.wait_ns : DIAL_AGAIN_NS;
        }
    }
    /* While other newcomers arrive, the peer may still dial by itself. */
    if (p->dial.at_ns && !is_lower(m, i) && m->now_ns >= p->dial.at_ns &&
        m->now_ns - m->newcomer_ns < member_dial_wait_ns(m, DIAL_AFTER_NS))
        p->dial.at_ns = m->newcomer_ns + member_dial_wait_ns(m, DIAL_AFTER_NS);
    if (p->dial.at_ns && m->now_ns >= p->dial.at_ns) dial_start(m, i, false);
}

/* ---- lost connections ---- */

/* Marks the connection as closed. After the last connection of a peer with other settings, the
 * mismatch expires MISMATCH_KEEP_NS later. */
void member_free_conn(struct qr_member *m, struct member_conn *c) {
    bool last = c->state == CONN_MISMATCH;
    c->state = CONN_FREE;
    for (const struct member_conn *o = m->conns; o < m->conns + MAX_CONNS; o++)
        last = last && !(o->state == CONN_MISMATCH && o->index == c->index);
    if (last) m->peer[c->index].mismatch.down_ns = m->now_ns;
}

void member_close(struct qr_member *m, struct member_conn *c) {
    member_emit(m, .kind = QR_ACT_CLOSE, .conn = c->id);
    member_free_conn(m, c);
    if (c->outgoing) dial_rejected(m, c->tag);
}

/* Handles the loss of a peer: its connection broke, it fell silent, or it left. */
void member_peer_lost(struct qr_member *m, uint32_t index, const char *reason) {
    const struct peer *p = &m->peer[index];
    if (is_promised_to(m, index)) m->promise_exclusive = false;
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
    if (!was_silent) member_peer_lost(m, index, reason);
}

/* ---- crossed connections ---- */

static bool dialed_by_higher(const struct qr_member *m, const struct member_conn *c,
                             uint32_t index) {
    return c->outgoing == is_lower(m, index);
}

/* Messages under way on the spare connection still count. The side that dialed it closes it. */
static void make_spare(struct qr_member *m, struct member_conn *c) {
    c->spare_ns = m->now_ns + (c->outgoing ? SPARE_NS : DIAL_NS);
}

bool member_dial_resolve(struct qr_member *m, struct member_conn *c, uint32_t index, bool same) {
    struct peer *p = &m->peer[index];
    struct member_conn *old = p->connected ? member_conn(m, p->conn) : NULL;
    p->dial.at_ns = 0;
    if (old && same && old->outgoing != c->outgoing) {
        if (dialed_by_higher(m, old, index) && m->now_ns - old->since_ns < CROSSING_NS) {
            c->state = CONN_PEER;
            c->index = index;
            make_spare(m, c);
            return false;
        }
        make_spare(m, old);
    } else if (old) {
        member_emit(m, .kind = QR_ACT_CLOSE, .conn = old->id);
        old->state = CONN_FREE;
    }
    /* An open connection is resolved when its hello arrives. */
    if (!has_dialed_connection(m, index)) dial_cancel(m, index);
    p->dial.until_ns = 0;
    p->dial.wait_ns = DIAL_AFTER_NS;
    return true;
}

bool member_use_spare(struct qr_member *m, uint32_t index) {
    for (struct member_conn *c = m->conns; c < m->conns + MAX_CONNS; c++)
        if (c->state == CONN_PEER && c->index == index && c->spare_ns) {
            c->spare_ns = 0;
            m->peer[index].conn = c->id;
            return true;
        }
    return false;
}

void member_check_spare(struct qr_member *m, struct member_conn *c) {
    if (c->state != CONN_PEER || !c->spare_ns || m->now_ns < c->spare_ns) return;
    member_emit(m, .kind = QR_ACT_CLOSE, .conn = c->id);
    c->state = CONN_FREE;
    if (c->outgoing) dial_cancel(m, c->index);
}

/* ---- address hints ---- */

static void send_hints(struct qr_member *m, uint32_t i, uint64_t missing) {
    struct qr_addresses *a = &m->out.addresses;
    m->out.kind = QR_MESSAGE_ADDRESSES;
    memset(a, 0, sizeof *a);
    for (uint64_t rest = missing; rest; rest &= rest - 1) {
        uint32_t j = (uint32_t)__builtin_ctzll(rest);
        const struct peer *p = &m->peer[j];
        a->name[a->n].index = j;
        memcpy(a->name[a->n].incarnation, p->incarnation, QR_INCARNATION_BYTES);
        memcpy(a->at[a->n], p->at, sizeof p->at);
        a->n++;
    }
    member_send(m, m->peer[i].conn);
}

/* For each pair of peers that both answer here and do not reach each other: sends both the other's
 * address. */
void member_send_hints(struct qr_member *m) {
    uint64_t here = 0;
    if (m->now_ns < m->look_ns || m->ending) return;
    m->look_ns = m->now_ns + QR_MEMBER_HEARTBEAT_NS;
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) {
        const struct peer *p = &m->peer[i];
        bool settled = is_responding(p) && !p->gone &&
                       m->now_ns - p->accepted_ns >= member_dial_wait_ns(m, HINT_AFTER_NS);
        if (settled && *p->at) here |= index_bit(i);
    }
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) {
        struct peer *p = &m->peer[i];
        if (!is_responding(p) || p->gone ||
            m->now_ns - p->accepted_ns < member_dial_wait_ns(m, HINT_AFTER_NS))
            continue;
        uint64_t missing = here & ~index_bit(i) & ~p->reaches;
        bool is_new = missing & ~p->hinted;
        if (missing && (is_new || m->now_ns >= p->hint_due_ns)) {
            send_hints(m, i, missing);
            p->hint_wait_ns = is_new ? DIAL_AFTER_NS : 2 * p->hint_wait_ns;
            if (p->hint_wait_ns > HINT_AGAIN_NS) p->hint_wait_ns = HINT_AGAIN_NS;
            p->hint_due_ns = m->now_ns + p->hint_wait_ns;
        }
        p->hinted = missing;
    }
}

/* Compares the port of the settings' address with a hint's. */
static bool has_same_port(const char *named, const char *hint) {
    const char *a = strrchr(named, ':'), *b = strrchr(hint, ':');
    return a && b && strcmp(a, b) == 0;
}

void member_on_addresses(struct qr_member *m, const struct qr_addresses *a) {
    for (uint32_t k = 0; k < a->n; k++) {
        uint32_t i = a->name[k].index;
        struct peer *p = &m->peer[i];
        bool left = p->gone && same_inc(p->incarnation, a->name[k].incarnation);
        if (i == m->opt.index || left || m->ending || pair_is_connected(m, i)) continue;
        if (p->dial.on && p->dial.by_hint && strcmp(p->hint, a->at[k]) == 0) continue;
        if (i < m->opt.n_peers && !has_same_port(m->opt.peers[i], a->at[k])) continue;
        if (p->hint_ns && m->now_ns - p->hint_ns < HINT_GAP_NS) continue;
        p->hint_ns = m->now_ns;
        memcpy(p->hint, a->at[k], sizeof p->hint);
        dial_start(m, i, true);
    }
}
