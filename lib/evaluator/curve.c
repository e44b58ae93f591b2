/* evaluator/curve.c — the file evaluation.jsonl: a line for each evaluated state. Start reading at
 * qr_curve_open() and qr_curve_add(). */
#include "evaluator/curve.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "format/json.h"

static const int64_t lock_retry_ns = 50 * QR_MS, lock_timeout_ns = QR_SECOND;

static enum qr_code fail_not_a_curve(struct qr_err *err) {
    return qr_fail(
        err, QR_INVALID_ARGUMENT,
        "its last line was not written by an evaluator; delete it, or choose another --out");
}

enum qr_code qr_curve_last(struct qr_bytes window, bool first, size_t *ret_whole,
                           uint64_t *ret_step, char ret_job_hash[QR_CURVE_HASH_CHARS + 1],
                           struct qr_err *err) {
    qr_auto(qr_json_free_p) struct qr_json *line = NULL;
    int64_t step = 0;
    size_t end = window.n, begin;
    while (end > 0 && window.p[end - 1] != '\n') end--;
    if (end == 0 && !first) return fail_not_a_curve(err); /* no line is that long */
    *ret_whole = end;
    *ret_step = 0;
    memset(ret_job_hash, 0, QR_CURVE_HASH_CHARS + 1);
    if (end == 0) return QR_OK;
    for (begin = end - 1; begin > 0 && window.p[begin - 1] != '\n';) begin--;
    if (begin == 0 && !first) return fail_not_a_curve(err);
    struct qr_bytes text = qr_bytes_of(window.p + begin, end - begin);
    if (qr_json_parse(text, "line", &line, err) != QR_OK ||
        qr_json_i64(qr_json_get(line, "step"), "step", 1, INT64_C(1) << 53, &step, err) != QR_OK)
        return fail_not_a_curve(err);
    const char *hash = qr_json_text(qr_json_get(line, "job_hash"), "");
    if (!qr_is_hex(hash, QR_CURVE_HASH_CHARS)) return fail_not_a_curve(err);
    *ret_step = (uint64_t)step;
    memcpy(ret_job_hash, hash, QR_CURVE_HASH_CHARS);
    return QR_OK;
}

static enum qr_code curve_fail_errno(const struct qr_curve *c, const char *what,
                                     struct qr_err *err) {
    return qr_fail_errno(err, errno, "%s %s", what, c->path);
}

/* File systems without locks do not exclude a second evaluator. */
static enum qr_code curve_lock(const struct qr_curve *c, void (*pause)(void *ctx, int64_t ns),
                               void *ctx, struct qr_err *err) {
    for (int64_t waited_ns = 0; flock(c->fd, LOCK_EX | LOCK_NB) != 0; waited_ns += lock_retry_ns) {
        if (errno == EINTR) continue;
        if (errno != EWOULDBLOCK) return QR_OK;
        if (waited_ns >= lock_timeout_ns)
            return qr_fail(
                err, QR_UNAVAILABLE,
                "%s: another evaluator is writing it; stop that one, or choose another --out",
                c->path);
        pause(ctx, lock_retry_ns);
    }
    return QR_OK;
}

static enum qr_code curve_read_end(struct qr_curve *c, long long size, struct qr_buf *ret,
                                   struct qr_err *err) {
    long long from = size > QR_CURVE_WINDOW_BYTES ? size - QR_CURVE_WINDOW_BYTES : 0;
    size_t n = (size_t)(size - from);
    uint8_t *p = qr_buf_grow(ret, n);
    for (size_t at = 0; at < n;) {
        ssize_t got = pread(c->fd, p + at, n - at, from + (long long)at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return curve_fail_errno(c, "read", err);
        if (got == 0) return qr_fail(err, QR_UNAVAILABLE, "%s changed while it was read", c->path);
        at += (size_t)got;
    }
    return QR_OK;
}

static enum qr_code curve_find_end(struct qr_curve *c, bool replace, struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf window = {0};
    struct stat st;
    char hash[QR_CURVE_HASH_CHARS + 1];
    size_t whole = 0;
    if (fstat(c->fd, &st) != 0) return curve_fail_errno(c, "look at", err);
    QR_TRY(curve_read_end(c, st.st_size, &window, err));
    bool first = (long long)window.n == st.st_size;
    if (qr_curve_last(qr_buf_view(&window), first, &whole, &c->step, hash, err) != QR_OK)
        return qr_wrap(err, "%s", c->path);
    c->end = st.st_size - (long long)(window.n - whole);
    c->other = c->step && strcmp(hash, c->job_hash) != 0;
    if (c->other && !replace)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s is the curve of another job: its hash begins with %s, this job's with "
                       "%s; choose another --out, or replace it with --fresh",
                       c->path, hash, c->job_hash);
    if (c->other) {
        c->end = 0, c->step = 0;
        return QR_OK;
    }
    return c->end < st.st_size && ftruncate(c->fd, c->end) != 0
               ? curve_fail_errno(c, "cut the end of", err)
               : QR_OK;
}

enum qr_code qr_curve_open(const char *dir, const char *job_hash, bool replace,
                           void (*pause)(void *ctx, int64_t ns), void *ctx, struct qr_curve *ret,
                           struct qr_err *err) {
    qr_auto(qr_curve_close) struct qr_curve c = {.path = qr_path_join(dir, "evaluation.jsonl"),
                                                 .fd = -1};
    memcpy(c.job_hash, job_hash, QR_CURVE_HASH_CHARS);
    /* Never through a symbolic link, which may have been made since the folder was checked. */
    QR_TRY(qr_file_open(c.path, O_RDWR | O_CREAT | O_NOFOLLOW, &c.fd, err));
    QR_TRY(curve_lock(&c, pause, ctx, err));
    QR_TRY(curve_find_end(&c, replace, err));
    *ret = QR_MOVE(c);
    return QR_OK;
}

void qr_curve_close(struct qr_curve *c) {
    if (!c->path) return;
    if (c->fd >= 0) close(c->fd);
    free(c->path);
    *c = (struct qr_curve){0};
}

enum qr_code qr_curve_add(struct qr_curve *c, const struct qr_step_line *line, struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    enum qr_code code = QR_OK;
    if (c->other && c->step == 0 && ftruncate(c->fd, 0) != 0)
        return curve_fail_errno(c, "empty", err);
    qr_step_json(line, &text);
    text.n -= strlen("}\n");
    qr_buf_printf(&text, ",\"job_hash\":\"%s\"}\n", c->job_hash);
    for (size_t done = 0; done < text.n && code == QR_OK;) {
        ssize_t n = pwrite(c->fd, text.p + done, text.n - done, c->end + (long long)done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) code = curve_fail_errno(c, "write", err);
        else done += (size_t)n;
    }
    if (code == QR_OK) {
        c->end += (long long)text.n;
        c->step = line->step;
    } else if (ftruncate(c->fd, c->end) != 0) {
        /* A partial line is removed at the next start. */
    }
    return code;
}
