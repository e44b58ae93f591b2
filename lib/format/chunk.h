/* format/chunk.h — the messages on data streams, as structs and as bytes.
 *
 * What      A greeting is the first message on each data stream and identifies both processes. A
 *           mark gives the generation of the messages that follow. A chunk carries a part of a
 *           vector: a header with the coverage word of the sum, then `count` integers of 16 bytes,
 *           little-endian (exact/integer.h), at most QR_CHUNK_MAX_BYTES, sent without a copy. A
 *           state part does the same for bytes of a state. A beat only shows that the stream passes
 *           data; a waiting process sends beats.
 * Checks    The header has a crc32c of its own; the crc32c of the integers is in the header. A
 *           damaged chunk is rejected, never added.
 * Decode    of untrusted bytes: false, with *ret unchanged, when anything is wrong.
 * Threads   any; pure functions.
 */
#ifndef QR_FORMAT_CHUNK_H
#define QR_FORMAT_CHUNK_H

#include <stdbool.h>

#include "format/message.h"

enum {
    QR_CHUNK_HEADER_BYTES = 80,
    QR_CHUNK_MAX_BYTES = 256 << 10,
    QR_CHUNK_MAX_COUNT = QR_CHUNK_MAX_BYTES / 16
};

/* offset  0 "qrC1"
 *         4 kind, schedule, phase, 0
 *         8 generation
 *        16 reductions
 *        24 total
 *        32 offset
 *        40 count
 *        44 round
 *        48 part
 *        52 rank (of the sender)
 *        56 coverage (16)
 *        72 crc32c of the integers
 *        76 crc32c of bytes 0..75 */
struct qr_chunk {
    uint8_t kind;         /* enum qr_reduction_kind */
    uint8_t schedule;     /* enum qr_allreduce, never auto */
    uint8_t phase;        /* 0: a partial sum, to be added; 1: the complete sum, to be copied */
    uint64_t generation;  /* qr_gen_id_hash of the generation */
    uint64_t reductions;  /* of the base state */
    uint64_t total;       /* integers in the whole vector */
    uint64_t offset;      /* index of the first integer of this chunk */
    uint32_t count;       /* integers in this chunk */
    uint32_t round, part; /* position in the schedule */
    uint32_t rank;        /* of the sender */
    uint8_t coverage[16];
    uint32_t crc; /* of the integers */
};
void qr_chunk_encode(const struct qr_chunk *c, uint8_t ret[QR_CHUNK_HEADER_BYTES]);
/* Decodes a header and checks it against the length of the whole message. The caller compares the
 * crc32c of the integers. */
bool qr_chunk_decode(const uint8_t head[QR_CHUNK_HEADER_BYTES], size_t message_bytes,
                     struct qr_chunk *ret);

/* A greeting is longer than any network packet, so that it fails on a path that passes only short
 * packets (a broken path MTU).
 * offset  0 "qrG2"
 *         4 index
 *         8 to_index
 *        12 incarnation (16)
 *        28 to_incarnation (16)
 *        44 zero
 *      4092 crc32c of bytes 0..4091 */
enum { QR_GREETING_BYTES = 4096 };
struct qr_greeting {
    uint32_t index, to_index;
    uint8_t incarnation[16], to_incarnation[16];
};
void qr_greeting_encode(const struct qr_greeting *g, uint8_t ret[QR_GREETING_BYTES]);
bool qr_greeting_decode(struct qr_bytes message, struct qr_greeting *ret);

/* offset  0 "qrM1"
 *         4 index
 *         8 number
 *        16 incarnation (16)
 *        32 crc32c of bytes 0..31 */
enum { QR_MARK_BYTES = 36 };
void qr_mark_encode(const struct qr_gen_id *id, uint8_t ret[QR_MARK_BYTES]);
bool qr_mark_decode(struct qr_bytes message, struct qr_gen_id *ret);

enum { QR_BEAT_BYTES = 8 };
extern const uint8_t qr_beat[QR_BEAT_BYTES];
bool qr_beat_is(struct qr_bytes message);

/* A part of a state; the parts of a state are sent completely and in order. Header, then `count`
 * bytes, at most QR_CHUNK_MAX_BYTES, which only the trainer interprets.
 * offset  0 "qrS1"
 *         4 count
 *         8 generation
 *        16 total
 *        24 offset
 *        32 crc32c of the bytes
 *        36 crc32c of bytes 0..35 */
enum { QR_STATE_PART_HEADER_BYTES = 40 };
struct qr_state_part {
    uint64_t generation;    /* qr_gen_id_hash of the generation */
    uint64_t total, offset; /* bytes of the state; position of this part */
    uint32_t count;         /* bytes in this part */
};
void qr_state_part_encode(const struct qr_state_part *s, struct qr_bytes bytes,
                          uint8_t ret[QR_STATE_PART_HEADER_BYTES]);
bool qr_state_part_is(struct qr_bytes message); /* begins with the magic; may be damaged */
bool qr_state_part_decode(struct qr_bytes message, struct qr_state_part *ret,
                          struct qr_bytes *ret_bytes);

#endif
