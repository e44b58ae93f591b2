/* base/file.c — opens regular files only, reads them whole, replaces them atomically and appends
 * whole records. Start reading at qr_file_open() and qr_file_replace(). */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

enum { LEAST_OPEN_FILES = 64 }; /* of a worker: ports, files, probes and a dozen peers */

enum qr_code qr_open_files_raise(struct qr_err *err) {
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0) return QR_OK;
    if (r.rlim_max < LEAST_OPEN_FILES)
        return qr_fail(err, QR_UNAVAILABLE,
                       "cannot start: at most %llu open files and connections are allowed, a "
                       "worker needs %d; raise the limit (ulimit -n)",
                       (unsigned long long)r.rlim_max, (int)LEAST_OPEN_FILES);
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
    return QR_OK;
}

void qr_standard_streams_occupy(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
        /* The lowest free number is fd, because those below are open. */
        int got = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
        if (got > STDERR_FILENO) close(got);
    }
}

char *qr_path_join(const char *dir, const char *name) {
    size_t n = strlen(dir);
    const char *slash = n == 0 || dir[n - 1] == '/' ? "" : "/";
    return qr_xasprintf("%s%s%s", dir, slash, name);
}

bool qr_file_exists(const char *path) { return access(path, F_OK) == 0; }

bool qr_file_same(const char *a, const char *b) {
    struct stat at_a, at_b;
    return stat(a, &at_a) == 0 && stat(b, &at_b) == 0 && at_a.st_dev == at_b.st_dev &&
           at_a.st_ino == at_b.st_ino;
}

/* NULL for a regular file. */
static const char *file_irregular_kind(const struct stat *st) {
    switch (st->st_mode & S_IFMT) {
    case S_IFREG: return NULL;
    case S_IFDIR: return "a directory";
    case S_IFIFO: return "a FIFO";
    case S_IFSOCK: return "a socket";
    case S_IFLNK: return "a symbolic link";
    default: return "a device";
    }
}

const char *qr_file_irregular(const char *path) {
    struct stat st;
    if (lstat(path, &st) != 0) return NULL;
    const char *kind = file_irregular_kind(&st);
    return kind || st.st_nlink < 2 ? kind : "a file with several names (hard links)";
}

static enum qr_code file_reject_irregular(const char *path, const struct stat *st, int flags,
                                          struct qr_err *err) {
    return qr_fail(err, QR_INVALID_ARGUMENT, "%s is %s, not a regular file; %s", path,
                   file_irregular_kind(st),
                   flags & O_NOFOLLOW     ? "delete it or choose another path"
                   : S_ISDIR(st->st_mode) ? "name a file in it"
                                          : "save its content to a file and name that file");
}

static enum qr_code file_check_opened(int fd, const char *path, int flags, struct qr_err *err) {
    struct stat st;
    if (fstat(fd, &st) != 0) return qr_fail_errno(err, errno, "%s", path);
    if (file_irregular_kind(&st)) return file_reject_irregular(path, &st, flags, err);
    if ((flags & O_NOFOLLOW) && st.st_nlink > 1)
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "%s has %ju names (hard links): writing to it would change the others too; delete it "
            "or choose another path",
            path, (uintmax_t)st.st_nlink);
    if ((flags & O_TRUNC) && ftruncate(fd, 0) != 0)
        return qr_fail_errno(err, errno, "cannot truncate %s", path);
    return QR_OK;
}

enum qr_code qr_file_open(const char *path, int flags, int *ret, struct qr_err *err) {
    /* The file is truncated only after its kind is checked. O_NONBLOCK: do not wait for the writer
     * of a FIFO. O_NOCTTY: do not acquire a controlling terminal. */
    qr_auto(qr_close_p) int fd =
        open(path, (flags & ~O_TRUNC) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    if (fd < 0) {
        int sys = errno;
        struct stat st;
        bool there = (flags & O_NOFOLLOW ? lstat(path, &st) : stat(path, &st)) == 0;
        return there && file_irregular_kind(&st) ? file_reject_irregular(path, &st, flags, err)
                                                 : qr_fail_errno(err, sys, "%s", path);
    }
    QR_TRY(file_check_opened(fd, path, flags, err));
    *ret = fd;
    fd = -1;
    return QR_OK;
}

/* EIO means data loss when a file is read; elsewhere it is RESOURCE_EXHAUSTED. */
static enum qr_code file_fail_read(int sys, const char *path, struct qr_err *err) {
    enum qr_code code = qr_fail_errno(err, sys, "%s", path);
    return sys == EIO ? err->code = QR_DATA_LOSS : code;
}

static enum qr_code file_read_fd(int fd, const char *path, size_t max_bytes, struct qr_buf *ret,
                                 struct qr_err *err) {
    struct stat st;
    if (fstat(fd, &st) != 0) return qr_fail_errno(err, errno, "%s", path);
    if ((uint64_t)st.st_size > max_bytes)
        return qr_fail(err, QR_RESOURCE_EXHAUSTED, "%s has %lld bytes, above the limit of %zu",
                       path, (long long)st.st_size, max_bytes);
    qr_auto(qr_buf_free) struct qr_buf buf = {.max = max_bytes};
    enum { STEP = 1 << 16 };
    for (;;) {
        size_t have = buf.n, space = max_bytes - have < STEP ? max_bytes - have : STEP;
        uint8_t spill, *at = space ? qr_buf_grow(&buf, space) : &spill;
        ssize_t n = read(fd, at, space ? space : 1);
        if (space) buf.n = have + (n > 0 ? (size_t)n : 0);
        if (n == 0) break;
        if (n < 0 && errno != EINTR) return file_fail_read(errno, path, err);
        if (n > 0 && !space)
            return qr_fail(err, QR_RESOURCE_EXHAUSTED, "%s has more bytes than the limit of %zu",
                           path, max_bytes);
    }
    if (buf.p) buf.p[buf.n] = 0;
    qr_buf_free(ret);
    *ret = QR_MOVE(buf);
    return QR_OK;
}

enum qr_code qr_file_read(const char *path, size_t max_bytes, struct qr_buf *ret,
                          struct qr_err *err) {
    qr_auto(qr_close_p) int fd = -1;
    QR_TRY(qr_file_open(path, O_RDONLY, &fd, err));
    return file_read_fd(fd, path, max_bytes, ret, err);
}

enum qr_code qr_input_read(size_t max_bytes, struct qr_buf *ret, struct qr_err *err) {
    return file_read_fd(STDIN_FILENO, "standard input", max_bytes, ret, err);
}

/* Calls stat only after mkdir has failed: some file systems reject mkdir (EROFS, EACCES) before
 * they check whether the directory exists. */
static int dir_make_one(const char *path) {
    struct stat st;
    if (mkdir(path, 0777) == 0) return 0;
    int sys = errno;
    if (stat(path, &st) != 0) return sys == EEXIST ? errno : sys;
    return S_ISDIR(st.st_mode) ? 0 : sys == EEXIST ? ENOTDIR : sys;
}

enum qr_code qr_dir_make(const char *path, struct qr_err *err) {
    qr_auto(qr_free_p) char *p = qr_xstrdup(path);
    for (char *s = p + 1; *p; s++) {
        if (*s != '/' && *s) continue;
        char c = *s;
        *s = 0;
        int sys = dir_make_one(p);
        if (sys && c)
            return qr_fail_errno(err, sys, "cannot create directory %s (for %s)", p, path);
        if (sys) return qr_fail_errno(err, sys, "cannot create directory %s", path);
        if (!(*s = c)) break;
    }
    return QR_OK;
}

enum qr_code qr_dir_check_no_link(const char *path, struct qr_err *err) {
    struct stat st;
    qr_auto(qr_free_p) char *bare = qr_xstrdup(path);
    /* lstat follows a link whose name ends with '/'. */
    for (size_t n = strlen(bare); n > 1 && bare[n - 1] == '/'; n--) bare[n - 1] = 0;
    if (lstat(bare, &st) != 0 || !S_ISLNK(st.st_mode)) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "cannot delete files in %s: it is a symbolic link; delete the link or choose "
                   "another directory",
                   bare);
}

static enum qr_code dir_make_parent(const char *path, struct qr_err *err) {
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) return QR_OK;
    qr_auto(qr_free_p) char *dir = qr_xstrndup(path, (size_t)(slash - path));
    return qr_dir_make(dir, err);
}

int qr_fd_write(int fd, struct qr_bytes b) {
    while (b.n) {
        ssize_t n = write(fd, b.p, b.n);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        b.p += n;
        b.n -= (size_t)n;
    }
    return 0;
}

/* Returns errno, also that of the failed open behind fd -1. */
static int file_sync(int fd) { return fd >= 0 && (fsync(fd) == 0 || errno == EINVAL) ? 0 : errno; }

/* Allocates nothing: the process must not end for lack of memory between a rename and this sync. */
int qr_sync_parent(const char *path) {
    char dir[4096];
    const char *slash = strrchr(path, '/');
    size_t n = slash == path ? 1 : slash ? (size_t)(slash - path) : 0;
    if (n >= sizeof dir) return ENAMETOOLONG;
    memcpy(dir, path, n);
    dir[n] = 0;
    qr_auto(qr_close_p) int fd = open(n ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return file_sync(fd);
}

int qr_file_sync(const char *path) {
    qr_auto(qr_close_p) int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    int sys = file_sync(fd);
    return sys == ENOENT ? 0 : sys;
}

/* Pods that share a volume may all run as process 1, so the pid alone does not make a name unique.
 */
char *qr_file_temporary(const char *path) {
    uint32_t random;
    qr_entropy(&random, sizeof random);
    return qr_xasprintf("%s.tmp-%ld-%08x", path, (long)getpid(), random);
}

enum qr_code qr_file_check_replaceable(const char *path, struct qr_err *err) {
    struct stat st;
    /* ENOTDIR: the folder cannot be made, whose error says more. */
    if (stat(path, &st) != 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? QR_OK
                   : qr_fail_errno(err, errno, "cannot write %s", path);
    const char *kind = file_irregular_kind(&st);
    if (!kind) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT, "cannot write %s: it is %s; choose another path", path,
                   kind);
}

enum qr_code qr_file_replace(const char *path, struct qr_bytes content, struct qr_err *err) {
    QR_TRY(qr_file_check_replaceable(path, err));
    if (dir_make_parent(path, err) != QR_OK) return qr_wrap(err, "cannot write %s", path);
    qr_auto(qr_free_p) char *tmp = qr_file_temporary(path);
    int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return qr_fail_errno(err, errno, "cannot write %s", path);
    int sys = qr_fd_write(fd, content);
    if (!sys && fsync(fd) != 0) sys = errno;
    if (close(fd) != 0 && !sys) sys = errno;
    if (!sys && rename(tmp, path) != 0) sys = errno;
    if (sys) unlink(tmp);
    if (!sys) sys = qr_sync_parent(path);
    return sys ? qr_fail_errno(err, sys, "cannot write %s", path) : QR_OK;
}

enum qr_code qr_dir_writable(const char *path, struct qr_err *err) {
    QR_TRY(qr_dir_make(path, err));
    qr_auto(qr_free_p) char *probe = qr_xasprintf("%s/.qring-probe-XXXXXX", path);
    int fd = mkostemp(probe, O_CLOEXEC);
    if (fd < 0) return qr_fail_errno(err, errno, "cannot write to directory %s", path);
    int sys = qr_fd_write(fd, qr_bytes_of_string("probe\n"));
    if (close(fd) != 0 && !sys) sys = errno;
    if (unlink(probe) != 0 && !sys) sys = errno;
    return sys ? qr_fail_errno(err, sys, "cannot write to directory %s", path) : QR_OK;
}

struct qr_appender {
    int fd;
    char *path;
};

enum qr_code qr_appender_open(const char *path, bool truncate, struct qr_appender **ret,
                              struct qr_err *err) {
    if (dir_make_parent(path, err) != QR_OK) return qr_wrap(err, "cannot open %s", path);
    int fd = -1;
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | (truncate ? O_TRUNC : 0);
    if (qr_file_open(path, flags, &fd, err) != QR_OK) return qr_wrap(err, "cannot open file");
    struct qr_appender *a = qr_xcalloc(1, sizeof *a);
    a->fd = fd;
    a->path = qr_xstrdup(path);
    *ret = a;
    return QR_OK;
}

enum qr_code qr_appender_write(struct qr_appender *a, struct qr_bytes bytes, struct qr_err *err) {
    off_t before = lseek(a->fd, 0, SEEK_END);
    int sys = qr_fd_write(a->fd, bytes);
    if (!sys) return QR_OK;
    if (before >= 0 && ftruncate(a->fd, before) != 0) /* a partial record remains */
        return qr_fail_errno(err, sys, "cannot write %s (its last line may be incomplete)",
                             a->path);
    return qr_fail_errno(err, sys, "cannot write %s", a->path);
}

void qr_appender_close(struct qr_appender *a) {
    if (!a) return;
    close(a->fd);
    free(a->path);
    free(a);
}
