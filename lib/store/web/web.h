/* store/web/web.h — HTTP for the remote stores: one request at a time by libcurl, with timeouts and
 * limits; delays and deadlines of retries.
 *
 * Usage     qr_web_curl; send for each request, then qr_web_reply_fini; close.
 * Limits    20 s to connect; 30 s below 8 KiB/s for a download, below 512 bytes/s for an upload;
 *           the size of the reply; 256 KiB of headers, trailers and interim replies. Redirects are
 *           not followed.
 * Proxies   by libcurl's variables (https_proxy, all_proxy, no_proxy); none for this machine.
 * Retries   408, 429, 5xx and broken connections, with full jitter in [0, min(32 s, 2^n s)], at
 *           least the server's Retry-After, until the deadline since the last progress. Received
 *           bytes extend the deadline by the time that they take at 8 KiB/s, so a trickling server
 *           holds a worker no longer than an unresponsive one.
 * Secrets   messages name the host only: a path may be an upload session.
 * Threads   a struct qr_web belongs to one thread.
 */
#ifndef QR_STORE_WEB_WEB_H
#define QR_STORE_WEB_WEB_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/clock.h"

enum {
    QR_WEB_MAX_HEADERS = 16,
    QR_WEB_REPLY_BYTES = 4 << 20,
    QR_WEB_ID_BYTES = 37,
    QR_WEB_TEXT_BYTES = 200,
    QR_WEB_MIN_BYTES_PER_S = 8192 /* of a reply body, over 30 s */
};

struct qr_web_reply;
struct qr_web_request {
    const char *method, *url;
    const char *headers[QR_WEB_MAX_HEADERS]; /* "Name: value" */
    size_t n_headers;
    bool has_body; /* an empty body is also sent, with Content-Length */
    struct qr_bytes body;
    size_t max_reply_bytes;
    size_t max_unsized_bytes; /* limit for a reply without a size; 0: max_reply_bytes */
    int64_t timeout_ms;       /* of the whole attempt; 0: only the speed limits */
    bool direct;              /* bypass any proxy, as requests to this machine do */
    const char *ca_file;      /* CAs to trust in place of the system's; NULL: the system's */
    /* Parses a success (2xx) into ctx, for qr_web_read; NULL: nothing to parse, or the body is an
     * object's bytes. When it returns INVALID_ARGUMENT, ctx is unchanged and the reply counts as
     * lost. */
    enum qr_code (*read)(void *ctx, const struct qr_web_reply *reply, struct qr_err *err);
    void *ctx;
};
struct qr_web_reply {
    int status;            /* 0: no reply */
    struct qr_buf body;    /* the received bytes, also of a truncated reply */
    char *location;        /* heap */
    bool has_range;        /* Range: bytes=0-N */
    uint64_t range_end;    /* N */
    bool has_piece;        /* Content-Range: bytes N-… */
    uint64_t piece_begin;  /* N */
    bool has_length;       /* Content-Length was received, and counts: not coded */
    uint64_t length;       /* Content-Length; 0: none */
    uint64_t generation;   /* x-goog-generation of the object; 0: none */
    int64_t retry_after_s; /* Retry-After, seconds; 0: none */
    bool from_metadata;    /* Metadata-Flavor: Google */
    bool coded;            /* Transfer-Encoding other than identity (RFC 9112, 6.3) */
    bool chunked;          /* Transfer-Encoding: chunked, so the end is marked */
    bool packed;           /* Content-Encoding other than identity */
    bool too_long;         /* more bytes were received or announced than the limit */
    /* Headers of an S3 object; "": missing or too long. */
    char etag[QR_WEB_TEXT_BYTES], crc32c[QR_WEB_TEXT_BYTES], region[QR_WEB_TEXT_BYTES];
    char write_id[QR_WEB_TEXT_BYTES], our_crc32c[QR_WEB_TEXT_BYTES]; /* qring's own metadata */
};
void qr_web_reply_fini(struct qr_web_reply *r); /* leaves it all-zero */
/* Reads one header line, with or without its line end. Unknown headers are ignored. */
void qr_web_reply_header(struct qr_web_reply *r, const char *line, size_t n);

/* An HTTP client.
 *
 * Errors:   OK: a complete reply, whatever its status. UNAVAILABLE: no reply, a truncated one, or
 *           one that is not HTTP (err->sys is EPROTO): retry. Other codes are final. *ret is
 *           filled in every case; the caller frees it.
 */
struct qr_web {
    enum qr_code (*send)(struct qr_web *h, const struct qr_web_request *req,
                         struct qr_web_reply *ret, struct qr_err *err);
    void (*close)(struct qr_web *h);
};
struct qr_web *qr_web_curl(void); /* a client by libcurl; never NULL */

/* ---- texts ---- */

void qr_web_escape(struct qr_buf *ret, const char *text); /* RFC 3986, all reserved characters */
void qr_web_id(char ret[QR_WEB_ID_BYTES]);                /* a random UUID */
/* A crc32c in the form of both APIs: base64 of four bytes, big-endian. */
void qr_web_crc32c_text(uint32_t crc, char ret[9]);
bool qr_web_crc32c_parse(const char *base64, uint32_t *ret); /* false: malformed */

/* ---- secrets ---- */

/* True for text that may be part of a header or a signature: visible ASCII, at least one character
 * (a line break would start another header). */
bool qr_web_is_token(const char *text, size_t n);
/* Reads a secret from a file, without the blanks and line breaks at its end. */
QR_MUST_CHECK enum qr_code qr_web_read_secret(const char *path, struct qr_buf *ret,
                                              struct qr_err *err);
void qr_web_trim(struct qr_buf *b); /* removes blanks and line breaks at the end */
/* Appends "&name=value", escaped, to a form; the first field without "&". */
void qr_web_put_field(struct qr_buf *form, const char *name, const char *value);
void qr_web_wipe(struct qr_buf *b); /* overwrites and frees */
void qr_web_wipe_text(char **text);
void qr_web_reply_wipe(struct qr_web_reply *r);

/* ---- addresses ---- */

/* An http or https URL as libcurl parses it: without fragment and default port, characters that a
 * URL must not contain percent-encoded. */
struct qr_web_url {
    char *whole, *host; /* heap; host: "name:port", also with the default port */
    bool https;
    bool loopback; /* on this machine, by its name or address */
    size_t path;   /* offset in whole of the path, with its slash */
};
/* Parses a URL.
 *
 * Args:     base   for a relative URL; NULL: text must be absolute
 * Errors:   INVALID_ARGUMENT (malformed, a scheme other than http and https, or with a user or
 *           password; the message does not quote the URL); RESOURCE_EXHAUSTED
 */
QR_MUST_CHECK enum qr_code qr_web_url_parse(const char *base, const char *text,
                                            struct qr_web_url *ret, struct qr_err *err);
void qr_web_url_fini(struct qr_web_url *u);
/* Hosts that may receive a secret: "name" with any port, "name:port", "*.domain:port" (below the
 * domain), or "*" (any). */
struct qr_web_trusted {
    bool https;
    const char *host;
};
/* True when the URL's host, as libcurl parses and requests it, is in one of n rows. False for a URL
 * that is malformed, has a user, or has a host other than ASCII: IDNA could map it to another. */
bool qr_web_url_trusted(const char *url, const struct qr_web_trusted *rows, size_t n);
/* Returns the URL for messages (heap): without user and password, with "?..." for a query, which
 * may be a signature. Accepts any text. */
char *qr_web_url_redacted(const char *url);
/* Returns "host:port" of a URL (heap), without user and password. Accepts any text. */
char *qr_web_url_host(const char *url);

/* ---- retries ---- */

/* Borrowed; the all-zero value means "not configured". */
struct qr_web_waits {
    const struct qr_clock *clock, *wall; /* wall: the time of day, for signed requests */
    /* qr_clock_awake: measures the length of an outage; NULL: clock */
    const struct qr_clock *awake;
    void (*sleep)(int64_t ns);
    /* called now and then while an operation is retried, for a log; NULL: not called */
    void (*notice)(void *ctx, const char *sentence);
    void *notice_ctx;
    bool (*stopping)(void); /* true once the process has been asked to end; NULL: never */
    int64_t deadline_ns, stop_deadline_ns; /* 0: 10 min, and 2 min once stopping */
};
struct qr_web_retry {
    const struct qr_web_waits *waits;
    int64_t began_ns, noticed_ns;
    unsigned n;
};
int64_t qr_web_awake_ns(const struct qr_web_waits *waits); /* the current time of awake */
/* Starts the deadline; called again after progress. */
void qr_web_retry_begin(struct qr_web_retry *r, const struct qr_web_waits *waits);
/* Counts bytes received since the last call. */
void qr_web_retry_progress(struct qr_web_retry *r, size_t bytes);
/* Sleeps before the next attempt; false when the deadline has passed. */
bool qr_web_retry_wait(struct qr_web_retry *r, int64_t retry_after_s);
/* True when a notice is due: after 5 s, then every minute. *ret_seconds: length of the outage. */
bool qr_web_retry_notice(struct qr_web_retry *r, int64_t *ret_seconds);
bool qr_web_retryable(int status);                             /* 408, 429, 5xx */
bool qr_web_reply_retryable(const struct qr_web_reply *reply); /* by its status */
bool qr_web_success(int status);                               /* 2xx */

#endif
