/* format/tfrecord.c — TFRecord framing. */
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
