/* collective/mesh.h — the data streams between workers, and the reductions of one generation after
 * the other that run over them.
 *
 * What      Every pair of peers has one data stream: the higher index dials the lower one's data
 *           port. Each side greets first (who speaks to whom) and the stream is up once both have.
 *           It lives as long as its two processes: generations come and go on it, and a mark says
 *           where each begins. So a newcomer's streams come up beside training, before any
 *           generation has it.
 * Early     who greets before it is expected here waits for that, its stream unread, for 5 s; a
 *           mark of a generation that is not formed yet waits for it, and what a member sends ahead
 *           of this one's reduction: one message here, the rest unread in its stream.
 * Waiting   every wait polls the link in slices of at most 50 ms and asks `stop` in between: that
 *           is how the control thread, a signal or a lost member ends it. While it polls it sends a
 *           beat on each member's stream four times a second, and tells `polled` whom it has heard:
 *           of two that both poll without a pause, and whose beats do not arrive, the stream passes
 *           no data.
 * Failure   a stream that breaks, or brings a damaged chunk, is told to `down`; when work of the
 *           generation may be lost with it, `stop` should soon give the reason, else UNAVAILABLE
 *           names the member after 2 s. Streams are dialed again for ever, at most once a second.
 * Threads   the training thread owns the link and the mesh. Streams come up, and go, while
 *           it polls.
 */
#ifndef QR_COLLECTIVE_MESH_H
#define QR_COLLECTIVE_MESH_H

#include "base/clock.h"
#include "base/log.h"
#include "collective/allreduce.h"
#include "collective/poll_report.h"
#include "format/message.h"

struct qr_mesh_options {
    struct qr_link *link; /* borrowed; it listens already */
    const struct qr_clock *clock;
    const struct qr_log *log;
    uint32_t index; /* one's own */
    uint8_t incarnation[QR_INCARNATION_BYTES];
    void *ctx;
    enum qr_code (*stop)(void *ctx, struct qr_err *err); /* QR_OK: go on */
    /* both have greeted */
    void (*up)(void *ctx, uint32_t index, const uint8_t incarnation[QR_INCARNATION_BYTES]);
    /* lost: work of this generation may be */
    void (*down)(void *ctx, uint32_t index, const char *reason, bool lost);
    void (*polled)(void *ctx, const struct qr_poll_report *how); /* with each beat */
};
struct qr_mesh_member {
    uint32_t index;
    uint8_t incarnation[QR_INCARNATION_BYTES];
    char name[160];    /* "worker 2 (host:port)": for people */
    char address[280]; /* of its data port; of a higher index it is not used */
};
struct qr_mesh;
struct qr_mesh *qr_mesh_new(const struct qr_mesh_options *opt);
void qr_mesh_free(struct qr_mesh *m); /* before the link; NULL is fine */

/* Whose stream is to be there, from now on; a stream of another process with that index goes.
 * Nothing when it is expected already. */
void qr_mesh_expect(struct qr_mesh *m, const struct qr_mesh_member *who); /* copied */
void qr_mesh_forget(struct qr_mesh *m, uint32_t index);
void qr_mesh_renew(struct qr_mesh *m, uint32_t index); /* it passes no data: another in its place */

/* Begins a generation of these members (by rank; they are expected from now on), and waits
 * until each has said that it has begun it too. DEADLINE_EXCEEDED at deadline_ns names one that
 * is missing. */
QR_MUST_CHECK enum qr_code qr_mesh_form(struct qr_mesh *m, const struct qr_gen_id *id,
                                        const struct qr_mesh_member *members, uint32_t n_members,
                                        uint32_t rank, int64_t deadline_ns, struct qr_err *err);
/* The generation is over: what still comes of it is dropped. Every failure of the calls below has
 * the same effect, but for a reduction that cannot begin (RESOURCE_EXHAUSTED) or is refused. */
void qr_mesh_leave(struct qr_mesh *m);
/* The sum over all members. DATA_LOSS: its coverage word was refused. When it returns, the link
 * reads neither vector nor sum any more, unless it has failed and qr_mesh_buffers_in_use. */
QR_MUST_CHECK enum qr_code qr_mesh_reduce(struct qr_mesh *m, enum qr_allreduce allreduce,
                                          const struct qr_contribution *c, qr_fixed *ret_sum,
                                          struct qr_err *err);
/* The bytes of a state, whole, to a member; it is theirs when this returns. */
QR_MUST_CHECK enum qr_code qr_mesh_give(struct qr_mesh *m, uint32_t rank, struct qr_bytes state,
                                        int64_t deadline_ns, struct qr_err *err);
/* What a member gives, appended to ret. */
QR_MUST_CHECK enum qr_code qr_mesh_fetch(struct qr_mesh *m, uint32_t rank, struct qr_buf *ret,
                                         int64_t deadline_ns, struct qr_err *err);
/* Between generations: only the one of this id (NULL: none) may still begin here. Streams that were
 * held for another are read on: while one is held, its orderly end is not seen (link.h). */
void qr_mesh_await(struct qr_mesh *m, const struct qr_gen_id *id);
/* Waits for one event, at most 50 ms: while nothing is reduced. What `stop` says. */
QR_MUST_CHECK enum qr_code qr_mesh_idle(struct qr_mesh *m, int64_t until_ns, struct qr_err *err);
/* messages of other generations, and strangers' */
uint64_t qr_mesh_dropped(const struct qr_mesh *m);
/* A stream that hangs, and was closed, may still read what a reduction was given. */
bool qr_mesh_buffers_in_use(struct qr_mesh *m);

#endif
