/* monitor/status.h — state of a worker: as JSON at /status, queried and printed by `qring status`.
 *
 * Use       worker: qr_status_of_process, qr_status_put. Client: qr_status_query, then a formatter;
 *           qr_status_query again after a pause.
 * Bounds    a request takes QR_STATUS_TIMEOUT_NS; a response has at most 1 MiB.
 * Threads   a status belongs to one thread. qr_status_of_process: any.
 */
#ifndef QR_MONITOR_STATUS_H
#define QR_MONITOR_STATUS_H

#include "base/bytes.h"
#include "base/clock.h"
#include "base/counter.h"
#include "base/err.h"
#include "format/json.h"
#include "monitor/metrics.h"

#define QR_STATUS_TIMEOUT_NS (2 * QR_SECOND)

/* One response of /status. */
struct qr_status {
    char version[40], contract[40], isa[40];
    double uptime_s, now_s;      /* now_s: the worker's clock, since 1970 */
    double value[QR_N_COUNTERS]; /* NaN: unknown, or not finite */
    enum qr_peer peer[QR_MAX_MEMBERS];
    /* The peer answers, but no data passes between the peer and this worker */
    bool no_data[QR_MAX_MEMBERS];
    bool serves[QR_MAX_MEMBERS];  /* a parameter server: computes nothing */
    double speed[QR_MAX_MEMBERS]; /* micro-batches per second; 0: unknown */
    double rtt_s[QR_MAX_MEMBERS]; /* round-trip time of 2 KB; 0: unknown */
    char last_error[600];         /* "": none */
    double last_error_s;          /* since 1970 */
};
/* Returns the state of this process. */
struct qr_status qr_status_of_process(const struct qr_build *build, int64_t uptime_ns);
/* Writes the members of an object. */
void qr_status_put(const struct qr_status *s, struct qr_json_writer *w);
/* Parses a response of /status. INVALID_ARGUMENT when it is not from a qring worker. */
QR_MUST_CHECK enum qr_code qr_status_parse(struct qr_bytes text, struct qr_status *ret,
                                           struct qr_err *err);

struct qr_status_pair {
    struct qr_status was, is; /* previous and last response */
    double interval_s;        /* between the two, by the worker's clock */
};
/* Queries a worker.
 *
 * Args:     address   HOST or HOST:PORT; default port 8080
 *           s         all-zero: sends two requests, a second apart. Otherwise `is` becomes `was`;
 *                     if the worker was restarted meanwhile, both are the new response. Unchanged
 *                     on failure
 * Errors:   UNAVAILABLE: no response in time; INVALID_ARGUMENT: malformed address, or not a qring
 *           worker
 */
QR_MUST_CHECK enum qr_code qr_status_query(const char *address, struct qr_status_pair *s,
                                           struct qr_err *err);

/* Append to ret: several lines of text; JSON, indented by `indent` (0: one line). */
void qr_status_text(const struct qr_status_pair *s, const char *address, struct qr_buf *ret);
void qr_status_json(const struct qr_status_pair *s, const char *address, unsigned indent,
                    struct qr_buf *ret);
/* Appends one line, with its newline: a summary. */
void qr_status_line(const struct qr_status_pair *s, struct qr_buf *ret);

#endif
