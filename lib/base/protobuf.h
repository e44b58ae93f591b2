/* base/protobuf.h — protobuf's wire format as it is written, field by field, where a message is too
 * large or too varied for a tree of structs first.
 *
 * Bytes     appended to a buffer, in the order of the calls. A message in a message is written to a
 *           buffer of its own first, and put as a part.
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
void qr_protobuf_bytes(struct qr_buf *b, unsigned field, const void *p, size_t n);
void qr_protobuf_text(struct qr_buf *b, unsigned field, const char *text);
/* What was written to part, as a field; part is empty then. */
void qr_protobuf_part(struct qr_buf *b, unsigned field, struct qr_buf *part);

#endif
