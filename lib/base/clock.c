/* base/clock.c — the system's clocks, the clock that stops while the process cannot run, sleep and
 * entropy. Start reading at qr_awake_update(). */
#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/random.h>
#include <time.h>

#include "base/err.h"

static int64_t clock_read(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * QR_SECOND + t.tv_nsec;
}
static int64_t monotonic_ns(void *ctx) {
    (void)ctx;
    return clock_read(CLOCK_MONOTONIC);
}
static int64_t wall_ns(void *ctx) {
    (void)ctx;
    return clock_read(CLOCK_REALTIME);
}

/* ---- awake ---- */

static struct {
    pthread_mutex_t lock;
    struct qr_awake awake;
    bool pulses;
} process_clock = {.lock = PTHREAD_MUTEX_INITIALIZER};

int64_t qr_awake_update(struct qr_awake *a, int64_t ns) {
    int64_t passed = ns - a->looked_ns;
    if (a->looked_ns && passed > QR_AWAKE_STRIDE_NS) a->asleep_ns += passed - QR_AWAKE_STRIDE_NS;
    if (passed > 0) a->looked_ns = ns;
    return a->looked_ns - a->asleep_ns;
}

/* pulse: regular reads begin, so the clock starts to count awake time only. The time is read under
 * the lock, so that the clock does not go back. */
static int64_t awake_read(bool pulse) {
    pthread_mutex_lock(&process_clock.lock);
    process_clock.pulses = process_clock.pulses || pulse;
    int64_t ns = clock_read(CLOCK_MONOTONIC);
    if (process_clock.pulses) ns = qr_awake_update(&process_clock.awake, ns);
    pthread_mutex_unlock(&process_clock.lock);
    return ns;
}

static int64_t awake_ns(void *ctx) {
    (void)ctx;
    return awake_read(false);
}
void qr_awake_pulse(void) { awake_read(true); }

int64_t qr_monotonic_of(const struct qr_clock *c, int64_t until_ns) {
    int64_t left, now_ns = clock_read(CLOCK_MONOTONIC);
    bool never = __builtin_sub_overflow(until_ns, qr_now_ns(c), &left) || left > INT64_MAX - now_ns;
    return never ? INT64_MAX : now_ns + left;
}

const struct qr_clock qr_clock_awake = {.now_ns = awake_ns};
const struct qr_clock qr_clock_monotonic = {.now_ns = monotonic_ns};
const struct qr_clock qr_clock_wall = {.now_ns = wall_ns};

void qr_sleep_ns(int64_t ns) {
    if (ns <= 0) return;
    struct timespec t = {.tv_sec = ns / QR_SECOND, .tv_nsec = ns % QR_SECOND};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR) {
    }
}

void qr_entropy(void *ret, uint32_t n) {
    uint8_t *p = ret;
    for (uint32_t got = 0; got < n;) {
        ssize_t k = getrandom(p + got, n - got, 0);
        QR_ASSERT(k > 0 || errno == EINTR);
        if (k > 0) got += (uint32_t)k;
    }
}
