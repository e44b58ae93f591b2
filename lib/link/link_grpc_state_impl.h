/* link/link_grpc_state_impl.h — the insides of a gRPC link, shared by link_grpc.c (its streams),
 * link_grpc_dial.c (who is called) and link_grpc_listen.c (who calls). */
#ifndef QR_LINK_LINK_GRPC_STATE_IMPL_H
#define QR_LINK_LINK_GRPC_STATE_IMPL_H

#include <grpc/support/time.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "link/link.h"
#include "link/link_grpc_parts_impl.h"

#define LINK_GRPC_METHOD "/qring.Link/Stream"
#define LINK_GRPC_MARK "qring-link" /* in what the server answers first: it is one of ours */

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
    struct dial *dial;     /* who gets it again after a break; NULL when accepted or hung up */
    grpc_channel *channel; /* that its dial has left: goes with the call */
    grpc_call *call;
    struct link_grpc_caller *caller; /* of an accepted one */
    struct op op[OP_KINDS];
    unsigned n_ops; /* batches in flight */
    uint32_t id, tag;
    bool outgoing, up, silent, closing, finish_started, over, paused, reading, sending;
    /* left before its channel was connected: OP_CONNECTED says when it is, or has failed */
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
    /* begun_ns: when conn was begun; fresh_ns: that, or when it was last looked after */
    int64_t next_ns, backoff_ns, begun_ns, fresh_ns;
    unsigned n_looks;
    int64_t attempt_ns; /* what its channel gives one attempt; 0: it has come up since */
    char *address;
    bool wanted;  /* the resolver is asked for its name */
    int64_t seen; /* as qr_resolver_find */
};
enum { LINK_GRPC_NAME = 256 };
struct qr_resolver;
struct grpc_link {
    struct qr_link base;
    const struct qr_clock *clock;
    const struct qr_link_tls *tls; /* NULL: plaintext */
    const struct qr_log *log;      /* NULL: nobody's */
    grpc_completion_queue *cq;
    grpc_server *server;
    struct link_grpc_acceptor *door; /* NULL: it does not listen */
    /* of the server: what messages that are not whole yet may take, of all who called */
    grpc_resource_quota *quota;
    int port;
    char *address;     /* what it listens on, with that port */
    unsigned failures; /* of accepting, when the server was started */
    int64_t reopen_ns; /* 0: it listens */
    bool with_acceptor, server_down, freeing;
    struct op op_accept, op_shutdown, op_wake;
    struct dial *dials;
    int64_t took_ns; /* the last dial that came up, from its beginning */
    struct {
        struct qr_resolver *resolver; /* NULL: nobody was sought for yet, or there is no room */
        bool tried;
        atomic_bool news; /* it has found somebody */
    } names;
    struct conn *conns;
    unsigned n_conns;
    uint32_t next_id;
    struct link_grpc_borrowed *borrowed;
    grpc_byte_buffer *current; /* the message of the last poll */
    uint32_t delivered;        /* its connection; 0: none */
    _Atomic int64_t due_ns;    /* as link_grpc_guard_port */
    int64_t sleep_until_ns;    /* until then poll sleeps at once, whatever look_ns */
    struct link_grpc_unpacked unpacked;
    grpc_channel *lame;
    grpc_call *wake_call;
    pthread_mutex_t wake_lock;
    bool wake_pending; /* under wake_lock */
};

/* ---- link_grpc.c ---- */
/* One operation of this kind on the connection's call; false: the call is over. */
bool link_grpc_batch(struct conn *c, enum op_kind kind, const grpc_op *ops, size_t n);
/* in g's list; its call is still to be set */
struct conn *link_grpc_conn_new(struct grpc_link *g, bool outgoing);
/* no event of it is told any more */
void link_grpc_close_silently(struct grpc_link *g, struct conn *c);
gpr_timespec link_grpc_at(int64_t ns); /* of the monotonic clock */

/* ---- link_grpc_dial.c ---- */
/* as qr_link_ops */
void link_grpc_dial(struct qr_link *l, uint32_t tag, const char *address);
void link_grpc_hang_up(struct qr_link *l, uint32_t tag);
void link_grpc_end_dialing(struct grpc_link *g); /* hangs up everywhere */
/* Starts the attempts that are due, and says when the next one is. */
int64_t link_grpc_keep_dialing(struct grpc_link *g);
void link_grpc_dial_up(struct grpc_link *g, struct dial *d); /* its connection has come up */
void link_grpc_dial_answers(struct dial *d);                 /* a message came on it */
/* The connection is over: its dial, if it has one, is free for another attempt. */
void link_grpc_dial_retire(struct grpc_link *g, struct conn *c);

/* ---- link_grpc_listen.c ---- */
/* as qr_link_ops */
enum qr_code link_grpc_listen(struct qr_link *l, const char *address, unsigned *ret_port,
                              struct qr_err *err);
void link_grpc_accept(struct grpc_link *g); /* OP_ACCEPT has come */
int64_t link_grpc_keep_listening(struct grpc_link *g);
void link_grpc_stop_listening(struct grpc_link *g); /* g->server_down says when it has */

#endif
