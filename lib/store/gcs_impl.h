/* store/gcs_impl.h — the parts of the Cloud Storage client: requests, credentials, uploads. */
#ifndef QR_STORE_GCS_IMPL_H
#define QR_STORE_GCS_IMPL_H

#include "store/gcs.h"
#include "store/web/bucket.h"

enum { QR_GCS_CHUNK_BYTES = 8 << 20 };

/* ---- credentials ---- */

struct qr_gcs_auth;
/* Borrows both arguments; sends no request. */
struct qr_gcs_auth *qr_gcs_auth_new(const struct qr_gcs_options *opt, struct qr_web *http);
void qr_gcs_auth_free(struct qr_gcs_auth *a); /* NULL is fine */
/* *ret: "Authorization: Bearer …" (borrowed until the next call), or NULL when the server needs no
 * token. UNAVAILABLE: retry. */
QR_MUST_CHECK enum qr_code qr_gcs_auth_header(struct qr_gcs_auth *a, const char **ret,
                                              struct qr_err *err);
void qr_gcs_auth_drop(struct qr_gcs_auth *a); /* forgets a token that was rejected */

/* ---- one store ---- */

struct qr_gcs {
    struct qr_store store;
    struct qr_gcs_options opt;
    char *bucket, *base; /* base: scheme and host without a trailing slash */
    struct qr_web *http;
    struct qr_gcs_auth *auth;
    struct qr_web_bucket web_bucket;
};
struct qr_gcs_object {
    uint64_t size, generation;
    uint32_t crc32c;
    char write_id[QR_WEB_ID_BYTES];
};

/* One attempt: see struct qr_web_api. */
QR_MUST_CHECK enum qr_code qr_gcs_attempt(struct qr_gcs *g, const struct qr_web_call *c,
                                          const struct qr_web_request *req,
                                          struct qr_web_reply *ret, struct qr_err *err);
/* Message and code for an error status. */
enum qr_code qr_gcs_refused(const struct qr_gcs *g, const struct qr_web_call *c,
                            const struct qr_web_reply *reply, struct qr_err *err);
/* Parses the description of an object into a struct qr_gcs_object: a `read` of qr_web_request. */
QR_MUST_CHECK enum qr_code qr_gcs_read_object(void *ctx, const struct qr_web_reply *reply,
                                              struct qr_err *err);
/* Copies the reason of an error body, truncated and printable; "" when there is none. */
void qr_gcs_error_text(struct qr_bytes body, char *ret, size_t bytes);
/* True when the body is a JSON error of this API. */
bool qr_gcs_is_error(struct qr_bytes body);

/* Appends ".../o/NAME". */
void qr_gcs_object_url(const struct qr_gcs *g, const char *name, struct qr_buf *ret);
/* Uploads under ifGenerationMatch.
 *
 * Args:     generation   the one to replace; 0: create
 *           ret_status   200: *ret is the object as the server describes it. 412: the object has
 *                        another generation now, or an earlier attempt succeeded. 400: the checksum
 *                        did not match, or the request was rejected (err has the reason)
 */
QR_MUST_CHECK enum qr_code qr_gcs_upload(struct qr_gcs *g, const char *name,
                                         struct qr_bytes content, uint64_t generation,
                                         const char *write_id, struct qr_gcs_object *ret,
                                         int *ret_status, struct qr_err *err);

#endif
