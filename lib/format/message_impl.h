/* format/message_impl.h — limits and checks shared by message.c and message_decode.c. */
#ifndef QR_FORMAT_MESSAGE_IMPL_H
#define QR_FORMAT_MESSAGE_IMPL_H

#include "format/message.h"

/* Bounds of micro-batch numbers (first + (count - 1) * stride) and of generation numbers. */
#define QR_MESSAGE_MICRO_BATCH_LIMIT (UINT64_C(1) << 40)
#define QR_MESSAGE_NUMBER_LIMIT (UINT64_C(1) << 62)
bool qr_message_run_ok(const struct qr_run *r);
bool qr_message_common_ok(const struct qr_common *c); /* c->epochs is not 0 */

#endif
