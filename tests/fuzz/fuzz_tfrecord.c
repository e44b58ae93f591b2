/* tfrecord and event: any bytes give records, a torn end or a sentence; every record becomes an
 * event or a sentence; what was read and written reads to the same bytes again. */
#include "base/mem.h"
#include "format/event.h"
#include "format/tfrecord.h"

static void one(struct qr_bytes record) {
    struct qr_event e = {0}, back = {0};
    struct qr_err err;
    if (qr_event_decode(record, &e, &err) != QR_OK) return;
    struct qr_buf once = {0}, twice = {0};
    qr_event_encode(&e, &once);
    QR_ASSERT(qr_event_decode(qr_buf_view(&once), &back, &err) == QR_OK);
    qr_event_encode(&back, &twice);
    QR_ASSERT(once.n == twice.n && __builtin_memcmp(once.p, twice.p, once.n) == 0);
    qr_event_free(&e);
    qr_event_free(&back);
    qr_buf_free(&once);
    qr_buf_free(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct qr_bytes file = qr_bytes_of(data, n), record = {0};
    struct qr_err err;
    size_t at = 0;
    one(file); /* also without framing, whose checksums a fuzzer hardly finds */
    while (qr_tfrecord_next(file, "file", 1 << 16, &at, &record, &err) == QR_TFRECORD_ONE)
        one(record);
    QR_ASSERT(at <= n);
    return 0;
}
