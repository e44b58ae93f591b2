/* monitor/http.h — the port for probes and Prometheus: /healthz, /readyz, /metrics, /last-error.
 * Read only.
 *
 * /healthz  200 "ok", or 503 with a sentence when the control thread or the training thread has
 *           stopped turning (monitor/health.h). It never asks for progress or for peers: a worker
 *           that waits for another must not be restarted for it.
 * /readyz   200 "listening", or 503 before and after the group listens.
 * /metrics  monitor/metrics.h.
 * /last-error  the last warning or error of this process's log, as monitor/last_error.h keeps it: a
 *              line, or nothing.
 * Else      404 for other paths, 405 for methods that are neither GET nor HEAD. The body is
 *           plain text.
 * Bounds    connections in all and per address; one request each, which from the connection's first
 *           byte to its last may take timeout_ns; 8 KiB of request. Whoever is over a bound is cut
 *           off; the others are served. A newcomer is always let in: over a number, the oldest of
 *           its address goes, or of the address that has most; so slow clients cannot keep a probe
 *           out.
 * Threads   one of its own, which sleeps until somebody asks, and looks at the watches once a
 *           second. The functions below: any thread.
 */
#ifndef QR_MONITOR_HTTP_H
#define QR_MONITOR_HTTP_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/err.h"
#include "monitor/metrics.h"

enum { QR_HTTP_CONNECTIONS = 32, QR_HTTP_CONNECTIONS_PER_ADDRESS = 16 };
#define QR_HTTP_TIMEOUT_NS (10 * QR_SECOND)
#define QR_HTTP_CONTROL_BOUND_NS (15 * QR_SECOND)
#define QR_HTTP_TRAINING_BOUND_NS (60 * QR_SECOND)
/* the first micro-batch: nobody knows yet how long one takes */
#define QR_HTTP_TRAINING_FIRST_NS (3600 * QR_SECOND)

enum qr_http_watch { QR_HTTP_CONTROL, QR_HTTP_TRAINING, QR_HTTP_N_WATCHES };

struct qr_http_options {
    const char *bind;                  /* a host or address; NULL: all addresses, IPv4 and IPv6 */
    unsigned port;                     /* 0: any */
    unsigned connections, per_address; /* 0: the numbers above */
    int64_t timeout_ns;                /* 0: as above */
    int64_t control_bound_ns, training_bound_ns, training_first_ns; /* 0: as above */
    int64_t began_ns;                                               /* of this process */
    struct qr_build build;                                          /* texts are copied */
    const struct qr_clock *clock;
};
struct qr_http;
/* Binds, and serves until closed. ALREADY_EXISTS when the port is taken, INVALID_ARGUMENT for an
 * address that is not this machine's; both say so. */
QR_MUST_CHECK enum qr_code qr_http_open(const struct qr_http_options *opt, struct qr_http **ret,
                                        unsigned *ret_port, struct qr_err *err);
/* Takes no new connections, and cuts off those that are open. NULL is fine, here and below. */
void qr_http_close(struct qr_http *h);

void qr_http_ready(struct qr_http *h, bool ready);                        /* not ready at first */
void qr_http_watch(struct qr_http *h, enum qr_http_watch which, bool on); /* off at first */

#endif
