/* link/link_grpc_setup.c — arguments of gRPC channels and servers, and the ports of servers. Start
 * reading at channel_args(). */
#include <errno.h>
#include <grpc/support/time.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "link/link.h"
#include "link/link_grpc_parts_impl.h"

enum {
    MAX_ARGS = 20,
    MAX_STREAMS = 2,
    MAX_METADATA_BYTES = 4 << 10,
    READ_BYTES = 256 << 10,
    HANDSHAKE_MS = 10000,
    IDLE_MS = 30000
};

/* Without the BDP probe, the window of a connection stays at 64 KB: every longer chunk stalls once,
 * until the peer has released the rest. With the probe the window soon grows to 4 MB, which links
 * of small messages do not need. */
static size_t channel_args(bool wide, int attempt_ms, grpc_arg ret[MAX_ARGS]) {
    static char local_pool[] = GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL,
                retries[] = GRPC_ARG_ENABLE_RETRIES, reuseport[] = GRPC_ARG_ALLOW_REUSEPORT,
                dns[] = GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS,
                first[] = GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
                least[] = GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                most[] = GRPC_ARG_MAX_RECONNECT_BACKOFF_MS,
                receive[] = GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH,
                proxy[] = GRPC_ARG_ENABLE_HTTP_PROXY,
                config[] = GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION,
                probe[] = GRPC_ARG_HTTP2_BDP_PROBE, read[] = GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE;
#define INTEGER(k, v)                                                                              \
    { .type = GRPC_ARG_INTEGER, .key = (k), .value.integer = (v) }
    const grpc_arg args[] = {
        INTEGER(local_pool, 1), /* two channels to one address are two connections */
        /* The retry filter would keep references to bodies and send them again. */
        INTEGER(retries, 0),
        INTEGER(reuseport, 0), /* otherwise two servers share one port without an error */
        /* A pod that restarts at another address is found within seconds, not 30. */
        INTEGER(dns, 500), INTEGER(first, 50),
        INTEGER(least, attempt_ms), /* in effect the timeout of one attempt to connect */
        INTEGER(most, 1000), INTEGER(receive, QR_LINK_MAX_MESSAGE + (64 << 10)),
        INTEGER(proxy, 0),  /* peers are reached directly, whatever http_proxy says */
        INTEGER(config, 1), /* no TXT queries */
        INTEGER(probe, wide),
        INTEGER(read, READ_BYTES), /* one chunk, processed while it is in the cache */
    };
#undef INTEGER
    memcpy(ret, args, sizeof args);
    return sizeof args / sizeof *args;
}

grpc_channel *link_grpc_channel(const char *address, const struct qr_link_tls *tls, bool wide,
                                int attempt_ms) {
    grpc_arg list[MAX_ARGS];
    grpc_channel_args args = {.num_args = channel_args(wide, attempt_ms, list), .args = list};
    grpc_channel_credentials *creds =
        tls ? link_grpc_tls_channel(tls) : grpc_insecure_credentials_create();
    char *target = qr_xasprintf("dns:///%s", address);
    grpc_channel *channel = grpc_channel_create(target, creds, &args);
    free(target);
    if (!tls) grpc_channel_credentials_release(creds);
    return channel;
}

/* A server's arguments beside those of a channel: limits for unknown peers. */
static size_t server_args(grpc_resource_quota *quota, bool wide, grpc_arg ret[MAX_ARGS]) {
    static char streams[] = GRPC_ARG_MAX_CONCURRENT_STREAMS,
                metadata[] = GRPC_ARG_MAX_METADATA_SIZE,
                handshake[] = GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                idle[] = GRPC_ARG_MAX_CONNECTION_IDLE_MS, memory[] = GRPC_ARG_RESOURCE_QUOTA,
                strikes[] = GRPC_ARG_HTTP2_MAX_PING_STRIKES;
    const grpc_arg more[] = {
        {.type = GRPC_ARG_INTEGER, .key = streams, .value.integer = MAX_STREAMS},
        {.type = GRPC_ARG_INTEGER, .key = metadata, .value.integer = MAX_METADATA_BYTES},
        {.type = GRPC_ARG_INTEGER, .key = handshake, .value.integer = HANDSHAKE_MS},
        {.type = GRPC_ARG_INTEGER, .key = idle, .value.integer = IDLE_MS},
        /* 0: no limit for PINGs. For a peer that exceeds a limit, gRPC 1.51 queues a GOAWAY and an
         * error of 300 bytes for each PING, and keeps them all while the peer does not read. */
        {.type = GRPC_ARG_INTEGER, .key = strikes, .value.integer = 0},
        {.type = GRPC_ARG_POINTER,
         .key = memory,
         .value.pointer = {quota, grpc_resource_quota_arg_vtable()}},
    };
    size_t n = channel_args(wide, 0, ret), n_more = sizeof more / sizeof *more;
    QR_ASSERT(n + n_more <= MAX_ARGS);
    memcpy(ret + n, more, sizeof more);
    return n + n_more;
}

/* gRPC requires that a server is started and shut down before it is destroyed. */
static void destroy_unused_server(grpc_server *server) {
    grpc_completion_queue *cq = grpc_completion_queue_create_for_pluck(NULL);
    grpc_server_register_completion_queue(server, cq, NULL);
    grpc_server_start(server);
    grpc_server_shutdown_and_notify(server, cq, server);
    grpc_completion_queue_pluck(cq, server, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    grpc_server_destroy(server);
    grpc_completion_queue_shutdown(cq);
    grpc_completion_queue_destroy(cq);
}

grpc_server *link_grpc_server(const char *address, const struct qr_link_tls *tls,
                              grpc_resource_quota *quota, bool wide,
                              struct link_grpc_acceptor *acceptor, int *ret_port) {
    grpc_arg list[MAX_ARGS];
    grpc_channel_args args = {.num_args = server_args(quota, wide, list), .args = list};
    grpc_server_credentials *creds =
        tls ? link_grpc_tls_server(tls) : grpc_insecure_server_credentials_create();
    grpc_server *server = grpc_server_create(&args, NULL);
    *ret_port = grpc_server_add_http2_port(server, address, creds);
    if (!tls) grpc_server_credentials_release(creds);
    if (*ret_port <= 0) {
        destroy_unused_server(server);
        return NULL;
    }
    link_grpc_acceptor_register(acceptor, server);
    grpc_server_start(server);
    link_grpc_acceptor_open(acceptor, server, *ret_port);
    return server;
}

enum qr_code link_grpc_address_check(const char *address, struct qr_err *err) {
    const char *colon = strrchr(address, ':');
    if (colon && colon != address && colon[1] &&
        strspn(colon + 1, "0123456789") == strlen(colon + 1))
        return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT, "listen address '%s' is not host:port", address);
}

/* Binds the port again to get the reason: gRPC reports only that it could not be bound. */
static int bind_errno(const char *host, const char *port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list = NULL;
    if (getaddrinfo(host, port, &hints, &list) != 0) return EADDRNOTAVAIL;
    int sys = 0, yes = 1;
    for (struct addrinfo *a = list; a && !sys; a = a->ai_next) {
        int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE)) sys = errno;
        if (fd < 0) continue;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        if (bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, 1) != 0) sys = errno;
        close(fd);
    }
    freeaddrinfo(list);
    return sys;
}

enum qr_code link_grpc_listen_failed(const char *address, struct qr_err *err) {
    const char *colon = strrchr(address, ':');
    bool bracketed = address[0] == '[' && colon > address + 1 && colon[-1] == ']';
    char *host =
        qr_xstrndup(address + bracketed, (size_t)(colon - address) - 2 * (size_t)bracketed);
    int sys = bind_errno(host, colon + 1);
    free(host);
    if (sys == EADDRINUSE && strcmp(colon, ":0") == 0)
        return qr_fail(err, QR_UNAVAILABLE, "cannot listen on %s: no port is free", address);
    if (sys == EADDRINUSE)
        return qr_fail(err, QR_ALREADY_EXISTS,
                       "cannot listen on %s: the port is in use; choose another (--port, "
                       "--data-port; 0: any), or stop the program that has it",
                       address);
    if (sys) return qr_fail_errno(err, sys, "cannot listen on %s", address);
    return qr_fail(err, QR_ALREADY_EXISTS,
                   "cannot listen on %s: the port could not be bound; choose another", address);
}
