/* The publisher: when it publishes and who, what it does when it cannot, what a worker that leaves
 * leaves behind. */
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
static char said[4096];
static void hear(void *ctx, enum qr_log_level level, const char *module, const char *message) {
    (void)ctx, (void)level, (void)module;
    pthread_mutex_lock(&lock);
    size_t n = strlen(said);
    snprintf(said + n, sizeof said - n, "%s\n", message);
    pthread_mutex_unlock(&lock);
}
/* What was said since the last call. */
static bool has_heard(const char *words) {
    pthread_mutex_lock(&lock);
    bool yes = strstr(said, words);
    pthread_mutex_unlock(&lock);
    return yes;
}
static const char *heard(void) {
    static char copy[sizeof said];
    pthread_mutex_lock(&lock);
    memcpy(copy, said, sizeof copy);
    *said = 0;
    pthread_mutex_unlock(&lock);
    return copy;
}
static const struct qr_log log_of_test = {.level = QR_LOG_WARNING, .write = hear};

/* Sleeping passes time, and nothing else does. */
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
    CHECK((s.all == mine) == (code != QR_OK), "the state is the publisher's, unless it refuses");
    qr_state_fini(&s);
    return code;
}
static enum qr_code hand_over(struct qr_publisher *p, bool leader, uint64_t step) {
    return hand_over_logged(p, leader, true, step);
}
/* LATEST's step; -1: none */
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
static bool comes(const char *url, int64_t step) {
    for (int i = 0; i < 500 && latest(url, NULL) != step; i++) qr_sleep_ns(10 * QR_MS);
    return latest(url, NULL) == step;
}

static void when(const char *url) {
    bool done = false;
    struct qr_publisher *p = publisher(url, hash, 0, 3, &qr_clock_monotonic);
    CHECK(hand_over(p, true, 1) == QR_OK && hand_over(p, true, 2) == QR_OK);
    qr_sleep_ns(30 * QR_MS);
    CHECK(latest(url, NULL) == -1, "two steps are fewer than three");
    CHECK(hand_over(p, true, 3) == QR_OK && comes(url, 3), "%s", err.msg);
    for (uint64_t step = 4; step <= 9; step++) CHECK(hand_over(p, false, step) == QR_OK);
    qr_sleep_ns(30 * QR_MS);
    CHECK(latest(url, NULL) == 3, "who does not lead publishes nothing");
    qr_publisher_publish_now(p);
    qr_publisher_wait(p, 5 * QR_SECOND);
    CHECK(latest(url, &done) == 9 && !done, "who leaves publishes the newest: %lld",
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
    CHECK(qr_publisher_free(p) && !*heard());
}

/* A thread that begins when the gate is open. */
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

/* The ends of each second epoch, of ten steps each: that very state, though others have come before
 * the thread could look. */
static void ends(const char *url) {
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
    CHECK(comes(url, 20), "not step %lld", (long long)latest(url, NULL));
    CHECK(hand_over(p, false, 40) == QR_OK);
    qr_sleep_ns(30 * QR_MS);
    CHECK(latest(url, NULL) == 20, "who does not lead publishes no end");
    CHECK(hand_over(p, true, 50) == QR_OK && hand_over(p, true, 60) == QR_OK && comes(url, 60));
    CHECK(hand_over(p, true, 80) == QR_OK && hand_over(p, true, 81) == QR_OK);
    CHECK(qr_publisher_finish(p, false, 5 * QR_SECOND, &err) == QR_OK && latest(url, NULL) == 81,
          "the last one is the last");
    CHECK(qr_publisher_free(p) && !*heard());
}

/* Who leaves looks at LATEST, whether it has anything to say there or not. */
static void the_end(const char *url) {
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

/* A newer state of the same job is there already: success, and it stays. Another job's:
 * training ends. */
static void others(const char *url) {
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

/* A disk that cannot be written: training goes on, it is said once, and it is published when it
 * can be. */
static void local_trouble(void) {
    char url[128];
    snprintf(url, sizeof url, "%s/file/checkpoints", dir);
    qr_auto(qr_free_p) char *file = qr_path_join(dir, "file");
    CHECK(qr_file_replace(file, qr_bytes_of_string("in the way"), &err) == QR_OK);
    int64_t errors = qr_counter_value(QR_CHECKPOINT_ERRORS);
    struct qr_publisher *p = publisher(url, hash, 0, 1, &qr_clock_monotonic);
    heard();
    for (uint64_t step = 1; step < 20; step++) {
        CHECK(hand_over(p, true, step) == QR_OK, "%s", err.msg);
        qr_sleep_ns(5 * QR_MS);
    }
    /* counted first, said then */
    for (int i = 0; i < 1000 && !has_heard("training continues"); i++) qr_sleep_ns(5 * QR_MS);
    const char *text = heard(), *first = strstr(text, "cannot publish the checkpoint");
    CHECK(strstr(text, "training continues") && qr_counter_value(QR_CHECKPOINT_ERRORS) > errors,
          "%s", text);
    CHECK(first && !strstr(first + 1, "cannot publish the checkpoint"), "said once: %s", text);
    CHECK(unlink(file) == 0 && comes(url, 19), "it is published once it can be");
    CHECK(qr_publisher_free(p));
    CHECK(qr_run_checkpoints_delete(url, &err) == QR_OK, "%s", err.msg);
}

static int no_thread(void *ctx, void (*body)(struct qr_publisher *p), struct qr_publisher *p) {
    (void)body;
    (void)p;
    ++*(int *)ctx;
    return EAGAIN;
}

/* No thread for it: please retry, and nothing is left. */
static void threadless(const char *url) {
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

/* A bucket that does not answer for ten minutes: please retry. */
static void unreachable(void) {
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

/* Lines of steps.jsonl wait for room: no state beyond them is published, the last one that has its
 * lines is; when they are written the newest. */
static void behind_its_log(const char *url) {
    bool done = false;
    struct qr_publisher *p = publisher(url, hash, 0, 1, &qr_clock_monotonic);
    CHECK(hand_over(p, true, 1) == QR_OK && comes(url, 1), "%s", err.msg);
    qr_publisher_wait(p, 5 * QR_SECOND);    /* LATEST is there before the thread is idle */
    CHECK(hand_over(p, false, 2) == QR_OK); /* not due: who leads has it published */
    for (uint64_t step = 3; step <= 9; step++)
        CHECK(hand_over_logged(p, true, false, step) == QR_OK);
    qr_sleep_ns(30 * QR_MS);
    CHECK(latest(url, NULL) == 1, "step %lld is published", (long long)latest(url, NULL));
    qr_publisher_publish_now(p);
    qr_publisher_wait(p, 5 * QR_SECOND);
    CHECK(latest(url, NULL) == 2, "who leaves publishes what has its lines, not step %lld",
          (long long)latest(url, NULL));
    qr_publisher_logged(p);
    qr_publisher_wait(p, 5 * QR_SECOND);
    CHECK(latest(url, NULL) == 9, "step %lld", (long long)latest(url, NULL));
    CHECK(hand_over_logged(p, true, false, 10) == QR_OK);
    qr_publisher_logged(p);
    CHECK(qr_publisher_finish(p, true, 5 * QR_SECOND, &err) == QR_OK && latest(url, &done) == 10 &&
              done,
          "%s", err.msg);
    CHECK(qr_publisher_free(p) && !*heard());
    p = publisher(url, hash, 0, 1, &qr_clock_monotonic);
    qr_publisher_publish_now(p);
    CHECK(hand_over_logged(p, true, false, 11) == QR_OK);
    qr_publisher_wait(p, 5 * QR_SECOND);
    CHECK(!qr_publisher_has_tried(p) && latest(url, NULL) == 10, "nothing has its lines");
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
    the_end(url);
    when(url);
    others(url);
    CHECK(qr_run_checkpoints_delete(url, &err) == QR_OK, "%s", err.msg);
    ends(url);
    CHECK(qr_run_checkpoints_delete(url, &err) == QR_OK, "%s", err.msg);
    behind_its_log(url);
    CHECK(qr_run_checkpoints_delete(url, &err) == QR_OK, "%s", err.msg);
    local_trouble();
    threadless(url);
    unreachable();
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
