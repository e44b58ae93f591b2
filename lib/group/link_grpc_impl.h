/* group/link_grpc_impl.h — what link_grpc.c takes from link_grpc_setup.c. */
#ifndef QR_GROUP_LINK_GRPC_IMPL_H
#define QR_GROUP_LINK_GRPC_IMPL_H

#include <grpc/grpc.h>

#include "base/err.h"

grpc_channel *link_grpc_channel(const char *address); /* "dns:///address"; connects when used */
/* A started server. *ret_port <= 0: the port could not be bound, and the server is of no use but must be shut down. */
grpc_server *link_grpc_server(const char *address, grpc_completion_queue *cq, int *ret_port);
/* Why that was: asked from the system, since gRPC does not say. */
enum qr_code link_grpc_listen_failed(const char *address, struct qr_err *err);

#endif
