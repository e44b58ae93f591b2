/* monitor/status.h — queries a running worker and formats the result for `qring status`.
 *
 * What      GET /metrics twice, a second apart, and /last-error, from a worker's HTTP port
 *           (monitor/http.h). Metrics that are not in base/counter.h's table (a newer worker's) are
 *           ignored; missing ones (an older worker's) are absent from the result.
 * Use       qr_status_query, then any of the formatters; qr_status_query_again to repeat.
 * Bounds    each request takes 2 s at most, after name resolution; a response has at most 1 MiB.
 * Threads   a status belongs to one thread.
 */
#ifndef QR_MONITOR_STATUS_H
#define QR_MONITOR_STATUS_H

#include "base/bytes.h"
#include "base/clock.h"
#include "base/counter.h"
#include "base/err.h"

#define QR_STATUS_TIMEOUT_NS (2 * QR_SECOND)

/* One response of /metrics. */
struct qr_status {
    bool has[QR_N_COUNTERS]; /* the response has this counter */
    double value[QR_N_COUNTERS];
    char version[40], contract[40], isa[40];
    double uptime_s, start_s; /* start_s since 1970; 0: unknown */
    enum qr_peer peer[QR_MAX_MEMBERS];
    /* The peer answers, but no data passes between the peer and this worker */
    bool no_data[QR_MAX_MEMBERS];
    bool serves[QR_MAX_MEMBERS];  /* a parameter server: computes nothing */
    double speed[QR_MAX_MEMBERS]; /* micro-batches per second; 0: unknown */
    double rtt_s[QR_MAX_MEMBERS]; /* round-trip time of 2 KB; 0: unknown */
};
/* Parses a response of /metrics. INVALID_ARGUMENT, with the line number, when the text is not in
 * format 0.0.4 or not from a qring worker. */
QR_MUST_CHECK enum qr_code qr_status_parse(struct qr_bytes text, struct qr_status *ret,
                                           struct qr_err *err);
/* Splits a complete HTTP/1 response into status and body. INVALID_ARGUMENT when it is malformed. */
QR_MUST_CHECK enum qr_code qr_status_reply(struct qr_bytes reply, unsigned *ret_status,
                                           struct qr_bytes *ret_body, struct qr_err *err);

struct qr_status_pair {
    struct qr_status was, is; /* first and second response */
    double interval_s;        /* between the two, by the worker's clock */
    char last_error[600];     /* "": none */
    double last_error_s;      /* since 1970 */
};
/* Queries a worker. Blocks for one second between the two requests.
 *
 * Args:     address   HOST or HOST:PORT; default port 8080
 * Errors:   UNAVAILABLE: no process listens, or the worker exits meanwhile; DEADLINE_EXCEEDED: no
 *           response in time; INVALID_ARGUMENT: malformed address, or not a qring worker
 */
QR_MUST_CHECK enum qr_code qr_status_query(const char *address, struct qr_status_pair *ret,
                                           struct qr_err *err);

/* Queries a worker again: `was` becomes the previous response, or, if the worker was restarted
 * meanwhile, the new one. The same errors; ret is unchanged on failure. The caller waits between
 * two queries. */
QR_MUST_CHECK enum qr_code qr_status_query_again(const char *address, struct qr_status_pair *ret,
                                                 struct qr_err *err);

/* Append to ret: several lines of text; indented JSON. */
void qr_status_text(const struct qr_status_pair *s, const char *address, struct qr_buf *ret);
void qr_status_json(const struct qr_status_pair *s, const char *address, struct qr_buf *ret);
/* Append one line, with its newline: a summary; the same JSON. */
void qr_status_line(const struct qr_status_pair *s, struct qr_buf *ret);
void qr_status_json_line(const struct qr_status_pair *s, const char *address, struct qr_buf *ret);

#endif
