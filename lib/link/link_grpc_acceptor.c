/* link/link_grpc_acceptor.c — incoming streams of a server: one thread accepts each as soon as gRPC
 * has its headers, and a second thread reads for links created with an acceptor. Start reading at
 * guard_thread().
 *
 * Streams   gRPC keeps 10 KB for each stream that was not requested yet, without a limit, and a
 *           thread that reads from a connection does not return while more bytes arrive. So streams
 *           are requested on a completion queue without polling: its thread (qring-guard) never
 *           reads, counts every stream by its connection (link_grpc_guard.c) and requests the next
 *           one, whatever the reading threads do. The owner gets an event on its own queue by an
 *           empty batch, and takes the stream with link_grpc_acceptor_next. Between two streams the
 *           same thread compares the bytes that each connection has sent with its limit.
 * Reading   gRPC accepts, does handshakes and reads before it returns an event. Incoming
 *           connections must not delay the heartbeats of a link's owner: a second thread
 *           (qring-acceptor) polls the listening socket and the accepted connections.
 */
#include <grpc/slice.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "link/link_grpc_parts_impl.h"

enum { MAX_WAITING = 128 };

/* Only gRPC's log reports the failure (on_grpc_log). */
unsigned link_grpc_accept_failed(bool again) {
    static atomic_uint times;
    return again ? atomic_fetch_add(&times, 1) + 1 : atomic_load(&times);
}

struct link_grpc_acceptor {
    const struct qr_clock *clock;
    grpc_call *owner;
    void *tag;
    grpc_completion_queue *owner_cq, *calls_cq, *read_cq; /* read_cq: of the reader, or NULL */
    grpc_server *server;
    int port; /* the server's */
    pthread_t guard, reader;
    /* of the requested stream */
    grpc_call *call;
    grpc_call_details details;
    grpc_metadata_array metadata;
    atomic_bool requested;
    pthread_mutex_t lock; /* guards the fields below */
    struct link_grpc_stream waiting[MAX_WAITING];
    unsigned first, n;
};

static gpr_timespec acceptor_timespec(int64_t ns) {
    return (gpr_timespec){ns / QR_SECOND, (int32_t)(ns % QR_SECOND), GPR_CLOCK_MONOTONIC};
}

static void request_stream(struct link_grpc_acceptor *d) {
    grpc_call_details_init(&d->details);
    grpc_metadata_array_init(&d->metadata);
    d->call = NULL;
    atomic_store(&d->requested, true);
    QR_ASSERT(grpc_server_request_call(d->server, &d->call, &d->details, &d->metadata, d->owner_cq,
                                       d->calls_cq, d) == GRPC_CALL_OK);
}

static void notify_owner(struct link_grpc_acceptor *d, void *tag) {
    QR_ASSERT(grpc_call_start_batch(d->owner, NULL, 0, tag, NULL) == GRPC_CALL_OK);
}

static bool queue_stream(struct link_grpc_acceptor *d, const struct link_grpc_stream *s) {
    pthread_mutex_lock(&d->lock);
    bool fits = d->n < MAX_WAITING;
    if (fits) d->waiting[(d->first + d->n++) % MAX_WAITING] = *s;
    pthread_mutex_unlock(&d->lock);
    return fits;
}

void link_grpc_refuse(struct link_grpc_stream *s, grpc_status_code status, const char *why) {
    grpc_call_cancel_with_status(s->call, status, why, NULL);
    grpc_call_unref(s->call);
    grpc_slice_unref(s->method);
    link_grpc_guard_end(s->caller);
}

/* The requested stream has arrived; without a call, the server is shut down. */
static void on_new_stream(struct link_grpc_acceptor *d) {
    QR_ASSERT(atomic_load(&d->requested)); /* orders the writes of request_stream, for TSan too */
    struct link_grpc_stream s = {.call = d->call};
    grpc_metadata_array_destroy(&d->metadata);
    if (!s.call) {
        grpc_call_details_destroy(&d->details);
        atomic_store(&d->requested, false);
        notify_owner(d, d->tag);
        return;
    }
    s.method = grpc_slice_ref(d->details.method);
    grpc_call_details_destroy(&d->details);
    s.caller = link_grpc_guard_stream(s.call, d->port, qr_now_ns(d->clock));
    if (s.caller && queue_stream(d, &s)) notify_owner(d, d->tag);
    else link_grpc_refuse(&s, GRPC_STATUS_RESOURCE_EXHAUSTED, "too many streams");
    request_stream(d);
}

static void *guard_thread(void *ctx) {
    struct link_grpc_acceptor *d = ctx;
    pthread_setname_np(pthread_self(), "qring-guard");
    for (int64_t wait_ns = 0;;) {
        int64_t until_ns = qr_now_ns(d->clock) + wait_ns;
        grpc_event e = grpc_completion_queue_next(d->calls_cq, acceptor_timespec(until_ns), NULL);
        if (e.type == GRPC_QUEUE_SHUTDOWN) return NULL;
        if (e.type == GRPC_OP_COMPLETE && e.tag == d) on_new_stream(d);
        else if (e.type == GRPC_OP_COMPLETE) notify_owner(d, e.tag);
        wait_ns = link_grpc_guard_check(d->clock);
    }
}

static void *reader_thread(void *ctx) {
    struct link_grpc_acceptor *d = ctx;
    pthread_setname_np(pthread_self(), "qring-acceptor");
    while (grpc_completion_queue_next(d->read_cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
           GRPC_QUEUE_SHUTDOWN)
        continue;
    return NULL;
}

static void end_completion_queue(grpc_completion_queue *cq, const pthread_t *thread) {
    if (!cq) return;
    grpc_completion_queue_shutdown(cq);
    if (thread) pthread_join(*thread, NULL);
    else
        while (grpc_completion_queue_next(cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
               GRPC_QUEUE_SHUTDOWN)
            continue;
    grpc_completion_queue_destroy(cq);
}

enum qr_code link_grpc_acceptor_new(const struct qr_clock *clock, bool reads, grpc_call *owner,
                                    grpc_completion_queue *owner_cq, void *tag,
                                    struct link_grpc_acceptor **ret, struct qr_err *err) {
    static const grpc_completion_queue_attributes no_polling = {
        .version = 1, .cq_completion_type = GRPC_CQ_NEXT, .cq_polling_type = GRPC_CQ_NON_POLLING};
    struct link_grpc_acceptor *d = qr_xcalloc(1, sizeof *d);
    d->clock = clock;
    d->owner = owner;
    d->owner_cq = owner_cq;
    d->tag = tag;
    d->calls_cq = grpc_completion_queue_create(grpc_completion_queue_factory_lookup(&no_polling),
                                               &no_polling, NULL);
    if (reads) d->read_cq = grpc_completion_queue_create_for_next(NULL);
    pthread_mutex_init(&d->lock, NULL);
    int sys = pthread_create(&d->guard, NULL, guard_thread, d);
    bool guarded = sys == 0;
    if (guarded && reads) sys = pthread_create(&d->reader, NULL, reader_thread, d);
    if (sys == 0) {
        *ret = d;
        return QR_OK;
    }
    end_completion_queue(d->read_cq, NULL);
    end_completion_queue(d->calls_cq, guarded ? &d->guard : NULL);
    pthread_mutex_destroy(&d->lock);
    free(d);
    return qr_fail_errno(err, sys, "cannot start the threads that accept connections");
}

void link_grpc_acceptor_register(const struct link_grpc_acceptor *d, grpc_server *server) {
    grpc_server_register_completion_queue(server, d->read_cq ? d->read_cq : d->owner_cq, NULL);
    grpc_server_register_completion_queue(server, d->calls_cq, NULL);
}

void link_grpc_acceptor_open(struct link_grpc_acceptor *d, grpc_server *server, int port) {
    d->server = server;
    d->port = port;
    request_stream(d);
}

void link_grpc_acceptor_shutdown(struct link_grpc_acceptor *d, void *tag) {
    grpc_server_shutdown_and_notify(d->server, d->calls_cq, tag);
}

bool link_grpc_acceptor_pending(const struct link_grpc_acceptor *d) {
    return atomic_load(&d->requested);
}

bool link_grpc_acceptor_next(struct link_grpc_acceptor *d, struct link_grpc_stream *ret) {
    pthread_mutex_lock(&d->lock);
    bool some = d->n > 0;
    if (some) {
        *ret = d->waiting[d->first];
        d->first = (d->first + 1) % MAX_WAITING;
        d->n--;
    }
    pthread_mutex_unlock(&d->lock);
    return some;
}

void link_grpc_acceptor_free(struct link_grpc_acceptor *d) {
    struct link_grpc_stream s;
    if (!d) return;
    end_completion_queue(d->read_cq, &d->reader);
    end_completion_queue(d->calls_cq, &d->guard);
    while (link_grpc_acceptor_next(d, &s))
        link_grpc_refuse(&s, GRPC_STATUS_UNAVAILABLE, "shutting down");
    pthread_mutex_destroy(&d->lock);
    free(d);
}
