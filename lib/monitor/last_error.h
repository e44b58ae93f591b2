/* monitor/last_error.h — keeps the last warning or error of this process's log, for /status and
 * /last-error.
 *
 * Threads   any; call qr_last_error_keep before the other function, from one thread.
 */
#ifndef QR_MONITOR_LAST_ERROR_H
#define QR_MONITOR_LAST_ERROR_H

#include <stddef.h>

#include "base/log.h"

/* Returns a log that writes to `to` and keeps its last warning or error. There is one for the
 * process; a second call replaces `to`. */
struct qr_log qr_last_error_keep(struct qr_log to);
/* Copies "W module: message" (E for an error), printable, "" when there is none yet.
 *
 * Returns:  its time in seconds since 1970; 0: none
 */
double qr_last_error_get(char *ret, size_t cap);

#endif
