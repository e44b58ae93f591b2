/* link/link_grpc_service.h — a gRPC server of unary calls, for programs that are not ours.
 *
 * Without TLS, and without wire messages of its own: a request's and an answer's bytes are the
 * owner's. Its thread calls the owner for each request; an answer may come later.
 * Bounds    QR_SERVICE_CALLS at once: for one more, the oldest call of the IP address that has most
 *           is ended with RESOURCE_EXHAUSTED, so that one client cannot keep the others out. A
 *           request that has not come within QR_SERVICE_REQUEST_NS, or is longer than max_request,
 *           is refused. Connections are counted and cut as those of the links.
 * Threads   its own; qr_service_open and qr_service_close: any.
 */
#ifndef QR_LINK_LINK_GRPC_SERVICE_H
#define QR_LINK_LINK_GRPC_SERVICE_H

#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"

enum { QR_SERVICE_CALLS = 16 };
#define QR_SERVICE_REQUEST_NS (3 * QR_SECOND)

struct qr_service;
struct qr_service_call; /* one that waits for its answer */

/* All are called on the service's thread. */
struct qr_service_owner {
    void *ctx;
    size_t max_request; /* bytes */
    /* A request; method: "/package.Service/Method". To be answered now or later, once. Texts and
     * bytes are borrowed for the call. */
    void (*request)(void *ctx, struct qr_service_call *call, const char *method,
                    struct qr_bytes message);
    /* Who called has left: the call is not to be answered any more. */
    void (*gone)(void *ctx, struct qr_service_call *call);
    /* Called between two events: what is due. When to be called again at the latest, by the
     * service's clock; INT64_MAX: with the next event. */
    int64_t (*turn)(void *ctx, int64_t now_ns);
};

/* address: host:port; port 0: any. clock: CLOCK_MONOTONIC. ALREADY_EXISTS: the port is in use. */
QR_MUST_CHECK enum qr_code qr_service_open(const char *address,
                                           const struct qr_service_owner *owner,
                                           const struct qr_clock *clock, struct qr_service **ret,
                                           unsigned *ret_port, struct qr_err *err);
/* Calls that wait get UNAVAILABLE; the owner is not called any more. NULL is fine. */
void qr_service_close(struct qr_service *s);

/* OK with a message, or another code with a sentence. From the owner's functions. */
void qr_service_answer(struct qr_service_call *call, struct qr_bytes message);
void qr_service_refuse(struct qr_service_call *call, const struct qr_err *err);

#endif
