/* base/cgroup.h — what the kernel's control groups let this process use.
 *
 * What      CPU quota, set of processors and memory, of cgroup v2 (unified), v1, or both (hybrid).
 *           The process's group is looked up in /proc/self/cgroup, and where it lies in
 *           /proc/self/mountinfo; the limits of the groups above it count too, up to the root of
 *           what is mounted. What is mounted at /sys/fs/cgroup counts in any case, also where the
 *           group lies outside of it (entered from another cgroup namespace) or nothing says where
 *           it is; a mount elsewhere counts where the group lies below it. memory.high counts as a
 *           limit: who is above it is slowed down until it stands still. Swap does not count as
 *           memory.
 *           What is left of it now, and whether the kernel has ended processes since nothing was.
 * Errors    none: what cannot be read, or has another form, sets no limit and counts nothing.
 * Cost      some 0.1 ms: /proc and /sys are read at each call. No memory is taken.
 */
#ifndef QR_BASE_CGROUP_H
#define QR_BASE_CGROUP_H

#include <stdint.h>

/* by: the version and the file that set it, static ("cgroup v2, cpu.max"); NULL without one. */
struct qr_cgroup {
    double cpus; /* quota; 0: none */
    const char *cpus_by;
    unsigned cpuset; /* number of processors; 0: not told */
    const char *cpuset_by;
    uint64_t memory_bytes; /* UINT64_MAX: no limit; never 0 */
    const char *memory_by;
    uint64_t memory_left; /* by qr_memory_available_under alone */
    /* whose files there are, also where they set nothing: 1 or 2 (v1, v2); 0: none */
    unsigned cpu_version, memory_version;
};

/* root stands before each path: "" is this machine's own. */
void qr_cgroup_read(const char *root, struct qr_cgroup *ret);

/* Bytes that this process may have now: what it has, and what the machine (with its swap) and its
 * cgroups have left, caches that the kernel drops counted as free. At most `limit`, and that where
 * nothing is told. Of use before much is taken; who else takes memory later is not foreseen. */
uint64_t qr_memory_available_under(const char *root, uint64_t limit);

/* Processes that the kernel has ended for lack of memory since it began to count; 0 where it does
 * not: of the group mounted at /sys/fs/cgroup (a container's own), and of the machine. */
struct qr_memory_kills {
    uint64_t group, machine;
};
struct qr_memory_kills qr_memory_kills_under(const char *root);

#endif
