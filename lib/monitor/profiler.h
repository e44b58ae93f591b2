/* monitor/profiler.h — captures thread activity for TensorBoard's profile plugin: on request at a
 * port, and for the steps that the job selects.
 *
 * Use       qr_profiler_open; qr_profiler_on_reduction at each reduction; qr_profiler_finish after
 *           training; qr_profiler_close.
 * Port      tensorflow.ProfilerService over gRPC without TLS, as "Capture profile" calls it:
 *           Profile records for a number of milliseconds and returns the XSpace, which the plugin
 *           stores below its own log directory; Terminate ends a capture early; Monitor returns a
 *           few lines about the run. All other methods, including tensorflow.ProfileAnalysis
 *           (captures of several workers through one of them), are UNIMPLEMENTED.
 * Steps     The job's steps are written to LOGDIR/plugins/profile/steps_A_B/, one file per worker.
 * Bounds    One capture at a time (ALREADY_EXISTS: the plugin retries), of up to QR_PROFILE_MAX_MS,
 *           starting within QR_PROFILE_AHEAD_NS. base/span.h bounds its memory,
 *           monitor/profile/profile.h the requests. A capture ends when its client disconnects.
 * Security  The port has no authentication, so a worker opens it on loopback unless an address is
 *           given. A capture has layer names and times, but no data and no weights. It costs a few
 *           hundred nanoseconds per span.
 * Threads   qr_profiler_on_reduction and qr_profiler_finish: the training thread. Open and close:
 *           any other thread.
 */
#ifndef QR_MONITOR_PROFILER_H
#define QR_MONITOR_PROFILER_H

#include <stddef.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "exact/coverage.h"

enum { QR_PROFILE_MAX_MS = 600000 };
#define QR_PROFILE_AHEAD_NS (60 * QR_SECOND)

struct qr_profiler;
struct qr_profiler_options {
    const char *address; /* host:port to listen on; NULL: no port */
    const char *host;    /* this worker's name in the plugin's list */
    /* Steps to capture, from 1; 0: none */
    uint64_t first_step, last_step;
    const char *logdir; /* a local directory; NULL: steps cannot be written */
    /* Called after a file below logdir was written; may be NULL. Training thread. */
    void (*wrote)(void *ctx, const char *name, size_t bytes);
    void *wrote_ctx;
    const struct qr_clock *clock, *wall; /* clock is monotonic */
    const struct qr_log *log;
};
/* Opens the port, if any; *ret_port is 0 without one. Texts are copied. ALREADY_EXISTS: the port is
 * in use. */
QR_MUST_CHECK enum qr_code qr_profiler_open(const struct qr_profiler_options *opt,
                                            struct qr_profiler **ret, unsigned *ret_port,
                                            struct qr_err *err);
/* Call when a reduction begins from the state after `step` steps (qr_train_options' begins). Starts
 * and ends the capture of the job's steps. */
void qr_profiler_on_reduction(void *profiler, enum qr_reduction_kind kind, uint64_t step);
/* Call after training: writes the job's steps captured so far. NULL is allowed, here and below. */
void qr_profiler_finish(struct qr_profiler *p);
void qr_profiler_close(struct qr_profiler *p);

#endif
