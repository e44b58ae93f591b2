/* base/log.h — log lines.
 *
 * A log is passed as an argument, as a clock is; a NULL log discards all lines. Components below
 * train return errors, and the caller that handles an error logs it once. Events of a peer or a
 * store that no caller waits for are logged by link, store, collective and group themselves.
 * Format    plain text on a terminal ("I group: ...", control characters escaped), with warnings
 *           and errors in colour if wanted; Cloud Logging JSON elsewhere
 *           ({"severity","time","message","logging.googleapis.com/labels":{"module"}}).
 * Errors    none: a line that cannot be written is dropped.
 * Threads   any; one line is one write(2).
 */
#ifndef QR_BASE_LOG_H
#define QR_BASE_LOG_H

#include <stdbool.h>

#include "base/err.h"

enum qr_log_level { QR_LOG_DEBUG, QR_LOG_INFO, QR_LOG_WARNING, QR_LOG_ERROR };
/* "debug" "info" "warning" "error", by enum qr_log_level; then NULL */
extern const char *const qr_log_level_names[];
enum qr_log_format { QR_LOG_TEXT, QR_LOG_JSON, QR_LOG_COLOR };
/* True when lines should be coloured: on a terminal, unless NO_COLOR is set and not empty, or TERM
 * is "dumb" or not set (no-color.org). */
bool qr_log_wants_color(bool terminal, const char *no_color, const char *term);

struct qr_log {
    enum qr_log_level level; /* lines below this level are dropped before they are formatted */
    void (*write)(void *ctx, enum qr_log_level level, const char *module, const char *message);
    void *ctx;
};

/* Returns a log that writes to file descriptor 2. The caller chooses the format (TEXT or COLOR for
 * a terminal). ctx is static. */
struct qr_log qr_log_stderr(enum qr_log_level level, enum qr_log_format format);

/* Writes one line. Messages longer than 2047 bytes are truncated. */
void qr_log_at(const struct qr_log *log, enum qr_log_level level, const char *module,
               const char *fmt, ...) QR_PRINTF(4, 5);
#define qr_debug(log, module, ...) qr_log_at((log), QR_LOG_DEBUG, (module), __VA_ARGS__)
#define qr_info(log, module, ...) qr_log_at((log), QR_LOG_INFO, (module), __VA_ARGS__)
#define qr_warn(log, module, ...) qr_log_at((log), QR_LOG_WARNING, (module), __VA_ARGS__)
#define qr_error(log, module, ...) qr_log_at((log), QR_LOG_ERROR, (module), __VA_ARGS__)

#endif
