/* base/log.c — formats log lines and writes them to stderr. Start reading at qr_log_at(). */
#include "base/log.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"

enum { LINE_BYTES = 2048 };

const char *const qr_log_level_names[] = {"debug", "info", "warning", "error", NULL};
static const char *const severities[] = {"DEBUG", "INFO", "WARNING", "ERROR"};
static const enum qr_log_format formats[] = {QR_LOG_TEXT, QR_LOG_JSON, QR_LOG_COLOR};
/* Warnings in yellow, errors in bold red. */
static const char *const colors[] = {NULL, NULL, "\033[33m", "\033[1;31m"};

bool qr_log_wants_color(bool terminal, const char *no_color, const char *term) {
    return terminal && !(no_color && *no_color) && term && *term && strcmp(term, "dumb") != 0;
}

static void log_put_json_escaped(struct qr_buf *b, const char *s) {
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') qr_buf_printf(b, "\\%c", c);
        else if (c < 0x20) qr_buf_printf(b, "\\u%04x", c);
        else qr_buf_put(b, &c, 1);
    }
}

static void log_write_stderr(void *ctx, enum qr_log_level level, const char *module,
                             const char *message) {
    enum qr_log_format format = *(const enum qr_log_format *)ctx;
    struct qr_buf line = {.max = 8 * LINE_BYTES}; /* an escaped character needs six bytes */
    if (format == QR_LOG_COLOR && colors[level]) {
        qr_buf_printf(&line, "%s%c %s:\033[0m ", colors[level], severities[level][0], module);
        qr_buf_put_printable(&line, message);
        qr_buf_puts(&line, "\n");
    } else if (format != QR_LOG_JSON) {
        qr_buf_printf(&line, "%c %s: ", severities[level][0], module);
        qr_buf_put_printable(&line, message);
        qr_buf_puts(&line, "\n");
    } else {
        int64_t now = qr_now_ns(&qr_clock_wall);
        time_t seconds = (time_t)(now / QR_SECOND);
        struct tm tm;
        char stamp[32];
        gmtime_r(&seconds, &tm);
        strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &tm);
        qr_buf_printf(&line, "{\"severity\":\"%s\",\"time\":\"%s.%09lldZ\",\"message\":\"",
                      severities[level], stamp, (long long)(now % QR_SECOND));
        log_put_json_escaped(&line, message);
        qr_buf_printf(&line, "\",\"logging.googleapis.com/labels\":{\"module\":\"%s\"}}\n", module);
    }
    /* A failed write is ignored: there is no other place to report the failure. */
    ssize_t n = write(STDERR_FILENO, line.p, line.n);
    (void)n;
    qr_buf_free(&line);
}

struct qr_log qr_log_stderr(enum qr_log_level level, enum qr_log_format format) {
    return (struct qr_log){
        .level = level, .write = log_write_stderr, .ctx = (void *)(uintptr_t)&formats[format]};
}

void qr_log_at(const struct qr_log *log, enum qr_log_level level, const char *module,
               const char *fmt, ...) {
    if (!log || !log->write || level < log->level) return;
    char message[LINE_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    log->write(log->ctx, level, module, message);
}
