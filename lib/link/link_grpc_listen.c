/* link/link_grpc_listen.c — the server side of a gRPC link: its server, incoming streams, and the
 * restart of a server that has stopped listening. Start reading at link_grpc_listen(). */
#include <string.h>

#include <grpc/slice.h>

#include "base/log.h"
#include "base/mem.h"
#include "link/link_grpc_state_impl.h"

/* gRPC reads ahead of a link's owner: a message and a window of 64 KB; on a wide link that sums
 * 16 MB, up to 3.5 MB more than twice the delivered bytes. */
enum {
    MAX_ACCEPTED = 128,
    UNSEEN_BYTES = QR_LINK_MAX_MESSAGE + (256 << 10),
    UNSEEN_WIDE_BYTES = 5 << 20
};
#define REOPEN_NS (100 * INT64_C(1000000))

void link_grpc_accept(struct grpc_link *g) {
    struct link_grpc_stream s;
    if (!link_grpc_acceptor_next(g->acceptor, &s)) return;
    bool ours = grpc_slice_str_cmp(s.method, LINK_GRPC_METHOD) == 0;
    if (g->freeing || !ours || g->n_conns >= MAX_ACCEPTED) {
        link_grpc_refuse(&s, ours ? GRPC_STATUS_RESOURCE_EXHAUSTED : GRPC_STATUS_UNIMPLEMENTED,
                         "not accepted here");
        return;
    }
    struct conn *c = link_grpc_conn_new(g, false);
    c->call = s.call;
    c->caller = s.caller;
    grpc_slice_unref(s.method);
    c->mark = (grpc_metadata){.key = grpc_slice_from_static_string(LINK_GRPC_MARK),
                              .value = grpc_slice_from_static_string("1")};
    grpc_op start = {.op = GRPC_OP_SEND_INITIAL_METADATA,
                     .data.send_initial_metadata = {.count = 1, .metadata = &c->mark}};
    grpc_op status = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER,
                      .data.recv_close_on_server.cancelled = &c->cancelled};
    QR_ASSERT(link_grpc_batch(c, OP_STATUS, &status, 1) && link_grpc_batch(c, OP_START, &start, 1));
}

enum qr_code link_grpc_listen(struct qr_link *l, const char *address, unsigned *ret_port,
                              struct qr_err *err) {
    struct grpc_link *g = (struct grpc_link *)l;
    enum qr_code code = link_grpc_address_check(address, err);
    if (code != QR_OK) return code;
    QR_ASSERT(!g->server);
    if (!g->acceptor &&
        (code = link_grpc_acceptor_new(g->clock, g->with_acceptor, g->wake_call, g->cq,
                                       &g->op_accept, &g->acceptor, err)) != QR_OK)
        return code;
    int port = 0;
    g->server = link_grpc_server(address, g->tls, g->quota, !g->with_acceptor, g->acceptor, &port);
    if (!g->server) return link_grpc_listen_failed(address, err);
    g->port = port;
    g->address = qr_xasprintf("%.*s:%d", (int)(strrchr(address, ':') - address), address, port);
    g->failures = link_grpc_accept_failed(false);
    link_grpc_guard_port(port, g->with_acceptor ? UNSEEN_BYTES : UNSEEN_WIDE_BYTES,
                         g->with_acceptor ? &g->due_ns : NULL);
    *ret_port = (unsigned)port;
    return QR_OK;
}

static void shutdown_server(struct grpc_link *g) {
    g->server_down = false;
    link_grpc_acceptor_shutdown(g->acceptor, &g->op_shutdown);
    grpc_server_cancel_all_calls(g->server);
}

/* gRPC stops listening for good when it has no descriptor for an incoming connection. This function
 * then replaces the server, which ends its streams, in steps of REOPEN_NS. */
static void reopen_server(struct grpc_link *g, int64_t now_ns) {
    if (!g->reopen_ns) {
        shutdown_server(g);
    } else if (g->server && g->server_down && !link_grpc_acceptor_pending(g->acceptor)) {
        grpc_server_destroy(g->server);
        g->server = NULL;
    } else if (!g->server &&
               (g->server = link_grpc_server(g->address, g->tls, g->quota, !g->with_acceptor,
                                             g->acceptor, &g->port))) {
        g->failures = link_grpc_accept_failed(false);
        g->reopen_ns = 0;
        return;
    }
    g->reopen_ns = now_ns + REOPEN_NS;
}

int64_t link_grpc_keep_listening(struct grpc_link *g) {
    if (!g->address || g->freeing ||
        (!g->reopen_ns && link_grpc_accept_failed(false) == g->failures))
        return INT64_MAX;
    int64_t now_ns = qr_now_ns(g->clock);
    if (!g->reopen_ns && g->log)
        qr_error(g->log, "group",
                 "cannot accept connections: out of file descriptors; raise the limit "
                 "(ulimit -n). The port is reopened when descriptors are free");
    if (now_ns >= g->reopen_ns) reopen_server(g, now_ns);
    return g->reopen_ns ? g->reopen_ns : INT64_MAX;
}

void link_grpc_stop_listening(struct grpc_link *g) {
    if (!g->server) g->server_down = true;
    else if (!g->reopen_ns) shutdown_server(g);
}
