/* cost.json: values are read back, only grow, and survive concurrent writers. The reporting thread
 * logs a failure once and never delays its caller. */
#include "output/cost.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "format/json.h"
#include "output/progress_reporter.h"
#include "tests/t.h"

static const struct qr_price price = {.per_pod_hour = 0.25, .currency = "EUR"};

static void test_numbers(void) {
    struct qr_buf text = {0};
    static const struct qr_price none = {0};
    CHECK(qr_cost_money(&price, 7200000) == 0.5 && qr_cost_hours(1800000) == 0.5);
    CHECK(qr_cost_money(&none, 7200000) == 0);
    CHECK(qr_cost_pod_ms(&price, 0.5) == 7200000 && qr_cost_pod_ms(&price, 1e-9) == 1);
    CHECK(qr_cost_pod_ms(&price, 1e12) > UINT64_C(1) << 40);
    qr_cost_text(&price, 7200000, &text);
    CHECK(strcmp(qr_buf_string(&text), "0.5 EUR (2 pod-hours)") == 0, "%s", qr_buf_string(&text));
    qr_buf_clear(&text);
    qr_cost_text(&none, 7200000, &text);
    CHECK(strcmp(qr_buf_string(&text), "2 pod-hours") == 0, "%s", qr_buf_string(&text));
    qr_buf_free(&text);
}

/* ---- a store with planted failures and a concurrent writer ---- */

struct bad_store {
    struct qr_store base;
    struct qr_store *inner;
    int fail_gets, fail_swaps, races;
};

static enum qr_code bad_get(struct qr_store *s, const char *name, size_t max, struct qr_buf *ret,
                            struct qr_store_version *version, struct qr_err *err) {
    struct bad_store *b = (struct bad_store *)s;
    if (b->fail_gets && b->fail_gets-- > 0) return qr_fail(err, QR_UNAVAILABLE, "planted get");
    return b->inner->ops->get_version(b->inner, name, max, ret, version, err);
}

static enum qr_code bad_swap(struct qr_store *s, const char *name, struct qr_bytes content,
                             const struct qr_store_version *seen, struct qr_err *err) {
    struct bad_store *b = (struct bad_store *)s;
    if (b->fail_swaps && b->fail_swaps-- > 0) return qr_fail(err, QR_UNAVAILABLE, "planted swap");
    if (b->races) {
        char other[64];
        int n = snprintf(other, sizeof other, "{\"pod_seconds\": %d}", 10 - b->races--);
        CHECK(b->inner->ops->put(b->inner, name, qr_bytes_of(other, (size_t)n), false, err) ==
              QR_OK);
    }
    return b->inner->ops->swap(b->inner, name, content, seen, err);
}

static const struct qr_store_ops bad_ops = {.get_version = bad_get, .swap = bad_swap};

static uint64_t read_cost_ms(struct qr_store *s) {
    struct qr_err err = {0};
    uint64_t ms = 99;
    CHECK(qr_cost_read(s, "c/cost.json", &ms, &err) == QR_OK, "%s", err.msg);
    return ms;
}

static void test_store(void) {
    struct bad_store b = {.base = {&bad_ops}, .inner = qr_store_memory_new()};
    struct qr_store *s = &b.base;
    struct qr_err err = {0};
    CHECK(read_cost_ms(s) == 0);
    CHECK(qr_cost_write(s, "c/cost.json", &price, 1234567, &err) == QR_OK &&
          read_cost_ms(s) == 1234567);
    CHECK(qr_cost_write(s, "c/cost.json", &price, 1234566, &err) == QR_OK &&
              read_cost_ms(s) == 1234567,
          "the total only grows");
    b.fail_gets = 1;
    CHECK(qr_cost_write(s, "c/cost.json", &price, 2000000, &err) == QR_UNAVAILABLE);
    b.fail_swaps = 1;
    CHECK(qr_cost_write(s, "c/cost.json", &price, 2000000, &err) == QR_UNAVAILABLE);
    CHECK(read_cost_ms(s) == 1234567);
    b.races = 3; /* The other writer's totals are smaller: read them and write ours. */
    CHECK(qr_cost_write(s, "c/cost.json", &price, 2000000, &err) == QR_OK &&
              read_cost_ms(s) == 2000000,
          "%s", err.msg);
    b.races = 9;
    CHECK(qr_cost_write(s, "c/cost.json", &price, 3000000, &err) == QR_UNAVAILABLE &&
              strstr(err.msg, "c/cost.json"),
          "%s", err.msg);
    static const char *const damaged[] = {"", "{", "[]", "{\"pod_seconds\": -1}", "{\"x\": 1}"};
    for (size_t i = 0; i < COUNT(damaged); i++) {
        uint64_t ms;
        CHECK(b.inner->ops->put(b.inner, "c/cost.json", qr_bytes_of_string(damaged[i]), false,
                                &err) == QR_OK);
        CHECK(qr_cost_read(s, "c/cost.json", &ms, &err) == QR_DATA_LOSS &&
                  strstr(err.msg, "c/cost.json") && strstr(err.msg, "delete it"),
              "%s: %s", damaged[i], err.msg);
        CHECK(qr_cost_write(s, "c/cost.json", &price, 1, &err) == QR_DATA_LOSS);
    }
    b.inner->ops->close(b.inner);
}

/* ---- the thread ---- */

static atomic_int n_calls, n_sent, n_warned, n_recovered, last_done = -1;
static atomic_bool fails, hangs;
static _Atomic uint64_t sent_ms;

static enum qr_code send_report(void *ctx, const struct qr_progress_snapshot *s,
                                enum qr_report_kind when, struct qr_err *err) {
    (void)ctx;
    atomic_fetch_add(&n_calls, 1);
    while (atomic_load(&hangs)) qr_sleep_ns(QR_MS);
    atomic_fetch_add(&n_sent, 1);
    atomic_store(&sent_ms, s->pod_ms);
    if (when == QR_REPORT_DONE) atomic_store(&last_done, 1);
    return atomic_load(&fails) ? qr_fail(err, QR_UNAVAILABLE, "planted") : QR_OK;
}

static void record_log(void *ctx, enum qr_log_level level, const char *module, const char *text) {
    (void)ctx, (void)module;
    if (level == QR_LOG_WARNING && strstr(text, "cannot update the target: planted")) n_warned++;
    if (strstr(text, "updates of the target succeed again")) n_recovered++;
}

static void wait_for(const atomic_int *n, int least) {
    for (int i = 0; i < 5000 && atomic_load(n) < least; i++) qr_sleep_ns(QR_MS);
    CHECK(atomic_load(n) >= least, "%d of %d", atomic_load(n), least);
}

static struct qr_progress_reporter *progress_reporter(bool last_of_all, const struct qr_log *log) {
    const struct qr_progress_sink to = {
        .what = "the target", .every_ns = QR_MS, .last_of_all = last_of_all, .send = send_report};
    struct qr_progress_reporter *t = NULL;
    struct qr_err err = {0};
    atomic_store(&n_calls, 0);
    atomic_store(&n_sent, 0);
    atomic_store(&last_done, -1);
    CHECK(qr_progress_reporter_new(&to, 1, log, &t, &err) == QR_OK, "%s", err.msg);
    return t;
}

static void update(struct qr_progress_reporter *t, bool leads, uint64_t pod_ms) {
    const struct qr_progress_snapshot s = {.pod_ms = pod_ms};
    qr_progress_reporter_update(t, leads, &s);
}

static void test_reporter(void) {
    const struct qr_log log = {.level = QR_LOG_DEBUG, .write = record_log};
    struct qr_progress_reporter *t = progress_reporter(false, &log);
    update(t, false, 5);
    qr_sleep_ns(QR_SECOND / 2);
    CHECK(atomic_load(&n_sent) == 0, "a follower sends nothing");
    atomic_store(&fails, true);
    update(t, true, 6);
    wait_for(&n_sent, 1);
    update(t, true, 7);
    wait_for(&n_sent, 3);
    CHECK(atomic_load(&n_warned) == 1, "logged %d times, not once", atomic_load(&n_warned));
    atomic_store(&fails, false);
    wait_for(&n_recovered, 1);
    int n = atomic_load(&n_sent);
    qr_sleep_ns(QR_SECOND / 2);
    CHECK(atomic_load(&n_sent) == n, "nothing new to send");
    update(t, true, 8);
    CHECK(qr_progress_reporter_close(t, true, QR_SECOND) && atomic_load(&sent_ms) == 8 &&
          atomic_load(&last_done) == 1);
    t = progress_reporter(false, &log);
    update(t, false, 9);
    CHECK(qr_progress_reporter_close(t, false, QR_SECOND) && atomic_load(&n_sent) == 0);
    t = progress_reporter(true, &log);
    update(t, false, 9);
    CHECK(qr_progress_reporter_close(t, false, QR_SECOND) && atomic_load(&n_sent) == 1 &&
          atomic_load(&last_done) == -1);
    t = progress_reporter(true, &log);
    CHECK(qr_progress_reporter_close(t, false, QR_SECOND) && atomic_load(&n_sent) == 0,
          "nothing to send");
    CHECK(qr_progress_reporter_close(NULL, true, QR_SECOND));
    update(NULL, true, 1);
}

/* With a hanging sink the caller continues after its timeout. */
static void test_hanging(void) {
    const struct qr_log log = {.level = QR_LOG_ERROR, .write = record_log};
    struct qr_progress_reporter *t = progress_reporter(true, &log);
    atomic_store(&hangs, true);
    update(t, true, 1);
    wait_for(&n_calls, 1);
    int64_t began_ns = qr_now_ns(&qr_clock_monotonic);
    CHECK(!qr_progress_reporter_close(t, true, QR_SECOND / 5));
    CHECK(t_in_time("close with a sink that hangs", qr_now_ns(&qr_clock_monotonic) - began_ns,
                    QR_SECOND, T_MINUTE));
    atomic_store(&hangs, false);
    wait_for(&n_sent, 2); /* The thread ends by itself. */
}

/* With a folder's URL, as in a worker. */
static void test_folder(void) {
    char folder[] = "/tmp/qring-cost-XXXXXX";
    const struct qr_log log = {.level = QR_LOG_ERROR, .write = record_log};
    struct qr_progress_sink to;
    struct qr_progress_reporter *t = NULL;
    struct qr_err err = {0};
    uint64_t ms = 5;
    CHECK(mkdtemp(folder));
    CHECK(qr_cost_read_url(folder, &ms, &err) == QR_OK && ms == 0, "%s", err.msg);
    CHECK(qr_cost_delete(folder, &err) == QR_OK, "%s", err.msg);
    CHECK(qr_cost_sink(folder, &price, &to, &err) == QR_OK, "%s", err.msg);
    CHECK(qr_progress_reporter_new(&to, 1, &log, &t, &err) == QR_OK, "%s", err.msg);
    update(t, true, 4321);
    CHECK(qr_progress_reporter_close(t, true, 2 * QR_SECOND));
    CHECK(qr_cost_read_url(folder, &ms, &err) == QR_OK && ms == 4321, "%s", err.msg);
    CHECK(qr_cost_delete(folder, &err) == QR_OK && qr_cost_read_url(folder, &ms, &err) == QR_OK &&
              ms == 0,
          "%s", err.msg);
    qr_auto(qr_free_p) char *lock = qr_path_join(folder, ".cost.json.lock");
    unlink(lock);
    rmdir(folder);
}

int main(void) {
    test_numbers();
    test_store();
    test_reporter();
    test_hanging();
    test_folder();
    return t_end();
}
