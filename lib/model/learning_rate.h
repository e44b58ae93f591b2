/* model/learning_rate.h — learning-rate schedules in float64, those of tf-keras 2.18: one row each,
 * from which kinds and names follow.
 *
 * r is the initial rate, n the number of updates done before, d decay_steps (>= 1).
 * constant         r.
 * step             r rate^floor(n / d).
 * exponential      r rate^(n / d); floor with staircase.
 * cosine           r ((1 - alpha) (1 + cos(pi min(n, d) / d)) / 2 + alpha).
 * cosine_restarts  periods of d, d t_mul, d t_mul^2 … updates; x is the elapsed fraction of period
 *                  i: r ((1 - alpha) m_mul^i (1 + cos(pi x)) / 2 + alpha). The update at a period's
 *                  end begins the next one. tf-keras finds i by a quotient of logarithms;
 *                  its rounding may leave that one update in the period before.
 * polynomial       (r - end) (1 - min(n, d) / d)^power + end. cycle: d is its first multiple that
 *                  is not below n instead.
 * piecewise        values[0] while n <= boundaries[0], values[1] while n <= boundaries[1] … r is
 *                  values[0].
 * Warm-up          for any schedule: from + (r - from) n / warmup_steps while n < warmup_steps;
 *                  then the schedule begins, with n from 0 (as tf-keras' CosineDecay with
 *                  warmup_target r).
 * Threads          any (pure functions).
 */
#ifndef QR_MODEL_LEARNING_RATE_H
#define QR_MODEL_LEARNING_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rows.h"

/* Kind, name in job files, rule in learning_rate.c. Hashes contain the kind's number: append new
 * ones. */
#define QR_SCHEDULE_ROWS(ROW)                                                                      \
    ROW(QR_SCHEDULE_CONSTANT, "constant", constant)                                                \
    ROW(QR_SCHEDULE_STEP, "step", step)                                                            \
    ROW(QR_SCHEDULE_EXPONENTIAL, "exponential", exponential)                                       \
    ROW(QR_SCHEDULE_COSINE, "cosine", cosine)                                                      \
    ROW(QR_SCHEDULE_COSINE_RESTARTS, "cosine_restarts", cosine_restarts)                           \
    ROW(QR_SCHEDULE_POLYNOMIAL, "polynomial", polynomial)                                          \
    ROW(QR_SCHEDULE_PIECEWISE, "piecewise", piecewise)

enum qr_schedule_kind { QR_SCHEDULE_ROWS(QR_ROW_KIND) QR_SCHEDULES };
extern const char *const qr_schedule_names[QR_SCHEDULES]; /* "constant" ... as in job files */

enum { QR_RATE_PIECES = 32 };
struct qr_rate_schedule {
    enum qr_schedule_kind kind;
    uint64_t decay_steps; /* COSINE_RESTARTS: of the first period */
    double decay_rate;    /* EXPONENTIAL, STEP (factor) */
    bool staircase;
    double alpha; /* COSINE, COSINE_RESTARTS: final fraction */
    double t_mul,
        m_mul; /* COSINE_RESTARTS: factors from period to period: length (1 to 2^20), rate */
    double end, power; /* POLYNOMIAL */
    bool cycle;
    size_t n_boundaries; /* PIECEWISE: ascending; one value more */
    uint64_t boundaries[QR_RATE_PIECES - 1];
    double values[QR_RATE_PIECES];
    uint64_t warmup_steps;
    double warmup_from;
};
/* Keras' defaults for a constant schedule. */
struct qr_rate_schedule qr_rate_schedule_defaults(void);

/* Lists the job-file keys of a schedule, without warm-up's, which all schedules accept.
 *
 * Args:     ret         QR_SCHEDULE_KEYS entries, static strings
 *           ret_needed  the first *ret_needed have no default
 * Returns:  number of keys
 */
enum { QR_SCHEDULE_KEYS = 5 };
size_t qr_rate_schedule_keys(enum qr_schedule_kind kind, const char *ret[QR_SCHEDULE_KEYS],
                             size_t *ret_needed);

/* Returns the learning rate of an update.
 *
 * Args:     rate  the initial rate
 *           step  number of updates done before
 */
double qr_rate_schedule_at(const struct qr_rate_schedule *s, double rate, uint64_t step);

#endif
