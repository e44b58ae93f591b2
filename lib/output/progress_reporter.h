/* output/progress_reporter.h — a thread that tells others how a run goes, now and then: what it
 * has cost, to
 * cost.json; how far it is, to who started it (progress_to.h).
 *
 * When      who leads, every so often; once more when it is closed, where the last word counts of
 *           everybody.
 * Failure   is a warning, once, and tried again at the next time, or ever later where the listener
 *           says so. It ends nothing. Nobody waits, but qr_progress_reporter_close, within its
 *           bound.
 * Threads   qr_progress_reporter_update: the training thread. It costs a copy, under a lock that
 *           nobody holds
 *           for long.
 */
#ifndef QR_OUTPUT_PROGRESS_REPORTER_H
#define QR_OUTPUT_PROGRESS_REPORTER_H

#include "base/clock.h"
#include "base/log.h"
#include "output/cost.h"
#include "output/progress_snapshot.h"

/* GOING: more will come; LAST: none will; DONE: none will, and the run has ended well. */
enum qr_report_kind { QR_REPORT_ONGOING, QR_REPORT_LAST, QR_REPORT_DONE };
/* Whom it tells. */
struct qr_progress_sink {
    const char *what;          /* for messages, borrowed: "the run's cost" */
    int64_t every_ns, most_ns; /* most_ns: between tries that fail; 0: every_ns */
    bool last_of_all;          /* the last word is that of each member, else only of who leads */
    /* Within some seconds. */
    enum qr_code (*tell)(void *ctx, const struct qr_progress_snapshot *s, enum qr_report_kind when,
                         struct qr_err *err);
    void (*free)(void *ctx); /* NULL: nothing to free */
    void *ctx;
};
enum { QR_PROGRESS_SINKS = 2 };
/* When it is told again, after a word that began at began_ns and was the n_failed-th in a row that
 * failed; 0: it was heard. Pure. */
int64_t qr_progress_sink_next_ns(const struct qr_progress_sink *l, int64_t began_ns,
                                 unsigned n_failed);

struct qr_progress_reporter;
/* UNAVAILABLE when there is no thread for it; the listeners are the progress_reporter's in every
 * case. */
QR_MUST_CHECK enum qr_code qr_progress_reporter_new(const struct qr_progress_sink *to, size_t n,
                                                    const struct qr_log *log,
                                                    struct qr_progress_reporter **ret,
                                                    struct qr_err *err);
/* NULL is fine. */
void qr_progress_reporter_update(struct qr_progress_reporter *t, bool leader,
                                 const struct qr_progress_snapshot *s);
/* ended_well: everything is written. False: its thread hangs in a request and goes on using what it
 * borrowed until the process ends. NULL is fine. */
bool qr_progress_reporter_close(struct qr_progress_reporter *t, bool ended_well, int64_t within_ns);

/* cost.json in the folder at this URL. price: borrowed. */
QR_MUST_CHECK enum qr_code qr_cost_sink(const char *url, const struct qr_price *price,
                                        struct qr_progress_sink *ret, struct qr_err *err);

#endif
