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

static const struct qr_member_name *name_in_generation(const struct qr_member *m, uint32_t index) {
    const struct qr_begin *b = &m->generation.begin;
    for (uint32_t r = 0; m->formed && r < b->n_members; r++)
        if (b->member[r].name.index == index) return &b->member[r].name;
    return NULL;
}

bool member_in_generation(const struct qr_member *m, uint32_t index) {
    return name_in_generation(m, index) != NULL;
}

bool member_is_established(const struct qr_member *m, uint32_t index) {
    const struct qr_member_name *name = name_in_generation(m, index);
    return name && is_process(m, name);
}

struct member_conn *member_conn(struct qr_member *m, uint32_t id) {
    for (struct member_conn *c = m->conns; c < m->conns + MAX_CONNS; c++)
        if (c->state != CONN_FREE && c->id == id) return c;
    return NULL;
}

bool member_passes_data(const struct peer *p) {
    return p->data == DATA_UP || p->data == DATA_BROKEN;
}

bool member_reaches(const struct qr_member *m, uint32_t index) {
    const struct peer *p = &m->peer[index];
    return index != m->opt.index && is_responding(p) && !p->gone && !p->frozen &&
           (member_passes_data(p) || m->opt.faults.control_is_enough);
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

static uint64_t reported_peers(const struct qr_member *m, const struct qr_heartbeat *h) {
    uint64_t set = 0;
    for (uint32_t i = 0; i < h->n_heard; i++)
        if (is_process(m, &h->heard[i])) set |= index_bit(h->heard[i].index);
    return set;
}

void member_reports_changed(struct qr_member *m, uint32_t index) {
    m->peer[index].reaches = reported_peers(m, &m->peer[index].beat);
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
