/* base/log.h — log lines.
 *
 * A log is passed down like a clock; a NULL log is silent. Rooms below train return errors: who
 * handles a thing logs it, once. What concerns a peer or a store and nobody who called, link,
 * store, collective and group log themselves.
 * Format    plain text on a terminal ("I group: ...", control characters escaped), warnings and
 *           errors in colour there where colours are wanted; Cloud Logging JSON elsewhere
 *           ({"severity","time","message","logging.googleapis.com/labels":{"module"}}).
 * Threads   any; one line is one write.
 */
#ifndef QR_BASE_LOG_H
#define QR_BASE_LOG_H

#include <stdbool.h>

#include "base/err.h"

enum qr_log_level { QR_LOG_DEBUG, QR_LOG_INFO, QR_LOG_WARNING, QR_LOG_ERROR };
/* "debug" "info" "warning" "error", by enum qr_log_level; then NULL */
extern const char *const qr_log_level_names[];
enum qr_log_format { QR_LOG_TEXT, QR_LOG_JSON, QR_LOG_COLOR };
/* Whether a terminal gets colours: not where NO_COLOR is set to something, or TERM is dumb or not
 * set (no-color.org). */
bool qr_log_wants_color(bool terminal, const char *no_color, const char *term);

struct qr_log {
    enum qr_log_level level; /* lines below are dropped before they are formatted */
    void (*write)(void *ctx, enum qr_log_level level, const char *module, const char *message);
    void *ctx;
};

/* A log that writes to file descriptor 2. format is what the caller decided (isatty → TEXT).
 * ctx is static: one such log per process and format. */
struct qr_log qr_log_stderr(enum qr_log_level level, enum qr_log_format format);

void qr_log_at(const struct qr_log *log, enum qr_log_level level, const char *module,
               const char *fmt, ...) QR_PRINTF(4, 5);
#define qr_debug(log, module, ...) qr_log_at((log), QR_LOG_DEBUG, (module), __VA_ARGS__)
#define qr_info(log, module, ...) qr_log_at((log), QR_LOG_INFO, (module), __VA_ARGS__)
#define qr_warn(log, module, ...) qr_log_at((log), QR_LOG_WARNING, (module), __VA_ARGS__)
#define qr_error(log, module, ...) qr_log_at((log), QR_LOG_ERROR, (module), __VA_ARGS__)

#endif
