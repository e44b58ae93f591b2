/* store/store_url.c — chooses the store of a URL: one row for each scheme, and the one-shot reads
 * and writes over it. Start reading at qr_store_resolve_waiting(). */
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "store/bucket_url_impl.h"
#include "store/kind_impl.h"
#include "store/web/web.h"

static const struct qr_store_kind kinds[] = {
    {"gs", "gs://bucket/name", "two", true, false, NULL, qr_store_gcs_configure, qr_store_gcs_open},
    {"s3", "s3://bucket/name", "two", true, false, NULL, qr_store_s3_configure, qr_store_s3_open},
    {"https", "https://host/path", "two", true, true, qr_web_url_redacted, qr_store_https_configure,
     qr_store_https_open},
    {"http", "http://localhost/path", "two", true, true, qr_web_url_redacted, NULL,
     qr_store_https_open},
    {"file", "file:///dir/name", "three", false, false, NULL, NULL, qr_store_file_open},
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static bool url_begins(const char *s, const char *with) {
    return strncmp(s, with, strlen(with)) == 0;
}

/* Returns the row of the URL's scheme, or NULL. after: text that must follow the scheme. */
static const struct qr_store_kind *scheme_kind(const char *url, const char *after) {
    for (size_t i = 0; i < N_KINDS; i++) {
        size_t n = strlen(kinds[i].scheme);
        if (strncmp(url, kinds[i].scheme, n) == 0 && url_begins(url + n, after)) return &kinds[i];
    }
    return NULL;
}

void qr_store_configure(char *const *environment, bool (*stopping)(void),
                        const struct qr_log *log) {
    for (size_t i = 0; i < N_KINDS; i++)
        if (kinds[i].configure) kinds[i].configure(environment, stopping, log);
}

bool qr_url_remote(const char *url) {
    const struct qr_store_kind *k = url ? scheme_kind(url, "://") : NULL;
    return k && k->remote;
}

char *qr_url_redacted(const char *url) {
    const struct qr_store_kind *k = scheme_kind(url, "://");
    return k && k->shown ? k->shown(url) : qr_xstrdup(url);
}

const char *qr_url_local_path(const char *url) {
    const struct qr_store_kind *k = scheme_kind(url, "://");
    return !k ? url : k->remote ? NULL : url + strlen(k->scheme) + strlen("://");
}

bool qr_url_same(const char *a, const char *b) {
    const char *path_a = qr_url_local_path(a), *path_b = qr_url_local_path(b);
    return path_a && path_b ? qr_file_same(path_a, path_b) : strcmp(a, b) == 0;
}

enum qr_code qr_url_check_writable(const char *url, struct qr_err *err) {
    const struct qr_store_kind *k = scheme_kind(url, "://");
    const char *path = qr_url_local_path(url);
    if (path) return qr_file_check_replaceable(path, err);
    if (!k->read_only) return QR_OK;
    qr_auto(qr_free_p) char *shown = qr_url_redacted(url);
    return qr_url_read_only(shown, k->scheme, err);
}

static enum qr_code url_unsupported(const char *url, struct qr_err *err) {
    /* A scheme followed by ":" alone: slashes are missing. */
    const struct qr_store_kind *lost = scheme_kind(url, ":");
    qr_auto(qr_buf_free) struct qr_buf forms = {0};
    if (lost)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s: %s has %s slashes; for a file of this name give ./%s", url, lost->form,
                       lost->slashes, url);
    for (size_t i = 0; i < N_KINDS; i++)
        qr_buf_printf(&forms, "%s%s", i ? ", " : "", kinds[i].form);
    return qr_fail(err, QR_INVALID_ARGUMENT, "%s: unknown kind of URL; give %s or a plain path",
                   url, qr_buf_string(&forms));
}

enum qr_code qr_store_resolve_waiting(const char *url, const struct qr_store_waits *waits,
                                      struct qr_store **ret, char **ret_name, struct qr_err *err) {
    const struct qr_store_kind *k = scheme_kind(url, "://");
    struct qr_store *bare;
    if (!k && (scheme_kind(url, ":") || strstr(url, "://"))) return url_unsupported(url, err);
    if (!*url) return qr_fail(err, QR_INVALID_ARGUMENT, "an empty path: give the name of a file");
    if (k) QR_TRY(k->open(url, waits, &bare, ret_name, err));
    else {
        bare = qr_store_file_new("");
        *ret_name = qr_xstrdup(url);
    }
    *ret = qr_store_counted(bare);
    return QR_OK;
}

enum qr_code qr_store_resolve(const char *url, struct qr_store **ret, char **ret_name,
                              struct qr_err *err) {
    return qr_store_resolve_waiting(url, NULL, ret, ret_name, err);
}

void qr_store_close_p(struct qr_store **s) {
    if (*s) (*s)->ops->close(*s);
    *s = NULL;
}

enum qr_code qr_url_read(const char *url, size_t max_bytes, struct qr_buf *ret,
                         struct qr_err *err) {
    qr_auto(qr_store_close_p) struct qr_store *s = NULL;
    qr_auto(qr_free_p) char *name = NULL;
    QR_TRY(qr_store_resolve(url, &s, &name, err));
    return s->ops->get(s, name, max_bytes, ret, err);
}

enum qr_code qr_url_write(const char *url, struct qr_bytes content, struct qr_err *err) {
    qr_auto(qr_store_close_p) struct qr_store *s = NULL;
    qr_auto(qr_free_p) char *name = NULL;
    QR_TRY(qr_store_resolve(url, &s, &name, err));
    return s->ops->put(s, name, content, false, err);
}
