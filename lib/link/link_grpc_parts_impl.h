/* link/link_grpc_parts_impl.h — the parts of the gRPC link that other files of this component call:
 * channels and servers, messages, the guard, the acceptor, TLS. */
#ifndef QR_LINK_LINK_GRPC_PARTS_IMPL_H
#define QR_LINK_LINK_GRPC_PARTS_IMPL_H

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include "base/clock.h"
#include "link/link.h"

struct qr_link_tls; /* link_grpc_tls.h */

/* Creates a channel to "dns:///address", which connects when it is used.
 *
 * Args:     tls          NULL: plaintext
 *           wide         for long messages
 *           attempt_ms   timeout of one attempt to connect
 */
grpc_channel *link_grpc_channel(const char *address, const struct qr_link_tls *tls, bool wide,
                                int attempt_ms);
/* INVALID_ARGUMENT: not host:port */
enum qr_code link_grpc_address_check(const char *address, struct qr_err *err);
/* Creates and starts a server whose streams the acceptor receives. NULL: the port could not be
 * bound. */
struct link_grpc_acceptor;
grpc_server *link_grpc_server(const char *address, const struct qr_link_tls *tls,
                              grpc_resource_quota *quota, bool wide,
                              struct link_grpc_acceptor *acceptor, int *ret_port);
/* Returns the reason why a port could not be bound: gRPC does not report one, so this asks the
 * system. */
enum qr_code link_grpc_listen_failed(const char *address, struct qr_err *err);

/* link_grpc_tls.c. As grpc_init; gRPC's log lines update counters and are otherwise discarded. */
void link_grpc_init(void);
void link_grpc_keep_memory(void); /* link_grpc_body.c; affects the whole process */
/* link_grpc_body.c. A message of head and body. A long body is not copied, and counts as borrowed
 * until gRPC releases it. */
struct link_grpc_borrowed;
struct link_grpc_borrowed *link_grpc_borrowed_new(void);
void link_grpc_borrowed_release(void *borrowed); /* drops one reference */
size_t link_grpc_borrowed(const struct link_grpc_borrowed *b);
grpc_byte_buffer *link_grpc_pack(struct link_grpc_borrowed *b, struct qr_bytes head,
                                 struct qr_bytes body);
/* The messages that wait to be sent on one connection. */
enum { LINK_GRPC_QUEUE = 64 };
struct link_grpc_queue {
    grpc_byte_buffer *item[LINK_GRPC_QUEUE];
    size_t bytes[LINK_GRPC_QUEUE], all_bytes;
    unsigned first, n;
};
/* True when a message of this size does not fit. */
bool link_grpc_queue_full(const struct link_grpc_queue *q, size_t bytes);
/* Appends a message of this size; not full. Takes ownership of b. */
void link_grpc_queue_put(struct link_grpc_queue *q, grpc_byte_buffer *b, size_t bytes);
grpc_byte_buffer *link_grpc_queue_take(struct link_grpc_queue *q); /* the oldest; not empty */
void link_grpc_queue_drop(struct link_grpc_queue *q);
/* Returns a received message: in gRPC's own memory, or joined in u->bytes. Valid until b is
 * destroyed and until the next call. With ret_pieces, a message of several pieces is not joined:
 * its bytes are NULL and *ret_pieces has the parts. */
struct link_grpc_unpacked { /* all-zero at first; free() bytes and piece */
    uint8_t *bytes;
    size_t size;
    struct qr_bytes *piece;
    size_t cap;
};
struct qr_bytes link_grpc_unpack(struct link_grpc_unpacked *u, const grpc_byte_buffer *b,
                                 struct qr_pieces *ret_pieces);

/* link_grpc_guard.c. Cuts connections to the guarded ports that open too many streams or send more
 * than messages. Any thread. */
#define LINK_GRPC_CHECK_NS (25 * INT64_C(1000000))
/* Interval while a connection without a stream sends: its memory grows with each received byte. */
#define LINK_GRPC_CHECK_SOON_NS (4 * INT64_C(1000000))
/* Starts or ends guarding a port.
 *
 * Args:     unseen_bytes   bytes that a connection may send beyond those of its messages; 0: the
 *                          port is closed
 *           due_ns         time at which the owner must be back from gRPC (INT64_MAX: it is not in
 *                          gRPC); borrowed until the port is closed; NULL: no such time
 */
void link_grpc_guard_port(int port, uint64_t unseen_bytes, const _Atomic int64_t *due_ns);
/* Cuts connections that have sent too much; does nothing when the last check was a moment ago.
 * Returns the ns until the next check. */
int64_t link_grpc_guard_check(const struct qr_clock *clock);
/* The IP address of a call's peer; empty when it is not known. */
void link_grpc_host(grpc_call *call, char *ret, size_t cap);
/* Counts a new stream of the server at this port. Returns its connection, until _end, or NULL when
 * the stream must be rejected; a connection with too many streams is cut. */
struct link_grpc_caller;
struct link_grpc_caller *link_grpc_guard_stream(grpc_call *call, int port, int64_t now_ns);
/* Counts a message that was delivered to the owner. */
void link_grpc_guard_delivered(struct link_grpc_caller *c, size_t bytes);
void link_grpc_guard_end(struct link_grpc_caller *c); /* NULL is fine, as for _delivered */

/* link_grpc_acceptor.c. Receives the incoming streams of one server at a time.
 *
 * Args:     reads      a thread of the acceptor reads from the connections; else the owner does, by
 *                      polling owner_cq
 *           owner      a call whose queue receives the events, always as successes
 *           owner_cq   the queue of owner
 *           tag        of the event: a stream may be waiting, or no stream is requested any more
 */
struct link_grpc_stream {
    grpc_call *call; /* bound to owner_cq */
    grpc_slice method;
    struct link_grpc_caller *caller;
};
enum qr_code link_grpc_acceptor_new(const struct qr_clock *clock, bool reads, grpc_call *owner,
                                    grpc_completion_queue *owner_cq, void *tag,
                                    struct link_grpc_acceptor **ret, struct qr_err *err);
/* Registers the queues; before the server starts. */
void link_grpc_acceptor_register(const struct link_grpc_acceptor *d, grpc_server *server);
/* Starts to request streams; after the server has started to listen at this port. */
void link_grpc_acceptor_open(struct link_grpc_acceptor *d, grpc_server *server, int port);
/* Shuts the server down; the owner then receives an event with `tag`. The server may be destroyed
 * after that event and once no stream is pending. */
void link_grpc_acceptor_shutdown(struct link_grpc_acceptor *d, void *tag);
bool link_grpc_acceptor_pending(const struct link_grpc_acceptor *d); /* a stream is requested */
/* Takes the oldest waiting stream; false: none. The caller owns it. */
bool link_grpc_acceptor_next(struct link_grpc_acceptor *d, struct link_grpc_stream *ret);
/* Rejects a stream with a status and a text, and frees it. */
void link_grpc_refuse(struct link_grpc_stream *s, grpc_status_code status, const char *why);
void link_grpc_acceptor_free(struct link_grpc_acceptor *d); /* after the server; NULL is fine */

/* Number of times that a server of this process has stopped listening; again: counts one more. */
unsigned link_grpc_accept_failed(bool again);

/* link_grpc_tls.c. Borrowed. */
grpc_channel_credentials *link_grpc_tls_channel(const struct qr_link_tls *tls);
grpc_server_credentials *link_grpc_tls_server(const struct qr_link_tls *tls);
/* link_grpc_certificates.c. The last valid content of the certificate files, which a thread reloads
 * twice a second. Invalid content is logged once. */
struct link_grpc_certificates;
struct qr_link_tls_options;
struct qr_certificate_own;
/* *ret_own: the current content of the files. Errors as qr_link_tls_new. */
QR_MUST_CHECK enum qr_code link_grpc_certificates_new(const struct qr_link_tls_options *opt,
                                                      struct qr_certificate_own *ret_own,
                                                      struct link_grpc_certificates **ret,
                                                      struct qr_err *err);
/* Path of the file that gRPC watches, with key and certificate in PEM. Valid until _free. */
const char *link_grpc_certificates_path(const struct link_grpc_certificates *c);
char *link_grpc_certificates_ca(struct link_grpc_certificates *c);  /* PEM; free(). Any thread. */
void link_grpc_certificates_stop(struct link_grpc_certificates *c); /* no log line after it */
/* After gRPC's last use of the path. */
void link_grpc_certificates_free(struct link_grpc_certificates *c);

#endif
