/* link/link_grpc_listen.c — the side of a gRPC link that others call: its server, and the streams
 * that come in by it. */
#include <string.h>

#include <grpc/slice.h>

#include "base/log.h"
#include "base/mem.h"
#include "link/link_grpc_state_impl.h"

/* gRPC reads ahead of a link's owner: a message and a window of 64 KB, and of a wide link that is
 * summing 16 MB, up to 3.5 MB beyond twice what he has seen. */
enum {
    MAX_ACCEPTED = 128,
    UNSEEN_BYTES = QR_LINK_MAX_MESSAGE + (256 << 10),
    UNSEEN_WIDE_BYTES = 5 << 20
};
#define REOPEN_NS (100 * INT64_C(1000000))

static void want_accept(struct grpc_link *g) {
    grpc_call_details_init(&g->details);
    grpc_metadata_array_init(&g->metadata);
    g->accepted = NULL;
    g->accepting = grpc_server_request_call(g->server, &g->accepted, &g->details, &g->metadata,
                                            g->cq, g->server_cq, &g->op_accept) == GRPC_CALL_OK;
}

void link_grpc_accept(struct grpc_link *g) {
    bool ok = g->accepted != NULL; /* the door passes an event on, and not how it went */
    bool ours = ok && grpc_slice_str_cmp(g->details.method, LINK_GRPC_METHOD) == 0;
    grpc_call *call = ok ? g->accepted : NULL;
    if (ok) {
        grpc_slice_unref(g->details.method);
        grpc_slice_unref(g->details.host);
    }
    grpc_metadata_array_destroy(&g->metadata);
    g->accepting = false;
    if (!ok || g->freeing) {
        if (call) {
            grpc_call_cancel(call, NULL);
            grpc_call_unref(call);
        }
        return;
    }
    want_accept(g);
    if (!ours || g->n_conns >= MAX_ACCEPTED) {
        grpc_call_cancel_with_status(
            call, ours ? GRPC_STATUS_RESOURCE_EXHAUSTED : GRPC_STATUS_UNIMPLEMENTED, "not here",
            NULL);
        grpc_call_unref(call);
        return;
    }
    struct conn *c = link_grpc_conn_new(g, false);
    c->call = call;
    c->caller = link_grpc_guard_accepted(call, qr_now_ns(g->clock));
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
    if (g->with_door && !g->door &&
        (code = link_grpc_door_new(g->clock, g->wake_call, &g->door, err)) != QR_OK)
        return code;
    g->server_cq = g->door ? link_grpc_door_cq(g->door) : g->cq;
    int port = 0;
    g->server =
        link_grpc_server(address, g->tls, g->clock, g->quota, !g->with_door, g->server_cq, &port);
    if (!g->server) return link_grpc_listen_failed(address, err);
    g->port = port;
    g->address = qr_xasprintf("%.*s:%d", (int)(strrchr(address, ':') - address), address, port);
    g->failures = link_grpc_accept_failed(false);
    link_grpc_guard_port(port, g->with_door ? UNSEEN_BYTES : UNSEEN_WIDE_BYTES,
                         g->with_door ? &g->due_ns : NULL);
    want_accept(g);
    *ret_port = (unsigned)port;
    return QR_OK;
}

static void shut_down(struct grpc_link *g) {
    g->server_down = false;
    grpc_server_shutdown_and_notify(g->server, g->server_cq, &g->op_shutdown);
    grpc_server_cancel_all_calls(g->server);
}

/* gRPC gives up a port for good when it gets no descriptor for who called there. Such a server
 * goes, with its streams, and another comes. */
static void reopen(struct grpc_link *g, int64_t now_ns) {
    if (!g->reopen_ns) {
        shut_down(g);
    } else if (g->server && g->server_down && !g->accepting) {
        grpc_server_destroy(g->server);
        g->server = NULL;
    } else if (!g->server &&
               (g->server = link_grpc_server(g->address, g->tls, g->clock, g->quota, !g->with_door,
                                             g->server_cq, &g->port))) {
        g->failures = link_grpc_accept_failed(false);
        want_accept(g);
        g->reopen_ns = 0;
        return;
    }
    g->reopen_ns = now_ns + REOPEN_NS;
}

/* Looks after that; when the next look is due, or INT64_MAX. */
int64_t link_grpc_keep_listening(struct grpc_link *g) {
    if (!g->address || g->freeing ||
        (!g->reopen_ns && link_grpc_accept_failed(false) == g->failures))
        return INT64_MAX;
    int64_t now_ns = qr_now_ns(g->clock);
    if (!g->reopen_ns && g->log)
        qr_error(g->log, "group",
                 "nobody who calls can be taken in: no descriptor is left; raise the limit "
                 "(ulimit -n). The port is opened again when there are some");
    if (now_ns >= g->reopen_ns) reopen(g, now_ns);
    return g->reopen_ns ? g->reopen_ns : INT64_MAX;
}

void link_grpc_stop_listening(struct grpc_link *g) {
    if (!g->server) g->server_down = true;
    else if (!g->reopen_ns) shut_down(g);
}
