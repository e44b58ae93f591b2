/* format/message_impl.h — what the two halves of message.h share. */
#ifndef QR_FORMAT_MESSAGE_IMPL_H
#define QR_FORMAT_MESSAGE_IMPL_H

#include "format/message.h"

/* Micro-batches are numbered below this: first + (count - 1) * stride. */
#define QR_MESSAGE_MICRO_BATCH_LIMIT (UINT64_C(1) << 40)
#define QR_MESSAGE_NUMBER_LIMIT (UINT64_C(1) << 62)
bool qr_message_run_ok(const struct qr_run *r);
bool qr_message_common_ok(const struct qr_common *c); /* one that is there */

#endif
