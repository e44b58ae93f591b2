/* store/web/web.h — HTTP for the stores on other machines: one request at a time by libcurl, with
 * bounds; when to try again, and how long.
 *
 * Guards    20 s to connect; 30 s below 8 KiB/s for what is read, below 512 bytes/s for what is
 *           sent; the reply's size. Redirects are not followed.
 * Retries   408, 429, 5xx and broken connections, with full jitter in [0, min(32 s, 2^n s)], at
 *           least what the server asked for, until the deadline since the last progress. Bytes that
 *           come are as much progress as the time that they take at 8 KiB/s, so that a server that
 *           drips holds a worker no longer than one that is silent.
 * Secrets   messages name hosts alone: a path may be a session.
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
    QR_WEB_MIN_BYTES_PER_S = 8192 /* of a reply's body, over 30 s */
};

struct qr_web_reply;
struct qr_web_request {
    const char *method, *url;
    const char *headers[QR_WEB_MAX_HEADERS]; /* "Name: value" */
    size_t n_headers;
    bool has_body; /* an empty body too is sent with its length */
    struct qr_bytes body;
    size_t max_reply_bytes;
    size_t max_unsized_bytes; /* of a reply that does not say its size; 0: as any other */
    int64_t timeout_ms;       /* of the whole attempt; 0: only the guard against stalls */
    bool direct;              /* past any proxy */
    const char *ca_file;      /* whom to trust instead of the system's CAs; NULL: those */
    /* Takes what a success (2xx) says into ctx, for qr_web_read; NULL: nothing
     * is wanted of it, or its body is an object's bytes. One that says INVALID_ARGUMENT has left
     * ctx as it was: the reply is lost, like one that never came. */
    enum qr_code (*read)(void *ctx, const struct qr_web_reply *reply, struct qr_err *err);
    void *ctx;
};
struct qr_web_reply {
    int status;            /* 0: no reply came */
    struct qr_buf body;    /* what came, also of a reply that broke off */
    char *location;        /* heap */
    bool has_range;        /* Range: bytes=0-N */
    uint64_t range_end;    /* N */
    bool has_piece;        /* Content-Range: bytes N-… */
    uint64_t piece_begin;  /* N */
    bool has_length;       /* Content-Length was said */
    uint64_t length;       /* it; 0: not said */
    uint64_t generation;   /* of the object whose bytes these are; 0: not said */
    int64_t retry_after_s; /* 0: none */
    bool from_metadata;    /* Metadata-Flavor: Google */
    bool chunked;          /* Transfer-Encoding: chunked: its end is marked */
    bool packed;           /* Content-Encoding other than identity */
    bool too_long;         /* more bytes came, or were announced, than were asked for */
    /* What an S3 server says of an object; "": not said, or too long. */
    char etag[QR_WEB_TEXT_BYTES], crc32c[QR_WEB_TEXT_BYTES], region[QR_WEB_TEXT_BYTES];
    char write_id[QR_WEB_TEXT_BYTES], our_crc32c[QR_WEB_TEXT_BYTES]; /* our own metadata */
};
void qr_web_reply_fini(struct qr_web_reply *r);
/* One header line with or without its line end. Whatever is no header that we know is
 * passed over. */
void qr_web_reply_header(struct qr_web_reply *r, const char *line, size_t n);

/* OK: a whole reply came, whatever its status. UNAVAILABLE: none did, or it broke off (trying again
 * may help). Other codes are final. *ret is filled in every case and freed by the caller. */
struct qr_web {
    enum qr_code (*send)(struct qr_web *h, const struct qr_web_request *req,
                         struct qr_web_reply *ret, struct qr_err *err);
    void (*close)(struct qr_web *h);
};
struct qr_web *qr_web_curl(void);

/* ---- texts ---- */

void qr_web_escape(struct qr_buf *ret, const char *text); /* as RFC 3986, all that is reserved */
void qr_web_id(char ret[QR_WEB_ID_BYTES]);                /* a random UUID */
/* A crc32c as both APIs have it: base64 of four bytes, the highest first. */
void qr_web_crc32c_text(uint32_t crc, char ret[9]);
bool qr_web_crc32c_parse(const char *base64, uint32_t *ret);

/* ---- addresses ---- */

/* An http or https URL as libcurl reads it: whole without fragment and default port, what cannot
 * stand there encoded. */
struct qr_web_url {
    char *whole, *host; /* heap; host: "name:port", the port also where it is the default */
    bool https;
    bool loopback; /* on this machine, by its name or address */
    size_t path;   /* where in whole the path begins, with its slash */
};
/* base: where a relative one is seen from, or NULL. INVALID_ARGUMENT, whose sentence has nothing of
 * the URL: no address, none of http or https, or with a user or password. */
QR_MUST_CHECK enum qr_code qr_web_url_parse(const char *base, const char *text,
                                            struct qr_web_url *ret, struct qr_err *err);
void qr_web_url_fini(struct qr_web_url *u);
/* As a message may have it: no user, no password, "?..." for a query, which may be a signature. Of
 * any text. Heap. */
char *qr_web_url_redacted(const char *url);
/* "host:port" of a URL without a user and password; of any text. Heap. */
char *qr_web_url_host(const char *url);

/* ---- retries ---- */

/* Borrowed; the all-zero value means "not configured". */
struct qr_web_waits {
    const struct qr_clock *clock, *wall; /* wall: what the time is, for signed requests */
    /* qr_clock_awake, by which an outage has lasted so long; NULL: clock */
    const struct qr_clock *awake;
    void (*sleep)(int64_t ns);
    /* now and then while an operation is retried, for a log; NULL: silent */
    void (*notice)(void *ctx, const char *sentence);
    void *notice_ctx;
    bool (*stopping)(void); /* true: this process has been asked to end; NULL: never */
    int64_t deadline_ns, stop_deadline_ns; /* 0: 10 min, and 2 min once stopping */
};
struct qr_web_retry {
    const struct qr_web_waits *waits;
    int64_t began_ns, noticed_ns;
    unsigned n;
};
int64_t qr_web_awake_ns(const struct qr_web_waits *waits);
/* also when there was progress */
void qr_web_retry_begin(struct qr_web_retry *r, const struct qr_web_waits *waits);
/* So many bytes have come since the last call. */
void qr_web_retry_progress(struct qr_web_retry *r, size_t bytes);
/* Waits; false when the deadline has passed. */
bool qr_web_retry_wait(struct qr_web_retry *r, int64_t retry_after_s);
/* Is it time to say that this has lasted? After 5 s, then every minute; seconds: since when. */
bool qr_web_retry_notice(struct qr_web_retry *r, int64_t *ret_seconds);
bool qr_web_retryable(int status);
bool qr_web_success(int status); /* 2xx */

#endif
