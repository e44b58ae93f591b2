/* group/batch_queue.h — the micro-batches of the present reduction that belong to this member, and
 * the state that they start from: the one object that both threads of a group touch.
 *
 * What      A monitor, so that a promise says what this member holds while the training thread
 *           computes. The training thread takes micro-batches and applies states; the control
 *           thread freezes the queue at a promise, and keeps or drops what is taken at a Begin.
 * Rules     A taken micro-batch is always computed, so it counts as held at once. While frozen,
 *           nothing is opened, taken or applied.
 * Errors    ABORTED: the generation `serial`, in which the caller works, is over.
 * Threads   training, except where control is named; batch_queue_take: any. Each call locks the
 *           queue for microseconds.
 */
#ifndef QR_GROUP_BATCH_QUEUE_H
#define QR_GROUP_BATCH_QUEUE_H

#include <pthread.h>

#include "group/group_over_impl.h"

struct batch_queue {
    pthread_mutex_t lock;
    struct qr_group_faults faults;
    uint64_t serial;       /* number of Begins so far */
    bool active;           /* a generation has begun, and is not frozen */
    bool open;             /* micro-batches may be taken */
    bool dropped;          /* taken ones do not count any more; the trainer does not know yet */
    uint64_t *micro_batch; /* in the order of taking */
    size_t n, cap, n_taken;
    struct qr_held held; /* its runs: as of the last freeze or Begin */
};

/* alone: a group of one, always in its generation 0. */
void batch_queue_init(struct batch_queue *q, const struct qr_group_faults *faults, bool alone);
void batch_queue_fini(struct batch_queue *q);
/* Sets the first state. Reductions of up to max_micro_batches allocate nothing later. */
void batch_queue_start(struct batch_queue *q, uint64_t reductions, const uint8_t digest[16],
                       size_t max_micro_batches);

enum qr_code batch_queue_check(struct batch_queue *q, uint64_t serial, struct qr_err *err);
enum qr_code batch_queue_aborted(struct qr_err *err); /* fails with ABORTED */
/* At a join: returns whether the taken micro-batches count; else none is left. */
bool batch_queue_kept(struct batch_queue *q);
/* Opens a reduction.
 *
 * Args:     mine      [n]: 1 for each micro-batch of this member; cleared for those taken
 *           ret_left  those not taken yet
 * Errors:   INTERNAL: one was taken that belongs to another member
 */
enum qr_code batch_queue_open(struct batch_queue *q, uint64_t serial, uint8_t *mine, uint64_t n,
                              size_t *ret_left, struct qr_err *err);
bool batch_queue_take(struct batch_queue *q, uint64_t *ret_micro_batch); /* false: none left */
void batch_queue_close(struct batch_queue *q);                           /* none is left */
/* Sets the state of this member and clears the queue. */
enum qr_code batch_queue_apply(struct batch_queue *q, uint64_t serial, uint64_t reductions,
                               const uint8_t digest[16], struct qr_err *err);
void batch_queue_refuse(struct batch_queue *q); /* a coverage check failed; in any generation */

/* Control thread. After a freeze or Begin what is held stays until the trainer has joined. */
void batch_queue_held(struct batch_queue *q, struct qr_held *ret);
void batch_queue_freeze(struct batch_queue *q);
/* Begins the next serial. Returns whether this member has its base. */
bool batch_queue_begin(struct batch_queue *q, const struct qr_generation *gen);

#endif
