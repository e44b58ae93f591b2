/* store/web/bucket.h — a bucket at a server, as its store's requests go there: each is tried again
 * as long as that may help, and what is downloaded goes on where a stream broke off.
 *
 * Messages  begin with "gs://bucket/name: upload", or what else is done there.
 * Threads   a place belongs to its store's.
 */
#ifndef QR_STORE_WEB_BUCKET_H
#define QR_STORE_WEB_BUCKET_H

#include "base/err.h"
#include "store/web/web.h"

/* What one request is for, in messages: "gs://bucket/name: upload". */
struct qr_web_call {
    const char *name, *doing;
    const char *token; /* constant over the retries of one operation; NULL: none is wanted */
};

/* What one kind of server has of its own; store: of struct qr_web_bucket. */
struct qr_web_api {
    const char *scheme; /* "gs" */
    /* One attempt with credentials; those that are refused are renewed once. OK: look at the
     * status; a success has been read. UNAVAILABLE: no whole reply came, or one that cannot be
     * read; *ret has what came of it. */
    enum qr_code (*attempt)(void *store, const struct qr_web_call *c,
                            const struct qr_web_request *req, struct qr_web_reply *ret,
                            struct qr_err *err);
    bool (*retryable)(const struct qr_web_reply *reply);
    /* The reason in an error's body, cut and printable; "" where there is none. */
    void (*reason)(struct qr_bytes body, char *ret, size_t bytes);
    /* The sentence and code for a status that is an error. */
    enum qr_code (*refused)(void *store, const struct qr_web_call *c,
                            const struct qr_web_reply *reply, struct qr_err *err);
};
struct qr_web_bucket { /* borrowed all */
    const struct qr_web_api *api;
    void *store;
    const char *bucket;
    const struct qr_web_waits *waits;
};

/* What req->read says of a success. Of one that cannot be read nobody knows whether it is one:
 * UNAVAILABLE. */
QR_MUST_CHECK enum qr_code qr_web_read(const struct qr_web_request *req,
                                       const struct qr_web_reply *reply, struct qr_err *err);
/* Attempts until there is a reply that retrying cannot better. */
QR_MUST_CHECK enum qr_code qr_web_send(const struct qr_web_bucket *p, struct qr_web_retry *r,
                                       const struct qr_web_call *c,
                                       const struct qr_web_request *req, struct qr_web_reply *ret,
                                       struct qr_err *err);
/* qr_web_retry_wait, and says now and then what is waited for. err: the last attempt's, where it
 * had no reply. */
bool qr_web_wait(const struct qr_web_bucket *p, struct qr_web_retry *r, const struct qr_web_call *c,
                 const struct qr_web_reply *reply, const struct qr_err *err);
/* After the deadline. *err comes in as the last attempt's. */
enum qr_code qr_web_gave_up(const struct qr_web_bucket *p, const struct qr_web_retry *r,
                            const struct qr_web_call *c, const struct qr_web_reply *reply,
                            struct qr_err *err);

/* An object as its server described it. */
struct qr_web_object {
    const char *url, *header; /* header: sent with each request */
    uint64_t size;
    uint64_t generation; /* 0, NULL: this server has none; a reply of another is of other bytes */
    const char *etag;
    bool has_crc32c;
    uint32_t crc32c;
    bool strict; /* a reply says of which etag it is, a piece that it is one, and from where */
};
/* Its bytes into ret (with room for them, empty or its first bytes), its crc32c checked; a stream
 * that breaks off goes on where it ended. ABORTED: this object is not there any more; DATA_LOSS:
 * other bytes came. After both it helps to look at the object again. */
QR_MUST_CHECK enum qr_code qr_web_download(const struct qr_web_bucket *p,
                                           const struct qr_web_call *c,
                                           const struct qr_web_object *o, struct qr_buf *ret,
                                           struct qr_err *err);

#endif
