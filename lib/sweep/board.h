/* sweep/board.h — where the workers of a sweep meet: a folder of a store with a row of each trial
 * that is done, and a claim on each that somebody trains.
 *
 * Names     URL/sweep/job.json what is swept; URL/sweep/rows/<rung>-<trial>.json, made once and
 *           never changed; URL/sweep/claims/<rung>-<trial>, changed by compare-and-swap alone.
 * Claims    name the worker that has the trial (128 random bits), count how often it renewed the
 *           claim, and say its lease. A worker that sees a claim unchanged for the lease, by its
 *           own clock, takes the claim over: of several workers one succeeds. A claim decides which
 *           worker trains, never what the trial comes to: two that train one trial find the same
 *           row. A file that is no claim (too long, a FIFO) is removed; where it cannot be (a
 *           folder), the trial is trained without a claim. Both are logged.
 * Clock     of seconds in which this process ran (qr_clock_awake): a machine that slept takes
 *           nothing from a neighbour that slept too.
 * Errors    as the store's, each naming the URL.
 * Threads   one.
 */
#ifndef QR_SWEEP_BOARD_H
#define QR_SWEEP_BOARD_H

#include "base/clock.h"
#include "store/store.h"
#include "sweep/row.h"

struct qr_sweep_board;
struct qr_sweep_board_options {
    const char *url; /* a folder: a path, gs://, s3:// */
    size_t n_trials, n_rungs;
    char holder[33];  /* hex; whoever has the same one is the same worker */
    int64_t lease_ns; /* how long this worker's silence is waited for */
    const struct qr_clock *clock;
    const struct qr_store_waits *waits; /* NULL: as everywhere */
    const struct qr_log *log;           /* NULL: nothing is logged */
};
QR_MUST_CHECK enum qr_code qr_sweep_board_open(const struct qr_sweep_board_options *opt,
                                               struct qr_sweep_board **ret, struct qr_err *err);
void qr_sweep_board_close(struct qr_sweep_board *b); /* NULL is fine */

/* What is swept: the first text stays. ret: the one that is there now. */
QR_MUST_CHECK enum qr_code qr_sweep_board_publish(struct qr_sweep_board *b, struct qr_bytes text,
                                                  struct qr_buf *ret, struct qr_err *err);
/* Removes the text, all rows and all claims, of any sweep, and no other file. INVALID_ARGUMENT: a
 * folder of the board is a symbolic link; nothing was removed. */
QR_MUST_CHECK enum qr_code qr_sweep_board_delete(struct qr_sweep_board *b, struct qr_err *err);
/* Removes the claims: every row is there. */
void qr_sweep_board_delete_claims(struct qr_sweep_board *b);

/* Fetches the rows that are new. DATA_LOSS: a row that cannot be read. INVALID_ARGUMENT: a row of
 * another job hash than rows->hash says: of other data, or of another version. */
QR_MUST_CHECK enum qr_code qr_sweep_board_rows(struct qr_sweep_board *b, struct qr_sweep_rows *rows,
                                               struct qr_err *err);
/* INTERNAL: another row of that trial is there: two workers found different results. */
QR_MUST_CHECK enum qr_code qr_sweep_board_add_row(struct qr_sweep_board *b,
                                                  const struct qr_sweep_row *row,
                                                  struct qr_err *err);

/* *ret_mine: this worker has the trial from now on. */
QR_MUST_CHECK enum qr_code qr_sweep_board_claim(struct qr_sweep_board *b, size_t rung, size_t trial,
                                                bool *ret_mine, struct qr_err *err);
/* Says that it is still being trained, when a fifth of the lease has passed. *ret_mine false:
 * somebody else has it by now. */
QR_MUST_CHECK enum qr_code qr_sweep_board_renew(struct qr_sweep_board *b, size_t rung, size_t trial,
                                                bool *ret_mine, struct qr_err *err);
/* Gives it back: whoever looks next may take it. */
void qr_sweep_board_release(struct qr_sweep_board *b, size_t rung, size_t trial);
/* When another worker was last seen to renew a claim, by the clock; 0: never. A claim that is taken
 * or given back is no progress: workers may do both for ever where none can train. */
int64_t qr_sweep_board_renewal_seen_ns(const struct qr_sweep_board *b);

/* A claim's text, as it is read: INVALID_ARGUMENT for what is none. */
struct qr_sweep_claim {
    char holder[33]; /* "": free */
    uint64_t beat;   /* no two texts of one worker are the same */
    uint64_t kept;   /* renewals since the claim was taken */
    int64_t lease_ns;
};
QR_MUST_CHECK enum qr_code qr_sweep_claim_read(struct qr_bytes text, const char *what,
                                               struct qr_sweep_claim *ret, struct qr_err *err);

#endif
