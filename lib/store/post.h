/* store/post.h — sends a notification to an HTTP server, or asks it: one request in bounded time,
 * without retries.
 *
 * Usage     qr_poster_new; qr_poster_send for each notification; qr_poster_free.
 * TLS       by the CAs of a file, or the system's. After a failure the connection is rebuilt, so a
 *           replaced CA file takes effect.
 * Secrets   the token file is read for each request because Kubernetes renews it in place. Messages
 *           hold the host name and, after a rejection, status and reason; never a path or token.
 * Threads   a poster belongs to one thread.
 */
#ifndef QR_STORE_POST_H
#define QR_STORE_POST_H

#include "base/bytes.h"
#include "base/err.h"

/* Borrowed for the call. */
struct qr_post {
    const char *method, *url; /* "POST" */
    const char *type;         /* content type, "application/json"; NULL: without a body */
    const char *token_file;   /* NULL: no token */
    const char *ca_file;      /* NULL: the system's CAs */
    int64_t timeout_ms;       /* of the whole request */
    bool direct;              /* bypass any proxy, as requests to this machine do */
    struct qr_buf *reply;     /* receives the body of a success; NULL: ignored */
};

struct qr_web;
struct qr_poster;
/* web: creates the HTTP client; NULL: libcurl. */
struct qr_poster *qr_poster_new(struct qr_web *(*web)(void));
/* NULL is fine. */
void qr_poster_free(struct qr_poster *p);

/* Sends one request.
 *
 * Args:     body   request body, borrowed for the call
 * Errors:   UNAUTHENTICATED (401, TLS verification, no token in the token file), PERMISSION_DENIED
 *           (403), NOT_FOUND (404), ABORTED (409), UNAVAILABLE (no reply, 408, 429, 5xx),
 *           FAILED_PRECONDITION (another status), DATA_LOSS (a reply above 1 MiB); the file
 *           system's for the token file
 */
QR_MUST_CHECK enum qr_code qr_poster_send(struct qr_poster *p, const struct qr_post *post,
                                          struct qr_bytes body, struct qr_err *err);

/* Returns scheme and host of a URL (heap), for messages: user, path and query may be secrets.
 * Accepts any text. */
char *qr_post_url_redacted(const char *url);

/* Copies the message of a Kubernetes reply, {"message": ...}: printable characters, truncated to
 * `bytes` including the NUL; "" when the reply has none. */
void qr_post_reason(struct qr_bytes body, char *ret, size_t bytes);

#endif
