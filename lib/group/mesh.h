/* group/mesh.h — the data connections of one generation, and the reductions that run over them.
 *
 * What      Every pair of members has one data stream: the higher index dials the lower one's data port. Each side greets first (index,
 *           incarnation, generation) and the stream counts once both have. Then reductions, one after the other.
 * Early     a greeting of a generation that this one has not formed yet waits for it, its stream unread, for 5 s.
 * Waiting   every wait polls the link in slices of at most 50 ms and asks `stop` in between: that is how the control thread, a signal or a
 *           lost member ends it. What a member sends ahead of this one's step waits: one message here, the rest unread in its stream.
 * Failure   a stream that breaks, or brings a damaged chunk, is told to `broken` once; `stop` should soon give the reason, else UNAVAILABLE
 *           names the member after 2 s.
 * Threads   the training thread owns the link and the mesh.
 */
#ifndef QR_GROUP_MESH_H
#define QR_GROUP_MESH_H

#include "group/allreduce.h"

struct qr_mesh_options {
    struct qr_link *link;    /* borrowed; it listens already */
    const struct qr_clock *clock;
    const struct qr_log *log;
    void *ctx;
    enum qr_code (*stop)(void *ctx, struct qr_err *err);               /* QR_OK: go on */
    void (*broken)(void *ctx, uint32_t index, const char *reason);
};
struct qr_mesh_member {
    uint32_t index;
    uint8_t incarnation[16];
    char name[160];          /* "worker 2 (host:port)": for people */
    char address[280];       /* of its data port */
};
struct qr_mesh;
struct qr_mesh *qr_mesh_new(const struct qr_mesh_options *opt);
void qr_mesh_free(struct qr_mesh *m); /* before the link; NULL is fine */

/* Connects the members (copied, by rank). DEADLINE_EXCEEDED at deadline_ns names one that is missing. */
QR_MUST_CHECK enum qr_code qr_mesh_form(struct qr_mesh *m, uint64_t generation, const struct qr_mesh_member *members, uint32_t n_members,
                                        uint32_t rank, int64_t deadline_ns, struct qr_err *err);
/* As qr_group_reduce. When it returns, the link reads neither vector nor sum any more. */
QR_MUST_CHECK enum qr_code qr_mesh_reduce(struct qr_mesh *m, enum qr_allreduce wish, const struct qr_contribution *c, qr_fixed *ret_sum,
                                          struct qr_err *err);
/* The bytes of a state, whole, to a member; it is theirs when this returns. */
QR_MUST_CHECK enum qr_code qr_mesh_give(struct qr_mesh *m, uint32_t rank, struct qr_bytes state, int64_t deadline_ns, struct qr_err *err);
/* What a member gives, appended to ret. */
QR_MUST_CHECK enum qr_code qr_mesh_fetch(struct qr_mesh *m, uint32_t rank, struct qr_buf *ret, int64_t deadline_ns, struct qr_err *err);
/* Waits for one event, at most 50 ms: while nothing is reduced. What `stop` says. */
QR_MUST_CHECK enum qr_code qr_mesh_idle(struct qr_mesh *m, int64_t until_ns, struct qr_err *err);
uint64_t qr_mesh_dropped(const struct qr_mesh *m); /* messages of other generations, and strangers' */

#endif
