/* link/link_grpc_service.c — the thread and the calls of a gRPC server of unary calls. Start
 * reading at service_thread(). */
#include "link/link_grpc_service.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "link/link_grpc_parts_impl.h"

/* MAX_CALLS: including cut calls that have not ended yet */
enum { QUOTA_BYTES = 64 << 20, UNSEEN_BYTES = 256 << 10, MAX_CALLS = 16 * QR_SERVICE_CALLS };
static const int64_t closed_within_ns = QR_SECOND / 4;

enum tag_kind { TAG_CALL, TAG_MESSAGE, TAG_CLOSED, TAG_ANSWERED, TAG_DOWN, TAG_KINDS };
struct tag {
    enum tag_kind kind;
    struct qr_service_call *call;
};

struct qr_service_call {
    struct qr_service *s;
    struct qr_service_call *next; /* older */
    grpc_call *call;
    char host[INET6_ADDRSTRLEN];
    struct link_grpc_caller *caller;
    struct tag tag[TAG_KINDS];
    unsigned n_ops; /* batches in flight */
    char *method;
    grpc_byte_buffer *message;
    int64_t by_ns; /* deadline for the request; INT64_MAX: it has arrived */
    bool asked;    /* the owner has the request, and has neither replied nor been told `gone` */
    bool answered, left, cut;
    int cancelled;
};

struct qr_service {
    struct qr_service_owner owner;
    const struct qr_clock *clock;
    grpc_completion_queue *cq;
    grpc_server *server;
    struct link_grpc_acceptor *acceptor;
    grpc_channel *lame;
    grpc_call *wake_call; /* never connected: its queue receives the acceptor's events */
    grpc_resource_quota *quota;
    int port;
    pthread_t thread;
    atomic_bool closing;
    /* used by the thread alone */
    struct tag tag_call, tag_down;
    bool down;
    struct qr_service_call *calls;
    unsigned n_calls;
};

static gpr_timespec service_timespec(int64_t ns) {
    if (ns == INT64_MAX) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    return (gpr_timespec){ns / QR_SECOND, (int32_t)(ns % QR_SECOND), GPR_CLOCK_MONOTONIC};
}

static void start_batch(struct qr_service_call *c, enum tag_kind kind, const grpc_op *ops,
                        size_t n) {
    grpc_call_error error = grpc_call_start_batch(c->call, ops, n, &c->tag[kind], NULL);
    QR_ASSERT(error == GRPC_CALL_OK);
    c->n_ops++;
}

static void finish_call(struct qr_service_call *c, grpc_status_code status, const char *details,
                        grpc_byte_buffer *message) {
    if (c->answered) return;
    grpc_slice text = grpc_slice_from_copied_string(details);
    grpc_op ops[3] = {{.op = GRPC_OP_SEND_INITIAL_METADATA}};
    size_t n = 1;
    if (message)
        ops[n++] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message};
    ops[n++] =
        (grpc_op){.op = GRPC_OP_SEND_STATUS_FROM_SERVER,
                  .data.send_status_from_server = {.status = status, .status_details = &text}};
    c->answered = true;
    c->asked = false;
    start_batch(c, TAG_ANSWERED, ops, n);
    grpc_slice_unref(text);
}

void qr_service_answer(struct qr_service_call *c, struct qr_bytes message) {
    grpc_slice slice = grpc_slice_from_copied_buffer((const char *)message.p, message.n);
    grpc_byte_buffer *packed = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    finish_call(c, GRPC_STATUS_OK, "", packed);
    grpc_byte_buffer_destroy(packed);
}

void qr_service_refuse(struct qr_service_call *c, const struct qr_err *err) {
    finish_call(c, (grpc_status_code)err->code, err->msg, NULL); /* qr_code has gRPC's values */
}

static void forget_request(struct qr_service_call *c) {
    if (c->asked && !atomic_load(&c->s->closing)) c->s->owner.gone(c->s->owner.ctx, c);
    c->asked = false;
}

static void drop_ended(struct qr_service *s) {
    for (struct qr_service_call **at = &s->calls; *at;) {
        struct qr_service_call *c = *at;
        if (c->n_ops) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        s->n_calls--;
        forget_request(c);
        link_grpc_guard_end(c->caller);
        if (c->message) grpc_byte_buffer_destroy(c->message);
        grpc_call_unref(c->call);
        free(c->method);
        free(c);
    }
}

static unsigned calls_of(const struct qr_service *s, const char *host) {
    unsigned n = 0;
    for (const struct qr_service_call *c = s->calls; c; c = c->next)
        n += !c->cut && strcmp(c->host, host) == 0;
    return n;
}

/* Cuts the oldest call of the host with most calls, so that one client cannot block the others. */
static void cut_oldest_call(struct qr_service *s) {
    struct qr_service_call *oldest = NULL;
    unsigned n = 0, most = 0;
    for (struct qr_service_call *c = s->calls; c; c = c->next) {
        if (c->cut) continue;
        unsigned its = calls_of(s, c->host);
        n++;
        if (its < most) continue;
        most = its;
        oldest = c;
    }
    if (n <= QR_SERVICE_CALLS) return;
    oldest->cut = true;
    forget_request(oldest);
    grpc_call_cancel_with_status(oldest->call, GRPC_STATUS_RESOURCE_EXHAUSTED,
                                 "too many calls of this client", NULL);
}

/* Accepts a call; requests its message and a notification of its end. */
static void on_new_call(struct qr_service *s) {
    struct link_grpc_stream stream;
    if (!link_grpc_acceptor_next(s->acceptor, &stream)) return;
    if (atomic_load(&s->closing) || s->n_calls >= MAX_CALLS) {
        link_grpc_refuse(&stream, GRPC_STATUS_RESOURCE_EXHAUSTED, "too many calls");
        return;
    }
    struct qr_service_call *c = qr_xcalloc(1, sizeof *c);
    for (int k = 0; k < TAG_KINDS; k++) c->tag[k] = (struct tag){(enum tag_kind)k, c};
    c->s = s;
    c->call = stream.call;
    c->caller = stream.caller;
    char *method = grpc_slice_to_c_string(stream.method);
    c->method = qr_xstrdup(method);
    gpr_free(method);
    grpc_slice_unref(stream.method);
    c->by_ns = qr_now_ns(s->clock) + QR_SERVICE_REQUEST_NS;
    link_grpc_host(c->call, c->host, sizeof c->host);
    c->next = s->calls;
    s->calls = c;
    s->n_calls++;
    cut_oldest_call(s);
    grpc_op closed = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
                      .data.recv_close_on_server.cancelled = &c->cancelled};
    grpc_op message = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &c->message};
    start_batch(c, TAG_CLOSED, &closed, 1);
    start_batch(c, TAG_MESSAGE, &message, 1);
}

static void service_on_request(struct qr_service_call *c, bool ok) {
    struct qr_service *s = c->s;
    struct link_grpc_unpacked unpacked = {0};
    c->by_ns = INT64_MAX;
    if (atomic_load(&s->closing)) {
        finish_call(c, GRPC_STATUS_UNAVAILABLE, "the worker is shutting down", NULL);
        return;
    }
    if (!ok || !c->message || c->left || c->cut) {
        finish_call(c, GRPC_STATUS_INVALID_ARGUMENT, "a request must have one message", NULL);
        return;
    }
    size_t n = grpc_byte_buffer_length(c->message);
    link_grpc_guard_delivered(c->caller, n);
    if (n > s->owner.max_request || c->message->data.raw.compression != GRPC_COMPRESS_NONE) {
        finish_call(c, GRPC_STATUS_INVALID_ARGUMENT, "the request is too long or compressed", NULL);
        return;
    }
    c->asked = true;
    s->owner.request(s->owner.ctx, c, c->method, link_grpc_unpack(&unpacked, c->message, NULL));
    free(unpacked.bytes);
    free(unpacked.piece);
}

static void handle_tag(struct qr_service *s, const struct tag *tag, bool ok) {
    struct qr_service_call *c = tag->call;
    if (c) c->n_ops--;
    switch (tag->kind) {
    case TAG_CALL: on_new_call(s); break;
    case TAG_MESSAGE: service_on_request(c, ok); break;
    case TAG_CLOSED:
        c->left = true;
        forget_request(c);
        break;
    case TAG_DOWN: s->down = true; break;
    case TAG_ANSWERED:
    case TAG_KINDS: break;
    }
}

/* Cancels calls whose request is overdue; returns the next deadline. */
static int64_t cancel_overdue(struct qr_service *s, int64_t now_ns) {
    int64_t next_ns = INT64_MAX;
    for (struct qr_service_call *c = s->calls; c; c = c->next) {
        if (now_ns >= c->by_ns) {
            grpc_call_cancel_with_status(c->call, GRPC_STATUS_DEADLINE_EXCEEDED,
                                         "the request did not arrive in time", NULL);
            c->by_ns = INT64_MAX;
        }
        if (c->by_ns < next_ns) next_ns = c->by_ns;
    }
    return next_ns;
}

static void *service_thread(void *ctx) {
    struct qr_service *s = ctx;
    pthread_setname_np(pthread_self(), "qring-profiler");
    int64_t by_ns = INT64_MAX;
    for (bool replied = false;;) {
        int64_t now_ns = qr_now_ns(s->clock), next_ns = by_ns;
        bool closing = atomic_load(&s->closing);
        if (closing && !replied) {
            for (struct qr_service_call *c = s->calls; c; c = c->next) {
                c->asked = false;
                if (!c->answered)
                    finish_call(c, GRPC_STATUS_UNAVAILABLE, "the worker is shutting down", NULL);
            }
            by_ns = next_ns = now_ns + closed_within_ns;
            replied = true;
        }
        if (!closing) {
            int64_t due_ns = s->owner.turn(s->owner.ctx, now_ns);
            next_ns = cancel_overdue(s, now_ns);
            if (due_ns < next_ns) next_ns = due_ns;
        }
        drop_ended(s);
        if (closing && s->down && !s->calls && !link_grpc_acceptor_pending(s->acceptor))
            return NULL;
        if (closing && now_ns >= by_ns) {
            grpc_server_cancel_all_calls(s->server);
            by_ns = next_ns = INT64_MAX; /* which ends all calls */
        }
        grpc_event e = grpc_completion_queue_next(s->cq, service_timespec(next_ns), NULL);
        if (e.type == GRPC_OP_COMPLETE) handle_tag(s, e.tag, e.success);
    }
}

static void free_service(struct qr_service *s) {
    if (s->port) link_grpc_guard_port(s->port, 0, NULL);
    if (s->server) grpc_server_destroy(s->server);
    link_grpc_acceptor_free(s->acceptor);
    grpc_call_unref(s->wake_call);
    grpc_channel_destroy(s->lame);
    grpc_completion_queue_shutdown(s->cq);
    while (grpc_completion_queue_next(s->cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
           GRPC_QUEUE_SHUTDOWN)
        continue;
    grpc_completion_queue_destroy(s->cq);
    grpc_resource_quota_unref(s->quota);
    free(s);
    grpc_shutdown_blocking();
}

static void shut_down_unserved(struct qr_service *s) {
    atomic_store(&s->closing, true);
    link_grpc_acceptor_shutdown(s->acceptor, &s->tag_down);
    grpc_server_cancel_all_calls(s->server);
    while (!s->down || link_grpc_acceptor_pending(s->acceptor)) {
        grpc_event e = grpc_completion_queue_next(s->cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (e.type == GRPC_OP_COMPLETE) handle_tag(s, e.tag, e.success);
    }
}

enum qr_code qr_service_open(const char *address, const struct qr_service_owner *owner,
                             const struct qr_clock *clock, struct qr_service **ret,
                             unsigned *ret_port, struct qr_err *err) {
    QR_TRY(link_grpc_address_check(address, err));
    struct qr_service *s = qr_xcalloc(1, sizeof *s);
    link_grpc_init();
    s->owner = *owner;
    s->clock = clock;
    s->tag_call.kind = TAG_CALL;
    s->tag_down.kind = TAG_DOWN;
    s->quota = grpc_resource_quota_create("qring-service");
    grpc_resource_quota_resize(s->quota, QUOTA_BYTES);
    s->cq = grpc_completion_queue_create_for_next(NULL);
    s->lame = grpc_lame_client_channel_create("wake", GRPC_STATUS_UNAVAILABLE, "never connected");
    s->wake_call =
        grpc_channel_create_call(s->lame, NULL, 0, s->cq, grpc_slice_from_static_string("/wake"),
                                 NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    enum qr_code code =
        link_grpc_acceptor_new(clock, false, s->wake_call, s->cq, &s->tag_call, &s->acceptor, err);
    if (code != QR_OK) {
        free_service(s);
        return code;
    }
    s->server = link_grpc_server(address, NULL, s->quota, false, s->acceptor, &s->port);
    if (!s->server) {
        s->port = 0;
        free_service(s);
        return link_grpc_listen_failed(address, err);
    }
    link_grpc_guard_port(s->port, UNSEEN_BYTES, NULL);
    *ret_port = (unsigned)s->port;
    int sys = pthread_create(&s->thread, NULL, service_thread, s);
    if (sys != 0) {
        shut_down_unserved(s);
        free_service(s);
        return qr_fail_errno(err, sys, "cannot start the thread that serves %s", address);
    }
    *ret = s;
    return QR_OK;
}

void qr_service_close(struct qr_service *s) {
    if (!s) return;
    atomic_store(&s->closing, true);
    link_grpc_acceptor_shutdown(s->acceptor, &s->tag_down); /* wakes the thread */
    pthread_join(s->thread, NULL);
    free_service(s);
}
