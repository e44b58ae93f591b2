/* membership/member_common.c — settings that may differ between workers; the ring's apply. The
 * first leader's settings become the ring's, and every member of a generation passes them on, so
 * neither a newcomer nor a new leader changes them. Start reading at member_begin_common().
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "membership/member_impl.h"

_Static_assert((int)QR_MESSAGE_ALLREDUCES == (int)QR_ALLREDUCE_KINDS,
               "a message can name every all-reduce, and no other");

void qr_member_set_plan(struct qr_member *m, uint64_t epochs, uint64_t reductions) {
    m->own.epochs = epochs;
    m->epoch_reductions = reductions;
}

const struct qr_common *qr_member_common(const struct qr_member *m) {
    if (m->formed) return &m->common;
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (member_reaches(m, i) && m->peer[i].beat.common.epochs) return &m->peer[i].beat.common;
    return &m->own;
}

uint64_t member_ring_age_ms(const struct qr_member *m) {
    uint64_t ms = m->formed ? (uint64_t)((m->now_ns - m->ring_since_ns) / MS(1)) : 0;
    return ms < QR_MESSAGE_MAX_AGE_MS ? ms : QR_MESSAGE_MAX_AGE_MS;
}

/* ---- the proposer ---- */

static uint64_t held_applied(const struct qr_held *h) {
    return h->stateless ? 0 : h->applied_reductions;
}

/* Returns the settings of the oldest ring among the promises; two rings of one job may meet when
 * one formed apart. NULL: no promise comes from a member of a generation. */
static const struct qr_common *oldest_ring_settings(const struct pending *q, uint64_t *ret_age_ms) {
    const struct qr_common *ret = NULL;
    *ret_age_ms = 0;
    for (uint32_t r = 0; r < q->propose.n_members; r++) {
        if (q->common[r].epochs == 0 || (ret && q->ring_age_ms[r] <= *ret_age_ms)) continue;
        ret = &q->common[r];
        *ret_age_ms = q->ring_age_ms[r];
    }
    return ret;
}

static bool is_beyond_epochs(const struct qr_member *m, const struct qr_held *h, uint64_t epochs) {
    return m->epoch_reductions && held_applied(h) &&
           (held_applied(h) - 1) / m->epoch_reductions >= epochs;
}

bool member_begin_common(struct qr_member *m, struct pending *q, struct qr_begin *b) {
    const struct qr_common *ring = oldest_ring_settings(q, &b->ring_age_ms);
    if (m->opt.faults.leader_decides) ring = NULL;
    b->common = ring ? *ring : m->own;
    /* No ring has begun, so no work is lost. */
    if (!ring && is_beyond_epochs(m, &q->held[0], b->common.epochs)) {
        char text[QR_MESSAGE_TEXT_BYTES];
        snprintf(text, sizeof text,
                 "%" PRIu64 " epochs are already trained, and the leader, %s, has --epochs %" PRIu64
                 "; raise --epochs, or pass --fresh to start over",
                 q->held[0].applied_reductions / m->epoch_reductions,
                 qr_member_peer_text(m, m->opt.index), b->common.epochs);
        member_end_all(m, QR_INVALID_ARGUMENT, text);
        return false;
    }
    for (uint32_t r = 0; r < b->n_members; r++)
        if (is_beyond_epochs(m, &q->held[r], b->common.epochs))
            q->held[r] = (struct qr_held){.stateless = true};
    return true;
}

/* ---- every member, at a Begin ---- */

static void warn_setting(struct qr_member *m, const char *name, const char *own, const char *ring) {
    member_log(m, QR_LOG_WARNING,
               "%s is %s here and %s in the ring; the ring's value applies until the run ends: to "
               "change it, stop all workers and restart them with one value",
               name, own, ring);
}

static void warn_number_setting(struct qr_member *m, const char *name, uint64_t own,
                                uint64_t ring) {
    char a[24], b[24];
    if (own == ring) return;
    snprintf(a, sizeof a, "%" PRIu64, own);
    snprintf(b, sizeof b, "%" PRIu64, ring);
    warn_setting(m, name, a, b);
}

void member_begun_common(struct qr_member *m, const struct qr_begin *b) {
    const struct qr_common *own = &m->own, *ring = &b->common;
    bool known = m->formed && memcmp(&m->common, ring, sizeof *ring) == 0;
    m->common = *ring;
    m->ring_since_ns = m->now_ns - MS(b->ring_age_ms);
    if (known) return;
    warn_number_setting(m, "epochs", own->epochs, ring->epochs);
    warn_number_setting(m, "min-workers", own->min_workers, ring->min_workers);
    if (own->allreduce != ring->allreduce)
        warn_setting(m, "allreduce", qr_allreduce_names[own->allreduce],
                     qr_allreduce_names[ring->allreduce]);
    if (own->places != ring->places)
        member_log(
            m, QR_LOG_WARNING,
            "out, weights or checkpoints differ from the ring's: each leader writes to its own");
}
