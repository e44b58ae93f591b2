/* tests/bench/figures.h — shared by all benchmarks: clock, order statistics, and one JSON line per
 * case (lines.py has the keys).
 */
#ifndef BENCH_FIGURES_H
#define BENCH_FIGURES_H

#include <dirent.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline int64_t bench_clock_ns(clockid_t which) {
    struct timespec t;
    clock_gettime(which, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}
static inline int64_t bench_now_ns(void) { return bench_clock_ns(CLOCK_MONOTONIC); }
/* Processor time of all threads. */
static inline int64_t bench_cpu_ns(void) { return bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

/* Time that all threads ran or waited for a processor; otherwise they were blocked. */
static inline int64_t bench_busy_ns(void) {
    int64_t sum = 0;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *e; tasks && (e = readdir(tasks));) {
        char path[300];
        long long ran = 0, waited = 0;
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", e->d_name);
        FILE *f = e->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (f && fscanf(f, "%lld %lld", &ran, &waited) == 2) sum += ran + waited;
        if (f) fclose(f);
    }
    if (tasks) closedir(tasks);
    return sum;
}

static inline int bench_ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
/* Median, 10th and 90th percentile of v[n], without interpolation. Sorts v. */
struct bench_spread {
    double median, low, high;
};
static inline struct bench_spread bench_spread(double *v, size_t n) {
    qsort(v, n, sizeof *v, bench_ascending);
    return (struct bench_spread){v[n / 2], v[(n - 1) / 10], v[n - 1 - (n - 1) / 10]};
}

/* One line: open, any of the puts, close. */
static inline void bench_key(const char *key) { printf(", \"%s\": ", key); }
static inline void bench_put(const char *key, const char *text) {
    bench_key(key);
    printf("\"%s\"", text);
}
static inline void bench_put_count(const char *key, double x) {
    bench_key(key);
    printf("%.0f", x);
}
/* Four digits. */
static inline void bench_put_number(const char *key, double x) {
    bench_key(key);
    printf(x >= 1000 ? "%.0f" : "%.4g", x);
}
static inline void bench_open(const char *bench, const char *name) {
    printf("{\"bench\": \"%s\"", bench);
    bench_put("name", name);
    bench_put("who", "qring");
}
static inline void bench_put_ns(struct bench_spread s, size_t runs) {
    bench_put_number("ns", s.median);
    bench_put_number("ns_low", s.low);
    bench_put_number("ns_high", s.high);
    bench_put_count("runs", (double)runs);
}
static inline void bench_close(void) {
    puts("}");
    fflush(stdout);
}

#endif
