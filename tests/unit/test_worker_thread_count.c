/* The number of threads of a worker whose pod is resized or throttled, on virtual time: it adapts
 * soon and does not flap. */
#include "worker/thread_count.h"

#include <string.h>

#include "base/clock.h"
#include "tests/t.h"

static const int64_t sample_ns = 500 * QR_MS;

/* A pod with one quota for this process and for busy threads of others. */
struct pod {
    struct qr_thread_count count;
    struct qr_pod_reading reading;
    double others;  /* busy threads beside this process */
    double waiting; /* part of the time in which this process waits for peers */
    int64_t now_ns;
    unsigned changes;
};

static struct pod pod_new(double cpu_limit, uint64_t memory) {
    struct pod p = {.reading = {.cpu_limit = cpu_limit,
                                .cpus = (unsigned)cpu_limit + ((unsigned)cpu_limit < cpu_limit),
                                .memory_limit = memory},
                    .count = {.bytes = 1000, .bytes_per_thread = 100}};
    qr_thread_count_look(&p.count, &p.reading, p.now_ns);
    return p;
}

static void pod_resize(struct pod *p, double cpu_limit) {
    p->reading.cpu_limit = cpu_limit;
    p->reading.cpus = (unsigned)cpu_limit + ((unsigned)cpu_limit < cpu_limit);
}

/* Half a second of the kernel's accounting, then a sample. */
static void pod_sample(struct pod *p) {
    struct qr_pod_reading *r = &p->reading;
    double want = p->count.n * (1 - p->waiting), all = want + p->others;
    double part = all > r->cpu_limit ? r->cpu_limit / all : 1;
    unsigned before = p->count.n;
    p->now_ns += sample_ns;
    r->cpu_ns += (int64_t)(want * part * (double)sample_ns);
    r->throttling.periods += 5;
    r->throttling.throttled_periods += part < 1 ? 5 : 0;
    r->throttling.throttled_ns +=
        (uint64_t)((1 - part) * (p->count.n + p->others) * (double)sample_ns);
    qr_thread_count_look(&p->count, r, p->now_ns);
    p->changes += p->count.n != before;
}

/* Seconds until n threads compute; -1 after a minute without. */
static double seconds_until(struct pod *p, unsigned n) {
    int64_t began_ns = p->now_ns;
    while (p->count.n != n && p->now_ns - began_ns < 60 * QR_SECOND) pod_sample(p);
    return p->count.n == n ? (double)(p->now_ns - began_ns) / 1e9 : -1;
}

static void check_reason(const struct pod *p, const char *want) {
    struct qr_buf text = {0};
    qr_thread_count_reason(&p->count, &text);
    CHECK(strcmp(qr_buf_string(&text), want) == 0, "%s, not %s", qr_buf_string(&text), want);
    qr_buf_free(&text);
}

static void test_limits(void) {
    static const struct {
        double limit;
        unsigned n;
        const char *reason;
    } row[] = {
        {2, 2, "CPU limit is 2"},       {0.5, 1, "CPU limit is 0.5"},
        {64, 64, "CPU limit is 64"},    {1.5, 2, "CPU limit is 1.5"},
        {1, 1, "CPU limit is 1"},       {0.01, 1, "CPU limit is 0.01"},
        {7.25, 8, "CPU limit is 7.25"},
    };
    struct pod p = pod_new(0.5, UINT64_MAX);
    CHECK(p.count.n == 1 && !p.count.memory_is_short);
    for (size_t i = 0; i < COUNT(row); i++) {
        pod_resize(&p, row[i].limit);
        double took = seconds_until(&p, row[i].n);
        CHECK(took >= 0 && took <= 1, "row %zu: %u threads after %g s", i, p.count.n, took);
        for (int k = 0; k < 200; k++) pod_sample(&p);
        CHECK(p.count.n == row[i].n, "row %zu: %u threads", i, p.count.n);
        check_reason(&p, row[i].reason);
    }
    /* 0.5, 1 and 0.01 CPUs give the same number */
    CHECK(p.changes == 6, "%u changes", p.changes);
}

/* A limit that lasts for only one sample changes nothing. */
static void test_flicker(void) {
    struct pod p = pod_new(4, UINT64_MAX);
    for (int k = 0; k < 100; k++) {
        pod_resize(&p, k % 2 ? 4 : 1);
        p.now_ns += sample_ns;
        qr_thread_count_look(&p.count, &p.reading, p.now_ns);
        CHECK(p.count.n == 4, "sample %d: %u threads", k, p.count.n);
    }
}

static void test_share(void) {
    struct pod p = pod_new(4, UINT64_MAX);
    for (int k = 0; k < 100; k++) pod_sample(&p);
    CHECK(p.count.n == 4, "alone: %u threads", p.count.n);
    p.others = 4;
    double took = seconds_until(&p, 2);
    CHECK(took >= 0 && took <= 2, "half of 4 CPUs: %u threads after %g s", p.count.n, took);
    check_reason(&p, "CPU share is 2 of a limit of 4");
    /* Ten minutes: a trial after 10, 20, 40, 80, 160 and 320 s, each of two changes. */
    p.changes = 0;
    for (int k = 0; k < 1200; k++) pod_sample(&p);
    CHECK(p.changes >= 8 && p.changes <= 14, "%u changes in ten minutes", p.changes);
    p.others = 0;
    for (int k = 0; k < 700; k++) pod_sample(&p);
    CHECK(p.count.n == 4, "alone again: %u threads", p.count.n);
    p.changes = 0;
    for (int k = 0; k < 1200; k++) pod_sample(&p);
    CHECK(p.changes == 0, "%u changes alone", p.changes);
    /* The intervals start again: back after 10 s. */
    p.others = 4;
    CHECK(seconds_until(&p, 2) <= 2);
    p.others = 0;
    took = seconds_until(&p, 4);
    CHECK(took >= 9 && took <= 12, "after %g s", took);
    /* A resize restores the full number. */
    p.others = 4;
    CHECK(seconds_until(&p, 2) <= 2);
    p.others = 0;
    pod_resize(&p, 6);
    CHECK(seconds_until(&p, 6) <= 1);
}

/* No fewer threads than the fair share: where the own threads use up a limit that is not whole, and
 * where they wait for peers and use up the quota only now and then. */
static void test_fair_share(void) {
    static const struct {
        double limit, others, waiting;
        unsigned n;
    } row[] = {
        {1.5, 0, 0, 2}, {2.2, 0, 0, 3},   {4, 0, 0, 4},    {4, 0, 0.75, 4}, {4, 1, 0, 4},
        {4, 2, 0, 3},   {4, 0.5, 0.2, 4}, {0.25, 0, 0, 1}, {0.25, 8, 0, 1},
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        struct pod p = pod_new(row[i].limit, UINT64_MAX);
        p.others = row[i].others;
        p.waiting = row[i].waiting;
        for (int k = 0; k < 8; k++) pod_sample(&p);
        CHECK(p.count.n == row[i].n, "row %zu: %u threads, not %u", i, p.count.n, row[i].n);
    }
    struct pod p = pod_new(4, UINT64_MAX);
    p.waiting = 0.5;
    for (int k = 0; k < 20; k++) {
        p.reading.throttling.throttled_periods += k % 2 ? 5 : 0; /* short bursts */
        p.reading.throttling.throttled_ns += 20 * (uint64_t)QR_MS;
        pod_sample(&p);
    }
    CHECK(p.count.n == 4, "bursts: %u threads", p.count.n);
}

/* Counts go back, as when another parent group has been throttled for longer than the one read
 * before: their difference is ignored. */
static void test_counts_go_back(void) {
    static const struct qr_throttling row[] = {
        {1000, 900, 50000000000}, {500, 100, 51000000000}, {500, 90, 52000000000}, {900, 600, 1}};
    struct pod p = pod_new(4, UINT64_MAX);
    p.count.window.throttling = row[0];
    for (size_t k = 1; k < COUNT(row); k++) {
        p.reading.throttling = row[k];
        p.now_ns += 2 * sample_ns;
        qr_thread_count_look(&p.count, &p.reading, p.now_ns);
        CHECK(p.count.n == 4, "sample %zu: %u threads", k, p.count.n);
    }
}

static void test_memory(void) {
    struct pod p = pod_new(8, 1800);
    CHECK(p.count.n == 8 && !p.count.memory_is_short, "%u threads", p.count.n);
    p.reading.memory_limit = 1799;
    pod_sample(&p);
    CHECK(p.count.n == 7 && !p.count.memory_is_short, "%u threads", p.count.n);
    check_reason(&p, "memory limit is 1799 bytes");
    p.reading.memory_limit = 1100;
    pod_sample(&p);
    CHECK(p.count.n == 1 && !p.count.memory_is_short, "%u threads", p.count.n);
    p.reading.memory_limit = 1099;
    pod_sample(&p);
    CHECK(p.count.n == 1 && p.count.memory_is_short);
    CHECK(qr_thread_count_bytes(&p.count, 1) == 1100 && qr_thread_count_bytes(&p.count, 8) == 1800);
    p.reading.memory_limit = UINT64_MAX;
    pod_sample(&p);
    CHECK(p.count.n == 8 && !p.count.memory_is_short, "%u threads", p.count.n);
    p.count.bytes = UINT64_MAX - 50;
    pod_sample(&p);
    CHECK(qr_thread_count_bytes(&p.count, 1) == UINT64_MAX && !p.count.memory_is_short);
}

static void test_fixed(void) {
    struct pod p = pod_new(8, 1800);
    p.count.fixed = 3;
    for (int k = 0; k < 20; k++) {
        pod_resize(&p, k % 8 + 1);
        p.others = k;
        pod_sample(&p);
        CHECK(p.count.n == 3, "%u threads", p.count.n);
    }
    p.reading.memory_limit = 1300;
    pod_sample(&p);
    CHECK(p.count.n == 3 && !p.count.memory_is_short);
    p.reading.memory_limit = 1299;
    pod_sample(&p);
    CHECK(p.count.n == 3 && p.count.memory_is_short);
}

int main(void) {
    test_limits();
    test_flicker();
    test_share();
    test_fair_share();
    test_counts_go_back();
    test_memory();
    test_fixed();
    return t_end();
}
