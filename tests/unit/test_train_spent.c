/* Pod-time: the integral of membership on virtual time, what members learn from each other, and the
 * budget, which ends training within a step. */
#include "train/pod_time.h"

#include "base/clock.h"
#include "base/mem.h"
#include "tests/t.h"
#include "train/train.h"

static void test_integral(void) {
    /* Members and seconds: a ring forms, loses two, is alone, grows. */
    static const struct {
        uint32_t n;
        int64_t s;
    } time[] = {{3, 10}, {1, 7}, {2, 1}, {64, 100}, {5, 0}, {4, 3600}};
    struct qr_pod_time s;
    int64_t now_ns = 123456789, whole = 1500;
    qr_pod_time_begin(&s, 1500);
    CHECK(qr_pod_time_ms(&s, now_ns) == 1500, "there are no members yet");
    for (size_t i = 0; i < COUNT(time); i++) {
        qr_pod_time_set_members(&s, time[i].n, now_ns);
        for (int64_t k = 0; k < time[i].s; k++) {
            now_ns += QR_SECOND;
            whole += 1000 * (int64_t)time[i].n;
            CHECK(qr_pod_time_ms(&s, now_ns) == (uint64_t)whole);
        }
    }
    /* A clock that goes back subtracts nothing. */
    CHECK(qr_pod_time_ms(&s, s.since_ns - QR_SECOND) == (uint64_t)s.pod_ns / QR_MS);
}

static void test_raise(void) {
    struct qr_pod_time s;
    qr_pod_time_begin(&s, 0);
    qr_pod_time_set_members(&s, 2, 0);
    qr_pod_time_raise(&s, 900, QR_SECOND / 2); /* Less than the 1000 that were counted here. */
    CHECK(qr_pod_time_ms(&s, QR_SECOND) == 2000);
    qr_pod_time_raise(&s, 50000, QR_SECOND);
    CHECK(qr_pod_time_ms(&s, QR_SECOND) == 50000 && qr_pod_time_ms(&s, 2 * QR_SECOND) == 52000);
    /* Frozen for a minute and rejoined: that time is not counted here. */
    qr_pod_time_set_members(&s, 3, 62 * QR_SECOND);
    qr_pod_time_reset(&s, 62 * QR_SECOND);
    CHECK(qr_pod_time_ms(&s, 62 * QR_SECOND) == 0);
    qr_pod_time_raise(&s, 112000, 63 * QR_SECOND);
    CHECK(qr_pod_time_ms(&s, 64 * QR_SECOND) == 115000);
    /* An impossible value stays in range. */
    qr_pod_time_raise(&s, UINT64_MAX >> 1, 64 * QR_SECOND);
    CHECK(qr_pod_time_ms(&s, 65 * QR_SECOND) > 115000);
}

static void test_encoding(void) {
    struct rank {
        uint64_t ns, ms;
        bool bound;
    };
    static const struct rank ranks[] = {
        {5, 70, false}, {UINT64_C(1) << 39, 1000000, true}, {0, 0, false}, {9, 1000001, false}};
    qr_fixed sum[COUNT(ranks)] = {0};
    for (size_t i = 0; i < COUNT(ranks); i++) {
        sum[i] += qr_pod_time_encode(ranks[i].ns, ranks[i].ms, ranks[i].bound);
        CHECK(qr_fixed_to_count(sum[i]) == ranks[i].ns, "the nanoseconds stay");
    }
    struct qr_pod_time_report s = qr_pod_time_decode(sum, COUNT(ranks));
    CHECK(s.pod_ms == 1000001 && !s.bound, "rank 1's bound is not the leader's");
    s = qr_pod_time_decode(sum + 1, 3);
    CHECK(s.pod_ms == 1000001 && s.bound);
    s = qr_pod_time_decode(sum + 2, 1);
    CHECK(s.pod_ms == 0 && !s.bound);
}

/* ---- training on a clock that advances at each reading ---- */

static int64_t virtual_ns;
static int64_t tick(void *ctx) {
    (void)ctx;
    return virtual_ns += 3 * QR_MS;
}
static const struct qr_clock ticking = {tick, NULL};

struct seen {
    uint64_t steps, pod_ms[4096], closed_ms;
    bool over, finished;
};

static enum qr_code on_step(void *ctx, bool leader, const struct qr_step_line *line,
                            const struct qr_step_detail *detail, struct qr_err *err) {
    struct seen *s = ctx;
    (void)leader, (void)err;
    if (!line->eval && line->step < COUNT(s->pod_ms))
        s->pod_ms[s->steps = line->step] = detail->pod_ms;
    return QR_OK;
}

static enum qr_code on_finish(void *ctx, const struct qr_group_view *view,
                              const struct qr_train_result *r, struct qr_err *err) {
    struct seen *s = ctx;
    (void)view;
    s->finished = true;
    s->over = r->over_budget;
    s->closed_ms = r->pod_ms;
    return r->over_budget ? qr_fail(err, QR_OVER_BUDGET, "spent") : QR_OK;
}

static const char job_text[] =
    "{\"seed\":3,\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\",\"qubits\":4,"
    "\"stages\":1}},{\"layer\":\"dense\",\"units\":1}],\"data\":{\"source\":\"cluster-"
    "excitations\","
    "\"rounds\":10,\"train_fraction\":0.7},\"train\":{\"epochs\":30,\"batch_size\":9}}";

static enum qr_code train(uint64_t before_ms, uint64_t max_ms, uint64_t epochs, struct seen *seen,
                          char ret_digest[33]) {
    struct qr_err err = {0};
    struct qr_job *job;
    struct qr_dataset data;
    struct qr_model *model;
    struct qr_job_canonical canonical;
    struct qr_train_result r = {0};
    *seen = (struct seen){0};
    CHECK(qr_job_parse(qr_bytes_of_string(job_text), "the test", &job, &err) == QR_OK, "%s",
          err.msg);
    CHECK(qr_job_data(job, &data, &err) == QR_OK, "%s", err.msg);
    CHECK(qr_job_model(job, qr_isa_best(), data.n_columns, &model, &err) == QR_OK, "%s", err.msg);
    qr_job_canonical(job, &data, NULL, &canonical);
    struct qr_pool *pool = qr_pool_new(1);
    struct qr_group_options g = {.run = "t", .clock = &ticking};
    memcpy(g.job_hash, canonical.hash, 32);
    struct qr_group *group = qr_group_solo(&g);
    const struct qr_train_options o = {.job = job,
                                       .canonical = &canonical,
                                       .data = &data,
                                       .model = model,
                                       .group = group,
                                       .pool = pool,
                                       .epochs = epochs,
                                       .clock = &ticking,
                                       .pod_ms = before_ms,
                                       .max_pod_ms = max_ms,
                                       .observer = {.ctx = seen, .step = on_step},
                                       .finish = on_finish,
                                       .finish_ctx = seen};
    enum qr_code code = qr_train_run(&o, &r, &err);
    if (code == QR_OK) memcpy(ret_digest, r.state_digest, 33);
    qr_train_result_fini(&r);
    qr_group_close(group);
    qr_pool_free(pool);
    qr_job_canonical_fini(&canonical);
    qr_model_free(model);
    qr_dataset_fini(&data);
    qr_job_free(job);
    return code;
}

static void test_budget(void) {
    static struct seen seen, all;
    char digest[33], same[33];
    CHECK(train(0, 0, 30, &all, digest) == QR_OK && all.finished && !all.over && all.steps == 120,
          "%d", (int)all.steps);
    for (uint64_t max_ms = 1; max_ms < all.closed_ms * 9 / 10; max_ms += all.closed_ms / 7) {
        CHECK(train(0, max_ms, 30, &seen, same) == QR_OVER_BUDGET && seen.over);
        uint64_t n = seen.steps;
        CHECK(n >= 1 && n < 120 && seen.closed_ms >= max_ms);
        /* A step is reported when the next one is applied: step n - 3 before n - 1 was summed. */
        CHECK(n < 4 || seen.pod_ms[n - 3] < max_ms, "%d steps and %d ms, with a budget of %d",
              (int)n, (int)seen.pod_ms[n - 3], (int)max_ms);
    }
    CHECK(train(all.closed_ms, all.closed_ms, 30, &seen, same) == QR_OVER_BUDGET && seen.steps == 1,
          "spent before the start: one step, not %d", (int)seen.steps);
    CHECK(train(1000, 0, 1, &seen, same) == QR_OK && seen.pod_ms[1] > 1000);
    /* A budget that is reached by the last step has no effect, and the bits are the same. */
    CHECK(train(0, all.closed_ms, 30, &seen, same) == QR_OK && !seen.over &&
          strcmp(same, digest) == 0);
    CHECK(train(1, 1, 1, &seen, same) == QR_OVER_BUDGET);
}

int main(void) {
    test_integral();
    test_raise();
    test_encoding();
    test_budget();
    return t_end();
}
