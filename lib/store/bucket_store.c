/* store/bucket_store.c — the engine of stores in buckets. The vendors are gcs.c and s3.c. Start
 * reading at get_object() and put_object(). */
#include "store/bucket_store_impl.h"

#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "base/text.h"

enum { MAX_PAGES = 4096 };

static struct qr_bucket *bucket_of(struct qr_store *s) { return (struct qr_bucket *)s; }

/* ---- names ---- */

/* A server would store a name that is not UTF-8 under another name, or reject it. */
static enum qr_code bucket_check_prefix(const struct qr_bucket *b, const char *prefix,
                                        struct qr_err *err) {
    if (strlen(prefix) <= QR_BUCKET_MAX_NAME_BYTES && !strpbrk(prefix, "\r\n") &&
        qr_is_utf8(prefix))
        return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "%s://%s/%.100s: a name is UTF-8 of at most %d bytes without line breaks",
                   b->api->web.scheme, b->name, prefix, QR_BUCKET_MAX_NAME_BYTES);
}

enum qr_code qr_bucket_check_name(const struct qr_bucket *b, const char *name, struct qr_err *err) {
    size_t n = strlen(name);
    QR_TRY(bucket_check_prefix(b, name, err));
    if (n && name[n - 1] != '/' && b->api->is_name(name)) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT, "%s://%s/%.100s names no object: %s",
                   b->api->web.scheme, b->name, name, b->api->name_rule);
}

static enum qr_code object_missing(const struct qr_bucket *b, const char *name,
                                   struct qr_err *err) {
    return qr_web_fail(&b->web_bucket, err, QR_NOT_FOUND, name,
                       ": no such object; check the name (and that bucket %s is the one)", b->name);
}

enum qr_code qr_bucket_changed(const struct qr_bucket *b, const char *name, struct qr_err *err) {
    return qr_web_fail(&b->web_bucket, err, QR_FAILED_PRECONDITION, name,
                       " was changed by another writer and is not replaced");
}

/* ---- requests ---- */

void qr_bucket_request_fini(struct qr_bucket_request *r) {
    for (size_t i = 0; i < QR_WEB_MAX_HEADERS; i++) free(r->headers[i]);
    qr_buf_free(&r->url);
    *r = (struct qr_bucket_request){0};
}

void qr_bucket_header(struct qr_bucket_request *r, char *text) {
    r->headers[r->web.n_headers] = text;
    r->web.headers[r->web.n_headers++] = text;
}

enum qr_code qr_bucket_attempt(void *bucket, const struct qr_web_call *c,
                               const struct qr_web_request *req, struct qr_web_reply *ret,
                               struct qr_err *err) {
    struct qr_bucket *b = bucket;
    *ret = (struct qr_web_reply){0};
    for (bool renewed = false;; renewed = true) {
        qr_auto(qr_bucket_request_fini) struct qr_bucket_request r = {.web = *req};
        QR_TRY(b->api->sign(b, c, &r, err));
        QR_TRY(b->web->send(b->web, &r.web, ret, err));
        if (qr_web_success(ret->status)) return req->read ? qr_web_read(req, ret, err) : QR_OK;
        if (renewed || !b->api->renew(b, req, ret)) return QR_OK;
        qr_web_reply_fini(ret);
    }
}

enum qr_code qr_bucket_send(struct qr_bucket *b, const struct qr_web_call *c,
                            struct qr_bucket_request *req, struct qr_web_reply *ret,
                            struct qr_err *err) {
    struct qr_web_retry retry;
    req->web.url = qr_buf_string(&req->url);
    if (!req->web.max_reply_bytes) req->web.max_reply_bytes = QR_WEB_REPLY_BYTES;
    qr_web_retry_begin(&retry, b->web_bucket.waits);
    return qr_web_send(&b->web_bucket, &retry, c, &req->web, ret, err);
}

/* Waits before another attempt: the wrong reply may come from a proxy and be temporary. */
static bool bucket_pause(const struct qr_bucket *b) {
    struct qr_web_retry retry;
    qr_web_retry_begin(&retry, b->web_bucket.waits);
    return qr_web_retry_wait(&retry, 0);
}

/* ---- get ---- */

static enum qr_code get_once(struct qr_bucket *b, const struct qr_web_call *c, size_t max_bytes,
                             struct qr_buf *ret, struct qr_web_object *o, bool *ret_found,
                             struct qr_err *err) {
    qr_auto(qr_bucket_request_fini) struct qr_bucket_request req = {.web.method = "GET"};
    qr_auto(qr_buf_free) struct qr_buf content = {.max = max_bytes + 1};
    QR_TRY(b->api->stat(b, c, o, ret_found, err));
    if (!*ret_found) return QR_OK;
    if (o->size > max_bytes)
        return qr_web_fail(&b->web_bucket, err, QR_RESOURCE_EXHAUSTED, c->name,
                           " has %llu bytes; at most %zu are read", (unsigned long long)o->size,
                           max_bytes);
    b->api->build_get(b, c->name, o, &req);
    req.web.url = qr_buf_string(&req.url);
    QR_TRY(qr_web_download(&b->web_bucket, c, &req.web, o, &content, err));
    return qr_web_deliver(&b->web_bucket, c->name, &content, ret, err);
}

/* *ret_found false: the object is missing, and *ret is unchanged. */
static enum qr_code get_object(struct qr_bucket *b, const char *name, size_t max_bytes,
                               struct qr_buf *ret, struct qr_web_object *o, bool *ret_found,
                               struct qr_err *err) {
    const struct qr_web_call c = {name, "download", NULL};
    QR_TRY(qr_bucket_check_name(b, name, err));
    for (int tries = 1;; tries++) {
        enum qr_code code = get_once(b, &c, max_bytes, ret, o, ret_found, err);
        bool again = code == QR_ABORTED || code == QR_DATA_LOSS;
        if (!again || tries == QR_BUCKET_MAX_TRIES || !bucket_pause(b)) return code;
    }
}

static enum qr_code bucket_get(struct qr_store *s, const char *name, size_t max_bytes,
                               struct qr_buf *ret, struct qr_err *err) {
    struct qr_web_object o = {0};
    bool found;
    QR_TRY(get_object(bucket_of(s), name, max_bytes, ret, &o, &found, err));
    return found ? QR_OK : object_missing(bucket_of(s), name, err);
}

static enum qr_code bucket_get_version(struct qr_store *s, const char *name, size_t max_bytes,
                                       struct qr_buf *ret, struct qr_store_version *ret_version,
                                       struct qr_err *err) {
    struct qr_web_object o = {0};
    struct qr_store_version v = {0};
    QR_TRY(get_object(bucket_of(s), name, max_bytes, ret, &o, &v.there, err));
    if (v.there) bucket_of(s)->api->version(&o, v.id);
    else qr_buf_clear(ret);
    *ret_version = v;
    return QR_OK;
}

/* ---- put ---- */

static bool has_bytes(const struct qr_web_object *o, struct qr_bytes content) {
    return o->size == content.n &&
           (!o->has_crc32c || o->crc32c == qr_crc32c(0, content.p, content.n));
}

/* only: replaces this version alone, all-zero: creates the object; NULL: replaces any. An object
 * that a damaged upload of this call left is replaced in every case. */
static enum qr_code put_object(struct qr_bucket *b, const char *name, struct qr_bytes content,
                               const struct qr_web_object *only, struct qr_err *err) {
    const struct qr_web_call c = {name, "upload", NULL};
    const bool conditional = only || b->api->always_conditional;
    struct qr_web_object o, seen = only ? *only : (struct qr_web_object){0};
    enum qr_bucket_outcome outcome;
    char write_id[QR_WEB_ID_BYTES];
    bool found = false;
    qr_web_id(write_id);
    if (!only && conditional) QR_TRY(b->api->stat(b, &c, &seen, &found, err));
    for (int tries = 0; tries < QR_BUCKET_MAX_TRIES; tries++) {
        o = (struct qr_web_object){0};
        QR_TRY(
            b->api->put(b, &c, content, conditional ? &seen : NULL, write_id, &o, &outcome, err));
        if (outcome == QR_BUCKET_DAMAGED) continue;
        if (outcome == QR_BUCKET_STORED && has_bytes(&o, content)) return QR_OK;
        /* The stored object decides, whatever the reply was. */
        o = (struct qr_web_object){0};
        QR_TRY(b->api->stat(b, &c, &o, &found, err));
        bool own = found && strcmp(o.write_id, write_id) == 0;
        if (own && has_bytes(&o, content)) return QR_OK;
        if (outcome == QR_BUCKET_CONFLICT && only && !own)
            return only->generation || *only->etag
                       ? qr_bucket_changed(b, name, err)
                       : qr_web_fail(&b->web_bucket, err, QR_FAILED_PRECONDITION, name,
                                     " already exists and is not replaced");
        if (own || !only) seen = o;
    }
    if (outcome == QR_BUCKET_CONFLICT)
        return qr_web_fail(&b->web_bucket, err, QR_ABORTED, name,
                           ": other writers keep replacing the object; please retry");
    return qr_web_fail(&b->web_bucket, err, QR_DATA_LOSS, name,
                       ": after %d uploads the object's size or crc32c still differs from what "
                       "was sent",
                       QR_BUCKET_MAX_TRIES);
}

static enum qr_code check_upload(const struct qr_bucket *b, const char *name,
                                 struct qr_bytes content, struct qr_err *err) {
    QR_TRY(qr_bucket_check_name(b, name, err));
    if (!b->api->max_put_bytes || content.n <= b->api->max_put_bytes) return QR_OK;
    /* The server would reject it only after all bytes were sent. */
    return qr_web_fail(&b->web_bucket, err, QR_INVALID_ARGUMENT, name,
                       ": cannot upload %zu bytes: %s", content.n, b->api->max_put_rule);
}

static enum qr_code bucket_put(struct qr_store *s, const char *name, struct qr_bytes content,
                               bool if_absent, struct qr_err *err) {
    static const struct qr_web_object none = {0};
    QR_TRY(check_upload(bucket_of(s), name, content, err));
    return put_object(bucket_of(s), name, content, if_absent ? &none : NULL, err);
}

static enum qr_code bucket_swap(struct qr_store *s, const char *name, struct qr_bytes content,
                                const struct qr_store_version *seen, struct qr_err *err) {
    struct qr_bucket *b = bucket_of(s);
    const struct qr_web_call c = {name, "upload", NULL};
    struct qr_web_object o = {0};
    QR_TRY(check_upload(b, name, content, err));
    if (seen->there) QR_TRY(b->api->find_version(b, &c, seen->id, &o, err));
    return put_object(b, name, content, &o, err);
}

/* ---- remove ---- */

enum qr_code qr_bucket_delete(struct qr_bucket *b, const struct qr_web_call *c,
                              const struct qr_web_object *o, struct qr_err *err) {
    qr_auto(qr_bucket_request_fini) struct qr_bucket_request req = {.web.method = "DELETE"};
    qr_auto(qr_web_reply_fini) struct qr_web_reply reply = {0};
    b->api->build_remove(b, c->name, o, &req);
    QR_TRY(qr_bucket_send(b, c, &req, &reply, err));
    /* 404: an earlier attempt, or another writer, removed it. */
    if (qr_web_success(reply.status) || reply.status == 404) return QR_OK;
    if (reply.status == 412)
        return qr_web_fail(&b->web_bucket, err, QR_FAILED_PRECONDITION, c->name,
                           " was changed by another writer and is not deleted");
    return b->api->web.refused(b, c, &reply, err);
}

static enum qr_code bucket_remove(struct qr_store *s, const char *name, struct qr_err *err) {
    struct qr_bucket *b = bucket_of(s);
    char token[QR_WEB_ID_BYTES];
    const struct qr_web_call c = {name, "delete", token};
    qr_web_id(token);
    QR_TRY(qr_bucket_check_name(b, name, err));
    for (int tries = 1;; tries++) {
        struct qr_web_object o = {0};
        bool found = false;
        QR_TRY(b->api->stat(b, &c, &o, &found, err));
        if (!found) return object_missing(b, name, err);
        enum qr_code code = qr_bucket_delete(b, &c, &o, err);
        if (code != QR_FAILED_PRECONDITION || tries == QR_BUCKET_MAX_TRIES) return code;
    }
}

/* ---- list ---- */

struct listing {
    const struct qr_bucket_api *api;
    struct qr_bucket_page page;
};

void qr_bucket_page_add(struct qr_bucket_page *page, const char *name) {
    if (!strpbrk(name, "\r\n") && !qr_names_add(&page->names, name)) page->full = true;
}

static void listing_fini(struct listing *l) {
    qr_names_cut(&l->page.names, 0);
    free(l->page.next);
}

/* A malformed page adds no name: the request is sent again. */
static enum qr_code listing_read_page(void *ctx, const struct qr_web_reply *reply,
                                      struct qr_err *err) {
    struct listing *l = ctx;
    size_t before = l->page.names.n;
    free(QR_MOVE(l->page.next));
    enum qr_code code = l->api->read_page(qr_buf_view(&reply->body), &l->page, err);
    if (code != QR_OK) qr_names_cut(&l->page.names, before);
    return code;
}

static enum qr_code list_page(struct qr_bucket *b, const struct qr_web_call *c, struct listing *l,
                              struct qr_err *err) {
    qr_auto(qr_bucket_request_fini) struct qr_bucket_request req = {
        .web = {.method = "GET", .read = listing_read_page, .ctx = l}};
    qr_auto(qr_web_reply_fini) struct qr_web_reply reply = {0};
    b->api->build_list(b, c->name, l->page.next, &req);
    QR_TRY(qr_bucket_send(b, c, &req, &reply, err));
    if (!qr_web_success(reply.status)) return b->api->web.refused(b, c, &reply, err);
    if (!l->page.full) return QR_OK;
    return qr_web_fail(&b->web_bucket, err, QR_RESOURCE_EXHAUSTED, c->name,
                       ": list: more than %d objects", (int)QR_NAMES_MAX);
}

static enum qr_code bucket_list(struct qr_store *s, const char *prefix, struct qr_buf *ret,
                                struct qr_err *err) {
    struct qr_bucket *b = bucket_of(s);
    const struct qr_web_call c = {prefix, "list", NULL};
    qr_auto(listing_fini) struct listing l = {.api = b->api};
    QR_TRY(bucket_check_prefix(b, prefix, err));
    for (int n = 0; n == 0 || l.page.next; n++) {
        if (n == MAX_PAGES)
            return qr_web_fail(&b->web_bucket, err, QR_RESOURCE_EXHAUSTED, prefix,
                               ": list: more than %d pages", MAX_PAGES);
        QR_TRY(list_page(b, &c, &l, err));
    }
    qr_names_write_sorted(&l.page.names, ret);
    return QR_OK;
}

/* ---- the store ---- */

static enum qr_code bucket_check_writable(struct qr_store *s, const char *prefix,
                                          struct qr_err *err) {
    QR_TRY(bucket_check_prefix(bucket_of(s), prefix, err));
    return bucket_of(s)->api->check_writable(bucket_of(s), prefix, err);
}

static void bucket_close(struct qr_store *s) {
    struct qr_bucket *b = bucket_of(s);
    if (!b) return;
    b->api->fini(b);
    b->web->close(b->web);
    free(b->name);
    free(b->base);
    free(b);
}

void qr_bucket_init(struct qr_bucket *b, const struct qr_bucket_api *api, const char *name,
                    const struct qr_web_waits *waits, struct qr_web *web) {
    static const struct qr_store_ops ops = {
        bucket_get,         bucket_put,  bucket_remove, bucket_list, bucket_check_writable,
        bucket_get_version, bucket_swap, bucket_close};
    b->store.ops = &ops;
    b->api = api;
    b->name = qr_xstrdup(name);
    b->web = web ? web : qr_web_curl();
    b->web_bucket = (struct qr_web_bucket){&api->web, b, b->name, waits};
}
