/* link/link_grpc_door.c — a thread that takes in who calls, and one that watches what they send.
 *
 * gRPC does all that there is to accept, to shake and to read before it returns with an event.
 * Strangers must not keep a link's owner from his heartbeats by that: a thread waits on them, and
 * passes the server's events on, by an empty batch on a call of the owner's queue. Who has become a
 * peer can keep the owner's thread by what he sends, and a second one this thread: so who looks at
 * them (link_grpc_guard.c) is a third thread, which never enters gRPC.
 */
#include <errno.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/mem.h"
#include "link/link_grpc_parts_impl.h"

/* Known from gRPC's log alone. */
unsigned link_grpc_accept_failed(bool again) {
    static atomic_uint times;
    return again ? atomic_fetch_add(&times, 1) + 1 : atomic_load(&times);
}

struct link_grpc_door {
    const struct qr_clock *clock;
    grpc_call *owner;
    grpc_completion_queue *cq;
    pthread_t minder, watcher;
    pthread_mutex_t lock; /* closed */
    pthread_cond_t closing;
    bool closed;
};

static void *mind(void *ctx) {
    struct link_grpc_door *d = ctx;
    pthread_setname_np(pthread_self(), "qring-door");
    for (;;) {
        grpc_event e = grpc_completion_queue_next(d->cq, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (e.type == GRPC_QUEUE_SHUTDOWN) return NULL;
        if (e.type != GRPC_OP_COMPLETE) continue;
        QR_ASSERT(grpc_call_start_batch(d->owner, NULL, 0, e.tag, NULL) == GRPC_CALL_OK);
    }
}

static void *watch(void *ctx) {
    struct link_grpc_door *d = ctx;
    int64_t wait_ns = LINK_GRPC_LOOK_NS;
    pthread_setname_np(pthread_self(), "qring-guard");
    pthread_mutex_lock(&d->lock);
    while (!d->closed) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += wait_ns;
        until.tv_sec += until.tv_nsec / QR_SECOND;
        until.tv_nsec %= QR_SECOND;
        if (pthread_cond_timedwait(&d->closing, &d->lock, &until) != ETIMEDOUT) continue;
        pthread_mutex_unlock(&d->lock);
        wait_ns = link_grpc_guard_look(qr_now_ns(d->clock));
        pthread_mutex_lock(&d->lock);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

static void stop_watcher(struct link_grpc_door *d) {
    pthread_mutex_lock(&d->lock);
    d->closed = true;
    pthread_cond_signal(&d->closing);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->watcher, NULL);
}

static void free_door(struct link_grpc_door *d) {
    grpc_completion_queue_destroy(d->cq);
    pthread_cond_destroy(&d->closing);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

enum qr_code link_grpc_door_new(const struct qr_clock *clock, grpc_call *owner,
                                struct link_grpc_door **ret, struct qr_err *err) {
    struct link_grpc_door *d = qr_xcalloc(1, sizeof *d);
    pthread_condattr_t monotonic;
    d->clock = clock;
    d->owner = owner;
    d->cq = grpc_completion_queue_create_for_next(NULL);
    pthread_mutex_init(&d->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&d->closing, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int sys = pthread_create(&d->watcher, NULL, watch, d);
    if (sys == 0) {
        sys = pthread_create(&d->minder, NULL, mind, d);
        if (sys != 0) stop_watcher(d);
    }
    if (sys == 0) {
        *ret = d;
        return QR_OK;
    }
    grpc_completion_queue_shutdown(d->cq);
    free_door(d);
    return qr_fail_errno(err, sys, "start the threads that take in peers");
}

grpc_completion_queue *link_grpc_door_cq(const struct link_grpc_door *d) { return d->cq; }

void link_grpc_door_free(struct link_grpc_door *d) {
    if (!d) return;
    stop_watcher(d);
    grpc_completion_queue_shutdown(d->cq);
    pthread_join(d->minder, NULL);
    free_door(d);
}
