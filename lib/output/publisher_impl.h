/* output/publisher_impl.h — a publisher with a folder and a thread from the caller: for publisher.c
 * and for tests, which provide both. */
#ifndef QR_OUTPUT_PUBLISHER_IMPL_H
#define QR_OUTPUT_PUBLISHER_IMPL_H

#include <pthread.h>

#include "output/publisher.h"

struct qr_publisher_threads {
    void *ctx;
    /* Runs body concurrently; it returns before `end` does. Returns 0, or an errno: no thread, and
     * `end` is not called. */
    int (*start)(void *ctx, void (*body)(struct qr_publisher *p), struct qr_publisher *p);
    /* Called with the lock held, returns with it held, and releases it meanwhile. Returns after
     * wake, at until_ns of the publisher's clock, or spuriously. Any thread. */
    void (*wait)(void *ctx, pthread_mutex_t *lock, int64_t until_ns);
    void (*wake)(void *ctx);
    /* The last call. hangs: body does not return within a bound, and is abandoned. */
    void (*end)(void *ctx, bool hangs);
};
/* As qr_publisher_new. Takes over the folder, also on failure. */
QR_MUST_CHECK enum qr_code qr_publisher_new_with(const struct qr_publisher_options *opt,
                                                 const struct qr_checkpoint_folder *place,
                                                 const struct qr_publisher_threads *threads,
                                                 struct qr_publisher **ret, struct qr_err *err);

#endif
