/* worker/limits.h — descriptors and threads: as many as this process may have, and a sentence where
 * that is too few; what limits processors and memory.
 *
 * What      gRPC hangs or ends a process that gets no thread, and stops listening for good where it
 *           gets no descriptor. So both are asked for before it starts.
 */
#ifndef QR_WORKER_LIMITS_H
#define QR_WORKER_LIMITS_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"

/* Raises the limit of descriptors to the hard one. UNAVAILABLE when a worker cannot work with what
 * there is. Before other threads; 1 ms. */
QR_MUST_CHECK enum qr_code qr_limits_raise(struct qr_err *err);

/* Appends "2 threads (cgroup v2, cpu.max), 512.0 MiB of memory (cgroup v2, memory.high)": the
 * threads that compute, and the memory there is, each with what it is from. as_set: the number of
 * threads is from a setting. */
void qr_limits_text(unsigned n_threads, bool as_set, struct qr_buf *ret);

#endif
