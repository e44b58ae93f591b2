/* store/s3.c — S3 for the engine of bucket_store.c: metadata, uploads, lists, the check of a
 * server. Signing and rejections are in s3_request.c. Start reading at s3_api. */
#include "store/s3.h"

#include <stdio.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "store/s3_impl.h"

static struct qr_s3 *s3_of(struct qr_bucket *b) { return (struct qr_s3 *)b; }

/* ---- metadata ---- */

/* Proxies, and servers that store files, resolve the parts . and .. to other paths. */
static bool s3_is_name(const char *name) {
    for (const char *part = name; part; part = strchr(part, '/')) {
        part += *part == '/';
        size_t n = strcspn(part, "/");
        if ((n == 1 || n == 2) && strspn(part, ".") == n) return false;
    }
    return true;
}

static enum qr_code stat_times(struct qr_bucket *b, const struct qr_web_call *c, int tries,
                               struct qr_web_object *ret, bool *ret_found, struct qr_err *err) {
    qr_auto(qr_bucket_request_fini) struct qr_bucket_request head = {
        .web = {.method = "HEAD",
                .headers = {"x-amz-checksum-mode: ENABLED"},
                .n_headers = 1,
                .read = qr_s3_read_object,
                .ctx = ret}};
    qr_auto(qr_bucket_request_fini) struct qr_bucket_request get = {
        .web = {.method = "GET", .headers = {"Range: bytes=0-0"}, .n_headers = 1}};
    qr_auto(qr_web_reply_fini) struct qr_web_reply reply = {0}, get_reply = {0};
    struct qr_s3_error e;
    qr_s3_object_url(b, c->name, &head.url);
    QR_TRY(qr_bucket_send(b, c, &head, &reply, err));
    *ret_found = qr_web_success(reply.status);
    if (*ret_found) return QR_OK;
    /* An error reply to HEAD has no body; the reply to the same request as a GET has the reason. */
    qr_s3_object_url(b, c->name, &get.url);
    QR_TRY(qr_bucket_send(b, c, &get, &get_reply, err));
    qr_s3_error_read(qr_buf_view(&get_reply.body), &e);
    if (get_reply.status == 404 && strcmp(e.code, "NoSuchBucket") != 0) return QR_OK;
    /* The object was created between the two requests. */
    if (qr_web_success(get_reply.status) && tries > 1)
        return stat_times(b, c, tries - 1, ret, ret_found, err);
    return qr_s3_refused(b, c, *e.code ? &get_reply : &reply, err);
}

static enum qr_code s3_stat(struct qr_bucket *b, const struct qr_web_call *c,
                            struct qr_web_object *ret, bool *ret_found, struct qr_err *err) {
    return stat_times(b, c, QR_BUCKET_MAX_TRIES, ret, ret_found, err);
}

static void s3_version(const struct qr_web_object *o, uint8_t ret[QR_XXH3_BYTES]) {
    qr_xxh3(o->etag, strlen(o->etag), ret);
}

static enum qr_code s3_find_version(struct qr_bucket *b, const struct qr_web_call *c,
                                    const uint8_t id[QR_XXH3_BYTES], struct qr_web_object *ret,
                                    struct qr_err *err) {
    uint8_t now[QR_XXH3_BYTES];
    bool found = false;
    QR_TRY(s3_stat(b, c, ret, &found, err));
    s3_version(ret, now);
    return found && memcmp(now, id, sizeof now) == 0 ? QR_OK : qr_bucket_changed(b, c->name, err);
}

/* ---- requests ---- */

static void s3_build_get(const struct qr_bucket *b, const char *name, const struct qr_web_object *o,
                         struct qr_bucket_request *req) {
    qr_s3_object_url(b, name, &req->url);
    qr_bucket_header(req, qr_xasprintf("If-Match: %s", o->etag));
}

static void s3_build_remove(const struct qr_bucket *b, const char *name,
                            const struct qr_web_object *o, struct qr_bucket_request *req) {
    (void)o;
    qr_s3_object_url(b, name, &req->url);
}

static void s3_build_list(const struct qr_bucket *b, const char *prefix, const char *token,
                          struct qr_bucket_request *req) {
    qr_buf_printf(&req->url, "%s/?", b->base);
    if (token) {
        qr_buf_puts(&req->url, "continuation-token=");
        qr_web_escape(&req->url, token);
        qr_buf_puts(&req->url, "&");
    }
    qr_buf_puts(&req->url, "list-type=2&max-keys=1000&prefix="); /* sorted, as signing requires */
    qr_web_escape(&req->url, prefix);
}

struct list_reader {
    struct qr_bucket_page *page;
    bool more;
};

static void list_leaf(void *ctx, const char *parent, const char *name, const char *text) {
    struct list_reader *r = ctx;
    bool top = strcmp(parent, "ListBucketResult") == 0;
    if (strcmp(parent, "Contents") == 0 && strcmp(name, "Key") == 0)
        qr_bucket_page_add(r->page, text);
    else if (top && strcmp(name, "IsTruncated") == 0) r->more = strcmp(text, "true") == 0;
    else if (top && strcmp(name, "NextContinuationToken") == 0 && *text) {
        free(r->page->next);
        r->page->next = qr_xstrdup(text);
    }
}

static enum qr_code s3_read_page(struct qr_bytes body, struct qr_bucket_page *page,
                                 struct qr_err *err) {
    struct list_reader r = {.page = page};
    QR_TRY(qr_s3_xml(body, "ListBucketResult", list_leaf, &r, err));
    if (!r.more) free(QR_MOVE(page->next));
    else if (!page->next)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "the list is truncated and has no NextContinuationToken");
    return QR_OK;
}

/* ---- put ---- */

/* Uploads once. condition: a header as "If-None-Match: *", or NULL. */
static enum qr_code send_object(struct qr_bucket *b, const struct qr_web_call *c,
                                struct qr_bytes content, const char *condition,
                                const char *write_id, struct qr_web_object *ret,
                                struct qr_web_reply *reply, struct qr_err *err) {
    qr_auto(qr_bucket_request_fini) struct qr_bucket_request req = {
        .web = {.method = "PUT",
                .headers = {"Content-Type: application/octet-stream"},
                .n_headers = 1,
                .has_body = true,
                .body = content,
                .read = qr_s3_read_stored,
                .ctx = ret}};
    char crc[9];
    qr_web_crc32c_text(qr_crc32c(0, content.p, content.n), crc);
    qr_s3_object_url(b, c->name, &req.url);
    qr_bucket_header(&req, qr_xasprintf("x-amz-checksum-crc32c: %s", crc));
    qr_bucket_header(&req, qr_xasprintf("x-amz-meta-qring-crc32c: %s", crc));
    qr_bucket_header(&req, qr_xasprintf("x-amz-meta-qring-write-id: %s", write_id));
    if (condition) req.web.headers[req.web.n_headers++] = condition;
    return qr_bucket_send(b, c, &req, reply, err);
}

/* True when the condition did not hold. Some servers return 404 when the object was removed. */
static bool condition_failed(const struct qr_web_reply *reply, bool conditional) {
    struct qr_s3_error e;
    if (reply->status == 412) return true;
    if (reply->status != 404 || !conditional) return false;
    qr_s3_error_read(qr_buf_view(&reply->body), &e);
    return strcmp(e.code, "NoSuchKey") == 0;
}

static enum qr_code s3_put(struct qr_bucket *b, const struct qr_web_call *c,
                           struct qr_bytes content, const struct qr_web_object *only,
                           const char *write_id, struct qr_web_object *ret,
                           enum qr_bucket_outcome *ret_outcome, struct qr_err *err) {
    static const char *const damaged[] = {"BadDigest",      "XAmzContentSHA256Mismatch",
                                          "InvalidDigest",  "XAmzContentChecksumMismatch",
                                          "IncompleteBody", NULL};
    qr_auto(qr_web_reply_fini) struct qr_web_reply reply = {0};
    qr_auto(qr_free_p) char *condition = !only         ? NULL
                                         : *only->etag ? qr_xasprintf("If-Match: %s", only->etag)
                                                       : qr_xstrdup("If-None-Match: *");
    QR_TRY(send_object(b, c, content, condition, write_id, ret, &reply, err));
    ret->size = content.n; /* the reply does not say */
    *ret_outcome = QR_BUCKET_STORED;
    if (qr_web_success(reply.status)) return QR_OK;
    *ret_outcome = QR_BUCKET_CONFLICT;
    if (condition_failed(&reply, only != NULL)) return QR_OK;
    *ret_outcome = QR_BUCKET_DAMAGED;
    return qr_s3_is_error(&reply, damaged) ? QR_OK : qr_s3_refused(b, c, &reply, err);
}

/* ---- check_writable ---- */

/* Writes with a condition that cannot hold: a server that supports conditions rejects it. */
static enum qr_code check_condition_refused(struct qr_bucket *b, const struct qr_web_call *c,
                                            const char *condition, struct qr_err *err) {
    struct qr_web_object stored;
    qr_auto(qr_web_reply_fini) struct qr_web_reply reply = {0};
    QR_TRY(send_object(b, c, qr_bytes_of_string("?"), condition, "none", &stored, &reply, err));
    if (reply.status == 412) return QR_OK;
    if (!qr_web_success(reply.status)) return qr_s3_refused(b, c, &reply, err);
    return qr_fail(err, QR_UNIMPLEMENTED,
                   "s3://%s: this server ignores %s and would overwrite another worker's object; "
                   "use one with conditional writes (AWS, MinIO, Ceph and R2 have them)",
                   b->name, condition);
}

/* S3 has no request for permissions: creates an object beside the name, tries the conditional
 * writes on it, and removes it. */
static enum qr_code s3_check_writable(struct qr_bucket *b, const char *prefix, struct qr_err *err) {
    char id[QR_WEB_ID_BYTES];
    qr_web_id(id);
    qr_auto(qr_free_p) char *name = qr_xasprintf("%s.check-%s", prefix, id);
    const struct qr_web_call c = {prefix, "write check", NULL}, probe = {name, "write check", NULL};
    if (qr_bucket_check_name(b, name, err) != QR_OK) return qr_bucket_check_name(b, prefix, err);
    struct qr_web_object stored = {0};
    qr_auto(qr_web_reply_fini) struct qr_web_reply reply = {0};
    QR_TRY(send_object(b, &probe, qr_bytes_of_string(""), "If-None-Match: *", id, &stored, &reply,
                       err));
    /* 412 is a success of an earlier attempt: the random name is unique to this call. */
    if (!qr_web_success(reply.status) && reply.status != 412)
        return qr_s3_refused(b, &c, &reply, err);
    enum qr_code code = check_condition_refused(b, &probe, "If-None-Match: *", err);
    if (code == QR_OK)
        code = check_condition_refused(b, &probe, "If-Match: \"00000000000000000000000000000000\"",
                                       err);
    struct qr_err other;
    enum qr_code gone = qr_bucket_delete(b, &probe, &stored, &other);
    if (code == QR_OK && gone != QR_OK) *err = other, code = gone;
    return code;
}

/* ---- the store ---- */

static void s3_fini(struct qr_bucket *b) {
    struct qr_s3 *s = s3_of(b);
    qr_s3_auth_free(s->auth);
    qr_s3_profile_fini(&s->profile);
    free(s->region);
    free(s->host);
}

static const struct qr_bucket_api s3_api = {
    .web = {"s3", qr_bucket_attempt, qr_s3_retryable, qr_s3_error_code, qr_s3_refused},
    .max_put_bytes = UINT64_C(5) << 30,
    .max_put_rule = "S3 accepts 5 GiB in one request; choose a folder or gs://",
    .is_name = s3_is_name,
    .name_rule = "give a name without the parts . and .. and without a trailing /",
    .sign = qr_s3_sign,
    .renew = qr_s3_renew,
    .stat = s3_stat,
    .build_get = s3_build_get,
    .build_remove = s3_build_remove,
    .build_list = s3_build_list,
    .read_page = s3_read_page,
    .put = s3_put,
    .version = s3_version,
    .find_version = s3_find_version,
    .check_writable = s3_check_writable,
    .fini = s3_fini,
};

/* Returns the endpoint without a trailing slash and without the default port of its scheme. */
static char *endpoint_of(const char *endpoint) {
    char *url =
        strstr(endpoint, "://") ? qr_xstrdup(endpoint) : qr_xasprintf("https://%s", endpoint);
    size_t n = strlen(url);
    while (n && url[n - 1] == '/') url[--n] = 0;
    const char *port = strncmp(url, "https://", 8) == 0 ? ":443" : ":80";
    if (n > strlen(port) && strcmp(url + n - strlen(port), port) == 0) url[n - strlen(port)] = 0;
    return url;
}

static void s3_set_address(struct qr_s3 *s, const char *endpoint, const char *style) {
    const char *china = strncmp(s->region, "cn-", 3) == 0 ? ".cn" : "";
    /* The certificate for *.s3.REGION.amazonaws.com does not match names with a dot. */
    bool plain =
        strspn(s->bucket.name, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(s->bucket.name);
    bool virtual = style && strcmp(style, "virtual") == 0;
    if (!endpoint && !(style && strcmp(style, "path") == 0)) virtual = plain;
    qr_auto(qr_free_p) char *root =
        endpoint ? endpoint_of(endpoint)
                 : qr_xasprintf("https://s3.%s.amazonaws.com%s", s->region, china);
    char *host = strstr(root, "://") + 3;
    int scheme = (int)(host - root);
    s->bucket.base = virtual ? qr_xasprintf("%.*s%s.%s", scheme, root, s->bucket.name, host)
                             : qr_xasprintf("%s/%s", root, s->bucket.name);
    const char *at = strstr(s->bucket.base, "://") + 3;
    s->host = qr_xstrndup(at, strcspn(at, "/"));
}

static enum qr_code check_settings(const char *bucket, const char *region, const char *endpoint,
                                   struct qr_err *err) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    size_t n = strlen(bucket);
    if (n < 3 || n > 255 || strspn(bucket, letters) != n || *bucket == '.')
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "'%.80s' is not a bucket name: give 3 to 63 of a-z, 0-9, - and .", bucket);
    if (region && strspn(region, letters) != strlen(region))
        return qr_fail(err, QR_INVALID_ARGUMENT, "'%.80s' is not a region name; check AWS_REGION",
                       region);
    if (endpoint && strpbrk(endpoint, "?#@\\ \r\n"))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "AWS_ENDPOINT_URL is malformed; give http://host:port");
    return QR_OK;
}

enum qr_code qr_store_s3_new(const char *bucket, const struct qr_s3_options *opt,
                             struct qr_web *web, struct qr_store **ret, struct qr_err *err) {
    struct qr_s3_profile profile = {0};
    enum qr_code code = qr_s3_profile_read(opt, &profile, err);
    const char *region = opt->region ? opt->region : profile.region,
               *endpoint = opt->endpoint ? opt->endpoint : profile.endpoint;
    if (code == QR_OK) code = check_settings(bucket, region, endpoint, err);
    if (code != QR_OK) {
        qr_s3_profile_fini(&profile);
        if (web) web->close(web);
        return code;
    }
    struct qr_s3 *s = qr_xcalloc(1, sizeof *s);
    s->opt = *opt;
    s->profile = profile;
    qr_bucket_init(&s->bucket, &s3_api, bucket, &s->opt.waits, web);
    s->region = qr_xstrdup(region ? region : "us-east-1");
    s3_set_address(s, endpoint, profile.style);
    s->auth = qr_s3_auth_new(&s->opt, region ? s->region : NULL, s->bucket.web);
    *ret = &s->bucket.store;
    return QR_OK;
}
