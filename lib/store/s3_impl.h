/* store/s3_impl.h — the parts of the S3 client: requests, checksums, downloads. */
#ifndef QR_STORE_S3_IMPL_H
#define QR_STORE_S3_IMPL_H

#include "store/s3.h"

/* ---- one store ---- */

struct qr_s3 {
    struct qr_store store;
    struct qr_s3_options opt;
    char *bucket, *region;
    char *base, *host; /* of the bucket, "https://host/bucket" or "https://bucket.host" */
    struct qr_web *web;
    struct qr_s3_auth *auth;
    struct qr_s3_profile profile;
};
struct qr_s3_object {
    uint64_t size;
    char etag[QR_WEB_TEXT_BYTES], write_id[QR_WEB_ID_BYTES];
    bool has_crc32c;
    uint32_t crc32c;
};
/* What one request is for, in messages: "s3://bucket/name: upload". */
struct qr_s3_call {
    const char *name, *doing;
};
/* A request's read: what its headers say about an object, into a struct qr_s3_object. */
QR_MUST_CHECK enum qr_code qr_s3_read_object(void *ctx, const struct qr_web_reply *reply,
                                             struct qr_err *err);

/* One signed attempt; keys that are refused are renewed once. Codes as qr_gcs_attempt. */
QR_MUST_CHECK enum qr_code qr_s3_attempt(struct qr_s3 *s, const struct qr_web_request *req,
                                         struct qr_web_reply *ret, struct qr_err *err);
/* Attempts until there is a reply that retrying cannot better. */
QR_MUST_CHECK enum qr_code qr_s3_send(struct qr_s3 *s, struct qr_web_retry *r,
                                      const struct qr_s3_call *c, const struct qr_web_request *req,
                                      struct qr_web_reply *ret, struct qr_err *err);
bool qr_s3_retryable(const struct qr_web_reply *reply);
bool qr_s3_wait(const struct qr_s3 *s, struct qr_web_retry *r, const struct qr_s3_call *c,
                const struct qr_web_reply *reply, const struct qr_err *err);
enum qr_code qr_s3_gave_up(const struct qr_s3 *s, const struct qr_web_retry *r,
                           const struct qr_s3_call *c, const struct qr_web_reply *reply,
                           struct qr_err *err);
/* The sentence and code for a status that is an error. */
enum qr_code qr_s3_refused(const struct qr_s3 *s, const struct qr_s3_call *c,
                           const struct qr_web_reply *reply, struct qr_err *err);
/* ".../NAME" */
void qr_s3_object_url(const struct qr_s3 *s, const char *name, struct qr_buf *ret);
/* As qr_gcs_download. */
QR_MUST_CHECK enum qr_code qr_s3_download(struct qr_s3 *s, const struct qr_s3_call *c,
                                          const struct qr_s3_object *o, struct qr_buf *ret,
                                          struct qr_err *err);

#endif
