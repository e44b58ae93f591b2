/* format/handover.c — encoder and decoder of handover messages. Start reading at
 * qr_handover_encode(). */
#include "format/handover.h"

#include <string.h>

#include "base/checksum.h"
#include "format/message_impl.h"

enum { RUN_BYTES = 24, INTEGER_BYTES = 16, CRC_BYTES = 4 };
static const uint8_t handover_magic[4] = {'q', 'r', 'H', '1'};

void qr_handover_encode(const struct qr_handover *h, struct qr_buf *ret) {
    QR_ASSERT(h->n_runs <= QR_MESSAGE_MAX_RUNS &&
              h->integers.n <= (size_t)QR_HANDOVER_MAX_COUNT * INTEGER_BYTES);
    uint8_t head[QR_HANDOVER_HEADER_BYTES] = {0}, crc[CRC_BYTES];
    size_t from = ret->n;
    memcpy(head, handover_magic, sizeof handover_magic);
    head[4] = h->kind;
    head[5] = (uint8_t)h->n_runs;
    qr_set_u64le(head + 8, h->generation);
    qr_set_u64le(head + 16, h->reductions);
    memcpy(head + 24, h->base_digest, sizeof h->base_digest);
    memcpy(head + 40, h->coverage, sizeof h->coverage);
    qr_set_u32le(head + 56, (uint32_t)(h->integers.n / INTEGER_BYTES));
    qr_buf_put(ret, head, sizeof head);
    for (uint32_t i = 0; i < h->n_runs; i++) {
        uint8_t run[RUN_BYTES];
        qr_set_u64le(run, h->run[i].first);
        qr_set_u64le(run + 8, h->run[i].count);
        qr_set_u64le(run + 16, h->run[i].stride);
        qr_buf_put(ret, run, sizeof run);
    }
    qr_buf_put(ret, h->integers.p, h->integers.n);
    qr_set_u32le(crc, qr_crc32c(0, ret->p + from, ret->n - from));
    qr_buf_put(ret, crc, sizeof crc);
}

bool qr_handover_is(struct qr_bytes message) {
    return message.n >= sizeof handover_magic &&
           memcmp(message.p, handover_magic, sizeof handover_magic) == 0;
}

bool qr_handover_decode(struct qr_bytes message, struct qr_handover *ret) {
    const uint8_t *p = message.p;
    if (message.n < QR_HANDOVER_HEADER_BYTES + CRC_BYTES || !qr_handover_is(message)) return false;
    uint32_t n_runs = p[5], count = qr_get_u32le(p + 56);
    if (n_runs > QR_MESSAGE_MAX_RUNS || count > QR_HANDOVER_MAX_COUNT || p[6] || p[7] ||
        qr_get_u32le(p + 60))
        return false;
    size_t runs = (size_t)n_runs * RUN_BYTES, integers = (size_t)count * INTEGER_BYTES;
    if (message.n != QR_HANDOVER_HEADER_BYTES + runs + integers + CRC_BYTES) return false;
    if (qr_get_u32le(p + message.n - CRC_BYTES) != qr_crc32c(0, p, message.n - CRC_BYTES))
        return false;
    struct qr_handover h = {.kind = p[4],
                            .generation = qr_get_u64le(p + 8),
                            .reductions = qr_get_u64le(p + 16),
                            .n_runs = n_runs};
    memcpy(h.base_digest, p + 24, sizeof h.base_digest);
    memcpy(h.coverage, p + 40, sizeof h.coverage);
    for (uint32_t i = 0; i < n_runs; i++) {
        const uint8_t *at = p + QR_HANDOVER_HEADER_BYTES + (size_t)i * RUN_BYTES;
        h.run[i] = (struct qr_run){.first = qr_get_u64le(at),
                                   .count = qr_get_u64le(at + 8),
                                   .stride = qr_get_u64le(at + 16)};
        if (!qr_message_run_ok(&h.run[i])) return false;
    }
    h.integers = qr_bytes_of(p + QR_HANDOVER_HEADER_BYTES + runs, integers);
    *ret = h;
    return true;
}
