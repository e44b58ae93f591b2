/* local/local_sweep.h — trains the trials of a sweep on this machine, by processes that run one
 * trial after the other.
 *
 * What      Each slot is a process that claims a trial on the board (sweep/board.h), trains it with
 *           one worker process, as a run in OUT/trials/<number>, and adds its row to the board,
 *           until all rows exist. Slots of other machines at the same board do the same; they
 *           coordinate only through the board.
 * Order     qr_local_sweep, then qr_local_sweep_publish. To start over, qr_local_sweep_delete
 *           first.
 * End       as in local/processes.h: SIGINT and SIGTERM stop the workers, which leave checkpoints,
 *           and release the trials; a second signal kills all processes. A lost slot or worker is
 *           restarted. If this process is killed, the kernel kills the others.
 * Errors    An error of a trial's own numbers or job is stored in its row. Any other error ends the
 *           sweep; its rows stay.
 * Threads   the caller's only. Call before any other thread exists: it forks and blocks signals.
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
    const char *job_path;     /* the job without its sweep, as each worker reads it */
    const char *out;          /* this machine's folder */
    const char *board_url;    /* equal to out, or another location for weights and checkpoints */
    /* Arguments for every worker, after those of the trial. */
    const char *const *arguments;
    size_t n_arguments;
    char *const *environment;
    unsigned n_slots;
    bool events; /* TensorBoard events, in each trial's folder */
    int64_t lease_ns;
    const char *metric; /* metric that ranks the trials */
    bool maximize;
    const char (*hash)[65]; /* [n_trials] of each trial's job (local/trial_hash.h) */
    FILE *people; /* receives a line for each finished trial: "trial 7: val_loss=0.25 …" */
    const struct qr_log *log;
};
struct qr_local_sweep_result {
    int exit_code; /* 0: all rows exist, or a signal came */
    bool interrupted, terminated;
};
/* Trains all trials of a sweep, with opt->n_slots slots.
 *
 * Errors:   of starting the slots
 */
QR_MUST_CHECK enum qr_code qr_local_sweep(const struct qr_local_sweep_options *opt,
                                          struct qr_local_sweep_result *ret, struct qr_err *err);
/* Writes the results, once all rows exist: sweep.csv and sweep.json in OUT (and at the board),
 * best/ with the best trial's weights, job and result. Every caller writes the same bytes.
 *
 * Errors:   DATA_LOSS: a file of the best trial differs from its row; best/ is unchanged
 */
QR_MUST_CHECK enum qr_code qr_local_sweep_publish(const struct qr_local_sweep_options *opt,
                                                  const struct qr_sweep_rows *rows,
                                                  struct qr_err *err);
/* Deletes the sweep's files at its board, and the trials' checkpoints and results, of any job; no
 * file of another name.
 *
 * Errors:   INVALID_ARGUMENT: a folder is a symbolic link; nothing was deleted
 */
QR_MUST_CHECK enum qr_code qr_local_sweep_delete(const struct qr_local_sweep_options *opt,
                                                 struct qr_sweep_board *board, struct qr_err *err);
/* Returns OUT/trials/0007, or the same below a board's URL. Heap. */
char *qr_local_trial_folder(const char *out, size_t trial);
/* Returns the location of a trial's weights at a board that is not OUT, with a separate one for
 * each rung of halving: a worker considered lost may still write. Heap. */
char *qr_local_trial_weights(const char *board_url, const struct qr_sweep_spec *s, size_t trial,
                             size_t rung);

#endif
