/* group/group_impl.h — the insides of a group, shared by the files of this room. */
#ifndef QR_GROUP_GROUP_IMPL_H
#define QR_GROUP_GROUP_IMPL_H

#include <pthread.h>

#include "collective/mesh.h"
#include "group/group.h"
#include "group/group_over_impl.h"
#include "group/sum_handover.h"
#include "link/link.h"
#include "membership/member.h"

struct verdict {
    bool is;
    enum qr_code code;
    char text[QR_ERR_MSG_BYTES];
    struct qr_blame blame;
};

/* The micro-batches of the present reduction that are this member's, in the order in which they are
 * taken. Under the group's lock. */
struct ledger {
    uint64_t *micro_batch;
    uint8_t *mine; /* scratch, as long */
    size_t n, cap, n_taken;
    /* micro_batch[0..limit): may be taken now; [0..plain): no death may be their fault;
     * [plain..owned): of one */
    size_t limit, plain, owned;
    /* that it was opened for, in the generation of that serial; 0: not opened */
    uint64_t reductions, n_micro_batches, serial;
    uint64_t first[QR_MAX_MEMBERS + 1]; /* by rank, after the first reduction of a generation */
    bool open;                          /* micro-batches may be taken */
    int64_t began_ns;                   /* when the first of those taken was */
    bool dropped;                       /* a Begin emptied it; the trainer does not know yet */
};

/* How many micro-batches each rank owns: from 0 on, rank by rank. A function of what every member
 * of the generation has seen. */
struct shares {
    uint64_t speed[QR_MAX_MEMBERS]; /* micro-batches in 2^30 ns, smoothed; 0: not known */
};

/* Whose data stream the machine wants, for the training thread, which has that link. */
struct roster_entry {
    bool changed, expected, renew;
    struct qr_mesh_member who;
};
/* What became of a data stream, for the machine. In this order: lost, then up or not. */
struct stream_news {
    bool changed, lost, up;
    uint64_t lost_serial; /* the generation whose work is lost */
    uint8_t incarnation[QR_INCARNATION_BYTES];
    char reason[160];
};

struct qr_group {
    struct qr_group_options o;
    struct qr_group_faults faults;
    bool solo;
    struct qr_link *control, *data;
    struct qr_member *member;
    struct qr_mesh *mesh;
    struct qr_reduction *alone; /* of a group of one */
    struct qr_group_view view;
    enum qr_code (*start)(void *ctx, struct qr_group *g, struct qr_err *err);
    void (*join)(void *ctx);
    void *thread_ctx;
    bool is_ready;
    struct qr_mesh_member *members; /* of the joined generation */
    struct qr_buf out;              /* control thread's */
    struct qr_message *in;          /* control thread's */
    int64_t echo_asked_ns;          /* control thread's */
    uint32_t echo_next;
    pthread_mutex_t lock;
    /* under lock: requests of the training thread */
    bool quit, leave, end, refused, interrupted;
    enum qr_code end_code;
    char end_text[QR_ERR_MSG_BYTES];
    char why_leave[QR_ERR_MSG_BYTES]; /* what the others are told; the first error */
    enum qr_code code_leave;          /* its code */
    /* to be named when name_in_flight, and until it is heard when awaits_in_flight */
    struct qr_in_flight in_flight;
    bool name_in_flight, awaits_in_flight;
    struct stream_news stream[QR_MAX_MEMBERS];
    uint64_t turns;
    int64_t micro_batch_ns; /* how long a micro-batch takes; 0: not known */
    /* under lock: facts from the machine */
    bool begun;         /* generation is active */
    bool first;         /* one that it has led before it joined any was the first */
    uint64_t serial;    /* Begins so far */
    int64_t begun_ns;   /* the last */
    int64_t applied_ns; /* when a state was applied last; 0: none yet */
    /* when the generation that ended applied its last state; 0: one was applied since */
    int64_t paused_ns;
    struct qr_generation *generation;
    struct roster_entry roster[QR_MAX_MEMBERS];
    bool roster_changed;
    bool awaits_data; /* somebody answers whose data stream is not up */
    struct verdict stop, done;
    int64_t done_ns; /* when that was told */
    /* under lock: the trainer's state */
    struct qr_held held;
    struct ledger ledger;
    struct handover handover;
    struct shares shares;     /* the training thread's, as is */
    uint64_t base_reductions; /* of the joined generation */
    uint64_t joined;          /* the serial that the trainer works in; 0: none */
    struct qr_gen_id joined_id;
    pthread_t trainer; /* the training thread, once it has joined */
    /* training thread's: when it polled last for newcomers; 0: not in this generation */
    int64_t lingered_ns;
    enum qr_allreduce allreduce; /* the ring's, in the joined generation; the training thread's */
    uint64_t planned;            /* epochs of qr_group_plan; 0: not called */
};

/* ---- group.c. All under the lock ---- */
static inline int64_t group_now_ns(const struct qr_group *g) { return qr_now_ns(g->o.clock); }
static inline int64_t group_awake_ns(const struct qr_group *g) {
    return qr_now_ns(g->o.awake ? g->o.awake : g->o.clock);
}
/* When that is until_ns, it is this by the group's clock, unless this process stands
 * still meanwhile. */
static inline int64_t group_clock_of(const struct qr_group *g, int64_t until_ns) {
    return group_now_ns(g) + (until_ns - group_awake_ns(g));
}
void group_wake_control(struct qr_group *g);
/* control thread: what is in out, sealed; false: no connection, or a full one */
bool group_post(struct qr_group *g, uint32_t conn);
/* Why a wait of the training thread must end, but for a new generation. */
enum qr_code group_why_stop(struct qr_group *g, struct qr_err *err);

/* no lock: host:port with another port */
bool group_with_port(const char *address, unsigned port, char *ret, size_t cap);

/* ---- group_echo.c. Under the lock, from the control thread ---- */
void group_echo_ask(struct qr_group *g);
/* true: it was one, and is dealt with */
bool group_echo_heard(struct qr_group *g, uint32_t conn, struct qr_bytes message);

/* ---- group_data.c: between the machine and the data streams ---- */
/* Control thread, under the lock: PEER, PEER_GONE, RENEW_DATA. */
void group_data_wanted(struct qr_group *g, const struct qr_member_action *a);
void group_data_requests(struct qr_group *g);
/* Training thread, under the lock: a Begin is to be followed. Who answers by now as one of its
 * members, or has left, counts after that. */
void group_data_again(struct qr_group *g);
/* Training thread, not under the lock. */
void group_data_roster(struct qr_group *g); /* the mesh learns whom it is to expect */
/* Between micro-batches and after a reduction, while somebody's stream is awaited: a handshake goes
 * on only while this thread polls. Who is alone waits for nobody, and who computes for long polls
 * too seldom. */
void group_data_linger(struct qr_group *g);
/* under the lock, any thread: the caller is that thread, and should linger */
bool group_data_is_due(const struct qr_group *g);
void group_mesh_up(void *ctx, uint32_t index, const uint8_t incarnation[QR_INCARNATION_BYTES]);
void group_mesh_down(void *ctx, uint32_t index, const char *reason, bool lost);
void group_mesh_polled(void *ctx, const struct qr_poll_report *how);
struct qr_mesh_member group_peer(const struct qr_group *g, const struct qr_member_name *name,
                                 unsigned data_port);

/* ---- group_share.c. Under the lock ---- */

void group_make_room(struct ledger *l, size_t n_micro_batches);
/* l->mine[b] = 1 for each micro-batch that is this member's at this reduction. */
void group_assign(struct qr_group *g, uint64_t n_micro_batches);

/* ---- group_step.c. Under the lock ---- */
/* the taken micro-batches as runs; false: too many */
bool group_runs(const struct qr_group *g, struct qr_held *h);
/* From the control thread. */
void group_drop_held(struct qr_group *g);
void group_on_suspend(struct qr_group *g);
void group_on_begin(struct qr_group *g);
/* the generation that the trainer works in is still the active one */
bool group_current(const struct qr_group *g);
enum qr_code group_go_on(struct qr_group *g, struct qr_err *err);

/* ---- group_suspects.c. Under the lock ---- */
void group_sort_micro_batches(struct qr_group *g); /* of an opened ledger: plain ones first */
void group_suspects_requests(struct qr_group *g);  /* control thread */
void group_suspects_news(struct qr_group *g);
void group_owned(void *g, uint32_t rank, struct qr_death *ret);

/* Asked by the mesh in every turn. */
enum qr_code group_mesh_stop(void *ctx, struct qr_err *err);

#endif
