/* collective/mesh.h — the data streams between workers, and the reductions of successive
 * generations over them.
 *
 * What      Every pair of peers has one data stream: the higher index dials the lower one's data
 *           port. Each side first sends a greeting with both processes' names; the stream is up
 *           once both have greeted. It lives as long as its two processes: generations come and go,
 *           and a mark says where each begins. So a newcomer's streams come up beside training,
 *           before any generation includes it. A generation needs only the streams over which it
 *           passes chunks or a state; others may come up during it.
 * Order     qr_mesh_new, qr_mesh_expect for each peer. For each generation: qr_mesh_form;
 *           qr_mesh_give, qr_mesh_fetch, qr_mesh_reduce; qr_mesh_leave. Between generations
 *           qr_mesh_await and qr_mesh_idle.
 * Early     A peer that greets before it is expected waits for that, its stream unread, for 5 s. A
 *           mark of a generation that is not formed yet waits for it, and so do messages sent ahead
 *           of this member's reduction: one message is kept here, the rest stays unread in the
 *           stream.
 * Waiting   Every wait polls the link in slices of at most 50 ms and calls `stop` in between: that
 *           is how the control thread, a signal or a lost member ends it. While polling, the mesh
 *           sends a beat four times a second on each stream that chunks or a state may use, and
 *           reports to `polled` which members it received messages from: if two peers poll without
 *           a pause and no message arrives, the stream passes no data. Other streams are judged
 *           until the member's mark has arrived, and get a beat each 8 s to stay open.
 * Errors    A stream that breaks, or brings a damaged chunk, is reported to `down`. When that may
 *           lose work of the generation, `stop` should soon return the reason; otherwise
 *           UNAVAILABLE names the member after 2 s. Streams are dialed again without end, at most
 *           once a second.
 * Threads   the training thread owns the link and the mesh. Streams come up, and go, while it
 *           polls.
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
    uint32_t index; /* of this process */
    uint8_t incarnation[QR_INCARNATION_BYTES];
    void *ctx;
    enum qr_code (*stop)(void *ctx, struct qr_err *err); /* QR_OK: continue */
    /* Both have greeted */
    void (*up)(void *ctx, uint32_t index, const uint8_t incarnation[QR_INCARNATION_BYTES]);
    /* lost: work of this generation may be lost */
    void (*down)(void *ctx, uint32_t index, const char *reason, bool lost);
    void (*polled)(void *ctx, const struct qr_poll_report *how); /* with each beat */
};
struct qr_mesh_member {
    uint32_t index;
    uint8_t incarnation[QR_INCARNATION_BYTES];
    char name[160];    /* "worker 2 (host:port)", for messages */
    char address[280]; /* of its data port; unused for a higher index */
    bool later;        /* lower index: not dialed until a generation needs it */
    bool passes_state; /* qr_mesh_form: one of the two sends the other the state */
};
struct qr_mesh;
/* Creates a mesh without streams. opt is copied; its pointers are borrowed. Free with
 * qr_mesh_free. */
struct qr_mesh *qr_mesh_new(const struct qr_mesh_options *opt);
void qr_mesh_free(struct qr_mesh *m); /* call before the link is freed; NULL is fine */

/* Requests a stream to this process from now on, or from the next generation that needs it; a
 * stream to another process at that index is closed. No effect when that process is expected
 * already.
 *
 * Args:     member  copied
 */
void qr_mesh_expect(struct qr_mesh *m, const struct qr_mesh_member *member);
/* Closes the stream to this index and expects none. */
void qr_mesh_forget(struct qr_mesh *m, uint32_t index);
void qr_mesh_renew(struct qr_mesh *m, uint32_t index); /* it passes no data: replace it */

/* Begins a generation and waits until each member with which this one exchanges chunks or a state
 * has begun it too. Streams to other members that were left for later need not be up.
 *
 * Args:     members  [n_members], by rank; expected from now on
 *           rank     of this process
 * Errors:   DEADLINE_EXCEEDED (at deadline_ns; names a missing member); those of `stop`
 */
QR_MUST_CHECK enum qr_code qr_mesh_form(struct qr_mesh *m, const struct qr_gen_id *id,
                                        const struct qr_mesh_member *members, uint32_t n_members,
                                        uint32_t rank, int64_t deadline_ns, struct qr_err *err);
/* Ends the generation: later messages of it are dropped. Every failure of the calls below has the
 * same effect, except a reduction that cannot begin (RESOURCE_EXHAUSTED) or fails its coverage
 * check. */
void qr_mesh_leave(struct qr_mesh *m);
/* Sums the contributions of all members. On return the link no longer reads vector and sum, unless
 * it has failed and qr_mesh_buffers_in_use.
 *
 * Args:     allreduce  the setting, equal at all members
 *           c          this member's contribution
 *           ret_sum    [c->n], not aliasing the vector
 * Errors:   DATA_LOSS (coverage check failed); RESOURCE_EXHAUSTED; DEADLINE_EXCEEDED (no progress
 *           for 600 s); ABORTED; UNAVAILABLE; those of `stop`
 */
QR_MUST_CHECK enum qr_code qr_mesh_reduce(struct qr_mesh *m, enum qr_allreduce allreduce,
                                          const struct qr_contribution *c, qr_fixed *ret_sum,
                                          struct qr_err *err);
/* Sends the whole bytes of a state to a member; not read any more when this returns. */
QR_MUST_CHECK enum qr_code qr_mesh_give(struct qr_mesh *m, uint32_t rank, struct qr_bytes state,
                                        int64_t deadline_ns, struct qr_err *err);
/* Receives the state that a member sends; appended to ret. */
QR_MUST_CHECK enum qr_code qr_mesh_fetch(struct qr_mesh *m, uint32_t rank, struct qr_buf *ret,
                                         int64_t deadline_ns, struct qr_err *err);
/* Between generations: only the one with this id may still begin here; NULL: none. Streams held for
 * another are read again: the orderly end of a held stream is not seen (link.h). */
void qr_mesh_await(struct qr_mesh *m, const struct qr_gen_id *id);
/* Waits for one event, at most 50 ms, while no reduction runs. Returns the code of `stop`. */
QR_MUST_CHECK enum qr_code qr_mesh_idle(struct qr_mesh *m, int64_t until_ns, struct qr_err *err);
/* Returns the number of dropped messages: of other generations, or from unexpected connections. */
uint64_t qr_mesh_dropped(const struct qr_mesh *m);
/* Returns whether a hanging stream, already closed, may still read the buffers of a reduction. */
bool qr_mesh_buffers_in_use(struct qr_mesh *m);

#endif
