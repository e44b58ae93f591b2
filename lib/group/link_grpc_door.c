/* group/link_grpc_door.c — a thread that takes in who calls.
 *
 * gRPC does all that there is to accept, to shake and to read before it returns with an event. Strangers must not keep a link's owner from
 * his heartbeats by that: this thread waits on them, and passes the server's events on, by an empty batch on a call of the owner's queue.
 * While it is kept busy, it is the owner's thread that looks who sends too much (link_grpc_guard.c), and the other way round.
 */
#include <grpc/support/time.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "group/link_grpc_impl.h"

/* Known from gRPC's log alone. */
unsigned link_grpc_accept_failed(bool again) {
    static atomic_uint times;
    return again ? atomic_fetch_add(&times, 1) + 1 : atomic_load(&times);
}

struct link_grpc_door {
    const struct qr_clock *clock;
    grpc_call *owner;
    grpc_completion_queue *cq;
    pthread_t thread;
};

static void *mind(void *ctx) {
    struct link_grpc_door *d = ctx;
    pthread_setname_np(pthread_self(), "qring-door");
    for (;;) {
        int64_t until_ns = qr_now_ns(d->clock) + LINK_GRPC_LOOK_NS;
        gpr_timespec until = {.tv_sec = until_ns / QR_SECOND, .tv_nsec = (int32_t)(until_ns % QR_SECOND), .clock_type = GPR_CLOCK_MONOTONIC};
        grpc_event e = grpc_completion_queue_next(d->cq, until, NULL);
        if (e.type == GRPC_QUEUE_SHUTDOWN) return NULL;
        link_grpc_guard_look(qr_now_ns(d->clock));
        if (e.type != GRPC_OP_COMPLETE) continue;
        QR_ASSERT(grpc_call_start_batch(d->owner, NULL, 0, e.tag, NULL) == GRPC_CALL_OK);
    }
}

enum qr_code link_grpc_door_new(const struct qr_clock *clock, grpc_call *owner, struct link_grpc_door **ret, struct qr_err *err) {
    struct link_grpc_door *d = qr_xcalloc(1, sizeof *d);
    d->clock = clock;
    d->owner = owner;
    d->cq = grpc_completion_queue_create_for_next(NULL);
    int sys = pthread_create(&d->thread, NULL, mind, d);
    if (sys == 0) {
        *ret = d;
        return QR_OK;
    }
    grpc_completion_queue_shutdown(d->cq);
    grpc_completion_queue_destroy(d->cq);
    free(d);
    return qr_fail_errno(err, sys, "start the thread that takes in peers");
}

grpc_completion_queue *link_grpc_door_cq(const struct link_grpc_door *d) { return d->cq; }

void link_grpc_door_free(struct link_grpc_door *d) {
    if (!d) return;
    grpc_completion_queue_shutdown(d->cq);
    pthread_join(d->thread, NULL);
    grpc_completion_queue_destroy(d->cq);
    free(d);
}
