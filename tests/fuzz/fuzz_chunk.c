/* Data messages from an unknown peer: headers of chunks, greetings, marks, parts of states. A
 * decoded message must be within its bounds and encode to the same bytes. */
#include "format/chunk.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct qr_chunk c;
    static uint8_t again[QR_GREETING_BYTES]; /* the longest */
    if (qr_chunk_decode(data, size, &c)) {
        if (size - QR_CHUNK_HEADER_BYTES != (size_t)c.count * 16) abort();
        if (c.count > QR_CHUNK_MAX_COUNT || c.offset + c.count > c.total) abort();
        qr_chunk_encode(&c, again);
        if (memcmp(again, data, QR_CHUNK_HEADER_BYTES) != 0) abort();
    }
    struct qr_greeting g;
    if (qr_greeting_decode(qr_bytes_of(data, size), &g)) {
        qr_greeting_encode(&g, again);
        if (memcmp(again, data, QR_GREETING_BYTES) != 0) abort();
    }
    struct qr_gen_id id;
    if (qr_mark_decode(qr_bytes_of(data, size), &id)) {
        qr_mark_encode(&id, again);
        if (memcmp(again, data, QR_MARK_BYTES) != 0 || qr_beat_is(qr_bytes_of(data, size))) abort();
    }
    struct qr_state_part part;
    struct qr_bytes bytes;
    if (qr_state_part_decode(qr_bytes_of(data, size), &part, &bytes)) {
        if (!qr_state_part_is(qr_bytes_of(data, size)) || bytes.n != part.count ||
            part.offset + part.count > part.total)
            abort();
        qr_state_part_encode(&part, bytes, again);
        if (memcmp(again, data, QR_STATE_PART_HEADER_BYTES) != 0) abort();
    }
    return 0;
}
