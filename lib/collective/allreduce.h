/* collective/allreduce.h — one reduction as a machine of small turns: messages in, chunks out over
 * a data link, the sum at the end.
 *
 * What      Works a schedule (schedule.h) over connections that the caller owns. It never waits and
 *           never reads the clock: the caller polls the link and hands each message in. The
 *           contribution is only read, the sum grows in ret_sum, so a reduction may be thrown away
 *           at any point.
 * Checks    each chunk: crc32c, place in the schedule, once. At the end: the coverage word of every
 *           chunk against the total (exact/coverage.h). Integers are added from where gRPC has put
 *           them, cut anywhere, and their crc32c is known only after that: a damaged chunk has
 *           spoiled the sum, and the reduction is lost.
 * Memory    parts are sent from where they lie: vector and sum stay untouched by others until
 *           done() and the link's unreleased() is 0. Bookkeeping is kept for the next reduction: no
 *           allocation when it is no larger.
 * Threads   the data link's owner.
 */
#ifndef QR_COLLECTIVE_ALLREDUCE_H
#define QR_COLLECTIVE_ALLREDUCE_H

#include "base/err.h"
#include "collective/contribution.h"
#include "collective/allreduce_schedule.h"
#include "link/link.h"

struct qr_reduction_args {
    struct qr_link *link;
    const uint32_t *conn; /* by rank; own entry unused. Borrowed until done */
    uint32_t n_ranks, rank;
    uint64_t generation;                        /* hash of the id */
    enum qr_allreduce allreduce;                /* the same at all members */
    const struct qr_contribution *contribution; /* copied; its vector borrowed */
    qr_fixed *sum;                              /* [n], may not alias vector */
};
enum qr_reduction_status {
    QR_REDUCTION_ACCEPTED, /* worked in */
    /* of another reduction, or of a round that is not reached: pause the connection, keep the
     * bytes, hand them in again when this reduction has taken another message, or the next one
     * has begun */
    QR_REDUCTION_DEFERRED,
    QR_REDUCTION_OTHER_GENERATION, /* of another generation: drop and count */
    QR_REDUCTION_MALFORMED, /* damaged, or not what the schedule says: *err. The reduction is lost */
};

struct qr_reduction;
struct qr_reduction *qr_reduction_new(void);
void qr_reduction_free(struct qr_reduction *r); /* NULL is fine */

/* Starts and sends what can be sent. RESOURCE_EXHAUSTED when scratch (doubling over more than two
 * members) does not fit. */
QR_MUST_CHECK enum qr_code qr_reduction_begin(struct qr_reduction *r,
                                              const struct qr_reduction_args *args,
                                              struct qr_err *err);
enum qr_reduction_status qr_reduction_message(struct qr_reduction *r, uint32_t from_rank,
                                              struct qr_pieces message, struct qr_err *err);
/* Sends what waits for room in the link's queues: after each poll. */
void qr_reduction_pump(struct qr_reduction *r);
/* All is received and handed to the link. */
bool qr_reduction_done(const struct qr_reduction *r);
/* When done: QR_OK, or DATA_LOSS when a coverage word is not the total ("coverage refused at
 * reduction 7 (train): ..."): the sum must not be used. */
QR_MUST_CHECK enum qr_code qr_reduction_check(const struct qr_reduction *r, struct qr_err *err);
/* A rank that this one still waits for, or n_ranks: for messages to people. */
uint32_t qr_reduction_waits_for(const struct qr_reduction *r);

#endif
