/* output/run_lock.c — locks the folder of a run. Start reading at qr_run_lock_take(). */
#include "output/run_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "format/json.h"
#include "output/leftovers.h"

/* Offsets of the two locked bytes, which need not exist. */
enum { GATE, RUN, TEXT_BYTES = 1 << 15, PAUSE_NS = 10 * QR_MS, LEFTOVER_S = 60 };

/* type: F_WRLCK, F_RDLCK or F_UNLCK. Returns 0 or an errno. */
static int set_lock(int fd, short type, off_t byte) {
    struct flock f = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &f) == 0 ? 0 : errno;
}
static bool is_held(int sys) { return sys == EAGAIN || sys == EACCES; }

/* ---- content of the file ---- */

static enum qr_code write_text(const struct qr_run_lock_options *opt, const struct qr_run_lock *l,
                               struct qr_err *err) {
    char host[256] = "";
    qr_auto(qr_buf_free) struct qr_buf b = {0};
    gethostname(host, sizeof host - 1);
    struct qr_json_writer w = qr_json_writer(&b, 0);
    qr_json_open(&w, '{');
    qr_json_key_string(&w, "job", opt->job);
    qr_json_key_open(&w, "peers", '[');
    for (size_t i = 0; i < opt->n_peers; i++) qr_json_put_string(&w, opt->peers[i]);
    qr_json_close(&w, ']');
    qr_json_key_string(&w, "host", host);
    qr_json_key_i64(&w, "pid", getpid());
    qr_json_close(&w, '}');
    qr_buf_puts(&b, "\n");
    bool good = ftruncate(l->fd, 0) == 0 && pwrite(l->fd, b.p, b.n, 0) == (ssize_t)b.n;
    int sys = errno;
    return good ? QR_OK : qr_fail_errno(err, sys, "cannot write %s", l->path);
}

/* NULL: the content is torn or not of qring. */
static struct qr_json *read_text(int fd) {
    qr_auto(qr_free_p) char *text = qr_xmalloc(TEXT_BYTES);
    struct qr_json *ret = NULL;
    ssize_t n = pread(fd, text, TEXT_BYTES, 0);
    if (n <= 0 || qr_json_parse(qr_bytes_of(text, (size_t)n), "lock", &ret, QR_IGNORED) != QR_OK)
        return NULL;
    if (qr_json_type(ret) == QR_JSON_OBJECT) return ret;
    qr_json_free(ret);
    return NULL;
}

static const char *holder_text(const struct qr_json *holder, const char *key) {
    return qr_json_text(qr_json_get(holder, key), "");
}

static const struct qr_json *first_peer(const struct qr_json *holder) {
    const struct qr_json *peers = holder ? qr_json_get(holder, "peers") : NULL;
    return peers && qr_json_type(peers) == QR_JSON_ARRAY ? qr_json_first(peers) : NULL;
}

static bool same_ring(const struct qr_run_lock_options *opt, const struct qr_json *holder) {
    if (strcmp(holder_text(holder, "job"), opt->job) != 0) return false;
    for (const struct qr_json *p = first_peer(holder); p; p = qr_json_next(p))
        for (size_t i = 0; i < opt->n_peers; i++)
            if (strcmp(qr_json_text(p, ""), opt->peers[i]) == 0) return true;
    return false;
}

static enum qr_code report_in_use(const struct qr_run_lock_options *opt,
                                  const struct qr_json *holder, struct qr_err *err) {
    char here[256] = "";
    int64_t pid = 0;
    const char *ring = qr_json_text(first_peer(holder), ""), *host = holder_text(holder, "host");
    gethostname(here, sizeof here - 1);
    bool elsewhere = *host && strcmp(host, here) != 0;
    if (!holder ||
        qr_json_i64(qr_json_get(holder, "pid"), "pid", 0, INT64_MAX, &pid, QR_IGNORED) != QR_OK)
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "%s is in use by another run; choose another --out, or wait until that run has ended",
            opt->dir);
    return qr_fail(err, elsewhere ? QR_UNAVAILABLE : QR_INVALID_ARGUMENT,
                   "%s is in use by job %.80s, started by process %lld on host %.64s%s%.100s%s; "
                   "choose another --out, or wait until that run has ended",
                   opt->dir, holder_text(holder, "job"), (long long)pid, host,
                   *ring ? " (ring of " : "", ring, *ring ? ")" : "");
}

/* ---- taking ---- */

/* False if the last holder has removed the file since it was opened. */
static bool is_current_file(const struct qr_run_lock *l) {
    struct stat mine, there;
    return fstat(l->fd, &mine) == 0 && stat(l->path, &there) == 0 && mine.st_ino == there.st_ino &&
           mine.st_dev == there.st_dev;
}

/* No run is active, and none can start before GATE is released. The current time is the
 * modification time of the lock file. */
static void remove_leftovers(const struct qr_run_lock_options *opt, const struct qr_run_lock *l) {
    struct stat st;
    if (fstat(l->fd, &st) == 0)
        qr_leftovers_remove(opt->dir, st.st_mtim.tv_sec - LEFTOVER_S, opt->log);
}

/* Called with GATE held. UNAVAILABLE with *ret_held: another process holds RUN. */
static enum qr_code take_run(const struct qr_run_lock_options *opt, struct qr_run_lock *l,
                             bool *ret_held, struct qr_err *err) {
    int sys = set_lock(l->fd, F_WRLCK, RUN);
    if (sys == 0) {
        QR_TRY(write_text(opt, l, err));
        remove_leftovers(opt, l);
        if (opt->n_peers) sys = set_lock(l->fd, F_RDLCK, RUN);
        return sys ? qr_fail_errno(err, sys, "cannot lock %s", l->path) : QR_OK;
    }
    if (!is_held(sys)) return qr_fail_errno(err, sys, "cannot lock %s", l->path);
    qr_auto(qr_json_free_p) struct qr_json *holder = read_text(l->fd);
    if (same_ring(opt, holder) && set_lock(l->fd, F_RDLCK, RUN) == 0) return QR_OK;
    *ret_held = true;
    return report_in_use(opt, holder, err);
}

/* One attempt. *ret_sys: errno if locks are not supported; *ret_held: retry. */
static enum qr_code try_lock(const struct qr_run_lock_options *opt, struct qr_run_lock *l,
                             bool *ret_held, int *ret_sys, struct qr_err *err) {
    *ret_held = false;
    QR_TRY(qr_file_open(l->path, O_RDWR | O_CREAT | O_NOFOLLOW, &l->fd, err));
    int sys = set_lock(l->fd, F_WRLCK, GATE);
    if (sys == 0 && is_current_file(l)) {
        enum qr_code code = take_run(opt, l, ret_held, err);
        set_lock(l->fd, F_UNLCK, GATE);
        return code;
    }
    *ret_held = sys == 0 || is_held(sys);
    if (!*ret_held) return *ret_sys = sys, QR_OK;
    return qr_fail(err, QR_UNAVAILABLE,
                   "%s is locked by a process that does not respond; please retry", l->path);
}

enum qr_code qr_run_lock_take(const struct qr_run_lock_options *opt, struct qr_run_lock *ret,
                              struct qr_err *err) {
    int64_t until = qr_now_ns(&qr_clock_monotonic) + opt->patience_ns;
    struct qr_run_lock l = {.fd = -1, .path = qr_path_join(opt->dir, ".qring.lock")};
    enum qr_code code;
    bool held;
    int sys = 0;
    while ((code = try_lock(opt, &l, &held, &sys, err)) != QR_OK && held &&
           qr_now_ns(&qr_clock_monotonic) < until) {
        close(l.fd);
        l.fd = -1;
        qr_sleep_ns(PAUSE_NS);
    }
    l.held = code == QR_OK && sys == 0;
    if (l.held) {
        *ret = l;
        return QR_OK;
    }
    if (l.fd >= 0) close(l.fd);
    if (sys) {
        /* ENOLCK may pass, and the file may be locked by another process */
        if (sys != ENOLCK) unlink(l.path);
        char text[128];
        qr_warn(opt->log, "worker",
                "%s: the file system does not support locks (%s); a second run in this folder "
                "would not be detected",
                opt->dir, strerror_r(sys, text, sizeof text));
    }
    free(l.path);
    return code;
}

void qr_run_lock_release(struct qr_run_lock *l) {
    if (l->held) {
        bool last = set_lock(l->fd, F_WRLCK, GATE) == 0 && is_current_file(l) &&
                    set_lock(l->fd, F_WRLCK, RUN) == 0;
        if (last) unlink(l->path);
        close(l->fd);
    }
    free(l->path);
    *l = (struct qr_run_lock){0};
}
