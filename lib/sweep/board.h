/* sweep/board.h — the shared folder by which the workers of a sweep divide its trials: a row for
 * each finished trial, and a claim on each trial in progress.
 *
 * Usage     qr_sweep_board_open; qr_sweep_board_publish; then repeatedly qr_sweep_board_rows,
 *           qr_sweep_board_claim, train while calling qr_sweep_board_renew, and
 *           qr_sweep_board_add_row; at the end qr_sweep_board_delete_claims and _close.
 * Objects   URL/sweep/job.json, the swept job; URL/sweep/rows/<rung>-<trial>.json, created once and
 *           never changed; URL/sweep/claims/<rung>-<trial>, changed by compare-and-swap only.
 * Claims    hold the id of the worker that trains the trial (128 random bits), the number of
 *           renewals, and the lease. A worker that sees a claim unchanged for the lease, by its own
 *           clock, takes the claim over; of several workers one succeeds. A claim decides which
 *           worker trains, never the result: two workers that train one trial write the same row.
 *           An invalid claim (too long, a FIFO) is removed; when that fails (a folder), the trial
 *           is trained without a claim. Both are logged.
 * Clock     qr_clock_awake, the time in which the machine ran: after a suspension a worker does not
 *           take over the claims of others that were suspended too.
 * Errors    those of the store, each with the URL.
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
    char holder[33];  /* hex; identifies the worker */
    int64_t lease_ns; /* after this time without a renewal, others may take a claim over */
    const struct qr_clock *clock;
    const struct qr_store_waits *waits; /* NULL: those of the process */
    const struct qr_log *log;           /* NULL: nothing is logged */
};
/* Opens the shared folder; sends no request. */
QR_MUST_CHECK enum qr_code qr_sweep_board_open(const struct qr_sweep_board_options *opt,
                                               struct qr_sweep_board **ret, struct qr_err *err);
void qr_sweep_board_close(struct qr_sweep_board *b); /* NULL is fine */

/* Publishes the swept job, unless one exists.
 *
 * Args:     text   of job.json
 *           ret    receives the text that is published now
 */
QR_MUST_CHECK enum qr_code qr_sweep_board_publish(struct qr_sweep_board *b, struct qr_bytes text,
                                                  struct qr_buf *ret, struct qr_err *err);
/* Deletes job.json, all rows and all claims, of any sweep, and no other file.
 *
 * Errors:   INVALID_ARGUMENT (a folder of the board is a symbolic link; nothing was deleted)
 */
QR_MUST_CHECK enum qr_code qr_sweep_board_delete(struct qr_sweep_board *b, struct qr_err *err);
/* Deletes the claims, once every row exists. Ignores errors. */
void qr_sweep_board_delete_claims(struct qr_sweep_board *b);

/* Fetches the new rows into rows.
 *
 * Errors:   DATA_LOSS (malformed row); INVALID_ARGUMENT (the job hash of a row differs from
 *           rows->hash: its data or version is another one)
 */
QR_MUST_CHECK enum qr_code qr_sweep_board_rows(struct qr_sweep_board *b, struct qr_sweep_rows *rows,
                                               struct qr_err *err);
/* Writes a row; succeeds also when the same row exists.
 *
 * Errors:   INTERNAL (a different row of that trial exists: two workers have different results)
 */
QR_MUST_CHECK enum qr_code qr_sweep_board_add_row(struct qr_sweep_board *b,
                                                  const struct qr_sweep_row *row,
                                                  struct qr_err *err);

/* Tries to claim a trial. *ret_mine: this worker has the claim now. */
QR_MUST_CHECK enum qr_code qr_sweep_board_claim(struct qr_sweep_board *b, size_t rung, size_t trial,
                                                bool *ret_mine, struct qr_err *err);
/* Renews a claim when a fifth of the lease has passed. *ret_mine false: another worker has taken
 * the claim over. */
QR_MUST_CHECK enum qr_code qr_sweep_board_renew(struct qr_sweep_board *b, size_t rung, size_t trial,
                                                bool *ret_mine, struct qr_err *err);
/* Releases a claim for other workers. Ignores errors: the lease expires in any case. */
void qr_sweep_board_release(struct qr_sweep_board *b, size_t rung, size_t trial);
/* Time of the last renewal seen of another worker's claim, by the clock; 0: none. Only renewals
 * count as progress: workers that cannot train could claim and release trials forever. */
int64_t qr_sweep_board_renewal_seen_ns(const struct qr_sweep_board *b);

/* A parsed claim. */
struct qr_sweep_claim {
    char holder[33]; /* "": free */
    uint64_t beat;   /* counter that makes each text of a worker different */
    uint64_t kept;   /* number of renewals */
    int64_t lease_ns;
};
/* Parses a claim. INVALID_ARGUMENT: malformed. */
QR_MUST_CHECK enum qr_code qr_sweep_claim_read(struct qr_bytes text, const char *what,
                                               struct qr_sweep_claim *ret, struct qr_err *err);

#endif
