/* A data file by its path: seen from the folder where the program runs, then from the job
 * file's. */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "data/find.h"
#include "store/store.h"

static bool is_relative(const char *url) { return url[0] != '/' && !strstr(url, "://"); }

/* As people can look for it; heap. */
static char *absolute(const char *path) {
    char here[PATH_MAX];
    if (!is_relative(path) || !getcwd(here, sizeof here)) return qr_xstrdup(path);
    while (strncmp(path, "./", 2) == 0) path += 2;
    return qr_path_join(here, path);
}

enum qr_code qr_named_file_read(const char *url, const char *folder, size_t max_bytes,
                                struct qr_buf *ret, struct qr_err *err) {
    enum qr_code code = qr_url_read(url, max_bytes, ret, err);
    if (code != QR_NOT_FOUND || !is_relative(url)) return code;
    qr_auto(qr_free_p) char *first = absolute(url);
    if (folder) {
        qr_auto(qr_free_p) char *beside = qr_path_join(folder, url), *second = absolute(beside);
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
    if (qr_file_exists(url)) return absolute(url);
    qr_auto(qr_free_p) char *beside = folder ? qr_path_join(folder, url) : NULL;
    bool there = beside && (qr_url_remote(beside) || qr_file_exists(beside));
    return there ? absolute(beside) : qr_xstrdup(url);
}

enum qr_code qr_dataset_read(const char *key, const char *url, const char *folder, size_t max_bytes,
                             struct qr_buf *ret, struct qr_err *err) {
    enum qr_code code = qr_named_file_read(url, folder, max_bytes, ret, err);
    return code == QR_NOT_FOUND ? qr_wrap(err, "%s", key) : code;
}
