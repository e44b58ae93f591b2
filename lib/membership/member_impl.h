/* membership/member_impl.h — the insides of the membership machine, shared by member*.c. member.md
 * says which function keeps which rule. */
#ifndef QR_MEMBERSHIP_MEMBER_IMPL_H
#define QR_MEMBERSHIP_MEMBER_IMPL_H

#include "membership/member.h"

enum {
    MAX_CONNS = 160,
    SHOWN_FIELDS = 3,
    DEADLY = 3 /* deaths of one micro-batch: protocol.md §8 */
};

#define MS(n) ((int64_t)(n)*1000000)
#define BEGIN_OVERDUE_NS MS(500)   /* rule 3 */
#define DIFFERS_NS MS(500)         /* rule 3 */
#define PROMISE_WAIT_NS MS(300)    /* rule 3 */
#define EXCLUSIVE_NS MS(1000)      /* rule 4 */
#define HELLO_WAIT_NS MS(2000)     /* a connection that says nothing */
#define REDIAL_NS MS(1000)         /* after a peer that we turned away */
#define CALL_AFTER_NS MS(1000)     /* the lower index dials too when nobody has come */
#define CALL_NS MS(3000)           /* so long it tries, or who was told an address */
#define CALL_AGAIN_NS MS(30000)    /* between two tries at most */
#define CROSSING_NS MS(2000)       /* two dials of one pair that met */
#define SPARE_NS MS(500)           /* what was sent on the other connection still comes */
#define TELL_AFTER_NS MS(500)      /* two that both answer do not hear each other */
#define TOLD_GAP_NS MS(1000)       /* between two told addresses of one index that are dialed */
#define TELL_AGAIN_NS MS(8000)     /* at most */
#define MISMATCH_STOP_NS MS(30000) /* rule 8 */
/* a mismatched peer counts so long after its connection went down */
#define MISMATCH_KEEP_NS MS(3000)
#define NEWCOMERS_NS MS(10000) /* rule 8: count unknown */
#define FORM_GRACE_NS MS(5000) /* after the time to form: for a proposal under way */
#define BESIDE_NS MS(600000)   /* and for a step of a ring that works and answers */
#define FROZEN_NS MS(10000)    /* rule 1 */
#define GOODBYES_NS MS(5000)   /* protocol.md §9 */
/* most often its process died, and the control connection tells so in a moment */
#define DATA_SETTLE_NS MS(30)
#define SILENT_NS MS(1600) /* six beats on a data stream */
/* Rule 1: of so many peers each change is told at once; of more, later by this for each of them.
 * Before the first generation the next heartbeat comes later too, 0.7 s after the last at most. */
#define FEW 8
#define NEWS_GAP_NS MS(2)
#define FORMING_GAP_NS MS(8)
#define POLLS_NS MS(500) /* who polls says so twice as often */
/* a peer answers, and its data stream is not there: said after so long */
#define NO_STREAM_NS MS(3000)
#define SETTLED_NS MS(500) /* who has not come back by then is gone */
/* Not called for so long after the deadline: this process did not get the processor. */
#define LATE_NS MS(50)
#define STALL_NS MS(500) /* and that is said */
/* After so much silence the connection is given up: until then it costs nothing to go on with. */
#define GIVE_UP_NS MS(4000)

enum conn_state { CONN_FREE, CONN_NEW, CONN_PEER, CONN_MISMATCH };
struct member_conn {
    enum conn_state state;
    uint32_t id, tag, index;
    bool outgoing;
    int64_t since_ns;
    /* CONN_PEER: another one is used by now, and this one is closed then; 0: it is the one */
    int64_t spare_ns;
    char host[QR_IP_BYTES]; /* of the other end; empty: not known, or of loopback */
};

struct mismatch {
    bool on;
    bool dialed; /* this worker has met it at its name: not any process that says so */
    int64_t since_ns, down_ns; /* down_ns: 0 while connected */
    uint8_t incarnation[QR_INCARNATION_BYTES];
    bool by_leader; /* of a generation that has committed a state */
    unsigned n, n_text;
    struct {
        char name[QR_MESSAGE_NAME_BYTES], here[128], there[128];
        bool told;
    } field[SHOWN_FIELDS];
};

/* Its data stream. BROKEN: it was up in the last generation, and is dialed again: nobody knows yet
 * that it will not come. BAD: it was up, or should have been, and nothing passed: only another
 * stream changes that. */
enum data_state { DATA_NONE, DATA_UP, DATA_BROKEN, DATA_BAD };

struct peer {
    bool known; /* it was accepted once: incarnation holds */
    bool connected;
    bool silent; /* connected, and not heard: for QR_MEMBER_TIMEOUT_NS nothing has come */
    bool gone;   /* said goodbye */
    bool failed; /* gone, with an error that does not go away when it is started again */
    bool server; /* of that incarnation */
    bool frozen;
    uint32_t conn, data_port;
    uint8_t incarnation[QR_INCARNATION_BYTES];
    int64_t heard_ns;
    struct qr_heartbeat beat; /* the last one, or what the hello says */
    uint64_t hears;           /* the indices in beat.heard whose processes answer here */
    int64_t beat_ns;          /* when it came */
    int64_t differs_since_ns; /* -1: it does not */
    int64_t silent_until_ns;  /* left out of proposals */
    int64_t dropped_ns, banned_until_ns, ban_ns;
    /* that was when it was dropped: the Begin without it is no second time */
    bool fell_silent;
    int64_t worked_ns; /* when it said last that it works in a generation; 0: never */
    int64_t turns_ns;  /* since when beat.trainer_turns stands still */
    /* Its dial. Of the lower index, by name, it goes on until it is hung up */
    struct {
        bool on, told;             /* told: at the address that somebody told */
        int64_t at_ns;             /* when it begins; 0: it does not */
        int64_t until_ns, wait_ns; /* when it is hung up, 0: not; how long until the next */
    } dial;
    char told_at[QR_IP_PORT_BYTES];
    /* since its hello was accepted; whose addresses it was told, when, and the next wait */
    int64_t accepted_ns, tell_ns, tell_wait_ns;
    int64_t told_ns; /* when that was dialed */
    uint64_t told;
    char host[QR_IP_BYTES];    /* where it is; empty: nowhere that others can reach */
    char at[QR_IP_PORT_BYTES]; /* host with its control port: what others are told */
    char address[sizeof((struct qr_hello *)0)->address]; /* as it calls itself */
    /* sequence of our last heartbeat whose micro-batches in flight it answered */
    uint64_t in_flight_answered;
    enum data_state data;
    bool data_told;         /* that it does not come up */
    int64_t data_since_ns;  /* since when that state holds */
    int64_t data_broken_ns; /* work of the generation may be lost with its stream; 0: not */
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
    /* of the highest state that a promise names, and of the one before */
    struct qr_deaths deaths, deaths_before;
};

struct qr_member {
    struct qr_member_options opt;
    struct qr_common own, common; /* as it was started; of the last generation */
    int64_t ring_since_ns;        /* when the first generation of that ring began */
    uint64_t epoch_reductions;    /* of an epoch; 0: not known */
    qr_member_emit_fn *emit;
    void *ctx;
    bool started, over; /* over: DONE, STOP or leave: nothing but closing follows */
    /* idle_ns: since when in no generation */
    int64_t now_ns, start_ns, beat_ns, newcomer_ns, idle_ns;
    int64_t promised_ns, begun_ns, look_ns; /* look_ns: for whom to tell addresses */
    int64_t told_ns;                        /* of the last heartbeat to all */
    uint64_t highest, sequence, random;
    struct qr_gen_id promised;
    bool promise_exclusive;
    bool formed; /* was in a generation once */
    /* they have ended the run while this one waited to be taken in */
    bool others_done;
    int64_t worked_ns;               /* when its generation worked last; 0: never */
    bool active;                     /* generation holds, and is not suspended */
    struct qr_generation generation; /* the last one */
    bool need_new;                   /* a data stream broke, or a coverage word was refused */
    struct pending pending;
    int64_t backoff_until_ns;
    /* a parameter server, that it waits for workers; that they are too few since the last Begin */
    int64_t said_waiting_ns;
    bool said_few;
    unsigned backoff_doublings;
    uint64_t split_reductions; /* of the last base without a majority, + 1 */
    struct qr_held held;
    struct qr_deaths deaths;       /* since the state that it is based on */
    int64_t death_ns;              /* the last that was noticed here */
    struct qr_in_flight in_flight; /* what this one computes, where it must be known */
    uint64_t in_flight_sequence;   /* of the heartbeat that said so first */
    struct qr_blame blame;         /* why it is over */
    uint64_t turns, micro_batch_ms;
    struct qr_poll_report polled; /* by the training thread */
    bool ending;
    int64_t end_ns;
    enum qr_code end_code;
    char end_text[QR_MESSAGE_TEXT_BYTES];
    struct member_conn conns[MAX_CONNS];
    /* by index; one's own is used for `known` and incarnation only */
    struct peer peer[QR_MAX_MEMBERS];
    struct qr_message out;
    char peer_text[320], text[QR_ERR_MSG_BYTES];
};

static inline uint64_t bit(uint32_t i) { return UINT64_C(1) << i; }
/* its control connection is there, and something comes on it */
static inline bool is_here(const struct peer *p) { return p->connected && !p->silent; }
static inline bool same_inc(const uint8_t *a, const uint8_t *b) {
    return __builtin_memcmp(a, b, QR_INCARNATION_BYTES) == 0;
}

/* member.c */
void member_log(struct qr_member *m, enum qr_log_level level, const char *fmt, ...) QR_PRINTF(3, 4);
void member_stop(struct qr_member *m, enum qr_code code, enum qr_goodbye_reason why,
                 const char *text);
void member_finish(struct qr_member *m, enum qr_code code, const char *text); /* Done was told */
void member_send(struct qr_member *m, uint32_t conn);                         /* m->out */
void member_broadcast(struct qr_member *m);  /* m->out, to every connected peer */
void member_heartbeat(struct qr_member *m);  /* m->out: the next one */
void member_heartbeats(struct qr_member *m); /* to all */
/* The same, for a change that each peer may cause: in a large ring what changes in a moment is told
 * together, since each change would else cost as many messages as there are peers. */
void member_news(struct qr_member *m);
/* By how much waits are longer while no generation has begun and many peers are connected. */
int64_t member_forming_ns(const struct qr_member *m);
/* Everybody that hears this one ends like it, for the same reason. */
void member_end_all(struct qr_member *m, enum qr_code code, const char *text);
void member_advance(struct qr_member *m, int64_t now_ns); /* time moves */
/* and dials again later, when it was we who dialed; what a spare one was, nobody misses */
void member_close(struct qr_member *m, struct member_conn *c);
struct member_conn *member_conn(struct qr_member *m, uint32_t id);
void member_peer_down(struct qr_member *m, uint32_t index, const char *reason);
/* the last generation, active or suspended */
bool member_in_generation(const struct qr_member *m, uint32_t index);
/* after each event: everything that time or a change of the peers may ask for */
void member_consider(struct qr_member *m);

/* member_dial.c: who dials whom, where; who tells whom an address */
void member_dial_first(struct qr_member *m);
void member_dial_turned_away(struct qr_member *m, uint32_t index); /* our connection was closed */
void member_dial_down(struct qr_member *m, uint32_t index);        /* the peer is not there */
void member_check_dial(struct qr_member *m, uint32_t index);
/* when to call it again for a dial; INT64_MAX: none is due */
int64_t member_dial_due_ns(const struct qr_member *m, uint32_t index);
/* A hello of this process came on c; true: c is its connection from now on. Of two that crossed
 * both ends keep the one that the higher index dialed. */
bool member_dial_met(struct qr_member *m, struct member_conn *c, uint32_t index, bool same);
/* its connection is gone: whether there is another */
bool member_use_spare(struct qr_member *m, uint32_t index);
void member_check_spare(struct qr_member *m, struct member_conn *c);
void member_tell_addresses(struct qr_member *m);
void member_on_addresses(struct qr_member *m, const struct qr_addresses *a);

/* member_hello.c */
void member_send_hello(struct qr_member *m, uint32_t conn);
void member_on_hello(struct qr_member *m, struct member_conn *c, const struct qr_hello *h);
void member_on_field(struct qr_member *m, struct member_conn *c, const struct qr_field_text *f);
bool member_mismatched(struct qr_member *m); /* a named peer answers with another job hash, now */
void member_check_mismatch(struct qr_member *m);
void member_mismatch_goodbye(struct qr_member *m, uint32_t index);

/* member_propose.c */

/* Keep peer.hears: after a change of the peer's beat.heard; of any peer's incarnation. */
void member_heard_changed(struct qr_member *m, uint32_t index);
void member_incarnation_changed(struct qr_member *m);

/* who is linked has changed: what was refused may pass now, and what comes next is a first try */
void member_try_again(struct qr_member *m);
bool member_answers(const struct qr_member *m, uint32_t index); /* on its control connection */
/* ... and its data stream passes data */
bool member_hears(const struct qr_member *m, uint32_t index);
/* so many of these compute micro-batches */
unsigned member_n_computing(const struct qr_member *m, uint64_t set);
/* both list each other; a or b may be oneself */
bool member_linked(const struct qr_member *m, uint32_t a, uint32_t b);
uint64_t member_set(const struct qr_member *m);
void member_on_propose(struct qr_member *m, uint32_t from, const struct qr_propose *p);
void member_on_promise(struct qr_member *m, uint32_t from, const struct qr_promise *p);
void member_on_busy(struct qr_member *m, const struct qr_busy *b);
void member_on_begin(struct qr_member *m, uint32_t from, const struct qr_begin *b);
/* proposes when rule 3 says so; stops when the time to form is over */
void member_consider_proposing(struct qr_member *m);
/* by a Begin without it, or by its silence */
void member_dropped(struct qr_member *m, struct peer *p);
int member_compare_ids(const struct qr_member *m, const struct qr_gen_id *a,
                       const struct qr_gen_id *b);

/* member_data.c: rule 1 for the data streams */
bool member_passes_data(const struct peer *p);
void member_data_fresh(struct qr_member *m, uint32_t index); /* another process answers */
/* it fell silent: TCP would send again what was lost later and later, also after the way is free */
void member_data_anew(struct qr_member *m, uint32_t i);
/* it is heard again: its data port is tried now, not when the next try is due */
void member_data_soon(struct qr_member *m, uint32_t i);
void member_data_begun(struct qr_member *m); /* a generation begins */
void member_check_data(struct qr_member *m, uint32_t index);
uint64_t member_no_data(const struct qr_member *m);
/* what its heartbeats say */
void member_hear_no_data(struct qr_member *m, uint32_t from, uint64_t before, uint64_t now);
/* member_common.c: settings that differ and may */
static inline unsigned member_min_workers(const struct qr_member *m) {
    return qr_member_common(m)->min_workers;
}
uint64_t member_ring_age_ms(const struct qr_member *m);
/* The ring's settings into *b, and no state beyond their end among q->held. False: this process has
 * ended the first generation before it began. */
QR_MUST_CHECK bool member_begin_common(struct qr_member *m, struct pending *q, struct qr_begin *b);
void member_begun_common(struct qr_member *m, const struct qr_begin *b);

/* member_poison.c */
#define QR_EVERY_MICRO_BATCH ((struct qr_run){.first = 0, .count = UINT64_C(1) << 40, .stride = 1})
void member_died(struct qr_member *m, uint32_t index);
void member_lives(struct qr_member *m, uint32_t index);
void member_forget_deaths(struct qr_member *m); /* the member's state has changed */
void member_gather_deaths(struct pending *q, const struct qr_deaths *d);
QR_MUST_CHECK bool member_begin_deaths(struct qr_member *m, struct pending *q, struct qr_begin *b);
void member_begun_deaths(struct qr_member *m, const struct qr_begin *b);
void member_check_poison(struct qr_member *m, unsigned n_here);
void member_answer_in_flight(struct qr_member *m, uint32_t from, const struct qr_in_flight *before,
                             const struct qr_heartbeat *h);

/* member_split.c: states that differ */
void member_say_wrong(struct qr_member *m, const struct qr_held *held, const struct qr_begin *b);
void member_say_own_wrong(struct qr_member *m, const struct qr_begin *b);
/* The states at the highest state, each with who has it. */
void member_states_text(struct qr_member *m, const struct qr_held *held, const struct qr_begin *b,
                        char *ret, size_t cap);

/* member_base.c. Fills base and members' holder/keep/kept of *b, whose members are named. held[r]
 * is rank r's. NONE: all of them read the last checkpoint. */
enum base_choice { BASE_OK, BASE_SPLIT, BASE_NONE, BASE_REFUSED_TWICE };
enum base_choice member_choose_base(const struct qr_held *held,
                                    const struct qr_member_faults *faults, struct qr_begin *b);

#endif
