/* membership/member.h — group membership: the rules of protocol.md §4 as a pure state machine.
 *
 * What      Events and the time go in (qr_member_handle), actions come out (the emit callback). No
 *           clock, no I/O, no threads, no log: a log line is an action. Only qr_member_new
 *           allocates. member.md names the function that keeps each rule.
 * Order     qr_member_new, qr_member_set_plan, qr_member_set_held, START; then events until DONE or
 *           STOP. After each poll of the link without an event, and at qr_member_deadline_ns at the
 *           latest: TICK.
 * Driver    control.c (real links) and the simulator own the link. Actions are emitted during
 *           qr_member_handle, in order, and may point into the machine: use them before returning.
 *           emit may call qr_member_set_held and ask questions, no more.
 * Trainer   From SUSPEND to BEGIN the trainer takes, sends, receives and applies nothing; it may
 *           continue to compute. At SUSPEND, and at BEGIN (micro-batches kept or dropped), emit
 *           sets the state that the trainer holds from then on: a promise and a Begin report it.
 * Dialing   START emits DIAL for every lower index. A lower index dials too when no newcomer has
 *           connected for a second; so does a peer that received an address hint. One connection of
 *           each pair stays.
 * Errors    none are returned; fatal conditions are STOP actions.
 * Threads   none of its own: one thread at a time. Cost: microseconds; a heartbeat to 63 peers is
 *           the longest.
 */
#ifndef QR_MEMBERSHIP_MEMBER_H
#define QR_MEMBERSHIP_MEMBER_H

#include "base/bounds.h"
#include "base/log.h"
#include "collective/contribution.h"
#include "collective/poll_report.h"
#include "format/message.h"

#define QR_MEMBER_HEARTBEAT_NS INT64_C(250000000)
#define QR_MEMBER_TIMEOUT_NS INT64_C(1250000000)

/* Rules that a machine leaves out on request. Only tests/support/planted.h sets them, to prove that
 * the simulator detects each violation. */
struct qr_member_faults {
    /* Accepts a Begin with an id that it has not promised, or promises no longer. */
    bool begin_without_promise;
    bool promise_any;       /* promises a smaller id too */
    bool keep_overlap;      /* keeps held sets that overlap */
    bool keep_other_base;   /* keeps micro-batches of another state */
    bool no_suspend;        /* stays in the old generation after a promise */
    bool leader_decides;    /* proposes its own settings as the ring's */
    bool id_is_number;      /* compares ids by number alone, and answers a Propose again */
    bool newcomers_first;   /* a newcomer with a lower index replaces a member */
    bool control_is_enough; /* counts a peer as reachable without a data stream */
};

struct qr_member_options {
    const char *run, *contract;
    uint8_t job_hash[32];
    /* Borrowed. Fields beyond QR_MESSAGE_MAX_FIELDS are not compared one by one. */
    const struct qr_field *fields;
    size_t n_fields;
    uint32_t index;
    uint8_t incarnation[QR_INCARNATION_BYTES];
    /* host:port by index, own entry included; borrowed; 1..QR_MAX_MEMBERS entries. */
    size_t n_peers;
    const char *const *peers;
    bool count_known; /* false: peers are candidates to probe, none is awaited by name */
    /* Number of parameter servers at the start of peers, as far as the settings know: for texts and
     * for the default of min_workers. A server declares itself in its hello. */
    unsigned n_servers;
    bool server; /* this process is a parameter server */
    /* The first leader's values of these apply to all (protocol.md §5): */
    /* Least number of computing members; 0: half of those in the settings, rounded up, where the
     * count is known, else 1. */
    unsigned min_workers;
    enum qr_allreduce allreduce;
    uint64_t places; /* as qr_common.places */
    int64_t form_timeout_ns;
    unsigned data_port, control_port;
    uint64_t seed; /* for the random back-off: differs between processes */
    /* All false except in the simulator. */
    struct qr_member_faults faults;
};

/* A generation as its member sees it: the Begin, and this member's rank. */
struct qr_generation {
    struct qr_begin begin;
    uint64_t id_hash; /* of begin.id; every data message carries it */
    uint32_t rank;    /* begin.member[rank] is this process; rank 0 leads */
    /* At rank 0: no member was in a generation before, as far as heartbeats tell (rule 7). */
    bool first;
};
/* Sets ret_mine[n_micro_batches]: 1 for each micro-batch of the base reduction that belongs to a
 * rank, kept ones included, else 0. */
void qr_generation_micro_batches(const struct qr_begin *begin, uint32_t rank,
                                 uint64_t n_micro_batches, uint8_t *ret_mine);

/* Returns whether no micro-batch is in both runs. */
bool qr_runs_disjoint(const struct qr_run *a, const struct qr_run *b);

enum qr_member_action_kind {
    QR_ACT_SEND,    /* conn, message: encode and send on the control link */
    QR_ACT_CLOSE,   /* conn: close the connection */
    QR_ACT_DIAL,    /* index, text = address: dial with tag = index */
    QR_ACT_HANG_UP, /* index: stop dialing; a DIAL may follow later */
    /* index, incarnation, data_port, text = its IP address or "": this process answers; a data
     * stream to it is wanted, dialed by the higher index. later: not yet; another PEER follows when
     * it is time to dial, unless a generation needs the stream first */
    QR_ACT_PEER,
    QR_ACT_PEER_GONE, /* index: sent a goodbye; no data stream is wanted any more */
    /* index: replace its data stream; silent: because it passes no data */
    QR_ACT_RENEW_DATA,
    QR_ACT_LOG,     /* level, text */
    QR_ACT_SUSPEND, /* a promise was given: no generation until BEGIN */
    QR_ACT_BEGIN,   /* generation: active now */
    /* code, text: leave. The leader has sent Done; at the leader, all have said goodbye or 5 s have
     * passed */
    QR_ACT_DONE,
    /* code, text: this process must end: FAILED_PRECONDITION (other settings than the job's),
     * DEADLINE_EXCEEDED (names the peers that did not answer; or the others ended without this
     * process), UNAVAILABLE (another process claimed its index), DATA_LOSS (rule 5),
     * INVALID_ARGUMENT (the first leader's own state is beyond its epochs). Emitted
     * once; only CLOSE follows. */
    QR_ACT_STOP,
};
struct qr_member_action {
    enum qr_member_action_kind kind;
    uint32_t conn, index;
    enum qr_log_level level;
    enum qr_code code;
    const char *text;
    const struct qr_message *message;
    const struct qr_generation *generation;
    const uint8_t *incarnation;
    unsigned data_port; /* PEER */
    bool later;         /* PEER */
    bool silent;        /* RENEW_DATA */
};
typedef void qr_member_emit_fn(void *ctx, const struct qr_member_action *a);

struct qr_member;
/* Creates a machine; free with qr_member_free. opt is copied, except for fields marked borrowed.
 * emit receives the actions, with ctx, from the next call on. */
struct qr_member *qr_member_new(const struct qr_member_options *opt, qr_member_emit_fn *emit,
                                void *ctx);
void qr_member_free(struct qr_member *m); /* NULL is fine */

/* Sets the plan of this process, before START: the epochs that it would train, and reductions per
 * epoch; 0: not known, then no state counts as beyond the end. */
void qr_member_set_plan(struct qr_member *m, uint64_t epochs, uint64_t reductions);

enum qr_member_event_kind {
    QR_EVENT_START, /* first: dial, start the timers. With n_peers 1 a generation begins at once */
    /* conn, outgoing, index = the dial's tag, text = the IP address of the other end, where the
     * link knows it: a new connection. Others get the address as a hint, unless it is loopback. */
    QR_EVENT_UP,
    QR_EVENT_DOWN,      /* conn, text = the reason, may be NULL: a connection closed */
    QR_EVENT_MESSAGE,   /* conn, message */
    QR_EVENT_MALFORMED, /* conn, text: bytes that do not decode, and why; it is closed */
    QR_EVENT_TICK,
    /* index, incarnation: the data stream to this process of a peer is up (both have greeted). A
     * peer counts as reachable only over control and data (rule 1). */
    QR_EVENT_DATA_UP,
    /* index, text, lost: that stream broke; it is dialed again. lost: work of the active generation
     * may be lost, so a new one is requested after 30 ms. A member of the last generation stays
     * reachable until its silence shows otherwise; any other peer only when its stream is up. */
    QR_EVENT_DATA_DOWN,
    QR_EVENT_TRAINER,  /* turns, micro_batch_ns, polled: progress; a tick where one is due */
    QR_EVENT_REJECTED, /* a coverage check failed: a new generation is needed (held.refusals) */
    /* code (QR_OK or the error), text (sent to all, may be NULL): end the run, at the leader only.
     * Done is sent to all; DONE follows at the last goodbye or after 5 s. */
    QR_EVENT_END,
    /* code, text (sent to all, may be NULL): leave before the end, with a goodbye to all. At a code
     * other than QR_CANCELLED (asked to stop) the others log a warning. Only CLOSE follows. */
    QR_EVENT_LEAVE,
};
struct qr_member_event {
    enum qr_member_event_kind kind;
    uint32_t conn, index;
    bool outgoing, lost;
    enum qr_code code;
    const char *text;
    const struct qr_message *message;
    const uint8_t *incarnation;
    /* TRAINER: any number that changes while the trainer computes, or waits in a loop of its own;
     * time of a micro-batch, 0: not computing. polled: how it polled the data streams of the active
     * generation, NULL: as before. Two peers that both poll without a pause send each other beats.
     * After 1.5 s plus allow_ns without one, neither counts as reachable by the other until a new
     * stream is up. */
    uint64_t turns;
    int64_t micro_batch_ns;
    const struct qr_poll_report *polled;
};
/* Handles an event, borrowed for the call, and then everything that the time requires. */
void qr_member_handle(struct qr_member *m, int64_t now_ns, const struct qr_member_event *e);
/* Returns the time of the next tick; never later than one heartbeat. */
int64_t qr_member_deadline_ns(const struct qr_member *m);

/* Sets the trainer's state (see Trainer above): before the start, and before each event. Copied. */
void qr_member_set_held(struct qr_member *m, const struct qr_held *held);
/* Returns the generation with a Begin that may still come: promised, its proposer not lost since.
 * False: none. */
bool qr_member_awaits_begin(const struct qr_member *m, struct qr_gen_id *ret);
/* Returns whether a peer answers without a data stream: the training thread should poll now
 * and then. */
bool qr_member_awaits_data(const struct qr_member *m);
/* Returns whether the peer answers, and its stream has been down for 3 s or passes nothing. */
bool qr_member_lacks_data(const struct qr_member *m, uint32_t index);
/* Returns the ring's settings as far as they are known: those of the own generation, else of a
 * reachable member of another, else the own. Borrowed until the next event. */
const struct qr_common *qr_member_common(const struct qr_member *m);

/* Returns the number of connected peers (hello accepted). */
unsigned qr_member_n_connected(const struct qr_member *m);
/* Returns the connection of an accepted peer; 0: none is open. */
uint32_t qr_member_conn(const struct qr_member *m, uint32_t index);
/* Returns "worker 2 (host:port)". Borrowed from the machine until the next call. */
const char *qr_member_peer_text(struct qr_member *m, uint32_t index);

#endif
