/* base/protobuf.h — writes protobuf's wire format field by field, for messages that are too large
 * or too varied to build as a tree of structs first.
 *
 * Use       each call appends one field to a buffer. Write a nested message to a buffer of its own,
 *           then append that buffer with qr_protobuf_part.
 * Source    protobuf.dev/programming-guides/encoding
 */
#ifndef QR_BASE_PROTOBUF_H
#define QR_BASE_PROTOBUF_H

#include "base/bytes.h"

enum qr_protobuf_type {
    QR_PROTOBUF_VARINT = 0,
    QR_PROTOBUF_FIXED64 = 1,
    QR_PROTOBUF_BYTES = 2,
    QR_PROTOBUF_FIXED32 = 5,
};
void qr_protobuf_uint(struct qr_buf *b, unsigned field, uint64_t v);
void qr_protobuf_float(struct qr_buf *b, unsigned field, float v);
void qr_protobuf_double(struct qr_buf *b, unsigned field, double v);
void qr_protobuf_bytes(struct qr_buf *b, unsigned field, const void *p, size_t n);
void qr_protobuf_text(struct qr_buf *b, unsigned field, const char *text);
/* Appends the content of part as a field and clears part. */
void qr_protobuf_part(struct qr_buf *b, unsigned field, struct qr_buf *part);

#endif
