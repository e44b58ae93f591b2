/* base/err.c — fills error objects, maps errno values to codes and codes to exit codes. Start
 * reading at qr_fail_at(). */
#include "base/err.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const struct {
    const char *name;
    int exit;
} codes[] = {
    [QR_OK] = {"OK", 0},
    [QR_CANCELLED] = {"CANCELLED", 143},
    [QR_UNKNOWN] = {"UNKNOWN", 1},
    [QR_INVALID_ARGUMENT] = {"INVALID_ARGUMENT", 2},
    [QR_DEADLINE_EXCEEDED] = {"DEADLINE_EXCEEDED", 138},
    [QR_NOT_FOUND] = {"NOT_FOUND", 2},
    [QR_ALREADY_EXISTS] = {"ALREADY_EXISTS", 2},
    [QR_PERMISSION_DENIED] = {"PERMISSION_DENIED", 2},
    [QR_RESOURCE_EXHAUSTED] = {"RESOURCE_EXHAUSTED", 2},
    [QR_FAILED_PRECONDITION] = {"FAILED_PRECONDITION", 3},
    [QR_ABORTED] = {"ABORTED", 138},
    [QR_OUT_OF_RANGE] = {"OUT_OF_RANGE", 4},
    [QR_UNIMPLEMENTED] = {"UNIMPLEMENTED", 2},
    [QR_INTERNAL] = {"INTERNAL", 1},
    [QR_UNAVAILABLE] = {"UNAVAILABLE", 138},
    [QR_DATA_LOSS] = {"DATA_LOSS", 4},
    [QR_UNAUTHENTICATED] = {"UNAUTHENTICATED", 2},
    [QR_OVER_BUDGET] = {"OVER_BUDGET", 5},
    [QR_DIFFERS] = {"DIFFERS", 6},
    [QR_UNPROVEN] = {"UNPROVEN", 7},
};
enum { N_CODES = sizeof codes / sizeof *codes };

/* Ends a truncated message with "...", and drops a partial UTF-8 character before it. */
static void err_mark_truncation(char *msg, size_t cap, int wanted) {
    if (wanted < 0 || (size_t)wanted < cap) return;
    memcpy(msg + qr_utf8_cut(msg, cap - 4), "...", 4);
}

/* Arguments may quote a file or a peer: control characters are escaped. */
static void err_format(char ret[QR_ERR_MSG_BYTES], const char *fmt, va_list ap) {
    char raw[QR_ERR_MSG_BYTES];
    err_mark_truncation(raw, sizeof raw, vsnprintf(raw, sizeof raw, fmt, ap));
    err_mark_truncation(ret, QR_ERR_MSG_BYTES, (int)qr_printable(ret, QR_ERR_MSG_BYTES, raw));
}

static void err_set(struct qr_err *err, enum qr_code code, int sys, const char *file, int line,
                    const char *fmt, va_list ap) {
    char msg[QR_ERR_MSG_BYTES]; /* a copy, since arguments may point into err->msg */
    err_format(msg, fmt, ap);
    err->code = code;
    err->sys = sys;
    err->file = file;
    err->line = line;
    memcpy(err->msg, msg, sizeof msg);
}

enum qr_code qr_fail_at(struct qr_err *err, enum qr_code code, const char *file, int line,
                        const char *fmt, ...) {
    QR_ASSERT(code != QR_OK);
    va_list ap;
    va_start(ap, fmt);
    err_set(err, code, 0, file, line, fmt, ap);
    va_end(ap);
    return code;
}

static enum qr_code code_of_errno(int sys) {
    static const uint8_t of[] = {
        [ENOENT] = QR_NOT_FOUND,
        [ENOTDIR] = QR_NOT_FOUND,
        [EEXIST] = QR_ALREADY_EXISTS,
        [EADDRINUSE] = QR_ALREADY_EXISTS,
        [EACCES] = QR_PERMISSION_DENIED,
        [EPERM] = QR_PERMISSION_DENIED,
        [EROFS] = QR_PERMISSION_DENIED,
        [ENOMEM] = QR_RESOURCE_EXHAUSTED,
        [ENOSPC] = QR_RESOURCE_EXHAUSTED,
        [EDQUOT] = QR_RESOURCE_EXHAUSTED,
        [EFBIG] = QR_RESOURCE_EXHAUSTED,
        [EIO] = QR_RESOURCE_EXHAUSTED, /* but see qr_file_read */
        [EINVAL] = QR_INVALID_ARGUMENT,
        [EISDIR] = QR_INVALID_ARGUMENT,
        [ENAMETOOLONG] = QR_INVALID_ARGUMENT,
        [ELOOP] = QR_INVALID_ARGUMENT,
        [ETIMEDOUT] = QR_DEADLINE_EXCEEDED,
        [ECONNREFUSED] = QR_UNAVAILABLE,
        [ECONNRESET] = QR_UNAVAILABLE,
        [EPIPE] = QR_UNAVAILABLE,
        [EAGAIN] = QR_UNAVAILABLE,
        [EHOSTUNREACH] = QR_UNAVAILABLE,
        [ENETUNREACH] = QR_UNAVAILABLE,
        [EINTR] = QR_UNAVAILABLE,
        [EMFILE] = QR_UNAVAILABLE,
        [ENFILE] = QR_UNAVAILABLE,
    };
    bool known = (unsigned)sys < sizeof of && of[sys] != QR_OK;
    return known ? (enum qr_code)of[sys] : QR_UNKNOWN;
}

/* Joins two texts into dst as "head: tail"; truncates the tail when both do not fit. */
static void err_join(char dst[QR_ERR_MSG_BYTES], const char *head, const char *tail) {
    size_t cap = QR_ERR_MSG_BYTES, h = strnlen(head, cap - 1), t = strlen(tail);
    size_t sep = h + 2 < cap ? 2 : 0;
    char out[QR_ERR_MSG_BYTES];
    memcpy(out, head, h);
    memcpy(out + h, ": ", sep);
    size_t space = cap - 1 - h - sep, take = t < space ? t : space;
    memcpy(out + h + sep, tail, take);
    out[h + sep + take] = 0;
    err_mark_truncation(out, cap, take < t ? (int)cap : 0);
    memcpy(dst, out, cap);
}

enum qr_code qr_fail_errno_at(struct qr_err *err, int sys, const char *file, int line,
                              const char *fmt, ...) {
    enum qr_code code = code_of_errno(sys);
    va_list ap;
    va_start(ap, fmt);
    err_set(err, code, sys, file, line, fmt, ap);
    va_end(ap);
    char buf[128];
    err_join(err->msg, err->msg,
             sys == EMFILE ? "Too many open files; raise the limit (ulimit -n)"
                           : strerror_r(sys, buf, sizeof buf));
    return code;
}

enum qr_code qr_wrap(struct qr_err *err, const char *fmt, ...) {
    char head[QR_ERR_MSG_BYTES];
    va_list ap;
    va_start(ap, fmt);
    err_format(head, fmt, ap);
    va_end(ap);
    err_join(err->msg, head, err->msg);
    return err->code;
}

const char *qr_code_name(enum qr_code code) {
    return (unsigned)code < N_CODES ? codes[code].name : "?";
}

int qr_exit_code(enum qr_code code) { return (unsigned)code < N_CODES ? codes[code].exit : 1; }

static volatile sig_atomic_t abort_reported;

void qr_abort(void) {
    abort_reported = 1;
    abort();
}
bool qr_abort_reported(void) { return abort_reported; }

void qr_assert_failed(const char *cond, const char *file, int line) {
    fprintf(stderr, "qring: internal error: %s does not hold (%s:%d). Please report this.\n", cond,
            file, line);
    qr_abort();
}

struct qr_path qr_path_of(const char *fmt, ...) {
    struct qr_path p;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(p.s, sizeof p.s, fmt, ap);
    va_end(ap);
    return p;
}
