/* group/link_grpc_impl.h — what link_grpc.c takes from link_grpc_setup.c. */
#ifndef QR_GROUP_LINK_GRPC_IMPL_H
#define QR_GROUP_LINK_GRPC_IMPL_H

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include "group/link_grpc_tls.h"

/* tls may be NULL: plaintext. */
grpc_channel *link_grpc_channel(const char *address, const struct qr_link_tls *tls); /* "dns:///address"; connects when used */
/* A started server. *ret_port <= 0: the port could not be bound, and the server is of no use but must be shut down. */
grpc_server *link_grpc_server(const char *address, const struct qr_link_tls *tls, grpc_resource_quota *quota, grpc_completion_queue *cq, int *ret_port);
/* Why that was: asked from the system, since gRPC does not say. */
enum qr_code link_grpc_listen_failed(const char *address, struct qr_err *err);

/* link_grpc_tls.c. Borrowed. */
grpc_channel_credentials *link_grpc_tls_channel(const struct qr_link_tls *tls);
grpc_server_credentials *link_grpc_tls_server(const struct qr_link_tls *tls);
void link_grpc_log_hook(void); /* gRPC's log lines go nowhere but into our counters */

#endif
