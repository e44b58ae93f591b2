/* store/https.c — the read-only store of web servers: tokens, redirects, resumed downloads. Start
 * reading at https_get(). */
#include "store/https.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/checksum.h"
#include "base/file.h"
#include "base/mem.h"
#include "store/bucket_url_impl.h"
#include "store/web/bucket.h"

enum { MAX_TRIES = 4, MAX_REDIRECTS = 10, MAX_TOKENS_BYTES = 1 << 20 };
static const size_t max_unsized_bytes = (size_t)1 << 30;

struct https {
    struct qr_store store;
    struct qr_https_options opt;
    char *base; /* "https://host" */
    struct qr_web *web;
    struct qr_web_bucket web_bucket;
};

static struct https *https_of(struct qr_store *s) { return (struct https *)s; }

/* ---- tokens ---- */

/* "host" matches the default port, "host:port" that port. */
static bool is_host(const char *word, size_t n, const char *host) {
    size_t all = strlen(host), name = all;
    while (name && host[name - 1] != ':') name--;
    if (n == all && strncasecmp(word, host, n) == 0) return true;
    return name && n == name - 1 && strncasecmp(word, host, n) == 0 &&
           strcmp(host + name, "443") == 0;
}

enum qr_code qr_https_token(struct qr_bytes file, const char *host, char **ret,
                            struct qr_err *err) {
    static const char blanks[] = " \t\r";
    qr_auto(qr_free_p) char *found = NULL;
    size_t number = 0;
    for (size_t at = 0, n; at < file.n; at += n + 1) {
        const uint8_t *end = memchr(file.p + at, '\n', file.n - at);
        n = end ? (size_t)(end - file.p) - at : file.n - at;
        qr_auto(qr_free_p) char *line = qr_xstrndup((const char *)file.p + at, n);
        const char *word = line + strspn(line, blanks);
        size_t host_n = strcspn(word, blanks);
        const char *token = word + host_n + strspn(word + host_n, blanks);
        size_t token_n = strcspn(token, blanks);
        number++;
        if (!*word || *word == '#') continue;
        if (strlen(line) != n || !qr_web_is_token(token, token_n) ||
            token[token_n + strspn(token + token_n, blanks)])
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "line %zu is malformed; write HOST TOKEN, as in: example.com abcdef",
                           number);
        if (found || !is_host(word, host_n, host)) continue;
        found = qr_xasprintf("Authorization: Bearer %.*s", (int)token_n, token);
    }
    *ret = QR_MOVE(found);
    return QR_OK;
}

/* *ret NULL: no token for this host. */
static enum qr_code token_for(const struct https *s, const char *host, char **ret,
                              struct qr_err *err) {
    qr_auto(qr_web_wipe) struct qr_buf file = {0};
    *ret = NULL;
    if (!s->opt.tokens || (qr_file_read(s->opt.tokens, MAX_TOKENS_BYTES, &file, err) == QR_OK &&
                           qr_https_token(qr_buf_view(&file), host, ret, err) == QR_OK))
        return QR_OK;
    struct qr_err no_reason = *err;
    return qr_fail(err, QR_INVALID_ARGUMENT, "QRING_HTTPS_TOKENS (%.200s): %.300s", s->opt.tokens,
                   no_reason.msg);
}

/* ---- requests ---- */

static bool is_redirect(int status) {
    return (status >= 301 && status <= 303) || status == 307 || status == 308;
}

/* Replaces `at` by the target of a redirect. */
static enum qr_code follow_redirect(const struct qr_web_reply *reply, struct qr_web_url *at,
                                    struct qr_err *err) {
    qr_auto(qr_web_url_fini) struct qr_web_url next = {0};
    if (!reply->location || !*reply->location)
        return qr_fail(err, QR_INVALID_ARGUMENT, "redirect (%d) without a Location header",
                       reply->status);
    if (qr_web_url_parse(at->whole, reply->location, &next, err) != QR_OK)
        return qr_wrap(err, "redirect (%d)", reply->status);
    if (!next.https && (at->https || !next.loopback)) {
        qr_auto(qr_free_p) char *shown = qr_web_url_redacted(next.whole);
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "the server redirects to %.200s, which is not encrypted and is not followed",
                       shown);
    }
    qr_web_url_fini(at);
    *at = QR_MOVE(next);
    return QR_OK;
}

static enum qr_code send_one(const struct https *s, const struct qr_web_request *req,
                             const struct qr_web_url *at, struct qr_web_reply *ret,
                             struct qr_err *err) {
    struct qr_web_request r = *req;
    qr_auto(qr_web_wipe_text) char *token = NULL;
    QR_TRY(token_for(s, at->host, &token, err));
    r.url = at->whole;
    r.headers[r.n_headers++] = "Accept-Encoding: identity";
    if (token) r.headers[r.n_headers++] = token;
    r.ca_file = s->opt.ca_file;
    r.max_unsized_bytes = max_unsized_bytes;
    enum qr_code code = s->web->send(s->web, &r, ret, err);
    if (code != QR_UNAUTHENTICATED) return code;
    struct qr_err no_reason = *err;
    return qr_fail(err, code, "%.300s; set SSL_CERT_FILE to a file of CAs to trust", no_reason.msg);
}

/* One attempt with all its redirects: each attempt starts at the original URL, since redirects may
 * change. */
static enum qr_code https_attempt(void *store, const struct qr_web_call *c,
                                  const struct qr_web_request *req, struct qr_web_reply *ret,
                                  struct qr_err *err) {
    struct https *s = store;
    qr_auto(qr_web_url_fini) struct qr_web_url at = {0};
    (void)c;
    *ret = (struct qr_web_reply){0};
    QR_TRY(qr_web_url_parse(NULL, req->url, &at, err));
    for (int n = 0; n <= MAX_REDIRECTS; n++) {
        if (n) QR_TRY(follow_redirect(ret, &at, err));
        qr_web_reply_fini(ret);
        QR_TRY(send_one(s, req, &at, ret, err));
        if (!is_redirect(ret->status)) return QR_OK;
    }
    return qr_fail(err, QR_INVALID_ARGUMENT, "more than %d redirects", MAX_REDIRECTS);
}

/* An error page in HTML has no reason that fits into one line. */
static void no_reason(struct qr_bytes body, char *ret, size_t bytes) {
    (void)body, (void)bytes;
    *ret = 0;
}

static enum qr_code https_refused(void *store, const struct qr_web_call *c,
                                  const struct qr_web_reply *reply, struct qr_err *err) {
    const struct https *s = store;
    switch (reply->status) {
    case 401:
    case 407:
        return qr_web_fail(
            &s->web_bucket, err, QR_UNAUTHENTICATED, c->name,
            ": %s rejected (%d): the token is missing or not accepted; add a line HOST TOKEN "
            "to the file that QRING_HTTPS_TOKENS names",
            c->doing, reply->status);
    case 403:
        return qr_web_fail(&s->web_bucket, err, QR_PERMISSION_DENIED, c->name,
                           ": %s rejected (403): the signed URL has expired, or the token "
                           "(QRING_HTTPS_TOKENS) is missing or lacks permission",
                           c->doing);
    case 404:
    case 410:
        return qr_web_fail(&s->web_bucket, err, QR_NOT_FOUND, c->name,
                           ": %s: not found (%d); check the URL", c->doing, reply->status);
    default:
        return qr_web_fail(&s->web_bucket, err, QR_INVALID_ARGUMENT, c->name, ": %s rejected (%d)",
                           c->doing, reply->status);
    }
}

static const struct qr_web_api apis[] = {
    {"http", https_attempt, qr_web_reply_retryable, no_reason, https_refused},
    {"https", https_attempt, qr_web_reply_retryable, no_reason, https_refused}};

/* ---- get ---- */

static enum qr_code https_too_long(const struct https *s, const struct qr_web_call *c,
                                   const struct qr_web_reply *reply, size_t max,
                                   struct qr_err *err) {
    if (reply->has_length && reply->length > max)
        return qr_web_fail(&s->web_bucket, err, QR_RESOURCE_EXHAUSTED, c->name,
                           " has %llu bytes; at most %zu are read",
                           (unsigned long long)reply->length, max);
    return qr_web_fail(&s->web_bucket, err, QR_RESOURCE_EXHAUSTED, c->name,
                       ": the server sent more than %zu bytes without a Content-Length",
                       max < max_unsized_bytes ? max : max_unsized_bytes);
}

/* Checks that a complete reply of 200 is the file. */
static enum qr_code check_body(const struct https *s, const struct qr_web_call *c,
                               const struct qr_web_reply *reply, struct qr_err *err) {
    if (reply->packed)
        return qr_web_fail(&s->web_bucket, err, QR_INVALID_ARGUMENT, c->name,
                           ": the server sent a compressed body (Content-Encoding) unasked");
    if (reply->has_length && reply->body.n != reply->length)
        return qr_web_fail(&s->web_bucket, err, QR_INVALID_ARGUMENT, c->name,
                           ": the server sent %zu of its %llu bytes", reply->body.n,
                           (unsigned long long)reply->length);
    if (!reply->has_length && !reply->chunked)
        return qr_web_fail(&s->web_bucket, err, QR_INVALID_ARGUMENT, c->name,
                           ": the server sent neither Content-Length nor chunked encoding, so a "
                           "truncated reply could not be detected");
    return QR_OK;
}

/* Only a strong validator (RFC 9110) guarantees that both parts are of the same file. */
static bool can_resume(const struct qr_web_reply *reply) {
    return reply->status == 200 && reply->has_length && reply->body.n > 0 &&
           reply->body.n < reply->length && *reply->etag == '"';
}

/* Downloads the rest of a file after its first bytes, which it takes from reply; codes as
 * qr_web_download. */
static enum qr_code https_resume(struct https *s, const struct qr_web_call *c, const char *url,
                                 struct qr_web_reply *reply, struct qr_buf *ret,
                                 struct qr_err *err) {
    qr_auto(qr_free_p) char *match = qr_xasprintf("If-Match: %s", reply->etag);
    const struct qr_web_request first = {
        .method = "GET", .url = url, .headers = {match}, .n_headers = 1};
    struct qr_web_object object = {.size = reply->length, .strict = true};
    memcpy(object.etag, reply->etag, sizeof object.etag);
    qr_buf_free(ret);
    *ret = reply->body;
    reply->body = (struct qr_buf){0};
    ret->max = (size_t)reply->length + 1;
    return qr_web_download(&s->web_bucket, c, &first, &object, ret, err);
}

/* One attempt to download the complete file into ret. *ret_again: the error is temporary. */
static enum qr_code fetch_once(struct https *s, const struct qr_web_call *c, const char *url,
                               size_t max, struct qr_web_reply *reply, struct qr_buf *ret,
                               bool *ret_again, struct qr_err *err) {
    const struct qr_web_request req = {.method = "GET", .url = url, .max_reply_bytes = max};
    enum qr_code code = https_attempt(s, c, &req, reply, err);
    if (reply->too_long && reply->status == 200) return https_too_long(s, c, reply, max, err);
    if (code == QR_UNAVAILABLE && can_resume(reply)) {
        code = https_resume(s, c, url, reply, ret, err);
        *ret_again = code == QR_ABORTED || code == QR_DATA_LOSS;
        return code;
    }
    *ret_again = code == QR_UNAVAILABLE || (code == QR_OK && qr_web_reply_retryable(reply));
    if (*ret_again) return code;
    if (code != QR_OK) return qr_web_wrap(&s->web_bucket, c, err);
    if (reply->status != 200) return https_refused(s, c, reply, err);
    QR_TRY(check_body(s, c, reply, err));
    qr_buf_free(ret); /* bytes of an earlier attempt */
    *ret = QR_MOVE(reply->body);
    return QR_OK;
}

static enum qr_code https_fetch(struct https *s, const struct qr_web_call *c, const char *url,
                                size_t max, struct qr_buf *ret, struct qr_err *err) {
    struct qr_web_retry retry;
    qr_web_retry_begin(&retry, &s->opt.waits);
    for (int tries = 0;;) {
        qr_auto(qr_web_reply_fini) struct qr_web_reply reply = {0};
        bool again = false;
        enum qr_code code = fetch_once(s, c, url, max, &reply, ret, &again, err);
        bool resumed = code == QR_ABORTED || code == QR_DATA_LOSS;
        if (!again || (resumed && ++tries == MAX_TRIES)) return code;
        if (!qr_web_wait(&s->web_bucket, &retry, c, &reply, err))
            return qr_web_gave_up(&s->web_bucket, &retry, c, &reply, err);
    }
}

static enum qr_code https_get(struct qr_store *store, const char *name, size_t max_bytes,
                              struct qr_buf *ret, struct qr_err *err) {
    struct https *s = https_of(store);
    if (!*name)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s/ names no file; give %s/path", s->base,
                       s->base);
    qr_auto(qr_free_p) char *url = qr_xasprintf("%s/%s", s->base, name),
                            *shown = qr_web_url_redacted(url);
    const struct qr_web_call c = {shown + strlen(s->base) + 1, "download", NULL};
    qr_auto(qr_buf_free) struct qr_buf content = {0};
    QR_TRY(https_fetch(s, &c, url, max_bytes, &content, err));
    return qr_web_deliver(&s->web_bucket, c.name, &content, ret, err);
}

static enum qr_code https_get_version(struct qr_store *store, const char *name, size_t max_bytes,
                                      struct qr_buf *ret, struct qr_store_version *ret_version,
                                      struct qr_err *err) {
    enum qr_code code = https_get(store, name, max_bytes, ret, err);
    if (code != QR_OK && code != QR_NOT_FOUND) return code;
    *ret_version = (struct qr_store_version){.there = code == QR_OK};
    if (code == QR_OK) qr_xxh3(ret->p, ret->n, ret_version->id);
    else qr_buf_clear(ret);
    return QR_OK;
}

/* ---- unsupported operations ---- */

static enum qr_code read_only(struct qr_store *store, const char *name, struct qr_err *err) {
    qr_auto(qr_free_p) char *url = qr_xasprintf("%s/%s", https_of(store)->base, name),
                            *shown = qr_web_url_redacted(url);
    return qr_url_read_only(shown, "https", err);
}

static enum qr_code https_put(struct qr_store *s, const char *name, struct qr_bytes content,
                              bool if_absent, struct qr_err *err) {
    (void)content, (void)if_absent;
    return read_only(s, name, err);
}
static enum qr_code https_swap(struct qr_store *s, const char *name, struct qr_bytes content,
                               const struct qr_store_version *seen, struct qr_err *err) {
    (void)content, (void)seen;
    return read_only(s, name, err);
}
static enum qr_code https_list(struct qr_store *s, const char *prefix, struct qr_buf *ret,
                               struct qr_err *err) {
    (void)ret;
    qr_auto(qr_free_p) char *url = qr_xasprintf("%s/%s", https_of(s)->base, prefix),
                            *shown = qr_web_url_redacted(url);
    return qr_fail(err, QR_UNIMPLEMENTED,
                   "%.300s: an https:// server cannot list files; name each file", shown);
}

/* ---- the store ---- */

static void https_close(struct qr_store *store) {
    struct https *s = https_of(store);
    s->web->close(s->web);
    free(s->base);
    free(s);
}

static enum qr_code check_url(const struct qr_web_url *u, struct qr_err *err) {
    if (!u->whole[u->path + 1])
        return qr_fail(err, QR_INVALID_ARGUMENT, "the URL names no file; give https://host/path");
    if (u->https || u->loopback) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "http:// is not encrypted; give an https:// URL (http:// is allowed only for "
                   "this machine)");
}

enum qr_code qr_store_https_new(const char *url, const struct qr_https_options *opt,
                                struct qr_web *web, struct qr_store **ret, char **ret_name,
                                struct qr_err *err) {
    static const struct qr_store_ops ops = {https_get, https_put,         read_only,  https_list,
                                            read_only, https_get_version, https_swap, https_close};
    qr_auto(qr_web_url_fini) struct qr_web_url u = {0};
    if (qr_web_url_parse(NULL, url, &u, err) != QR_OK || check_url(&u, err) != QR_OK) {
        qr_auto(qr_free_p) char *shown = qr_web_url_redacted(url);
        if (web) web->close(web);
        return qr_wrap(err, "%.300s", shown);
    }
    struct https *s = qr_xcalloc(1, sizeof *s);
    s->store.ops = &ops;
    s->opt = *opt;
    if (!s->opt.waits.deadline_ns) s->opt.waits.deadline_ns = 120 * QR_SECOND;
    s->base = qr_xstrndup(u.whole, u.path);
    s->web_bucket =
        (struct qr_web_bucket){&apis[u.https], s, strstr(s->base, "://") + 3, &s->opt.waits};
    s->web = web ? web : qr_web_curl();
    *ret = &s->store;
    *ret_name = qr_xstrdup(u.whole + u.path + 1);
    return QR_OK;
}
