/* link/link.h — connections between peers: one interface. gRPC is the form that runs (link_grpc.h);
 * tests have one between threads and one over a network that is only computed (tests/support).
 *
 * What      Ordered, reliable, bounded streams of messages between two processes, with notice when
 *           one breaks. A worker has two links: control (polled by the control thread) and data
 *           (polled by the training thread). Who a connection belongs to is said by the first
 *           message on it, not by the link.
 * Dialing   `dial` begins at the next poll, a few at a time, and keeps trying (50 ms doubling to
 *           1 s; names are resolved again at each attempt; resolution errors are never fatal) and
 *           dials again after a break, until `hang_up`. Each success is an UP event with the tag.
 * Order     per connection: UP, MESSAGE..., DOWN. Nothing after DOWN. Connection numbers are never
 *           used twice.
 * Threads   all calls from the owner thread, except wake (any thread).
 */
#ifndef QR_LINK_LINK_H
#define QR_LINK_LINK_H

#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"

enum { QR_LINK_MAX_MESSAGE = (1 << 20) };

/* One message as it lies in memory: n_pieces views, in order, of n bytes together. */
struct qr_pieces {
    const struct qr_bytes *piece;
    size_t n_pieces, n;
};
static inline struct qr_pieces qr_pieces_of(const struct qr_bytes *whole) {
    return (struct qr_pieces){whole, 1, whole->n};
}
/* Its first bytes, at most n of them; returns how many. */
static inline size_t qr_pieces_copy(struct qr_pieces m, size_t n, uint8_t *ret) {
    size_t have = 0;
    for (size_t i = 0; i < m.n_pieces && have < n; i++) {
        size_t more = m.piece[i].n < n - have ? m.piece[i].n : n - have;
        if (more) memcpy(ret + have, m.piece[i].p, more);
        have += more;
    }
    return have;
}

enum qr_link_event_kind {
    QR_LINK_NOTHING,
    QR_LINK_WOKEN,
    QR_LINK_UP,
    QR_LINK_DOWN,
    QR_LINK_MESSAGE
};
struct qr_link_event {
    enum qr_link_event_kind kind;
    uint32_t conn;
    bool outgoing; /* UP: we dialed; tag is dial's */
    uint32_t tag;
    char host[48]; /* UP: the other end's IP address; empty where it is not known */
    /* MESSAGE: valid until the next poll. p is NULL when it is in pieces */
    struct qr_bytes message;
    /* MESSAGE: several pieces, as it came, for an owner who takes it so; else none */
    struct qr_pieces pieces;
    char reason[160]; /* DOWN */
};

struct qr_link;
struct qr_link_ops {
    /* Binds and accepts. address "host:port", port 0 = any. *ret_port the bound one. ALREADY_EXISTS
     * when the port is taken (message names it). */
    enum qr_code (*listen)(struct qr_link *l, const char *address, unsigned *ret_port,
                           struct qr_err *err);
    void (*dial)(struct qr_link *l, uint32_t tag, const char *address);
    void (*hang_up)(struct qr_link *l, uint32_t tag); /* closes its connection too, as close_conn */
    /* After what was sent has left, at most 250 ms later: the rest is lost. No DOWN follows. */
    void (*close_conn)(struct qr_link *l, uint32_t conn);
    /* Queues one message made of parts, in order. head is copied; body (may be empty) is borrowed
     * and may be read until unreleased() is 0 again. False when the connection is gone, its queue
     * (64 messages / 8 MiB of heads) is full, or the message is above QR_LINK_MAX_MESSAGE. */
    bool (*send)(struct qr_link *l, uint32_t conn, struct qr_bytes head, struct qr_bytes body);
    /* Bodies still borrowed, and messages that still wait to go out (which needs polling): 0 when
     * the owner may turn to something else. */
    size_t (*unreleased)(struct qr_link *l);
    /* Stops reading from a connection until resumed: back-pressure for data of the next reduction.
     * A broken connection is told also while paused, what was unread is then lost; the orderly end
     * of the other side only when all before it was read: no pause without an end. */
    void (*pause)(struct qr_link *l, uint32_t conn, bool paused);
    /* Waits until deadline_ns (of the link's clock) for one event; NOTHING when it passes. */
    void (*poll)(struct qr_link *l, int64_t deadline_ns, struct qr_link_event *ret);
    void (*wake)(struct qr_link *l); /* makes poll return WOKEN soon (at once while polling) */
    void (*free)(struct qr_link *l);
};
struct qr_link {
    const struct qr_link_ops *ops;
    /* The owner's wishes; a form that has no use for them does without. */
    bool in_pieces; /* messages may come in pieces: no copy is made to join them */
    /* so long poll looks, again and again, before it sleeps, since to sleep and be woken takes
     * longer than a message; it lets others run in between, and stops looking for a while when they
     * take the processor */
    int64_t look_ns;
};

#endif
