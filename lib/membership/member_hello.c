/* membership/member_hello.c — handshake: which process answers, with what settings, under which
 * index (protocol.md §3, rule 8). Start reading at member_on_hello().
 */
#include <stdio.h>
#include <string.h>

#include "base/checksum.h"
#include "membership/member_impl.h"

static uint64_t hello_digest_field(const char *value) {
    uint8_t d[QR_XXH3_BYTES];
    qr_xxh3(value, strlen(value), d);
    return qr_get_u64le(d);
}

void member_send_hello(struct qr_member *m, uint32_t conn) {
    struct qr_hello *h = &m->out.hello;
    m->out.kind = QR_MESSAGE_HELLO;
    memset(h, 0, sizeof *h);
    h->protocol_min = QR_PROTOCOL_MIN;
    h->protocol_max = QR_PROTOCOL_MAX;
    qr_text_cut(h->contract, sizeof h->contract, m->opt.contract);
    qr_text_cut(h->run, sizeof h->run, m->opt.run);
    h->index = m->opt.index;
    memcpy(h->incarnation, m->opt.incarnation, sizeof h->incarnation);
    memcpy(h->job_hash, m->opt.job_hash, sizeof h->job_hash);
    for (size_t i = 0; i < m->opt.n_fields && i < QR_MESSAGE_MAX_FIELDS; i++) {
        qr_text_cut(h->field[i].name, sizeof h->field[i].name, m->opt.fields[i].name);
        h->field[i].digest = hello_digest_field(m->opt.fields[i].value);
        h->n_fields++;
    }
    h->committed_reductions = m->held.committed_reductions;
    h->phase = m->formed ? QR_PHASE_MEMBER : QR_PHASE_STARTING;
    h->leader = m->active && m->generation.rank == 0;
    if (m->active) h->generation = m->generation.begin.id;
    h->highest_number = m->highest;
    h->data_port = m->opt.data_port;
    h->control_port = m->opt.control_port;
    if (m->opt.index < m->opt.n_peers)
        qr_text_cut(h->address, sizeof h->address, m->opt.peers[m->opt.index]);
    h->server = m->opt.server;
    h->n_heard = member_list_reached(m, h->heard);
    member_send(m, conn);
}

/* ---- different settings ---- */
static void add_mismatch_field(struct qr_member *m, struct member_conn *c, struct mismatch *mm,
                               const char *name, const char *here, const char *there) {
    struct other_field *o = &mm->field[mm->n++]; /* Callers compare SHOWN_FIELDS at most. */
    qr_text_cut(o->name, sizeof o->name, name);
    qr_text_cut(o->here, sizeof o->here, here ? here : "(none)");
    qr_text_cut(o->there, sizeof o->there, there ? there : "(unknown)");
    o->received = there != NULL;
    mm->n_text += o->received;
    /* Send the peer this worker's value. */
    struct qr_field_text *f = &m->out.field;
    m->out.kind = QR_MESSAGE_FIELD;
    memset(f, 0, sizeof *f);
    qr_text_cut(f->name, sizeof f->name, name);
    qr_text_cut(f->value, sizeof f->value, here ? here : "");
    f->absent = here == NULL;
    member_send(m, c->id);
}

/* Collects the settings that differ: first those of this worker in its order, then those that only
 * the peer has. Both sides send the text of the first SHOWN_FIELDS. */
static void compare_fields(struct qr_member *m, struct member_conn *c, struct mismatch *mm,
                           const struct qr_hello *h) {
    char here[80], there[80];
    if (h->protocol_max < QR_PROTOCOL_MIN || h->protocol_min > QR_PROTOCOL_MAX) {
        snprintf(here, sizeof here, "%d-%d", QR_PROTOCOL_MIN, QR_PROTOCOL_MAX);
        snprintf(there, sizeof there, "%u-%u", h->protocol_min, h->protocol_max);
        add_mismatch_field(m, c, mm, "protocol", here, there);
        return; /* The fields of another protocol version have no known meaning. */
    }
    if (strcmp(h->run, m->opt.run) != 0) {
        add_mismatch_field(m, c, mm, "name", m->opt.run, h->run);
        return; /* Another job. */
    }
    if (strcmp(h->contract, m->opt.contract) != 0)
        add_mismatch_field(m, c, mm, "contract", m->opt.contract, h->contract);
    for (size_t i = 0; i < m->opt.n_fields && i < QR_MESSAGE_MAX_FIELDS && mm->n < SHOWN_FIELDS;
         i++) {
        char name[QR_MESSAGE_NAME_BYTES];
        qr_text_cut(name, sizeof name, m->opt.fields[i].name);
        uint32_t k = 0;
        while (k < h->n_fields && strcmp(h->field[k].name, name) != 0) k++;
        if (strcmp(name, "contract") == 0) continue;
        if (k == h->n_fields) add_mismatch_field(m, c, mm, name, m->opt.fields[i].value, "(none)");
        else if (h->field[k].digest != hello_digest_field(m->opt.fields[i].value))
            add_mismatch_field(m, c, mm, name, m->opt.fields[i].value, NULL);
    }
    for (uint32_t k = 0; k < h->n_fields && mm->n < SHOWN_FIELDS; k++) {
        size_t i = 0;
        while (i < m->opt.n_fields &&
               strncmp(m->opt.fields[i].name, h->field[k].name, QR_MESSAGE_NAME_BYTES - 4) != 0)
            i++;
        if (i == m->opt.n_fields) add_mismatch_field(m, c, mm, h->field[k].name, NULL, NULL);
    }
    if (mm->n == 0) {
        qr_hex(m->opt.job_hash, sizeof m->opt.job_hash, here);
        qr_hex(h->job_hash, sizeof h->job_hash, there);
        add_mismatch_field(m, c, mm, "job hash", here, there);
    }
}

static const char *mismatch_text(struct qr_member *m, uint32_t index, char *ret, size_t cap) {
    const struct mismatch *mm = &m->peer[index].mismatch;
    int n = snprintf(ret, cap, "%s has other settings under the job name \"%.80s\":",
                     qr_member_peer_text(m, index), m->opt.run);
    for (unsigned k = 0; k < mm->n && n > 0 && (size_t)n < cap; k++)
        n += snprintf(ret + n, cap - (size_t)n, "%s %s is %s there and %s here (worker %u)",
                      k ? ";" : "", mm->field[k].name, mm->field[k].there, mm->field[k].here,
                      m->opt.index);
    if (n > 0 && (size_t)n < cap)
        snprintf(ret + n, cap - (size_t)n,
                 "; give all workers the same job file, --set, --seed and program");
    return ret;
}

static void record_mismatch(struct qr_member *m, struct member_conn *c, const struct qr_hello *h) {
    struct mismatch *mm = &m->peer[h->index].mismatch;
    bool again = mm->on && same_inc(mm->incarnation, h->incarnation);
    int64_t since = mm->on ? mm->since_ns : m->now_ns;
    struct mismatch before = *mm;
    bool at_its_name = c->outgoing && !m->peer[h->index].dial.by_hint;
    *mm = (struct mismatch){
        .on = true, .dialed = at_its_name || (before.on && before.dialed), .since_ns = since};
    memcpy(mm->incarnation, h->incarnation, sizeof mm->incarnation);
    mm->by_leader = h->leader && h->phase == QR_PHASE_MEMBER && h->committed_reductions > 0;
    c->state = CONN_MISMATCH;
    c->index = h->index;
    compare_fields(m, c, mm, h);
    for (unsigned k = 0; again && k < mm->n && k < before.n; k++)
        if (before.field[k].received && !mm->field[k].received) {
            mm->field[k] = before.field[k];
            mm->n_text++;
        }
    if (!again && mm->n_text == mm->n)
        member_log(m, QR_LOG_ERROR, "%s", mismatch_text(m, h->index, m->text, sizeof m->text));
}

void member_on_field(struct qr_member *m, struct member_conn *c, const struct qr_field_text *f) {
    /* The peer rejected this worker before its hello, or without one; its text is not
     * authenticated. */
    if (c->state == CONN_NEW) {
        member_log(m, QR_LOG_WARNING, "rejected by a peer: its %s is %.200s", f->name,
                   f->absent ? "(none)" : f->value);
        return;
    }
    if (c->state != CONN_MISMATCH) return;
    struct mismatch *mm = &m->peer[c->index].mismatch;
    for (unsigned k = 0; k < mm->n; k++) {
        if (mm->field[k].received || strcmp(mm->field[k].name, f->name) != 0) continue;
        qr_text_cut(mm->field[k].there, sizeof mm->field[k].there, f->absent ? "(none)" : f->value);
        mm->field[k].received = true;
        if (++mm->n_text == mm->n)
            member_log(m, QR_LOG_ERROR, "%s", mismatch_text(m, c->index, m->text, sizeof m->text));
    }
}

/* Without TLS any process may claim to be an absent worker. A mismatch therefore counts for a
 * dialable worker only if it answered at its name. */
static bool mismatch_counts(const struct qr_member *m, uint32_t i) {
    const struct mismatch *mm = &m->peer[i].mismatch;
    bool never_dialed = i > m->opt.index && !m->opt.count_known;
    return mm->on && i < m->opt.n_peers && (mm->dialed || never_dialed) &&
           (mm->down_ns == 0 || m->now_ns - mm->down_ns < MISMATCH_KEEP_NS);
}

bool member_mismatched(struct qr_member *m) {
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (mismatch_counts(m, i)) return true;
    return false;
}

static void stop_mismatched(struct qr_member *m, uint32_t i) {
    char text[QR_ERR_MSG_BYTES];
    member_stop(m, QR_FAILED_PRECONDITION, QR_GOODBYE_REFUSED,
                mismatch_text(m, i, text, sizeof text));
}

void member_check_mismatch(struct qr_member *m) {
    for (uint32_t i = 0; i < QR_MAX_MEMBERS && !m->over; i++) {
        struct mismatch *mm = &m->peer[i].mismatch;
        if (mm->on && mm->down_ns && m->now_ns - mm->down_ns >= MISMATCH_KEEP_NS) mm->on = false;
        if (!mismatch_counts(m, i) || m->formed) continue;
        int64_t age = m->now_ns - mm->since_ns;
        bool complete = mm->n_text == mm->n || age >= REDIAL_NS;
        if ((mm->by_leader && complete) || age >= MISMATCH_STOP_NS) stop_mismatched(m, i);
    }
}

/* The peer's 30 s end a little before this worker's; the reason of its rejection holds here too. */
void member_mismatch_goodbye(struct qr_member *m, uint32_t index) {
    if (!m->formed && mismatch_counts(m, index) &&
        m->now_ns - m->peer[index].mismatch.since_ns >= MISMATCH_STOP_NS * 5 / 6)
        stop_mismatched(m, index);
}

/* ---- hello ---- */
static void send_claimed(struct qr_member *m, struct peer *p, uint32_t index) {
    m->out.kind = QR_MESSAGE_GOODBYE;
    m->out.goodbye = (struct qr_goodbye){.why = QR_GOODBYE_CLAIMED};
    snprintf(m->out.goodbye.text, sizeof m->out.goodbye.text,
             "another process claimed index %u later", index);
    member_send(m, p->conn);
}

/* Of two claims to one index the later one wins; the earlier process is notified and dropped.
 * False: same process, its other connection stays. */
static bool hello_replace(struct qr_member *m, struct member_conn *c, const struct qr_hello *h) {
    uint32_t index = h->index;
    struct peer *p = &m->peer[index];
    bool same = p->known && same_inc(p->incarnation, h->incarnation);
    if (!same && p->connected) send_claimed(m, p, index);
    if (!member_dial_resolve(m, c, index, same)) return false;
    if (same || !p->known) return true;
    p->connected = false;
    if (m->promised.index == index) m->promise_exclusive = false;
    member_log(m, QR_LOG_INFO, "%s restarted", qr_member_peer_text(m, index));
    return true;
}

static void accept_peer(struct qr_member *m, struct member_conn *c, const struct qr_hello *h) {
    struct peer *p = &m->peer[h->index];
    bool fresh = !p->known || !same_inc(p->incarnation, h->incarnation);
    c->state = CONN_PEER;
    c->index = h->index;
    p->connected = true;
    p->silent = false;
    p->conn = c->id;
    p->received_ns = m->now_ns;
    p->sent_ns = p->due_ns = 0;
    p->data_port = h->data_port;
    p->accepted_ns = m->now_ns;
    memcpy(p->host, c->host, sizeof p->host);
    qr_ip_with_port(c->host, h->control_port, p->at);
    memcpy(p->address, h->address, sizeof p->address);
    p->mismatch.on = false;
    p->differs_since_ns = -1;
    if (fresh) {
        p->known = true;
        p->server = h->server;
        p->gone = p->frozen = false;
        p->unpromised_ns = p->worked_ns = 0;
        p->turns_ns = m->now_ns;
        memcpy(p->incarnation, h->incarnation, QR_INCARNATION_BYTES);
        memset(&p->beat, 0, sizeof p->beat);
        m->newcomer_ns = m->now_ns;
        member_data_new_process(m, h->index, h->phase == QR_PHASE_STARTING);
        member_log(m, QR_LOG_INFO, "%s answered", qr_member_peer_text(m, h->index));
    } else {
        member_data_redial(m, h->index);
    }
    memcpy(p->beat.incarnation, h->incarnation, QR_INCARNATION_BYTES);
    p->beat.n_heard = h->n_heard;
    memcpy(p->beat.heard, h->heard, sizeof p->beat.heard);
    if (fresh) member_incarnation_changed(m);
    else member_reports_changed(m, h->index);
    if (p->beat.sequence == 0) { /* A heartbeat that arrived earlier is more recent. */
        p->beat.active = h->generation;
        p->beat.phase = h->phase;
        p->beat.committed_reductions = h->committed_reductions;
    }
    if (h->highest_number > m->highest) m->highest = h->highest_number;
    member_heartbeats_soon(m);
}

void member_on_hello(struct qr_member *m, struct member_conn *c, const struct qr_hello *h) {
    if (c->state != CONN_NEW) {
        bool same = same_inc(c->state == CONN_PEER ? m->peer[c->index].incarnation
                                                   : m->peer[c->index].mismatch.incarnation,
                             h->incarnation);
        if (same && h->index == c->index) return; /* Duplicate. */
        uint32_t index = c->index;
        bool peer = c->state == CONN_PEER;
        member_close(m, c);
        if (peer) member_peer_down(m, index, "it changed its index on one connection");
        return;
    }
    bool other_run = strcmp(h->run, m->opt.run) != 0;
    bool settings = h->protocol_max < QR_PROTOCOL_MIN || h->protocol_min > QR_PROTOCOL_MAX ||
                    strcmp(h->contract, m->opt.contract) != 0 ||
                    memcmp(h->job_hash, m->opt.job_hash, sizeof h->job_hash) != 0;
    if (other_run) { /* Never makes a member exit. */
        struct mismatch unused = {.on = true};
        compare_fields(m, c, &unused, h);
        member_log(m, QR_LOG_WARNING,
                   "rejected worker %u of another job: %s is \"%.100s\" there and \"%.100s\" here",
                   h->index, unused.field[0].name, unused.field[0].there, unused.field[0].here);
        member_close(m, c);
        return;
    }
    if (h->index == m->opt.index || (c->outgoing && h->index != c->tag)) {
        if (same_inc(h->incarnation, m->opt.incarnation))
            snprintf(m->text, sizeof m->text, "this worker connected to itself");
        else if (c->outgoing)
            snprintf(m->text, sizeof m->text, "peer at %.200s identifies as worker %u, expected %u",
                     m->peer[c->tag].dial.by_hint ? m->peer[c->tag].hint : m->opt.peers[c->tag],
                     h->index, c->tag);
        else
            snprintf(m->text, sizeof m->text,
                     "a peer that identifies as worker %u dialed worker %u", h->index,
                     m->opt.index);
        member_log(m, QR_LOG_WARNING, "a connection was closed: %s", m->text);
        member_close(m, c);
        return;
    }
    if (settings) {
        record_mismatch(m, c, h);
        return;
    }
    if (hello_replace(m, c, h) && !m->over) accept_peer(m, c, h);
}
