/* train/pod_time.h — pod-time that a run has taken: the integral of the number of members over
 * time.
 *
 * Known by     every member: each counts for itself from its first generation on, and with each
 *              reduction says how much it knows of, in what its rank adds (step.h). The largest is
 *              everybody's: who came late, or leads since a moment ago, knows what the others know.
 * Between two  generations the members of the one before count.
 * The bound    is the leader's: it says with a reduction that the run has reached it. So all hear
 *              it with the same sum and end after the same step.
 * Time         is the caller's clock. It reaches no bit of a result: only when training ends.
 * Threads      one.
 */
#ifndef QR_TRAIN_POD_TIME_H
#define QR_TRAIN_POD_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "exact/integer.h"

struct qr_pod_time {
    int64_t pod_ns; /* until since_ns */
    int64_t since_ns;
    uint32_t n_members; /* since then; 0: of no generation yet */
};
/* What was taken before this process began. */
void qr_pod_time_begin(struct qr_pod_time *s, uint64_t pod_ms);
uint64_t qr_pod_time_ms(const struct qr_pod_time *s, int64_t now_ns);
/* A generation of so many members begins. */
void qr_pod_time_set_members(struct qr_pod_time *s, uint32_t n_members, int64_t now_ns);
/* Others know of so much. */
void qr_pod_time_raise(struct qr_pod_time *s, uint64_t pod_ms, int64_t now_ns);
/* This member lacked a state that others have: its own count, which may be of a time in which it
 * was no member, is none until it learns theirs. */
void qr_pod_time_reset(struct qr_pod_time *s, int64_t now_ns);

/* What a rank adds: nanoseconds that it computed, and in the fraction, which no sum of those
 * touches, what it knows, and whether the bound is reached. */
qr_fixed qr_pod_time_encode(uint64_t computed_ns, uint64_t pod_ms, bool bound);
/* From a sum of n ranks. */
struct qr_pod_time_report {
    uint64_t pod_ms; /* the largest */
    bool bound;      /* rank 0 says so */
};
struct qr_pod_time_report qr_pod_time_decode(const qr_fixed *by_rank, uint32_t n);

#endif
