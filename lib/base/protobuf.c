/* base/protobuf.c — the encoders of base/protobuf.h. Start reading at qr_protobuf_uint(). */
#include "base/protobuf.h"

#include <string.h>

static void protobuf_put_varint(struct qr_buf *b, uint64_t v) {
    uint8_t bytes[10];
    size_t n = 0;
    for (; v >= 0x80; v >>= 7) bytes[n++] = (uint8_t)(v | 0x80);
    bytes[n++] = (uint8_t)v;
    qr_buf_put(b, bytes, n);
}

static void protobuf_put_tag(struct qr_buf *b, unsigned field, enum qr_protobuf_type type) {
    protobuf_put_varint(b, field << 3 | type);
}

void qr_protobuf_uint(struct qr_buf *b, unsigned field, uint64_t v) {
    protobuf_put_tag(b, field, QR_PROTOBUF_VARINT);
    protobuf_put_varint(b, v);
}

void qr_protobuf_float(struct qr_buf *b, unsigned field, float v) {
    union {
        float f;
        uint32_t u;
    } bits = {.f = v};
    uint8_t bytes[4];
    qr_set_u32le(bytes, bits.u);
    protobuf_put_tag(b, field, QR_PROTOBUF_FIXED32);
    qr_buf_put(b, bytes, sizeof bytes);
}

void qr_protobuf_double(struct qr_buf *b, unsigned field, double v) {
    protobuf_put_tag(b, field, QR_PROTOBUF_FIXED64);
    qr_buf_put_doubles(b, &v, 1);
}

void qr_protobuf_bytes(struct qr_buf *b, unsigned field, const void *p, size_t n) {
    protobuf_put_tag(b, field, QR_PROTOBUF_BYTES);
    protobuf_put_varint(b, n);
    if (n) qr_buf_put(b, p, n);
}

void qr_protobuf_text(struct qr_buf *b, unsigned field, const char *text) {
    qr_protobuf_bytes(b, field, text, strlen(text));
}

void qr_protobuf_part(struct qr_buf *b, unsigned field, struct qr_buf *part) {
    qr_protobuf_bytes(b, field, part->p, part->n);
    qr_buf_clear(part);
}
