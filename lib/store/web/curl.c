/* store/web/curl.c — the HTTP client of libcurl, and the headers of replies. Start reading at
 * send_curl(). */
#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/parse.h"
#include "store/web/web.h"

enum {
    CONNECT_MS = 20000,
    SENT_BYTES_PER_S = 512,
    STALL_S = 30,
    MAX_RETRY_AFTER_S = 60,
    MAX_LOCATION_BYTES = 8192,
    /* Of all replies to a request, with trailers: libcurl keeps them. Less than its limit of 300 KB
     * for those before the body, whose error does not name the headers. */
    MAX_HEADERS_BYTES = 1 << 18
};

/* ---- replies ---- */

void qr_web_reply_fini(struct qr_web_reply *r) {
    qr_buf_free(&r->body);
    free(r->location);
    *r = (struct qr_web_reply){0};
}

static bool header_is(const char *line, size_t n, const char *name) {
    return n == strlen(name) && strncasecmp(line, name, n) == 0;
}

static void header_read_range(struct qr_web_reply *r, const char *value) {
    uint64_t end;
    r->has_range = strncmp(value, "bytes=0-", 8) == 0 && qr_parse_u64(value + 8, &end);
    if (r->has_range) r->range_end = end;
}

static void header_read_piece(struct qr_web_reply *r, const char *value) {
    static const char unit[] = "bytes ";
    if (strncmp(value, unit, strlen(unit)) != 0) return;
    const char *begin = value + strlen(unit), *dash = strchr(begin, '-');
    qr_auto(qr_free_p) char *text = qr_xstrndup(begin, dash ? (size_t)(dash - begin) : 0);
    r->has_piece = qr_parse_u64(text, &r->piece_begin);
}

/* A body that is coded for its transfer has no Content-Length. */
static void header_read_coding(struct qr_web_reply *r, const char *value, size_t n) {
    r->chunked = header_is(value, n, "chunked");
    r->coded |= !header_is(value, n, "identity");
    if (r->coded) r->has_length = false, r->length = 0;
}

/* A header value is copied into later requests: it must not contain a line break. */
static bool is_printable(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127) return false;
    return true;
}

static void keep_text(struct qr_web_reply *r, const char *line, size_t name, const char *value) {
    const struct {
        const char *name;
        char *to;
    } rows[] = {{"etag", r->etag},
                {"x-amz-checksum-crc32c", r->crc32c},
                {"x-amz-bucket-region", r->region},
                {"x-amz-meta-qring-write-id", r->write_id},
                {"x-amz-meta-qring-crc32c", r->our_crc32c}};
    if (strlen(value) >= QR_WEB_TEXT_BYTES || !is_printable(value)) return;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (header_is(line, name, rows[i].name)) memcpy(rows[i].to, value, strlen(value) + 1);
}

void qr_web_reply_header(struct qr_web_reply *r, const char *line, size_t n) {
    const char *colon = memchr(line, ':', n);
    uint64_t seconds;
    if (!colon || memchr(line, 0, n)) return;
    const char *begin = colon + 1, *end = line + n;
    while (begin < end && (*begin == ' ' || *begin == '\t')) begin++;
    while (end > begin && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' ' || end[-1] == '\t'))
        end--;
    size_t name = (size_t)(colon - line);
    if (header_is(line, name, "transfer-encoding"))
        return header_read_coding(r, begin, (size_t)(end - begin));
    if (end - begin > MAX_LOCATION_BYTES) return;
    qr_auto(qr_free_p) char *value = qr_xstrndup(begin, (size_t)(end - begin));
    if (header_is(line, name, "range")) {
        header_read_range(r, value);
    } else if (header_is(line, name, "content-range")) {
        header_read_piece(r, value);
    } else if (header_is(line, name, "content-length")) {
        r->has_length = !r->coded && qr_parse_u64(value, &r->length);
        if (!r->has_length) r->length = 0;
    } else if (header_is(line, name, "x-goog-generation")) {
        if (!qr_parse_u64(value, &r->generation)) r->generation = 0;
    } else if (header_is(line, name, "location")) {
        free(r->location);
        r->location = QR_MOVE(value);
    } else if (header_is(line, name, "retry-after")) {
        if (qr_parse_u64(value, &seconds))
            r->retry_after_s = seconds < MAX_RETRY_AFTER_S ? (int64_t)seconds : MAX_RETRY_AFTER_S;
    } else if (header_is(line, name, "metadata-flavor")) {
        r->from_metadata = strcmp(value, "Google") == 0;
    } else if (header_is(line, name, "content-encoding")) {
        r->packed = *value && strcasecmp(value, "identity") != 0;
    } else {
        keep_text(r, line, name, value);
    }
}

/* ---- libcurl ---- */

struct http {
    struct qr_web web;
    CURL *curl;
};
struct receiver {
    struct qr_web_reply *reply;
    size_t max, max_unsized, header_bytes;
    bool headers_ended;
};
struct sender {
    struct qr_bytes body;
    size_t at;
};

static size_t on_header(char *line, size_t size, size_t n, void *ctx) {
    struct receiver *r = ctx;
    r->header_bytes += size * n;
    if (r->header_bytes > MAX_HEADERS_BYTES) return 0;
    /* The empty line ends the headers; trailers may follow the body. */
    if (size * n > 0 && (*line == '\r' || *line == '\n')) r->headers_ended = true;
    /* A status line starts the final reply: discard the headers of an interim (1xx) reply. */
    if (size * n > 5 && strncmp(line, "HTTP/", 5) == 0) {
        struct qr_buf body = r->reply->body;
        r->headers_ended = false;
        r->reply->body = (struct qr_buf){0};
        qr_web_reply_fini(r->reply);
        r->reply->body = body;
    } else {
        qr_web_reply_header(r->reply, line, size * n);
    }
    return size * n;
}

static size_t on_body(char *p, size_t size, size_t n, void *ctx) {
    struct receiver *r = ctx;
    struct qr_web_reply *reply = r->reply;
    size_t max = reply->has_length ? r->max : r->max_unsized;
    if (size * n > max - reply->body.n || (reply->has_length && reply->length > max)) {
        reply->too_long = true;
        return 0;
    }
    if (reply->has_length && size * n > reply->length - reply->body.n) return 0;
    qr_buf_put(&reply->body, p, size * n);
    return qr_buf_ok(&reply->body) ? size * n : 0;
}

static size_t on_read(char *p, size_t size, size_t n, void *ctx) {
    struct sender *s = ctx;
    size_t left = s->body.n - s->at, take = left < size * n ? left : size * n;
    if (take) memcpy(p, s->body.p + s->at, take);
    s->at += take;
    return take;
}

static int on_seek(void *ctx, curl_off_t offset, int origin) {
    struct sender *s = ctx;
    if (origin != SEEK_SET || offset < 0 || (size_t)offset > s->body.n)
        return CURL_SEEKFUNC_CANTSEEK;
    s->at = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

/* *ret_direct: the host is this machine, which needs no proxy. */
static CURLcode find_loopback(const char *url, bool *ret_direct) {
    qr_auto(qr_free_p) char *host = qr_web_url_host(url), *root = qr_xasprintf("http://%s/", host);
    qr_auto(qr_web_url_fini) struct qr_web_url at = {0};
    enum qr_code code = qr_web_url_parse(NULL, root, &at, QR_IGNORED);
    *ret_direct |= at.loopback;
    return code == QR_RESOURCE_EXHAUSTED ? CURLE_OUT_OF_MEMORY : CURLE_OK;
}

/* Path and query, unchanged. libcurl 7.88 sends the path without the query when it runs out of
 * memory: a list with a prefix would become a list of all. NULL when a proxy needs the full URL. */
static const char *target_of(const char *url, bool direct) {
    const char *host = strstr(url, "://");
    if (!host || (!direct && strncmp(url, "https://", 8) != 0)) return NULL;
    return strchr(host + 3, '/');
}

/* Stops at the first option that fails: without it, the request would be a different one (a DELETE
 * without its method is a GET). */
static CURLcode put_options(CURL *c, const struct qr_web_request *req, struct receiver *in,
                            struct sender *out) {
    bool direct = req->direct;
    CURLcode rc = find_loopback(req->url, &direct);
    const char *target = target_of(req->url, direct);
#define PUT(option, value) rc = rc == CURLE_OK ? curl_easy_setopt(c, option, value) : rc
    curl_easy_reset(c); /* keeps connections */
    PUT(CURLOPT_URL, req->url);
    if (target) PUT(CURLOPT_REQUEST_TARGET, target);
    PUT(CURLOPT_PROTOCOLS_STR, "http,https");
    PUT(CURLOPT_NOSIGNAL, 1L);
    PUT(CURLOPT_FOLLOWLOCATION, 0L);
    PUT(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    PUT(CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    PUT(CURLOPT_LOW_SPEED_LIMIT, (long)(req->has_body ? SENT_BYTES_PER_S : QR_WEB_MIN_BYTES_PER_S));
    PUT(CURLOPT_LOW_SPEED_TIME, (long)STALL_S);
    PUT(CURLOPT_TIMEOUT_MS, (long)req->timeout_ms);
    PUT(CURLOPT_TCP_KEEPALIVE, 1L);
    PUT(CURLOPT_USERAGENT, "qring");
    if (direct) PUT(CURLOPT_NOPROXY, "*");
    if (req->ca_file) PUT(CURLOPT_CAINFO, req->ca_file);
    if (req->ca_file) PUT(CURLOPT_CAPATH, (char *)NULL); /* do not trust the system's CAs too */
    if (strcmp(req->method, "HEAD") == 0) PUT(CURLOPT_NOBODY, 1L);
    PUT(CURLOPT_HEADERFUNCTION, on_header);
    PUT(CURLOPT_HEADERDATA, in);
    PUT(CURLOPT_WRITEFUNCTION, on_body);
    PUT(CURLOPT_WRITEDATA, in);
    if (req->has_body) {
        PUT(CURLOPT_UPLOAD, 1L);
        PUT(CURLOPT_READFUNCTION, on_read);
        PUT(CURLOPT_READDATA, out);
        PUT(CURLOPT_SEEKFUNCTION, on_seek);
        PUT(CURLOPT_SEEKDATA, out);
        PUT(CURLOPT_INFILESIZE_LARGE, (curl_off_t)req->body.n);
    }
    PUT(CURLOPT_CUSTOMREQUEST, req->method);
#undef PUT
    return rc;
}

/* Returns false when out of memory; the list is then unchanged. */
static bool put_header(struct curl_slist **list, const char *line) {
    struct curl_slist *longer = curl_slist_append(*list, line);
    if (longer) *list = longer;
    return longer;
}

/* Messages hold the host only: the path of an upload session is a secret. */
static enum qr_code curl_error(CURLcode rc, const char *url, const struct receiver *in,
                               struct qr_err *err) {
    qr_auto(qr_free_p) char *host = qr_web_url_host(url);
    if (in->header_bytes > MAX_HEADERS_BYTES)
        return qr_fail(err, QR_UNAVAILABLE,
                       "%.200s: the headers of the reply are longer than %d bytes", host,
                       MAX_HEADERS_BYTES);
    switch (rc) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return qr_fail(err, QR_UNAUTHENTICATED,
                       "%.200s: the certificate cannot be verified (%s); install CA certificates",
                       host, curl_easy_strerror(rc));
#if LIBCURL_VERSION_NUM >= 0x080600
    case CURLE_TOO_LARGE: /* headers above the limits of libcurl */
#endif
    case CURLE_OUT_OF_MEMORY: /* the same before 8.6.0 */
        if (!in->header_bytes || in->headers_ended) break;
        return qr_fail(err, QR_UNAVAILABLE,
                       "%.200s: the headers of the reply are too long, or memory is exhausted",
                       host);
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        /* libcurl takes a reply without a status line for HTTP/0.9, and refuses it so. */
        if (rc == CURLE_UNSUPPORTED_PROTOCOL &&
            (strncasecmp(url, "http://", 7) == 0 || strncasecmp(url, "https://", 8) == 0)) {
            qr_fail(err, QR_UNAVAILABLE, "%.200s: the reply is not HTTP", host);
            err->sys = EPROTO;
            return err->code;
        }
        return qr_fail(err, QR_INVALID_ARGUMENT, "%.200s is not an HTTP address", host);
    default: break;
    }
    return qr_fail(err, QR_UNAVAILABLE, "%.200s: %s", host, curl_easy_strerror(rc));
}

static enum qr_code send_curl(struct qr_web *self, const struct qr_web_request *req,
                              struct qr_web_reply *ret, struct qr_err *err) {
    struct http *h = (struct http *)self;
    struct receiver in = {
        .reply = ret, .max = req->max_reply_bytes, .max_unsized = req->max_reply_bytes};
    if (req->max_unsized_bytes && req->max_unsized_bytes < in.max)
        in.max_unsized = req->max_unsized_bytes;
    struct sender out = {.body = req->body};
    struct curl_slist *headers = NULL;
    long status = 0;
    *ret = (struct qr_web_reply){0};
    ret->body.max = req->max_reply_bytes + 1;
    CURLcode rc = put_options(h->curl, req, &in, &out);
    bool all = put_header(&headers, "Expect:") && put_header(&headers, "Accept:");
    for (size_t i = 0; i < req->n_headers; i++) all = all && put_header(&headers, req->headers[i]);
    if (rc == CURLE_OK && !all) rc = CURLE_OUT_OF_MEMORY;
    if (rc == CURLE_OK) rc = curl_easy_setopt(h->curl, CURLOPT_HTTPHEADER, headers);
    if (rc == CURLE_OK) {
        rc = curl_easy_perform(h->curl);
        curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &status);
    }
    curl_slist_free_all(headers);
    /* After an interim (1xx) reply alone there is none. */
    ret->status = rc == CURLE_OK || status >= 200 ? (int)status : 0;
    if (ret->too_long)
        return qr_fail(err, QR_DATA_LOSS, "the reply is longer than the limit of %zu bytes",
                       ret->has_length ? in.max : in.max_unsized);
    /* The connection ended within the headers: libcurl reports a complete reply. */
    if (rc == CURLE_OK && !in.headers_ended) rc = CURLE_GOT_NOTHING;
    return rc == CURLE_OK ? QR_OK : curl_error(rc, req->url, &in, err);
}

static void close_curl(struct qr_web *self) {
    struct http *h = (struct http *)self;
    curl_easy_cleanup(h->curl);
    free(h);
}

static void start_curl(void) {
    qr_check_memory(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK, "libcurl");
}

struct qr_web *qr_web_curl(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_curl);
    struct http *h = qr_xcalloc(1, sizeof *h);
    h->web.send = send_curl;
    h->web.close = close_curl;
    h->curl = curl_easy_init();
    qr_check_memory(h->curl != NULL, "libcurl");
    return &h->web;
}
