/* link/link_grpc_service.h — a gRPC server of unary calls, for third-party clients.
 *
 * Usage     qr_service_open; for each `request` one qr_service_answer or qr_service_refuse, at once
 *           or later; qr_service_close.
 * Messages  The owner encodes and decodes all messages. No TLS.
 * Bounds    QR_SERVICE_CALLS at once: for one more, the oldest call of the IP address with most
 *           calls ends with RESOURCE_EXHAUSTED, so that one client cannot block the others. A
 *           request that has not arrived within QR_SERVICE_REQUEST_NS, or is longer than
 *           max_request, is rejected. Connections are counted and cut as those of the links.
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
struct qr_service_call; /* a call that waits for its reply */

/* Callbacks on the service's thread. */
struct qr_service_owner {
    void *ctx;
    size_t max_request; /* bytes */
    /* A request arrived; method: "/package.Service/Method". The owner replies once, now or later.
     * method and message are borrowed for the call. */
    void (*request)(void *ctx, struct qr_service_call *call, const char *method,
                    struct qr_bytes message);
    /* The client has disconnected: the owner must not reply to the call any more. */
    void (*gone)(void *ctx, struct qr_service_call *call);
    /* Called between two events, for the owner's timers. Returns the latest time of the next call,
     * by the service's clock; INT64_MAX: after the next event. */
    int64_t (*turn)(void *ctx, int64_t now_ns);
};

/* Starts a server and its thread.
 *
 * Args:     address    "host:port"; port 0: any
 *           owner      copied
 *           clock      CLOCK_MONOTONIC
 *           ret_port   the bound port
 * Errors:   INVALID_ARGUMENT (not host:port), ALREADY_EXISTS (the port is in use)
 */
QR_MUST_CHECK enum qr_code qr_service_open(const char *address,
                                           const struct qr_service_owner *owner,
                                           const struct qr_clock *clock, struct qr_service **ret,
                                           unsigned *ret_port, struct qr_err *err);
/* Waiting calls end with UNAVAILABLE; the owner is not called any more. NULL is fine. */
void qr_service_close(struct qr_service *s);

/* Replies with a message, or with an error. Called from the owner's callbacks only. */
void qr_service_answer(struct qr_service_call *call, struct qr_bytes message);
void qr_service_refuse(struct qr_service_call *call, const struct qr_err *err);

#endif
