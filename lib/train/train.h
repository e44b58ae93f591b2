/* train/train.h — the step loop: micro-batches → model → reduce → update → record (step.md).
 *
 * Use       fill qr_train_options with a group that is not ready yet, call qr_train_run on the
 *           training thread, free the result with qr_train_result_fini.
 * Result    a pure function of (job, data): the number of workers, threads, kernels and members
 *           that come and go (group/elastic.md) do not affect it. The next reduction follows from
 *           the state alone, so a fetched state is continued like an own one. Only committed states
 *           are reported.
 */
#ifndef QR_TRAIN_TRAIN_H
#define QR_TRAIN_TRAIN_H

#include "base/pool.h"
#include "group/group.h"
#include "job/canonical.h"
#include "job/job.h"
#include "job/workload.h"
#include "record/result.h"
#include "train/confusion.h"
#include "train/state.h"

/* Callbacks on the training thread of every member; a recorder acts only where leader is true. All
 * may be NULL. The leader may change: a new leader reports lines that the previous leader may have
 * written, and earlier lines in detail->before (record/result.h). */
struct qr_train_observer {
    void *ctx;
    /* This member joined a generation, which trains this many epochs. fresh: all members are in it
     * and it starts at step 0, so nothing has been reported of this run. */
    enum qr_code (*joined)(void *ctx, const struct qr_group_view *view, uint64_t epochs, bool fresh,
                           struct qr_err *err);
    /* A step has been applied (TRAIN) or evaluated (EVAL) and is now committed. */
    enum qr_code (*step)(void *ctx, bool leader, const struct qr_step_line *line,
                         const struct qr_step_detail *detail, struct qr_err *err);
    /* Lines that were reported before, oldest first: the previous leader may have exited before it
     * wrote the last of them. Called by a new leader, and by a leaving member (leader: its role so
     * far) before others may continue from what it has published. */
    enum qr_code (*reported)(void *ctx, bool leader, const struct qr_step_line *line, size_t n,
                             struct qr_err *err);
    /* This state is committed and may be published; also called before the first update. The
     * observer may keep the state: it then leaves another one of this job (qr_state_exchange) with
     * arbitrary numbers, unless it returns an error. Should not allocate. */
    enum qr_code (*committed)(void *ctx, bool leader, struct qr_state *state, struct qr_err *err);
    /* Progress bar: called at once, not only when committed. batch 1..n_batches; running: Keras'
     * running means, [0] is the loss. */
    void (*progress)(void *ctx, uint64_t epoch, uint64_t epochs, uint64_t batch, uint64_t n_batches,
                     const struct qr_named_value *running, size_t n);
    void (*epoch)(void *ctx, uint64_t epoch, uint64_t epochs, uint64_t n_batches, double seconds,
                  const struct qr_named_value *values, size_t n);
};

struct qr_train_result {
    uint64_t steps, epochs; /* of the last state */
    /* Early stopping; best_epoch 0: no best value. restored: params are the best epoch's
     * weights. */
    uint64_t best_epoch;
    double best;
    bool restored;
    /* Values and matrices belong to params: of the best epoch where restored, else of the last one.
     * val_ values equal an evaluation of params to the last bit. Others are Keras' running means
     * over that epoch's steps. */
    double loss;
    bool has_val;
    double val_loss;
    bool evaluated_at_end; /* val_ values belong to no epoch: params are an average */
    /* metrics, val_ metrics when has_val, and n_logged values that the job logs (logged.h) */
    size_t n_metrics, n_logged;
    struct qr_named_value metrics[2 * QR_MAX_METRICS + QR_MAX_LOGGED]; /* names: model's, job's */
    struct qr_confusion confusion;
    char state_digest[33]; /* hex digest of the last step's state */
    char chain[65];        /* of the last line of steps.jsonl (record/chain.h), hex; "": none */
    /* n_params: the last state's, or their average where the optimizer keeps one, or the best
     * epoch's where early stopping restores it */
    double *params;
    uint64_t pod_ms; /* members times time since the start of the run (pod_time.h) */
    /* Training ends here because the leader's limit is reached; the last state is committed, and
     * steps are left */
    bool over_budget;
    bool stopped_early;
    const char *ended; /* why the optimizer has ended; NULL: it has not; static */
    /* The other members ended the run and wrote everything: the rest is not set */
    bool ended_by_peers;
};
void qr_train_result_fini(struct qr_train_result *r);
/* Returns what result.json says that follows from the steps; the rest is 0. Borrows its arguments.
 *
 * Args:     ret_data_hash   the hash of the workload's data as hex; the result refers to it
 */
struct qr_result qr_train_result_record(const struct qr_train_result *r,
                                        const struct qr_workload *w,
                                        const struct qr_job_canonical *canonical,
                                        char ret_data_hash[65]);
struct qr_train_options {
    const struct qr_job *job;
    const struct qr_job_canonical *canonical;
    const struct qr_dataset *data;
    const struct qr_model *model;
    const double *initial; /* n_params, or NULL: from Philox */
    /* A state of this job to resume (then initial is not used), or NULL; borrowed until the call
     * returns. Members with an older state fetch the newest. */
    const struct qr_state *resume;
    /* Loads the state of the last checkpoint into ret (made for this job); *ret_found false: there
     * is none. Called when the members' states differ without a majority; training then continues
     * from the checkpoint, from `resume`, or from the start. NULL: no checkpoints. */
    enum qr_code (*reload)(void *ctx, struct qr_state *ret, bool *ret_found, struct qr_err *err);
    void *reload_ctx;
    /* Whether the reloaded state is the end of the run. The leader of a first generation also
     * reloads, since other workers may have trained further after these started
     * (membership/protocol.md rule 7). NULL: do not check. */
    bool (*ended)(void *ctx);
    /* Deletes the checkpoints of earlier runs instead of that check (a fresh start); called by the
     * leader of the first generation. NULL: check. */
    enum qr_code (*anew)(void *ctx, struct qr_err *err);
    /* Overrides the job's when not 0; the first leader's value holds for all (qr_group_plan) */
    uint64_t epochs;
    /* Pod-time used before this process began, and the pod-time at which the leader ends training
     * after a step, in milliseconds; 0: none, no limit. */
    uint64_t pod_ms, max_pod_ms;
    /* A parameter server: holds the state, computes no micro-batches; as in the group's options */
    bool server;
    /* Not ready yet: qr_train_run announces the state that it begins with */
    struct qr_group *group;
    struct qr_pool *pool;
    const struct qr_clock *clock;
    const struct qr_log *log;
    struct qr_train_observer observer;
    /* Called when a reduction begins, from the state of this step. Training thread; NULL: not
     * called. */
    void (*begins)(void *ctx, enum qr_reduction_kind kind, uint64_t step);
    void *begins_ctx;
    /* Called when the closing reduction has completed: writes the result where view->rank is 0,
     * then ends together with the others (qr_group_done). ABORTED: the group changed; called again
     * after another closing reduction. NULL: nothing to do. */
    enum qr_code (*finish)(void *ctx, const struct qr_group_view *view,
                           const struct qr_train_result *result, struct qr_err *err);
    void *finish_ctx;
};

/* Trains until the end of the job, or until the group ends.
 *
 * Args:     ret     the result that `finish` got; caller frees with qr_train_result_fini
 * Errors:   OUT_OF_RANGE: names the sample with bad numbers, with the same message on all members.
 *           CANCELLED: stopped on request. Also errors of the group and of the callbacks.
 * Threads:  the training thread; the group's and the pool's threads run beside it
 */
QR_MUST_CHECK enum qr_code qr_train_run(const struct qr_train_options *opt,
                                        struct qr_train_result *ret, struct qr_err *err);

#endif
