/* Requests to the profiler's port: three messages, decoded by hand. Decoded parts lie within the
 * input. */
#include "monitor/profile/profile.h"

static void check_inside(struct qr_bytes part, const uint8_t *data, size_t size) {
    QR_ASSERT(part.n <= QR_PROFILE_TEXT_MAX);
    QR_ASSERT(part.n == 0 || (part.p >= data && part.p + part.n <= data + size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct qr_bytes bytes = qr_bytes_of(data, size), id;
    struct qr_profile_request r;
    uint64_t ms;
    struct qr_err err = {0};
    if (qr_profile_request_decode(bytes, &r, &err) == QR_OK) check_inside(r.session_id, data, size);
    else QR_ASSERT(err.code == QR_INVALID_ARGUMENT && err.msg[0]);
    if (qr_terminate_request_decode(bytes, &id, &err) == QR_OK) check_inside(id, data, size);
    else QR_ASSERT(err.code == QR_INVALID_ARGUMENT);
    if (qr_monitor_request_decode(bytes, &ms, &err) != QR_OK)
        QR_ASSERT(err.code == QR_INVALID_ARGUMENT);
    return 0;
}
