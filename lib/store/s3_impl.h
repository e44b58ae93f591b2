/* store/s3_impl.h — the parts of the S3 client: its requests. */
#ifndef QR_STORE_S3_IMPL_H
#define QR_STORE_S3_IMPL_H

#include "store/bucket_store_impl.h"
#include "store/s3.h"

/* ---- one store ---- */

struct qr_s3 {
    struct qr_bucket bucket; /* base: of the bucket, "https://host/bucket", "https://bucket.host" */
    struct qr_s3_options opt;
    char *region, *host;
    struct qr_s3_auth *auth;
    struct qr_s3_profile profile;
};
/* Read the headers of an object, and those of an upload's reply, which lack the size, into a struct
 * qr_web_object: a `read` of qr_web_request. */
QR_MUST_CHECK enum qr_code qr_s3_read_object(void *ctx, const struct qr_web_reply *reply,
                                             struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_s3_read_stored(void *ctx, const struct qr_web_reply *reply,
                                             struct qr_err *err);
/* Appends ".../NAME". */
void qr_s3_object_url(const struct qr_bucket *b, const char *name, struct qr_buf *ret);
/* True when the error reply has one of the codes (NULL-terminated). */
bool qr_s3_is_error(const struct qr_web_reply *reply, const char *const *codes);

/* Functions of struct qr_bucket_api and struct qr_web_api. */
QR_MUST_CHECK enum qr_code qr_s3_sign(struct qr_bucket *b, const struct qr_web_call *c,
                                      struct qr_bucket_request *req, struct qr_err *err);
bool qr_s3_renew(struct qr_bucket *b, const struct qr_web_request *req,
                 const struct qr_web_reply *reply);
bool qr_s3_retryable(const struct qr_web_reply *reply);
void qr_s3_error_code(struct qr_bytes body, char *ret, size_t bytes);
enum qr_code qr_s3_refused(void *bucket, const struct qr_web_call *c,
                           const struct qr_web_reply *reply, struct qr_err *err);

#endif
