/* worker/limits.h — limits of descriptors and threads, checked early; limits of processors and
 * memory, for the log.
 *
 * What      gRPC hangs or aborts a process that gets no thread, and stops listening for good when
 *           it gets no descriptor. So both are tried before it starts.
 * Threads   the main thread.
 */
#ifndef QR_WORKER_LIMITS_H
#define QR_WORKER_LIMITS_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/err.h"

/* Raises the limit of descriptors to the hard limit, and tries the threads that a worker needs.
 * Call before other threads exist; 1 ms.
 *
 * Errors:   UNAVAILABLE: the limits are too low (the message has the numbers and the limit to
 *           raise)
 */
QR_MUST_CHECK enum qr_code qr_limits_raise(struct qr_err *err);

/* Appends "2 threads (cgroup v2, cpu.max), 512.0 MiB of memory (cgroup v2, memory.high)": the
 * number of computing threads and the available memory, each with its source. as_set: the number of
 * threads is a setting's. */
void qr_limits_text(unsigned n_threads, bool as_set, struct qr_buf *ret);

#endif
