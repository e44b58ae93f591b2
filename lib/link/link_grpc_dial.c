/* link/link_grpc_dial.c — outgoing connections: by name, with retries, and by an address that the
 * resolver has found for a name that DNS reports as missing. Start reading at
 * link_grpc_keep_dialing(). */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "link/link_grpc_state_impl.h"
#include "link/resolver.h"

/* Number of checks, RENEW_NS apart, before a channel is replaced: enough for a slow DNS server. A
 * peer without an acceptor may be computing, and each address of its name is given 5 s instead of
 * half a second. The limit counts checks, not time: otherwise an owner that has not polled for long
 * would abandon connections that are ready. */
enum { MAX_CHECKS = 10, MAX_CHECKS_WIDE = 30 };
#define BACKOFF_FIRST_NS (50 * INT64_C(1000000))
#define RENEW_NS QR_SECOND
/* Number of concurrent attempts: with more, each handshake takes longer and none ends sooner. On a
 * machine with many workers their handshakes would take longer than an attempt may. An attempt that
 * takes more than twice as long as the last successful one, and at least 1 s, no longer counts, for
 * example because its packets are dropped; before the first success, after 3 s. */
enum { MAX_CONNECTING = 2 };
#define TURN_NS QR_SECOND
#define TURN_MAX_NS (10 * QR_SECOND)
#define TURN_CHECK_NS (20 * INT64_C(1000000)) /* interval of checks for a free turn */
/* Timeout of an attempt: this, or four times the duration of the last successful one. It doubles
 * for each further attempt of a dial. */
#define ATTEMPT_NS (3 * QR_SECOND)
#define ATTEMPT_WIDE_NS (5 * QR_SECOND) /* the owner of a wide link may be computing */
#define ATTEMPT_MAX_NS (10 * QR_SECOND)
#define CONNECTING_NS (30 * QR_SECOND) /* gRPC's own timeout is 20 s */

void link_grpc_dial_answers(struct dial *d) { d->backoff_ns = BACKOFF_FIRST_NS; }

void link_grpc_dial_retire(struct grpc_link *g, struct conn *c) {
    struct dial *d = c->dial;
    if (!d) return;
    c->dial = NULL;
    d->conn = NULL;
    d->next_ns = qr_now_ns(g->clock) + d->backoff_ns;
    d->backoff_ns = 2 * d->backoff_ns > QR_SECOND ? QR_SECOND : 2 * d->backoff_ns;
}

/* ---- names that DNS reports as missing ---- */

static void on_found(void *link) {
    struct grpc_link *g = link;
    atomic_store(&g->names.found, true);
    g->base.ops->wake(&g->base);
}

/* Copies the host of "host:port"; false for an IP address, which needs no resolver. */
static bool dialed_host(const char *address, char *ret, size_t cap) {
    const char *colon = strrchr(address, ':');
    uint8_t ip[sizeof(struct in6_addr)];
    if (!colon || *address == '[' || (size_t)(colon - address) >= cap) return false;
    snprintf(ret, cap, "%.*s", (int)(colon - address), address);
    return inet_pton(AF_INET, ret, ip) != 1;
}

static void request_address(struct grpc_link *g, struct dial *d) {
    char name[LINK_GRPC_NAME];
    if (d->wanted || !dialed_host(d->address, name, sizeof name)) return;
    const struct qr_resolver_options opt = {.wall = &qr_clock_wall, .found = on_found, .ctx = g};
    if (!g->names.resolver && !g->names.tried) g->names.resolver = qr_resolver_new(&opt);
    g->names.tried = true;
    if (!g->names.resolver) return;
    d->wanted = true;
    d->seen = 0;
    qr_resolver_want(g->names.resolver, name);
}

static void drop_request(struct grpc_link *g, struct dial *d) {
    char name[LINK_GRPC_NAME];
    if (!d->wanted) return;
    d->wanted = false;
    if (dialed_host(d->address, name, sizeof name)) qr_resolver_drop(g->names.resolver, name);
}

void link_grpc_dial_up(struct grpc_link *g, struct dial *d) {
    d->attempt_ns = 0;
    g->took_ns = qr_now_ns(g->clock) - d->begun_ns;
    drop_request(g, d);
}

/* Creates a channel to an address that the resolver has found and that was not tried yet, or to the
 * name. */
static grpc_channel *new_channel(struct grpc_link *g, struct dial *d) {
    char name[LINK_GRPC_NAME], ip[QR_IP_BYTES], address[QR_IP_PORT_BYTES] = "";
    if (d->wanted && dialed_host(d->address, name, sizeof name) &&
        qr_resolver_find(g->names.resolver, name, &d->seen, ip)) {
        uint64_t port;
        if (qr_parse_u64(strrchr(d->address, ':') + 1, &port))
            qr_ip_with_port(ip, (unsigned)port, address);
    }
    int64_t least_ns = g->with_acceptor ? ATTEMPT_NS : ATTEMPT_WIDE_NS;
    d->attempt_ns *= 2;
    if (d->attempt_ns < 4 * g->took_ns) d->attempt_ns = 4 * g->took_ns;
    if (d->attempt_ns < least_ns) d->attempt_ns = least_ns;
    if (d->attempt_ns > ATTEMPT_MAX_NS) d->attempt_ns = ATTEMPT_MAX_NS;
    return link_grpc_channel(*address ? address : d->address, g->tls, !g->with_acceptor,
                             (int)(d->attempt_ns / QR_MS));
}

/* ---- one attempt ---- */

static void start_attempt(struct grpc_link *g, struct dial *d) {
    struct conn *c = link_grpc_conn_new(g, true);
    c->dial = d;
    c->tag = d->tag;
    d->conn = c;
    d->begun_ns = d->fresh_ns = qr_now_ns(g->clock);
    d->n_checks = 0;
    c->call = grpc_channel_create_call(d->channel, NULL, 0, g->cq,
                                       grpc_slice_from_static_string(LINK_GRPC_METHOD), NULL,
                                       gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    grpc_op start[2] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA,
         .flags = GRPC_INITIAL_METADATA_WAIT_FOR_READY |
                  GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET},
        {.op = GRPC_OP_RECV_INITIAL_METADATA,
         .data.recv_initial_metadata.recv_initial_metadata = &c->initial},
    };
    grpc_op status = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                      .data.recv_status_on_client = {.trailing_metadata = &c->trailing,
                                                     .status = &c->status,
                                                     .status_details = &c->details}};
    QR_ASSERT(link_grpc_batch(c, OP_START, start, 2) && link_grpc_batch(c, OP_STATUS, &status, 1));
}

/* gRPC 1.51 leaks the memory of a TLS handshake (125 KB) when its channel is destroyed during the
 * handshake: keeps the channel until the handshake has ended. */
static void await_connected(struct grpc_link *g, struct conn *c) {
    if (c->up || g->freeing ||
        grpc_channel_check_connectivity_state(c->channel, 0) != GRPC_CHANNEL_CONNECTING)
        return;
    c->connecting = true;
    c->n_ops++;
    grpc_channel_watch_connectivity_state(c->channel, GRPC_CHANNEL_CONNECTING,
                                          link_grpc_at(qr_now_ns(g->clock) + CONNECTING_NS), g->cq,
                                          &c->op[OP_CONNECTED]);
}

/* gRPC's resolver waits ever longer after a name that does not exist (1 s to 2 min), with no option
 * against it: a new channel asks at once. A channel without success is also replaced after a number
 * of checks: c-ares waits 8 s for its last reply, and when a peer exits after the handshake, the
 * stream would wait for TCP's timeout, 15 minutes. */
static void renew_channel(struct grpc_link *g, struct dial *d) {
    unsigned max_checks = g->with_acceptor ? MAX_CHECKS : MAX_CHECKS_WIDE;
    d->fresh_ns = qr_now_ns(g->clock);
    if (++d->n_checks < max_checks &&
        grpc_channel_check_connectivity_state(d->channel, 0) != GRPC_CHANNEL_TRANSIENT_FAILURE)
        return;
    struct conn *c = d->conn;
    c->dial = NULL;
    c->channel = d->channel;
    c->silent = true;
    await_connected(g, c);
    grpc_call_cancel(c->call, NULL);
    request_address(g, d);
    d->channel = new_channel(g, d);
    start_attempt(g, d);
}

static unsigned count_connecting(const struct grpc_link *g, int64_t now_ns) {
    unsigned n = 0;
    int64_t turn_ns = !g->took_ns                    ? ATTEMPT_NS
                      : 2 * g->took_ns < TURN_NS     ? TURN_NS
                      : 2 * g->took_ns > TURN_MAX_NS ? TURN_MAX_NS
                                                     : 2 * g->took_ns;
    for (const struct dial *d = g->dials; d; d = d->next)
        n += d->conn && !d->conn->up && now_ns - d->begun_ns < turn_ns &&
             grpc_channel_check_connectivity_state(d->channel, 0) != GRPC_CHANNEL_TRANSIENT_FAILURE;
    return n;
}

int64_t link_grpc_keep_dialing(struct grpc_link *g) {
    int64_t due_ns = INT64_MAX, now_ns = 0;
    unsigned n = 0;
    bool found = g->names.resolver && atomic_exchange(&g->names.found, false);
    for (struct dial *d = g->dials; d; d = d->next) {
        if (d->conn && d->conn->up) continue;
        if (!now_ns) n = count_connecting(g, now_ns = qr_now_ns(g->clock));
        int64_t at = d->conn ? d->fresh_ns + RENEW_NS : d->next_ns;
        if (at > now_ns && !(found && d->wanted && d->conn)) {
            if (at < due_ns) due_ns = at;
            continue;
        }
        if (!d->conn && n >= MAX_CONNECTING) {
            if (now_ns + TURN_CHECK_NS < due_ns) due_ns = now_ns + TURN_CHECK_NS;
            continue;
        }
        n += !d->conn;
        if (d->conn) renew_channel(g, d);
        else start_attempt(g, d);
        if (now_ns + RENEW_NS < due_ns) due_ns = now_ns + RENEW_NS;
    }
    return due_ns;
}

/* ---- the operations ---- */

void link_grpc_dial(struct qr_link *l, uint32_t tag, const char *address) {
    struct grpc_link *g = (struct grpc_link *)l;
    struct dial *d = qr_xcalloc(1, sizeof *d);
    d->tag = tag;
    d->backoff_ns = BACKOFF_FIRST_NS;
    d->address = qr_xstrdup(address);
    d->channel = new_channel(g, d);
    d->next = g->dials;
    g->dials = d; /* the next poll starts it */
}

void link_grpc_hang_up(struct qr_link *l, uint32_t tag) {
    struct grpc_link *g = (struct grpc_link *)l;
    for (struct dial **at = &g->dials; *at;) {
        struct dial *d = *at;
        if (d->tag != tag) {
            at = &d->next;
            continue;
        }
        *at = d->next;
        drop_request(g, d);
        if (d->conn) {
            d->conn->channel = d->channel;
            d->conn->dial = NULL;
            await_connected(g, d->conn);
            link_grpc_close_silently(g, d->conn);
        } else {
            grpc_channel_destroy(d->channel);
        }
        free(d->address);
        free(d);
    }
}

void link_grpc_end_dialing(struct grpc_link *g) {
    while (g->dials) link_grpc_hang_up(&g->base, g->dials->tag);
    qr_resolver_free(g->names.resolver);
    g->names.resolver = NULL;
}
