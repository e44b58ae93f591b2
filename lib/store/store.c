#include "store/store.h"

#include <string.h>

#include "base/mem.h"
#include "store/gcs.h"

static bool begins(const char *s, const char *with) { return strncmp(s, with, strlen(with)) == 0; }

static struct qr_gcs_options gcs; /* set once, before threads */

void qr_store_configure(const struct qr_gcs_options *options) { gcs = *options; }

static enum qr_code resolve_gcs(const char *url, struct qr_store **ret, char **ret_name, struct qr_err *err) {
    const char *bucket = url + strlen("gs://"), *slash = strchr(bucket, '/');
    if (!gcs.clock) return qr_fail(err, QR_FAILED_PRECONDITION, "%s: Cloud Storage is not configured in this program; give a local path", url);
    if (!slash || slash == bucket || !slash[1]) return qr_fail(err, QR_INVALID_ARGUMENT, "%s: give bucket and name, gs://bucket/dir/name", url);
    qr_auto(qr_free_p) char *name = qr_xstrndup(bucket, (size_t)(slash - bucket));
    enum qr_code code = qr_store_gcs_new(name, &gcs, NULL, ret, err);
    if (code != QR_OK) return qr_wrap(err, "%s", url);
    *ret = qr_store_counted(*ret);
    *ret_name = qr_xstrdup(slash + 1);
    return QR_OK;
}

enum qr_code qr_store_resolve(const char *url, struct qr_store **ret, char **ret_name, struct qr_err *err) {
    const char *path = url;
    if (begins(url, "gs://")) return resolve_gcs(url, ret, ret_name, err);
    if (begins(url, "file://")) {
        path = url + strlen("file://");
        if (begins(path, "localhost/")) path += strlen("localhost");
        if (*path != '/')
            return qr_fail(err, QR_INVALID_ARGUMENT, "%s: a file URL has three slashes, file:///dir/name; or give a plain path", url);
    } else if (begins(url, "gs:") || begins(url, "file:")) { /* no path of anybody: slashes were lost */
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: gs://bucket/name has two slashes, file:///dir/name three; a file of such a name is ./%s", url,
                       url);
    } else if (strstr(url, "://")) {
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: unknown kind of URL; gs://bucket/name, file:///dir/name and plain paths are known", url);
    }
    if (!*path) return qr_fail(err, QR_INVALID_ARGUMENT, "an empty path: give the name of a file");
    *ret = qr_store_counted(qr_store_file_new(""));
    *ret_name = qr_xstrdup(path);
    return QR_OK;
}

enum qr_code qr_url_read(const char *url, size_t max_bytes, struct qr_buf *ret, struct qr_err *err) {
    struct qr_store *s;
    qr_auto(qr_free_p) char *name = NULL;
    enum qr_code code = qr_store_resolve(url, &s, &name, err);
    if (code != QR_OK) return code;
    code = s->ops->get(s, name, max_bytes, ret, err);
    s->ops->close(s);
    return code;
}

enum qr_code qr_url_write(const char *url, struct qr_bytes content, struct qr_err *err) {
    struct qr_store *s;
    qr_auto(qr_free_p) char *name = NULL;
    enum qr_code code = qr_store_resolve(url, &s, &name, err);
    if (code != QR_OK) return code;
    code = s->ops->put(s, name, content, false, err);
    s->ops->close(s);
    return code;
}
