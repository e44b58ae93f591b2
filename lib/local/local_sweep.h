/* local/local_sweep.h — the trials of a sweep, trained on this machine by processes that take one
 * after
 * the other.
 *
 * What      Each slot is a process that takes a trial from the board (sweep/board.h), trains it by
 *           one worker process alone, as a run in OUT/trials/<number>, and puts its row on the
 *           board, until every row is there. Slots of other machines at the same board take from
 *           it alike: this is all that there is between them.
 * End       as local/processes.h: SIGINT and SIGTERM stop the workers, which leave checkpoints, and
 *           give the trials back; a second one ends everything at once. A slot or a worker that is
 *           lost is started again. Should this process die, the kernel kills the others.
 * Errors    of a trial's own numbers, or of its job: its row says them. Everything else ends the
 *           sweep, whose rows stay.
 * Threads   the caller's only. Call before any thread exists: it forks and blocks signals.
 */
#ifndef QR_LOCAL_LOCAL_SWEEP_H
#define QR_LOCAL_LOCAL_SWEEP_H

#include <stdio.h>

#include "base/log.h"
#include "job/job.h"
#include "sweep/board.h"

struct qr_local_sweep_options {
    const char *program;      /* qringd */
    const struct qr_job *job; /* with its sweep */
    const char *job_path;     /* the same without it, as each worker reads it */
    const char *out;          /* this machine's folder */
    const char *board_url;    /* out, or another place: weights and checkpoints go there */
    /* behind those that say which trial it is, for every worker */
    const char *const *arguments;
    size_t n_arguments;
    char *const *environment;
    unsigned n_slots;
    bool events; /* TensorBoard's, in each trial's folder */
    int64_t lease_ns;
    const char *metric; /* by which trials are compared */
    bool maximize;
    const char (*hash)[65]; /* of each trial's job (local/trial_hash.h) */
    FILE *people;           /* a line of each trial that is done: "trial 7: val_loss=0.25 …" */
    const struct qr_log *log;
};
struct qr_local_sweep_result {
    int exit_code; /* 0: every row is there, or a signal came */
    bool interrupted, terminated;
};
QR_MUST_CHECK enum qr_code qr_local_sweep(const struct qr_local_sweep_options *opt,
                                          struct qr_local_sweep_result *ret, struct qr_err *err);
/* What is left behind once every row is there: sweep.csv and sweep.json in OUT (and at the board),
 * best/ with the best trial's weights, job and result. The same bytes whoever does it. DATA_LOSS: a
 * file of the best trial is not the one that its row names; best/ is as it was. */
QR_MUST_CHECK enum qr_code qr_local_sweep_publish(const struct qr_local_sweep_options *opt,
                                                  const struct qr_sweep_rows *rows,
                                                  struct qr_err *err);
/* Removes what the sweep there has on its board, and the trials' checkpoints and results, of any
 * job; no file of another name. INVALID_ARGUMENT: a folder is a symbolic link; nothing was
 * removed. */
QR_MUST_CHECK enum qr_code qr_local_sweep_delete(const struct qr_local_sweep_options *opt,
                                                 struct qr_sweep_board *board, struct qr_err *err);
/* For stores that wait: whether SIGINT or SIGTERM has come while they are blocked. */
bool qr_local_sweep_stopping(void);
/* OUT/trials/0007, or of a board's URL. Heap. */
char *qr_local_trial_folder(const char *out, size_t trial);
/* Where a trial's weights are at a board that is not OUT, for each rung of halving its own place: a
 * worker that was believed dead may write late. Heap. */
char *qr_local_trial_weights(const char *board_url, const struct qr_sweep_spec *s, size_t trial,
                             size_t rung);

#endif
