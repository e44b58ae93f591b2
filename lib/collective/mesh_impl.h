/* collective/mesh_impl.h — the insides of the mesh, shared by mesh.c (generations and what runs
 * over them) and mesh_streams.c (the streams). */
#ifndef QR_COLLECTIVE_MESH_IMPL_H
#define QR_COLLECTIVE_MESH_IMPL_H

#include "base/mem.h"
#include "collective/mesh.h"
#include "format/chunk.h"

enum { MAX_STRANGERS = 64 };

/* By index. Its stream lives as long as its process: generations come and go on it. */
struct mesh_peer {
    bool expected; /* who is set: it is to be connected */
    struct qr_mesh_member who;
    bool dialing, up;  /* up: both have greeted */
    uint32_t conn;     /* 0: none */
    int64_t called_ns; /* dialing: since when it is there */
    bool member;       /* of this generation, at that rank */
    uint32_t rank;
    bool mark_due; /* this one's mark could not be sent yet */
    bool in;       /* its mark of this generation has come: what follows is of it */
    bool lost;     /* its stream broke after that */
    bool holding;  /* one message that came too early; the stream is paused */
    struct qr_buf held;
    int64_t heard_ns; /* when it said something on this stream */
    char reason[160]; /* why the last stream broke */
};
struct stranger { /* accepted, and not known to be anybody's yet */
    uint32_t conn;
    int64_t since_ns;
    bool early; /* it greeted, and is not expected here yet: its stream is paused */
    struct qr_greeting greeting;
};
struct qr_mesh {
    struct qr_mesh_options o;
    struct mesh_peer peer[QR_MAX_MEMBERS];
    struct stranger stranger[MAX_STRANGERS];
    size_t n_strangers;
    uint64_t dropped;
    /* the generation */
    struct qr_gen_id id;
    uint64_t generation; /* its hash */
    uint32_t n, rank;
    uint32_t index_of[QR_MAX_MEMBERS]; /* by rank */
    uint32_t conn[QR_MAX_MEMBERS];     /* by rank, for the reduction */
    bool over;                         /* nothing of it is of use any more */
    int64_t broken_ns;                 /* when a stream of a member broke; 0: none */
    uint32_t broken_index;
    /* bodies that streams never gave back: their peer is frozen, its socket full */
    size_t stuck;
    /* what runs over it */
    struct qr_reduction *reduction;
    bool reducing;
    bool idle;              /* streams may come and go */
    struct qr_buf *fetched; /* where a state goes that is being fetched, or NULL */
    uint32_t fetch_rank;
    bool fetch_whole;
    struct qr_buf whole; /* a part of a state that came in pieces */
    int64_t progress_ns;
    /* how this thread has polled */
    struct qr_poll_report polled; /* heard_ns is filled in when it is told */
    int64_t beat_ns;              /* when the next beats are due */
};

static inline int64_t mesh_now_ns(const struct qr_mesh *m) { return qr_now_ns(m->o.clock); }
static inline void mesh_close(struct qr_mesh *m, uint32_t conn) {
    m->o.link->ops->close_conn(m->o.link, conn);
}

/* ---- mesh_streams.c ---- */
struct mesh_peer *mesh_by_conn(struct qr_mesh *m, uint32_t conn);
void mesh_on_up(struct qr_mesh *m, const struct qr_link_event *e);
void mesh_on_down(struct qr_mesh *m, const struct qr_link_event *e);
/* the first message on a stream */
void mesh_on_greeting(struct qr_mesh *m, uint32_t conn, struct qr_bytes bytes);
/* who does not greet, or is expected by nobody, is let go */
void mesh_look_at_strangers(struct qr_mesh *m);
/* whom we have dialed, and who does not greet back, may have lost the stream: another */
void mesh_look_at_calls(struct qr_mesh *m);
/* its stream is no more */
void mesh_lose(struct qr_mesh *m, struct mesh_peer *p, const char *reason);
void mesh_hold(struct qr_mesh *m, struct mesh_peer *p, struct qr_pieces message);
/* what is held is forgotten, its stream read on */
void mesh_let_go(struct qr_mesh *m, struct mesh_peer *p);
void mesh_gather(struct qr_buf *ret, struct qr_pieces message);

/* ---- mesh.c ---- */
void mesh_send_mark(struct qr_mesh *m, struct mesh_peer *p);

#endif
