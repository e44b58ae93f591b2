/* model/learning_rate.h — learning-rate schedules in float64, tf-keras 2.18's: one row each, from
 * which
 * kinds and names follow.
 *
 * r is the first rate, n the updates done before, d decay_steps (>= 1).
 * constant         r.
 * step             r rate^floor(n / d).
 * exponential      r rate^(n / d); floor with staircase.
 * cosine           r ((1 - alpha) (1 + cos(pi min(n, d) / d)) / 2 + alpha).
 * cosine_restarts  periods of d, d t_mul, d t_mul^2 … updates; x is the share of period i that is
 *                  over: r ((1 - alpha) m_mul^i (1 + cos(pi x)) / 2 + alpha). The update at a
 *                  period's end begins the next one. tf-keras finds i by a quotient of logarithms,
 *                  whose rounding may leave that one update in the period before.
 * polynomial       (r - end) (1 - min(n, d) / d)^power + end. cycle: d is its first multiple that
 *                  is not below n instead.
 * piecewise        values[0] while n <= boundaries[0], values[1] while n <= boundaries[1] … r is
 *                  values[0].
 * Warm-up          of any: from + (r - from) n / warmup_steps while n < warmup_steps; the schedule
 *                  begins behind it, with n from 0 (as tf-keras' CosineDecay, whose warmup_target
 *                  is r here).
 */
#ifndef QR_MODEL_LEARNING_RATE_H
#define QR_MODEL_LEARNING_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rows.h"

/* Kind, name in job files, its rule in schedule.c. Hashes have the kind's number: a new one comes
 * last. */
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
        m_mul; /* COSINE_RESTARTS: of each period to the one before: length (1 to 2^20), rate */
    double end, power; /* POLYNOMIAL */
    bool cycle;
    size_t n_boundaries; /* PIECEWISE: ascending, and one value more */
    uint64_t boundaries[QR_RATE_PIECES - 1];
    double values[QR_RATE_PIECES];
    uint64_t warmup_steps;
    double warmup_from;
};
/* Keras' defaults, of constant. */
struct qr_rate_schedule qr_rate_schedule_defaults(void);

/* The keys of a job file that it uses, but warm-up's, which all take: ret[QR_SCHEDULE_KEYS],
 * returns how many. The first *ret_needed have no default. */
enum { QR_SCHEDULE_KEYS = 5 };
size_t qr_rate_schedule_keys(enum qr_schedule_kind kind, const char *ret[QR_SCHEDULE_KEYS],
                             size_t *ret_needed);

/* step: updates done before */
double qr_rate_schedule_at(const struct qr_rate_schedule *s, double rate, uint64_t step);

#endif
