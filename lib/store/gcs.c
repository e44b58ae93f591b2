/* store/gcs.c — Cloud Storage for the engine of bucket_store.c: requests, rejections, permissions.
 * Credentials are in gcs_auth.c, uploads in gcs_upload.c, replies in gcs_reply.c. Start reading at
 * gcs_api. */
#include "store/gcs.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "format/json.h"
#include "store/gcs_impl.h"

static struct qr_gcs *gcs_of(struct qr_bucket *b) { return (struct qr_gcs *)b; }

/* ---- credentials ---- */

/* The URL of an upload session carries its own secret: no token for another host. */
static bool is_api_url(const struct qr_bucket *b, const char *url) {
    size_t n = strlen(b->base);
    return strncmp(url, b->base, n) == 0 && url[n] == '/';
}

static enum qr_code gcs_sign(struct qr_bucket *b, const struct qr_web_call *c,
                             struct qr_bucket_request *req, struct qr_err *err) {
    const struct qr_gcs_options *o = &gcs_of(b)->opt;
    const char *authorization = NULL;
    if (is_api_url(b, req->web.url))
        QR_TRY(qr_gcs_auth_header(gcs_of(b)->auth, &authorization, err));
    if (authorization) req->web.headers[req->web.n_headers++] = authorization;
    if (c->token) qr_bucket_header(req, qr_xasprintf("x-goog-gcs-idempotency-token: %s", c->token));
    if (o->extra_header) req->web.headers[req->web.n_headers++] = o->extra_header;
    req->web.direct = o->emulator_host || o->endpoint;
    return QR_OK;
}

static bool gcs_renew(struct qr_bucket *b, const struct qr_web_request *req,
                      const struct qr_web_reply *reply) {
    return reply->status == 401 && is_api_url(b, req->url) && qr_gcs_auth_drop(gcs_of(b)->auth);
}

/* ---- rejections ---- */

static enum qr_code gcs_refused(void *bucket, const struct qr_web_call *c,
                                const struct qr_web_reply *reply, struct qr_err *err) {
    const struct qr_bucket *b = bucket;
    const struct qr_web_bucket *p = &b->web_bucket;
    const char *role = strcmp(c->doing, "download") == 0 || strcmp(c->doing, "list") == 0
                           ? "roles/storage.objectViewer"
                           : "roles/storage.objectUser";
    char text[QR_WEB_TEXT_BYTES];
    qr_gcs_error_text(qr_buf_view(&reply->body), text, sizeof text);
    const char *colon = *text ? ": " : "";
    switch (reply->status) {
    case 401:
        return qr_web_fail(p, err, QR_UNAUTHENTICATED, c->name,
                           ": %s rejected (401%s%s): the credentials are not accepted; check "
                           "GOOGLE_APPLICATION_CREDENTIALS or this "
                           "pod's service account",
                           c->doing, colon, text);
    case 403:
        return qr_web_fail(
            p, err, QR_PERMISSION_DENIED, c->name,
            ": %s rejected (403%s%s): grant this worker's service account %s on bucket "
            "%s",
            c->doing, colon, text, role, b->name);
    case 404:
        return qr_web_fail(p, err, QR_NOT_FOUND, c->name,
                           ": %s: not found (404%s%s): check the names of bucket and object",
                           c->doing, colon, text);
    default:
        return qr_web_fail(p, err, QR_INVALID_ARGUMENT, c->name, ": %s rejected (%d%s%s)", c->doing,
                           reply->status, colon, text);
    }
}

/* ---- metadata ---- */

/* Appends ".../o/NAME". */
static void gcs_put_object_url(const struct qr_bucket *b, const char *name, struct qr_buf *ret) {
    qr_buf_printf(ret, "%s/storage/v1/b/%s/o/", b->base, b->name);
    qr_web_escape(ret, name);
}

static bool gcs_is_name(const char *name) {
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static enum qr_code gcs_stat(struct qr_bucket *b, const struct qr_web_call *c,
                             struct qr_web_object *ret, bool *ret_found, struct qr_err *err) {
    qr_auto(qr_bucket_request_fini) struct qr_bucket_request req = {
        .web = {.method = "GET", .read = qr_gcs_read_object, .ctx = ret}};
    qr_auto(qr_web_reply_fini) struct qr_web_reply reply = {0};
    char text[QR_WEB_TEXT_BYTES];
    gcs_put_object_url(b, c->name, &req.url);
    qr_buf_puts(&req.url, "?fields=size,generation,crc32c,metadata");
    QR_TRY(qr_bucket_send(b, c, &req, &reply, err));
    *ret_found = qr_web_success(reply.status);
    qr_gcs_error_text(qr_buf_view(&reply.body), text, sizeof text);
    if (*ret_found || (reply.status == 404 && !strstr(text, "bucket does not exist"))) return QR_OK;
    return gcs_refused(b, c, &reply, err);
}

static void gcs_version(const struct qr_web_object *o, uint8_t ret[16]) {
    qr_set_u64le(ret, o->generation);
}

static enum qr_code gcs_find_version(struct qr_bucket *b, const struct qr_web_call *c,
                                     const uint8_t id[16], struct qr_web_object *ret,
                                     struct qr_err *err) {
    (void)b, (void)c, (void)err;
    ret->generation = qr_get_u64le(id);
    return QR_OK;
}

/* ---- requests ---- */

static void gcs_build_get(const struct qr_bucket *b, const char *name,
                          const struct qr_web_object *o, struct qr_bucket_request *req) {
    gcs_put_object_url(b, name, &req->url);
    qr_buf_printf(&req->url, "?alt=media&generation=%llu", (unsigned long long)o->generation);
    /* Size and crc32c of a gzip object are those of the compressed bytes, which the server sends
     * only when the request accepts gzip. */
    req->web.headers[req->web.n_headers++] = "Accept-Encoding: gzip";
}

static void gcs_build_remove(const struct qr_bucket *b, const char *name,
                             const struct qr_web_object *o, struct qr_bucket_request *req) {
    unsigned long long generation = o->generation;
    gcs_put_object_url(b, name, &req->url);
    qr_buf_printf(&req->url, "?generation=%llu&ifGenerationMatch=%llu", generation, generation);
}

static void gcs_build_list(const struct qr_bucket *b, const char *prefix, const char *token,
                           struct qr_bucket_request *req) {
    qr_buf_printf(&req->url,
                  "%s/storage/v1/b/%s/o?maxResults=1000&fields=items(name),nextPageToken&prefix=",
                  b->base, b->name);
    qr_web_escape(&req->url, prefix);
    if (token) qr_buf_puts(&req->url, "&pageToken="), qr_web_escape(&req->url, token);
}

/* {"items": [{"name": …}], "nextPageToken": …} */
static enum qr_code gcs_read_page(struct qr_bytes body, struct qr_bucket_page *page,
                                  struct qr_err *err) {
    qr_auto(qr_json_free_p) struct qr_json *root = NULL;
    const char *name;
    QR_TRY(qr_json_parse(body, "a page of names", &root, err));
    QR_TRY(qr_json_want(root, "a page of names", QR_JSON_OBJECT, err));
    for (const struct qr_json *i = qr_json_first(qr_json_get(root, "items")); i;
         i = qr_json_next(i)) {
        QR_TRY(qr_json_string(qr_json_get(i, "name"), "items.name", &name, err));
        qr_bucket_page_add(page, name);
    }
    name = qr_json_text(qr_json_get(root, "nextPageToken"), "");
    if (*name) page->next = qr_xstrdup(name);
    return QR_OK;
}

/* ---- check_writable ---- */

static enum qr_code read_permissions(void *ctx, const struct qr_web_reply *reply,
                                     struct qr_err *err) {
    qr_auto(qr_json_free_p) struct qr_json *root = NULL;
    QR_TRY(qr_json_parse(qr_buf_view(&reply->body), "the bucket's permissions", &root, err));
    QR_TRY(qr_json_want(root, "the bucket's permissions", QR_JSON_OBJECT, err));
    *(struct qr_json **)ctx = QR_MOVE(root);
    return QR_OK;
}

static bool is_granted(const struct qr_json *permissions, const char *needed) {
    for (const struct qr_json *p = qr_json_first(qr_json_get(permissions, "permissions")); p;
         p = qr_json_next(p))
        if (strcmp(qr_json_text(p, ""), needed) == 0) return true;
    return false;
}

/* Asks the bucket for this process' permissions; writes nothing. A server without that request is
 * asked for a list instead. */
static enum qr_code gcs_check_writable(struct qr_bucket *b, const char *prefix,
                                       struct qr_err *err) {
    static const char *const needed[] = {"storage.objects.create", "storage.objects.get",
                                         "storage.objects.delete"};
    const struct qr_web_call c = {prefix, "permission check", NULL};
    qr_auto(qr_json_free_p) struct qr_json *permissions = NULL;
    qr_auto(qr_bucket_request_fini) struct qr_bucket_request req = {
        .web = {.method = "GET", .read = read_permissions, .ctx = &permissions}};
    qr_auto(qr_web_reply_fini) struct qr_web_reply reply = {0};
    qr_buf_printf(&req.url, "%s/storage/v1/b/%s/iam/testPermissions", b->base, b->name);
    for (size_t i = 0; i < 3; i++)
        qr_buf_printf(&req.url, "%spermissions=%s", i ? "&" : "?", needed[i]);
    QR_TRY(qr_bucket_send(b, &c, &req, &reply, err));
    if ((reply.status == 404 || reply.status == 405 || reply.status == 501) &&
        !qr_gcs_is_error(qr_buf_view(&reply.body))) {
        qr_auto(qr_buf_free) struct qr_buf names = {0};
        return b->store.ops->list(&b->store, prefix, &names, err);
    }
    if (!permissions) return gcs_refused(b, &c, &reply, err);
    for (size_t i = 0; i < 3; i++)
        if (!is_granted(permissions, needed[i]))
            return qr_fail(err, QR_PERMISSION_DENIED,
                           "cannot write gs://%s/%s: the permission %s is missing; grant this "
                           "worker's service account roles/storage.objectUser on bucket %s",
                           b->name, prefix, needed[i], b->name);
    return QR_OK;
}

/* ---- the store ---- */

static void gcs_fini(struct qr_bucket *b) { qr_gcs_auth_free(gcs_of(b)->auth); }

static const struct qr_bucket_api gcs_api = {
    .web = {"gs", qr_bucket_attempt, qr_web_reply_retryable, qr_gcs_error_text, gcs_refused},
    .always_conditional = true,
    .is_name = gcs_is_name,
    .name_rule = "give a name other than . and .., without a trailing /",
    .sign = gcs_sign,
    .renew = gcs_renew,
    .stat = gcs_stat,
    .build_get = gcs_build_get,
    .build_remove = gcs_build_remove,
    .build_list = gcs_build_list,
    .read_page = gcs_read_page,
    .put = qr_gcs_upload,
    .version = gcs_version,
    .find_version = gcs_find_version,
    .check_writable = gcs_check_writable,
    .fini = gcs_fini,
};

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
    size_t n = strlen(bucket);
    if (n < 3 || n > 222 || strspn(bucket, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != n) {
        if (http) http->close(http);
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "'%.80s' is not a bucket name: give 3 to 222 of a-z, 0-9, -, _ and .",
                       bucket);
    }
    struct qr_gcs *g = qr_xcalloc(1, sizeof *g);
    g->opt = *opt;
    qr_bucket_init(&g->bucket, &gcs_api, bucket, &g->opt.waits, http);
    g->bucket.base = base_of(opt);
    g->auth = qr_gcs_auth_new(&g->opt, g->bucket.web);
    *ret = &g->bucket.store;
    return QR_OK;
}
