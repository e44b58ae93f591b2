/* store/gcs.c — the operations of the Cloud Storage store. Credentials are in gcs_auth.c, uploads
 * in gcs_upload.c, replies in gcs_reply.c. Start reading at gcs_get() and gcs_upload(). */
#include "store/gcs.h"

#include <stdio.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "base/text.h"
#include "format/json.h"
#include "store/gcs_impl.h"
#include "store/object_names_impl.h"

enum { MAX_TRIES = 4, MAX_NAME_BYTES = 1024, MAX_PAGES = 4096 };

static struct qr_gcs *gcs_of(struct qr_store *s) { return (struct qr_gcs *)s; }

/* ---- requests ---- */

static bool is_api_url(const struct qr_gcs *g, const char *url) {
    size_t n = strlen(g->base);
    return strncmp(url, g->base, n) == 0 && url[n] == '/';
}

enum qr_code qr_gcs_attempt(struct qr_gcs *g, const struct qr_web_call *c,
                            const struct qr_web_request *req, struct qr_web_reply *ret,
                            struct qr_err *err) {
    qr_auto(qr_free_p) char *token =
        c->token ? qr_xasprintf("x-goog-gcs-idempotency-token: %s", c->token) : NULL;
    *ret = (struct qr_web_reply){0};
    for (int tries = 0;; tries++) {
        struct qr_web_request r = *req;
        const char *authorization = NULL;
        /* The URL of an upload session carries its own secret: no token for another host. */
        enum qr_code code =
            is_api_url(g, r.url) ? qr_gcs_auth_header(g->auth, &authorization, err) : QR_OK;
        if (code != QR_OK) return code;
        if (authorization) r.headers[r.n_headers++] = authorization;
        if (token) r.headers[r.n_headers++] = token;
        if (g->opt.extra_header) r.headers[r.n_headers++] = g->opt.extra_header;
        r.direct = g->opt.emulator_host || g->opt.endpoint;
        code = g->http->send(g->http, &r, ret, err);
        if (code == QR_OK && qr_web_success(ret->status) && req->read)
            return qr_web_read(req, ret, err);
        if (code != QR_OK || ret->status != 401 || !authorization || tries) return code;
        qr_gcs_auth_drop(g->auth);
        qr_web_reply_fini(ret);
    }
}

static enum qr_code gcs_attempt(void *store, const struct qr_web_call *c,
                                const struct qr_web_request *req, struct qr_web_reply *ret,
                                struct qr_err *err) {
    return qr_gcs_attempt(store, c, req, ret, err);
}

static bool gcs_retryable(const struct qr_web_reply *reply) {
    return qr_web_retryable(reply->status);
}

enum qr_code qr_gcs_refused(const struct qr_gcs *g, const struct qr_web_call *c,
                            const struct qr_web_reply *reply, struct qr_err *err) {
    const char *role = strcmp(c->doing, "download") == 0 || strcmp(c->doing, "list") == 0
                           ? "roles/storage.objectViewer"
                           : "roles/storage.objectUser";
    char text[200];
    qr_gcs_error_text(qr_buf_view(&reply->body), text, sizeof text);
    const char *colon = *text ? ": " : "";
    switch (reply->status) {
    case 401:
        return qr_fail(err, QR_UNAUTHENTICATED,
                       "gs://%s/%s: %s rejected (401%s%s): the credentials are not accepted; check "
                       "GOOGLE_APPLICATION_CREDENTIALS or this "
                       "pod's service account",
                       g->bucket, c->name, c->doing, colon, text);
    case 403:
        return qr_fail(
            err, QR_PERMISSION_DENIED,
            "gs://%s/%s: %s rejected (403%s%s): grant this worker's service account %s on bucket "
            "%s",
            g->bucket, c->name, c->doing, colon, text, role, g->bucket);
    case 404:
        return qr_fail(err, QR_NOT_FOUND,
                       "gs://%s/%s: %s: not found (404%s%s): check the names of bucket and object",
                       g->bucket, c->name, c->doing, colon, text);
    case 412:
        return qr_fail(err, QR_FAILED_PRECONDITION,
                       "gs://%s/%s: %s: the object was changed by another writer (412%s%s)",
                       g->bucket, c->name, c->doing, colon, text);
    default:
        return qr_fail(err, reply->status == 400 ? QR_INVALID_ARGUMENT : QR_UNKNOWN,
                       "gs://%s/%s: %s rejected (%d%s%s)", g->bucket, c->name, c->doing,
                       reply->status, colon, text);
    }
}

static enum qr_code gcs_refused(void *store, const struct qr_web_call *c,
                                const struct qr_web_reply *reply, struct qr_err *err) {
    return qr_gcs_refused(store, c, reply, err);
}

static const struct qr_web_api gcs_api = {"gs", gcs_attempt, gcs_retryable, qr_gcs_error_text,
                                          gcs_refused};

void qr_gcs_object_url(const struct qr_gcs *g, const char *name, struct qr_buf *ret) {
    qr_buf_printf(ret, "%s/storage/v1/b/%s/o/", g->base, g->bucket);
    qr_web_escape(ret, name);
}

/* Checks the beginning of a name. The server would store a name that is not UTF-8 under another
 * name, or reject it. */
static enum qr_code gcs_check_prefix(const struct qr_gcs *g, const char *prefix,
                                     struct qr_err *err) {
    size_t n = strlen(prefix);
    if (n <= MAX_NAME_BYTES && !strpbrk(prefix, "\r\n") && qr_is_utf8(prefix)) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "gs://%s/%.100s: a name is UTF-8 of at most %d bytes without line breaks",
                   g->bucket, prefix, MAX_NAME_BYTES);
}

static enum qr_code gcs_check_name(const struct qr_gcs *g, const char *name, struct qr_err *err) {
    size_t n = strlen(name);
    if (gcs_check_prefix(g, name, err) != QR_OK) return err->code;
    if (n && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && name[n - 1] != '/') return QR_OK;
    return qr_fail(
        err, QR_INVALID_ARGUMENT,
        "gs://%s/%.100s names no object: give a name other than . and .., without a trailing /",
        g->bucket, name);
}

/* Reads the metadata of an object; *ret_found false on 404. */
static enum qr_code gcs_stat(struct qr_gcs *g, const struct qr_web_call *c,
                             struct qr_gcs_object *ret, bool *ret_found, struct qr_err *err) {
    struct qr_web_retry retry;
    struct qr_web_reply reply = {0};
    struct qr_buf url = {0};
    qr_web_retry_begin(&retry, &g->opt.waits);
    qr_gcs_object_url(g, c->name, &url);
    qr_buf_puts(&url, "?fields=size,generation,crc32c,metadata");
    struct qr_web_request req = {.method = "GET",
                                 .url = qr_buf_string(&url),
                                 .max_reply_bytes = QR_WEB_REPLY_BYTES,
                                 .read = qr_gcs_read_object,
                                 .ctx = ret};
    enum qr_code code = qr_web_send(&g->web_bucket, &retry, c, &req, &reply, err);
    if (code == QR_OK && qr_web_success(reply.status)) {
        *ret_found = true;
    } else if (code == QR_OK) {
        code = qr_gcs_refused(g, c, &reply, err);
        char text[200];
        qr_gcs_error_text(qr_buf_view(&reply.body), text, sizeof text);
        if (reply.status == 404 && !strstr(text, "bucket does not exist"))
            *ret_found = false, code = QR_OK;
    }
    qr_web_reply_fini(&reply);
    qr_buf_free(&url);
    return code;
}

static enum qr_code gcs_not_found(const struct qr_gcs *g, const char *name, struct qr_err *err) {
    return qr_fail(err, QR_NOT_FOUND,
                   "gs://%s/%s: no such object; check the name (and that bucket %s is the one)",
                   g->bucket, name, g->bucket);
}

/* ---- get ---- */

/* Waits before another attempt: the wrong reply may come from a proxy and be temporary. */
static bool gcs_pause(const struct qr_gcs *g) {
    struct qr_web_retry retry;
    qr_web_retry_begin(&retry, &g->opt.waits);
    return qr_web_retry_wait(&retry, 0);
}

/* Downloads one generation: codes as qr_web_download. */
static enum qr_code gcs_download(struct qr_gcs *g, const struct qr_web_call *c,
                                 const struct qr_gcs_object *o, struct qr_buf *ret,
                                 struct qr_err *err) {
    struct qr_buf url = {0};
    qr_gcs_object_url(g, c->name, &url);
    qr_buf_printf(&url, "?alt=media&generation=%llu", (unsigned long long)o->generation);
    /* Size and crc32c of a gzip object are those of the compressed bytes, which the server sends
     * only when the request accepts gzip. */
    const struct qr_web_object object = {.url = qr_buf_string(&url),
                                         .header = "Accept-Encoding: gzip",
                                         .size = o->size,
                                         .generation = o->generation,
                                         .has_crc32c = true,
                                         .crc32c = o->crc32c};
    enum qr_code code = qr_web_download(&g->web_bucket, c, &object, ret, err);
    qr_buf_free(&url);
    return code;
}

/* *ret_generation 0: the object does not exist, and *ret is unchanged. */
static enum qr_code get_generation(struct qr_gcs *g, const char *name, size_t max_bytes,
                                   struct qr_buf *ret, uint64_t *ret_generation,
                                   struct qr_err *err) {
    const struct qr_web_call c = {name, "download", NULL};
    enum qr_code code = gcs_check_name(g, name, err);
    *ret_generation = 0;
    for (int tries = 0; code == QR_OK; tries++) {
        struct qr_gcs_object o;
        bool found = false;
        if ((code = gcs_stat(g, &c, &o, &found, err)) != QR_OK) return code;
        if (!found) return QR_OK;
        if (o.size > max_bytes)
            return qr_fail(err, QR_RESOURCE_EXHAUSTED,
                           "gs://%s/%s has %llu bytes; at most %zu are read", g->bucket, name,
                           (unsigned long long)o.size, max_bytes);
        struct qr_buf content = {.max = max_bytes + 1};
        code = gcs_download(g, &c, &o, &content, err);
        bool again =
            (code == QR_ABORTED || code == QR_DATA_LOSS) && tries + 1 < MAX_TRIES && gcs_pause(g);
        if (code == QR_OK) {
            qr_buf_clear(ret);
            qr_buf_put(ret, content.p, content.n);
            if (!qr_buf_ok(ret))
                code = qr_fail(err, QR_RESOURCE_EXHAUSTED, "gs://%s/%s: %zu bytes are too many",
                               g->bucket, name, content.n);
            *ret_generation = o.generation;
        }
        qr_buf_free(&content);
        if (!again) break;
        code = QR_OK;
    }
    return code;
}

static enum qr_code gcs_get(struct qr_store *s, const char *name, size_t max_bytes,
                            struct qr_buf *ret, struct qr_err *err) {
    uint64_t generation;
    enum qr_code code = get_generation(gcs_of(s), name, max_bytes, ret, &generation, err);
    return code != QR_OK || generation ? code : gcs_not_found(gcs_of(s), name, err);
}

static enum qr_code gcs_get_version(struct qr_store *s, const char *name, size_t max_bytes,
                                    struct qr_buf *ret, struct qr_store_version *ret_version,
                                    struct qr_err *err) {
    uint64_t generation;
    enum qr_code code = get_generation(gcs_of(s), name, max_bytes, ret, &generation, err);
    if (code != QR_OK) return code;
    if (!generation) qr_buf_clear(ret);
    *ret_version = (struct qr_store_version){.there = generation != 0};
    qr_set_u64le(ret_version->id, generation);
    return QR_OK;
}

/* ---- put ---- */

static bool is_own_upload(const struct qr_gcs_object *o, struct qr_bytes content,
                          const char *write_id) {
    return o->size == content.n && o->crc32c == qr_crc32c(0, content.p, content.n) &&
           strcmp(o->write_id, write_id) == 0;
}

/* only: replaces this generation alone, 0: creates the object; NULL: replaces any. An object that a
 * damaged upload of this call left is replaced in every case. */
static enum qr_code gcs_upload(struct qr_gcs *g, const char *name, struct qr_bytes content,
                               const uint64_t *only, struct qr_err *err) {
    const struct qr_web_call c = {name, "upload", NULL};
    char write_id[QR_WEB_ID_BYTES];
    struct qr_gcs_object o = {0};
    bool found = false;
    enum qr_code code = gcs_check_name(g, name, err);
    if (code == QR_OK && !only) code = gcs_stat(g, &c, &o, &found, err);
    uint64_t generation = only ? *only : found ? o.generation : 0;
    qr_web_id(write_id);
    for (int tries = 0; code == QR_OK; tries++) {
        int status = 0;
        if ((code = qr_gcs_upload(g, name, content, generation, write_id, &o, &status, err)) !=
            QR_OK)
            return code;
        if (status == 200 && o.size == content.n && o.crc32c == qr_crc32c(0, content.p, content.n))
            return QR_OK;
        struct qr_err refusal = {0};
        if (status != 200) refusal = *err;
        /* The stored object decides, whatever the reply was. */
        if ((code = gcs_stat(g, &c, &o, &found, err)) != QR_OK) return code;
        if (found && is_own_upload(&o, content, write_id)) return QR_OK;
        /* This upload arrived with other bytes. */
        bool damaged = found && strcmp(o.write_id, write_id) == 0;
        if (status == 412 && only && !damaged)
            return qr_fail(err, QR_FAILED_PRECONDITION, "gs://%s/%s %s and is not replaced",
                           g->bucket, name,
                           *only ? "was changed by another writer" : "already exists");
        if (!only || damaged) generation = found ? o.generation : 0;
        /* Damaged in transit; any other 400 would come again. */
        bool bad_bytes = status == 400 && strcasestr(refusal.msg, "crc32c");
        if (tries + 1 < MAX_TRIES && (status != 400 || bad_bytes)) continue;
        if (status == 412)
            return qr_fail(err, QR_ABORTED,
                           "gs://%s/%s: other writers keep replacing the object; please retry",
                           g->bucket, name);
        if (status == 400) return *err = refusal, refusal.code;
        return qr_fail(
            err, QR_DATA_LOSS,
            "gs://%s/%s: after %d uploads the object's size or crc32c still differs from "
            "what was sent",
            g->bucket, name, tries + 1);
    }
    return code;
}

static enum qr_code gcs_put(struct qr_store *s, const char *name, struct qr_bytes content,
                            bool if_absent, struct qr_err *err) {
    const uint64_t none = 0;
    return gcs_upload(gcs_of(s), name, content, if_absent ? &none : NULL, err);
}

static enum qr_code gcs_swap(struct qr_store *s, const char *name, struct qr_bytes content,
                             const struct qr_store_version *seen, struct qr_err *err) {
    const uint64_t generation = seen->there ? qr_get_u64le(seen->id) : 0;
    return gcs_upload(gcs_of(s), name, content, &generation, err);
}

/* ---- remove ---- */

static enum qr_code gcs_remove(struct qr_store *s, const char *name, struct qr_err *err) {
    struct qr_gcs *g = gcs_of(s);
    char token[QR_WEB_ID_BYTES];
    qr_web_id(token);
    const struct qr_web_call c = {name, "delete", token};
    enum qr_code code = gcs_check_name(g, name, err);
    for (int tries = 0; code == QR_OK; tries++) {
        struct qr_gcs_object o;
        struct qr_web_retry retry;
        struct qr_web_reply reply = {0};
        struct qr_buf url = {0};
        bool found = false;
        if ((code = gcs_stat(g, &c, &o, &found, err)) != QR_OK) return code;
        if (!found) return gcs_not_found(g, name, err);
        qr_gcs_object_url(g, name, &url);
        qr_buf_printf(&url, "?generation=%llu&ifGenerationMatch=%llu",
                      (unsigned long long)o.generation, (unsigned long long)o.generation);
        struct qr_web_request req = {
            .method = "DELETE", .url = qr_buf_string(&url), .max_reply_bytes = QR_WEB_REPLY_BYTES};
        qr_web_retry_begin(&retry, &g->opt.waits);
        code = qr_web_send(&g->web_bucket, &retry, &c, &req, &reply, err);
        /* The object existed: 404 means that an earlier attempt, or another writer, removed it. */
        bool done =
            code == QR_OK && (reply.status == 204 || reply.status == 200 || reply.status == 404);
        if (code == QR_OK && !done && (reply.status != 412 || tries + 1 == MAX_TRIES))
            code = qr_gcs_refused(g, &c, &reply, err);
        qr_web_reply_fini(&reply);
        qr_buf_free(&url);
        if (done) break;
    }
    return code;
}

/* ---- list ---- */

/* {"items": [{"name": …}], "nextPageToken": …} */
static enum qr_code gcs_read_page(void *ctx, const struct qr_web_reply *reply, struct qr_err *err) {
    struct qr_json **ret = ctx, *root = NULL;
    const char *name;
    enum qr_code code = qr_json_parse(qr_buf_view(&reply->body), "a page of names", &root, err);
    if (code == QR_OK) code = qr_json_want(root, "a page of names", QR_JSON_OBJECT, err);
    for (const struct qr_json *i = qr_json_first(qr_json_get(root, "items")); i && code == QR_OK;
         i = qr_json_next(i))
        code = qr_json_string(qr_json_get(i, "name"), "items.name", &name, err);
    if (code == QR_OK) *ret = QR_MOVE(root);
    qr_json_free(root);
    return code;
}

static enum qr_code add_page(const struct qr_gcs *g, const struct qr_json *page,
                             struct qr_names *names, char **ret_next, struct qr_err *err) {
    const char *name;
    for (const struct qr_json *i = qr_json_first(qr_json_get(page, "items")); i;
         i = qr_json_next(i)) {
        if (qr_json_string(qr_json_get(i, "name"), "items.name", &name, err) != QR_OK ||
            strpbrk(name, "\r\n"))
            continue;
        char *own = qr_xstrdup(name);
        if (qr_names_add(names, own)) continue;
        free(own);
        return qr_fail(err, QR_RESOURCE_EXHAUSTED, "gs://%s: list: more than %d objects", g->bucket,
                       (int)QR_NAMES_MAX);
    }
    if (qr_json_string(qr_json_get(page, "nextPageToken"), "", &name, QR_IGNORED) == QR_OK && *name)
        *ret_next = qr_xstrdup(name);
    return QR_OK;
}

static enum qr_code list_pages(struct qr_gcs *g, const char *prefix, struct qr_names *names,
                               struct qr_err *err) {
    const struct qr_web_call c = {prefix, "list", NULL};
    qr_auto(qr_free_p) char *page = NULL;
    enum qr_code code = QR_OK;
    for (int n = 0; code == QR_OK; n++) {
        struct qr_web_retry retry;
        struct qr_web_reply reply = {0};
        struct qr_buf url = {0};
        if (n == MAX_PAGES)
            return qr_fail(err, QR_RESOURCE_EXHAUSTED, "gs://%s/%s: list: more than %d pages",
                           g->bucket, prefix, MAX_PAGES);
        qr_web_retry_begin(&retry, &g->opt.waits);
        qr_buf_printf(
            &url, "%s/storage/v1/b/%s/o?maxResults=1000&fields=items(name),nextPageToken&prefix=",
            g->base, g->bucket);
        qr_web_escape(&url, prefix);
        if (page) qr_buf_puts(&url, "&pageToken="), qr_web_escape(&url, page);
        free(QR_MOVE(page));
        qr_auto(qr_json_free_p) struct qr_json *parsed = NULL;
        struct qr_web_request req = {.method = "GET",
                                     .url = qr_buf_string(&url),
                                     .max_reply_bytes = QR_WEB_REPLY_BYTES,
                                     .read = gcs_read_page,
                                     .ctx = &parsed};
        code = qr_web_send(&g->web_bucket, &retry, &c, &req, &reply, err);
        if (code == QR_OK)
            code = parsed ? add_page(g, parsed, names, &page, err)
                          : qr_gcs_refused(g, &c, &reply, err);
        qr_web_reply_fini(&reply);
        qr_buf_free(&url);
        if (!page) break;
    }
    return code;
}

static enum qr_code gcs_list(struct qr_store *s, const char *prefix, struct qr_buf *ret,
                             struct qr_err *err) {
    struct qr_names names = {0};
    enum qr_code code = list_pages(gcs_of(s), prefix, &names, err);
    qr_names_write_sorted(&names, code == QR_OK ? ret : NULL);
    return code;
}

/* ---- check_writable ---- */

static enum qr_code read_permissions(void *ctx, const struct qr_web_reply *reply,
                                     struct qr_err *err) {
    struct qr_json **ret = ctx, *root = NULL;
    enum qr_code code =
        qr_json_parse(qr_buf_view(&reply->body), "the bucket's permissions", &root, err);
    if (code == QR_OK) code = qr_json_want(root, "the bucket's permissions", QR_JSON_OBJECT, err);
    if (code == QR_OK) *ret = QR_MOVE(root);
    qr_json_free(root);
    return code;
}

static enum qr_code missing_permission(const struct qr_gcs *g, const struct qr_web_call *c,
                                       const struct qr_json *parsed, struct qr_err *err) {
    static const char *const needed[] = {"storage.objects.create", "storage.objects.get",
                                         "storage.objects.delete"};
    const char *text;
    for (size_t i = 0; i < 3; i++) {
        bool granted = false;
        for (const struct qr_json *p = qr_json_first(qr_json_get(parsed, "permissions")); p;
             p = qr_json_next(p))
            granted |=
                qr_json_string(p, "", &text, QR_IGNORED) == QR_OK && strcmp(text, needed[i]) == 0;
        if (!granted)
            return qr_fail(err, QR_PERMISSION_DENIED,
                           "cannot write gs://%s/%s: the permission %s is missing; grant "
                           "this worker's service account "
                           "roles/storage.objectUser on bucket %s",
                           g->bucket, c->name, needed[i], g->bucket);
    }
    return QR_OK;
}

/* Asks the bucket for this process' permissions; writes nothing. A server without that request is
 * asked for a list instead. */
static enum qr_code gcs_check_writable(struct qr_store *s, const char *prefix, struct qr_err *err) {
    struct qr_gcs *g = gcs_of(s);
    const struct qr_web_call c = {prefix, "permission check", NULL};
    struct qr_web_retry retry;
    struct qr_web_reply reply = {0};
    qr_auto(qr_free_p) char *url = qr_xasprintf(
        "%s/storage/v1/b/%s/iam/"
        "testPermissions?permissions=storage.objects.create&permissions=storage.objects.get&"
        "permissions=storage.objects.delete",
        g->base, g->bucket);
    qr_auto(qr_json_free_p) struct qr_json *parsed = NULL;
    struct qr_web_request req = {.method = "GET",
                                 .url = url,
                                 .max_reply_bytes = QR_WEB_REPLY_BYTES,
                                 .read = read_permissions,
                                 .ctx = &parsed};
    if (gcs_check_prefix(g, prefix, err) != QR_OK) return err->code;
    qr_web_retry_begin(&retry, &g->opt.waits);
    enum qr_code code = qr_web_send(&g->web_bucket, &retry, &c, &req, &reply, err);
    if (parsed) code = missing_permission(g, &c, parsed, err);
    else if (code == QR_OK && (reply.status == 404 || reply.status == 405 || reply.status == 501) &&
             !qr_gcs_is_error(qr_buf_view(&reply.body))) {
        struct qr_names names = {0};
        code = list_pages(g, prefix, &names, err);
        qr_names_write_sorted(&names, NULL);
    } else if (code == QR_OK) {
        code = qr_gcs_refused(g, &c, &reply, err);
    }
    qr_web_reply_fini(&reply);
    return code;
}

/* ---- the store ---- */

static void gcs_close(struct qr_store *s) {
    if (!s) return;
    struct qr_gcs *g = gcs_of(s);
    qr_gcs_auth_free(g->auth);
    g->http->close(g->http);
    free(g->bucket);
    free(g->base);
    free(g);
}

static char *base_of(const struct qr_gcs_options *o) {
    const char *host = o->emulator_host && *o->emulator_host ? o->emulator_host
                       : o->endpoint && *o->endpoint         ? o->endpoint
                                                             : "https://storage.googleapis.com";
    char *base = strstr(host, "://") ? qr_xstrdup(host) : qr_xasprintf("http://%s", host);
    static const char api[] = "/storage/v1"; /* some other clients need the path in the variable */
    size_t n = strlen(base);
    while (n && base[n - 1] == '/') base[--n] = 0;
    if (n > strlen(api) && strcmp(base + n - strlen(api), api) == 0) base[n - strlen(api)] = 0;
    return base;
}

enum qr_code qr_store_gcs_new(const char *bucket, const struct qr_gcs_options *opt,
                              struct qr_web *http, struct qr_store **ret, struct qr_err *err) {
    static const struct qr_store_ops ops = {
        gcs_get,         gcs_put,  gcs_remove, gcs_list, gcs_check_writable,
        gcs_get_version, gcs_swap, gcs_close};
    size_t n = strlen(bucket);
    if (n < 3 || n > 222 || strspn(bucket, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != n) {
        if (http) http->close(http);
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "'%.80s' is not a bucket name: give 3 to 222 of a-z, 0-9, -, _ and .",
                       bucket);
    }
    struct qr_gcs *g = qr_xcalloc(1, sizeof *g);
    g->store.ops = &ops;
    g->opt = *opt;
    g->bucket = qr_xstrdup(bucket);
    g->web_bucket = (struct qr_web_bucket){&gcs_api, g, g->bucket, &g->opt.waits};
    g->base = base_of(opt);
    g->http = http ? http : qr_web_curl();
    g->auth = qr_gcs_auth_new(&g->opt, g->http);
    *ret = &g->store;
    return QR_OK;
}
