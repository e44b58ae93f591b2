/* link/link_grpc.h — the link over gRPC: what runs between pods.
 *
 * One bidirectional stream ("/qring.Link/Stream") per connection, on a channel of its own; one
 * server and one completion queue per link. Messages are gRPC messages without further wrapping. A
 * link that listens has a thread that takes incoming streams, and cuts connections that open too
 * many or send more than messages. No keepalive: heartbeats decide who is alive. Peers' names are
 * "dns:///host:port", resolved again after a failure (at most every 500 ms), and when a dial has
 * come to nothing for 10 s (without a door: 30 s). Who is not found so is asked for by resolver.h
 * too. "0.0.0.0:port" and "[::]:port" both serve IPv4 and IPv6.
 * Process   GRPC_POLL_STRATEGY=poll must be in the environment before the first link is made:
 *           otherwise two links of a process steal each other's events. Fork before the first link
 *           is made, not after.
 * Memory    bodies of more than 16 KiB are sent without a copy, and long messages are given to an
 *           owner who takes pieces as they came. Up to 8 MiB of the C library's memory stay with
 *           the process (mallopt) where they would go back and forth with every long message.
 * Windows   a link without a door lets a peer send up to 4 MiB before it has read them; one with a
 *           door, for small messages, 64 KiB.
 */
#ifndef QR_LINK_LINK_GRPC_H
#define QR_LINK_LINK_GRPC_H

#include "base/clock.h"
#include "base/log.h"
#include "link/link.h"
#include "link/link_grpc_tls.h"

/* clock: CLOCK_MONOTONIC (poll's deadlines are handed to gRPC as such). Never NULL. tls: outlives
 * the link; NULL: plaintext. free closes every connection, waiting about 250 ms for peers that do
 * not answer. */
struct qr_link *qr_link_grpc_new(const struct qr_clock *clock, const struct qr_link_tls *tls);
/* The same, where poll must return in time whatever callers do: another thread of the link
 * (GRPC_POLL_STRATEGY=poll) accepts connections, shakes hands and reads. A message takes some 10 us
 * longer. log: gets an error when no connection can be accepted any more; outlives the link; NULL:
 * none. */
struct qr_link *qr_link_grpc_new_with_acceptor(const struct qr_clock *clock,
                                               const struct qr_link_tls *tls,
                                               const struct qr_log *log);

#endif
