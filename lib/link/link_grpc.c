/* link/link_grpc.c — streams and events of a gRPC link. Start reading at link_poll() and
 * handle_op().
 *
 * All functions run on the owner's thread inside poll (and free), except wake and the release of
 * bodies. A completion queue has no public function to post an event, but starting an empty batch
 * on any call posts its tag at once: wake uses a call on a lame channel, which never uses the
 * network.
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

#define CANCELLED_NS (5 * QR_SECOND)
/* A yield that takes longer than this means that another thread computes on the processor. */
#define PREEMPTED_NS QR_MS
#define NO_SPIN_NS QR_SECOND /* then block instead of spinning, for this time */

static struct grpc_link *grpc_link_of(struct qr_link *l) { return (struct grpc_link *)l; }

static size_t link_unreleased(struct qr_link *l) {
    size_t n = link_grpc_borrowed(grpc_link_of(l)->borrowed);
    for (const struct conn *c = grpc_link_of(l)->conns; c; c = c->next)
        if (!c->over) n += c->queue.n + c->sending;
    return n;
}

/* ---- events ---- */

static void report_up(struct conn *c, struct qr_link_event *ret) {
    *ret = (struct qr_link_event){
        .kind = QR_LINK_UP, .conn = c->id, .outgoing = c->outgoing, .tag = c->tag};
    link_grpc_host(c->call, ret->host, sizeof ret->host);
}

/* Ends the stream for its owner; true when *ret is a DOWN event. */
static bool end_conn(struct grpc_link *g, struct conn *c, const char *why,
                     struct qr_link_event *ret) {
    if (c->over) return false;
    bool report = c->up && !c->silent;
    c->over = true;
    link_grpc_queue_drop(&c->queue);
    link_grpc_drop_buffer(&c->held);
    link_grpc_dial_retire(g, c);
    if (!report) return false;
    *ret = (struct qr_link_event){
        .kind = QR_LINK_DOWN, .conn = c->id, .outgoing = c->outgoing, .tag = c->tag};
    snprintf(ret->reason, sizeof ret->reason, "%s", *why ? why : "the stream was reset");
    return true;
}

static bool end_conn_by_status(struct grpc_link *g, struct conn *c, struct qr_link_event *ret) {
    if (!c->outgoing) return end_conn(g, c, "", ret);
    if (c->status == GRPC_STATUS_OK)
        return end_conn(g, c, "the other side closed the connection", ret);
    char *text = grpc_slice_to_c_string(c->details);
    bool has_event = end_conn(g, c, text, ret);
    gpr_free(text);
    return has_event;
}

static bool deliver_message(struct grpc_link *g, struct conn *c, grpc_byte_buffer *b,
                            struct qr_link_event *ret) {
    if (c->dial) link_grpc_dial_answers(c->dial);
    g->current = b;
    qr_count(QR_RECEIVED_BYTES, grpc_byte_buffer_length(b));
    link_grpc_guard_delivered(c->caller, grpc_byte_buffer_length(b));
    *ret = (struct qr_link_event){
        .kind = QR_LINK_MESSAGE, .conn = c->id, .outgoing = c->outgoing, .tag = c->tag};
    ret->message = link_grpc_unpack(&g->unpacked, b, g->base.in_pieces ? &ret->pieces : NULL);
    g->delivered = c->id;
    return true;
}

static bool on_received(struct grpc_link *g, struct conn *c, bool ok, struct qr_link_event *ret) {
    grpc_byte_buffer *b = c->incoming;
    c->incoming = NULL;
    c->reading = false;
    if (!ok || !b) { /* the last message: the client's half is closed, or the status follows */
        if (b) grpc_byte_buffer_destroy(b);
        if (c->outgoing || c->over) return false;
        c->closing = true;
        /* Otherwise the connection broke: the status reports it. */
        ok = ok && !grpc_call_failed_before_recv_message(c->call);
        bool has_event = ok && end_conn(g, c, "the other side closed the connection", ret);
        if (ok) {
            c->over = false; /* end this half too */
            c->silent = true;
            link_grpc_send_more(c);
        }
        return has_event;
    }
    if (c->over || c->silent) {
        grpc_byte_buffer_destroy(b);
        link_grpc_read_more(c);
        return false;
    }
    if (c->paused) {
        c->held = b;
        return false;
    }
    return deliver_message(g, c, b, ret);
}

static bool on_started(struct grpc_link *g, struct conn *c, bool ok, struct qr_link_event *ret) {
    if (c->outgoing) {
        bool marked = false;
        for (size_t i = 0; ok && i < c->initial.count; i++)
            if (grpc_slice_str_cmp(c->initial.metadata[i].key, LINK_GRPC_MARK) == 0) marked = true;
        if (!marked) {
            if (ok) grpc_call_cancel(c->call, NULL);
            return false; /* the status follows */
        }
    } else if (!ok) {
        return false;
    }
    if (c->over) return false;
    c->up = true;
    if (c->dial) link_grpc_dial_up(g, c->dial);
    link_grpc_read_more(c);
    if (c->silent) {
        link_grpc_send_more(c);
        return false;
    }
    report_up(c, ret);
    return true;
}

/* True when *ret is an event for the owner. */
static bool handle_op(struct grpc_link *g, struct op *op, bool ok, struct qr_link_event *ret) {
    struct conn *c = op->conn;
    bool has_event = false;
    if (c) c->n_ops--;
    switch (op->kind) {
    case OP_START: has_event = on_started(g, c, ok, ret); break;
    case OP_RECV: has_event = on_received(g, c, ok, ret); break;
    case OP_SEND:
        c->sending = false;
        if (ok) link_grpc_send_more(c);
        break;
    case OP_STATUS: has_event = end_conn_by_status(g, c, ret); break;
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
    if (c && c->over && c->n_ops == 0) link_grpc_remove(g, c);
    return has_event;
}

/* ---- the operations ---- */

static void link_close_conn(struct qr_link *l, uint32_t id) {
    struct grpc_link *g = grpc_link_of(l);
    struct conn *c = link_grpc_find(g, id);
    if (!c || c->over) return;
    link_grpc_close_silently(g, c);
    link_grpc_dial_retire(g, c);
}

static bool link_send(struct qr_link *l, uint32_t id, struct qr_bytes head, struct qr_bytes body) {
    struct grpc_link *g = grpc_link_of(l);
    struct conn *c = link_grpc_find(g, id);
    bool there = c && c->up && !c->over && !c->silent;
    bool fits = head.n <= QR_LINK_MAX_MESSAGE && body.n <= QR_LINK_MAX_MESSAGE - head.n;
    if (!there || !fits) return false;
    if (link_grpc_queue_full(&c->queue, head.n)) return false;
    link_grpc_queue_put(&c->queue, link_grpc_pack(g->borrowed, head, body), head.n);
    qr_count(QR_SENT_BYTES, head.n + body.n);
    link_grpc_send_more(c);
    return true;
}

static void link_pause(struct qr_link *l, uint32_t id, bool paused) {
    struct conn *c = link_grpc_find(grpc_link_of(l), id);
    if (!c || c->silent) return;
    c->paused = paused;
    link_grpc_read_more(c);
}

/* Runs the timers that are due; returns the time of the next one. */
static int64_t run_timers(struct grpc_link *g) {
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

/* Reads again only after the owner has processed the last message: a read immediately sends a
 * window update to the peer, and the owner's reply should be sent first. */
static void read_after(struct grpc_link *g) {
    struct conn *c = g->delivered ? link_grpc_find(g, g->delivered) : NULL;
    g->delivered = 0;
    link_grpc_drop_buffer(&g->current);
    if (c) link_grpc_read_more(c);
}

static grpc_event next_event(struct grpc_link *g, int64_t until_ns) {
    int64_t now_ns = g->base.look_ns ? qr_now_ns(g->clock) : 0,
            spin_until_ns = now_ns + g->base.look_ns;
    while (now_ns < spin_until_ns && now_ns < until_ns && now_ns >= g->sleep_until_ns) {
        grpc_event e = grpc_completion_queue_next(g->cq, link_grpc_at(0), NULL);
        if (e.type != GRPC_QUEUE_TIMEOUT) return e;
        int64_t before_ns = now_ns;
        sched_yield();
        now_ns = qr_now_ns(g->clock);
        if (now_ns - before_ns > PREEMPTED_NS) g->sleep_until_ns = now_ns + NO_SPIN_NS;
    }
    return grpc_completion_queue_next(g->cq, link_grpc_at(until_ns), NULL);
}

static void link_poll(struct qr_link *l, int64_t deadline_ns, struct qr_link_event *ret) {
    struct grpc_link *g = grpc_link_of(l);
    *ret = (struct qr_link_event){.kind = QR_LINK_NOTHING};
    read_after(g);
    for (struct conn *c = g->conns; c; c = c->next)
        if (c->held && !c->paused) {
            grpc_byte_buffer *b = c->held;
            c->held = NULL;
            deliver_message(g, c, b, ret);
            return;
        }
    /* gRPC rounds a deadline up to the next millisecond: a deadline in the past must not wait. */
    bool no_wait = deadline_ns <= qr_now_ns(g->clock);
    for (;;) {
        int64_t due_ns = run_timers(g), until_ns = due_ns < deadline_ns ? due_ns : deadline_ns;
        atomic_store_explicit(&g->due_ns, until_ns, memory_order_relaxed);
        grpc_event e = next_event(g, no_wait ? 0 : until_ns);
        atomic_store_explicit(&g->due_ns, INT64_MAX, memory_order_relaxed);
        if (e.type == GRPC_OP_COMPLETE && handle_op(g, e.tag, e.success, ret)) return;
        /* Also when internal events keep arriving. */
        if (qr_now_ns(g->clock) >= deadline_ns) return;
    }
}

static void link_wake(struct qr_link *l) {
    struct grpc_link *g = grpc_link_of(l);
    pthread_mutex_lock(&g->wake_lock);
    if (!g->wake_pending)
        g->wake_pending =
            grpc_call_start_batch(g->wake_call, NULL, 0, &g->op_wake, NULL) == GRPC_CALL_OK;
    pthread_mutex_unlock(&g->wake_lock);
}

/* Handles events without reporting them while go_on returns true, until by_ns. */
static void drain_events(struct grpc_link *g, bool (*go_on)(const struct grpc_link *),
                         int64_t by_ns) {
    struct qr_link_event none;
    while (go_on(g) && qr_now_ns(g->clock) < by_ns) {
        int64_t due_ns = run_timers(g);
        grpc_event e =
            grpc_completion_queue_next(g->cq, link_grpc_at(due_ns < by_ns ? due_ns : by_ns), NULL);
        if (e.type == GRPC_OP_COMPLETE) handle_op(g, e.tag, e.success, &none);
        link_grpc_drop_buffer(&g->current);
    }
}

static bool has_conns(const struct grpc_link *g) { return g->conns != NULL; }
static bool is_busy(const struct grpc_link *g) {
    return g->conns || (g->acceptor && link_grpc_acceptor_pending(g->acceptor)) ||
           !g->server_down || g->wake_pending;
}

static void link_free(struct qr_link *l) {
    struct grpc_link *g = grpc_link_of(l);
    if (!g) return;
    g->freeing = true;
    link_grpc_drop_buffer(&g->current);
    link_grpc_end_dialing(g);
    for (struct conn *c = g->conns; c; c = c->next) {
        link_grpc_close_silently(g, c);
        if (!c->connecting) continue;
        grpc_channel_destroy(c->channel); /* completes OP_CONNECTED */
        c->channel = NULL;
    }
    drain_events(g, has_conns, qr_now_ns(g->clock) + LINK_GRPC_CLOSE_NS);
    for (struct conn *c = g->conns; c; c = c->next) grpc_call_cancel(c->call, NULL);
    link_grpc_stop_listening(g);
    drain_events(g, is_busy, qr_now_ns(g->clock) + CANCELLED_NS);
    QR_ASSERT(!is_busy(g)); /* everything was cancelled */
    if (g->server) grpc_server_destroy(g->server);
    link_grpc_acceptor_free(g->acceptor);
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
    link_grpc_keep_memory();
    link_grpc_init();
    g->base.ops = &grpc_ops;
    g->clock = clock;
    g->tls = tls;
    g->cq = grpc_completion_queue_create_for_next(NULL);
    g->op_accept.kind = OP_ACCEPT;
    g->op_shutdown.kind = OP_SHUTDOWN;
    g->op_wake.kind = OP_WAKE;
    g->quota = grpc_resource_quota_create("qring");
    link_grpc_fit_quota(g);
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
    grpc_link_of(l)->with_acceptor = true;
    grpc_link_of(l)->log = log;
    return l;
}
