/* group/group_impl.h — the trainer of a group: what belongs to the training thread, over the batch
 * queue and control. group_step.c has its calls, group.c, above it, creates and closes it.
 */
#ifndef QR_GROUP_GROUP_IMPL_H
#define QR_GROUP_GROUP_IMPL_H

#include "group/control.h"
#include "group/group.h"

struct qr_group {
    struct qr_group_options o;
    bool solo;
    struct batch_queue queue;
    struct trainer_mail mail;
    struct control control;
    qr_group_start_fn *start; /* the control thread */
    void (*join)(void *ctx);
    void *thread_ctx;
    /* The rest belongs to the training thread. */
    struct qr_link *data;
    struct qr_mesh *mesh;
    struct qr_reduction *alone; /* of a group of one */
    struct qr_group_view view;
    bool own_schedule;               /* planted: ignore the ring's all-reduce */
    enum qr_allreduce allreduce;     /* the ring's, in the joined generation */
    uint64_t places;                 /* digest of o.places */
    struct qr_err why;               /* qr_group_set_error */
    int64_t micro_batch_ns;          /* as qr_group_expect */
    struct qr_generation generation; /* joined */
    uint64_t joined;                 /* its serial in the queue; 0: none */
    struct qr_mesh_member members[QR_MAX_MEMBERS];
    pthread_t trainer; /* set at each join */
    uint64_t applied_reductions, base_reductions;
    /* How many micro-batches each rank owns: consecutive ranges, rank by rank. A function of values
     * that all members of the generation have: micro-batches in 2^30 ns, smoothed; 0: not known. */
    uint64_t speed[QR_MAX_MEMBERS];
    uint8_t *mine; /* scratch: of each micro-batch of a reduction, whether it is this member's */
    size_t mine_cap;
    int64_t lingered_ns; /* last poll for newcomers; 0: none in this generation */
    int64_t applied_ns;  /* last application of a state; 0: none yet */
    int64_t paused_ns;   /* the last one in a generation that ended; 0: a state was applied since */
    bool all_written;    /* Done is sent without an error: no change of members stops the wait */
};

#define group_post(g, ...)                                                                         \
    control_post(&(g)->control, (g)->joined, &(struct qr_member_event){__VA_ARGS__})

static inline int64_t group_now_ns(const struct qr_group *g) { return qr_now_ns(g->o.clock); }

/* ---- group_step.c ---- */
struct qr_mesh *group_new_mesh(struct qr_group *g, const uint8_t *incarnation);

#endif
