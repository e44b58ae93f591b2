/* store/store_file.c — the store of local files and network volumes. Start reading at
 * qr_store_file_new(). */
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

static struct files *file_store_of(struct qr_store *s) { return (struct files *)s; }
static char *file_path(struct qr_store *s, const char *name) {
    return *file_store_of(s)->root ? qr_path_join(file_store_of(s)->root, name) : qr_xstrdup(name);
}

static enum qr_code file_get(struct qr_store *s, const char *name, size_t max_bytes,
                             struct qr_buf *ret, struct qr_err *err) {
    qr_auto(qr_free_p) char *path = file_path(s, name);
    return qr_file_read(path, max_bytes, ret, err);
}

static enum qr_code file_exists_already(const char *path, struct qr_err *err) {
    return qr_fail(err, QR_FAILED_PRECONDITION, "%s already exists and is not replaced", path);
}

/* For a file system without hard links. */
static enum qr_code create_in_place(const char *path, struct qr_bytes content, struct qr_err *err) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 && errno == EEXIST) return file_exists_already(path, err);
    if (fd < 0) return qr_fail_errno(err, errno, "cannot write %s", path);
    close(fd);
    enum qr_code code = qr_file_replace(path, content, err);
    /* Otherwise an empty object would remain, which no process may replace. */
    if (code != QR_OK) unlink(path);
    return code;
}

/* Creates a file exactly once, whatever other processes do: link(2) fails when the name exists. The
 * content is complete and synced before the link. */
static enum qr_code file_create(const char *path, struct qr_bytes content, struct qr_err *err) {
    if (qr_file_exists(path)) return file_exists_already(path, err);
    qr_auto(qr_free_p) char *whole = qr_file_temporary(path);
    enum qr_code code = qr_file_replace(whole, content, err);
    bool linked = code == QR_OK && link(whole, path) == 0;
    int sys = linked ? qr_sync_parent(path) : errno;
    unlink(whole); /* exists also when only the sync of its directory failed */
    if (code != QR_OK) return qr_wrap(err, "cannot write %s", path);
    if (!linked && sys == EEXIST) return file_exists_already(path, err);
    if (!linked && (sys == EPERM || sys == ENOTSUP || sys == ENOSYS || sys == EMLINK))
        return create_in_place(path, content, err);
    return sys ? qr_fail_errno(err, sys, "cannot write %s", path) : QR_OK;
}

static enum qr_code file_put(struct qr_store *s, const char *name, struct qr_bytes content,
                             bool if_absent, struct qr_err *err) {
    size_t n = strlen(name);
    if (n == 0 || name[n - 1] == '/')
        return qr_fail(err, QR_INVALID_ARGUMENT, "'%s' names no file; give a file name", name);
    qr_auto(qr_free_p) char *path = file_path(s, name);
    return if_absent ? file_create(path, content, err) : qr_file_replace(path, content, err);
}

static enum qr_code file_remove(struct qr_store *s, const char *name, struct qr_err *err) {
    qr_auto(qr_free_p) char *path = file_path(s, name);
    return unlink(path) == 0 ? QR_OK : qr_fail_errno(err, errno, "cannot remove %s", path);
}

/* qring's own temporary files and locks are not objects. */
static bool is_temporary(const char *name) {
    const char *t = strstr(name, ".tmp-");
    size_t n = strlen(name);
    return (t && t[5] >= '0' && t[5] <= '9') || strncmp(name, ".qring-probe-", 13) == 0 ||
           (name[0] == '.' && n > 6 && strcmp(name + n - 5, ".lock") == 0);
}

struct walk {
    struct qr_store *store;
    const char *prefix;
    struct qr_names names;
};
static enum qr_code walk_directory(struct walk *w, const char *dir, unsigned depth,
                                   struct qr_err *err);

/* Adds the name of a file, or those below a directory, that begin with the prefix. Links to
 * directories are not followed. */
static enum qr_code walk_entry(struct walk *w, DIR *d, const char *path, const char *dir,
                               const char *entry, unsigned depth, struct qr_err *err) {
    if (strcmp(entry, ".") == 0 || strcmp(entry, "..") == 0 || is_temporary(entry)) return QR_OK;
    qr_auto(qr_free_p) char *name = qr_xasprintf("%s%s", dir, entry);
    size_t n = strlen(name), prefix = strlen(w->prefix);
    struct stat st;
    if (strncmp(name, w->prefix, n < prefix ? n : prefix) != 0) return QR_OK;
    int sys = fstatat(dirfd(d), entry, &st, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
    bool link = !sys && S_ISLNK(st.st_mode);
    if (link) sys = fstatat(dirfd(d), entry, &st, 0) == 0 ? 0 : errno;
    /* Removed since readdir, or a dangling link. */
    if (sys == ENOENT || sys == ELOOP) return QR_OK;
    if (sys) return qr_fail_errno(err, sys, "cannot list %s: %s", path, entry);
    if (S_ISDIR(st.st_mode) && !link && depth < MAX_DEPTH) {
        qr_auto(qr_free_p) char *below = qr_xasprintf("%s/", name);
        return walk_directory(w, below, depth + 1, err);
    }
    if (!S_ISREG(st.st_mode) || n < prefix || qr_names_add(&w->names, name)) return QR_OK;
    return qr_fail(err, QR_RESOURCE_EXHAUSTED, "cannot list %s: more than %d files", path,
                   (int)QR_NAMES_MAX);
}

/* dir: "" or "a/b/". */
static enum qr_code walk_directory(struct walk *w, const char *dir, unsigned depth,
                                   struct qr_err *err) {
    const char *below_root = *dir ? dir : *file_store_of(w->store)->root ? "" : ".";
    qr_auto(qr_free_p) char *path = file_path(w->store, below_root);
    DIR *d = opendir(path);
    if (!d && (errno == ENOENT || errno == ENOTDIR)) return QR_OK;
    if (!d) return qr_fail_errno(err, errno, "cannot list %s", path);
    enum qr_code code = QR_OK;
    const struct dirent *e;
    while (code == QR_OK && (errno = 0, e = readdir(d)))
        code = walk_entry(w, d, path, dir, e->d_name, depth, err);
    /* readdir failed: the list is incomplete. */
    if (code == QR_OK && errno) code = qr_fail_errno(err, errno, "cannot list %s", path);
    closedir(d);
    return code;
}

static enum qr_code file_list(struct qr_store *s, const char *prefix, struct qr_buf *ret,
                              struct qr_err *err) {
    const char *slash = strrchr(prefix, '/');
    qr_auto(qr_free_p) char *dir = qr_xstrndup(prefix, slash ? (size_t)(slash - prefix) + 1 : 0);
    struct walk w = {.store = s, .prefix = prefix};
    enum qr_code code = walk_directory(&w, dir, 0, err);
    if (code == QR_OK) qr_names_write_sorted(&w.names, ret);
    qr_names_cut(&w.names, 0);
    return code;
}

/* Checks the directory that a put under this prefix writes into: the prefix itself when it is a
 * directory or ends with '/', else its parent. */
static enum qr_code file_check_writable(struct qr_store *s, const char *prefix,
                                        struct qr_err *err) {
    qr_auto(qr_free_p) char *path = file_path(s, prefix);
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

static enum qr_code file_get_version(struct qr_store *s, const char *name, size_t max_bytes,
                                     struct qr_buf *ret, struct qr_store_version *ret_version,
                                     struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf content = {0};
    struct qr_store_version v = {0};
    enum qr_code code = file_get(s, name, max_bytes, &content, err);
    if (code != QR_OK && code != QR_NOT_FOUND) return code;
    v.there = code == QR_OK;
    if (v.there) qr_xxh3(content.p, content.n, v.id);
    qr_buf_free(ret);
    *ret = QR_MOVE(content);
    *ret_version = v;
    return QR_OK;
}

/* Locks a name before compare and swap. The kernel releases the lock of a process that exits, so no
 * stale lock remains. A rename without a lock is not enough: a process suspended between its
 * comparison and its rename would overwrite a newer version. *ret_fd -1: the file system does not
 * support locks. */
static enum qr_code file_lock(const char *path, int *ret_fd, struct qr_err *err) {
    const char *slash = strrchr(path, '/');
    qr_auto(qr_free_p) char *dir = qr_xstrndup(path, slash ? (size_t)(slash - path) + 1 : 0);
    qr_auto(qr_free_p) char *file = qr_xasprintf("%s.%s.lock", dir, slash ? slash + 1 : path);
    if (*dir && qr_dir_make(dir, err) != QR_OK) return qr_wrap(err, "cannot write %s", path);
    int fd = -1;
    if (qr_file_open(file, O_RDWR | O_CREAT | O_NOFOLLOW, &fd, err) != QR_OK)
        return qr_wrap(err, "cannot lock %s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) return *ret_fd = fd, QR_OK;
    int sys = errno;
    close(fd);
    *ret_fd = -1;
    return sys == EWOULDBLOCK
               ? qr_fail(err, QR_UNAVAILABLE,
                         "%s is being changed by another process; please retry", path)
               : QR_OK;
}

static enum qr_code file_swap(struct qr_store *s, const char *name, struct qr_bytes content,
                              const struct qr_store_version *seen, struct qr_err *err) {
    enum { MAX_BYTES = 1 << 30 };
    qr_auto(qr_free_p) char *path = file_path(s, name);
    qr_auto(qr_close_p) int held = -1;
    struct qr_store_version now;
    qr_auto(qr_buf_free) struct qr_buf there = {0};
    QR_TRY(file_lock(path, &held, err));
    QR_TRY(file_get_version(s, name, MAX_BYTES, &there, &now, err));
    if (now.there != seen->there || (now.there && memcmp(now.id, seen->id, sizeof now.id) != 0))
        return qr_fail(err, QR_FAILED_PRECONDITION,
                       "%s was changed by another writer and is not replaced", path);
    return file_put(s, name, content, false, err);
}

static void file_close(struct qr_store *s) {
    if (!s) return;
    free(file_store_of(s)->root);
    free(s);
}

struct qr_store *qr_store_file_new(const char *root) {
    static const struct qr_store_ops ops = {
        file_get,         file_put,  file_remove, file_list, file_check_writable,
        file_get_version, file_swap, file_close};
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
                       "%s: a file URL has three slashes; give file:///dir/name or a plain path",
                       url);
    *ret = qr_store_file_new("");
    *ret_name = qr_xstrdup(path);
    return QR_OK;
}
