/* monitor/profile/profile.h — the profiler's messages as TensorBoard's profile plugin sends and
 * wants them: requests ← bytes, and what was captured → an XSpace (proto/profiler.proto has the
 * fields).
 *
 * Decode    of any bytes: nothing is allocated, texts are borrowed from the bytes, fields of other
 *           numbers are passed over. INVALID_ARGUMENT says what is wrong.
 * Encode    appends to a buffer. An XSpace has one plane of threads, "/host:CPU", whose events
 *           nest; each step's event is the root of what happened in it, on other threads too, so
 *           that the plugin's step times add up.
 * Source    tensorflow/core/profiler/profiler_service.proto, profiler_options.proto and
 *           xplane.proto of openxla/xprof and openxla/xla.
 */
#ifndef QR_FORMAT_PROFILE_H
#define QR_FORMAT_PROFILE_H

#include "base/bytes.h"
#include "base/err.h"
#include "base/span.h"

enum { QR_PROFILE_TEXT_MAX = 1024, QR_PROFILE_REQUEST_MAX = 64 << 10 };

struct qr_profile_request {
    uint64_t duration_ms;
    uint64_t start_timestamp_ns; /* since 1970; 0: at once */
    struct qr_bytes session_id;  /* up to QR_PROFILE_TEXT_MAX bytes; empty: none */
    bool emit_xspace;            /* the answer holds the XSpace, and no file */
};
QR_MUST_CHECK enum qr_code qr_profile_request_decode(struct qr_bytes bytes,
                                                     struct qr_profile_request *ret,
                                                     struct qr_err *err);
/* Of Terminate: which session. */
QR_MUST_CHECK enum qr_code qr_terminate_request_decode(struct qr_bytes bytes,
                                                       struct qr_bytes *ret_session_id,
                                                       struct qr_err *err);
/* Of Monitor: how long. */
QR_MUST_CHECK enum qr_code qr_monitor_request_decode(struct qr_bytes bytes,
                                                     uint64_t *ret_duration_ms, struct qr_err *err);

/* A ProfileResponse; xspace empty: nothing was collected. Unless emit_xspace, it is a file of that
 * name for the caller to store: "xplane.pb". */
void qr_profile_response_encode(struct qr_bytes xspace, bool emit_xspace, struct qr_buf *ret);
/* A MonitorResponse. */
void qr_monitor_response_encode(const char *text, struct qr_buf *ret);

/* Spans of a thread are put into another order. process: its id, whose thread is the training
 * thread. */
void qr_xspace_encode(struct qr_spans *s, const char *host, int32_t process, struct qr_buf *ret);

#endif
