/* monitor/http.h — the HTTP port for probes and Prometheus: /healthz, /readyz, /metrics, /status,
 * /last-error. Read-only.
 *
 * Use       qr_http_open; qr_http_watch and qr_http_ready as threads and group start and stop;
 *           qr_http_close.
 * /healthz  200 "ok", or 503 with a sentence when the control thread or the training thread is
 *           stuck (monitor/health.h). Does not depend on progress or on peers: a worker that waits
 *           for another must not be restarted.
 * /readyz   200 "listening", or 503 before and after the group listens.
 * /metrics  monitor/metrics.h.
 * /status   monitor/status.h: for `qring status`, JSON.
 * /last-error  the last warning or error of this process's log, after its Unix time in seconds: one
 *              line, or nothing.
 * Else      404 for other paths, 405 for methods other than GET and HEAD.
 * Bounds    on connections in total and per address; one request per connection, which may take
 *           timeout_ns from the first byte to the last; 8 KiB of request. A connection over a bound
 *           is closed; others are served. A new connection is always accepted: above a limit the
 *           oldest connection is closed, of the same address or of the address that has most. So
 *           slow clients cannot keep a probe out.
 * Threads   one of its own, which blocks until a request arrives and samples the watches once a
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
/* Long, because the duration of a micro-batch is unknown before the first one. */
#define QR_HTTP_TRAINING_FIRST_NS (3600 * QR_SECOND)

enum qr_http_watch { QR_HTTP_CONTROL, QR_HTTP_TRAINING, QR_HTTP_N_WATCHES };

struct qr_http_options {
    const char *bind;                  /* a host or address; NULL: all addresses, IPv4 and IPv6 */
    unsigned port;                     /* 0: any free port */
    unsigned connections, per_address; /* limits; 0: the defaults above */
    int64_t timeout_ns;                /* 0: the default above */
    int64_t control_bound_ns, training_bound_ns, training_first_ns; /* 0: the defaults above */
    int64_t began_ns;                                               /* start of this process */
    struct qr_build build;                                          /* texts are copied */
    const struct qr_clock *clock;
};
struct qr_http;
/* Binds the port and serves until closed. opt's pointers are borrowed for the call, clock until
 * qr_http_close.
 *
 * Args:     ret_port   the bound port
 * Errors:   ALREADY_EXISTS: the port is in use; INVALID_ARGUMENT: not an address of this machine
 */
QR_MUST_CHECK enum qr_code qr_http_open(const struct qr_http_options *opt, struct qr_http **ret,
                                        unsigned *ret_port, struct qr_err *err);
/* Closes the port and all connections. NULL is allowed, here and below. */
void qr_http_close(struct qr_http *h);

void qr_http_ready(struct qr_http *h, bool ready);                        /* not ready at first */
void qr_http_watch(struct qr_http *h, enum qr_http_watch which, bool on); /* off at first */

#endif
