/* collective/allreduce_schedule.c — the schedules of the all-reduce: ring, star, doubling, halving.
 * Start reading at qr_schedule_make() and qr_schedule_receives(). */
#include "collective/allreduce_schedule.h"

#include "format/chunk.h"

enum { EXCHANGE_MAX_BYTES = 16 << 10, HOPS_MAX_BYTES = 256 << 10, STAR_MAX_BYTES = 2 << 20 };

const char *const qr_allreduce_names[QR_ALLREDUCE_KINDS] = {"auto", "ring", "doubling", "star",
                                                            "halving"};

static uint32_t floor_log2(uint32_t n) {
    uint32_t k = 0;
    while (n >> (k + 1)) k++;
    return k;
}

static uint64_t block_start(const struct qr_schedule *s, uint32_t block) {
    if (s->kind != QR_ALLREDUCE_RING && s->kind != QR_ALLREDUCE_HALVING) return block ? s->n : 0;
    return (uint64_t)((unsigned __int128)s->n * block / s->n_ranks);
}

/* Consecutive blocks that are adjacent and sent as one. */
struct span {
    uint32_t block, n;
};
static struct span single_block(uint32_t block) { return (struct span){block, 1}; }

static uint32_t span_parts(const struct qr_schedule *s, struct span b) {
    uint64_t n = block_start(s, b.block + b.n) - block_start(s, b.block);
    return n ? (uint32_t)((n + QR_CHUNK_MAX_COUNT - 1) / QR_CHUNK_MAX_COUNT) : 1;
}

/* Returns the integers of one part of a span; false past its end. */
static bool span_part(const struct qr_schedule *s, struct span b, uint32_t part,
                      uint64_t *ret_offset, uint32_t *ret_count) {
    if (part >= span_parts(s, b)) return false;
    uint64_t start = block_start(s, b.block) + (uint64_t)part * QR_CHUNK_MAX_COUNT,
             end = block_start(s, b.block + b.n);
    *ret_offset = start;
    *ret_count =
        end - start < QR_CHUNK_MAX_COUNT ? (uint32_t)(end - start) : (uint32_t)QR_CHUNK_MAX_COUNT;
    return true;
}

static enum qr_allreduce choose_schedule(enum qr_allreduce allreduce, uint32_t n_ranks,
                                         uint64_t n) {
    if (allreduce == QR_ALLREDUCE_HALVING && (n_ranks & (n_ranks - 1))) return QR_ALLREDUCE_RING;
    if (allreduce != QR_ALLREDUCE_AUTO) return allreduce;
    bool halves = n_ranks > 2 && (n_ranks & (n_ranks - 1)) == 0 &&
                  n <= (uint64_t)n_ranks * QR_CHUNK_MAX_COUNT;
    if (n > (n_ranks == 2 ? EXCHANGE_MAX_BYTES : HOPS_MAX_BYTES) / QR_FIXED_BYTES)
        return halves ? QR_ALLREDUCE_HALVING : QR_ALLREDUCE_RING;
    return n_ranks == 2 || n * (n_ranks - 1) > STAR_MAX_BYTES / QR_FIXED_BYTES
               ? QR_ALLREDUCE_DOUBLING
               : QR_ALLREDUCE_STAR;
}

/* ---- halving ---- */

static uint32_t halving_bit(const struct qr_schedule *s, uint32_t round) {
    return round < s->n_rounds / 2 ? s->n_rounds / 2 - 1 - round : round - s->n_rounds / 2;
}
static uint32_t halving_peer(const struct qr_schedule *s, uint32_t round) {
    return s->rank ^ UINT32_C(1) << halving_bit(s, round);
}
/* Returns the blocks exchanged by two ranks in a round: while summing, the receiver's half of what
 * both have; afterwards the sender's half. */
static struct span halving_span(const struct qr_schedule *s, uint32_t sender, uint32_t receiver,
                                uint32_t round) {
    uint32_t owner = round < s->n_rounds / 2 ? receiver : sender, bit = halving_bit(s, round);
    return (struct span){owner >> bit << bit, UINT32_C(1) << bit};
}
uint32_t qr_schedule_n_parts(const struct qr_schedule *s, uint32_t round) {
    return span_parts(s, halving_span(s, halving_peer(s, round), s->rank, round));
}

struct qr_schedule qr_schedule_make(enum qr_allreduce allreduce, uint32_t n_ranks, uint32_t rank,
                                    uint64_t n) {
    struct qr_schedule s = {
        .kind = choose_schedule(allreduce, n_ranks, n), .n_ranks = n_ranks, .rank = rank, .n = n};
    if (s.kind == QR_ALLREDUCE_DOUBLING) {
        s.core = UINT32_C(1) << floor_log2(n_ranks);
        s.n_folds = s.core < n_ranks;
    }
    if (n_ranks > 1)
        s.n_rounds = s.kind == QR_ALLREDUCE_RING      ? 2 * (n_ranks - 1)
                     : s.kind == QR_ALLREDUCE_STAR    ? 2
                     : s.kind == QR_ALLREDUCE_HALVING ? 2 * floor_log2(n_ranks)
                                                      : floor_log2(n_ranks) + 2 * s.n_folds;
    bool spans = s.kind == QR_ALLREDUCE_HALVING && n_ranks > 1;
    uint32_t kinds = spans ? s.n_rounds : s.kind == QR_ALLREDUCE_RING ? n_ranks : 1;
    for (uint32_t b = 0; b < kinds; b++) {
        uint32_t parts = spans ? qr_schedule_n_parts(&s, b) : span_parts(&s, single_block(b));
        if (parts > s.n_parts) s.n_parts = parts;
    }
    return s;
}

bool qr_schedule_pairs(uint32_t n_ranks, uint32_t a, uint32_t b) {
    uint32_t low = a < b ? a : b, high = a < b ? b : a, apart = high - low;
    uint32_t core = UINT32_C(1) << floor_log2(n_ranks);
    bool ring = apart == 1 || apart == n_ranks - 1, star = low == 0,
         halves = ((a ^ b) & ((a ^ b) - 1)) == 0, fold = apart == core;
    return a != b && (ring || star || halves || fold);
}

const char *qr_schedule_name(enum qr_allreduce allreduce, uint32_t n_ranks, uint64_t n) {
    return n_ranks < 2 ? "alone" : qr_allreduce_names[choose_schedule(allreduce, n_ranks, n)];
}

/* Returns the block that rank r sends to r + 1 in a round of the ring. Rounds 0..N-2 add, rounds
 * N-1..2N-3 distribute. */
static uint32_t ring_block(const struct qr_schedule *s, uint32_t sender, uint32_t round) {
    uint32_t n = s->n_ranks;
    return round < n - 1 ? (sender + n - round) % n : (sender + 1 + n - (round - (n - 1))) % n;
}

/* ---- doubling ---- */

static bool is_beyond_core(const struct qr_schedule *s) { return s->rank >= s->core; }
static bool has_fold(const struct qr_schedule *s) { return s->rank + s->core < s->n_ranks; }
/* Returns the partner of a core rank in a round between the folds. */
static uint32_t doubling_peer(const struct qr_schedule *s, uint32_t round) {
    return s->rank ^ UINT32_C(1) << (round - s->n_folds);
}

static bool doubling_receives(const struct qr_schedule *s, uint32_t round, uint32_t from,
                              enum qr_slot_phase *ret_phase) {
    bool into_core = s->n_folds && round == 0, out_of_core = s->n_folds && round + 1 == s->n_rounds;
    *ret_phase = out_of_core ? QR_SLOT_TAKE : QR_SLOT_ADD;
    if (into_core) return !is_beyond_core(s) && from == s->rank + s->core;
    if (out_of_core) return is_beyond_core(s) && from == s->rank - s->core;
    return !is_beyond_core(s) && from == doubling_peer(s, round);
}

bool qr_schedule_builds_on_round_before(const struct qr_schedule *s, uint32_t round) {
    if (s->kind == QR_ALLREDUCE_HALVING) return round > 0 && round < s->n_rounds / 2;
    return s->kind == QR_ALLREDUCE_DOUBLING && !is_beyond_core(s) &&
           round > (has_fold(s) ? 0 : s->n_folds);
}

bool qr_schedule_sends_own(const struct qr_schedule *s, uint32_t round) {
    if (s->kind == QR_ALLREDUCE_DOUBLING && !is_beyond_core(s))
        return !qr_schedule_builds_on_round_before(s, round);
    return round == 0;
}

bool qr_schedule_is_final(const struct qr_schedule *s, uint32_t round) {
    if (s->kind == QR_ALLREDUCE_RING) return round + 2 >= s->n_ranks;
    if (s->kind == QR_ALLREDUCE_HALVING) return round + 1 >= s->n_rounds / 2;
    if (s->kind == QR_ALLREDUCE_STAR) return (round == 0) == (s->rank == 0);
    return round + 1 == s->n_rounds - (is_beyond_core(s) ? 0 : s->n_folds);
}

bool qr_schedule_receives(const struct qr_schedule *s, uint32_t round, uint32_t part, uint32_t from,
                          struct qr_schedule_slot *ret) {
    if (round >= s->n_rounds || from >= s->n_ranks || from == s->rank) return false;
    struct span block = single_block(0);
    enum qr_slot_phase phase = QR_SLOT_ADD;
    if (s->kind == QR_ALLREDUCE_RING) {
        if (from != (s->rank + s->n_ranks - 1) % s->n_ranks) return false;
        block = single_block(ring_block(s, from, round));
        phase = round < s->n_ranks - 1 ? QR_SLOT_ADD : QR_SLOT_TAKE;
    } else if (s->kind == QR_ALLREDUCE_HALVING) {
        if (from != halving_peer(s, round)) return false;
        block = halving_span(s, from, s->rank, round);
        phase = round < s->n_rounds / 2 ? QR_SLOT_ADD : QR_SLOT_TAKE;
    } else if (s->kind == QR_ALLREDUCE_STAR) {
        if (round == 0 ? s->rank != 0 : from != 0) return false;
        phase = round == 0 ? QR_SLOT_ADD : QR_SLOT_TAKE;
    } else if (!doubling_receives(s, round, from, &phase)) {
        return false;
    }
    struct qr_schedule_slot slot = {.from = from, .phase = phase};
    if (!span_part(s, block, part, &slot.offset, &slot.count)) return false;
    *ret = slot;
    return true;
}

uint64_t qr_schedule_n_receives(const struct qr_schedule *s) {
    if (s->n_ranks < 2) return 0;
    if (s->kind == QR_ALLREDUCE_STAR)
        return (uint64_t)s->n_parts * (s->rank == 0 ? s->n_ranks - 1 : 1);
    if (s->kind == QR_ALLREDUCE_DOUBLING)
        return (uint64_t)s->n_parts *
               (is_beyond_core(s) ? 1 : s->n_rounds - 2 * s->n_folds + has_fold(s));
    uint64_t n = 0;
    for (uint32_t round = 0; s->kind == QR_ALLREDUCE_HALVING && round < s->n_rounds; round++)
        n += qr_schedule_n_parts(s, round);
    if (s->kind == QR_ALLREDUCE_HALVING) return n;
    uint32_t before = (s->rank + s->n_ranks - 1) % s->n_ranks;
    for (uint32_t round = 0; round < s->n_rounds; round++)
        n += span_parts(s, single_block(ring_block(s, before, round)));
    return n;
}

uint64_t qr_schedule_n_sends(const struct qr_schedule *s) {
    bool halves = s->kind == QR_ALLREDUCE_HALVING;
    if ((s->kind != QR_ALLREDUCE_RING && !halves) || s->n_ranks < 2)
        return qr_schedule_n_receives(s); /* senders to a rank receive from it as often */
    uint64_t n = 0;
    for (uint32_t round = 0; round < s->n_rounds; round++)
        n += span_parts(s, halves ? halving_span(s, s->rank, halving_peer(s, round), round)
                                  : single_block(ring_block(s, s->rank, round)));
    return n;
}

static void send_part(const struct qr_schedule *s, uint32_t to, uint32_t round, uint32_t part,
                      struct span block, enum qr_slot_phase phase, qr_schedule_send_fn *send,
                      void *ctx) {
    struct qr_slot_send out = {.to = to, .round = round, .part = part, .phase = phase};
    if (span_part(s, block, part, &out.offset, &out.count)) send(ctx, &out);
}

static void ring_send(const struct qr_schedule *s, uint32_t round, uint32_t part,
                      qr_schedule_send_fn *send, void *ctx) {
    send_part(s, (s->rank + 1) % s->n_ranks, round, part,
              single_block(ring_block(s, s->rank, round)),
              round < s->n_ranks - 1 ? QR_SLOT_ADD : QR_SLOT_TAKE, send, ctx);
}

static void halving_send(const struct qr_schedule *s, uint32_t round, qr_schedule_send_fn *send,
                         void *ctx) {
    uint32_t to = halving_peer(s, round);
    struct span span = halving_span(s, s->rank, to, round);
    for (uint32_t part = 0; part < span_parts(s, span); part++)
        send_part(s, to, round, part, span, round < s->n_rounds / 2 ? QR_SLOT_ADD : QR_SLOT_TAKE,
                  send, ctx);
}

void qr_schedule_first(const struct qr_schedule *s, qr_schedule_send_fn *send, void *ctx) {
    if (s->n_ranks < 2) return;
    if (s->kind == QR_ALLREDUCE_HALVING) {
        halving_send(s, 0, send, ctx);
        return;
    }
    for (uint32_t part = 0; part < s->n_parts; part++) {
        if (s->kind == QR_ALLREDUCE_RING) ring_send(s, 0, part, send, ctx);
        else if (s->kind == QR_ALLREDUCE_DOUBLING && is_beyond_core(s))
            send_part(s, s->rank - s->core, 0, part, single_block(0), QR_SLOT_ADD, send, ctx);
        else if (s->kind == QR_ALLREDUCE_DOUBLING) {
            if (!has_fold(s))
                send_part(s, s->rank ^ 1, s->n_folds, part, single_block(0), QR_SLOT_ADD, send,
                          ctx);
        } else if (s->rank != 0) send_part(s, 0, 0, part, single_block(0), QR_SLOT_ADD, send, ctx);
    }
}

void qr_schedule_next(const struct qr_schedule *s, uint32_t round, uint32_t part,
                      qr_schedule_send_fn *send, void *ctx) {
    /* The block received in this round is sent in the next. */
    if (s->kind == QR_ALLREDUCE_RING) {
        if (round + 1 < s->n_rounds) ring_send(s, round + 1, part, send, ctx);
    } else if (s->kind == QR_ALLREDUCE_HALVING) {
        if (round + 1 < s->n_rounds) halving_send(s, round + 1, send, ctx);
    } else if (s->kind == QR_ALLREDUCE_DOUBLING) {
        if (is_beyond_core(s)) return;
        if (!qr_schedule_is_final(s, round))
            send_part(s, doubling_peer(s, round + 1), round + 1, part, single_block(0), QR_SLOT_ADD,
                      send, ctx);
        else if (has_fold(s))
            send_part(s, s->rank + s->core, round + 1, part, single_block(0), QR_SLOT_TAKE, send,
                      ctx);
    } else if (s->rank == 0) {
        for (uint32_t to = 1; to < s->n_ranks; to++)
            send_part(s, to, 1, part, single_block(0), QR_SLOT_TAKE, send, ctx);
    }
}
