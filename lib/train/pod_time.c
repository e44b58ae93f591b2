/* train/pod_time.c — pod-time of a run. Start reading at qr_pod_time_ms(). */
#include "train/pod_time.h"

#include "base/clock.h"

#define BOUND (UINT64_C(1) << 63)
/* 146 years of one pod: twice that still fits in nanoseconds */
#define MAX_MS ((uint64_t)(INT64_MAX / 2 / QR_MS))

static int64_t pod_time_ns(const struct qr_pod_time *s, int64_t now_ns) {
    int64_t ns = now_ns - s->since_ns;
    return s->pod_ns + (ns > 0 ? ns * (int64_t)s->n_members : 0);
}

static void pod_time_settle(struct qr_pod_time *s, int64_t now_ns) {
    s->pod_ns = pod_time_ns(s, now_ns);
    s->since_ns = now_ns;
}

static int64_t ns_from_ms(uint64_t pod_ms) {
    return (int64_t)(pod_ms < MAX_MS ? pod_ms : MAX_MS) * QR_MS;
}

void qr_pod_time_begin(struct qr_pod_time *s, uint64_t pod_ms) {
    *s = (struct qr_pod_time){.pod_ns = ns_from_ms(pod_ms)};
}

uint64_t qr_pod_time_ms(const struct qr_pod_time *s, int64_t now_ns) {
    return (uint64_t)(pod_time_ns(s, now_ns) / QR_MS);
}

void qr_pod_time_set_members(struct qr_pod_time *s, uint32_t n_members, int64_t now_ns) {
    pod_time_settle(s, now_ns);
    s->n_members = n_members;
}

void qr_pod_time_raise(struct qr_pod_time *s, uint64_t pod_ms, int64_t now_ns) {
    if (pod_ms <= qr_pod_time_ms(s, now_ns)) return;
    s->pod_ns = ns_from_ms(pod_ms);
    s->since_ns = now_ns;
}

void qr_pod_time_reset(struct qr_pod_time *s, int64_t now_ns) {
    s->pod_ns = 0;
    s->since_ns = now_ns;
}

qr_fixed qr_pod_time_encode(uint64_t computed_ns, uint64_t pod_ms, bool bound) {
    uint64_t known = pod_ms < MAX_MS ? pod_ms : MAX_MS;
    return qr_fixed_from_count(computed_ns) + (qr_fixed)(known | (bound ? BOUND : 0));
}

struct qr_pod_time_report qr_pod_time_decode(const qr_fixed *by_rank, uint32_t n) {
    struct qr_pod_time_report report = {.bound = n > 0 && ((uint64_t)by_rank[0] & BOUND)};
    for (uint32_t k = 0; k < n; k++) {
        uint64_t known = (uint64_t)by_rank[k] & ~BOUND;
        if (known > report.pod_ms) report.pod_ms = known;
    }
    return report;
}
