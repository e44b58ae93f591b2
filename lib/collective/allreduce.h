/* collective/allreduce.h — one reduction: messages in, chunks out over a data link, the sum at the
 * end.
 *
 * What      Runs a schedule (allreduce_schedule.h) over connections that the caller owns. Never
 *           waits and never reads the clock: the caller polls the link and passes each message in.
 *           The contribution is only read and the sum grows in its own memory, so a reduction may
 *           be abandoned at any point.
 * Order     qr_reduction_begin; qr_reduction_message for each message and qr_reduction_pump after
 *           each poll, until qr_reduction_done; qr_reduction_check.
 * Checks    Each chunk: crc32c, place in the schedule, no duplicate. At the end: the coverage word
 *           of every chunk against the total (exact/coverage.h). Integers are added directly from
 *           gRPC's buffers, cut anywhere, and their crc32c is known only afterwards: a damaged
 *           chunk spoils the sum, and the reduction is lost.
 * Memory    Parts are sent in place: vector and sum must not be changed until qr_reduction_done and
 *           the link's unreleased() is 0. Bookkeeping is kept for the next reduction: no allocation
 *           when that is no larger.
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
    uint64_t generation;                        /* hash of the generation's id */
    enum qr_allreduce allreduce;                /* the same at all members */
    const struct qr_contribution *contribution; /* copied; its vector borrowed */
    qr_fixed *sum;                              /* [n], not aliasing the vector */
};
enum qr_reduction_status {
    QR_REDUCTION_ACCEPTED, /* processed */
    /* Belongs to another reduction, or to a round not reached yet: pause the connection, keep the
     * bytes, and pass them in again after this reduction has accepted another message, or the next
     * has begun. */
    QR_REDUCTION_DEFERRED,
    QR_REDUCTION_OTHER_GENERATION, /* of another generation: drop and count */
    QR_REDUCTION_MALFORMED, /* damaged, or against the schedule: *err; the reduction is lost */
};

struct qr_reduction;
struct qr_reduction *qr_reduction_new(void);
void qr_reduction_free(struct qr_reduction *r); /* NULL is fine */

/* Starts a reduction and sends what can be sent.
 *
 * Errors:   RESOURCE_EXHAUSTED (no memory for scratch: doubling over more than two members)
 */
QR_MUST_CHECK enum qr_code qr_reduction_begin(struct qr_reduction *r,
                                              const struct qr_reduction_args *args,
                                              struct qr_err *err);
/* Processes one message.
 *
 * Args:     from_rank  the sender
 *           message    borrowed for the call
 * Returns:  see enum qr_reduction_status; err is set at MALFORMED
 * Errors:   UNAVAILABLE (damaged, or of another program); INTERNAL (out of turn)
 */
enum qr_reduction_status qr_reduction_message(struct qr_reduction *r, uint32_t from_rank,
                                              struct qr_pieces message, struct qr_err *err);
/* Sends chunks that waited for room in the link's queues. Call after each poll. */
void qr_reduction_pump(struct qr_reduction *r);
/* Returns whether everything is received and handed to the link. */
bool qr_reduction_done(const struct qr_reduction *r);
/* Checks coverage, once done.
 *
 * Errors:   DATA_LOSS: a coverage word differs from the total ("coverage check failed at reduction
 *           7 (train): ..."); the sum must not be used
 */
QR_MUST_CHECK enum qr_code qr_reduction_check(const struct qr_reduction *r, struct qr_err *err);
/* Returns a rank that this one still waits for, or n_ranks. For log messages. */
uint32_t qr_reduction_waits_for(const struct qr_reduction *r);

#endif
