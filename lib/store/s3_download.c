#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "store/s3_impl.h"

struct s3_download {
    struct qr_s3 *s;
    const struct qr_s3_call *call;
    const struct qr_s3_object *object;
    struct qr_buf *content; /* its first bytes */
    size_t best;            /* the most that ever came: only what is more is progress */
};

static enum qr_code replaced(const struct s3_download *d, struct qr_err *err) {
    return qr_fail(err, QR_ABORTED,
                   "s3://%s/%s is replaced faster than it can be read; please retry", d->s->bucket,
                   d->call->name);
}

/* The bytes of a reply, also of one that broke off. */
static enum qr_code take(struct s3_download *d, const struct qr_web_reply *reply,
                         struct qr_err *err) {
    struct qr_buf *content = d->content;
    if (*reply->etag && strcmp(reply->etag, d->object->etag) != 0) return replaced(d, err);
    /* some servers answer with everything whatever is asked for, or with another piece */
    uint64_t begin = reply->status == 206 && reply->has_piece ? reply->piece_begin : 0;
    if (begin != 0 && begin != content->n) {
        qr_buf_clear(content); /* the next attempt asks for all of it */
        qr_fail(err, QR_UNAVAILABLE, "another piece came than was asked for");
        return QR_OK;
    }
    bool all = begin == 0;
    if (reply->body.n > d->object->size - (all ? 0 : content->n))
        return qr_fail(err, QR_DATA_LOSS, "s3://%s/%s: more bytes came than the %llu it has",
                       d->s->bucket, d->call->name, (unsigned long long)d->object->size);
    if (all && reply->body.n <= content->n) return QR_OK; /* no more than what is there already */
    if (all) qr_buf_clear(content);
    qr_buf_put(content, reply->body.p, reply->body.n);
    if (qr_buf_ok(content)) return QR_OK;
    return qr_fail(err, QR_RESOURCE_EXHAUSTED, "s3://%s/%s: no room for its bytes", d->s->bucket,
                   d->call->name);
}

/* One attempt, from where the content ends. OK: it may go on. *ret_reply is the caller's to free,
 * in every case. */
static enum qr_code attempt(struct s3_download *d, const char *url, struct qr_web_reply *ret_reply,
                            struct qr_err *err) {
    const struct qr_s3_call *c = d->call;
    qr_auto(qr_free_p) char *range = qr_xasprintf("Range: bytes=%zu-", d->content->n);
    qr_auto(qr_free_p) char *match = qr_xasprintf("If-Match: %s", d->object->etag);
    struct qr_web_request req = {.method = "GET",
                                 .url = url,
                                 .headers = {match, range},
                                 .n_headers = d->content->n ? 2 : 1,
                                 .max_reply_bytes = (size_t)d->object->size};
    if (req.max_reply_bytes < QR_WEB_REPLY_BYTES)
        req.max_reply_bytes = QR_WEB_REPLY_BYTES; /* an error may be longer than the object */
    enum qr_code code = qr_s3_attempt(d->s, &req, ret_reply, err);
    int status = ret_reply->status;
    if (code != QR_OK && code != QR_UNAVAILABLE)
        return qr_wrap(err, "s3://%s/%s: %s", d->s->bucket, c->name, c->doing);
    if (status == 200 || status == 206) {
        if (code == QR_OK)
            qr_fail(err, QR_UNAVAILABLE, "fewer bytes came than the %llu it has",
                    (unsigned long long)d->object->size);
        return take(d, ret_reply, err);
    }
    if (code == QR_UNAVAILABLE || qr_s3_retryable(ret_reply)) return QR_OK;
    if (status == 404 || status == 412 || status == 416) return replaced(d, err);
    return qr_s3_refused(d->s, c, ret_reply, err);
}

enum qr_code qr_s3_download(struct qr_s3 *s, const struct qr_s3_call *c,
                            const struct qr_s3_object *o, struct qr_buf *ret, struct qr_err *err) {
    struct s3_download d = {s, c, o, ret, 0};
    struct qr_web_retry retry;
    struct qr_buf url = {0};
    enum qr_code code = QR_OK;
    qr_web_retry_begin(&retry, &s->opt.waits);
    qr_s3_object_url(s, c->name, &url);
    while (code == QR_OK && ret->n < o->size) {
        struct qr_web_reply reply = {0};
        code = attempt(&d, qr_buf_string(&url), &reply, err);
        if (ret->n > d.best) {
            d.best = ret->n;
            qr_web_retry_begin(&retry, &s->opt.waits); /* progress: the patience begins anew */
        }
        if (code == QR_OK && ret->n < o->size && !qr_s3_wait(s, &retry, c, &reply, err))
            code = qr_s3_gave_up(s, &retry, c, &reply, err);
        qr_web_reply_fini(&reply);
    }
    qr_buf_free(&url);
    if (code == QR_OK && o->has_crc32c && qr_crc32c(0, ret->p, ret->n) != o->crc32c)
        code = qr_fail(err, QR_DATA_LOSS, "s3://%s/%s: what came does not have the object's crc32c",
                       s->bucket, c->name);
    return code;
}
