/* worker/thread_count.h — the number of threads that a worker should compute with, from the limits
 * of its pod, which may change at any time (Kubernetes resizes pods in place).
 *
 * What      A pure function of readings and times: nothing is read, started or logged here
 *           (worker/resize.c does that), so unit tests run it on virtual time.
 * Rules     1. The number follows the CPU limit, rounded up, once two looks in a row have seen it.
 *           2. A share that is throttled: other processes of the pod use up the quota, so the
 *              kernel stops all threads for a part of each period. Threads beyond the CPUs that the
 *              process gets only wait; their number follows the share. As nothing tells when the
 *              others stop, the number goes back to the limit after HOLD_NS, and each time that
 *              turns out to be too early, after twice that time, up to HOLD_MOST_NS.
 *           3. The number is lowered where the memory limit requires it; if one thread needs more
 *              than the limit, the worker must end before the kernel kills it.
 *           A number set by the user does not change; rule 3 then compares the need of that number.
 * Threads   one at a time.
 */
#ifndef QR_WORKER_THREAD_COUNT_H
#define QR_WORKER_THREAD_COUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/cgroup.h"

/* What one look at the pod has seen. */
struct qr_pod_reading {
    double cpu_limit; /* in CPUs */
    unsigned cpus;    /* the same, rounded up: at least 1 */
    struct qr_throttling throttling;
    int64_t cpu_ns; /* CPU time of this process */
    uint64_t memory_limit;
};

struct qr_thread_count {
    /* Set by the owner before the first look: */
    unsigned fixed;                   /* set by the user; 0: follow the limits */
    uint64_t bytes, bytes_per_thread; /* need: bytes + threads * bytes_per_thread */

    /* Results of a look: */
    unsigned n;
    bool memory_is_short; /* the memory limit is below the need of one thread, or of the fixed */

    /* Inside: */
    unsigned limit, cap; /* settled CPU limit; threads by rule 2, 0: none */
    unsigned n_memory;   /* threads by rule 3 */
    unsigned seen;       /* CPU limit of the last look, since seen_ns */
    int64_t seen_ns, hold_ns, capped_ns, released_ns;
    struct qr_pod_reading last, window; /* of the last look; at the start of the window */
    int64_t window_ns;
    double share; /* CPUs that the process got when the cap was set */
};

/* Updates the number of threads. The first look sets it to the limits at once. */
void qr_thread_count_look(struct qr_thread_count *t, const struct qr_pod_reading *reading,
                          int64_t now_ns);
/* Bytes that n threads need. */
uint64_t qr_thread_count_bytes(const struct qr_thread_count *t, unsigned n);
/* Appends the reason for the number: "CPU limit is 0.5". */
void qr_thread_count_reason(const struct qr_thread_count *t, struct qr_buf *ret);

#endif
