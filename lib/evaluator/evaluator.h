/* evaluator/evaluator.h — an evaluator: evaluates the states that a run publishes, and writes its
 * own curve. It takes part in no reduction.
 *
 * What      Checks the run's checkpoint folder at intervals and evaluates the validation samples at
 *           the newest state, each step once. Training waits for nothing; states published while it
 *           computes are skipped, except the newest. Each evaluation is a line of
 *           DIR/evaluation.jsonl (curve.h). Nothing is written to the checkpoint folder.
 * Numbers   equal those of training's own evaluation of that state, to the last bit
 *           (train/validation.h).
 * Start     before, while or after the run trains. The last line of the curve names the last
 *           evaluated state. Without checkpoints it waits without a limit, and logs that every ten
 *           minutes; the same for a run that publishes nothing new, since it may continue later.
 * End       when LATEST says that training has ended and the weights are written, and that state is
 *           in the curve. An end that existed at the start may be an earlier run's (fewer epochs
 *           than requested, or a new run is to begin): it counts when nothing has changed for
 *           begin_timeout_ns.
 * Errors    A checkpoint deleted while it is read: continues with the newer one. A damaged one: a
 *           warning, then the next one, for ten minutes at most (DATA_LOSS). Another job's:
 *           INVALID_ARGUMENT with both hashes; where a new run is to begin, after begin_timeout_ns.
 *           A store that fails, or a curve that cannot be written: that error; a restart continues.
 * Threads   one, and the pool's.
 */
#ifndef QR_EVALUATOR_EVALUATOR_H
#define QR_EVALUATOR_EVALUATOR_H

#include "base/clock.h"
#include "base/log.h"
#include "base/pool.h"
#include "job/workload.h"
#include "record/checkpoint.h"
#include "record/result.h"

struct qr_evaluator_options { /* all pointers borrowed */
    const struct qr_checkpoint_location *place;
    const struct qr_workload *load; /* must have validation samples */
    const char *job_hash;           /* hex */
    uint64_t epochs;                /* expected epochs of the run */
    const char *dir;                /* existing folder */
    int64_t every_ns;               /* interval between checks */
    int64_t begin_timeout_ns;
    /* A new run is to begin: existing checkpoints may still be deleted; so may another job's
     * curve */
    bool fresh;
    struct qr_pool *pool;
    const struct qr_clock *clock; /* qr_clock_awake */
    const struct qr_log *log;
    void *ctx;                              /* of these callbacks: */
    bool (*stopping)(void *ctx);            /* any thread */
    void (*pause)(void *ctx, int64_t ns);   /* sleeps; shorter when a stop is requested */
    void (*computing)(void *ctx, bool yes); /* an evaluation begins, and has ended; may be NULL */
    /* A new point of the curve, before its line is written; fresh: the curve was another job's; may
     * be NULL. */
    void (*show)(void *ctx, bool fresh, const struct qr_step_line *line,
                 const struct qr_step_detail *detail);
};
/* Runs until the run has ended and the curve is complete.
 *
 * Errors:   INVALID_ARGUMENT (no validation samples; another job); CANCELLED (stop requested);
 *           DATA_LOSS; those of the store and the curve
 */
QR_MUST_CHECK enum qr_code qr_evaluator_run(const struct qr_evaluator_options *opt,
                                            struct qr_err *err);

#endif
