/* format/handover.h — what a leaver computed of the present reduction, as one message
 * (membership/protocol.md rule 6). Without runs it is the answer: it has come.
 *
 * What      base, kind, the micro-batches as runs, the coverage word over exactly these
 *           micro-batches, and the integers of their sum, 16 bytes each, little-endian.
 * Checks    a crc32c over everything. Decode, of bytes from a stranger: false and *ret untouched
 *           when anything is wrong; nothing is allocated. Whether runs, coverage and base belong
 *           together is the group's to say.
 * Threads   pure.
 */
#ifndef QR_FORMAT_HANDOVER_H
#define QR_FORMAT_HANDOVER_H

#include "format/message.h"

/* offset  0 "qrH1"
 *         4 kind
 *         5 number of runs
 *         6 0 0
 *         8 generation
 *        16 reductions
 *        24 base digest (16)
 *        40 coverage (16)
 *        56 count of integers
 *        60 zero
 *        64 runs (first, count, stride: 24 bytes each), then the integers, then the crc32c of all
 *           before */
enum { QR_HANDOVER_HEADER_BYTES = 64, QR_HANDOVER_MAX_COUNT = 65000 };
struct qr_handover {
    uint8_t kind;        /* enum qr_reduction_kind */
    uint64_t generation; /* hash of the id: the last one that the sender was in */
    uint64_t reductions; /* of the base state */
    uint8_t base_digest[16], coverage[16];
    uint32_t n_runs;
    struct qr_run run[QR_MESSAGE_MAX_RUNS];
    struct qr_bytes integers; /* decoded: points into the message */
};
/* Appends. At most QR_HANDOVER_MAX_COUNT integers and QR_MESSAGE_MAX_RUNS runs. */
void qr_handover_encode(const struct qr_handover *h, struct qr_buf *ret);
/* it calls itself one: no control message begins so */
bool qr_handover_is(struct qr_bytes message);
bool qr_handover_decode(struct qr_bytes message, struct qr_handover *ret);

#endif
