/* Parameter servers hold the state and compute nothing. The digest and steps.jsonl are those of one
 * undisturbed worker, also if all workers are killed at once, repeatedly, and no step
 * is repeated. */
#include "base/counter.h"
#include "tests/support/ring.h"

#define JOB(optimizer)                                                                             \
    RING_JOB("\"epochs\":6,\"batch_size\":9,\"metrics\":[\"accuracy\"],\"optimizer\":{" optimizer  \
             "}")
#define ADAM "\"name\":\"adam\",\"learning_rate\":0.05"
static const char *job = JOB(ADAM);
static struct ring_reference reference; /* of job */
enum { MICRO_BATCHES = 9 + 12 };        /* of two successive reductions: a step and an evaluation */

static int64_t computed(void) { return qr_counter_value(QR_MICRO_BATCHES); }

/* One or two servers and one to three workers, with each all-reduce: rank 0 is the first server,
 * and the workers compute each micro-batch once. */
static void test_undisturbed(void) {
    for (uint32_t k = 0; k < 12; k++) {
        struct ring r;
        char what[64];
        uint32_t servers = 1 + k % 2;
        ring_init(&r, job, servers + 1 + k / 2 % 3);
        r.servers = servers;
        r.wish = (enum qr_allreduce)(k % QR_ALLREDUCE_KINDS);
        r.threads = 1 + k % 2;
        snprintf(what, sizeof what, "%u servers, %u workers, %s", servers, r.n - servers,
                 qr_allreduce_names[r.wish]);
        int64_t before = computed();
        ring_run(&r);
        ring_check(&r, &reference, what);
        CHECK(r.worker[0].view.rank == 0 && atomic_load(&r.n_wrote) == 1, "%s: the leader", what);
        CHECK(computed() - before == reference.n_micro_batches, "%s: %lld micro-batches, not %lld",
              what, (long long)(computed() - before), (long long)reference.n_micro_batches);
        ring_fini(&r);
    }
}

/* ---- all workers are killed at once, repeatedly ---- */

struct kills {
    unsigned every;    /* steps */
    uint64_t at_step;  /* step of the last kill */
    uint64_t reported; /* by the server: position in the log */
    unsigned lost;     /* repeated steps */
};
static void kill_all(struct ring_worker *w, enum ring_event e, const struct qr_step_line *line) {
    struct kills *b = w->ring->ctx;
    if (w->index != 0 || e != RING_STEP) return;
    uint64_t place = 2 * line->step + line->eval;
    b->lost += place <= b->reported;
    b->reported = place;
    if (line->eval || line->step < b->at_step + b->every) return;
    b->at_step = line->step;
    atomic_fetch_add(&w->ring->blows, 1);
}

/* A worker that starts after the results are written learns that from LATEST. */
static enum qr_code stored(void *worker, struct qr_state *ret, bool *ret_found,
                           struct qr_err *err) {
    const struct ring_worker *w = worker;
    (void)ret, (void)err;
    *ret_found = atomic_load(&w->ring->n_wrote) > 0;
    return QR_OK;
}
static bool ended(void *worker) {
    const struct ring_worker *w = worker;
    return atomic_load(&w->ring->n_wrote) > 0;
}

static void test_all_workers_killed_repeatedly(void) {
    for (uint32_t k = 0; k < 6; k++) {
        struct kills b = {.every = 1 + k % 3};
        struct ring r;
        char what[64];
        uint32_t servers = 1 + k / 3;
        ring_init(&r, job, servers + 1 + k % 3);
        r.servers = servers;
        r.on = kill_all;
        r.ctx = &b;
        r.reload = stored;
        r.ended = ended;
        r.form_ns = 1500 * QR_MS;
        for (uint32_t i = servers; i < r.n; i++) r.worker[i].again_ns = (int64_t)(5 + i) * QR_MS;
        snprintf(what, sizeof what, "%u workers beside %u servers, killed every %u steps",
                 r.n - servers, servers, b.every);
        int64_t before = computed();
        ring_run(&r);
        unsigned n_kills = atomic_load(&r.blows), n_starts = 0;
        for (uint32_t i = servers; i < r.n; i++) n_starts += r.worker[i].lives;
        printf("%s: %u times, %u starts, %lld micro-batches of %lld\n", what, n_kills, n_starts,
               (long long)(computed() - before), (long long)reference.n_micro_batches);
        ring_check(&r, &reference, what);
        /* On a busy machine a second server may be silent at the end and learn of it from the
         * first. */
        for (uint32_t i = 0; i < servers; i++)
            CHECK(r.worker[i].lives == 1 && (i > 0 || !r.worker[i].result.ended_by_peers),
                  "%s: server %u", what, i);
        /* Which of the workers a kill meets depends on time: one that was lost twice is banned for
         * a second while the others train. */
        CHECK(n_kills >= 16 / b.every && n_starts > n_kills / 2, "%s: %u kills, %u starts", what,
              n_kills, n_starts);
        CHECK(b.lost == 0, "%s: %u steps were lost", what, b.lost);
        /* A kill repeats at most the process's micro-batches of the reduction in progress and of
         * the one before, whose sum the process had received and its server had not. */
        CHECK(computed() - before <=
                  reference.n_micro_batches + (int64_t)n_kills * (int64_t)MICRO_BATCHES,
              "%s: %lld micro-batches", what, (long long)(computed() - before));
        ring_fini(&r);
    }
}

/* ---- the server is killed, or leaves ---- */

static void test_server_killed(void) {
    for (uint32_t k = 0; k < 8; k++) {
        struct ring r;
        char what[64];
        ring_init(&r, job, 3 + k % 2);
        r.servers = 1 + k % 2;
        r.worker[0].fuse = (long)(2 + k * k + 3 * k);
        r.worker[0].again_ns = k < 4 ? INT64_MAX : 10 * QR_MS;
        r.form_ns = 400 * QR_MS;
        r.reload = stored;
        r.ended = ended;
        r.step_ns = k < 4 ? 0 : 4 * QR_MS;
        snprintf(what, sizeof what, "server 0 of %u members killed at operation %ld", r.n,
                 r.worker[0].fuse);
        ring_run(&r);
        ring_check(&r, &reference, what);
        ring_fini(&r);
    }
}

struct leave {
    uint32_t member;
    atomic_bool over;
};
static void leave_at(struct ring_worker *w, enum ring_event e, const struct qr_step_line *line) {
    struct leave *l = w->ring->ctx;
    if (e != RING_STEP || line->step != 5 || w->index != 0 || atomic_exchange(&l->over, true))
        return;
    qr_group_interrupt(w->ring->worker[l->member].group);
}
static void test_leaves(void) {
    for (uint32_t member = 0; member < 3; member++) {
        struct leave l = {.member = member};
        struct ring r;
        ring_init(&r, job, 3);
        r.servers = 1;
        r.on = leave_at;
        r.ctx = &l;
        ring_run(&r);
        CHECK(r.worker[member].code == QR_CANCELLED, "member %u: %s", member,
              r.worker[member].err.msg);
        atomic_store(&r.worker[member].killed, true); /* excluded from ring_check */
        ring_check(&r, &reference, "one leaves");
        ring_fini(&r);
    }
}

/* ---- a server without workers ---- */

/* The server waits longer than a worker would, with its state, until LATEST says that others have
 * ended the run. Here it says so once a step was taken. */
static enum qr_code stored_later(void *worker, struct qr_state *ret, bool *ret_found,
                                 struct qr_err *err) {
    const struct ring_worker *w = worker;
    (void)ret, (void)err;
    *ret_found = atomic_load(&w->ring->has_stepped);
    return QR_OK;
}
static bool ended_later(void *worker) {
    const struct ring_worker *w = worker;
    return atomic_load(&w->ring->has_stepped);
}

static void test_server_waits(void) {
    struct kills b = {.every = 4};
    struct ring r;
    ring_init(&r, job, 2);
    r.servers = 1;
    r.on = kill_all;
    r.ctx = &b;
    r.form_ns = 300 * QR_MS;
    r.reload = stored_later;
    r.ended = ended_later;
    int64_t began_ns = qr_now_ns(&qr_clock_monotonic);
    ring_run(&r);
    double s = (double)(qr_now_ns(&qr_clock_monotonic) - began_ns) / 1e9;
    CHECK(r.worker[0].code == QR_OK && r.worker[0].result.ended_by_peers, "%s",
          r.worker[0].err.msg);
    CHECK(atomic_load(&r.worker[1].killed) && r.worker[1].lives == 1);
    CHECK(s > 4 && s < 20, "waited %.1f s", s);
    ring_fini(&r);
}

/* ---- numbers that are not finite ---- */

/* The server computes nothing and reports the same sample. */
static void test_bad_numbers(void) {
    struct ring r;
    ring_init(&r, JOB("\"name\":\"adam\",\"learning_rate\":1e30"), 3);
    r.servers = 1;
    ring_run(&r);
    for (uint32_t i = 0; i < 3; i++)
        CHECK(r.worker[i].code == QR_OUT_OF_RANGE &&
                  strcmp(r.worker[i].err.msg, r.worker[1].err.msg) == 0 &&
                  strstr(r.worker[i].err.msg, "step 2: sample "),
              "member %u: %s", i, r.worker[i].err.msg);
    ring_fini(&r);
}

/* ---- the last worker fails permanently, with an error of its own ---- */

static enum qr_code fail_at_step_5(void *worker, bool leader, struct qr_state *state,
                                   struct qr_err *err) {
    const struct ring_worker *w = worker;
    (void)leader;
    if (w->index == 0 || state->step < 5) return QR_OK;
    return qr_fail(err, QR_OUT_OF_RANGE, "step 5: a number is not finite");
}

/* The server does not wait for the worker: the goodbye has the error. */
static void test_last_worker_fails(void) {
    struct ring r;
    ring_init(&r, job, 2);
    r.servers = 1;
    r.committed = fail_at_step_5;
    ring_run(&r);
    for (uint32_t i = 0; i < 2; i++)
        CHECK(r.worker[i].code == QR_OUT_OF_RANGE &&
                  strstr(r.worker[i].err.msg, "step 5: a number is not finite"),
              "member %u: %s", i, r.worker[i].err.msg);
    ring_fini(&r);
}

int main(void) {
    reference = ring_undisturbed(job);
    test_undisturbed();
    test_all_workers_killed_repeatedly();
    test_server_killed();
    test_leaves();
    test_server_waits();
    test_bad_numbers();
    test_last_worker_fails();
    qr_buf_free(&reference.lines);
    /* One number a step, at two points. */
    job = JOB("\"name\":\"spsa\"");
    reference = ring_undisturbed(job);
    test_undisturbed();
    test_leaves();
    qr_buf_free(&reference.lines);
    return t_end();
}
