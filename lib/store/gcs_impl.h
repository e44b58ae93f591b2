/* store/gcs_impl.h — the parts of the Cloud Storage client: requests, credentials, uploads. */
#ifndef QR_STORE_GCS_IMPL_H
#define QR_STORE_GCS_IMPL_H

#include "store/bucket_store_impl.h"
#include "store/gcs.h"

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
bool qr_gcs_auth_drop(struct qr_gcs_auth *a); /* forgets a rejected token; false: there is none */

/* ---- one store ---- */

struct qr_gcs {
    struct qr_bucket bucket; /* base: scheme and host */
    struct qr_gcs_options opt;
    struct qr_gcs_auth *auth;
};

/* Parses the description of an object into a struct qr_web_object: a `read` of qr_web_request. */
QR_MUST_CHECK enum qr_code qr_gcs_read_object(void *ctx, const struct qr_web_reply *reply,
                                              struct qr_err *err);
/* Copies the reason of an error body, truncated and printable; "" when there is none. */
void qr_gcs_error_text(struct qr_bytes body, char *ret, size_t bytes);
/* True when the body is a JSON error of this API. */
bool qr_gcs_is_error(struct qr_bytes body);

/* Uploads under ifGenerationMatch: put of struct qr_bucket_api. */
QR_MUST_CHECK enum qr_code qr_gcs_upload(struct qr_bucket *b, const struct qr_web_call *c,
                                         struct qr_bytes content, const struct qr_web_object *only,
                                         const char *write_id, struct qr_web_object *ret,
                                         enum qr_bucket_outcome *ret_outcome, struct qr_err *err);

#endif
