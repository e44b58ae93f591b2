/* store/web/bucket.h — requests to a bucket of a server, with retries, and downloads that resume
 * after a break.
 *
 * Usage     for one operation: qr_web_retry_begin, then qr_web_send; or qr_web_download for the
 *           bytes of an object.
 * Messages  begin with the URL and the operation: "gs://bucket/name: upload".
 * Threads   that of its store.
 */
#ifndef QR_STORE_WEB_BUCKET_H
#define QR_STORE_WEB_BUCKET_H

#include "base/err.h"
#include "store/web/web.h"

/* The operation of a request, for messages: "gs://bucket/name: upload". */
struct qr_web_call {
    const char *name, *doing;
    const char *token; /* idempotency token, constant over the retries; NULL: none */
};

/* The functions of one kind of server; store: that of struct qr_web_bucket. */
struct qr_web_api {
    const char *scheme; /* "gs" */
    /* One attempt with credentials; rejected ones are renewed once. OK: check the status; a success
     * has been parsed. UNAVAILABLE: no complete reply, or a malformed one; *ret has the part that
     * was received. */
    enum qr_code (*attempt)(void *store, const struct qr_web_call *c,
                            const struct qr_web_request *req, struct qr_web_reply *ret,
                            struct qr_err *err);
    bool (*retryable)(const struct qr_web_reply *reply);
    /* Copies the reason of an error body, truncated and printable; "" when there is none. */
    void (*reason)(struct qr_bytes body, char *ret, size_t bytes);
    /* Message and code for an error status. The caller handles the failed condition (412) of a
     * conditional request. */
    enum qr_code (*refused)(void *store, const struct qr_web_call *c,
                            const struct qr_web_reply *reply, struct qr_err *err);
};
struct qr_web_bucket { /* borrowed all */
    const struct qr_web_api *api;
    void *store;
    const char *bucket;
    const struct qr_web_waits *waits;
};

/* Fails with a message that begins with the URL of an object, "gs://bucket/name". */
#define qr_web_fail(p, err, code, name, fmt, ...)                                                  \
    qr_fail(err, code, "%s://%s/%s" fmt, (p)->api->scheme, (p)->bucket, name, ##__VA_ARGS__)

/* Puts the URL and the operation in front of the message. */
enum qr_code qr_web_wrap(const struct qr_web_bucket *p, const struct qr_web_call *c,
                         struct qr_err *err);
/* Parses a success by req->read. UNAVAILABLE when it is malformed: the request may or may not have
 * succeeded. */
QR_MUST_CHECK enum qr_code qr_web_read(const struct qr_web_request *req,
                                       const struct qr_web_reply *reply, struct qr_err *err);
/* Sends a request, with retries, until a reply is final. */
QR_MUST_CHECK enum qr_code qr_web_send(const struct qr_web_bucket *p, struct qr_web_retry *r,
                                       const struct qr_web_call *c,
                                       const struct qr_web_request *req, struct qr_web_reply *ret,
                                       struct qr_err *err);
/* Waits as qr_web_retry_wait, and logs a notice now and then. err: the error of the last attempt,
 * used when it had no reply. */
bool qr_web_wait(const struct qr_web_bucket *p, struct qr_web_retry *r, const struct qr_web_call *c,
                 const struct qr_web_reply *reply, const struct qr_err *err);
/* UNAVAILABLE after the deadline. *err holds the error of the last attempt on entry. */
enum qr_code qr_web_gave_up(const struct qr_web_bucket *p, const struct qr_web_retry *r,
                            const struct qr_web_call *c, const struct qr_web_reply *reply,
                            struct qr_err *err);

/* An object as its server described it; all-zero: none. */
struct qr_web_object {
    uint64_t size;
    uint64_t generation; /* 0, "": not used by this server. A reply with another one is ABORTED */
    char etag[QR_WEB_TEXT_BYTES];
    char write_id[QR_WEB_ID_BYTES]; /* of the upload that wrote it; "": not by qring */
    bool has_crc32c;
    uint32_t crc32c;
    bool strict; /* require an ETag in each reply, and 206 with Content-Range for a part */
};
/* Downloads an object and checks its crc32c; resumes a broken transfer.
 *
 * Args:     first   the request for the whole object
 *           ret     empty, or the first bytes of the object, with a limit that fits all
 * Errors:   ABORTED (the object was replaced or removed), DATA_LOSS (wrong bytes): after both, read
 *           the metadata again and retry; UNAVAILABLE after the deadline
 */
QR_MUST_CHECK enum qr_code qr_web_download(const struct qr_web_bucket *p,
                                           const struct qr_web_call *c,
                                           const struct qr_web_request *first,
                                           const struct qr_web_object *o, struct qr_buf *ret,
                                           struct qr_err *err);
/* Copies downloaded bytes to the caller's buffer; RESOURCE_EXHAUSTED above its limit. */
QR_MUST_CHECK enum qr_code qr_web_deliver(const struct qr_web_bucket *p, const char *name,
                                          const struct qr_buf *content, struct qr_buf *ret,
                                          struct qr_err *err);

#endif
