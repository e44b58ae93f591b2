/* train/train.h — the step loop: micro-batches → model → reduce → update → record (step.md).
 *
 * Every result is a pure function of (job, data): workers, threads and kernels never show, nor
 * does it show who came and went meanwhile (group/elastic.md). What comes next follows from the
 * state alone, so a state that was fetched is gone on with like one's own. Only committed states
 * are reported.
 */
#ifndef QR_TRAIN_TRAIN_H
#define QR_TRAIN_TRAIN_H

#include "base/pool.h"
#include "group/group.h"
#include "job/canonical.h"
#include "job/job.h"
#include "record/result.h"
#include "train/confusion.h"
#include "train/state.h"

/* Called on the training thread, on every member; a recorder acts only where leader is true. All
 * may be NULL. Who leads may change: who leads now reports a line that the leader before may have
 * written, and lines before it in detail->before (record/result.h). */
struct qr_train_observer {
    void *ctx;
    /* this member works in another generation from now on, which trains so many epochs. fresh:
     * everybody is in it, and it starts at step 0: nothing has been reported of this run */
    enum qr_code (*joined)(void *ctx, const struct qr_group_view *view, uint64_t epochs, bool fresh,
                           struct qr_err *err);
    /* a step has been applied (TRAIN) or evaluated (EVAL) and is now committed */
    enum qr_code (*step)(void *ctx, bool leader, const struct qr_step_line *line,
                         const struct qr_step_detail *detail, struct qr_err *err);
    /* lines that were reported already, oldest first: who led may have died before it wrote the
     * last of them. Of who leads from now on, and of who leaves (leader: as it was) before others
     * may go on from what it has published */
    enum qr_code (*reported)(void *ctx, bool leader, const struct qr_step_line *line, size_t n,
                             struct qr_err *err);
    /* this state is committed: it may be published. Before the first update too. The observer may
     * keep it: it then leaves another of this job in its place (qr_state_exchange), whose numbers
     * do not matter; not where it returns an error. No allocation is wanted here */
    enum qr_code (*committed)(void *ctx, bool leader, struct qr_state *state, struct qr_err *err);
    /* for the progress bar: at once, not only when committed. batch 1..n_batches; running: Keras'
     * running means, [0] is the loss. */
    void (*progress)(void *ctx, uint64_t epoch, uint64_t epochs, uint64_t batch, uint64_t n_batches,
                     const struct qr_named_value *running, size_t n);
    void (*epoch)(void *ctx, uint64_t epoch, uint64_t epochs, uint64_t n_batches, double seconds,
                  const struct qr_named_value *values, size_t n);
};

struct qr_train_result {
    uint64_t steps, epochs; /* of the last state */
    /* of early stopping; best_epoch 0: none was better than nothing. restored: its weights are the
     * result's */
    uint64_t best_epoch;
    double best;
    bool restored;
    /* Values and matrices belong to params: of the best epoch where it is restored, else of the
     * last one. val_ ones are what an evaluation of params gives, to the last bit. Others are
     * Keras' running means over that epoch's steps. */
    double loss;
    bool has_val;
    double val_loss;
    bool evaluated_at_end; /* val_ values are of no epoch: params are an average */
    /* metrics, val_ metrics when has_val, and, n_logged of them, what the job logs (logged.h) */
    size_t n_metrics, n_logged;
    struct qr_named_value metrics[2 * QR_MAX_METRICS + QR_MAX_LOGGED]; /* names: model's, job's */
    struct qr_confusion confusion;
    char state_digest[33]; /* of the last step's state */
    /* n_params: the last state's, or their average where the optimizer keeps one, or the best
     * one's when early stopping keeps it */
    double *params;
    uint64_t pod_ms; /* members times time, since the run's beginning (pod_time.h) */
    /* training ends here since the leader's bound is reached; its last state is committed, and it
     * has steps to go */
    bool over_budget;
    bool stopped_early;
    const char *ended; /* why the optimizer has ended; NULL: it has not; static */
    /* the others ended the run and wrote everything: the rest is not set */
    bool ended_by_peers;
};
void qr_train_result_fini(struct qr_train_result *r);
struct qr_train_options {
    const struct qr_job *job;
    const struct qr_job_canonical *canonical;
    const struct qr_dataset *data;
    const struct qr_model *model;
    const double *initial; /* n_params, or NULL: Philox */
    /* a state of this job to go on from (then initial is not used), or NULL; borrowed until the
     * call returns. Members that have an older one fetch it from those that have the newest */
    const struct qr_state *resume;
    /* When the members' states differ and nobody knows which is right: the state of the last
     * checkpoint into ret (made for this job), *ret_found false when there is none; training then
     * goes on from `resume`, or from the start. NULL: there is none. */
    enum qr_code (*reload)(void *ctx, struct qr_state *ret, bool *ret_found, struct qr_err *err);
    void *reload_ctx;
    /* Who leads a first generation reloads too: others may have trained on since these started
     * (membership/protocol.md rule 7). Then this says whether what was reloaded is the end of the
     * run. NULL: no such look is taken. */
    bool (*ended)(void *ctx);
    /* Instead of that look, for who wants nothing of what was trained before: who leads the first
     * generation takes it away. NULL: it looks. */
    enum qr_code (*anew)(void *ctx, struct qr_err *err);
    /* overrides the job's when not 0; a ring's first leader's count for all (qr_group_plan) */
    uint64_t epochs;
    /* pod-time that was taken before this process began, and that at which who leads ends
     * training, after a step; 0: none */
    uint64_t pod_ms, max_pod_ms;
    /* a parameter server: it holds the state, and computes no micro-batches. As the group's */
    bool server;
    struct qr_group *group; /* not ready yet: qr_train_run says what state it begins with */
    struct qr_pool *pool;
    const struct qr_clock *clock;
    const struct qr_log *log;
    struct qr_train_observer observer;
    /* A reduction begins, from the state of this step. Training thread; NULL: nobody is told. */
    void (*begins)(void *ctx, enum qr_reduction_kind kind, uint64_t step);
    void *begins_ctx;
    /* When the closing reduction has passed: writes where view->rank is 0, then ends together
     * (qr_group_done). ABORTED: the group changed; it is called again after another closing
     * reduction. NULL: nothing to do. */
    enum qr_code (*finish)(void *ctx, const struct qr_group_view *view,
                           const struct qr_train_result *result, struct qr_err *err);
    void *finish_ctx;
};

/* ret: also what finish was given. OUT_OF_RANGE names the sample whose numbers are bad, DATA_LOSS
 * the samples of a micro-batch that killed three workers: the same sentence on all members. */
QR_MUST_CHECK enum qr_code qr_train_run(const struct qr_train_options *opt,
                                        struct qr_train_result *ret, struct qr_err *err);

#endif
