/* group/group.h — the group as the step loop sees it.
 *
 * What      forms generations, one after the other, while members come and go; sums contributions
 *           so that every micro-batch counts exactly once; ends together (membership/protocol.md).
 *           Built from membership (pure rules), a control link with its thread, and a data link
 *           driven by the calling (training) thread. elastic.md shows how the step loop goes with
 *           it.
 * Order     qr_group_ready, then again and again: qr_group_join; give or fetch the state; for each
 *           reduction qr_group_open_reduction, qr_group_take_micro_batch until it says no,
 *           qr_group_reduce,
 *           qr_group_apply; after the closing reduction qr_group_done.
 * ABORTED   from any of these: the generation is over; go on with qr_group_join. The contribution
 *           stays as it is until join says otherwise.
 * Failure   UNAVAILABLE, DEADLINE_EXCEEDED: no group any more within the bounds; the caller exits
 *           138. Refusals by the job's leader: FAILED_PRECONDITION with field and both values.
 *           Every wait has a bound.
 * Threads   all functions from the training thread, but qr_group_take_micro_batch, qr_group_epochs,
 *           qr_group_shares_outputs, qr_group_poison_found (any thread but the control thread) and
 *           qr_group_interrupt (any thread, also one that handles signals).
 */
#ifndef QR_GROUP_GROUP_H
#define QR_GROUP_GROUP_H

#include <stdbool.h>

#include "base/bounds.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "collective/contribution.h"
#include "exact/coverage.h"
#include "exact/integer.h"
#include "format/message.h"

struct qr_group_faults;
struct qr_link_tls;
struct qr_group_options {
    const char *run; /* the job's name */
    uint8_t job_hash[32];
    const struct qr_field *fields;
    size_t n_fields; /* borrowed for the group's life */
    uint32_t index;
    size_t n_peers;
    const char *const *peers; /* host:port by index with oneself; borrowed */
    bool count_known;
    /* the first so many of the peers are parameter servers; this process is one */
    unsigned n_servers;
    bool server;
    unsigned min_workers;       /* that compute; 0: half of them, rounded up */
    const char *listen_address; /* "0.0.0.0:2222"; port 0 = any */
    unsigned data_port;         /* 2224; 0 = any */
    int64_t form_timeout_ns;
    /* this and min_workers: of the first leader's options they count for all, as qr_group_plan's
     * epochs do */
    enum qr_allreduce allreduce;
    /* a text that says where results go: qr_group_shares_outputs compares it; borrowed; NULL: "" */
    const char *places;
    const struct qr_link_tls *tls; /* link/link_grpc_tls.h; outlives the group; NULL: plaintext */
    const struct qr_clock *clock;
    /* qr_clock_awake, for waits of minutes: forming, the leader's last word; NULL: clock */
    const struct qr_clock *awake;
    const struct qr_log *log;
    /* asks the peers in turn for an echo: how far they are (qr_peer_rtt) */
    bool echo;
    /* of this process' incarnation and back-off; 0: the machine's entropy. The simulator replays
     * by it */
    uint64_t seed;
    /* group_over_impl.h; NULL: none. Only the simulator plants some, to prove that it would
     * see each */
    const struct qr_group_faults *faults;
};
struct qr_group_view {
    uint64_t generation;            /* its number */
    uint32_t n_members, rank;       /* rank 0 leads */
    uint32_t index[QR_MAX_MEMBERS]; /* of each rank */
    uint64_t servers; /* bit r: rank r is a parameter server, which computes no micro-batches */
};

struct qr_group;
/* A group of one: no ports, no threads. */
struct qr_group *qr_group_solo(const struct qr_group_options *opt);
/* Listens on both ports (ALREADY_EXISTS when one is in use). gRPC links. *ret_port: the bound
 * control port. */
QR_MUST_CHECK enum qr_code qr_group_open(const struct qr_group_options *opt, struct qr_group **ret,
                                         unsigned *ret_port, struct qr_err *err);
/* Says goodbye: mostly 0.3 s, and 5 s more for each link that hangs; the caller bounds it
 * (worker/stop.h). NULL is fine. */
void qr_group_close(struct qr_group *g);

/* Before qr_group_ready: how many epochs this process would train, and how many reductions an epoch
 * has. Those of the first generation's leader count for all until the ring ends
 * (membership/protocol.md §5); a state beyond their end is not gone on from. */
void qr_group_plan(struct qr_group *g, uint64_t epochs, uint64_t reductions);
/* The ring's, as far as it is known here, else one's own; 0 before qr_group_plan. */
uint64_t qr_group_epochs(struct qr_group *g);
/* True when this member's results go where those of the ring's first leader went: what it cannot
 * write there nobody can. */
bool qr_group_shares_outputs(struct qr_group *g);

/* False for a group that is alone for good (qr_group_solo): no other member's state is ever
 * compared with this one's, and the digests that it is given may be all 0. */
bool qr_group_compares(const struct qr_group *g);
/* The state that this member begins with: reductions applied, and its digest. Starts the control
 * thread; nobody is met before. Steps of up to max_micro_batches micro-batches will then
 * allocate nothing. */
QR_MUST_CHECK enum qr_code qr_group_ready(struct qr_group *g, uint64_t reductions,
                                          const uint8_t digest[16], size_t max_micro_batches,
                                          struct qr_err *err);

/* Where a generation starts, as this member must follow it. */
struct qr_group_start {
    struct qr_group_view view;
    uint64_t epochs;          /* that the ring trains: qr_group_plan's of its first leader */
    uint64_t base_reductions; /* reductions applied in the state that all go on from */
    uint8_t base_digest[16];
    /* all that the settings name are members: nobody can be at work elsewhere */
    bool whole;
    /* this member leads, or did so until now, and nobody was in a generation before: others may
     * have trained on since it started */
    bool first;
    /* this member has another state: fetch the base before anything else */
    bool fetch;
    /* two states of base_reductions differ, and nobody knows which is right: the state of the last
     * checkpoint, or the first one, then qr_group_reloaded and join again. Nothing else is done in
     * this generation */
    bool reload;
    /* some lack it, and this member serves them: qr_group_give with the state's bytes */
    bool give;
    /* nothing begins any more: the leader said that everything is written. The rest is not set */
    bool done;
    /* a parameter server alone: nothing has begun for the form timeout, or 5 s. Others may have
     * ended the run meanwhile; if not, join again. The rest is not set */
    bool waits;
    /* the micro-batches taken at this reduction count on; else what was computed of it must
     * be forgotten */
    bool keep;
    /* not 0: then these are added: what a member that left handed over. Valid until the
     * next join */
    size_t n_more;
    const qr_fixed *more;
    struct qr_coverage more_coverage;
};
/* Waits until a generation has begun that this member has not joined yet, and connects its data
 * streams. DEADLINE_EXCEEDED names who did not answer. Never ABORTED. A parameter server is never
 * told to give up for want of workers: `waits`. */
QR_MUST_CHECK enum qr_code qr_group_join(struct qr_group *g, struct qr_group_start *ret,
                                         struct qr_err *err);
/* To those that this member serves, and from who serves this one (appended to ret; checked for
 * damage, not for truth). */
QR_MUST_CHECK enum qr_code qr_group_give(struct qr_group *g, struct qr_bytes state,
                                         struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_group_fetch(struct qr_group *g, struct qr_buf *ret,
                                          struct qr_err *err);
/* This member has that state from now on (applied or fetched): refused when the generation is over,
 * for then it must not. What was held is gone. */
QR_MUST_CHECK enum qr_code qr_group_apply(struct qr_group *g, uint64_t reductions,
                                          const uint8_t digest[16], struct qr_err *err);

/* As apply, with the state that a generation that says `reload` asks for, or a newer one than its
 * base; then ABORTED, and join begins the next. */
QR_MUST_CHECK enum qr_code qr_group_reloaded(struct qr_group *g, uint64_t reductions,
                                             const uint8_t digest[16], struct qr_err *err);

/* The micro-batches of the present reduction that are this member's. *ret_left: those not
 * taken yet. */
QR_MUST_CHECK enum qr_code qr_group_open_reduction(struct qr_group *g, uint64_t n_micro_batches,
                                                   size_t *ret_left, struct qr_err *err);
/* Those that may be taken now, when all before have been computed; at_once: as many as are computed
 * at the same time. All, but after deaths in this step: micro-batches that may be their cause come
 * last, so many at once or one by one, and the others know of them before
 * (membership/protocol.md §8). 0: no more. */
QR_MUST_CHECK enum qr_code qr_group_portion(struct qr_group *g, unsigned at_once, size_t *ret_left,
                                            struct qr_err *err);
/* The next of them: whoever takes it computes it, whatever comes. False: no more, or the generation
 * is over. */
bool qr_group_take_micro_batch(struct qr_group *g, uint64_t *ret_micro_batch);
/* True when all have ended because a micro-batch of the reduction after state *ret_reductions
 * killed three workers. */
bool qr_group_poison_found(struct qr_group *g, uint64_t *ret_reductions, uint64_t *ret_micro_batch);
/* After the application of a training step of n_micro_batches: ns[r] is what rank r's micro-batches
 * took, from the sum, so equal at all members. Who is faster owns more micro-batches of the next
 * reductions of this generation. It cannot change a result. */
void qr_group_set_speeds(struct qr_group *g, uint64_t n_micro_batches, const uint64_t *ns);
/* How long a micro-batch took at most: a member that takes none for five times as long, and at
 * least 10 s, is frozen to the others. 0: not known. */
void qr_group_expect(struct qr_group *g, int64_t micro_batch_ns);

/* qr_group_ready with a state of 0 reductions, then qr_group_join: for who only reduces. */
QR_MUST_CHECK enum qr_code qr_group_form(struct qr_group *g, struct qr_group_view *ret,
                                         struct qr_err *err);

/* After qr_group_open_reduction: what this member's sum will look like, coverage and vector left
 * out. What a leaver hands over must look so too. */
void qr_group_expect_sums(struct qr_group *g, const struct qr_contribution *shape);
/* For a leaver whose micro-batches in flight take longer than it may wait: what it has finished.
 * Called on the control thread while micro-batches are computed, under the group's lock; it calls
 * nothing of the group. False: this cannot be told now. Unset with NULL before ctx goes. */
struct qr_group_finished {
    const qr_fixed *vector;
    size_t n;
    struct qr_coverage coverage;
    const uint64_t *in_flight;
    size_t n_in_flight; /* taken, and not finished */
};
typedef bool qr_group_finished_fn(void *ctx, struct qr_group_finished *ret);
void qr_group_set_finished(struct qr_group *g, qr_group_finished_fn *finished, void *ctx);
/* A stream that hangs may still read vector and sum of a reduction that has failed: they must stay
 * until qr_group_close. From the training thread. */
bool qr_group_buffers_in_use(struct qr_group *g);
/* ret_sum[n]: the sum over all members, checked by coverage. ret_sum may not alias vector; NULL in
 * a generation of one member, whose sum is its vector. A
 * refused coverage word is ABORTED, and at the second time at one reduction DATA_LOSS for all;
 * alone it is DATA_LOSS at once. CANCELLED after qr_group_interrupt. */
QR_MUST_CHECK enum qr_code qr_group_reduce(struct qr_group *g, const struct qr_contribution *c,
                                           qr_fixed *ret_sum, struct qr_err *err);

/* End together, after the closing reduction (kind CLOSE). The leader calls it when everything is
 * written, or with what kept it from that: Done goes to all. Others wait for Done: bounded by
 * timeout_ns. The leader then waits at most 5 s for goodbyes. ABORTED: the generation is over, and
 * with it perhaps its leader: join, and close again. */
QR_MUST_CHECK enum qr_code qr_group_done(struct qr_group *g, const struct qr_err *leader_error,
                                         int64_t timeout_ns, struct qr_err *err);
/* SIGTERM: waiting calls return CANCELLED soon; peers are told that this member leaves.
 * Micro-batches in flight may be finished for 200 ms before that, where a sum is worth handing
 * over (handover.h): qr_group_reduce takes it, and returns CANCELLED. After that it goes
 * without those. */
void qr_group_interrupt(struct qr_group *g);
/* Which schedule a reduction of n integers uses now: for the log of the first reduction. */
const char *qr_group_schedule_name(const struct qr_group *g, size_t n);

#endif
