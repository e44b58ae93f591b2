/* membership/member.h — who is in the group: the rules of protocol.md §4 as a pure machine.
 *
 * What      Events and the time go in (functions below), actions come out (the emit callback). No
 *           clock, no I/O, no threads, no log: a line to log is an action. Memory only in
 *           qr_member_new. member.md says which function keeps which rule.
 * Driver    group.c (real links) and the simulator own the link. On QR_LINK_UP → qr_member_up, DOWN
 *           → qr_member_down, MESSAGE → decode, then qr_member_message, or qr_member_malformed when
 *           it does not decode. After each poll that returned nothing, and at the latest at
 *           qr_member_deadline_ns: qr_member_tick. Actions are emitted during these calls, in
 *           order, and may point into the machine: use them before returning. emit must not call
 *           the machine, but for qr_member_set_held.
 * Trainer   what the machine says of this member's training (qr_member_set_held) must be true at
 *           every call of the machine: change state and tell it under one lock, also when it
 *           handles BEGIN (drops, joins what it set aside). From SUSPEND to BEGIN the trainer
 *           sends, takes and applies nothing; it may compute on.
 * Dialing   qr_member_start emits DIAL for every lower index. The lower index dials too where
 *           nobody came for a second, and so does who was told an address by another peer. Of one
 *           pair one connection stays.
 * Threads   none of its own: callers hold one lock. Cost: microseconds; a heartbeat to 63 peers is
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

/* Rules that a machine leaves out when it is told to. Only tests/support/planted.h tells it: the
 * product has none. */
struct qr_member_faults {
    /* takes a Begin whose id it has not promised, or promised no longer */
    bool begin_without_promise;
    bool promise_any;       /* promises also a smaller id */
    bool keep_overlap;      /* keeps held sets that overlap */
    bool keep_other_base;   /* keeps micro-batches of another state */
    bool no_suspend;        /* works on in the old generation after a promise */
    bool leader_decides;    /* takes its own settings as the ring's when it proposes */
    bool id_is_number;      /* compares ids by number alone, and answers a Propose again */
    bool newcomers_first;   /* a newcomer takes a member's place, when its index is lower */
    bool control_is_enough; /* hears whoever answers, whether data passes or not */
};

struct qr_member_options {
    const char *run, *contract;
    uint8_t job_hash[32];
    /* borrowed; more than QR_MESSAGE_MAX_FIELDS are not compared one by one */
    const struct qr_field *fields;
    size_t n_fields;
    uint32_t index;
    uint8_t incarnation[QR_INCARNATION_BYTES];
    /* host:port by index, with oneself; borrowed; 1..QR_MAX_MEMBERS */
    size_t n_peers;
    const char *const *peers;
    bool count_known; /* false: peers only probes, nobody is waited for by name */
    /* the first so many of the peers are parameter servers, as far as the settings know: for texts
     * and for the default of min_workers. Who is one says so itself */
    unsigned n_servers;
    bool server; /* this process is one */
    /* Of the first leader these count for all (protocol.md §5): */
    /* that compute; 0: half of those that the settings name, rounded up, where the count is known,
     * else 1 */
    unsigned min_workers;
    enum qr_allreduce allreduce;
    uint64_t places; /* qr_common.places */
    int64_t form_timeout_ns;
    unsigned data_port, control_port;
    uint64_t seed; /* of the back-off's randomness: differs between processes */
    /* The micro-batches that rank owns, or may own, of the present reduction, in the generation
     * that began last, as ret->run. A question, asked under the caller's lock; ctx is emit's.
     * NULL: none */
    void (*owned)(void *ctx, uint32_t rank, struct qr_death *ret);
    /* none but in the simulator, which proves that it would see each of them */
    struct qr_member_faults faults;
};

/* A generation as its member sees it: the Begin, and this member's rank in it. */
struct qr_generation {
    struct qr_begin begin;
    uint64_t id_hash; /* of begin.id: every data message carries it */
    uint32_t rank;    /* begin.member[rank] is this process; rank 0 leads */
    /* at rank 0: nobody in it was in a generation before, as far as heartbeats tell (rule 7) */
    bool first;
};
/* ret_mine[b] = 1 for each micro-batch b < n_micro_batches of the base reduction that belongs to
 * `rank` (kept ones too, when it keeps), else 0. */
void qr_generation_micro_batches(const struct qr_begin *begin, uint32_t rank,
                                 uint64_t n_micro_batches, uint8_t *ret_mine);

/* no micro-batch is in both */
bool qr_runs_disjoint(const struct qr_run *a, const struct qr_run *b);

enum qr_member_action_kind {
    QR_ACT_SEND,    /* conn, message: encode and send on the control link */
    QR_ACT_CLOSE,   /* conn: close_conn */
    QR_ACT_DIAL,    /* index, text = address: dial with tag = index */
    QR_ACT_HANG_UP, /* index: hang_up; a DIAL may follow later */
    /* index, incarnation, data_port, text = its IP address or "": this process answers; a data
     * stream to it is wanted, the higher index dials */
    QR_ACT_PEER,
    QR_ACT_PEER_GONE, /* index: it said goodbye: no data stream any more */
    /* index: another data stream is wanted in the place of this one; `silent`: it passes no data */
    QR_ACT_RENEW_DATA,
    QR_ACT_LOG,     /* level, text */
    QR_ACT_SUSPEND, /* a promise was given: this member belongs to no generation until BEGIN */
    QR_ACT_BEGIN,   /* generation: active now */
    /* code, text: the end was told by the leader (or, at the leader, everybody said goodbye or 5 s
     * are over): leave */
    QR_ACT_DONE,
    /* code, text: this process must give up: FAILED_PRECONDITION (another job's settings),
     * DEADLINE_EXCEEDED (who did not answer; or that the others have ended without this one),
     * UNAVAILABLE (its index was claimed by another process), DATA_LOSS (rule 5, a poison
     * micro-batch), INVALID_ARGUMENT (the first leader's own state lies beyond its epochs). Once;
     * nothing follows but CLOSE */
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
    unsigned data_port;    /* PEER */
    bool silent;           /* RENEW_DATA */
    struct qr_blame blame; /* STOP, DONE */
};
typedef void qr_member_emit_fn(void *ctx, const struct qr_member_action *a);

struct qr_member;
/* Copies what it does not borrow. emit is used from the next call on. */
struct qr_member *qr_member_new(const struct qr_member_options *opt, qr_member_emit_fn *emit,
                                void *ctx);
void qr_member_free(struct qr_member *m); /* NULL is fine */

/* Before the start: how many epochs this process would train, and how many reductions an epoch has
 * (0: not known, then no state lies beyond any). */
void qr_member_set_plan(struct qr_member *m, uint64_t epochs, uint64_t reductions);
/* first call: dials, starts the clocks; alone (n_peers 1) it begins at once */
void qr_member_start(struct qr_member *m, int64_t now_ns);
void qr_member_up(struct qr_member *m, int64_t now_ns, uint32_t conn, bool outgoing, uint32_t tag);
/* After up: the IP address of the connection's other end, where the link knows it. Others are told
 * it, unless it is of loopback. Emits nothing. */
void qr_member_set_host(struct qr_member *m, uint32_t conn, const char *host);
void qr_member_down(struct qr_member *m, int64_t now_ns, uint32_t conn, const char *reason);
void qr_member_message(struct qr_member *m, int64_t now_ns, uint32_t conn,
                       const struct qr_message *msg);
void qr_member_malformed(struct qr_member *m, int64_t now_ns, uint32_t conn, const char *what);
void qr_member_tick(struct qr_member *m, int64_t now_ns);
/* of the next tick; never later than one heartbeat */
int64_t qr_member_deadline_ns(const struct qr_member *m);

/* The trainer's state (see Trainer above): before start, after each state that it applies, and when
 * a micro-batch is finished or dropped. */
void qr_member_set_held(struct qr_member *m, const struct qr_held *held);
/* The trainer's life sign: any number that changes while it computes, or waits in a loop of its
 * own. expected_micro_batch_ns 0: not computing. */
void qr_member_set_turns(struct qr_member *m, uint64_t turns, int64_t expected_micro_batch_ns);
/* After deaths in this reduction (generation.begin.deaths) a micro-batch that may be their cause is
 * named before it is computed: told to all at once. n 0: none. qr_member_in_flight_acknowledged:
 * all that
 * this member hears have answered. */
void qr_member_name_in_flight(struct qr_member *m, int64_t now_ns,
                              const struct qr_in_flight *in_flight);
bool qr_member_in_flight_acknowledged(const struct qr_member *m);
/* How many of these deaths may be the fault of this micro-batch: 0: it is computed as ever; 1: only
 * when named; more: alone, too. Pure. */
unsigned qr_death_count(const struct qr_deaths *d, uint64_t micro_batch);
/* The data stream to that process of a peer is up: both have greeted. Only who is heard on control
 * and data counts as heard (rule 1). */
void qr_member_data_up(struct qr_member *m, int64_t now_ns, uint32_t index,
                       const uint8_t incarnation[QR_INCARNATION_BYTES]);
/* It broke, and is dialed again. lost: with work of the active generation: it asks for a new one
 * after 30 ms, if that one does not break too. A member of the last generation counts as heard
 * until its silence shows otherwise; anybody else not before the stream is up again. */
void qr_member_data_down(struct qr_member *m, int64_t now_ns, uint32_t index, const char *reason,
                         bool lost);
/* How the training thread has polled the data streams of the active generation. Two that both poll
 * without a pause send each other beats; where none comes for 1.6 s and allow_ns no data passes:
 * neither counts as heard by the other until a new stream is up. Emits nothing. */
void qr_member_set_poll_report(struct qr_member *m, const struct qr_poll_report *how);
/* The generation whose Begin may still come: promised, and its proposer has been there since.
 * False: none. */
bool qr_member_awaits_begin(const struct qr_member *m, struct qr_gen_id *ret);
/* Somebody answers whose data stream is not up: the training thread should poll now and then. */
bool qr_member_awaits_data(const struct qr_member *m);
/* it answers, and its stream has not been there for 3 s, or passes nothing */
bool qr_member_lacks_data(const struct qr_member *m, uint32_t index);
/* A coverage word was refused at this reduction (held.refusals counts them): a new proposal. */
void qr_member_coverage_rejected(struct qr_member *m, int64_t now_ns);

/* Leader only, when the work has ended: tells all, then DONE at the last goodbye or after 5 s. code
 * QR_OK or what went wrong. */
void qr_member_end(struct qr_member *m, int64_t now_ns, enum qr_code code, const char *text);
/* This process leaves before the end (drain, or an error of its own): Goodbye to all; nothing is
 * emitted afterwards but CLOSE. code: QR_CANCELLED when it was asked to; of any other the others
 * warn. */
void qr_member_leave(struct qr_member *m, int64_t now_ns, enum qr_code code, const char *why);

/* The ring's settings as far as they are known here: of one's own generation, else of who is heard
 * and was in one, else one's own. Borrowed until the next event. */
const struct qr_common *qr_member_common(const struct qr_member *m);
const struct qr_common *qr_member_own_settings(
    const struct qr_member *m); /* as this process was started */

/* Whose connection it is, for what is no message of the machine's; it counts as a sign of life.
 * False before its hello was accepted. */
bool qr_member_sender(struct qr_member *m, int64_t now_ns, uint32_t conn, uint32_t *ret_index);
/* The lowest other member of the last generation that is heard: who proposes when this one leaves.
 * False: nobody. */
bool qr_member_successor(const struct qr_member *m, uint32_t *ret_index, uint32_t *ret_conn);

/* peers whose hello was accepted and whose connection is open */
unsigned qr_member_n_connected(const struct qr_member *m);
/* of a peer whose hello was accepted; 0: none is open */
uint32_t qr_member_conn(const struct qr_member *m, uint32_t index);
/* "worker 2 (host:port)". Borrowed from the machine until its next use. */
const char *qr_member_peer_text(struct qr_member *m, uint32_t index);

#endif
