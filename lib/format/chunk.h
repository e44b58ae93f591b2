/* format/chunk.h — what travels on data streams.
 *
 * What      A greeting is the first message on each data stream and says who speaks to whom. A mark
 *           says from which generation on the messages behind it are. A chunk carries a part of a
 *           vector: header with the coverage word of what it sums, then count integers of 16 bytes,
 *           little-endian (exact/integer.h), at most QR_CHUNK_MAX_BYTES of them, which are sent
 *           from where they lie. A part of a state likewise. A beat says nothing but that the
 *           stream passes data: who waits sends them.
 * Checks    the header has its own crc32c, the integers have theirs (in the header): a damaged
 *           chunk is refused, never added.
 * Decode    of bytes from a stranger: false and *ret untouched when anything is wrong.
 * Threads   pure.
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
    uint8_t phase;        /* 0 a partial sum, to be added; 1 the whole sum, to be taken */
    uint64_t generation;  /* hash of the id */
    uint64_t reductions;  /* of the base state */
    uint64_t total;       /* integers of the whole vector */
    uint64_t offset;      /* of the first integer here */
    uint32_t count;       /* integers here */
    uint32_t round, part; /* place in the schedule */
    uint32_t rank;
    uint8_t coverage[16];
    uint32_t crc; /* of the integers */
};
void qr_chunk_encode(const struct qr_chunk *c, uint8_t ret[QR_CHUNK_HEADER_BYTES]);
/* Checks the header (the first bytes of a message of so many) and that length; the integers' crc32c
 * is the caller's to compare. */
bool qr_chunk_decode(const uint8_t head[QR_CHUNK_HEADER_BYTES], size_t message_bytes,
                     struct qr_chunk *ret);

/* Greetings are longer than a packet of any network, so that a path on which only short packets
 * pass lets none through.
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

/* A part of a state (whole, in order): header, then count bytes, at most QR_CHUNK_MAX_BYTES. What
 * they mean is the trainer's.
 * offset  0 "qrS1"
 *         4 count
 *         8 generation
 *        16 total
 *        24 offset
 *        32 crc32c of the bytes
 *        36 crc32c of bytes 0..35 */
enum { QR_STATE_PART_HEADER_BYTES = 40 };
struct qr_state_part {
    uint64_t generation; /* hash of the id */
    uint64_t total, offset;
    uint32_t count;
};
void qr_state_part_encode(const struct qr_state_part *s, struct qr_bytes bytes,
                          uint8_t ret[QR_STATE_PART_HEADER_BYTES]);
bool qr_state_part_is(struct qr_bytes message); /* it calls itself one */
bool qr_state_part_decode(struct qr_bytes message, struct qr_state_part *ret,
                          struct qr_bytes *ret_bytes);

#endif
