/* base/protobuf.c — fields of protobuf messages. Start reading at qr_protobuf_uint() and
 * qr_protobuf_next(). */
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

/* ---- reading ---- */

static uint64_t read_varint(struct qr_protobuf_reader *r) {
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && r->p < r->end; shift += 7) {
        uint8_t byte = *r->p++;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return v;
    }
    r->bad = true;
    return 0;
}

static struct qr_bytes read_bytes(struct qr_protobuf_reader *r, uint64_t n) {
    const uint8_t *p = r->p;
    if (n > (uint64_t)(r->end - r->p)) {
        r->bad = true;
        n = 0;
    }
    r->p += n;
    return qr_bytes_of(p, (size_t)n);
}

static uint64_t read_fixed(struct qr_protobuf_reader *r, unsigned n) {
    struct qr_bytes b = read_bytes(r, n);
    if (b.n < n) return 0;
    return n == 4 ? qr_get_u32le(b.p) : qr_get_u64le(b.p);
}

bool qr_protobuf_next(struct qr_protobuf_reader *r, struct qr_protobuf_field *ret) {
    if (r->p == r->end || r->bad) return false;
    uint64_t tag = read_varint(r);
    *ret = (struct qr_protobuf_field){.number = tag >> 3, .type = tag & 7};
    switch (ret->type) {
    case QR_PROTOBUF_VARINT: ret->value = read_varint(r); break;
    case QR_PROTOBUF_FIXED64: ret->value = read_fixed(r, 8); break;
    case QR_PROTOBUF_BYTES: ret->bytes = read_bytes(r, read_varint(r)); break;
    case QR_PROTOBUF_FIXED32: ret->value = read_fixed(r, 4); break;
    default: r->bad = true; /* groups are no longer sent */
    }
    r->bad |= ret->number == 0;
    return !r->bad;
}
