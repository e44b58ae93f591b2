/* worker/tls.h — the certificates named by the settings: --tls-dir DIR (tls.crt, tls.key, ca.crt: a
 * Kubernetes TLS Secret as mounted), or --tls-cert, --tls-key and --tls-ca, which take precedence.
 *
 * Logs      identity and expiry of the certificate; a warning in its last day. Never a key.
 * Threads   the main thread.
 */
#ifndef QR_WORKER_TLS_H
#define QR_WORKER_TLS_H

#include "link/link_grpc_tls.h"
#include "worker/settings.h"

#define QR_TLS_BEGIN_NS INT64_C(60000000000)

/* Returns whether the settings name certificates. */
bool qr_tls_given(const struct qr_settings *s);
/* Checks that the certificates are usable. Call only if given.
 *
 * Errors:   INVALID_ARGUMENT and others with exit code 2: names the file, or the missing setting;
 *           UNAVAILABLE as qr_certificate_check
 */
QR_MUST_CHECK enum qr_code qr_tls_check(const struct qr_settings *s, struct qr_certificate_own *ret,
                                        struct qr_err *err);
/* Waits up to QR_TLS_BEGIN_NS for a certificate that is not valid yet (its issuer's clock is
 * ahead), checking once a second. Call only if given.
 *
 * Args:     wall      clock of the validity
 *           sleep_ns  sleeps
 * Errors:   UNAVAILABLE: still not valid, but within ten minutes; else as qr_tls_check
 */
QR_MUST_CHECK enum qr_code qr_tls_await(const struct qr_settings *s, const struct qr_clock *wall,
                                        void (*sleep_ns)(int64_t ns), const struct qr_log *log,
                                        struct qr_certificate_own *ret, struct qr_err *err);
/* Loads the certificates for links.
 *
 * Args:     log  borrowed until qr_link_tls_free
 *           ret  NULL when none are given
 */
QR_MUST_CHECK enum qr_code qr_tls_open(const struct qr_settings *s, const struct qr_log *log,
                                       struct qr_link_tls **ret, struct qr_err *err);

#endif
