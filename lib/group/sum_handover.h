/* group/sum_handover.h — the micro-batches that a leaver has computed go to another member
 * (membership/protocol.md rule 6; elastic.md). Inside the group.
 *
 * What      A leaver's training thread leaves its sum with the control thread, which sends it to
 *           the lowest other member and says goodbye when the answer comes, or after
 *           QR_HANDOVER_ANSWER_NS. The lowest proposes next, so what it holds apart is in its own
 *           promise, and nobody has proposed without it. A Begin gives it to it, or it is
 *           forgotten.
 * Checks    generation, base, kind, length, micro-batches, and the coverage word of exactly these
 *           micro-batches; what does not fit is dropped, with a warning, and counted. One message,
 *           at most QR_HANDOVER_MAX_COUNT integers: a longer sum is not handed over, nor one that
 *           took less than QR_HANDOVER_WORTH_NS.
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
/* a leaver waits so long for the micro-batches in flight */
#define QR_HANDOVER_WITHIN_NS (200 * QR_MS)
#define QR_HANDOVER_ANSWER_NS (100 * QR_MS)

struct handover_sum {
    qr_fixed *vector;
    size_t cap;
    struct qr_coverage coverage;
};
/* What this member's sums of the present reduction look like, and what is held apart. */
struct handover {
    /* the next three are set: a reduction is open, or was opened from this base */
    bool known;
    struct qr_coverage_key key;
    uint64_t n_micro_batches;
    size_t n;
    uint32_t n_runs; /* 0: nothing is held apart */
    struct qr_run run[QR_MESSAGE_MAX_RUNS];
    /* given: by a Begin, to this member; its micro-batches are in the ledger, and the trainer has
     * not added it yet. added: the training thread's, from a join to the next */
    struct handover_sum apart, given, added;
    bool gives; /* given is set */
    /* a leaver's */
    bool (*finished)(void *ctx, struct qr_group_finished *ret); /* qr_group_set_finished */
    void *finished_ctx;
    int64_t leave_by_ns; /* 0: no wait */
    bool awaits;         /* sent, and not answered */
    struct qr_buf frame;
    uint64_t frame_micro_batches;
    bool left; /* the goodbye is said */
};

/* ---- the leaver ---- */
bool handover_worth(const struct qr_group *g);
/* c holds all micro-batches that were taken. */
void handover_prepare(struct qr_group *g, const struct qr_contribution *c);
/* The micro-batches in flight take too long: what is finished, without them. */
void handover_prepare_finished(struct qr_group *g);
/* The control thread, before its goodbye: true when an answer is to be waited for, until
 * h->leave_by_ns. What was sent is held here no longer. */
bool handover_send(struct qr_group *g);

/* ---- the receiver ---- */
/* What its sums of the open reduction look like. */
void handover_expect(struct qr_group *g, const struct qr_contribution *shape);
/* or an answer */
void handover_received(struct qr_group *g, uint32_t conn, uint32_t index, struct qr_bytes message);
/* A promise: what is held apart joins what it reports. */
void handover_join(struct qr_group *g, struct qr_held *h);
/* A Begin in which this member keeps what it holds: kept[n_kept] is what it keeps, n_own of them
 * the ledger's. */
void handover_begun(struct qr_group *g, const struct qr_run *kept, uint32_t n_kept, uint32_t n_own);
void handover_drop(struct qr_group *g); /* what is held apart is forgotten */
/* For the trainer to add: false when there is nothing. The vector stays until the next call. */
bool handover_take(struct qr_group *g, const qr_fixed **ret_vector, size_t *ret_n,
                   struct qr_coverage *ret_coverage);
void handover_fini(struct handover *h);

#endif
