/* train/pod_time.h — pod-time of a run: the integral of the number of members over time.
 *
 * Sharing      Each member counts on its own from its first generation, and sends its count with
 *              its slot of each reduction (step.h). Members adopt the largest count, so a new
 *              member or leader knows what the others know.
 * Regroups     Between two generations the members of the previous one count.
 * Limit        The leader decides, and sets a bit in a reduction when the run has reached its
 *              limit. All members receive the bit with the same sum and end after the same step.
 * Time         The caller's clock. Affects no bit of a result, only when training ends.
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
    uint32_t n_members; /* since then; 0: no generation yet */
};
/* Starts from the pod-time used before this process. */
void qr_pod_time_begin(struct qr_pod_time *s, uint64_t pod_ms);
/* Returns the pod-time until now, in milliseconds. */
uint64_t qr_pod_time_ms(const struct qr_pod_time *s, int64_t now_ns);
/* A generation with n_members begins. */
void qr_pod_time_set_members(struct qr_pod_time *s, uint32_t n_members, int64_t now_ns);
/* Raises the count to pod_ms, which another member has reached. */
void qr_pod_time_raise(struct qr_pod_time *s, uint64_t pod_ms, int64_t now_ns);
/* Resets the count to 0 until the next raise: this member fetched its state, so its own count may
 * cover time in which it was not a member. */
void qr_pod_time_reset(struct qr_pod_time *s, int64_t now_ns);

/* Encodes a rank's slot of the vector: computed nanoseconds in the integer part; in the fraction,
 * which sums of nanoseconds do not affect, its pod-time and whether the limit is reached. */
qr_fixed qr_pod_time_encode(uint64_t computed_ns, uint64_t pod_ms, bool bound);
/* Decoded from the n slots of a sum. */
struct qr_pod_time_report {
    uint64_t pod_ms; /* the largest */
    bool bound;      /* rank 0 has set it */
};
struct qr_pod_time_report qr_pod_time_decode(const qr_fixed *by_rank, uint32_t n);

#endif
