/* membership/member_dial.c — who dials whom, and where (protocol.md §1): either side of a pair, at
 * the name that its settings give, or at an address that another peer told. Which of two
 * connections that crossed stays. */
#include <stdio.h>
#include <string.h>

#include "membership/member_impl.h"

static bool lower(const struct qr_member *m, uint32_t i) { return i < m->opt.index; }

/* Candidates of a template are many names that do not exist: of these the higher index dials. */
static bool calls(const struct qr_member *m, uint32_t i) {
    return i < m->opt.n_peers && i != m->opt.index && (lower(m, i) || m->opt.count_known);
}

static void hang_up(struct qr_member *m, uint32_t i) {
    struct peer *p = &m->peer[i];
    if (!p->dial.on) return;
    p->dial.on = p->dial.told = false;
    m->emit(m->ctx, &(struct qr_member_action){.kind = QR_ACT_HANG_UP, .index = i});
}

static void dial(struct qr_member *m, uint32_t i, bool told) {
    struct peer *p = &m->peer[i];
    hang_up(m, i);
    p->dial.on = true;
    p->dial.told = told;
    p->dial.at_ns = 0;
    p->dial.until_ns = lower(m, i) && !told ? 0 : m->now_ns + CALL_NS;
    m->emit(m->ctx, &(struct qr_member_action){.kind = QR_ACT_DIAL,
                                               .index = i,
                                               .text = told ? p->told_at : m->opt.peers[i]});
}

/* Where many meet, each takes longer. */
static int64_t longer(const struct qr_member *m, int64_t wait_ns) {
    return wait_ns + 5 * member_forming_ns(m);
}

static void call_after(struct qr_member *m, uint32_t i, int64_t wait_ns) {
    struct peer *p = &m->peer[i];
    if (p->dial.on || !calls(m, i)) return;
    p->dial.at_ns = m->now_ns + wait_ns;
    p->dial.wait_ns = CALL_AFTER_NS;
}

void member_dial_first(struct qr_member *m) {
    for (uint32_t i = 0; i < m->opt.n_peers; i++) {
        if (lower(m, i)) dial(m, i, false);
        else call_after(m, i, CALL_AFTER_NS);
    }
}

void member_dial_turned_away(struct qr_member *m, uint32_t i) {
    hang_up(m, i);
    call_after(m, i, REDIAL_NS);
}

void member_dial_down(struct qr_member *m, uint32_t i) {
    struct peer *p = &m->peer[i];
    if (p->dial.on) p->dial.until_ns = lower(m, i) && !p->dial.told ? 0 : m->now_ns + CALL_NS;
    else if (p->dial.at_ns == 0 && (lower(m, i) || !p->gone))
        call_after(m, i, lower(m, i) ? 1 : CALL_AFTER_NS);
}

/* it was dialed, and has come up */
static bool called(const struct qr_member *m, uint32_t i) {
    for (const struct member_conn *c = m->conns; c < m->conns + MAX_CONNS; c++)
        if (c->outgoing && c->tag == i && (c->state == CONN_NEW || c->state == CONN_PEER))
            return true;
    return false;
}

/* one of this pair is being made or has been turned away: it is not dialed beside that */
static bool is_up(const struct qr_member *m, uint32_t i) {
    const struct peer *p = &m->peer[i];
    const struct mismatch *mm = &p->mismatch;
    return p->connected || (mm->on && mm->dialed && mm->down_ns == 0) || called(m, i);
}

/* A dial that cannot be made now has no deadline: a caller would be called again at once. */
int64_t member_dial_due_ns(const struct qr_member *m, uint32_t i) {
    int64_t at_ns = m->peer[i].dial.at_ns;
    return at_ns && !m->ending && !is_up(m, i) ? at_ns : INT64_MAX;
}

void member_check_dial(struct qr_member *m, uint32_t i) {
    struct peer *p = &m->peer[i];
    if ((!p->dial.at_ns && !p->dial.until_ns) || m->ending || is_up(m, i)) return;
    if (p->dial.on && p->dial.until_ns && m->now_ns >= p->dial.until_ns) {
        bool again = calls(m, i) && (lower(m, i) || !p->gone), told = p->dial.told;
        hang_up(m, i);
        p->dial.until_ns = 0;
        if (again && lower(m, i)) dial(m, i, false);
        else if (again) {
            p->dial.at_ns = m->now_ns + (told ? CALL_AFTER_NS : p->dial.wait_ns);
            p->dial.wait_ns =
                2 * p->dial.wait_ns < CALL_AGAIN_NS ? 2 * p->dial.wait_ns : CALL_AGAIN_NS;
        }
    }
    /* while others come, its turn to dial may be still to come */
    if (p->dial.at_ns && !lower(m, i) && m->now_ns >= p->dial.at_ns &&
        m->now_ns - m->newcomer_ns < longer(m, CALL_AFTER_NS))
        p->dial.at_ns = m->newcomer_ns + longer(m, CALL_AFTER_NS);
    if (p->dial.at_ns && m->now_ns >= p->dial.at_ns) dial(m, i, false);
}

/* ---- two connections ---- */

static bool by_higher(const struct qr_member *m, const struct member_conn *c, uint32_t index) {
    return c->outgoing == lower(m, index);
}

/* What is on its way on it still counts. Who dialed it closes it. */
static void make_spare(struct qr_member *m, struct member_conn *c) {
    c->spare_ns = m->now_ns + (c->outgoing ? SPARE_NS : CALL_NS);
}

bool member_dial_met(struct qr_member *m, struct member_conn *c, uint32_t index, bool same) {
    struct peer *p = &m->peer[index];
    struct member_conn *old = p->connected ? member_conn(m, p->conn) : NULL;
    p->dial.at_ns = 0;
    if (old && same && old->outgoing != c->outgoing) {
        if (by_higher(m, old, index) && m->now_ns - old->since_ns < CROSSING_NS) {
            c->state = CONN_PEER;
            c->index = index;
            make_spare(m, c);
            return false;
        }
        make_spare(m, old);
    } else if (old) {
        m->emit(m->ctx, &(struct qr_member_action){.kind = QR_ACT_CLOSE, .conn = old->id});
        old->state = CONN_FREE;
    }
    if (!called(m, index)) hang_up(m, index); /* what is up already is compared by its hello */
    p->dial.until_ns = 0;
    p->dial.wait_ns = CALL_AFTER_NS;
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
    m->emit(m->ctx, &(struct qr_member_action){.kind = QR_ACT_CLOSE, .conn = c->id});
    c->state = CONN_FREE;
    if (c->outgoing) hang_up(m, c->index);
}

/* ---- addresses that others are told ---- */

static void tell(struct qr_member *m, uint32_t i, uint64_t missing) {
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

/* Of two that answer here, and do not hear each other, each is told where the other one is. */
void member_tell_addresses(struct qr_member *m) {
    uint64_t here = 0;
    if (m->now_ns < m->look_ns || m->ending) return;
    m->look_ns = m->now_ns + QR_MEMBER_HEARTBEAT_NS;
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) {
        const struct peer *p = &m->peer[i];
        bool settled =
            is_here(p) && !p->gone && m->now_ns - p->accepted_ns >= longer(m, TELL_AFTER_NS);
        if (settled && *p->at) here |= bit(i);
    }
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) {
        struct peer *p = &m->peer[i];
        if (!is_here(p) || p->gone || m->now_ns - p->accepted_ns < longer(m, TELL_AFTER_NS))
            continue;
        uint64_t missing = here & ~bit(i) & ~p->hears;
        bool news = missing & ~p->told;
        if (missing && (news || m->now_ns >= p->tell_ns)) {
            tell(m, i, missing);
            p->tell_wait_ns = news ? CALL_AFTER_NS : 2 * p->tell_wait_ns;
            if (p->tell_wait_ns > TELL_AGAIN_NS) p->tell_wait_ns = TELL_AGAIN_NS;
            p->tell_ns = m->now_ns + p->tell_wait_ns;
        }
        p->told = missing;
    }
}

/* Of the settings' address and a told one. */
static bool same_port(const char *named, const char *told) {
    const char *a = strrchr(named, ':'), *b = strrchr(told, ':');
    return a && b && strcmp(a, b) == 0;
}

void member_on_addresses(struct qr_member *m, const struct qr_addresses *a) {
    for (uint32_t k = 0; k < a->n; k++) {
        uint32_t i = a->name[k].index;
        struct peer *p = &m->peer[i];
        bool left = p->gone && same_inc(p->incarnation, a->name[k].incarnation);
        if (i == m->opt.index || left || m->ending || is_up(m, i)) continue;
        if (p->dial.on && p->dial.told && strcmp(p->told_at, a->at[k]) == 0) continue;
        if (i < m->opt.n_peers && !same_port(m->opt.peers[i], a->at[k])) continue;
        if (p->told_ns && m->now_ns - p->told_ns < TOLD_GAP_NS) continue;
        p->told_ns = m->now_ns;
        memcpy(p->told_at, a->at[k], sizeof p->told_at);
        dial(m, i, true);
    }
}
