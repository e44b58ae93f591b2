/* format/chunk.c — encoders and decoders of the messages on data streams. Start reading at
 * qr_chunk_encode(). */
#include "format/chunk.h"

#include <string.h>

#include "base/checksum.h"

static const uint8_t chunk_magic[4] = {'q', 'r', 'C', '1'}, state_magic[4] = {'q', 'r', 'S', '1'};
static const uint8_t greeting_magic[4] = {'q', 'r', 'G', '2'}, mark_magic[4] = {'q', 'r', 'M', '1'};
const uint8_t qr_beat[QR_BEAT_BYTES] = {'q', 'r', 'B', '1'};

void qr_chunk_encode(const struct qr_chunk *c, uint8_t ret[QR_CHUNK_HEADER_BYTES]) {
    memcpy(ret, chunk_magic, 4);
    ret[4] = c->kind, ret[5] = c->schedule, ret[6] = c->phase, ret[7] = 0;
    qr_set_u64le(ret + 8, c->generation);
    qr_set_u64le(ret + 16, c->reductions);
    qr_set_u64le(ret + 24, c->total);
    qr_set_u64le(ret + 32, c->offset);
    qr_set_u32le(ret + 40, c->count);
    qr_set_u32le(ret + 44, c->round);
    qr_set_u32le(ret + 48, c->part);
    qr_set_u32le(ret + 52, c->rank);
    memcpy(ret + 56, c->coverage, 16);
    qr_set_u32le(ret + 72, c->crc);
    qr_set_u32le(ret + 76, qr_crc32c(0, ret, 76));
}

bool qr_chunk_decode(const uint8_t p[QR_CHUNK_HEADER_BYTES], size_t message_bytes,
                     struct qr_chunk *ret) {
    if (message_bytes < QR_CHUNK_HEADER_BYTES || memcmp(p, chunk_magic, 4) != 0 ||
        qr_get_u32le(p + 76) != qr_crc32c(0, p, 76))
        return false;
    struct qr_chunk c = {
        .kind = p[4],
        .schedule = p[5],
        .phase = p[6],
        .generation = qr_get_u64le(p + 8),
        .reductions = qr_get_u64le(p + 16),
        .total = qr_get_u64le(p + 24),
        .offset = qr_get_u64le(p + 32),
        .count = qr_get_u32le(p + 40),
        .round = qr_get_u32le(p + 44),
        .part = qr_get_u32le(p + 48),
        .rank = qr_get_u32le(p + 52),
        .crc = qr_get_u32le(p + 72),
    };
    memcpy(c.coverage, p + 56, 16);
    if (p[7] != 0 || c.phase > 1 || c.count > QR_CHUNK_MAX_COUNT || c.offset > c.total ||
        c.count > c.total - c.offset)
        return false;
    if (message_bytes - QR_CHUNK_HEADER_BYTES != (size_t)c.count * 16) return false;
    *ret = c;
    return true;
}

static void chunk_put_crc(uint8_t *message, size_t at) {
    qr_set_u32le(message + at, qr_crc32c(0, message, at));
}
static bool chunk_crc_ok(const uint8_t *message, size_t at) {
    return qr_get_u32le(message + at) == qr_crc32c(0, message, at);
}

void qr_greeting_encode(const struct qr_greeting *g, uint8_t ret[QR_GREETING_BYTES]) {
    memset(ret, 0, QR_GREETING_BYTES);
    memcpy(ret, greeting_magic, 4);
    qr_set_u32le(ret + 4, g->index);
    qr_set_u32le(ret + 8, g->to_index);
    memcpy(ret + 12, g->incarnation, 16);
    memcpy(ret + 28, g->to_incarnation, 16);
    chunk_put_crc(ret, QR_GREETING_BYTES - 4);
}

bool qr_greeting_decode(struct qr_bytes message, struct qr_greeting *ret) {
    const uint8_t *p = message.p;
    if (message.n != QR_GREETING_BYTES || memcmp(p, greeting_magic, 4) != 0) return false;
    if (!chunk_crc_ok(p, QR_GREETING_BYTES - 4)) return false;
    for (size_t i = 44; i < QR_GREETING_BYTES - 4; i++)
        if (p[i] != 0) return false;
    *ret = (struct qr_greeting){.index = qr_get_u32le(p + 4), .to_index = qr_get_u32le(p + 8)};
    memcpy(ret->incarnation, p + 12, 16);
    memcpy(ret->to_incarnation, p + 28, 16);
    return true;
}

void qr_mark_encode(const struct qr_gen_id *id, uint8_t ret[QR_MARK_BYTES]) {
    memcpy(ret, mark_magic, 4);
    qr_set_u32le(ret + 4, id->index);
    qr_set_u64le(ret + 8, id->number);
    memcpy(ret + 16, id->incarnation, 16);
    chunk_put_crc(ret, QR_MARK_BYTES - 4);
}

bool qr_mark_decode(struct qr_bytes message, struct qr_gen_id *ret) {
    const uint8_t *p = message.p;
    if (message.n != QR_MARK_BYTES || memcmp(p, mark_magic, 4) != 0 ||
        !chunk_crc_ok(p, QR_MARK_BYTES - 4))
        return false;
    *ret = (struct qr_gen_id){.number = qr_get_u64le(p + 8), .index = qr_get_u32le(p + 4)};
    memcpy(ret->incarnation, p + 16, 16);
    return true;
}

bool qr_beat_is(struct qr_bytes message) {
    return message.n == QR_BEAT_BYTES && memcmp(message.p, qr_beat, QR_BEAT_BYTES) == 0;
}

void qr_state_part_encode(const struct qr_state_part *s, struct qr_bytes bytes,
                          uint8_t ret[QR_STATE_PART_HEADER_BYTES]) {
    memcpy(ret, state_magic, 4);
    qr_set_u32le(ret + 4, s->count);
    qr_set_u64le(ret + 8, s->generation);
    qr_set_u64le(ret + 16, s->total);
    qr_set_u64le(ret + 24, s->offset);
    qr_set_u32le(ret + 32, qr_crc32c(0, bytes.p, bytes.n));
    qr_set_u32le(ret + 36, qr_crc32c(0, ret, 36));
}

bool qr_state_part_is(struct qr_bytes message) {
    return message.n >= 4 && memcmp(message.p, state_magic, 4) == 0;
}

bool qr_state_part_decode(struct qr_bytes message, struct qr_state_part *ret,
                          struct qr_bytes *ret_bytes) {
    const uint8_t *p = message.p;
    if (message.n < QR_STATE_PART_HEADER_BYTES || !qr_state_part_is(message) ||
        qr_get_u32le(p + 36) != qr_crc32c(0, p, 36))
        return false;
    struct qr_state_part s = {.count = qr_get_u32le(p + 4),
                              .generation = qr_get_u64le(p + 8),
                              .total = qr_get_u64le(p + 16),
                              .offset = qr_get_u64le(p + 24)};
    struct qr_bytes bytes =
        qr_bytes_of(p + QR_STATE_PART_HEADER_BYTES, message.n - QR_STATE_PART_HEADER_BYTES);
    if (s.count > QR_CHUNK_MAX_BYTES || s.offset > s.total || s.count > s.total - s.offset)
        return false;
    if (bytes.n != s.count || qr_get_u32le(p + 32) != qr_crc32c(0, bytes.p, bytes.n)) return false;
    *ret = s;
    *ret_bytes = bytes;
    return true;
}
