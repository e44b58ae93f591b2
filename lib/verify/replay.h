/* verify/replay.h — computes steps of a run again, from a state of it, and compares their lines.
 *
 * The step loop of a worker (train/train.h), alone: any number of threads and any instruction set
 * give the same bits.
 * Threads   One, and the pool's.
 */
#ifndef QR_VERIFY_REPLAY_H
#define QR_VERIFY_REPLAY_H

#include "base/pool.h"
#include "job/workload.h"
#include "record/checkpoint.h"
#include "train/train.h"
#include "verify/chain_check.h"

struct qr_replay_options { /* all borrowed */
    const struct qr_workload *load;
    const struct qr_job_canonical *canonical;
    const struct qr_chain *recorded; /* only its intact lines are read */
    struct qr_pool *pool;
    const struct qr_state *begin; /* NULL: the first state of the job */
    uint64_t after;               /* position of the line of that state; 0: of none */
    uint64_t epochs;              /* of the run */
    /* Position of the last line to compute (qr_chain_position); 0: to the end of training */
    uint64_t last;
    /* NULL: compare all lines up to the last: each must be recorded and computed. Else compare only
     * the state with this checkpoint's */
    const struct qr_checkpoint *with;
};
struct qr_replay {
    size_t n_steps; /* updates computed */
    bool differs;
    /* The first line that differs: position, kind and both digests, "" where the line is not
     * recorded or not computed; key: its first value that differs, with both texts */
    uint64_t step;
    bool eval;
    char recorded[33], computed[33], key[48], recorded_value[80], computed_value[80];
    /* Of `with`: its first tensor that differs; "": none, or the state was not reached */
    char tensor[128];
    size_t element;
    double recorded_number, computed_number;
    bool ended;                    /* training has ended: result is set */
    struct qr_train_result result; /* freed with qr_replay_fini */
};
/* Errors: those of qr_train_run. */
QR_MUST_CHECK enum qr_code qr_replay_run(const struct qr_replay_options *opt, struct qr_replay *ret,
                                         struct qr_err *err);
void qr_replay_fini(struct qr_replay *r);
/* Finds the first tensor and element whose bits differ between two states of one job. False:
 * none. */
bool qr_replay_compare(const struct qr_tensors *recorded, const struct qr_tensors *computed,
                       struct qr_replay *ret);

#endif
