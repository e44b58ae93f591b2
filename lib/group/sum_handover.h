/* group/sum_handover.h — passes the micro-batches that a leaving member has computed to another
 * member (membership/protocol.md rule 6; elastic.md). Internal to the group.
 *
 * What      The leaver's training thread passes its sum to the control thread, which sends the sum
 *           to the lowest other member, and says goodbye to all when the answer comes, or after
 *           QR_HANDOVER_ANSWER_NS. The lowest member proposes next, so its own promise lists what
 *           it holds apart. A Begin assigns that to it, or the sum is dropped.
 * Checks    generation, base, kind, length, micro-batches, and the coverage word of exactly these
 *           micro-batches; a mismatch is dropped, with a warning, and counted. One message, at most
 *           QR_HANDOVER_MAX_COUNT integers: a longer sum is not handed over, nor one that took less
 *           than QR_HANDOVER_WORTH_NS.
 * Threads   all under the group's lock.
 */
#ifndef QR_GROUP_SUM_HANDOVER_H
#define QR_GROUP_SUM_HANDOVER_H

#include "base/clock.h"
#include "exact/coverage.h"
#include "exact/integer.h"
#include "format/message.h"

struct qr_contribution;
struct qr_group;
struct qr_group_finished;

#define QR_HANDOVER_WORTH_NS (50 * QR_MS) /* since the first micro-batch of the reduction */
/* Wait of a leaver for micro-batches in flight. */
#define QR_HANDOVER_WITHIN_NS (200 * QR_MS)
#define QR_HANDOVER_ANSWER_NS (100 * QR_MS)

struct handover_sum {
    qr_fixed *vector;
    size_t cap;
    struct qr_coverage coverage;
};
/* Shape of this member's sums in the present reduction, and the sums held apart. */
struct handover {
    /* The next three are set: a reduction is or was open from this base. */
    bool known;
    struct qr_coverage_key key;
    uint64_t n_micro_batches;
    size_t n;
    uint32_t n_runs; /* 0: nothing is held apart */
    struct qr_run run[QR_MESSAGE_MAX_RUNS];
    /* given: assigned to this member by a Begin; in the ledger, not yet added by the trainer.
     * added: the training thread's, until the next join. */
    struct handover_sum apart, given, added;
    bool gives; /* given is set */
    /* Of a leaver */
    bool (*finished)(void *ctx, struct qr_group_finished *ret); /* qr_group_set_finished */
    void *finished_ctx;
    int64_t leave_by_ns; /* 0: no wait */
    bool awaits;         /* sent and not answered */
    struct qr_buf frame;
    uint64_t frame_micro_batches;
    bool left; /* goodbye sent */
};

/* ---- the leaver ---- */
bool handover_worth(const struct qr_group *g);
/* c holds all micro-batches that were taken. */
void handover_prepare(struct qr_group *g, const struct qr_contribution *c);
/* Prepares the finished part; the micro-batches in flight take too long. */
void handover_prepare_finished(struct qr_group *g);
/* Called by the control thread before its goodbye. True: wait for an answer until h->leave_by_ns.
 * The micro-batches sent no longer belong to this member. */
bool handover_send(struct qr_group *g);

/* ---- the receiver ---- */
/* Sets the shape of the sums of the open reduction. */
void handover_expect(struct qr_group *g, const struct qr_contribution *shape);
/* Handles a sum, or an answer. */
void handover_received(struct qr_group *g, uint32_t conn, uint32_t index, struct qr_bytes message);
/* At a promise: adds the sums held apart to the report. */
void handover_join(struct qr_group *g, struct qr_held *h);
/* At a Begin that keeps this member's work: kept[n_kept], n_own of them from the ledger. */
void handover_begun(struct qr_group *g, const struct qr_run *kept, uint32_t n_kept, uint32_t n_own);
void handover_drop(struct qr_group *g); /* drops the sums held apart */
/* For the trainer to add; false: none. The vector is valid until the next call. */
bool handover_take(struct qr_group *g, const qr_fixed **ret_vector, size_t *ret_n,
                   struct qr_coverage *ret_coverage);
void handover_fini(struct handover *h);

#endif
