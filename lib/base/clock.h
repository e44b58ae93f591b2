/* base/clock.h — time as an argument.
 *
 * Up to train nobody asks the system for the time, but the log for its lines, the link's guard and
 * resolver, and spans while somebody captures them: they are given a clock. Monotonic int64 ns
 * everywhere inside. Tests pass a clock of their own.
 */
#ifndef QR_BASE_CLOCK_H
#define QR_BASE_CLOCK_H

#include <stdint.h>

struct qr_clock {
    int64_t (*now_ns)(void *ctx);
    void *ctx;
};
static inline int64_t qr_now_ns(const struct qr_clock *c) { return c->now_ns(c->ctx); }

/* CLOCK_MONOTONIC. */
extern const struct qr_clock qr_clock_monotonic;
/* CLOCK_REALTIME: for log lines, event files, certificates, metrics and signed requests. */
extern const struct qr_clock qr_clock_wall;
/* Only the time in which this process could run, for waits of seconds and more: one that was
 * stopped, or whose machine was halted, has not used its patience up. What lies between two looks
 * at this clock counts as QR_AWAKE_STRIDE_NS at most, so somebody must look at it often:
 * qr_awake_pulse, at least every second from its first call on. Before that call it is
 * CLOCK_MONOTONIC. It never goes back. Any thread. */
#define QR_AWAKE_STRIDE_NS (2 * QR_SECOND)
extern const struct qr_clock qr_clock_awake;
void qr_awake_pulse(void);
/* Its rule, pure: looks at `ns` of another clock, and says what an awake one shows. Begins
 * as {0}. */
struct qr_awake {
    int64_t looked_ns, asleep_ns;
};
int64_t qr_awake_update(struct qr_awake *a, int64_t ns);

/* When it is until_ns by clock c, it is this by CLOCK_MONOTONIC: for waits of the system, if c does
 * not stand still meanwhile. */
int64_t qr_monotonic_of(const struct qr_clock *c, int64_t until_ns);

/* Waits without use of the processor; for worker, local and tests. */
void qr_sleep_ns(int64_t ns);

/* n bytes from the system's entropy pool (incarnations). Aborts when there is none. */
void qr_entropy(void *ret, uint32_t n);

enum { QR_MS = 1000000, QR_US = 1000 };
#define QR_SECOND INT64_C(1000000000)

#endif
