/* base/clock.h — time as an argument.
 *
 * Nobody below worker asks the system for the time; they are given a clock. Monotonic int64
 * nanoseconds everywhere inside. Tests pass a clock of their own.
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
/* CLOCK_REALTIME: only for log lines and event files. */
extern const struct qr_clock qr_clock_wall;
/* Waits without use of the processor; for worker, local and tests. */
void qr_sleep_ns(int64_t ns);

/* n bytes from the system's entropy pool (incarnations). Aborts when there is none. */
void qr_entropy(void *ret, uint32_t n);

enum { QR_MS = 1000000, QR_US = 1000 };
#define QR_SECOND INT64_C(1000000000)

#endif
