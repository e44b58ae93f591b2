/* Control messages from an unknown peer: rejected with an error, or decoded; a decoded message
 * encodes and decodes to the same one. */
#include <string.h>

#include "format/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static struct qr_message a, b;
    static struct qr_buf buf, again;
    struct qr_err err;
    if (qr_message_decode(qr_bytes_of(data, n), &a, &err) != QR_OK) {
        QR_ASSERT(err.code == QR_DATA_LOSS && err.msg[0]);
        return 0;
    }
    qr_buf_clear(&buf);
    qr_buf_clear(&again);
    QR_ASSERT(qr_message_encode(&a, &buf, &err) == QR_OK);
    QR_ASSERT(qr_message_decode(qr_buf_view(&buf), &b, &err) == QR_OK);
    QR_ASSERT(qr_message_encode(&b, &again, &err) == QR_OK);
    QR_ASSERT(buf.n == again.n && memcmp(buf.p, again.p, buf.n) == 0);
    return 0;
}
