/* membership/member_impl.h — internals of the membership machine, shared by member*.c. member.md
 * names the function that keeps each rule.
 */
#ifndef QR_MEMBERSHIP_MEMBER_IMPL_H
#define QR_MEMBERSHIP_MEMBER_IMPL_H

#include "membership/member.h"

enum { MAX_CONNS = 160, SHOWN_FIELDS = 3 };

#define MS(n) ((int64_t)(n)*1000000)
#define BEGIN_OVERDUE_NS MS(500)   /* rule 3 */
#define DIFFERS_NS MS(500)         /* rule 3 */
#define PROMISE_WAIT_NS MS(300)    /* rule 3 */
#define ONE_DROP_NS MS(250)        /* rule 3 */
#define EXCLUSIVE_NS MS(1000)      /* rule 4 */
#define HELLO_WAIT_NS MS(2000)     /* time limit for the first hello */
#define REDIAL_NS MS(1000)         /* after a rejection */
#define DIAL_AFTER_NS MS(1000)     /* then the lower index dials too */
#define DIAL_GAP_NS MS(40)         /* ... later for each further peer, until a generation begins */
#define DIAL_NS MS(3000)           /* length of a limited dial */
#define DIAL_AGAIN_NS MS(30000)    /* longest wait between two dials */
#define CROSSING_NS MS(2000)       /* two dials of one pair that cross */
#define SPARE_NS MS(500)           /* late messages on the other connection */
#define HINT_AFTER_NS MS(500)      /* two peers that answer do not reach each other */
#define HINT_GAP_NS MS(1000)       /* between two hints for one index */
#define HINT_AGAIN_NS MS(8000)     /* longest wait between two hints */
#define MISMATCH_STOP_NS MS(30000) /* rule 8 */
/* A mismatch stays valid for this time after the connection closed. */
#define MISMATCH_KEEP_NS MS(3000)
#define NEWCOMERS_NS MS(10000) /* rule 8, count not known */
#define FORM_GRACE_NS MS(5000) /* added to the form timeout, for a proposal under way */
#define BESIDE_NS MS(600000)   /* ... and for a step of a ring that works and answers */
#define FROZEN_NS MS(10000)    /* rule 1 */
#define GOODBYES_NS MS(5000)   /* protocol.md §8 */
/* Usually the process has exited, and its control connection breaks a moment later. */
#define DATA_SETTLE_NS MS(30)
#define SILENT_NS MS(1500) /* six beats on a data stream */
/* Rule 1: with up to FEW_PEERS peers every change is sent at once, a heartbeat each 250 ms. Each
 * further peer delays changes by CHANGE_GAP_NS, for all but the proposer by NEWS_GAP_NS more
 * (before the first generation by HEARTBEAT_GAP_NS), and heartbeats to a peer that is not a
 * neighbour by HEARTBEAT_GAP_NS: to 2 s in a ring of 64. */
#define FEW_PEERS 8
#define CHANGE_GAP_NS MS(2)
#define NEWS_GAP_NS MS(16)
#define HEARTBEAT_GAP_NS MS(32)
#define PROMISE_GAP_NS MS(4)
#define POLLS_NS MS(500) /* a polling thread reports twice as often */
/* A peer answers without a data stream: warn after this time. */
#define NO_STREAM_NS MS(3000)
/* A tick this late means that this process was not scheduled. */
#define LATE_TICK_NS MS(50)
#define STALL_NS MS(500) /* then also log a warning */

enum conn_state { CONN_FREE, CONN_NEW, CONN_PEER, CONN_MISMATCH };
struct member_conn {
    enum conn_state state;
    uint32_t id, tag, index;
    bool outgoing;
    int64_t since_ns;
    /* CONN_PEER: time to close a connection that another one replaced; 0: in use. */
    int64_t spare_ns;
    char host[QR_IP_BYTES]; /* IP address of the other end; empty: not known, or loopback */
};

struct mismatch {
    bool on;
    bool dialed; /* this worker dialed it at its name, so the claim is not just any process's */
    int64_t since_ns, down_ns; /* down_ns: 0 while connected */
    uint8_t incarnation[QR_INCARNATION_BYTES];
    bool by_leader; /* the peer leads a generation that has committed a state */
    unsigned n, n_text;
    struct other_field {
        char name[QR_MESSAGE_NAME_BYTES], here[128], there[128];
        bool received;
    } field[SHOWN_FIELDS];
};

/* State of the peer's data stream. LATER: not needed in the first generation, not dialed yet by
 * this process; DIALED: is dialed now; both count as passing data. BROKEN: was up in the last
 * generation, and is dialed again; it may come back. BAD: no data passed; only a new stream changes
 * that. */
enum data_state { DATA_NONE, DATA_LATER, DATA_DIALED, DATA_UP, DATA_BROKEN, DATA_BAD };

struct peer {
    bool known; /* accepted once: incarnation is valid */
    bool connected;
    bool silent; /* connected, but no message for five heartbeats */
    bool gone;   /* sent a goodbye */
    bool failed; /* gone with a permanent error */
    bool server; /* parameter server, as that incarnation */
    bool frozen;
    uint32_t conn, data_port;
    uint8_t incarnation[QR_INCARNATION_BYTES];
    int64_t received_ns;
    struct qr_heartbeat beat; /* last heartbeat, or values of the hello */
    uint64_t reaches;         /* indices in beat.heard with current incarnations */
    int64_t beat_ns;          /* arrival of beat */
    bool has_begun;           /* it has reported the last generation as active */
    int64_t sent_ns, due_ns;  /* the last and the next heartbeat to it */
    int64_t differs_since_ns; /* -1: does not differ */
    int64_t unpromised_ns;    /* it did not answer a Propose in time; 0: it did */
    int64_t dropped_ns, banned_until_ns, ban_ns;
    /* Already counted as dropped when it fell silent; the Begin without it does not count again. */
    bool fell_silent;
    int64_t worked_ns; /* last report that it works in a generation; 0: never */
    int64_t turns_ns;  /* beat.trainer_turns unchanged since then */
    /* Dialing of this peer. A lower index is dialed by name until the dial is cancelled. */
    struct {
        bool on, by_hint;          /* by_hint: at the address in hint */
        int64_t at_ns;             /* next start; 0: none */
        int64_t until_ns, wait_ns; /* end of this dial, 0: none; wait before the next */
    } dial;
    char hint[QR_IP_PORT_BYTES];
    /* When its hello was accepted; next hint to it, and the wait after that. */
    int64_t accepted_ns, hint_due_ns, hint_wait_ns;
    int64_t hint_ns; /* when hint was dialed */
    uint64_t hinted;
    char host[QR_IP_BYTES];    /* IP address; empty: none that other peers can reach */
    char at[QR_IP_PORT_BYTES]; /* host with its control port: sent as a hint */
    char address[sizeof((struct qr_hello *)0)->address]; /* address in its own settings */
    enum data_state data;
    bool data_warned;       /* the missing stream was logged */
    int64_t data_since_ns;  /* start of the present state of data */
    int64_t data_broken_ns; /* when a stream with work of the generation broke; 0: none */
    struct mismatch mismatch;
};

struct pending {
    bool on;
    struct qr_propose propose;
    uint64_t promised_ranks;
    int64_t sent_ns;
    struct qr_held held[QR_MAX_MEMBERS];
    struct qr_common common[QR_MAX_MEMBERS];
    uint64_t ring_age_ms[QR_MAX_MEMBERS];
};

struct qr_member {
    struct qr_member_options opt;
    struct qr_common own, common; /* own settings; those of the last generation */
    int64_t ring_since_ns;        /* start of the first generation of that ring */
    uint64_t epoch_reductions;    /* reductions per epoch; 0: not known */
    qr_member_emit_fn *emit;
    void *ctx;
    bool started, over; /* over: after DONE, STOP or leave; only closing follows */
    /* idle_ns: in no generation since then */
    int64_t now_ns, start_ns, beat_ns, newcomer_ns, idle_ns;
    int64_t promised_ns, begun_ns, look_ns; /* look_ns: next check for hints */
    int64_t stream_ns;                      /* next dial of a stream that was left for later */
    uint64_t highest, sequence, random;
    struct qr_gen_id promised;
    bool promise_exclusive;
    bool formed; /* was in a generation once */
    /* The others ended the run while this process waited to join. */
    bool others_done;
    int64_t worked_ns;               /* when its generation worked last; 0: never */
    bool active;                     /* generation is valid and not suspended */
    struct qr_generation generation; /* the last one */
    uint64_t members;                /* its indices */
    /* Indices with which this process exchanges data in it; of the leader: all. */
    uint64_t neighbours;
    bool need_new; /* a data stream broke, or a coverage check failed */
    struct pending pending;
    int64_t backoff_until_ns;
    /* Parameter server: last warning that it waits; whether it has warned since the last Begin that
     * workers are too few. */
    int64_t warned_waiting_ns;
    bool warned_few;
    unsigned backoff_doublings;
    uint64_t split_reductions; /* last base without a majority, + 1 */
    struct qr_held held;
    uint64_t turns, micro_batch_ms;
    struct qr_poll_report polled; /* by the training thread */
    bool ending;
    int64_t end_ns;
    enum qr_code end_code;
    char end_text[QR_MESSAGE_TEXT_BYTES];
    struct member_conn conns[MAX_CONNS];
    /* By index; the own entry has only known, server and incarnation. */
    struct peer peer[QR_MAX_MEMBERS];
    struct qr_message out;
    char peer_text[320], text[QR_ERR_MSG_BYTES];
};

static inline uint64_t index_bit(uint32_t i) { return UINT64_C(1) << i; }
/* The control connection is open, and messages arrive. */
static inline bool is_responding(const struct peer *p) { return p->connected && !p->silent; }
static inline bool same_inc(const uint8_t *a, const uint8_t *b) {
    return __builtin_memcmp(a, b, QR_INCARNATION_BYTES) == 0;
}

/* The process at the name's index, this one included, is the named one. */
static inline bool is_process(const struct qr_member *m, const struct qr_member_name *name) {
    return same_inc(m->peer[name->index].incarnation, name->incarnation);
}
static inline bool is_promised_to(const struct qr_member *m, uint32_t index) {
    return m->promised.number && m->promised.index == index &&
           same_inc(m->promised.incarnation, m->peer[index].incarnation);
}
/* The links changed: earlier rejections may be obsolete, so proposing starts afresh. */
static inline void member_reset_backoff(struct qr_member *m) {
    m->backoff_until_ns = m->now_ns;
    m->backoff_doublings = 0;
}

/* Files in this order: each uses only those before it. */

/* ---- member_reach.c ---- */
struct member_conn *member_conn(struct qr_member *m, uint32_t id);
/* A member of the last generation, active or suspended; established: as the same process. */
bool member_in_generation(const struct qr_member *m, uint32_t index);
bool member_is_established(const struct qr_member *m, uint32_t index);
bool member_passes_data(const struct peer *p);
bool member_is_banned(const struct qr_member *m, uint32_t index); /* rule 3 */
/* The peer answers, over its control connection and over its data stream, and is not banned. */
bool member_reaches(const struct qr_member *m, uint32_t index);
/* Number of connected peers beyond FEW_PEERS. */
int64_t member_n_further(const struct qr_member *m);
/* Time between two heartbeats to this peer; to one that is not a neighbour. */
int64_t member_interval_ns(const struct qr_member *m, uint32_t index);
int64_t member_slow_interval_ns(const struct qr_member *m);
/* Five heartbeats of the peer, as it has announced them: without a message for so long it is
 * silent. */
int64_t member_silence_ns(const struct qr_member *m, uint32_t index);
/* Lists the reached peers; returns their number. */
uint32_t member_list_reached(const struct qr_member *m, struct qr_member_name *ret);
/* Both list each other; a or b may be this worker. */
bool member_linked(const struct qr_member *m, uint32_t a, uint32_t b);
bool member_all_linked(const struct qr_member *m,
                       uint64_t set); /* pairwise; this worker is in it */
/* Number of computing members in the set. */
unsigned member_n_computing(const struct qr_member *m, uint64_t set);
/* Within this time after a Begin the heartbeats that report it have arrived. */
int64_t member_differs_ns(const struct qr_member *m);
/* A member of a generation that began a moment ago, and has not reported that yet: what it sent
 * before may still arrive. */
bool member_is_trusted(const struct qr_member *m, uint32_t index);
/* Update peer.reaches: after a change of this peer's beat.heard; of any incarnation. */
void member_reports_changed(struct qr_member *m, uint32_t index);
void member_incarnation_changed(struct qr_member *m);
uint64_t member_no_data(const struct qr_member *m);

/* ---- member_send.c ---- */
#define member_emit(m, ...) (m)->emit((m)->ctx, &(struct qr_member_action){__VA_ARGS__})
void member_log(struct qr_member *m, enum qr_log_level level, const char *fmt, ...) QR_PRINTF(3, 4);
void member_send(struct qr_member *m, uint32_t conn); /* sends m->out */
void member_heartbeats(struct qr_member *m);          /* sends those that are due */
/* Brings heartbeats forward after a change: those to at most eight peers are sent at once. A large
 * ring sends changes together, since to tell all peers costs as many messages as there are peers.
 * now: the peer that proposes does not wait. */
void member_heartbeats_now(struct qr_member *m);
void member_heartbeats_soon(struct qr_member *m);
/* Sends goodbyes; the machine is over. Stop and finish emit STOP and, at a Done, DONE. */
void member_leave(struct qr_member *m, enum qr_goodbye_reason why, enum qr_code code,
                  const char *text);
void member_stop(struct qr_member *m, enum qr_code code, enum qr_goodbye_reason why,
                 const char *text);
void member_finish(struct qr_member *m, enum qr_code code, const char *text);
/* Ends this process and, by a Done, every reachable peer with the same error. */
void member_end_all(struct qr_member *m, enum qr_code code, const char *text);

/* ---- member_dial.c: dialing, lost connections, address hints ---- */
/* Marks the connection as closed; closes it. If this process dialed it, schedules the next dial; a
 * spare connection is not counted as a loss. */
void member_free_conn(struct qr_member *m, struct member_conn *c);
void member_close(struct qr_member *m, struct member_conn *c);
/* The peer's last connection is lost. Lost: it broke, or the peer is silent. */
void member_peer_down(struct qr_member *m, uint32_t index, const char *reason);
void member_peer_lost(struct qr_member *m, uint32_t index, const char *reason);
/* Handshakes take longer while many peers connect: adds to a wait until the first generation. */
int64_t member_dial_wait_ns(const struct qr_member *m, int64_t wait_ns);
void member_dial_first(struct qr_member *m);
void member_dial_down(struct qr_member *m, uint32_t index); /* the peer is not connected */
void member_check_dial(struct qr_member *m, uint32_t index);
/* Returns the time of the next dial; INT64_MAX: none. */
int64_t member_dial_due_ns(const struct qr_member *m, uint32_t index);
/* Handles a hello of this process on c. True: c becomes its connection. Of two connections that
 * crossed, both ends keep the one that the higher index dialed. */
bool member_dial_resolve(struct qr_member *m, struct member_conn *c, uint32_t index, bool same);
/* After its connection closed: switches to a spare one. False: none. */
bool member_use_spare(struct qr_member *m, uint32_t index);
void member_check_spare(struct qr_member *m, struct member_conn *c);
void member_send_hints(struct qr_member *m);
void member_on_addresses(struct qr_member *m, const struct qr_addresses *a);

/* ---- member_common.c: settings that may differ ---- */
static inline unsigned member_min_workers(const struct qr_member *m) {
    return qr_member_common(m)->min_workers;
}
uint64_t member_ring_age_ms(const struct qr_member *m);
/* Writes the ring's settings into *b, and clears states beyond its epochs among q->held. False:
 * this process has ended the first generation before it began. */
QR_MUST_CHECK bool member_begin_common(struct qr_member *m, struct pending *q, struct qr_begin *b);
void member_begun_common(struct qr_member *m, const struct qr_begin *b);

/* ---- member_base.c ---- */
/* Fills base and the members' holder/keep/kept of *b, where the members' names are set; held[r] is
 * rank r's. NONE: all members read the last checkpoint. */
enum base_choice { BASE_OK, BASE_SPLIT, BASE_NONE, BASE_REFUSED_TWICE };
enum base_choice member_choose_base(const struct qr_held *held,
                                    const struct qr_member_faults *faults, struct qr_begin *b);
void member_log_wrong_states(struct qr_member *m, const struct qr_held *held,
                             const struct qr_begin *b);
void member_log_own_wrong_state(struct qr_member *m, const struct qr_begin *b);
/* Formats the states after the most reductions, each with the members that have it. */
void member_states_text(struct qr_member *m, const struct qr_held *held, const struct qr_begin *b,
                        char *ret, size_t cap);

/* ---- member_data.c: rule 1 for the data streams ---- */
/* A new process answers; starting: it is in no generation. */
void member_data_new_process(struct qr_member *m, uint32_t index, bool starting);
/* Replaces a stream after silence: TCP would retransmit at growing intervals, also after the
 * network path has recovered. */
void member_data_renew(struct qr_member *m, uint32_t i);
/* The peer answers again: dial its data port now, without waiting for the next attempt. */
void member_data_redial(struct qr_member *m, uint32_t i);
void member_data_begun(struct qr_member *m); /* at a Begin */
void member_check_data(struct qr_member *m, uint32_t index);
/* Handles the no_data set of a peer's heartbeat. */
void member_on_no_data(struct qr_member *m, uint32_t from, uint64_t before, uint64_t now);
void member_on_data_up(struct qr_member *m, const struct qr_member_event *e);
void member_on_data_down(struct qr_member *m, const struct qr_member_event *e);

/* ---- member_hello.c ---- */
void member_send_hello(struct qr_member *m, uint32_t conn);
void member_on_hello(struct qr_member *m, struct member_conn *c, const struct qr_hello *h);
void member_on_field(struct qr_member *m, struct member_conn *c, const struct qr_field_text *f);
bool member_mismatched(struct qr_member *m); /* a named peer answers with another job hash now */
void member_check_mismatch(struct qr_member *m);
void member_mismatch_goodbye(struct qr_member *m, uint32_t index);

/* ---- member_propose.c ---- */
void member_on_propose(struct qr_member *m, uint32_t from, const struct qr_propose *p);
void member_on_promise(struct qr_member *m, uint32_t from, const struct qr_promise *p);
void member_on_busy(struct qr_member *m, const struct qr_busy *b);
void member_on_begin(struct qr_member *m, uint32_t from, const struct qr_begin *b);
int64_t member_promise_wait_ns(const struct qr_member *m);
/* Proposes when rule 3 requires it; stops when the time to form is over. */
void member_consider_proposing(struct qr_member *m);
/* Counts a drop, by a Begin without the peer or by its silence. */
void member_dropped(struct qr_member *m, struct peer *p);

#endif
