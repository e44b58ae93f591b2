/* base/err.c — fills error objects, maps errno values to codes and codes to exit codes. Start
 * reading at qr_fail_at(). */
#include "base/err.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const char *const code_names[] = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
    "OVER_BUDGET",
};

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
    if (!err) return;
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
    switch (sys) {
    case ENOENT:
    case ENOTDIR: return QR_NOT_FOUND;
    case EEXIST:
    case EADDRINUSE: return QR_ALREADY_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS: return QR_PERMISSION_DENIED;
    case ENOMEM:
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EIO: return QR_RESOURCE_EXHAUSTED; /* qr_file_read has its own code for it */
    case EINVAL:
    case EISDIR:
    case ENAMETOOLONG:
    case ELOOP: return QR_INVALID_ARGUMENT;
    case ETIMEDOUT: return QR_DEADLINE_EXCEEDED;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case EAGAIN:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EINTR:
    case EMFILE:
    case ENFILE: return QR_UNAVAILABLE;
    default: return QR_UNKNOWN;
    }
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
    if (err) err_join(err->msg, err->msg, strerror_r(sys, buf, sizeof buf));
    return code;
}

enum qr_code qr_wrap(struct qr_err *err, const char *fmt, ...) {
    if (!err) return QR_UNKNOWN;
    char head[QR_ERR_MSG_BYTES];
    va_list ap;
    va_start(ap, fmt);
    err_format(head, fmt, ap);
    va_end(ap);
    err_join(err->msg, head, err->msg);
    return err->code;
}

const char *qr_code_name(enum qr_code code) {
    return (unsigned)code < sizeof code_names / sizeof *code_names ? code_names[code] : "?";
}

int qr_exit_code(enum qr_code code) {
    switch (code) {
    case QR_OK: return 0;
    case QR_INVALID_ARGUMENT:
    case QR_NOT_FOUND:
    case QR_ALREADY_EXISTS:
    case QR_PERMISSION_DENIED:
    case QR_RESOURCE_EXHAUSTED:
    case QR_UNIMPLEMENTED:
    case QR_UNAUTHENTICATED: return 2;
    case QR_FAILED_PRECONDITION: return 3;
    case QR_DATA_LOSS:
    case QR_OUT_OF_RANGE: return 4;
    case QR_OVER_BUDGET: return 5;
    case QR_UNAVAILABLE:
    case QR_ABORTED:
    case QR_DEADLINE_EXCEEDED: return 138;
    case QR_CANCELLED: return 143;
    case QR_UNKNOWN:
    case QR_INTERNAL: break;
    }
    return 1;
}

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
