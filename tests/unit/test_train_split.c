/* A worker computes a wrong state: the majority's state is kept; without a majority all resume from
 * the last checkpoint; the second time at one step the job fails. */
#define qr_schedule qr_group_schedule /* the tag of another struct in model/optimizer.h */
#include "group/group_impl.h"
#undef qr_schedule
#include "base/counter.h"
#include "tests/support/ring.h"

static const char job[] =
    RING_JOB("\"epochs\":4,\"batch_size\":9,\"metrics\":[\"accuracy\"]," RING_ADAM);
enum { KEPT_REDUCTIONS = 6, WRONG_REDUCTION = 9 };

static struct {
    uint32_t faulty;
    /* times that it computes the state after WRONG_REDUCTION wrongly: so far, and in all */
    unsigned n_wrong, times;
    uint64_t opened, serial; /* the last reduction with an open queue, and its Begin */
    /* kept: the undisturbed state after KEPT_REDUCTIONS; state: the faulty worker's, in place */
    struct qr_state kept, *state;
    bool has_kept, in_store, busy;
    atomic_uint n_reloads;
    pthread_mutex_t lock;
    char log[8192];
} plan = {.lock = PTHREAD_MUTEX_INITIALIZER};
static char digest[33];
static struct qr_buf lines;

/* The step loop reads the clock between a reduction and the update that follows: change a weight
 * there. A slow worker may have taken no micro-batch of the reduction. */
static void corrupt_state(struct ring_worker *w, unsigned n) {
    struct batch_queue *q = w->group ? &w->group->queue : NULL;
    (void)n;
    if (w->index != plan.faulty || !q || !plan.state || plan.n_wrong >= plan.times) return;
    pthread_mutex_lock(&q->lock);
    if (q->open) plan.opened = q->held.applied_reductions, plan.serial = q->serial;
    bool reduced = q->held.applied_reductions == WRONG_REDUCTION && !q->open && q->active &&
                   plan.opened == WRONG_REDUCTION && plan.serial == q->serial;
    pthread_mutex_unlock(&q->lock);
    if (reduced && !plan.busy) {
        plan.state->weights[0] += 0x1p-40;
        plan.n_wrong++;
    }
    plan.busy = reduced;
}
static enum qr_code on_committed(void *ctx, bool leader, struct qr_state *state,
                                 struct qr_err *err) {
    struct ring_worker *w = ctx;
    (void)leader, (void)err;
    if (w->index == plan.faulty) plan.state = state;
    if (plan.has_kept || state->reductions != KEPT_REDUCTIONS) return QR_OK;
    qr_state_init(&plan.kept, w->ring->job, w->ring->model);
    qr_state_copy(&plan.kept, state);
    plan.has_kept = true;
    return QR_OK;
}
static enum qr_code reload(void *ctx, struct qr_state *ret, bool *ret_found, struct qr_err *err) {
    struct ring_worker *w = ctx;
    (void)err;
    atomic_fetch_add(&plan.n_reloads, 1);
    ring_pause((int64_t)w->index * 20 * QR_MS); /* Each worker's read takes a different time. */
    *ret_found = plan.in_store;
    if (plan.in_store) qr_state_copy(ret, &plan.kept);
    return QR_OK;
}
static void keep_errors(void *ctx, enum qr_log_level level, const char *module,
                        const char *message) {
    (void)ctx, (void)module;
    pthread_mutex_lock(&plan.lock);
    if (level >= QR_LOG_ERROR && strlen(plan.log) + strlen(message) + 2 < sizeof plan.log)
        strcat(strcat(plan.log, message), "\n");
    pthread_mutex_unlock(&plan.lock);
}
static void run(struct ring *r, uint32_t n, uint32_t faulty, unsigned times, bool in_store) {
    ring_init(r, job, n);
    r->looked = corrupt_state;
    for (uint32_t i = 0; i < n; i++) r->worker[i].slow = true;
    r->committed = on_committed;
    r->reload = reload;
    if (!getenv("NOISE")) r->noise = (struct qr_log){.level = QR_LOG_ERROR, .write = keep_errors};
    plan.faulty = faulty;
    plan.times = times;
    plan.in_store = in_store;
    plan.n_wrong = 0;
    plan.opened = plan.serial = 0;
    plan.state = NULL;
    plan.log[0] = '\0';
    plan.busy = false;
    atomic_store(&plan.n_reloads, 0);
    ring_run(r);
    CHECK(plan.n_wrong == times, "wrong %u times, not %u", plan.n_wrong, times);
}
static void check_same(struct ring *r, const char *what) {
    struct qr_buf text = ring_log(r);
    for (uint32_t i = 0; i < r->n; i++)
        CHECK(r->worker[i].code == QR_OK && strcmp(r->worker[i].result.state_digest, digest) == 0,
              "%s: worker %u: %s %s", what, i, r->worker[i].err.msg,
              r->worker[i].result.state_digest);
    CHECK(text.n == lines.n && memcmp(text.p, lines.p, text.n) == 0,
          "%s: the log differs: %zu bytes, not %zu", what, text.n, lines.n);
    qr_buf_free(&text);
}

/* Any worker may be the faulty one, also the leader. */
static void test_majority(void) {
    for (uint32_t faulty = 0; faulty < 3; faulty += 2) {
        struct ring r;
        char words[80];
        int64_t before = qr_counter_value(QR_WRONG_STATES);
        run(&r, 3, faulty, 1, false);
        check_same(&r, "a majority");
        snprintf(words, sizeof words,
                 "reduction %d: worker %u (w%u:2222) computed a wrong state: its digest is ",
                 WRONG_REDUCTION + 1, faulty, faulty);
        CHECK(faulty == 0 || strstr(plan.log, words), "%s", plan.log);
        snprintf(words, sizeof words,
                 "reduction %d: this worker computed a wrong state: its digest is ",
                 WRONG_REDUCTION + 1);
        CHECK(strstr(plan.log, words) && strstr(plan.log, "the majority's is "), "%s", plan.log);
        CHECK(atomic_load(&plan.n_reloads) == 0 && qr_counter_value(QR_WRONG_STATES) == before + 1);
        ring_fini(&r);
    }
}

/* Two workers differ: they resume from the checkpoint, or from the initial state. steps.jsonl has
 * each line once, as in an undisturbed run. */
static void test_no_majority(void) {
    for (unsigned in_store = 0; in_store < 2; in_store++)
        for (uint32_t n = 2; n <= 4; n += 2) {
            struct ring r;
            run(&r, n, 1, 1, in_store);
            if (n == 2) {
                check_same(&r, in_store ? "back to the checkpoint" : "back to the start");
                CHECK(strstr(plan.log, "the workers' states differ without a majority: all resume "
                                       "from the last checkpoint; states: ") &&
                          strstr(plan.log, " at worker 0 (w0:2222); ") &&
                          strstr(plan.log, " at worker 1 (w1:2222)"),
                      "%s", plan.log);
                CHECK(atomic_load(&plan.n_reloads) >= 1, "no worker read it");
            } else {
                check_same(&r, "three of four");
            }
            ring_fini(&r);
        }
}

static void test_twice(void) {
    struct ring r;
    run(&r, 2, 1, 2, true);
    for (uint32_t i = 0; i < 2; i++) {
        const struct ring_worker *w = &r.worker[i];
        CHECK(w->code == QR_DATA_LOSS && qr_exit_code(w->code) == 4, "worker %u: %s", i,
              w->err.msg);
        CHECK(strstr(w->err.msg, "reduction 10: the workers' states differ a second time, without "
                                 "a majority; states: ") &&
                  strstr(w->err.msg, " at worker 0 (w0:2222); ") &&
                  strstr(w->err.msg, " at worker 1 (w1:2222)"),
              "worker %u: %s", i, w->err.msg);
    }
    printf("%s\n", r.worker[0].err.msg);
    ring_fini(&r);
}

int main(void) {
    struct ring r;
    run(&r, 1, 99, 0, false);
    CHECK(r.worker[0].code == QR_OK && plan.has_kept, "%s", r.worker[0].err.msg);
    memcpy(digest, r.worker[0].result.state_digest, sizeof digest);
    lines = ring_log(&r);
    ring_fini(&r);
    test_majority();
    test_no_majority();
    test_twice();
    qr_state_fini(&plan.kept);
    qr_buf_free(&lines);
    return t_end();
}
