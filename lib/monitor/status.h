/* monitor/status.h — a running worker, asked from outside: what `qring status` says.
 *
 * What      GET /metrics twice, a second apart, and /last-error, from a worker's port for probes
 *           (monitor/http.h). What a newer worker tells beyond base/counter.h's table is passed
 *           over; what an older one does not tell is absent.
 * Bounds    each question takes 2 s at most, after the name is resolved, and an answer has 1 MiB
 *           at most.
 * Threads   a status belongs to one thread.
 */
#ifndef QR_MONITOR_STATUS_H
#define QR_MONITOR_STATUS_H

#include "base/bytes.h"
#include "base/clock.h"
#include "base/counter.h"
#include "base/err.h"

#define QR_STATUS_TIMEOUT_NS (2 * QR_SECOND)

/* One answer of /metrics. */
struct qr_status {
    bool has[QR_N_COUNTERS];
    double value[QR_N_COUNTERS];
    char version[40], contract[40], isa[40];
    double uptime_s, start_s; /* start_s since 1970; 0: not told */
    enum qr_peer peer[QR_MAX_MEMBERS];
    /* it answers, and no data passes between it and this worker */
    bool no_data[QR_MAX_MEMBERS];
    bool serves[QR_MAX_MEMBERS];  /* a parameter server: it computes nothing */
    double speed[QR_MAX_MEMBERS]; /* micro-batches a second; 0: not known */
    double rtt_s[QR_MAX_MEMBERS]; /* 2 KB to it and back; 0: not known */
};
/* INVALID_ARGUMENT with the line's number when the text is not format 0.0.4, or not of a
 * qring worker. */
QR_MUST_CHECK enum qr_code qr_status_parse(struct qr_bytes text, struct qr_status *ret,
                                           struct qr_err *err);
/* An HTTP/1 reply, whole: its status, and where its body begins. INVALID_ARGUMENT when it
 * is none. */
QR_MUST_CHECK enum qr_code qr_status_reply(struct qr_bytes reply, unsigned *ret_status,
                                           struct qr_bytes *ret_body, struct qr_err *err);

struct qr_status_pair {
    struct qr_status was, is; /* is: interval_s later, by the worker's clock */
    double interval_s;
    char last_error[600]; /* "" when there was none */
    double last_error_s;  /* since 1970 */
};
/* address: HOST or HOST:PORT, port 8080 if not given. UNAVAILABLE when nobody listens or the
 * worker ends meanwhile, DEADLINE_EXCEEDED when there is no answer in time, INVALID_ARGUMENT
 * when the address is none, or something else than a worker answers. Waits between the
 * questions: a second. */
QR_MUST_CHECK enum qr_code qr_status_query(const char *address, struct qr_status_pair *ret,
                                           struct qr_err *err);

/* One more look at a worker that has answered: what was is of the look before, or of this one where
 * the worker was started again meanwhile. The same codes; after a failure ret is as it was. The
 * caller waits in between. */
QR_MUST_CHECK enum qr_code qr_status_query_again(const char *address, struct qr_status_pair *ret,
                                                 struct qr_err *err);

/* Append to ret. */
void qr_status_text(const struct qr_status_pair *s, const char *address, struct qr_buf *ret);
void qr_status_json(const struct qr_status_pair *s, const char *address, struct qr_buf *ret);
/* In one line each, with its end: the most important, and what qr_status_json has. */
void qr_status_line(const struct qr_status_pair *s, struct qr_buf *ret);
void qr_status_json_line(const struct qr_status_pair *s, const char *address, struct qr_buf *ret);

#endif
