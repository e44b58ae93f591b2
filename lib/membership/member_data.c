/* membership/member_data.c — rule 1 for the data streams: a peer without a working data stream does
 * not count as reachable (protocol.md rule 1, reasons in member.md). Start reading at
 * member_check_data().
 */
#include <stdio.h>
#include <string.h>

#include "collective/allreduce_schedule.h"
#include "membership/member_impl.h"

static void data_set_state(struct qr_member *m, struct peer *p, enum data_state s) {
    if (p->data == s) return;
    p->data = s;
    p->data_since_ns = m->now_ns;
    p->data_warned = false;
}

/* The stream has never been up; the peer counts as reachable without it. */
static bool is_left_for_later(const struct peer *p) {
    return p->data == DATA_LATER || p->data == DATA_DIALED;
}

static bool dials_stream(const struct qr_member *m, uint32_t i) { return i < m->opt.index; }

static void request_stream(struct qr_member *m, uint32_t i, bool later) {
    const struct peer *p = &m->peer[i];
    member_emit(m, .kind = QR_ACT_PEER, .index = i, .incarnation = p->incarnation,
                .data_port = p->data_port, .text = p->host, .later = later);
}

/* No data passes between the two in a first generation of all workers in the settings. */
static bool stream_can_wait(const struct qr_member *m, uint32_t i) {
    size_t n = m->opt.n_peers;
    return !m->formed && m->opt.count_known && i < n && m->opt.index < n &&
           !qr_schedule_pairs((uint32_t)n, m->opt.index, i);
}

void member_data_new_process(struct qr_member *m, uint32_t index, bool starting) {
    struct peer *p = &m->peer[index];
    bool later = starting && stream_can_wait(m, index);
    p->data_broken_ns = 0;
    p->data = DATA_UP; /* Makes data_set_state() restart the time. */
    data_set_state(m, p, later ? DATA_LATER : DATA_NONE);
    request_stream(m, index, later && dials_stream(m, index));
}

static bool is_dialing_one(const struct qr_member *m) {
    bool any = false;
    for (uint32_t i = 0; i < m->opt.index && !any; i++) {
        const struct peer *p = &m->peer[i];
        any = is_responding(p) && p->data == DATA_DIALED &&
              m->now_ns - p->data_since_ns < NO_STREAM_NS;
    }
    return any;
}

/* Before the first generation a stream that was left for later is dialed when the peer needs it
 * (the peer is in a generation without this process, or counts only streams that are up), and when
 * no worker has come for half of the form timeout; after that, one at each interval, when the one
 * before is up or has had its time. */
static bool stream_is_due(const struct qr_member *m, uint32_t i) {
    const struct peer *p = &m->peer[i];
    bool lists_us = p->reaches & index_bit(m->opt.index);
    if (m->formed) return m->now_ns >= m->stream_ns && !is_dialing_one(m);
    if (m->now_ns - m->newcomer_ns >= m->opt.form_timeout_ns / 2) return true;
    if (p->beat.phase != QR_PHASE_STARTING) return true;
    return p->beat.sequence && !lists_us &&
           m->now_ns - p->accepted_ns >= member_dial_wait_ns(m, HINT_AFTER_NS);
}

static void dial_stream_left(struct qr_member *m, uint32_t i) {
    struct peer *p = &m->peer[i];
    if (p->data != DATA_LATER || !dials_stream(m, i) || p->gone || !stream_is_due(m, i)) return;
    m->stream_ns = m->now_ns + member_slow_interval_ns(m);
    data_set_state(m, p, DATA_DIALED);
    request_stream(m, i, false);
}

void member_data_redial(struct qr_member *m, uint32_t i) {
    enum data_state s = m->peer[i].data;
    if ((s == DATA_NONE || s == DATA_DIALED) && dials_stream(m, i))
        member_emit(m, .kind = QR_ACT_RENEW_DATA, .index = i);
}

void member_data_begun(struct qr_member *m) {
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) {
        m->peer[i].data_broken_ns = 0;
        if (m->peer[i].data == DATA_BROKEN && !member_in_generation(m, i))
            data_set_state(m, &m->peer[i], DATA_NONE);
    }
}

/* The generation cannot continue; the next one leaves out one of the two peers. */
static void abandon_stream(struct qr_member *m, uint32_t i) {
    data_set_state(m, &m->peer[i], DATA_BAD);
    if (m->active && member_in_generation(m, i)) m->need_new = true;
    member_emit(m, .kind = QR_ACT_RENEW_DATA, .index = i, .silent = true);
    member_heartbeats_now(m);
}

void member_data_renew(struct qr_member *m, uint32_t i) {
    struct peer *p = &m->peer[i];
    if (!member_passes_data(p) || p->data == DATA_LATER || p->gone) return;
    if (p->data != DATA_DIALED) data_set_state(m, p, DATA_NONE);
    member_emit(m, .kind = QR_ACT_RENEW_DATA, .index = i);
}

/* Returns for how long both ends have polled, as far as this process knows, without a message from
 * the peer on its data stream. */
static int64_t data_silence_ns(const struct qr_member *m, uint32_t i) {
    const struct peer *p = &m->peer[i];
    if (!p->beat.polled_ms || qr_gen_id_compare(&p->beat.active, &m->generation.begin.id) != 0)
        return 0;
    int64_t until = p->beat_ns < m->polled.turn_ns ? p->beat_ns : m->polled.turn_ns;
    int64_t since = m->polled.since_ns > m->begun_ns ? m->polled.since_ns : m->begun_ns;
    int64_t polls_since = p->beat_ns - MS(p->beat.polled_ms);
    if (polls_since > since) since = polls_since;
    if (m->polled.received_ns[i] > since) since = m->polled.received_ns[i];
    return until - since;
}

bool qr_member_lacks_data(const struct qr_member *m, uint32_t index) {
    const struct peer *p = &m->peer[index];
    bool passes = member_passes_data(p) && p->data != DATA_DIALED;
    if (!is_responding(p) || p->gone || passes) return false;
    return p->data == DATA_BAD || m->now_ns - p->data_since_ns >= NO_STREAM_NS;
}

static void warn_missing_stream(struct qr_member *m, uint32_t i) {
    struct peer *p = &m->peer[i];
    if (p->data_warned || p->beat.expected_micro_batch_ms || !qr_member_lacks_data(m, i)) return;
    p->data_warned = true;
    if (p->data != DATA_BAD)
        member_log(m, QR_LOG_WARNING,
                   "%s answers, but no data connection with it has come up for %.0f s (data port "
                   "%u): check that the port is open",
                   qr_member_peer_text(m, i), (double)NO_STREAM_NS / 1e9, p->data_port);
}

void member_check_data(struct qr_member *m, uint32_t i) {
    struct peer *p = &m->peer[i];
    dial_stream_left(m, i);
    warn_missing_stream(m, i);
    if (!m->active || !member_in_generation(m, i) || p->gone || m->ending || p->data == DATA_BAD)
        return;
    int64_t silent = data_silence_ns(m, i);
    /* A handshake may be under way. */
    if (silent < (is_left_for_later(p) ? NO_STREAM_NS : SILENT_NS + m->polled.allow_ns)) return;
    member_log(m, QR_LOG_WARNING,
               "%s: no data received from it for %.2f s, although it answers: the group continues "
               "without one of the two",
               qr_member_peer_text(m, i), (double)silent / 1e9);
    abandon_stream(m, i);
}

void member_on_no_data(struct qr_member *m, uint32_t from, uint64_t before, uint64_t now) {
    struct peer *p = &m->peer[from];
    uint64_t added = now & ~before;
    for (uint64_t rest = added & ~index_bit(m->opt.index); rest; rest &= rest - 1) {
        char reporter[sizeof m->peer_text];
        snprintf(reporter, sizeof reporter, "%s", qr_member_peer_text(m, from));
        member_log(m, QR_LOG_WARNING, "%s reports that no data passes between it and %s", reporter,
                   qr_member_peer_text(m, (uint32_t)__builtin_ctzll(rest)));
    }
    if (!(added & index_bit(m->opt.index)) || p->data == DATA_BAD) return;
    /* A peer misses data for SILENT_NS before it reports that. An earlier report is about the
     * previous stream; renewing this one too would make the peer do the same. */
    if (p->data == DATA_UP && m->now_ns - p->data_since_ns < SILENT_NS / 2) return;
    member_log(m, QR_LOG_WARNING,
               "%s reports no data from this worker, although it answers: the group continues "
               "without one of the two",
               qr_member_peer_text(m, from));
    abandon_stream(m, from);
}

/* ---- reports of the caller ---- */

void member_on_data_up(struct qr_member *m, const struct qr_member_event *e) {
    struct peer *p = &m->peer[e->index];
    if (!p->known || !same_inc(p->incarnation, e->incarnation) || p->data == DATA_UP) return;
    if (p->data == DATA_BAD || p->data_warned)
        member_log(m, QR_LOG_INFO, "%s: data connection is up after %.1f s",
                   qr_member_peer_text(m, e->index), (double)(m->now_ns - p->data_since_ns) / 1e9);
    bool counted = is_left_for_later(p);
    data_set_state(m, p, DATA_UP);
    if (counted) return; /* No link has changed. */
    member_reset_backoff(m);
    member_heartbeats_soon(m);
}

void member_on_data_down(struct qr_member *m, const struct qr_member_event *e) {
    struct peer *p = &m->peer[e->index];
    bool member = member_in_generation(m, e->index);
    if (p->data == DATA_UP) data_set_state(m, p, member ? DATA_BROKEN : DATA_NONE);
    member_log(m, QR_LOG_DEBUG, "%s: data connection broke (%s)", qr_member_peer_text(m, e->index),
               e->text);
    if (e->lost && m->active && member && !m->ending && !p->data_broken_ns)
        p->data_broken_ns = m->now_ns;
}

bool qr_member_awaits_data(const struct qr_member *m) {
    bool any = false;
    for (uint32_t i = 0; i < QR_MAX_MEMBERS && !any; i++) {
        const struct peer *p = &m->peer[i];
        bool due =
            p->data == DATA_DIALED || (p->data == DATA_LATER && m->formed && !dials_stream(m, i));
        any = p->connected && !p->gone && (due || !member_passes_data(p));
    }
    return any;
}
