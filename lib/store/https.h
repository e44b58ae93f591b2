/* store/https.h — read-only files of any web server: data, weights, jobs.
 *
 * Requests  get: one GET; a broken transfer is resumed by Range when the server sent an ETag, else
 *           restarted. A reply needs Content-Length or chunked encoding: without both it is
 *           rejected, since a truncated reply could not be detected. With both, the chunks count
 *           and Content-Length does not. Compressed replies are neither requested nor accepted. A
 *           reply without a size is limited to 1 GiB. get_version: by the content's digest. Other
 *           operations: UNIMPLEMENTED.
 * URLs      https://host[:port]/path?query; http:// on this machine only (localhost, 127.0.0.0/8,
 *           [::1]). At most 10 redirects are followed, never from https to http.
 * TLS       the system's CAs, or those of SSL_CERT_FILE. Proxies by libcurl's variables
 *           (https_proxy, no_proxy); none for this machine.
 * Auth      a bearer token for a host, from a file of lines "HOST TOKEN" or "HOST:PORT TOKEN" that
 *           is read for each request. The token goes to that host alone, also after a redirect.
 * Retries   408, 429, 5xx and broken connections for 2 minutes since the last progress.
 * Secrets   messages hold no query, which may be a signature, and no token.
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
/* Sets the options of https:// URLs; copied. */
void qr_https_configure(const struct qr_https_options *options);

/* Opens a web server; sends no request.
 *
 * Args:     url        of any file of the server
 *           web        HTTP client, owned by the store, also on failure; NULL: libcurl
 *           ret_name   name of the file in the store: path after the first slash, with the query;
 *                      heap
 * Errors:   INVALID_ARGUMENT (the message has the redacted URL)
 */
QR_MUST_CHECK enum qr_code qr_store_https_new(const char *url, const struct qr_https_options *opt,
                                              struct qr_web *web, struct qr_store **ret,
                                              char **ret_name, struct qr_err *err);
/* Finds the token for "host:port" in the text of a token file.
 *
 * Args:     ret   "Authorization: Bearer TOKEN" (heap), or NULL when the file has no such host
 * Errors:   INVALID_ARGUMENT (malformed: the message has the line number)
 */
QR_MUST_CHECK enum qr_code qr_https_token(struct qr_bytes file, const char *host, char **ret,
                                          struct qr_err *err);

#endif
