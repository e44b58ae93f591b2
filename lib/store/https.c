#include "store/https.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/checksum.h"
#include "base/file.h"
#include "base/mem.h"
#include "store/web/bucket.h"

enum { MAX_TRIES = 4, MAX_REDIRECTS = 10, MAX_TOKENS_BYTES = 1 << 20 };
static const size_t max_unsized_bytes = (size_t)1 << 30;

struct https {
    struct qr_store store;
    struct qr_https_options opt;
    char *base; /* "https://host" */
    struct qr_web *web;
    struct qr_web_bucket place;
};

static struct https *self(struct qr_store *s) { return (struct https *)s; }

/* ---- tokens ---- */

/* "host" is of the default port, "host:port" of that one. */
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
        bool plain =
            strlen(line) == n && token_n > 0 && !token[token_n + strspn(token + token_n, blanks)];
        for (size_t i = 0; i < token_n; i++) plain = plain && token[i] > ' ' && token[i] <= '~';
        if (!plain)
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "line %zu is not HOST TOKEN, as in: example.com abcdef", number);
        if (found || !is_host(word, host_n, host)) continue;
        found = qr_xasprintf("Authorization: Bearer %.*s", (int)token_n, token);
    }
    *ret = QR_MOVE(found);
    return QR_OK;
}

/* *ret NULL: none for this host. */
static enum qr_code token_for(const struct https *s, const char *host, char **ret,
                              struct qr_err *err) {
    struct qr_buf file = {0};
    *ret = NULL;
    if (!s->opt.tokens) return QR_OK;
    enum qr_code code = qr_file_read(s->opt.tokens, MAX_TOKENS_BYTES, &file, err);
    if (code == QR_OK) code = qr_https_token(qr_buf_view(&file), host, ret, err);
    qr_buf_free(&file);
    if (code == QR_OK) return code;
    struct qr_err reason = *err;
    return qr_fail(err, QR_INVALID_ARGUMENT, "QRING_HTTPS_TOKENS (%.200s): %.300s", s->opt.tokens,
                   reason.msg);
}

/* ---- requests ---- */

static bool is_redirect(int status) {
    return (status >= 301 && status <= 303) || status == 307 || status == 308;
}

/* Where a reply leads; at becomes that. */
static enum qr_code follow(const struct qr_web_reply *reply, struct qr_web_url *at,
                           struct qr_err *err) {
    struct qr_web_url next = {0};
    if (!reply->location || !*reply->location)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%d, and it does not say where to look instead",
                       reply->status);
    enum qr_code code = qr_web_url_parse(at->whole, reply->location, &next, err);
    if (code != QR_OK) return qr_wrap(err, "a redirect (%d)", reply->status);
    if (!next.https && (at->https || !next.loopback)) {
        qr_auto(qr_free_p) char *shown = qr_web_url_redacted(next.whole);
        qr_web_url_fini(&next);
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "it redirects to %.200s, which is not encrypted and is not followed", shown);
    }
    qr_web_url_fini(at);
    *at = next;
    return QR_OK;
}

static enum qr_code send_one(const struct https *s, const struct qr_web_request *req,
                             const struct qr_web_url *at, struct qr_web_reply *ret,
                             struct qr_err *err) {
    struct qr_web_request r = *req;
    qr_auto(qr_free_p) char *token = NULL;
    enum qr_code code = token_for(s, at->host, &token, err);
    if (code != QR_OK) return code;
    r.url = at->whole;
    r.headers[r.n_headers++] = "Accept-Encoding: identity";
    if (token) r.headers[r.n_headers++] = token;
    r.direct = at->loopback;
    r.ca_file = s->opt.ca_file;
    r.max_unsized_bytes = max_unsized_bytes;
    code = s->web->send(s->web, &r, ret, err);
    if (code != QR_UNAUTHENTICATED) return code;
    struct qr_err reason = *err;
    return qr_fail(err, code, "%.300s; SSL_CERT_FILE names a file of CAs to trust", reason.msg);
}

/* With its redirects, which lead elsewhere the next time, maybe. */
static enum qr_code attempt(void *store, const struct qr_web_call *c,
                            const struct qr_web_request *req, struct qr_web_reply *ret,
                            struct qr_err *err) {
    struct https *s = store;
    struct qr_web_url at = {0};
    (void)c;
    *ret = (struct qr_web_reply){0};
    enum qr_code code = qr_web_url_parse(NULL, req->url, &at, err);
    for (int n = 0; code == QR_OK; n++) {
        code = send_one(s, req, &at, ret, err);
        if (code != QR_OK || !is_redirect(ret->status)) break;
        code = n < MAX_REDIRECTS ? follow(ret, &at, err)
                                 : qr_fail(err, QR_INVALID_ARGUMENT,
                                           "it redirects more than %d times", MAX_REDIRECTS);
        if (code == QR_OK) qr_web_reply_fini(ret);
    }
    qr_web_url_fini(&at);
    return code;
}

static bool retryable(const struct qr_web_reply *reply) { return qr_web_retryable(reply->status); }

/* A page for people has none that fits in a line. */
static void reason(struct qr_bytes body, char *ret, size_t bytes) {
    (void)body, (void)bytes;
    *ret = 0;
}

static enum qr_code refused(void *store, const struct qr_web_call *c,
                            const struct qr_web_reply *reply, struct qr_err *err) {
    const struct https *s = store;
    switch (reply->status) {
    case 401:
    case 407:
        return qr_fail(
            err, QR_UNAUTHENTICATED,
            "%s/%s: %s refused (%d): it wants a token, or another one; a line HOST TOKEN "
            "in the file that QRING_HTTPS_TOKENS names",
            s->base, c->name, c->doing, reply->status);
    case 403:
        return qr_fail(err, QR_PERMISSION_DENIED,
                       "%s/%s: %s refused (403): is a signed URL over, or a token "
                       "(QRING_HTTPS_TOKENS) missing or without the right?",
                       s->base, c->name, c->doing);
    case 404:
    case 410:
        return qr_fail(err, QR_NOT_FOUND, "%s/%s: %s: not found (%d); check the URL", s->base,
                       c->name, c->doing, reply->status);
    default:
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s/%s: %s refused (%d)", s->base, c->name,
                       c->doing, reply->status);
    }
}

static const struct qr_web_api apis[] = {{"http", attempt, retryable, reason, refused},
                                         {"https", attempt, retryable, reason, refused}};

/* ---- get ---- */

static enum qr_code too_long(const struct https *s, const struct qr_web_call *c,
                             const struct qr_web_reply *reply, size_t max, struct qr_err *err) {
    if (reply->has_length && reply->length > max)
        return qr_fail(err, QR_RESOURCE_EXHAUSTED, "%s/%s has %llu bytes; at most %zu are read",
                       s->base, c->name, (unsigned long long)reply->length, max);
    return qr_fail(err, QR_RESOURCE_EXHAUSTED,
                   "%s/%s: more than %zu bytes came without a word of how many there are", s->base,
                   c->name, max < max_unsized_bytes ? max : max_unsized_bytes);
}

/* A whole reply of 200: is it the file? */
static enum qr_code check(const struct https *s, const struct qr_web_call *c,
                          const struct qr_web_reply *reply, struct qr_err *err) {
    if (reply->packed)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s/%s comes packed (Content-Encoding), though that was not asked for",
                       s->base, c->name);
    if (!reply->has_length && !reply->chunked)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s/%s: the server says neither Content-Length nor chunks, so that a reply "
                       "that broke off could not be told from a whole one",
                       s->base, c->name);
    return QR_OK;
}

/* Only a strong validator says that bytes are of one file. */
static bool can_go_on(const struct qr_web_reply *reply) {
    return reply->status == 200 && reply->has_length && reply->body.n > 0 && *reply->etag == '"';
}

/* The rest of a file whose first bytes came; codes as qr_web_download. Takes those bytes. */
static enum qr_code go_on(struct https *s, const struct qr_web_call *c, const char *url,
                          struct qr_web_reply *reply, struct qr_buf *ret, struct qr_err *err) {
    qr_auto(qr_free_p) char *match = qr_xasprintf("If-Match: %s", reply->etag);
    const struct qr_web_object object = {
        .url = url, .header = match, .size = reply->length, .etag = reply->etag, .strict = true};
    qr_buf_free(ret);
    *ret = reply->body;
    reply->body = (struct qr_buf){0};
    ret->max = (size_t)reply->length + 1;
    return qr_web_download(&s->place, c, &object, ret, err);
}

/* The file, whole, into ret. */
static enum qr_code fetch(struct https *s, const struct qr_web_call *c, const char *url, size_t max,
                          struct qr_buf *ret, struct qr_err *err) {
    const struct qr_web_request req = {.method = "GET", .url = url, .max_reply_bytes = max};
    struct qr_web_retry retry;
    qr_web_retry_begin(&retry, &s->opt.waits);
    for (int tries = 0;;) {
        struct qr_web_reply reply = {0};
        enum qr_code code = attempt(s, c, &req, &reply, err);
        bool again = false;
        if (reply.too_long && reply.status == 200) {
            code = too_long(s, c, &reply, max, err);
        } else if (code == QR_OK && reply.status == 200) {
            code = check(s, c, &reply, err);
            if (code == QR_OK) {
                qr_buf_free(ret); /* of a try before */
                *ret = reply.body;
                reply.body = (struct qr_buf){0};
            }
        } else if (code == QR_UNAVAILABLE && can_go_on(&reply)) {
            code = go_on(s, c, url, &reply, ret, err);
            again = (code == QR_ABORTED || code == QR_DATA_LOSS) && ++tries < MAX_TRIES;
        } else if (code == QR_UNAVAILABLE || (code == QR_OK && retryable(&reply))) {
            again = true;
        } else if (code == QR_OK) {
            code = refused(s, c, &reply, err);
        } else {
            qr_wrap(err, "%s/%s: %s", s->base, c->name, c->doing);
        }
        if (again && !qr_web_wait(&s->place, &retry, c, &reply, err))
            again = false, code = qr_web_gave_up(&s->place, &retry, c, &reply, err);
        qr_web_reply_fini(&reply);
        if (!again) return code;
    }
}

static enum qr_code get(struct qr_store *store, const char *name, size_t max_bytes,
                        struct qr_buf *ret, struct qr_err *err) {
    struct https *s = self(store);
    if (!*name)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s/ names no file: %s/path", s->base, s->base);
    qr_auto(qr_free_p) char *url = qr_xasprintf("%s/%s", s->base, name),
                            *shown = qr_web_url_redacted(url);
    const struct qr_web_call c = {shown + strlen(s->base) + 1, "download", NULL};
    struct qr_buf content = {0};
    enum qr_code code = fetch(s, &c, url, max_bytes, &content, err);
    if (code == QR_OK) {
        qr_buf_clear(ret);
        qr_buf_put(ret, content.p, content.n);
        if (!qr_buf_ok(ret))
            code =
                qr_fail(err, QR_RESOURCE_EXHAUSTED, "%s: %zu bytes are too many", shown, content.n);
    }
    qr_buf_free(&content);
    return code;
}

static enum qr_code get_version(struct qr_store *store, const char *name, size_t max_bytes,
                                struct qr_buf *ret, struct qr_store_version *ret_version,
                                struct qr_err *err) {
    enum qr_code code = get(store, name, max_bytes, ret, err);
    if (code != QR_OK && code != QR_NOT_FOUND) return code;
    *ret_version = (struct qr_store_version){.there = code == QR_OK};
    if (code == QR_OK) qr_xxh3(ret->p, ret->n, ret_version->id);
    else qr_buf_clear(ret);
    return QR_OK;
}

/* ---- what it cannot ---- */

static enum qr_code read_only(struct qr_store *store, const char *name, struct qr_err *err) {
    qr_auto(qr_free_p) char *url = qr_xasprintf("%s/%s", self(store)->base, name);
    return qr_url_check_writable(url, err);
}

static enum qr_code put(struct qr_store *s, const char *name, struct qr_bytes content,
                        bool if_absent, struct qr_err *err) {
    (void)content, (void)if_absent;
    return read_only(s, name, err);
}
static enum qr_code swap(struct qr_store *s, const char *name, struct qr_bytes content,
                         const struct qr_store_version *seen, struct qr_err *err) {
    (void)content, (void)seen;
    return read_only(s, name, err);
}
static enum qr_code list(struct qr_store *s, const char *prefix, struct qr_buf *ret,
                         struct qr_err *err) {
    (void)ret;
    qr_auto(qr_free_p) char *url = qr_xasprintf("%s/%s", self(s)->base, prefix),
                            *shown = qr_web_url_redacted(url);
    return qr_fail(err, QR_UNIMPLEMENTED,
                   "%.300s: an https:// server has no list of its files; name each one", shown);
}

/* ---- the store ---- */

static void close_store(struct qr_store *store) {
    struct https *s = self(store);
    s->web->close(s->web);
    free(s->base);
    free(s);
}

static enum qr_code check_url(const struct qr_web_url *u, struct qr_err *err) {
    if (!u->whole[u->path + 1])
        return qr_fail(err, QR_INVALID_ARGUMENT, "it names no file: https://host/path");
    if (u->https || u->loopback) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "http:// is not encrypted, and what comes could be anybody's; give an https:// "
                   "URL (http:// is taken from this machine alone)");
}

enum qr_code qr_store_https_new(const char *url, const struct qr_https_options *opt,
                                struct qr_web *web, struct qr_store **ret, char **ret_name,
                                struct qr_err *err) {
    static const struct qr_store_ops ops = {get,       put,         read_only, list,
                                            read_only, get_version, swap,      close_store};
    struct qr_web_url u = {0};
    enum qr_code code = qr_web_url_parse(NULL, url, &u, err);
    if (code == QR_OK) code = check_url(&u, err);
    if (code != QR_OK) {
        qr_auto(qr_free_p) char *shown = qr_web_url_redacted(url);
        qr_web_url_fini(&u);
        if (web) web->close(web);
        return qr_wrap(err, "%.300s", shown);
    }
    struct https *s = qr_xcalloc(1, sizeof *s);
    s->store.ops = &ops;
    s->opt = *opt;
    if (!s->opt.waits.deadline_ns) s->opt.waits.deadline_ns = 120 * QR_SECOND;
    s->base = qr_xstrndup(u.whole, u.path);
    s->place = (struct qr_web_bucket){&apis[u.https], s, strstr(s->base, "://") + 3, &s->opt.waits};
    s->web = web ? web : qr_web_curl();
    *ret = &s->store;
    *ret_name = qr_xstrdup(u.whole + u.path + 1);
    qr_web_url_fini(&u);
    return QR_OK;
}
