/* format/tfrecord.c — writes and reads TFRecord framing. Start reading at qr_tfrecord_next(). */
#include "format/tfrecord.h"

#include "base/checksum.h"

enum { HEAD_BYTES = 12, TAIL_BYTES = 4 };

static uint32_t tfrecord_masked_crc(const uint8_t *p, size_t n) {
    uint32_t c = qr_crc32c(0, p, n);
    return (c >> 15 | c << 17) + 0xa282ead8u;
}

void qr_tfrecord_put(struct qr_buf *ret, struct qr_bytes data) {
    uint8_t head[HEAD_BYTES], tail[TAIL_BYTES];
    qr_set_u64le(head, data.n);
    qr_set_u32le(head + 8, tfrecord_masked_crc(head, 8));
    qr_set_u32le(tail, tfrecord_masked_crc(data.p, data.n));
    qr_buf_put(ret, head, sizeof head);
    qr_buf_put(ret, data.p, data.n);
    qr_buf_put(ret, tail, sizeof tail);
}

enum qr_tfrecord_status qr_tfrecord_next(struct qr_bytes file, const char *what, size_t max_bytes,
                                         size_t *at, struct qr_bytes *ret, struct qr_err *err) {
    QR_ASSERT(*at <= file.n);
    const uint8_t *p = file.p + *at;
    size_t left = file.n - *at;
    if (left == 0) return QR_TFRECORD_END;
    if (left < HEAD_BYTES) return QR_TFRECORD_TORN;
    if (tfrecord_masked_crc(p, 8) != qr_get_u32le(p + 8)) {
        qr_fail(err, QR_DATA_LOSS, "%s: at byte %zu a record's length does not match its checksum",
                what, *at);
        return QR_TFRECORD_DAMAGED;
    }
    uint64_t n = qr_get_u64le(p);
    if (n > max_bytes) {
        qr_fail(err, QR_DATA_LOSS,
                "%s: the record at byte %zu has %llu bytes, more than the limit of %zu", what, *at,
                (unsigned long long)n, max_bytes);
        return QR_TFRECORD_DAMAGED;
    }
    if (left - HEAD_BYTES < n || left - HEAD_BYTES - n < TAIL_BYTES) return QR_TFRECORD_TORN;
    if (tfrecord_masked_crc(p + HEAD_BYTES, n) != qr_get_u32le(p + HEAD_BYTES + n)) {
        qr_fail(err, QR_DATA_LOSS, "%s: the record at byte %zu does not match its checksum", what,
                *at);
        return QR_TFRECORD_DAMAGED;
    }
    *ret = qr_bytes_of(p + HEAD_BYTES, n);
    *at += HEAD_BYTES + n + TAIL_BYTES;
    return QR_TFRECORD_ONE;
}
