/* output/publisher.h — checkpoints while training goes on: a thread that publishes committed
 * states.
 *
 * What      The training thread hands over every committed state, and takes the one that it handed
 *           over before in exchange, to write on. Who leads has one published when it is due: so
 *           long and so many steps after the one before; at the end; and every worker that leaves
 *           publishes what is newer than LATEST. Where epochs are asked for, each of those ends
 *           that comes while no other is on its way, too: exactly that state.
 * Log       No state is published before the lines of steps.jsonl up to it are on disk.
 * Failure   is retried after 1, 2, 4 ... 30 s, and training goes on. What trying again cannot help
 *           ends training: another job's checkpoints in this place, a bucket that refuses; so do
 *           ten minutes without success at a bucket (UNAVAILABLE). A local disk that is full or
 *           read-only is a warning now and then: the checkpoint that was there stays.
 * Threads   the training thread, but qr_publisher_publish_now and qr_publisher_wait: any.
 */
#ifndef QR_OUTPUT_PUBLISHER_H
#define QR_OUTPUT_PUBLISHER_H

#include "base/clock.h"
#include "base/log.h"
#include "output/run_checkpoints.h"
#include "train/state.h"

struct qr_publisher_options { /* all borrowed for the publisher's life */
    const char *url;          /* the folder of the checkpoints */
    /* a file that must be on disk as far as a published state goes: steps.jsonl */
    const char *log_path;
    const struct qr_job *job;
    const struct qr_model *model;
    const char *job_hash;         /* hex */
    const struct qr_state *begin; /* published already; NULL: none. Only read by qr_publisher_new */
    int64_t every_ns;
    uint64_t every_steps;
    uint64_t every_epochs; /* 0: their ends are not looked at */
    uint64_t n_batches;    /* steps of an epoch */
    uint64_t epochs;       /* of the whole training, until qr_publisher_set_epochs says more */
    const struct qr_clock *clock; /* qr_clock_awake: ten minutes of an outage are of its own */
    const struct qr_log *log;
};
#define QR_PUBLISHER_CLOSE_NS (500 * (int64_t)QR_MS)

struct qr_publisher;
/* UNAVAILABLE when there is no thread for it. */
QR_MUST_CHECK enum qr_code qr_publisher_new(const struct qr_publisher_options *opt,
                                            struct qr_publisher **ret, struct qr_err *err);
/* Waits QR_PUBLISHER_CLOSE_NS at most. False: its thread hangs in a store and goes on using what it
 * borrowed until the process ends. NULL is fine. */
bool qr_publisher_free(struct qr_publisher *p);

/* The ring trains so many epochs, whatever this worker was started with. */
void qr_publisher_set_epochs(struct qr_publisher *p, uint64_t epochs);
/* *state is the publisher's from now on, and an older one the caller's. logged: the lines of
 * steps.jsonl up to this state are in the file, as far as this worker writes it; else the state is
 * published only after qr_publisher_logged, or a later one. An error: why training must end;
 * *state stays. */
QR_MUST_CHECK enum qr_code qr_publisher_committed(struct qr_publisher *p, bool leader, bool logged,
                                                  struct qr_state *state, struct qr_err *err);
/* The lines up to the last state that was handed over are in the file now. NULL is fine. */
void qr_publisher_logged(struct qr_publisher *p);
/* Publishes the last state that was handed over, whose lines are in the file; done: the weights are
 * written. OK too where a local disk keeps it from that, with a warning. */
QR_MUST_CHECK enum qr_code qr_publisher_finish(struct qr_publisher *p, bool done, int64_t within_ns,
                                               struct qr_err *err);
/* True when training must end because nothing can be published. */
bool qr_publisher_has_failed(struct qr_publisher *p);
/* True when LATEST said, at the last look, that training has ended. */
bool qr_publisher_training_done(struct qr_publisher *p);
/* True when a look was taken since qr_publisher_publish_now: there was something to publish. */
bool qr_publisher_has_tried(struct qr_publisher *p);
/* This worker leaves: what is newer than the last published state is published now. NULL
 * is fine. */
void qr_publisher_publish_now(struct qr_publisher *p);
/* Until that is done, failed, or so much time has passed. NULL is fine. */
void qr_publisher_wait(struct qr_publisher *p, int64_t within_ns);

#endif
