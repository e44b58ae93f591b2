/* group/control.h — the control thread of a group, and the mailboxes between it and the trainer.
 *
 * Order     control_init; control_run on its thread until control_quit; control_free after that.
 * Threads   control_run owns everything of struct control but `posted`. control_post, control_quit:
 *           any.
 */
#ifndef QR_GROUP_CONTROL_H
#define QR_GROUP_CONTROL_H

#include "collective/mesh.h"
#include "group/batch_queue.h"

/* Messages to a thread: a bounded state that it reads at each turn. A message replaces the one
 * before of its kind, so posting never allocates, and waits for microseconds at most. */
struct mailbox {
    pthread_mutex_t lock;
    struct qr_link *link; /* the one that its owner polls; NULL: nothing is to be woken */
};

static inline void mailbox_init(struct mailbox *b, struct qr_link *link) {
    pthread_mutex_init(&b->lock, NULL);
    b->link = link;
}
static inline void mailbox_lock(struct mailbox *b) { pthread_mutex_lock(&b->lock); }
static inline void mailbox_unlock(struct mailbox *b) { pthread_mutex_unlock(&b->lock); }
/* Unlocks, and wakes the owner. */
static inline void mailbox_post(struct mailbox *b) {
    if (b->link) b->link->ops->wake(b->link);
    mailbox_unlock(b);
}
/* Called by the owner before it frees its link; may be repeated. */
static inline void mailbox_close(struct mailbox *b) {
    mailbox_lock(b);
    b->link = NULL;
    mailbox_unlock(b);
}

/* A data stream that the machine wants, or no longer wants. */
struct wanted_stream {
    bool changed, expected, renew;
    struct qr_mesh_member member;
};
/* What the training thread gets. The control thread locks it during a turn: the trainer reads all
 * that a turn posts or nothing, and its next step does not delay what the turn still sends. That a
 * generation is over is in the batch queue. */
struct trainer_mail {
    struct mailbox box;
    bool interrupted, stopped, done;
    struct qr_err stop, end; /* of STOP and DONE */
    int64_t done_ns;
    struct qr_generation generation; /* that began last */
    uint64_t serial;                 /* its number in the batch queue */
    bool has_base;                   /* this member has its base */
    bool first; /* a generation that it led before it joined any was the first */
    bool streams_changed;
    struct wanted_stream stream[QR_MAX_MEMBERS];
    struct qr_common common; /* the ring's settings, as far as they are known */
    bool awaits_data;        /* a peer answers without a data stream */
    bool awaits_begin;       /* of the promised generation */
    struct qr_gen_id promised;
};

/* A change of a data stream. In this order: lost, then up or not. */
struct stream_change {
    bool lost, up;
    uint64_t lost_serial; /* generation with lost work */
    uint8_t incarnation[QR_INCARNATION_BYTES];
    char reason[160];
};
/* What the control thread gets. */
struct control_mail {
    bool quit, leave, end, rejected;
    struct qr_err left, ended; /* of LEAVE and END */
    uint64_t turns;
    int64_t micro_batch_ns;
    struct qr_poll_report polled;
    uint64_t streams; /* bit i: stream[i] has changed */
};
struct control {
    /* Set by the caller: */
    struct qr_member_options o;
    const struct qr_clock *clock;
    const struct qr_log *log;
    bool echo;            /* measure round-trip times */
    struct qr_link *link; /* owned from control_init on; NULL once control_run has returned */
    struct batch_queue *queue;
    struct trainer_mail *trainer;
    /* The rest is set by control_init. */
    struct qr_member *member;
    struct qr_buf out;
    struct qr_message *in;
    int64_t echo_ns; /* last echo sent */
    uint32_t echo_to;
    bool wakes;               /* this turn has posted to the trainer */
    struct control_mail mail; /* of this turn */
    struct mailbox box;
    struct control_mail posted; /* under its lock, as stream */
    struct stream_change stream[QR_MAX_MEMBERS];
};

void control_init(struct control *c);
void control_free(struct control *c);
void control_run(struct control *c);
/* Posts an event for the machine: TRAINER (each one without `polled` is a turn), DATA_UP,
 * DATA_DOWN, REJECTED, END; LEAVE, of which the first counts. serial: the generation in which it
 * happened. */
void control_post(struct control *c, uint64_t serial, const struct qr_member_event *e);
void control_quit(struct control *c);

/* Formats host:port with another port. False, and "", when it is too long or has no port. */
bool control_with_port(const char *address, unsigned port, char *ret, size_t cap);

#endif
