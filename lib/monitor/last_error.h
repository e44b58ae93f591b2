/* monitor/last_error.h — keeps the last warning or error of this process's log, for /last-error.
 *
 * Threads   any; call qr_last_error_keep before the other function, from one thread.
 */
#ifndef QR_MONITOR_LAST_ERROR_H
#define QR_MONITOR_LAST_ERROR_H

#include "base/bytes.h"
#include "base/log.h"

/* Returns a log that writes to `to` and keeps its last warning or error. There is one for the
 * process; a second call replaces `to`. */
struct qr_log qr_last_error_keep(struct qr_log to);
/* Appends "SECONDS W module: message\n" (E for an error), SECONDS since 1970; nothing when there
 * was no warning or error yet. */
void qr_last_error_text(struct qr_buf *ret);

#endif
