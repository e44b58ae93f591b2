#undef _FORTIFY_SOURCE
/* Cgroup limits, read from files in a test directory: v2, v1, hybrid and malformed; nested groups
 * and all kinds of mounts (tests/cgroups). The cpuset's limit, also with more processors than a
 * cpu_set_t holds. Pools where threads cannot be created. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <glob.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/cgroup.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/pool.h"
#include "tests/real.h"
#include "tests/t.h"

static char root[] = "/tmp/qring-limits-XXXXXX";
static uint64_t physical;
static unsigned cpus;

static const char *const names[] = {"/sys/fs/cgroup/cpu.max",
                                    "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
                                    "/sys/fs/cgroup/cpu/cpu.cfs_period_us",
                                    "/sys/fs/cgroup/cpu.stat",
                                    "/sys/fs/cgroup/cpu/cpu.stat",
                                    "/sys/fs/cgroup/memory.max",
                                    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                                    "/sys/fs/cgroup/memory.current",
                                    "/sys/fs/cgroup/memory.stat",
                                    "/sys/fs/cgroup/memory.events",
                                    "/sys/fs/cgroup/memory/memory.usage_in_bytes",
                                    "/sys/fs/cgroup/memory/memory.stat",
                                    "/sys/fs/cgroup/memory/memory.oom_control",
                                    "/proc/meminfo",
                                    "/proc/vmstat",
                                    "/proc/self/status"};
enum {
    V2_CPU,
    V1_QUOTA,
    V1_PERIOD,
    V2_CPU_STAT,
    V1_CPU_STAT,
    V2_MEMORY,
    V1_MEMORY,
    V2_USED,
    V2_STAT,
    V2_EVENTS,
    V1_USED,
    V1_STAT,
    V1_EVENTS,
    MEMINFO,
    VMSTAT,
    STATUS
};

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

/* Replaces libc's: a machine of fake_bits processors, all allowed, that rejects a shorter set as
 * the kernel does. */
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
        unsigned got = qr_cpu_limit_under(root, NULL);
        CHECK(got == n[i], "%u processors of %zu", got, n[i]);
    }
    fake_bits = 2048;
    put(V2_CPU, "150000 100000\n");
    CHECK(qr_cpu_limit_under(root, NULL) == 2, "the quota applies too");
    fake_bits = 0;
}

static void processors(void) {
    static const struct {
        const char *v2, *quota, *period;
        unsigned n;
    } row[] = {
        {NULL, NULL, NULL, 0},             /* 0: the cpuset's limit */
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
        unsigned want = row[i].n ? at_most(row[i].n) : cpus, got = qr_cpu_limit_under(root, NULL);
        CHECK(got == want, "row %zu: %u, not %u", i, got, want);
    }
}

static void memory(void) {
    static const struct {
        const char *v2, *v1;
        uint64_t bytes;
    } row[] = {
        {NULL, NULL, 0}, /* 0: the machine's memory */
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
                 got = qr_memory_limit_under(root, NULL);
        CHECK(got == want, "row %zu: %llu, not %llu", i, (unsigned long long)got,
              (unsigned long long)want);
    }
}

/* Available memory where other processes use memory of the machine and the cgroup. */
static void available(void) {
    enum { MIB = 1 << 20 };
    static const char stat2[] =
        "anon 1\nfile 3\ninactive_file 10485760\nactive_file 20971520\nfoo 1\n";
    static const char stat1[] = "inactive_file 1\ntotal_inactive_file 10485760\n"
                                "total_active_file 20971520\n";
    static const struct {
        const char *meminfo, *v2, *used2, *stat2, *v1, *used1, *stat1, *status;
        uint64_t bytes;
    } row[] = {
        {NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0}, /* 0: the machine's memory */
        {"MemTotal: 9 kB\nMemAvailable:   65536 kB\nSwapFree: 1024 kB\n", NULL, NULL, NULL, NULL,
         NULL, NULL, NULL, 65 * MIB},
        {"MemAvailable: 65536 kB\n", NULL, NULL, NULL, NULL, NULL, NULL,
         "VmHWM: 9999 kB\nVmRSS:\t    1024 kB\n", 65 * MIB},
        {"XMemAvailable: 5 kB\nMemAvailableX: 6 kB\n", NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0},
        {"MemAvailable: lots\n", NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0},
        {"MemAvailable: 99999999999999999999999 kB\n", NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0},
        {NULL, "104857600", "62914560", stat2, NULL, NULL, NULL, NULL, 70 * MIB},
        {NULL, "104857600", "62914560", stat2, NULL, NULL, NULL, "VmRSS: 10240 kB", 80 * MIB},
        {NULL, "104857600", "62914560", stat2, NULL, NULL, NULL, "VmRSS: 102400 kB", 100 * MIB},
        {"MemAvailable: 1024 kB\n", "104857600", "62914560", stat2, NULL, NULL, NULL, NULL, MIB},
        {NULL, "104857600", "204857600", stat2, NULL, NULL, NULL, "VmRSS: 1024 kB", 1 * MIB},
        {NULL, "104857600", "1", stat2, NULL, NULL, NULL, NULL, 100 * MIB},
        {NULL, "104857600", NULL, stat2, NULL, NULL, NULL, NULL, 100 * MIB},
        {NULL, "104857600", "62914560", NULL, NULL, NULL, NULL, NULL, 100 * MIB},
        {NULL, "max", "62914560", stat2, NULL, NULL, NULL, NULL, 0},
        {NULL, NULL, NULL, NULL, "104857600", "62914560", stat1, NULL, 70 * MIB},
        {NULL, NULL, NULL, NULL, "9223372036854771712", "62914560", stat1, NULL, 0},
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        const char *const text[] = {
            [V2_MEMORY] = row[i].v2,    [V1_MEMORY] = row[i].v1,  [V2_USED] = row[i].used2,
            [V2_STAT] = row[i].stat2,   [V1_USED] = row[i].used1, [V1_STAT] = row[i].stat1,
            [MEMINFO] = row[i].meminfo, [STATUS] = row[i].status};
        remove_all();
        for (size_t k = 0; k < COUNT(text); k++)
            if (text[k]) put((int)k, text[k]);
        uint64_t want = row[i].bytes ? row[i].bytes : physical,
                 got = qr_memory_available_under(root, qr_memory_limit_under(root, NULL));
        CHECK(got == want, "row %zu: %llu, not %llu", i, (unsigned long long)got,
              (unsigned long long)want);
    }
    uint64_t now = qr_memory_available_under("", physical);
    CHECK(now > 0 && now <= physical, "on this machine: %llu", (unsigned long long)now);
}

static void kills(void) {
    static const struct {
        const char *v2, *v1, *vmstat;
        struct qr_memory_kills want;
    } row[] = {
        {NULL, NULL, NULL, {0, 0}},
        {"low 0\noom 7\noom_kill 3\noom_group_kill 0\n", NULL, "nr_x 1\noom_kill 12\n", {3, 12}},
        {NULL, "oom_kill_disable 1\nunder_oom 1\noom_kill 2\n", NULL, {2, 0}},
        {"oom_kill 1\n", "oom_kill 2\n", "oom_kill max", {2, 0}},
        {"oom_kill", "", "oom_kill 99999999999999999999999", {0, 0}},
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        remove_all();
        if (row[i].v2) put(V2_EVENTS, row[i].v2);
        if (row[i].v1) put(V1_EVENTS, row[i].v1);
        if (row[i].vmstat) put(VMSTAT, row[i].vmstat);
        struct qr_memory_kills k = qr_memory_kills_under(root);
        CHECK(k.group == row[i].want.group && k.machine == row[i].want.machine,
              "row %zu: %llu, %llu", i, (unsigned long long)k.group, (unsigned long long)k.machine);
    }
    remove_all();
}

static void throttling(void) {
    static const char v2[] = "usage_usec 9\nnr_periods 40\nnr_throttled 30\nthrottled_usec 7\n",
                      v1[] = "nr_periods 50\nnr_throttled 20\nthrottled_time 7001\n";
    static const struct {
        const char *v2, *v1;
        struct qr_throttling want;
    } row[] = {
        {NULL, NULL, {0, 0, 0}},
        {v2, NULL, {40, 30, 7000}},
        {NULL, v1, {50, 20, 7001}},
        {v2, v1, {50, 20, 7001}}, /* the longer */
        {"nr_periods 40\nnr_throttled 30\n", NULL, {0, 0, 0}},
        {"nr_throttled 30\nthrottled_usec 7\n", NULL, {0, 0, 0}},
        {"nr_periods 40\nthrottled_usec 7\n", NULL, {0, 0, 0}},
        {"nr_periods -1\nnr_throttled 30\nthrottled_usec 7\n", NULL, {0, 0, 0}},
        {"nr_periods 1\nnr_throttled 1\nthrottled_usec 18446744073709551615\n", NULL, {0, 0, 0}},
    };
    for (size_t i = 0; i < COUNT(row); i++) {
        struct qr_cgroup c;
        remove_all();
        put(V2_CPU, "max 100000\n");
        put(V1_QUOTA, "-1\n");
        if (row[i].v2) put(V2_CPU_STAT, row[i].v2);
        if (row[i].v1) put(V1_CPU_STAT, row[i].v1);
        qr_cgroup_read_throttling(root, &c);
        CHECK(memcmp(&c.throttling, &row[i].want, sizeof row[i].want) == 0,
              "row %zu: %llu of %llu periods, %llu ns", i,
              (unsigned long long)c.throttling.throttled_periods,
              (unsigned long long)c.throttling.periods,
              (unsigned long long)c.throttling.throttled_ns);
        qr_cgroup_read(root, &c);
        CHECK(c.throttling.throttled_ns == 0, "row %zu: qr_cgroup_read does not read throttling",
              i);
    }
    remove_all();
}

/* Creates the parent directories of a file. */
static void make_folders(char *path) {
    for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        (void)mkdir(path, 0700);
        *at = '/';
    }
}

/* "threads 2 cgroup v2, cpu.max": a limit and its source; 0: no limit. */
struct limit_source {
    unsigned long long n;
    const char *source;
};
static bool parse_limit(char *line, const char *what, struct limit_source *ret) {
    size_t n = strlen(what);
    if (strncmp(line, what, n) != 0) return false;
    char *end;
    ret->n = strtoull(line + n, &end, 10);
    ret->source = end + 1;
    return true;
}

/* A file of tests/cgroups: the expected limits, then "= PATH" and the lines of each file. */
static void unpack(char *text, struct limit_source *threads, struct limit_source *bytes) {
    FILE *f = NULL;
    for (char *line = text, *end; *line; line = end) {
        end = strchrnul(line, '\n');
        if (*end) *end++ = 0;
        if (line[0] == '=' && line[1] == ' ') {
            char path[4096];
            snprintf(path, sizeof path, "%s%s", root, line + 2);
            make_folders(path);
            if (f) fclose(f);
            f = fopen(path, "w");
            CHECK(f != NULL, "%s", path);
        } else if (f) fprintf(f, "%s\n", line);
        else if (!parse_limit(line, "threads ", threads)) (void)parse_limit(line, "memory ", bytes);
    }
    if (f) fclose(f);
}

/* Replace libc's: call number fail_at fails, and all later ones unless fail_once. */
static long n_calls, fail_at;
static bool fail_once;
static bool fails(void) {
    return fail_at && (++n_calls == fail_at || (n_calls > fail_at && !fail_once));
}
int open(const char *path, int flags, ...) {
    REAL(open);
    MODE_OF(mode, flags);
    return fails() ? (errno = EMFILE, -1) : real(path, flags, mode);
}
ssize_t read(int fd, void *p, size_t n) {
    REAL(read);
    return fails() ? (errno = EIO, -1) : real(fd, p, n);
}

/* A file that cannot be read sets no limit and changes no other limit. */
static void failing(unsigned n_threads, uint64_t n_bytes) {
    for (int once = 0; once < 2; once++) {
        fail_once = once;
        for (long k = 1;; k++) {
            fail_at = k, n_calls = 0;
            unsigned n = qr_cpu_limit_under(root, NULL);
            uint64_t m = qr_memory_limit_under(root, NULL);
            uint64_t left = qr_memory_available_under(root, m);
            struct qr_memory_kills kills = qr_memory_kills_under(root);
            struct qr_cgroup c;
            qr_cgroup_read_throttling(root, &c);
            bool reached = n_calls >= k;
            fail_at = 0;
            CHECK(left <= m && kills.group == 0 && kills.machine == 0, "call %ld fails: %llu left",
                  k, (unsigned long long)left);
            CHECK(c.throttling.throttled_ns == 0 || c.throttling.periods > 0, "call %ld fails", k);
            CHECK(n >= n_threads && n <= 64 && m >= n_bytes && m <= physical,
                  "call %ld fails: %u threads, %llu bytes", k, n, (unsigned long long)m);
            if (!reached) break;
        }
    }
}

static void trees(void) {
    glob_t found;
    CHECK(glob("tests/cgroups/*", 0, NULL, &found) == 0 && found.gl_pathc >= 20);
    char own[sizeof root];
    memcpy(own, root, sizeof root);
    fake_bits = 64;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct limit_source threads = {0}, bytes = {0};
        struct qr_buf text = {0};
        struct qr_err err = {0};
        const char *name = found.gl_pathv[i], *threads_by, *bytes_by;
        char all[] = "/tmp/qring-limits-XXXXXX", gone[64];
        CHECK(mkdtemp(all) && qr_file_read(name, 1 << 20, &text, &err) == QR_OK, "%s", err.msg);
        memcpy(root, all, sizeof root);
        (void)qr_buf_string(&text); /* ends it with NUL */
        unpack((char *)text.p, &threads, &bytes);
        unsigned n = qr_cpu_limit_under(root, &threads_by);
        uint64_t m = qr_memory_limit_under(root, &bytes_by);
        CHECK(threads.source && n == (threads.n ? threads.n : 64) &&
                  !strcmp(threads_by, threads.source),
              "%s: %u threads by %s, not %llu by %s", name, n, threads_by, threads.n,
              threads.source);
        CHECK(bytes.source && m == (bytes.n ? bytes.n : physical) &&
                  !strcmp(bytes_by, bytes.source),
              "%s: %llu bytes by %s, not %llu by %s", name, (unsigned long long)m, bytes_by,
              bytes.n, bytes.source);
        failing(n, m);
        snprintf(gone, sizeof gone, "rm -r %s", all);
        CHECK(system(gone) == 0, "%s", gone);
        qr_buf_free(&text);
    }
    fake_bits = 0;
    memcpy(root, own, sizeof root);
    globfree(&found);
}

/* Replaces libc's: threads_left threads can be created. */
static int threads_left;
int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attr,
                   void *(*body)(void *), void *restrict arg) {
    REAL(pthread_create);
    return threads_left-- > 0 ? real(thread, attr, body, arg) : EAGAIN;
}

struct sum {
    atomic_size_t of_all, bad_worker;
};
static void add(void *ctx, size_t i, unsigned worker) {
    struct sum *s = ctx;
    if (worker > 3) atomic_fetch_add(&s->bad_worker, 1); /* CHECK counts for one thread */
    atomic_fetch_add(&s->of_all, i);
}

/* A pool works with the threads that can be created. */
static void threads(void) {
    for (int n = 0; n <= 3; n++) {
        struct sum sum = {0};
        threads_left = n;
        struct qr_pool *p = qr_pool_new(8);
        CHECK(qr_pool_size(p) == (unsigned)n + 1, "%u threads of 8, with %d that can be created",
              qr_pool_size(p), n);
        qr_pool_for(p, 1000, add, &sum);
        CHECK(atomic_load(&sum.of_all) == 499500 && atomic_load(&sum.bad_worker) == 0);
        qr_pool_resize(p, 1);
        threads_left = n;
        qr_pool_resize(p, 4);
        CHECK(qr_pool_size(p) == (unsigned)n + 1, "%u threads of 4 after a resize",
              qr_pool_size(p));
        qr_pool_for(p, 1000, add, &sum);
        CHECK(atomic_load(&sum.of_all) == 999000 && atomic_load(&sum.bad_worker) == 0);
        qr_pool_free(p);
    }
}

int main(void) {
    if (!mkdtemp(root)) return 1;
    physical = qr_memory_limit_under(root, NULL); /* no files: the machine's and the cpuset's */
    cpus = qr_cpu_limit_under(root, NULL);
    CHECK(physical > 0 && cpus >= 1);
    processors();
    many_processors();
    memory();
    available();
    kills();
    throttling();
    trees();
    threads();
    remove_all();
    static const char *const folders[] = {"/sys/fs/cgroup/cpu",
                                          "/sys/fs/cgroup/memory",
                                          "/sys/fs/cgroup",
                                          "/sys/fs",
                                          "/sys",
                                          "/proc/self",
                                          "/proc",
                                          ""};
    char path[256];
    for (size_t i = 0; i < COUNT(folders); i++) {
        snprintf(path, sizeof path, "%s%s", root, folders[i]);
        CHECK(rmdir(path) == 0, "%s", path);
    }
    return t_end();
}
