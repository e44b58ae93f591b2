/* Files of the kernel's cgroups, a part each (ending with a bar): at least one thread, some memory,
 * never more than the machine has. */
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/pool.h"
#include "tests/fuzz/parts.h"

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
static void clean(void) {
    static const char *const all[] = {"/sys/fs/cgroup/cpu.max",
                                      "/sys/fs/cgroup/memory.max",
                                      "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
                                      "/sys/fs/cgroup/cpu/cpu.cfs_period_us",
                                      "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                                      "/sys/fs/cgroup/cpu",
                                      "/sys/fs/cgroup/memory",
                                      "/sys/fs/cgroup",
                                      "/sys/fs",
                                      "/sys",
                                      ""};
    char path[256];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        snprintf(path, sizeof path, "%s%s", root, all[i]);
        if (i < 5) unlink(path);
        else rmdir(path);
    }
}
static void begin(void) {
    static const char *const folders[] = {"/sys", "/sys/fs", "/sys/fs/cgroup", "/sys/fs/cgroup/cpu",
                                          "/sys/fs/cgroup/memory"};
    char path[256];
    QR_ASSERT(mkdtemp(root) != NULL);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s%s", root, folders[i]);
        QR_ASSERT(mkdir(path, 0700) == 0);
    }
    atexit(clean);
    most_bytes = qr_memory_limit_bytes_under(root);
    most_threads = qr_cpu_limit_under(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const files[] = {"/sys/fs/cgroup/cpu.max", "/sys/fs/cgroup/memory.max",
                                        "/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
                                        "/sys/fs/cgroup/cpu/cpu.cfs_period_us",
                                        "/sys/fs/cgroup/memory/memory.limit_in_bytes"};
    char *part[5] = {0};
    size_t n;
    if (!most_bytes) begin();
    parts_of(data, size, '|', part, 5, &n);
    for (size_t i = 0; i < 5; i++) put(files[i], i < n ? part[i] : NULL);
    uint64_t bytes = qr_memory_limit_bytes_under(root);
    unsigned threads = qr_cpu_limit_under(root);
    QR_ASSERT(bytes >= 1 && bytes <= most_bytes);
    QR_ASSERT(threads >= 1 && threads <= most_threads);
    parts_free(part, n);
    return 0;
}
