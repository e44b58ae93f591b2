/* Checkpoints and LATEST: any bytes give a state or an error. Checksums are corrected first, so
 * that the code after them is reached; a decoded state is encoded to a file that decodes to the
 * same state. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "record/checkpoint.h"

/* Sets the eight characters after the last or first `key` to the checksum of the rest. */
static void seal(struct qr_buf *b, const char *key, bool last) {
    char text[9];
    uint8_t *at = NULL, *from = b->p;
    size_t n = strlen(key);
    while (b->n && (from = memmem(from, b->n - (size_t)(from - b->p), key, n)) != NULL) {
        at = from;
        from += n;
        if (!last) break;
    }
    if (!at || (size_t)(at - b->p) + n + 8 > b->n) return;
    memcpy(at + n, "00000000", 8);
    snprintf(text, sizeof text, "%08" PRIx32, qr_crc32c(0, b->p, b->n));
    memcpy(at + n, text, 8);
}

static void file(struct qr_bytes bytes) {
    struct qr_checkpoint c = {0}, back = {0};
    struct qr_buf again = {0};
    struct qr_err err;
    (void)qr_checkpoint_is(bytes);
    if (qr_checkpoint_decode(bytes, "file", &c, &err) != QR_OK) return;
    QR_ASSERT(qr_checkpoint_encode(&c, &again, NULL, &err) == QR_OK);
    QR_ASSERT(qr_checkpoint_decode(qr_buf_view(&again), "written", &back, &err) == QR_OK);
    QR_ASSERT(strcmp(c.digest, back.digest) == 0 && c.reductions == back.reductions &&
              c.tensors.n == back.tensors.n);
    qr_checkpoint_fini(&c);
    qr_checkpoint_fini(&back);
    qr_buf_free(&again);
}

static void latest(struct qr_bytes bytes) {
    struct qr_checkpoint_latest l, back;
    struct qr_buf again = {0};
    struct qr_err err;
    if (qr_checkpoint_latest_decode(bytes, "LATEST", &l, &err) != QR_OK) return;
    QR_ASSERT(strchr(l.object, '/') == NULL);
    qr_checkpoint_latest_encode(&l, &again);
    QR_ASSERT(qr_checkpoint_latest_decode(qr_buf_view(&again), "written", &back, &err) == QR_OK &&
              back.reductions == l.reductions && back.crc32c == l.crc32c);
    qr_buf_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct qr_buf b = {0};
    file(qr_bytes_of(data, n));
    latest(qr_bytes_of(data, n));
    qr_buf_put(&b, data, n);
    seal(&b, "\"crc32c\":\"", false);
    file(qr_buf_view(&b));
    qr_buf_clear(&b);
    qr_buf_put(&b, data, n);
    seal(&b, "\"check\":\"", true);
    latest(qr_buf_view(&b));
    qr_buf_free(&b);
    return 0;
}
