/* One reduction without threads or a network: chunks arrive in pieces cut anywhere, early, late and
 * damaged, and every member has the serial sum or none. */
#include "base/mem.h"
#include "collective/allreduce.h"
#include "format/chunk.h"
#include "tests/t.h"

enum { MAX_N = 9, MAX_PIECES = 64, CHUNK = QR_CHUNK_MAX_COUNT };

struct message {
    struct message *next;
    uint32_t from, to;
    size_t n;
    uint8_t *bytes;
};
struct fake_link {
    struct qr_link link;
    struct world *w;
    uint32_t rank;
};
struct world {
    uint32_t n;
    struct fake_link fake_link[MAX_N];
    struct qr_reduction *reduction[MAX_N];
    qr_fixed *vector[MAX_N], *sum[MAX_N];
    uint32_t conn[MAX_N];
    struct message *first, **last;
    size_t n_messages;
    uint64_t seed;
};

static uint64_t mix(uint64_t x) {
    x ^= x >> 33, x *= UINT64_C(0xff51afd7ed558ccd), x ^= x >> 29,
        x *= UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 32;
}
static uint64_t random_below(struct world *w, uint64_t below) { return mix(++w->seed) % below; }
static qr_fixed value(uint32_t rank, size_t i) {
    uint64_t a = mix(i * 977 + rank * 31 + 1), b = mix(a + 5);
    return (qr_fixed)((unsigned __int128)(uint64_t)((int64_t)a >> 24) << 64 | b);
}

static bool fake_link_send(struct qr_link *l, uint32_t conn, struct qr_bytes head,
                           struct qr_bytes body) {
    struct fake_link *p = (struct fake_link *)l;
    struct message *x = qr_xcalloc(1, sizeof *x);
    *x = (struct message){
        .from = p->rank, .to = conn, .n = head.n + body.n, .bytes = qr_xmalloc(head.n + body.n)};
    memcpy(x->bytes, head.p, head.n);
    if (body.n) memcpy(x->bytes + head.n, body.p, body.n);
    *p->w->last = x;
    p->w->last = &x->next;
    p->w->n_messages++;
    return true;
}
static const struct qr_link_ops ops = {.send = fake_link_send};

static void world_open(struct world *w, uint32_t n, enum qr_allreduce wish, size_t length) {
    *w = (struct world){.n = n, .seed = n * 1000003 + length * 7 + wish};
    w->last = &w->first;
    for (uint32_t r = 0; r < n; r++) w->conn[r] = r;
    for (uint32_t r = 0; r < n; r++) {
        w->fake_link[r] = (struct fake_link){.link = {.ops = &ops}, .w = w, .rank = r};
        w->vector[r] = qr_xcalloc(length + 1, sizeof(qr_fixed));
        w->sum[r] = qr_xcalloc(length + 1, sizeof(qr_fixed));
        for (size_t i = 0; i < length; i++) w->vector[r][i] = value(r, i);
        struct qr_contribution c = {
            .key = {.reductions = 4}, .n_micro_batches = n, .vector = w->vector[r], .n = length};
        qr_coverage_add_micro_batch(&c.coverage, &c.key, r);
        struct qr_reduction_args a = {.link = &w->fake_link[r].link,
                                      .conn = w->conn,
                                      .n_ranks = n,
                                      .rank = r,
                                      .generation = 77,
                                      .allreduce = wish,
                                      .contribution = &c,
                                      .sum = w->sum[r]};
        struct qr_err err;
        w->reduction[r] = qr_reduction_new();
        CHECK(qr_reduction_begin(w->reduction[r], &a, &err) == QR_OK);
    }
}

static void world_close(struct world *w) {
    for (struct message *x = w->first, *next; x; x = next) {
        next = x->next;
        free(x->bytes);
        free(x);
    }
    for (uint32_t r = 0; r < w->n; r++) {
        qr_reduction_free(w->reduction[r]);
        free(w->vector[r]);
        free(w->sum[r]);
    }
}

/* Picks a message that is the first from its sender to its receiver: order is kept within a stream
 * only. */
static struct message **pick(struct world *w) {
    uint64_t skip = random_below(w, w->n_messages < 5 ? w->n_messages : 5);
    struct message **at = &w->first;
    while (skip-- && (*at)->next) at = &(*at)->next;
    for (struct message **before = &w->first; before != at; before = &(*before)->next)
        if ((*before)->from == (*at)->from && (*before)->to == (*at)->to) return before;
    return at;
}

/* Delivers the message in random pieces, each at an odd address of its own. */
static enum qr_reduction_status deliver(struct world *w, const struct message *x,
                                        struct qr_err *err) {
    struct qr_bytes piece[MAX_PIECES];
    uint8_t *storage[MAX_PIECES];
    size_t n = 0, at = 0, wish = 1 + random_below(w, MAX_PIECES - 1);
    while (at < x->n || n == 0) {
        size_t left = x->n - at, k = n + 1 == wish || n + 1 == MAX_PIECES
                                         ? left
                                         : random_below(w, random_below(w, 3) ? left + 1
                                                           : left < 40        ? left + 1
                                                                              : 40);
        size_t odd = random_below(w, 16);
        storage[n] = qr_xmalloc(k + 16);
        memcpy(storage[n] + odd, x->bytes + at, k);
        piece[n] = qr_bytes_of(storage[n] + odd, k);
        at += k, n++;
    }
    enum qr_reduction_status taken =
        qr_reduction_message(w->reduction[x->to], x->from, (struct qr_pieces){piece, n, x->n}, err);
    for (size_t i = 0; i < n; i++) free(storage[i]);
    return taken;
}

static void remove_message(struct world *w, struct message **at) {
    struct message *x = *at;
    *at = x->next;
    if (!x->next) w->last = at;
    w->n_messages--;
    free(x->bytes);
    free(x);
}

/* Delivers messages until all are accepted, or 1000 in a row are deferred. */
static bool run(struct world *w) {
    struct qr_err err = {0};
    for (unsigned idle = 0; w->n_messages && idle < 1000;) {
        struct message **at = pick(w), *x = *at;
        enum qr_reduction_status taken = deliver(w, x, &err);
        CHECK(taken == QR_REDUCTION_ACCEPTED || taken == QR_REDUCTION_DEFERRED, "%s", err.msg);
        if (taken == QR_REDUCTION_MALFORMED || taken == QR_REDUCTION_OTHER_GENERATION) return false;
        idle = taken == QR_REDUCTION_ACCEPTED ? 0 : idle + 1;
        if (taken == QR_REDUCTION_ACCEPTED) {
            for (at = &w->first; *at != x;)
                at = &(*at)->next; /* new messages may have been added */
            remove_message(w, at);
        }
    }
    for (uint32_t r = 0; r < w->n; r++)
        if (!qr_reduction_done(w->reduction[r]) ||
            qr_reduction_check(w->reduction[r], &err) != QR_OK)
            return false;
    return true;
}

static bool is_serial_sum(const struct world *w, size_t length) {
    for (size_t i = 0; i < length; i++) {
        unsigned __int128 want = 0;
        for (uint32_t q = 0; q < w->n; q++) want += (unsigned __int128)value(q, i);
        for (uint32_t r = 0; r < w->n; r++)
            if (w->sum[r][i] != (qr_fixed)want || w->vector[r][i] != value(r, i)) return false;
    }
    for (uint32_t r = 0; r < w->n; r++)
        if (w->sum[r][length] != 0) return false;
    return true;
}

static void test_pieces(void) {
    static const size_t lengths[] = {0, 1, 2, 7, 100, 767, 769, 4097};
    for (uint32_t n = 1; n <= MAX_N; n++)
        for (int wish = QR_ALLREDUCE_AUTO; wish < QR_ALLREDUCE_KINDS; wish++)
            for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
                struct world w;
                world_open(&w, n, (enum qr_allreduce)wish, lengths[k]);
                CHECK(run(&w) && is_serial_sum(&w, lengths[k]), "%s of %zu integers over %u",
                      qr_allreduce_names[wish], lengths[k], n);
                world_close(&w);
            }
}

/* More than a chunk, and not always a multiple of it. */
static void test_parts(void) {
    static const struct {
        uint32_t n;
        size_t length;
    } cases[] = {{2, 2 * CHUNK},     {2, 5 * CHUNK + 3}, {3, 3 * CHUNK + 1}, {5, CHUNK - 1},
                 {6, 2 * CHUNK + 9}, {4, 9 * CHUNK + 5}, {8, 5 * CHUNK + 1}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int wish = QR_ALLREDUCE_RING; wish < QR_ALLREDUCE_KINDS; wish++) {
            struct world w;
            world_open(&w, cases[k].n, (enum qr_allreduce)wish, cases[k].length);
            CHECK(run(&w) && is_serial_sum(&w, cases[k].length), "%s of %zu integers over %u",
                  qr_allreduce_names[wish], cases[k].length, cases[k].n);
            world_close(&w);
        }
}

/* A member of the ring sends only part of its chunks before it receives one. */
static void test_ahead(void) {
    struct world w;
    world_open(&w, 2, QR_ALLREDUCE_RING, 20 * CHUNK); /* ten chunks a member and round */
    CHECK(w.n_messages == 4, "%zu chunks in flight", w.n_messages);
    CHECK(run(&w) && is_serial_sum(&w, 20 * CHUNK));
    world_close(&w);
}

/* A byte changed in transit, also at the ends of pieces, is detected, and the receiver does not
 * finish. */
static void test_damage(void) {
    for (int wish = QR_ALLREDUCE_RING; wish < QR_ALLREDUCE_KINDS; wish++)
        for (size_t at = 0; at < 80 + 16 * 50; at += 7) {
            struct world w;
            struct qr_err err = {0};
            world_open(&w, 4, (enum qr_allreduce)wish, 300);
            struct message *x = w.first;
            x->bytes[at % x->n] ^= 0x10;
            CHECK(deliver(&w, x, &err) == QR_REDUCTION_MALFORMED && err.code == QR_UNAVAILABLE &&
                      strstr(err.msg, "damaged"),
                  "byte %zu: %s", at, err.msg);
            CHECK(!qr_reduction_done(w.reduction[x->to]));
            x->bytes[at % x->n] ^= 0x10;
            world_close(&w);
        }
}

/* A truncated or overlong message. */
static void test_cut(void) {
    for (size_t n = 0; n < 80 + 16 * 100; n += 13) {
        struct world w;
        struct qr_err err = {0};
        world_open(&w, 3, QR_ALLREDUCE_RING, 300);
        struct message short_one = *w.first;
        short_one.n = n;
        CHECK(deliver(&w, &short_one, &err) == QR_REDUCTION_MALFORMED && strstr(err.msg, "damaged"),
              "%zu bytes: %s", n, err.msg);
        world_close(&w);
    }
}

/* In a halving, half of the vector is in flight at once, and a round is sent once all chunks of the
 * round before have arrived. */
static void test_halving_rounds(void) {
    struct world w;
    struct qr_err err = {0};
    world_open(&w, 4, QR_ALLREDUCE_HALVING,
               12 * CHUNK); /* six chunks a member and round, then three */
    CHECK(w.n_messages == 4 * 6, "%zu chunks in flight", w.n_messages);
    for (size_t i = 0; i < 5; i++) { /* all messages to rank 0 but the last */
        struct message **at = &w.first;
        while ((*at)->to != 0) at = &(*at)->next;
        CHECK(deliver(&w, *at, &err) == QR_REDUCTION_ACCEPTED && w.n_messages == 4 * 6 - i, "%s",
              err.msg);
        remove_message(&w, at);
    }
    CHECK(run(&w) && is_serial_sum(&w, 12 * CHUNK));
    world_close(&w);
}

/* A chunk within a round whose coverage differs from that of the others: the round is sent on with
 * one coverage word, and no member may apply the sum. */
static void test_halving_words(void) {
    for (int at = 0; at < 4 * 2; at++) {
        struct world w;
        struct qr_err err = {0};
        world_open(&w, 4, QR_ALLREDUCE_HALVING, 4 * CHUNK); /* two chunks a member and round */
        struct message *x = w.first;
        for (int i = 0; i < at; i++) x = x->next;
        struct qr_chunk c;
        CHECK(qr_chunk_decode(x->bytes, x->n, &c) && c.round == 0);
        c.coverage[3] ^= 1;
        qr_chunk_encode(&c, x->bytes);
        CHECK(!run(&w));
        for (uint32_t r = 0; r < 4; r++)
            CHECK(qr_reduction_done(w.reduction[r]) &&
                      qr_reduction_check(w.reduction[r], &err) == QR_DATA_LOSS,
                  "chunk %d, rank %u", at, r);
        world_close(&w);
    }
}

/* In a halving, and in a doubling over any number of members, each send has a matching receive at
 * its destination, and there are no other receives. */
struct sent {
    const struct qr_schedule *s;
    uint32_t rank;
    uint64_t n, missed;
};
static void note_send(void *ctx, const struct qr_slot_send *x) {
    struct sent *k = ctx;
    struct qr_schedule_slot slot;
    struct qr_schedule other = qr_schedule_make(k->s->kind, k->s->n_ranks, x->to, k->s->n);
    k->n++;
    if (!qr_schedule_receives(&other, x->round, x->part, k->rank, &slot) ||
        slot.offset != x->offset || slot.count != x->count || slot.phase != x->phase)
        k->missed++;
}
/* Ranks that exchange a chunk in some schedule are a pair; beside rank 0 each has at most ten. */
static void test_pairs(void) {
    for (uint32_t n = 2; n <= 64; n++)
        for (uint32_t r = 0; r < n; r++) {
            unsigned n_pairs = 0;
            for (uint32_t q = 0; q < n; q++) {
                bool is_pair = qr_schedule_pairs(n, r, q);
                CHECK(is_pair == qr_schedule_pairs(n, q, r), "ranks %u and %u of %u", r, q, n);
                n_pairs += is_pair;
            }
            CHECK(r == 0 ? n_pairs == n - 1 : n_pairs <= 10, "rank %u of %u: %u", r, n, n_pairs);
            for (int kind = QR_ALLREDUCE_AUTO + 1; kind < QR_ALLREDUCE_KINDS; kind++) {
                struct qr_schedule s = qr_schedule_make((enum qr_allreduce)kind, n, r, n);
                struct qr_schedule_slot slot;
                for (uint32_t round = 0; round < s.n_rounds; round++)
                    for (uint32_t from = 0; from < n; from++)
                        if (qr_schedule_receives(&s, round, 0, from, &slot))
                            CHECK(qr_schedule_pairs(n, r, from), "%s: ranks %u and %u of %u",
                                  qr_allreduce_names[kind], r, from, n);
            }
        }
}
static void test_halving(void) {
    for (uint32_t n = 2; n <= 64; n *= 2)
        for (uint32_t r = 0; r < n; r++) {
            struct qr_schedule s = qr_schedule_make(QR_ALLREDUCE_HALVING, n, r, 70 * CHUNK + 5);
            struct sent k = {.s = &s, .rank = r};
            struct qr_schedule_slot slot;
            uint64_t got = 0, integers = 0;
            qr_schedule_first(&s, note_send, &k);
            for (uint32_t round = 0; round < s.n_rounds; round++) {
                for (uint32_t part = 0; part < s.n_parts; part++)
                    for (uint32_t from = 0; from < n; from++)
                        if (qr_schedule_receives(&s, round, part, from, &slot)) {
                            got++;
                            integers += slot.count;
                        }
                qr_schedule_next(&s, round, 0, note_send, &k);
            }
            CHECK(k.missed == 0 && k.n == qr_schedule_n_sends(&s) &&
                      got == qr_schedule_n_receives(&s),
                  "rank %u of %u", r, n);
            uint64_t least = 2 * (s.n - s.n / n);
            CHECK(integers + 2 * n > least && integers < least + 2 * n, "rank %u of %u gets %llu",
                  r, n, (unsigned long long)integers);
        }
}
static void test_doubling(void) {
    for (uint32_t n = 2; n <= 64; n++) {
        uint32_t most = 0;
        while (n >> (most + 1)) most++;
        for (uint32_t r = 0; r < n; r++) {
            struct qr_schedule s = qr_schedule_make(QR_ALLREDUCE_DOUBLING, n, r, 2 * CHUNK + 1);
            struct sent k = {.s = &s, .rank = r};
            struct qr_schedule_slot slot;
            uint64_t got = 0;
            CHECK(s.n_rounds == most + ((n & (n - 1)) ? 2 : 0), "%u ranks: %u rounds", n,
                  s.n_rounds);
            qr_schedule_first(&s, note_send, &k);
            for (uint32_t round = 0; round < s.n_rounds; round++)
                for (uint32_t part = 0; part < s.n_parts; part++)
                    for (uint32_t from = 0; from < n; from++)
                        if (qr_schedule_receives(&s, round, part, from, &slot)) {
                            got++;
                            qr_schedule_next(&s, round, part, note_send, &k);
                        }
            CHECK(k.missed == 0 && k.n == qr_schedule_n_sends(&s) &&
                      got == qr_schedule_n_receives(&s),
                  "rank %u of %u", r, n);
        }
    }
}

int main(void) {
    test_doubling();
    test_pairs();
    test_halving();
    test_halving_rounds();
    test_halving_words();
    test_pieces();
    test_parts();
    test_ahead();
    test_damage();
    test_cut();
    return t_end();
}
