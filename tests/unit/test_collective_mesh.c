/* The all-reduce over in-process links: every schedule gives the serial integer sum, and malformed
 * or inconsistent input is rejected. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "collective/mesh.h"
#include "format/chunk.h"
#include "tests/support/link_memory.h"
#include "tests/t.h"

enum { MAX_N = 9 };
struct world;
struct worker {
    struct world *w;
    uint32_t rank;
    pthread_t thread;
    struct qr_link *link;
    struct qr_mesh *mesh;
    qr_fixed *vector, *sum;
    enum qr_code code;
    struct qr_err err;
    uint32_t lost;       /* index of a member whose stream broke; 0: none */
    uint32_t renew;      /* index of a member whose stream to renew at the next wait; 0: none */
    unsigned ups;        /* number of calls of `up` */
    size_t extra_length; /* integers that its vector has more than the others' */
    bool closing;        /* contributes to a closing reduction while the others train */
    struct qr_poll_report polled;        /* the last */
    unsigned n_received[QR_MAX_MEMBERS]; /* reports with a later message, by index */
};
struct world {
    struct qr_link_hub *hub;
    uint32_t n;
    struct qr_mesh_member member[MAX_N];
    atomic_uint n_satisfied; /* workers that have received enough beats */
    struct worker worker[MAX_N];
    /* for the reduction under test */
    enum qr_allreduce wish;
    size_t length;
    uint64_t step, n_micro_batches;
    enum {
        NO_FAULT,
        MICRO_BATCH_TWICE,
        MICRO_BATCH_MISSED,
        OTHER_STATE
    } fault; /* of the last rank */
};

static enum qr_code check_lost(void *ctx, struct qr_err *err) {
    struct worker *k = ctx;
    uint32_t renew = k->renew;
    k->renew = 0;
    if (renew) qr_mesh_renew(k->mesh, renew);
    return k->lost ? qr_fail(err, QR_UNAVAILABLE, "worker %u is lost", k->lost) : QR_OK;
}
static void up(void *ctx, uint32_t index, const uint8_t incarnation[16]) {
    struct worker *k = ctx;
    (void)index, (void)incarnation;
    k->ups++;
}
static void down(void *ctx, uint32_t index, const char *reason, bool lost) {
    (void)reason;
    if (lost) ((struct worker *)ctx)->lost = index;
}
static void polled(void *ctx, const struct qr_poll_report *how) {
    struct worker *k = ctx;
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        k->n_received[i] += how->received_ns[i] != k->polled.received_ns[i];
    k->polled = *how;
}
static const struct qr_gen_id generation = {.number = 0x1234};

static uint64_t mix(uint64_t x) {
    x ^= x >> 33, x *= UINT64_C(0xff51afd7ed558ccd), x ^= x >> 29,
        x *= UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 32;
}
/* Values of more than 64 bits, of both signs; sums are modulo 2^128. */
static qr_fixed value(uint32_t rank, size_t i, uint64_t step) {
    uint64_t a = mix(i * 977 + rank * 31 + step * 7919 + 1), b = mix(a + 5);
    return (qr_fixed)((unsigned __int128)(uint64_t)((int64_t)a >> 24) << 64 | b);
}
static struct qr_contribution contribution(const struct world *w, uint32_t rank, uint64_t step,
                                           size_t length) {
    struct qr_contribution c = {.key = {.reductions = step, .kind = QR_REDUCTION_TRAIN},
                                .n_micro_batches = w->n_micro_batches,
                                .vector = w->worker[rank].vector,
                                .n = length};
    memset(c.key.job_hash, 7, 32);
    memset(c.key.base_digest, (int)step, 16);
    struct qr_coverage_key key = c.key;
    bool faulty = rank == w->n - 1;
    if (faulty && w->fault == OTHER_STATE) key.base_digest[3] ^= 1;
    for (uint64_t b = rank; b < w->n_micro_batches; b += w->n) {
        if (faulty && w->fault == MICRO_BATCH_MISSED && b + w->n >= w->n_micro_batches) continue;
        qr_coverage_add_micro_batch(&c.coverage, &key, b);
    }
    if (faulty && w->fault == MICRO_BATCH_TWICE) qr_coverage_add_micro_batch(&c.coverage, &key, 0);
    return c;
}

static void *form_one(void *arg) {
    struct worker *k = arg;
    k->code = qr_mesh_form(k->mesh, &generation, k->w->member, k->w->n, k->rank,
                           qr_now_ns(&qr_clock_monotonic) + 10 * QR_SECOND, &k->err);
    return NULL;
}
static void *reduce_one(void *arg) {
    struct worker *k = arg;
    struct qr_contribution c =
        contribution(k->w, k->rank, k->w->step, k->w->length + k->extra_length);
    if (k->closing) c.key.kind = QR_REDUCTION_CLOSE;
    k->code = qr_mesh_reduce(k->mesh, k->w->wish, &c, k->sum, &k->err);
    if (k->code == QR_OK || k->code == QR_DATA_LOSS) return NULL;
    k->link->ops->free(k->link); /* the others see their streams to this member break */
    k->link = NULL;
    return NULL;
}
static void on_all(struct world *w, void *(*f)(void *)) {
    for (uint32_t r = 0; r < w->n; r++)
        pthread_create(&w->worker[r].thread, NULL, f, &w->worker[r]);
    for (uint32_t r = 0; r < w->n; r++) pthread_join(w->worker[r].thread, NULL);
}
/* later: every stream is left for later. */
static void open_world_later(struct world *w, uint32_t n, size_t max_length, bool later) {
    *w = (struct world){.n = n, .hub = qr_link_hub_new(), .n_micro_batches = 2 * n + 1};
    for (uint32_t r = 0; r < n; r++) {
        struct worker *k = &w->worker[r];
        struct qr_err err;
        unsigned port = 0;
        k->w = w, k->rank = r;
        k->link = qr_link_memory_new(w->hub);
        CHECK(k->link->ops->listen(k->link, "m:0", &port, &err) == QR_OK);
        w->member[r].later = later;
        w->member[r].index = r + 3; /* index and rank differ when a worker is missing */
        memset(w->member[r].incarnation, (int)r + 1, 16);
        snprintf(w->member[r].name, sizeof w->member[r].name, "worker %u (m:%u)", r + 3, port);
        snprintf(w->member[r].address, sizeof w->member[r].address, "m:%u", port);
        struct qr_mesh_options o = {
            .link = k->link,
            .clock = &qr_clock_monotonic,
            .index = r + 3,
            .ctx = k,
            .stop = check_lost,
            .up = up,
            .down = down,
            .polled = polled,
        };
        memcpy(o.incarnation, w->member[r].incarnation, 16);
        k->mesh = qr_mesh_new(&o);
        k->vector = qr_xcalloc(max_length + 1, sizeof *k->vector);
        k->sum = qr_xcalloc(max_length + 1, sizeof *k->sum);
    }
    on_all(w, form_one);
    for (uint32_t r = 0; r < n; r++)
        CHECK(w->worker[r].code == QR_OK, "%u of %u: %s", r, n, w->worker[r].err.msg);
}
static void open_world(struct world *w, uint32_t n, size_t max_length) {
    open_world_later(w, n, max_length, false);
}
static void close_world(struct world *w, uint64_t dropped_by_0) {
    for (uint32_t r = 0; r < w->n; r++) {
        struct worker *k = &w->worker[r];
        CHECK(qr_mesh_dropped(k->mesh) == (r ? 0 : dropped_by_0), "rank %u dropped %llu", r,
              (unsigned long long)qr_mesh_dropped(k->mesh));
        qr_mesh_free(k->mesh);
        if (k->link) k->link->ops->free(k->link);
        free(k->vector), free(k->sum);
    }
    qr_link_hub_free(w->hub);
}
/* One reduction by all members; true when every member has the serial sum and its own contribution
 * is unchanged. */
static bool reduces_correctly(struct world *w, enum qr_allreduce wish, size_t length) {
    w->wish = wish, w->length = length, w->step++;
    for (uint32_t r = 0; r < w->n; r++) {
        for (size_t i = 0; i < length; i++) w->worker[r].vector[i] = value(r, i, w->step);
        memset(w->worker[r].sum, 0xa5, (length + 1) * sizeof(qr_fixed));
    }
    qr_fixed guard;
    memset(&guard, 0xa5, sizeof guard);
    on_all(w, reduce_one);
    bool good = true;
    for (uint32_t r = 0; r < w->n; r++) {
        struct worker *k = &w->worker[r];
        if (k->code != QR_OK) good = false, fprintf(stderr, "rank %u: %s\n", r, k->err.msg);
        if (k->sum[length] != guard) good = false;
        for (size_t i = 0; i < length && good; i++) {
            unsigned __int128 want = 0;
            for (uint32_t q = 0; q < w->n; q++) want += (unsigned __int128)value(q, i, w->step);
            if (k->sum[i] != (qr_fixed)want || k->vector[i] != value(r, i, w->step)) good = false;
        }
    }
    return good;
}

/* In a minute a beat each 250 ms is counted this often, one each 8 s is not. */
enum { MANY_BEATS = 12 };
static bool has_beats(const struct worker *k) {
    for (uint32_t r = 0; r < k->w->n; r++)
        if (qr_schedule_pairs(k->w->n, k->rank, r) &&
            k->n_received[k->w->member[r].index] < MANY_BEATS)
            return false;
    return true;
}
static void *await_beats(void *arg) {
    struct worker *k = arg;
    int64_t until_ns = qr_now_ns(&qr_clock_monotonic) + 60 * QR_SECOND;
    bool has = false;
    while (k->code == QR_OK && atomic_load(&k->w->n_satisfied) < k->w->n &&
           qr_now_ns(&qr_clock_monotonic) < until_ns) {
        k->code = qr_mesh_idle(k->mesh, until_ns, &k->err);
        if (!has && (has = has_beats(k))) atomic_fetch_add(&k->w->n_satisfied, 1);
    }
    return NULL;
}
/* Beats go where chunks may pass. Elsewhere nothing is due, so silence is not reported. */
static void test_beats(void) {
    struct world w;
    open_world(&w, 5, 1);
    on_all(&w, await_beats);
    for (uint32_t r = 0; r < w.n; r++) {
        const struct worker *k = &w.worker[r];
        CHECK(k->code == QR_OK && has_beats(k), "rank %u", r);
        for (uint32_t q = 0; q < w.n; q++)
            if (q != r && !qr_schedule_pairs(w.n, r, q))
                CHECK(k->polled.received_ns[w.member[q].index] == k->polled.turn_ns,
                      "rank %u judges %u", r, q);
    }
    CHECK(!qr_schedule_pairs(5, 2, 4));
    close_world(&w, 0);
}

static void test_sums(void) {
    for (uint32_t n = 1; n <= MAX_N; n++) {
        enum { LARGE = QR_CHUNK_MAX_COUNT * 3 + 5 };
        struct world w;
        open_world(&w, n, LARGE);
        for (int wish = QR_ALLREDUCE_AUTO; wish < QR_ALLREDUCE_KINDS; wish++) {
            for (size_t length = 0; length <= 3 * n + 1; length++)
                CHECK(reduces_correctly(&w, (enum qr_allreduce)wish, length),
                      "%s of %zu integers over %u", qr_allreduce_names[wish], length, n);
            if (n < 7)
                CHECK(reduces_correctly(&w, (enum qr_allreduce)wish, LARGE),
                      "%s of %d integers over %u", qr_allreduce_names[wish], (int)LARGE, n);
        }
        close_world(&w, 0);
    }
}

/* Members that do not wait for each other: each begins the next step at once, so chunks arrive
 * before the reduction that they belong to. */
static void *reduce_unsynchronized(void *arg) {
    struct worker *k = arg;
    for (uint64_t step = 1; step <= 40 && k->code == QR_OK; step++) {
        size_t length = (size_t)(step * 37 % 200);
        enum qr_allreduce wish = (enum qr_allreduce)(1 + step % 3);
        for (size_t i = 0; i < length; i++) k->vector[i] = value(k->rank, i, step);
        if ((step + k->rank) % 5 == 0) qr_sleep_ns(QR_MS);
        struct qr_contribution c = contribution(k->w, k->rank, step, length);
        k->code = qr_mesh_reduce(k->mesh, wish, &c, k->sum, &k->err);
        for (size_t i = 0; i < length && k->code == QR_OK; i++) {
            unsigned __int128 want = 0;
            for (uint32_t q = 0; q < k->w->n; q++) want += (unsigned __int128)value(q, i, step);
            if (k->sum[i] != (qr_fixed)want)
                k->code = qr_fail(&k->err, QR_INTERNAL, "step %d differs", (int)step);
        }
    }
    return NULL;
}
static void test_unsynchronized(void) {
    for (uint32_t n = 2; n <= MAX_N; n++) {
        struct world w;
        open_world(&w, n, 200);
        on_all(&w, reduce_unsynchronized);
        for (uint32_t r = 0; r < n; r++)
            CHECK(w.worker[r].code == QR_OK, "%u of %u: %s", r, n, w.worker[r].err.msg);
        close_world(&w, 0);
    }
}

static void test_wrong_coverage(void) {
    for (uint32_t n = 1; n <= 5; n++)
        for (int wish = QR_ALLREDUCE_RING; wish < QR_ALLREDUCE_KINDS; wish++)
            for (int fault = MICRO_BATCH_TWICE; fault <= OTHER_STATE; fault++) {
                struct world w;
                open_world(&w, n, 10);
                w.wish = (enum qr_allreduce)wish, w.length = 7, w.step = 12;
                w.fault = fault;
                on_all(&w, reduce_one);
                for (uint32_t r = 0; r < n; r++)
                    CHECK(w.worker[r].code == QR_DATA_LOSS &&
                              strstr(w.worker[r].err.msg,
                                     "coverage check failed at reduction 12 (train)"),
                          "n %u wish %d fault %d rank %u: %s", n, wish, fault, r,
                          w.worker[r].err.msg);
                close_world(&w, 0);
            }
}

/* Members with vectors of different lengths: an error names both lengths, no member has a sum, and
 * none hangs. */
static void test_other_length(void) {
    for (int wish = QR_ALLREDUCE_RING; wish < QR_ALLREDUCE_KINDS; wish++) {
        struct world w;
        open_world(&w, 4, 20);
        w.wish = (enum qr_allreduce)wish, w.length = 9, w.step = 1;
        w.worker[2].extra_length = 1;
        on_all(&w, reduce_one);
        unsigned n_clear = 0;
        for (uint32_t r = 0; r < 4; r++) {
            CHECK(w.worker[r].code == QR_ABORTED || w.worker[r].code == QR_UNAVAILABLE,
                  "%s rank %u: %s", qr_allreduce_names[wish], r, w.worker[r].err.msg);
            if (w.worker[r].code == QR_ABORTED && strstr(w.worker[r].err.msg, "worker ") &&
                strstr(w.worker[r].err.msg, "10") && strstr(w.worker[r].err.msg, "9"))
                n_clear++;
        }
        CHECK(n_clear > 0);
        close_world(&w, 0);
    }
}

/* Members in reductions of different kinds fail at once and do not wait for each other. */
static void test_other_kind(void) {
    for (int wish = QR_ALLREDUCE_RING; wish < QR_ALLREDUCE_KINDS; wish++) {
        struct world w;
        open_world(&w, 2, 20);
        w.wish = (enum qr_allreduce)wish, w.length = 9, w.step = 1;
        w.worker[1].closing = true;
        on_all(&w, reduce_one);
        unsigned n_clear = 0;
        for (uint32_t r = 0; r < 2; r++) {
            enum qr_code code = w.worker[r].code;
            CHECK(code == QR_ABORTED || code == QR_UNAVAILABLE, "%s rank %u: %s",
                  qr_allreduce_names[wish], r, w.worker[r].err.msg);
            if (code == QR_ABORTED && strstr(w.worker[r].err.msg, "of kind ")) n_clear++;
        }
        CHECK(n_clear > 0);
        close_world(&w, 0);
    }
}

/* Only streams over which chunks pass are opened; the others come up when they are requested, and
 * then their loss is one of the generation. */
static void test_streams_left_for_later(void) {
    enum { N = 8, A = 1, B = 6 };
    struct world w;
    struct qr_err err;
    unsigned n_pairs = 0, n_ups = 0;
    open_world_later(&w, N, 1000, true);
    CHECK(!qr_schedule_pairs(N, A, B));
    for (uint32_t a = 0; a < N; a++)
        for (uint32_t b = 0; b < N; b++) n_pairs += a != b && qr_schedule_pairs(N, a, b);
    for (int wish = QR_ALLREDUCE_RING; wish < QR_ALLREDUCE_KINDS; wish++)
        CHECK(reduces_correctly(&w, (enum qr_allreduce)wish, 1000), "%d", wish);
    for (uint32_t r = 0; r < N; r++) n_ups += w.worker[r].ups;
    CHECK(n_ups == n_pairs && n_pairs < N * (N - 1), "%u streams are up, %u needed", n_ups,
          n_pairs);
    struct worker *a = &w.worker[A], *b = &w.worker[B];
    unsigned ups = a->ups + b->ups;
    struct qr_mesh_member member = w.member[A];
    qr_mesh_expect(b->mesh, &member);
    CHECK(b->ups + a->ups == ups, "requested, but left for later");
    member.later = false;
    qr_mesh_expect(b->mesh, &member);
    bool good = true;
    for (int64_t by_ns = qr_now_ns(&qr_clock_monotonic) + 5 * QR_SECOND;
         good && a->ups + b->ups < ups + 2 && qr_now_ns(&qr_clock_monotonic) < by_ns;)
        for (int i = 0; i < 2; i++)
            good &= qr_mesh_idle((i ? a : b)->mesh, qr_now_ns(&qr_clock_monotonic) + QR_MS, &err) ==
                    QR_OK;
    CHECK(good && a->ups + b->ups == ups + 2, "%u streams came up", a->ups + b->ups - ups);
    CHECK(reduces_correctly(&w, QR_ALLREDUCE_AUTO, 1000));
    qr_mesh_forget(b->mesh, w.member[A].index);
    struct qr_contribution c = contribution(&w, A, w.step + 1, 5);
    CHECK(qr_mesh_reduce(a->mesh, QR_ALLREDUCE_AUTO, &c, a->sum, &err) == QR_UNAVAILABLE &&
              a->lost == w.member[B].index,
          "lost worker %u", a->lost);
    close_world(&w, 0);
}

/* Unexpected connections to the data port are dropped, and the reductions continue. */
static void test_unexpected_streams(void) {
    struct world w;
    open_world(&w, 3, 50);
    /* `wrong` greets another incarnation. `early` is not expected: it may be soon, so it waits. */
    struct qr_greeting wrong = {.index = 4, .to_index = 3}, early = {.index = 4, .to_index = 3};
    memset(wrong.to_incarnation, 98, 16);
    memcpy(early.to_incarnation, w.member[0].incarnation, 16);
    memset(early.incarnation, 99, 16);
    uint8_t message[3][QR_GREETING_BYTES] = {"GET / HTTP/1.1"};
    qr_greeting_encode(&wrong, message[1]);
    qr_greeting_encode(&early, message[2]);
    struct qr_link *l[3];
    for (int i = 0; i < 3; i++) {
        l[i] = qr_link_memory_new(w.hub);
        l[i]->ops->dial(l[i], 1, w.member[0].address);
        struct qr_link_event e;
        l[i]->ops->poll(l[i], qr_now_ns(&qr_clock_monotonic) + QR_SECOND, &e);
        CHECK(e.kind == QR_LINK_UP &&
              l[i]->ops->send(l[i], e.conn, qr_bytes_of(message[i], QR_GREETING_BYTES),
                              (struct qr_bytes){0}));
    }
    for (int k = 0; k < 5; k++) CHECK(reduces_correctly(&w, QR_ALLREDUCE_AUTO, 50));
    uint64_t dropped = qr_mesh_dropped(w.worker[0].mesh);
    CHECK(dropped == 2, "%llu dropped", (unsigned long long)dropped); /* the third waits */
    for (int i = 0; i < 3; i++) l[i]->ops->free(l[i]);
    close_world(&w, dropped);
}

/* A stream breaks and is replaced between reductions: the next reduction reports the loss, and
 * after that the new stream. */
static void test_break_between_reductions(void) {
    struct world w;
    struct qr_err err;
    open_world(&w, 2, 10);
    struct worker *a = &w.worker[0], *b = &w.worker[1];
    CHECK(reduces_correctly(&w, QR_ALLREDUCE_AUTO, 5) && a->ups == 1 && b->ups == 1);
    b->renew = w.member[0].index;
    bool good = true;
    for (int64_t by_ns = qr_now_ns(&qr_clock_monotonic) + 5 * QR_SECOND;
         good && (a->ups < 2 || b->ups < 2) && qr_now_ns(&qr_clock_monotonic) < by_ns;)
        for (int i = 0; i < 2; i++)
            good &= qr_mesh_idle(w.worker[i].mesh, qr_now_ns(&qr_clock_monotonic) + QR_MS, &err) ==
                    QR_OK;
    CHECK(good && a->ups == 2 && b->ups == 2 && !a->lost && !b->lost);
    struct qr_contribution c = contribution(&w, 0, 2, 5);
    CHECK(qr_mesh_reduce(a->mesh, QR_ALLREDUCE_AUTO, &c, a->sum, &err) == QR_UNAVAILABLE &&
          a->lost);
    CHECK(a->ups == 3, "the new stream is reported after the loss: %u", a->ups);
    close_world(&w, 0);
}

static int64_t shift_ns; /* offset of shifted_clock */
static int64_t shifted_clock(void *ctx) {
    (void)ctx;
    return qr_now_ns(&qr_clock_monotonic) + shift_ns;
}
/* A dialed peer accepts the connection but sends no greeting. It is dialed again after 10 s of
 * polling; a pause between two polls, here of 60 s, does not count. */
static void test_no_greeting(void) {
    struct qr_link_hub *hub = qr_link_hub_new();
    const struct qr_clock clock = {.now_ns = shifted_clock};
    struct worker k = {.link = qr_link_memory_new(hub)};
    struct qr_link *other = qr_link_memory_new(hub);
    struct qr_mesh_member peer = {.index = 1, .incarnation = {1}, .name = "worker 1"};
    struct qr_err err;
    unsigned port, ups = 0, ups_at[60];
    CHECK(other->ops->listen(other, "m:0", &port, &err) == QR_OK);
    snprintf(peer.address, sizeof peer.address, "m:%u", port);
    struct qr_mesh_options o = {.link = k.link,
                                .clock = &clock,
                                .index = 2,
                                .incarnation = {2},
                                .ctx = &k,
                                .stop = check_lost,
                                .up = up,
                                .down = down,
                                .polled = polled};
    k.mesh = qr_mesh_new(&o);
    qr_mesh_expect(k.mesh, &peer);
    for (int i = 0; i < 60; i++) {
        int64_t end_ns = qr_now_ns(&qr_clock_monotonic) + 5 * QR_MS;
        /* At least three turns, even if one takes longer. */
        for (int turn = 0; turn < 3 || qr_now_ns(&qr_clock_monotonic) < end_ns; turn++) {
            struct qr_link_event e;
            CHECK(qr_mesh_idle(k.mesh, qr_now_ns(&qr_clock_monotonic) + QR_MS, &err) == QR_OK);
            other->ops->poll(other, qr_now_ns(&qr_clock_monotonic) + QR_MS, &e);
            ups += e.kind == QR_LINK_UP;
        }
        ups_at[i] = ups;
        shift_ns += i == 10 ? 60 * QR_SECOND : 400 * QR_MS;
    }
    CHECK(ups_at[9] == 1 && ups_at[30] == 1 && ups_at[59] == 2, "%u %u %u", ups_at[9], ups_at[30],
          ups_at[59]);
    shift_ns = 0;
    k.link->ops->free(k.link);
    other->ops->free(other);
    qr_mesh_free(k.mesh);
    qr_link_hub_free(hub);
}

static void test_schedules(void) {
    CHECK(strcmp(qr_schedule_name(QR_ALLREDUCE_AUTO, 1, 10), "alone") == 0);
    static const struct {
        uint32_t n_ranks;
        uint64_t bytes;
        const char *last, *next;
    } most[] = {
        {2, 16 << 10, "doubling", "ring"},  {3, 256 << 10, "star", "ring"},
        {9, 256 << 10, "star", "ring"},     {10, 256 << 10, "doubling", "ring"},
        {4, 256 << 10, "star", "halving"},  {4, 1 << 20, "halving", "ring"},
        {8, 2 << 20, "halving", "ring"},    {17, 128 << 10, "star", "doubling"},
        {64, 32 << 10, "star", "doubling"},
    };
    for (size_t k = 0; k < sizeof most / sizeof *most; k++) {
        CHECK(strcmp(qr_schedule_name(QR_ALLREDUCE_AUTO, most[k].n_ranks, most[k].bytes / 16),
                     most[k].last) == 0,
              "%u ranks", most[k].n_ranks);
        uint64_t more = most[k].bytes / 16 + (most[k].n_ranks == 64 ? 100 : 1);
        CHECK(strcmp(qr_schedule_name(QR_ALLREDUCE_AUTO, most[k].n_ranks, more), most[k].next) == 0,
              "%u ranks", most[k].n_ranks);
    }
    CHECK(strcmp(qr_schedule_name(QR_ALLREDUCE_DOUBLING, 6, 10), "doubling") == 0);
    CHECK(strcmp(qr_schedule_name(QR_ALLREDUCE_DOUBLING, 8, 1 << 20), "doubling") == 0);
    CHECK(strcmp(qr_schedule_name(QR_ALLREDUCE_HALVING, 8, 10), "halving") == 0 &&
          strcmp(qr_schedule_name(QR_ALLREDUCE_HALVING, 6, 10), "ring") == 0);
    /* The members' sends are as many as their receives; the ring sends about 2 (N-1)/N of the
     * vector per member. */
    for (uint32_t n = 2; n <= 64; n++)
        for (int wish = QR_ALLREDUCE_RING; wish < QR_ALLREDUCE_KINDS; wish++) {
            uint64_t sent = 0, received = 0;
            for (uint32_t r = 0; r < n; r++) {
                struct qr_schedule s = qr_schedule_make((enum qr_allreduce)wish, n, r, 100000);
                sent += qr_schedule_n_sends(&s), received += qr_schedule_n_receives(&s);
            }
            CHECK(sent == received && sent > 0, "n %u wish %d", n, wish);
        }
}

static void test_chunk(void) {
    qr_fixed v[3] = {1, -2, (qr_fixed)1 << 100};
    struct qr_chunk c = {.kind = 2,
                         .schedule = 3,
                         .phase = 1,
                         .generation = 99,
                         .reductions = 7,
                         .total = 10,
                         .offset = 7,
                         .count = 3,
                         .round = 4,
                         .part = 5,
                         .rank = 6,
                         .crc = qr_crc32c(0, v, sizeof v)};
    memset(c.coverage, 0x5a, 16);
    uint8_t m[QR_CHUNK_HEADER_BYTES];
    size_t n_bytes = sizeof m + sizeof v;
    qr_chunk_encode(&c, m);
    struct qr_chunk back;
    CHECK(qr_chunk_decode(m, n_bytes, &back));
    CHECK(back.generation == 99 && back.reductions == 7 && back.total == 10 && back.offset == 7 &&
          back.count == 3 && back.round == 4 && back.part == 5 && back.rank == 6 &&
          back.kind == 2 && back.schedule == 3 && back.phase == 1 &&
          memcmp(back.coverage, c.coverage, 16) == 0 && back.crc == c.crc);
    for (size_t bit = 0; bit < 8 * sizeof m; bit++) { /* a CRC detects every single-bit error */
        m[bit / 8] ^= (uint8_t)(1 << bit % 8);
        CHECK(!qr_chunk_decode(m, n_bytes, &back), "bit %zu", bit);
        m[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    for (size_t n = 0; n < n_bytes + 20; n++)
        CHECK(qr_chunk_decode(m, n, &back) == (n == n_bytes), "%zu bytes", n);
    struct qr_greeting g = {.index = 5, .to_index = 9}, g2;
    memset(g.incarnation, 3, 16);
    memset(g.to_incarnation, 7, 16);
    uint8_t gb[QR_GREETING_BYTES];
    qr_greeting_encode(&g, gb);
    CHECK(qr_greeting_decode(qr_bytes_of(gb, sizeof gb), &g2) && memcmp(&g, &g2, sizeof g) == 0);
    gb[9] ^= 1;
    CHECK(!qr_greeting_decode(qr_bytes_of(gb, sizeof gb), &g2));
    struct qr_gen_id id = {.number = 77, .index = 3, .incarnation = {1, 2, 3}}, id2;
    uint8_t mark[QR_MARK_BYTES];
    qr_mark_encode(&id, mark);
    CHECK(qr_mark_decode(qr_bytes_of(mark, sizeof mark), &id2) &&
          qr_gen_id_compare(&id, &id2) == 0);
    CHECK(!qr_mark_decode(qr_bytes_of(mark, sizeof mark - 1), &id2) &&
          !qr_beat_is(qr_bytes_of(mark, sizeof mark)));
    mark[9] ^= 1;
    CHECK(!qr_mark_decode(qr_bytes_of(mark, sizeof mark), &id2));
    CHECK(qr_beat_is(qr_bytes_of(qr_beat, sizeof qr_beat)) &&
          !qr_beat_is(qr_bytes_of(qr_beat, sizeof qr_beat - 1)));
}

int main(void) {
    test_chunk();
    test_schedules();
    test_sums();
    test_beats();
    test_unsynchronized();
    test_wrong_coverage();
    test_other_length();
    test_other_kind();
    test_streams_left_for_later();
    test_unexpected_streams();
    test_break_between_reductions();
    test_no_greeting();
    return t_end();
}
