/* sweep/row.h — the result of one trial (a row), and the functions of all rows: promoted trials,
 * the best trial, the table.
 *
 * Usage     qr_sweep_rows_init; fill rows by qr_sweep_row_of_result or qr_sweep_row_read; then
 *           qr_sweep_rung_trials, qr_sweep_best, qr_sweep_csv; qr_sweep_rows_fini.
 * Pure      A row has no time, host or worker: every worker that computes a trial writes the same
 *           bytes. The table depends on the rows, not on their order of arrival.
 * Order     by the metric, then by the trial's number; trials that failed, or have no such metric,
 *           come last.
 * Format    one line of JSON. Rows are untrusted input: INVALID_ARGUMENT when malformed.
 * Ownership A row owns its texts.
 * Threads   any; one at a time for one struct qr_sweep_rows.
 */
#ifndef QR_SWEEP_ROW_H
#define QR_SWEEP_ROW_H

#include "sweep/sweep.h"

enum { QR_SWEEP_MAX_METRICS = 32 };
struct qr_sweep_metric {
    char name[48];
    double value;
};
struct qr_sweep_row {
    bool there; /* the row exists */
    size_t trial, rung;
    bool failed;
    char *error; /* of a failed trial */
    uint64_t epochs, steps;
    char job_hash[65]; /* "": the trial failed because its keys make no valid job */
    char state_digest[33], weights_sha256[65], safetensors_sha256[65]; /* of a successful trial */
    size_t n_metrics;
    struct qr_sweep_metric metrics[QR_SWEEP_MAX_METRICS];
};
void qr_sweep_row_fini(struct qr_sweep_row *r); /* leaves it all-zero */

/* Makes a row of the text of a run's result.json.
 *
 * Args:     what   name of the file, for messages
 *           ret    caller frees with qr_sweep_row_fini
 * Errors:   DATA_LOSS (malformed)
 */
QR_MUST_CHECK enum qr_code qr_sweep_row_of_result(struct qr_bytes text, const char *what,
                                                  size_t trial, size_t rung,
                                                  struct qr_sweep_row *ret, struct qr_err *err);
void qr_sweep_row_json(const struct qr_sweep_row *r, struct qr_buf *ret); /* appends one line */
/* Writes the key "metrics" and its object. */
void qr_sweep_row_put_metrics(const struct qr_sweep_row *r, struct qr_json_writer *w);
/* Parses such a line.
 *
 * Args:     what   name of the file, for messages
 *           ret    caller frees with qr_sweep_row_fini
 * Errors:   INVALID_ARGUMENT (malformed)
 */
QR_MUST_CHECK enum qr_code qr_sweep_row_read(struct qr_bytes text, const char *what,
                                             struct qr_sweep_row *ret, struct qr_err *err);
/* False when the row has no such metric. */
bool qr_sweep_row_metric(const struct qr_sweep_row *r, const char *name, double *ret);

/* All rows of a sweep: rung r of trial t at [r * n_trials + t]. */
struct qr_sweep_rows {
    const struct qr_sweep_spec *sweep;
    uint64_t seed;      /* of the job */
    const char *metric; /* that ranks the trials */
    bool maximize;
    /* the job hash of each trial, "" when its keys make no valid job with these data; NULL: hashes
     * are not compared */
    const char (*hash)[65];
    struct qr_sweep_row *row;
};
/* Allocates the rows of a sweep, none of which exists yet; borrows s. seed: the job's. */
void qr_sweep_rows_init(struct qr_sweep_rows *rows, const struct qr_sweep_spec *s, uint64_t seed);
void qr_sweep_rows_fini(struct qr_sweep_rows *rows);
/* Borrowed from rows. */
struct qr_sweep_row *qr_sweep_row_at(const struct qr_sweep_rows *rows, size_t rung, size_t trial);
/* Lists the trials of a rung. Requires every row of the previous rungs.
 *
 * Args:     ret   [n_trials], receives the trials by number
 * Returns:  number of trials
 */
size_t qr_sweep_rung_trials(const struct qr_sweep_rows *rows, size_t rung, size_t *ret);
/* True when every row exists. */
bool qr_sweep_complete(const struct qr_sweep_rows *rows);
/* The last row of a trial. *ret_status: "done", "stopped" (not promoted), "failed" or "missing". */
const struct qr_sweep_row *qr_sweep_last_row(const struct qr_sweep_rows *rows, size_t trial,
                                             const char **ret_status);
/* Sorts the trials of the last rung, best first, into ret (n_trials elements). Returns the number
 * of trials that have the metric. */
size_t qr_sweep_best(const struct qr_sweep_rows *rows, size_t *ret);
/* Append the table. Columns of the CSV: trial, status, epochs, steps, the keys, the metrics,
 * state_digest, job_hash, error. */
void qr_sweep_csv(const struct qr_sweep_rows *rows, struct qr_buf *ret);
void qr_sweep_json(const struct qr_sweep_rows *rows, struct qr_buf *ret);

#endif
