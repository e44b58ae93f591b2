#include "base/clock.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
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

/* ---- awake ---- */

static struct {
    pthread_mutex_t lock;
    struct qr_awake awake;
    bool pulses;
} own = {.lock = PTHREAD_MUTEX_INITIALIZER};

int64_t qr_awake_update(struct qr_awake *a, int64_t ns) {
    int64_t passed = ns - a->looked_ns;
    if (a->looked_ns && passed > QR_AWAKE_STRIDE_NS) a->asleep_ns += passed - QR_AWAKE_STRIDE_NS;
    if (passed > 0) a->looked_ns = ns;
    return a->looked_ns - a->asleep_ns;
}

/* pulse: somebody looks often from now on. The time is read under the lock, so that it does not
 * go back. */
static int64_t look(bool pulse) {
    pthread_mutex_lock(&own.lock);
    own.pulses = own.pulses || pulse;
    int64_t ns = read_clock(CLOCK_MONOTONIC);
    if (own.pulses) ns = qr_awake_update(&own.awake, ns);
    pthread_mutex_unlock(&own.lock);
    return ns;
}

static int64_t awake_ns(void *ctx) {
    (void)ctx;
    return look(false);
}
void qr_awake_pulse(void) { look(true); }

int64_t qr_monotonic_of(const struct qr_clock *c, int64_t until_ns) {
    int64_t left, now_ns = read_clock(CLOCK_MONOTONIC);
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
