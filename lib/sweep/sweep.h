/* sweep/sweep.h — the `sweep` object of a job: the values of its keys, and so the list of trials.
 *
 * Usage     qr_sweep_read; qr_sweep_value for each trial and key; qr_sweep_free.
 * Pure      The values of trial t depend on the object, a seed and t alone (sweep.md), not on the
 *           workers.
 * Grid      Every combination of the lists, the last key fastest.
 * Random    ("trials") Each value is drawn by its own counter, so a longer sweep begins with the
 *           trials of a shorter one.
 * Ownership A sweep owns all that it points to.
 * Threads   any.
 */
#ifndef QR_SWEEP_SWEEP_H
#define QR_SWEEP_SWEEP_H

#include "format/json.h"

enum { QR_SWEEP_MAX_TRIALS = 4096, QR_SWEEP_MAX_KEYS = 32, QR_SWEEP_MAX_RUNGS = 16 };

enum qr_sweep_kind { QR_SWEEP_LIST, QR_SWEEP_UNIFORM, QR_SWEEP_LOG_UNIFORM, QR_SWEEP_INTEGER };

struct qr_sweep_key {
    char *path; /* in the form of --set */
    enum qr_sweep_kind kind;
    size_t n_values;
    char **values;       /* JSON texts of a list */
    double low, high;    /* of uniform, log_uniform; inclusive */
    int64_t first, last; /* of integer; inclusive */
};

struct qr_sweep_spec {
    size_t n_keys;
    struct qr_sweep_key *keys;
    bool random; /* drawn, not a grid */
    size_t n_trials;
    bool has_seed; /* false: the job's seed is used */
    uint64_t seed;
    char *metric; /* NULL: val_loss when there are validation samples, else loss */
    /* mode: 0 depends on the metric, 1 smaller is better, 2 larger is better */
    int mode;
    /* successive halving: rung r trains to epochs[r] epochs, and the best 1/factor of its trials
     * are promoted. n_rungs 1: no halving; then epochs[0] is 0, which means the job's */
    size_t n_rungs;
    uint64_t epochs[QR_SWEEP_MAX_RUNGS];
    uint64_t factor;
};

/* Parses a sweep object. INVALID_ARGUMENT: the message begins with the path of the wrong value
 * ("sweep.keys.train.epochs[1]"). */
QR_MUST_CHECK enum qr_code qr_sweep_read(const struct qr_json *o, struct qr_sweep_spec **ret,
                                         struct qr_err *err);
void qr_sweep_free(struct qr_sweep_spec *s); /* NULL is fine */

/* Appends the JSON text of a key's value in a trial. seed: the job's, used when the sweep has
 * none. */
void qr_sweep_value(const struct qr_sweep_spec *s, uint64_t seed, size_t trial, size_t key,
                    struct qr_buf *ret);
/* Number of trials that are promoted from a rung of n: n / factor, rounded up. */
size_t qr_sweep_promoted(const struct qr_sweep_spec *s, size_t n);
/* Appends a description: "12 trials: a grid of 2 keys (train.epochs, seed)". */
void qr_sweep_describe(const struct qr_sweep_spec *s, struct qr_buf *ret);

#endif
