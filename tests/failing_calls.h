/* tests/failing_calls.h — system calls on files that fail: the n-th call, alone or with all later
 * ones (of its kind, or of any kind); and files to try them on. A header, because it replaces
 * functions of the C library in each program that includes it: include it first, in one file.
 * Shared libraries still call the C library's. */
#ifndef TESTS_FAILING_CALLS_H
#define TESTS_FAILING_CALLS_H

#undef _FORTIFY_SOURCE /* its inline functions would bypass these */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "tests/real.h"
#include "tests/t.h"

enum call {
    NONE,
    OPEN,
    READ,
    WRITE,
    FSYNC,
    CLOSE,
    RENAME,
    LINK,
    UNLINK,
    MKDIR,
    MKOSTEMP,
    STAT,
    ACCESS,
    OPENDIR,
    READDIR,
    LSEEK,
    FTRUNCATE,
    PREAD,
    PWRITE,
    FLOCK,
    FSTATAT
};
static long n_calls, fail_at; /* fail_at 0: nothing fails; -1: nothing fails, but each is counted */
static enum { ONCE, THIS_CALL, ALL_CALLS } fail_mode;
static int fail_errno, short_next;
static enum call failed;
static bool failed_for_writing; /* of OPEN and CLOSE */
static bool failed_lock;        /* of CLOSE: of a file opened for reading and writing */
/* Descriptors of /sys and /proc, where nothing fails. */
static _Atomic bool of_system[1024];

static bool is_of_system(int fd) { return fd >= 0 && fd < 1024 && of_system[fd]; }

static bool fails(enum call kind) {
    if (fail_at == 0) return false;
    bool again = ++n_calls > fail_at && fail_at > 0 &&
                 (fail_mode == ALL_CALLS || (fail_mode == THIS_CALL && kind == failed));
    if (n_calls != fail_at && !again) return false;
    if (n_calls == fail_at) failed = kind;
    errno = fail_errno;
    return true;
}

int open(const char *path, int flags, ...) {
    REAL(open);
    MODE_OF(mode, flags);
    if (strncmp(path, "/sys/", 5) == 0 || strncmp(path, "/proc/", 6) == 0) {
        int fd = real(path, flags, mode);
        if (fd >= 0 && fd < 1024) of_system[fd] = true;
        return fd;
    }
    if (fails(OPEN)) return failed_for_writing = (flags & O_ACCMODE) != O_RDONLY, -1;
    return real(path, flags, mode);
}
ssize_t read(int fd, void *p, size_t n) {
    REAL(read);
    return !is_of_system(fd) && fails(READ) ? -1 : real(fd, p, n);
}
/* A full disk: half of the bytes are written first. */
ssize_t write(int fd, const void *p, size_t n) {
    REAL(write);
    if (short_next) return short_next = 0, errno = fail_errno, -1;
    if (!fails(WRITE)) return real(fd, p, n);
    if (n < 2 || n_calls > fail_at) return -1;
    short_next = 1;
    return real(fd, p, n / 2);
}
ssize_t pwrite(int fd, const void *p, size_t n, off_t at) {
    REAL(pwrite);
    if (short_next) return short_next = 0, errno = fail_errno, -1;
    if (!fails(PWRITE)) return real(fd, p, n, at);
    if (n < 2 || n_calls > fail_at) return -1;
    short_next = 1;
    return real(fd, p, n / 2, at);
}
int fsync(int fd) { /* no test needs the data on the disk */
    (void)fd;
    return fails(FSYNC) ? -1 : 0;
}
int close(int fd) {
    REAL(close);
    int flags = fcntl(fd, F_GETFL), rc = real(fd); /* also when it reports a failure */
    if (is_of_system(fd)) {
        of_system[fd] = false;
        return rc;
    }
    if (!fails(CLOSE)) return rc;
    failed_for_writing = (flags & O_ACCMODE) != O_RDONLY;
    failed_lock = (flags & O_ACCMODE) == O_RDWR;
    return -1;
}
int rename(const char *from, const char *to) {
    REAL(rename);
    return fails(RENAME) ? -1 : real(from, to);
}
int link(const char *from, const char *to) {
    REAL(link);
    return fails(LINK) ? -1 : real(from, to);
}
int unlink(const char *path) {
    REAL(unlink);
    return fails(UNLINK) ? -1 : real(path);
}
int unlinkat(int dir_fd, const char *path, int flags) {
    REAL(unlinkat);
    return fails(UNLINK) ? -1 : real(dir_fd, path, flags);
}
int mkdir(const char *path, mode_t mode) {
    REAL(mkdir);
    return fails(MKDIR) ? -1 : real(path, mode);
}
int mkostemp(char *path, int flags) {
    REAL(mkostemp);
    return fails(MKOSTEMP) ? -1 : real(path, flags);
}
int stat(const char *path, struct stat *st) {
    REAL(stat);
    return fails(STAT) ? -1 : real(path, st);
}
int fstat(int fd, struct stat *st) {
    REAL(fstat);
    return fails(STAT) ? -1 : real(fd, st);
}
int access(const char *path, int mode) {
    REAL(access);
    return fails(ACCESS) ? -1 : real(path, mode);
}
DIR *opendir(const char *path) {
    REAL(opendir);
    return fails(OPENDIR) ? NULL : real(path);
}
DIR *fdopendir(int fd) {
    REAL(fdopendir);
    return fails(OPENDIR) ? NULL : real(fd);
}
struct dirent *readdir(DIR *d) {
    REAL(readdir);
    return fails(READDIR) ? NULL : real(d);
}
off_t lseek(int fd, off_t offset, int whence) {
    REAL(lseek);
    return fails(LSEEK) ? -1 : real(fd, offset, whence);
}
ssize_t pread(int fd, void *p, size_t n, off_t at) {
    REAL(pread);
    return fails(PREAD) ? -1 : real(fd, p, n, at);
}
int flock(int fd, int how) {
    REAL(flock);
    return how != LOCK_UN && fails(FLOCK) ? -1 : real(fd, how);
}
int fstatat(int dir_fd, const char *path, struct stat *st, int flags) {
    REAL(fstatat);
    return fails(FSTATAT) ? -1 : real(dir_fd, path, st, flags);
}
int ftruncate(int fd, off_t n) {
    REAL(ftruncate);
    return fails(FTRUNCATE) ? -1 : real(fd, n);
}

/* ---- files below dir ---- */

static char base_dir[40];
static char dir[64];
static struct qr_err err;

static int entries(const char *path) {
    DIR *d = opendir(path);
    int n = 0;
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n;
}
static char *at(const char *name) { return qr_path_join(dir, name); }
static void put(const char *name, const char *text) {
    char *path = at(name);
    CHECK(qr_file_replace(path, qr_bytes_of_string(text), &err) == QR_OK, "%s", err.msg);
    free(path);
}
static bool has(const char *name, const char *text) { /* text NULL: no such file */
    char *path = at(name);
    struct qr_buf b = {0};
    bool is = text ? qr_file_read(path, 1 << 20, &b, &err) == QR_OK &&
                         strcmp(qr_buf_string(&b), text) == 0
                   : !qr_file_exists(path);
    qr_buf_free(&b);
    free(path);
    return is;
}
/* Deletes path and everything below it. Returns the number of temporary files among these. */
static int remove_tree(const char *path) {
    int n_temporary = 0;
    DIR *d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        char *below = qr_path_join(path, e->d_name);
        if (strstr(e->d_name, ".tmp-") || strstr(e->d_name, "probe")) n_temporary++;
        if (e->d_type == DT_DIR) n_temporary += remove_tree(below);
        else unlink(below);
        free(below);
    }
    if (d) closedir(d);
    rmdir(path);
    return n_temporary;
}

#endif
