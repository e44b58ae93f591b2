/* group/group_impl.h — internals of a group, shared by group*.c. */
#ifndef QR_GROUP_GROUP_IMPL_H
#define QR_GROUP_GROUP_IMPL_H

#include <pthread.h>

#include "collective/mesh.h"
#include "group/group.h"
#include "group/group_over_impl.h"
#include "link/link.h"
#include "membership/member.h"

struct verdict {
    bool set;
    enum qr_code code;
    char text[QR_ERR_MSG_BYTES];
};

/* The micro-batches of the present reduction that belong to this member, in the order of taking.
 * Under the group's lock. */
struct ledger {
    uint64_t *micro_batch;
    uint8_t *mine; /* scratch, of the same length */
    size_t n, cap, n_taken;
    bool open;    /* micro-batches may be taken */
    bool dropped; /* a Begin emptied it; the trainer does not know yet */
};

/* How many micro-batches each rank owns: consecutive ranges, rank by rank. A function of values
 * that all members of the generation have. */
struct shares {
    uint64_t speed[QR_MAX_MEMBERS]; /* micro-batches in 2^30 ns, smoothed; 0: not known */
};

/* Data streams that the machine wants, for the training thread, which owns the data link. */
struct roster_entry {
    bool changed, expected, renew;
    struct qr_mesh_member member;
};
/* A change of a data stream, for the machine. In this order: lost, then up or not. */
struct stream_change {
    bool changed, lost, up;
    uint64_t lost_serial; /* generation with lost work */
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
    struct qr_buf out;              /* control thread only */
    struct qr_message *in;          /* control thread only */
    int64_t echo_asked_ns;          /* control thread only */
    uint32_t echo_next;
    pthread_mutex_t lock;
    /* Under the lock: requests of the training thread. */
    bool quit, leave, end, coverage_rejected, interrupted;
    /* of the leader, after Done without an error: a change of members does not stop its wait */
    bool all_written;
    enum qr_code end_code;
    char end_text[QR_ERR_MSG_BYTES];
    char leave_reason[QR_ERR_MSG_BYTES]; /* reason in the goodbye: the first error */
    enum qr_code leave_code;             /* its code */
    struct stream_change stream[QR_MAX_MEMBERS];
    uint64_t turns;
    int64_t micro_batch_ns; /* time of a micro-batch; 0: not known */
    /* Under the lock: facts from the machine. */
    bool begun;         /* generation is active */
    bool first;         /* a generation that it led before it joined any was the first */
    uint64_t serial;    /* number of Begins so far */
    int64_t applied_ns; /* last application of a state; 0: none yet */
    /* Last application in the generation that ended; 0: a state was applied since. */
    int64_t paused_ns;
    struct qr_generation *generation;
    struct roster_entry roster[QR_MAX_MEMBERS];
    bool roster_changed;
    bool awaits_data; /* a peer answers without a data stream */
    struct verdict stop, done;
    int64_t done_ns; /* time of Done */
    /* Under the lock: the trainer's state. */
    struct qr_held held;
    struct ledger ledger;
    struct shares shares;     /* training thread only */
    uint64_t base_reductions; /* of the joined generation */
    uint64_t joined;          /* serial of the trainer's generation; 0: none */
    struct qr_gen_id joined_id;
    pthread_t trainer; /* set at the first join */
    /* Training thread only: last poll for newcomers; 0: none in this generation. */
    int64_t lingered_ns;
    enum qr_allreduce allreduce; /* the ring's, in the joined generation; training thread only */
    uint64_t planned;            /* epochs of qr_group_plan; 0: not called */
};

/* ---- group.c, all under the lock ---- */
static inline int64_t group_now_ns(const struct qr_group *g) { return qr_now_ns(g->o.clock); }
static inline int64_t group_awake_ns(const struct qr_group *g) {
    return qr_now_ns(g->o.awake ? g->o.awake : g->o.clock);
}
/* Converts a time of the awake clock to the group's clock; off by any time that this process is
 * stopped in between. */
static inline int64_t group_clock_of(const struct qr_group *g, int64_t until_ns) {
    return group_now_ns(g) + (until_ns - group_awake_ns(g));
}
#define handle(g, ...)                                                                             \
    qr_member_handle((g)->member, group_now_ns(g), &(struct qr_member_event){__VA_ARGS__})
void group_wake_control(struct qr_group *g);
/* Control thread: seals and sends g->out. False: no connection, or its queue is full. */
bool group_post(struct qr_group *g, uint32_t conn);
/* Why the training thread must stop waiting, except for a new generation. */
enum qr_code group_stop_reason(struct qr_group *g, struct qr_err *err);

/* Without the lock: formats host:port with another port. */
bool group_with_port(const char *address, unsigned port, char *ret, size_t cap);

/* ---- group_echo.c, under the lock, control thread ---- */
void group_echo_ask(struct qr_group *g);
/* True: the message was an echo, and is handled. */
bool group_echo_message(struct qr_group *g, uint32_t conn, struct qr_bytes message);

/* ---- group_data.c: between the machine and the data streams ---- */
/* Control thread, under the lock: handles PEER, PEER_GONE, RENEW_DATA. */
void group_data_wanted(struct qr_group *g, const struct qr_member_action *a);
void group_data_requests(struct qr_group *g);
/* Training thread, under the lock, at a new generation: hands the members' roster entries to the
 * mesh again, since they may have changed meanwhile. */
void group_data_replay(struct qr_group *g);
/* Training thread, without the lock. */
void group_data_roster(struct qr_group *g); /* updates the mesh's expected peers */
/* Between micro-batches and after a reduction, while a data stream is awaited: polls, since
 * handshakes only progress while this thread polls. A group of one needs no such wait; a thread
 * that computes for long polls too seldom. */
void group_data_linger(struct qr_group *g);
/* Under the lock, any thread: the caller is the training thread, and should linger. */
bool group_data_is_due(const struct qr_group *g);
void group_mesh_up(void *ctx, uint32_t index, const uint8_t incarnation[QR_INCARNATION_BYTES]);
void group_mesh_down(void *ctx, uint32_t index, const char *reason, bool lost);
void group_mesh_polled(void *ctx, const struct qr_poll_report *how);
struct qr_mesh_member group_peer(const struct qr_group *g, const struct qr_member_name *name,
                                 unsigned data_port);

/* ---- group_share.c, under the lock ---- */

void group_reserve_ledger(struct ledger *l, size_t n_micro_batches);
/* Sets l->mine[b] = 1 for each micro-batch of this member in this reduction. */
void group_assign(struct qr_group *g, uint64_t n_micro_batches);

/* ---- group_step.c, under the lock ---- */
void group_on_suspend(struct qr_group *g);
void group_on_begin(struct qr_group *g);
/* The generation that the trainer works in is still the active one. */
bool group_current(const struct qr_group *g);
enum qr_code group_check_current(struct qr_group *g, struct qr_err *err);

/* Called by the mesh at every turn. */
enum qr_code group_mesh_stop(void *ctx, struct qr_err *err);

#endif
