/* link/link_grpc_parts_impl.h — what link_grpc.c and link_grpc_listen.c take from the files
 * beside them. */
#ifndef QR_LINK_LINK_GRPC_PARTS_IMPL_H
#define QR_LINK_LINK_GRPC_PARTS_IMPL_H

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include "base/clock.h"
#include "link/link.h"

struct qr_link_tls; /* link_grpc_tls.h */

/* "dns:///address"; connects when used. tls may be NULL: plaintext. wide: for long messages.
 * attempt_ms: an attempt to connect that takes longer is given up. */
grpc_channel *link_grpc_channel(const char *address, const struct qr_link_tls *tls, bool wide,
                                int attempt_ms);
/* INVALID_ARGUMENT: not host:port */
enum qr_code link_grpc_address_check(const char *address, struct qr_err *err);
/* A started server whose streams the door takes; NULL: the port could not be bound. */
struct link_grpc_acceptor;
grpc_server *link_grpc_server(const char *address, const struct qr_link_tls *tls,
                              grpc_resource_quota *quota, bool wide,
                              struct link_grpc_acceptor *door, int *ret_port);
/* Why that was: asked from the system, since gRPC does not say. */
enum qr_code link_grpc_listen_failed(const char *address, struct qr_err *err);

void link_grpc_keep_memory(void); /* link_grpc_body.c; of the whole process */
/* link_grpc_body.c. A message of head and body; a long body is not copied, and counts as borrowed
 * until gRPC has let go of it. */
struct link_grpc_borrowed;
struct link_grpc_borrowed *link_grpc_borrowed_new(void);
void link_grpc_borrowed_release(void *borrowed); /* the link's own hold on it */
size_t link_grpc_borrowed(const struct link_grpc_borrowed *b);
grpc_byte_buffer *link_grpc_pack(struct link_grpc_borrowed *b, struct qr_bytes head,
                                 struct qr_bytes body);
/* What waits to be sent on one connection. */
enum { LINK_GRPC_QUEUE = 64 };
struct link_grpc_queue {
    grpc_byte_buffer *item[LINK_GRPC_QUEUE];
    size_t bytes[LINK_GRPC_QUEUE], all_bytes;
    unsigned first, n;
};
/* for one of so many bytes more */
bool link_grpc_queue_full(const struct link_grpc_queue *q, size_t bytes);
void link_grpc_queue_put(struct link_grpc_queue *q, grpc_byte_buffer *b, size_t bytes);
grpc_byte_buffer *link_grpc_queue_take(struct link_grpc_queue *q); /* the oldest; there is one */
void link_grpc_queue_drop(struct link_grpc_queue *q);
/* A message that came: in gRPC's own memory, or put together in bytes. Valid until b is destroyed
 * and until the next call. Where pieces are wanted (else NULL) and it has several, they are told
 * instead and the message is without bytes. */
struct link_grpc_unpacked { /* starts empty; bytes, piece: free() */
    uint8_t *bytes;
    size_t room;
    struct qr_bytes *piece;
    size_t cap;
};
struct qr_bytes link_grpc_unpack(struct link_grpc_unpacked *u, const grpc_byte_buffer *b,
                                 struct qr_pieces *ret_pieces);

/* link_grpc_guard.c. Connections to these ports that open stream after stream, or send more than
 * messages, are cut. Any thread. */
#define LINK_GRPC_CHECK_NS (25 * INT64_C(1000000))
/* while a connection without a stream sends: memory grows as fast as bytes come */
#define LINK_GRPC_CHECK_SOON_NS (4 * INT64_C(1000000))
/* unseen_bytes: may come on a connection of this port and be in none of its messages; 0: the port
 * is closed. due_ns: when the owner wants to be back from gRPC (INT64_MAX: he is); NULL: it matters
 * to nobody. Borrowed until the port is closed. */
void link_grpc_guard_port(int port, uint64_t unseen_bytes, const _Atomic int64_t *due_ns);
/* Cuts those that have sent too much; does nothing when that was a moment ago. In how many ns to
 * look again. */
int64_t link_grpc_guard_check(const struct qr_clock *clock);
/* The IP address of a call's other end; empty where it is not known. */
void link_grpc_host(grpc_call *call, char *ret, size_t cap);
/* A stream that the server of this port was given, and its connection until _over. NULL: it is to
 * be refused; a connection with too many is cut. */
struct link_grpc_caller;
struct link_grpc_caller *link_grpc_guard_stream(grpc_call *call, int port, int64_t now_ns);
/* a message that its owner was given */
void link_grpc_guard_delivered(struct link_grpc_caller *c, size_t bytes);
void link_grpc_guard_end(struct link_grpc_caller *c); /* NULL is fine, as for _seen */

/* link_grpc_acceptor.c. The incoming streams of one server at a time. reads: a thread of the door's
 * reads from the connections, else the owner does, in owner_cq. owner: a call whose queue gets the
 * events, always as successes: `tag` when there may be a stream to take, or none is asked for any
 * more. */
struct link_grpc_stream {
    grpc_call *call; /* bound to owner_cq */
    grpc_slice method;
    struct link_grpc_caller *caller;
};
enum qr_code link_grpc_acceptor_new(const struct qr_clock *clock, bool reads, grpc_call *owner,
                                    grpc_completion_queue *owner_cq, void *tag,
                                    struct link_grpc_acceptor **ret, struct qr_err *err);
/* of a server that is not started yet */
void link_grpc_acceptor_register(const struct link_grpc_acceptor *d, grpc_server *server);
/* It is started, and listens at this port. */
void link_grpc_acceptor_open(struct link_grpc_acceptor *d, grpc_server *server, int port);
/* Shuts the server down; `tag` comes to the owner when it is. It may be destroyed then, once no
 * stream is asked for. */
void link_grpc_acceptor_shutdown(struct link_grpc_acceptor *d, void *tag);
bool link_grpc_acceptor_pending(const struct link_grpc_acceptor *d);
/* The oldest stream that waits, the caller's from then on; false: none does. */
bool link_grpc_acceptor_next(struct link_grpc_acceptor *d, struct link_grpc_stream *ret);
void link_grpc_refuse(struct link_grpc_stream *s, grpc_status_code status, const char *why);
void link_grpc_acceptor_free(struct link_grpc_acceptor *d); /* after the server; NULL is fine */

/* how often a server of this process has stopped to listen; again: once more */
unsigned link_grpc_accept_failed(bool again);

/* link_grpc_tls.c. Borrowed. */
grpc_channel_credentials *link_grpc_tls_channel(const struct qr_link_tls *tls);
grpc_server_credentials *link_grpc_tls_server(const struct qr_link_tls *tls);
/* link_grpc_certificates.c. The last good content of the certificate files, read again twice a
 * second by a thread of its own. What cannot serve is logged once. */
struct link_grpc_certificates;
struct qr_link_tls_options;
struct qr_certificate_own;
/* ret_own: what the files hold now. Errors as qr_link_tls_new. */
QR_MUST_CHECK enum qr_code link_grpc_certificates_new(const struct qr_link_tls_options *opt,
                                                      struct qr_certificate_own *ret_own,
                                                      struct link_grpc_certificates **ret,
                                                      struct qr_err *err);
/* A file for gRPC to watch, for key and certificate: PEM of both. Until _free. */
const char *link_grpc_certificates_path(const struct link_grpc_certificates *c);
char *link_grpc_certificates_ca(struct link_grpc_certificates *c);  /* PEM; free(). Any thread. */
void link_grpc_certificates_stop(struct link_grpc_certificates *c); /* no log line after it */
/* After gRPC's last use of the path. */
void link_grpc_certificates_free(struct link_grpc_certificates *c);

void link_grpc_log_hook(void); /* gRPC's log lines go nowhere but into our counters */

#endif
