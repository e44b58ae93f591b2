#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "store/web/bucket.h"

struct download {
    const struct qr_web_bucket *place;
    const struct qr_web_call *call;
    const struct qr_web_object *object;
    struct qr_buf *content; /* its first bytes */
    size_t best;            /* the most that ever came: only what is more is progress */
};

static enum qr_code replaced(const struct download *d, struct qr_err *err) {
    return qr_fail(err, QR_ABORTED,
                   "%s://%s/%s is replaced faster than it can be read; please retry",
                   d->place->api->scheme, d->place->bucket, d->call->name);
}

static bool is_another(const struct download *d, const struct qr_web_reply *reply) {
    const struct qr_web_object *o = d->object;
    if (o->strict) return strcmp(reply->etag, o->etag) != 0;
    return (o->generation && reply->generation && reply->generation != o->generation) ||
           (o->etag && *reply->etag && strcmp(reply->etag, o->etag) != 0);
}

/* Where the bytes of a reply begin. Some servers answer with everything, or with another piece than
 * was asked for; some with the right one and the status of everything: then its length tells. */
static uint64_t begin_of(const struct download *d, const struct qr_web_reply *reply) {
    uint64_t had = d->content->n, size = d->object->size;
    if (reply->status == 206 && reply->has_piece) return reply->piece_begin;
    if (d->object->strict) return reply->status == 206 ? UINT64_MAX : 0;
    return reply->length != size && reply->length == size - had ? had : 0;
}

/* The bytes of a reply, also of one that broke off. */
static enum qr_code take(struct download *d, const struct qr_web_reply *reply, struct qr_err *err) {
    struct qr_buf *content = d->content;
    if (is_another(d, reply)) return replaced(d, err);
    uint64_t begin = begin_of(d, reply);
    bool all = begin == 0;
    if (!all && begin != content->n) {
        qr_buf_clear(content); /* the next attempt asks for all of it */
        qr_fail(err, QR_UNAVAILABLE, "another piece came than was asked for");
        return QR_OK;
    }
    if (reply->body.n > d->object->size - (all ? 0 : content->n))
        return qr_fail(err, QR_DATA_LOSS, "%s://%s/%s: more bytes came than the %llu it has",
                       d->place->api->scheme, d->place->bucket, d->call->name,
                       (unsigned long long)d->object->size);
    if (all && reply->body.n <= content->n) return QR_OK; /* no more than what is there already */
    if (all) qr_buf_clear(content);
    qr_buf_put(content, reply->body.p, reply->body.n);
    if (qr_buf_ok(content)) return QR_OK;
    return qr_fail(err, QR_RESOURCE_EXHAUSTED, "%s://%s/%s: no room for its bytes",
                   d->place->api->scheme, d->place->bucket, d->call->name);
}

/* One attempt, from where the content ends. OK: it may go on. *ret_reply is the caller's to free,
 * in every case. */
static enum qr_code attempt(struct download *d, struct qr_web_reply *ret_reply,
                            struct qr_err *err) {
    const struct qr_web_bucket *p = d->place;
    const struct qr_web_call *c = d->call;
    qr_auto(qr_free_p) char *range = qr_xasprintf("Range: bytes=%zu-", d->content->n);
    struct qr_web_request req = {.method = "GET",
                                 .url = d->object->url,
                                 .headers = {d->object->header, range},
                                 .n_headers = d->content->n ? 2 : 1,
                                 .max_reply_bytes = (size_t)d->object->size};
    if (req.max_reply_bytes < QR_WEB_REPLY_BYTES)
        req.max_reply_bytes = QR_WEB_REPLY_BYTES; /* an error may be longer than the object */
    enum qr_code code = p->api->attempt(p->store, c, &req, ret_reply, err);
    int status = ret_reply->status;
    if (code != QR_OK && code != QR_UNAVAILABLE)
        return qr_wrap(err, "%s://%s/%s: %s", p->api->scheme, p->bucket, c->name, c->doing);
    if (status == 200 || status == 206) {
        if (code == QR_OK)
            qr_fail(err, QR_UNAVAILABLE, "fewer bytes came than the %llu it has",
                    (unsigned long long)d->object->size);
        return take(d, ret_reply, err);
    }
    if (code == QR_UNAVAILABLE || p->api->retryable(ret_reply)) return QR_OK;
    if (status == 404 || status == 412 || status == 416) return replaced(d, err);
    return p->api->refused(p->store, c, ret_reply, err);
}

enum qr_code qr_web_download(const struct qr_web_bucket *p, const struct qr_web_call *c,
                             const struct qr_web_object *o, struct qr_buf *ret,
                             struct qr_err *err) {
    struct download d = {p, c, o, ret, ret->n};
    struct qr_web_retry retry;
    enum qr_code code = QR_OK;
    qr_web_retry_begin(&retry, p->waits);
    while (code == QR_OK && ret->n < o->size) {
        struct qr_web_reply reply = {0};
        code = attempt(&d, &reply, err);
        if (ret->n > d.best) {
            qr_web_retry_progress(&retry, ret->n - d.best);
            d.best = ret->n;
        }
        if (code == QR_OK && ret->n < o->size && !qr_web_wait(p, &retry, c, &reply, err))
            code = qr_web_gave_up(p, &retry, c, &reply, err);
        qr_web_reply_fini(&reply);
    }
    if (code == QR_OK && o->has_crc32c && qr_crc32c(0, ret->p, ret->n) != o->crc32c)
        code = qr_fail(err, QR_DATA_LOSS, "%s://%s/%s: what came does not have the object's crc32c",
                       p->api->scheme, p->bucket, c->name);
    return code;
}
