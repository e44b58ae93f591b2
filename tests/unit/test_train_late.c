/* A first generation of new workers: the leader reads the store and resumes from a newer state, or
 * ends if the run has ended. */
#include "base/counter.h"
#include "tests/support/ring.h"

static const char job[] =
    RING_JOB("\"epochs\":4,\"batch_size\":9,\"metrics\":[\"accuracy\"]," RING_ADAM);
enum { KEPT_REDUCTIONS = 7 };

static struct {
    struct qr_state kept;
    bool has_kept, keeps;
    int64_t micro_batches, micro_batches_after; /* of the whole run; after the kept state */
    char digest[33];
    struct qr_buf lines;
} reference;
static struct {
    bool found, ended, fails;
    atomic_uint n_reads;
} store;

static enum qr_code on_committed(void *ctx, bool leader, struct qr_state *state,
                                 struct qr_err *err) {
    struct ring_worker *w = ctx;
    (void)leader, (void)err;
    if (!reference.keeps || reference.has_kept || state->reductions != KEPT_REDUCTIONS)
        return QR_OK;
    qr_state_init(&reference.kept, w->ring->job, w->ring->model);
    qr_state_copy(&reference.kept, state);
    reference.has_kept = true;
    return QR_OK;
}
static enum qr_code reload(void *ctx, struct qr_state *ret, bool *ret_found, struct qr_err *err) {
    (void)ctx;
    atomic_fetch_add(&store.n_reads, 1);
    if (store.fails) return qr_fail(err, QR_UNAVAILABLE, "the bucket does not respond");
    *ret_found = store.found;
    if (store.found) qr_state_copy(ret, &reference.kept);
    return QR_OK;
}
static bool ended(void *ctx) {
    (void)ctx;
    return store.ended;
}

static int64_t run(struct ring *r, uint32_t n) {
    ring_init(r, job, n);
    r->committed = on_committed;
    r->reload = reload;
    r->ended = ended;
    atomic_store(&store.n_reads, 0);
    int64_t before = qr_counter_value(QR_MICRO_BATCHES);
    ring_run(r);
    for (uint32_t i = 0; i < n; i++)
        CHECK(r->worker[i].code == QR_OK, "worker %u: %s", i, r->worker[i].err.msg);
    return qr_counter_value(QR_MICRO_BATCHES) - before;
}

static void undisturbed(void) {
    struct ring r;
    reference.keeps = true;
    reference.micro_batches = run(&r, 1);
    reference.keeps = false;
    CHECK(reference.has_kept && reference.micro_batches > 0);
    memcpy(reference.digest, r.worker[0].result.state_digest, sizeof reference.digest);
    reference.lines = ring_log(&r);
    size_t n_train = r.data.n_train, n_val = r.data.n_samples - n_train;
    /* Micro-batches have one sample; a step has 9. */
    size_t each = (n_train + 8) / 9 + 1, epochs = KEPT_REDUCTIONS / each,
           left = KEPT_REDUCTIONS % each;
    reference.micro_batches_after =
        reference.micro_batches - (int64_t)(epochs * (n_train + n_val) + left * 9);
    ring_fini(&r);
}

static void check_trained(struct ring *r, int64_t micro_batches, int64_t want, const char *what) {
    struct qr_buf text = ring_log(r);
    for (uint32_t i = 0; i < r->n; i++)
        CHECK(strcmp(r->worker[i].result.state_digest, reference.digest) == 0, "%s: worker %u",
              what, i);
    CHECK(micro_batches == want, "%s: %lld micro-batches were computed, not %lld", what,
          (long long)micro_batches, (long long)want);
    CHECK(text.n && text.n <= reference.lines.n &&
              memcmp(text.p, reference.lines.p + reference.lines.n - text.n, text.n) == 0,
          "%s: the log's end", what);
    CHECK((text.n == reference.lines.n) == (want == reference.micro_batches),
          "%s: the log's length", what);
    qr_buf_free(&text);
}

int main(void) {
    struct ring r;
    int64_t micro_batches;
    undisturbed();
    for (uint32_t n = 2; n <= 4; n++) {
        store.found = true;
        micro_batches = run(&r, n);
        /* Some may be computed from the initial state before the leader has read the store: at most
         * the first step's. */
        CHECK(micro_batches >= reference.micro_batches_after &&
                  micro_batches <= reference.micro_batches_after + 9,
              "%u: %lld micro-batches, not %lld", n, (long long)micro_batches,
              (long long)reference.micro_batches_after);
        check_trained(&r, reference.micro_batches_after, reference.micro_batches_after, "newer");
        CHECK(atomic_load(&store.n_reads) == 1, "one worker reads the store, not %u",
              atomic_load(&store.n_reads));
        ring_fini(&r);
    }
    store.found = false;
    micro_batches = run(&r, 3);
    check_trained(&r, micro_batches, reference.micro_batches, "an empty store");
    ring_fini(&r);
    store.fails = true;
    micro_batches = run(&r, 3);
    check_trained(&r, micro_batches, reference.micro_batches, "the store does not respond");
    ring_fini(&r);
    store.fails = false;
    store.found = store.ended = true;
    micro_batches = run(&r, 3);
    CHECK(micro_batches <= 9 && atomic_load(&r.n_wrote) == 0,
          "%lld micro-batches computed, %u wrote", (long long)micro_batches,
          atomic_load(&r.n_wrote));
    for (uint32_t i = 0; i < 3; i++)
        CHECK(r.worker[i].result.ended_by_peers, "worker %u: the run has ended", i);
    ring_fini(&r);
    qr_state_fini(&reference.kept);
    qr_buf_free(&reference.lines);
    return t_end();
}
