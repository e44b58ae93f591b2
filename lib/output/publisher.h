/* output/publisher.h — writes checkpoints during training: a thread that publishes committed
 * states.
 *
 * Use       qr_publisher_new; qr_publisher_committed after each step; qr_publisher_finish at the
 *           end, or qr_publisher_publish_now and qr_publisher_wait when this worker leaves;
 *           qr_publisher_free.
 * States    The training thread hands over every committed state and receives an older one in
 *           exchange. The leader publishes when every_ns and every_steps have passed since the last
 *           checkpoint, and at the end; every worker that leaves publishes a state newer than
 *           LATEST. With every_epochs, the state at the end of such an epoch is published too,
 *           exactly that state, unless another one is being written.
 * Log       A state is published only after the lines of steps.jsonl up to it are on disk.
 * Failure   Retried after 1, 2, 4 ... 30 s while training continues. Training must end when retries
 *           cannot help: checkpoints of another job in the folder, a bucket that rejects the
 *           request, or ten minutes without success at a bucket (UNAVAILABLE). A local disk that is
 *           full or read-only is only a warning from time to time: the last checkpoint is kept.
 * Threads   The training thread; qr_publisher_publish_now and qr_publisher_wait: any.
 */
#ifndef QR_OUTPUT_PUBLISHER_H
#define QR_OUTPUT_PUBLISHER_H

#include "base/clock.h"
#include "base/log.h"
#include "output/run_checkpoints.h"
#include "train/state.h"

struct qr_publisher_options { /* borrowed as long as the publisher lives */
    const char *url;          /* folder of the checkpoints */
    /* File that must be on disk up to a published state: steps.jsonl. */
    const char *log_path;
    const struct qr_job *job;
    const struct qr_model *model;
    const char *job_hash;         /* hex */
    const struct qr_state *begin; /* already published; NULL: none. Only read by qr_publisher_new */
    int64_t every_ns;
    uint64_t every_steps;
    uint64_t every_epochs; /* 0: no checkpoints at the ends of epochs */
    size_t keep;           /* as in struct qr_checkpoint_location */
    uint64_t n_batches;    /* steps per epoch */
    uint64_t epochs;       /* epochs of the whole training, until qr_publisher_set_epochs */
    /* qr_clock_awake: suspended time does not count for the ten minutes */
    const struct qr_clock *clock;
    const struct qr_log *log;
};
#define QR_PUBLISHER_CLOSE_NS (500 * (int64_t)QR_MS)

struct qr_publisher;
/* UNAVAILABLE: no thread can be started. */
QR_MUST_CHECK enum qr_code qr_publisher_new(const struct qr_publisher_options *opt,
                                            struct qr_publisher **ret, struct qr_err *err);
/* Waits at most QR_PUBLISHER_CLOSE_NS. False: the thread hangs in a store, and uses borrowed
 * objects until the process exits. NULL is allowed. */
bool qr_publisher_free(struct qr_publisher *p);

/* Sets the number of epochs that the ring trains. */
void qr_publisher_set_epochs(struct qr_publisher *p, uint64_t epochs);
/* Hands over a committed state and returns an older one in *state.
 *
 * Args:     leader  this worker leads the ring
 *           logged  the lines of steps.jsonl up to this state are in the file, as far as this
 *                   worker writes it; false: the state is published only after qr_publisher_logged
 *           state   exchanged on success
 * Errors:   the reason why training must end; *state is unchanged
 */
QR_MUST_CHECK enum qr_code qr_publisher_committed(struct qr_publisher *p, bool leader, bool logged,
                                                  struct qr_state *state, struct qr_err *err);
/* The lines up to the last state handed over are in the file now. NULL is allowed. */
void qr_publisher_logged(struct qr_publisher *p);
/* Publishes the last state handed over; its lines must be in the file.
 *
 * Args:     done       the weights have been written
 *           within_ns  timeout
 * Errors:   UNAVAILABLE and those of the store; a local disk that fails is only a warning
 */
QR_MUST_CHECK enum qr_code qr_publisher_finish(struct qr_publisher *p, bool done, int64_t within_ns,
                                               struct qr_err *err);
/* True if training must end because checkpoints cannot be published. */
bool qr_publisher_has_failed(struct qr_publisher *p);
/* True if LATEST showed at the last successful attempt that training is done. */
bool qr_publisher_training_done(struct qr_publisher *p);
/* True if an attempt has succeeded since qr_publisher_publish_now. */
bool qr_publisher_has_tried(struct qr_publisher *p);
/* Publishes a state newer than the last published one as soon as possible, because this worker
 * leaves. NULL is allowed. */
void qr_publisher_publish_now(struct qr_publisher *p);
/* Waits until that has succeeded or failed, at most within_ns. NULL is allowed. */
void qr_publisher_wait(struct qr_publisher *p, int64_t within_ns);

#endif
