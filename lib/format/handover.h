/* format/handover.h — the partial sum of a leaving worker for the current reduction, as one message
 * (membership/protocol.md rule 6). A message without runs is the acknowledgement.
 *
 * What      base state, kind, the micro-batches as runs, the coverage word over exactly these
 *           micro-batches, and the integers of their sum, 16 bytes each, little-endian.
 * Checks    a crc32c over the whole message. Decoding untrusted bytes returns false, with *ret
 *           unchanged, when anything is wrong, and allocates nothing. The group checks that runs,
 *           coverage and base match.
 * Threads   any; pure functions.
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
 *           bytes before it */
enum { QR_HANDOVER_HEADER_BYTES = 64, QR_HANDOVER_MAX_COUNT = 65000 };
struct qr_handover {
    uint8_t kind;        /* enum qr_reduction_kind */
    uint64_t generation; /* qr_gen_id_hash of the sender's last generation */
    uint64_t reductions; /* of the base state */
    uint8_t base_digest[16], coverage[16];
    uint32_t n_runs;
    struct qr_run run[QR_MESSAGE_MAX_RUNS];
    struct qr_bytes integers; /* after decoding: points into the message */
};
/* Appends the message to ret. At most QR_HANDOVER_MAX_COUNT integers, QR_MESSAGE_MAX_RUNS runs. */
void qr_handover_encode(const struct qr_handover *h, struct qr_buf *ret);
/* True when the message begins with the magic (no control message does). It may be damaged. */
bool qr_handover_is(struct qr_bytes message);
bool qr_handover_decode(struct qr_bytes message, struct qr_handover *ret);

#endif
