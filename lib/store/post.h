/* store/post.h — a text for a server that wants to be told: one request in bounded time, which is
 * not tried again.
 *
 * TLS       by the CAs of a file, or the system's. After a failure everything is made anew, so that
 *           a CA file that was replaced counts.
 * Secrets   the token's file is read for each request, for Kubernetes renews it in place. Messages
 *           have the host's name, and of a refusal its number and sentence; no path, no token.
 * Threads   a poster belongs to one thread.
 */
#ifndef QR_STORE_POST_H
#define QR_STORE_POST_H

#include "base/bytes.h"
#include "base/err.h"

/* Borrowed for the call. */
struct qr_post {
    const char *method, *url, *type; /* "POST"; type: of the content, "application/json" */
    const char *token_file;          /* NULL: no token */
    const char *ca_file;             /* NULL: the system's */
    int64_t timeout_ms;              /* of all of it */
};

struct qr_web;
struct qr_poster;
/* web: how connections are made; NULL: by libcurl. */
struct qr_poster *qr_poster_new(struct qr_web *(*web)(void));
/* NULL is fine. */
void qr_poster_free(struct qr_poster *p);

/* OK: it was taken (2xx). UNAUTHENTICATED: 401, or TLS; PERMISSION_DENIED 403, NOT_FOUND 404,
 * ABORTED 409, UNAVAILABLE: no answer, 408, 429, 5xx; FAILED_PRECONDITION: another status.
 * A token's file that cannot be read is what the file system says. */
QR_MUST_CHECK enum qr_code qr_poster_send(struct qr_poster *p, const struct qr_post *post,
                                          struct qr_bytes body, struct qr_err *err);

/* What messages may have of a URL: scheme and host. User, path and query may be secrets. Of any
 * text. Heap. */
char *qr_post_url_redacted(const char *url);

/* The sentence in an answer of Kubernetes' kind, {"message": ...}, printable and cut to `bytes`
 * with its end; "" where there is none. */
void qr_post_reason(struct qr_bytes body, char *ret, size_t bytes);

#endif
