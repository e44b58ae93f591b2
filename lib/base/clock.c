#include "base/clock.h"

#include <errno.h>
#include <stddef.h>
#include <sys/random.h>
#include <time.h>

#include "base/err.h"

static int64_t read_clock(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * QR_SECOND + t.tv_nsec;
}
static int64_t monotonic_ns(void *ctx) {
    (void)ctx;
    return read_clock(CLOCK_MONOTONIC);
}
static int64_t wall_ns(void *ctx) {
    (void)ctx;
    return read_clock(CLOCK_REALTIME);
}

const struct qr_clock qr_clock_monotonic = {.now_ns = monotonic_ns};
const struct qr_clock qr_clock_wall = {.now_ns = wall_ns};

void qr_sleep_ns(int64_t ns) {
    if (ns <= 0) return;
    struct timespec t = {.tv_sec = ns / QR_SECOND, .tv_nsec = ns % QR_SECOND};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR) {}
}

void qr_entropy(void *ret, uint32_t n) {
    uint8_t *p = ret;
    for (uint32_t got = 0; got < n;) {
        ssize_t k = getrandom(p + got, n - got, 0);
        QR_ASSERT(k > 0 || errno == EINTR);
        if (k > 0) got += (uint32_t)k;
    }
}
