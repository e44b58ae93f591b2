/* output/publisher_impl.h — a publisher over a place and a thread of somebody else's: for
 * publisher.c and for tests, which bring both. */
#ifndef QR_OUTPUT_PUBLISHER_IMPL_H
#define QR_OUTPUT_PUBLISHER_IMPL_H

#include <pthread.h>

#include "output/publisher.h"

struct qr_publisher_threads {
    void *ctx;
    /* body runs beside the caller, and returns before `end` does. Returns 0; an errno: there is no
     * thread for it, and `end` is not called. */
    int (*start)(void *ctx, void (*body)(struct qr_publisher *p), struct qr_publisher *p);
    /* With the lock held, and again at the return; not meanwhile. Until wake, or that time of the
     * publisher's clock, or for no reason. Any thread. */
    void (*wait)(void *ctx, pthread_mutex_t *lock, int64_t until_ns);
    void (*wake)(void *ctx);
    /* The last call. hangs: body does not return within a bound; it is left behind. */
    void (*end)(void *ctx, bool hangs);
};
/* As qr_publisher_new. Takes the place over, also when it fails. */
QR_MUST_CHECK enum qr_code qr_publisher_new_with(const struct qr_publisher_options *opt,
                                                 const struct qr_checkpoint_folder *place,
                                                 const struct qr_publisher_threads *threads,
                                                 struct qr_publisher **ret, struct qr_err *err);

#endif
