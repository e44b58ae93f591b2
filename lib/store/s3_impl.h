/* store/s3_impl.h — the parts of the S3 client: its requests. */
#ifndef QR_STORE_S3_IMPL_H
#define QR_STORE_S3_IMPL_H

#include "store/s3.h"
#include "store/web/bucket.h"

/* ---- one store ---- */

struct qr_s3 {
    struct qr_store store;
    struct qr_s3_options opt;
    char *bucket, *region;
    char *base, *host; /* base: of the bucket, "https://host/bucket" or "https://bucket.host" */
    struct qr_web *web;
    struct qr_s3_auth *auth;
    struct qr_s3_profile profile;
    struct qr_web_bucket web_bucket;
};
struct qr_s3_object {
    uint64_t size;
    char etag[QR_WEB_TEXT_BYTES], write_id[QR_WEB_ID_BYTES];
    bool has_crc32c;
    uint32_t crc32c;
};
/* Reads the headers of an object into a struct qr_s3_object: a `read` of qr_web_request. */
QR_MUST_CHECK enum qr_code qr_s3_read_object(void *ctx, const struct qr_web_reply *reply,
                                             struct qr_err *err);

/* Signs each attempt; renews rejected keys once. */
extern const struct qr_web_api qr_s3_api;
/* Message and code for an error status. */
enum qr_code qr_s3_refused(const struct qr_s3 *s, const struct qr_web_call *c,
                           const struct qr_web_reply *reply, struct qr_err *err);
/* Appends ".../NAME". */
void qr_s3_object_url(const struct qr_s3 *s, const char *name, struct qr_buf *ret);

#endif
