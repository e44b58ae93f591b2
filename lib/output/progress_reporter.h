/* output/progress_reporter.h — a thread that reports the progress of a run from time to time: its
 * cost to cost.json, and its progress to an external system (progress_to.h).
 *
 * Use       qr_progress_reporter_new with the sinks; qr_progress_reporter_update after each step;
 *           qr_progress_reporter_close at the end.
 * When      The leader reports periodically, and once more at close, where sinks with last_of_all
 *           get the last report of every member.
 * Failure   Logged once as a warning, and retried at the next period, with a growing delay if the
 *           sink says so. Training never fails for it; only qr_progress_reporter_close waits,
 *           within its bound.
 * Threads   qr_progress_reporter_update: the training thread; it copies the snapshot under a lock
 *           that is held only for copies.
 */
#ifndef QR_OUTPUT_PROGRESS_REPORTER_H
#define QR_OUTPUT_PROGRESS_REPORTER_H

#include "base/clock.h"
#include "base/log.h"
#include "output/cost.h"
#include "output/progress_snapshot.h"

/* ONGOING: more reports follow; LAST: the last one; DONE: the last one, and the run succeeded. */
enum qr_report_kind { QR_REPORT_ONGOING, QR_REPORT_LAST, QR_REPORT_DONE };
/* A destination of reports. */
struct qr_progress_sink {
    const char *what;          /* for messages, borrowed: "the run's cost" */
    int64_t every_ns, most_ns; /* period; longest delay after failures, 0: every_ns */
    /* the last report is sent by every member, otherwise by the leader only */
    bool last_of_all;
    /* Sends one report, within seconds. */
    enum qr_code (*send)(void *ctx, const struct qr_progress_snapshot *s, enum qr_report_kind when,
                         struct qr_err *err);
    void (*free)(void *ctx); /* NULL: nothing to free */
    void *ctx;
};
enum { QR_PROGRESS_SINKS = 2 };
/* Returns the time of the next report, after one that started at began_ns and was the n_failed-th
 * consecutive failure; 0: it succeeded. Pure. */
int64_t qr_progress_sink_next_ns(const struct qr_progress_sink *l, int64_t began_ns,
                                 unsigned n_failed);

struct qr_progress_reporter;
/* Starts the thread. UNAVAILABLE: no thread can be started. Takes over the sinks in every case. */
QR_MUST_CHECK enum qr_code qr_progress_reporter_new(const struct qr_progress_sink *to, size_t n,
                                                    const struct qr_log *log,
                                                    struct qr_progress_reporter **ret,
                                                    struct qr_err *err);
/* Sets the latest snapshot. NULL is allowed. */
void qr_progress_reporter_update(struct qr_progress_reporter *t, bool leader,
                                 const struct qr_progress_snapshot *s);
/* Sends the last reports and ends the thread, within within_ns.
 *
 * Args:     ended_well  all results have been written
 * Returns:  false: the thread hangs in a request, and uses borrowed objects until the process
 *           exits. NULL is allowed
 */
bool qr_progress_reporter_close(struct qr_progress_reporter *t, bool ended_well, int64_t within_ns);

/* Creates the sink of cost.json in the folder at this URL. price: borrowed. Errors: those of the
 * store. */
QR_MUST_CHECK enum qr_code qr_cost_sink(const char *url, const struct qr_price *price,
                                        struct qr_progress_sink *ret, struct qr_err *err);

#endif
