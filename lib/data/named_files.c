/* data/named_files.c — finds files by path, first in the working directory, then in the folder of
 * the job file. Start reading at qr_named_file_read() and qr_named_files(). */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "data/named_files.h"
#include "store/store.h"

static bool is_relative(const char *url) { return url[0] != '/' && !strstr(url, "://"); }

/* Absolute form of a path, for messages; heap. */
static char *absolute_path(const char *path) {
    char here[PATH_MAX];
    if (!is_relative(path) || !getcwd(here, sizeof here)) return qr_xstrdup(path);
    while (strncmp(path, "./", 2) == 0) path += 2;
    return qr_path_join(here, path);
}

enum qr_code qr_named_file_read(const char *url, const char *folder, size_t max_bytes,
                                struct qr_buf *ret, struct qr_err *err) {
    enum qr_code code = qr_url_read(url, max_bytes, ret, err);
    if (code != QR_NOT_FOUND || !is_relative(url)) return code;
    qr_auto(qr_free_p) char *first = absolute_path(url);
    if (folder) {
        qr_auto(qr_free_p) char *beside = qr_path_join(folder, url),
                                *second = absolute_path(beside);
        if (strcmp(first, second) != 0) {
            code = qr_url_read(beside, max_bytes, ret, err);
            if (code != QR_NOT_FOUND) return code;
            return qr_fail(err, code,
                           "there is no file %s, and beside the job file no %s; correct the path",
                           first, second);
        }
    }
    return qr_fail(err, code, "there is no file %s; correct the path", first);
}

char *qr_named_file_find(const char *url, const char *folder) {
    if (!is_relative(url)) return qr_xstrdup(url);
    if (qr_file_exists(url)) return absolute_path(url);
    qr_auto(qr_free_p) char *beside = folder ? qr_path_join(folder, url) : NULL;
    bool there = beside && (qr_url_remote(beside) || qr_file_exists(beside));
    return there ? absolute_path(beside) : qr_xstrdup(url);
}

bool qr_named_file_unquoted(const char *url, const char *folder) {
    if (!folder || !qr_url_remote(folder)) return false;
    qr_auto(qr_free_p) char *found = qr_named_file_find(url, folder);
    return !qr_url_remote(found);
}

enum qr_code qr_named_file_unquote(const char *shown, struct qr_err *err) {
    return qr_fail(err, err->code,
                   "cannot use %s: its content does not fit the job; the job file is remote, so "
                   "nothing of a local file is quoted: copy the job file to this machine and run "
                   "qring validate",
                   shown);
}

/* ---- folders ---- */

enum { MAX_FILES = 65536 };

/* True for files that are not data by the convention of Hadoop and Kubernetes: a part of the path
 * begins with '.' or '_'. */
static bool is_hidden(const char *below) {
    for (const char *part = below; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (*part == '.' || *part == '_' || !*part) return true;
    }
    return false;
}

static enum qr_code list_below(const char *url, struct qr_buf *ret, size_t *ret_name,
                               struct qr_err *err) {
    struct qr_store *s;
    qr_auto(qr_free_p) char *name = NULL;
    QR_TRY(qr_store_resolve(url, &s, &name, err));
    enum qr_code code = s->ops->list(s, name, ret, err);
    s->ops->close(s);
    *ret_name = strlen(name);
    return code;
}

enum qr_code qr_named_files(const char *url, const char *folder, struct qr_name_list *ret,
                            struct qr_err *err) {
    size_t n = strlen(url), prefix;
    qr_auto(qr_buf_free) struct qr_buf names = {0};
    if (n == 0 || url[n - 1] != '/') {
        qr_name_list_add(ret, url, n);
        return QR_OK;
    }
    qr_auto(qr_free_p) char *at = qr_named_file_find(url, folder);
    QR_TRY(list_below(at, &names, &prefix, err));
    qr_auto(qr_name_list_fini) struct qr_name_list files = {0};
    for (const char *name = qr_buf_string(&names); *name;) {
        size_t length = strcspn(name, "\n");
        qr_auto(qr_free_p) char *below =
            length > prefix ? qr_xstrndup(name + prefix, length - prefix) : qr_xstrdup("");
        if (!is_hidden(below)) {
            if (files.n == MAX_FILES)
                return qr_fail(err, QR_RESOURCE_EXHAUSTED, "%s: the folder has more than %d files",
                               at, MAX_FILES);
            qr_auto(qr_free_p) char *file = qr_xasprintf("%s%s", at, below);
            qr_name_list_add(&files, file, strlen(file));
        }
        name += length + (name[length] == '\n');
    }
    if (!files.n)
        return qr_fail(err, QR_NOT_FOUND, "there are no files below %s; correct the path", at);
    *ret = QR_MOVE(files);
    return QR_OK;
}

enum qr_code qr_dataset_read(const char *key, const char *url, const char *folder, size_t max_bytes,
                             struct qr_buf *ret, struct qr_err *err) {
    enum qr_code code = qr_named_file_read(url, folder, max_bytes, ret, err);
    return code == QR_NOT_FOUND ? qr_wrap(err, "%s", key) : code;
}
