#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "store/store.h"

enum { MAX_DEPTH = 32, MAX_NAMES = 1 << 20 };
struct files { struct qr_store store; char *root; };

static struct files *self(struct qr_store *s) { return (struct files *)s; }
static char *path_of(struct qr_store *s, const char *name) {
    return *self(s)->root ? qr_path_join(self(s)->root, name) : qr_xstrdup(name);
}

static enum qr_code get(struct qr_store *s, const char *name, size_t max_bytes, struct qr_buf *ret, struct qr_err *err) {
    qr_auto(qr_free_p) char *path = path_of(s, name);
    return qr_file_read(path, max_bytes, ret, err);
}

/* A name made once can be made by one only: link(2) fails when it is there. The content is whole and on disk before. */
static enum qr_code create(const char *path, struct qr_bytes content, struct qr_err *err) {
    if (qr_file_exists(path)) return qr_fail(err, QR_FAILED_PRECONDITION, "%s is there already and is not replaced", path);
    qr_auto(qr_free_p) char *whole = qr_xasprintf("%s.tmp-%ld-new", path, (long)getpid());
    enum qr_code code = qr_file_replace(whole, content, err);
    if (code != QR_OK) {
        unlink(whole); /* it may be there when only its directory could not be synced */
        return qr_wrap(err, "write %s", path);
    }
    int sys = link(whole, path) == 0 ? qr_sync_parent(path) : errno;
    unlink(whole);
    if (sys == EEXIST) return qr_fail(err, QR_FAILED_PRECONDITION, "%s is there already and is not replaced", path);
    if (sys == EPERM || sys == ENOTSUP || sys == ENOSYS || sys == EMLINK) { /* a file system without hard links */
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno == EEXIST) return qr_fail(err, QR_FAILED_PRECONDITION, "%s is there already and is not replaced", path);
        if (fd < 0) return qr_fail_errno(err, errno, "write %s", path);
        close(fd);
        code = qr_file_replace(path, content, err);
        if (code != QR_OK) unlink(path); /* else an empty object would stay, that nobody may replace */
        return code;
    }
    return sys ? qr_fail_errno(err, sys, "write %s", path) : QR_OK;
}

static enum qr_code put(struct qr_store *s, const char *name, struct qr_bytes content, bool if_absent, struct qr_err *err) {
    size_t n = strlen(name);
    if (n == 0 || name[n - 1] == '/') return qr_fail(err, QR_INVALID_ARGUMENT, "'%s' names no file; give a file's name", name);
    qr_auto(qr_free_p) char *path = path_of(s, name);
    return if_absent ? create(path, content, err) : qr_file_replace(path, content, err);
}

static enum qr_code remove_object(struct qr_store *s, const char *name, struct qr_err *err) {
    qr_auto(qr_free_p) char *path = path_of(s, name);
    return unlink(path) == 0 ? QR_OK : qr_fail_errno(err, errno, "remove %s", path);
}

struct names { char **v; size_t n; };

/* Our own temporary files are no objects. */
static bool is_temporary(const char *name) {
    const char *t = strstr(name, ".tmp-");
    return (t && t[5] >= '0' && t[5] <= '9') || strncmp(name, ".qring-probe-", 13) == 0;
}

/* Everything below the directory whose names begin with `dir` ("" or "a/b/"); links to directories are not followed. */
static enum qr_code walk(struct qr_store *s, const char *dir, const char *prefix, unsigned depth, struct names *names, struct qr_err *err) {
    qr_auto(qr_free_p) char *path = path_of(s, *dir ? dir : *self(s)->root ? "" : ".");
    DIR *d = opendir(path);
    if (!d) return errno == ENOENT || errno == ENOTDIR ? QR_OK : qr_fail_errno(err, errno, "list %s", path);
    enum qr_code code = QR_OK;
    const struct dirent *e;
    while (code == QR_OK && (errno = 0, e = readdir(d))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || is_temporary(e->d_name)) continue;
        qr_auto(qr_free_p) char *name = qr_xasprintf("%s%s", dir, e->d_name);
        size_t common = strlen(name) < strlen(prefix) ? strlen(name) : strlen(prefix);
        struct stat st;
        if (strncmp(name, prefix, common) != 0 || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (S_ISLNK(st.st_mode) && (fstatat(dirfd(d), e->d_name, &st, 0) != 0 || S_ISDIR(st.st_mode))) continue;
        if (S_ISDIR(st.st_mode) && depth < MAX_DEPTH) {
            qr_auto(qr_free_p) char *below = qr_xasprintf("%s/", name);
            code = walk(s, below, prefix, depth + 1, names, err);
        } else if (S_ISREG(st.st_mode) && strlen(name) >= strlen(prefix)) {
            if (names->n == MAX_NAMES) code = qr_fail(err, QR_RESOURCE_EXHAUSTED, "list %s: more than %d files", path, MAX_NAMES);
            else if ((names->n & (names->n - 1)) == 0) names->v = qr_xreallocarray(names->v, names->n ? 2 * names->n : 1, sizeof *names->v);
            if (code == QR_OK) names->v[names->n++] = QR_MOVE(name);
        }
    }
    if (code == QR_OK && errno) code = qr_fail_errno(err, errno, "list %s", path); /* names are missing */
    closedir(d);
    return code;
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static enum qr_code list(struct qr_store *s, const char *prefix, struct qr_buf *ret, struct qr_err *err) {
    const char *slash = strrchr(prefix, '/');
    qr_auto(qr_free_p) char *dir = qr_xstrndup(prefix, slash ? (size_t)(slash - prefix) + 1 : 0);
    struct names names = {0};
    enum qr_code code = walk(s, dir, prefix, 0, &names, err);
    if (code == QR_OK) qr_buf_clear(ret);
    if (names.n) qsort(names.v, names.n, sizeof *names.v, by_text);
    for (size_t i = 0; i < names.n; i++) {
        if (code == QR_OK) qr_buf_printf(ret, "%s%s", i ? "\n" : "", names.v[i]);
        free(names.v[i]);
    }
    free(names.v);
    return code;
}

/* The directory that a put under this prefix writes into: the prefix itself where it is one or ends with '/', else its parent. */
static enum qr_code check_writable(struct qr_store *s, const char *prefix, struct qr_err *err) {
    qr_auto(qr_free_p) char *path = path_of(s, prefix);
    struct stat st;
    char *slash = strrchr(path, '/');
    if (!*path) return qr_dir_writable(".", err);
    if (slash && !slash[1]) {
        if (slash != path) *slash = 0;
    } else if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) {
        if (!slash) return qr_dir_writable(".", err);
        slash[slash == path] = 0;
    }
    return qr_dir_writable(path, err);
}

static void close_store(struct qr_store *s) {
    if (!s) return;
    free(self(s)->root);
    free(s);
}

struct qr_store *qr_store_file_new(const char *root) {
    static const struct qr_store_ops ops = {get, put, remove_object, list, check_writable, close_store};
    struct files *f = qr_xcalloc(1, sizeof *f);
    f->store.ops = &ops;
    f->root = qr_xstrdup(root);
    return &f->store;
}
