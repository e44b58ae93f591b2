/* Files of the kernel's cgroups and of /proc, one part each (ending with a bar): at least one
 * thread, some memory, never more than the machine has. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/pool.h"
#include "tests/fuzz/parts.h"

/* In the order of an input's parts; "a" is a group in the mounted group. */
static const char *const files[] = {"/sys/fs/cgroup/cpu.max",
                                    "/sys/fs/cgroup/memory.max",
                                    "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
                                    "/sys/fs/cgroup/cpu/cpu.cfs_period_us",
                                    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                                    "/proc/self/cgroup",
                                    "/proc/self/mountinfo",
                                    "/sys/fs/cgroup/memory.high",
                                    "/sys/fs/cgroup/cpuset.cpus.effective",
                                    "/sys/fs/cgroup/cpuset/cpuset.effective_cpus",
                                    "/sys/fs/cgroup/a/cpu.max",
                                    "/sys/fs/cgroup/a/memory.max",
                                    "/sys/fs/cgroup/memory.current",
                                    "/sys/fs/cgroup/memory.stat",
                                    "/sys/fs/cgroup/memory.events",
                                    "/proc/meminfo",
                                    "/proc/vmstat",
                                    "/proc/self/status",
                                    "/sys/fs/cgroup/cpu.stat",
                                    "/sys/fs/cgroup/cpu/cpu.stat"};
static const char *const folders[] = {"/proc",
                                      "/proc/self",
                                      "/sys",
                                      "/sys/fs",
                                      "/sys/fs/cgroup",
                                      "/sys/fs/cgroup/cpu",
                                      "/sys/fs/cgroup/cpuset",
                                      "/sys/fs/cgroup/memory",
                                      "/sys/fs/cgroup/a"};
enum { N_FILES = sizeof files / sizeof *files, N_FOLDERS = sizeof folders / sizeof *folders };
static char root[] = "/tmp/qring-fuzz-cgroup-XXXXXX";
static uint64_t most_bytes;
static unsigned most_threads;

static void put(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s%s", root, name);
    if (!text) {
        unlink(path);
        return;
    }
    FILE *f = fopen(path, "w");
    QR_ASSERT(f != NULL);
    fputs(text, f);
    fclose(f);
}
static void remove_root(void) {
    char path[256];
    for (size_t i = 0; i < N_FILES; i++) put(files[i], NULL);
    for (size_t i = N_FOLDERS; i-- > 0;) {
        snprintf(path, sizeof path, "%s%s", root, folders[i]);
        rmdir(path);
    }
    rmdir(root);
}
static void make_root(void) {
    char path[256];
    QR_ASSERT(mkdtemp(root) != NULL);
    for (size_t i = 0; i < N_FOLDERS; i++) {
        snprintf(path, sizeof path, "%s%s", root, folders[i]);
        QR_ASSERT(mkdir(path, 0700) == 0);
    }
    atexit(remove_root);
    most_bytes = qr_memory_limit_under(root, NULL);
    most_threads = qr_cpu_limit_under(root, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *part[N_FILES] = {0};
    const char *memory_by = NULL, *threads_by = NULL;
    size_t n;
    if (!most_bytes) make_root();
    parts_of(data, size, '|', part, N_FILES, &n);
    for (size_t i = 0; i < N_FILES; i++) put(files[i], i < n ? part[i] : NULL);
    uint64_t bytes = qr_memory_limit_under(root, &memory_by);
    unsigned threads = qr_cpu_limit_under(root, &threads_by);
    QR_ASSERT(bytes >= 1 && bytes <= most_bytes && memory_by);
    QR_ASSERT(threads >= 1 && threads <= most_threads && threads_by);
    QR_ASSERT(qr_memory_available_under(root, bytes) <= bytes);
    (void)qr_memory_kills_under(root);
    struct qr_cgroup c;
    qr_cgroup_read_throttling(root, &c);
    QR_ASSERT(qr_cpu_limit_of(&c, NULL) == threads);
    parts_free(part, n);
    return 0;
}
