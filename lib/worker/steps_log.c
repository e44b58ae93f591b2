#include "worker/steps_log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"

enum { TAIL_BYTES = 64 << 10, PATIENCE_MS = 200 };

void qr_steps_log_init(struct qr_steps_log *l, const char *dir) {
    struct stat st;
    *l = (struct qr_steps_log){.path = qr_path_join(dir, "steps.jsonl"), .fd = -1, .end = -1};
    l->was_there = stat(l->path, &st) == 0 && S_ISREG(st.st_mode);
    if (l->was_there) {
        l->found_size = st.st_size;
        l->found = st.st_mtim;
    }
}

void qr_steps_log_fini(struct qr_steps_log *l) {
    if (l->fd >= 0) close(l->fd);
    free(l->path);
    qr_buf_free(&l->text);
    qr_buf_free(&l->tail);
}

static enum qr_code failed(const struct qr_steps_log *l, const char *what, struct qr_err *err) {
    return qr_fail_errno(err, errno, "%s %s", what, l->path);
}

/* ---- what the file ends with ---- */

/* Lines in the order of a run: an evaluation follows the step whose state it evaluates. */
static uint64_t place_of(const struct qr_step_line *line) { return 2 * line->step + line->eval; }
static uint64_t place_in(const char *text, size_t n) {
    static const char head[] = "{\"step\":", eval[] = "\"kind\":\"EVAL\"";
    uint64_t step = 0;
    if (n < sizeof head || memcmp(text, head, sizeof head - 1) != 0) return 0;
    for (size_t i = sizeof head - 1; i < n && text[i] >= '0' && text[i] <= '9'; i++) step = 10 * step + (uint64_t)(text[i] - '0');
    return 2 * step + (memmem(text, n, eval, sizeof eval - 1) != NULL);
}

static enum qr_code read_range(struct qr_steps_log *l, long long from, long long to, struct qr_err *err) {
    qr_buf_clear(&l->tail);
    uint8_t *p = qr_buf_grow(&l->tail, (size_t)(to - from));
    for (long long at = from; at < to;) {
        ssize_t n = pread(l->fd, p + (at - from), (size_t)(to - at), at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return failed(l, "read", err);
        if (n == 0) break;
        at += n;
    }
    return QR_OK;
}

/* The file's text holds this line, whole, at its place. */
static bool has_line(const struct qr_buf *text, const struct qr_buf *line) {
    const char *p = (const char *)text->p, *end = p + text->n, *hit = p;
    while (hit < end && (hit = memmem(hit, (size_t)(end - hit), line->p, line->n)) != NULL) {
        if (hit == p || hit[-1] == '\n') return true;
        hit++;
    }
    return false;
}

/* Cuts a torn line, and all when the file is of another run; *ret_last: place of the last line that stays, 0: none. */
static enum qr_code look_at_end(struct qr_steps_log *l, long long size, const struct qr_step_line *line, const struct qr_step_line *before,
                                size_t n_before, uint64_t *ret_last, struct qr_err *err) {
    uint64_t oldest = place_of(n_before ? &before[0] : line), last = 0;
    long long from = size > TAIL_BYTES ? size - TAIL_BYTES : 0, whole = 0;
    bool ours = false;
    if (read_range(l, from, size, err) != QR_OK) return err->code;
    for (size_t i = l->tail.n; i > 0 && !whole; i--)
        if (l->tail.p[i - 1] == '\n') whole = from + (long long)i;
    if (whole) {
        size_t n = (size_t)(whole - from), begin = n - 1;
        while (begin > 0 && l->tail.p[begin - 1] != '\n') begin--;
        last = place_in((const char *)l->tail.p + begin, n - begin);
    }
    if (last > place_of(line) && from > 0 && read_range(l, 0, whole, err) != QR_OK) return err->code; /* ahead: looked for in all of it */
    for (size_t k = 0; k <= n_before && last >= oldest && !ours; k++) {
        const struct qr_step_line *known = k < n_before ? &before[k] : line;
        if (place_of(known) != last && last <= place_of(line)) continue;
        qr_buf_clear(&l->text);
        qr_step_json(known, &l->text);
        ours = has_line(&l->tail, &l->text);
    }
    /* a step or its evaluation lies between, at most; or this worker knows of no line before (it goes on from a checkpoint) */
    if (last < oldest) ours = last && (n_before == 0 || last + 2 >= oldest);
    if (l->tail.n > 2 * TAIL_BYTES) qr_buf_free(&l->tail); /* all of a long log: not kept */
    *ret_last = ours ? last : 0;
    if (!ours) whole = 0;
    if (whole < size && ftruncate(l->fd, whole) != 0 && errno != EINVAL) return failed(l, "cut the end of", err);
    l->end = whole;
    return QR_OK;
}

/* ---- writing ---- */

/* Who was stopped in the lock is waited for once: after that the lock is only tried, until it is free again. */
static bool lock(struct qr_steps_log *l) {
    const struct timespec pause = {.tv_nsec = QR_MS};
    for (int ms = l->impatient ? PATIENCE_MS : 0; ms <= PATIENCE_MS; ms++) {
        if (flock(l->fd, LOCK_EX | LOCK_NB) == 0) return l->impatient = false, true;
        if (errno != EWOULDBLOCK && errno != EINTR) return false; /* a file system without locks */
        if (ms < PATIENCE_MS) nanosleep(&pause, NULL);
    }
    l->impatient = true;
    return false;
}

enum qr_code qr_steps_log_fresh(struct qr_steps_log *l, struct qr_err *err) {
    struct stat st;
    l->end = -1;
    l->last = 0;
    if (!l->was_there) return QR_OK;
    l->was_there = false;
    if (l->fd < 0) l->fd = open(l->path, O_RDWR | O_CLOEXEC);
    if (l->fd < 0) return errno == ENOENT ? QR_OK : failed(l, "open", err);
    bool locked = lock(l), same = fstat(l->fd, &st) == 0 && st.st_size == l->found_size && st.st_mtim.tv_sec == l->found.tv_sec &&
                                  st.st_mtim.tv_nsec == l->found.tv_nsec;
    enum qr_code code = same && ftruncate(l->fd, 0) != 0 ? failed(l, "empty", err) : QR_OK;
    if (locked) flock(l->fd, LOCK_UN);
    return code;
}

/* All of it or, of a file, nothing. A file gets it at the place that was the end: the bytes at a place are a function of the run, so one
 * that was stopped here and wakes when others are far ahead writes what is there already. */
static enum qr_code put(struct qr_steps_log *l, bool file, struct qr_err *err) {
    size_t done = 0;
    while (done < l->text.n) {
        const uint8_t *p = l->text.p + done;
        ssize_t n = file ? pwrite(l->fd, p, l->text.n - done, l->end + (long long)done) : write(l->fd, p, l->text.n - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            enum qr_code code = failed(l, "write", err);
            if (file && ftruncate(l->fd, l->end) != 0) return code;
            return code;
        }
        done += (size_t)n;
    }
    return QR_OK;
}

static enum qr_code write_locked(struct qr_steps_log *l, const struct qr_step_line *line, const struct qr_step_line *before, size_t n_before,
                                 bool *ret_continues, struct qr_err *err) {
    struct stat st;
    uint64_t last = l->last;
    bool first = l->end < 0;
    if (fstat(l->fd, &st) != 0) return failed(l, "look at", err);
    bool file = S_ISREG(st.st_mode);
    if (!file) l->end = 0;
    if (file && st.st_size != l->end && look_at_end(l, st.st_size, line, before, n_before, &last, err) != QR_OK)
        return err->code;
    qr_buf_clear(&l->text);
    for (size_t k = 0; k < n_before; k++)
        if (place_of(&before[k]) > last) qr_step_json(&before[k], &l->text);
    if (place_of(line) > last) qr_step_json(line, &l->text);
    l->last = place_of(line) > last ? place_of(line) : last;
    if (put(l, file, err) != QR_OK) return err->code;
    l->end += (long long)l->text.n;
    *ret_continues = first && n_before > 0;
    return QR_OK;
}

enum qr_code qr_steps_log_write(struct qr_steps_log *l, const struct qr_step_line *line, const struct qr_step_line *before, size_t n_before,
                                bool *ret_continues, struct qr_err *err) {
    if (l->fd < 0) l->fd = open(l->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (l->fd < 0) return failed(l, "open", err);
    bool locked = lock(l);
    enum qr_code code = write_locked(l, line, before, n_before, ret_continues, err);
    if (locked) flock(l->fd, LOCK_UN);
    return code;
}
