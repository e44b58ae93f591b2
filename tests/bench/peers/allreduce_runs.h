/* tests/bench/peers/allreduce_runs.h — how often an all-reduce is timed and what is printed of it:
 * the same for ours and the peers'. */
#ifndef QR_TESTS_BENCH_ALLREDUCE_RUNS_H
#define QR_TESTS_BENCH_ALLREDUCE_RUNS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

enum { WARM_UP = 5, MOST_RUNS = 301 };

static inline int runs_of(size_t bytes) {
    return bytes <= 16 << 10 ? 301 : bytes <= 256 << 10 ? 101 : bytes <= 1 << 20 ? 41 : 9;
}

static inline int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* What this process has used of the processors, with all its threads, and how often it let go
 * of one. */
struct used {
    int64_t cpu_ns, switches;
};
static inline struct used used_so_far(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    int64_t us = (int64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 + u.ru_utime.tv_usec +
                 u.ru_stime.tv_usec;
    struct used used = {us * 1000, u.ru_nvcsw + u.ru_nivcsw};
    return used;
}

static inline int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static inline void print_line(const char *who, int ranks, size_t bytes, const char *schedule,
                              int64_t *ns, int runs, struct used before) {
    struct used now = used_so_far();
    qsort(ns, (size_t)runs, sizeof ns[0], by_value);
    printf("{\"bench\": \"allreduce\", \"who\": \"%s\", \"ranks\": %d, \"bytes\": %zu, "
           "\"schedule\": \"%s\", \"ns\": %lld, \"ns_low\": %lld, "
           "\"ns_high\": %lld, \"runs\": %d, \"cpu_ns\": %lld, \"switches\": %.2f}\n",
           who, ranks, bytes, schedule, (long long)ns[runs / 2], (long long)ns[runs / 10],
           (long long)ns[runs - 1 - runs / 10], runs,
           (long long)(now.cpu_ns - before.cpu_ns) / runs,
           (double)(now.switches - before.switches) / runs);
    fflush(stdout);
}

#endif
