/* Replies of a storage server: header lines up to an empty one, then a body read as an object's
 * description and as an error. */
#include <string.h>

#include "base/mem.h"
#include "store/gcs_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct qr_web_reply r = {0};
    struct qr_web_object o = {.size = 77};
    struct qr_err err;
    char text[40], crc[9];
    size_t at = 0;
    while (at < n) {
        const uint8_t *end = memchr(data + at, '\n', n - at);
        size_t length = end ? (size_t)(end - data) + 1 - at : n - at;
        if (length <= 2 && end) {
            at += length;
            break;
        }
        char *line = qr_xmalloc(length); /* without a terminating NUL */
        memcpy(line, data + at, length);
        qr_web_reply_header(&r, line, length);
        free(line);
        at += length;
    }
    struct qr_bytes body = qr_bytes_of(data + at, n - at);
    QR_ASSERT(!r.location || strlen(r.location) < 8193);
    QR_ASSERT(r.retry_after_s >= 0 && r.retry_after_s <= 60);
    /* only read */
    const struct qr_web_reply reply = {.status = 200,
                                       .body = {.p = (uint8_t *)(uintptr_t)body.p, .n = body.n}};
    if (qr_gcs_read_object(&o, &reply, &err) == QR_OK) {
        uint32_t again;
        qr_web_crc32c_text(o.crc32c, crc);
        QR_ASSERT(qr_web_crc32c_parse(crc, &again) && again == o.crc32c);
        QR_ASSERT(strlen(o.write_id) < sizeof o.write_id);
    } else {
        QR_ASSERT(o.size == 77); /* untouched on failure */
    }
    qr_gcs_error_text(body, text, sizeof text);
    QR_ASSERT(strlen(text) < sizeof text && !strpbrk(text, "\r\n\t"));
    (void)qr_gcs_is_error(body);
    qr_web_reply_fini(&r);
    return 0;
}
