/* store/bucket_url_impl.h — what the kinds of stores on other machines have in common:
 * their URLs, and what is read from the environment. */
#ifndef QR_STORE_BUCKET_URL_IMPL_H
#define QR_STORE_BUCKET_URL_IMPL_H

#include "base/log.h"
#include "store/store.h"
#include "store/web/web.h"

/* NULL: it is not there, or empty. */
const char *qr_bucket_given(char *const *environment, const char *name);
/* A variable that says yes or no; what is neither, or not there, says no. */
bool qr_bucket_switch(char *const *environment, const char *name);
/* How this process waits, by its own clocks; log: borrowed. */
struct qr_web_waits qr_bucket_waits(bool (*stopping)(void), const struct qr_log *log);

/* waits: as configured (FAILED_PRECONDITION, naming the service, where it is not); own, where it is
 * not NULL, takes its place. */
QR_MUST_CHECK enum qr_code qr_bucket_waits_of(const char *url, const char *service,
                                              const struct qr_store_waits *own,
                                              struct qr_web_waits *waits, struct qr_err *err);
/* SCHEME://BUCKET/NAME, and those waits. *ret_bucket: heap; *ret_name: in the URL. */
QR_MUST_CHECK enum qr_code qr_bucket_url(const char *url, const char *service,
                                         const struct qr_store_waits *own,
                                         struct qr_web_waits *waits, char **ret_bucket,
                                         const char **ret_name, struct qr_err *err);

#endif
