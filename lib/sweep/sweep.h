/* sweep/sweep.h — the `sweep` object of a job: which keys take which values, and so the list of
 * trials.
 *
 * Pure      trial t's values follow from the object, a seed and t alone (sweep.md). Nothing here
 *           knows who trains them.
 * Grid      every combination of the lists, the last key fastest. Random ("trials"): each value is
 *           drawn by its own counter, so that more trials begin with the same ones.
 * Ownership a sweep owns all that it points to.
 */
#ifndef QR_SWEEP_SWEEP_H
#define QR_SWEEP_SWEEP_H

#include "format/json.h"

enum { QR_SWEEP_MAX_TRIALS = 4096, QR_SWEEP_MAX_KEYS = 32, QR_SWEEP_MAX_RUNGS = 16 };

enum qr_sweep_kind { QR_SWEEP_LIST, QR_SWEEP_UNIFORM, QR_SWEEP_LOG_UNIFORM, QR_SWEEP_INTEGER };

struct qr_sweep_key {
    char *path; /* as --set takes it */
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
    bool has_seed; /* else the job's counts */
    uint64_t seed;
    char *metric; /* NULL: val_loss where there are validation samples, else loss */
    /* mode: 0 by the metric, 1 the smaller is better, 2 the larger */
    int mode;
    /* successive halving: rung r trains to epochs[r] epochs, and the best of them, one in `factor`,
     * go on. n_rungs 1: none; then epochs[0] is 0, the job's */
    size_t n_rungs;
    uint64_t epochs[QR_SWEEP_MAX_RUNGS];
    uint64_t factor;
};

/* INVALID_ARGUMENT names the path of what is wrong ("sweep.keys.train.epochs[1]"). */
QR_MUST_CHECK enum qr_code qr_sweep_read(const struct qr_json *o, struct qr_sweep_spec **ret,
                                         struct qr_err *err);
void qr_sweep_free(struct qr_sweep_spec *s); /* NULL is fine */

/* The JSON text of a key's value in a trial. seed: the sweep's own, or the job's. */
void qr_sweep_value(const struct qr_sweep_spec *s, uint64_t seed, size_t trial, size_t key,
                    struct qr_buf *ret);
/* How many of n trials go on from a rung: the n / factor best, rounded up. */
size_t qr_sweep_promoted(const struct qr_sweep_spec *s, size_t n);
/* "12 trials: a grid of 2 keys (train.epochs, seed)", for people. */
void qr_sweep_describe(const struct qr_sweep_spec *s, struct qr_buf *ret);

#endif
