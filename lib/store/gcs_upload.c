/* store/gcs_upload.c — uploads to Cloud Storage: multipart in one request, or resumable in chunks.
 * Start reading at qr_gcs_upload(). */
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "format/json.h"
#include "store/gcs_impl.h"

enum { MAX_RESTARTS = 8, MAX_UNREADABLE = 3 };

struct upload {
    struct qr_bucket *bucket;
    const char *write_id;
    struct qr_bytes content;
    uint64_t generation;
    struct qr_web_call call;
    char token[QR_WEB_ID_BYTES];
    struct qr_buf metadata, url, session;
    struct qr_web_retry retry;
    unsigned restarts, unreadable; /* unreadable: consecutive malformed replies */
    struct qr_web_object *object;  /* as the server describes it */
    enum qr_bucket_outcome *outcome;
    bool open;         /* the session takes bytes */
    uint64_t at, best; /* bytes that the server has now; the maximum so far */
};

/* Only facts about the bytes: no time, no host. The write id distinguishes this upload's object
 * from another writer's. */
static void upload_put_metadata(struct upload *u) {
    char crc[9];
    qr_web_crc32c_text(qr_crc32c(0, u->content.p, u->content.n), crc);
    struct qr_json_writer w = qr_json_writer(&u->metadata, 0);
    qr_json_open(&w, '{');
    qr_json_key_string(&w, "name", u->call.name);
    qr_json_key_string(&w, "contentType", "application/octet-stream");
    qr_json_key_string(&w, "crc32c", crc);
    qr_json_key_open(&w, "metadata", '{');
    qr_json_key_string(&w, "qring-write-id", u->write_id);
    qr_json_close(&w, '}');
    qr_json_close(&w, '}');
}

static void upload_put_url(struct upload *u, const char *type) {
    qr_buf_printf(&u->url,
                  "%s/upload/storage/v1/b/%s/"
                  "o?uploadType=%s&ifGenerationMatch=%llu&fields=size,generation,crc32c,metadata",
                  u->bucket->base, u->bucket->name, type, (unsigned long long)u->generation);
}

/* Handles a reply that ends an upload; after a success its object has been read. */
static enum qr_code upload_conclude(struct upload *u, const struct qr_web_reply *reply,
                                    struct qr_err *err) {
    u->open = false;
    *u->outcome = QR_BUCKET_STORED;
    if (qr_web_success(reply->status)) return QR_OK;
    enum qr_code code = u->bucket->api->web.refused(u->bucket, &u->call, reply, err);
    bool damaged = reply->status == 400 && strcasestr(err->msg, "crc32c");
    *u->outcome = damaged ? QR_BUCKET_DAMAGED : QR_BUCKET_CONFLICT;
    return damaged || reply->status == 412 ? QR_OK : code;
}

/* ---- in one request ---- */

static enum qr_code upload_multipart(struct upload *u, struct qr_err *err) {
    char boundary[QR_WEB_ID_BYTES];
    qr_auto(qr_buf_free) struct qr_buf body = {0};
    qr_auto(qr_web_reply_fini) struct qr_web_reply reply = {0};
    qr_web_id(boundary);
    qr_auto(qr_free_p) char *type =
        qr_xasprintf("Content-Type: multipart/related; boundary=%s", boundary);
    upload_put_url(u, "multipart");
    qr_buf_printf(&body, "--%s\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n", boundary);
    qr_buf_put(&body, u->metadata.p, u->metadata.n);
    qr_buf_printf(&body, "\r\n--%s\r\nContent-Type: application/octet-stream\r\n\r\n", boundary);
    qr_buf_put(&body, u->content.p, u->content.n);
    qr_buf_printf(&body, "\r\n--%s--\r\n", boundary);
    struct qr_web_request req = {.method = "POST",
                                 .url = qr_buf_string(&u->url),
                                 .headers = {type},
                                 .n_headers = 1,
                                 .has_body = true,
                                 .body = qr_buf_view(&body),
                                 .max_reply_bytes = QR_WEB_REPLY_BYTES,
                                 .read = qr_gcs_read_object,
                                 .ctx = u->object};
    QR_TRY(qr_web_send(&u->bucket->web_bucket, &u->retry, &u->call, &req, &reply, err));
    return upload_conclude(u, &reply, err);
}

/* ---- in many ---- */

static enum qr_code read_session(void *ctx, const struct qr_web_reply *reply, struct qr_err *err) {
    struct qr_buf *ret = ctx;
    if (!reply->location || !strstr(reply->location, "://"))
        return qr_fail(err, QR_INVALID_ARGUMENT, "the reply has no Location header");
    qr_buf_clear(ret);
    qr_buf_puts(ret, reply->location);
    return QR_OK;
}

static enum qr_code open_session(struct upload *u, struct qr_err *err) {
    qr_auto(qr_web_reply_fini) struct qr_web_reply reply = {0};
    qr_auto(qr_free_p) char *length = qr_xasprintf("X-Upload-Content-Length: %zu", u->content.n);
    struct qr_web_request req = {.method = "POST",
                                 .url = qr_buf_string(&u->url),
                                 .headers = {"Content-Type: application/json; charset=UTF-8",
                                             "X-Upload-Content-Type: application/octet-stream",
                                             length},
                                 .n_headers = 3,
                                 .has_body = true,
                                 .body = qr_buf_view(&u->metadata),
                                 .max_reply_bytes = QR_WEB_REPLY_BYTES,
                                 .read = read_session,
                                 .ctx = &u->session};
    QR_TRY(qr_web_send(&u->bucket->web_bucket, &u->retry, &u->call, &req, &reply, err));
    u->at = 0;
    u->unreadable = 0;
    u->open = qr_web_success(reply.status);
    return u->open ? QR_OK : upload_conclude(u, &reply, err);
}

/* One PUT to the session: bytes from u->at, or with ask a query of the server's byte count. */
static enum qr_code put_chunk(struct upload *u, bool ask, struct qr_web_reply *reply,
                              struct qr_err *err) {
    size_t total = u->content.n, left = total - (size_t)u->at,
           n = left > QR_GCS_CHUNK_BYTES ? QR_GCS_CHUNK_BYTES : left;
    qr_auto(qr_free_p) char *range =
        ask || n == 0 ? qr_xasprintf("Content-Range: bytes */%zu", total)
                      : qr_xasprintf("Content-Range: bytes %zu-%zu/%zu", (size_t)u->at,
                                     (size_t)u->at + n - 1, total);
    struct qr_web_request req = {.method = "PUT",
                                 .url = qr_buf_string(&u->session),
                                 .headers = {range},
                                 .n_headers = 1,
                                 .has_body = true,
                                 .max_reply_bytes = QR_WEB_REPLY_BYTES,
                                 .read = qr_gcs_read_object,
                                 .ctx = u->object};
    if (!ask && n) req.body = qr_bytes_of(u->content.p + u->at, n);
    return qr_bucket_attempt(u->bucket, &u->call, &req, reply, err);
}

/* Records how many bytes the server has; false when the reply claims more than all. */
static bool upload_advance(struct upload *u, const struct qr_web_reply *reply) {
    uint64_t have = reply->has_range ? reply->range_end + 1 : 0;
    if (have > u->content.n) return false;
    u->at = have;
    if (have <= u->best) return true;
    u->best = have;
    qr_web_retry_begin(&u->retry, u->bucket->web_bucket.waits); /* progress restarts the deadline */
    return true;
}

/* Action after a PUT: send, query the server's byte count, open another session, or end. */
enum next { SEND, ASK, RESTART, END };

static enum next upload_next_action(struct upload *u, enum qr_code code,
                                    const struct qr_web_reply *reply, bool *ret_wait) {
    uint64_t before = u->at;
    bool success = qr_web_success(reply->status);
    *ret_wait = true;
    if (code != QR_OK && code != QR_UNAVAILABLE) return END;
    /* A restarted session ends with 412 when this upload is complete. */
    if (code == QR_UNAVAILABLE && success && !reply->has_range && ++u->unreadable >= MAX_UNREADABLE)
        return RESTART;
    if (code == QR_UNAVAILABLE && !(success && reply->has_range)) return ASK;
    u->unreadable = 0;
    /* A reply with a Range header describes no object: the upload is incomplete. */
    if (reply->status == 308 || code == QR_UNAVAILABLE) {
        if (!upload_advance(u, reply)) return RESTART;
        *ret_wait = u->at <= before;
        return u->at == u->content.n ? ASK : SEND;
    }
    if (reply->status == 404 || reply->status == 410) return RESTART;
    return qr_web_retryable(reply->status) ? ASK : END;
}

/* One PUT and what follows from its reply. */
static enum qr_code upload_step(struct upload *u, enum next *next, struct qr_err *err) {
    qr_auto(qr_web_reply_fini) struct qr_web_reply reply = {0};
    const struct qr_web_bucket *p = &u->bucket->web_bucket;
    bool asked = *next == ASK, wait;
    enum qr_code sent = put_chunk(u, asked, &reply, err);
    *next = upload_next_action(u, sent, &reply, &wait);
    if (asked && *next == SEND) wait = false; /* the query was already delayed */
    if (*next == RESTART && u->restarts++ == MAX_RESTARTS) *next = END;
    if (*next == END)
        return sent != QR_OK ? qr_web_wrap(p, &u->call, err) : upload_conclude(u, &reply, err);
    if (wait && !qr_web_wait(p, &u->retry, &u->call, &reply, err))
        return qr_web_gave_up(p, &u->retry, &u->call, &reply, err);
    if (*next == SEND || *next == ASK) return QR_OK;
    *next = SEND;
    return open_session(u, err);
}

static enum qr_code upload_resumable(struct upload *u, struct qr_err *err) {
    enum next next = SEND;
    upload_put_url(u, "resumable");
    QR_TRY(open_session(u, err));
    while (u->open) QR_TRY(upload_step(u, &next, err));
    return QR_OK;
}

static void upload_fini(struct upload *u) {
    qr_buf_free(&u->metadata);
    qr_buf_free(&u->url);
    qr_buf_free(&u->session);
}

enum qr_code qr_gcs_upload(struct qr_bucket *b, const struct qr_web_call *c,
                           struct qr_bytes content, const struct qr_web_object *only,
                           const char *write_id, struct qr_web_object *ret,
                           enum qr_bucket_outcome *ret_outcome, struct qr_err *err) {
    qr_auto(upload_fini) struct upload u = {.bucket = b,
                                            .write_id = write_id,
                                            .content = content,
                                            .generation = only->generation,
                                            .object = ret,
                                            .outcome = ret_outcome};
    qr_web_id(u.token);
    u.call = (struct qr_web_call){c->name, c->doing, u.token};
    qr_web_retry_begin(&u.retry, b->web_bucket.waits);
    upload_put_metadata(&u);
    return content.n <= QR_GCS_CHUNK_BYTES ? upload_multipart(&u, err) : upload_resumable(&u, err);
}
