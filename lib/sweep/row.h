/* sweep/row.h — what one trial came to, as it is kept, and what follows from all of them: who goes
 * on, who is best, the table.
 *
 * Pure      no time, host or worker stands in a row: whoever computed a trial wrote these bytes.
 *           The table follows from the rows, whatever their order of arrival.
 * Order     by the metric, then by the trial's number; trials that failed, or have no such metric,
 *           come last.
 * Bytes     a row is one line of JSON. Reading takes it from outside: INVALID_ARGUMENT for what is
 *           none.
 * Ownership a row owns its texts.
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
    bool there;
    size_t trial, rung;
    bool failed;
    char *error; /* of one that failed */
    uint64_t epochs, steps;
    char job_hash[65]; /* "": none, of one that failed since no job could be made of its keys */
    char state_digest[33], weights_sha256[65], safetensors_sha256[65]; /* of one that did not */
    size_t n_metrics;
    struct qr_sweep_metric metrics[QR_SWEEP_MAX_METRICS];
};
void qr_sweep_row_fini(struct qr_sweep_row *r); /* leaves it all-zero */

/* From the text of a run's result.json. DATA_LOSS: it is none. */
QR_MUST_CHECK enum qr_code qr_sweep_row_of_result(struct qr_bytes text, const char *what,
                                                  size_t trial, size_t rung,
                                                  struct qr_sweep_row *ret, struct qr_err *err);
void qr_sweep_row_json(const struct qr_sweep_row *r, struct qr_buf *ret);
QR_MUST_CHECK enum qr_code qr_sweep_row_read(struct qr_bytes text, const char *what,
                                             struct qr_sweep_row *ret, struct qr_err *err);
/* False: it has no such metric. */
bool qr_sweep_row_metric(const struct qr_sweep_row *r, const char *name, double *ret);

/* All rows of a sweep: rung r of trial t at [r * n_trials + t]. */
struct qr_sweep_rows {
    const struct qr_sweep_spec *sweep;
    uint64_t seed;      /* of the job */
    const char *metric; /* that counts */
    bool maximize;
    /* the job hash of each trial, "" where its keys make no job with these data; NULL: rows are not
     * compared with it */
    const char (*hash)[65];
    struct qr_sweep_row *row;
};
void qr_sweep_rows_init(struct qr_sweep_rows *rows, const struct qr_sweep_spec *s, uint64_t seed);
void qr_sweep_rows_fini(struct qr_sweep_rows *rows);
struct qr_sweep_row *qr_sweep_row_at(const struct qr_sweep_rows *rows, size_t rung, size_t trial);
/* The trials of a rung, by number; every row of the rungs before it is there. ret has n_trials
 * places. How many. */
size_t qr_sweep_rung_trials(const struct qr_sweep_rows *rows, size_t rung, size_t *ret);
/* Every row is there. */
bool qr_sweep_complete(const struct qr_sweep_rows *rows);
/* The last row of a trial, and whether it went on to the end. */
const struct qr_sweep_row *qr_sweep_last_row(const struct qr_sweep_rows *rows, size_t trial,
                                             const char **ret_status);
/* Of the last rung, best first; ret has n_trials places. How many have the metric. */
size_t qr_sweep_best(const struct qr_sweep_rows *rows, size_t *ret);
/* By trial: trial, status, epochs, steps, the keys, the metrics, state_digest, job_hash, error. */
void qr_sweep_csv(const struct qr_sweep_rows *rows, struct qr_buf *ret);
void qr_sweep_json(const struct qr_sweep_rows *rows, struct qr_buf *ret);

#endif
