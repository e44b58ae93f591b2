/* base/cgroup.h — CPU and memory limits of this process, from the kernel's control groups.
 *
 * What      CPU quota, CPU set and memory limit, of cgroup v2 (unified), v1, or both (hybrid); how
 *           long the quota has stopped the threads; the memory still available; and the number of
 *           processes killed by the OOM killer.
 * Lookup    The process's group comes from /proc/self/cgroup, its mount point from
 *           /proc/self/mountinfo. Limits of parent groups apply too, up to the root of the mount.
 *           A hierarchy mounted at /sys/fs/cgroup always applies, even if the group lies outside of
 *           it (entered from another cgroup namespace) or its place is unknown; a mount elsewhere
 *           applies only if the group lies below it. memory.high counts as a limit, because the
 *           kernel throttles a process above it almost to a halt. Swap does not count as memory.
 * Errors    none: a file that is missing or malformed sets no limit and counts nothing.
 * Cost      about 0.1 ms: /proc and /sys are read at each call. No memory is allocated.
 * Threads   any.
 */
#ifndef QR_BASE_CGROUP_H
#define QR_BASE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/* What a quota did to its group since the group exists: elapsed periods, those in which the quota
 * was used up, and the time in which threads waited for the next period, summed over CPUs. */
struct qr_throttling {
    uint64_t periods, throttled_periods, throttled_ns;
};

/* *_by: the version and the file that set the limit, static ("cgroup v2, cpu.max"); NULL: none. */
struct qr_cgroup {
    double cpus; /* quota; 0: none */
    const char *cpus_by;
    unsigned cpuset; /* number of processors; 0: unknown */
    const char *cpuset_by;
    uint64_t memory_bytes; /* UINT64_MAX: no limit; never 0 */
    const char *memory_by;
    uint64_t memory_left; /* bytes; set by qr_memory_available_under only */
    /* Set by qr_cgroup_read_throttling only: of the group, or the parent group, with the longest
     * throttled time */
    struct qr_throttling throttling;
    bool reads_throttling;
    /* cgroup version whose files exist, even if they set no limit: 1 or 2; 0: none */
    unsigned cpu_version, memory_version;
};

/* Reads the limits of CPU and memory. root is a prefix of each path: "" for this machine. */
void qr_cgroup_read(const char *root, struct qr_cgroup *ret);
/* The same, with ret->throttling. */
void qr_cgroup_read_throttling(const char *root, struct qr_cgroup *ret);

/* Returns the bytes that this process can use now: its resident memory plus the free memory of its
 * cgroups and the machine (with swap), where caches that the kernel can drop count as free. At most
 * `limit`; `limit` when the files do not tell. Check before a large allocation; other processes may
 * still allocate memory afterwards. */
uint64_t qr_memory_available_under(const char *root, uint64_t limit);

/* Number of processes killed by the OOM killer since its counters began, in the group mounted at
 * /sys/fs/cgroup (a container's own) and on the machine; 0 where the kernel does not count. */
struct qr_memory_kills {
    uint64_t group, machine;
};
struct qr_memory_kills qr_memory_kills_under(const char *root);

#endif
