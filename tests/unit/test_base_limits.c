#undef _FORTIFY_SOURCE
/* What a cgroup allows, read from made-up files below a folder of ours: v2, v1, both, and nonsense.
 * What the cpuset allows, also on a machine with more processors than a cpu_set_t holds. How many
 * threads there may be. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/pool.h"
#include "tests/real.h"
#include "tests/t.h"

static char root[] = "/tmp/qring-limits-XXXXXX";
static uint64_t physical;
static unsigned cpus;

static const char *const names[] = {"/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
                                    "/sys/fs/cgroup/cpu/cpu.cfs_period_us",
                                    "/sys/fs/cgroup/memory.max",
                                    "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
enum { V2_CPU, V1_QUOTA, V1_PERIOD, V2_MEMORY, V1_MEMORY };

static void remove_all(void) {
    char path[256];
    for (size_t i = 0; i < COUNT(names); i++) {
        snprintf(path, sizeof path, "%s%s", root, names[i]);
        unlink(path);
    }
}
static void put(int which, const char *text) {
    char path[256];
    struct qr_err err = {0};
    snprintf(path, sizeof path, "%s%s", root, names[which]);
    CHECK(qr_file_replace(path, qr_bytes_of(text, strlen(text)), &err) == QR_OK, "%s", err.msg);
}
static unsigned at_most(unsigned n) { return n < cpus ? n : cpus; }

/* Stands before libc's: a machine of fake_bits processors, all allowed, that refuses a shorter set
 * as the kernel does. */
static size_t fake_bits;
int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set) {
    if (!fake_bits) {
        long n = syscall(SYS_sched_getaffinity, pid, bytes, set);
        if (n < 0) return -1;
        memset((char *)set + n, 0, bytes - (size_t)n);
        return 0;
    }
    if (bytes * 8 < fake_bits) {
        errno = EINVAL;
        return -1;
    }
    memset(set, 0, bytes);
    for (size_t i = 0; i < fake_bits; i++) CPU_SET_S(i, bytes, set);
    return 0;
}

static void many_processors(void) {
    static const size_t n[] = {1, 64, 1024, 1025, 4096, 8192};
    remove_all();
    for (size_t i = 0; i < COUNT(n); i++) {
        fake_bits = n[i];
        unsigned got = qr_cpu_limit_under(root);
        CHECK(got == n[i], "%u processors of %zu", got, n[i]);
    }
    fake_bits = 2048;
    put(V2_CPU, "150000 100000\n");
    CHECK(qr_cpu_limit_under(root) == 2, "the quota holds there too");
    fake_bits = 0;
}

static void processors(void) {
    static const struct {
        const char *v2, *quota, *period;
        unsigned n;
    } row[] = {
        {NULL, NULL, NULL, 0},             /* 0: the cpuset's */
        {"50000 100000\n", NULL, NULL, 1}, /* 500m */
        {"100000 100000\n", NULL, NULL, 1},
        {"150000 100000\n", NULL, NULL, 2},
        {"1000 100000\n", NULL, NULL, 1}, /* 10m */
        {"6400000 100000\n", NULL, NULL, 64},
        {"max 100000\n", NULL, NULL, 0},
        {NULL, "50000\n", "100000\n", 1}, /* v1, 500m */
        {NULL, "110000\n", "100000\n", 2},
        {NULL, "-1\n", "100000\n", 0},
        {"", NULL, NULL, 0},
        {"nonsense\n", NULL, NULL, 0},
        {"50000 0\n", NULL, NULL, 0},
        {NULL, "50000\n", NULL, 0},
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        remove_all();
        if (row[i].v2) put(V2_CPU, row[i].v2);
        if (row[i].quota) put(V1_QUOTA, row[i].quota);
        if (row[i].period) put(V1_PERIOD, row[i].period);
        unsigned want = row[i].n ? at_most(row[i].n) : cpus, got = qr_cpu_limit_under(root);
        CHECK(got == want, "row %zu: %u, not %u", i, got, want);
    }
}

static void memory(void) {
    static const struct {
        const char *v2, *v1;
        uint64_t bytes;
    } row[] = {
        {NULL, NULL, 0}, /* 0: what is there */
        {"67108864\n", NULL, 67108864},
        {"max\n", NULL, 0},
        {NULL, "33554432\n", 33554432},
        {NULL, "9223372036854771712\n", 0},     /* v1 without a limit */
        {"67108864\n", "33554432\n", 33554432}, /* hybrid: the smaller */
        {"99999999999999999999999\n", NULL, 0},
        {"", "x\n", 0},
        {"0\n", NULL, 0},
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        remove_all();
        if (row[i].v2) put(V2_MEMORY, row[i].v2);
        if (row[i].v1) put(V1_MEMORY, row[i].v1);
        uint64_t want = row[i].bytes ? row[i].bytes : physical,
                 got = qr_memory_limit_bytes_under(root);
        CHECK(got == want, "row %zu: %llu, not %llu", i, (unsigned long long)got,
              (unsigned long long)want);
    }
}

/* Stands before libc's: so many threads there are. */
static int threads_left;
int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attr,
                   void *(*body)(void *), void *restrict arg) {
    REAL(pthread_create);
    return threads_left-- > 0 ? real(thread, attr, body, arg) : EAGAIN;
}

struct sum {
    atomic_size_t of_all, strangers;
};
static void add(void *ctx, size_t i, unsigned worker) {
    struct sum *s = ctx;
    if (worker > 3) atomic_fetch_add(&s->strangers, 1); /* CHECK counts for one thread */
    atomic_fetch_add(&s->of_all, i);
}

/* A pool does with the threads that there are. */
static void threads(void) {
    for (int n = 0; n <= 3; n++) {
        struct sum sum = {0};
        threads_left = n;
        struct qr_pool *p = qr_pool_new(8);
        CHECK(qr_pool_size(p) == (unsigned)n + 1, "%u threads of 8, where %d more were given",
              qr_pool_size(p), n);
        qr_pool_for(p, 1000, add, &sum);
        CHECK(atomic_load(&sum.of_all) == 499500 && atomic_load(&sum.strangers) == 0);
        qr_pool_free(p);
    }
}

int main(void) {
    if (!mkdtemp(root)) return 1;
    physical = qr_memory_limit_bytes_under(root); /* no files: the machine's and the cpuset's */
    cpus = qr_cpu_limit_under(root);
    CHECK(physical > 0 && cpus >= 1);
    processors();
    many_processors();
    memory();
    threads();
    remove_all();
    static const char *const folders[] = {
        "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/memory", "/sys/fs/cgroup", "/sys/fs", "/sys", ""};
    char path[256];
    for (size_t i = 0; i < COUNT(folders); i++) {
        snprintf(path, sizeof path, "%s%s", root, folders[i]);
        CHECK(rmdir(path) == 0, "%s", path);
    }
    return t_end();
}
