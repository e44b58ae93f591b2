/* output/outputs.h — the files that a run leaves behind, and the lines of progress on the way.
 *
 * Files     DIR/weights.h5 (or another URL), DIR/weights.safetensors, DIR/result.json at the end;
 *           DIR/job.json with the first step (job_file.h); DIR/steps.jsonl grows while training.
 *           A run that begins at step 0 first removes what an earlier one left (former_run.h).
 *           Only the leader writes; every worker may become it, so each one checks before training.
 *           TensorBoard's event files go to a folder of their own (DIR/logs where --logdir is a
 *           bucket, and from there to it: logdir.h); when they cannot be written, that is said once
 *           and training goes on; lines of steps.jsonl that cannot be written now are written
 *           later, before a checkpoint goes beyond them, and at the end must be. A run that goes on
 *           from a checkpoint keeps the lines of steps.jsonl up to it and no other: each step has
 *           one line.
 * End       qr_outputs_fini uploads the rest of the events: 30 s after a run that ended well, 2 s
 *           after another, 1 s after SIGTERM.
 * Progress  JSON lines to a file descriptor, for who started this worker: "listening", "progress",
 *           "epoch", "done", "error".
 * Threads   the training thread.
 */
#ifndef QR_OUTPUT_OUTPUTS_H
#define QR_OUTPUT_OUTPUTS_H

#include "base/file.h"
#include "cluster/identity.h"
#include "job/canonical.h"
#include "job/workload.h"
#include "output/previous_run.h"
#include "output/logdir.h"
#include "output/publisher.h"
#include "output/run_lock.h"
#include "output/steps_log.h"
#include "output/progress_reporter.h"
#include "record/tensorboard.h"
#include "train/train.h"

/* Where things are to go, as the settings of these names say: NULL where unset. Borrowed. */
struct qr_outputs_options {
    const char *out, *weights, *weights_gcs_bucket, *weights_gcs_path, *checkpoints, *logdir;
    struct qr_price price;  /* copied */
    int progress_fd;        /* -1: none */
    bool (*stopping)(void); /* has this process been asked to end? NULL: never */
    bool evaluator;         /* its lines are evaluations alone (evaluator/evaluator.h) */
    const struct qr_log *log;
};

struct qr_outputs {
    char *dir;
    char *weights_url;     /* where the weights go first: DIR/weights.h5, or what was asked for */
    char *logdir;          /* TensorBoard's, a folder; NULL: no events */
    char *logdir_url;      /* the bucket that they go to from there; NULL: none */
    char *checkpoints_url; /* a folder; NULL: no checkpoints */
    bool dir_was_there, logdir_was_there;
    bool evaluator;
    bool wrote, wrote_job; /* anything; job.json */
    struct qr_previous_run former;
    struct qr_run_lock lock;
    struct qr_steps_log steps;
    struct qr_publisher *publisher;                 /* borrowed; NULL: no checkpoints */
    struct qr_progress_reporter *progress_reporter; /* borrowed; NULL: nobody is told */
    struct qr_progress_snapshot standing;           /* what it is told */
    struct qr_price price;
    struct qr_tensorboard *events;
    struct qr_logdir *uploads;
    bool log_behind; /* lines of steps.jsonl wait for room: that has been said */
    bool ended_well;
    struct qr_buf line;
    int progress_fd;              /* -1: none */
    bool reader_stands, cut_line; /* no line is waited for; the last one has no end */
    bool (*stopping)(void);
    const struct qr_log *log;
    const struct qr_job *job; /* of qr_outputs_open_events; borrowed */
    char **hparam_texts;      /* of keys that were set, for events */
    size_t n_hparam_texts;
    bool leader;
    uint64_t epochs; /* that the ring trains; 0: not known yet */
};
/* for the rest of the events */
#define QR_OUTPUTS_UPLOAD_NS (30 * QR_SECOND)
#define QR_OUTPUTS_CLOSE_NS (QR_OUTPUTS_UPLOAD_NS + QR_SECOND) /* and for files of ours */
#define QR_OUTPUTS_CLOSE_ASKED_NS (QR_SECOND + QR_SECOND / 2)

void qr_outputs_init(struct qr_outputs *o, const struct qr_outputs_options *opt,
                     const char *job_name);
/* Takes away an empty directory that qr_outputs_check made. Within QR_OUTPUTS_CLOSE_NS, or
 * QR_OUTPUTS_CLOSE_ASKED_NS after SIGTERM, unless a disk hangs. False: the process must end by
 * _exit (logdir.h). */
bool qr_outputs_fini(struct qr_outputs *o);
/* Proves that everything could be written, before anything is spent. */
QR_MUST_CHECK enum qr_code qr_outputs_check(struct qr_outputs *o, struct qr_err *err);
/* This run alone writes into DIR from here to qr_outputs_fini (run_lock.h); after qr_outputs_check.
 * id: whose peers share it; NULL: nobody. */
QR_MUST_CHECK enum qr_code qr_outputs_lock(struct qr_outputs *o, const char *job_name,
                                           const struct qr_identity *id, struct qr_err *err);
/* The parts of qr_outputs_check: local folders; the places of weights and checkpoints, which may be
 * in a bucket; the bucket of the events, if there is one. */
QR_MUST_CHECK enum qr_code qr_outputs_check_folders(struct qr_outputs *o, struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_outputs_check_weights(struct qr_outputs *o, struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_outputs_check_logdir(struct qr_outputs *o, struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_outputs_check_checkpoints(struct qr_outputs *o, struct qr_err *err);
/* From here on steps become TensorBoard events too, where a logdir is set, and job.json is written.
 * canonical and the workload's job are borrowed until qr_outputs_fini. host: this machine's
 * name. */
QR_MUST_CHECK enum qr_code qr_outputs_open_events(struct qr_outputs *o, const struct qr_workload *w,
                                                  const struct qr_job_canonical *canonical,
                                                  uint64_t epochs, const char *host,
                                                  struct qr_err *err);
struct qr_train_observer qr_outputs_observer(struct qr_outputs *o);
/* Tries now to write the lines that wait; then the publisher may publish the last state. An error:
 * they wait on. */
QR_MUST_CHECK enum qr_code qr_outputs_flush(struct qr_outputs *o, struct qr_err *err);
/* A line of an evaluator, as TensorBoard events. What cannot be written is said once, and ends
 * them. anew: its curve begins here, and what a former one left is not to be shown. */
void qr_outputs_evaluated(struct qr_outputs *o, bool anew, const struct qr_step_line *line,
                          const struct qr_step_detail *detail);
/* A file below LOGDIR that somebody else wrote, of so many bytes: it goes where the events go. */
void qr_outputs_wrote(void *outputs, const char *name, size_t bytes);
/* The leader, at the end. */
QR_MUST_CHECK enum qr_code qr_outputs_write(struct qr_outputs *o, const struct qr_workload *w,
                                            const struct qr_job_canonical *canonical,
                                            const struct qr_train_result *result,
                                            uint32_t n_workers, double seconds, struct qr_err *err);
void qr_outputs_report_listening(struct qr_outputs *o, unsigned port);
void qr_outputs_report_error(struct qr_outputs *o, const struct qr_err *err);

#endif
