/* link/link_grpc_state_impl.h — the state of a gRPC link, shared by link_grpc.c (streams),
 * link_grpc_dial.c (outgoing connections) and link_grpc_listen.c (incoming connections). */
#ifndef QR_LINK_LINK_GRPC_STATE_IMPL_H
#define QR_LINK_LINK_GRPC_STATE_IMPL_H

#include <grpc/support/time.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "link/link.h"
#include "link/link_grpc_parts_impl.h"

#define LINK_GRPC_METHOD "/qring.Link/Stream"
#define LINK_GRPC_MARK "qring-link" /* initial metadata of the server: identifies a qring peer */

enum op_kind {
    OP_START,
    OP_RECV,
    OP_SEND,
    OP_STATUS,
    OP_FINISH,
    OP_CONNECTED,
    OP_ACCEPT,
    OP_SHUTDOWN,
    OP_WAKE,
    OP_KINDS
};
struct op {
    enum op_kind kind;
    struct conn *conn;
};

struct conn {
    struct conn *next;
    struct dial *dial;     /* redials after a break; NULL when accepted or hung up */
    grpc_channel *channel; /* a channel that its dial has abandoned: destroyed with the call */
    grpc_call *call;
    struct link_grpc_caller *caller; /* of an accepted connection */
    struct op op[OP_KINDS];
    unsigned n_ops; /* batches in flight */
    uint32_t id, tag;
    bool outgoing, up, silent, closing, finish_started, over, paused, reading, sending;
    /* abandoned before its channel was connected: OP_CONNECTED reports success or failure */
    bool connecting;
    int64_t close_by_ns;
    struct link_grpc_queue queue;
    grpc_byte_buffer *incoming, *held; /* held: arrived while paused */
    grpc_metadata_array initial, trailing;
    grpc_metadata mark;
    grpc_status_code status;
    grpc_slice details;
    int cancelled;
};
struct dial {
    struct dial *next;
    uint32_t tag;
    grpc_channel *channel;
    struct conn *conn;
    /* begun_ns: start of conn; fresh_ns: start of conn, or its last check */
    int64_t next_ns, backoff_ns, begun_ns, fresh_ns;
    unsigned n_checks;  /* checks of conn since its start */
    int64_t attempt_ns; /* timeout of one attempt on its channel; 0: connected since */
    char *address;
    bool wanted;  /* the resolver looks up its name */
    int64_t seen; /* see qr_resolver_find */
};
enum { LINK_GRPC_NAME = 256 };
struct qr_resolver;
struct grpc_link {
    struct qr_link base;
    const struct qr_clock *clock;
    const struct qr_link_tls *tls; /* NULL: plaintext */
    const struct qr_log *log;      /* NULL: none */
    grpc_completion_queue *cq;
    grpc_server *server;
    struct link_grpc_acceptor *acceptor; /* NULL: the link does not listen */
    /* of the server: memory for incomplete messages of all incoming connections */
    grpc_resource_quota *quota;
    int port;
    char *address;     /* listen address, with that port */
    unsigned failures; /* link_grpc_accept_failed when the server was started */
    int64_t reopen_ns; /* time of the next step of a restart; 0: the server listens */
    bool with_acceptor, server_down, freeing;
    struct op op_accept, op_shutdown, op_wake;
    struct dial *dials;
    int64_t took_ns; /* duration of the last successful dial */
    struct {
        struct qr_resolver *resolver; /* NULL: not needed yet, or not enough resources */
        bool tried;
        atomic_bool found; /* the resolver has found an address */
    } names;
    struct conn *conns;
    unsigned n_conns;
    uint32_t next_id;
    struct link_grpc_borrowed *borrowed;
    grpc_byte_buffer *current; /* the message of the last poll */
    uint32_t delivered;        /* connection of current; 0: none */
    _Atomic int64_t due_ns;    /* see link_grpc_guard_port */
    int64_t sleep_until_ns;    /* until then poll blocks at once, whatever look_ns */
    struct link_grpc_unpacked unpacked;
    grpc_channel *lame;
    grpc_call *wake_call;
    pthread_mutex_t wake_lock;
    bool wake_pending; /* under wake_lock */
};

/* ---- link_grpc_conn.c ---- */
/* After this time a closing stream is reset: a frozen peer must not delay the processes that leave
 * because of it. */
#define LINK_GRPC_CLOSE_NS (250 * INT64_C(1000000))
/* Starts one batch of this kind on the connection's call; false: the call has ended. */
bool link_grpc_batch(struct conn *c, enum op_kind kind, const grpc_op *ops, size_t n);
void link_grpc_fit_quota(struct grpc_link *g); /* to the number of connections */
/* Adds a connection to g's list; the caller sets its call. */
struct conn *link_grpc_conn_new(struct grpc_link *g, bool outgoing);
struct conn *link_grpc_find(struct grpc_link *g, uint32_t id); /* NULL: not in g's list */
/* Removes an ended connection without operations under way, and frees it. */
void link_grpc_remove(struct grpc_link *g, struct conn *c);
void link_grpc_drop_buffer(grpc_byte_buffer **b);
/* Receives the next message, if the stream is up and not paused. */
void link_grpc_read_more(struct conn *c);
/* Sends the next queued message; ends a closing stream when there is none. */
void link_grpc_send_more(struct conn *c);
/* Closes a connection without any further event. */
void link_grpc_close_silently(struct grpc_link *g, struct conn *c);
gpr_timespec link_grpc_at(int64_t ns); /* monotonic clock */

/* ---- link_grpc_dial.c ---- */
/* as qr_link_ops */
void link_grpc_dial(struct qr_link *l, uint32_t tag, const char *address);
void link_grpc_hang_up(struct qr_link *l, uint32_t tag);
void link_grpc_end_dialing(struct grpc_link *g); /* hangs up everywhere */
/* Starts the attempts that are due; returns the time of the next one. */
int64_t link_grpc_keep_dialing(struct grpc_link *g);
void link_grpc_dial_up(struct grpc_link *g, struct dial *d); /* its connection is up */
void link_grpc_dial_answers(struct dial *d);                 /* its connection received a message */
/* The connection has ended: frees its dial, if any, for another attempt. */
void link_grpc_dial_retire(struct grpc_link *g, struct conn *c);

/* ---- link_grpc_listen.c ---- */
/* as qr_link_ops */
enum qr_code link_grpc_listen(struct qr_link *l, const char *address, unsigned *ret_port,
                              struct qr_err *err);
void link_grpc_accept(struct grpc_link *g); /* handles OP_ACCEPT */
/* Restarts a server that has stopped listening; returns the time of the next step, or INT64_MAX. */
int64_t link_grpc_keep_listening(struct grpc_link *g);
void link_grpc_stop_listening(struct grpc_link *g); /* g->server_down is true at the end */

#endif
