/* monitor/profile/profile.h — codec of the messages of TensorBoard's profile plugin: decodes
 * requests and encodes a capture as an XSpace (proto/profiler.proto lists the fields).
 *
 * Decode    of untrusted bytes: nothing is allocated, texts are borrowed from the bytes, unknown
 *           fields are skipped. INVALID_ARGUMENT says what is wrong.
 * Encode    appends to a buffer. An XSpace has one plane of threads, "/host:CPU", with nested
 *           events. Each step's event is the root of all events during that step, also those of
 *           other threads, so that the plugin's step times add up.
 * Threads   any; pure functions.
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
    uint64_t start_timestamp_ns; /* since 1970; 0: immediately */
    struct qr_bytes session_id;  /* up to QR_PROFILE_TEXT_MAX bytes; empty: none */
    bool emit_xspace;            /* the response has the XSpace itself instead of a file */
};
QR_MUST_CHECK enum qr_code qr_profile_request_decode(struct qr_bytes bytes,
                                                     struct qr_profile_request *ret,
                                                     struct qr_err *err);
/* Decodes a request of Terminate. */
QR_MUST_CHECK enum qr_code qr_terminate_request_decode(struct qr_bytes bytes,
                                                       struct qr_bytes *ret_session_id,
                                                       struct qr_err *err);
/* Decodes a request of Monitor. */
QR_MUST_CHECK enum qr_code qr_monitor_request_decode(struct qr_bytes bytes,
                                                     uint64_t *ret_duration_ms, struct qr_err *err);

/* Encodes a ProfileResponse. xspace empty: nothing was captured. Without emit_xspace the XSpace is
 * a file "xplane.pb", which the client stores. */
void qr_profile_response_encode(struct qr_bytes xspace, bool emit_xspace, struct qr_buf *ret);
/* Encodes a MonitorResponse. */
void qr_monitor_response_encode(const char *text, struct qr_buf *ret);

/* Encodes a capture. Sorts the spans of each thread in place. process: the process id, which is
 * also the thread id of the training thread. */
void qr_xspace_encode(struct qr_spans *s, const char *host, int32_t process, struct qr_buf *ret);

#endif
