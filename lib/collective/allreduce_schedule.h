/* collective/allreduce_schedule.h — all-reduce schedules: which rank sends which part of a vector
 * to which rank, and when. Pure tables.
 *
 * What      A schedule is a set of slots. A slot is one chunk that one rank receives: (round, part)
 *           → sender, integers, whether it is a partial sum to add or the whole sum to store, and
 *           the sends that it makes ready. All schedules give the same bits.
 * ring      2(N-1) rounds; block b of N goes around once while it is summed and once more while it
 *           is distributed. Least bytes; for long vectors.
 * star      2 rounds: all to rank 0, and back. Fewest hops for N > 2.
 * doubling  log2 N rounds; each exchanges the sum so far with the rank that differs in one bit.
 *           Where N is not a power of two, with P the next lower one, the ranks from P on first
 *           send their values to rank - P, and receive the sum from there at the end: two rounds
 *           more.
 * halving   2 log2 N rounds: each exchanges half of what a rank still sums with the rank that
 *           differs in one bit, the highest first; then the complete halves in reverse order. As
 *           few bytes as the ring in far fewer messages, but each round needs all of the one
 *           before. Where N is not a power of two it is the ring.
 * Parts     A block is sent in parts of at most QR_CHUNK_MAX_COUNT integers. An empty block is one
 *           empty part: its coverage word counts.
 * Threads   any.
 * Source    Patarasu and Yuan, "Bandwidth optimal all-reduce algorithms" (2009); Thakur et al.,
 *           "Optimization of collective communication" (2005).
 */
#ifndef QR_COLLECTIVE_ALLREDUCE_SCHEDULE_H
#define QR_COLLECTIVE_ALLREDUCE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "collective/contribution.h"

struct qr_schedule {
    enum qr_allreduce kind; /* never auto */
    uint32_t n_ranks, rank;
    uint64_t n;             /* integers */
    uint32_t n_rounds;      /* rounds in which a rank may receive */
    uint32_t core, n_folds; /* doubling: P, and 1 where N > P, else 0 */
    uint32_t n_parts;       /* of the largest block; part numbers are below it */
};
/* Makes the schedule of one rank. A function of its arguments alone.
 *
 * Auto:     two ranks: doubling up to 16 KB. More ranks, up to 256 KB: star while at most 2 MB go
 *           through rank 0 each way (eight ranks), else doubling. Above that: halving where N is a
 *           power of two and a ring's block would not fill a chunk, else ring (auto.md).
 * Args:     allreduce  the setting, or QR_ALLREDUCE_AUTO
 *           n_ranks    >= 1
 *           n          integers; fewer than 2^31 parts
 */
struct qr_schedule qr_schedule_make(enum qr_allreduce allreduce, uint32_t n_ranks, uint32_t rank,
                                    uint64_t n);
/* Returns whether two ranks are neighbours in any schedule of n_ranks: one sends to the other. */
bool qr_schedule_pairs(uint32_t n_ranks, uint32_t a, uint32_t b);
/* Returns "ring", "star", "doubling", "halving" or "alone"; static. */
const char *qr_schedule_name(enum qr_allreduce allreduce, uint32_t n_ranks, uint64_t n);

enum qr_slot_phase { QR_SLOT_ADD = 0, QR_SLOT_TAKE = 1 };
struct qr_schedule_slot {
    uint32_t from; /* the rank that sends it */
    enum qr_slot_phase phase;
    uint64_t offset;
    uint32_t count;
};
/* Returns the number of parts that this rank receives in a round of halving. */
uint32_t qr_schedule_n_parts(const struct qr_schedule *s, uint32_t round);
/* Returns the slot of (round, part, from) at this rank; false: there is none. In round 0 of star
 * rank 0 has a slot for each sender, so `from` is an argument; elsewhere it must be the one
 * sender. */
bool qr_schedule_receives(const struct qr_schedule *s, uint32_t round, uint32_t part, uint32_t from,
                          struct qr_schedule_slot *ret);
/* Returns how many chunks this rank receives. */
uint64_t qr_schedule_n_receives(const struct qr_schedule *s);
/* Returns how many chunks this rank sends. */
uint64_t qr_schedule_n_sends(const struct qr_schedule *s);

/* One chunk that this rank sends. */
struct qr_slot_send {
    uint32_t to, round, part;
    enum qr_slot_phase phase;
    uint64_t offset;
    uint32_t count;
};
/* Returns whether a chunk of this round is added to the sum of the round before, and must be
 * processed after that. */
bool qr_schedule_builds_on_round_before(const struct qr_schedule *s, uint32_t round);
/* Returns whether this rank sends only its own contribution in this round. */
bool qr_schedule_sends_own(const struct qr_schedule *s, uint32_t round);
/* Returns whether a chunk of this round is the complete sum, or completes it here. */
bool qr_schedule_is_final(const struct qr_schedule *s, uint32_t round);
typedef void qr_schedule_send_fn(void *ctx, const struct qr_slot_send *s);
/* Calls send for each chunk that can be sent at once, from the member's own contribution. */
void qr_schedule_first(const struct qr_schedule *s, qr_schedule_send_fn *send, void *ctx);
/* Calls send for each chunk that (round, part) makes ready, once it is processed. Star's round 0 at
 * rank 0: call once all senders' parts are in. Halving: call once for each round, when it and all
 * earlier ones are complete; part is ignored. */
void qr_schedule_next(const struct qr_schedule *s, uint32_t round, uint32_t part,
                      qr_schedule_send_fn *send, void *ctx);

#endif
