#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file.h"
#include "base/mem.h"
#include "store/kind_impl.h"
#include "store/object_names_impl.h"

enum { MAX_DEPTH = 32 };
struct files {
    struct qr_store store;
    char *root;
};

static struct files *self(struct qr_store *s) { return (struct files *)s; }
static char *path_of(struct qr_store *s, const char *name) {
    return *self(s)->root ? qr_path_join(self(s)->root, name) : qr_xstrdup(name);
}

static enum qr_code get(struct qr_store *s, const char *name, size_t max_bytes, struct qr_buf *ret,
                        struct qr_err *err) {
    qr_auto(qr_free_p) char *path = path_of(s, name);
    return qr_file_read(path, max_bytes, ret, err);
}

/* A name made once can be made by one only: link(2) fails when it is there. The content is whole
 * and on disk before. */
static enum qr_code create(const char *path, struct qr_bytes content, struct qr_err *err) {
    if (qr_file_exists(path))
        return qr_fail(err, QR_FAILED_PRECONDITION, "%s is there already and is not replaced",
                       path);
    qr_auto(qr_free_p) char *whole = qr_file_temporary(path);
    enum qr_code code = qr_file_replace(whole, content, err);
    if (code != QR_OK) {
        unlink(whole); /* it may be there when only its directory could not be synced */
        return qr_wrap(err, "write %s", path);
    }
    bool linked = link(whole, path) == 0;
    int sys = linked ? qr_sync_parent(path) : errno;
    unlink(whole);
    if (linked) return sys ? qr_fail_errno(err, sys, "write %s", path) : QR_OK;
    if (sys == EEXIST)
        return qr_fail(err, QR_FAILED_PRECONDITION, "%s is there already and is not replaced",
                       path);
    /* a file system without hard links */
    if (sys == EPERM || sys == ENOTSUP || sys == ENOSYS || sys == EMLINK) {
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno == EEXIST)
            return qr_fail(err, QR_FAILED_PRECONDITION, "%s is there already and is not replaced",
                           path);
        if (fd < 0) return qr_fail_errno(err, errno, "write %s", path);
        close(fd);
        code = qr_file_replace(path, content, err);
        /* else an empty object would stay, that nobody may replace */
        if (code != QR_OK) unlink(path);
        return code;
    }
    return qr_fail_errno(err, sys, "write %s", path);
}

static enum qr_code put(struct qr_store *s, const char *name, struct qr_bytes content,
                        bool if_absent, struct qr_err *err) {
    size_t n = strlen(name);
    if (n == 0 || name[n - 1] == '/')
        return qr_fail(err, QR_INVALID_ARGUMENT, "'%s' names no file; give a file's name", name);
    qr_auto(qr_free_p) char *path = path_of(s, name);
    return if_absent ? create(path, content, err) : qr_file_replace(path, content, err);
}

static enum qr_code remove_object(struct qr_store *s, const char *name, struct qr_err *err) {
    qr_auto(qr_free_p) char *path = path_of(s, name);
    return unlink(path) == 0 ? QR_OK : qr_fail_errno(err, errno, "remove %s", path);
}

/* Our own temporary files and locks are no objects. */
static bool is_temporary(const char *name) {
    const char *t = strstr(name, ".tmp-");
    size_t n = strlen(name);
    return (t && t[5] >= '0' && t[5] <= '9') || strncmp(name, ".qring-probe-", 13) == 0 ||
           (name[0] == '.' && n > 6 && strcmp(name + n - 5, ".lock") == 0);
}

/* Everything below the directory whose names begin with `dir` ("" or "a/b/"); links to directories
 * are not followed. */
static enum qr_code walk(struct qr_store *s, const char *dir, const char *prefix, unsigned depth,
                         struct qr_names *names, struct qr_err *err) {
    qr_auto(qr_free_p) char *path = path_of(s, *dir ? dir : *self(s)->root ? "" : ".");
    DIR *d = opendir(path);
    if (!d)
        return errno == ENOENT || errno == ENOTDIR ? QR_OK
                                                   : qr_fail_errno(err, errno, "list %s", path);
    enum qr_code code = QR_OK;
    const struct dirent *e;
    while (code == QR_OK && (errno = 0, e = readdir(d))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || is_temporary(e->d_name))
            continue;
        qr_auto(qr_free_p) char *name = qr_xasprintf("%s%s", dir, e->d_name);
        size_t common = strlen(name) < strlen(prefix) ? strlen(name) : strlen(prefix);
        struct stat st;
        if (strncmp(name, prefix, common) != 0) continue;
        int sys = fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
        bool link = !sys && S_ISLNK(st.st_mode);
        if (link) sys = fstatat(dirfd(d), e->d_name, &st, 0) == 0 ? 0 : errno;
        /* taken away meanwhile, or a link to nothing */
        if (sys == ENOENT || sys == ELOOP) continue;
        if (sys) code = qr_fail_errno(err, sys, "list %s: %s", path, e->d_name);
        if (sys || (link && S_ISDIR(st.st_mode))) continue;
        if (S_ISDIR(st.st_mode) && depth < MAX_DEPTH) {
            qr_auto(qr_free_p) char *below = qr_xasprintf("%s/", name);
            code = walk(s, below, prefix, depth + 1, names, err);
        } else if (S_ISREG(st.st_mode) && strlen(name) >= strlen(prefix)) {
            if (qr_names_add(names, name)) name = NULL;
            else
                code = qr_fail(err, QR_RESOURCE_EXHAUSTED, "list %s: more than %d files", path,
                               (int)QR_NAMES_MAX);
        }
    }
    /* names are missing */
    if (code == QR_OK && errno) code = qr_fail_errno(err, errno, "list %s", path);
    closedir(d);
    return code;
}

static enum qr_code list(struct qr_store *s, const char *prefix, struct qr_buf *ret,
                         struct qr_err *err) {
    const char *slash = strrchr(prefix, '/');
    qr_auto(qr_free_p) char *dir = qr_xstrndup(prefix, slash ? (size_t)(slash - prefix) + 1 : 0);
    struct qr_names names = {0};
    enum qr_code code = walk(s, dir, prefix, 0, &names, err);
    qr_names_write_sorted(&names, code == QR_OK ? ret : NULL);
    return code;
}

/* The directory that a put under this prefix writes into: the prefix itself where it is one or ends
 * with '/', else its parent. */
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

/* ---- compare and swap ---- */

static enum qr_code get_version(struct qr_store *s, const char *name, size_t max_bytes,
                                struct qr_buf *ret, struct qr_store_version *ret_version,
                                struct qr_err *err) {
    struct qr_err own;
    struct qr_buf content = {0};
    if (!err) err = &own;
    struct qr_store_version v = {.there = true};
    enum qr_code code = get(s, name, max_bytes, &content, err);
    if (code == QR_NOT_FOUND) v.there = false;
    else if (code != QR_OK) return code;
    else qr_xxh3(content.p, content.n, v.id);
    qr_buf_free(ret);
    *ret = content;
    *ret_version = v;
    return QR_OK;
}

/* A name changes under its lock only. The kernel takes the lock back from a process that dies, so
 * none is ever left over; a rename alone could come late, from a process that slept between its
 * look and its rename. *ret_fd -1: this file system has no locks. */
static enum qr_code lock(const char *path, int *ret_fd, struct qr_err *err) {
    const char *slash = strrchr(path, '/');
    qr_auto(qr_free_p) char *dir = qr_xstrndup(path, slash ? (size_t)(slash - path) + 1 : 0);
    qr_auto(qr_free_p) char *file = qr_xasprintf("%s.%s.lock", dir, slash ? slash + 1 : path);
    if (*dir && qr_dir_make(dir, err) != QR_OK) return qr_wrap(err, "write %s", path);
    int fd = -1;
    if (qr_file_open(file, O_RDWR | O_CREAT | O_NOFOLLOW, &fd, err) != QR_OK)
        return qr_wrap(err, "write %s: lock", path);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int sys = errno;
        close(fd);
        if (sys == EWOULDBLOCK)
            return qr_fail(err, QR_UNAVAILABLE,
                           "%s is being changed by another process; please retry", path);
        fd = -1;
    }
    *ret_fd = fd;
    return QR_OK;
}

static enum qr_code swap(struct qr_store *s, const char *name, struct qr_bytes content,
                         const struct qr_store_version *seen, struct qr_err *err) {
    enum { MAX_BYTES = 1 << 30 };
    qr_auto(qr_free_p) char *path = path_of(s, name);
    qr_auto(qr_close_p) int held = -1;
    struct qr_store_version now;
    struct qr_buf there = {0};
    enum qr_code code = lock(path, &held, err);
    if (code == QR_OK) code = get_version(s, name, MAX_BYTES, &there, &now, err);
    if (code == QR_OK &&
        (now.there != seen->there || (now.there && memcmp(now.id, seen->id, sizeof now.id) != 0)))
        code = qr_fail(err, QR_FAILED_PRECONDITION,
                       "%s has been changed meanwhile and is not replaced", path);
    if (code == QR_OK) code = put(s, name, content, false, err);
    qr_buf_free(&there);
    return code;
}

static void close_store(struct qr_store *s) {
    if (!s) return;
    free(self(s)->root);
    free(s);
}

struct qr_store *qr_store_file_new(const char *root) {
    static const struct qr_store_ops ops = {get,         put,  remove_object, list, check_writable,
                                            get_version, swap, close_store};
    struct files *f = qr_xcalloc(1, sizeof *f);
    f->store.ops = &ops;
    f->root = qr_xstrdup(root);
    return &f->store;
}

enum qr_code qr_store_file_open(const char *url, const struct qr_store_waits *waits,
                                struct qr_store **ret, char **ret_name, struct qr_err *err) {
    const char *path = url + strlen("file://");
    (void)waits;
    if (strncmp(path, "localhost/", strlen("localhost/")) == 0) path += strlen("localhost");
    if (*path != '/')
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s: a file URL has three slashes, file:///dir/name; or give a plain path",
                       url);
    *ret = qr_store_file_new("");
    *ret_name = qr_xstrdup(path);
    return QR_OK;
}
