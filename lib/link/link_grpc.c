/* link/link_grpc.c — see link_grpc.h. Everything runs on the owner's thread inside poll (and free);
 * only wake and the release of bodies come from others.
 *
 * A completion queue has no public way to post an event, but starting an empty batch on any call
 * puts its tag there at once: wake uses a call on a lame channel, which never touches the network.
 */
#include "link/link_grpc.h"

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/counter.h"
#include "base/mem.h"
#include "link/link_grpc_state_impl.h"

enum { QUOTA_BYTES = 16 << 20, QUOTA_CONN_BYTES = 16 << 20 };
/* then a stream is reset: a frozen peer must not hold up those that leave because of it */
#define CLOSE_NS (250 * INT64_C(1000000))
#define CANCELLED_NS (5 * QR_SECOND)
/* who lets others run and gets the processor back only after this is beside
 * somebody who computes: */
#define TAKEN_NS QR_MS
#define SLEEP_NS QR_SECOND /* so long he sleeps at once */

static struct grpc_link *self(struct qr_link *l) { return (struct grpc_link *)l; }
gpr_timespec link_grpc_at(int64_t ns) {
    if (ns == INT64_MAX) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    return (gpr_timespec){.tv_sec = ns / QR_SECOND,
                          .tv_nsec = (int32_t)(ns % QR_SECOND),
                          .clock_type = GPR_CLOCK_MONOTONIC};
}

static size_t link_unreleased(struct qr_link *l) {
    size_t n = link_grpc_borrowed(self(l)->borrowed);
    for (const struct conn *c = self(l)->conns; c; c = c->next)
        if (!c->over) n += c->queue.n + c->sending;
    return n;
}

static void drop(grpc_byte_buffer **b) {
    if (*b) grpc_byte_buffer_destroy(*b);
    *b = NULL;
}

/* ---- one connection ---- */

bool link_grpc_batch(struct conn *c, enum op_kind kind, const grpc_op *ops, size_t n) {
    if (grpc_call_start_batch(c->call, ops, n, &c->op[kind], NULL) != GRPC_CALL_OK) return false;
    c->n_ops++;
    return true;
}

/* gRPC gives a message that announces its length all the room that it asks for, and looks at the
 * limit when it is whole. Who uses that is cut by the guard; should it come too late, what goes
 * beyond the quota is cut off, which may hit a connection beside it too. */
static void fit_quota(struct grpc_link *g) {
    grpc_resource_quota_resize(g->quota, QUOTA_BYTES + (size_t)g->n_conns * QUOTA_CONN_BYTES);
}

struct conn *link_grpc_conn_new(struct grpc_link *g, bool outgoing) {
    struct conn *c = qr_xcalloc(1, sizeof *c);
    for (int k = 0; k < OP_KINDS; k++) c->op[k] = (struct op){(enum op_kind)k, c};
    c->outgoing = outgoing;
    c->id = ++g->next_id;
    c->close_by_ns = INT64_MAX;
    grpc_metadata_array_init(&c->initial);
    grpc_metadata_array_init(&c->trailing);
    c->details = grpc_empty_slice();
    c->next = g->conns;
    g->conns = c;
    g->n_conns++;
    fit_quota(g);
    return c;
}

static struct conn *find(struct grpc_link *g, uint32_t id) {
    for (struct conn *c = g->conns; c; c = c->next)
        if (c->id == id) return c;
    return NULL;
}

static void remove_conn(struct grpc_link *g, struct conn *c) {
    struct conn **at = &g->conns;
    while (*at != c) at = &(*at)->next;
    *at = c->next;
    g->n_conns--;
    fit_quota(g);
    link_grpc_queue_drop(&c->queue);
    drop(&c->held);
    drop(&c->incoming);
    grpc_metadata_array_destroy(&c->initial);
    grpc_metadata_array_destroy(&c->trailing);
    grpc_slice_unref(c->details);
    grpc_call_unref(c->call);
    link_grpc_guard_end(c->caller);
    if (c->channel) grpc_channel_destroy(c->channel);
    free(c);
}

static void read_more(struct conn *c) {
    if (!c->up || c->reading || c->paused || c->held || c->over) return;
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &c->incoming};
    c->reading = link_grpc_batch(c, OP_RECV, &op, 1);
}

/* The stream's end from our side, after all that was queued. */
static void finish(struct conn *c) {
    if (c->finish_started || c->over) return;
    grpc_op op = {.op = c->outgoing ? GRPC_OP_SEND_CLOSE_FROM_CLIENT
                                    : GRPC_OP_SEND_STATUS_FROM_SERVER};
    if (!c->outgoing) {
        op.data.send_status_from_server.status = GRPC_STATUS_OK;
        op.data.send_status_from_server.status_details = &c->details; /* empty */
    }
    c->finish_started = link_grpc_batch(c, OP_FINISH, &op, 1);
    if (!c->finish_started) grpc_call_cancel(c->call, NULL);
}

static void send_more(struct conn *c) {
    if (!c->up || c->sending || c->over) return;
    if (!c->queue.n) {
        if (c->closing) finish(c);
        return;
    }
    grpc_byte_buffer *b = link_grpc_queue_take(&c->queue);
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = b};
    c->sending = link_grpc_batch(c, OP_SEND, &op, 1);
    grpc_byte_buffer_destroy(b);
}

/* No event of it is told any more. */
void link_grpc_close_silently(struct grpc_link *g, struct conn *c) {
    if (c->silent) return;
    c->silent = c->closing = true;
    c->close_by_ns = qr_now_ns(g->clock) + CLOSE_NS;
    c->paused = false;
    drop(&c->held);
    if (!c->up) grpc_call_cancel(c->call, NULL);
    read_more(c); /* the other side's end is behind what it sent */
    send_more(c);
}

/* ---- events ---- */

static void tell_up(struct conn *c, struct qr_link_event *ret) {
    *ret = (struct qr_link_event){
        .kind = QR_LINK_UP, .conn = c->id, .outgoing = c->outgoing, .tag = c->tag};
    link_grpc_host(c->call, ret->host, sizeof ret->host);
}

/* The stream is over for its owner; true when DOWN is to be told. */
static bool over(struct grpc_link *g, struct conn *c, const char *why, struct qr_link_event *ret) {
    if (c->over) return false;
    bool tell = c->up && !c->silent;
    c->over = true;
    link_grpc_queue_drop(&c->queue);
    drop(&c->held);
    link_grpc_dial_retire(g, c);
    if (!tell) return false;
    *ret = (struct qr_link_event){
        .kind = QR_LINK_DOWN, .conn = c->id, .outgoing = c->outgoing, .tag = c->tag};
    snprintf(ret->reason, sizeof ret->reason, "%s", *why ? why : "the stream was reset");
    return true;
}

static bool over_by_status(struct grpc_link *g, struct conn *c, struct qr_link_event *ret) {
    if (!c->outgoing) return over(g, c, "", ret);
    if (c->status == GRPC_STATUS_OK) return over(g, c, "the other side closed the connection", ret);
    char *text = grpc_slice_to_c_string(c->details);
    bool told = over(g, c, text, ret);
    gpr_free(text);
    return told;
}

static bool deliver(struct grpc_link *g, struct conn *c, grpc_byte_buffer *b,
                    struct qr_link_event *ret) {
    if (c->dial) link_grpc_dial_answers(c->dial); /* it is one of ours */
    g->current = b;
    qr_count(QR_RECEIVED_BYTES, grpc_byte_buffer_length(b));
    link_grpc_guard_delivered(c->caller, grpc_byte_buffer_length(b));
    *ret = (struct qr_link_event){
        .kind = QR_LINK_MESSAGE, .conn = c->id, .outgoing = c->outgoing, .tag = c->tag};
    ret->message = link_grpc_unpack(&g->unpacked, b, g->base.in_pieces ? &ret->pieces : NULL);
    g->delivered = c->id;
    return true;
}

static bool received(struct grpc_link *g, struct conn *c, bool ok, struct qr_link_event *ret) {
    grpc_byte_buffer *b = c->incoming;
    c->incoming = NULL;
    c->reading = false;
    if (!ok || !b) { /* no more comes: the client's half is closed, or the status follows */
        if (b) grpc_byte_buffer_destroy(b);
        if (c->outgoing || c->over) return false;
        c->closing = true;
        /* else the connection broke: the status says so */
        ok = ok && !grpc_call_failed_before_recv_message(c->call);
        bool told = ok && over(g, c, "the other side closed the connection", ret);
        if (ok) {
            c->over = false; /* so that our half ends too */
            c->silent = true;
            send_more(c);
        }
        return told;
    }
    if (c->over || c->silent) {
        grpc_byte_buffer_destroy(b);
        read_more(c);
        return false;
    }
    if (c->paused) {
        c->held = b;
        return false;
    }
    return deliver(g, c, b, ret);
}

static bool started(struct grpc_link *g, struct conn *c, bool ok, struct qr_link_event *ret) {
    if (c->outgoing) {
        bool marked = false;
        for (size_t i = 0; ok && i < c->initial.count; i++)
            if (grpc_slice_str_cmp(c->initial.metadata[i].key, LINK_GRPC_MARK) == 0) marked = true;
        if (!marked) {
            if (ok) grpc_call_cancel(c->call, NULL);
            return false; /* the status tells the rest */
        }
    } else if (!ok) {
        return false;
    }
    if (c->over) return false;
    c->up = true;
    if (c->dial) link_grpc_dial_up(g, c->dial);
    read_more(c);
    if (c->silent) {
        send_more(c);
        return false;
    }
    tell_up(c, ret);
    return true;
}

/* True when *ret is an event to tell. */
static bool handle(struct grpc_link *g, struct op *op, bool ok, struct qr_link_event *ret) {
    struct conn *c = op->conn;
    bool told = false;
    if (c) c->n_ops--;
    switch (op->kind) {
    case OP_START: told = started(g, c, ok, ret); break;
    case OP_RECV: told = received(g, c, ok, ret); break;
    case OP_SEND:
        c->sending = false;
        if (ok) send_more(c);
        break;
    case OP_STATUS: told = over_by_status(g, c, ret); break;
    case OP_FINISH: break;
    case OP_CONNECTED: c->connecting = false; break;
    case OP_ACCEPT: link_grpc_accept(g); break;
    case OP_SHUTDOWN: g->server_down = true; break;
    case OP_WAKE:
        pthread_mutex_lock(&g->wake_lock);
        g->wake_pending = false;
        pthread_mutex_unlock(&g->wake_lock);
        *ret = (struct qr_link_event){.kind = QR_LINK_WOKEN};
        return true;
    default: break;
    }
    if (c && c->over && c->n_ops == 0) remove_conn(g, c);
    return told;
}

/* ---- the operations ---- */

static void link_close_conn(struct qr_link *l, uint32_t id) {
    struct grpc_link *g = self(l);
    struct conn *c = find(g, id);
    if (!c || c->over) return;
    link_grpc_close_silently(g, c);
    link_grpc_dial_retire(g, c);
}

static bool link_send(struct qr_link *l, uint32_t id, struct qr_bytes head, struct qr_bytes body) {
    struct grpc_link *g = self(l);
    struct conn *c = find(g, id);
    bool there = c && c->up && !c->over && !c->silent;
    bool fits = head.n <= QR_LINK_MAX_MESSAGE && body.n <= QR_LINK_MAX_MESSAGE - head.n;
    if (!there || !fits) return false;
    if (link_grpc_queue_full(&c->queue, head.n)) return false;
    link_grpc_queue_put(&c->queue, link_grpc_pack(g->borrowed, head, body), head.n);
    qr_count(QR_SENT_BYTES, head.n + body.n);
    send_more(c);
    return true;
}

static void link_pause(struct qr_link *l, uint32_t id, bool paused) {
    struct conn *c = find(self(l), id);
    if (!c || c->silent) return;
    c->paused = paused;
    read_more(c);
}

/* Starts what is due and says when the next thing is. */
static int64_t timers(struct grpc_link *g) {
    int64_t due_ns = link_grpc_keep_dialing(g), now_ns = 0;
    int64_t reopen_ns = link_grpc_keep_listening(g);
    if (reopen_ns < due_ns) due_ns = reopen_ns;
    for (struct conn *c = g->conns; c; c = c->next) {
        if (c->close_by_ns == INT64_MAX) continue;
        if (!now_ns) now_ns = qr_now_ns(g->clock);
        if (c->close_by_ns <= now_ns) {
            grpc_call_cancel(c->call, NULL);
            c->close_by_ns = INT64_MAX;
        } else if (c->close_by_ns < due_ns) due_ns = c->close_by_ns;
    }
    return due_ns;
}

/* After the owner has worked in what came: a read tells the other side at once how much more it may
 * send, and his answer is to go first. */
static void read_after(struct grpc_link *g) {
    struct conn *c = g->delivered ? find(g, g->delivered) : NULL;
    g->delivered = 0;
    drop(&g->current);
    if (c) read_more(c);
}

static grpc_event next_event(struct grpc_link *g, int64_t until_ns) {
    int64_t now_ns = g->base.look_ns ? qr_now_ns(g->clock) : 0,
            look_until_ns = now_ns + g->base.look_ns;
    while (now_ns < look_until_ns && now_ns < until_ns && now_ns >= g->sleep_until_ns) {
        grpc_event e = grpc_completion_queue_next(g->cq, link_grpc_at(0), NULL);
        if (e.type != GRPC_QUEUE_TIMEOUT) return e;
        int64_t before_ns = now_ns;
        sched_yield();
        now_ns = qr_now_ns(g->clock);
        if (now_ns - before_ns > TAKEN_NS) g->sleep_until_ns = now_ns + SLEEP_NS;
    }
    return grpc_completion_queue_next(g->cq, link_grpc_at(until_ns), NULL);
}

static void link_poll(struct qr_link *l, int64_t deadline_ns, struct qr_link_event *ret) {
    struct grpc_link *g = self(l);
    *ret = (struct qr_link_event){.kind = QR_LINK_NOTHING};
    read_after(g);
    for (struct conn *c = g->conns; c; c = c->next)
        if (c->held && !c->paused) {
            grpc_byte_buffer *b = c->held;
            c->held = NULL;
            deliver(g, c, b, ret);
            return;
        }
    /* gRPC rounds a deadline up to the next millisecond: who only looks must not wait for that */
    bool only_looks = deadline_ns <= qr_now_ns(g->clock);
    for (;;) {
        int64_t due_ns = timers(g), until_ns = due_ns < deadline_ns ? due_ns : deadline_ns;
        atomic_store_explicit(&g->due_ns, until_ns, memory_order_relaxed);
        grpc_event e = next_event(g, only_looks ? 0 : until_ns);
        atomic_store_explicit(&g->due_ns, INT64_MAX, memory_order_relaxed);
        if (e.type == GRPC_OP_COMPLETE && handle(g, e.tag, e.success, ret)) return;
        /* also when events that nobody is told of keep coming */
        if (qr_now_ns(g->clock) >= deadline_ns) return;
    }
}

static void link_wake(struct qr_link *l) {
    struct grpc_link *g = self(l);
    pthread_mutex_lock(&g->wake_lock);
    if (!g->wake_pending)
        g->wake_pending =
            grpc_call_start_batch(g->wake_call, NULL, 0, &g->op_wake, NULL) == GRPC_CALL_OK;
    pthread_mutex_unlock(&g->wake_lock);
}

/* Handles events without telling them while cond holds, until by_ns. */
static void drain(struct grpc_link *g, bool (*go_on)(const struct grpc_link *), int64_t by_ns) {
    struct qr_link_event none;
    while (go_on(g) && qr_now_ns(g->clock) < by_ns) {
        int64_t due_ns = timers(g);
        grpc_event e =
            grpc_completion_queue_next(g->cq, link_grpc_at(due_ns < by_ns ? due_ns : by_ns), NULL);
        if (e.type == GRPC_OP_COMPLETE) handle(g, e.tag, e.success, &none);
        drop(&g->current);
    }
}

static bool has_conns(const struct grpc_link *g) { return g->conns != NULL; }
static bool is_busy(const struct grpc_link *g) {
    return g->conns || (g->door && link_grpc_acceptor_pending(g->door)) || !g->server_down ||
           g->wake_pending;
}

static void link_free(struct qr_link *l) {
    struct grpc_link *g = self(l);
    if (!g) return;
    g->freeing = true;
    drop(&g->current);
    link_grpc_end_dialing(g);
    for (struct conn *c = g->conns; c; c = c->next) {
        link_grpc_close_silently(g, c);
        if (!c->connecting) continue;
        grpc_channel_destroy(c->channel); /* which ends the wait for it */
        c->channel = NULL;
    }
    drain(g, has_conns, qr_now_ns(g->clock) + CLOSE_NS);
    for (struct conn *c = g->conns; c; c = c->next) grpc_call_cancel(c->call, NULL);
    link_grpc_stop_listening(g);
    drain(g, is_busy, qr_now_ns(g->clock) + CANCELLED_NS);
    QR_ASSERT(!is_busy(g)); /* everything was cancelled */
    if (g->server) grpc_server_destroy(g->server);
    link_grpc_acceptor_free(g->door);
    if (g->address) link_grpc_guard_port(g->port, 0, NULL);
    free(g->address);
    grpc_call_unref(g->wake_call);
    grpc_channel_destroy(g->lame);
    grpc_completion_queue_shutdown(g->cq);
    while (grpc_completion_queue_next(g->cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
           GRPC_QUEUE_SHUTDOWN)
        continue;
    grpc_completion_queue_destroy(g->cq);
    grpc_resource_quota_unref(g->quota);
    pthread_mutex_destroy(&g->wake_lock);
    free(g->unpacked.bytes);
    free(g->unpacked.piece);
    link_grpc_borrowed_release(g->borrowed);
    free(g);
    grpc_shutdown_blocking();
}

static const struct qr_link_ops grpc_ops = {
    .listen = link_grpc_listen,
    .dial = link_grpc_dial,
    .hang_up = link_grpc_hang_up,
    .close_conn = link_close_conn,
    .send = link_send,
    .unreleased = link_unreleased,
    .pause = link_pause,
    .poll = link_poll,
    .wake = link_wake,
    .free = link_free,
};

struct qr_link *qr_link_grpc_new(const struct qr_clock *clock, const struct qr_link_tls *tls) {
    struct grpc_link *g = qr_xcalloc(1, sizeof *g);
    link_grpc_log_hook();
    link_grpc_keep_memory();
    grpc_init();
    g->base.ops = &grpc_ops;
    g->clock = clock;
    g->tls = tls;
    g->cq = grpc_completion_queue_create_for_next(NULL);
    g->op_accept.kind = OP_ACCEPT;
    g->op_shutdown.kind = OP_SHUTDOWN;
    g->op_wake.kind = OP_WAKE;
    g->quota = grpc_resource_quota_create("qring");
    fit_quota(g);
    atomic_init(&g->due_ns, INT64_MAX);
    g->borrowed = link_grpc_borrowed_new();
    pthread_mutex_init(&g->wake_lock, NULL);
    g->lame = grpc_lame_client_channel_create("wake", GRPC_STATUS_UNAVAILABLE, "never connected");
    g->wake_call =
        grpc_channel_create_call(g->lame, NULL, 0, g->cq, grpc_slice_from_static_string("/wake"),
                                 NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    return &g->base;
}

struct qr_link *qr_link_grpc_new_with_acceptor(const struct qr_clock *clock,
                                               const struct qr_link_tls *tls,
                                               const struct qr_log *log) {
    struct qr_link *l = qr_link_grpc_new(clock, tls);
    self(l)->with_acceptor = true;
    self(l)->log = log;
    return l;
}
