/* monitor/last_error.h — the last warning or error of this process's log, for whoever asks a
 * running worker (/last-error).
 *
 * Threads   any; qr_last_error_keep before the others, by one thread.
 */
#ifndef QR_MONITOR_LAST_ERROR_H
#define QR_MONITOR_LAST_ERROR_H

#include "base/bytes.h"
#include "base/log.h"

/* The same log, whose warnings and errors are kept besides. One for the process: the last one given
 * is written to. */
struct qr_log qr_last_error_keep(struct qr_log to);
/* Appends "SECONDS W module: message\n", SECONDS since 1970; nothing while there was none. */
void qr_last_error_text(struct qr_buf *ret);

#endif
