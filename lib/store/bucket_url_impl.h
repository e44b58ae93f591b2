/* store/bucket_url_impl.h — what the remote stores share: parsing of their URLs, and reading of
 * environment variables. */
#ifndef QR_STORE_BUCKET_URL_IMPL_H
#define QR_STORE_BUCKET_URL_IMPL_H

#include "base/log.h"
#include "store/store.h"
#include "store/web/web.h"

/* Fails for an operation that writes; shown: the redacted URL. */
QR_MUST_CHECK enum qr_code qr_url_read_only(const char *shown, const char *scheme,
                                            struct qr_err *err);
/* Returns an environment variable, borrowed, or NULL when it is unset or empty. */
const char *qr_bucket_given(char *const *environment, const char *name);
/* Returns a boolean environment variable; false when it is unset or malformed. */
bool qr_bucket_switch(char *const *environment, const char *name);
/* Returns the retry settings of this process, with its own clocks; log: borrowed. */
struct qr_web_waits qr_bucket_waits(bool (*stopping)(void), const struct qr_log *log);

/* Checks that waits is configured (else FAILED_PRECONDITION, naming the service), then replaces its
 * deadlines by those of own unless own is NULL. */
QR_MUST_CHECK enum qr_code qr_bucket_waits_of(const char *url, const char *service,
                                              const struct qr_store_waits *own,
                                              struct qr_web_waits *waits, struct qr_err *err);
/* Splits SCHEME://BUCKET/NAME, and applies qr_bucket_waits_of. *ret_bucket: heap; *ret_name: points
 * into the URL. */
QR_MUST_CHECK enum qr_code qr_bucket_url(const char *url, const char *service,
                                         const struct qr_store_waits *own,
                                         struct qr_web_waits *waits, char **ret_bucket,
                                         const char **ret_name, struct qr_err *err);

#endif
