/* output/teller.h — a thread that tells others how a run goes, now and then: what it has cost, to
 * cost.json; how far it is, to who started it.
 *
 * When      who leads, every so often; once more when it is closed, where the last word counts of
 *           everybody.
 * Failure   is a warning, once, and tried again at the next time. It ends nothing. Nobody waits,
 *           but qr_teller_close, within its bound.
 * Threads   qr_teller_say: the training thread. It costs two atomic stores.
 */
#ifndef QR_OUTPUT_TELLER_H
#define QR_OUTPUT_TELLER_H

#include "base/clock.h"
#include "base/log.h"
#include "output/cost.h"

/* Whom it tells. */
struct qr_listener {
    const char *what; /* a literal for messages: "the run's cost" */
    int64_t every_ns;
    bool last_of_all; /* the last word is that of each member, else only of who leads */
    /* Within some seconds. last: the run has ended well. */
    enum qr_code (*tell)(void *ctx, uint64_t pod_ms, bool last, struct qr_err *err);
    void (*free)(void *ctx); /* NULL: nothing to free */
    void *ctx;
};
enum { QR_LISTENERS = 2 };

struct qr_teller;
/* UNAVAILABLE when there is no thread for it; the listeners are the teller's in every case. */
QR_MUST_CHECK enum qr_code qr_teller_new(const struct qr_listener *to, size_t n,
                                         const struct qr_log *log, struct qr_teller **ret,
                                         struct qr_err *err);
/* NULL is fine. */
void qr_teller_say(struct qr_teller *t, bool leader, uint64_t pod_ms);
/* ended_well: everything is written. False: its thread hangs in a request and goes on using what it
 * borrowed until the process ends. NULL is fine. */
bool qr_teller_close(struct qr_teller *t, bool ended_well, int64_t within_ns);

/* cost.json in the folder at this URL. price: borrowed. */
QR_MUST_CHECK enum qr_code qr_teller_to_cost(const char *url, const struct qr_price *price,
                                             struct qr_listener *ret, struct qr_err *err);

#endif
