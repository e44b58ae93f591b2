/* collective/mesh_impl.h — internals of the mesh, shared by mesh.c (generations and what runs over
 * them) and mesh_streams.c (the streams).
 */
#ifndef QR_COLLECTIVE_MESH_IMPL_H
#define QR_COLLECTIVE_MESH_IMPL_H

#include "base/mem.h"
#include "collective/mesh.h"
#include "format/chunk.h"

enum { MAX_PENDING = 64 };

/* A peer, by index. Its stream lives as long as its process; generations come and go. */
struct mesh_peer {
    bool expected; /* info is set; a stream is wanted */
    struct qr_mesh_member info;
    bool dialing, up;  /* up: both have greeted */
    uint32_t conn;     /* 0: none */
    int64_t dialed_ns; /* dialing: connected since then */
    bool member;       /* member of this generation, at that rank */
    uint32_t rank;
    bool mark_due; /* the mark for it could not be sent yet */
    bool in;       /* its mark of this generation was received */
    /* Chunks or a state may pass between it and this process in this generation. */
    bool exchanges;
    bool lost;    /* its stream broke after that */
    bool holding; /* an early message is held; the stream is paused */
    struct qr_buf held;
    int64_t received_ns; /* last message on this stream */
    char reason[160];    /* why the last stream broke */
};
struct pending_stream { /* accepted, its peer not identified yet */
    uint32_t conn;
    int64_t since_ns;
    bool early; /* greeted before it was expected: paused */
    struct qr_greeting greeting;
};
struct qr_mesh {
    struct qr_mesh_options o;
    struct mesh_peer peer[QR_MAX_MEMBERS];
    struct pending_stream pending_stream[MAX_PENDING];
    size_t n_pending;
    uint64_t dropped;
    /* The present generation. */
    struct qr_gen_id id;
    uint64_t generation; /* hash of id */
    uint32_t n, rank;
    uint32_t index_of[QR_MAX_MEMBERS]; /* by rank */
    uint32_t conn[QR_MAX_MEMBERS];     /* by rank, for the reduction */
    bool over;                         /* it can do nothing more */
    int64_t broken_ns;                 /* break of a member's stream; 0: none */
    uint32_t broken_index;
    /* Bodies never released by their streams: the peer is frozen, its socket full. */
    size_t stuck;
    /* The present operation. */
    struct qr_reduction *reduction;
    bool reducing;
    bool idle;              /* streams may come and go without loss */
    struct qr_buf *fetched; /* destination of a fetched state, or NULL */
    uint32_t fetch_rank;
    bool fetch_whole;
    struct qr_buf whole; /* a state's part that arrived in pieces */
    int64_t progress_ns;
    /* Polling of this thread. */
    struct qr_poll_report polled; /* received_ns is set at each report */
    int64_t beat_ns;              /* time of the next beats */
    unsigned n_beats;
};

static inline int64_t mesh_now_ns(const struct qr_mesh *m) { return qr_now_ns(m->o.clock); }
static inline void mesh_close(struct qr_mesh *m, uint32_t conn) {
    m->o.link->ops->close_conn(m->o.link, conn);
}

/* ---- mesh_streams.c ---- */
struct mesh_peer *mesh_by_conn(struct qr_mesh *m, uint32_t conn);
void mesh_on_up(struct qr_mesh *m, const struct qr_link_event *e);
void mesh_on_down(struct qr_mesh *m, const struct qr_link_event *e);
/* Handles the first message on a stream. */
void mesh_on_greeting(struct qr_mesh *m, uint32_t conn, struct qr_bytes bytes);
/* Closes connections that do not greet in time, or that no peer expects. */
void mesh_check_pending(struct qr_mesh *m);
/* Closes a dialed stream without an answering greeting; it is dialed again. */
void mesh_check_dials(struct qr_mesh *m);
/* Handles the loss of its stream. */
void mesh_lose(struct qr_mesh *m, struct mesh_peer *p, const char *reason);
void mesh_hold(struct qr_mesh *m, struct mesh_peer *p, struct qr_pieces message);
/* Drops the held message; its stream is read again. */
void mesh_release_held(struct qr_mesh *m, struct mesh_peer *p);
void mesh_gather(struct qr_buf *ret, struct qr_pieces message);
void mesh_send_mark(struct qr_mesh *m, struct mesh_peer *p);

#endif
