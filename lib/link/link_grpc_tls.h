/* link/link_grpc_tls.h — mutual TLS for the gRPC link: who may connect, and what is said of those
 * who may not.
 *
 * What      Both ends of a connection show a certificate, in TLS 1.3 or 1.2. A peer is taken when
 *           its certificate was issued by the CA in the file, is valid now, and has the identity of
 *           ours (cluster/certificate.h): by whatever name or address it was dialled, since pods
 *           move; a certificate of another job is refused also when the same CA issued it.
 * Files     are read twice a second; a new connection uses a renewed pair two seconds later at
 *           most, an open one outlives the certificate that opened it. Files that cannot serve
 *           (empty, half-written, of another key, expired) are logged once, and change nothing: the
 *           last good certificate and the last good CA stay in use.
 * Refusals  are counted by reason (QR_TLS_REFUSED_...) and logged, one line for each reason and
 *           then ever fewer.
 * Threads   new and free from one thread; the rest of the work is on gRPC's.
 */
#ifndef QR_LINK_LINK_GRPC_TLS_H
#define QR_LINK_LINK_GRPC_TLS_H

#include "base/clock.h"
#include "base/log.h"
#include "cluster/certificate.h"

struct qr_link_tls_options {
    struct qr_certificate_files files;
    const struct qr_clock *clock, *wall; /* wall: against which certificates are valid */
    const struct qr_log *log;            /* outlives all links; NULL is fine */
};
struct qr_link_tls;
/* INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED with a sentence about the file that cannot serve;
 * UNAVAILABLE as qr_certificate_check. Fork before, not after. */
QR_MUST_CHECK enum qr_code qr_link_tls_new(const struct qr_link_tls_options *opt,
                                           struct qr_link_tls **ret, struct qr_err *err);
/* After the links that use it. NULL is fine. */
void qr_link_tls_free(struct qr_link_tls *tls);
/* What the files held at the start. */
const struct qr_certificate_own *qr_link_tls_own(const struct qr_link_tls *tls);

#endif
