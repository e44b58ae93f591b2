/* store/web/download.c — downloads that resume by Range after a break. Start reading at
 * qr_web_download(). */
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "store/web/bucket.h"

struct download {
    const struct qr_web_bucket *web_bucket;
    const struct qr_web_call *call;
    const struct qr_web_request *first; /* for the whole object */
    const struct qr_web_object *object;
    struct qr_buf *content; /* the object's first bytes */
    size_t best;            /* maximum received so far: only more bytes count as progress */
};

static enum qr_code download_replaced(const struct download *d, struct qr_err *err) {
    return qr_web_fail(d->web_bucket, err, QR_ABORTED, d->call->name,
                       " is being replaced faster than it can be read; please retry");
}

static enum qr_code download_too_long(const struct download *d, struct qr_err *err) {
    return qr_web_fail(d->web_bucket, err, QR_DATA_LOSS, d->call->name,
                       ": received more than its %llu bytes", (unsigned long long)d->object->size);
}

static bool is_other_version(const struct download *d, const struct qr_web_reply *reply) {
    const struct qr_web_object *o = d->object;
    if (o->strict) return strcmp(reply->etag, o->etag) != 0;
    return (o->generation && reply->generation && reply->generation != o->generation) ||
           (*o->etag && *reply->etag && strcmp(reply->etag, o->etag) != 0);
}

/* Offset in the object of a reply's first byte. Some servers send the whole object, or another
 * range than requested; some send the right range with status 200: then the length decides. */
static uint64_t reply_offset(const struct download *d, const struct qr_web_reply *reply) {
    uint64_t had = d->content->n, size = d->object->size;
    if (reply->status == 206 && reply->has_piece) return reply->piece_begin;
    if (d->object->strict) return reply->status == 206 ? UINT64_MAX : 0;
    return reply->length != size && reply->length == size - had ? had : 0;
}

/* Appends the bytes of a reply, also of a truncated one. */
static enum qr_code download_accept(struct download *d, const struct qr_web_reply *reply,
                                    struct qr_err *err) {
    struct qr_buf *content = d->content;
    if (is_other_version(d, reply)) return download_replaced(d, err);
    uint64_t begin = reply_offset(d, reply);
    bool all = begin == 0;
    if (!all && begin != content->n) {
        qr_buf_clear(content); /* the next attempt requests the whole object */
        qr_fail(err, QR_UNAVAILABLE, "the server sent another range than requested");
        return QR_OK;
    }
    if (reply->body.n > d->object->size - (all ? 0 : content->n)) return download_too_long(d, err);
    if (all && reply->body.n <= content->n) return QR_OK; /* no new bytes */
    if (all) qr_buf_clear(content);
    qr_buf_put(content, reply->body.p, reply->body.n);
    if (qr_buf_ok(content)) return QR_OK;
    return qr_web_fail(d->web_bucket, err, QR_RESOURCE_EXHAUSTED, d->call->name,
                       ": out of memory for its bytes");
}

/* One attempt, from the end of the content. OK: the download may continue. The caller frees
 * *ret_reply in every case. */
static enum qr_code download_attempt(struct download *d, struct qr_web_reply *ret_reply,
                                     struct qr_err *err) {
    const struct qr_web_bucket *p = d->web_bucket;
    const struct qr_web_call *c = d->call;
    qr_auto(qr_free_p) char *range = qr_xasprintf("Range: bytes=%zu-", d->content->n);
    struct qr_web_request req = *d->first;
    if (d->content->n) req.headers[req.n_headers++] = range;
    req.max_reply_bytes = (size_t)d->object->size;
    if (req.max_reply_bytes < QR_WEB_REPLY_BYTES)
        req.max_reply_bytes = QR_WEB_REPLY_BYTES; /* an error body may be longer than the object */
    enum qr_code code = p->api->attempt(p->store, c, &req, ret_reply, err);
    int status = ret_reply->status;
    if (code != QR_OK && code != QR_UNAVAILABLE) return qr_web_wrap(p, c, err);
    if (status == 200 || status == 206) {
        if (code == QR_OK)
            qr_fail(err, QR_UNAVAILABLE, "received fewer than its %llu bytes",
                    (unsigned long long)d->object->size);
        return download_accept(d, ret_reply, err);
    }
    if (code == QR_UNAVAILABLE || p->api->retryable(ret_reply)) return QR_OK;
    if (status == 404 || status == 412 || status == 416) return download_replaced(d, err);
    return p->api->refused(p->store, c, ret_reply, err);
}

enum qr_code qr_web_download(const struct qr_web_bucket *p, const struct qr_web_call *c,
                             const struct qr_web_request *first, const struct qr_web_object *o,
                             struct qr_buf *ret, struct qr_err *err) {
    struct download d = {p, c, first, o, ret, ret->n};
    struct qr_web_retry retry;
    if (ret->n > o->size) return download_too_long(&d, err);
    qr_web_retry_begin(&retry, p->waits);
    while (ret->n < o->size) {
        qr_auto(qr_web_reply_fini) struct qr_web_reply reply = {0};
        QR_TRY(download_attempt(&d, &reply, err));
        if (ret->n > d.best) {
            qr_web_retry_progress(&retry, ret->n - d.best);
            d.best = ret->n;
        }
        if (ret->n < o->size && !qr_web_wait(p, &retry, c, &reply, err))
            return qr_web_gave_up(p, &retry, c, &reply, err);
    }
    if (o->has_crc32c && qr_crc32c(0, ret->p, ret->n) != o->crc32c)
        return qr_web_fail(p, err, QR_DATA_LOSS, c->name,
                           ": the received bytes do not match the object's crc32c");
    return QR_OK;
}

enum qr_code qr_web_deliver(const struct qr_web_bucket *p, const char *name,
                            const struct qr_buf *content, struct qr_buf *ret, struct qr_err *err) {
    qr_buf_clear(ret);
    qr_buf_put(ret, content->p, content->n);
    return qr_buf_ok(ret) ? QR_OK
                          : qr_web_fail(p, err, QR_RESOURCE_EXHAUSTED, name,
                                        ": %zu bytes are too many", content->n);
}
