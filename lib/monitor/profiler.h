/* monitor/profiler.h — captures of what the threads do, for TensorBoard's profile plugin: when it
 * asks at a port, and for steps that the job names.
 *
 * Port      tensorflow.ProfilerService over gRPC without TLS, as "Capture profile" calls it:
 *           Profile records so many milliseconds and answers with the XSpace, which the plugin
 *           stores below its own log folder; Terminate ends that early; Monitor answers with a few
 *           lines about the run. Every other method, tensorflow.ProfileAnalysis' too (a fleet's
 *           captures by one of its members), is UNIMPLEMENTED with a sentence.
 * Steps     those of the job are written to LOGDIR/plugins/profile/steps_A_B/, by each worker a
 *           file.
 * Bounds    one capture at a time (ALREADY_EXISTS: the plugin tries again), of up to
 *           QR_PROFILE_MAX_MS, that begins within QR_PROFILE_AHEAD_NS; base/span.h bounds its
 *           memory, monitor/profile/profile.h the requests. Who has left ends his capture.
 * Trust     anyone who reaches the port may ask, so a worker opens it on loopback unless an address
 *           is given. It tells layers' names and times, no data and no weights; a capture costs a
 *           few hundred nanoseconds a span.
 * Threads   qr_profiler_on_reduction: the training thread. Open and close: any other.
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
    const char *address; /* host:port to answer at; NULL: nobody is answered */
    const char *host;    /* this worker's name in the plugin's list */
    /* of the job; 0: none. Steps count from 1 */
    uint64_t first_step, last_step;
    const char *logdir; /* a folder here; NULL: steps cannot be written */
    /* A file below it has so many bytes; may be NULL. Training thread. */
    void (*wrote)(void *ctx, const char *name, size_t bytes);
    void *wrote_ctx;
    const struct qr_clock *clock, *wall; /* monotonic */
    const struct qr_log *log;
};
/* Texts are copied. ALREADY_EXISTS: the port is in use. */
QR_MUST_CHECK enum qr_code qr_profiler_open(const struct qr_profiler_options *opt,
                                            struct qr_profiler **ret, unsigned *ret_port,
                                            struct qr_err *err);
/* A reduction begins, from the state of so many steps: as qr_train_options' begins. */
void qr_profiler_on_reduction(void *profiler, enum qr_reduction_kind kind, uint64_t step);
/* Training has ended: of the job's steps, what there is is written. Training thread; NULL is fine,
 * here and below. */
void qr_profiler_finish(struct qr_profiler *p);
void qr_profiler_close(struct qr_profiler *p);

#endif
