/* link/link_grpc_dial.c — who is dialed: by name, again and again, and by an address that the
 * resolver has found where the name is said not to exist. See link_grpc_state_impl.h. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "link/link_grpc_state_impl.h"
#include "link/resolver.h"

/* So many looks, RENEW_NS apart, a channel may take. A slow server of DNS answers within them; who
 * listens without a door may compute, and each address of his name is given 5 s, not half a second.
 * Time would not do: who has not polled for long would part from what waits for him. */
enum { PATIENCE_LOOKS = 10, PATIENCE_LOOKS_WIDE = 30 };
#define BACKOFF_FIRST_NS (50 * INT64_C(1000000))
#define RENEW_NS QR_SECOND
/* So many attempts take turns: with more, each handshake takes longer and none ends sooner. An
 * attempt that takes twice as long as the last that came up, and a second, leaves its turn to the
 * next, as where an address swallows packets. */
enum { MAX_UNDER_WAY = 4 };
#define TURN_NS QR_SECOND
#define TURN_MOST_NS (10 * QR_SECOND)
#define TURN_LOOK_NS (20 * INT64_C(1000000)) /* between looks whether one can begin */
/* An attempt is given up after this, or four times as long as the last that came up took; the next
 * one of its dial has twice the time. */
#define ATTEMPT_NS (3 * QR_SECOND)
#define ATTEMPT_WIDE_NS (5 * QR_SECOND) /* who listens on wide links may compute */
#define ATTEMPT_MOST_NS (10 * QR_SECOND)
#define CONNECTING_NS (30 * QR_SECOND) /* gRPC gives up by itself after 20 s */

void link_grpc_dial_answers(struct dial *d) { d->backoff_ns = BACKOFF_FIRST_NS; }

void link_grpc_dial_retire(struct grpc_link *g, struct conn *c) {
    struct dial *d = c->dial;
    if (!d) return;
    c->dial = NULL;
    d->conn = NULL;
    d->next_ns = qr_now_ns(g->clock) + d->backoff_ns;
    d->backoff_ns = 2 * d->backoff_ns > QR_SECOND ? QR_SECOND : 2 * d->backoff_ns;
}

/* ---- names that are said not to exist ---- */

static void on_found(void *link) {
    struct grpc_link *g = link;
    atomic_store(&g->names.news, true);
    g->base.ops->wake(&g->base);
}

/* The host of "host:port"; an address needs no resolver. */
static bool name_of(const char *address, char *ret, size_t cap) {
    const char *colon = strrchr(address, ':');
    uint8_t ip[sizeof(struct in6_addr)];
    if (!colon || *address == '[' || (size_t)(colon - address) >= cap) return false;
    snprintf(ret, cap, "%.*s", (int)(colon - address), address);
    return inet_pton(AF_INET, ret, ip) != 1;
}

static void want(struct grpc_link *g, struct dial *d) {
    char name[LINK_GRPC_NAME];
    if (d->wanted || !name_of(d->address, name, sizeof name)) return;
    const struct qr_resolver_options opt = {.wall = &qr_clock_wall, .found = on_found, .ctx = g};
    if (!g->names.resolver && !g->names.tried) g->names.resolver = qr_resolver_new(&opt);
    g->names.tried = true;
    if (!g->names.resolver) return;
    d->wanted = true;
    d->seen = 0;
    qr_resolver_want(g->names.resolver, name);
}

static void want_no_more(struct grpc_link *g, struct dial *d) {
    char name[LINK_GRPC_NAME];
    if (!d->wanted) return;
    d->wanted = false;
    if (name_of(d->address, name, sizeof name)) qr_resolver_drop(g->names.resolver, name);
}

void link_grpc_dial_up(struct grpc_link *g, struct dial *d) {
    d->attempt_ns = 0;
    g->took_ns = qr_now_ns(g->clock) - d->begun_ns;
    want_no_more(g, d);
}

/* To an address that was found and not tried yet, or to whatever the name says. */
static grpc_channel *channel_of(struct grpc_link *g, struct dial *d) {
    char name[LINK_GRPC_NAME], ip[QR_IP_BYTES], address[QR_IP_PORT_BYTES] = "";
    if (d->wanted && name_of(d->address, name, sizeof name) &&
        qr_resolver_find(g->names.resolver, name, &d->seen, ip)) {
        uint64_t port;
        if (qr_parse_u64(strrchr(d->address, ':') + 1, &port))
            qr_ip_with_port(ip, (unsigned)port, address);
    }
    int64_t least_ns = g->with_acceptor ? ATTEMPT_NS : ATTEMPT_WIDE_NS;
    d->attempt_ns *= 2;
    if (d->attempt_ns < 4 * g->took_ns) d->attempt_ns = 4 * g->took_ns;
    if (d->attempt_ns < least_ns) d->attempt_ns = least_ns;
    if (d->attempt_ns > ATTEMPT_MOST_NS) d->attempt_ns = ATTEMPT_MOST_NS;
    return link_grpc_channel(*address ? address : d->address, g->tls, !g->with_acceptor,
                             (int)(d->attempt_ns / QR_MS));
}

/* ---- one attempt ---- */

static void start(struct grpc_link *g, struct dial *d) {
    struct conn *c = link_grpc_conn_new(g, true);
    c->dial = d;
    c->tag = d->tag;
    d->conn = c;
    d->begun_ns = d->fresh_ns = qr_now_ns(g->clock);
    d->n_looks = 0;
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

/* gRPC 1.51 never gives back what a TLS handshake has (125 KB) when its channel goes in the middle
 * of it: it goes afterwards. */
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

/* A resolver waits ever longer after a name that does not exist (1 s to 2 min), and cannot be told
 * not to: a new channel asks at once. So does one in place of a channel that has come to nothing
 * for long, whatever it does: c-ares waits 8 s for its last answer, and where a peer went after it
 * shook hands, the stream would wait until TCP notices, a quarter of an hour. */
static void renew(struct grpc_link *g, struct dial *d) {
    unsigned patience = g->with_acceptor ? PATIENCE_LOOKS : PATIENCE_LOOKS_WIDE;
    d->fresh_ns = qr_now_ns(g->clock);
    if (++d->n_looks < patience &&
        grpc_channel_check_connectivity_state(d->channel, 0) != GRPC_CHANNEL_TRANSIENT_FAILURE)
        return;
    struct conn *c = d->conn;
    c->dial = NULL;
    c->channel = d->channel;
    c->silent = true;
    await_connected(g, c);
    grpc_call_cancel(c->call, NULL);
    want(g, d);
    d->channel = channel_of(g, d);
    start(g, d);
}

static unsigned n_under_way(const struct grpc_link *g, int64_t now_ns) {
    unsigned n = 0;
    int64_t turn_ns = 2 * g->took_ns < TURN_NS        ? TURN_NS
                      : 2 * g->took_ns > TURN_MOST_NS ? TURN_MOST_NS
                                                      : 2 * g->took_ns;
    for (const struct dial *d = g->dials; d; d = d->next)
        n += d->conn && !d->conn->up && now_ns - d->begun_ns < turn_ns &&
             grpc_channel_check_connectivity_state(d->channel, 0) != GRPC_CHANNEL_TRANSIENT_FAILURE;
    return n;
}

int64_t link_grpc_keep_dialing(struct grpc_link *g) {
    int64_t due_ns = INT64_MAX, now_ns = 0;
    unsigned n = 0;
    bool news = g->names.resolver && atomic_exchange(&g->names.news, false);
    for (struct dial *d = g->dials; d; d = d->next) {
        if (d->conn && d->conn->up) continue;
        if (!now_ns) n = n_under_way(g, now_ns = qr_now_ns(g->clock));
        int64_t at = d->conn ? d->fresh_ns + RENEW_NS : d->next_ns;
        if (at > now_ns && !(news && d->wanted && d->conn)) {
            if (at < due_ns) due_ns = at;
            continue;
        }
        if (!d->conn && n >= MAX_UNDER_WAY) {
            if (now_ns + TURN_LOOK_NS < due_ns) due_ns = now_ns + TURN_LOOK_NS;
            continue;
        }
        n += !d->conn;
        if (d->conn) renew(g, d);
        else start(g, d);
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
    d->channel = channel_of(g, d);
    d->next = g->dials;
    g->dials = d; /* the next poll begins it */
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
        want_no_more(g, d);
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
