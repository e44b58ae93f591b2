#include "base/checksum.h"
#include "base/mem.h"
#include "store/gcs_impl.h"

struct download {
    struct qr_gcs *g;
    const struct qr_gcs_call *call;
    const struct qr_gcs_object *object;
    struct qr_buf *content; /* its first bytes */
    size_t best;            /* the most that ever came: only what is more is progress */
};

static enum qr_code replaced(const struct download *d, struct qr_err *err) {
    return qr_fail(err, QR_ABORTED,
                   "gs://%s/%s is replaced faster than it can be read; please retry", d->g->bucket,
                   d->call->name);
}

/* Where the bytes of a reply begin. Some servers answer with everything, or with another piece than
 * was asked for; some with the right one and the status of everything: then its length tells. */
static uint64_t begin_of(const struct download *d, const struct qr_web_reply *reply) {
    uint64_t had = d->content->n, size = d->object->size;
    if (reply->status == 206 && reply->has_piece) return reply->piece_begin;
    return reply->length != size && reply->length == size - had ? had : 0;
}

/* The bytes of a reply, also of one that broke off. */
static enum qr_code take(struct download *d, const struct qr_web_reply *reply, struct qr_err *err) {
    struct qr_buf *content = d->content;
    if (reply->generation && reply->generation != d->object->generation) return replaced(d, err);
    uint64_t begin = begin_of(d, reply);
    bool all = begin == 0;
    if (!all && begin != content->n) {
        qr_buf_clear(content); /* the next attempt asks for all of it */
        qr_fail(err, QR_UNAVAILABLE, "another piece came than was asked for");
        return QR_OK;
    }
    if (reply->body.n > d->object->size - (all ? 0 : content->n))
        return qr_fail(err, QR_DATA_LOSS, "gs://%s/%s: more bytes came than the %llu it has",
                       d->g->bucket, d->call->name, (unsigned long long)d->object->size);
    if (all && reply->body.n <= content->n) return QR_OK; /* no more than what is there already */
    if (all) qr_buf_clear(content);
    qr_buf_put(content, reply->body.p, reply->body.n);
    if (qr_buf_ok(content)) return QR_OK;
    return qr_fail(err, QR_RESOURCE_EXHAUSTED, "gs://%s/%s: no room for its bytes", d->g->bucket,
                   d->call->name);
}

/* One attempt, from where the content ends. OK: it may go on. *ret_reply is the caller's to free,
 * in every case. */
static enum qr_code attempt(struct download *d, const char *url, struct qr_web_reply *ret_reply,
                            struct qr_err *err) {
    const struct qr_gcs *g = d->g;
    const struct qr_gcs_call *c = d->call;
    qr_auto(qr_free_p) char *range = qr_xasprintf("Range: bytes=%zu-", d->content->n);
    /* Of what somebody stored packed, size and crc32c are those of the packed bytes; they are sent
     * where that is said to be welcome. */
    struct qr_web_request req = {.method = "GET",
                                 .url = url,
                                 .headers = {"Accept-Encoding: gzip", range},
                                 .n_headers = d->content->n ? 2 : 1,
                                 .max_reply_bytes = (size_t)d->object->size};
    if (req.max_reply_bytes < QR_WEB_REPLY_BYTES)
        req.max_reply_bytes = QR_WEB_REPLY_BYTES; /* an error may be longer than the object */
    enum qr_code code = qr_gcs_attempt(d->g, c, &req, ret_reply, err);
    int status = ret_reply->status;
    if (code != QR_OK && code != QR_UNAVAILABLE)
        return qr_wrap(err, "gs://%s/%s: %s", g->bucket, c->name, c->doing);
    if (status == 200 || status == 206) {
        if (code == QR_OK)
            qr_fail(err, QR_UNAVAILABLE, "fewer bytes came than the %llu it has",
                    (unsigned long long)d->object->size);
        return take(d, ret_reply, err);
    }
    if (code == QR_UNAVAILABLE || qr_web_retryable(status)) return QR_OK;
    if (status == 404 || status == 412 || status == 416) return replaced(d, err);
    return qr_gcs_refused(g, c, ret_reply, err);
}

enum qr_code qr_gcs_download(struct qr_gcs *g, const struct qr_gcs_call *c,
                             const struct qr_gcs_object *o, struct qr_buf *ret,
                             struct qr_err *err) {
    struct download d = {g, c, o, ret, 0};
    struct qr_web_retry retry;
    struct qr_buf url = {0};
    enum qr_code code = QR_OK;
    qr_web_retry_begin(&retry, &g->opt.waits);
    qr_gcs_object_url(g, c->name, &url);
    qr_buf_printf(&url, "?alt=media&generation=%llu", (unsigned long long)o->generation);
    while (code == QR_OK && ret->n < o->size) {
        struct qr_web_reply reply = {0};
        code = attempt(&d, qr_buf_string(&url), &reply, err);
        if (ret->n > d.best) {
            d.best = ret->n;
            qr_web_retry_begin(&retry, &g->opt.waits); /* progress: the patience begins anew */
        }
        if (code == QR_OK && ret->n < o->size && !qr_gcs_wait(g, &retry, c, &reply, err))
            code = qr_gcs_gave_up(g, &retry, c, &reply, err);
        qr_web_reply_fini(&reply);
    }
    qr_buf_free(&url);
    if (code == QR_OK && qr_crc32c(0, ret->p, ret->n) != o->crc32c)
        code = qr_fail(err, QR_DATA_LOSS, "gs://%s/%s: what came does not have the object's crc32c",
                       g->bucket, c->name);
    return code;
}
