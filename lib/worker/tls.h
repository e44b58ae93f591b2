/* worker/tls.h — the certificates that the settings name: --tls-dir DIR (tls.crt, tls.key, ca.crt:
 * a Kubernetes TLS Secret as it is mounted), or --tls-cert, --tls-key and --tls-ca, which go
 * before it.
 *
 * Logs      whose certificate it is, and until when; a warning in its last day. Never a key.
 */
#ifndef QR_WORKER_TLS_H
#define QR_WORKER_TLS_H

#include "link/link_grpc_tls.h"
#include "worker/settings.h"

#define QR_TLS_BEGIN_NS INT64_C(60000000000)

/* Do the settings name certificates? */
bool qr_tls_given(const struct qr_settings *s);
/* Can they serve? INVALID_ARGUMENT and the like with a sentence that names the file, or the setting
 * that is missing. Only when given. */
QR_MUST_CHECK enum qr_code qr_tls_check(const struct qr_settings *s, struct qr_certificate_own *ret,
                                        struct qr_err *err);
/* Waits up to QR_TLS_BEGIN_NS for a certificate that begins soon (a clock that is ahead made it),
 * looking once a second, by this clock and this sleep. UNAVAILABLE when it still has not begun, and
 * begins within ten minutes; else as qr_tls_check. Only when given. */
QR_MUST_CHECK enum qr_code qr_tls_await(const struct qr_settings *s, const struct qr_clock *wall,
                                        void (*sleep_ns)(int64_t ns), const struct qr_log *log,
                                        struct qr_certificate_own *ret, struct qr_err *err);
/* That, for links. *ret NULL when none are given. log is borrowed until qr_link_tls_free. */
QR_MUST_CHECK enum qr_code qr_tls_open(const struct qr_settings *s, const struct qr_log *log,
                                       struct qr_link_tls **ret, struct qr_err *err);

#endif
