/* store/s3.h — S3 as a store: AWS, MinIO, Ceph, R2 and other servers with the S3 REST API.
 *
 * Usage     qr_store_s3_new for each bucket, or qr_store_configure once and qr_store_resolve.
 * Requests  put: one request (above 5 GiB INVALID_ARGUMENT, and nothing is sent), create-only by
 *           If-None-Match, replaced by If-Match; signed with the SHA-256 of the bytes and checked
 *           by their crc32c; a success whose reply was lost is recognized by the write id in the
 *           object's metadata. get: by ETag, resumed by Range after each break; the size is
 *           checked, and the crc32c of objects that have one (all that qring wrote, and those that
 *           other programs stored with that checksum). swap: by the ETag whose digest is the
 *           version. check_writable writes and removes an object, and tries the server's
 *           conditional writes: UNIMPLEMENTED when the server ignores them.
 * Retries   as gcs.h; also 409 of conflicting concurrent requests, and S3's 400 of an upload that
 *           was too slow. 501 is final.
 * Address   BUCKET.s3.REGION.amazonaws.com, or the configured endpoint. Path-style at an endpoint,
 *           unless the profile has addressing_style = virtual, and on AWS for names with dots.
 * Auth      store/aws/aws.h. Requests are signed there: libcurl 7.88 neither sorts a query nor
 *           signs a payload.
 * Threads   one store, one thread at a time. Source: docs.aws.amazon.com/AmazonS3/latest/API,
 *           docs.aws.amazon.com/sdkref/latest/guide.
 */
#ifndef QR_STORE_S3_H
#define QR_STORE_S3_H

#include "store/aws/aws.h"
#include "store/store.h"

/* Opens a bucket; sends no request.
 *
 * Args:     web   HTTP client, owned by the store, also on failure; NULL: libcurl
 * Errors:   INVALID_ARGUMENT (not a bucket name, region or endpoint); those of
 *           qr_s3_profile_read
 */
QR_MUST_CHECK enum qr_code qr_store_s3_new(const char *bucket, const struct qr_s3_options *opt,
                                           struct qr_web *web, struct qr_store **ret,
                                           struct qr_err *err);

#endif
