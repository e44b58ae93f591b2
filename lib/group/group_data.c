/* group/group_data.c — passes between the machine on the control thread and the data streams on the
 * training thread. Start reading at group_data_wanted() and group_data_roster().
 *
 * The machine names the wanted streams (the roster). The training thread, which owns the data link,
 * dials at its next poll and reports the result. So a newcomer's streams come up beside training,
 * and the newcomer joins once they are up.
 */
#include <stdio.h>
#include <string.h>

#include "base/counter.h"
#include "base/ip.h"
#include "base/mem.h"
#include "group/group_impl.h"

#define LONG_NS (100 * QR_MS)   /* polling more often than this makes a wait unnecessary */
#define LINGER_NS (200 * QR_MS) /* some round trips of a handshake */
enum { LINGER_PART = 20 };      /* 1/20 of the time since the last wait */

struct qr_mesh_member group_peer(const struct qr_group *g, const struct qr_member_name *name,
                                 unsigned data_port) {
    const struct qr_mesh_member *known = &g->roster[name->index].member;
    if (*known->name && memcmp(known->incarnation, name->incarnation, QR_INCARNATION_BYTES) == 0)
        return *known;
    const char *address = name->index < g->o.n_peers ? g->o.peers[name->index] : "";
    struct qr_mesh_member member = {.index = name->index};
    memcpy(member.incarnation, name->incarnation, sizeof member.incarnation);
    snprintf(member.name, sizeof member.name, "%s %u%s%.120s%s",
             name->index < g->o.n_servers ? "parameter server" : "worker", name->index,
             *address ? " (" : "", address, *address ? ")" : "");
    if (!group_with_port(address, data_port, member.address, sizeof member.address))
        *member.address = '\0';
    return member;
}

/* ---- control thread ---- */

void group_data_wanted(struct qr_group *g, const struct qr_member_action *a) {
    struct roster_entry *e = &g->roster[a->index];
    if (a->kind == QR_ACT_PEER) {
        struct qr_member_name name = {.index = a->index};
        memcpy(name.incarnation, a->incarnation, sizeof name.incarnation);
        *e->member.name = '\0';
        e->member = group_peer(g, &name, a->data_port);
        snprintf(e->member.name, sizeof e->member.name, "%.150s",
                 qr_member_peer_text(g->member, a->index));
        /* The address where it answers: its DNS name may not exist yet, or point elsewhere. */
        if (*a->text) qr_ip_with_port(a->text, a->data_port, e->member.address);
        e->renew = false;
    }
    e->expected = a->kind != QR_ACT_PEER_GONE;
    e->renew = e->renew || a->kind == QR_ACT_RENEW_DATA;
    e->changed = g->roster_changed = true;
    if (a->silent) qr_count(QR_DATA_STREAMS_SILENT, 1);
}

void group_data_requests(struct qr_group *g) {
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) {
        struct stream_change *n = &g->stream[i];
        if (!n->changed) continue;
        bool lost = n->lost && n->lost_serial == g->serial, up = n->up;
        if (n->lost || !up)
            handle(g, .kind = QR_EVENT_DATA_DOWN, .index = i, .text = n->reason, .lost = lost);
        if (up) handle(g, .kind = QR_EVENT_DATA_UP, .index = i, .incarnation = n->incarnation);
        n->changed = n->lost = false;
    }
}

/* ---- training thread ---- */

void group_data_replay(struct qr_group *g) {
    const struct qr_begin *b = &g->generation->begin;
    for (uint32_t r = 0; r < b->n_members; r++)
        if (b->member[r].name.index != g->o.index)
            g->roster[b->member[r].name.index].changed = g->roster_changed = true;
}

void group_data_roster(struct qr_group *g) {
    struct roster_entry changed[QR_MAX_MEMBERS];
    uint32_t index[QR_MAX_MEMBERS], n = 0;
    pthread_mutex_lock(&g->lock);
    for (uint32_t i = 0; g->roster_changed && i < QR_MAX_MEMBERS; i++)
        if (g->roster[i].changed) {
            index[n] = i;
            changed[n++] = g->roster[i];
            g->roster[i].changed = g->roster[i].renew = false;
        }
    g->roster_changed = false;
    pthread_mutex_unlock(&g->lock);
    for (uint32_t k = 0; k < n; k++) {
        if (changed[k].expected) qr_mesh_expect(g->mesh, &changed[k].member);
        else qr_mesh_forget(g->mesh, index[k]);
        if (changed[k].renew) qr_mesh_renew(g->mesh, index[k]);
    }
}

static bool group_awaits_data(struct qr_group *g) {
    pthread_mutex_lock(&g->lock);
    bool yes = g->awaits_data && group_current(g);
    pthread_mutex_unlock(&g->lock);
    return yes;
}

void group_data_linger(struct qr_group *g) {
    int64_t now = group_now_ns(g), since_ns = g->lingered_ns ? now - g->lingered_ns : 0;
    int64_t part_ns = since_ns < LONG_NS ? 0 : since_ns / LINGER_PART;
    int64_t until_ns = now + (part_ns < LINGER_NS ? part_ns : LINGER_NS);
    struct qr_err ignored; /* the next call reports the same error */
    bool more = group_awaits_data(g);
    while (more)
        more = qr_mesh_idle(g->mesh, until_ns, &ignored) == QR_OK && group_awaits_data(g) &&
               group_now_ns(g) < until_ns;
    g->lingered_ns = group_now_ns(g);
}

bool group_data_is_due(const struct qr_group *g) {
    return g->awaits_data && pthread_equal(pthread_self(), g->trainer);
}

/* ---- the mesh's callbacks ---- */

void group_mesh_up(void *ctx, uint32_t index, const uint8_t incarnation[QR_INCARNATION_BYTES]) {
    struct qr_group *g = ctx;
    pthread_mutex_lock(&g->lock);
    struct stream_change *n = &g->stream[index];
    n->changed = n->up = true;
    memcpy(n->incarnation, incarnation, sizeof n->incarnation);
    group_wake_control(g);
    pthread_mutex_unlock(&g->lock);
}

void group_mesh_down(void *ctx, uint32_t index, const char *reason, bool lost) {
    struct qr_group *g = ctx;
    pthread_mutex_lock(&g->lock);
    struct stream_change *n = &g->stream[index];
    n->changed = true;
    n->up = false;
    if (lost) {
        n->lost = true;
        n->lost_serial = g->joined;
    }
    snprintf(n->reason, sizeof n->reason, "%s", reason);
    group_wake_control(g);
    pthread_mutex_unlock(&g->lock);
}

void group_mesh_polled(void *ctx, const struct qr_poll_report *how) {
    struct qr_group *g = ctx;
    pthread_mutex_lock(&g->lock);
    handle(g, .kind = QR_EVENT_TRAINER, .turns = g->turns, .polled = how);
    pthread_mutex_unlock(&g->lock);
}
