/* base/protobuf.h — reads and writes protobuf's wire format field by field, for messages that are
 * too large or too varied to build as a tree of structs first.
 *
 * Writing   each call appends one field to a buffer. Write a nested message to a buffer of its own,
 *           then append that buffer with qr_protobuf_part.
 * Reading   qr_protobuf_next until it returns false; then `bad` says whether the message was
 *           malformed. A nested message is read from the bytes of its field. Nothing is allocated.
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

struct qr_protobuf_reader {
    const uint8_t *p, *end;
    bool bad;
};
struct qr_protobuf_field {
    uint64_t number;
    unsigned type;
    uint64_t value;        /* of a VARINT; the bits of a FIXED32 or FIXED64 */
    struct qr_bytes bytes; /* of BYTES; borrowed from the message */
};
static inline struct qr_protobuf_reader qr_protobuf_reader(struct qr_bytes message) {
    return (struct qr_protobuf_reader){message.p, message.p + message.n, false};
}
/* Reads the next field. False at the end, or when the message is malformed. */
bool qr_protobuf_next(struct qr_protobuf_reader *r, struct qr_protobuf_field *ret);
static inline bool qr_protobuf_is(const struct qr_protobuf_field *f, uint64_t number,
                                  enum qr_protobuf_type type) {
    return f->number == number && f->type == (unsigned)type;
}

#endif
