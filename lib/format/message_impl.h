/* format/message_impl.h — what the two halves of message.h share. */
#ifndef QR_FORMAT_MESSAGE_IMPL_H
#define QR_FORMAT_MESSAGE_IMPL_H

#include "format/message.h"

/* Bytes of the UTF-8 character at s (1..4), 0 when there is none or it is a control character.
 * Reads no byte behind the NUL. */
int qr_message_character(const char *s);
bool qr_message_string_ok(const char *s);
/* Micro-batches are numbered below this: first + (count - 1) * stride. */
#define QR_MESSAGE_MICRO_BATCH_LIMIT (UINT64_C(1) << 40)
#define QR_MESSAGE_NUMBER_LIMIT (UINT64_C(1) << 62)
bool qr_message_run_ok(const struct qr_run *r);
bool qr_message_common_ok(const struct qr_common *c); /* one that is there */

#endif
