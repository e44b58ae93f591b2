/* output/outputs.h — the files of a run, and its progress lines.
 *
 * Use       qr_outputs_init, qr_outputs_check, qr_outputs_lock, qr_outputs_open_events; train with
 *           qr_outputs_observer; qr_outputs_write in the leader at the end; qr_outputs_fini.
 * Files     DIR/weights.h5 (or another URL), DIR/weights.safetensors, DIR/result.json and
 *           DIR/provenance.json (with a key: and DIR/provenance.dsse.json) at the end; DIR/job.json
 *           with the first step (job_file.h); DIR/steps.jsonl during training. A run that starts at
 *           step 0 first removes the files of an earlier run (previous_run.h).
 *           Only the leader writes; every worker can become leader, so each one checks before
 *           training. TensorBoard event files have a folder of their own (DIR/logs if --logdir is a
 *           bucket, uploaded from there: logdir.h). If these cannot be written, a warning is logged
 *           once and training continues. Lines of steps.jsonl that cannot be written are written
 *           later, before any later checkpoint, and must be written at the end. A run that resumes
 *           from a checkpoint keeps the lines of steps.jsonl up to it and no others: each step has
 *           one line.
 * End       qr_outputs_fini uploads the remaining events: within 30 s after a run that succeeded, 2
 *           s after another, 1 s after SIGTERM.
 * Progress  JSON lines on a file descriptor, for the process that started this worker: "listening",
 *           "progress", "epoch", "done", "error".
 * Threads   The training thread.
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
#include "record/envelope.h"
#include "record/tensorboard.h"
#include "train/train.h"

/* Destinations, from the settings of these names; NULL if not set. Borrowed. */
struct qr_outputs_options {
    const char *out, *weights, *weights_gcs_bucket, *weights_gcs_path, *checkpoints, *logdir;
    const char *signing_key; /* file of the key that signs provenance.json */
    struct qr_price price;   /* copied */
    int progress_fd;         /* -1: none */
    bool (*stopping)(void);  /* has this process been asked to stop? NULL: never */
    bool evaluator;          /* lines are evaluations only (evaluator/evaluator.h) */
    const struct qr_log *log;
};

struct qr_outputs {
    char *dir;
    /* first destination of the weights: DIR/weights.h5, or the one that was set */
    char *weights_url;
    char *logdir;           /* local folder of the TensorBoard events; NULL: no events */
    char *logdir_url;       /* bucket of the events; NULL: none */
    char *checkpoints_url;  /* folder; NULL: no checkpoints */
    char *signing_key_path; /* NULL: provenance.json is not signed */
    struct qr_signing_key *signing_key;
    bool dir_was_there, logdir_was_there;
    bool evaluator;
    bool wrote, wrote_job; /* any file; job.json */
    struct qr_previous_run previous;
    struct qr_run_lock lock;
    struct qr_steps_log steps;
    struct qr_publisher *publisher;                 /* borrowed; NULL: no checkpoints */
    struct qr_progress_reporter *progress_reporter; /* borrowed; NULL: no reports */
    struct qr_progress_snapshot snapshot;           /* what the reporter sends */
    struct qr_price price;
    struct qr_tensorboard *events;
    struct qr_logdir *uploads;
    bool log_behind; /* lines of steps.jsonl are pending, and the warning has been logged */
    bool ended_well;
    struct qr_buf line;
    int progress_fd; /* -1: none */
    /* the reader does not read, so do not wait for it; the last line was cut */
    bool reader_stalled, cut_line;
    bool (*stopping)(void);
    const struct qr_log *log;
    const struct qr_job *job; /* set by qr_outputs_open_events; borrowed */
    char **hparam_texts;      /* values of keys that were set, for events */
    size_t n_hparam_texts;
    bool leader;
    uint64_t epochs; /* epochs that the ring trains; 0: not known yet */
};
/* Time for uploading the remaining events. */
#define QR_OUTPUTS_UPLOAD_NS (30 * QR_SECOND)
#define QR_OUTPUTS_CLOSE_NS (QR_OUTPUTS_UPLOAD_NS + QR_SECOND) /* and for local files */
#define QR_OUTPUTS_CLOSE_ASKED_NS (QR_SECOND + QR_SECOND / 2)

/* Stores the destinations; writes nothing. */
void qr_outputs_init(struct qr_outputs *o, const struct qr_outputs_options *opt,
                     const char *job_name);
/* Closes the files, and removes an empty directory that qr_outputs_check created. Returns within
 * QR_OUTPUTS_CLOSE_NS, or QR_OUTPUTS_CLOSE_ASKED_NS after SIGTERM, unless a disk hangs. False: the
 * process must exit with _exit (logdir.h). */
bool qr_outputs_fini(struct qr_outputs *o);
/* Returns the name of the i-th file of a run's folder; NULL: there are no more. */
const char *qr_outputs_file(size_t i);
/* Checks that every file can be written, before training starts. Creates the folders.
 * INVALID_ARGUMENT; PERMISSION_DENIED, UNAVAILABLE and the store's other errors. */
QR_MUST_CHECK enum qr_code qr_outputs_check(struct qr_outputs *o, struct qr_err *err);
/* Rejects a job that names a file which the run replaces or deletes: INVALID_ARGUMENT. */
QR_MUST_CHECK enum qr_code qr_outputs_check_inputs(struct qr_outputs *o, const struct qr_job *job,
                                                   struct qr_err *err);
/* Locks DIR for this run until qr_outputs_fini (run_lock.h); call after qr_outputs_check.
 *
 * Args:     id  identity with the peers that share the lock; NULL: not shared
 * Errors:   those of qr_run_lock_take
 */
QR_MUST_CHECK enum qr_code qr_outputs_lock(struct qr_outputs *o, const char *job_name,
                                           const struct qr_identity *id, struct qr_err *err);
/* The parts of qr_outputs_check: the signing key, which is read; local folders; weights; the bucket
 * of the events; checkpoints. */
QR_MUST_CHECK enum qr_code qr_outputs_check_key(struct qr_outputs *o, struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_outputs_check_folders(struct qr_outputs *o, struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_outputs_check_weights(struct qr_outputs *o, struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_outputs_check_logdir(struct qr_outputs *o, struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_outputs_check_checkpoints(struct qr_outputs *o, struct qr_err *err);
/* Folder of the checkpoints of an earlier run: that of this run, or DIR/checkpoints if this run has
 * none. Heap. */
char *qr_outputs_earlier_checkpoints(const struct qr_outputs *o);
/* Starts TensorBoard events for later steps, if a logdir is set, and job.json.
 *
 * Args:     w, canonical w->job and canonical are borrowed until qr_outputs_fini
 *           epochs        epochs of the run
 *           host          name of this machine
 * Errors:   those of qr_logdir_open
 */
QR_MUST_CHECK enum qr_code qr_outputs_open_events(struct qr_outputs *o, const struct qr_workload *w,
                                                  const struct qr_job_canonical *canonical,
                                                  uint64_t epochs, const char *host,
                                                  struct qr_err *err);
/* Returns the callbacks for training. */
struct qr_train_observer qr_outputs_observer(struct qr_outputs *o);
/* Writes the pending lines of steps.jsonl now; then the publisher may publish the last state. On an
 * error the lines stay pending. */
QR_MUST_CHECK enum qr_code qr_outputs_flush(struct qr_outputs *o, struct qr_err *err);
/* Writes a line of an evaluator as TensorBoard events. The first failure is logged and stops the
 * events. anew: the curve restarts here, hiding earlier points. */
void qr_outputs_evaluated(struct qr_outputs *o, bool anew, const struct qr_step_line *line,
                          const struct qr_step_detail *detail);
/* Reports a file below LOGDIR of this many bytes that another component wrote: it is uploaded with
 * the events. */
void qr_outputs_wrote(void *outputs, const char *name, size_t bytes);
/* Writes weights, result.json, job.json and the pending lines, and publishes the last checkpoint;
 * for the leader at the end. seconds: duration of the run. */
QR_MUST_CHECK enum qr_code qr_outputs_write(struct qr_outputs *o, const struct qr_workload *w,
                                            const struct qr_job_canonical *canonical,
                                            const struct qr_train_result *result,
                                            uint32_t n_workers, double seconds, struct qr_err *err);
/* Writes the progress line "listening" or "error". */
void qr_outputs_report_listening(struct qr_outputs *o, unsigned port);
void qr_outputs_report_error(struct qr_outputs *o, const struct qr_err *err);

#endif
