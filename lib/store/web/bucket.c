/* store/web/bucket.c — the retry loop of bucket requests and its messages. Start reading at
 * qr_web_send(). */
#include "store/web/bucket.h"

#include <stdio.h>

#include "base/mem.h"

enum qr_code qr_web_wrap(const struct qr_web_bucket *p, const struct qr_web_call *c,
                         struct qr_err *err) {
    return qr_wrap(err, "%s://%s/%s: %s", p->api->scheme, p->bucket, c->name, c->doing);
}

enum qr_code qr_web_read(const struct qr_web_request *req, const struct qr_web_reply *reply,
                         struct qr_err *err) {
    enum qr_code code = req->read(req->ctx, reply, err);
    if (code != QR_INVALID_ARGUMENT) return code;
    struct qr_err reason = *err;
    return qr_fail(err, QR_UNAVAILABLE, "malformed reply (%d): %.200s", reply->status, reason.msg);
}

enum qr_code qr_web_send(const struct qr_web_bucket *p, struct qr_web_retry *r,
                         const struct qr_web_call *c, const struct qr_web_request *req,
                         struct qr_web_reply *ret, struct qr_err *err) {
    for (;;) {
        enum qr_code code = p->api->attempt(p->store, c, req, ret, err);
        if (code == QR_OK ? !p->api->retryable(ret) : code != QR_UNAVAILABLE)
            return code == QR_OK ? code : qr_web_wrap(p, c, err);
        if (!qr_web_wait(p, r, c, ret, err)) return qr_web_gave_up(p, r, c, ret, err);
        qr_web_reply_fini(ret);
    }
}

static void describe_reply(const struct qr_web_bucket *p, const struct qr_web_reply *reply,
                           const struct qr_err *err, char *ret, size_t bytes) {
    char text[QR_WEB_TEXT_BYTES];
    p->api->reason(qr_buf_view(&reply->body), text, sizeof text);
    if (reply->status && !qr_web_success(reply->status))
        snprintf(ret, bytes, "%d%s%s", reply->status, *text ? ", " : "", text);
    else snprintf(ret, bytes, "%.250s", err ? err->msg : "");
}

bool qr_web_wait(const struct qr_web_bucket *p, struct qr_web_retry *r, const struct qr_web_call *c,
                 const struct qr_web_reply *reply, const struct qr_err *err) {
    int64_t seconds;
    if (qr_web_retry_notice(r, &seconds)) {
        char reason[300];
        describe_reply(p, reply, err, reason, sizeof reason);
        qr_auto(qr_free_p) char *sentence =
            qr_xasprintf("%s://%s/%s: %s: no success for %lld s (%s); retrying", p->api->scheme,
                         p->bucket, c->name, c->doing, (long long)seconds, reason);
        p->waits->notice(p->waits->notice_ctx, sentence);
    }
    return qr_web_retry_wait(r, reply->retry_after_s);
}

enum qr_code qr_web_gave_up(const struct qr_web_bucket *p, const struct qr_web_retry *r,
                            const struct qr_web_call *c, const struct qr_web_reply *reply,
                            struct qr_err *err) {
    char reason[300];
    describe_reply(p, reply, err, reason, sizeof reason);
    long long seconds = (long long)((qr_web_awake_ns(p->waits) - r->began_ns) / QR_SECOND);
    return qr_web_fail(p, err, QR_UNAVAILABLE, c->name,
                       ": %s: no success in %lld s, last error: %s; please retry", c->doing,
                       seconds, reason);
}
