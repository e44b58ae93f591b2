/* store/gcs.h — Google Cloud Storage as a store: the JSON API over libcurl, with retries, checks
 * and credentials.
 *
 * Usage     qr_gcs_configure once; then qr_store_gcs_new for each bucket, or qr_store_resolve.
 * Requests  put: created or replaced by generation, multipart up to 8 MiB, resumable above, checked
 *           against the object's own size and crc32c; a success whose reply was lost is recognized
 *           by the write id in the object's metadata. get: by generation, resumed by Range after
 *           each break, as stored (a gzip object of another program is not decompressed), crc32c
 *           checked.
 * Retries   408, 429, 5xx, broken connections and successes with a malformed body (truncated,
 *           empty, not JSON; those of token servers too) are retried with full jitter for
 *           deadline_ns since the last progress (then UNAVAILABLE). Every other error is final and
 *           says what to do.
 * Auth      in this order: the credentials file, gcloud's own file, the metadata server. An
 *           emulator (emulator_host) gets no token, unless metadata_host is set. Tokens, keys and
 *           upload sessions appear in no message.
 * Threads   one store, one thread at a time. Source: cloud.google.com/storage/docs/json_api,
 *           /docs/retry-strategy, /docs/resumable-uploads.
 */
#ifndef QR_STORE_GCS_H
#define QR_STORE_GCS_H

#include <stdbool.h>

#include "store/store.h"
#include "store/web/web.h"

/* Borrowed for the store's life; the all-zero value means "not configured". Texts may be NULL. */
struct qr_gcs_options {
    const char *emulator_host; /* STORAGE_EMULATOR_HOST: "host:port" or a URL */
    /* replaces https://storage.googleapis.com, with credentials; for tests */
    const char *endpoint;
    const char *credentials;   /* GOOGLE_APPLICATION_CREDENTIALS: a file */
    const char *gcloud_dir;    /* the directory of application_default_credentials.json */
    const char *metadata_host; /* GCE_METADATA_HOST: "host:port"; NULL: metadata.google.internal */
    bool no_metadata;          /* NO_GCE_CHECK */
    const char *extra_header;  /* sent with every storage request: names a fault test */
    struct qr_web_waits waits;
};

/* Sets the options of gs:// URLs; copied. qr_store_configure passes those of the environment, tests
 * pass their own. */
void qr_gcs_configure(const struct qr_gcs_options *options);
/* Returns gs://BUCKET/NAME (heap). */
char *qr_gcs_url(const char *bucket, const char *name);

/* Opens a bucket; sends no request.
 *
 * Args:     http   HTTP client, owned by the store, also on failure; NULL: libcurl
 * Errors:   INVALID_ARGUMENT (not a bucket name)
 */
QR_MUST_CHECK enum qr_code qr_store_gcs_new(const char *bucket, const struct qr_gcs_options *opt,
                                            struct qr_web *http, struct qr_store **ret,
                                            struct qr_err *err);

#endif
