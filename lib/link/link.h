/* link/link.h — connections between peers: one interface. Pods use the gRPC implementation
 * (link_grpc.h); tests have one between threads and one over a simulated network (tests/support).
 *
 * Purpose   Ordered, reliable, bounded streams of messages between two processes, with an event
 *           when one breaks. A worker has two links: control (polled by the control thread) and
 *           data (polled by the training thread). The first message on a connection identifies the
 *           peer; the link does not.
 * Usage     create; listen and dial; poll for events, and send; free.
 * Dialing   `dial` starts at the next poll, a few at a time. It retries (after 50 ms, doubling to
 *           1 s; names are resolved again for each attempt; resolution errors are never fatal) and
 *           redials after a break, until `hang_up`. Each success is an UP event with the tag.
 * Order     per connection: UP, MESSAGE..., DOWN. No event follows DOWN. Connection numbers are not
 *           reused.
 * Threads   all calls from the owner thread, except wake (any thread).
 */
#ifndef QR_LINK_LINK_H
#define QR_LINK_LINK_H

#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"

enum { QR_LINK_MAX_MESSAGE = (1 << 20) };

/* One message in n_pieces parts, in order, of n bytes in total. */
struct qr_pieces {
    const struct qr_bytes *piece;
    size_t n_pieces, n;
};
/* A message of one part; borrows *whole. */
static inline struct qr_pieces qr_pieces_of(const struct qr_bytes *whole) {
    return (struct qr_pieces){whole, 1, whole->n};
}
/* Copies the first n bytes, or all when there are fewer; returns the number of copied bytes. */
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
    bool outgoing; /* UP: this process dialed; tag is that of dial */
    uint32_t tag;
    char host[48]; /* UP: IP address of the peer; empty when it is not known */
    /* MESSAGE: valid until the next poll. p is NULL when the message is in pieces */
    struct qr_bytes message;
    /* MESSAGE: the parts, as received, when qr_link.in_pieces is set and there are several */
    struct qr_pieces pieces;
    char reason[160]; /* DOWN */
};

struct qr_link;
struct qr_link_ops {
    /* Binds a port and accepts connections.
     *
     * Args:     address    "host:port"; port 0: any
     *           ret_port   the bound port
     * Errors:   ALREADY_EXISTS (the port is in use)
     */
    enum qr_code (*listen)(struct qr_link *l, const char *address, unsigned *ret_port,
                           struct qr_err *err);
    void (*dial)(struct qr_link *l, uint32_t tag, const char *address);
    void (*hang_up)(struct qr_link *l, uint32_t tag); /* also closes its connection */
    /* Closes a connection after its queued messages were sent, within 250 ms: messages still queued
     * then are lost. No DOWN follows. */
    void (*close_conn)(struct qr_link *l, uint32_t conn);
    /* Queues one message.
     *
     * Args:     head   copied
     *           body   follows head; borrowed until unreleased() is 0 again; may be empty
     * Returns:  false when the connection is closed, its queue (64 messages or 8 MiB of heads) is
     *           full, or the message is longer than QR_LINK_MAX_MESSAGE
     */
    bool (*send)(struct qr_link *l, uint32_t conn, struct qr_bytes head, struct qr_bytes body);
    /* Number of borrowed bodies and unsent messages (which need polling). At 0 the owner may reuse
     * its buffers and stop polling. */
    size_t (*unreleased)(struct qr_link *l);
    /* Stops reading from a connection until resumed: back-pressure for data of the next reduction.
     * A break is reported also while paused, and unread messages are then lost. An orderly close by
     * the peer is reported only after all messages before it were read, so each pause must end. */
    void (*pause)(struct qr_link *l, uint32_t conn, bool paused);
    /* Waits for one event until deadline_ns (link's clock), then returns NOTHING. */
    void (*poll)(struct qr_link *l, int64_t deadline_ns, struct qr_link_event *ret);
    void (*wake)(struct qr_link *l); /* makes poll return WOKEN soon (at once while polling) */
    void (*free)(struct qr_link *l);
};
struct qr_link {
    const struct qr_link_ops *ops;
    /* Options of the owner; an implementation may ignore them. */
    bool in_pieces; /* deliver messages in pieces, without a copy that joins them */
    /* Time for which poll spins before it blocks, because blocking and waking up takes longer than
     * a message. Spinning yields the processor, and stops for a while after a preemption. */
    int64_t look_ns;
};

#endif
