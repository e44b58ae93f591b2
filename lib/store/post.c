/* store/post.c — single HTTP requests with a bearer token. Start reading at qr_poster_send(). */
#include "store/post.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "format/json.h"
#include "store/web/web.h"

enum { MAX_REPLY_BYTES = 1 << 20, REASON_BYTES = 200 };

struct qr_poster {
    struct qr_web *(*make)(void);
    struct qr_web *web; /* NULL: created by the next request */
};

struct qr_poster *qr_poster_new(struct qr_web *(*web)(void)) {
    struct qr_poster *p = qr_xcalloc(1, sizeof *p);
    p->make = web ? web : qr_web_curl;
    return p;
}

static void poster_close_web(struct qr_poster *p) {
    if (p->web) p->web->close(p->web);
    p->web = NULL;
}

void qr_poster_free(struct qr_poster *p) {
    if (!p) return;
    poster_close_web(p);
    free(p);
}

char *qr_post_url_redacted(const char *url) {
    const char *scheme = strstr(url, "://");
    qr_auto(qr_free_p) char *host = qr_web_url_host(url);
    return qr_xasprintf("%.*s%s", scheme ? (int)(scheme + 3 - url) : 0, url, host);
}

void qr_post_reason(struct qr_bytes body, char *ret, size_t bytes) {
    qr_auto(qr_json_free_p) struct qr_json *root = NULL;
    bool json = qr_json_parse(body, "", &root, QR_IGNORED) == QR_OK;
    qr_text_cut(ret, bytes, json ? qr_json_text(qr_json_get(root, "message"), "") : "");
}

/* *ret: "Authorization: Bearer ..." on the heap. */
static enum qr_code post_read_token(const char *path, char **ret, struct qr_err *err) {
    qr_auto(qr_web_wipe) struct qr_buf b = {0};
    if (qr_web_read_secret(path, &b, err) != QR_OK) return qr_wrap(err, "cannot read the token");
    if (!qr_web_is_token((const char *)b.p, b.n))
        return qr_fail(err, QR_UNAUTHENTICATED, "%s holds no token", path);
    *ret = qr_xasprintf("Authorization: Bearer %s", qr_buf_string(&b));
    return QR_OK;
}

static enum qr_code post_code(int status) {
    return status == 401              ? QR_UNAUTHENTICATED
           : status == 403            ? QR_PERMISSION_DENIED
           : status == 404            ? QR_NOT_FOUND
           : status == 409            ? QR_ABORTED
           : qr_web_retryable(status) ? QR_UNAVAILABLE
                                      : QR_FAILED_PRECONDITION;
}

static enum qr_code post_refused(const struct qr_post *post, const struct qr_web_reply *reply,
                                 struct qr_err *err) {
    char reason[REASON_BYTES];
    qr_auto(qr_free_p) char *host = qr_web_url_host(post->url);
    qr_post_reason(qr_buf_view(&reply->body), reason, sizeof reason);
    return qr_fail(err, post_code(reply->status), "%.200s answers %d%s%s", host, reply->status,
                   *reason ? ": " : "", reason);
}

enum qr_code qr_poster_send(struct qr_poster *p, const struct qr_post *post, struct qr_bytes body,
                            struct qr_err *err) {
    qr_auto(qr_free_p) char *type =
        post->type ? qr_xasprintf("Content-Type: %s", post->type) : NULL;
    qr_auto(qr_web_wipe_text) char *token = NULL;
    qr_auto(qr_web_reply_fini) struct qr_web_reply reply = {0};
    if (post->token_file) QR_TRY(post_read_token(post->token_file, &token, err));
    struct qr_web_request req = {.method = post->method,
                                 .url = post->url,
                                 .has_body = type,
                                 .body = body,
                                 .max_reply_bytes = MAX_REPLY_BYTES,
                                 .timeout_ms = post->timeout_ms,
                                 .direct = post->direct,
                                 .ca_file = post->ca_file};
    if (type) req.headers[req.n_headers++] = type;
    if (token) req.headers[req.n_headers++] = token;
    if (!p->web) p->web = p->make();
    enum qr_code code = p->web->send(p->web, &req, &reply, err);
    if (code != QR_OK) return poster_close_web(p), code;
    if (!qr_web_success(reply.status)) return post_refused(post, &reply, err);
    if (post->reply) *post->reply = QR_MOVE(reply.body);
    return QR_OK;
}
