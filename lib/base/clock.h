/* base/clock.h — time as an argument.
 *
 * What      Components up to train take a clock as an argument instead of reading the system time,
 *           so that tests can pass their own. Exceptions: the log (time stamps), the link's guard
 *           and resolver, and spans during a capture. Times are monotonic int64 nanoseconds.
 * Errors    none.
 * Threads   any, unless stated.
 */
#ifndef QR_BASE_CLOCK_H
#define QR_BASE_CLOCK_H

#include <stdint.h>

struct qr_clock {
    int64_t (*now_ns)(void *ctx);
    void *ctx;
};
static inline int64_t qr_now_ns(const struct qr_clock *c) { return c->now_ns(c->ctx); }

extern const struct qr_clock qr_clock_monotonic; /* CLOCK_MONOTONIC */
/* CLOCK_REALTIME: for log lines, event files, certificates, metrics and signed requests. */
extern const struct qr_clock qr_clock_wall;
/* Counts only the time in which this process could run, for timeouts of seconds and more: a timeout
 * must not expire because the process was stopped or its machine suspended. The time between two
 * reads of this clock counts as QR_AWAKE_STRIDE_NS at most, so one thread must call qr_awake_pulse
 * at least every second from the first call on. Before the first call the clock equals
 * CLOCK_MONOTONIC. The clock never goes back. */
#define QR_AWAKE_STRIDE_NS (2 * QR_SECOND)
extern const struct qr_clock qr_clock_awake;
void qr_awake_pulse(void);
/* The rule of qr_clock_awake as a pure function: takes a reading `ns` of another clock and returns
 * what the awake clock shows. The initial state is {0}. */
struct qr_awake {
    int64_t looked_ns; /* last reading */
    int64_t asleep_ns; /* time not counted so far */
};
int64_t qr_awake_update(struct qr_awake *a, int64_t ns);

/* Converts the time until_ns of clock c to CLOCK_MONOTONIC, for the timeout of a system call.
 * INT64_MAX when the time cannot be represented. Assumes that c does not stop in between. */
int64_t qr_monotonic_of(const struct qr_clock *c, int64_t until_ns);

/* Sleeps; returns at once when ns <= 0. For worker, local and tests. */
void qr_sleep_ns(int64_t ns);

/* Fills ret with n bytes of the system's entropy pool (incarnations). Aborts when the system has no
 * entropy. */
void qr_entropy(void *ret, uint32_t n);

enum { QR_MS = 1000000, QR_US = 1000 };
#define QR_SECOND INT64_C(1000000000)

#endif
