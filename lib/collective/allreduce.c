/* collective/allreduce.c — one reduction: sends and receives the chunks of a schedule, adds
 * integers, checks coverage. Start reading at qr_reduction_message(). */
#include "collective/allreduce.h"

#include <inttypes.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "format/chunk.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "integers are sent from where they lie");

/* Part of a piece, and of the sum, that stays in the nearest cache while it is processed. */
enum {
    STRIDE_BYTES = 12 << 10,
    /* Chunks that a ring member may send ahead of those received, so that all data under way fits
     * the caches. */
    AHEAD = 2
};

struct outgoing {
    struct qr_slot_send slot;
    uint32_t crc;
    bool has_crc, sent;
};
struct slot_sum { /* sum of a slot's integers, once processed */
    struct qr_coverage coverage;
    uint32_t crc; /* of those integers, where they are sent on */
};
struct qr_reduction {
    struct qr_reduction_args a;
    struct qr_contribution c;
    struct qr_schedule s;
    struct qr_coverage own, total;
    uint64_t n_received, n_expected;
    /* By slot = round * n_parts + part. */
    struct slot_sum *slots;
    size_t slots_cap;
    uint8_t *got; /* received, by slot; in star at rank 0 by from * n_parts + part */
    size_t got_cap;
    /* Star at rank 0: senders received, by part; halving: parts received, by round. */
    uint32_t *arrived;
    size_t arrived_cap;
    uint32_t n_whole; /* halving: number of complete rounds, all earlier ones included */
    struct outgoing *out;
    size_t out_cap, n_out, first_out;
    qr_fixed *scratch; /* doubling: the sums before rounds 1, 2, ... that add */
    size_t scratch_cap;
};

struct qr_reduction *qr_reduction_new(void) {
    return qr_xcalloc(1, sizeof(struct qr_reduction));
}
void qr_reduction_free(struct qr_reduction *r) {
    if (!r) return;
    free(r->slots);
    free(r->got);
    free(r->arrived);
    free(r->out);
    free(r->scratch);
    free(r);
}

#define GROW(p, cap, n)                                                                            \
    do {                                                                                           \
        if ((cap) < (n)) {                                                                         \
            (p) = qr_xreallocarray((p), (n), sizeof *(p));                                         \
            (cap) = (n);                                                                           \
        }                                                                                          \
    } while (0)

/* Returns where the sum of all rounds before `round` is stored: complete sums, and all that are
 * summed in place, in ret_sum. */
static qr_fixed *partial_sum(const struct qr_reduction *r, uint32_t round) {
    if (r->s.kind == QR_ALLREDUCE_DOUBLING && !qr_schedule_is_final(&r->s, round - 1))
        return r->scratch + (size_t)(round - 1) * r->s.n;
    return r->a.sum;
}

static const qr_fixed *send_source(const struct qr_reduction *r, uint32_t round) {
    return qr_schedule_sends_own(&r->s, round) ? r->c.vector : partial_sum(r, round);
}
static struct slot_sum *slot_at(const struct qr_reduction *r, uint32_t round, uint32_t part) {
    return &r->slots[(size_t)round * r->s.n_parts + part];
}

static void queue_send(void *ctx, const struct qr_slot_send *slot) {
    struct qr_reduction *r = ctx;
    QR_ASSERT(r->n_out < r->out_cap);
    r->out[r->n_out++] = (struct outgoing){.slot = *slot};
}

static bool try_send(struct qr_reduction *r, struct outgoing *o) {
    const struct qr_slot_send *slot = &o->slot;
    const qr_fixed *from = slot->count ? send_source(r, slot->round) + slot->offset : NULL;
    size_t bytes = (size_t)slot->count * QR_FIXED_BYTES;
    /* The parts of a halving round differ from those of the round before, which share one coverage
     * word. */
    bool halves = r->s.kind == QR_ALLREDUCE_HALVING;
    const struct slot_sum *own = qr_schedule_sends_own(&r->s, slot->round)
                                     ? NULL
                                     : slot_at(r, slot->round - 1, halves ? 0 : slot->part);
    if (!o->has_crc) {
        o->crc = own && !halves ? own->crc : qr_crc32c(0, from, bytes);
        o->has_crc = true;
    }
    struct qr_chunk chunk = {
        .kind = (uint8_t)r->c.key.kind,
        .schedule = (uint8_t)r->s.kind,
        .phase = (uint8_t)slot->phase,
        .generation = r->a.generation,
        .reductions = r->c.key.reductions,
        .total = r->s.n,
        .offset = slot->offset,
        .count = slot->count,
        .round = slot->round,
        .part = slot->part,
        .rank = r->a.rank,
        .crc = o->crc,
    };
    qr_coverage_store(chunk.coverage, own ? own->coverage : r->own);
    uint8_t head[QR_CHUNK_HEADER_BYTES];
    qr_chunk_encode(&chunk, head);
    const struct qr_link_ops *ops = r->a.link->ops;
    return ops->send(r->a.link, r->a.conn[slot->to], qr_bytes_of(head, sizeof head),
                     qr_bytes_of(from, bytes));
}

/* The counts around the ring add up, so some member may always send: no deadlock. */
static bool is_far_ahead(const struct qr_reduction *r, size_t i) {
    return r->s.kind == QR_ALLREDUCE_RING && i >= r->n_received + AHEAD &&
           r->n_received < r->n_expected;
}

void qr_reduction_pump(struct qr_reduction *r) {
    uint64_t full = 0; /* ranks with a full queue */
    uint32_t n_full = 0;
    for (size_t i = r->first_out; i < r->n_out && n_full + 1 < r->a.n_ranks; i++) {
        struct outgoing *o = &r->out[i];
        if (is_far_ahead(r, i)) break;
        if (o->sent || full >> o->slot.to & 1) continue;
        if (try_send(r, o)) {
            o->sent = true;
        } else {
            full |= UINT64_C(1) << o->slot.to;
            n_full++;
            if (r->s.kind == QR_ALLREDUCE_RING) break; /* there is one receiver */
        }
    }
    while (r->first_out < r->n_out && r->out[r->first_out].sent) r->first_out++;
}

enum qr_code qr_reduction_begin(struct qr_reduction *r, const struct qr_reduction_args *args,
                                struct qr_err *err) {
    QR_ASSERT(args->n_ranks >= 1 && args->n_ranks <= QR_MAX_MEMBERS && args->rank < args->n_ranks);
    r->a = *args;
    r->c = *args->contribution;
    r->s = qr_schedule_make(args->allreduce, args->n_ranks, args->rank, r->c.n);
    if (r->s.kind == QR_ALLREDUCE_DOUBLING && r->s.n_rounds > 1) {
        size_t need = (size_t)(r->s.n_rounds - 1 - r->s.n_folds) * r->c.n;
        if (need > r->scratch_cap) {
            free(r->scratch);
            r->scratch = NULL;
            r->scratch_cap = 0;
            void *p;
            QR_TRY(qr_large_new(need, sizeof(qr_fixed), "partial sums of the all-reduce", &p, err));
            r->scratch = p;
            r->scratch_cap = need;
        }
    }
    size_t slots = (size_t)(r->s.n_rounds ? r->s.n_rounds : 1) * r->s.n_parts,
           by_rank = (size_t)args->n_ranks * r->s.n_parts;
    GROW(r->slots, r->slots_cap, slots);
    GROW(r->got, r->got_cap, slots > by_rank ? slots : by_rank);
    GROW(r->arrived, r->arrived_cap, r->s.n_parts > r->s.n_rounds ? r->s.n_parts : r->s.n_rounds);
    size_t n_sends = (size_t)qr_schedule_n_sends(&r->s);
    GROW(r->out, r->out_cap, n_sends);
    memset(r->got, 0, r->got_cap);
    memset(r->arrived, 0, r->arrived_cap * sizeof *r->arrived);
    r->n_out = r->first_out = 0;
    r->n_received = r->n_whole = 0;
    r->n_expected = qr_schedule_n_receives(&r->s);
    r->own = r->c.coverage;
    qr_coverage_add_member(&r->own, &r->c.key, args->rank);
    r->total = qr_coverage_total(&r->c.key, r->c.n_micro_batches, args->n_ranks);
    if (args->n_ranks == 1 && args->sum && r->c.n)
        memcpy(args->sum, r->c.vector, r->c.n * sizeof(qr_fixed));
    qr_schedule_first(&r->s, queue_send, r);
    qr_reduction_pump(r);
    return QR_OK;
}

/* Incoming integers: bytes of any alignment, in pieces that may be cut anywhere. */
struct inflow {
    qr_fixed *to; /* place of the next integer */
    /* The addend, possibly the same place; NULL: the integer is stored as it is. */
    const qr_fixed *before;
    uint8_t cut[QR_FIXED_BYTES];
    size_t n_cut;          /* bytes of an integer that continues in the next piece */
    uint32_t crc, crc_sum; /* of the input; of the result, where that is sent on */
    bool sent_on;
};

static void inflow_add(struct inflow *f, const uint8_t *integers, size_t n) {
    if (!n) return;
    if (!f->before) {
        qr_fixed_load(f->to, integers, n);
    } else {
        if (f->to == f->before) qr_fixed_add_bytes(f->to, integers, n);
        else qr_fixed_sum_bytes(f->to, f->before, integers, n);
        f->before += n;
        if (f->sent_on) f->crc_sum = qr_crc32c(f->crc_sum, f->to, n * sizeof *f->to);
    }
    f->to += n;
}

static void inflow_bytes(struct inflow *f, const uint8_t *p, size_t n) {
    for (size_t now; n; p += now, n -= now) {
        now = n < STRIDE_BYTES ? n : STRIDE_BYTES;
        f->crc = qr_crc32c(f->crc, p, now);
        size_t filled = f->n_cut == 0                     ? 0
                        : now < QR_FIXED_BYTES - f->n_cut ? now
                                                          : QR_FIXED_BYTES - f->n_cut;
        if (filled) {
            memcpy(f->cut + f->n_cut, p, filled);
            f->n_cut += filled;
            if (f->n_cut < QR_FIXED_BYTES) continue;
            inflow_add(f, f->cut, 1);
        }
        size_t whole = (now - filled) / QR_FIXED_BYTES;
        inflow_add(f, p + filled, whole);
        f->n_cut = now - filled - whole * QR_FIXED_BYTES;
        memcpy(f->cut, p + now - f->n_cut, f->n_cut);
    }
}

/* Processes the integers of a message, after its header. */
static void inflow_message(struct inflow *f, struct qr_pieces message) {
    size_t skip = QR_CHUNK_HEADER_BYTES;
    for (size_t i = 0; i < message.n_pieces; i++) {
        struct qr_bytes piece = message.piece[i];
        size_t skipped = skip < piece.n ? skip : piece.n;
        skip -= skipped;
        inflow_bytes(f, piece.p + skipped, piece.n - skipped);
    }
}

/* Halving sends a round's result on as one, so all parts of the round must have the same coverage
 * word. An empty word never equals the total. */
static void advance_rounds(struct qr_reduction *r) {
    for (uint32_t n; r->n_whole < r->s.n_rounds &&
                     r->arrived[r->n_whole] == (n = qr_schedule_n_parts(&r->s, r->n_whole));
         r->n_whole++) {
        struct slot_sum *first = slot_at(r, r->n_whole, 0);
        bool same = r->n_whole < r->s.n_rounds / 2 ||
                    qr_coverage_equal(first->coverage, slot_at(r, r->n_whole - 1, 0)->coverage);
        for (uint32_t part = 1; part < n; part++)
            same = same && qr_coverage_equal(first->coverage, first[part].coverage);
        if (!same) first->coverage = (struct qr_coverage){0};
        qr_schedule_next(&r->s, r->n_whole, 0, queue_send, r);
    }
}

/* Adds or stores a chunk's integers. False: they are not those that were sent. */
static bool process_chunk(struct qr_reduction *r, const struct qr_chunk *c,
                          const struct qr_schedule_slot *slot, struct qr_pieces message) {
    bool halves = r->s.kind == QR_ALLREDUCE_HALVING;
    struct slot_sum *mine = slot_at(r, c->round, c->part);
    const qr_fixed *before = r->c.vector; /* the first addend is the contribution */
    struct qr_coverage covered = r->own, their_coverage = qr_coverage_load(c->coverage);
    if (r->s.kind == QR_ALLREDUCE_STAR && slot->phase == QR_SLOT_ADD && r->arrived[c->part]++ > 0) {
        before = r->a.sum;
        covered = mine->coverage;
    } else if (qr_schedule_builds_on_round_before(&r->s, c->round)) {
        before = partial_sum(r, c->round);
        covered = slot_at(r, c->round - 1, halves ? 0 : c->part)->coverage;
    }
    bool add = slot->phase == QR_SLOT_ADD,
         all_here = r->s.kind != QR_ALLREDUCE_STAR || r->arrived[c->part] == r->a.n_ranks - 1;
    bool ends_here = r->s.kind == QR_ALLREDUCE_DOUBLING && !r->s.n_folds &&
                     qr_schedule_is_final(&r->s, c->round);
    struct inflow f = {.sent_on = all_here && !halves && !ends_here};
    if (slot->count) {
        f.to = (add ? partial_sum(r, c->round + 1) : r->a.sum) + slot->offset;
        f.before = add ? before + slot->offset : NULL;
        inflow_message(&f, message);
    }
    if (f.crc != c->crc) return false;
    mine->coverage = add ? qr_coverage_sum(covered, their_coverage) : their_coverage;
    mine->crc = add ? f.crc_sum : f.crc;
    if (halves) {
        r->arrived[c->round]++;
        advance_rounds(r);
    } else if (!add || all_here) qr_schedule_next(&r->s, c->round, c->part, queue_send, r);
    return true;
}

static enum qr_reduction_status fail_damaged(size_t n, struct qr_err *err) {
    qr_fail(err, QR_UNAVAILABLE, "sent a damaged chunk (%zu bytes, or its crc32c is wrong)", n);
    return QR_REDUCTION_MALFORMED;
}

static const char *reduction_kind_name(unsigned kind) {
    static const char *const names[] = {"train", "eval", "close"};
    return kind < sizeof names / sizeof *names ? names[kind] : "?";
}

static size_t got_index(const struct qr_reduction *r, uint32_t round, uint32_t part,
                        uint32_t from) {
    bool by_sender = r->s.kind == QR_ALLREDUCE_STAR && r->s.rank == 0;
    return (size_t)(by_sender ? from : round) * r->s.n_parts + part;
}

enum qr_reduction_status qr_reduction_message(struct qr_reduction *r, uint32_t from_rank,
                                              struct qr_pieces message, struct qr_err *err) {
    struct qr_chunk c;
    uint8_t head[QR_CHUNK_HEADER_BYTES];
    qr_pieces_copy(message, sizeof head, head);
    if (!qr_chunk_decode(head, message.n, &c)) return fail_damaged(message.n, err);
    if (c.generation != r->a.generation) return QR_REDUCTION_OTHER_GENERATION;
    if (c.reductions != r->c.key.reductions) return QR_REDUCTION_DEFERRED;
    /* The kind follows from state and number of epochs, so one of the two members has another
     * state. */
    if (c.kind != (uint8_t)r->c.key.kind) {
        qr_fail(err, QR_UNAVAILABLE,
                "is at a reduction of kind %s where this worker is at one of kind %s",
                reduction_kind_name(c.kind), reduction_kind_name(r->c.key.kind));
        return QR_REDUCTION_MALFORMED;
    }
    struct qr_schedule_slot slot;
    if (c.total != r->s.n || c.schedule != (uint8_t)r->s.kind || c.rank != from_rank) {
        qr_fail(err, QR_UNAVAILABLE,
                "reduces a vector of %" PRIu64 " integers by %s as rank %" PRIu32
                ", this worker one of %" PRIu64 " by %s and knows it as rank %" PRIu32
                ": the workers run different programs",
                c.total,
                c.schedule < QR_ALLREDUCE_KINDS ? qr_allreduce_names[c.schedule]
                                                : "an unknown schedule",
                c.rank, r->s.n, qr_allreduce_names[r->s.kind], from_rank);
        return QR_REDUCTION_MALFORMED;
    }
    if (!qr_schedule_receives(&r->s, c.round, c.part, from_rank, &slot) ||
        slot.offset != c.offset || slot.count != c.count || slot.phase != c.phase ||
        r->got[got_index(r, c.round, c.part, from_rank)]) {
        qr_fail(err, QR_INTERNAL, "sent a chunk out of turn (round %" PRIu32 ", part %" PRIu32 ")",
                c.round, c.part);
        return QR_REDUCTION_MALFORMED;
    }
    if (qr_schedule_builds_on_round_before(&r->s, c.round) &&
        (r->s.kind == QR_ALLREDUCE_HALVING ? r->n_whole < c.round
                                           : !r->got[got_index(r, c.round - 1, c.part, from_rank)]))
        return QR_REDUCTION_DEFERRED;
    r->got[got_index(r, c.round, c.part, from_rank)] = 1;
    r->n_received++;
    if (!process_chunk(r, &c, &slot, message)) return fail_damaged(message.n, err);
    qr_reduction_pump(r);
    return QR_REDUCTION_ACCEPTED;
}

bool qr_reduction_done(const struct qr_reduction *r) {
    return r->n_received == r->n_expected && r->first_out == r->n_out;
}

enum qr_code qr_reduction_check(const struct qr_reduction *r, struct qr_err *err) {
    const char *kind = reduction_kind_name(r->c.key.kind);
    bool fine = r->a.n_ranks > 1 || qr_coverage_equal(r->own, r->total);
    uint32_t bad_part = 0;
    for (uint32_t round = 0; fine && round < r->s.n_rounds; round++)
        for (uint32_t part = 0; fine && qr_schedule_is_final(&r->s, round) && part < r->s.n_parts;
             part++) {
            bool by_sender = r->s.kind == QR_ALLREDUCE_STAR && r->a.rank == 0;
            bool there =
                by_sender ? r->arrived[part] != 0 : r->got[got_index(r, round, part, 0)] != 0;
            if (there && !qr_coverage_equal(slot_at(r, round, part)->coverage, r->total)) {
                fine = false;
                bad_part = part;
            }
        }
    if (fine) return QR_OK;
    return qr_fail(err, QR_DATA_LOSS,
                   "coverage check failed at reduction %" PRIu64 " (%s): the sum of part %" PRIu32
                   " over %" PRIu32 " workers does not contain each of %" PRIu64
                   " micro-batches exactly once, all from one state; it is not applied",
                   r->c.key.reductions, kind, bad_part, r->a.n_ranks, r->c.n_micro_batches);
}

uint32_t qr_reduction_waits_for(const struct qr_reduction *r) {
    struct qr_schedule_slot slot;
    for (uint32_t round = 0; round < r->s.n_rounds; round++)
        for (uint32_t from = 0; from < r->a.n_ranks; from++)
            for (uint32_t part = 0; part < r->s.n_parts; part++)
                if (qr_schedule_receives(&r->s, round, part, from, &slot) &&
                    !r->got[got_index(r, round, part, from)])
                    return from;
    return r->first_out < r->n_out ? r->out[r->first_out].slot.to : r->a.n_ranks;
}
