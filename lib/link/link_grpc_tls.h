/* link/link_grpc_tls.h — mutual TLS for the gRPC link: verification of peers, and logging of
 * rejected ones.
 *
 * Usage     qr_link_tls_new; pass it to each link; qr_link_tls_free after the links.
 * Peers     Both ends of a connection present a certificate, in TLS 1.3 or 1.2. A peer is accepted
 *           when its certificate was issued by the CA in the file, is valid now, and has the same
 *           identity as the own one (certificate/certificate.h). The dialed name or address is not
 *           compared, since pods move. A certificate of another job is rejected also when the same
 *           CA issued it.
 * Files     are reloaded twice a second. A new connection uses a renewed pair within two seconds;
 *           an open one outlives the certificate that opened it. Invalid files (empty, incomplete,
 *           of another key, expired) are logged once and ignored: the last valid certificate and
 *           the last valid CA stay in use.
 * Rejected  connections are counted by reason (QR_TLS_REFUSED_...) and logged, first one line for
 *           each reason and then at growing intervals (10 s, doubling to 10 min).
 * Threads   new and free from one thread; gRPC's threads do the rest.
 */
#ifndef QR_LINK_LINK_GRPC_TLS_H
#define QR_LINK_LINK_GRPC_TLS_H

#include "base/clock.h"
#include "base/log.h"
#include "certificate/certificate.h"

struct qr_link_tls_options {
    struct qr_certificate_files files;
    const struct qr_clock *clock, *wall; /* wall: checks the validity of certificates */
    const struct qr_log *log;            /* outlives all links; NULL is fine */
};
struct qr_link_tls;
/* Loads the certificates and starts the thread that reloads them. Fork before, not after.
 *
 * Errors:   INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED (the message names the file),
 *           UNAVAILABLE as qr_certificate_check
 */
QR_MUST_CHECK enum qr_code qr_link_tls_new(const struct qr_link_tls_options *opt,
                                           struct qr_link_tls **ret, struct qr_err *err);
/* After the links that use it. NULL is fine. */
void qr_link_tls_free(struct qr_link_tls *tls);
/* The content of the files at the start, borrowed. */
const struct qr_certificate_own *qr_link_tls_own(const struct qr_link_tls *tls);

#endif
