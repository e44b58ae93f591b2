/* group/control.c — drives the membership machine: messages of the link, the training thread and
 * the time go in as events, its actions are carried out. Start reading at control_run().
 */
#include "group/control.h"

#include <stdio.h>
#include <string.h>

#include "base/checksum.h"
#include "base/counter.h"
#include "base/ip.h"
#include "base/mem.h"

#define handle(c, ...)                                                                             \
    qr_member_handle((c)->member, qr_now_ns((c)->clock), &(struct qr_member_event){__VA_ARGS__})

/* ---- messages ---- */

/* Messages between control threads end with a crc32c: a flipped bit in a hello would name another
 * job, in a promise another state. TLS detects that earlier; plaintext does not. */
static bool send_out(struct control *c, uint32_t conn) {
    uint8_t crc[4];
    qr_set_u32le(crc, qr_crc32c(0, c->out.p, c->out.n));
    qr_buf_put(&c->out, crc, sizeof crc);
    return c->link->ops->send(c->link, conn, qr_buf_view(&c->out), (struct qr_bytes){0});
}

static bool strip_crc(struct qr_bytes m, struct qr_bytes *ret) {
    if (m.n < 4 || qr_get_u32le(m.p + m.n - 4) != qr_crc32c(0, m.p, m.n - 4)) return false;
    *ret = qr_bytes_of(m.p, m.n - 4);
    return true;
}

static void send_message(struct control *c, uint32_t conn, const struct qr_message *message) {
    struct qr_err err;
    qr_buf_clear(&c->out);
    if (qr_message_encode(message, &c->out, &err) != QR_OK)
        qr_error(c->log, "group", "%s", err.msg);
    else if (!send_out(c, conn))
        qr_debug(c->log, "group", "dropped a %s message: no connection, or its queue is full",
                 qr_message_kind_name(message->kind));
}

/* ---- echo: the round-trip time to each peer, for the metrics (qr_peer_rtt) ---- */

/* A message as long as a small step's gradients, so that low bandwidth shows as well as distance,
 * goes from control thread to control thread, one peer after the other, and is returned at once:
 * control threads never compute. TCP's own figure is unsuitable, since an idle peer delays its
 * acknowledgements. Lost echoes are ignored. */
enum { ECHO_BYTES = 2048, AT_ANSWER = 4, AT_SENT = 8 };
#define ASK_EVERY_NS (250 * INT64_C(1000000))
#define BELIEVED_NS (60 * QR_SECOND)
static const char magic[] = "qrE1";

static void send_echo(struct control *c, uint32_t conn, bool answer, uint64_t sent_ns) {
    uint8_t bytes[ECHO_BYTES] = {0};
    memcpy(bytes, magic, 4);
    bytes[AT_ANSWER] = answer;
    qr_set_u64le(bytes + AT_SENT, sent_ns);
    qr_buf_clear(&c->out);
    qr_buf_put(&c->out, bytes, sizeof bytes);
    (void)send_out(c, conn);
}

/* Asks the next connected peer when the interval has passed. */
static void ask_echo(struct control *c) {
    int64_t now = qr_now_ns(c->clock);
    uint32_t conn = 0, n = (uint32_t)c->o.n_peers;
    if (!c->echo || now - c->echo_ns < ASK_EVERY_NS) return;
    c->echo_ns = now;
    for (uint32_t tries = 0; tries < n && !conn; tries++) {
        c->echo_to = (c->echo_to + 1) % n;
        conn = qr_member_conn(c->member, c->echo_to);
    }
    if (conn) send_echo(c, conn, false, (uint64_t)now);
}

/* True: the message was an echo, and is handled. */
static bool handle_echo(struct control *c, uint32_t conn, struct qr_bytes message) {
    if (message.n != ECHO_BYTES || memcmp(message.p, magic, 4) != 0) return false;
    uint64_t sent_ns = qr_get_u64le(message.p + AT_SENT);
    int64_t took_ns = (int64_t)((uint64_t)qr_now_ns(c->clock) - sent_ns);
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) {
        if (qr_member_conn(c->member, i) != conn) continue; /* Not a peer's connection: no match. */
        double before_s = qr_peer_get_rtt(i), s = (double)took_ns / 1e9;
        if (!message.p[AT_ANSWER]) send_echo(c, conn, true, sent_ns);
        else if (took_ns > 0 && took_ns < BELIEVED_NS)
            qr_peer_rtt(i, before_s > 0 ? before_s + (s - before_s) / 4 : s);
    }
    return true;
}

/* ---- to the training thread ---- */

static void set_reason(struct qr_err *ret, enum qr_code code, const char *text) {
    ret->code = code; /* may be QR_OK */
    snprintf(ret->msg, sizeof ret->msg, "%s", text ? text : "");
}

static void post_end(struct control *c, const struct qr_member_action *a) {
    struct trainer_mail *to = c->trainer;
    bool stops = a->kind == QR_ACT_STOP;
    *(stops ? &to->stopped : &to->done) = true;
    set_reason(stops ? &to->stop : &to->end, a->code, a->text);
    if (!stops) to->done_ns = qr_now_ns(c->clock);
}

/* What the machine knows, for the next turn of the training thread. */
static void post_facts(struct control *c) {
    struct trainer_mail *to = c->trainer;
    to->common = *qr_member_common(c->member);
    to->awaits_data = qr_member_awaits_data(c->member);
    to->awaits_begin = qr_member_awaits_begin(c->member, &to->promised);
}

static bool begin_has_member(const struct qr_begin *b, const struct qr_begin_member *member) {
    for (uint32_t r = 0; r < b->n_members; r++)
        if (memcmp(&b->member[r].name, &member->name, sizeof member->name) == 0) return true;
    return false;
}

/* Updates the metrics of members that joined or left between two generations, and of those
 * present. */
static void count_change(const struct control *c, const struct qr_begin *now) {
    const struct qr_begin *before = &c->trainer->generation.begin;
    if (c->trainer->serial) {
        qr_count(QR_REGROUPS, 1);
        for (uint32_t r = 0; r < now->n_members; r++)
            qr_count(QR_MEMBERS_JOINED, !begin_has_member(before, &now->member[r]));
        for (uint32_t r = 0; r < before->n_members; r++)
            qr_count(QR_MEMBERS_LOST, !begin_has_member(now, &before->member[r]));
    }
    for (uint32_t i = 0; i < c->o.n_peers; i++)
        qr_peer_set(i, c->o.count_known || qr_peer_get(i) ? QR_PEER_ABSENT : QR_PEER_UNKNOWN);
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) qr_peer_serves(i, i < c->o.n_servers);
    for (uint32_t r = 0; r < now->n_members; r++) {
        qr_peer_set(now->member[r].name.index, QR_PEER_MEMBER);
        qr_peer_serves(now->member[r].name.index, now->member[r].server);
    }
}

/* Tells the machine what the trainer holds. */
static void read_held(struct control *c) {
    struct qr_held held;
    batch_queue_held(c->queue, &held);
    qr_member_set_held(c->member, &held);
}

static void begin_generation(struct control *c, const struct qr_generation *gen) {
    struct trainer_mail *to = c->trainer;
    count_change(c, &gen->begin);
    bool has_base = batch_queue_begin(c->queue, gen);
    read_held(c);
    to->generation = *gen;
    to->serial++;
    to->has_base = has_base;
    to->first |= gen->first;
}

bool control_with_port(const char *address, unsigned port, char *ret, size_t cap) {
    const char *colon = strrchr(address, ':');
    int n = colon ? snprintf(ret, cap, "%.*s:%u", (int)(colon - address), address, port) : -1;
    if (n <= 0 || (size_t)n >= cap) *ret = '\0';
    return *ret;
}

static void post_wanted(struct control *c, const struct qr_member_action *a) {
    struct trainer_mail *to = c->trainer;
    struct wanted_stream *s = &to->stream[a->index];
    if (a->kind == QR_ACT_PEER) {
        const char *named = a->index < c->o.n_peers ? c->o.peers[a->index] : "";
        s->member = (struct qr_mesh_member){.index = a->index, .later = a->later};
        memcpy(s->member.incarnation, a->incarnation, sizeof s->member.incarnation);
        snprintf(s->member.name, sizeof s->member.name, "%.150s",
                 qr_member_peer_text(c->member, a->index));
        /* The address where it answers: its DNS name may not exist yet, or point elsewhere. */
        if (*a->text) qr_ip_with_port(a->text, a->data_port, s->member.address);
        else
            (void)control_with_port(named, a->data_port, s->member.address,
                                    sizeof s->member.address);
        s->renew = false;
    }
    s->expected = a->kind != QR_ACT_PEER_GONE;
    s->renew = s->renew || a->kind == QR_ACT_RENEW_DATA;
    s->changed = to->streams_changed = true;
    if (a->silent) qr_count(QR_DATA_STREAMS_SILENT, 1);
}

/* ---- actions and events ---- */

static void act(void *ctx, const struct qr_member_action *a) {
    struct control *c = ctx;
    switch (a->kind) {
    case QR_ACT_SEND: send_message(c, a->conn, a->message); return;
    case QR_ACT_CLOSE: c->link->ops->close_conn(c->link, a->conn); return;
    case QR_ACT_DIAL: c->link->ops->dial(c->link, a->index, a->text); return;
    case QR_ACT_HANG_UP: c->link->ops->hang_up(c->link, a->index); return;
    case QR_ACT_LOG: qr_log_at(c->log, a->level, "group", "%s", a->text); return;
    case QR_ACT_PEER:
    case QR_ACT_PEER_GONE:
    case QR_ACT_RENEW_DATA: post_wanted(c, a); break;
    case QR_ACT_SUSPEND:
        batch_queue_freeze(c->queue);
        read_held(c);
        break;
    case QR_ACT_BEGIN: begin_generation(c, a->generation); break;
    case QR_ACT_STOP:
    case QR_ACT_DONE: post_end(c, a); break;
    }
    c->wakes = true;
}

static void handle_link(struct control *c, const struct qr_link_event *e) {
    struct qr_err err;
    struct qr_bytes whole;
    switch (e->kind) {
    case QR_LINK_UP:
        handle(c, .kind = QR_EVENT_UP, .conn = e->conn, .outgoing = e->outgoing, .index = e->tag,
               .text = e->host);
        break;
    case QR_LINK_DOWN: handle(c, .kind = QR_EVENT_DOWN, .conn = e->conn, .text = e->reason); break;
    case QR_LINK_MESSAGE:
        if (!strip_crc(e->message, &whole))
            handle(c, .kind = QR_EVENT_MALFORMED, .conn = e->conn,
                   .text = "damaged message: its crc32c is wrong");
        else if (handle_echo(c, e->conn, whole)) break;
        else if (qr_message_decode(whole, c->in, &err) == QR_OK)
            handle(c, .kind = QR_EVENT_MESSAGE, .conn = e->conn, .message = c->in);
        else handle(c, .kind = QR_EVENT_MALFORMED, .conn = e->conn, .text = err.msg);
        break;
    case QR_LINK_NOTHING:
    case QR_LINK_WOKEN: break;
    }
}

static void take_mail(struct control *c) {
    mailbox_lock(&c->box);
    c->mail = c->posted;
    c->posted.leave = c->posted.end = c->posted.rejected = false;
    c->posted.streams = 0;
    mailbox_unlock(&c->box);
}

static void handle_mail(struct control *c) {
    const struct control_mail *mail = &c->mail;
    handle(c, .kind = QR_EVENT_TRAINER, .turns = mail->turns,
           .micro_batch_ns = mail->micro_batch_ns, .polled = &mail->polled);
    for (uint64_t rest = mail->streams; rest; rest &= rest - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(rest);
        mailbox_lock(&c->box);
        struct stream_change s = c->stream[i];
        c->stream[i].lost = false;
        mailbox_unlock(&c->box);
        bool lost = s.lost && s.lost_serial == c->trainer->serial;
        if (s.lost || !s.up)
            handle(c, .kind = QR_EVENT_DATA_DOWN, .index = i, .text = s.reason, .lost = lost);
        if (s.up) handle(c, .kind = QR_EVENT_DATA_UP, .index = i, .incarnation = s.incarnation);
    }
    if (mail->rejected) handle(c, .kind = QR_EVENT_REJECTED);
    if (mail->end)
        handle(c, .kind = QR_EVENT_END, .code = mail->ended.code, .text = mail->ended.msg);
    if (mail->leave)
        handle(c, .kind = QR_EVENT_LEAVE, .code = mail->left.code, .text = mail->left.msg);
}

static void set_metrics(const struct control *c, int64_t began_ns) {
    qr_count_time(QR_MEMBERSHIP_TIME, qr_now_ns(c->clock) - began_ns);
    qr_count(QR_TURNS_CONTROL, 1);
    for (uint32_t i = 0; i < c->o.n_peers; i++)
        qr_peer_no_data(i, qr_member_lacks_data(c->member, i));
    qr_gauge(QR_PEERS_CONNECTED, qr_member_n_connected(c->member));
}

void control_run(struct control *c) {
    mailbox_lock(&c->trainer->box);
    read_held(c);
    handle(c, .kind = QR_EVENT_START);
    while (!c->mail.quit) {
        struct qr_link_event e;
        post_facts(c);
        if (c->wakes) mailbox_post(&c->trainer->box);
        else mailbox_unlock(&c->trainer->box);
        c->wakes = false;
        c->link->ops->poll(c->link, qr_member_deadline_ns(c->member), &e);
        mailbox_lock(&c->trainer->box);
        int64_t began_ns = qr_now_ns(c->clock);
        take_mail(c);
        read_held(c); /* after the mail: the refusals of a rejected sum are in it */
        handle_link(c, &e);
        handle_mail(c);
        ask_echo(c);
        set_metrics(c, began_ns);
    }
    mailbox_unlock(&c->trainer->box);
    mailbox_close(&c->box);
    c->link->ops->free(c->link); /* Still sends what is queued. */
    c->link = NULL;
}

/* ---- other threads ---- */

void control_post(struct control *c, uint64_t serial, const struct qr_member_event *e) {
    struct control_mail *to = &c->posted;
    struct stream_change *s = &c->stream[e->index];
    mailbox_lock(&c->box);
    switch (e->kind) {
    case QR_EVENT_TRAINER:
        if (e->polled) to->polled = *e->polled;
        else to->turns++, to->micro_batch_ns = e->micro_batch_ns;
        mailbox_unlock(&c->box); /* The next turn reads it. */
        return;
    case QR_EVENT_DATA_UP:
        s->up = true;
        memcpy(s->incarnation, e->incarnation, sizeof s->incarnation);
        to->streams |= UINT64_C(1) << e->index;
        break;
    case QR_EVENT_DATA_DOWN:
        s->up = false;
        if (e->lost) s->lost = true, s->lost_serial = serial;
        snprintf(s->reason, sizeof s->reason, "%s", e->text);
        to->streams |= UINT64_C(1) << e->index;
        break;
    case QR_EVENT_REJECTED: to->rejected = true; break;
    case QR_EVENT_END:
        to->end = true;
        set_reason(&to->ended, e->code, e->text);
        break;
    default:
        if (!to->leave) set_reason(&to->left, e->code, e->text);
        to->leave = true;
    }
    mailbox_post(&c->box);
}

void control_quit(struct control *c) {
    mailbox_lock(&c->box);
    c->posted.quit = true;
    mailbox_post(&c->box);
}

/* ---- creating ---- */

void control_init(struct control *c) {
    struct qr_mesh_member *own = &c->trainer->stream[c->o.index].member;
    c->in = qr_xcalloc(1, sizeof *c->in);
    c->member = qr_member_new(&c->o, act, c);
    mailbox_init(&c->box, c->link);
    snprintf(own->name, sizeof own->name, "%.150s", qr_member_peer_text(c->member, c->o.index));
}

void control_free(struct control *c) {
    if (c->link) c->link->ops->free(c->link); /* control_run was not called */
    qr_member_free(c->member);
    qr_buf_free(&c->out);
    free(c->in);
    pthread_mutex_destroy(&c->box.lock);
}
