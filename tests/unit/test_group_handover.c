/* What a leaver hands over: bytes that are torn or lie, and what a member does with what does
 * not fit. */
#include "base/counter.h"
#include "base/mem.h"
#include "format/handover.h"
#include "group/group_impl.h"
#include "tests/t.h"

enum { N = 5, MICRO_BATCHES = 40, ME = 1, LEAVER = 2 };

/* ---- bytes ---- */

static struct qr_handover good(const qr_fixed *vector) {
    struct qr_handover h = {.kind = QR_REDUCTION_TRAIN,
                            .generation = 77,
                            .reductions = 6,
                            .n_runs = 2,
                            .run = {{1, 3, 3}, {20, 2, 1}},
                            .integers = qr_bytes_of(vector, N * sizeof *vector)};
    struct qr_coverage_key key = {.reductions = 6};
    struct qr_coverage all = {0};
    memset(h.base_digest, 9, sizeof h.base_digest);
    memset(key.base_digest, 9, sizeof key.base_digest);
    memset(key.job_hash, 8, sizeof key.job_hash);
    static const uint64_t micro_batches[] = {1, 4, 7, 20, 21};
    for (size_t i = 0; i < COUNT(micro_batches); i++)
        qr_coverage_add_micro_batch(&all, &key, micro_batches[i]);
    qr_coverage_store(h.coverage, all);
    return h;
}

static void test_bytes(void) {
    const qr_fixed vector[N] = {1, -2, 3, 4, 5};
    struct qr_handover h = good(vector), back;
    struct qr_buf bytes = {0}, again = {0};
    qr_handover_encode(&h, &bytes);
    CHECK(qr_handover_is(qr_buf_view(&bytes)) && qr_handover_decode(qr_buf_view(&bytes), &back));
    CHECK(back.kind == h.kind && back.reductions == 6 && back.generation == 77 &&
          back.n_runs == 2 && back.integers.n == sizeof vector);
    CHECK(memcmp(back.integers.p, vector, sizeof vector) == 0 &&
          memcmp(back.run, h.run, 2 * sizeof *h.run) == 0);
    qr_handover_encode(&back, &again);
    CHECK(again.n == bytes.n && memcmp(again.p, bytes.p, bytes.n) == 0);
    for (size_t n = 1; n < bytes.n; n++) { /* torn anywhere, without a byte behind it */
        uint8_t *torn = memcpy(qr_xmalloc(n), bytes.p, n);
        if (qr_handover_decode(qr_bytes_of(torn, n), &back)) CHECK(false, "the first %zu bytes", n);
        free(torn);
    }
    for (size_t i = 0; i < 8 * bytes.n; i++) {
        bytes.p[i / 8] ^= (uint8_t)(1u << i % 8);
        if (qr_handover_decode(qr_buf_view(&bytes), &back)) CHECK(false, "bit %zu turned over", i);
        bytes.p[i / 8] ^= (uint8_t)(1u << i % 8);
    }
    h.run[0].stride = 0; /* as a liar says it, with a checksum that is right */
    qr_buf_clear(&again);
    qr_handover_encode(&h, &again);
    CHECK(!qr_handover_decode(qr_buf_view(&again), &back), "a stride of nothing");
    h.run[0] = (struct qr_run){UINT64_C(1) << 63, 3, UINT64_C(1) << 63};
    qr_buf_clear(&again);
    qr_handover_encode(&h, &again);
    CHECK(!qr_handover_decode(qr_buf_view(&again), &back), "micro-batches beyond all numbers");
    qr_buf_free(&bytes);
    qr_buf_free(&again);
}

/* ---- a member ---- */

static unsigned n_sent;
static bool sends(struct qr_link *l, uint32_t conn, struct qr_bytes head, struct qr_bytes body) {
    struct qr_handover answer;
    (void)l, (void)body;
    n_sent += conn == 5 && qr_handover_decode(head, &answer) && answer.n_runs == 0;
    return true;
}
static void nothing(void *ctx, const struct qr_member_action *a) { (void)ctx, (void)a; }
static void keep(void *ctx, enum qr_log_level level, const char *module, const char *message) {
    (void)level, (void)module;
    snprintf(ctx, QR_ERR_MSG_BYTES, "%s", message);
}
static char said[QR_ERR_MSG_BYTES];
static const struct qr_log log_kept = {.level = QR_LOG_INFO, .write = keep, .ctx = said};
static const char *const peers[] = {"w0:1", "w1:1", "w2:1"};
static const struct qr_link_ops ops = {.send = sends};
static struct qr_link link = {.ops = &ops};

/* Worker 1 of a generation of three, in the reduction of MICRO_BATCHES micro-batches behind state
 * 6; it has computed micro-batches 10 and 11. */
static struct qr_group *member(void) {
    struct qr_group *g = qr_xcalloc(1, sizeof *g);
    struct qr_member_options o = {.run = "t",
                                  .contract = "f64-v1",
                                  .index = ME,
                                  .n_peers = 3,
                                  .peers = peers,
                                  .count_known = true};
    g->o = (struct qr_group_options){
        .log = &log_kept, .clock = &qr_clock_monotonic, .n_peers = 3, .peers = peers, .index = ME};
    g->member = qr_member_new(&o, nothing, NULL);
    g->control = &link;
    g->generation = qr_xcalloc(1, sizeof *g->generation);
    *g->generation = (struct qr_generation){
        .id_hash = 77, .rank = ME, .begin = {.base_reductions = 6, .n_members = 3}};
    for (uint32_t r = 0; r < 3; r++)
        g->generation->begin.member[r] = (struct qr_begin_member){.name.index = r, .holder = true};
    g->serial = g->joined = 1;
    g->begun = true;
    g->view.n_members = 3;
    g->held = (struct qr_held){.applied_reductions = 6};
    memset(g->held.digest, 9, sizeof g->held.digest);
    memset(g->generation->begin.base_digest, 9, 16);
    g->ledger = (struct ledger){.micro_batch = qr_xcalloc(MICRO_BATCHES, sizeof(uint64_t)),
                                .mine = qr_xcalloc(MICRO_BATCHES, 1),
                                .n = 3,
                                .cap = MICRO_BATCHES,
                                .n_taken = 2,
                                .open = true};
    g->ledger.micro_batch[0] = 10;
    g->ledger.micro_batch[1] = 11;
    struct qr_contribution shape = {
        .key = {.reductions = 6}, .n_micro_batches = MICRO_BATCHES, .n = N + 3, .n_by_rank = 3};
    memset(shape.key.base_digest, 9, 16);
    memset(shape.key.job_hash, 8, 32);
    handover_expect(g, &shape);
    return g;
}
static void member_free(struct qr_group *g) {
    handover_fini(&g->handover);
    qr_member_free(g->member);
    free(g->generation);
    free(g->ledger.micro_batch);
    free(g->ledger.mine);
    free(g);
}
static void receive(struct qr_group *g, const struct qr_handover *h) {
    struct qr_buf bytes = {0};
    qr_handover_encode(h, &bytes);
    handover_received(g, 5, LEAVER, qr_buf_view(&bytes));
    qr_buf_free(&bytes);
}
/* Promise and Begin: what the machine would give it when `extra` of what it reports is left out. */
static void regroup(struct qr_group *g, bool without) {
    struct qr_begin_member *me = &g->generation->begin.member[ME];
    g->begun = false;
    group_on_suspend(g);
    memcpy(me->kept, g->held.run, sizeof me->kept);
    me->n_kept = without ? 1 : g->held.n_runs;
    me->keep = true;
    g->begun = true;
    g->serial++;
    group_on_begin(g);
}

static void test_joined(void) {
    const qr_fixed vector[N] = {1, -2, 3, 4, 5}, *more;
    struct qr_handover h = good(vector);
    struct qr_coverage coverage;
    size_t n;
    struct qr_group *g = member();
    receive(g, &h);
    CHECK(strstr(said, "worker 2 (w2:1) hands over 5 micro-batches of reduction 7") && n_sent == 1,
          "%s", said);
    CHECK(!handover_take(g, &more, &n, &coverage) && g->ledger.n_taken == 2, "it is held apart");
    regroup(g, false);
    CHECK(g->held.n_runs == 3 && g->ledger.n_taken == 7, "%u runs, %zu micro-batches",
          g->held.n_runs, g->ledger.n_taken);
    CHECK(handover_take(g, &more, &n, &coverage) && n == N &&
          memcmp(more, vector, sizeof vector) == 0);
    CHECK(qr_coverage_equal(coverage, qr_coverage_load(h.coverage)));
    CHECK(!handover_take(g, &more, &n, &coverage), "once");
    member_free(g);
    /* two leavers; the second comes when the first one's is given, but not added yet */
    g = member();
    receive(g, &h);
    regroup(g, false);
    struct qr_handover second = h;
    second.generation = g->generation->id_hash;
    second.n_runs = 1;
    second.run[0] = (struct qr_run){30, 1, 1};
    struct qr_coverage one = {0}, all;
    qr_coverage_add_micro_batch(&one, &g->handover.key, 30);
    qr_coverage_store(second.coverage, one);
    receive(g, &second);
    regroup(g, false);
    all = qr_coverage_sum(one, qr_coverage_load(h.coverage));
    CHECK(handover_take(g, &more, &n, &coverage) && more[0] == 2 && more[1] == -4 &&
          qr_coverage_equal(coverage, all));
    CHECK(g->ledger.n_taken == 8);
    member_free(g);
    /* a Begin that does not have it: its micro-batches are others' */
    g = member();
    receive(g, &h);
    regroup(g, true);
    CHECK(!handover_take(g, &more, &n, &coverage) && g->ledger.n_taken == 2 &&
              strstr(said, "too late"),
          "%s", said);
    /* a Begin that drops everything */
    receive(g, &h);
    g->generation->begin.member[ME].keep = false;
    group_on_begin(g);
    CHECK(!handover_take(g, &more, &n, &coverage) && g->ledger.n_taken == 0 && g->held.n_runs == 0);
    member_free(g);
}

static void refused(struct qr_group *g, const struct qr_handover *h, const char *why) {
    int64_t before = qr_counter_value(QR_HANDOVERS_REFUSED);
    said[0] = '\0';
    receive(g, h);
    CHECK(strstr(said, why) && qr_counter_value(QR_HANDOVERS_REFUSED) == before + 1,
          "'%s' wants '%s'", said, why);
    CHECK(g->handover.n_runs == 0, "%s: something is held", why);
}

static void test_refused(void) {
    const qr_fixed vector[N] = {1, -2, 3, 4, 5};
    struct qr_group *g = member();
    struct qr_handover h = good(vector);
    h.reductions = 5;
    refused(g, &h, "at another reduction");
    h = good(vector);
    h.base_digest[3] ^= 1;
    refused(g, &h, "at another reduction");
    h = good(vector);
    h.kind = QR_REDUCTION_EVAL;
    refused(g, &h, "at another reduction");
    h = good(vector);
    h.integers.n -= 16;
    refused(g, &h, "its length is not");
    h = good(vector);
    h.run[1] = (struct qr_run){38, 3, 1};
    refused(g, &h, "micro-batches twice, or micro-batches that");
    h.run[1] = (struct qr_run){7, 1, 1};
    refused(g, &h, "micro-batches twice, or micro-batches that");
    h = good(vector);
    h.coverage[0] ^= 1;
    refused(g, &h, "its coverage word");
    h = good(vector);
    h.run[1].first = 22;
    refused(g, &h, "its coverage word");
    h = good(vector);
    /* of a former generation, and this one gave some of its micro-batches to others */
    h.generation = 78;
    refused(g, &h, "other members by now");
    struct qr_buf bytes = {0};
    h = good(vector);
    qr_handover_encode(&h, &bytes);
    bytes.p[bytes.n / 2] ^= 4;
    handover_received(g, 5, LEAVER, qr_buf_view(&bytes));
    CHECK(strstr(said, "it is damaged") && g->handover.n_runs == 0, "%s", said);
    handover_received(g, 5, 9, qr_buf_view(&bytes));
    qr_buf_free(&bytes);
    g->handover.known = false; /* no reduction is open from this base */
    refused(g, &h, "at another reduction");
    member_free(g);
    /* it overlaps with what this member has computed: seen at the promise */
    g = member();
    g->ledger.micro_batch[1] = 20;
    receive(g, &h);
    regroup(g, false);
    CHECK(strstr(said, "dropped") && g->held.n_runs == 1 && g->ledger.n_taken == 2, "%s", said);
    /* it comes twice */
    receive(g, &h);
    said[0] = '\0';
    receive(g, &h);
    CHECK(strstr(said, "handed over some of its micro-batches"), "%s", said);
    member_free(g);
    /* with its own it is in too many pieces for a promise */
    g = member();
    g->ledger.n_taken = 0;
    /* descending: a run each */
    for (uint64_t i = 0; i < 15; i++) g->ledger.micro_batch[g->ledger.n_taken++] = 25 + (14 - i);
    receive(g, &h);
    regroup(g, false);
    CHECK(strstr(said, "too many pieces") && g->held.n_runs == 15 && g->ledger.n_taken == 15,
          "%s, %u runs", said, g->held.n_runs);
    member_free(g);
}

int main(void) {
    test_bytes();
    test_joined();
    test_refused();
    return t_end();
}
