/* store/s3.h — S3 as a store: AWS, MinIO, Ceph, R2 and what else speaks its REST API.
 *
 * What      put: one request (above 5 GiB INVALID_ARGUMENT, and nothing is sent), create-only by
 *           If-None-Match, replaced by If-Match; signed with the SHA-256 of its bytes and checked
 *           by their crc32c; a success that got lost is found again by the write id in the
 *           object's metadata. get: by ETag, resumed by Range as often as it breaks, its size
 *           checked, and its crc32c where the object has one (all that qring wrote, and what
 *           others stored with that checksum). swap: by the ETag whose digest is the version.
 *           check_writable writes and removes an object, and with it tries the server's
 *           conditions: one that passes over them is UNIMPLEMENTED.
 * Waits     as gcs.h; 409 of requests that met each other and S3's 400 of an upload that was too
 *           slow are tried again too. 501 is final.
 * Where     BUCKET.s3.REGION.amazonaws.com, or the endpoint that is set: path-style there unless
 *           the profile says addressing_style = virtual, and on AWS for names with dots.
 * Auth      store/aws/aws.h. Requests are signed there: libcurl 7.88 neither sorts a query nor
 *           signs a payload.
 * Threads   one store, one thread at a time. Source: docs.aws.amazon.com/AmazonS3/latest/API,
 *           docs.aws.amazon.com/sdkref/latest/guide.
 */
#ifndef QR_STORE_S3_H
#define QR_STORE_S3_H

#include "store/aws/aws.h"
#include "store/store.h"

/* What s3:// URLs are opened with; qr_store_configure calls it with what the environment says,
 * tests with their own. Copied. */
void qr_s3_configure(const struct qr_s3_options *options);

/* INVALID_ARGUMENT for a name that no bucket can have; the files' errors. web NULL: libcurl;
 * otherwise taken over, also on failure. */
QR_MUST_CHECK enum qr_code qr_store_s3_new(const char *bucket, const struct qr_s3_options *opt,
                                           struct qr_web *web, struct qr_store **ret,
                                           struct qr_err *err);

#endif
