/* evaluator/evaluator.h — an evaluator: takes the states that a run commits, as it publishes them,
 * and makes a curve of its own. It joins no reduction.
 *
 * What      It looks at the folder of the run's checkpoints, again and again, and evaluates the
 *           validation samples at the newest state that is there, each step once: training waits
 *           for nothing, and what is published while it computes is passed over but for the newest.
 *           Each evaluation is a line of DIR/evaluation.jsonl (curve.h). It writes nothing where
 *           the checkpoints are.
 * Numbers   those that training's own evaluation of that state has, to the last bit
 *           (train/validation.h).
 * Start     before, while or after the run trains. The last line of the curve says what has been
 *           evaluated. Nothing there yet is waited for, as long as it takes, and said every ten
 *           minutes; so is a run that publishes nothing new: it may go on one day.
 * End       when LATEST says that training has ended and the weights are written, and that state is
 *           in the curve. An end that was there from the beginning, and may be a former run's
 *           (fewer epochs than asked for, or a new run is to begin), is taken for the end when
 *           nothing has changed for begins_ns.
 * Failure   A checkpoint that goes while it is read: the newer one. One that is damaged: a warning,
 *           and the next one, for ten minutes at most (DATA_LOSS). Another job's: INVALID_ARGUMENT,
 *           both hashes named; where a new run is to begin, after begins_ns. A store that fails, or
 *           a curve that cannot be written, ends it with that error; it may be started again.
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

struct qr_evaluator_options { /* all borrowed */
    const struct qr_checkpoint_location *place;
    const struct qr_workload *load; /* with samples that do not train */
    const char *job_hash;           /* hex */
    uint64_t epochs;                /* that the run is expected to train */
    const char *dir;                /* is there */
    int64_t every_ns;               /* from one look to the next */
    int64_t begins_ns;
    bool anew; /* a run is to begin: what is there may be deleted yet, another job's curve too */
    struct qr_pool *pool;
    const struct qr_clock *clock; /* qr_clock_awake */
    const struct qr_log *log;
    void *ctx;                             /* of these: */
    bool (*stopping)(void *ctx);           /* any thread */
    void (*pause)(void *ctx, int64_t ns);  /* less when it is to stop */
    void (*computes)(void *ctx, bool yes); /* an evaluation begins, and has ended; may be NULL */
    /* a new point of the curve, before its line is written; anew: the curve had been another
     * job's; may be NULL */
    void (*show)(void *ctx, bool anew, const struct qr_step_line *line,
                 const struct qr_step_detail *detail);
};
/* INVALID_ARGUMENT: no sample validates. CANCELLED: it was to stop. OK: the run has ended, and so
 * has the curve. */
QR_MUST_CHECK enum qr_code qr_evaluator_run(const struct qr_evaluator_options *opt,
                                            struct qr_err *err);

#endif
