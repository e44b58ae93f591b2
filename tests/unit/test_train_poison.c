/* A micro-batch that kills whoever computes it ends the job after its third victim, and random
 * kills, as many as they may be, do not. */
#define qr_schedule qr_group_schedule /* the tag of another struct in model/optimizer.h */
#include "group/group_impl.h"
#undef qr_schedule
#include "tests/ring.h"

static const char job[] = RING_JOB("\"epochs\":3,\"batch_size\":28," RING_ADAM);
enum { BAD_REDUCTION = 2, BAD_STEP = 2 /* an evaluation is a reduction too */ };

static struct {
    uint64_t micro_batch;   /* the poison micro-batch of BAD_REDUCTION, or none */
    int64_t micro_batch_ns; /* a micro-batch of that step takes so long */
    unsigned n_kills;       /* random ones, in that step */
    int64_t every_ns;
    pthread_mutex_t lock;
    uint64_t random;
    int64_t next_ns, last_ns; /* last death */
    unsigned n_deaths, n_random, n_at_once;
    struct ring *ring;
} plan = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t dice(uint64_t n) {
    plan.random = plan.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (plan.random >> 33) % n;
}
static bool computes(struct qr_group *g, uint64_t *ret_micro_batch) {
    pthread_mutex_lock(&g->lock);
    bool yes = g->held.applied_reductions == BAD_REDUCTION && g->ledger.n_taken > 0;
    *ret_micro_batch = yes ? g->ledger.micro_batch[g->ledger.n_taken - 1] : 0;
    pthread_mutex_unlock(&g->lock);
    return yes;
}
/* A step looks at the clock at the beginning and the end of each micro-batch: there its worker
 * dies, when it is its turn. */
static void die(struct ring_worker *w, unsigned n) {
    uint64_t micro_batch;
    int64_t now = qr_now_ns(&qr_clock_monotonic);
    (void)n;
    if (atomic_load(&w->killed) || !w->group || !computes(w->group, &micro_batch)) return;
    ring_pause(plan.micro_batch_ns / 2);
    pthread_mutex_lock(&plan.lock);
    bool random = plan.n_random < plan.n_kills &&
                  (now = qr_now_ns(&qr_clock_monotonic)) >= plan.next_ns && dice(2) == 0;
    bool dies = random || micro_batch == plan.micro_batch;
    if (dies) {
        /* by then an operator knows that the job has failed */
        if (++plan.n_deaths == 3 && plan.micro_batch != UINT64_MAX && w->again_ns != INT64_MAX)
            w->again_ns = 300 * QR_MS;
        plan.last_ns = now;
    }
    if (random) {
        plan.n_random++;
        if (plan.n_at_once <= 1 || plan.n_random % plan.n_at_once == 0)
            plan.next_ns = now + plan.every_ns;
    }
    pthread_mutex_unlock(&plan.lock);
    if (dies) ring_kill(w);
}
static void prepare(struct ring *r, uint32_t n, uint64_t micro_batch, int64_t again_ns,
                    uint64_t seed) {
    ring_init(r, job, n);
    r->looked = die;
    plan.ring = r;
    plan.micro_batch = micro_batch;
    plan.n_deaths = plan.n_random = plan.n_kills = 0;
    plan.n_at_once = 1;
    plan.next_ns = 0;
    plan.random = seed;
    plan.micro_batch_ns = QR_MS;
    for (uint32_t i = 0; i < n; i++) r->worker[i].again_ns = again_ns, r->worker[i].slow = true;
}

/* Who lives on ends with the sentence; all say the same one. */
static void test_poison(uint32_t n, int64_t again_ns, int64_t micro_batch_ns, uint64_t micro_batch,
                        unsigned min_workers) {
    struct ring r;
    prepare(&r, n, micro_batch, again_ns, micro_batch);
    plan.micro_batch_ns = micro_batch_ns;
    r.min_workers = min_workers;
    ring_run(&r);
    int64_t took_ns = qr_now_ns(&qr_clock_monotonic) - plan.last_ns;
    const char *said = NULL;
    char words[80];
    unsigned n_said = 0;
    snprintf(words, sizeof words,
             "step %d: micro-batch %llu killed 3 workers, one after the other: worker ", BAD_STEP,
             (unsigned long long)micro_batch);
    for (uint32_t i = 0; i < n; i++) {
        struct ring_worker *w = &r.worker[i];
        if (atomic_load(&w->killed)) continue;
        /* it came back when all was over */
        if (w->lives > 1 && w->code == QR_DEADLINE_EXCEEDED) continue;
        CHECK(w->code == QR_DATA_LOSS && qr_exit_code(w->code) == 4, "worker %u: %s %s", i,
              qr_code_name(w->code), w->err.msg);
        CHECK(strstr(w->err.msg, words) == w->err.msg &&
                  strstr(w->err.msg, "; it has training samples "),
              "worker %u: %s", i, w->err.msg);
        CHECK(!said || strcmp(said, w->err.msg) == 0, "worker %u: %s", i, w->err.msg);
        said = w->err.msg;
        n_said++;
    }
    CHECK(plan.n_deaths == 3, "%u deaths", plan.n_deaths);
    CHECK(n_said >= (n > 3 ? n - 3 : 1), "%u said it", n_said);
    CHECK(t_in_time("all have ended after the third death", took_ns, 10 * QR_SECOND, T_MINUTE));
    if (again_ns == INT64_MAX)
        printf("poison micro-batch in a ring of %u: all ended %.2f s after the third death: %s\n",
               n, (double)took_ns / 1e9, said ? said : "?");
    ring_fini(&r);
}

/* One by one, and all but one at once: the step is done, and the digest is the
 * undisturbed one's. */
static void test_random_kills(const char *digest, const struct qr_buf *lines, unsigned n_at_once,
                              uint64_t seed) {
    struct ring r;
    prepare(&r, 4, UINT64_MAX, 20 * QR_MS, seed);
    plan.n_kills = 30;
    plan.every_ns = 12 * QR_MS;
    plan.n_at_once = n_at_once;
    plan.micro_batch_ns = 6 * QR_MS;
    r.form_ns = QR_SECOND;
    int64_t began_ns = qr_now_ns(&qr_clock_monotonic);
    ring_run(&r);
    for (uint32_t i = 0; i < 4; i++) {
        struct ring_worker *w = &r.worker[i];
        CHECK(w->code == QR_OK || atomic_load(&w->killed) || ring_came_too_late(w),
              "seed %llu: worker %u: %s", (unsigned long long)seed, i, w->err.msg);
        CHECK(w->result.ended_by_peers || w->code != QR_OK ||
                  strcmp(w->result.state_digest, digest) == 0,
              "worker %u: %s", i, w->result.state_digest);
    }
    CHECK(plan.n_random == 30, "%u kills", plan.n_random);
    struct qr_buf text = ring_log(&r);
    CHECK(text.n == lines->n && memcmp(text.p, lines->p, text.n) == 0,
          "the log differs: %zu bytes, not %zu", text.n, lines->n);
    qr_buf_free(&text);
    printf("%u kills in one step, %u at once: it went on to the digest in %.2f s\n", plan.n_random,
           n_at_once, (double)(qr_now_ns(&qr_clock_monotonic) - began_ns) / 1e9);
    ring_fini(&r);
}

int main(void) {
    struct ring r;
    char digest[33];
    prepare(&r, 1, UINT64_MAX, INT64_MAX, 1);
    ring_run(&r);
    memcpy(digest, r.worker[0].result.state_digest, sizeof digest);
    CHECK(r.worker[0].code == QR_OK && strlen(digest) == 32, "%s", r.worker[0].err.msg);
    struct qr_buf lines = ring_log(&r);
    ring_fini(&r);
    test_poison(4, INT64_MAX, QR_MS, 0, 1);
    test_poison(5, INT64_MAX, QR_MS, 17, 3); /* fewer are left than are needed */
    test_poison(4, 10 * QR_MS, 24 * QR_MS, 27, 1);
    test_poison(2, 10 * QR_MS, 24 * QR_MS, 9, 1);
    test_random_kills(digest, &lines, 1, 1);
    test_random_kills(digest, &lines, 3, 2);
    qr_buf_free(&lines);
    return t_end();
}
