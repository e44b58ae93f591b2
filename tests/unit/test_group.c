/* Whole groups in one process, over in-process links, one control and one training thread each. */
#include <pthread.h>

#include "base/mem.h"
#include "group/group.h"
#include "group/group_impl.h"
#include "group/group_over_impl.h"
#include "tests/group_form.h"
#include "tests/support/link_memory.h"
#include "tests/t.h"

enum { MAX_N = 6, LENGTH = 6000 };
enum role { WORKS, LEAVES_AT_5, STOPPED_AT_5, WRONG_COVERAGE_AT_5, STOPS_0_AT_5 };
struct worker {
    struct qr_link_hub *hub;
    uint32_t index, n;
    enum role role;
    enum qr_allreduce wish;
    bool retries;      /* some worker has wrong coverage: retry after a rejected sum */
    const char *field; /* value of its one setting */
    pthread_t training;
    struct qr_field fields[2];
    struct qr_group *g;
    struct qr_group_view view;
    enum qr_code code;
    struct qr_err err;
    struct qr_log log;
    char departures[512], warnings[512]; /* log lines about members that left, and warnings */
    char schedule[16];
    uint64_t hash;  /* of all sums */
    size_t n_taken; /* micro-batches, at the last step */
};
static const char *const peers[MAX_N] = {"w0:2222", "w1:2222", "w2:2222",
                                         "w3:2222", "w4:2222", "w5:2222"};

static void *control(void *g) {
    qr_group_control_run(g);
    return NULL;
}
static void join(void *thread) { pthread_join(*(pthread_t *)thread, NULL); }

static void keep_log(void *ctx, enum qr_log_level level, const char *module, const char *message) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* both threads of the worker log */
    struct worker *w = ctx;
    (void)module;
    pthread_mutex_lock(&lock);
    char *to = level >= QR_LOG_WARNING      ? w->warnings
               : strstr(message, " left: ") ? w->departures
                                            : NULL;
    size_t had = to ? strlen(to) : 0;
    if (to) snprintf(to + had, sizeof w->departures - had, "%s\n", message);
    pthread_mutex_unlock(&lock);
}

static enum qr_code one_step(struct worker *w, uint64_t step, enum qr_reduction_kind kind,
                             size_t n) {
    static const uint8_t digest[16];
    qr_fixed *mine = qr_xcalloc(n + 1, sizeof *mine), *sum = qr_xcalloc(n + 1, sizeof *sum);
    struct qr_contribution c = {
        .key = {.reductions = step, .kind = kind}, .n_micro_batches = 9, .vector = mine, .n = n};
    for (uint64_t b = w->view.rank; b < c.n_micro_batches; b += w->view.n_members) {
        qr_coverage_add_micro_batch(&c.coverage, &c.key, b);
        /* A micro-batch's terms depend only on its number, so the sum is the same for any number of
         * workers. */
        for (size_t i = 0; i < n; i++) mine[i] += (qr_fixed)((b + 1) * (i + 3) * (step + 1)) << 50;
    }
    if (w->role == WRONG_COVERAGE_AT_5 && step == 5)
        qr_coverage_add_micro_batch(&c.coverage, &c.key, 3);
    enum qr_code code = qr_group_reduce(w->g, &c, sum, &w->err);
    for (size_t i = 0; i < n; i++)
        w->hash = w->hash * UINT64_C(6364136223846793005) + (uint64_t)(sum[i] >> 40) + 1;
    if (code == QR_OK) code = qr_group_apply(w->g, step + 1, digest, &w->err);
    free(mine), free(sum);
    return code;
}
/* Ends the job in worker 0's mailbox while worker 0 reduces. */
static enum qr_code stop_0(struct qr_group *g) {
    nanosleep(&(struct timespec){.tv_nsec = 100 * QR_MS}, NULL);
    mailbox_lock(&g->mail.box);
    g->mail.stopped = true;
    g->mail.stop = (struct qr_err){.code = QR_DATA_LOSS, .msg = "the job has ended"};
    mailbox_unlock(&g->mail.box);
    nanosleep(&(struct timespec){.tv_nsec = 100 * QR_MS}, NULL);
    return QR_OK;
}
static enum qr_code work(struct worker *w) {
    enum qr_code code = form_group(w->g, &w->view, &w->err);
    for (uint64_t step = 0; step < 12 && code == QR_OK; step++) {
        if (w->role == STOPPED_AT_5 && step == 5) qr_group_interrupt(w->g);
        if ((w->role == LEAVES_AT_5 || w->role == STOPPED_AT_5) && step == 5) return QR_OK;
        if (w->role == STOPS_0_AT_5 && step == 5) return stop_0((w - w->index)->g);
        code = one_step(w, step, QR_REDUCTION_TRAIN, step % 3 == 2 ? LENGTH : 40);
        for (int again = 0; code == QR_ABORTED && w->role != LEAVES_AT_5 && again < 2 && w->retries;
             again++) {
            struct qr_group_start start;
            code = qr_group_join(w->g, &start, &w->err);
            if (code != QR_OK) break;
            w->view = start.view;
            code = one_step(w, step, QR_REDUCTION_TRAIN, step % 3 == 2 ? LENGTH : 40);
        }
    }
    snprintf(w->schedule, sizeof w->schedule, "%s", qr_group_schedule_name(w->g, 40));
    if (code == QR_OK) code = one_step(w, 12, QR_REDUCTION_CLOSE, 0);
    return code == QR_OK ? qr_group_done(w->g, NULL, 5 * QR_SECOND, &w->err) : code;
}
/* Opens a group over the hub's links and starts its control thread. False: w->code and w->err have
 * the error. */
static bool open_group(struct worker *w, pthread_t *thread) {
    unsigned port;
    if (!w->field) w->field = "1";
    w->fields[0] = (struct qr_field){"contract", "f32-v1"};
    w->fields[1] = (struct qr_field){"seed", w->field};
    w->log = (struct qr_log){.level = QR_LOG_INFO, .write = keep_log, .ctx = w};
    struct qr_group_options o = {.run = "test",
                                 .fields = w->fields,
                                 .n_fields = 2,
                                 .index = w->index,
                                 .n_peers = w->n,
                                 .peers = peers,
                                 .count_known = true,
                                 .min_workers = w->n,
                                 .listen_address = peers[w->index],
                                 .form_timeout_ns = 3 * QR_SECOND,
                                 .allreduce = w->wish,
                                 .clock = &qr_clock_monotonic,
                                 .log = &w->log};
    memset(o.job_hash, w->field[0], sizeof o.job_hash);
    w->code = qr_group_over(&o, qr_link_memory_new(w->hub), qr_link_memory_new(w->hub), &w->g,
                            &port, &w->err);
    if (w->code != QR_OK) return false;
    pthread_create(thread, NULL, control, w->g);
    qr_group_set_thread(w->g, NULL, join, thread);
    return true;
}
static void *train(void *arg) {
    struct worker *w = arg;
    pthread_t thread;
    if (!open_group(w, &thread)) return NULL;
    w->code = work(w);
    qr_group_close(w->g);
    return NULL;
}
static void run(struct worker *w, uint32_t n, enum qr_allreduce wish) {
    struct qr_link_hub *hub = qr_link_hub_new();
    for (uint32_t i = 0; i < n; i++) {
        w[i].hub = hub, w[i].index = i, w[i].n = n, w[i].wish = wish;
        pthread_create(&w[i].training, NULL, train, &w[i]);
    }
    for (uint32_t i = 0; i < n; i++) pthread_join(w[i].training, NULL);
    qr_link_hub_free(hub);
}

static void test_same_sums(void) {
    uint64_t hash = 0;
    for (uint32_t n = 1; n <= MAX_N; n++)
        for (int wish = QR_ALLREDUCE_AUTO; wish < QR_ALLREDUCE_KINDS; wish++) {
            struct worker w[MAX_N] = {0};
            run(w, n, (enum qr_allreduce)wish);
            if (!hash) hash = w[0].hash;
            for (uint32_t i = 0; i < n; i++) {
                CHECK(w[i].code == QR_OK, "worker %u of %u, %s: %s", i, n, qr_allreduce_names[wish],
                      w[i].err.msg);
                CHECK(w[i].hash == hash, "worker %u of %u, %s: other sums", i, n,
                      qr_allreduce_names[wish]);
                CHECK(w[i].view.rank == i && w[i].view.n_members == n && w[i].view.generation > 0);
                if (wish == QR_ALLREDUCE_RING)
                    CHECK(strcmp(w[i].schedule, n == 1 ? "alone" : "ring") == 0, "%s",
                          w[i].schedule);
            }
        }
}
/* The others may repeat the reduction in a new generation. They warn about a member that ended
 * early, but not about one that was asked to stop. A member that ends first may miss the
 * goodbye. */
static void test_leaver(bool asked) {
    struct worker w[4] = {[2] = {.role = asked ? STOPPED_AT_5 : LEAVES_AT_5}};
    const char *line = asked ? "worker 2 (w2:2222) left: it was asked to stop\n"
                             : "worker 2 (w2:2222) left: it ended early\n";
    unsigned n_logged = 0;
    run(w, 4, QR_ALLREDUCE_AUTO);
    CHECK(w[2].code == QR_OK);
    for (uint32_t i = 0; i < 4; i++) {
        if (i == 2) continue;
        CHECK(w[i].code == QR_ABORTED, "worker %u: %s", i, w[i].err.msg);
        n_logged += strstr(asked ? w[i].departures : w[i].warnings, line) != NULL;
        CHECK(!strstr(asked ? w[i].warnings : w[i].departures, "worker 2 ("),
              "worker %u: %s; warned: %s", i, w[i].departures, w[i].warnings);
    }
    CHECK(n_logged > 0, "no member logged: %s", line);
}
/* All members reject a sum with wrong coverage; the second time it ends the job. */
static void test_wrong_coverage(void) {
    struct worker w[3] = {
        {.retries = true}, {.retries = true, .role = WRONG_COVERAGE_AT_5}, {.retries = true}};
    run(w, 3, QR_ALLREDUCE_STAR);
    unsigned rejected = 0;
    for (uint32_t i = 0; i < 3; i++) {
        CHECK(w[i].code == QR_DATA_LOSS || w[i].code == QR_ABORTED, "worker %u: %s", i,
              w[i].err.msg);
        if (w[i].code != QR_DATA_LOSS) continue;
        rejected++;
        CHECK(strstr(w[i].err.msg, "reduction 5: its sum failed the coverage check twice; states: "
                                   "00000000000000000000000000000000 at worker 0 (w0:2222), worker "
                                   "1 (w1:2222), worker 2 (w2:2222)"),
              "%s", w[i].err.msg);
    }
    CHECK(rejected == 3, "%u", rejected);
}
/* An end of the job with DATA_LOSS is not reported as a rejected sum. */
static void test_stopped_in_a_reduction(void) {
    struct worker w[2] = {[1] = {.role = STOPS_0_AT_5}};
    run(w, 2, QR_ALLREDUCE_AUTO);
    CHECK(w[0].code == QR_DATA_LOSS && strcmp(w[0].err.msg, "the job has ended") == 0, "%s %s",
          qr_code_name(w[0].code), w[0].err.msg);
}
/* ---- assignment of micro-batches by speed ---- */

/* Rank slow_rank takes slow_ns for a micro-batch before step slow_steps; otherwise it is 1000
 * ns. */
static struct { uint64_t micro_batches, steps, slow_rank, slow_steps, slow_ns; } pace;
static void *train_weighted(void *arg) {
    static const uint8_t digest[16];
    struct worker *w = arg;
    pthread_t thread;
    if (!open_group(w, &thread)) return NULL;
    w->code = form_group(w->g, &w->view, &w->err);
    for (uint64_t step = 0; step < pace.steps && w->code == QR_OK; step++) {
        qr_fixed mine[4] = {0}, sum[4];
        struct qr_contribution c = {.key = {.reductions = step},
                                    .n_micro_batches = pace.micro_batches,
                                    .vector = mine,
                                    .n = 1 + w->n};
        size_t left = 0;
        uint64_t micro_batch, ns[3];
        w->code = qr_group_open_reduction(w->g, pace.micro_batches, &left, &w->err);
        w->n_taken = 0;
        while (w->code == QR_OK && qr_group_take_micro_batch(w->g, &micro_batch)) {
            qr_coverage_add_micro_batch(&c.coverage, &c.key, micro_batch);
            w->n_taken++;
        }
        if (w->code == QR_OK && w->n_taken != left)
            w->code = qr_fail(&w->err, QR_INTERNAL, "%zu micro-batches, not %zu", w->n_taken, left);
        bool slow = w->view.rank == pace.slow_rank && step < pace.slow_steps;
        mine[1 + w->view.rank] = qr_fixed_from_count(w->n_taken * (slow ? pace.slow_ns : 1000));
        if (w->code == QR_OK) w->code = qr_group_reduce(w->g, &c, sum, &w->err);
        if (w->code == QR_OK) w->code = qr_group_apply(w->g, step + 1, digest, &w->err);
        for (int r = 0; r < 3; r++) ns[r] = qr_fixed_to_count(sum[1 + r]);
        if (w->code == QR_OK) qr_group_set_speeds(w->g, pace.micro_batches, ns);
    }
    if (w->code == QR_OK) w->code = one_step(w, pace.steps + 2, QR_REDUCTION_CLOSE, 0);
    if (w->code == QR_OK) w->code = qr_group_done(w->g, NULL, 5 * QR_SECOND, &w->err);
    qr_group_close(w->g);
    return NULL;
}
static void run_weighted(struct worker w[3]) {
    struct qr_link_hub *hub = qr_link_hub_new();
    for (uint32_t i = 0; i < 3; i++) {
        w[i].hub = hub, w[i].index = i, w[i].n = 3;
        pthread_create(&w[i].training, NULL, train_weighted, &w[i]);
    }
    for (uint32_t i = 0; i < 3; i++) pthread_join(w[i].training, NULL);
    qr_link_hub_free(hub);
    for (uint32_t i = 0; i < 3; i++) CHECK(w[i].code == QR_OK, "worker %u: %s", i, w[i].err.msg);
}
static void test_speed(void) {
    struct worker w[3] = {{0}};
    pace.micro_batches = 120, pace.steps = pace.slow_steps = 10, pace.slow_rank = 2,
    pace.slow_ns = 4000;
    run_weighted(w);
    /* Speeds are 4 : 4 : 1. */
    CHECK(w[0].n_taken + w[1].n_taken + w[2].n_taken == pace.micro_batches && w[2].n_taken >= 12 &&
              w[2].n_taken <= 14,
          "%zu %zu %zu", w[0].n_taken, w[1].n_taken, w[2].n_taken);
    struct worker u[3] = {{0}}; /* 1 % slower is no reason for fewer of few micro-batches */
    pace.micro_batches = 12, pace.slow_rank = 0, pace.slow_ns = 1010;
    run_weighted(u);
    CHECK(u[0].n_taken == 4 && u[1].n_taken == 4 && u[2].n_taken == 4, "%zu %zu %zu", u[0].n_taken,
          u[1].n_taken, u[2].n_taken);
    /* A slow start, and so few micro-batches that the member gets none: it must get some again
     * later. */
    struct worker v[3] = {{0}};
    pace.micro_batches = 4, pace.steps = 300, pace.slow_rank = 0, pace.slow_steps = 3,
    pace.slow_ns = 100000;
    run_weighted(v);
    CHECK(v[0].n_taken >= 1 && v[0].n_taken + v[1].n_taken + v[2].n_taken == pace.micro_batches,
          "%zu %zu %zu", v[0].n_taken, v[1].n_taken, v[2].n_taken);
}

static void test_solo(void) {
    struct qr_group_options o = {.index = 0, .clock = &qr_clock_monotonic};
    struct worker w = {.g = qr_group_solo(&o)};
    CHECK(form_group(w.g, &w.view, &w.err) == QR_OK && w.view.n_members == 1);
    CHECK(one_step(&w, 1, QR_REDUCTION_TRAIN, 10) == QR_OK, "%s", w.err.msg);
    w.role = WRONG_COVERAGE_AT_5;
    CHECK(one_step(&w, 5, QR_REDUCTION_TRAIN, 10) == QR_DATA_LOSS, "%s", w.err.msg);
    struct qr_err rejected = {.code = QR_NOT_FOUND, .msg = "no bucket"};
    CHECK(qr_group_done(w.g, &rejected, QR_SECOND, &w.err) == QR_NOT_FOUND &&
          strstr(w.err.msg, "no bucket"));
    qr_group_interrupt(w.g);
    CHECK(one_step(&w, 6, QR_REDUCTION_TRAIN, 10) == QR_CANCELLED);
    qr_group_close(w.g);
    qr_group_close(NULL);
}
static void test_bad_options(void) {
    struct qr_link_hub *hub = qr_link_hub_new();
    struct qr_group_options o = {.index = 2,
                                 .n_peers = 2,
                                 .peers = peers,
                                 .listen_address = "w0:1",
                                 .clock = &qr_clock_monotonic};
    struct qr_group *g = NULL;
    struct qr_err err;
    unsigned port;
    CHECK(qr_group_over(&o, qr_link_memory_new(hub), qr_link_memory_new(hub), &g, &port, &err) ==
              QR_INVALID_ARGUMENT &&
          !g);
    o.index = 0, o.listen_address = "nonsense";
    CHECK(qr_group_over(&o, qr_link_memory_new(hub), qr_link_memory_new(hub), &g, &port, &err) ==
              QR_INVALID_ARGUMENT &&
          strstr(err.msg, "nonsense"));
    o.listen_address = "w0:1", o.data_port = 1; /* both on one port */
    CHECK(qr_group_over(&o, qr_link_memory_new(hub), qr_link_memory_new(hub), &g, &port, &err) ==
                  QR_ALREADY_EXISTS &&
              strstr(err.msg, "w0:1"),
          "%s", err.msg);
    qr_link_hub_free(hub);
}

int main(void) {
    test_bad_options();
    test_solo();
    test_same_sums();
    test_leaver(false);
    test_leaver(true);
    test_wrong_coverage();
    test_stopped_in_a_reduction();
    test_speed();
    return t_end();
}
