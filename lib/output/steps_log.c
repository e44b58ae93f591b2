/* output/steps_log.c — writes steps.jsonl. Start reading at qr_steps_log_write() and
 * check_end(). */
#include "output/steps_log.h"

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

enum { PATIENCE_MS = 200 };
static const int64_t retry_every_ns = QR_SECOND;

void qr_steps_log_init(struct qr_steps_log *l, const char *dir) {
    struct stat st;
    *l = (struct qr_steps_log){.path = qr_path_join(dir, "steps.jsonl"), .fd = -1, .end = -1};
    l->was_there = lstat(l->path, &st) == 0 && S_ISREG(st.st_mode);
    if (l->was_there) {
        l->found_size = st.st_size;
        l->found = st.st_mtim;
    }
}

void qr_steps_log_fini(struct qr_steps_log *l) {
    if (l->fd >= 0) close(l->fd);
    free(l->path);
    qr_buf_free(&l->kept);
    qr_buf_free(&l->tail);
}

static enum qr_code fail_errno(const struct qr_steps_log *l, const char *what, struct qr_err *err) {
    return qr_fail_errno(err, errno, "cannot %s %s", what, l->path);
}

/* Does not follow a link, which may have been created since the folder was checked. */
static enum qr_code open_log(struct qr_steps_log *l, int flags, struct qr_err *err) {
    if (l->fd >= 0) return QR_OK;
    if (qr_file_open(l->path, O_RDWR | O_NOFOLLOW | flags, &l->fd, err) == QR_OK) return QR_OK;
    return qr_wrap(err, "open");
}

/* ---- the end of the file ---- */

/* Order of lines: an evaluation follows the step that it evaluates. */
static uint64_t line_position(const struct qr_step_line *line) {
    return 2 * line->step + line->eval;
}
static uint64_t text_position(const char *text, size_t n) {
    static const char head[] = "{\"step\":", eval[] = "\"kind\":\"EVAL\"";
    uint64_t step = 0;
    if (n < sizeof head || memcmp(text, head, sizeof head - 1) != 0) return 0;
    for (size_t i = sizeof head - 1; i < n && text[i] >= '0' && text[i] <= '9'; i++)
        step = 10 * step + (uint64_t)(text[i] - '0');
    return 2 * step + (memmem(text, n, eval, sizeof eval - 1) != NULL);
}

static enum qr_code read_range(struct qr_steps_log *l, long long from, long long to,
                               struct qr_err *err) {
    qr_buf_clear(&l->tail);
    uint8_t *p = qr_buf_grow(&l->tail, (size_t)(to - from));
    for (long long at = from; at < to;) {
        ssize_t n = pread(l->fd, p + (at - from), (size_t)(to - at), at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno(l, "read", err);
        if (n == 0) break;
        at += n;
    }
    return QR_OK;
}

/* Next line of the text from *at on; *at stays at a torn line. */
static bool next_line(struct qr_bytes text, size_t *at, struct qr_bytes *ret) {
    const uint8_t *p = text.p + *at, *end = *at < text.n ? memchr(p, '\n', text.n - *at) : NULL;
    if (!end) return false;
    *ret = qr_bytes_of(p, (size_t)(end - p) + 1);
    *at += ret->n;
    return true;
}

static uint64_t bytes_position(struct qr_bytes line) {
    return text_position((const char *)line.p, line.n);
}

/* True if the text has this whole line. */
static bool has_line(struct qr_bytes text, struct qr_bytes line) {
    const uint8_t *p = text.p, *end = text.p + text.n;
    for (const uint8_t *hit = p;
         hit < end && (hit = memmem(hit, (size_t)(end - hit), line.p, line.n)) != NULL; hit++)
        if (hit == p || hit[-1] == '\n') return true;
    return false;
}

/* The lines of the run that this worker knows: text, positions of the first and last one, and
 * whether there are several. */
struct known {
    struct qr_bytes text;
    uint64_t oldest, newest;
    bool several;
};

static struct known known_of(struct qr_bytes text) {
    struct known k = {.text = text};
    struct qr_bytes line;
    for (size_t at = 0; next_line(text, &at, &line);) {
        k.several = k.oldest > 0;
        k.newest = bytes_position(line);
        if (!k.oldest) k.oldest = k.newest;
    }
    return k;
}

/* True if one of the known lines in the range of these whole lines is there. */
static bool has_known_line(struct qr_bytes lines, const struct known *k) {
    struct qr_bytes line, first = {0}, last = {0}, known;
    for (size_t at = 0; next_line(lines, &at, &line); last = line)
        if (!first.n) first = line;
    if (!first.n) return false;
    for (size_t at = 0; next_line(k->text, &at, &known);)
        if (bytes_position(known) >= bytes_position(first) &&
            bytes_position(known) <= bytes_position(last) && has_line(lines, known))
            return true;
    return false;
}

/* The file continues beyond the known lines: search backward, one window at a time, until its lines
 * are older. l->tail has the last window. */
static enum qr_code find_known_line(struct qr_steps_log *l, long long from, long long end,
                                    const struct known *k, bool *ret, struct qr_err *err) {
    for (*ret = false;;) {
        struct qr_bytes window = qr_bytes_of(l->tail.p, (size_t)(end - from)), line;
        size_t cut = 0;
        /* A line of that length is not of qring. */
        if (from > 0 && !next_line(window, &cut, &line)) return QR_OK;
        window = qr_bytes_of(window.p + cut, window.n - cut);
        *ret = has_known_line(window, k);
        size_t at = 0;
        bool older = next_line(window, &at, &line) && bytes_position(line) < k->oldest;
        if (*ret || older || from == 0) return QR_OK;
        end = from + (long long)cut;
        from = end > QR_STEPS_WINDOW_BYTES ? end - QR_STEPS_WINDOW_BYTES : 0;
        QR_TRY(read_range(l, from, end, err));
    }
}

/* Reads the last window into l->tail. *ret_line: its last whole line; *ret_whole: offset of the end
 * of that line, 0: none. */
static enum qr_code read_end(struct qr_steps_log *l, long long size, long long *ret_whole,
                             struct qr_bytes *ret_line, struct qr_err *err) {
    long long from = size > QR_STEPS_WINDOW_BYTES ? size - QR_STEPS_WINDOW_BYTES : 0;
    *ret_whole = 0;
    *ret_line = (struct qr_bytes){0};
    QR_TRY(read_range(l, from, size, err));
    size_t n = l->tail.n;
    while (n > 0 && l->tail.p[n - 1] != '\n') n--;
    if (!n) return QR_OK;
    size_t begin = n - 1;
    while (begin > 0 && l->tail.p[begin - 1] != '\n') begin--;
    *ret_whole = from + (long long)n;
    *ret_line = qr_bytes_of(l->tail.p + begin, n - begin);
    return QR_OK;
}

/* Cuts a torn line, or everything if the file is of another run. *ret_last: position of the last
 * remaining line, 0: none. */
static enum qr_code check_end(struct qr_steps_log *l, long long size, const struct known *k,
                              uint64_t *ret_last, struct qr_err *err) {
    long long from = size > QR_STEPS_WINDOW_BYTES ? size - QR_STEPS_WINDOW_BYTES : 0, whole;
    struct qr_bytes end;
    struct stat st;
    bool ours = false;
    QR_TRY(read_end(l, size, &whole, &end, err));
    uint64_t last = end.n ? bytes_position(end) : 0;
    if (last >= k->oldest && last <= k->newest) ours = last && has_known_line(end, k);
    if (last > k->newest && find_known_line(l, from, whole, k, &ours, err) != QR_OK)
        return err->code;
    /* At most one line lies between, a step or its evaluation; or this worker knows no earlier line
     * (it resumed from a checkpoint); or lines were lost with the previous leader. */
    bool next = last + 2 >= k->oldest;
    if (last < k->oldest) ours = last && (!k->several || next || l->ours);
    if (ours && last < k->oldest && !next) l->lacks_after = last, l->lacks_before = k->oldest;
    *ret_last = ours ? last : 0;
    if (!ours && whole && l->leaves)
        return qr_fail(err, QR_FAILED_PRECONDITION, "%s ends before the lines of this worker",
                       l->path);
    if (!ours) whole = 0;
    /* Not by a process that was stopped here while others have written. */
    bool still = fstat(l->fd, &st) == 0 && st.st_size == size;
    if (whole < size && still && ftruncate(l->fd, whole) != 0 && errno != EINVAL)
        return fail_errno(l, "truncate", err);
    l->end = whole;
    return QR_OK;
}

/* ---- writing ---- */

/* A holder that was stopped is waited for once; afterwards the lock is only tried, until it is free
 * again. */
static bool lock_log(struct qr_steps_log *l) {
    for (int ms = l->impatient ? PATIENCE_MS : 0; ms <= PATIENCE_MS; ms++) {
        if (flock(l->fd, LOCK_EX | LOCK_NB) == 0) return l->impatient = false, true;
        if (errno != EWOULDBLOCK && errno != EINTR) return false; /* no locks in this file system */
        if (ms < PATIENCE_MS) qr_sleep_ns(QR_MS);
    }
    l->impatient = true;
    return false;
}

enum qr_code qr_steps_log_truncate(struct qr_steps_log *l, struct qr_err *err) {
    struct stat st;
    l->end = -1;
    l->last = 0;
    l->ours = true;
    if (!l->was_there) return QR_OK;
    l->was_there = false;
    enum qr_code code = open_log(l, 0, err);
    if (code != QR_OK) return code == QR_NOT_FOUND ? QR_OK : code;
    bool locked = lock_log(l), same = fstat(l->fd, &st) == 0 && st.st_size == l->found_size &&
                                      st.st_mtim.tv_sec == l->found.tv_sec &&
                                      st.st_mtim.tv_nsec == l->found.tv_nsec;
    code = same && ftruncate(l->fd, 0) != 0 ? fail_errno(l, "truncate", err) : QR_OK;
    if (locked) flock(l->fd, LOCK_UN);
    return code;
}

/* Removes a partly written line, unless other workers have written behind it. If they have, or if
 * that fails, the end is checked before the next write. */
static void undo_partial_write(struct qr_steps_log *l, size_t done) {
    struct stat st;
    bool only_ours = fstat(l->fd, &st) == 0 && st.st_size <= l->end + (long long)done;
    if (!only_ours || ftruncate(l->fd, l->end) != 0) l->end = -1;
}

/* Writes all or nothing, at the offset that was the end. The bytes at an offset are a function of
 * the run, so a process that was stopped here and continues later writes the same bytes again. */
static enum qr_code append_text(struct qr_steps_log *l, struct qr_bytes text, struct qr_err *err) {
    size_t done = 0;
    while (done < text.n) {
        ssize_t n = pwrite(l->fd, text.p + done, text.n - done, l->end + (long long)done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            enum qr_code code = fail_errno(l, "write", err);
            undo_partial_write(l, done);
            return code;
        }
        done += (size_t)n;
    }
    return QR_OK;
}

/* A line to be written, with the preceding ones. */
struct reported {
    const struct qr_step_line *line, *before;
    size_t n_before;
};

/* Adds lines to l->kept; without `all` only those before that the file lacks. */
static void keep_lines(struct qr_steps_log *l, const struct reported *t, bool all) {
    for (size_t i = 0; t && i <= t->n_before; i++) {
        const struct qr_step_line *line = i < t->n_before ? &t->before[i] : t->line;
        uint64_t place = line_position(line);
        if (l->kept.n ? place <= l->kept_last : !all && place <= l->last) continue;
        qr_step_json(line, &l->kept);
        l->kept_last = place;
    }
    l->full = l->kept.n > QR_STEPS_KEPT_BYTES;
}

/* Writes the lines of l->kept that the file lacks, and empties l->kept. */
static enum qr_code write_locked(struct qr_steps_log *l, const struct reported *t,
                                 struct qr_err *err) {
    struct stat st;
    struct qr_bytes line;
    uint64_t last = l->last;
    bool known = fstat(l->fd, &st) == 0, look = known && st.st_size != l->end;
    keep_lines(l, t, look || !known);
    if (!known) return fail_errno(l, "stat", err);
    struct qr_bytes all = qr_buf_view(&l->kept);
    struct known k = known_of(all);
    if (look && check_end(l, st.st_size, &k, &last, err) != QR_OK) return err->code;
    size_t at = 0, behind = 0;
    while (next_line(all, &at, &line) && bytes_position(line) <= last) behind = at;
    l->last = last;
    QR_TRY(append_text(l, qr_bytes_of(all.p + behind, all.n - behind), err));
    l->end += (long long)(all.n - behind);
    if (k.newest > last) l->last = k.newest;
    if (l->kept.cap > QR_STEPS_WINDOW_BYTES) qr_buf_free(&l->kept);
    else qr_buf_clear(&l->kept);
    l->full = false;
    return QR_OK;
}

static enum qr_code write_or_keep(struct qr_steps_log *l, const struct reported *t,
                                  struct qr_err *err) {
    enum qr_code code = open_log(l, O_CREAT, err);
    if (code != QR_OK) {
        keep_lines(l, t, true);
        l->why = *err;
        return code;
    }
    bool locked = lock_log(l);
    code = write_locked(l, t, err);
    if (locked) flock(l->fd, LOCK_UN);
    if (code != QR_OK) l->why = *err;
    return code;
}

enum qr_code qr_steps_log_write(struct qr_steps_log *l, const struct qr_step_line *line,
                                const struct qr_step_line *before, size_t n_before,
                                bool *ret_continues, struct qr_err *err) {
    const struct reported t = {line, before, n_before};
    bool first = l->end < 0 && !l->kept.n;
    *ret_continues = false;
    if (l->kept.n && qr_now_ns(&qr_clock_monotonic) < l->retry_ns)
        return keep_lines(l, &t, true), QR_OK;
    enum qr_code code = write_or_keep(l, &t, err);
    if (code != QR_OK) l->retry_ns = qr_now_ns(&qr_clock_monotonic) + retry_every_ns;
    *ret_continues = code == QR_OK && first && n_before > 0;
    return code;
}

void qr_steps_log_resume(struct qr_steps_log *l, uint64_t step) {
    struct stat st;
    struct qr_bytes line;
    struct qr_err err;
    long long whole;
    if (!l->was_there || open_log(l, 0, &err) != QR_OK || fstat(l->fd, &st) != 0) return;
    if (read_end(l, st.st_size, &whole, &line, &err) != QR_OK) return;
    l->ours = line.n && bytes_position(line) >= 2 * step;
}

enum qr_code qr_steps_log_write_leaving(struct qr_steps_log *l, const struct qr_step_line *line,
                                        size_t n, struct qr_err *err) {
    const struct reported t = {&line[n - 1], line, n - 1};
    l->leaves = true;
    enum qr_code code = write_or_keep(l, &t, err);
    l->leaves = false;
    return code;
}

enum qr_code qr_steps_log_flush(struct qr_steps_log *l, struct qr_err *err) {
    return l->kept.n ? write_or_keep(l, NULL, err) : QR_OK;
}

bool qr_steps_log_pending(const struct qr_steps_log *l) { return l->kept.n > 0; }

size_t qr_steps_log_n_pending(const struct qr_steps_log *l) {
    struct qr_bytes line;
    size_t n = 0;
    for (size_t at = 0; next_line(qr_buf_view(&l->kept), &at, &line);) n++;
    return n;
}
