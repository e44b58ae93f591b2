/* link/link_grpc.h — the link over gRPC, which pods use.
 *
 * Streams   One bidirectional stream ("/qring.Link/Stream") per connection, on a channel of its
 *           own; one server and one completion queue per link. A message is one gRPC message
 *           without further wrapping. A listening link has a thread that accepts incoming streams
 *           and cuts connections that open too many streams or send more than messages. No
 *           keepalive: heartbeats detect failed peers. "0.0.0.0:port" and "[::]:port" both serve
 *           IPv4 and IPv6.
 * Names     Peers are "dns:///host:port", resolved again after a failure (at most every 500 ms),
 *           and when a dial has not succeeded for 10 s (without an acceptor: 30 s). A name that is
 *           not found is also looked up by resolver.h.
 * Process   GRPC_POLL_STRATEGY=poll must be in the environment before the first link is created:
 *           otherwise two links of a process steal each other's events. Fork before the first link
 *           is created, not after.
 * Memory    Bodies of more than 16 KiB are sent without a copy. Up to 8 MiB of freed memory stay
 *           with the process (mallopt), instead of being returned to the system and requested again
 *           for every long message.
 * Windows   A peer may send 4 MiB ahead of the reader on a link without an acceptor, and 64 KiB on
 *           one with an acceptor, which carries small messages.
 */
#ifndef QR_LINK_LINK_GRPC_H
#define QR_LINK_LINK_GRPC_H

#include "base/clock.h"
#include "base/log.h"
#include "link/link.h"
#include "link/link_grpc_tls.h"

/* Creates a link.
 *
 * Args:     clock   CLOCK_MONOTONIC, since gRPC gets poll's deadlines
 *           tls     outlives the link; NULL: plaintext
 * Returns:  never NULL; its free closes every connection, and waits about 250 ms for peers that do
 *           not respond
 */
struct qr_link *qr_link_grpc_new(const struct qr_clock *clock, const struct qr_link_tls *tls);
/* The same, for a link whose poll must return in time whatever incoming connections do: a second
 * thread of the link accepts connections, does their handshakes and reads (needs
 * GRPC_POLL_STRATEGY=poll). A message takes about 10 us longer. log: receives an error when the
 * link cannot accept connections; outlives the link; NULL: none. */
struct qr_link *qr_link_grpc_new_with_acceptor(const struct qr_clock *clock,
                                               const struct qr_link_tls *tls,
                                               const struct qr_log *log);

#endif
