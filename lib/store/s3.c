/* store/s3.c — the operations of the S3 store. Signing and error replies are in s3_request.c.
 * Start reading at s3_get() and s3_upload(). */
#include "store/s3.h"

#include <stdio.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "base/text.h"
#include "format/json.h"
#include "store/object_names_impl.h"
#include "store/s3_impl.h"

enum { MAX_TRIES = 4, MAX_NAME_BYTES = 1024, MAX_PAGES = 4096 };

static struct qr_s3 *s3_of(struct qr_store *s) { return (struct qr_s3 *)s; }

/* ---- names ---- */

/* Checks the beginning of a name. */
static enum qr_code s3_check_prefix(const struct qr_s3 *s, const char *prefix, struct qr_err *err) {
    size_t n = strlen(prefix);
    if (n <= MAX_NAME_BYTES && !strpbrk(prefix, "\r\n") && qr_is_utf8(prefix)) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "s3://%s/%.100s: a name is UTF-8 of at most %d bytes without line breaks",
                   s->bucket, prefix, MAX_NAME_BYTES);
}

/* Proxies, and servers that store files, resolve the parts . and .. to other paths. */
static bool has_dots(const char *name) {
    for (const char *part = name; part; part = strchr(part, '/')) {
        part += *part == '/';
        size_t n = strcspn(part, "/");
        if ((n == 1 || n == 2) && strspn(part, ".") == n) return true;
    }
    return false;
}

static enum qr_code s3_check_name(const struct qr_s3 *s, const char *name, struct qr_err *err) {
    size_t n = strlen(name);
    if (s3_check_prefix(s, name, err) != QR_OK) return err->code;
    if (n && name[n - 1] != '/' && !has_dots(name)) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "s3://%s/%.100s names no object: give a name without the parts . and .. and "
                   "without a trailing /",
                   s->bucket, name);
}

static enum qr_code s3_not_found(const struct qr_s3 *s, const char *name, struct qr_err *err) {
    return qr_fail(err, QR_NOT_FOUND,
                   "s3://%s/%s: no such object; check the name (and that bucket %s is the one)",
                   s->bucket, name, s->bucket);
}

/* ---- metadata ---- */

static enum qr_code s3_head(struct qr_s3 *s, const struct qr_web_call *c, const char *url,
                            struct qr_s3_object *ret, struct qr_web_reply *reply,
                            struct qr_err *err) {
    struct qr_web_retry retry;
    qr_web_retry_begin(&retry, &s->opt.waits);
    struct qr_web_request req = {.method = "HEAD",
                                 .url = url,
                                 .headers = {"x-amz-checksum-mode: ENABLED"},
                                 .n_headers = 1,
                                 .max_reply_bytes = QR_WEB_REPLY_BYTES,
                                 .read = qr_s3_read_object,
                                 .ctx = ret};
    return qr_web_send(&s->web_bucket, &retry, c, &req, reply, err);
}

/* The error reply to a HEAD has no body; the reply to the same request as a GET has the reason. */
static enum qr_code s3_probe_error(struct qr_s3 *s, const struct qr_web_call *c, const char *url,
                                   struct qr_web_reply *reply, struct qr_err *err) {
    struct qr_web_retry retry;
    qr_web_retry_begin(&retry, &s->opt.waits);
    struct qr_web_request req = {.method = "GET",
                                 .url = url,
                                 .headers = {"Range: bytes=0-0"},
                                 .n_headers = 1,
                                 .max_reply_bytes = QR_WEB_REPLY_BYTES};
    return qr_web_send(&s->web_bucket, &retry, c, &req, reply, err);
}

/* Reads the metadata of an object; *ret_found false when it does not exist. */
static enum qr_code s3_stat(struct qr_s3 *s, const struct qr_web_call *c, struct qr_s3_object *ret,
                            bool *ret_found, struct qr_err *err) {
    struct qr_buf url = {0};
    qr_s3_object_url(s, c->name, &url);
    enum qr_code code = QR_OK;
    bool done = false;
    for (int tries = 0; code == QR_OK && !done; tries++) {
        struct qr_web_reply reply = {0};
        code = s3_head(s, c, qr_buf_string(&url), ret, &reply, err);
        if (code == QR_OK && qr_web_success(reply.status)) {
            *ret_found = done = true;
        } else if (code == QR_OK) {
            struct qr_web_reply get_reply = {0};
            struct qr_s3_error e;
            code = s3_probe_error(s, c, qr_buf_string(&url), &get_reply, err);
            qr_s3_error_read(qr_buf_view(&get_reply.body), &e);
            /* The object was created between the two requests. */
            bool again = qr_web_success(get_reply.status) && tries + 1 < MAX_TRIES;
            if (code == QR_OK && get_reply.status == 404 && strcmp(e.code, "NoSuchBucket") != 0)
                *ret_found = false, done = true;
            else if (code == QR_OK && !again)
                code = qr_s3_refused(s, c, *e.code ? &get_reply : &reply, err);
            qr_web_reply_fini(&get_reply);
        }
        qr_web_reply_fini(&reply);
    }
    qr_buf_free(&url);
    return code;
}

/* ---- get ---- */

/* Waits before another attempt: the wrong reply may come from a proxy and be temporary. */
static bool s3_pause(const struct qr_s3 *s) {
    struct qr_web_retry retry;
    qr_web_retry_begin(&retry, &s->opt.waits);
    return qr_web_retry_wait(&retry, 0);
}

/* Codes as qr_web_download. */
static enum qr_code s3_download(struct qr_s3 *s, const struct qr_web_call *c,
                                const struct qr_s3_object *o, struct qr_buf *ret,
                                struct qr_err *err) {
    struct qr_buf url = {0};
    qr_auto(qr_free_p) char *match = qr_xasprintf("If-Match: %s", o->etag);
    qr_s3_object_url(s, c->name, &url);
    const struct qr_web_object object = {.url = qr_buf_string(&url),
                                         .header = match,
                                         .size = o->size,
                                         .etag = o->etag,
                                         .has_crc32c = o->has_crc32c,
                                         .crc32c = o->crc32c};
    enum qr_code code = qr_web_download(&s->web_bucket, c, &object, ret, err);
    qr_buf_free(&url);
    return code;
}

static enum qr_code get_object(struct qr_s3 *s, const char *name, size_t max_bytes,
                               struct qr_buf *ret, struct qr_s3_object *ret_object, bool *ret_found,
                               struct qr_err *err) {
    const struct qr_web_call c = {name, "download", NULL};
    enum qr_code code = s3_check_name(s, name, err);
    *ret_found = false;
    for (int tries = 0; code == QR_OK; tries++) {
        struct qr_s3_object o;
        bool found = false;
        if ((code = s3_stat(s, &c, &o, &found, err)) != QR_OK || !found) return code;
        if (o.size > max_bytes)
            return qr_fail(err, QR_RESOURCE_EXHAUSTED,
                           "s3://%s/%s has %llu bytes; at most %zu are read", s->bucket, name,
                           (unsigned long long)o.size, max_bytes);
        struct qr_buf content = {.max = max_bytes + 1};
        code = s3_download(s, &c, &o, &content, err);
        bool again =
            (code == QR_ABORTED || code == QR_DATA_LOSS) && tries + 1 < MAX_TRIES && s3_pause(s);
        if (code == QR_OK) {
            qr_buf_clear(ret);
            qr_buf_put(ret, content.p, content.n);
            if (!qr_buf_ok(ret))
                code = qr_fail(err, QR_RESOURCE_EXHAUSTED, "s3://%s/%s: %zu bytes are too many",
                               s->bucket, name, content.n);
            *ret_object = o;
            *ret_found = true;
        }
        qr_buf_free(&content);
        if (!again) break;
        code = QR_OK;
    }
    return code;
}

static enum qr_code s3_get(struct qr_store *store, const char *name, size_t max_bytes,
                           struct qr_buf *ret, struct qr_err *err) {
    struct qr_s3_object o;
    bool found;
    enum qr_code code = get_object(s3_of(store), name, max_bytes, ret, &o, &found, err);
    return code != QR_OK || found ? code : s3_not_found(s3_of(store), name, err);
}

static void s3_version(const struct qr_s3_object *o, uint8_t ret[QR_XXH3_BYTES]) {
    qr_xxh3(o->etag, strlen(o->etag), ret);
}

static enum qr_code s3_get_version(struct qr_store *store, const char *name, size_t max_bytes,
                                   struct qr_buf *ret, struct qr_store_version *ret_version,
                                   struct qr_err *err) {
    struct qr_s3_object o;
    bool found;
    enum qr_code code = get_object(s3_of(store), name, max_bytes, ret, &o, &found, err);
    if (code != QR_OK) return code;
    *ret_version = (struct qr_store_version){.there = found};
    if (found) s3_version(&o, ret_version->id);
    else qr_buf_clear(ret);
    return QR_OK;
}

/* ---- put ---- */

struct stored {
    char etag[QR_WEB_TEXT_BYTES];
    bool has_crc32c;
    uint32_t crc32c;
};

static enum qr_code read_stored(void *ctx, const struct qr_web_reply *reply, struct qr_err *err) {
    struct stored *ret = ctx;
    if (!*reply->etag) return qr_fail(err, QR_INVALID_ARGUMENT, "the reply has no ETag");
    memcpy(ret->etag, reply->etag, sizeof ret->etag);
    ret->has_crc32c = qr_web_crc32c_parse(reply->crc32c, &ret->crc32c);
    return QR_OK;
}

/* Uploads once. condition: a header as "If-None-Match: *", or NULL. */
static enum qr_code send_object(struct qr_s3 *s, const struct qr_web_call *c,
                                struct qr_bytes content, const char *condition,
                                const char *write_id, struct stored *ret,
                                struct qr_web_reply *reply, struct qr_err *err) {
    struct qr_web_retry retry;
    struct qr_buf url = {0};
    char crc[9];
    qr_web_crc32c_text(qr_crc32c(0, content.p, content.n), crc);
    qr_auto(qr_free_p) char *sum = qr_xasprintf("x-amz-checksum-crc32c: %s", crc),
                            *own = qr_xasprintf("x-amz-meta-qring-crc32c: %s", crc),
                            *id = qr_xasprintf("x-amz-meta-qring-write-id: %s", write_id);
    qr_s3_object_url(s, c->name, &url);
    struct qr_web_request req = {
        .method = "PUT",
        .url = qr_buf_string(&url),
        .headers = {"Content-Type: application/octet-stream", sum, own, id, condition},
        .n_headers = condition ? 5 : 4,
        .has_body = true,
        .body = content,
        .max_reply_bytes = QR_WEB_REPLY_BYTES,
        .read = read_stored,
        .ctx = ret};
    qr_web_retry_begin(&retry, &s->opt.waits);
    enum qr_code code = qr_web_send(&s->web_bucket, &retry, c, &req, reply, err);
    qr_buf_free(&url);
    return code;
}

/* True when the condition did not hold. Some servers return 404 when the object was removed. */
static bool condition_failed(const struct qr_web_reply *reply, bool conditional) {
    struct qr_s3_error e;
    if (reply->status == 412) return true;
    if (reply->status != 404 || !conditional) return false;
    qr_s3_error_read(qr_buf_view(&reply->body), &e);
    return strcmp(e.code, "NoSuchKey") == 0;
}

/* True when the server rejected an upload because it received other bytes than were sent. */
static bool upload_damaged(const struct qr_web_reply *reply) {
    static const char *const codes[] = {"BadDigest", "XAmzContentSHA256Mismatch", "InvalidDigest",
                                        "XAmzContentChecksumMismatch", "IncompleteBody"};
    struct qr_s3_error e;
    qr_s3_error_read(qr_buf_view(&reply->body), &e);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (strcmp(e.code, codes[i]) == 0) return true;
    return false;
}

/* etag: replaces this version alone; "": creates the object; NULL: replaces any. */
static enum qr_code s3_upload(struct qr_s3 *s, const char *name, struct qr_bytes content,
                              const char *etag, struct qr_err *err) {
    const struct qr_web_call c = {name, "upload", NULL};
    char write_id[QR_WEB_ID_BYTES];
    uint32_t crc = qr_crc32c(0, content.p, content.n);
    qr_auto(qr_free_p) char *condition = !etag   ? NULL
                                         : *etag ? qr_xasprintf("If-Match: %s", etag)
                                                 : qr_xstrdup("If-None-Match: *");
    qr_web_id(write_id);
    for (int tries = 0; tries < MAX_TRIES; tries++) {
        struct stored stored = {0};
        struct qr_web_reply reply = {0};
        enum qr_code code = send_object(s, &c, content, condition, write_id, &stored, &reply, err);
        bool good = code == QR_OK && qr_web_success(reply.status),
             refused = code == QR_OK && !good && condition_failed(&reply, etag != NULL),
             bad = code == QR_OK && !good && !refused && upload_damaged(&reply);
        if (code == QR_OK && !good && !refused) {
            enum qr_code final = qr_s3_refused(s, &c, &reply, err);
            if (!bad) code = final;
        }
        qr_web_reply_fini(&reply);
        if (code != QR_OK) return code;
        if (refused) {
            /* The stored object decides: an earlier attempt of this upload may have succeeded. */
            struct qr_s3_object o;
            bool found = false;
            if ((code = s3_stat(s, &c, &o, &found, err)) != QR_OK) return code;
            if (found && strcmp(o.write_id, write_id) == 0 && o.size == content.n && o.has_crc32c &&
                o.crc32c == crc)
                return QR_OK;
            return qr_fail(err, QR_FAILED_PRECONDITION, "s3://%s/%s %s and is not replaced",
                           s->bucket, name,
                           etag && *etag ? "was changed by another writer" : "already exists");
        }
        if (good && (!stored.has_crc32c || stored.crc32c == crc)) return QR_OK;
        if (good && etag) { /* Replace the object that this damaged upload left. */
            free(condition);
            condition = qr_xasprintf("If-Match: %s", stored.etag);
        }
    }
    return qr_fail(err, QR_DATA_LOSS,
                   "s3://%s/%s: %d uploads arrived with other bytes than sent (size or crc32c)",
                   s->bucket, name, MAX_TRIES);
}

/* Checks the size before the upload: the server would reject it only after all bytes were sent. */
static enum qr_code check_object(const struct qr_s3 *s, const char *name, struct qr_bytes content,
                                 struct qr_err *err) {
    static const uint64_t max_bytes = UINT64_C(5) << 30;
    if (content.n > max_bytes)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "s3://%s/%s: cannot upload %zu bytes: S3 accepts 5 GiB in one request; "
                       "choose a folder or gs://",
                       s->bucket, name, content.n);
    return s3_check_name(s, name, err);
}

static enum qr_code s3_put(struct qr_store *store, const char *name, struct qr_bytes content,
                           bool if_absent, struct qr_err *err) {
    enum qr_code code = check_object(s3_of(store), name, content, err);
    return code == QR_OK ? s3_upload(s3_of(store), name, content, if_absent ? "" : NULL, err)
                         : code;
}

static enum qr_code s3_swap(struct qr_store *store, const char *name, struct qr_bytes content,
                            const struct qr_store_version *seen, struct qr_err *err) {
    struct qr_s3 *s = s3_of(store);
    const struct qr_web_call c = {name, "upload", NULL};
    struct qr_s3_object o;
    uint8_t id[QR_XXH3_BYTES];
    bool found = false;
    enum qr_code code = check_object(s, name, content, err);
    if (code != QR_OK) return code;
    if (!seen->there) return s3_upload(s, name, content, "", err);
    if ((code = s3_stat(s, &c, &o, &found, err)) != QR_OK) return code;
    if (found) s3_version(&o, id);
    if (!found || memcmp(id, seen->id, sizeof id) != 0)
        return qr_fail(err, QR_FAILED_PRECONDITION,
                       "s3://%s/%s was changed by another writer and is not replaced", s->bucket,
                       name);
    return s3_upload(s, name, content, o.etag, err);
}

/* ---- remove ---- */

/* Succeeds also when the object does not exist. */
static enum qr_code delete_object(struct qr_s3 *s, const struct qr_web_call *c,
                                  struct qr_err *err) {
    struct qr_web_retry retry;
    struct qr_web_reply reply = {0};
    struct qr_buf url = {0};
    qr_s3_object_url(s, c->name, &url);
    struct qr_web_request req = {
        .method = "DELETE", .url = qr_buf_string(&url), .max_reply_bytes = QR_WEB_REPLY_BYTES};
    qr_web_retry_begin(&retry, &s->opt.waits);
    enum qr_code code = qr_web_send(&s->web_bucket, &retry, c, &req, &reply, err);
    if (code == QR_OK && !qr_web_success(reply.status) && reply.status != 404)
        code = qr_s3_refused(s, c, &reply, err);
    qr_web_reply_fini(&reply);
    qr_buf_free(&url);
    return code;
}

static enum qr_code s3_remove(struct qr_store *store, const char *name, struct qr_err *err) {
    struct qr_s3 *s = s3_of(store);
    const struct qr_web_call c = {name, "delete", NULL};
    struct qr_s3_object o;
    bool found = false;
    enum qr_code code = s3_check_name(s, name, err);
    if (code == QR_OK) code = s3_stat(s, &c, &o, &found, err);
    if (code != QR_OK) return code;
    return found ? delete_object(s, &c, err) : s3_not_found(s, name, err);
}

/* ---- list ---- */

struct names_page {
    struct qr_names names;
    char *next;
    bool more, full;
};

static void page_leaf(void *ctx, const char *parent, const char *name, const char *text) {
    struct names_page *p = ctx;
    if (strcmp(parent, "Contents") == 0 && strcmp(name, "Key") == 0 && !strpbrk(text, "\r\n")) {
        char *own = qr_xstrdup(text);
        if (qr_names_add(&p->names, own)) return;
        free(own);
        p->full = true;
    } else if (strcmp(parent, "ListBucketResult") == 0 && strcmp(name, "IsTruncated") == 0) {
        p->more = strcmp(text, "true") == 0;
    } else if (strcmp(parent, "ListBucketResult") == 0 &&
               strcmp(name, "NextContinuationToken") == 0) {
        free(p->next);
        p->next = qr_xstrdup(text);
    }
}

static void page_fini(struct names_page *p) {
    qr_names_write_sorted(&p->names, NULL);
    free(p->next);
    *p = (struct names_page){0};
}

/* Appends the names of one page to those of the previous pages. */
static enum qr_code s3_read_page(void *ctx, const struct qr_web_reply *reply, struct qr_err *err) {
    struct names_page *ret = ctx, p = {0};
    enum qr_code code =
        qr_s3_xml(qr_buf_view(&reply->body), "ListBucketResult", page_leaf, &p, err);
    if (code == QR_OK && p.more && (!p.next || !*p.next))
        code = qr_fail(err, QR_INVALID_ARGUMENT,
                       "the list is truncated and has no NextContinuationToken");
    if (code != QR_OK) return page_fini(&p), code;
    bool full = p.full;
    for (size_t i = 0; i < p.names.n; i++)
        if (!qr_names_add(&ret->names, p.names.v[i])) free(p.names.v[i]), full = true;
    free(p.names.v);
    free(ret->next);
    ret->next = p.next;
    ret->more = p.more;
    ret->full |= full;
    return QR_OK;
}

static enum qr_code s3_list(struct qr_store *store, const char *prefix, struct qr_buf *ret,
                            struct qr_err *err) {
    struct qr_s3 *s = s3_of(store);
    const struct qr_web_call c = {prefix, "list", NULL};
    struct names_page all = {0};
    enum qr_code code = s3_check_prefix(s, prefix, err);
    for (int n = 0; code == QR_OK && (n == 0 || all.more); n++) {
        struct qr_web_retry retry;
        struct qr_web_reply reply = {0};
        struct qr_buf url = {0};
        qr_buf_printf(&url, "%s/?", s->base);
        if (all.more) {
            qr_buf_puts(&url, "continuation-token=");
            qr_web_escape(&url, all.next);
            qr_buf_puts(&url, "&");
        }
        qr_buf_puts(&url, "list-type=2&max-keys=1000&prefix="); /* sorted, as signing requires */
        qr_web_escape(&url, prefix);
        struct qr_web_request req = {.method = "GET",
                                     .url = qr_buf_string(&url),
                                     .max_reply_bytes = QR_WEB_REPLY_BYTES,
                                     .read = s3_read_page,
                                     .ctx = &all};
        qr_web_retry_begin(&retry, &s->opt.waits);
        code = qr_web_send(&s->web_bucket, &retry, &c, &req, &reply, err);
        if (code == QR_OK && !qr_web_success(reply.status))
            code = qr_s3_refused(s, &c, &reply, err);
        if (code == QR_OK && (all.full || n == MAX_PAGES))
            code = qr_fail(err, QR_RESOURCE_EXHAUSTED, "s3://%s/%s: list: more than %d objects",
                           s->bucket, prefix, (int)QR_NAMES_MAX);
        qr_web_reply_fini(&reply);
        qr_buf_free(&url);
    }
    if (code == QR_OK) qr_names_write_sorted(&all.names, ret);
    page_fini(&all);
    return code;
}

/* ---- check_writable ---- */

/* Writes with a condition that cannot hold: a server that supports conditions rejects it. */
static enum qr_code check_condition_refused(struct qr_s3 *s, const struct qr_web_call *c,
                                            const char *condition, struct qr_err *err) {
    struct stored stored;
    struct qr_web_reply reply = {0};
    enum qr_code code =
        send_object(s, c, qr_bytes_of_string("?"), condition, "none", &stored, &reply, err);
    if (code == QR_OK && qr_web_success(reply.status))
        code =
            qr_fail(err, QR_UNIMPLEMENTED,
                    "s3://%s: this server ignores %s and would overwrite another worker's "
                    "object; use one with conditional writes (AWS, MinIO, Ceph and R2 have them)",
                    s->bucket, condition);
    else if (code == QR_OK && reply.status != 412) code = qr_s3_refused(s, c, &reply, err);
    qr_web_reply_fini(&reply);
    return code;
}

/* S3 has no request for permissions: creates an object beside the name, tries the conditional
 * writes on it, and removes it. */
static enum qr_code s3_check_writable(struct qr_store *store, const char *prefix,
                                      struct qr_err *err) {
    struct qr_s3 *s = s3_of(store);
    char id[QR_WEB_ID_BYTES];
    qr_web_id(id);
    enum qr_code code = s3_check_prefix(s, prefix, err);
    if (code != QR_OK) return code;
    qr_auto(qr_free_p) char *name = qr_xasprintf("%s.check-%s", prefix, id);
    const struct qr_web_call c = {prefix, "write check", NULL}, probe = {name, "write check", NULL};
    if (strlen(name) > MAX_NAME_BYTES || s3_check_name(s, name, err) != QR_OK)
        return s3_check_name(s, prefix, err) == QR_OK ? QR_OK : err->code;
    struct stored stored = {0};
    struct qr_web_reply reply = {0};
    code = send_object(s, &probe, qr_bytes_of_string(""), "If-None-Match: *", id, &stored, &reply,
                       err);
    /* 412 is a success of an earlier attempt: the random name is unique to this call. */
    bool made = code == QR_OK && (qr_web_success(reply.status) || reply.status == 412);
    if (code == QR_OK && !made) code = qr_s3_refused(s, &c, &reply, err);
    qr_web_reply_fini(&reply);
    if (code != QR_OK) return code;
    code = check_condition_refused(s, &probe, "If-None-Match: *", err);
    if (code == QR_OK)
        code = check_condition_refused(s, &probe, "If-Match: \"00000000000000000000000000000000\"",
                                       err);
    struct qr_err other;
    enum qr_code gone = delete_object(s, &probe, &other);
    if (code == QR_OK && gone != QR_OK) *err = other, code = gone;
    return code;
}

/* ---- the store ---- */

static void s3_close(struct qr_store *store) {
    if (!store) return;
    struct qr_s3 *s = s3_of(store);
    qr_s3_auth_free(s->auth);
    s->web->close(s->web);
    qr_s3_profile_fini(&s->profile);
    free(s->bucket);
    free(s->region);
    free(s->base);
    free(s->host);
    free(s);
}

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
    bool plain = strspn(s->bucket, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(s->bucket);
    bool virtual = style && strcmp(style, "virtual") == 0;
    if (!endpoint && !(style && strcmp(style, "path") == 0)) virtual = plain;
    qr_auto(qr_free_p) char *root =
        endpoint ? endpoint_of(endpoint)
                 : qr_xasprintf("https://s3.%s.amazonaws.com%s", s->region, china);
    char *host = strstr(root, "://") + 3;
    int scheme = (int)(host - root);
    s->base = virtual ? qr_xasprintf("%.*s%s.%s", scheme, root, s->bucket, host)
                      : qr_xasprintf("%s/%s", root, s->bucket);
    const char *at = strstr(s->base, "://") + 3;
    s->host = qr_xstrndup(at, strcspn(at, "/"));
}

enum qr_code qr_store_s3_new(const char *bucket, const struct qr_s3_options *opt,
                             struct qr_web *web, struct qr_store **ret, struct qr_err *err) {
    static const struct qr_store_ops ops = {
        s3_get, s3_put, s3_remove, s3_list, s3_check_writable, s3_get_version, s3_swap, s3_close};
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    struct qr_s3_profile profile = {0};
    size_t n = strlen(bucket);
    enum qr_code code = QR_OK;
    if (n < 3 || n > 255 || strspn(bucket, letters) != n || strspn(bucket, ".") != 0)
        code = qr_fail(err, QR_INVALID_ARGUMENT,
                       "'%.80s' is not a bucket name: give 3 to 63 of a-z, 0-9, - and .", bucket);
    if (code == QR_OK) code = qr_s3_profile_read(opt, &profile, err);
    const char *region = opt->region ? opt->region : profile.region;
    if (code == QR_OK && region && strspn(region, letters) != strlen(region))
        code = qr_fail(err, QR_INVALID_ARGUMENT, "'%.80s' is not a region name; check AWS_REGION",
                       region);
    const char *endpoint = opt->endpoint ? opt->endpoint : profile.endpoint;
    if (code == QR_OK && endpoint && strpbrk(endpoint, "?#@\\ \r\n"))
        code = qr_fail(err, QR_INVALID_ARGUMENT,
                       "AWS_ENDPOINT_URL is malformed; give http://host:port");
    if (code != QR_OK) {
        qr_s3_profile_fini(&profile);
        if (web) web->close(web);
        return code;
    }
    struct qr_s3 *s = qr_xcalloc(1, sizeof *s);
    s->store.ops = &ops;
    s->opt = *opt;
    s->profile = profile;
    s->bucket = qr_xstrdup(bucket);
    s->web_bucket = (struct qr_web_bucket){&qr_s3_api, s, s->bucket, &s->opt.waits};
    s->region = qr_xstrdup(region ? region : "us-east-1");
    s3_set_address(s, endpoint, profile.style);
    s->web = web ? web : qr_web_curl();
    s->auth = qr_s3_auth_new(&s->opt, region ? s->region : NULL, s->web);
    *ret = &s->store;
    return QR_OK;
}
