/* store/web/web_url.c — http(s) URLs, parsed by libcurl, which also sends the requests: the checked
 * host is the requested host. Start reading at qr_web_url_parse(). */
#include <curl/curl.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "store/web/web.h"

enum { MAX_URL_BYTES = 8192 };

/* *ret: a part of the URL, or "" when it has none; heap (not libcurl's). */
static CURLUcode part_of(CURLU *u, CURLUPart which, unsigned flags, char **ret) {
    char *text = NULL;
    CURLUcode rc = curl_url_get(u, which, &text, flags);
    if (rc == CURLUE_OUT_OF_MEMORY) return rc;
    *ret = qr_xstrdup(rc == CURLUE_OK && text ? text : "");
    curl_free(text);
    return CURLUE_OK;
}

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcasecmp(text + n - m, end) == 0;
}

/* Names that are not looked up in DNS (RFC 6761), and the loopback addresses. */
static bool url_is_loopback(const char *host) {
    bool address = strspn(host, "0123456789.") == strlen(host);
    return strcasecmp(host, "localhost") == 0 || ends_with(host, ".localhost") ||
           strcmp(host, "[::1]") == 0 || (address && strncmp(host, "127.", 4) == 0);
}

static CURLUcode read_parts(CURLU *u, struct qr_web_url *ret, bool *ret_known) {
    qr_auto(qr_free_p) char *scheme = NULL, *host = NULL, *port = NULL;
    CURLUcode rc = curl_url_set(u, CURLUPART_FRAGMENT, NULL, 0);
    if (rc == CURLUE_OK) rc = part_of(u, CURLUPART_SCHEME, 0, &scheme);
    if (rc == CURLUE_OK) rc = part_of(u, CURLUPART_HOST, 0, &host);
    if (rc == CURLUE_OK) rc = part_of(u, CURLUPART_PORT, CURLU_DEFAULT_PORT, &port);
    if (rc == CURLUE_OK) rc = part_of(u, CURLUPART_URL, CURLU_NO_DEFAULT_PORT, &ret->whole);
    if (rc != CURLUE_OK) return rc;
    ret->https = strcasecmp(scheme, "https") == 0;
    *ret_known = (ret->https || strcasecmp(scheme, "http") == 0) && *host;
    ret->loopback = url_is_loopback(host);
    ret->host = qr_xasprintf("%s:%s", host, port);
    const char *at = strstr(ret->whole, "://");
    if (at) ret->path = (size_t)(at - ret->whole) + 3 + strcspn(at + 3, "/?");
    return rc;
}

/* libcurl 7.88 mistakes a relative URL for an absolute one when it has no memory for the base URL:
 * retry a rejected URL once. */
static CURLUcode set_url(CURLU *u, const char *text) {
    const unsigned flags = CURLU_DISALLOW_USER | CURLU_URLENCODE | CURLU_ALLOW_SPACE;
    qr_auto(qr_free_p) char *whole = NULL;
    CURLUcode rc = curl_url_set(u, CURLUPART_URL, text, flags);
    if (rc == CURLUE_OK) return rc;
    if (part_of(u, CURLUPART_URL, 0, &whole) == CURLUE_OUT_OF_MEMORY) return CURLUE_OUT_OF_MEMORY;
    return curl_url_set(u, CURLUPART_URL, text, flags);
}

enum qr_code qr_web_url_parse(const char *base, const char *text, struct qr_web_url *ret,
                              struct qr_err *err) {
    struct qr_web_url url = {0};
    bool known = false;
    if (strlen(text) > MAX_URL_BYTES)
        return qr_fail(err, QR_INVALID_ARGUMENT, "the URL is longer than %d bytes", MAX_URL_BYTES);
    CURLU *u = curl_url();
    CURLUcode rc = u ? CURLUE_OK : CURLUE_OUT_OF_MEMORY;
    if (rc == CURLUE_OK && base) rc = curl_url_set(u, CURLUPART_URL, base, 0);
    if (rc == CURLUE_OK) rc = set_url(u, text);
    if (rc == CURLUE_OK) rc = read_parts(u, &url, &known);
    curl_url_cleanup(u);
    if (rc == CURLUE_OK && known && url.path < strlen(url.whole) && url.whole[url.path] == '/') {
        *ret = url;
        return QR_OK;
    }
    qr_web_url_fini(&url);
    if (rc == CURLUE_OUT_OF_MEMORY)
        return qr_fail(err, QR_RESOURCE_EXHAUSTED, "out of memory for a URL");
    if (rc == CURLUE_USER_NOT_ALLOWED)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "a user or password in a URL is not supported; put a token into the file "
                       "that QRING_HTTPS_TOKENS names");
    if (rc == CURLUE_OK && known)
        return qr_fail(err, QR_INVALID_ARGUMENT, "the URL names no file; give https://host/path");
    return qr_fail(err, QR_INVALID_ARGUMENT, "the URL is malformed; give https://host/path");
}

void qr_web_url_fini(struct qr_web_url *u) {
    free(u->whole);
    free(u->host);
    *u = (struct qr_web_url){0};
}

static bool host_matches(const char *host, const char *row) {
    if (strcmp(row, "*") == 0) return true;
    if (*row == '*') return ends_with(host, row + 1) && !ends_with(row + 1, host);
    size_t n = strlen(row);
    bool any_port = row[n - 1] == ']' || !strchr(row, ':');
    return strncasecmp(host, row, n) == 0 && (!host[n] || (any_port && host[n] == ':'));
}

bool qr_web_url_trusted(const char *text, const struct qr_web_trusted *rows, size_t n) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.:[]";
    qr_auto(qr_web_url_fini) struct qr_web_url url = {0};
    struct qr_err err;
    bool found = false;
    if (qr_web_url_parse(NULL, text, &url, &err) != QR_OK) return false;
    if (url.host[strspn(url.host, plain)] == 0)
        for (size_t i = 0; i < n; i++)
            found |= rows[i].https == url.https && host_matches(url.host, rows[i].host);
    return found;
}

char *qr_web_url_host(const char *url) {
    const char *scheme = strstr(url, "://"), *host = scheme ? scheme + 3 : url;
    size_t n = strcspn(host, "/?#");
    const char *at = memrchr(host, '@', n);
    if (at) n -= (size_t)(at + 1 - host);
    return qr_xstrndup(at ? at + 1 : host, n);
}

char *qr_web_url_redacted(const char *url) {
    const char *host = strstr(url, "://");
    if (!host) return qr_xstrdup(url);
    host += 3;
    size_t authority = strcspn(host, "/?#"), begin = 0;
    for (size_t i = 0; i < authority; i++)
        if (host[i] == '@') begin = i + 1;
    size_t shown = strcspn(host, "?#");
    return qr_xasprintf("%.*s%.*s%s", (int)(host - url), url, (int)(shown - begin), host + begin,
                        host[shown] == '?' ? "?..." : "");
}
