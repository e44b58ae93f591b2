/* group/group.h — the group as the step loop sees it.
 *
 * What      forms the first generation, sums contributions so that every block counts exactly once, ends together (DESIGN §8). Built from
 *           member.c (pure rules), a control link with its thread, and a data link driven by the calling (training) thread.
 * Failure   when a member is lost: UNAVAILABLE naming it ("worker 2 (host:port) ..."); the caller exits 138. Refusals by the job's leader:
 *           FAILED_PRECONDITION with field and both values. Every wait has a bound.
 * Threads   all functions from the training thread, but qr_group_interrupt (any thread, also from a signal-handling thread).
 */
#ifndef QR_GROUP_GROUP_H
#define QR_GROUP_GROUP_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/log.h"
#include "exact/coverage.h"
#include "exact/integer.h"

enum qr_allreduce { QR_ALLREDUCE_AUTO, QR_ALLREDUCE_RING, QR_ALLREDUCE_DOUBLING, QR_ALLREDUCE_STAR };
extern const char *const qr_allreduce_names[4]; /* "auto" "ring" "doubling" "star" */

struct qr_link_tls;
struct qr_group_field { const char *name, *value; }; /* one canonical field of the job: compared in hellos */
struct qr_group_options {
    const char *run;                 /* the job's name */
    uint8_t job_hash[32];
    const struct qr_group_field *fields; size_t n_fields; /* borrowed for the group's life */
    uint32_t index;
    size_t n_peers; const char *const *peers; /* host:port by index with oneself; borrowed */
    bool count_known;
    unsigned min_workers;            /* 0: ceil(n_peers / 2) */
    const char *listen_address;      /* "0.0.0.0:2222"; port 0 = any */
    unsigned data_port;              /* 2224; 0 = any */
    int64_t form_timeout_ns;
    enum qr_allreduce allreduce;
    const struct qr_link_tls *tls;   /* group/link_grpc_tls.h; outlives the group; NULL: plaintext */
    const struct qr_clock *clock;
    const struct qr_log *log;
};
struct qr_group_view {
    uint64_t generation;             /* its number */
    uint32_t n_members, rank;        /* rank 0 leads */
    uint32_t index[64];              /* of each rank */
};

struct qr_group;
/* A group of one: no ports, no threads. */
struct qr_group *qr_group_solo(const struct qr_group_options *opt);
/* Listens on both ports (ALREADY_EXISTS when one is in use) and starts the control thread. gRPC links. *ret_port: the bound control port.
 * */
QR_MUST_CHECK enum qr_code qr_group_open(const struct qr_group_options *opt, struct qr_group **ret, unsigned *ret_port,
                                         struct qr_err *err);
void qr_group_close(struct qr_group *g); /* says goodbye, bounded at 1 s; NULL is fine */

/* Blocks until the first generation begins. DEADLINE_EXCEEDED names who did not answer. */
QR_MUST_CHECK enum qr_code qr_group_form(struct qr_group *g, struct qr_group_view *ret, struct qr_err *err);

/* What this member adds to one reduction. The vector is never written. */
struct qr_contribution {
    struct qr_coverage_key key;
    uint64_t n_blocks;               /* of the whole step */
    struct qr_coverage coverage;     /* over the blocks in `vector`; the member's own word is added inside */
    const qr_fixed *vector; size_t n;
};
/* ret_sum[n]: the sum over all members, checked by coverage. ret_sum may not alias vector. DATA_LOSS when a coverage word is refused,
 * naming the step. UNAVAILABLE when a member is lost, CANCELLED after qr_group_interrupt. */
QR_MUST_CHECK enum qr_code qr_group_reduce(struct qr_group *g, const struct qr_contribution *c, qr_fixed *ret_sum,
                                           struct qr_err *err);

/* The training thread tells how far it is (heartbeats carry it). Cheap. */
void qr_group_progress(struct qr_group *g, uint64_t applied_step, const uint8_t digest[16]);

/* End together, after the closing reduction (kind CLOSE). The leader calls with uploaded=true when everything is written: Done goes to
 * all. Others wait for Done: bounded by timeout_ns. The leader then waits at most 5 s for goodbyes. leader_failed: text to send when the
 * leader cannot write. */
QR_MUST_CHECK enum qr_code qr_group_done(struct qr_group *g, const struct qr_err *leader_error, int64_t timeout_ns,
                                         struct qr_err *err);
/* SIGTERM: waiting calls return CANCELLED soon; peers are told that this member leaves. */
void qr_group_interrupt(struct qr_group *g);
/* Which schedule a reduction of n integers uses now: for the log of the first step. */
const char *qr_group_schedule_name(const struct qr_group *g, size_t n);

#endif
