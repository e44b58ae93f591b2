/* The publisher: when a worker publishes a checkpoint, what happens on errors, and what a leaving
 * worker publishes. */
#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/counter.h"
#include "base/file.h"
#include "base/mem.h"
#include "output/publisher_impl.h"
#include "store/gcs.h"
#include "tests/t.h"

static struct qr_err err;
static char dir[] = "/tmp/qring-publisher-XXXXXX";
static struct qr_job *job;
static struct qr_model *model;
static char hash[65], other[65];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char log_text[4096];
static void record_log(void *ctx, enum qr_log_level level, const char *module,
                       const char *message) {
    (void)ctx, (void)level, (void)module;
    pthread_mutex_lock(&lock);
    size_t n = strlen(log_text);
    snprintf(log_text + n, sizeof log_text - n, "%s\n", message);
    pthread_mutex_unlock(&lock);
}
static bool log_has(const char *words) {
    pthread_mutex_lock(&lock);
    bool yes = strstr(log_text, words);
    pthread_mutex_unlock(&lock);
    return yes;
}
/* Returns and clears the log. */
static const char *log_take(void) {
    static char copy[sizeof log_text];
    pthread_mutex_lock(&lock);
    memcpy(copy, log_text, sizeof copy);
    *log_text = 0;
    pthread_mutex_unlock(&lock);
    return copy;
}
static const struct qr_log log_of_test = {.level = QR_LOG_WARNING, .write = record_log};

/* Virtual time advances only by sleeping. */
static int64_t virtual_ns = QR_SECOND;
static int64_t virtual_now(void *ctx) {
    return (void)ctx, __atomic_load_n(&virtual_ns, __ATOMIC_SEQ_CST);
}
static void virtual_sleep(int64_t ns) { __atomic_fetch_add(&virtual_ns, ns, __ATOMIC_SEQ_CST); }
static const struct qr_clock virtual_clock = {virtual_now, NULL};

static struct qr_publisher_options options(const char *url, const char *job_hash, int64_t every_ns,
                                           uint64_t every_steps, const struct qr_clock *clock) {
    static char steps[128];
    snprintf(steps, sizeof steps, "%s/steps.jsonl", dir);
    return (struct qr_publisher_options){.url = url,
                                         .log_path = steps,
                                         .job = job,
                                         .model = model,
                                         .job_hash = job_hash,
                                         .every_ns = every_ns,
                                         .every_steps = every_steps,
                                         .clock = clock,
                                         .log = &log_of_test};
}
static struct qr_publisher *publisher(const char *url, const char *job_hash, int64_t every_ns,
                                      uint64_t every_steps, const struct qr_clock *clock) {
    struct qr_publisher *p = NULL;
    const struct qr_publisher_options o = options(url, job_hash, every_ns, every_steps, clock);
    CHECK(qr_publisher_new(&o, &p, &err) == QR_OK, "%s", err.msg);
    return p;
}
static enum qr_code hand_over_logged(struct qr_publisher *p, bool leader, bool logged,
                                     uint64_t step) {
    struct qr_state s;
    qr_state_init(&s, job, model);
    s.step = s.reductions = step;
    s.epoch = step / 10;
    for (size_t i = 0; i < s.n_params; i++) s.weights[i] = (double)step + (double)i;
    const double *mine = s.all;
    enum qr_code code = qr_publisher_committed(p, leader, logged, &s, &err);
    CHECK((s.all == mine) == (code != QR_OK), "the publisher takes the state unless it fails");
    qr_state_fini(&s);
    return code;
}
static enum qr_code hand_over(struct qr_publisher *p, bool leader, uint64_t step) {
    return hand_over_logged(p, leader, true, step);
}
/* The step in LATEST, -1 if there is none. */
static int64_t latest(const char *url, bool *ret_done) {
    struct qr_checkpoint_folder place;
    struct qr_checkpoint_latest l = {0};
    CHECK(qr_checkpoint_folder_open(url, &place, &err) == QR_OK &&
              qr_checkpoint_peek(&place.at, &l, &err) == QR_OK,
          "%s", err.msg);
    qr_checkpoint_folder_close(&place);
    if (ret_done) *ret_done = l.done;
    return *l.job_hash ? (int64_t)l.step : -1;
}
static bool wait_for_step(const char *url, int64_t step) {
    for (int i = 0; i < 500 && latest(url, NULL) != step; i++) qr_sleep_ns(10 * QR_MS);
    return latest(url, NULL) == step;
}

static void test_when(const char *url) {
    bool done = false;
    struct qr_publisher *p = publisher(url, hash, 0, 3, &qr_clock_monotonic);
    CHECK(hand_over(p, true, 1) == QR_OK && hand_over(p, true, 2) == QR_OK);
    qr_sleep_ns(30 * QR_MS);
    CHECK(latest(url, NULL) == -1, "two steps are fewer than three");
    CHECK(hand_over(p, true, 3) == QR_OK && wait_for_step(url, 3), "%s", err.msg);
    for (uint64_t step = 4; step <= 9; step++) CHECK(hand_over(p, false, step) == QR_OK);
    qr_sleep_ns(30 * QR_MS);
    CHECK(latest(url, NULL) == 3, "a follower publishes nothing");
    qr_publisher_publish_now(p);
    qr_publisher_wait(p, 5 * QR_SECOND);
    CHECK(latest(url, &done) == 9 && !done, "a leaving worker publishes the newest: step %lld",
          (long long)latest(url, NULL));
    CHECK(qr_publisher_finish(p, true, 5 * QR_SECOND, &err) == QR_OK && latest(url, &done) == 9 &&
              done,
          "%s", err.msg);
    CHECK(qr_publisher_free(p));
    p = publisher(url, hash, 3600 * QR_SECOND, 1, &qr_clock_monotonic);
    CHECK(hand_over(p, true, 20) == QR_OK);
    qr_sleep_ns(30 * QR_MS);
    CHECK(latest(url, NULL) == 9, "an hour has not passed");
    CHECK(qr_publisher_finish(p, false, 5 * QR_SECOND, &err) == QR_OK && latest(url, &done) == 20 &&
              !done,
          "%s", err.msg);
    qr_publisher_publish_now(p);
    qr_publisher_wait(p, 5 * QR_SECOND);
    CHECK(qr_publisher_free(p) && !*log_take());
}

/* A publisher's thread that starts when the gate opens. */
static struct {
    pthread_mutex_t shut;
    pthread_cond_t changed;
    pthread_t id;
    void (*body)(struct qr_publisher *p);
} gate = {.shut = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
static void *behind_gate(void *p) {
    pthread_mutex_lock(&gate.shut);
    pthread_mutex_unlock(&gate.shut);
    gate.body(p);
    return NULL;
}
static int gate_start(void *ctx, void (*body)(struct qr_publisher *p), struct qr_publisher *p) {
    (void)ctx;
    gate.body = body;
    return pthread_create(&gate.id, NULL, behind_gate, p);
}
static void gate_wait(void *ctx, pthread_mutex_t *held, int64_t until_ns) {
    (void)ctx, (void)until_ns;
    pthread_cond_wait(&gate.changed, held);
}
static void gate_wake(void *ctx) { (void)ctx, pthread_cond_broadcast(&gate.changed); }
static void gate_end(void *ctx, bool hangs) {
    (void)ctx;
    CHECK(!hangs);
    pthread_join(gate.id, NULL);
}

/* Every second epoch's end, of ten steps each, is published exactly, even if later states come
 * before the thread runs. */
static void test_epoch_ends(const char *url) {
    const struct qr_publisher_threads threads = {NULL, gate_start, gate_wait, gate_wake, gate_end};
    struct qr_checkpoint_folder place;
    struct qr_publisher *p = NULL;
    struct qr_publisher_options o = options(url, hash, 3600 * QR_SECOND, 1, &qr_clock_monotonic);
    o.every_epochs = 2;
    o.n_batches = 10;
    pthread_mutex_lock(&gate.shut);
    CHECK(qr_checkpoint_folder_open(url, &place, &err) == QR_OK &&
              qr_publisher_new_with(&o, &place, &threads, &p, &err) == QR_OK,
          "%s", err.msg);
    for (uint64_t step = 1; step <= 33; step++) CHECK(hand_over(p, true, step) == QR_OK);
    pthread_mutex_unlock(&gate.shut);
    CHECK(wait_for_step(url, 20), "not step %lld", (long long)latest(url, NULL));
    CHECK(hand_over(p, false, 40) == QR_OK);
    qr_sleep_ns(30 * QR_MS);
    CHECK(latest(url, NULL) == 20, "a follower publishes no epoch's end");
    CHECK(hand_over(p, true, 50) == QR_OK && hand_over(p, true, 60) == QR_OK &&
          wait_for_step(url, 60));
    CHECK(hand_over(p, true, 80) == QR_OK && hand_over(p, true, 81) == QR_OK);
    CHECK(qr_publisher_finish(p, false, 5 * QR_SECOND, &err) == QR_OK && latest(url, NULL) == 81,
          "the newest state is published last");
    CHECK(qr_publisher_free(p) && !*log_take());
}

/* A leaving worker reads LATEST even if it has nothing to publish. */
static void test_training_done(const char *url) {
    struct qr_publisher *p = publisher(url, hash, 3600 * QR_SECOND, 1, &qr_clock_monotonic),
                        *q = publisher(url, hash, 3600 * QR_SECOND, 1, &qr_clock_monotonic);
    CHECK(hand_over(p, true, 5) == QR_OK && hand_over(q, false, 4) == QR_OK);
    CHECK(qr_publisher_finish(p, false, 5 * QR_SECOND, &err) == QR_OK &&
              !qr_publisher_training_done(p),
          "%s", err.msg);
    CHECK(qr_publisher_finish(p, true, 5 * QR_SECOND, &err) == QR_OK &&
              qr_publisher_training_done(p) && !qr_publisher_training_done(q),
          "%s", err.msg);
    qr_publisher_publish_now(q);
    qr_publisher_wait(q, 5 * QR_SECOND);
    CHECK(qr_publisher_training_done(q) && latest(url, NULL) == 5);
    CHECK(qr_publisher_free(p) && qr_publisher_free(q));
    CHECK(qr_run_checkpoints_delete(url, &err) == QR_OK, "%s", err.msg);
}

/* A newer state of the same job in LATEST stays, without an error. A state of another job ends
 * training. */
static void test_existing_checkpoint(const char *url) {
    struct qr_publisher *p = publisher(url, hash, 0, 1, &qr_clock_monotonic);
    CHECK(hand_over(p, true, 15) == QR_OK &&
              qr_publisher_finish(p, false, 5 * QR_SECOND, &err) == QR_OK &&
              latest(url, NULL) == 20,
          "%s", err.msg);
    CHECK(qr_publisher_free(p));
    p = publisher(url, other, 0, 1, &qr_clock_monotonic);
    CHECK(hand_over(p, true, 30) == QR_OK);
    enum qr_code code = QR_OK;
    for (int i = 0; i < 500 && code == QR_OK; i++) {
        qr_sleep_ns(10 * QR_MS);
        code = hand_over(p, true, 31 + (uint64_t)i);
    }
    CHECK(code == QR_INVALID_ARGUMENT && strstr(err.msg, hash) && strstr(err.msg, other) &&
              strstr(err.msg, "checkpoint of step"),
          "%s", err.msg);
    CHECK(qr_publisher_has_failed(p) &&
          qr_publisher_finish(p, true, QR_SECOND, &err) == QR_INVALID_ARGUMENT &&
          latest(url, NULL) == 20);
    CHECK(qr_publisher_free(p));
}

/* An unwritable folder: training continues, the error is logged once, and the state is published as
 * soon as possible. */
static void test_unwritable_folder(void) {
    char url[128];
    snprintf(url, sizeof url, "%s/file/checkpoints", dir);
    qr_auto(qr_free_p) char *file = qr_path_join(dir, "file");
    CHECK(qr_file_replace(file, qr_bytes_of_string("in the way"), &err) == QR_OK);
    int64_t errors = qr_counter_value(QR_CHECKPOINT_ERRORS);
    struct qr_publisher *p = publisher(url, hash, 0, 1, &qr_clock_monotonic);
    log_take();
    for (uint64_t step = 1; step < 20; step++) {
        CHECK(hand_over(p, true, step) == QR_OK, "%s", err.msg);
        qr_sleep_ns(5 * QR_MS);
    }
    /* The error is counted before it is logged. */
    for (int i = 0; i < 1000 && !log_has("training continues"); i++) qr_sleep_ns(5 * QR_MS);
    const char *text = log_take(), *first = strstr(text, "cannot publish the checkpoint");
    CHECK(strstr(text, "training continues") && qr_counter_value(QR_CHECKPOINT_ERRORS) > errors,
          "%s", text);
    CHECK(first && !strstr(first + 1, "cannot publish the checkpoint"), "logged once: %s", text);
    CHECK(unlink(file) == 0 && wait_for_step(url, 19), "it is published once it can be");
    CHECK(qr_publisher_free(p));
    CHECK(qr_run_checkpoints_delete(url, &err) == QR_OK, "%s", err.msg);
}

static int no_thread(void *ctx, void (*body)(struct qr_publisher *p), struct qr_publisher *p) {
    (void)body;
    (void)p;
    ++*(int *)ctx;
    return EAGAIN;
}

/* If no thread can be started, the error asks for a retry. */
static void test_no_thread(const char *url) {
    int asked = 0;
    struct qr_publisher *p = NULL;
    struct qr_checkpoint_folder place;
    const struct qr_publisher_threads threads = {.ctx = &asked, .start = no_thread};
    const struct qr_publisher_options opt = {.url = url,
                                             .log_path = "/dev/null",
                                             .job = job,
                                             .model = model,
                                             .job_hash = hash,
                                             .epochs = 1,
                                             .clock = &qr_clock_monotonic,
                                             .log = &log_of_test};
    CHECK(qr_checkpoint_folder_open(url, &place, &err) == QR_OK, "%s", err.msg);
    CHECK(qr_publisher_new_with(&opt, &place, &threads, &p, &err) == QR_UNAVAILABLE && !p &&
              asked == 1 && strstr(err.msg, "thread"),
          "%s", err.msg);
}

/* A bucket that does not respond for ten minutes: the error asks for a retry. */
static void test_unreachable_bucket(void) {
    const struct qr_gcs_options gcs = {.emulator_host = "127.0.0.1:1",
                                       .waits.clock = &virtual_clock,
                                       .waits.wall = &qr_clock_wall,
                                       .waits.sleep = virtual_sleep};
    qr_gcs_configure(&gcs);
    int64_t began_ns = virtual_now(NULL);
    struct qr_checkpoint_folder place;
    CHECK(qr_checkpoint_folder_open("gs://bucket", &place, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "gs://bucket/NAME"),
          "%s", err.msg);
    CHECK(qr_checkpoint_folder_open("gs://bucket/", &place, &err) == QR_INVALID_ARGUMENT, "%s",
          err.msg);
    CHECK(qr_checkpoint_folder_open("gs://bucket/a/", &place, &err) == QR_OK &&
          strcmp(place.dir, "a") == 0 && strcmp(place.url, "gs://bucket/a") == 0);
    qr_checkpoint_folder_close(&place);
    struct qr_publisher *p = publisher("gs://bucket/run/checkpoints", hash, 0, 1, &virtual_clock);
    enum qr_code code = hand_over(p, true, 1);
    for (int i = 0; i < 1000 && code == QR_OK; i++) {
        qr_sleep_ns(10 * QR_MS);
        code = hand_over(p, true, 2 + (uint64_t)i);
    }
    int64_t took_s = (virtual_now(NULL) - began_ns) / QR_SECOND;
    CHECK(code == QR_UNAVAILABLE && qr_exit_code(code) == 138 &&
              strstr(err.msg, "gs://bucket/run/checkpoints"),
          "%s", err.msg);
    CHECK(took_s >= 600 && took_s <= 640, "after %lld s", (long long)took_s);
    CHECK(qr_publisher_finish(p, true, QR_SECOND, &err) == QR_UNAVAILABLE, "%s", err.msg);
    CHECK(qr_publisher_free(p));
}

/* Lines of steps.jsonl are pending: publish only the last state whose lines are written, and the
 * newest one once all are. */
static void test_pending_lines(const char *url) {
    bool done = false;
    struct qr_publisher *p = publisher(url, hash, 0, 1, &qr_clock_monotonic);
    CHECK(hand_over(p, true, 1) == QR_OK && wait_for_step(url, 1), "%s", err.msg);
    qr_publisher_wait(p, 5 * QR_SECOND);    /* LATEST is written before the thread is idle. */
    CHECK(hand_over(p, false, 2) == QR_OK); /* Not due: a follower leaves it to the leader. */
    for (uint64_t step = 3; step <= 9; step++)
        CHECK(hand_over_logged(p, true, false, step) == QR_OK);
    qr_sleep_ns(30 * QR_MS);
    CHECK(latest(url, NULL) == 1, "step %lld is published", (long long)latest(url, NULL));
    qr_publisher_publish_now(p);
    qr_publisher_wait(p, 5 * QR_SECOND);
    CHECK(latest(url, NULL) == 2, "a leaving worker publishes the last logged state, not step %lld",
          (long long)latest(url, NULL));
    qr_publisher_logged(p);
    qr_publisher_wait(p, 5 * QR_SECOND);
    CHECK(latest(url, NULL) == 9, "step %lld", (long long)latest(url, NULL));
    CHECK(hand_over_logged(p, true, false, 10) == QR_OK);
    qr_publisher_logged(p);
    CHECK(qr_publisher_finish(p, true, 5 * QR_SECOND, &err) == QR_OK && latest(url, &done) == 10 &&
              done,
          "%s", err.msg);
    CHECK(qr_publisher_free(p) && !*log_take());
    p = publisher(url, hash, 0, 1, &qr_clock_monotonic);
    qr_publisher_publish_now(p);
    CHECK(hand_over_logged(p, true, false, 11) == QR_OK);
    qr_publisher_wait(p, 5 * QR_SECOND);
    CHECK(!qr_publisher_has_tried(p) && latest(url, NULL) == 10, "no state is logged");
    CHECK(qr_publisher_free(p));
}

int main(void) {
    static const char text[] =
        "{\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\",\"qubits\":4,"
        "\"stages\":1}},{\"layer\":\"dense\",\"units\":1}],"
        "\"data\":{\"source\":\"cluster-excitations\",\"rounds\":2},\"train\":{\"loss\":\"mse\"}}";
    char url[128];
    CHECK(mkdtemp(dir) != NULL);
    memset(hash, 'c', 64);
    memset(other, 'd', 64);
    CHECK(qr_job_parse(qr_bytes_of_string(text), "t", &job, &err) == QR_OK &&
              qr_job_model(job, QR_ISA_PORTABLE, 4, &model, &err) == QR_OK,
          "%s", err.msg);
    if (t_failed) return t_end();
    snprintf(url, sizeof url, "file://%s/run/checkpoints", dir);
    test_training_done(url);
    test_when(url);
    test_existing_checkpoint(url);
    CHECK(qr_run_checkpoints_delete(url, &err) == QR_OK, "%s", err.msg);
    test_epoch_ends(url);
    CHECK(qr_run_checkpoints_delete(url, &err) == QR_OK, "%s", err.msg);
    test_pending_lines(url);
    CHECK(qr_run_checkpoints_delete(url, &err) == QR_OK, "%s", err.msg);
    test_unwritable_folder();
    test_no_thread(url);
    test_unreachable_bucket();
    static const char *const left[] = {"run/checkpoints/.LATEST.lock",
                                       "file/checkpoints/.LATEST.lock",
                                       "run/checkpoints",
                                       "run",
                                       "file/checkpoints",
                                       "file",
                                       ""};
    for (size_t i = 0; i < COUNT(left); i++) {
        qr_auto(qr_free_p) char *path = qr_path_join(dir, left[i]);
        CHECK(remove(path) == 0, "%s", path);
    }
    qr_model_free(model);
    qr_job_free(job);
    return t_end();
}
