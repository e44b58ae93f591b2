/* membership/member_reach.c — facts about peers; rule 1: which of them are reachable and linked.
 * Start reading at member_reaches().
 */
#include <stdio.h>
#include <string.h>

#include "membership/member_impl.h"

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
    return m->members & index_bit(index);
}

bool member_is_established(const struct qr_member *m, uint32_t index) {
    const struct qr_begin *b = &m->generation.begin;
    for (uint32_t r = 0; member_in_generation(m, index) && r < b->n_members; r++)
        if (b->member[r].name.index == index) return is_process(m, &b->member[r].name);
    return false;
}

struct member_conn *member_conn(struct qr_member *m, uint32_t id) {
    for (struct member_conn *c = m->conns; c < m->conns + MAX_CONNS; c++)
        if (c->state != CONN_FREE && c->id == id) return c;
    return NULL;
}

bool member_passes_data(const struct peer *p) {
    return p->data != DATA_NONE && p->data != DATA_BAD;
}

bool member_is_banned(const struct qr_member *m, uint32_t index) {
    return !member_in_generation(m, index) && m->now_ns < m->peer[index].banned_until_ns;
}

bool member_reaches(const struct qr_member *m, uint32_t index) {
    const struct peer *p = &m->peer[index];
    return index != m->opt.index && is_responding(p) && !p->gone && !p->frozen &&
           !member_is_banned(m, index) &&
           (member_passes_data(p) || m->opt.faults.control_is_enough);
}

int64_t member_n_further(const struct qr_member *m) {
    int64_t n = -FEW_PEERS;
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) n += m->peer[i].connected;
    return n > 0 ? n : 0;
}

int64_t member_slow_interval_ns(const struct qr_member *m) {
    return QR_MEMBER_HEARTBEAT_NS + member_n_further(m) * HEARTBEAT_GAP_NS;
}

int64_t member_interval_ns(const struct qr_member *m, uint32_t index) {
    const struct peer *p = &m->peer[index];
    /* A program from before the intervals takes five times 250 ms for silence. */
    bool is_old = p->beat.sequence && !p->beat.interval_ms;
    bool is_neighbour = m->neighbours & index_bit(index);
    return is_neighbour || is_old ? QR_MEMBER_HEARTBEAT_NS : member_slow_interval_ns(m);
}

int64_t member_silence_ns(const struct qr_member *m, uint32_t index) {
    const struct peer *p = &m->peer[index];
    return 5 * (p->beat.interval_ms ? MS(p->beat.interval_ms) : member_interval_ns(m, index));
}

uint32_t member_list_reached(const struct qr_member *m, struct qr_member_name *ret) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) {
        if (!member_reaches(m, i)) continue;
        ret[n].index = i;
        memcpy(ret[n++].incarnation, m->peer[i].incarnation, QR_INCARNATION_BYTES);
    }
    return n;
}

static bool lists_peer(const struct qr_member *m, uint32_t a, uint32_t b) {
    if (a == m->opt.index) return member_reaches(m, b);
    return m->peer[a].reaches & index_bit(b);
}

bool member_all_linked(const struct qr_member *m, uint64_t set) {
    bool all = true;
    for (uint64_t rest = set; rest && all; rest &= rest - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(rest);
        uint64_t listed = m->peer[i].reaches | index_bit(i);
        all = i == m->opt.index || (member_reaches(m, i) && !(set & ~listed));
    }
    return all;
}

static uint64_t reported_peers(const struct qr_member *m, const struct qr_heartbeat *h) {
    uint64_t set = 0;
    for (uint32_t i = 0; i < h->n_heard; i++)
        if (is_process(m, &h->heard[i])) set |= index_bit(h->heard[i].index);
    return set;
}

int64_t member_differs_ns(const struct qr_member *m) {
    return DIFFERS_NS + member_n_further(m) * NEWS_GAP_NS;
}

bool member_is_trusted(const struct qr_member *m, uint32_t index) {
    const struct peer *p = &m->peer[index];
    return m->active && member_is_established(m, index) && !p->has_begun &&
           m->now_ns - m->begun_ns < member_differs_ns(m) &&
           qr_gen_id_compare(&p->beat.promised, &m->generation.begin.id) <= 0;
}

/* The proposer may know of links of which this member has not been told yet. */
void member_reports_changed(struct qr_member *m, uint32_t index) {
    struct peer *p = &m->peer[index];
    p->reaches = reported_peers(m, &p->beat);
    if (member_is_trusted(m, index)) p->reaches |= m->members;
}

void member_incarnation_changed(struct qr_member *m) {
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) member_reports_changed(m, i);
}

bool member_linked(const struct qr_member *m, uint32_t a, uint32_t b) {
    return lists_peer(m, a, b) && lists_peer(m, b, a);
}

unsigned member_n_computing(const struct qr_member *m, uint64_t set) {
    unsigned n = 0;
    for (uint64_t rest = set; rest; rest &= rest - 1) n += !m->peer[__builtin_ctzll(rest)].server;
    return n;
}

uint64_t member_no_data(const struct qr_member *m) {
    uint64_t set = 0;
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (m->peer[i].connected && m->peer[i].data == DATA_BAD) set |= index_bit(i);
    return set;
}
