/* store/https.h — files of any web server, read only: data, weights, jobs.
 *
 * What      get: one GET; one that breaks off goes on by Range where the server gave an ETag, else
 *           begins again. Whole only by Content-Length or chunks: a reply without both is refused,
 *           since its end could be a cut. Nothing is asked for packed, and what comes packed is
 *           refused. What does not say its size has at most 1 GiB. get_version: by the content's
 *           digest. Nothing else: UNIMPLEMENTED.
 * Where     https://host[:port]/path?query; http:// on this machine alone (localhost, 127.0.0.0/8,
 *           [::1]). Redirects are followed, at most 10, never from https to http.
 * Whom      the system's CAs, or those of SSL_CERT_FILE. Proxies by libcurl's variables
 *           (https_proxy, no_proxy), for this machine none.
 * Auth      a bearer token for a host, from a file of lines "HOST TOKEN" or "HOST:PORT TOKEN" that
 *           is read at each request: it goes to that host alone, also when a redirect leads there.
 * Waits     408, 429, 5xx and broken connections for 2 minutes since the last progress.
 * Secrets   messages have no query, which may be a signature, and no token.
 * Threads   one store, one thread at a time. Source: RFC 9110, RFC 6750.
 */
#ifndef QR_STORE_HTTPS_H
#define QR_STORE_HTTPS_H

#include "store/store.h"
#include "store/web/web.h"

/* Borrowed for the store's life; texts may be NULL. */
struct qr_https_options {
    const char *tokens;  /* QRING_HTTPS_TOKENS: a file */
    const char *ca_file; /* SSL_CERT_FILE */
    struct qr_web_waits waits;
};
/* What such URLs are opened with, as gcs.h says. */
void qr_https_configure(const struct qr_https_options *options);

/* url: of any file of that server; names are what stands behind its first slash, with a query.
 * INVALID_ARGUMENT: the sentence shows it as a message may have it. web: as gcs.h. */
QR_MUST_CHECK enum qr_code qr_store_https_new(const char *url, const struct qr_https_options *opt,
                                              struct qr_web *web, struct qr_store **ret,
                                              char **ret_name, struct qr_err *err);
/* The token of a file's text for "host:port", as a header; NULL: it has none. Heap.
 * INVALID_ARGUMENT: a line is none, by its number. */
QR_MUST_CHECK enum qr_code qr_https_token(struct qr_bytes file, const char *host, char **ret,
                                          struct qr_err *err);

#endif
