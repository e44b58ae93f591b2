/* group/group.h — the group of workers, as the step loop uses it.
 *
 * What      Forms generations, one after the other, while members join and leave; sums
 *           contributions so that every micro-batch counts exactly once; ends the run together
 *           (membership/protocol.md). elastic.md describes the step loop.
 * Order     qr_group_open or qr_group_solo, qr_group_plan, qr_group_ready. For each generation:
 *           qr_group_join; qr_group_give or qr_group_fetch; for each reduction
 *           qr_group_open_reduction, qr_group_take_micro_batch until false, qr_group_reduce,
 *           qr_group_apply. After the closing reduction qr_group_done, then qr_group_close.
 * Errors    Common to all calls with an err. ABORTED: the generation is over; continue with
 *           qr_group_join; the contribution stays valid until join says otherwise. UNAVAILABLE,
 *           DEADLINE_EXCEEDED: no group within the time limits; the caller exits with 138.
 *           FAILED_PRECONDITION: rejected by the job's leader; the message has the field and both
 *           values. CANCELLED: qr_group_interrupt was called. DATA_LOSS, and any code sent by the
 *           leader: the job has ended for all. Every wait has a timeout.
 * Threads   the training thread; except qr_group_take_micro_batch, qr_group_epochs,
 *           qr_group_shares_outputs (any thread but the control thread) and
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
    const char *const *peers; /* host:port by index, own entry included; borrowed */
    bool count_known;
    /* Number of parameter servers at the start of peers; whether this process is one. */
    unsigned n_servers;
    bool server;
    unsigned min_workers;       /* least number of computing members; 0: half of them, rounded up */
    const char *listen_address; /* "0.0.0.0:2222"; port 0 = any */
    unsigned data_port;         /* 2224; 0: any */
    int64_t form_timeout_ns;
    /* This and min_workers: the first leader's values apply to all, like the epochs of
     * qr_group_plan. */
    enum qr_allreduce allreduce;
    /* Text that identifies where results go, compared by qr_group_shares_outputs; borrowed; NULL:
     * "". */
    const char *places;
    const struct qr_link_tls *tls; /* link/link_grpc_tls.h; outlives the group; NULL: plaintext */
    const struct qr_clock *clock;
    /* qr_clock_awake, for waits of minutes: forming, the leader's Done; NULL: clock. */
    const struct qr_clock *awake;
    const struct qr_log *log;
    /* Sends an echo to each peer in turn, to measure round-trip times (qr_peer_rtt). */
    bool echo;
    /* Of this process' incarnation and back-off; 0: from the system's entropy. The simulator sets
     * it for replays. */
    uint64_t seed;
    /* group_over_impl.h; NULL: none. Only the simulator sets some, to prove their detection. */
    const struct qr_group_faults *faults;
};
struct qr_group_view {
    uint64_t generation;            /* its number */
    uint32_t n_members, rank;       /* rank 0 leads */
    uint32_t index[QR_MAX_MEMBERS]; /* of each rank */
    uint64_t servers; /* bit r: rank r is a parameter server and computes no micro-batches */
};

struct qr_group;
/* Creates a group of one: no ports, no threads. Free with qr_group_close. */
struct qr_group *qr_group_solo(const struct qr_group_options *opt);
/* Listens on both ports, over gRPC links.
 *
 * Args:     opt       copied, except for the fields marked borrowed
 *           ret       the group; free with qr_group_close
 *           ret_port  the bound control port
 * Errors:   ALREADY_EXISTS (a port is in use); INVALID_ARGUMENT (index, address)
 */
QR_MUST_CHECK enum qr_code qr_group_open(const struct qr_group_options *opt, struct qr_group **ret,
                                         unsigned *ret_port, struct qr_err *err);
/* Sets the reason for the goodbye, a copy of *why, if this member ends before the others; without
 * one it is ABORTED. A parameter server ends with the code and text of its last worker if that code
 * is permanent, and waits for a worker otherwise (membership/protocol.md rule 7). */
void qr_group_set_error(struct qr_group *g, const struct qr_err *why);
/* Sends a goodbye and frees the group: usually 0.3 s, and 5 s more for each link that hangs; the
 * caller bounds it (worker/stop.h). NULL is fine. */
void qr_group_close(struct qr_group *g);

/* Sets the plan of this process, before qr_group_ready: epochs that it would train, reductions per
 * epoch. The first generation's leader sets it for all until the ring ends
 * (membership/protocol.md §5). A state beyond the ring's last epoch is not continued. */
void qr_group_plan(struct qr_group *g, uint64_t epochs, uint64_t reductions);
/* Returns the ring's number of epochs as far as it is known, else the own; 0 before
 * qr_group_plan. */
uint64_t qr_group_epochs(struct qr_group *g);
/* Returns whether this member's results go to the same locations as those of the ring's first
 * leader: a failure to write them here is a failure for all. */
bool qr_group_shares_outputs(struct qr_group *g);

/* Returns whether other members' states are compared with this one's. False for qr_group_solo; then
 * all digests may be 0. */
bool qr_group_compares(const struct qr_group *g);
/* Sets the state that this member begins with, and starts the control thread (errors by errno); no
 * peer is contacted before. Call once.
 *
 * Args:     reductions         reductions applied in that state
 *           digest             of that state
 *           max_micro_batches  steps of up to this many allocate nothing later
 */
QR_MUST_CHECK enum qr_code qr_group_ready(struct qr_group *g, uint64_t reductions,
                                          const uint8_t digest[16], size_t max_micro_batches,
                                          struct qr_err *err);

/* Start of a generation, as this member must follow it. */
struct qr_group_start {
    struct qr_group_view view;
    uint64_t epochs;          /* epochs that the ring trains: qr_group_plan's of its first leader */
    uint64_t base_reductions; /* reductions applied in the common base state */
    uint8_t base_digest[16];
    bool whole; /* all peers of the settings are members, so none can be working elsewhere */
    bool keep;  /* micro-batches taken in this reduction still count; else clear the sums */
    bool fetch; /* this member has another state: fetch the base first */
    bool give;  /* other members lack the base, and this member serves them: qr_group_give */
    /* This member leads, or has led until now, and no member was in a generation before: others may
     * have trained on since it started. */
    bool first;
    /* Two states of base_reductions differ without a majority: load the last checkpoint or the
     * first state, then call qr_group_reloaded and join again. Nothing else is done in this
     * generation. */
    bool reload;
    /* The run has ended: the leader confirmed that all outputs are written. The rest is not set. */
    bool done;
    /* At a parameter server only: no generation has begun for the form timeout, at least 5 s. Check
     * whether others have ended the run; if not, join again. The rest is not set. */
    bool waits;
};
/* Waits for the next generation and connects its data streams.
 *
 * Errors:   DEADLINE_EXCEEDED (names the peers that did not answer); never ABORTED. A parameter
 *           server without workers gets `waits` instead.
 */
QR_MUST_CHECK enum qr_code qr_group_join(struct qr_group *g, struct qr_group_start *ret,
                                         struct qr_err *err);
/* Sends the state's bytes, borrowed, to the members that this one serves. */
QR_MUST_CHECK enum qr_code qr_group_give(struct qr_group *g, struct qr_bytes state,
                                         struct qr_err *err);
/* Appends the base state from the member that serves this one: transport damage is detected, wrong
 * content is not. */
QR_MUST_CHECK enum qr_code qr_group_fetch(struct qr_group *g, struct qr_buf *ret,
                                          struct qr_err *err);
/* Sets the state of this member (applied or fetched): its reductions and digest. Clears the
 * micro-batches taken so far. ABORTED: the state must not be used. */
QR_MUST_CHECK enum qr_code qr_group_apply(struct qr_group *g, uint64_t reductions,
                                          const uint8_t digest[16], struct qr_err *err);

/* As qr_group_apply, with the state that `reload` asks for, or a newer one than the base. Returns
 * ABORTED on success: the next join begins another generation. */
QR_MUST_CHECK enum qr_code qr_group_reloaded(struct qr_group *g, uint64_t reductions,
                                             const uint8_t digest[16], struct qr_err *err);

/* Opens the next reduction, of n_micro_batches; ret_left: those of this member not taken yet. */
QR_MUST_CHECK enum qr_code qr_group_open_reduction(struct qr_group *g, uint64_t n_micro_batches,
                                                   size_t *ret_left, struct qr_err *err);
/* Takes the next micro-batch; the caller must compute it. False: none left, or the generation is
 * over. */
bool qr_group_take_micro_batch(struct qr_group *g, uint64_t *ret_micro_batch);
/* Records the speeds after a training step of n_micro_batches: ns[rank] is the time for the rank's
 * micro-batches, from the sum, so equal at all members. Faster members own more micro-batches in
 * later reductions of this generation; results do not change. */
void qr_group_set_speeds(struct qr_group *g, uint64_t n_micro_batches, const uint64_t *ns);
/* Sets how long a micro-batch takes at most; 0: not known. A member that takes none for five times
 * as long, and at least 10 s, counts as frozen. */
void qr_group_expect(struct qr_group *g, int64_t micro_batch_ns);

/* Returns whether a hanging stream may still read vector and sum of a failed reduction; if so, keep
 * both until qr_group_close. */
bool qr_group_buffers_in_use(struct qr_group *g);
/* Sums the contributions of all members, and checks coverage.
 *
 * Args:     c        this member's contribution; its vector is borrowed
 *           ret_sum  [c->n], not aliasing the vector; NULL in a generation of one member, where the
 *                    sum is the vector
 * Errors:   ABORTED (coverage check failed once); DATA_LOSS for all the second time in one
 *           reduction, or at once in a group of one; CANCELLED after qr_group_interrupt
 */
QR_MUST_CHECK enum qr_code qr_group_reduce(struct qr_group *g, const struct qr_contribution *c,
                                           qr_fixed *ret_sum, struct qr_err *err);

/* Ends the run together, after the closing reduction (kind CLOSE). The leader calls it when all
 * outputs are written, or with the error; Done is sent to all, and goodbyes are awaited for at most
 * 5 s. The others wait for Done.
 *
 * Args:     leader_error  NULL or OK: success; ignored at other ranks
 *           timeout_ns    limit of the wait for Done
 * Errors:   the leader's code; DEADLINE_EXCEEDED; ABORTED: the generation is over, perhaps because
 *           its leader is lost: join and close again
 */
QR_MUST_CHECK enum qr_code qr_group_done(struct qr_group *g, const struct qr_err *leader_error,
                                         int64_t timeout_ns, struct qr_err *err);
/* Stops this member (SIGTERM): waiting calls return CANCELLED soon, and the others are informed.
 * Its micro-batches are computed again by the others. */
void qr_group_interrupt(struct qr_group *g);
/* Returns the schedule that a reduction of n integers uses now; static. For the log. */
const char *qr_group_schedule_name(const struct qr_group *g, size_t n);

#endif
