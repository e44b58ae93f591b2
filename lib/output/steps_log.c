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

static enum qr_code failed(const struct qr_steps_log *l, const char *what, struct qr_err *err) {
    return qr_fail_errno(err, errno, "%s %s", what, l->path);
}

/* Never through a link, which may have come since the folder was looked at. */
static enum qr_code open_log(struct qr_steps_log *l, int flags, struct qr_err *err) {
    if (l->fd >= 0) return QR_OK;
    enum qr_code code = qr_file_open(l->path, O_RDWR | O_NOFOLLOW | flags, &l->fd, err);
    return code == QR_OK ? code : qr_wrap(err, "open");
}

/* ---- what the file ends with ---- */

/* Lines in the order of a run: an evaluation follows the step whose state it evaluates. */
static uint64_t place_of(const struct qr_step_line *line) { return 2 * line->step + line->eval; }
static uint64_t place_in(const char *text, size_t n) {
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
        if (n < 0) return failed(l, "read", err);
        if (n == 0) break;
        at += n;
    }
    return QR_OK;
}

/* The text's next line from *at on, without moving past a torn one. */
static bool next_line(struct qr_bytes text, size_t *at, struct qr_bytes *ret) {
    const uint8_t *p = text.p + *at, *end = *at < text.n ? memchr(p, '\n', text.n - *at) : NULL;
    if (!end) return false;
    *ret = qr_bytes_of(p, (size_t)(end - p) + 1);
    *at += ret->n;
    return true;
}

static uint64_t place_at(struct qr_bytes line) { return place_in((const char *)line.p, line.n); }

/* The text has a whole line of this place, with these bytes. */
static bool has_line(struct qr_bytes text, struct qr_bytes line) {
    const uint8_t *p = text.p, *end = text.p + text.n;
    for (const uint8_t *hit = p;
         hit < end && (hit = memmem(hit, (size_t)(end - hit), line.p, line.n)) != NULL; hit++)
        if (hit == p || hit[-1] == '\n') return true;
    return false;
}

/* What this worker knows of the run's lines: text, the places of its first and its last, and
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
        k.newest = place_at(line);
        if (!k.oldest) k.oldest = k.newest;
    }
    return k;
}

/* One of the known lines that could stand in these whole lines does. */
static bool meets(struct qr_bytes lines, const struct known *k) {
    struct qr_bytes line, first = {0}, last = {0}, known;
    for (size_t at = 0; next_line(lines, &at, &line); last = line)
        if (!first.n) first = line;
    if (!first.n) return false;
    for (size_t at = 0; next_line(k->text, &at, &known);)
        if (place_at(known) >= place_at(first) && place_at(known) <= place_at(last) &&
            has_line(lines, known))
            return true;
    return false;
}

/* The file has gone on beyond what is known: looked for backward, a window at a time, until its
 * lines are older. l->tail has the last one. */
static enum qr_code meets_before(struct qr_steps_log *l, long long from, long long end,
                                 const struct known *k, bool *ret, struct qr_err *err) {
    for (*ret = false;;) {
        struct qr_bytes window = qr_bytes_of(l->tail.p, (size_t)(end - from)), line;
        size_t cut = 0;
        /* a line as long as that is none of ours */
        if (from > 0 && !next_line(window, &cut, &line)) return QR_OK;
        window = qr_bytes_of(window.p + cut, window.n - cut);
        *ret = meets(window, k);
        size_t at = 0;
        bool older = next_line(window, &at, &line) && place_at(line) < k->oldest;
        if (*ret || older || from == 0) return QR_OK;
        end = from + (long long)cut;
        from = end > QR_STEPS_WINDOW_BYTES ? end - QR_STEPS_WINDOW_BYTES : 0;
        if (read_range(l, from, end, err) != QR_OK) return err->code;
    }
}

/* The last window into l->tail; *ret_line: its last whole line, *ret_whole: where that ends in the
 * file, 0: there is none. */
static enum qr_code read_end(struct qr_steps_log *l, long long size, long long *ret_whole,
                             struct qr_bytes *ret_line, struct qr_err *err) {
    long long from = size > QR_STEPS_WINDOW_BYTES ? size - QR_STEPS_WINDOW_BYTES : 0;
    *ret_whole = 0;
    *ret_line = (struct qr_bytes){0};
    if (read_range(l, from, size, err) != QR_OK) return err->code;
    size_t n = l->tail.n;
    while (n > 0 && l->tail.p[n - 1] != '\n') n--;
    if (!n) return QR_OK;
    size_t begin = n - 1;
    while (begin > 0 && l->tail.p[begin - 1] != '\n') begin--;
    *ret_whole = from + (long long)n;
    *ret_line = qr_bytes_of(l->tail.p + begin, n - begin);
    return QR_OK;
}

/* Cuts a torn line, and all when the file is of another run; *ret_last: place of the last line that
 * stays, 0: none. */
static enum qr_code look_at_end(struct qr_steps_log *l, long long size, const struct known *k,
                                uint64_t *ret_last, struct qr_err *err) {
    long long from = size > QR_STEPS_WINDOW_BYTES ? size - QR_STEPS_WINDOW_BYTES : 0, whole;
    struct qr_bytes end;
    struct stat st;
    bool ours = false;
    if (read_end(l, size, &whole, &end, err) != QR_OK) return err->code;
    uint64_t last = end.n ? place_at(end) : 0;
    if (last >= k->oldest && last <= k->newest) ours = last && meets(end, k);
    if (last > k->newest && meets_before(l, from, whole, k, &ours, err) != QR_OK) return err->code;
    /* a step or its evaluation lies between, at most; or this worker knows of no line before (it
     * goes on from a checkpoint); or lines are lost with the worker that led before */
    bool next = last + 2 >= k->oldest;
    if (last < k->oldest) ours = last && (!k->several || next || l->ours);
    if (ours && last < k->oldest && !next) l->lacks_after = last, l->lacks_before = k->oldest;
    *ret_last = ours ? last : 0;
    if (!ours && whole && l->leaves)
        return qr_fail(err, QR_FAILED_PRECONDITION, "%s does not reach the lines of this worker",
                       l->path);
    if (!ours) whole = 0;
    /* not by one that was stopped just here, when others have gone on since */
    bool still = fstat(l->fd, &st) == 0 && st.st_size == size;
    if (whole < size && still && ftruncate(l->fd, whole) != 0 && errno != EINVAL)
        return failed(l, "cut the end of", err);
    l->end = whole;
    return QR_OK;
}

/* ---- writing ---- */

/* Who was stopped in the lock is waited for once: after that the lock is only tried, until it is
 * free again. */
static bool lock(struct qr_steps_log *l) {
    for (int ms = l->impatient ? PATIENCE_MS : 0; ms <= PATIENCE_MS; ms++) {
        if (flock(l->fd, LOCK_EX | LOCK_NB) == 0) return l->impatient = false, true;
        if (errno != EWOULDBLOCK && errno != EINTR) return false; /* a file system without locks */
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
    bool locked = lock(l), same = fstat(l->fd, &st) == 0 && st.st_size == l->found_size &&
                                  st.st_mtim.tv_sec == l->found.tv_sec &&
                                  st.st_mtim.tv_nsec == l->found.tv_nsec;
    code = same && ftruncate(l->fd, 0) != 0 ? failed(l, "empty", err) : QR_OK;
    if (locked) flock(l->fd, LOCK_UN);
    return code;
}

/* After half a line: it goes, unless others have written behind it meanwhile. Then, and when it
 * stays, the end is looked at before the next. */
static void take_back(struct qr_steps_log *l, size_t done) {
    struct stat st;
    bool only_ours = fstat(l->fd, &st) == 0 && st.st_size <= l->end + (long long)done;
    if (!only_ours || ftruncate(l->fd, l->end) != 0) l->end = -1;
}

/* All of it or nothing, at the place that was the end: the bytes at a place are a function of
 * the run, so one that was stopped here and wakes when others are far ahead writes what is
 * there already. */
static enum qr_code append(struct qr_steps_log *l, struct qr_bytes text, struct qr_err *err) {
    size_t done = 0;
    while (done < text.n) {
        ssize_t n = pwrite(l->fd, text.p + done, text.n - done, l->end + (long long)done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            enum qr_code code = failed(l, "write", err);
            take_back(l, done);
            return code;
        }
        done += (size_t)n;
    }
    return QR_OK;
}

/* A line that is to be written, with those before it. */
struct reported {
    const struct qr_step_line *line, *before;
    size_t n_before;
};

/* Into l->kept, unless they are there; without all: of those before, what the file does
 * not have. */
static void keep(struct qr_steps_log *l, const struct reported *t, bool all) {
    for (size_t i = 0; t && i <= t->n_before; i++) {
        const struct qr_step_line *line = i < t->n_before ? &t->before[i] : t->line;
        uint64_t place = place_of(line);
        if (l->kept.n ? place <= l->kept_last : !all && place <= l->last) continue;
        qr_step_json(line, &l->kept);
        l->kept_last = place;
    }
    l->full = l->kept.n > QR_STEPS_KEPT_BYTES;
}

/* l->kept, as far as the file does not have it, and empty then. */
static enum qr_code write_locked(struct qr_steps_log *l, const struct reported *t,
                                 struct qr_err *err) {
    struct stat st;
    struct qr_bytes line;
    uint64_t last = l->last;
    bool known = fstat(l->fd, &st) == 0, look = known && st.st_size != l->end;
    keep(l, t, look || !known);
    if (!known) return failed(l, "look at", err);
    struct qr_bytes all = qr_buf_view(&l->kept);
    struct known k = known_of(all);
    if (look && look_at_end(l, st.st_size, &k, &last, err) != QR_OK) return err->code;
    size_t at = 0, behind = 0;
    while (next_line(all, &at, &line) && place_at(line) <= last) behind = at;
    l->last = last;
    if (append(l, qr_bytes_of(all.p + behind, all.n - behind), err) != QR_OK) return err->code;
    l->end += (long long)(all.n - behind);
    if (k.newest > last) l->last = k.newest;
    if (l->kept.cap > QR_STEPS_WINDOW_BYTES) qr_buf_free(&l->kept);
    else qr_buf_clear(&l->kept);
    l->full = false;
    return QR_OK;
}

static enum qr_code try(struct qr_steps_log *l, const struct reported *t, struct qr_err *err) {
    struct qr_err own;
    if (!err) err = &own;
    enum qr_code code = open_log(l, O_CREAT, err);
    if (code != QR_OK) {
        keep(l, t, true);
        l->why = *err;
        return code;
    }
    bool locked = lock(l);
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
    if (l->kept.n && qr_now_ns(&qr_clock_monotonic) < l->retry_ns) return keep(l, &t, true), QR_OK;
    enum qr_code code = try(l, &t, err);
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
    l->ours = line.n && place_at(line) >= 2 * step;
}

enum qr_code qr_steps_log_write_leaving(struct qr_steps_log *l, const struct qr_step_line *line,
                                        size_t n, struct qr_err *err) {
    const struct reported t = {&line[n - 1], line, n - 1};
    l->leaves = true;
    enum qr_code code = try(l, &t, err);
    l->leaves = false;
    return code;
}

enum qr_code qr_steps_log_flush(struct qr_steps_log *l, struct qr_err *err) {
    return l->kept.n ? try(l, NULL, err) : QR_OK;
}

bool qr_steps_log_pending(const struct qr_steps_log *l) { return l->kept.n > 0; }

size_t qr_steps_log_n_pending(const struct qr_steps_log *l) {
    struct qr_bytes line;
    size_t n = 0;
    for (size_t at = 0; next_line(qr_buf_view(&l->kept), &at, &line);) n++;
    return n;
}
