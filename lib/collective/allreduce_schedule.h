/* collective/allreduce_schedule.h — who sends which part of a vector to whom, and when: pure
 * tables.
 *
 * What      A schedule is a set of slots. A slot is one chunk that one rank receives: (round, part)
 *           → from whom, which integers, whether it is a partial sum to be added or the whole sum
 *           to be taken, and which slots of others it makes ready. Integers give the same bits
 *           under all of them.
 * ring      2(N-1) rounds; block b of N goes once round while it is summed and once more while it
 *           is handed out. Least bytes; for long vectors.
 * star      2 rounds: all to rank 0, and back. Fewest hops for N > 2.
 * doubling  log2 N rounds, each an exchange of the sum so far with the rank that differs in one
 *           bit. Where N is no power of two, the ranks from the next lower one P on first give what
 *           they have to rank - P, and at last get the sum from there: two rounds more.
 * halving   2 log2 N rounds: each exchanges half of what a rank still sums with the rank that
 *           differs in one bit, the highest first, and then the wholes the other way round. As few
 *           bytes as the ring in far fewer messages, but a round waits for all of the one before.
 *           Where N is no power of two it is the ring.
 * Parts     a block travels in parts of at most QR_CHUNK_MAX_COUNT integers. An empty block is one
 *           empty part: its coverage word counts.
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
    uint32_t core, n_folds; /* doubling: P, and 1 where there are ranks beyond it, else 0 */
    uint32_t n_parts;       /* of the largest block: parts are numbered below it */
};
/* Auto: two ranks, doubling up to 16 KB; more of them, up to 256 KB, star while no more than 2 MB
 * go through rank 0 each way (eight ranks), else doubling; above that halving, where N is a power
 * of two and as long as a ring's block would not fill a chunk, else ring (auto.md: why).
 *
 * n_ranks >= 1; below 2^31 parts. A function of its arguments alone. */
struct qr_schedule qr_schedule_make(enum qr_allreduce allreduce, uint32_t n_ranks, uint32_t rank,
                                    uint64_t n);
/* "ring" "star" "doubling" "halving" "alone" */
const char *qr_schedule_name(enum qr_allreduce allreduce, uint32_t n_ranks, uint64_t n);

enum qr_slot_phase { QR_SLOT_ADD = 0, QR_SLOT_TAKE = 1 };
struct qr_schedule_slot {
    uint32_t from; /* the rank that sends it */
    enum qr_slot_phase phase;
    uint64_t offset;
    uint32_t count;
};
/* Halving: what this rank receives in a round. */
uint32_t qr_schedule_n_parts(const struct qr_schedule *s, uint32_t round);
/* What this rank receives in (round, part, from): false when there is no such slot. Star's
 * round 0 at rank 0 has a slot per sender, so `from` is an argument; elsewhere it must be the
 * one sender. */
bool qr_schedule_receives(const struct qr_schedule *s, uint32_t round, uint32_t part, uint32_t from,
                          struct qr_schedule_slot *ret);
uint64_t qr_schedule_n_receives(const struct qr_schedule *s);
uint64_t qr_schedule_n_sends(const struct qr_schedule *s);

/* One chunk that this rank sends. */
struct qr_slot_send {
    uint32_t to, round, part;
    enum qr_slot_phase phase;
    uint64_t offset;
    uint32_t count;
};
/* What comes in this round adds to what the round before has summed up here, and can only be worked
 * in after that. */
bool qr_schedule_builds_on_round_before(const struct qr_schedule *s, uint32_t round);
/* What is sent in this round is this rank's contribution alone: nothing was to be added
 * here before. */
bool qr_schedule_sends_own(const struct qr_schedule *s, uint32_t round);
/* What is received in this round is the whole sum, or makes it whole here. */
bool qr_schedule_is_final(const struct qr_schedule *s, uint32_t round);
typedef void qr_schedule_send_fn(void *ctx, const struct qr_slot_send *s);
/* What may be sent at once, from the member's own contribution. */
void qr_schedule_first(const struct qr_schedule *s, qr_schedule_send_fn *send, void *ctx);
/* What (round, part) makes ready, after it has been worked in. In star's round 0 at rank 0: to be
 * called when all senders' parts are in. In halving: once a round, when it and all before it are
 * whole; part says nothing. */
void qr_schedule_next(const struct qr_schedule *s, uint32_t round, uint32_t part,
                      qr_schedule_send_fn *send, void *ctx);

#endif
